"""How well a network answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import _arrays, _core, _files
from ._errors import InputError, UsageError
from ._options import RunOptions, takes_targets, to_count, to_name, to_number
from ._results import Evaluation

if TYPE_CHECKING:
    from ._network import Network


def evaluate(
    network: Network, X: Any, labels: Any, targets: Any, loss: str | None, delta: float, top: int, options: RunOptions
) -> Evaluation:
    """See Network.evaluate."""
    loss = None if loss is None else to_name(loss, "loss")
    X, labels, targets = _files.answered(X, labels, targets, network.num_inputs, takes_targets(loss))
    if labels is None and targets is None:
        raise UsageError("an evaluation needs labels or targets")
    loss = loss or ("mean-square" if targets is not None else "cross-entropy")
    if loss == "cross-entropy" and labels is None:
        raise UsageError("the loss cross-entropy needs labels")
    if labels is not None:
        _arrays.require_classes(network.num_outputs, loss)
    top, delta = to_count(top, "top", 1), to_number(delta, "delta")
    options["sparse"] = True
    activations = network.infer(X, **options)
    num_samples = activations.shape[0]
    found = None if labels is None else _arrays.to_labels(labels, num_samples)
    wanted = None if targets is None else _arrays.to_targets(targets, network.num_outputs, loss)
    if targets is not None and _arrays.shape_of(targets)[0] != num_samples:
        raise InputError(f"there are targets of {_arrays.shape_of(targets)[0]} samples, expected {num_samples}")
    samples, total, right, in_top = _core.evaluate(_arrays.to_rows(activations), found, wanted, loss, delta, top)
    mean = total / samples if samples else float("nan")
    has_shares = found is not None and samples > 0
    return Evaluation(samples, mean, right / samples if has_shares else None, in_top / samples if has_shares else None)
