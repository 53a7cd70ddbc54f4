"""Models of Keras: .keras (Keras 3) and .h5 (also Keras 2), read by h5py."""

from __future__ import annotations

import io
import json
import math
import zipfile
from typing import Any, Callable

import numpy as np

from ._activation import SIMPLE, Activation
from ._chain import Chain
from ._errors import InputError
from ._foreign import fail, library, parse_json, quote, reading
from ._hdf5 import own_numbers

_ACTIVATIONS = {"linear": "identity", **{name: name for name in SIMPLE}}
_ENDS = {"softmax": "Softmax", "log_softmax": "LogSoftmax", "exponential": "Exp"}
_SAME = ("InputLayer", "Dropout", "Flatten", "Reshape", "GaussianNoise", "GaussianDropout", "AlphaDropout", "ActivityRegularization")
_EXPECTED = f"a chain of Dense, Activation, ReLU, LeakyReLU, BatchNormalization, Rescaling, Softmax at the end and {', '.join(_SAME)}"

_Numbers = Callable[[str, str, int], Any]


def is_keras(path: str, kind: str) -> bool:
    """True if an archive or an HDF5 file has the members of a model of Keras."""
    if kind == "npz":
        with reading(path), zipfile.ZipFile(path) as archive:
            return {"config.json", "model.weights.h5"} <= set(archive.namelist())
    with reading(path), library("h5py", path).File(path, "r") as file:
        return "model_config" in file.attrs


def chain_of(path: str, kind: str) -> Chain:
    """The layers of a Sequential or functional model that is a chain. Raises InputError, naming the layer, for another.

    Nothing runs the model: compare with ``model.predict`` where Keras is there.
    """
    h5py = library("h5py", path)
    with reading(path):
        if kind == "npz":
            with zipfile.ZipFile(path) as archive:
                config = parse_json(archive.read("config.json"), path)
                with h5py.File(io.BytesIO(archive.read("model.weights.h5")), "r") as file:
                    return _chain(path, config, _numbers_by_place(file, path))
        with h5py.File(path, "r") as file:
            config = parse_json(file.attrs["model_config"], path)
            return _chain(path, config, _numbers_by_name(file, path))


def _numbers_by_place(file: Any, path: str) -> _Numbers:
    """Of .keras: weights are numbered in each layer, whose name is an attribute."""
    groups: dict[str, Any] = {}

    def note(_: str, item: Any) -> None:
        if "name" in item.attrs and hasattr(item, "keys"):
            groups[item.attrs["name"]] = item

    file.visititems(note)

    def numbers(layer: str, _: str, place: int) -> Any:
        if layer not in groups or str(place) not in groups[layer]:
            fail(path, f"no weights number {place} of the layer {quote(layer)}", "them")
        return own_numbers(groups[layer], str(place), path)

    return numbers


def _numbers_by_name(file: Any, path: str) -> _Numbers:
    """Of .h5: weights have names, of which that of the layer is a part."""
    groups = [group for group in file["model_weights"].values() if "weight_names" in group.attrs]
    texts = ((group, found.decode() if isinstance(found, bytes) else str(found)) for group in groups for found in group.attrs["weight_names"])
    known = [(group, text, text.partition(":")[0].split("/")) for group, text in texts]

    def numbers(layer: str, name: str, _: int) -> Any:
        for group, text, parts in known:
            if parts[-1] == name and layer in parts[:-1]:
                return own_numbers(group, text, path)
        fail(path, f"no weights {quote(name)} of the layer {quote(layer)}", "them")

    return numbers


def _layers(config: Any, path: str) -> list[Any]:
    """The layers in order, models within models included. Raises InputError unless each takes the one before it."""
    kind, inner = config["class_name"], config["config"]
    if kind not in ("Sequential", "Functional", "Model"):
        return [config]
    layers = inner["layers"] if isinstance(inner, dict) else inner
    if kind != "Sequential":
        before = ""
        for layer in layers:
            text = json.dumps(layer.get("inbound_nodes", []))
            inputs = [other["name"] for other in layers if f'["{other["name"]}", 0, 0' in text]
            if inputs != ([before] if before else []):
                fail(path, f"the layer {quote(layer['name'])} with the inputs {', '.join(inputs) or 'none'}", f"{before or 'none'}: a chain without branches")
            before = layer["name"]
    return [part for layer in layers for part in _layers(layer, path)]


