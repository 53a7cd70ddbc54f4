"""A classifier and a regressor with the interface of scikit-learn."""

from __future__ import annotations

import inspect
import numbers
from typing import Any, Mapping, Sequence, TypeVar

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.model_selection import train_test_split
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from . import generate
from ._arrays import weights_of
from ._activation import ActivationLike
from ._network import Network
from ._options import refuse_names_of_others, to_name
from ._training import Epoch, Training, train, with_the_options_of_training

_Self = TypeVar("_Self", bound="_SparseEstimator")


def _constructor(*, without: Sequence[str] = (), **defaults: Any) -> Any:
    """The __init__ of an estimator: its own parameters, and those of a Training but for some, with other defaults."""
    kept = ("seed", "checkpoint", "checkpoint_every", "receipt_every")

    @refuse_names_of_others
    @with_the_options_of_training(without=(*kept, *without), batch=32, epochs=60, **defaults)
    def __init__(
        self: Any,
        hidden: Sequence[int] | int = (128,),
        *,
        density: float = 0.2,
        activation: ActivationLike = "relu",
        initial: str = "he",
        validation_fraction: float = 0.0,
        random_state: Any = None,
        warm_start: bool = False,
        **options: Any,
    ) -> None:
        own = {"density": density, "activation": activation, "initial": initial, "validation_fraction": validation_fraction}
        self.__dict__.update(own, hidden=hidden, random_state=random_state, warm_start=warm_start, **options)

    return __init__


