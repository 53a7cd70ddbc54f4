"""Tensors on a GPU, of torch and CuPy: read and written where they lie, with the bits of arrays on hosts. Skipped where this
build of varve has no CUDA, or the machine no GPU or no torch."""

from __future__ import annotations

import copy
import subprocess
import sys
import threading

import numpy as np
import pytest
import scipy.sparse as sp
import varve
from varve import _arrays

torch = pytest.importorskip("torch", reason="torch is not installed")
if "cuda" not in varve.backends() or not torch.cuda.is_available():
    pytest.skip("needs a build with CUDA and a GPU", allow_module_level=True)

PAUSE = 1_000_000_000  # cycles of the GPU: about half a second

two_gpus = pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")


def on_gpu(X, precision="float32"):
    return torch.tensor(np.asarray(X, precision), device="cuda:0")


def assert_same_bits(found, wanted):
    found = found.cpu().numpy() if hasattr(found, "cpu") else np.asarray(found)
    assert found.dtype == wanted.dtype
    kind = np.uint32 if found.dtype == np.float32 else np.uint64
    np.testing.assert_array_equal(found.view(kind), wanted.view(kind))


@pytest.fixture
def no_copies(monkeypatch):
    """Refuses the ways by which samples reach host memory."""

    def refuse(*arguments):
        raise AssertionError("samples are copied to the host")

    for way in ("to_samples", "to_numpy"):
        monkeypatch.setattr(_arrays, way, refuse)


# --- bits


@pytest.mark.parametrize("num_samples", [1, 3, 40, 64, 65, 203])
@pytest.mark.parametrize("precision", ["float32", "float64"])
@pytest.mark.parametrize("reductions", ["auto", "none"])
@pytest.mark.parametrize("batch", [None, 7])
def test_bits_are_those_of_arrays_on_every_backend(layers, X, num_samples, precision, reductions, batch):
    network = varve.Network.from_scipy(*layers)
    X = X[:num_samples].astype(precision)
    options = {"precision": precision, "reductions": reductions, "batch": batch}
    run = network.run(on_gpu(X, precision), **options)
    for backend in varve.backends():
        for form in (X, sp.csr_array(X)):
            wanted = network.run(form, backend=backend, **options)
            assert_same_bits(run.activations, wanted.activations)
            np.testing.assert_array_equal(run.live_samples, wanted.live_samples)
            assert run.activation_hash == wanted.activation_hash


@pytest.mark.parametrize("num_samples", [1, 64, 203])
@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_bits_are_those_of_the_reference(layers, X, num_samples, precision):
    network = varve.Network.from_scipy(*layers)
    X = X[:num_samples].astype(precision)
    found = network.infer(on_gpu(X, precision), precision=precision, reductions="none", edge_order="ascending")
    wanted = network.infer(X, precision=precision, reductions="none", edge_order="ascending", engine="reference")
    assert_same_bits(found, wanted)


@pytest.mark.parametrize("reductions", ["auto", "none"])
def test_images_with_one_value_and_saturated_samples_are_the_same(reductions):
    network = varve.generate.radixnet(1024, 24)
    images = varve.generate.images(1024, 300)
    wanted = network.run(images, reductions=reductions, backend="serial")
    run = network.run(on_gpu(images.toarray()), reductions=reductions)
    assert len(wanted.live_samples) > 0
    np.testing.assert_array_equal(run.live_samples, wanted.live_samples)
    assert_same_bits(run.activations, wanted.activations)


# --- where results go


@pytest.mark.parametrize("num_samples", [0, 1, 203])
def test_results_lie_beside_the_samples(network, X, num_samples, no_copies):
    tensor = on_gpu(X[:num_samples]).requires_grad_()
    found = network.infer(tensor)
    assert isinstance(found, torch.Tensor) and found.device == tensor.device
    assert found.dtype == torch.float32 and found.shape == (num_samples, 5) and not found.requires_grad


