"""Networks of torch. Modules are recognized by the names of their classes, so torch itself is not imported."""

from __future__ import annotations

from typing import Any, Iterator

import numpy as np

from . import _arrays
from ._activation import Activation
from ._errors import InputError

_EXPECTED = "Linear, ReLU, ReLU6, LeakyReLU, Hardtanh(0, cap), Sigmoid, Tanh, Identity, Flatten, Dropout or Sequential of them"


def layers_of(module: Any) -> tuple[list[Any], list[Any], list[Activation]]:
    """Weights [outputs, inputs], biases and activations of a Sequential."""
    weights: list[Any] = []
    biases: list[Any] = []
    activations: list[Activation | None] = []
    for place, part in _parts(module, ""):
        kind = type(part).__name__
        if kind == "Linear":
            weights.append(_to_array(part.weight, f"{place}weight"))
            bias = getattr(part, "bias", None)
            biases.append(0.0 if bias is None else _to_array(bias, f"{place}bias"))
            activations.append(None)
        elif kind in ("Flatten", "Dropout"):
            continue
        else:
            activation = _activation_of(part, place)
            if not activations:
                raise InputError(f"{place}{kind} has no Linear before it, whose activation it could be")
            if activations[-1] is not None and activation.name != "identity":
                raise InputError(f"{place}{kind} follows another activation, expected Linear or the end")
            if activations[-1] is None:
                activations[-1] = activation
    if not weights:
        raise InputError(f"found no Linear in {type(module).__name__}, expected at least one")
    return weights, biases, [activation or Activation("identity") for activation in activations]


def _parts(module: Any, place: str) -> Iterator[tuple[str, Any]]:
    """The modules that are no Sequential, in order, with their places for messages."""
    if type(module).__name__ != "Sequential":
        yield place, module
        return
    for name, child in module.named_children():
        yield from _parts(child, f"{place}[{name}] ")


def _activation_of(part: Any, place: str) -> Activation:
    kind = type(part).__name__
    if kind in ("ReLU", "Sigmoid", "Tanh", "Identity"):
        return Activation(kind.lower())
    if kind == "ReLU6":
        return Activation.clipped_relu(6.0)
    if kind == "LeakyReLU":
        return Activation.leaky_relu(float(part.negative_slope))
    if kind == "Hardtanh":
        if part.min_val != 0:
            raise InputError(f"{place}Hardtanh begins at {part.min_val}, expected 0")
        return Activation.clipped_relu(float(part.max_val))
    raise InputError(f"found {place}{kind}, expected {_EXPECTED}")


def _to_array(tensor: Any, place: str) -> np.ndarray:
    return _arrays.to_numpy(tensor.detach().cpu() if hasattr(tensor, "detach") else tensor, place)