def _chain(path: str, config: Any, numbers: _Numbers) -> Chain:
    layers = _layers(config, path)
    kernels = [(layer["config"]["name"], numbers(layer["config"]["name"], "kernel", 0)) for layer in layers if layer["class_name"] == "Dense"]
    if not kernels:
        fail(path, "a model without Dense", "at least one")
    chain = Chain(kernels[0][1].shape[0])
    first = layers[0]["config"]
    shape = first.get("batch_shape") or first.get("batch_input_shape") or [None, chain.width]
    if None not in shape[1:] and math.prod(shape[1:]) != chain.width:
        fail(path, f"samples of the shape {shape[1:]} for {chain.width} inputs of the first Dense", "as many numbers: Flatten before it")
    dense = dict(kernels)
    for layer in layers:
        kind, options = layer["class_name"], layer["config"]
        place = f"{path}: the layer {quote(options.get('name', kind))} ({kind})"
        if chain.left_out and kind not in _SAME:
            raise InputError(f"{place} comes behind {chain.left_out[0]}, which stands at the end only")
        try:
            _take(chain, kind, options, numbers, dense)
        except InputError as error:
            raise InputError(f"{place} {error}") from None
    return chain


def _take(chain: Chain, kind: str, options: dict[str, Any], numbers: _Numbers, dense: dict[str, Any]) -> None:
    name = options.get("name", "")
    if kind == "Dense":
        chain.linear(dense[name].T, numbers(name, "bias", 1) if options["use_bias"] else 0.0)
        _activate(chain, options["activation"])
    elif kind == "Activation":
        _activate(chain, options["activation"])
    elif kind == "Softmax":
        if options.get("axis", -1) not in (1, -1):
            raise InputError(f"has the axis {options['axis']}, expected 1 or -1: over the outputs of a sample")
        _activate(chain, "softmax")
    elif kind == "ReLU":
        slope, highest = float(options.get("negative_slope") or 0), options.get("max_value")
        if options.get("threshold") or slope and highest is not None:
            raise InputError("has a threshold, or a slope and a highest value, expected one of slope and highest value")
        if highest is None:
            chain.leaky(slope)
        else:
            chain.clip(0.0, float(highest))
    elif kind == "LeakyReLU":
        chain.leaky(float(options.get("negative_slope", options.get("alpha", 0.3))))
    elif kind == "Rescaling":
        chain.affine(options["scale"], options["offset"])
    elif kind == "BatchNormalization":
        axis = options["axis"]
        if (axis[0] if isinstance(axis, list) else axis) not in (1, -1):
            raise InputError(f"has the axis {axis}, expected 1 or -1: over the outputs of a sample")
        names = [part for part, is_there in (("gamma", options["scale"]), ("beta", options["center"])) if is_there] + ["moving_mean", "moving_variance"]
        found = {part: np.asarray(numbers(name, part, place), np.float64) for place, part in enumerate(names)}
        chain.normalize(found["moving_mean"], found["moving_variance"], found.get("gamma", 1.0), found.get("beta", 0.0), options["epsilon"])
    elif kind not in _SAME:
        raise InputError(f"is none that a layer can hold, expected {_EXPECTED}")


def _activate(chain: Chain, activation: Any) -> None:
    if isinstance(activation, dict):  # of a class or function of one's own, or with parameters
        activation = activation.get("class_name")
    if activation in _ENDS:
        chain.left_out.append(_ENDS[activation])
    elif activation == "relu6":
        chain.clip(0.0, 6.0)
    elif activation == "leaky_relu":
        chain.leaky(0.2)
    elif activation in _ACTIVATIONS:
        chain.activate(Activation(_ACTIVATIONS[activation]))
    else:
        raise InputError(f"has the activation {quote(activation)}, expected one of {', '.join(_ACTIVATIONS)}, relu6, leaky_relu, or softmax at the end")
