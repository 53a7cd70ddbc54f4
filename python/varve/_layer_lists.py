"""Networks of other programs: lists of layers in JSON, folders, single matrices, ONNX, and HDF5 of Varve 0.2."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, replace
from typing import Any, Iterable, NamedTuple, Union

import numpy as np

from . import _arrays, _core, _foreign, _hdf5, _keras, _onnx
from ._errors import InputError, UsageError
from ._foreign import fail, quote
from ._results import Layer

_LIST = "network.json"
_MOST_LAYERS = 1 << 16
_KEYS = ("bias", "activation", "cap", "slope", "transpose")


class Options(NamedTuple):
    """What a network of matrices does not say itself."""

    neurons: int | None = None
    layers: int | None = None
    bias: float | None = None
    cap: float | None = None
    activation: Any = None  # an ActivationLike of users, then its name
    slope: float | None = None
    transposed: bool = False


@dataclass(frozen=True)
class _Description:
    """A layer as a list describes it."""

    file: str = ""
    member: str = ""  # of the file: a tensor or a group; "" for all of it
    bias: Union[float, str, None] = None  # a number, or the name of a file or member
    activation: str | None = None
    cap: float | None = None
    slope: float | None = None
    transpose: bool | None = None


def is_network(path: str) -> bool:
    """True if this module reads a folder or file as a network; all others are for the C++ part."""
    if os.path.isdir(path):
        return os.path.isfile(os.path.join(path, _LIST)) or bool(_matrices_in(path))
    return _foreign.kind_of(path) != ""


def says_layers(path: str, kind: str) -> bool:
    """True for an archive or an HDF5 file that is not a matrix, but a network: of Keras, or as Network.save wrote it."""
    return kind in ("npz", "hdf5") and (_keras.is_keras(path, kind) or kind == "npz" and bool(_foreign.layers_in_npz(path)))


def open_network(path: str, options: Options) -> tuple[_core.Network, str]:
    """The network, and a remark about its orientation, "" without one. Raises as Network.from_file does."""
    kind = _foreign.kind_of(path)
    is_keras = kind in ("npz", "hdf5") and _keras.is_keras(path, kind)
    content = _hdf5.content_of(path) if kind == "hdf5" and not is_keras else ""
    found = _foreign.layers_in_npz(path) if kind == "npz" and not is_keras else []
    if kind == "onnx" or is_keras or found or content in ("network", "checkpoint"):
        require_no_matrix_options(path, options)
        if any(option is not None for option in (options.neurons, options.bias, options.cap)):
            raise UsageError(f"--neurons, --bias and --cap are for networks in text and matrices; {path} says them")
        if kind == "onnx" or is_keras:
            chain = _onnx.chain_of(path) if kind == "onnx" else _keras.chain_of(path, kind)
            network, note = chain.network("", path), chain.note(path)
        else:
            network, note = core_of(found or _hdf5.read_layers(path), path), ""
        _require_asked(options.layers, network.num_layers, "the number of layers", path)
        return network, note
    if kind == "hdf5" and content != "binsparse":
        fail(path, f"{content or 'something else'} in HDF5", "a network or sparse matrices; Network.from_scipy takes arrays of weights")
    descriptions = _descriptions_of(path, kind)
    _require_asked(options.layers, len(descriptions), "the number of layers", path)
    return _Reader(path, options).network(descriptions)


def core_of(layers: Iterable[Layer], path: str) -> _core.Network:
    """The network of these layers, whose matrices are canonical."""
    found = _core.LayerList()
    try:
        for layer in layers:
            bias = np.ascontiguousarray(layer.bias, np.float64)
            found.append(_arrays.to_rows(layer.weights), bias, layer.activation.name, layer.activation.parameter or 0.0)
        return _core.make_network(found, path)
    except InputError as error:
        raise error if str(error).startswith(path) else InputError(f"{path}: {error}") from None


def require_no_matrix_options(path: str, options: Options) -> None:
    named = (
        ("--activation", options.activation),
        ("--slope", options.slope),
        ("--transpose-weights", options.transposed or None),
    )
    for option, value in named:
        if value is not None:
            raise UsageError(f"{option} is for matrices of other programs, which do not say it; {path} says it")


def _require_asked(asked: int | None, found: int, what: str, path: str) -> None:
    if asked is not None and asked != found:
        raise UsageError(f"{what} {asked} was asked for, but {path} says {found}")


def _matrices_in(folder: str) -> list[str]:
    """The matrices of a folder in the order of their names, without hidden files and layers of the challenge."""
    with _foreign.reading(folder):
        names = sorted((name for name in os.listdir(folder) if not name.startswith(".")), key=_hdf5.natural)
    files = (
        os.path.join(folder, name) for name in names if not re.fullmatch(r"n\d+-l\d+\.tsv(\.gz|\.xz|\.zst)?", name)
    )
    return [file for file in files if _foreign.is_matrix(file)]


# --- descriptions


def _descriptions_of(path: str, kind: str) -> list[_Description]:
    if kind in ("csv", "svmlight"):
        raise InputError(
            f"{path} is a {kind.upper() if kind == 'csv' else kind} file, which is read as samples; Network.from_scipy takes weights as arrays "
            "(numpy.loadtxt)"
        )
    if kind == "safetensors":
        raise UsageError(
            f"{path} is a safetensors file, which does not say which tensors are layers, in which order; list them in "
            "a JSON file and give that"
        )
    listed = os.path.join(path, _LIST)
    if kind == "json" or os.path.isfile(listed):
        return _listed(path if kind == "json" else listed)
    files = _matrices_in(path) if os.path.isdir(path) else [path]
    members = ((file, _hdf5.matrix_names(file) if _foreign.kind_of(file) == "hdf5" else [""]) for file in files)
    return [_Description(file, name) for file, names in members for name in names]


def _listed(path: str) -> list[_Description]:
    """The layers that a JSON file lists."""
    found = _foreign.read_json(path)
    if not isinstance(found, dict):
        fail(path, "no JSON object", "one that lists layers")
    _require_keys(found, ("file", "layers", *_KEYS), path)
    layers = found.get("layers")
    if not isinstance(layers, list) or not layers:
        fail(path, 'no "layers" that is a list', "one with at least one layer")
    if len(layers) > _MOST_LAYERS:
        fail(path, f"{len(layers)} layers", f"no more than {_MOST_LAYERS}")
    folder = os.path.dirname(path)
    file = os.path.join(folder, _name(found["file"], 'the "file"', path)) if "file" in found else ""
    common = _settings(found, _Description(file), folder, path)
    descriptions = []
    for number, layer in enumerate(layers):
        place = f"{path}: layer {number}"
        if isinstance(layer, str):
            layer = {"weights": layer}
        if not isinstance(layer, dict):
            fail(place, quote(layer), "a JSON object or the name of a file")
        _require_keys(layer, ("weights", *_KEYS), place)
        if not isinstance(layer.get("weights"), str):
            fail(place, 'no "weights"', "the name of a file, tensor or group")
        name = _name(layer["weights"], "the weights", place)
        if not name or not file and not os.path.basename(name):
            fail(place, 'empty "weights"', "a name")
        before = replace(common, cap=None, slope=None) if "activation" in layer else common  # those belong to its own
        found_layer = _settings(layer, before, folder, place)
        descriptions.append(
            replace(found_layer, member=name) if file else replace(found_layer, file=os.path.join(folder, name))
        )
    return descriptions


def _require_keys(found: dict[str, Any], known: tuple[str, ...], place: str) -> None:
    for key in found:
        if key not in known:
            fail(place, f"the key {quote(key)}", f"one of {', '.join(known)}")


def _name(value: Any, what: str, place: str) -> str:
    if not isinstance(value, str):
        fail(place, f"{what} {quote(value)}", "a name")
    if "\0" in value or any("\ud800" <= letter <= "\udfff" for letter in value):
        fail(place, f"the name {quote(value)}", "one without NUL characters, in UTF-8")
    return value


def _settings(found: dict[str, Any], layer: _Description, folder: str, place: str) -> _Description:
    """The layer with what an object says."""
    changed: dict[str, Any] = {}
    for key, kinds, expected in (
        ("bias", (int, float, str), "a number or a name"),
        ("activation", (str,), "a name"),
        ("transpose", (bool,), "true or false"),
        ("cap", (int, float), "a number"),
        ("slope", (int, float), "a number"),
    ):
        if key not in found:
            continue
        value = found[key]
        if type(value) not in kinds:
            fail(place, f'"{key}": {quote(value)}', expected)
        if isinstance(value, int) and key != "transpose":
            value = float(value) if abs(value) < 2**1000 else float("inf")  # which the network refuses
        if key == "bias" and isinstance(value, str):
            value = _name(value, "the bias", place)
            value = value if layer.file else os.path.join(folder, value)
        changed[key] = value
    return replace(layer, **changed)


# --- what they describe


class _Reader:
    """Reads the layers of a list, one after another."""

    def __init__(self, path: str, options: Options) -> None:
        self.path, self.options = path, options
        self.kinds: dict[str, str] = {}  # of the files

    def network(self, descriptions: list[_Description]) -> tuple[_core.Network, str]:
        has_orientation = self.options.transposed
        shapes: list[tuple[int, int]] = []

        def layers() -> Iterable[Layer]:
            nonlocal has_orientation
            for number, description in enumerate(descriptions):
                layer = self._layer(description, f"{self.path}: layer {number}")
                shapes.append(layer.weights.shape)
                self._require_fitting(shapes, description)
                has_orientation |= shapes[-1][0] != shapes[-1][1] or description.transpose is not None
                yield layer

        network = core_of(layers(), self.path)
        note = (
            f"all weights of {self.path} are square, so their rows may be inputs or outputs; they are taken "
            "as outputs (if they are inputs: --transpose-weights)"
        )
        return network, "" if has_orientation else note

    def _require_fitting(self, shapes: list[tuple[int, int]], description: _Description) -> None:
        outputs, inputs = shapes[-1]
        _require_asked(self.options.neurons, inputs, "the number of inputs", self.path)
        _require_asked(self.options.neurons, outputs, "the number of outputs", self.path)
        if len(shapes) == 1 or inputs == shapes[-2][0]:
            return
        is_turned = not self.options.transposed and description.transpose is None and outputs == shapes[-2][1]
        hint = "; they fit if the rows of the weights are inputs: add --transpose-weights" if is_turned else ""
        number = len(shapes) - 1
        raise InputError(
            f"{self.path}: layer {number} takes {inputs} inputs, but layer {number - 1} has {shapes[-2][0]} outputs"
            + hint
        )

    def _layer(self, layer: _Description, place: str) -> Layer:
        activation = self._activation(layer, place)
        if layer.file not in self.kinds:
            self.kinds[layer.file] = _foreign.kind_of(layer.file)
        is_turned = self.options.transposed if layer.transpose is None else layer.transpose
        weights = self._weights(layer, place)
        if is_turned:
            _foreign.require_countable(weights.shape[1], weights.shape[0], weights.nnz, place)
            weights = weights.T.tocsr()
        bias = self._bias(layer)
        if len(bias) not in (1, weights.shape[0]):
            fail(place, f"{len(bias)} biases for {weights.shape[0]} outputs", "one each, or one for all")
        return Layer(weights, bias, activation)

    def _weights(self, layer: _Description, place: str) -> Any:
        kind = self.kinds[layer.file]
        if kind == "safetensors":
            if not layer.member:
                fail(
                    place,
                    f"{layer.file}, a safetensors file",
                    'the name of a tensor, with the file as "file" of the list',
                )
            return _foreign.csr_of_dense(
                _tensor(layer.file, layer.member, 2), f"{layer.file}: tensor {quote(layer.member)}"
            )
        if not _foreign.is_matrix(layer.file):
            fail(place, f"no matrix in {layer.file}", "one of NumPy, SciPy, Matrix Market, binsparse or safetensors")
        if kind != "hdf5" and layer.member:
            fail(place, f"the name {quote(layer.member)} of a part of {layer.file}, which holds one matrix", "none")
        if kind == "npy" and (array := _foreign.read_npy(layer.file)).ndim == 1:
            expected = f"a matrix of weights (the biases of layers are named in a JSON list of layers, {_LIST})"
            fail(place, f"a list of {len(array)} numbers in {layer.file}", expected)
        return _foreign.read_matrix(layer.file, layer.member)

    def _bias(self, layer: _Description) -> np.ndarray:
        if not isinstance(layer.bias, str):
            return np.array([layer.bias if layer.bias is not None else self.options.bias or 0.0])
        if not layer.member:
            return _foreign.read_list(layer.bias)
        if self.kinds[layer.file] == "safetensors":
            return _tensor(layer.file, layer.bias, 1)
        return _hdf5.read_list(layer.file, layer.bias)

    def _activation(self, layer: _Description, place: str) -> Any:
        """That of the description with its parameter; else that of the options."""
        is_named = layer.activation is not None
        cap = layer.cap if layer.cap is not None or is_named else self.options.cap
        slope = layer.slope if layer.slope is not None or is_named else self.options.slope
        name = (
            layer.activation if is_named else self.options.activation or ("clipped_relu" if cap is not None else None)
        )
        if name is None:
            raise UsageError(
                f"{layer.file} holds weights, but nothing says which activation follows them; add --activation, or "
                "list the layers in a JSON file"
            )
        return _foreign.activation_of(name, cap, slope, place)


def _tensor(path: str, name: str, num_dimensions: int) -> np.ndarray:
    """A tensor of a file of the package safetensors."""
    safetensors = _foreign.library("safetensors", path)
    place = f"{path}: tensor {quote(name)}"
    with _foreign.reading(path), safetensors.safe_open(path, "numpy") as file:
        if name not in file.keys():
            fail(path, f"no tensor {quote(name)}", f"one among its {len(file.keys())}")
        kind, shape = file.get_slice(name).get_dtype(), file.get_slice(name).get_shape()
        if kind not in ("F64", "F32", "F16", "BF16", "I64", "I32", "I16", "I8", "U8", "BOOL"):
            fail(place, f"elements of the type {quote(kind)}", "floating point, integers or BOOL")
        if len(shape) != num_dimensions:
            fail(place, f"{len(shape)} dimensions", f"{num_dimensions}")
        if kind == "BF16":  # for which NumPy has no type
            return _brain_floats(path, name, shape)
        return file.get_tensor(name)


def _brain_floats(path: str, name: str, shape: list[int]) -> np.ndarray:
    """A tensor of BF16 as float32, whose upper halves they are. The package has checked the header."""
    with open(path, "rb") as file:
        length = int.from_bytes(file.read(8), "little")
        first, last = _foreign.parse_json(file.read(length), path)[name]["data_offsets"]
        file.seek(first, os.SEEK_CUR)
        halves = np.frombuffer(file.read(last - first), "<u2")
    return (halves.astype(np.uint32) << 16).view(np.float32).reshape(shape)
