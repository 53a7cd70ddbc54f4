"""Training of networks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable

from . import _arrays, _core
from ._errors import InputError, UsageError
from ._network import Network


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


@dataclass(frozen=True)
class Training:
    """The result of :func:`train`."""

    network: Network  #: after the last epoch
    best: Network  #: after the epoch with the least validation loss; the same as ``network`` without validation
    best_epoch: int | None  #: that epoch, from 1
    history: list[Epoch]


def train(
    network: Network,
    X: Any,
    labels: Any = None,
    *,
    targets: Any = None,
    validation: tuple[Any, Any] | None = None,
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
    precision: Any = "float32",
    backend: str | None = None,
    memory_limit: int | None = None,
    progress: Callable[[Epoch], Any] | None = None,
) -> Training:
    """Train the weights and biases of a network; its edges stay. The network given is not changed.

    The trained bits are the same on every backend, with any number of threads and any memory limit.

    :param network: the network to begin with, such as ``generate.random(...).with_initial_weights()``
    :param X: samples [samples, inputs]
    :param labels: the index of the right output of each sample, [samples]
    :param targets: wanted outputs [samples, outputs], in place of labels
    :param validation: samples and their labels (or targets) to measure with after each epoch
    :param loss: "cross-entropy" (with labels, the default there) or "mean-square"
    :param optimizer: "sgd", "momentum", "nesterov" or "adam"
    :param rate: learning rate; 0.001 for adam, else 0.05 by default
    :param rate_schedule: "constant", "step" (times ``rate_factor`` every ``rate_every`` epochs) or "cosine"
    :param warm_up: steps at the beginning in which the rate rises
    :param l2: decay of weights
    :param batch: samples of a step
    :param patience: stop after so many epochs without a lower validation loss
    :param progress: called with the :class:`Epoch` after each epoch; an exception that it raises ends the training
    :raises InputError: if samples or answers do not fit, or weights become infinite
    """
    if (labels is None) == (targets is None):
        raise UsageError("training needs labels or targets, one of the two")
    if patience is not None and validation is None:
        raise UsageError("patience needs validation")
    has_labels = labels is not None
    run = _core.TrainingRun(
        network._core,
        backend or "",
        _arrays.to_precision(precision),
        loss or ("cross-entropy" if has_labels else "mean-square"),
        optimizer,
        float(rate) if rate is not None else (0.001 if optimizer == "adam" else 0.05),
        rate_schedule,
        rate_every,
        rate_factor,
        warm_up,
        momentum,
        beta1,
        beta2,
        epsilon,
        l2,
        batch,
        epochs,
        seed,
        memory_limit,
    )
    answers = labels if has_labels else targets
    training_set, num_samples = _add(run, network, X, answers, has_labels, "X")
    validation_set = None
    if validation is not None:
        validation_set, num_validation = _add(run, network, *validation, has_labels, "validation")
        if num_validation == 0:
            raise InputError("validation holds no samples")
    run.begin(training_set, num_samples, validation_set)
    return _run_epochs(run, has_labels, patience, validation is not None, progress)


def _run_epochs(
    run: Any, has_labels: bool, patience: int | None, validates: bool, progress: Callable[[Epoch], Any] | None
) -> Training:
    history: list[Epoch] = []
    best: Network | None = None
    while not run.is_finished:
        found = run.advance()
        epoch = Epoch(
            found.epoch,
            found.num_steps,
            found.rate,
            found.loss,
            found.accuracy if has_labels else None,
            found.validation_loss,
            found.validation_accuracy if has_labels else None,
        )
        history.append(epoch)
        if validates and run.best_epoch == epoch.epoch:
            best = Network(run.network())
        if progress is not None:
            progress(epoch)
        if patience is not None and epoch.epoch >= run.best_epoch + patience:
            break
    network = Network(run.network())
    return Training(network, best or network, run.best_epoch if validates else None, history)


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
    targets = _arrays.to_sample_rows(answers, network.num_outputs, f"targets of {place}")
    return run.add_samples(rows, None, targets, place), num_samples
