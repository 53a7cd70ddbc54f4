"""Inference against SciPy, and bit for bit against the plain loops of the reference."""

from __future__ import annotations

import threading

import numpy as np
import pytest
import scipy.sparse as sp
import varve
from conftest import MIXED, WIDTHS, forward, random_layers

EXACT = {"reductions": "none", "edge_order": "ascending"}


@pytest.mark.parametrize("backend", varve.backends())
@pytest.mark.parametrize("precision, tolerance", [("float32", 2e-6), ("float64", 1e-14)])
def test_activations_are_those_of_scipy(layers, X, backend, precision, tolerance):
    found = varve.Network.from_scipy(*layers).infer(X, precision=precision, backend=backend)
    truth = forward(layers, X)
    assert found.dtype == precision and found.shape == (203, 5)
    np.testing.assert_allclose(found, truth, rtol=0, atol=tolerance * np.abs(truth).max())
    assert np.abs(truth).max() > 0.1


@pytest.mark.parametrize("backend", varve.backends())
@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_bits_are_those_of_the_reference(layers, X, backend, precision):
    network = varve.Network.from_scipy(*layers)
    found = network.infer(X, precision=precision, backend=backend, **EXACT)
    truth = network.infer(X, precision=precision, engine="reference", **EXACT)
    np.testing.assert_array_equal(found, truth)


def test_small_integers_are_exact():
    generator = np.random.default_rng(3)
    weights = [generator.integers(-3, 4, (40, 50)), generator.integers(-3, 4, (20, 40))]
    X = generator.integers(0, 5, (100, 50))
    truth = np.maximum(np.maximum(X @ weights[0].T - 2, 0) @ weights[1].T + 1, 0)
    network = varve.Network.from_scipy(weights, bias=[-2, 1])
    for precision in ("float32", "float64"):
        np.testing.assert_array_equal(network.infer(X, precision=precision), truth)


@pytest.mark.parametrize("num_samples", [0, 1, 63, 64, 65, 203])
def test_a_part_of_the_samples_has_the_same_bits(network, X, num_samples):
    whole = network.infer(X, precision="float64")
    np.testing.assert_array_equal(network.infer(X[:num_samples], precision="float64"), whole[:num_samples])


def test_batches_change_no_bit(network, X):
    whole = network.run(X, predictions=True)
    parts = network.run(X, predictions=True, batch=7)
    np.testing.assert_array_equal(whole.activations, parts.activations)
    np.testing.assert_array_equal(whole.predictions, parts.predictions)
    np.testing.assert_array_equal(whole.live_samples, parts.live_samples)
    assert whole.activation_hash == parts.activation_hash != 0


def test_many_batches_end(network, X):
    """More than 64: sizes that double from batch to batch would have passed 2^64."""
    X, calls = np.tile(X, (2, 1)), []
    wanted = network.infer(X)
    np.testing.assert_array_equal(network.infer(X, batch=3, progress=lambda *counts: calls.append(counts)), wanted)
    assert len(calls) == 136 and calls[-1] == (406, 406)


@pytest.mark.parametrize(
    "convert",
    [
        sp.csr_array,
        sp.csc_matrix,
        sp.coo_array,
        sp.lil_matrix,
        np.asfortranarray,
        lambda X: np.repeat(X, 2, axis=1)[:, ::2],
        lambda X: X.astype(">f8"),
        lambda X: X.tolist(),
        lambda X: WithDlpack(X),
    ],
    ids=["csr", "csc", "coo", "lil", "columns", "strided", "big-endian", "lists", "dlpack"],
)
def test_forms_of_samples(network, X, convert):
    np.testing.assert_array_equal(network.infer(convert(X)), network.infer(X))


class WithDlpack:
    """An array that only DLPack can read."""

    def __init__(self, array):
        self._array = np.array(array)
        self.shape = array.shape

    def __dlpack__(self, **options):
        return self._array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self._array.__dlpack_device__()


@pytest.mark.parametrize("kind", [bool, np.uint8, np.int64, np.float16, np.float32])
def test_types_of_samples(network, X, kind):
    samples = np.abs(np.round(3 * X)).astype(kind)
    np.testing.assert_array_equal(network.infer(samples), network.infer(samples.astype(np.float64)))


def test_duplicates_and_unsorted_entries_are_added_up_and_left_as_they_are(network, X):
    samples = sp.csr_array(X)
    twice = sp.csr_array(
        (np.repeat(samples.data / 2, 2), np.repeat(samples.indices, 2), 2 * samples.indptr), shape=samples.shape
    )
    before = twice.data.copy()
    np.testing.assert_array_equal(network.infer(twice), network.infer(X))
    np.testing.assert_array_equal(twice.data, before)
    reverse = samples.copy()
    for row in range(203):
        part = slice(*reverse.indptr[row : row + 2])
        reverse.data[part], reverse.indices[part] = reverse.data[part][::-1].copy(), reverse.indices[part][::-1].copy()
    reverse.has_sorted_indices = False
    np.testing.assert_array_equal(network.infer(reverse), network.infer(X))


def test_sparse_result(network, X):
    found = network.infer(X, sparse=True, precision="float64")
    assert isinstance(found, sp.csr_array) and found.dtype == np.float64
    np.testing.assert_array_equal(found.toarray(), network.infer(X, precision="float64"))


