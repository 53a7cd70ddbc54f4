"""A classifier in the manner of scikit-learn."""

from __future__ import annotations

import inspect
import numbers
from typing import Any, Callable, Sequence

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.model_selection import train_test_split
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from . import generate
from ._activation import ActivationLike
from ._network import Network
from ._options import refuse_names_of_others
from ._training import Epoch, Training, train


class SparseClassifier(ClassifierMixin, BaseEstimator):
    """A classifier whose network has random sparse edges from the beginning.

    :param hidden: outputs of each hidden layer; a number for one layer
    :param density: probability of every edge, above 0 and at most 1
    :param activation: of the hidden layers; the last layer is linear, its softmax gives probabilities
    :param initial: weights to begin with: "he", or "identity" for hundreds of layers of equal width
    :param optimizer: as of :func:`varve.train`; ``momentum``, ``beta1``, ``beta2`` and ``epsilon`` are its parameters
    :param rate: learning rate; 0.05 by default, of the Adam family 0.001
    :param rate_schedule: "constant", "step" (times ``rate_factor`` every ``rate_every`` epochs) or "cosine", the default
    :param warm_up: steps at the beginning in which the rate rises
    :param l2: decay of weights
    :param batch: samples of a step
    :param epochs: passes over the samples. Batches are smaller and passes more than in :func:`varve.train`, as samples are few
        where estimators are used; all other defaults are the same
    :param pattern: "keep" the edges, or move those of the smallest weights: "set" (to random places) or "rigl" (to the
        places with the largest gradients); ``pattern_fraction``, ``pattern_every``, ``pattern_until`` and
        ``pattern_schedule`` are those of :func:`varve.train`
    :param validation_fraction: part of the samples, drawn so that classes keep their shares, that is not trained with, but
        decides which epoch's network is kept; 0: none
    :param patience: with a validation_fraction: stop after so many epochs without a lower validation loss
    :param micro_batch: samples at a time; as many as fit by default
    :param recompute: layers whose activations are computed twice: "auto", "none" or a number, see :func:`varve.train`
    :param memory_limit: bytes of host memory, as in :func:`varve.train`
    :param device_memory_limit: bytes on the device; weights that do not fit are streamed through it
    :param precision: "float32" or "float64"
    :param backend: a name of :func:`varve.backends`; the fastest one by default
    :param random_state: seed of edges, weights, the order of samples and of the places of ``pattern="set"``
    :param warm_start: fit() goes on from the network of the fit before, with the same classes
    :param progress: called with the :class:`Epoch` after each epoch, or True for a bar

    After fit: ``network_`` (the trained :class:`Network`), ``history_`` (a list of :class:`Epoch`), ``best_epoch_`` (None
    without a validation_fraction), ``classes_`` and ``n_features_in_``.
    """

    _steps: Training | None = None  # of partial_fit

    @refuse_names_of_others
    def __init__(
        self,
        hidden: Sequence[int] | int = (128,),
        *,
        density: float = 0.2,
        activation: ActivationLike = "relu",
        initial: str = "he",
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
        batch: int = 32,
        epochs: int = 60,
        pattern: str = "keep",
        pattern_fraction: float = 0.3,
        pattern_every: int = 100,
        pattern_until: float = 0.75,
        pattern_schedule: str = "cosine",
        validation_fraction: float = 0.0,
        patience: int | None = None,
        micro_batch: int | None = None,
        recompute: str | int = "auto",
        memory_limit: int | None = None,
        device_memory_limit: int | None = None,
        precision: str = "float32",
        backend: str | None = None,
        random_state: Any = None,
        warm_start: bool = False,
        progress: Callable[[Epoch], Any] | bool | None = None,
    ) -> None:
        self.hidden = hidden
        self.density = density
        self.activation = activation
        self.initial = initial
        self.optimizer = optimizer
        self.rate = rate
        self.rate_schedule = rate_schedule
        self.rate_every = rate_every
        self.rate_factor = rate_factor
        self.warm_up = warm_up
        self.momentum = momentum
        self.beta1 = beta1
        self.beta2 = beta2
        self.epsilon = epsilon
        self.l2 = l2
        self.batch = batch
        self.epochs = epochs
        self.pattern = pattern
        self.pattern_fraction = pattern_fraction
        self.pattern_every = pattern_every
        self.pattern_until = pattern_until
        self.pattern_schedule = pattern_schedule
        self.validation_fraction = validation_fraction
        self.patience = patience
        self.micro_batch = micro_batch
        self.recompute = recompute
        self.memory_limit = memory_limit
        self.device_memory_limit = device_memory_limit
        self.precision = precision
        self.backend = backend
        self.random_state = random_state
        self.warm_start = warm_start
        self.progress = progress

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def fit(self, X: Any, y: Any) -> SparseClassifier:
        """Train a new network; with ``warm_start`` that of the fit before.

        :param X: samples [samples, features], dense or of scipy.sparse
        :param y: the class of each sample, [samples]
        """
        X, y = validate_data(self, X, y, accept_sparse="csr", dtype=(np.float64, np.float32))
        check_classification_targets(y)
        classes, labels = np.unique(y, return_inverse=True)
        if len(classes) < 2:
            raise ValueError(f"y has only one class ({classes[0]}), expected at least two")
        seed = self._seed()
        if self.warm_start and hasattr(self, "network_"):
            if not np.array_equal(classes, self.classes_) or X.shape[1] != self.network_.num_inputs:
                raise ValueError("warm_start goes on with the same classes and features as the fit before")
            start = self.network_
        else:
            start = self._new_network(X.shape[1], len(classes), seed)
        self.classes_: np.ndarray = classes
        training = self._train(start, X, labels, seed)
        self._steps = None
        self.network_: Network = training.best
        self.history_ = training.history
        self.best_epoch_ = training.best_epoch
        return self

    def partial_fit(self, X: Any, y: Any, classes: Any = None) -> SparseClassifier:
        """Train with some samples, each once: steps with ``batch`` samples at a time, in their order, at the rate without schedule.

        The moments of the optimizer go on from call to call, but neither with a pickle nor from fit().

        :param X: samples [samples, features], dense or of scipy.sparse
        :param y: the class of each sample, [samples]
        :param classes: all classes that will come; needed in the first call
        """
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
            self.classes_, self.network_ = all_classes, self._new_network(X.shape[1], len(all_classes), self._seed())
        if self._steps is None:
            options = {**self._options(), "rate_schedule": "constant", "warm_up": 0, "seed": self._seed()}
            self._steps = Training(self.network_, **options)
        for first in range(0, X.shape[0], self.batch):
            self._steps.step(X[first : first + self.batch], labels[first : first + self.batch])
        self.network_ = self._steps.network
        return self

    def __getstate__(self) -> Any:
        return {**super().__getstate__(), "_steps": None}

    def _new_network(self, num_features: int, num_classes: int, seed: int) -> Network:
        return generate.random([num_features, *np.atleast_1d(self.hidden), num_classes], density=self.density, seed=seed).with_initial_weights(
            self.initial, activation=self.activation, last_activation="identity", seed=seed
        )

    def _options(self) -> dict[str, Any]:
        """The parameters that a Training has, too."""
        parameters = self.get_params(deep=False)
        return {name: parameters[name] for name in inspect.signature(Training).parameters if name in parameters}

    def _train(self, start: Network, X: Any, labels: np.ndarray, seed: int) -> Training:
        """Trains with all samples, or with those that validation leaves."""
        validation = None
        if not 0 <= self.validation_fraction < 1:
            raise ValueError(f"validation_fraction is {self.validation_fraction}, expected at least 0 and below 1")
        if self.validation_fraction > 0:
            X, X_validation, labels, labels_validation = train_test_split(
                X, labels, test_size=self.validation_fraction, stratify=labels, random_state=seed
            )
            validation = (X_validation, labels_validation)
        return train(start, X, labels, validation=validation, seed=seed, **self._options())

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

    def _outputs(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", dtype=(np.float64, np.float32), reset=False)
        return self.network_.infer(X, precision=self.precision, backend=self.backend)

    def _seed(self) -> int:
        if isinstance(self.random_state, numbers.Integral):
            return int(self.random_state)
        return int(check_random_state(self.random_state).randint(2**31 - 1))
