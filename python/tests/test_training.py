"""Training against a step computed with NumPy, and what the function promises."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import varve


@pytest.fixture
def start():
    return varve.generate.random([20, 30, 4], density=0.4, seed=2).with_initial_weights(
        activation="relu", last_activation="identity", seed=2
    )


@pytest.fixture
def samples():
    generator = np.random.default_rng(5)
    X = generator.standard_normal((300, 20))
    return X, (X[:, :4] + 0.1 * generator.standard_normal((300, 4))).argmax(axis=1)


def gradients(network, X, labels):
    """Gradients of the mean cross-entropy of a network with one hidden layer of ReLU: weights and biases."""
    (w1, w2) = (layer.weights.toarray() for layer in network.layers())
    b1, b2 = (np.broadcast_to(layer.bias, w.shape[:1]) for layer, w in zip(network.layers(), (w1, w2)))
    hidden = np.maximum(X @ w1.T + b1, 0)
    outputs = hidden @ w2.T + b2
    error = np.exp(outputs - outputs.max(axis=1, keepdims=True))
    error /= error.sum(axis=1, keepdims=True)
    error[np.arange(len(X)), labels] -= 1
    error /= len(X)
    back = (error @ w2) * (hidden > 0)
    return (back.T @ X, error.T @ hidden), (back.sum(axis=0), error.sum(axis=0))


def test_one_step_is_that_of_numpy(start, samples):
    X, labels = samples
    trained = varve.train(
        start, X, labels, optimizer="sgd", rate=0.5, batch=300, epochs=1, precision="float64"
    ).network
    of_weights, of_biases = gradients(start, X, labels)
    for before, after, weight, bias in zip(start.layers(), trained.layers(), of_weights, of_biases):
        edges = before.weights.toarray() != 0
        expected = before.weights.toarray() - 0.5 * np.where(edges, weight, 0)
        np.testing.assert_allclose(after.weights.toarray(), expected, atol=1e-12)
        np.testing.assert_allclose(after.bias, before.bias - 0.5 * bias, atol=1e-12)
        assert np.abs(weight).max() > 1e-3


def test_losses_fall_and_edges_stay(start, samples):
    seen = []
    result = varve.train(start, *samples, epochs=30, rate=0.01, batch=32, progress=seen.append)
    assert seen == result.history and [epoch.epoch for epoch in seen] == list(range(1, 31))
    assert result.history[-1].loss < 0.5 * result.history[0].loss and result.history[-1].accuracy > 0.9
    assert result.network.num_edges == start.num_edges and result.best is result.network and result.best_epoch is None
    assert result.network.evaluate(*samples).accuracy > 0.9


def test_bits_depend_on_seed_but_not_on_backend(start, samples):
    def trained(**options):
        return varve.train(start, *samples, epochs=2, **options).network.weights_hash()

    first = trained()
    assert {trained(backend=backend) for backend in varve.backends()} == {first}
    assert trained(seed=2) != first and trained(precision="float64") != first


def test_sparse_samples_are_the_same_samples(start, samples):
    X, labels = samples
    X = np.where(np.abs(X) < 0.7, 0, X)
    dense, sparse = (varve.train(start, form, labels, epochs=2) for form in (X, sp.csr_array(X)))
    assert dense.network.weights_hash() == sparse.network.weights_hash()


def test_targets(start, samples):
    X, labels = samples
    targets = np.eye(4)[labels]
    by_targets = varve.train(start, X, targets=targets, epochs=3)
    by_labels = varve.train(start, X, labels, loss="mean-square", epochs=3)
    assert by_targets.network.weights_hash() == by_labels.network.weights_hash()
    assert by_targets.history[0].accuracy is None and by_labels.history[0].accuracy is not None


def test_validation_patience_and_best(start, samples):
    X, labels = samples
    result = varve.train(
        start, X[:40], labels[:40], validation=(X[40:], labels[40:]), epochs=500, rate=0.02, batch=8, patience=3
    )
    losses = [epoch.validation_loss for epoch in result.history]
    assert len(losses) < 500 and result.best_epoch == 1 + int(np.argmin(losses)) == len(losses) - 3
    assert result.best.evaluate(X[40:], labels[40:]).loss == pytest.approx(min(losses), rel=1e-6)
    assert result.network.weights_hash() != result.best.weights_hash()


def test_progress_may_end_a_training(start, samples):
    class Enough(Exception):
        pass

    def stop(epoch):
        if epoch.epoch == 3:
            raise Enough

    with pytest.raises(Enough):
        varve.train(start, *samples, epochs=1000000, progress=stop)


@pytest.mark.parametrize(
    "options, sentence",
    [
        ({}, "labels or targets"),
        ({"labels": [0, 1], "targets": [[1.0] * 4] * 2}, "labels or targets"),
        ({"labels": [0]}, r"labels of X have the shape \(1,\), expected \(2,\)"),
        ({"labels": [0, 4]}, "X: sample 1 has the label 4, expected 0 to 3"),
        ({"labels": [0, -1]}, "sample 1 has the label -1"),
        ({"labels": [0.5, 1]}, "not whole numbers"),
        ({"targets": [[1.0] * 3] * 2}, r"targets of X have the shape \(2, 3\), expected \(2, 4\)"),
        ({"targets": [[1.0] * 4] * 2, "loss": "cross-entropy"}, "cross-entropy needs labels"),
        ({"labels": [0, 1], "patience": 1}, "patience needs validation"),
        ({"labels": [0, 1], "optimizer": "newton"}, "no optimizer 'newton'"),
        ({"labels": [0, 1], "loss": "hinge"}, "no loss 'hinge'"),
        ({"labels": [0, 1], "rate": -1.0}, "-1"),
        ({"labels": [0, 1], "epochs": 0}, "at least 1 epoch"),
        ({"labels": [0, 1], "momentum": 2.0, "optimizer": "momentum"}, "momentum"),
        ({"labels": [0, 1], "validation": (np.zeros((0, 20)), [])}, "validation holds no samples"),
        ({"labels": [0, 1], "validation": (np.zeros((2, 3)), [0, 1])}, r"validation has the shape \(2, 3\)"),
    ],
)
def test_wrong_trainings_are_refused_by_a_sentence(start, options, sentence):
    with pytest.raises((varve.InputError, varve.UsageError), match=sentence):
        varve.train(start, np.ones((2, 20)), **options)