@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_results_go_into_a_given_tensor(network, X, precision, no_copies):
    tensor = on_gpu(X, precision)
    wanted = network.infer(tensor, precision=precision)
    whole = torch.full((300, 5), 7.0, dtype=tensor.dtype, device="cuda:0")
    out = whole[40:243]
    address = out.data_ptr()
    assert network.infer(tensor, precision=precision, out=out) is out and out.data_ptr() == address
    assert torch.equal(out, wanted)
    assert (whole[:40] == 7).all() and (whole[243:] == 7).all()


def test_samples_may_be_overwritten(no_copies):
    network = varve.generate.random([50, 50, 50], degree=6)
    source = torch.rand(93, 50, device="cuda:0")
    wanted = network.infer(source[:90])
    for first in (0, 3):  # the same memory, and a part of it
        memory = source.clone()
        out = memory[first : first + 90]
        assert network.infer(memory[:90], out=out, batch=7) is out
        assert torch.equal(out, wanted)


FORMS = {
    "columns": lambda t: t.T.contiguous().T,
    "strided": lambda t: t.repeat_interleave(2, 1).repeat_interleave(3, 0)[::3, ::2],
    "part": lambda t: torch.cat((t, t), 1)[:, : t.shape[1]],
    "shifted": lambda t: torch.cat((t[:1], t))[1:],
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("precision", ["float32", "float64"])
@pytest.mark.parametrize("batch", [None, 7])
def test_strides_are_followed(network, X, form, precision, batch, no_copies):
    tensor = on_gpu(X, precision)
    wanted = network.infer(tensor, precision=precision)
    assert torch.equal(network.infer(FORMS[form](tensor), precision=precision, batch=batch), wanted)


def test_one_sample_many_times_is_a_stride_of_nothing(network, X, no_copies):
    tensor = on_gpu(X[:1])
    assert torch.equal(network.infer(tensor.expand(100, -1)), network.infer(tensor).expand(100, -1))


@pytest.mark.parametrize("kind", ["float64", "float16", "bfloat16", "int64", "int32", "uint8", "bool"])
def test_other_numbers_are_converted_on_the_gpu(network, X, kind):
    tensor = on_gpu(X * 10, "float64").abs().to(getattr(torch, kind))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_arrays, "to_samples", None)
        found = network.infer(tensor)
    assert found.device == tensor.device
    assert_same_bits(found, network.infer(tensor.cpu().to(torch.float64).numpy()))


# --- memory


def test_samples_are_not_copied():
    network = varve.generate.random([1024, 64, 16], degree=16)
    samples = torch.rand(200_000, 1024, device="cuda:0")  # 0.8 GB
    out = torch.empty(200_000, 16, device="cuda:0")
    network.infer(samples[:100], out=out[:100], batch=4096)  # starts varve
    torch.cuda.synchronize()
    free_before, _ = torch.cuda.mem_get_info(0)
    torch.cuda.reset_peak_memory_stats(0)
    allocated_before = torch.cuda.memory_allocated(0)
    free, samples_bytes = [], samples.numel() * 4
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_arrays, "to_samples", None)
        network.infer(samples, out=out, batch=4096, progress=lambda *counts: free.append(torch.cuda.mem_get_info(0)[0]))
    assert len(free) >= 200_000 // 4096
    assert free_before - min(free) < samples_bytes / 4
    assert torch.cuda.max_memory_allocated(0) - allocated_before < samples_bytes / 100
    assert_same_bits(out[::1000], network.infer(samples[::1000].cpu().numpy()))


# --- streams


def pending(stream, work):
    """Calls work() in a stream of torch, behind a pause that is not over when it returns."""
    with torch.cuda.stream(stream):
        torch.cuda._sleep(PAUSE)
        work()
        assert not stream.query()


@pytest.mark.parametrize("make", [torch.cuda.Stream, torch.cuda.default_stream], ids=["side", "default"])
@pytest.mark.parametrize("num_samples", [1, 203])
def test_samples_that_a_stream_has_still_to_write_are_waited_for(network, X, make, num_samples):
    source = on_gpu(X[:num_samples])
    wanted, samples, stream = network.infer(source), torch.full_like(source, 0.25), make()
    torch.cuda.synchronize()
    pending(stream, lambda: samples.copy_(source))
    with torch.cuda.stream(stream):
        assert not stream.query()
        found = network.infer(samples)
    assert torch.equal(found, wanted)


