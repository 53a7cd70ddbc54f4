"""Networks of scikit-learn."""

from __future__ import annotations

from typing import Any

from ._activation import Activation
from ._errors import InputError

_ACTIVATIONS = {"identity": "identity", "logistic": "sigmoid", "tanh": "tanh", "relu": "relu"}


def layers_of(model: Any) -> tuple[list[Any], list[Any], list[Activation]]:
    """Weights [outputs, inputs], biases and activations of a fitted MLPClassifier or MLPRegressor."""
    name = type(model).__name__
    if not all(hasattr(model, part) for part in ("activation", "get_params")):
        raise InputError(f"found {name}, expected an MLPClassifier or MLPRegressor of scikit-learn")
    if not hasattr(model, "coefs_"):
        raise InputError(f"this {name} is not fitted: it has no coefs_; call its fit first")
    if model.activation not in _ACTIVATIONS:
        raise InputError(f"{name} has the activation {model.activation!r}, expected one of {', '.join(_ACTIVATIONS)}")
    hidden = Activation(_ACTIVATIONS[model.activation])
    activations = [hidden] * (len(model.coefs_) - 1) + [Activation("identity")]
    return [weights.T for weights in model.coefs_], list(model.intercepts_), activations
