"""A classifier in the manner of scikit-learn."""

from __future__ import annotations

import numbers
from typing import Any, Callable, Sequence

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from . import generate
from ._activation import ActivationLike
from ._training import Epoch, train


class SparseClassifier(ClassifierMixin, BaseEstimator):
    """A classifier whose network has random sparse edges from the beginning.

    :param hidden: outputs of each hidden layer
    :param density: probability of every edge, above 0 and at most 1
    :param activation: of the hidden layers; the last layer is linear, its softmax gives probabilities
    :param initial: weights to begin with: "he", or "identity" for hundreds of layers of equal width
    :param optimizer: "sgd", "momentum", "nesterov" or "adam"
    :param rate: learning rate
    :param rate_schedule: "constant", "step" or "cosine"
    :param l2: decay of weights
    :param batch: samples of a step
    :param epochs: passes over the samples
    :param precision: "float32" or "float64"
    :param backend: a name of :func:`varve.backends`; the fastest one by default
    :param random_state: seed of edges, weights and the order of samples
    :param progress: called with the :class:`Epoch` after each epoch

    After fit: ``network_`` (the trained :class:`Network`), ``history_`` (a list of :class:`Epoch`), ``classes_`` and
    ``n_features_in_``.
    """

    def __init__(
        self,
        hidden: Sequence[int] = (128,),
        *,
        density: float = 0.2,
        activation: ActivationLike = "relu",
        initial: str = "he",
        optimizer: str = "adam",
        rate: float = 0.005,
        rate_schedule: str = "constant",
        l2: float = 0.0,
        batch: int = 32,
        epochs: int = 60,
        precision: str = "float32",
        backend: str | None = None,
        random_state: Any = None,
        progress: Callable[[Epoch], Any] | None = None,
    ) -> None:
        self.hidden = hidden
        self.density = density
        self.activation = activation
        self.initial = initial
        self.optimizer = optimizer
        self.rate = rate
        self.rate_schedule = rate_schedule
        self.l2 = l2
        self.batch = batch
        self.epochs = epochs
        self.precision = precision
        self.backend = backend
        self.random_state = random_state
        self.progress = progress

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def fit(self, X: Any, y: Any) -> SparseClassifier:
        """Train a new network.

        :param X: samples [samples, features], dense or of scipy.sparse
        :param y: the class of each sample, [samples]
        """
        X, y = validate_data(self, X, y, accept_sparse="csr", dtype=(np.float64, np.float32))
        check_classification_targets(y)
        self.classes_, labels = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(f"y has only one class ({self.classes_[0]}), expected at least two")
        seed = self._seed()
        widths = [X.shape[1], *self.hidden, len(self.classes_)]
        start = generate.random(widths, density=self.density, seed=seed).with_initial_weights(
            self.initial, activation=self.activation, last_activation="identity", seed=seed
        )
        training = train(
            start,
            X,
            labels,
            optimizer=self.optimizer,
            rate=self.rate,
            rate_schedule=self.rate_schedule,
            l2=self.l2,
            batch=self.batch,
            epochs=self.epochs,
            seed=seed,
            precision=self.precision,
            backend=self.backend,
            progress=self.progress,
        )
        self.network_ = training.network
        self.history_ = training.history
        return self

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
