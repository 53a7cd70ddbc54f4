"""The time of a call beyond the loop over the layers, beside SciPy and ONNX Runtime: python python/tests/latency.py

Each program computes the same samples in float32, after its answer was compared, many times in a row; the programs take
five turns. ONNX Runtime computes dense layers, SciPy one sparse product a layer, with sparse samples where these are very wide. With --command VARVE, the loop of that
command on the same files, by `varve benchmark`, stands beside them; it is measured after them, not in turns with them.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import tempfile
import time

import numpy as np
import scipy.sparse as sp
import varve


def varve_call(network, X):
    """A function that runs X and returns the seconds in the loop over the layers."""
    return lambda: network.run(X).loop_seconds


def scipy_call(network, X):
    """SciPy's loop over sparse products, on dense activations [neurons, samples]."""
    layers = [(layer.weights.astype(np.float32), layer.bias.astype(np.float32)[:, None], clip(layer)) for layer in network.layers()]
    by_input = layers[0][0].T.tocsr()

    def call():
        x = None if is_wide(X) else np.ascontiguousarray((X.toarray() if sp.issparse(X) else X).T, dtype=np.float32)
        for weights, bias, apply in layers:
            x = np.ascontiguousarray((X @ by_input).toarray().T) if x is None else weights @ x
            x += bias
            apply(x)
        return x.T

    return call


def is_wide(X):
    """Whether dense samples would take too much memory."""
    return X.shape[1] > 100_000


def clip(layer):
    """Applies the activation of a layer in place."""
    name, cap = layer.activation.name, layer.activation.parameter
    if name == "identity":
        return lambda x: x
    return lambda x: np.clip(x, 0, cap, out=x)


