"""Training of networks."""

from __future__ import annotations

import functools
import inspect
import math
import warnings
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Callable, Iterator, Mapping, NamedTuple, Sequence, TypeVar

from . import _arrays, _core, _files, _pictures
from ._errors import InputError, UsageError
from ._files import Path
from ._network import Network
from ._options import refuse_names_of_others, takes_targets, to_count, to_name, to_number, to_optional_count, to_seed
from ._receipt import TrainingReceipt
from ._results import Evaluation

_Function = TypeVar("_Function", bound=Callable[..., Any])

#: Options of a training: names, numbers, whole numbers, and whole numbers or None.
_NAMES = ("optimizer", "pattern", "pattern_schedule")
_NUMBERS = ("delta", "rate_factor", "momentum", "beta1", "beta2", "epsilon", "l2", "pattern_fraction", "pattern_until")
_COUNTS = ("rate_every", "warm_up", "batch", "epochs", "pattern_every")
_OPTIONAL_COUNTS = ("patience", "micro_batch", "checkpoint_every", "receipt_every", "memory_limit", "device_memory_limit")


@dataclass(frozen=True)
class Epoch:
    """The results of one pass over the samples."""

    epoch: int  #: from 1
    num_steps: int  #: steps of the training so far
    rate: float  #: of the last step
    loss: float  #: mean over the samples, each before its step
    accuracy: float | None  #: share of samples whose predicted class is right; None with targets
    validation_loss: float | None  #: after the epoch; None without validation
    validation_accuracy: float | None  #: after the epoch; None without validation or with targets
    dropped_edges: int = 0  #: edges that changes of the pattern dropped, and grew elsewhere
    returned_edges: int = 0  #: those of them that grew again at the same place