def test_an_array_that_a_stream_still_uses_is_written_afterwards(network, X):
    tensor, out, stream = on_gpu(X), torch.empty(203, 5, device="cuda:0"), torch.cuda.Stream()
    wanted = network.infer(tensor)
    torch.cuda.synchronize()
    pending(stream, lambda: out.fill_(9))
    with torch.cuda.stream(stream):
        network.infer(tensor, out=out)
    torch.cuda.synchronize()
    assert torch.equal(out, wanted)


def test_results_are_there_when_a_call_returns(network, X):
    """So any stream may read them."""
    tensor, side = on_gpu(np.tile(X, (1000, 1))), torch.cuda.Stream()
    wanted = network.infer(on_gpu(X)).repeat(1000, 1)
    out = torch.zeros_like(wanted)
    torch.cuda.synchronize()
    for _ in range(5):
        out.zero_()
        torch.cuda.synchronize()
        network.infer(tensor, out=out)
        with torch.cuda.stream(side):
            copy = out.clone()
        side.synchronize()
        assert torch.equal(copy, wanted)


def test_threads_with_streams_of_their_own(network, X):
    wanted, found = network.infer(on_gpu(X)), [None] * 4

    def work(number):
        with torch.cuda.stream(torch.cuda.Stream()):
            for _ in range(10):
                samples = on_gpu(X) * 1
                found[number] = network.infer(samples)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(torch.equal(one, wanted) for one in found)


# --- what is refused


def test_values_that_are_not_finite_are_named(network, X):
    tensor = on_gpu(X)
    tensor[150, 4] = float("nan")
    with pytest.raises(varve.InputError, match="X: sample 150 has a value that is not finite at neuron 4"):
        network.infer(tensor)
    with pytest.raises(varve.InputError, match=r"X has the shape \(203, 69\), expected \(samples, 70\)"):
        network.infer(tensor[:, 1:])
    assert_same_bits(network.infer(on_gpu(X)), network.infer(X.astype(np.float32)))


@pytest.mark.parametrize(
    "make, sentence",
    [
        (lambda: torch.empty(203, 4, device="cuda:0"), r"out has the shape \(203, 4\), expected \(203, 5\)"),
        (lambda: torch.empty(203, 5, device="cuda:0", dtype=torch.float64), "out has the type torch.float64"),
        (lambda: torch.empty(5, 203, device="cuda:0").T, "out does not lie row by row"),
        (lambda: torch.empty(203, 5), "out is in host memory, expected memory that the backend cuda reaches"),
    ],
)
def test_tensors_that_cannot_take_the_result_are_refused(network, X, make, sentence):
    with pytest.raises(varve.InputError, match=sentence):
        network.infer(on_gpu(X), out=make())


def test_results_of_arrays_on_hosts_stay_there(network, X):
    single = X.astype(np.float32)
    with pytest.raises(varve.InputError, match="out is in the memory of a device, expected host memory"):
        network.infer(single, out=torch.empty(203, 5, device="cuda:0"))
    wanted = network.infer(single)
    for samples in (torch.tensor(single), torch.tensor(single).pin_memory()):
        found = network.infer(samples)
        assert isinstance(found, np.ndarray)
        assert_same_bits(found, wanted)
    out = np.empty((203, 5), np.float32)
    assert network.infer(on_gpu(X), out=out) is out
    assert_same_bits(out, wanted)


@two_gpus
def test_tensors_on_another_gpu_are_refused_by_a_sentence(network, X):
    network.infer(on_gpu(X))
    with pytest.raises(varve.InputError, match=r"X is on GPU 1, expected GPU 0, which varve runs on; varve.start\(device=1\)"):
        network.infer(on_gpu(X).to("cuda:1"))
    with pytest.raises(varve.InputError, match="out is on GPU 1, expected GPU 0"):
        network.infer(on_gpu(X), out=torch.empty(203, 5, device="cuda:1"))


@two_gpus
def test_the_present_gpu_of_torch_stays(network, X):
    tensor = on_gpu(X)
    wanted = network.infer(tensor)
    with torch.cuda.device(1):
        other = varve.Network.from_scipy([layer.weights for layer in network.layers()])
        assert torch.equal(network.infer(tensor), wanted)
        other.infer(tensor)
        del other
        assert torch.cuda.current_device() == 1
        assert torch.empty(1, device="cuda").device.index == 1


