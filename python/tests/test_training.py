"""Training against a step computed with NumPy, and what the function promises."""

from __future__ import annotations

import gc
import inspect
import pickle
import re
import signal
import sys
import threading
import weakref

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


def test_adamw_is_that_of_numpy(start, samples):
    """Loshchilov and Hutter, "Decoupled weight decay regularization", algorithm 2, with gradients by NumPy."""
    X, labels = samples
    options = {"optimizer": "adamw", "rate": 0.01, "rate_schedule": "constant", "l2": 0.1, "batch": 300, "precision": "float64"}
    network, moments = start, [[(0.0, 0.0)] * start.num_layers for _ in range(2)]
    for step in range(1, 4):
        trained = varve.train(start, X, labels, epochs=step, **options).network
        found = gradients(network, X, labels)
        for number, (before, after) in enumerate(zip(network.layers(), trained.layers())):
            edges = before.weights.toarray() != 0
            for kind, (values, l2) in enumerate(((before.weights.toarray(), 0.1), (before.bias, 0.0))):
                gradient, (first, second) = found[kind][number], moments[kind][number]
                first, second = 0.9 * first + 0.1 * gradient, 0.999 * second + 0.001 * gradient**2
                moments[kind][number] = first, second
                direction = first / (1 - 0.9**step) / (np.sqrt(second / (1 - 0.999**step)) + 1e-8)
                expected = values - 0.01 * (direction + l2 * values)
                np.testing.assert_allclose(after.bias if kind else after.weights.toarray(), expected if kind else np.where(edges, expected, 0), atol=1e-9)
        network = trained


def test_losses_fall_and_edges_stay(start, samples):
    seen = []
    result = varve.train(start, *samples, epochs=30, optimizer="adam", rate=0.01, batch=32, progress=seen.append)
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
    assert len({first, trained(seed=2**63), trained(seed=2**64 - 1)}) == 3


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


def test_logistic_of_many_labels_takes_sparse_targets(start, samples):
    X, labels = samples
    targets = (np.eye(4)[labels] + np.eye(4)[labels[::-1]]).clip(0, 1)
    dense, sparse = (varve.train(start, X, targets=form, loss="logistic", epochs=3, rate=0.5) for form in (targets, sp.csr_array(targets)))
    assert dense.network == sparse.network and dense.history[-1].loss < dense.history[0].loss
    found = dense.network.evaluate(X, targets=sp.csr_array(targets), loss="logistic")
    outputs = dense.network.infer(X).astype(np.float64)
    assert found.loss == pytest.approx(np.mean(np.logaddexp(0, outputs) - outputs * targets), rel=1e-6) and found.accuracy is None
    by_labels, by_targets = (varve.train(start, X, loss="logistic", epochs=2, **answers) for answers in ({"labels": labels}, {"targets": np.eye(4)[labels]}))
    assert by_labels.network == by_targets.network


def test_logistic_of_one_output_takes_labels_of_two_classes(samples):
    X, _ = samples
    labels = (X[:, 0] > X[:, 1]).astype(int)
    start = varve.generate.random([20, 30, 1], density=0.4, seed=2).with_initial_weights(activation="relu", last_activation="identity", seed=2)
    trained = varve.train(start, X, labels, loss="logistic", epochs=30, rate=0.2, validation=(X, labels))
    same = varve.train(start, X, targets=labels.reshape(-1, 1), loss="logistic", epochs=30, rate=0.2)
    assert trained.network == same.network and trained.history[-1].validation_accuracy > 0.95
    outputs = trained.network.infer(X)[:, 0]
    found = trained.network.evaluate(X, labels, loss="logistic")
    assert found.accuracy == np.mean((outputs > 0) == labels) == trained.history[-1].validation_accuracy
    for answers in (labels + 1, -labels):
        with pytest.raises(varve.InputError, match=r"has the label (2|-1), expected 0 to 1"):
            varve.train(start, X, answers, loss="logistic")
    with pytest.raises(varve.UsageError, match="give the loss logistic for labels 0 and 1"):
        varve.train(start, X, labels)
    one = varve.Training(start, loss="logistic").step(X[:1], labels[:1])
    assert one.accuracy in (0, 1) and one.loss > 0