class Training:
    """A network in training: its epochs one by one, or its steps, and what has come of it so far.

        training = varve.Training(start, epochs=20)
        for epoch in training.epochs(X, labels, validation=(X_test, labels_test)):
            print(epoch.loss, my_metric(training.network.predict(X_test)))
            if epoch.validation_accuracy > 0.98:
                training.stop()
        training.best.save("best.safetensors")

    :func:`train` runs all epochs and returns the training. Ctrl-C between two steps ends the epochs with a warning; the
    training holds what there is. The trained bits are the same on every backend, with any number of threads and any memory
    limit. A training that is pickled cannot go on, but keeps its networks and history.

    :param network: the network to begin with, such as ``generate.random(...).with_initial_weights()``; it is not changed
    :param loss: "cross-entropy" (with labels, the default there), "mean-square" (the default with targets), "logistic" (the mean over
        the outputs of the binary cross-entropy of the output's sigmoid and a target from 0 to 1; targets of many labels may be a
        sparse matrix, and a network of one output takes labels 0 and 1) or "huber"
    :param delta: of huber: the error from which on the loss is a line
    :param class_weight: what the samples of a class count, a dictionary from labels to numbers (others: 1), or "balanced", which
        lets all classes count the same: samples / (classes * samples of the class). It multiplies ``sample_weight``
    :param optimizer: "sgd", "momentum", "nesterov", "adam" or "adamw"
    :param rate: learning rate; 0.05 by default, of the Adam family 0.001
    :param rate_schedule: "constant", "step" (times ``rate_factor`` every ``rate_every`` epochs) or "cosine", the default
    :param warm_up: steps at the beginning in which the rate rises
    :param momentum: of momentum and nesterov
    :param beta1: of the Adam family, as ``beta2`` and ``epsilon``
    :param l2: decay of weights (not of biases): ``l2 * weight`` is added to the gradient; adamw subtracts ``rate * l2 * weight``
    :param batch: samples of a step
    :param epochs: passes over the samples. The defaults are those of ``varve train``: 10 epochs with momentum bring more than
        with Adam at its usual rate, and samples that are not scaled well hurt less
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
        FILE.previous the one before. If it is there, the training continues from it and gives what an uninterrupted one
        does; its network, samples and options must be the same
    :param checkpoint_every: steps between more checkpoints
    :param receipt_every: steps between states that :attr:`receipt` records (128 in ``varve train``); none by default
    :param memory_limit: bytes of host memory; on CPUs for everything (nine tenths of the free memory by default), else for
        weights that are streamed to the device
    :param device_memory_limit: bytes on the device, nine tenths of what is free there by default; weights that do not fit are
        streamed through it. CPUs stream weights only if it is given
    :param progress: called with the :class:`Epoch` after each epoch; an exception that it raises ends the training. True
        shows a bar (by the package tqdm if it is there, else a line per epoch)
    :raises UsageError: if an option is unknown or out of its range
    """

    @refuse_names_of_others
    def __init__(
        self,
        network: Network,
        *,
        loss: str | None = None,
        delta: float = 1.0,
        class_weight: Mapping[int, float] | str | None = None,
        optimizer: str = "momentum",
        rate: float | None = None,
        rate_schedule: str | None = None,
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
        receipt_every: int | None = None,
        precision: Any = "float32",
        backend: str | None = None,
        memory_limit: int | None = None,
        device_memory_limit: int | None = None,
        progress: Callable[[Epoch], Any] | bool | None = None,
    ) -> None:
        given = {name: value for name, value in locals().items() if name not in ("self", "network")}
        if not isinstance(network, Network):
            raise TypeError(f"network is {type(network).__name__}, expected a varve.Network")
        self._options = given
        self._settings = _settings(given)
        _require_class_weight(class_weight, network, given["loss"])
        self._run: Any = None  # from the first samples on, to the end of the epochs
        self._has_labels: bool | None = None
        self._goes_by_epochs = self._is_stopped = False
        self._memory = (0, 0)
        self._receipt = ""
        self._state = _State(network, None, None, [], 0)

    # --- running

    def epochs(
        self, X: Any = None, labels: Any = None, *, targets: Any = None, sample_weight: Any = None, validation: Any = None
    ) -> Iterator[Epoch]:
        """Train epoch by epoch. In the loop, :attr:`network` is the network after the epoch that it got.

        Leaving the loop, :meth:`stop` and Ctrl-C end the epochs; ``epochs()`` without samples goes on then.

        :param X: samples [samples, inputs], or the name of a file, whose labels or targets are taken if none are given
        :param labels: the index of the right output of each sample, [samples], or the name of a file with them
        :param targets: wanted outputs [samples, outputs], or the name of a file with them, in place of labels
        :param sample_weight: what each sample counts, [samples], from 0 on: its loss and its errors are multiplied by it, and divided
            by the number of samples as without weights. Validation has none
        :param validation: samples and their labels (or targets) to measure with after each epoch, or the name of a file
        :raises InputError: if samples or answers do not fit, or weights become infinite
        """
        if X is not None:
            self._begin(X, labels, targets, sample_weight, validation)
        elif not self._goes_by_epochs:
            raise UsageError("epochs needs samples the first time: epochs(X, labels)")
        self._is_stopped = False
        return self._remaining_epochs()

    def step(
        self, X: Any, labels: Any = None, *, targets: Any = None, sample_weight: Any = None, rate: float | None = None
    ) -> Evaluation:
        """Take one step with a mini-batch, such as one of a DataLoader, which is not kept.

        The caller decides on batches and their order. Equal batches give equal bits, those of :meth:`epochs` too. The pattern
        changes as the options say; ``pattern_until`` must be a number of steps.

        :param X: samples [samples, inputs], no more than ``batch``, or than in the first step if they were more
        :param labels: the index of the right output of each sample, [samples]
        :param targets: wanted outputs [samples, outputs], in place of labels
        :param sample_weight: what each sample counts, [samples], as in :meth:`epochs`
        :param rate: learning rate of this step; by default that of the training, without a schedule
        :returns: loss and accuracy before the step
        :raises InputError: if samples or answers do not fit, or weights become infinite
        """
        if self._goes_by_epochs:
            raise UsageError("this training goes by epochs; steps need a training of their own")
        X, labels, targets, has_labels = self._answered(X, labels, targets)
        num_samples = _arrays.shape_of(X)[0]
        if num_samples == 0:
            raise InputError("X holds no samples, expected a mini-batch")
        if rate is None and (self._options["rate_schedule"] not in (None, "constant") or self._options["warm_up"]):
            raise UsageError("step does not know the number of steps, which rate_schedule and warm_up need: give it the rate")
        rate = self._settings.rate if rate is None else to_number(rate, "rate")
        if not 0 < rate < math.inf:
            raise UsageError(f"rate is {rate:g}, expected a positive number")
        if self._options["class_weight"] == "balanced":
            raise UsageError("step does not know all labels, which class_weight='balanced' needs: give a dictionary")
        parts = self._parts(X, labels if has_labels else targets, has_labels, "X", sample_weight)
        if self._run is None:
            self._settings.batch = max(self._settings.batch, num_samples)
            self._run = self._prepared(self._settings.batch, has_labels)
        if num_samples > self._settings.batch:
            raise UsageError(f"X holds {num_samples} samples, expected at most {self._settings.batch}; batch says how many")
        found = self._run.step(*parts, rate)
        return Evaluation(num_samples, found.mean, found.accuracy if has_labels else None, None)

    def stop(self) -> None:
        """End :meth:`epochs` after the present epoch: in the loop, by ``progress`` or from another thread."""
        self._is_stopped = True

    # --- what there is

    @property
    def network(self) -> Network:
        """The present network: the initial one, or that after the last step."""
        return self._look().network

    @property
    def best(self) -> Network:
        """The network after the epoch with the least validation loss; the same as :attr:`network` without validation."""
        state = self._look()
        return state.best or state.network

    @property
    def best_epoch(self) -> int | None:
        """That epoch, from 1; None without validation."""
        return self._look().best_epoch

    @property
    def history(self) -> list[Epoch]:
        """All epochs, those before a checkpoint included (those of Varve 0.2 hold none)."""
        return list(self._look().history)

    @property
    def num_steps(self) -> int:
        """Steps so far."""
        return self._state.num_steps if self._run is None else self._run.num_steps

    @property
    def micro_batch(self) -> int:
        """Samples at a time; 0 before the first step."""
        return self._memory[0]

    @property
    def keep_every(self) -> int:
        """One layer in this number keeps its activations; those of the others are computed twice. 0 before the first step."""
        return self._memory[1]

    @property
    def receipt(self) -> TrainingReceipt:
        """What binds the steps of :meth:`epochs` so far to network, samples, answers and recipe, so that ``varve audit`` can check them.

        :raises UsageError: without ``receipt_every``, or before the first epoch
        """
        content = self._receipt_text()
        if not content:
            raise UsageError("there is no receipt: give receipt_every, and run epochs")
        return TrainingReceipt(content)

    def plot(self) -> Any:
        """Draw losses and accuracies by epoch, by matplotlib.

        :returns: the axes of matplotlib, [2], or [1] without accuracies
        :raises UsageError: if there is no epoch yet
        :raises ResourceError: if matplotlib is missing
        """
        if not self.history:
            raise UsageError("there is no epoch yet")
        return _pictures.plot_history(self.history, self.best_epoch)

    def __repr__(self) -> str:
        state = self._look()
        parts = [f"{self.num_steps} steps"]
        if state.history:
            parts += [f"{len(state.history)} epochs", f"loss {state.history[-1].loss:.4g}"]
        if state.best_epoch is not None:
            parts += [f"validation loss {state.history[-1].validation_loss:.4g}", f"best epoch {state.best_epoch}"]
        return f"<varve.Training: {', '.join(parts)}>"

    def __getstate__(self) -> dict[str, Any]:
        return {"_state": self._look(), "_memory": self._memory, "_receipt": self._receipt_text()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _run=None, _goes_by_epochs=True, _is_stopped=False)

    # --- inside

    def _answered(self, X: Any, labels: Any, targets: Any) -> tuple[Any, Any, Any, bool]:
        X, labels, targets = _files.answered(X, labels, targets, self._state.network.num_inputs, takes_targets(self._options["loss"]))
        if (labels is None) == (targets is None):
            raise UsageError("training needs labels or targets, one of the two")
        return X, labels, targets, labels is not None

    def _prepared(self, num_samples: int, has_labels: bool) -> Any:
        """The network on its device, ready for num_samples samples, or those of a step."""
        if not self._goes_by_epochs:
            if self._options["checkpoint"] is not None:
                raise UsageError("checkpoints are written after epochs; steps go without: save the network")
            if self._options["pattern"] != "keep" and self._settings.pattern_until <= 1:
                raise UsageError("step does not know the number of steps, of which pattern_until is a part: give a number of steps")
        self._settings.loss = self._options["loss"] or ("cross-entropy" if has_labels else "mean-square")
        run = _core.TrainingRun(self._state.network._core, self._settings, num_samples)
        if run.note:
            warnings.warn(run.note, stacklevel=4)
        self._memory = run.memory[:2]
        return run

    def _begin(self, X: Any, labels: Any, targets: Any, sample_weight: Any, validation: Any) -> None:
        if self._goes_by_epochs or self._run is not None:
            raise UsageError("this training has its samples: epochs() continues with them")
        X, labels, targets, has_labels = self._answered(X, labels, targets)
        if self._options["patience"] is not None and validation is None:
            raise UsageError("patience needs validation")
        num_samples = _arrays.shape_of(X)[0]
        self._goes_by_epochs = True
        try:
            run = self._prepared(num_samples, has_labels)
            training_set = run.add_samples(*self._parts(X, labels if has_labels else targets, has_labels, "X", sample_weight), "X")
            validation_set = None if validation is None else self._add_validation(run, validation, has_labels)
            run.begin(training_set, num_samples, validation_set)
        except BaseException:
            self._goes_by_epochs = False
            raise
        self._run, self._has_labels = run, has_labels
        if run.best_epoch > 0 and run.best() is None:
            warnings.warn(f"the checkpoint lacks the network of the best epoch, {run.best_epoch}; best is the last one", stacklevel=4)

    def _parts(self, X: Any, answers: Any, are_labels: bool, place: str, sample_weight: Any) -> tuple[Any, Any, Any, Any]:
        """Samples, labels, targets and weights for the C++ part, with which to train."""
        parts = _to_parts(self._state.network, self._options["loss"], X, answers, are_labels, place)
        weights = _arrays.weights_of(sample_weight, self._options["class_weight"], parts[1], _arrays.shape_of(X)[0])
        if weights is not None and self._options["receipt_every"] is not None:
            raise UsageError("a receipt does not cover weights of samples and classes; train without receipt_every")
        return (*parts, weights)

    def _add_validation(self, run: Any, validation: Any, has_labels: bool) -> int:
        """Adds the samples to validate with, a pair, or a file or samples that hold their answers; returns their number of set."""
        network = self._state.network
        if _files.is_path(validation) or isinstance(validation, _files.Samples):
            validation = (validation, None)
        if not isinstance(validation, (tuple, list)) or len(validation) != 2:
            raise InputError("validation is not a pair, expected (samples, labels), (samples, targets) or the name of a file")
        X, answers = validation
        labels, targets = (answers, None) if has_labels else (None, answers)
        X, labels, targets = _files.answered(X, labels, targets, network.num_inputs, not has_labels)
        answers = labels if has_labels else targets
        if answers is None:
            raise InputError(f"validation holds no {'labels' if has_labels else 'targets'}, but training has them")
        parts = _to_parts(network, self._options["loss"], X, answers, has_labels, "validation")
        if _arrays.shape_of(X)[0] == 0:
            raise InputError("validation holds no samples")
        return run.add_samples(*parts, None, "validation")

    def _remaining_epochs(self) -> Iterator[Epoch]:
        if self._run is None:
            return
        with _shown(self._options["progress"], self._options["epochs"], self._run.num_epochs) as show:
            while self._run is not None and not self._is_stopped:  # another loop may have ended it
                if self._run.is_finished or self._is_out_of_patience():
                    self._end()
                    return
                try:
                    found = self._run.advance()
                except KeyboardInterrupt:
                    warnings.warn(f"interrupted in epoch {self._run.num_epochs + 1}; the training holds what there is", stacklevel=3)
                    return
                epoch = _to_epoch(found, bool(self._has_labels))
                show(epoch)
                yield epoch

    def _is_out_of_patience(self) -> bool:
        run, patience = self._run, self._options["patience"]
        return patience is not None and run.num_epochs > 0 and run.num_epochs >= run.best_epoch + patience

    def _look(self) -> _State:
        """What there is, read from the run if it has gone on since the last time."""
        run = self._run
        if run is not None and run.num_steps != self._state.num_steps:
            best = run.best() if self._goes_by_epochs else None
            history = [_to_epoch(found, bool(self._has_labels)) for found in run.epochs] if self._goes_by_epochs else []
            self._state = _State(
                Network(run.network()), Network(best) if best else None, run.best_epoch if best else None, history, run.num_steps
            )
        return self._state

    def _end(self) -> None:
        """Keeps what there is, and frees the samples and the network in training."""
        self._look()
        self._receipt = self._receipt_text()
        self._run = None

    def _receipt_text(self) -> str:
        return self._receipt if self._run is None else self._run.receipt()