def test_predictions_are_the_first_of_the_largest(network, X):
    activations = network.infer(X)
    np.testing.assert_array_equal(network.predict(X), activations.argmax(axis=1))
    equal = varve.Network.from_scipy([np.ones((3, 2))])
    assert equal.predict([[1.0, 2.0], [0.0, 0.0]]).tolist() == [0, 0]
    with pytest.raises(varve.UsageError, match="one output, so every prediction would be 0; use infer"):
        varve.Network.from_scipy([np.ones((1, 2))]).predict([[1.0, 2.0]])


def test_categories_are_the_samples_with_a_nonzero_output():
    network = varve.generate.radixnet(1024, 24)
    images = varve.generate.images(1024, 500)
    live = network.classify(images)
    truth = np.flatnonzero(network.infer(images).any(axis=1))
    np.testing.assert_array_equal(live, truth)
    assert 0 < len(live) < 500


def test_progress_counts_samples(network, X):
    calls = []
    network.infer(X, batch=100, progress=lambda done, total: calls.append((done, total)))
    assert calls[-1] == (203, 203) and len(calls) >= 3
    assert [done for done, _ in calls] == sorted({done for done, _ in calls})


def test_progress_may_run_the_network_and_end_the_call(network, X):
    class Enough(Exception):
        pass

    whole = network.infer(X, batch=100)
    inner = []
    found = network.infer(X, batch=100, progress=lambda done, total: inner.append(network.infer(X, batch=100)))
    np.testing.assert_array_equal(found, whole)
    np.testing.assert_array_equal(inner[0], whole)

    def stop(done, total):
        raise Enough

    with pytest.raises(Enough):
        network.infer(X, batch=100, progress=stop)
    np.testing.assert_array_equal(network.infer(X, batch=100), whole)


def test_several_threads_get_their_own_results(network, X):
    parts = [X[first : first + 40] for first in range(0, 200, 40)]
    wanted = [network.infer(part) for part in parts]
    found = [None] * len(parts)

    def work(number):
        for _ in range(20):
            found[number] = network.infer(parts[number])

    threads = [threading.Thread(target=work, args=(number,)) for number in range(len(parts))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for one, other in zip(found, wanted):
        np.testing.assert_array_equal(one, other)


def test_plan_names_kernels(network, X):
    assert "layers 0-" in network.plan() and "kernel" in network.plan(X)
    for count, precision in ((1, "float32"), (4, "float32"), (32, "float32"), (16, "float64")):
        assert "small_batch kernel" in network.plan(X[:count], backend="serial", precision=precision), f"{count} samples in {precision}"
    images = varve.generate.images(1024, 1000)
    challenge = varve.generate.radixnet(1024, 4)
    assert "layer 0: counts kernel" in challenge.plan(images) and "counts kernel" not in challenge.plan()


def test_equal_values_and_others_alternate(network, X):
    ones = (X > 0).astype(np.float32)
    wanted = [network.infer(ones, engine="reference"), network.infer(X, engine="reference")]
    for _ in range(2):
        np.testing.assert_allclose(network.infer(ones), wanted[0], rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(network.infer(X), wanted[1], rtol=1e-5, atol=1e-5)


def test_verify(network, X):
    right = network.infer(X)
    assert network.verify(X, right).is_right
    wrong = right.copy()
    wrong[5, np.abs(right[5]).argmax()] *= 1.5
    verdict = network.verify(X, wrong, exact=True)
    assert verdict.differing_samples.tolist() == [5] and verdict.largest_error == pytest.approx(0.5, abs=1e-3)
    wrong = right.copy()
    wrong[7] = np.nan
    verdict = network.verify(X, wrong)
    assert verdict.differing_samples.tolist() == [7] and verdict.largest_error == np.inf and not verdict.is_right
    challenge, images = varve.generate.radixnet(1024, 24), varve.generate.images(1024, 300)
    live = challenge.classify(images)
    assert challenge.verify(images, live, exact=True).is_right
    assert challenge.verify(images, live[1:]).differing_samples.tolist() == [live[0]]


def test_evaluate(network, X):
    activations = network.infer(X, precision="float64")
    labels = np.arange(203) % 5
    found = network.evaluate(X, labels, top=2, precision="float64")
    shifted = activations - activations.max(axis=1, keepdims=True)
    losses = np.log(np.exp(shifted).sum(axis=1)) - shifted[np.arange(203), labels]
    assert found.loss == pytest.approx(losses.mean(), rel=1e-12)
    assert found.accuracy == (activations.argmax(axis=1) == labels).mean()
    ranks = (activations > activations[np.arange(203), labels][:, None]).sum(axis=1)
    assert found.top_accuracy >= found.accuracy and found.top_accuracy <= (ranks < 2).mean()
    targets = np.random.default_rng(1).random((203, 5))
    found = network.evaluate(X, targets=targets, precision="float64")
    assert found.loss == pytest.approx(((activations - targets) ** 2).mean(axis=1).mean(), rel=1e-12)
    assert found.accuracy is None


def test_widths_of_the_tests_straddle_tiles():
    weights, _, _ = random_layers(MIXED)
    assert [matrix.shape for matrix in weights] == list(zip(WIDTHS[1:], WIDTHS))
    assert any((np.diff(matrix.indptr) == 0).any() for matrix in weights)
