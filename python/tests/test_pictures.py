"""Pictures of networks and trainings, by matplotlib."""

from __future__ import annotations

import matplotlib
import numpy as np
import varve

matplotlib.use("agg")


def test_edges_and_weights_of_layers(network, tmp_path):
    axes = network.plot()
    assert axes.shape == (2, 4) and axes[0, 2].get_title() == "layer 2"
    shown = axes[0, 0].images[0].get_array()
    assert shown.shape == (128, 70) and 0 < shown.mean() < 1 and shown.max() <= 1
    assert shown.sum() > 0.9 * network[0].weights.nnz / 2
    assert sum(bar.get_height() for bar in axes[1, 1].patches) == network[1].weights.nnz
    axes[0, 0].figure.savefig(tmp_path / "network.png")
    assert network.plot([-1]).shape == (2, 1)
    deep = varve.generate.radixnet(32, 50).plot()
    assert [axis.get_title() for axis in deep[0]] == [f"layer {number}" for number in (0, 1, 2, 47, 48, 49)]


def test_curves_of_a_training(tmp_path):
    X = np.random.default_rng(1).random((60, 5))
    start = varve.generate.random([5, 8, 3], density=0.8).with_initial_weights(last_activation="identity")
    training = varve.train(start, X, X[:, :3].argmax(1), validation=(X[:20], X[:20, :3].argmax(1)), epochs=4)
    loss, accuracy = training.plot()
    assert loss.get_ylabel() == "loss" and [line.get_label() for line in accuracy.lines] == ["training", "validation", "best epoch"]
    np.testing.assert_array_equal(loss.lines[1].get_ydata(), [epoch.validation_loss for epoch in training.history])
    loss.figure.savefig(tmp_path / "training.png")
    assert len(varve.train(start, X, targets=X[:, :3], epochs=2).plot()) == 1