class _State(NamedTuple):
    """What has come of a training after some steps."""

    network: Network
    best: Network | None
    best_epoch: int | None
    history: list[Epoch]
    num_steps: int


def with_the_options_of_training(*, without: Sequence[str] = (), **defaults: Any) -> Callable[[_Function], _Function]:
    """Gives a function with ``**options`` the signature that says them, and all of them as arguments.

    :param without: names of options that it does not take
    :param defaults: of options where they are others than those of a Training
    """

    def with_them(function: _Function) -> _Function:
        own = list(inspect.signature(function).parameters.values())[:-1]
        options = (option for option in inspect.signature(Training).parameters.values() if option.kind is option.KEYWORD_ONLY)
        taken = [option.replace(default=defaults.get(option.name, option.default)) for option in options if option.name not in without]
        signature = inspect.Signature([*own, *taken])

        @functools.wraps(function)
        def complete(*args: Any, **given: Any) -> Any:
            bound = signature.bind(*args, **given)
            bound.apply_defaults()
            return function(*bound.args, **bound.kwargs)

        complete.__signature__ = signature  # type: ignore[attr-defined]
        return complete  # type: ignore[return-value]

    return with_them


@refuse_names_of_others
@with_the_options_of_training()
def train(
    network: Network, X: Any, labels: Any = None, *, targets: Any = None, sample_weight: Any = None, validation: Any = None, **options: Any
) -> Training:
    """Train the weights and biases of a network, and move its edges if wanted. The network given is not changed.

    Ctrl-C between two steps ends the training with a warning; what is returned holds what there is.

    :param network: the network to begin with, such as ``generate.random(...).with_initial_weights()``
    :param X: samples [samples, inputs], or the name of a file, whose labels or targets are taken if none are given
    :param labels: the index of the right output of each sample, [samples], or the name of a file with them
    :param targets: wanted outputs [samples, outputs], or the name of a file with them, in place of labels
    :param sample_weight: what each sample counts, [samples], as in :meth:`Training.epochs`
    :param validation: samples and their labels (or targets) to measure with after each epoch, or the name of a file
    :param options: those of :class:`Training`, which runs epochs one by one and takes single steps
    :returns: the training after its epochs, which does not hold the samples any more
    :raises InputError: if samples or answers do not fit, or weights become infinite
    """
    training = Training(network, **options)
    for _ in training.epochs(X, labels, targets=targets, sample_weight=sample_weight, validation=validation):
        pass
    training._end()
    return training


