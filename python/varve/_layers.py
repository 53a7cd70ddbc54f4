"""Layers from matrices, biases and activations of users."""

from __future__ import annotations

import warnings
from typing import Any, Sequence

import numpy as np

from . import _arrays, _core
from ._activation import ActivationLike, to_activation
from ._errors import InputError


def activation_pair(activation: ActivationLike | None) -> tuple[str | None, float]:
    """Name and parameter for the C++ part; (None, 0) for None."""
    if activation is None:
        return None, 0.0
    found = to_activation(activation)
    return found.name, float(found.parameter or 0.0)


def make_network(
    weights: Sequence[Any], bias: Any, activation: Any, transposed: bool, name: str, warns: bool = True
) -> _core.Network:
    """The network of these matrices. Raises InputError that names the layer."""
    if _arrays.is_sparse(weights) or isinstance(weights, np.ndarray):
        raise InputError("the weights are one matrix, expected a list of matrices, one per layer")
    if isinstance(weights, str) or not hasattr(weights, "__iter__"):
        raise InputError(f"the weights are {type(weights).__name__}, expected a list of matrices, one per layer")
    matrices = [_to_matrix(matrix, f"layer {number}") for number, matrix in enumerate(weights)]
    if transposed:
        matrices = [matrix.T for matrix in matrices]
    require_chain([matrix.shape for matrix in matrices], transposed)
    biases = per_layer(bias, len(matrices), "biases")
    activations = per_layer(activation, len(matrices), "activations")
    layers = _core.LayerList()
    for number, matrix in enumerate(matrices):
        place = f"layer {number}"
        rows = _arrays.to_csr(matrix, place) if _arrays.is_sparse(matrix) else None
        compressed = _arrays.dense_to_rows(matrix) if rows is None else _arrays.to_rows(rows)
        found = to_activation(activations[number])
        layers.append(compressed, _to_bias(biases[number], matrix.shape[0], place), found.name, found.parameter or 0.0)
        if warns and rows is not None:
            _warn_if_transposed(rows, place)
    return _core.make_network(layers, str(name))


def random_batch(width: int, num_weights: int) -> np.ndarray:
    """Random samples of several scales [samples, width], by which an import is checked; few for many weights."""
    num_samples = max(4, min(64, (1 << 24) // max(num_weights, 1)))
    samples = np.random.default_rng(1).standard_normal((num_samples, width))
    return samples * np.resize([1.0, 8.0, 0.125], (num_samples, 1))


def outputs_of(weights: Sequence[Any], bias: Any, activation: Any, X: np.ndarray) -> np.ndarray:
    """The outputs of a network of these layers in float64, by plain loops: neither threads nor devices start for it."""
    network = make_network(weights, bias, activation, False, "layers to compare", warns=False)
    activations = _core.judge(network, _arrays.dense_to_rows(X), False, True)[-1]
    return _arrays.rows_to_dense(activations, (X.shape[0], network.num_outputs))


def _to_matrix(matrix: Any, place: str) -> Any:
    matrix = _arrays.known(matrix, place)
    if not _arrays.is_sparse(matrix):
        matrix = _arrays.to_numpy(matrix, place)
    if len(matrix.shape) != 2:
        raise InputError(f"{place} has weights of the shape {_arrays.shape_text(matrix.shape)}, expected (outputs, inputs)")
    return matrix


def require_chain(shapes: list[tuple[int, int]], transposed: bool) -> None:
    """Raises InputError unless every layer takes the outputs of the layer before it."""
    for number in range(1, len(shapes)):
        outputs_before, (outputs, inputs) = shapes[number - 1][0], shapes[number]
        if inputs == outputs_before:
            continue
        sentence = (
            f"layer {number} has weights of the shape {_arrays.shape_text((outputs, inputs))}, expected (outputs, "
            f"{outputs_before}): layer {number - 1} has {outputs_before} outputs"
        )
        if all(later[0] == before[1] for before, later in zip(shapes, shapes[1:])):
            other = "without transposed=True" if transposed else "with transposed=True, for matrices [inputs, outputs]"
            sentence += f"; the layers fit each other {other}"
        raise InputError(sentence)


def per_layer(given: Any, num_layers: int, what: str) -> list[Any]:
    """One entry per layer, from one for all or from a list."""
    if np.ndim(given) == 0 if not isinstance(given, (list, tuple)) else False:
        return [given] * num_layers
    if isinstance(given, np.ndarray) or _arrays.is_sparse(given):
        raise InputError(f"the {what} are one array, expected one number or a list with an entry for each layer")
    if len(given) != num_layers:
        raise InputError(f"there are {len(given)} {what}, expected {num_layers}, one for each layer")
    return list(given)


def _to_bias(bias: Any, num_outputs: int, place: str) -> np.ndarray:
    if bias is None:
        bias = 0.0
    array = np.ascontiguousarray(_arrays.to_numpy(bias, f"{place}: the bias"), dtype=np.float64)
    if array.ndim > 1 or array.size not in (1, num_outputs):
        raise InputError(
            f"{place}: the bias has the shape {_arrays.shape_text(array.shape)}, expected ({num_outputs},), one per "
            "output, or one number"
        )
    return array.reshape(-1)


def _warn_if_transposed(rows: Any, place: str) -> None:
    """Warns if a square matrix has equally many entries in all columns but not in all rows.

    Sparse networks are mostly made with a fixed number of inputs per output, which is a fixed number per row here.
    """
    num_rows, num_columns = rows.shape
    if num_rows != num_columns or rows.nnz == 0 or rows.nnz == num_rows * num_columns:
        return
    in_rows = np.diff(rows.indptr)
    in_columns = np.bincount(rows.indices, minlength=num_columns)
    if in_columns.min() == in_columns.max() and in_rows.min() < in_rows.max():
        warnings.warn(
            f"{place} looks transposed: every column has {in_columns[0]} weights, but rows have {in_rows.min()} to "
            f"{in_rows.max()}. Rows are outputs here; for matrices [inputs, outputs], as in scikit-learn and Keras, "
            "give transposed=True",
            stacklevel=4,
        )
