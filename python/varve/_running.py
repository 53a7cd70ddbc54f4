"""Running samples: from arrays of users to arrays of results."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from . import _arrays, _core, _files
from ._errors import InputError, UsageError
from ._options import Progress
from ._results import Run

if TYPE_CHECKING:
    from ._network import Network

FEW_SAMPLES = 64  # calls with at most so many samples have engines of their own, whose plans are for few samples


def expected_samples(num_samples: int, precision: str) -> int | None:
    """The samples that the plan for such a call expects: the most of the calls that share its engine; None if many.

    Hosts have a way of their own for up to 3 samples, and one for as many as two vectors of 64 bytes hold.
    """
    of_two_vectors = 16 if precision == "float64" else 32
    return next((most for most in (3, of_two_vectors, FEW_SAMPLES) if num_samples <= most), None)


class Wanted(NamedTuple):
    """What a call asks for."""

    activations: bool
    predictions: bool
    sparse: bool


def run(network: Network, X: Any, out: Any, wanted: Wanted, options: tuple[Any, ...], progress: Progress | None) -> Run:
    """See Network.run. options: those of Network._engine, precision, backend, reductions, edge order, engine, ..."""
    if out is not None and (wanted.sparse or not wanted.activations):
        raise UsageError("out takes activations as an array, so neither sparse=True nor activations=False goes with it")
    if type(X) is not np.ndarray or X.ndim > 2:
        X = _files.samples_of(X, network.num_inputs)
    if wanted == (True, False, False) and options[4] == "varve":
        done = run_in_place(network, X, out, options, progress)
        if done is not None:
            return done
    rows = _arrays.to_samples(X, network.num_inputs)
    num_samples = (X if isinstance(rows, _core.CompressedRows) else rows).shape[0]
    warm = network._engine(num_samples, *options)
    found = None
    outcome: Any
    if out is not None:
        into = _arrays.output_of(out, (num_samples, network.num_outputs), options[0])
        outcome, found = warm.run_into(rows, into, wanted.predictions, progress), out
    else:
        outcome = warm.run(rows, wanted.activations, wanted.predictions, progress)
        if wanted.activations:
            found = _sparse(outcome, network, num_samples, options[0]) if wanted.sparse else getattr(outcome, options[0])()
    predictions = outcome.predictions() if wanted.predictions else None
    return Run(found, predictions, outcome.live_samples(), outcome.activation_hash, outcome.loop_seconds)


def run_in_place(network: Network, X: Any, out: Any, options: tuple[Any, ...], progress: Progress | None) -> Run | None:
    """The results of dense samples that the device reads where they lie; None if it cannot, or if they are few."""
    if type(X) is np.ndarray and len(X) <= FEW_SAMPLES:
        return None
    precision, backend = options[0], options[1] or _core.backends()[0]
    if backend not in _core.backends():
        return None  # the engine says so
    rows = _arrays.in_place(X, network.num_inputs, backend, precision)
    if rows is None or (rows.shape[0] <= FEW_SAMPLES and _arrays.is_on_host(rows)):
        return None
    shape = (rows.shape[0], network.num_outputs)
    into = None if out is None else _arrays.output_of(out, shape, precision, backend)
    written = into
    if into is None or _arrays.overlap(rows, into):
        if into is not None and _arrays.is_on_host(into):
            return None
        written = _arrays.empty_like(rows, shape, precision)
    if written is None:
        if into is not None:
            raise InputError("out may share memory with X, expected an array of its own")
        return None
    warm = network._engine(shape[0], *options)
    outcome: Any = warm.run_in_place(_arrays.shared(rows, "X"), _arrays.shared(written, "out"), progress)
    if into is not None and written is not into:  # they share memory with X
        into[...] = written
    found = written if out is None else out
    return Run(found, None, outcome.live_samples(), outcome.activation_hash, outcome.loop_seconds)


def _sparse(outcome: Any, network: Network, num_samples: int, precision: str) -> Any:
    from scipy.sparse import csr_array

    values, columns, pointers = outcome.compressed()
    return csr_array((values.astype(precision), columns, pointers), shape=(num_samples, network.num_outputs))