@contextmanager
def _shown(progress: Callable[[Epoch], Any] | bool | None, num_epochs: int, done: int) -> Iterator[Callable[[Epoch], Any]]:
    """What to call after each epoch; for True a bar."""
    if progress is None or progress is False:
        yield lambda epoch: None
        return
    if progress is not True:
        yield progress
        return
    try:
        from tqdm.auto import tqdm
    except ImportError:
        yield lambda epoch: print(f"epoch {epoch.epoch} of {num_epochs}: {_losses_of(epoch)}")
        return
    with tqdm(total=num_epochs, initial=done, unit="epoch") as bar:

        def advance(epoch: Epoch) -> None:
            bar.set_postfix_str(_losses_of(epoch), refresh=False)
            bar.update()

        yield advance


def _losses_of(epoch: Epoch) -> str:
    return f"loss {epoch.loss:.4g}" + ("" if epoch.validation_loss is None else f", validation {epoch.validation_loss:.4g}")


def _settings(given: dict[str, Any]) -> _core.TrainingSettings:
    """The arguments of a training for the C++ part. Raises UsageError about those that it would not name."""
    counts: dict[str, int | None] = {name: to_count(given[name], name) for name in _COUNTS}
    counts["seed"] = to_seed(given["seed"])
    counts.update({name: to_optional_count(given[name], name) for name in _OPTIONAL_COUNTS})
    names = {name: to_name(given[name], name) for name in _NAMES}
    names["rate_schedule"] = to_name(given["rate_schedule"] or "cosine", "rate_schedule")
    if counts["checkpoint_every"] is not None and given["checkpoint"] is None:
        raise UsageError("checkpoint_every needs checkpoint")
    for name in ("checkpoint_every", "receipt_every"):
        every = counts[name]
        if every is not None and every < 1:
            raise UsageError(f"{name} is {every}, expected at least 1 step")
    values = {
        **given,
        **counts,
        **names,
        **{name: to_number(given[name], name) for name in _NUMBERS},
        "rate": _core.usual_rate(names["optimizer"]) if given["rate"] is None else to_number(given["rate"], "rate"),
        "backend": to_name(given["backend"] or "", "backend"),
        "precision": _arrays.to_precision(given["precision"]),
        "loss": to_name(given["loss"] or "cross-entropy", "loss"),
        "keep_every": _keep_every(given["recompute"]),
        "checkpoint": "" if given["checkpoint"] is None else _files.name_of(given["checkpoint"]),
    }
    settings = _core.TrainingSettings()
    for name, value in values.items():
        if hasattr(settings, name):
            setattr(settings, name, value)
    settings.require_valid()
    return settings


