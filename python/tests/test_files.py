"""Files of other programs, written by their own libraries: read, saved, read back, equal; and files of samples."""

from __future__ import annotations

import gzip
import json
import pathlib
import struct
import subprocess
import sys

import h5py
import numpy as np
import onnx
import pytest
import scipy.io
import scipy.sparse as sp
import varve
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from safetensors.numpy import load_file, save_file

WIDTHS = (23, 40, 40, 6)
LEAKY = varve.Activation.leaky_relu(0.125)


def matrices(dtype=np.float32):
    """Three layers [outputs, inputs], one of them square, with rows and columns that have no weights."""
    generator = np.random.default_rng(11)
    found = []
    for inputs, outputs in zip(WIDTHS, WIDTHS[1:]):
        matrix = sp.random(outputs, inputs, 0.2, random_state=generator, data_rvs=generator.standard_normal).tolil()
        matrix[1] = 0
        matrix[:, 2] = 0
        found.append(sp.csr_matrix(matrix, dtype=dtype))
    return found


def write_binsparse(group, matrix, form):
    """A matrix as the specification of binsparse lays it out."""
    matrix = matrix.asformat(form.lower())
    if form == "COO":
        arrays = {"indices_0": matrix.row, "indices_1": matrix.col, "values": matrix.data}
    else:
        arrays = {"pointers_to_1": matrix.indptr, "indices_1": matrix.indices, "values": matrix.data}
    for name, array in arrays.items():
        group[name] = array
    types = {name: str(array.dtype) for name, array in arrays.items()}
    entries = {"version": "0.1", "format": form, "shape": matrix.shape, "number_of_stored_values": matrix.nnz, "data_types": types}
    group.attrs["binsparse"] = json.dumps({"binsparse": entries})


def npz(form):
    def write(folder):
        for number, matrix in enumerate(matrices()):
            sp.save_npz(folder / f"layer{number}.npz", matrix.asformat(form))
        return folder

    return write


def npy(order):
    def write(folder):
        for number, matrix in enumerate(matrices()):
            np.save(folder / f"layer{number}.npy", np.array(matrix.toarray(), order=order))
        return folder

    return write


def matrix_market(form):
    def write(folder):
        for number, matrix in enumerate(matrices()):
            matrix = matrix.astype(np.float64)  # its writer garbles float32 with many digits
            scipy.io.mmwrite(folder / f"layer{number}.mtx", matrix if form == "coordinate" else matrix.toarray(), precision=17)
        return folder

    return write


def binsparse(form):
    def write(folder):
        with h5py.File(folder / "layers.h5", "w") as file:
            for number, matrix in enumerate(matrices()):
                write_binsparse(file.create_group(f"layer{number}"), matrix, form)
        return folder / "layers.h5"

    return write


def safetensors(folder):
    save_file({f"fc{number}.weight": matrix.toarray() for number, matrix in enumerate(matrices())}, folder / "m.safetensors")
    layers = [{"weights": f"fc{number}.weight"} for number in range(3)]
    (folder / "network.json").write_text(json.dumps({"file": "m.safetensors", "layers": layers}))
    return folder


def onnx_model(folder):
    nodes, constants, name = [], [], "x"
    for number, matrix in enumerate(matrices()):
        constants.append(numpy_helper.from_array(matrix.toarray(), f"w{number}"))
        constants.append(numpy_helper.from_array(np.full(matrix.shape[0], 0.25, np.float32), f"b{number}"))
        nodes.append(helper.make_node("Gemm", [name, f"w{number}", f"b{number}"], [f"sum{number}"], transB=1))
        name = "y" if number == 2 else f"x{number}"
        nodes.append(helper.make_node("LeakyRelu", [f"sum{number}"], [name], alpha=LEAKY.parameter))
    inputs, outputs = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, ["samples", width]) for name, width in (("x", WIDTHS[0]), ("y", WIDTHS[-1]))
    )
    model = helper.make_model(
        helper.make_graph(nodes, "network", [inputs], [outputs], constants), opset_imports=[helper.make_opsetid("", 17)], ir_version=8
    )
    onnx.checker.check_model(model)
    onnx.save(model, folder / "model.onnx")
    return folder / "model.onnx"


