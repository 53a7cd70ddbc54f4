"""Training of networks."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, Callable

from . import _arrays, _core, _files
from ._errors import InputError, UsageError
from ._files import Path
from ._network import Network
from ._options import refuse_names_of_others, to_count, to_name, to_number, to_optional_count, to_seed


#: Arguments of train(): names, numbers, whole numbers, and whole numbers or None.
_NAMES = ("optimizer", "rate_schedule", "pattern", "pattern_schedule")
_NUMBERS = ("rate_factor", "momentum", "beta1", "beta2", "epsilon", "l2", "pattern_fraction", "pattern_until")
_COUNTS = ("rate_every", "warm_up", "batch", "epochs", "pattern_every")
_OPTIONAL_COUNTS = ("patience", "micro_batch", "checkpoint_every", "memory_limit", "device_memory_limit")


@dataclass(frozen=True)
class Epoch:
    """The results of one pass over the samples."""

    epoch: int  #: from 1
    num_steps: int  #: steps of the training so far
    rate: float  #: of the last step
    loss: float  #: mean over the samples, each before its step
    accuracy: float | None  #: share of samples with the right largest output; None with targets
    validation_loss: float | None  #: after the epoch; None without validation
    validation_accuracy: float | None
    dropped_edges: int = 0  #: edges that changes of the pattern dropped, and grew elsewhere
    returned_edges: int = 0  #: those of them that grew again at the same place


@dataclass(frozen=True)
class Training:
    """The result of :func:`train`."""

    network: Network  #: after the last epoch
    best: Network  #: after the epoch with the least validation loss; the same as ``network`` without validation
    best_epoch: int | None  #: that epoch, from 1
    history: list[Epoch]  #: all epochs, those before a checkpoint included (those of Varve 0.2 hold none)
    micro_batch: int  #: samples at a time
    keep_every: int  #: of so many layers one kept its activations; those of the others were computed twice


@refuse_names_of_others
def train(
    network: Network,
    X: Any,
    labels: Any = None,
    *,
    targets: Any = None,
    validation: Any = None,
    loss: str | None = None,
    optimizer: str = "adam",
    rate: float | None = None,
    rate_schedule: str = "constant",
    rate_every: int = 10,
    rate_factor: float = 0.1,
    warm_up: int = 0,
    momentum: float = 0.9,
    beta1: float = 0.9,
    beta2: float = 0.999,
    epsilon: float = 1e-8,
    l2: float = 0.0,
    batch: int = 128,
    epochs: int = 10,
    seed: int = 1,
    patience: int | None = None,
    pattern: str = "keep",
    pattern_fraction: float = 0.3,
    pattern_every: int = 100,
    pattern_until: float = 0.75,
    pattern_schedule: str = "cosine",
    micro_batch: int | None = None,
    recompute: str | int = "auto",
    checkpoint: Path | None = None,
    checkpoint_every: int | None = None,
    precision: Any = "float32",
    backend: str | None = None,
    memory_limit: int | None = None,
    device_memory_limit: int | None = None,
    progress: Callable[[Epoch], Any] | None = None,
) -> Training:
    """Train the weights and biases of a network, and move its edges if wanted. The network given is not changed.

    The trained bits are the same on every backend, with any number of threads and any memory limit.

    :param network: the network to begin with, such as ``generate.random(...).with_initial_weights()``
    :param X: samples [samples, inputs], or the name of a file, whose labels or targets are taken if none are given
    :param labels: the index of the right output of each sample, [samples], or the name of a file with them
    :param targets: wanted outputs [samples, outputs], or the name of a file with them, in place of labels
    :param validation: samples and their labels (or targets) to measure with after each epoch, or the name of a file
    :param loss: "cross-entropy" (with labels, the default there) or "mean-square"
    :param optimizer: "sgd", "momentum", "nesterov" or "adam"
    :param rate: learning rate; 0.001 for adam, else 0.05 by default
    :param rate_schedule: "constant", "step" (times ``rate_factor`` every ``rate_every`` epochs) or "cosine"
    :param warm_up: steps at the beginning in which the rate rises
    :param momentum: of momentum and nesterov
    :param beta1: of adam, as ``beta2`` and ``epsilon``
    :param l2: decay of weights
    :param batch: samples of a step
    :param seed: of the order of the samples, and of the places of ``pattern="set"``
    :param patience: stop after so many epochs without a lower validation loss
    :param pattern: "keep" the edges, or move those of the smallest weights of each layer: "set" (to random free places) or
        "rigl" (to the free places with the largest gradients)
    :param pattern_fraction: part of the edges of each layer that a change moves
    :param pattern_every: steps between changes
    :param pattern_until: where changes end: a part of all steps (at most 1), or a number of steps
    :param pattern_schedule: the fraction is "constant", or falls to 0 as a "cosine"
    :param micro_batch: samples at a time, 64 (float64: 32) times a power of two; as many as fit by default. No bit depends
        on it, nor on recompute, checkpoint, backend and memory limits
    :param recompute: layers whose activations are computed twice instead of kept: "auto" (as few as memory allows), "none",
        or k, all but those of every k-th layer
    :param checkpoint: file (``.safetensors``) that keeps the state after each epoch, the best network and the history, and in
        FILE.previous the one before. If it is there, the training goes on from it and returns what an uninterrupted one
        does; its network, samples and options must be the same
    :param checkpoint_every: steps between more checkpoints
    :param memory_limit: bytes of host memory; on CPUs for everything (nine tenths of the free memory by default), else for
        weights that are streamed to the device
    :param device_memory_limit: bytes on the device, nine tenths of what is free there by default; weights that do not fit are
        streamed through it. CPUs stream weights only if it is given
    :param progress: called with the :class:`Epoch` after each epoch; an exception that it raises ends the training
    :raises InputError: if samples or answers do not fit, or weights become infinite
    """
    given = dict(locals())  # the arguments by their names
    if not isinstance(network, Network):
        raise TypeError(f"network is {type(network).__name__}, expected a varve.Network")
    X, labels, targets = _files.answered(X, labels, targets, network.num_inputs, loss == "mean-square")
    if (labels is None) == (targets is None):
        raise UsageError("training needs labels or targets, one of the two")
    if patience is not None and validation is None:
        raise UsageError("patience needs validation")
    has_labels = labels is not None
    run = _core.TrainingRun(network._core, _settings(given, has_labels), _arrays.shape_of(X)[0])
    if run.note:
        warnings.warn(run.note, stacklevel=2)
    training_set, num_samples = _add(run, network, X, labels if has_labels else targets, has_labels, "X")
    validation_set = None if validation is None else _add_validation(run, network, validation, has_labels)
    run.begin(training_set, num_samples, validation_set)
    return _run_epochs(run, has_labels, patience, progress)


def _settings(given: dict[str, Any], has_labels: bool) -> _core.TrainingSettings:
    """The arguments of train() for the C++ part. Raises UsageError about those that it would not name."""
    counts: dict[str, int | None] = {name: to_count(given[name], name) for name in _COUNTS}
    counts["seed"] = to_seed(given["seed"])
    counts.update({name: to_optional_count(given[name], name) for name in _OPTIONAL_COUNTS})
    names = {name: to_name(given[name], name) for name in _NAMES}
    rate = (0.001 if names["optimizer"] == "adam" else 0.05) if given["rate"] is None else to_number(given["rate"], "rate")
    every = counts["checkpoint_every"]
    if every is not None and given["checkpoint"] is None:
        raise UsageError("checkpoint_every needs checkpoint")
    if every is not None and every < 1:
        raise UsageError(f"checkpoint_every is {every}, expected at least 1 step")
    values = {
        **given,
        **counts,
        **names,
        **{name: to_number(given[name], name) for name in _NUMBERS},
        "rate": rate,
        "backend": to_name(given["backend"] or "", "backend"),
        "precision": _arrays.to_precision(given["precision"]),
        "loss": to_name(given["loss"] or ("cross-entropy" if has_labels else "mean-square"), "loss"),
        "keep_every": _keep_every(given["recompute"]),
        "checkpoint": "" if given["checkpoint"] is None else _files.name_of(given["checkpoint"]),
    }
    settings = _core.TrainingSettings()
    for name in dir(settings):
        if not name.startswith("_"):
            setattr(settings, name, values[name])
    return settings


def _keep_every(recompute: str | int) -> int | None:
    """The number of layers of which one keeps its activations; None: as memory allows."""
    if recompute == "auto":
        return None
    if recompute == "none":
        return 1
    if isinstance(recompute, int) and not isinstance(recompute, bool) and recompute >= 1:
        return recompute
    raise UsageError(f"recompute is {recompute!r}, expected 'auto', 'none' or a number from 1 on")


def _run_epochs(
    run: Any, has_labels: bool, patience: int | None, progress: Callable[[Epoch], Any] | None
) -> Training:
    while not run.is_finished and not _is_out_of_patience(run, patience):
        epoch = _to_epoch(run.advance(), has_labels)
        if progress is not None:
            progress(epoch)
    network, best = Network(run.network()), run.best()
    if best is None and run.best_epoch > 0:
        warnings.warn(f"the checkpoint lacks the network of the best epoch, {run.best_epoch}; best is the last one", stacklevel=3)
    history = [_to_epoch(found, has_labels) for found in run.epochs]
    return Training(network, Network(best) if best else network, run.best_epoch if best else None, history, *run.memory[:2])


def _is_out_of_patience(run: Any, patience: int | None) -> bool:
    return patience is not None and run.num_epochs > 0 and run.num_epochs >= run.best_epoch + patience


def _to_epoch(found: Any, has_labels: bool) -> Epoch:
    return Epoch(
        found.epoch,
        found.num_steps,
        found.rate,
        found.loss,
        found.accuracy if has_labels else None,
        found.validation_loss,
        found.validation_accuracy if has_labels else None,
        found.dropped_edges,
        found.returned_edges,
    )


def _add_validation(run: Any, network: Network, validation: Any, has_labels: bool) -> int:
    """Adds the samples to validate with, a pair, or a file or samples that hold their answers; returns their number of set."""
    if _files.is_path(validation) or isinstance(validation, _files.Samples):
        validation = (validation, None)
    if not isinstance(validation, (tuple, list)) or len(validation) != 2:
        raise InputError("validation is no pair, expected (samples, labels), (samples, targets) or the name of a file")
    X, answers = validation
    labels, targets = (answers, None) if has_labels else (None, answers)
    X, labels, targets = _files.answered(X, labels, targets, network.num_inputs, not has_labels)
    answers = labels if has_labels else targets
    if answers is None:
        raise InputError(f"validation holds no {'labels' if has_labels else 'targets'}, but training has them")
    validation_set, num_samples = _add(run, network, X, answers, has_labels, "validation")
    if num_samples == 0:
        raise InputError("validation holds no samples")
    return validation_set


def _add(run: Any, network: Network, X: Any, answers: Any, are_labels: bool, place: str) -> tuple[int, int]:
    """Adds samples and answers to a run; returns the number of the set and of its samples."""
    rows = _arrays.to_sample_rows(X, network.num_inputs, place)
    num_samples = _arrays.shape_of(X)[0]
    if are_labels:
        labels = _arrays.to_labels(answers, num_samples, f"labels of {place}")
        return run.add_samples(rows, labels, None, place), num_samples
    shape = _arrays.shape_of(answers)
    if shape != (num_samples, network.num_outputs):
        raise InputError(
            f"targets of {place} have the shape {_arrays.shape_text(shape)}, expected ({num_samples}, "
            f"{network.num_outputs}), a row of wanted outputs per sample"
        )
    targets = _arrays.to_targets(answers, network.num_outputs, f"targets of {place}")
    return run.add_samples(rows, None, targets, place), num_samples