def _require_class_weight(class_weight: Any, network: Network, loss: str | None) -> None:
    """Raises UsageError unless weights are "balanced", or finite and not negative, and belong to classes of the network."""
    if class_weight is None or isinstance(class_weight, str) and class_weight == "balanced":
        return
    if not isinstance(class_weight, Mapping):
        raise UsageError(f"class_weight is {class_weight!r}, expected a dictionary from labels to numbers, or 'balanced'")
    num_classes = 2 if loss == "logistic" and network.num_outputs == 1 else network.num_outputs
    for label, weight in class_weight.items():
        if not 0 <= to_count(label, "a label of class_weight") < num_classes:
            raise UsageError(f"class_weight has the label {label}, expected 0 to {num_classes - 1}")
        if not 0 <= to_number(weight, f"class_weight of {label}") < math.inf:
            raise UsageError(f"class_weight of {label} is {weight}, expected a finite number from 0 on")


def _keep_every(recompute: str | int) -> int | None:
    """The number of layers of which one keeps its activations; None: as memory allows."""
    if recompute == "auto":
        return None
    if recompute == "none":
        return 1
    if isinstance(recompute, int) and not isinstance(recompute, bool) and recompute >= 1:
        return to_count(recompute, "recompute")
    raise UsageError(f"recompute is {recompute!r}, expected 'auto', 'none' or a number from 1 on")


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


def _to_parts(network: Network, loss: str | None, X: Any, answers: Any, are_labels: bool, place: str) -> tuple[Any, Any, Any]:
    """Samples, labels and targets, of which one is None, for the C++ part."""
    rows = _arrays.to_sample_rows(X, network.num_inputs, place)
    num_samples = _arrays.shape_of(X)[0]
    if are_labels:
        _arrays.require_classes(network.num_outputs, loss)
        return rows, _arrays.to_labels(answers, num_samples, f"labels of {place}"), None
    shape = _arrays.shape_of(answers)
    if shape != (num_samples, network.num_outputs):
        raise InputError(
            f"targets of {place} have the shape {_arrays.shape_text(shape)}, expected ({num_samples}, "
            f"{network.num_outputs}), a row of wanted outputs per sample"
        )
    return rows, None, _arrays.to_targets(answers, network.num_outputs, loss, f"targets of {place}")