def test_huber_is_half_of_mean_square_within_delta_and_lines_beyond(start, samples):
    X, labels = samples
    targets = np.eye(4)[labels]
    square, wide, narrow = (start.evaluate(X, targets=targets, loss=loss, delta=delta).loss for loss, delta in (("mean-square", 1), ("huber", 1e9), ("huber", 0.1)))
    assert 2 * wide == pytest.approx(square, rel=1e-14)
    sizes = np.abs(start.infer(X).astype(np.float64) - targets)
    assert narrow == pytest.approx(np.mean(np.where(sizes <= 0.1, sizes**2 / 2, 0.1 * (sizes - 0.05))), rel=1e-6)
    hashes = [varve.train(start, X, targets=targets, loss="huber", delta=delta, epochs=2).network.weights_hash() for delta in (0.1, 1.0, 1.0)]
    assert hashes[0] != hashes[1] == hashes[2]


def test_weights_of_samples_multiply_losses_and_gradients(start, samples):
    X, labels = samples
    weights = np.random.default_rng(1).integers(0, 4, size=300).astype(float)
    options = {"optimizer": "sgd", "precision": "float64"}

    def step(rate, X, labels, **answers):
        training = varve.Training(start, **options, batch=1000)
        return training.step(X, labels, **answers, rate=rate).loss, training.network

    loss, weighted = step(0.5, X, labels, sample_weight=weights)
    repeated = np.repeat(np.arange(300), weights.astype(int))
    other, expected = step(0.5 * len(repeated) / 300, X[repeated], labels[repeated])  # the mean divides by the number of samples
    assert loss == pytest.approx(other * len(repeated) / 300, rel=1e-12)
    for found, wanted in zip(weighted, expected):
        np.testing.assert_allclose(found.weights.data, wanted.weights.data, rtol=0, atol=1e-13)
    same = varve.train(start, X, labels, epochs=2, sample_weight=weights.tolist())
    parts = varve.Training(start, epochs=2)
    assert [epoch.loss for epoch in parts.epochs(X, labels, sample_weight=weights)] == [epoch.loss for epoch in same.history]
    assert same.network != varve.train(start, X, labels, epochs=2).network
    assert varve.train(start, X, labels, epochs=2, sample_weight=np.ones(300)).network == varve.train(start, X, labels, epochs=2).network
    assert varve.train(start, X, labels, epochs=2, sample_weight=np.zeros(300)).network == start


def test_weights_of_classes_are_weights_of_their_samples(start, samples):
    X, labels = samples
    labels = np.where(np.arange(300) % 3 > 0, 0, labels)
    by_class, by_sample = (
        varve.train(start, X, labels, epochs=2, **options).network
        for options in ({"class_weight": {1: 2.5, 3: 0}}, {"sample_weight": np.array([1, 2.5, 1, 0])[labels]})
    )
    assert by_class == by_sample
    counts = np.bincount(labels)
    balanced, same = (
        varve.train(start, X, labels, epochs=2, **options).network
        for options in ({"class_weight": "balanced", "sample_weight": np.full(300, 0.5)}, {"sample_weight": 0.5 * (300 / (4 * counts))[labels]})
    )
    assert balanced == same
    steps = [varve.Training(start, class_weight={1: 2.0}), varve.Training(start)]
    steps[0].step(X[:100], labels[:100])
    steps[1].step(X[:100], labels[:100], sample_weight=np.where(labels[:100] == 1, 2.0, 1.0))
    assert steps[0].network == steps[1].network
    with pytest.raises(varve.UsageError, match="step does not know all labels"):
        varve.Training(start, class_weight="balanced").step(X, labels)
    with pytest.raises(varve.UsageError, match="class_weight needs labels"):
        varve.train(start, X, targets=np.eye(4)[labels], class_weight="balanced")
    with pytest.raises(varve.UsageError, match="a receipt does not cover weights"):
        varve.train(start, X, labels, sample_weight=np.ones(300), receipt_every=1)


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