WRITERS = {
    "scipy csr": npz("csr"),
    "scipy csc": npz("csc"),
    "scipy coo": npz("coo"),
    "numpy rows": npy("C"),
    "numpy columns": npy("F"),
    "matrix market coordinate": matrix_market("coordinate"),
    "matrix market array": matrix_market("array"),
    "binsparse CSR": binsparse("CSR"),
    "binsparse CSC": binsparse("CSC"),
    "binsparse COO": binsparse("COO"),
    "safetensors": safetensors,
    "onnx": onnx_model,
}


def expect_written(network):
    """The network has the matrices, the bias and the activation that the writers wrote, in all bits."""
    assert network.num_layers == 3
    for layer, matrix in zip(network.layers(), matrices()):
        np.testing.assert_array_equal(layer.weights.toarray(), matrix.toarray())
        assert layer.weights.nnz == matrix.nnz
        np.testing.assert_array_equal(np.broadcast_to(layer.bias, matrix.shape[:1]), np.full(matrix.shape[0], 0.25))
        assert layer.activation == LEAKY


@pytest.mark.parametrize("name", WRITERS)
def test_a_file_of_another_program_goes_in_and_back(tmp_path, name):
    path = WRITERS[name](tmp_path)
    options = {} if name == "onnx" else {"activation": LEAKY, "bias": 0.25}
    network = varve.Network.from_file(path, **options)
    expect_written(network)
    saved = tmp_path / "saved.safetensors"
    network.save(saved)
    again = varve.Network.from_file(saved)
    expect_written(again)
    assert again.weights_hash() == network.weights_hash()
    arrays = load_file(saved)  # and by the other library
    for number, matrix in enumerate(matrices()):
        parts = (arrays[f"layers.{number}.{name}"] for name in ("values", "indices", "pointers"))
        np.testing.assert_array_equal(sp.csr_matrix(tuple(parts), shape=matrix.shape).toarray(), matrix.toarray())


def expect_same(network, again, keeps_zeros=True):
    """All bits of two networks."""
    assert network.num_layers == again.num_layers
    for one, other in zip(network.layers(), again.layers()):
        np.testing.assert_array_equal(one.weights.toarray(), other.weights.toarray())
        np.testing.assert_array_equal(*np.broadcast_arrays(one.bias, other.bias))
        assert one.activation == other.activation
        assert not keeps_zeros or one.weights.nnz == other.weights.nnz


def every_activation(dtype, softplus="softplus"):
    """A network whose numbers are of this type, with each activation, a stored zero and a bias for all outputs."""
    rng = np.random.default_rng(3)
    weights = [sp.random(12, 12, 0.4, "csr", random_state=rng, data_rvs=lambda size: rng.standard_normal(size).astype(dtype)) for _ in range(7)]
    weights[1].data[2] = 0
    biases = [0.25, *(rng.standard_normal(12).astype(dtype) for _ in range(6))]
    activations = ["relu", varve.Activation.leaky_relu(0.125), varve.Activation.clipped_relu(0.75), "sigmoid", softplus, "tanh", "identity"]
    return varve.Network.from_scipy(weights, biases, activations)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("ending, options", [(".onnx", {}), (".onnx", {"sparse": True}), (".npz", {}), (".safetensors", {})])
def test_networks_are_written_for_other_programs_and_read_back(tmp_path, dtype, ending, options):
    network, path = every_activation(dtype), tmp_path / f"network{ending}"
    network.save(path, **options)
    again = varve.Network.from_file(path)
    expect_same(network, again, keeps_zeros=ending != ".onnx" or options)
    if ending == ".onnx":
        model = onnx.load(path)
        onnx.checker.check_model(model, full_check=not options)
        assert model.opset_import[0].version == 17 and model.producer_name == "varve"
        assert model.graph.input[0].type.tensor_type.elem_type == (TensorProto.FLOAT if dtype == np.float32 else TensorProto.DOUBLE)
        assert len(model.graph.sparse_initializer) == (7 if options else 0)
        if not options:  # the reference evaluator takes dense constants only
            X = np.random.default_rng(1).standard_normal((20, 12)).astype(dtype)
            (found,) = ReferenceEvaluator(model).run(None, {"x": X})
            np.testing.assert_allclose(found, network.infer(X, precision=np.dtype(dtype).name), rtol=1e-4, atol=1e-5)
    if ending == ".npz":
        with np.load(path) as archive:
            parts = (archive[f"layers.1.{name}"] for name in ("data", "indices", "indptr"))
            matrix = sp.csr_array(tuple(parts), shape=tuple(archive["layers.1.shape"]))
            np.testing.assert_array_equal(matrix.toarray(), network.layer(1).weights.toarray())
            assert archive["layers.1.activation"] == "leaky_relu" and archive["layers.1.parameter"] == 0.125