ON_THE_SECOND_GPU = """
import threading, torch, varve
torch.zeros(1, device="cuda:0")  # the thread works there
varve.start(device=1)
network = varve.generate.random([50, 50, 50], degree=6)
X = torch.rand(90, 50, device="cuda:1")
found = network.infer(X)
assert found.device.index == 1 and torch.cuda.current_device() == 0
assert found.cpu().numpy().tobytes() == network.infer(X.cpu().numpy(), backend="serial").tobytes()
again = []
thread = threading.Thread(target=lambda: again.append(network.infer(X)))
thread.start(); thread.join()
assert torch.equal(again[0], found)
try:
    network.infer(X.to("cuda:0"))
except varve.InputError as error:
    print(error)
"""


@two_gpus
def test_varve_may_run_on_the_second_gpu():
    done = subprocess.run([sys.executable, "-c", ON_THE_SECOND_GPU], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "X is on GPU 0, expected GPU 1" in done.stdout


# --- what takes copies


def test_other_results_are_those_of_arrays(network, X):
    single, tensor = X.astype(np.float32), on_gpu(X)
    np.testing.assert_array_equal(network.predict(tensor), network.predict(single))
    np.testing.assert_array_equal(network.classify(tensor), network.classify(single))
    assert_same_bits(network.infer(tensor, sparse=True).toarray(), network.infer(single))
    labels = network.predict(single)
    assert network.evaluate(tensor, torch.tensor(labels, device="cuda:0")).accuracy == 1.0
    assert_same_bits(network.infer(tensor, engine="reference"), network.infer(single, engine="reference"))
    assert_same_bits(network.infer(tensor, backend="serial"), network.infer(single))


def test_training_takes_tensors(X):
    start = varve.generate.random([70, 32, 5], density=0.3).with_initial_weights(activation="relu", last_activation="identity")
    single, labels = X.astype(np.float32), np.arange(203) % 5
    options = {"epochs": 2, "batch": 32}
    found = varve.train(start, on_gpu(X), torch.tensor(labels, device="cuda:0"), **options)
    assert found.network.weights_hash() == varve.train(start, single, labels, **options).network.weights_hash()


@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_products_copy_tensors_to_the_host(precision):
    generator = np.random.default_rng(1)
    a, b = (generator.standard_normal(shape).astype(precision) for shape in ((130, 70), (70, 90)))
    wanted = varve.matmul(a, b, backend="serial")
    found = varve.matmul(on_gpu(a, precision), on_gpu(b, precision).T.contiguous().T)
    assert isinstance(found, np.ndarray)
    assert_same_bits(found, wanted)
    with pytest.raises(varve.InputError, match="out is in the memory of a device, expected host memory"):
        varve.matmul(a, b, out=torch.empty(130, 90, device="cuda:0", dtype=getattr(torch, precision)))


# --- CuPy


@pytest.fixture
def cupy():
    return pytest.importorskip("cupy", reason="CuPy is not installed")


@pytest.mark.parametrize("num_samples", [0, 1, 203])
@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_arrays_of_cupy(network, X, num_samples, precision, cupy, no_copies):
    array = cupy.asarray(X[:num_samples].astype(precision))
    found = network.infer(array, precision=precision)
    assert isinstance(found, cupy.ndarray) and found.dtype == precision and found.shape == (num_samples, 5)
    wanted = network.infer(on_gpu(X[:num_samples], precision), precision=precision).cpu().numpy()
    assert_same_bits(cupy.asnumpy(found), wanted)
    out = cupy.full((num_samples, 5), 7, precision)
    assert network.infer(cupy.asfortranarray(array), precision=precision, out=out) is out
    assert_same_bits(cupy.asnumpy(out), wanted)
    other = network.infer(array.astype("float64" if precision == "float32" else "float32"), precision=precision)
    assert isinstance(other, cupy.ndarray) and other.dtype == precision


def test_arrays_of_cupy_that_do_not_fit(network, X, cupy):
    array = cupy.asarray(X.astype(np.float32))
    with pytest.raises(varve.InputError, match="out does not lie row by row"):
        network.infer(array, out=cupy.empty((5, 203), np.float32).T)
    with pytest.raises(varve.InputError, match="X has negative strides"):
        network.infer(array[::-1])
    square = varve.generate.random([50, 50], degree=6)
    samples = cupy.asarray(np.random.default_rng(3).random((90, 50), dtype=np.float32))
    wanted = cupy.asnumpy(square.infer(samples))
    assert square.infer(samples, out=samples) is samples
    assert_same_bits(cupy.asnumpy(samples), wanted)


def test_streams_of_cupy_are_waited_for(network, X, cupy):
    source = cupy.asarray(X.astype(np.float32))
    wanted, samples = cupy.asnumpy(network.infer(source)), cupy.full_like(source, 0.25)
    cupy.cuda.Device().synchronize()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(PAUSE)
    with cupy.cuda.ExternalStream(stream.cuda_stream):
        samples[...] = source
        assert not stream.query()
        found = network.infer(samples)
    assert_same_bits(cupy.asnumpy(found), wanted)


# --- sparse layers in models of torch


def results_of(layer, x, dy):
    """Outputs and all gradients of a SparseLinear, on the device where it lies."""
    for parameter in layer.parameters():
        parameter.grad = None
    x = x.detach().to(layer.weight.device).requires_grad_()
    y = layer(x)
    y.backward(dy.to(y.device))
    return [tensor.detach().clone() for tensor in (y, x.grad, layer.weight.grad, layer.bias.grad)]


@pytest.mark.parametrize("count", [1, 16, 33, 64, 200, 1000])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_sparse_layers_have_the_bits_of_those_on_hosts(count, dtype):
    from varve.torch import SparseLinear

    numbers = torch.Generator().manual_seed(1)
    layer = SparseLinear(300, 170, 0.1, dtype=dtype, generator=numbers)
    x, dy = (torch.randn(count, width, dtype=dtype, generator=numbers) for width in (300, 170))
    wanted = results_of(layer, x, dy)
    on_present_stream = results_of(layer.cuda(), x, dy)
    with torch.cuda.stream(torch.cuda.Stream()):
        torch.cuda._sleep(PAUSE // 10)
        on_another = results_of(layer, x, dy)
    for found in (on_present_stream, on_another):
        for tensor, expected in zip(found, wanted):
            assert tensor.is_cuda
            assert_same_bits(tensor, expected.numpy())


def test_a_model_with_sparse_layers_learns_on_the_gpu():
    from varve.torch import rigl_step, sparsify, watched

    torch.manual_seed(1)
    x = torch.randn(512, 40, device="cuda")
    y = (x[:, :4].sum(1) > 0).long()
    model = torch.nn.Sequential(torch.nn.Linear(40, 128), torch.nn.ReLU(), torch.nn.Linear(128, 2)).cuda()
    sparsify(model, density=0.2)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for step in range(100):
        optimizer.zero_grad()
        with watched(model):
            torch.nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
        if step in (20, 40):
            assert rigl_step(model, optimizer, fraction=0.2) > 0
    assert (model(x).argmax(1) == y).double().mean() > 0.95


def test_sparse_layers_in_a_recorded_graph():
    from varve.torch import SparseLinear

    numbers = torch.Generator().manual_seed(1)
    layer = SparseLinear(300, 170, 0.1, generator=numbers).cuda()
    x, another, dy = (torch.randn(200, width, generator=numbers).cuda() for width in (300, 300, 170))
    wanted = [tensor.cpu().numpy() for tensor in results_of(layer, another, dy)]
    recorded = torch.cuda.make_graphed_callables(copy.deepcopy(layer), (x.clone().requires_grad_(),))
    for tensor, expected in zip(results_of(recorded, another, dy), wanted):
        assert_same_bits(tensor, expected)
    graph = torch.cuda.CUDAGraph()
    with torch.no_grad(), torch.cuda.graph(graph, stream=torch.cuda.Stream()):
        y = layer(x)
    x.copy_(another)
    graph.replay()
    assert_same_bits(y, wanted[0])
