"""Networks of scikit-learn."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from . import _layers
from ._activation import Activation
from ._chain import Chain
from ._errors import InputError

_ACTIVATIONS = {"identity": "identity", "logistic": "sigmoid", "tanh": "tanh", "relu": "relu"}


def chain_of(model: Any) -> Chain:
    """The layers of a fitted MLPClassifier or MLPRegressor.

    One random batch runs through the model. Raises InputError unless the layers that were read give its own answers.
    """
    name = type(model).__name__
    if not all(hasattr(model, part) for part in ("activation", "get_params")):
        raise InputError(f"found {name}, expected an MLPClassifier or MLPRegressor of scikit-learn")
    if not hasattr(model, "coefs_"):
        raise InputError(f"this {name} is not fitted: it has no coefs_; call its fit first")
    if model.activation not in _ACTIVATIONS:
        raise InputError(f"{name} has the activation {model.activation!r}, expected one of {', '.join(_ACTIVATIONS)}")
    chain = Chain(model.coefs_[0].shape[0])
    for number, (weights, bias) in enumerate(zip(model.coefs_, model.intercepts_)):
        chain.linear(weights.T, bias)
        is_last = number + 1 == len(model.coefs_)
        chain.activate(Activation("identity" if is_last else _ACTIVATIONS[model.activation]))
    function = getattr(model, "out_activation_", "identity")
    _require_same_answers(model, name, chain, function)
    if function == "exp":
        chain.left_out.append("Exp")
    return chain


def _require_same_answers(model: Any, name: str, chain: Chain, function: str) -> None:
    """scikit-learn adds in float64 as its input is, so answers differ by roundings only: a millionth of the largest is far
    above what networks of a few layers add up, and far below what another function makes."""
    batch = _layers.random_batch(model.coefs_[0].shape[0], sum(matrix.size for matrix in model.coefs_))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the names of columns, if the model was fitted with some
        answers = getattr(model, "predict_proba", model.predict)(batch)
    expected = _answers_of(_layers.outputs_of(*chain.parts(), batch), function)
    found = np.reshape(answers, (len(batch), -1)).astype(np.float64)
    of_largest = 0.0 if function == "exp" else 1e-6 * np.abs(expected).max(initial=1.0)
    if found.shape == expected.shape and np.allclose(found, expected, 1e-6, of_largest):
        return
    raise InputError(
        f"{name} answers a random sample by {found[0]}, expected {expected[0]} by its coefs_, intercepts_ and {model.activation}: "
        f"layer {len(model.coefs_) - 1} has another output function than {function!r}, or a method of the model is its own, which no layer can hold"
    )


def _answers_of(outputs: np.ndarray, function: str) -> np.ndarray:
    """The probabilities of a classifier, or the numbers of a regressor, from the sums of its last layer."""
    if function == "exp":
        with np.errstate(over="ignore"):
            return np.exp(outputs)
    if function == "softmax":
        powers = np.exp(outputs - outputs.max(axis=1, keepdims=True))
        return powers / powers.sum(axis=1, keepdims=True)
    if function == "logistic":
        positive = 0.5 * (1 + np.tanh(0.5 * outputs))
        return np.hstack([1 - positive, positive]) if outputs.shape[1] == 1 else positive
    return outputs