def test_the_way_out_of_memory():
    network = every_activation(np.float64)
    weights, bias, activation = network.to_scipy()
    expect_same(network, varve.Network.from_scipy(weights, bias, activation))


def test_what_a_file_cannot_hold_is_refused(tmp_path):
    network = every_activation(np.float32)
    with pytest.raises(varve.UsageError, match="sparse is for .onnx"):
        network.save(tmp_path / "n.npz", sparse=True)
    with pytest.raises(varve.UsageError, match="unknown ending|ending"):
        network.save(tmp_path / "n.pt")
    network.save(tmp_path / "n.npz")
    content = (tmp_path / "n.npz").read_bytes()
    (tmp_path / "n.npz").write_bytes(content.replace("leaky".encode("utf-32-le"), "leaks".encode("utf-32-le")))
    with pytest.raises(varve.InputError, match="n.npz"):
        varve.Network.from_file(tmp_path / "n.npz")
    with pytest.raises(varve.ResourceError, match="cannot be written"):
        network.save(tmp_path / "no" / "n.npz")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["n.npz"]


@pytest.mark.parametrize("ending", [".npy", ".npz"])
@pytest.mark.parametrize("make", [np.asarray, sp.csr_array])
def test_samples_are_written_for_numpy(tmp_path, ending, make):
    X = np.float32([[0, 1.5, 0], [2, 0, -0.25]])
    path = tmp_path / f"x{ending}"
    varve.save_samples(path, make(X))
    np.testing.assert_array_equal(varve.read_samples(path).X.toarray(), X)
    found = np.load(path) if ending == ".npy" else sp.load_npz(path)
    assert found.shape == (2, 3) and (ending == ".npz" or found.dtype == np.float32)
    with pytest.raises(varve.UsageError, match="holds no labels, targets or first sample"):
        varve.save_samples(path, make(X), labels=[0, 1])
    with pytest.raises(varve.InputError, match="not finite"):
        varve.save_samples(path, make(np.float32([[np.nan, 1]])))


def test_there_are_twelve_of_them():
    assert len(WRITERS) == 12


def test_one_matrix_is_a_network_of_one_layer(tmp_path):
    matrix = matrices()[0]
    sp.save_npz(tmp_path / "one.npz", matrix)
    network = varve.Network.from_file(tmp_path / "one.npz", activation="clipped_relu", cap=2)
    np.testing.assert_array_equal(network.layer(0).weights.toarray(), matrix.toarray())
    assert network.layer(0).activation == varve.Activation.clipped_relu(2)
    turned = varve.Network.from_file(tmp_path / "one.npz", activation="leaky_relu", slope=0.5, transposed=True)
    np.testing.assert_array_equal(turned.layer(0).weights.toarray(), matrix.toarray().T)
    assert turned.layer(0).activation == varve.Activation.leaky_relu(0.5)


def test_square_matrices_of_a_file_bring_a_warning(tmp_path, recwarn):
    np.save(tmp_path / "square.npy", np.eye(4) + np.eye(4, k=1))
    with pytest.warns(UserWarning, match=r"square.npy are square.*if they are inputs: transposed=True"):
        varve.Network.from_file(tmp_path / "square.npy", activation="relu")
    recwarn.clear()
    varve.Network.from_file(tmp_path / "square.npy", activation="relu", transposed=True)
    assert not recwarn.list


@pytest.mark.parametrize(
    "options, kind, sentence",
    [
        ({}, varve.UsageError, "nothing says which activation follows them; add activation,"),
        ({"activation": "relu", "cap": 3.0}, varve.Error, "cap"),
        ({"activation": LEAKY, "slope": 0.5}, varve.UsageError, "the slope is given in the activation and in slope"),
        ({"activation": "softmax"}, varve.UsageError, "no activation 'softmax'"),
        ({"activation": "relu", "layers": 2}, varve.UsageError, "the number of layers 2 was asked for"),
        ({"activation": "relu", "transposed": True}, varve.InputError, "layer 1 takes 40 inputs, but layer 0 has 23 outputs"),
    ],
)
def test_options_that_do_not_fit_are_refused_by_a_sentence(tmp_path, options, kind, sentence):
    with pytest.raises(kind, match=sentence):
        varve.Network.from_file(npy("C")(tmp_path), **options)


