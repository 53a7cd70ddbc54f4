"""Results in arrays of the caller, and arrays in the memory of devices."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp
import varve
from conftest import HOST
from varve import _arrays, _running


class Tensor:
    """An array that only DLPack can read and write."""

    def __init__(self, array, device=(1, 0)):
        self._array, self._device = array, device
        self.shape, self.dtype = array.shape, array.dtype

    def __dlpack__(self, **options):
        if self._device[0] != 1:
            raise BufferError("not in host memory")
        return self._array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self._device


class DeviceTensor(Tensor):
    """As torch has it: a tensor on a GPU, whose method cpu() copies it."""

    def __init__(self, array):
        super().__init__(array, (2, 0))
        self.num_copies = 0

    def cpu(self):
        self.num_copies += 1
        return self._array.copy()


@pytest.mark.parametrize("precision", ["float32", "float64"])
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array, lambda X: X.astype(np.float32)], ids=["dense", "sparse", "float32"])
@pytest.mark.parametrize("batch", [None, 7])
def test_activations_go_into_a_given_array(network, X, precision, form, batch):
    samples = form(X)
    wanted = network.infer(samples, precision=precision)
    out = np.full(wanted.shape, np.nan, dtype=precision)
    found = network.infer(samples, precision=precision, batch=batch, out=out)
    assert found is out
    np.testing.assert_array_equal(out, wanted)


def test_activations_go_into_memory_of_others_by_dlpack(network, X):
    memory = np.full((203, 5), np.nan, np.float32)
    tensor = Tensor(memory)
    assert network.infer(X, out=tensor) is tensor
    np.testing.assert_array_equal(memory, network.infer(X))


def test_a_part_of_a_larger_array_takes_the_result(network, X):
    whole = np.full((300, 5), 7, np.float32)
    network.infer(X, out=whole[40:243])
    np.testing.assert_array_equal(whole[40:243], network.infer(X))
    assert (whole[:40] == 7).all() and (whole[243:] == 7).all()


def test_samples_may_be_overwritten():
    network = varve.generate.random([50, 50, 50], degree=6)
    X = np.random.default_rng(3).random((90, 50), dtype=np.float32)
    wanted = network.infer(X)
    network.infer(X, out=X)
    np.testing.assert_array_equal(X, wanted)


def test_run_returns_the_rest_as_well(network, X):
    out = np.empty((203, 5), np.float32)
    run, whole = network.run(X, predictions=True, out=out), network.run(X, predictions=True)
    assert run.activations is out and run.activation_hash == whole.activation_hash
    np.testing.assert_array_equal(run.predictions, whole.predictions)
    np.testing.assert_array_equal(run.live_samples, whole.live_samples)


def test_no_second_array_is_made():
    network = varve.generate.random([64, 2000], degree=2, bias=(0.1, 0.2))
    X = np.random.default_rng(3).random((2000, 64), dtype=np.float32)
    out = np.empty((2000, 2000), np.float32)
    network.infer(X, out=out, batch=64)
    tracemalloc.start()
    network.infer(X, out=out, batch=64)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < out.nbytes / 100 and (out != 0).any(axis=1).all()


@pytest.mark.parametrize(
    "out, sentence",
    [
        (np.empty((203, 4), np.float32), r"out has the shape \(203, 4\), expected \(203, 5\)"),
        (np.empty((5, 203), np.float32).T, "does not lie row by row"),
        (np.empty((203, 10), np.float32)[:, ::2], "does not lie row by row"),
        (np.empty((203, 5)), "out has the type float64, expected float32"),
        (np.empty((203, 5), ">f4"), "byte order|type >f4"),
        (np.broadcast_to(np.zeros(5, np.float32), (203, 5)), "row by row|read-only"),
        (Tensor(np.empty((203, 5), np.float32), (2, 0)), "out is in the memory of a device"),
        ([[0.0] * 5] * 203, "out is list, expected an array"),
    ],
)
def test_arrays_that_cannot_take_the_result_are_refused(network, X, out, sentence):
    with pytest.raises(varve.InputError, match=sentence):
        network.infer(X, out=out)


def test_read_only_arrays_stay_as_they_are(network, X):
    out = np.zeros((203, 5), np.float32)
    out.flags.writeable = False
    with pytest.raises(varve.InputError, match="out is read-only"):
        network.infer(X, out=out)
    assert not out.any()
    with pytest.raises(varve.UsageError, match="sparse=True"):
        network.infer(X, out=np.zeros((203, 5), np.float32), sparse=True)


def test_wrong_samples_leave_the_array_as_it_is(network, X):
    out = np.full((203, 5), 3, np.float32)
    broken = X.copy()
    broken[202, 0] = np.nan
    with pytest.raises(varve.InputError, match="sample 202"):
        network.infer(broken, out=out)
    assert (out == 3).all()


def test_tensors_of_devices_are_copied_once(network, X):
    tensor = DeviceTensor(X)
    np.testing.assert_array_equal(network.infer(tensor), network.infer(X))
    assert tensor.num_copies == 1
    with pytest.raises(varve.InputError, match="X is in the memory of a device and its library cannot copy it"):
        network.infer(Tensor(X, (2, 0)))


# --- dense samples that are read where they lie


@pytest.fixture
def calls(monkeypatch):
    """The calls that took this way."""
    found = []
    way = _running.run_in_place

    def watched(*arguments):
        run = way(*arguments)
        found.append(run is not None)
        return run

    monkeypatch.setattr(_running, "run_in_place", watched)
    return found


@pytest.mark.parametrize("backend", varve.backends())
@pytest.mark.parametrize("precision", ["float32", "float64"])
@pytest.mark.parametrize(
    "form",
    [
        np.ascontiguousarray,
        np.asfortranarray,
        lambda X: np.repeat(np.repeat(X, 2, axis=1), 3, axis=0)[::3, ::2],
        lambda X: np.concatenate((X, X), axis=1)[:, : X.shape[1]],
        Tensor,
    ],
    ids=["rows", "columns", "strided", "part", "dlpack"],
)
@pytest.mark.parametrize("batch", [None, 7])
def test_dense_samples_are_read_where_they_lie(layers, X, backend, precision, form, batch, calls):
    """By devices that are the host; others get copies."""
    network = varve.Network.from_scipy(*layers)
    X, is_host = X.astype(precision), backend in ("openmp", "serial")
    run = network.run(form(X), precision=precision, backend=backend, batch=batch)
    assert calls == [is_host]
    wanted = network.run(sp.csr_array(X), precision=precision, backend=backend)
    assert calls == [is_host, False]
    np.testing.assert_array_equal(run.activations, wanted.activations)
    np.testing.assert_array_equal(run.live_samples, wanted.live_samples)
    assert run.activation_hash == wanted.activation_hash and run.activations.dtype == precision
    out = np.full((203, 5), np.nan, precision)
    assert network.infer(form(X), precision=precision, backend=backend, out=out) is out
    assert calls[-1] == is_host
    np.testing.assert_array_equal(out, wanted.activations)


def test_images_with_one_value_and_saturated_samples_are_the_same(calls):
    network = varve.generate.radixnet(1024, 24)
    images = varve.generate.images(1024, 300)
    dense = images.toarray().astype(np.float32)
    wanted = network.run(images)
    for reductions in ("auto", "none"):
        run = network.run(dense, reductions=reductions, backend=HOST)
        np.testing.assert_array_equal(run.live_samples, wanted.live_samples)
        np.testing.assert_array_equal(run.activations, network.infer(images, reductions=reductions))
    assert calls == [False, True, False, True, False] and len(wanted.live_samples) > 0


def test_what_cannot_be_read_in_place_is_read_otherwise(network, X, calls):
    single = X.astype(np.float32)
    wanted = network.infer(X[:, :])
    unaligned = np.zeros(single.nbytes + 1, np.uint8)[1:].view(np.float32).reshape(single.shape)
    unaligned[:] = single
    for samples in (
        *(X, single[::-1][::-1], single[:, ::-1][:, ::-1], single[:64], single.astype(">f4"), single.tolist(), unaligned),
    ):
        network.infer(samples, backend=HOST)
    network.run(single, predictions=True, backend=HOST)
    network.infer(single, sparse=True, backend=HOST)
    network.infer(single[::-1], backend=HOST)
    assert calls == [False] + [False, True, True, False, False, False, False] + [False]
    np.testing.assert_allclose(network.infer(single), wanted, rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(network.infer(unaligned), network.infer(single))
    square = varve.generate.random([50, 50, 50], degree=6)
    samples = np.random.default_rng(3).random((90, 50), dtype=np.float32)
    square.infer(samples, out=samples, backend=HOST)
    assert calls[-1] is False


def test_samples_in_place_are_checked_as_others(network, X):
    single = X.astype(np.float32)
    single[150, 4] = np.nan
    with pytest.raises(varve.InputError, match="X: sample 150 has a value that is not finite at neuron 4"):
        network.infer(single, backend=HOST)
    with pytest.raises(varve.InputError, match=r"X has the shape \(203, 69\), expected \(samples, 70\)"):
        network.infer(single[:, 1:])
    with pytest.raises(varve.UsageError, match="no backend 'fpga'"):
        network.infer(X.astype(np.float32), backend="fpga")
    done = []
    network.infer(X.astype(np.float32), batch=64, progress=lambda *counts: done.append(counts))
    assert done[-1] == (203, 203) and len(done) >= 4


# --- the way of tensors on a GPU up to the library, which test_cuda.py runs on one; here their memory is the host's


class OnGpu(DeviceTensor):
    """A tensor as torch has them on a GPU. It notes the streams that others ask it to make wait."""

    def __init__(self, array, number=0):
        super().__init__(array)
        self._device, self.streams = (2, number), []

    @property
    def __cuda_array_interface__(self):
        return self._array.__array_interface__

    def __dlpack__(self, *, stream, max_version):
        self.streams.append(stream)
        return self._array.__dlpack__()

    def __setitem__(self, place, other):
        self._array[place] = other._array

    def new_empty(self, shape):
        return OnGpu(np.full(shape, np.nan, self.dtype))


@pytest.fixture
def gpu(monkeypatch):
    """Makes varve take a backend, whose name this is, for GPU 0, with the stream 7."""
    monkeypatch.setitem(_arrays._REACHED, HOST, (2, 13))
    monkeypatch.setattr(_arrays._core, "gpu", lambda: (0, 7))
    _arrays._gpu.cache_clear()
    yield HOST
    _arrays._gpu.cache_clear()


@pytest.mark.parametrize("num_samples", [203, 5, 0])
def test_results_of_samples_on_a_gpu_lie_beside_them(network, X, gpu, num_samples):
    single = X.astype(np.float32)[:num_samples]
    tensor = OnGpu(single)
    found = network.infer(tensor, backend=gpu)
    assert type(found) is OnGpu and tensor.num_copies == 0
    assert tensor.streams == found.streams == [7]
    np.testing.assert_array_equal(found._array, network.infer(single))
    out = OnGpu(np.full((num_samples, 5), np.nan, np.float32))
    assert network.infer(tensor, out=out, backend=gpu) is out and out.streams == [7]
    np.testing.assert_array_equal(out._array, found._array)
    with pytest.raises(varve.InputError, match="out is in host memory"):
        network.infer(tensor, out=Tensor(np.empty((num_samples, 5), np.float32)), backend=gpu)


def test_samples_on_a_gpu_may_be_overwritten(gpu):
    network = varve.generate.random([50, 50, 50], degree=6)
    whole = np.random.default_rng(3).random((93, 50), dtype=np.float32)
    wanted = network.infer(whole[:90].copy())
    for first in (0, 3):  # the same memory, and a part of it
        memory = whole.copy()
        tensor, out = OnGpu(memory[:90]), OnGpu(memory[first : first + 90])
        assert network.infer(tensor, out=out, batch=7, backend=gpu) is out and tensor.num_copies == 0
        np.testing.assert_array_equal(out._array, wanted)


def test_tensors_on_another_gpu_are_refused(network, X, gpu):
    single = X.astype(np.float32)
    with pytest.raises(varve.InputError, match=r"X is on GPU 1, expected GPU 0, which varve runs on; varve.start\(device=1\)"):
        network.infer(OnGpu(single, 1), backend=gpu)
    with pytest.raises(varve.InputError, match="out is on GPU 1, expected GPU 0"):
        network.infer(OnGpu(single), out=OnGpu(np.empty((203, 5), np.float32), 1), backend=gpu)


def test_a_gpu_that_this_build_lacks_has_no_number():
    assert (_arrays._core.gpu() is None) == (not {"cuda", "hip"} & set(varve.backends()))


class LikeJax(Tensor):
    """A tensor on a GPU that only NumPy's own way copies."""

    def __array__(self, dtype=None, copy=None):
        return self._array.copy()


def test_tensors_that_numpy_copies_are_copied_so(network, X):
    np.testing.assert_array_equal(network.infer(LikeJax(X, (2, 0))), network.infer(X))


def test_negative_strides_on_a_gpu_are_refused_before_the_array_is_shared():
    tensor = DeviceTensor(np.ones((4, 3)))
    tensor.strides = (-24, 8)
    with pytest.raises(varve.InputError, match="X has negative strides"):
        _arrays.shared(tensor, "X")
