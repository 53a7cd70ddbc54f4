"""Comparison of a result with the reference."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from . import _arrays, _core, _files
from ._errors import InputError, UsageError
from ._results import Verdict

if TYPE_CHECKING:
    from ._network import Network


def compare(network: Network, X: Any, result: Any, exact: bool, tolerance: float) -> Verdict:
    """See Network.verify."""
    if not tolerance >= 0:
        raise UsageError(f"the tolerance is {tolerance:g}, expected a number that is at least 0")
    X = _files.samples_of(X, network.num_inputs)
    rows = _arrays.to_sample_rows(X, network.num_inputs)
    num_samples = _arrays.shape_of(X)[0]
    found = _to_result(result, num_samples, network.num_outputs)
    alive, in_float32, in_float64, margins, activations = _core.judge(network._core, rows, exact, found.ndim == 2)
    is_alive = alive.astype(bool)
    errors = np.zeros(num_samples)
    if found.ndim == 2:
        errors = _errors(_arrays.rows_to_dense(activations, (num_samples, network.num_outputs)), found)
        is_found_alive = np.any(found != 0, axis=1)
    else:
        is_found_alive = np.zeros(num_samples, dtype=bool)
        is_found_alive[found] = True
    differing = np.flatnonzero((is_alive != is_found_alive) | (errors > tolerance))
    return Verdict(
        is_right=differing.size == 0,
        num_samples=num_samples,
        differing_samples=differing,
        largest_error=float(errors.max(initial=0.0)) if found.ndim == 2 else None,
        is_alive=is_alive,
        is_certain_in_float32=in_float32.astype(bool),
        is_certain_in_float64=in_float64.astype(bool),
        margins=margins,
    )


def _to_result(result: Any, num_samples: int, num_outputs: int) -> np.ndarray:
    found = _arrays.to_dense(result, "result") if _arrays.is_sparse(result) else _arrays.to_numpy(result, "result")
    if found.ndim == 2:
        if found.shape != (num_samples, num_outputs):
            raise InputError(
                f"result has the shape {_arrays.shape_text(found.shape)}, expected ({num_samples}, {num_outputs})"
            )
        return found.astype(np.float64)
    if found.ndim != 1 or (found.size and found.dtype.kind not in "iu"):
        raise InputError("result is neither numbers of samples (one dimension, integers) nor activations (two dimensions)")
    outside = found[(found < 0) | (found >= num_samples)]
    if outside.size:
        raise InputError(f"result names sample {outside[0]}, but X holds samples 0 to {num_samples - 1}")
    return found.astype(np.int64)


def _errors(truth: np.ndarray, found: np.ndarray) -> np.ndarray:
    """Per sample the largest difference in units of the largest true activation; infinity if that is 0, or for NaN."""
    difference = np.abs(truth - found)
    difference = np.where(np.isnan(difference), np.inf, difference).max(axis=1, initial=0.0)
    largest = np.abs(truth).max(axis=1, initial=0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(difference == 0.0, 0.0, difference / largest)