# --- samples


def samples(width=23):
    generator = np.random.default_rng(4)
    X = np.round(generator.random((37, width)) * 255) * (generator.random((37, width)) < 0.3)
    X[5] = 0
    X[-1, -1] = 17  # text says neither the number of samples nor the width
    return X


def idx(array, name):
    kind = {np.dtype(np.uint8): 8}[array.dtype]
    head = struct.pack(">BBBB", 0, 0, kind, array.ndim) + struct.pack(f">{array.ndim}I", *array.shape)
    with gzip.open(name, "wb") as file:
        file.write(head + array.tobytes())


def binsparse_samples(path):
    with h5py.File(path, "w") as file:
        write_binsparse(file, sp.csr_matrix(samples()), "CSC")


SAMPLE_WRITERS = {
    "x.npy": lambda path: np.save(path, samples()),
    "columns.npy": lambda path: np.save(path, np.asfortranarray(samples().astype(np.float32))),
    "x.npz": lambda path: sp.save_npz(path, sp.csc_matrix(samples())),
    "x.mtx": lambda path: scipy.io.mmwrite(path, sp.coo_matrix(samples())),
    "binsparse.h5": binsparse_samples,
    "own.safetensors": lambda path: varve.save_samples(path, samples()),
    "x.tsv": lambda path: varve.save_samples(path, sp.csr_array(samples())),
    "x.tsv.gz": lambda path: varve.save_samples(path, samples()),
    "images-idx2-ubyte.gz": lambda path: idx(samples().astype(np.uint8), path),
}


@pytest.mark.parametrize("name", SAMPLE_WRITERS)
def test_files_of_samples(tmp_path, name):
    path = tmp_path / name
    SAMPLE_WRITERS[name](path)
    scale = 255 if "idx" in name else 1
    expected = (samples() / scale).astype(np.float32 if "idx" in name else np.float64)
    read = varve.read_samples(path, neurons=23)
    assert len(read) == 37 and read.first_sample == 0 and read.labels is None and read.targets is None
    np.testing.assert_array_equal(read.X.toarray(), expected)
    network = varve.generate.random([23, 30, 4], degree=5, seed=3)
    wanted = network.infer(expected)
    np.testing.assert_array_equal(network.infer(path), wanted)
    np.testing.assert_array_equal(network.infer(str(path)), wanted)
    np.testing.assert_array_equal(network.infer(read), wanted)
    np.testing.assert_array_equal(network.predict(path), wanted.argmax(axis=1))
    np.testing.assert_array_equal(network.classify(path), np.flatnonzero(wanted.any(axis=1)))
    assert network.plan(path) == network.plan(expected) and network.verify(path, wanted).is_right
    other = varve.generate.random([24, 4], degree=5)
    with pytest.raises((varve.InputError, varve.UsageError), match="2[34]"):
        if ".tsv" in name:  # its width is what the reader is told
            varve.read_samples(path, neurons=22)
        else:
            other.infer(path)


def test_answers_in_files(tmp_path):
    X, labels = samples(), np.arange(37) % 4
    targets = np.random.default_rng(1).random((37, 4))
    network = varve.generate.random([23, 30, 4], degree=5, seed=3)
    varve.save_samples(tmp_path / "both.safetensors", X, labels, targets)
    read = varve.read_samples(tmp_path / "both.safetensors")
    np.testing.assert_array_equal(read.labels, labels)
    np.testing.assert_array_equal(read.targets.toarray(), targets)
    by_labels, by_targets = network.evaluate(X, labels), network.evaluate(X, targets=targets)
    assert network.evaluate(tmp_path / "both.safetensors") == by_labels
    assert network.evaluate(read, loss="mean-square") == by_targets
    varve.save_samples(tmp_path / "x.safetensors", X)
    np.save(tmp_path / "labels.npy", labels)
    idx(labels.astype(np.uint8), tmp_path / "labels-idx1-ubyte.gz")
    (tmp_path / "labels.txt").write_text("\n".join(str(label) for label in labels))
    np.save(tmp_path / "targets.npy", targets)
    for name in ("labels.npy", "labels-idx1-ubyte.gz", "labels.txt"):
        assert network.evaluate(tmp_path / "x.safetensors", tmp_path / name) == by_labels
        assert network.evaluate(X, tmp_path / name) == by_labels
    assert network.evaluate(tmp_path / "x.safetensors", targets=tmp_path / "targets.npy") == by_targets
    with pytest.raises(varve.UsageError, match="needs labels or targets"):
        network.evaluate(tmp_path / "x.safetensors")