class _SparseEstimator(BaseEstimator):
    """What a classifier and a regressor have in common: their answers are [samples], or [samples, outputs]."""

    network_: Network
    history_: list[Epoch]
    best_epoch_: int | None
    _answers: str  #: "labels" or "targets"
    _trained: Network  # the network that training goes on with
    _steps: Training | None = None  # of partial_fit

    hidden: Sequence[int] | int
    density: float
    activation: ActivationLike
    initial: str
    batch: int
    precision: Any
    backend: str | None
    validation_fraction: float
    random_state: Any
    warm_start: bool

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def __getstate__(self) -> Any:
        return {**super().__getstate__(), "_steps": None}

    def _options(self) -> dict[str, Any]:
        """The parameters that a Training has, too, but for class_weight, which becomes part of the samples' weights."""
        parameters = self.get_params(deep=False)
        names = inspect.signature(Training).parameters
        return {name: parameters[name] for name in names if name in parameters and name != "class_weight"}

    def _seed(self) -> int:
        if isinstance(self.random_state, numbers.Integral):
            return int(self.random_state)
        return int(check_random_state(self.random_state).randint(2**31 - 1))

    def _new_network(self, num_features: int, num_outputs: int, seed: int) -> Network:
        return generate.random([num_features, *np.atleast_1d(self.hidden), num_outputs], density=self.density, seed=seed).with_initial_weights(
            self.initial, activation=self.activation, last_activation="identity", seed=seed
        )

    def _fit(self: _Self, start: Network, X: Any, answers: np.ndarray, strata: Any, seed: int, weights: np.ndarray | None) -> _Self:
        """Trains with all samples, or with those that validation leaves. weights: of the samples; scaled to the mean 1."""
        validation = None
        if weights is not None:
            if not weights.any():
                raise ValueError("all weights of samples are zero, expected some above")
            weights = weights / weights.mean()
        if not 0 <= self.validation_fraction < 1:
            raise ValueError(f"validation_fraction is {self.validation_fraction}, expected at least 0 and below 1")
        if self.validation_fraction > 0:
            X, X_validation, answers, other_answers, *parts = train_test_split(
                X, answers, *([] if weights is None else [weights]), test_size=self.validation_fraction, stratify=strata, random_state=seed
            )
            weights = parts[0] if parts else None
            validation = (X_validation, other_answers)
        answered = {self._answers: answers, "sample_weight": weights}
        training = train(start, X, validation=validation, seed=seed, **answered, **self._options())
        self._steps = None
        self._trained = training.best
        self.network_, self.history_, self.best_epoch_ = self._of_answers(self._trained), training.history, training.best_epoch
        return self

    def _fit_part(self: _Self, X: Any, answers: np.ndarray, weights: np.ndarray | None) -> _Self:
        """Takes steps with these samples, in their order."""
        if self._steps is None:
            options = {**self._options(), "rate_schedule": "constant", "warm_up": 0, "seed": self._seed()}
            self._steps = Training(self._trained, **options)
        for first in range(0, X.shape[0], self.batch):
            part = slice(first, first + self.batch)
            answered = {self._answers: answers[part], "sample_weight": None if weights is None else weights[part]}
            self._steps.step(X[part], **answered)
        self._trained = self._steps.network
        self.network_ = self._of_answers(self._trained)
        return self

    def _of_answers(self, trained: Network) -> Network:
        """The network whose outputs are those that predict() needs."""
        return trained

    def _outputs(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", dtype=(np.float64, np.float32), reset=False)
        return self.network_.infer(X, precision=self.precision, backend=self.backend)


class SparseClassifier(ClassifierMixin, _SparseEstimator):
    """A classifier whose network has random sparse edges from the beginning.

    :param hidden: outputs of each hidden layer; a number for one layer
    :param density: probability of every edge, above 0 and at most 1
    :param activation: of the hidden layers; the last layer is linear, its softmax gives probabilities
    :param initial: weights to begin with: "he", or "identity" for hundreds of layers of equal width
    :param validation_fraction: part of the samples, drawn so that classes keep their shares, that is not trained with, but
        decides which epoch's network is kept; 0: none. ``patience`` needs it
    :param random_state: seed of edges, weights, the order of samples and of the places of ``pattern="set"``
    :param warm_start: fit() goes on from the network of the fit before, with the same classes
    :param class_weight: as in :class:`Training`, but a dictionary has the classes as y names them
    :param options: those of :class:`Training`, ``batch`` and ``epochs`` excepted with its defaults: 60 epochs of batches of
        32, as samples are few where estimators are used. It has no ``loss``, ``delta``, ``checkpoint`` and ``seed``

    After fit: ``network_`` (the trained :class:`Network`), ``history_`` (a list of :class:`Epoch`), ``best_epoch_`` (None
    without a validation_fraction), ``classes_`` and ``n_features_in_``.
    """

    class_weight: Any  #: None, "balanced", or what each class counts: a dictionary by the class
    classes_: np.ndarray  #: all classes in ascending order
    _answers = "labels"
    __init__ = _constructor(without=("loss", "delta"))

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> SparseClassifier:
        """Train a new network; with ``warm_start`` that of the fit before.

        :param X: samples [samples, features], dense or of scipy.sparse
        :param y: the class of each sample, [samples]
        :param sample_weight: what each sample counts, [samples], from 0 on. The products with ``class_weight`` are scaled to the mean 1
        """
        X, y = validate_data(self, X, y, accept_sparse="csr", dtype=(np.float64, np.float32))
        check_classification_targets(y)
        classes, labels = np.unique(y, return_inverse=True)
        if len(classes) < 2:
            raise ValueError(f"y has only one class ({classes[0]}), expected at least two")
        seed = self._seed()
        if self.warm_start and hasattr(self, "network_"):
            if not np.array_equal(classes, self.classes_) or X.shape[1] != self.network_.num_inputs:
                raise ValueError("warm_start continues with the same classes and features as the fit before")
            start = self._trained
        else:
            start = self._new_network(X.shape[1], len(classes), seed)
        self.classes_ = classes
        return self._fit(start, X, labels, labels, seed, self._weights(sample_weight, labels))

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> SparseClassifier:
        """Train with some samples, each once: steps with ``batch`` samples at a time, in their order, at the rate without schedule.

        The moments of the optimizer go on from call to call, but neither with a pickle nor from fit().

        :param X: samples [samples, features], dense or of scipy.sparse
        :param y: the class of each sample, [samples]
        :param classes: all classes that will come; needed in the first call
        :param sample_weight: what each sample counts, [samples], from 0 on; not scaled. ``class_weight`` must be a dictionary here
        """
        if isinstance(self.class_weight, str):
            raise ValueError("partial_fit does not know all classes' samples, which class_weight='balanced' needs: give a dictionary")
        is_first = not hasattr(self, "network_")
        X, y = validate_data(self, X, y, accept_sparse="csr", dtype=(np.float64, np.float32), reset=is_first)
        check_classification_targets(y)
        if is_first and classes is None:
            raise ValueError("the first call of partial_fit needs classes, all that will come")
        all_classes = self.classes_ if classes is None else np.unique(classes)
        if not is_first and not np.array_equal(all_classes, self.classes_):
            raise ValueError(f"classes are {all_classes}, expected {self.classes_} as in the first call")
        labels = np.minimum(np.searchsorted(all_classes, y), len(all_classes) - 1)
        if not np.array_equal(all_classes[labels], y):
            raise ValueError(f"y has classes that are not among {all_classes}")
        if is_first:
            self.classes_, self._trained = all_classes, self._new_network(X.shape[1], len(all_classes), self._seed())
        return self._fit_part(X, labels, self._weights(sample_weight, labels))

    def _weights(self, sample_weight: Any, labels: np.ndarray) -> np.ndarray | None:
        """What each sample counts. class_weight has the names of classes, labels their numbers."""
        weight_of = self.class_weight
        if isinstance(weight_of, Mapping):
            number_of = {name: number for number, name in enumerate(self.classes_.tolist())}
            unknown = [name for name in weight_of if name not in number_of]
            if unknown:
                raise ValueError(f"class_weight has the class {unknown[0]!r}, expected those of classes_, {self.classes_}")
            weight_of = {number_of[name]: weight for name, weight in weight_of.items()}
        elif not (weight_of is None or isinstance(weight_of, str) and weight_of == "balanced"):
            raise ValueError(f"class_weight is {weight_of!r}, expected a dictionary from classes to numbers, or 'balanced'")
        return weights_of(sample_weight, weight_of, labels, len(labels))

    def decision_function(self, X: Any) -> np.ndarray:
        """The outputs of the network: [samples, classes]; for two classes their difference, [samples]."""
        outputs = self._outputs(X)
        return outputs[:, 1] - outputs[:, 0] if len(self.classes_) == 2 else outputs

    def predict_proba(self, X: Any) -> np.ndarray:
        """The probability of each class, [samples, classes], in the order of ``classes_``: the softmax of the outputs."""
        outputs = self._outputs(X).astype(np.float64)
        powers = np.exp(outputs - outputs.max(axis=1, keepdims=True))
        return powers / powers.sum(axis=1, keepdims=True)

    def predict(self, X: Any) -> np.ndarray:
        """The most probable class of each sample, [samples]."""
        best = self._outputs(X).argmax(axis=1)
        return self.classes_[best]


class SparseRegressor(RegressorMixin, _SparseEstimator):
    """A regressor for one or several numbers whose network has random sparse edges from the beginning.

    Training sees each target less its mean, divided by its standard deviation, both of the first call of fit() or
    partial_fit() that made the network; losses are in these units. Other parameters are those of :class:`SparseClassifier`.

    :param loss: "mean-square", or "huber" for targets with outliers
    :param delta: of huber: the error, in standard deviations of the target, from which on the loss is a line

    After fit: ``network_`` (the trained :class:`Network`, whose last layer gives targets as they were), ``history_`` (a list of
    :class:`Epoch`), ``best_epoch_`` (None without a validation_fraction) and ``n_features_in_``.
    """

    loss: str  #: "mean-square" or "huber"
    _answers = "targets"
    __init__ = _constructor(without=("class_weight",), loss="mean-square")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> SparseRegressor:
        """Train a new network; with ``warm_start`` that of the fit before.

        :param X: samples [samples, features], dense or of scipy.sparse
        :param y: the wanted numbers of each sample, [samples] or [samples, outputs]
        :param sample_weight: what each sample counts, [samples], from 0 on, scaled to the mean 1
        """
        X, targets = self._taken(X, y, True)
        seed = self._seed()
        if self.warm_start and hasattr(self, "network_"):
            self._require_same(X.shape[1], targets.shape[1])
            start = self._trained
        else:
            start = self._begun(X, targets, seed)
        return self._fit(start, X, (targets - self._mean) / self._deviation, None, seed, weights_of(sample_weight, None, None, len(targets)))

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> SparseRegressor:
        """Train with some samples, each once: steps with ``batch`` samples at a time, in their order, at the rate without schedule.

        The moments of the optimizer go on from call to call, but neither with a pickle nor from fit().

        :param X: samples [samples, features], dense or of scipy.sparse
        :param y: the wanted numbers of each sample, [samples] or [samples, outputs]
        :param sample_weight: what each sample counts, [samples], from 0 on; not scaled
        """
        is_first = not hasattr(self, "network_")
        X, targets = self._taken(X, y, is_first)
        if is_first:
            self._trained = self._begun(X, targets, self._seed())
        else:
            self._require_same(X.shape[1], targets.shape[1])
        weights = weights_of(sample_weight, None, None, len(targets))
        return self._fit_part(X, (targets - self._mean) / self._deviation, weights)

    def predict(self, X: Any) -> np.ndarray:
        """The numbers of each sample, float64: [samples], or [samples, outputs] if y had two dimensions in the last fit."""
        outputs = self._outputs(X).astype(np.float64)
        return outputs[:, 0] if self._is_flat else outputs

    def _begun(self, X: Any, targets: np.ndarray, seed: int) -> Network:
        """A new network, and the units in which it is trained."""
        self._mean, deviation = targets.mean(axis=0), targets.std(axis=0)
        self._deviation = np.where(deviation > 0, deviation, 1.0)
        return self._new_network(X.shape[1], targets.shape[1], seed)

    def _of_answers(self, trained: Network) -> Network:
        weights, biases, activations = trained.to_scipy()
        last = weights[-1].copy()
        last.data = last.data * np.repeat(self._deviation, np.diff(last.indptr))
        biases[-1] = biases[-1] * self._deviation + self._mean
        return Network.from_scipy([*weights[:-1], last], biases, activations)

    def _taken(self, X: Any, y: Any, is_first: bool) -> tuple[Any, np.ndarray]:
        """Samples, and targets [samples, outputs]."""
        if to_name(self.loss, "loss") not in ("mean-square", "huber"):
            raise ValueError(f"the loss of a regressor is {self.loss!r}, expected 'mean-square' or 'huber'")
        X, y = validate_data(
            self, X, y, accept_sparse="csr", dtype=(np.float64, np.float32), multi_output=True, y_numeric=True, reset=is_first
        )
        self._is_flat = y.ndim == 1
        return X, y.reshape(len(y), -1).astype(np.float64)

    def _require_same(self, num_features: int, num_outputs: int) -> None:
        if (num_features, num_outputs) != (self.network_.num_inputs, self.network_.num_outputs):
            raise ValueError(
                f"found {num_features} features and {num_outputs} targets, expected {self.network_.num_inputs} and "
                f"{self.network_.num_outputs} as in the fit before"
            )