@pytest.mark.parametrize("pattern", ["set", "rigl"])
def test_patterns_change_and_keep_their_sizes(start, samples, pattern):
    options = {"epochs": 4, "pattern": pattern, "pattern_every": 5, "pattern_fraction": 0.2, "batch": 32}
    result = varve.train(start, *samples, **options)
    assert [layer.weights.nnz for layer in result.network.layers()] == [layer.weights.nnz for layer in start.layers()]
    moved = sum(
        ((before.weights.toarray() != 0) & (after.weights.toarray() == 0)).sum()
        for before, after in zip(start.layers(), result.network.layers())
    )
    dropped = sum(epoch.dropped_edges for epoch in result.history)
    returned = sum(epoch.returned_edges for epoch in result.history)
    assert 10 < moved <= dropped - returned and 0 <= returned < dropped
    again = {varve.train(start, *samples, backend=backend, **options).network.weights_hash() for backend in varve.backends()}
    assert again == {result.network.weights_hash()}
    other = varve.train(start, *samples, **{**options, "pattern_schedule": "constant"}).network
    few = varve.train(start, *samples, **{**options, "pattern_until": 6.0})
    assert other.weights_hash() != result.network.weights_hash() and sum(epoch.dropped_edges for epoch in few.history) < dropped
    keep = varve.train(start, *samples, epochs=4, batch=32)
    assert all(epoch.dropped_edges == 0 for epoch in keep.history)


def test_memory_options_change_no_bit(samples):
    X, labels = samples
    start = varve.generate.random([20] + [24] * 6 + [4], density=0.4, seed=2).with_initial_weights(last_activation="identity")
    whole = varve.train(start, X, labels, epochs=2, batch=256)
    assert (whole.micro_batch, whole.keep_every) == (256, 1)
    parts = varve.train(start, X, labels, epochs=2, batch=256, micro_batch=64, recompute=3)
    assert (parts.micro_batch, parts.keep_every) == (64, 3)
    assert parts.network.weights_hash() == whole.network.weights_hash()
    assert varve.train(start, X, labels, epochs=2, batch=256, recompute="none").keep_every == 1


@pytest.mark.parametrize("options", [{}, {"pattern": "rigl", "pattern_every": 3}, {"checkpoint_every": 4, "optimizer": "sgd"}])
def test_a_checkpoint_continues_with_the_same_bits(start, samples, tmp_path, options):
    class Stop(Exception):
        pass

    X, labels = samples
    path = tmp_path / "state.safetensors"
    common = {"epochs": 5, "batch": 64, "validation": (X[:50], labels[:50]), **options}
    without = {name: value for name, value in common.items() if name != "checkpoint_every"}
    whole = varve.train(start, X, labels, **without)
    seen = []

    def stop(epoch):
        seen.append(epoch)
        if epoch.epoch == 2:
            raise Stop

    with pytest.raises(Stop):
        varve.train(start, X, labels, checkpoint=path, progress=stop, **common)
    result = varve.train(start, X, labels, checkpoint=path, **common)
    assert result.history == whole.history and seen == whole.history[:2]
    assert result.network.weights_hash() == whole.network.weights_hash()
    finished = varve.train(start, X, labels, checkpoint=path, **common)
    assert finished.history == whole.history and finished.network.weights_hash() == whole.network.weights_hash()
    with pytest.raises(varve.UsageError, match="is of a training with batch 64, not 32"):
        varve.train(start, X, labels, checkpoint=path, **{**common, "batch": 32})
    path.write_bytes(b"broken")
    with pytest.warns(UserWarning, match="state.safetensors"):
        varve.train(start, X, labels, checkpoint=path, **common)