def test_training_from_files(tmp_path):
    X, labels = samples(), np.arange(37) % 4
    start = varve.generate.random([23, 30, 4], degree=5, seed=3).with_initial_weights(last_activation="identity")
    varve.save_samples(tmp_path / "train.safetensors", X[:30], labels[:30])
    varve.save_samples(tmp_path / "test.safetensors", X[30:], labels[30:])
    wanted = varve.train(start, X[:30], labels[:30], validation=(X[30:], labels[30:]), epochs=2)
    found = varve.train(start, tmp_path / "train.safetensors", validation=tmp_path / "test.safetensors", epochs=2)
    assert found.network.weights_hash() == wanted.network.weights_hash() and found.history == wanted.history
    varve.save_samples(tmp_path / "bare.safetensors", X[30:])
    with pytest.raises(varve.InputError, match="validation holds no labels"):
        varve.train(start, tmp_path / "train.safetensors", validation=tmp_path / "bare.safetensors", epochs=2)


@pytest.mark.parametrize(
    "call, sentence",
    [
        (lambda folder: varve.read_samples(folder / "missing.npy"), "missing.npy"),
        (lambda folder: varve.read_samples(broken(folder, "x.npy")), "x.npy"),
        (lambda folder: varve.read_samples(broken(folder, "x.txt")), "how many neurons its samples have; add neurons"),
        (lambda folder: varve.save_samples(folder / "x.png", np.eye(3)), "x.png has an unknown ending"),
        (lambda folder: varve.save_samples(folder / "x.safetensors", np.ones(3)), r"X has the shape \(3,\), expected \(samples"),
        (lambda folder: varve.save_samples(folder / "x.safetensors", np.eye(3), [1, 2]), r"labels have the shape \(2,\), expected \(3,\)"),
        (lambda folder: varve.save_samples(folder / "x.safetensors", np.eye(3), [1, 2, -1]), "labels are -1 to 2, expected 0 to"),
        (lambda folder: varve.save_samples(folder / "x.safetensors", np.eye(3), None, np.eye(4)), r"targets have the shape \(4, 4\)"),
        (lambda folder: varve.save_samples(folder / "x.tsv", np.eye(3), [1, 2, 0]), "x.tsv"),
        (lambda folder: varve.Network.from_file(broken(folder, "x.onnx")), "x.onnx"),
    ],
)
def test_broken_files_of_samples_are_refused_by_a_sentence(tmp_path, call, sentence):
    with pytest.raises((varve.InputError, varve.UsageError), match=sentence):
        call(tmp_path)
    assert not (tmp_path / "x.safetensors").exists() and not (tmp_path / "x.tsv").exists()


def broken(folder, name):
    head = b"\x93NUMPY\x01\x00v\x00{'descr': '<f8', 'fortran_order': False, 'shape': (1000000, 1000000)}" if name.endswith("npy") else b"1 1 1\n"
    (folder / name).write_bytes(head)
    return folder / name


def test_the_python_of_the_format_writes_what_varve_reads(tmp_path):
    document = (pathlib.Path(__file__).parents[2] / "src/io/FORMAT.md").read_text()
    script = document.split("```python\n")[1].split("```")[0]
    subprocess.run([sys.executable, "-c", script], cwd=tmp_path, check=True)
    network = varve.Network.from_file(tmp_path / "network.safetensors")
    assert network.num_layers == 3
    for number, layer in enumerate(network.layers()):
        np.testing.assert_array_equal(layer.weights.toarray(), sp.random(8, 8, density=0.5, random_state=number).toarray())
        assert layer.bias == -0.25 and layer.activation == varve.Activation.clipped_relu(32)
    samples = varve.read_samples(tmp_path / "samples.safetensors")
    np.testing.assert_array_equal(samples.X.toarray(), sp.random(5, 8, density=0.5, random_state=7).toarray())
    np.testing.assert_array_equal(samples.targets.toarray(), sp.random(5, 8, density=0.5, random_state=8).toarray())
    assert samples.labels.tolist() == [3, 0, 7, 2, 0]