def onnxruntime_call(network, X):
    """ONNX Runtime on the same network with dense weights; None where it is not installed, and for very wide samples."""
    if is_wide(X):
        return None
    try:
        import onnxruntime
        from onnx import TensorProto, helper, numpy_helper
    except ImportError:
        return None
    nodes, constants, name = [], [], "x"
    for number, layer in enumerate(network.layers()):
        bias = np.broadcast_to(layer.bias, layer.weights.shape[:1]).astype(np.float32)
        arrays = {"w": layer.weights.toarray().T.astype(np.float32), "b": bias}
        constants += [numpy_helper.from_array(np.ascontiguousarray(array), f"{key}{number}") for key, array in arrays.items()]
        nodes.append(helper.make_node("Gemm", [name, f"w{number}", f"b{number}"], [f"s{number}"]))
        name = f"x{number}"
        nodes.append(activation_node(helper, numpy_helper, layer.activation, number, constants))
    value = lambda name, width: helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", width])  # noqa: E731
    graph = helper.make_graph(nodes, "g", [value("x", network.num_inputs)], [value(name, network.num_outputs)], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = int(os.environ.get("OMP_NUM_THREADS", "0"))
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.onnx")
        with open(path, "wb") as file:
            file.write(model.SerializeToString())
        session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return lambda: session.run(None, {"x": (X.toarray() if sp.issparse(X) else X).astype(np.float32, copy=False)})[0]


def activation_node(helper, numpy_helper, activation, number, constants):
    names = [f"s{number}"], [f"x{number}"]
    if activation.name == "clipped_relu":
        for key, limit in (("low", 0.0), ("high", activation.parameter)):
            constants.append(numpy_helper.from_array(np.array(limit, np.float32), f"{key}{number}"))
        return helper.make_node("Clip", [f"s{number}", f"low{number}", f"high{number}"], names[1])
    return helper.make_node({"relu": "Relu", "identity": "Identity"}[activation.name], *names)


class Times(list):
    """Microseconds of many calls."""

    def __str__(self):
        """The median, and half of the distance between the quartiles in per cent of it."""
        if len(self) < 2:
            return f"{'-':>15}"
        low, middle, high = statistics.quantiles(self, n=4)
        return f"{middle:9.1f} +-{50 * (high - low) / middle:3.0f}%"


def measure(network, X, seconds=0.5):
    """Times of the whole call, the loop, the rest of the call, SciPy and ONNX Runtime (none: not installed)."""
    others = [call for call in (scipy_call(network, X), onnxruntime_call(network, X)) if call]
    expected = network.infer(X)
    for call in others:
        np.testing.assert_allclose(call(), expected, rtol=1e-3, atol=1e-3 * np.abs(expected).max())
    calls = [varve_call(network, X), *others]
    times = [Times() for _ in range(4)]
    for _ in range(5):
        for number, call in enumerate(calls):
            call()  # brings its data into the caches again
            end = time.perf_counter() + seconds / 5
            while not times[number + (number > 0)] or time.perf_counter() < end:
                begin = time.perf_counter()
                loop = call()
                times[number + (number > 0)].append(1e6 * (time.perf_counter() - begin))
                if number == 0:
                    times[1].append(1e6 * loop)
    beyond = Times(total - loop for total, loop in zip(*times[:2]))
    return [*times[:2], beyond, *times[2:]]


def loop_of_command(command, network, X, seconds=0.5):
    """Times of the loop of `varve benchmark` on the same network and samples, in files."""
    with tempfile.TemporaryDirectory() as folder:
        network_file, input_file, record_file = (os.path.join(folder, name) for name in ("net.safetensors", "x.safetensors", "records.jsonl"))
        network.save(network_file)
        varve.save_samples(input_file, X)
        backend = varve.backends()[0]
        words = [command, "benchmark", "--network", network_file, "--input", input_file, "--backend", backend, "--repeats", "5"]
        subprocess.run(
            [*words, "--seconds", str(seconds), "--check", "1", "--output", record_file], check=True, stdout=subprocess.DEVNULL
        )
        with open(record_file) as records:
            found = [json.loads(line) for line in records]
        return Times(1e6 * loop for record in found for loop in record.get("loop_seconds_all", []))


def cases():
    generator = np.random.default_rng(1)
    challenge, images = varve.generate.radixnet(1024, 120), varve.generate.images(1024, 60000)
    alive = challenge.classify(images)
    trained = varve.generate.random([784, 512, 512, 10], density=0.1)
    small = varve.generate.random([64] * 4, degree=8)
    for count in (1, 64, 1000):
        yield f"challenge, 120 layers, {count} images that survive", challenge, images[alive[:count]]
        yield f"784-512-512-10, a tenth of the weights, {count} samples", trained, generator.random((count, 784), dtype=np.float32)
        yield f"3 layers of 64 neurons, {count} samples", small, generator.random((count, 64), dtype=np.float32)
    for density in (0.05, 0.1, 0.3):
        network = varve.generate.random([784, 512, 512, 10], density=density)
        for count in (1, 64, 10000):
            X = generator.random((count, 784), dtype=np.float32)
            X[generator.random(X.shape) < 0.5] = 0  # at random places, where no branch is foreseen
            yield f"784-512-512-10, density {density}, half zeros, {count} samples", network, X
    wide = varve.Network.from_scipy([random_rows(64, 200_000, 20_000, generator), random_rows(10, 64, 32, generator)], [0.1, 0.0], ["relu", "identity"])
    for count in (1, 64, 2000):
        X = random_rows(count, 200_000, 40, generator)
        yield f"200000-64-10, a tenth of the weights, 40 entries, {count} samples", wide, X


def random_rows(num_rows, num_columns, num_entries, generator):
    """A matrix of rows with so many entries each, at random places."""
    columns = [np.sort(generator.choice(num_columns, num_entries, replace=False)) for _ in range(num_rows)]
    values = generator.random(num_rows * num_entries, dtype=np.float32) - np.float32(0.4)
    return sp.csr_matrix((values, np.concatenate(columns), np.arange(num_rows + 1) * num_entries), shape=(num_rows, num_columns))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--command", metavar="VARVE", help="the command varve, whose loop is measured, too")
    parser.add_argument("--seconds", type=float, default=0.5, help="for each program and case (default: %(default)s)")
    options = parser.parse_args()
    columns = ("call", "loop", "beyond", "scipy", "onnxruntime", *(["command's loop"] if options.command else []))
    print("microseconds: median, and half of the distance between the quartiles in per cent of it")
    print(f"{'':60} " + " ".join(f"{name:>15}" for name in (*columns, "least beyond")))
    for name, network, X in cases():
        times = measure(network, X, options.seconds)
        if options.command:
            times.append(loop_of_command(options.command, network, X, options.seconds))
        print(f"{name:60} " + " ".join(str(found) for found in times) + f" {min(times[2]):15.1f}", flush=True)


if __name__ == "__main__":
    main()