@pytest.mark.parametrize("pattern", ["keep", "set"])
def test_the_best_network_is_that_of_all_epochs_after_an_interruption(start, samples, tmp_path, pattern):
    class Stop(Exception):
        pass

    X, labels = samples
    options = {"validation": (X[40:], labels[40:]), "epochs": 40, "rate": 0.05, "batch": 8, "pattern": pattern, "pattern_every": 7}
    whole = varve.train(start, X[:40], labels[:40], **options)
    assert 1 < whole.best_epoch < 35 and whole.best.weights_hash() != whole.network.weights_hash()
    for last in (whole.best_epoch, whole.best_epoch + 3):

        def stop(epoch):
            if epoch.epoch == last:
                raise Stop

        options["checkpoint"] = tmp_path / f"{last}.safetensors"
        with pytest.raises(Stop):
            varve.train(start, X[:40], labels[:40], progress=stop, **options)
        for _ in range(2):  # the second time it is finished
            found = varve.train(start, X[:40], labels[:40], **options)
            assert found.best_epoch == whole.best_epoch and found.history == whole.history
            assert found.best.weights_hash() == whole.best.weights_hash()
            assert found.network.weights_hash() == whole.network.weights_hash()


def test_epochs_one_by_one_are_those_of_train(start, samples):
    X, labels = samples
    options = {"epochs": 4, "batch": 32}
    whole = varve.train(start, X[40:], labels[40:], validation=(X[:40], labels[:40]), **options)
    training = varve.Training(start, **options)
    assert training.network is start and training.history == [] and training.best_epoch is None and training.micro_batch == 0
    own = []
    for epoch in training.epochs(X[40:], labels[40:], validation=(X[:40], labels[:40])):
        found = training.network.evaluate(X[:40], labels[:40])  # any metric of one's own, with the network of the moment
        assert found.loss == pytest.approx(epoch.validation_loss, rel=1e-6) and training.history[-1] == epoch
        own.append(found.loss)
    assert training.history == whole.history and training.network == whole.network and training.num_steps == whole.num_steps == 36
    assert training.best_epoch == whole.best_epoch == 1 + int(np.argmin(own)) and training.best == whole.best
    assert list(training.epochs()) == []


def test_a_training_that_is_stopped_holds_what_there_is_and_goes_on(start, samples):
    options = {"epochs": 5, "batch": 64, "validation": None}
    whole = varve.train(start, *samples, **options)
    del options["validation"]
    for leave in ("stop", "break", "progress"):
        training = varve.Training(start, progress=lambda epoch: leave == "progress" and epoch.epoch == 2 and training.stop(), **options)
        for epoch in training.epochs(*samples):
            if epoch.epoch == 2 and leave == "stop":
                training.stop()
            if epoch.epoch == 2 and leave == "break":
                break
        assert training.history == whole.history[:2] and training.network.evaluate(*samples).loss < whole.history[1].loss
        kept = pickle.loads(pickle.dumps(training))
        assert kept.history == training.history and kept.network == training.network and list(kept.epochs()) == []
        assert [epoch.epoch for epoch in training.epochs()] == [3, 4, 5] and training.network == whole.network
        with pytest.raises(varve.UsageError, match=r"has its samples: epochs\(\) continues"):
            training.epochs(*samples)


@pytest.fixture
def interrupts():
    """Shells ignore SIGINT in what they run in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_ctrl_c_ends_the_epochs_with_what_there_is(start, samples, interrupts):
    options = {"epochs": 1_000_000, "batch": 64}
    training = varve.Training(start, **options)
    epochs = training.epochs(*samples)
    next(epochs)
    timer = threading.Timer(0.3, signal.raise_signal, [signal.SIGINT])
    timer.start()
    with pytest.warns(UserWarning, match=r"interrupted in epoch \d+; the training holds what there is"):
        assert len(list(epochs)) >= 0
    assert 1 <= len(training.history) < 1_000_000 and training.network.weights_hash() != start.weights_hash()
    assert next(training.epochs()).epoch == len(training.history)
    timer = threading.Timer(0.3, signal.raise_signal, [signal.SIGINT])
    timer.start()
    with pytest.warns(UserWarning, match="interrupted in epoch"):
        assert varve.train(start, *samples, **options).num_steps > 0


def test_a_training_frees_its_network_and_samples_at_once(start, samples):
    training = varve.Training(start)
    next(training.epochs(*samples))
    gone = weakref.ref(training)
    gc.disable()
    try:
        del training
        assert gone() is None
    finally:
        gc.enable()
    assert varve.train(start, *samples, epochs=1)._run is None  # samples and moments are gone, too


def test_steps_are_those_of_numpy(start, samples):
    X, labels = samples
    training = varve.Training(start, optimizer="sgd", rate=0.5, precision="float64")
    found = training.step(X, labels)
    expected = varve.train(start, X, labels, optimizer="sgd", rate=0.5, batch=300, epochs=1, precision="float64")
    assert found.num_samples == 300 and found.loss == pytest.approx(expected.history[0].loss, rel=1e-12)
    assert found.accuracy == expected.history[0].accuracy
    for one, other in zip(training.network, expected.network):
        np.testing.assert_allclose(one.weights.toarray(), other.weights.toarray(), atol=1e-12)
    before = training.network
    training.step(X[:7], labels[:7], rate=0.1)
    of_weights, of_biases = gradients(before, X[:7], labels[:7])
    for one, other, weight, bias in zip(training.network, before, of_weights, of_biases):
        edges = other.weights.toarray() != 0
        np.testing.assert_allclose(one.weights.toarray(), other.weights.toarray() - 0.1 * np.where(edges, weight, 0), atol=1e-12)
        np.testing.assert_allclose(one.bias, other.bias - 0.1 * bias, atol=1e-12)


@pytest.mark.parametrize("pattern", ["keep", "rigl", "set"])
def test_equal_batches_give_equal_bits(start, samples, pattern):
    X, labels = samples

    def trained(form, **options):
        training = varve.Training(start, batch=100, pattern=pattern, pattern_every=2, pattern_until=6, **options)
        losses = [training.step(form(X[part : part + 90]), labels[part : part + 90]).loss for part in (0, 100, 200, 50, 0, 100, 10)]
        assert training.num_steps == 7 and training.history == []
        return losses, training.network

    losses, network = trained(np.asarray)
    assert all(trained(form, backend=backend) == (losses, network) for backend in varve.backends() for form in (np.asarray, sp.csr_array))
    assert network.num_edges == start.num_edges and losses[-1] < losses[0]
    moved = any((one.weights.indices != other.weights.indices).any() for one, other in zip(start, network))
    assert moved == (pattern != "keep")


def test_steps_take_targets(start, samples):
    X, labels = samples
    by_labels, by_targets = (varve.Training(start, loss="mean-square") for _ in range(2))
    found = by_targets.step(X, targets=np.eye(4)[labels])
    assert found.accuracy is None and found.loss == by_labels.step(X, labels).loss and by_labels.network == by_targets.network


@pytest.mark.parametrize(
    "options, call, sentence",
    [
        ({}, lambda training, X, y: training.step(X[:0], y[:0]), "X holds no samples"),
        ({}, lambda training, X, y: (training.step(X[:5], y[:5]), training.step(X, y)), "X holds 300 samples, expected at most 128"),
        ({}, lambda training, X, y: training.step(X, y[:5]), r"labels of X have the shape \(5,\)"),
        ({}, lambda training, X, y: training.step(X), "needs labels or targets"),
        ({}, lambda training, X, y: training.epochs(), r"needs samples the first time: epochs\(X, labels\)"),
        ({}, lambda training, X, y: (training.epochs(X, y), training.step(X, y)), "goes by epochs; steps need a training of their own"),
        ({}, lambda training, X, y: (training.step(X, y), training.epochs(X, y)), "has its samples"),
        ({}, lambda training, X, y: training.step(X[:5], y[:5], rate=-1), "rate is -1, expected a positive number"),
        ({}, lambda training, X, y: training.step(X[:5], y[:5], rate=np.nan), "rate is nan, expected a positive number"),
        ({}, lambda training, X, y: training.plot(), "no epoch yet"),
        ({"rate_schedule": "cosine"}, lambda training, X, y: training.step(X, y), "give it the rate"),
        ({"warm_up": 3}, lambda training, X, y: training.step(X, y), "give it the rate"),
        ({"pattern": "set"}, lambda training, X, y: training.step(X, y), "give a number of steps"),
        ({"checkpoint": "x.safetensors"}, lambda training, X, y: training.step(X, y), "checkpoints are written after epochs"),
    ],
)
def test_wrong_uses_are_refused_by_a_sentence(start, samples, options, call, sentence):
    training = varve.Training(start, **options)
    with pytest.raises((varve.InputError, varve.UsageError), match=sentence):
        call(training, *samples)


def test_a_loop_over_epochs_ends_where_another_has_ended_them(start, samples):
    training = varve.Training(start, epochs=3)
    first = training.epochs(*samples)
    assert next(first).epoch == 1
    assert [epoch.epoch for epoch in training.epochs()] == [2, 3] and list(first) == []


def test_options_are_checked_before_samples_come(start):
    for options in ({"optimizer": "newton"}, {"rate": -1.0}, {"backend": "abacus"}, {"pattern_fraction": 2.0, "pattern": "set"}):
        with pytest.raises(varve.UsageError):
            varve.Training(start, **options)


def test_defaults_are_one_set():
    own = inspect.signature(varve.Training).parameters
    assert (own["optimizer"].default, own["rate"].default, own["rate_schedule"].default) == ("momentum", None, None)
    assert (own["batch"].default, own["epochs"].default) == (128, 10)
    of_train = inspect.signature(varve.train).parameters
    assert all(of_train[name].default == given.default for name, given in own.items() if name != "network")


def test_the_defaults_are_cosine_and_momentum(start, samples):
    assert varve.train(start, *samples).network == varve.train(start, *samples, optimizer="momentum", rate=0.05, rate_schedule="cosine").network


def test_progress_is_shown(start, samples, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    X, labels = samples
    varve.train(start, X, labels, validation=(X, labels), epochs=2, progress=True)
    assert re.fullmatch(r"(epoch \d of 2: loss \d\.\d+, validation \d\.\d+\n){2}", capsys.readouterr().out)


def test_a_training_says_how_far_it_is(start, samples):
    X, labels = samples
    training = varve.train(start, X, labels, validation=(X, labels), epochs=2)
    assert re.fullmatch(r"<varve.Training: 6 steps, 2 epochs, loss [\d.]+, validation loss [\d.]+, best epoch 2>", repr(training))


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
        ({"labels": [0, 1], "loss": "BCEWithLogitsLoss"}, "here it is 'logistic'"),
        ({"labels": [0, 1], "sample_weight": [1.0]}, r"sample_weight has the shape \(1,\), expected \(2,\), one weight per sample"),
        ({"labels": [0, 1], "sample_weight": [[1.0, 1.0]]}, r"sample_weight has the shape \(1, 2\)"),
        ({"labels": [0, 1], "sample_weight": [1.0, -0.5]}, "sample_weight holds the value -0.5, expected finite numbers from 0 on"),
        ({"labels": [0, 1], "sample_weight": [np.nan, 1.0]}, "sample_weight holds the value nan"),
        ({"labels": [0, 1], "sample_weight": [1.0, np.inf]}, "sample_weight holds the value inf"),
        ({"labels": [0, 1], "class_weight": "even"}, "class_weight is 'even', expected a dictionary"),
        ({"labels": [0, 1], "class_weight": [1.0, 2.0, 1.0, 1.0]}, "expected a dictionary"),
        ({"labels": [0, 1], "class_weight": {4: 1.0}}, "class_weight has the label 4, expected 0 to 3"),
        ({"labels": [0, 1], "class_weight": {0: -1.0}}, "class_weight of 0 is -1.0, expected a finite number from 0 on"),
        ({"labels": [0, 1], "class_weight": {0: np.nan}}, "class_weight of 0 is nan"),
        ({"targets": [[0.5, 0.0, 1.0, 1.5]] * 2, "loss": "logistic"}, "targets of X hold the value 1.5, expected 0 to 1 with the loss logistic"),
        ({"targets": sp.csr_array([[0.5, 0.0, -1.0, 1.0]] * 2), "loss": "logistic"}, "hold the value -1.0, expected 0 to 1"),
        ({"labels": [0, 4], "loss": "logistic"}, "sample 1 has the label 4, expected 0 to 3"),
        ({"targets": [[1.0] * 4] * 2, "loss": "huber", "delta": 0}, "delta of the loss huber is 0, expected a positive number"),
        ({"targets": [[1.0] * 4] * 2, "loss": "huber", "delta": np.nan}, "delta of the loss huber is nan"),
        ({"labels": [0, 1], "rate": -1.0}, "-1"),
        ({"labels": [0, 1], "epochs": 0}, "at least 1 epoch"),
        ({"labels": [0, 1], "epochs": -1}, "epochs is -1, expected at least 0$"),
        ({"labels": [0, 1], "seed": -1}, "seed is -1, expected at least 0$"),
        ({"labels": [0, 1], "seed": 2**64}, r"seed is 18446744073709551616, expected at least 0 and less than 2\*\*64$"),
        ({"labels": [0, 1], "optimizer": "adam", "epsilon": 1e-50}, "epsilon of Adam is 1e-50, which is 0 in single precision"),
        ({"labels": [np.inf, 1]}, "labels of X are 1.0 to inf, expected the index of an output"),
        ({"targets": [[1.0, 1.0, np.nan, 1.0]] * 2}, "targets of X hold the value nan, expected finite numbers"),
        ({"targets": [[1.0, 1.0, 1e39, 1.0]] * 2}, "X: targets: sample 0 has the value 1e\\+39 at neuron 2, beyond .*float64"),
        ({"labels": [0, 1], "validation": np.ones((2, 20))}, r"validation is not a pair, expected \(samples, labels\)"),
        ({"labels": [0, 1], "momentum": 2.0, "optimizer": "momentum"}, "momentum"),
        ({"labels": [0, 1], "pattern": "prune"}, "no way 'prune'"),
        ({"labels": [0, 1], "pattern": "set", "pattern_fraction": 2.0}, "fraction"),
        ({"labels": [0, 1], "micro_batch": 100}, "100"),
        ({"labels": [0, 1], "recompute": 0}, "recompute is 0, expected 'auto', 'none' or a number from 1 on"),
        ({"labels": [0, 1], "recompute": "most"}, "recompute is 'most'"),
        ({"labels": [0, 1], "recompute": 2**64}, r"recompute is 18446744073709551616, expected at least 0 and less than 2\*\*63"),
        ({"labels": [0, 1], "checkpoint_every": 5}, "checkpoint_every needs checkpoint"),
        ({"labels": [0, 1], "validation": (np.zeros((0, 20)), [])}, "validation holds no samples"),
        ({"labels": [0, 1], "validation": (np.zeros((2, 3)), [0, 1])}, r"validation has the shape \(2, 3\)"),
    ],
)
def test_wrong_trainings_are_refused_by_a_sentence(start, options, sentence):
    with pytest.raises((varve.InputError, varve.UsageError), match=sentence):
        varve.train(start, np.ones((2, 20)), **options)


def test_numbers_beyond_a_precision_or_the_layers_are_known(samples, start):
    X, labels = samples
    with pytest.raises(varve.InputError, match="X: targets: sample 1 has the value -1e\\+39 at neuron 3"):
        varve.Training(start, loss="mean-square").step(X[:2], targets=[[1.0] * 4, [1.0, 1.0, 1.0, -1e39]])
    wide, usual = (varve.train(start, X, labels, epochs=1, recompute=number) for number in (2**63 - 1, "none"))
    assert wide.keep_every == start.num_layers + 1 and wide.network.weights_hash() == usual.network.weights_hash()


def test_other_types_are_type_errors(samples, start):
    X, labels = samples
    with pytest.raises(TypeError, match="epochs is 1.5, expected a whole number"):
        varve.train(start, X, labels, epochs=1.5)
    with pytest.raises(TypeError, match="rate is 'fast', expected a number"):
        varve.train(start, X, labels, rate="fast")
    with pytest.raises(TypeError, match="momentum is None, expected a number"):
        varve.train(start, X, labels, momentum=None)
    with pytest.raises(TypeError, match="optimizer is 3, expected a name"):
        varve.train(start, X, labels, optimizer=3)
    with pytest.raises(TypeError, match="network is ndarray, expected a varve.Network"):
        varve.train(X, X, labels)
