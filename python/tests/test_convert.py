"""varve-convert, and what the readers of other programs' files refuse."""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import json
import lzma
import os
import pathlib
import random
import subprocess
import sys
import warnings
import zipfile

import h5py
import numpy as np
import onnx
import pytest
import scipy.io
import scipy.sparse as sp
import varve
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from safetensors import safe_open
from safetensors.numpy import load_file, save_file
from test_files import write_binsparse
from varve import _container, _hdf5, convert

OLD = pathlib.Path(__file__).parent / "data" / "varve-0.2"
EXPECTED = json.loads((OLD / "expected.json").read_text())
SHARE = int(os.environ.get("VARVE_TEST_SHARE", 1))  # of so many mutants, one is tried
MATRIX = np.array([[0, 1.5, 0, -2], [0, 0, 0, 0], [3, 0, 0, 4]], np.float32)


def command(*arguments):
    """Runs varve-convert in this process; libraries do not crash over these files."""
    convert.convert(convert._parse([str(argument) for argument in arguments]))


def run(*arguments, **options):
    """Runs varve-convert as users do."""
    return subprocess.run(
        [sys.executable, "-m", "varve.convert", *map(str, arguments)], capture_output=True, text=True, timeout=120, **options
    )


def sha256(array):
    return hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()


# --- files of Varve 0.2


@pytest.mark.parametrize("name", ["network", "checkpoint"])
def test_networks_of_0_2_keep_their_hash(tmp_path, name):
    command(OLD / f"{name}.h5", tmp_path / "out.safetensors")
    for path in (OLD / f"{name}.h5", tmp_path / "out.safetensors"):
        assert f"{varve.Network.from_file(path).weights_hash():016x}" == EXPECTED[name]["weights_hash"]


def test_samples_of_0_2_keep_their_numbers(tmp_path):
    command(OLD / "samples.h5", tmp_path / "out.safetensors")
    network = varve.Network.from_file(OLD / "network.h5")
    for path in (OLD / "samples.h5", tmp_path / "out.safetensors"):
        read = varve.read_samples(path)
        assert sha256(read.X.toarray()) == EXPECTED["samples"]["sha256 of dense float64 X"]
        assert sha256(read.targets.toarray()) == EXPECTED["samples"]["sha256 of dense float64 targets"]
        assert read.labels.tolist() == EXPECTED["samples"]["labels"]
        assert sha256(network.infer(path, edge_order="ascending")) == EXPECTED["activations"]["sha256 of float32 inference of X"]
        assert network.evaluate(path) == network.evaluate(read.X, read.labels)
        assert network.evaluate(read.X, path) == network.evaluate(read)


def test_matrices_of_0_2_keep_their_numbers(tmp_path):
    command(OLD / "matrix.h5", tmp_path / "out.safetensors")
    matrix = load_file(tmp_path / "out.safetensors")["matrix"]
    assert sha256(matrix) == EXPECTED["matrix"]["sha256"]
    np.testing.assert_array_equal(varve.matmul(tmp_path / "out.safetensors", np.eye(30, dtype=np.float32)), matrix)


def test_checkpoints_of_0_2_remain_checkpoints(tmp_path):
    command(OLD / "checkpoint.h5", tmp_path / "out.safetensors")
    arrays = load_file(tmp_path / "out.safetensors")
    with safe_open(tmp_path / "out.safetensors", "numpy") as file, h5py.File(OLD / "checkpoint.h5") as old:
        description = json.loads(file.metadata()["varve"])
        assert description["training"] == {"steps": 5, "moments": 2} and len(description["best"]) == 3
        assert arrays["training.recipe"].tobytes() == old["training"].attrs["recipe"]
        assert arrays["training.progress"].tobytes() == old["training"].attrs["progress"]
        np.testing.assert_array_equal(arrays["history"], old["history"][()].reshape(5, 11))
        for layer in range(3):
            for kind in ("weights", "bias"):
                for moment in range(2):
                    np.testing.assert_array_equal(
                        arrays[f"training.{layer}.{kind}.{moment}"], old[f"training/{layer:06}/{kind}_{moment}"][()]
                    )
            np.testing.assert_array_equal(arrays[f"best.{layer}.bias"], old[f"best/{layer:06}/bias"][()])
    samples = varve.read_samples(OLD / "samples.h5")
    with pytest.raises(varve.UsageError, match="out.safetensors is of a training with rate 2.0, not 0.001"):  # what it says is read
        varve.train(varve.Network.from_file(OLD / "network.h5"), samples.X, samples.labels, optimizer="adam", rate_schedule="constant", checkpoint=tmp_path / "out.safetensors")


def test_the_number_of_the_first_sample_stays(tmp_path):
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file.attrs.update(format="varve-samples", version=1, first_sample=1000)
        write_binsparse(file.create_group("samples"), sp.csr_matrix(MATRIX), "CSR")
        file["labels"] = [1, 2, 3]
    command(tmp_path / "x.h5", tmp_path / "x.safetensors")
    read = varve.read_samples(tmp_path / "x.safetensors")
    assert read.first_sample == 1000 and read.labels.tolist() == [1, 2, 3]
    np.save(tmp_path / "y.npy", [4, 5, 6])
    with pytest.raises(varve.InputError, match="labels of the samples 1:3, expected labels of the samples 1001:1003"):
        command(tmp_path / "x.h5", tmp_path / "y.safetensors", "--labels", tmp_path / "y.npy")


# --- the command


def test_a_matrix_is_samples_or_a_network(tmp_path):
    np.save(tmp_path / "m.npy", MATRIX)
    np.save(tmp_path / "y.npy", [2, 0, 1])
    command(tmp_path / "m.npy", tmp_path / "x.safetensors", "--labels", tmp_path / "y.npy", "--targets", tmp_path / "m.npy")
    read = varve.read_samples(tmp_path / "x.safetensors")
    np.testing.assert_array_equal(read.X.toarray(), MATRIX)
    np.testing.assert_array_equal(read.targets.toarray(), MATRIX)
    assert read.labels.tolist() == [2, 0, 1]
    command(tmp_path / "m.npy", tmp_path / "n.safetensors", "--cap", "2", "--bias", "-1", "--transpose-weights")
    layer = varve.Network.from_file(tmp_path / "n.safetensors").layer(0)
    np.testing.assert_array_equal(layer.weights.toarray(), MATRIX.T)
    assert layer.activation == varve.Activation.clipped_relu(2) and layer.bias.tolist() == [-1]


@pytest.mark.parametrize("kind", ["<f4", "<f8", "<i2"])
def test_dense_matrices(tmp_path, kind, monkeypatch):
    matrix = (np.random.default_rng(1).standard_normal((37, 1030)) * 100).astype(kind)
    stored = np.float64 if kind == "<f8" else np.float32
    np.save(tmp_path / "m.npy", np.asfortranarray(matrix))
    command(tmp_path / "m.npy", tmp_path / "npy.safetensors", "--matrix")
    with h5py.File(tmp_path / "m.h5", "w") as file:
        file.create_dataset("run/a", data=matrix.astype(stored), chunks=(8, 100), compression="gzip", shuffle=True, fletcher32=True)
        file["run/big"] = matrix.astype(stored).astype(np.dtype(stored).newbyteorder(">"))
        group = file.create_group("run/b")
        group["values"] = matrix.astype(stored).reshape(-1)
        group.attrs["binsparse"] = json.dumps({"binsparse": {"version": "0.1", "format": "DMATR", "shape": matrix.shape}})
    for name in ("a", "b", "big"):
        command(f"{tmp_path}/m.h5:run/{name}", tmp_path / f"{name}.safetensors")
    for name in ("npy", "a", "b", "big"):
        found = load_file(tmp_path / f"{name}.safetensors")["matrix"]
        assert found.dtype == stored
        np.testing.assert_array_equal(found, matrix)
        np.testing.assert_array_equal(varve.matmul(tmp_path / f"{name}.safetensors", np.eye(1030, dtype=stored)), matrix)


@pytest.mark.parametrize(
    "arguments, code, sentence",
    [
        ([], 2, "the following arguments are required"),
        (["m.npy", "out.h5"], 2, "out.h5 has an unknown ending, expected .safetensors"),
        (["missing", "out.safetensors"], 3, "missing cannot be read: No such file or directory"),
        (["m.npy", "out.safetensors", "--slope", "0.5"], 2, "--slope is for networks of matrices; m.npy holds none"),
        (["m.npy", "out.safetensors", "--cap", "1", "--labels", "m.npy"], 2, "--labels is for samples; m.npy holds none"),
        (["m.npy", "out.safetensors", "--activation", "softmax"], 2, "invalid choice: 'softmax'"),
        (["m.npy", "out.safetensors", "--activation", "leaky_relu"], 3, "m.npy: layer 0: found no slope for the activation leaky_relu"),
        (["m.npy", "out.safetensors", "--labels", "m.npy"], 3, "m.npy: found an array of the shape (3, 4), expected one dimension"),
        (["m.npy:x", "out.safetensors"], 3, 'm.npy: "x" is not a dense matrix'),
        (["text", "out.safetensors"], 2, "text is text and does not say how many neurons"),
        ([".", "out.safetensors", "--cap", "1"], 2, "out.safetensors would become a part of the folder ., which is read"),
        (["m.npy", "none/out.safetensors"], 4, "none/out.safetensors cannot be written: No such file or directory"),
    ],
)
def test_the_command_says_in_one_sentence_what_is_wrong(tmp_path, arguments, code, sentence):
    np.save(tmp_path / "m.npy", MATRIX)
    (tmp_path / "text").write_text("1\t1\t1\n")
    done = run(*arguments, cwd=tmp_path)
    assert done.returncode == code and done.stderr.startswith("varve-convert: ") and done.stderr.count("\n") == 1
    assert sentence in done.stderr
    assert sorted(os.listdir(tmp_path)) == ["m.npy", "text"]


def test_the_command_runs(tmp_path):
    np.save(tmp_path / "m.npy", np.eye(4))
    done = run("m.npy", "out.safetensors", "--activation", "relu", cwd=tmp_path)
    assert done.returncode == 0 and done.stdout == ""
    assert "all weights of m.npy are square" in done.stderr and "(if they are inputs: --transpose-weights)" in done.stderr
    assert sorted(os.listdir(tmp_path)) == ["m.npy", "out.safetensors"]
    assert "FILE:DATASET" in run("--help").stdout


def test_a_crash_of_a_library_is_a_sentence(tmp_path, monkeypatch):
    (tmp_path / "sitecustomize.py").write_text("import h5py, os\nh5py.File = lambda *_: os.abort()\n")
    environment = dict(os.environ, PYTHONPATH=f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}")
    done = run(OLD / "network.h5", tmp_path / "out.safetensors", env=environment)
    assert done.returncode == 3 and "network.h5 cannot be read: SIGABRT ended the library that reads it" in done.stderr


@pytest.mark.parametrize("name, package", [("h5py", "h5py"), ("onnx", "onnx"), ("safetensors", "safetensors"), ("scipy.sparse", "scipy")])
def test_a_missing_library_is_named(tmp_path, monkeypatch, name, package):
    path = {"h5py": lambda: OLD / "network.h5", "onnx": lambda: model(tmp_path), "safetensors": lambda: tensors(tmp_path)}.get(name)
    np.save(tmp_path / "m.npy", MATRIX)
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(varve.ResourceError, match=f"is read by the Python package {package}, which is missing: pip install {package}"):
        varve.Network.from_file(path()) if path else varve.Network.from_file(tmp_path / "m.npy", activation="relu")


def test_what_is_written_must_come_back(tmp_path, monkeypatch):
    monkeypatch.setattr(_container, "_read", lambda file, first, last: iter([memoryview(bytes(last - first))]))
    with pytest.raises(varve.ResourceError, match="holds other numbers than were written"):
        _container.write(str(tmp_path / "x.safetensors"), {}, {"matrix": np.ones((100, 1000), np.float32)})
    assert os.listdir(tmp_path) == []


def test_pieces_are_hashed_as_the_format_says(tmp_path):
    matrix = np.random.default_rng(1).standard_normal((123, 4567))
    blocks = _container.Blocks(matrix.dtype, matrix.shape, (matrix[row : row + 7] for row in range(0, 123, 7)))
    _container.write(str(tmp_path / "x.safetensors"), {"kind": "matrix", "shape": [123, 4567]}, {"matrix": blocks})
    arrays, data = load_file(tmp_path / "x.safetensors"), matrix.tobytes()
    hashes = b"".join(hashlib.sha256(data[at : at + 65536]).digest() for at in range(0, len(data), 65536))
    assert arrays["sha256"].tobytes() == hashes
    with safe_open(tmp_path / "x.safetensors", "numpy") as file:
        metadata = file.metadata()
    assert metadata["varve.sha256"] == hashlib.sha256(metadata["varve"].encode() + hashes).hexdigest()


# --- lists of layers


def layer_files(folder):
    """Weights of 2 x 3, then 4 x 2."""
    np.save(folder / "a9.npy", np.full((2, 3), 1, np.float32))
    np.save(folder / "a10.npy", np.full((4, 2), 2, np.float32))
    np.save(folder / "bias.npy", np.arange(1.0, 5))
    return folder


def test_a_list_describes_weights_biases_and_activations(tmp_path):
    layer_files(tmp_path)
    layers = ["a9.npy", {"weights": "a10.npy", "bias": "bias.npy", "activation": "sigmoid"}]
    (tmp_path / "network.json").write_text(json.dumps({"activation": "clipped_relu", "cap": 2, "layers": layers}))
    for path in (tmp_path, tmp_path / "network.json"):
        first, second = varve.Network.from_file(path).layers()
        assert first.activation == varve.Activation.clipped_relu(2) and first.bias.tolist() == [0]
        assert second.activation == varve.Activation("sigmoid") and second.bias.tolist() == [1, 2, 3, 4]
        np.testing.assert_array_equal(first.weights.toarray(), np.ones((2, 3)))


def test_the_matrices_of_a_folder_are_layers_in_the_order_of_their_numbers(tmp_path):
    layer_files(tmp_path)
    with pytest.raises(varve.InputError, match=r"layer 2: found a list of 4 numbers in .*bias.npy, expected a matrix of weights \(the"):
        varve.Network.from_file(tmp_path, activation="relu")
    (tmp_path / "bias.npy").rename(tmp_path / ".hidden.npy")
    network = varve.Network.from_file(tmp_path, activation="leaky_relu", slope=0.5, bias=-1)
    assert (network.num_inputs, network.num_outputs) == (3, 4) and network.layer(1).bias.tolist() == [-1]
    with pytest.raises(varve.UsageError, match="the number of layers 3 was asked for, but .* says 2"):
        varve.Network.from_file(tmp_path, activation="relu", layers=3)
    names = ["-", "1", "02", "10", "a9b", "b1", "layer", "layer0", "layer2", "layer10", "x1y2", "x01y3", "\u00b2"]
    assert sorted(reversed(names), key=_hdf5.natural) == names


def test_groups_of_a_file_are_layers_too(tmp_path):
    with h5py.File(tmp_path / "layers.h5", "w") as file:
        for number in range(11):
            write_binsparse(file.create_group(f"layer{number}"), sp.identity(4, dtype=np.float32, format="csr") * (number + 1), "CSC")
        file["some bias"] = [1.0, 2.0, 3.0, 4.0]
        file["elsewhere"] = h5py.ExternalLink("other.h5", "/layer0")
    with pytest.warns(UserWarning, match="are square"):
        network = varve.Network.from_file(tmp_path / "layers.h5", activation="relu")
    assert [layer.weights.data[0] for layer in network.layers()] == list(range(1, 12))
    layers = [{"weights": "layer0", "bias": "some bias"}, {"weights": "layer4", "activation": "identity", "transpose": False}]
    text = {"file": "layers.h5", "activation": "leaky_relu", "slope": 0.25, "layers": layers}
    (tmp_path / "list.json").write_text(json.dumps(text))
    first, second = varve.Network.from_file(tmp_path / "list.json").layers()
    assert first.bias.tolist() == [1, 2, 3, 4] and first.activation == varve.Activation.leaky_relu(0.25)
    assert second.activation == varve.Activation("identity") and second.weights.data[0] == 5


def test_orientation_is_asked_for_and_noted(tmp_path, recwarn):
    np.save(tmp_path / "1.npy", np.arange(1, 7).reshape(3, 2))
    np.save(tmp_path / "2.npy", np.ones((2, 4)))
    hint = "layer 1 takes 4 inputs, but layer 0 has 3 outputs; they fit if the rows of the weights are inputs: add transposed=True"
    with pytest.raises(varve.InputError, match=hint):
        varve.Network.from_file(tmp_path, activation="relu")
    network = varve.Network.from_file(tmp_path, activation="relu", transposed=True)
    np.testing.assert_array_equal(network.layer(0).weights.toarray(), [[1, 3, 5], [2, 4, 6]])
    np.save(tmp_path / "square", np.ones((2, 2)))
    (tmp_path / "list.json").write_text('{"transpose": false, "activation": "relu", "layers": ["square.npy"]}')
    varve.Network.from_file(tmp_path / "list.json")
    assert not recwarn.list


@pytest.mark.parametrize(
    "text, sentence",
    [
        ("{", ": found no JSON object, expected one that lists layers"),
        ("{}", ': found no "layers" that is a list, expected one with at least one layer'),
        ('{"layers": [3]}', ': layer 0: found "3", expected a JSON object or the name of a file'),
        ('{"layers": ["a9.npy", {}], "activation": "relu"}', ': layer 1: found no "weights", expected the name of a file, tensor or group'),
        ('{"layers": ["a9.npy\\u0000.h5"]}', ", expected one without NUL characters"),
        ('{"layers": ["a9.npy\\ud800"]}', ", expected one without NUL characters"),
        ('{"file": "a9.npy\\u0000", "layers": ["a"]}', ", expected one without NUL characters"),
        ('{"layers": [{"weights": "a9.npy", "bias": "bias.npy\\u0000"}]}', ", expected one without NUL characters"),
        ('{"layers": ["a9.npy"], "layers": []}', ': found the JSON key "layers" twice in one object, expected it once'),
        ('{"layers": ["a9.npy"], "activations": "relu"}', ': found the key "activations", expected one of file, layers'),
        ('{"layers": ["a9.npy"], "activation": "gelu"}', ': layer 0: found the activation "gelu", expected one of identity, relu'),
        ('{"layers": ["a9.npy"], "activation": 3}', ': found "activation": "3", expected a name'),
        ('{"layers": ["a9.npy"], "activation": "clipped_relu", "cap": true}', ': found "cap": "true", expected a number'),
        ('{"layers": ["a9.npy"], "activation": "clipped_relu", "cap": NaN}', ": found the word NaN, expected a number"),
        ('{"layers": ["a9.npy"], "activation": "clipped_relu", "cap": 1%s}' % ("0" * 400), ": layer 0: the cap is inf"),
        ('{"layers": ["a9.npy"], "activation": "relu", "transpose": 1}', ': found "transpose": "1", expected true or false'),
        ('{"layers": ["a9.npy"], "activation": "relu", "slope": 0.5}', ": layer 0: found a slope for the activation relu, which has none"),
        ('{"layers": ["a9.npy"], "activation": "leaky_relu"}', ": layer 0: found no slope for the activation leaky_relu, expected one"),
        ('{"layers": [{"weights": "a9.npy", "bias": "bias.npy"}], "activation": "relu"}', ": layer 0: found 4 biases for 2 outputs"),
        ('{"layers": [{"weights": "a9.npy", "bias": "a9.npy"}], "activation": "relu"}', "found an array of the shape (2, 3), expected a list"),
        ('{"layers": [{"weights": "a9.npy", "bias": "no.npy"}], "activation": "relu"}', "no.npy: found no list of numbers"),
        ('{"layers": ["a9.npy", "a9.npy"], "activation": "relu"}', ": layer 1 takes 3 inputs, but layer 0 has 2 outputs"),
        ('{"layers": ["list.json"], "activation": "relu"}', ": layer 0: found no matrix in"),
        ('{"layers": ["none/"], "activation": "relu"}', ': layer 0: found empty "weights", expected a name'),
        ('{"file": "a9.npy", "layers": ["x"], "activation": "relu"}', ': layer 0: found the name "x" of a part of'),
        ("[" * 100_000, ": found no JSON object"),
        ('{"layers": %s%s}' % ("[" * 100_000, "]" * 100_000), ": found no JSON object"),
    ],
)
def test_broken_lists_are_refused(tmp_path, text, sentence):
    layer_files(tmp_path)
    path = tmp_path / "list.json"
    path.write_text(text if text.startswith("{") else f'{{"layers": {text}')
    with pytest.raises(varve.InputError) as refused:
        varve.Network.from_file(path)
    assert sentence in str(refused.value) and str(refused.value).startswith(str(tmp_path))


def tensors(folder, **changed):
    """A safetensors file and a list of two layers in it."""
    arrays = {"w": np.float32([[1, 0, 2], [0, 3, 0]]), "h": np.float16([[1, -2]]), "b": np.float32([1, 0]), **changed}
    save_file(arrays, folder / "m.safetensors")
    layers = [{"weights": "w", "bias": "b"}, {"weights": "h", "activation": "sigmoid"}]
    (folder / "list.json").write_text(json.dumps({"file": "m.safetensors", "activation": "relu", "layers": layers}))
    return folder / "list.json"


def test_tensors_of_other_programs_are_layers(tmp_path):
    first, second = varve.Network.from_file(tensors(tmp_path)).layers()
    np.testing.assert_array_equal(first.weights.toarray(), [[1, 0, 2], [0, 3, 0]])
    assert first.bias.tolist() == [1, 0] and second.weights.toarray().tolist() == [[1, -2]]
    with pytest.raises(varve.UsageError, match="list them in a JSON file and give that"):
        varve.Network.from_file(tmp_path / "m.safetensors")
    header = b'{"h": {"dtype": "BF16", "shape": [1, 2], "data_offsets": [0, 4]}}'
    (tmp_path / "m.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + b"\x80\x3f\x00\xc0")
    (tmp_path / "list.json").write_text('{"file": "m.safetensors", "activation": "relu", "layers": ["h"]}')
    assert varve.Network.from_file(tmp_path / "list.json").layer(0).weights.toarray().tolist() == [[1, -2]]


@pytest.mark.parametrize(
    "changed, sentence",
    [
        ({"w": np.ones(3)}, ': tensor "w": found 1 dimensions, expected 2'),
        ({"b": np.ones((1, 2))}, ': tensor "b": found 2 dimensions, expected 1'),
        ({"w": np.ones((2, 3), np.uint32)}, ': tensor "w": found elements of the type "U32"'),
        ({"w": np.float32([[1, np.nan, 1], [1, 1, 1]])}, ': tensor "w": found the value nan in row 0, column 1 (both from 0), expected a finite'),
    ],
)
def test_broken_tensors_are_refused(tmp_path, changed, sentence):
    with pytest.raises(varve.InputError) as refused:
        varve.Network.from_file(tensors(tmp_path, **changed))
    assert f"m.safetensors{sentence}" in str(refused.value)


def test_a_tensor_that_is_missing_is_named(tmp_path):
    path = tensors(tmp_path)
    path.write_text(path.read_text().replace('"h"', '"missing"'))
    with pytest.raises(varve.InputError, match='m.safetensors: found no tensor "missing", expected one among its 3'):
        varve.Network.from_file(path)


# --- arrays of NumPy


def npy_bytes(header, data=b"", version=1):
    text = header.encode() if isinstance(header, str) else repr(header).encode()
    length = len(text).to_bytes(2 if version == 1 else 4, "little")
    return b"\x93NUMPY" + bytes([version, 0]) + length + text + data


def npy_of(kind, shape, data=b"", fortran=False):
    return npy_bytes({"descr": kind, "fortran_order": fortran, "shape": shape}, data)


@pytest.mark.parametrize("kind", ["<f2", "<f4", "<f8", "|i1", "<i2", "<i4", "<i8", "|u1", "<u2", "<u4", "<u8", "|b1"])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("open_as", [open, gzip.open, lzma.open])
def test_arrays_of_all_types_are_read(tmp_path, kind, order, open_as):
    array = np.array((MATRIX.astype(np.int64) if kind[1] in "iub" else MATRIX), kind, order=order)
    with open_as(tmp_path / "x", "wb") as file:
        np.save(file, array)
    np.testing.assert_array_equal(varve.read_samples(tmp_path / "x").X.toarray(), array.astype(float))


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (1, 1)])
def test_small_arrays_are_read(tmp_path, shape):
    np.save(tmp_path / "x.npy", np.ones(shape))
    assert varve.read_samples(tmp_path / "x.npy").X.shape == shape


@pytest.mark.parametrize(
    "content, sentence",
    [
        (npy_of("<f4", (3, 4), MATRIX.tobytes()[:-1]), ": found an end after 11 numbers, expected 12 of the shape (3, 4)"),
        (npy_of("<f4", (3, 4), MATRIX.tobytes() + b"x"), ": found bytes behind the last number, expected 12 numbers of the shape (3, 4)"),
        (npy_of("<f4", (12,), MATRIX.tobytes()), ": found an array of the shape (12), expected two dimensions"),
        (npy_of("<f4", (3, 4))[:30], " cannot be read: "),
        (npy_of(">f4", (3, 4), MATRIX.tobytes()), 'NumPy\'s type ">f4"'),
        (npy_of("<c8", (3, 4), bytes(96)), "lowest byte first"),
        (npy_of("<f16", (1, 1), bytes(16)), 'NumPy\'s type "<f16"'),
        (npy_of("|O", (1, 1), bytes(16)), 'NumPy\'s type "|O"'),
        (npy_of([("a", "<f4")], (1, 1), bytes(4)), "NumPy's type "),
        (npy_bytes("{'descr': '<f4', 'shape': (1, 1), }"), " cannot be read: "),
        (npy_of("<f4", (1, -1)), "expected one of whole numbers, such as"),
        (npy_of("<f4", (2**31, 2)), "an end after 0 numbers"),
        (npy_of("<f4", (2**31, 0)), "found 2147483648 rows for 0 entries"),
        (npy_of("<f4", (2**40, 0)), "expected no more than 4294967295"),
        (npy_of("<f4", (1, 1), np.float32(np.inf).tobytes()), "found the value inf in row 0, column 0"),
        (npy_bytes("{" * 9000), " cannot be read: "),
        (npy_bytes("x", version=3), ": found version 3 of NumPy's format, expected 1 or 2"),
    ],
)
@pytest.mark.parametrize("open_as", [open, gzip.open])
def test_broken_arrays_are_refused(tmp_path, content, sentence, open_as):
    with open_as(tmp_path / "x.npy", "wb") as file:
        file.write(content)
    with pytest.raises(varve.InputError) as refused:
        varve.read_samples(tmp_path / "x.npy")
    assert sentence in str(refused.value) and str(refused.value).startswith(str(tmp_path / "x.npy"))


@pytest.mark.parametrize(
    "labels, sentence",
    [
        (np.int32([1, -1, 2]), "found -1 at position 1, expected no negative number"),
        (np.float32([1, 2, 3]), 'elements of NumPy\'s type "<f4", expected integers'),
        (np.int32([1, 2]), "found labels of the samples 1:2, expected labels of the samples 1:3"),
    ],
)
def test_labels_that_do_not_fit_are_refused(tmp_path, labels, sentence):
    np.save(tmp_path / "y.npy", labels)
    network = varve.generate.random([4, 4], degree=2)
    with pytest.raises(varve.InputError, match=sentence):
        network.evaluate(MATRIX, tmp_path / "y.npy")


def test_a_file_holds_samples_of_another_width(tmp_path):
    np.save(tmp_path / "x.npy", MATRIX)
    with pytest.raises(varve.InputError, match="x.npy holds samples of 4 neurons, the network has 5 inputs"):
        varve.generate.random([5, 4], degree=2).infer(tmp_path / "x.npy")


# --- SciPy and Matrix Market


def save_members(path, **members):
    np.savez(path, **{"format": b"csr", "shape": [2, 2], "indptr": [0, 1, 2], "indices": [0, 1], "data": [1.0, 2.0], **members})


@pytest.mark.parametrize(
    "write, sentence",
    [
        (lambda path: sp.save_npz(path, sp.identity(4, format="dia")), "found SciPy's sparse format \"dia\", expected csr, csc or coo"),
        (lambda path: np.savez(path, a=np.ones(3)), "expected a sparse matrix of SciPy (scipy.sparse.save_npz)"),
        (lambda path: sp.save_npz(path, sp.csr_matrix([[1j]])), ": data.npy: found elements of NumPy's type \"<c16\""),
        (
            lambda path: sp.save_npz(path, sp.coo_matrix(([1.0, 2.0], ([0, 0], [1, 1])), shape=(2, 2))),
            "found row 0, column 1 (both from 0) a second time, expected each entry once (SciPy: call sum_duplicates())",
        ),
        (lambda path: twice(path), 'found two members of the name "data.npy", expected one'),
        (lambda path: save_members(path, shape=[2]), ": shape.npy: found 1 numbers, expected 2"),
        (lambda path: save_members(path, shape=[2, -2]), "the column 0 at entry 0, expected 0 to below -2"),
        (lambda path: save_members(path, shape=[2**40, 2]), "found a matrix of 1099511627776 x 2"),
        (lambda path: save_members(path, indices=[0, 2]), "found the column 2 at entry 1, expected 0 to below 2"),
        (lambda path: save_members(path, indices=[0, -1]), "found -1 at position 1, expected no negative number"),
        (lambda path: save_members(path, indices=[0.0, 1.0]), ": indices.npy: found elements of NumPy's type"),
        (lambda path: save_members(path, indptr=[0, 1]), "found 2 row pointers, expected 3"),
        (lambda path: save_members(path, indptr=[1, 1, 2]), "found the first row pointer 1, expected 0"),
        (lambda path: save_members(path, indptr=[0, 3, 2]), "found the row pointer 2 after 3, expected ascending numbers"),
        (lambda path: save_members(path, indptr=[0, 1, 1]), "found the last row pointer 1, expected 2, the number of entries"),
        (lambda path: save_members(path, data=[1.0]), ": data.npy: found 1 values for 2 entries, expected one for each"),
        (lambda path: save_members(path, data=[[1.0, 2.0]]), ": data.npy: found an array of 2 dimensions, expected 1"),
        (lambda path: save_members(path, data=[1.0, np.inf]), "found the value inf in row 1, column 1"),
        (lambda path: save_members(path, format=b"csc", indptr=[0, 2, 2], indices=[1, 1]), "found row 1, column 0 (both from 0) a second"),
        (lambda path: save_members(path, format=b"csc", indices=[0, 2]), "found the row 2 at entry 1, expected 0 to below 2"),
        (lambda path: save_members(path, format=b"coo", row=[0], col=[0, 1]), "found 1 rows and 2 columns of entries, expected as many"),
        (lambda path: save_members(path, format=b"coo", shape=[2**31, 2], row=[0, 1], col=[0, 1]), "2147483648 rows for 2 entries"),
        (lambda path: save_members(path, format=5), ": format.npy: found elements of NumPy's type"),
        (lambda path: zipfile.ZipFile(path, "w").writestr("format.npy", b"x"), "found a ZIP archive of format.npy, expected a sparse matrix of SciPy"),
    ],
)  # fmt: skip
def test_broken_matrices_of_scipy_are_refused(tmp_path, write, sentence):
    path = tmp_path / "x.npz"
    write(path)
    with pytest.raises(varve.InputError) as refused:
        varve.read_samples(path)
    assert sentence in str(refused.value) and str(refused.value).startswith(str(path))


def twice(path):
    save_members(path)
    with warnings.catch_warnings(), zipfile.ZipFile(path, "a") as archive:
        warnings.simplefilter("ignore")
        archive.writestr("data.npy", npy_of("<f8", (2,), bytes(16)))


def test_stored_zeros_are_edges_but_no_entries_of_samples(tmp_path):
    sp.save_npz(tmp_path / "x.npz", sp.csr_matrix(([0.0, 1.0, 2.0], [1, 0, 2], [0, 2, 3]), shape=(2, 3)))  # unsorted
    assert varve.Network.from_file(tmp_path / "x.npz", activation="relu").num_edges == 3
    found = varve.read_samples(tmp_path / "x.npz").X
    assert found.nnz == 2 and found.toarray().tolist() == [[1, 0, 0], [0, 0, 2]]


@pytest.mark.parametrize(
    "text, found",
    [
        ("matrix coordinate real general\n2 2 1\n1 2 3\n", [[0, 3], [0, 0]]),
        ("matrix coordinate pattern general\n2 2 2\n1 2\n2 2\n", [[0, 1], [0, 1]]),
        ("matrix coordinate integer symmetric\n2 2 2\n1 1 1\n2 1 2\n", [[1, 2], [2, 0]]),
        ("matrix array real general\n% a remark\n2 2\n1\n2\n3\n4\n", [[1, 3], [2, 4]]),
        ("matrix coordinate real general\n2 2 1\n1 2 900\n% an end\n", [[0, 900], [0, 0]]),
        ("matrix coordinate real general\n2 2 1\n1 2 90", ":3: found \"1 2 90\" at the end of the file, expected a line break behind it"),
        ("matrix coordinate complex general\n2 2 1\n1 2 1 1\n", "expected values of the kind real, integer"),
        ("matrix coordinate real general\n2 2 2\n1 2 1\n1 2 1\n", "a second"),
        ("matrix coordinate real general\n2 2 1\n1 2 inf\n", ":3: found \"1 2 inf\", expected a finite number"),
        ("matrix coordinate real general\n2 2 1\n3 2 1\n", ":3: found"),
        ("matrix coordinate real general\n2 2 1\n1 2 +-5\n", ":3: found \"1 2 +-5\", expected a number"),
        ("matrix coordinate real general\n2 2 1000000000000\n1 2 1\n", "expected"),
        ("matrix array real general\n1000000 1000000\n1\n", "expected"),
        ("matrix coordinate real general\n", "expected"),
    ],
)
@pytest.mark.parametrize("open_as", [open, gzip.open, lzma.open])
def test_weights_in_matrix_market(tmp_path, text, found, open_as):
    with open_as(tmp_path / "w.mtx", "wb") as file:
        file.write(f"%%MatrixMarket {text}".encode())
    read = lambda: varve.Network.from_file(tmp_path / "w.mtx", activation="relu", transposed=False)  # noqa: E731
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it is square
        if isinstance(found, list):
            assert read().layer(0).weights.toarray().tolist() == found
            return
        with pytest.raises(varve.InputError) as refused:
            read()
    assert found in str(refused.value)


# --- HDF5


def descriptor(**changed):
    found = {"version": "0.1", "format": "CSR", "shape": [2, 2], "number_of_stored_values": 1, "data_types": {"values": "float64"}}
    return {key: value for key, value in {**found, **changed}.items() if value is not None}


def binsparse_file(path, arrays=None, **changed):
    with h5py.File(path, "w") as file:
        for name, array in {"pointers_to_1": [0, 1, 1], "indices_1": [1], "values": [2.0], **(arrays or {})}.items():
            file[name] = array
        file.attrs["binsparse"] = json.dumps({"binsparse": descriptor(**changed)})
    return path


@pytest.mark.parametrize(
    "arrays, changed, sentence",
    [
        ({}, {}, None),
        ({"fill_value": [0.0]}, {"fill": True}, None),
        ({"fill_value": [7.0]}, {"fill": False}, None),
        ({"fill_value": [7.0]}, {"fill": True}, ": found the fill value 7.0, expected 0 for all entries that are not stored"),
        ({}, {"fill": True}, 'no dataset "fill_value"'),
        ({}, {"fill": "yes"}, '"fill": "yes" in the binsparse descriptor, expected true or false'),
        ({}, {"version": "9"}, '"version": "9" in the binsparse descriptor, expected "0.1.0"'),
        ({}, {"format": "DMAT"}, 'expected "CSR", "CSC" or "COO"'),
        ({}, {"structure": "symmetric_lower"}, '"structure": "symmetric_lower"'),
        ({}, {"shape": [2]}, '"shape": "[2]" in the binsparse descriptor, expected two numbers'),
        ({}, {"shape": [2, -2]}, "expected a number from 0 to 4294967295"),
        ({}, {"shape": [2, True]}, "expected a number from 0 to 4294967295"),
        ({}, {"number_of_stored_values": 5}, "found 5 stored values in a matrix of the shape 2 x 2, expected each entry"),
        ({}, {"number_of_stored_values": None}, 'no "number_of_stored_values" in the binsparse descriptor'),
        ({}, {"data_types": None}, 'no "data_types" in the binsparse descriptor'),
        ({}, {"data_types": {"values": "complex[float64]"}}, 'found values of the type "complex[float64]", expected real numbers'),
        ({"pointers_to_1": [0, 1]}, {}, "found 2 numbers in pointers_to_1, expected 3 as the descriptor says"),
        ({"indices_1": [1, 1]}, {}, "found 2 numbers in indices_1, expected 1 as the descriptor says"),
        ({"values": [1.0, 2.0]}, {}, "found 2 numbers in values, expected 1 as the descriptor says"),
        ({"indices_1": [2]}, {}, "found the column 2 at entry 0, expected 0 to below 2"),
        ({"indices_1": [1.0]}, {}, "numbers of the type float64, expected integers"),
        ({"values": [b"x"]}, {}, "numbers of the type object"),
        ({"values": [[2.0]]}, {}, "a dataset of the shape (1, 1), expected one dimension"),
        ({"values": [np.nan]}, {}, "the value nan in row 0, column 1"),
        ({"values": h5py.ExternalLink("other.h5", "/values")}, {}, '"values" in another file, or nowhere, expected all in this file'),
        ({"values": h5py.SoftLink("/nowhere")}, {}, '"values" in another file, or nowhere, expected all in this file'),
        ({"indices_0": [0]}, {"format": "COO"}, None),
        ({"values": [2.0], "indices_1": [0, 1], "pointers_to_1": [0, 1, 2]}, {"number_of_stored_values": 2}, None),  # one for all
    ],
)  # fmt: skip
def test_matrices_of_binsparse(tmp_path, arrays, changed, sentence):
    path = binsparse_file(tmp_path / "x.h5", arrays, **changed)
    if sentence is None:
        assert varve.read_samples(path).X.toarray()[0].tolist() in ([0, 2], [2, 0])
        return
    with pytest.raises(varve.InputError) as refused:
        varve.read_samples(path)
    assert sentence in str(refused.value) and str(refused.value).startswith(str(path))


def test_numbers_of_hdf5_must_be_stored_in_the_file(tmp_path):
    path = binsparse_file(tmp_path / "x.h5")
    with h5py.File(path, "r+") as file:
        del file["values"]
        file.create_dataset("values", (2**40,), "f8", chunks=(1024,))  # none is written
    with pytest.raises(varve.InputError, match="found 8796093022208 bytes of numbers, of which 0 are stored, expected all of them"):
        varve.read_samples(path)
    with h5py.File(path, "r+") as file:
        del file["values"]
        layout = h5py.VirtualLayout((1,), "f8")
        layout[0] = h5py.VirtualSource(binsparse_file(tmp_path / "other.h5"), "values", (1,))[0]
        file.create_virtual_dataset("values", layout)
    with pytest.raises(varve.InputError, match="x.h5: values: found numbers that lie in another file, expected all in this file"):
        varve.read_samples(path)


def old_network(path, change=lambda file: None):
    with h5py.File(path, "w") as file:
        file.attrs.update(format="varve-network", version=1)
        layer = file.create_group("layers/000000")
        layer.attrs.update(activation="clipped_relu", cap=1.0)
        layer["bias"] = 0.5
        write_binsparse(layer.create_group("weights"), sp.csr_matrix(MATRIX), "CSR")
        change(file)
    return path


@pytest.mark.parametrize(
    "change, sentence",
    [
        (lambda file: file.attrs.update(format="varve-nothing"), 'found the format "varve-nothing", expected one of Varve'),
        (lambda file: file.attrs.update(format=3), 'found no text as the attribute "format"'),
        (lambda file: file.attrs.update(version=2), "found version 2 of the format, expected 1"),
        (lambda file: file.attrs.update(format="varve-samples"), "found samples in HDF5, expected a network"),
        (lambda file: file.attrs.update(format="varve-matrix"), "found matrix in HDF5, expected a network"),
        (lambda file: file["layers"].move("000000", "000001"), 'layer 0: found no group "000000"'),
        (lambda file: file.pop("layers"), 'found no group "layers", expected one'),
        (lambda file: file["layers"].pop("000000"), "found no layers, expected at least one"),
        (lambda file: file["layers/000000"].attrs.update(activation="softmax"), 'layer 0: found the activation "softmax"'),
        (lambda file: file["layers/000000"].attrs.update(activation="relu"), "layer 0: found a cap for the activation relu, which has none"),
        (lambda file: file["layers/000000"].attrs.update(cap=-1.0), "layer 0: the cap is -1"),
        (lambda file: file["layers/000000"].attrs.update(cap="1"), 'layer 0: found no number as the attribute "cap"'),
        (lambda file: file["layers/000000"].pop("bias"), 'layer 0: found no dataset "bias"'),
        (lambda file: (file.pop("layers/000000/bias"), file.update({"layers/000000/bias": [1, 2]})), "layer 0: found 2 biases, expected 1 or 3"),
        (lambda file: (file.pop("layers/000000/bias"), file.update({"layers/000000/bias": np.inf})), "bias"),
    ],
)  # fmt: skip
def test_broken_networks_of_0_2_are_refused(tmp_path, change, sentence):
    path = old_network(tmp_path / "x.h5", lambda file: change(file) and None)
    with pytest.raises(varve.InputError) as refused:
        varve.Network.from_file(path)
    assert sentence in str(refused.value) and str(refused.value).startswith(str(path))


def test_options_contradict_files_that_say_them(tmp_path):
    for path in (old_network(tmp_path / "x.h5"), model(tmp_path)):
        for options, sentence in (
            ({"activation": "relu"}, "activation is for matrices of other programs, which do not say it"),
            ({"transposed": True}, "transposed=True is for matrices"),
            ({"cap": 3}, "neurons, bias and cap are for networks in text and matrices"),
            ({"layers": 7}, "the number of layers 7 was asked for, but .* says 1"),
        ):
            with pytest.raises(varve.UsageError, match=sentence):
                varve.Network.from_file(path, **options)


# --- ONNX

W = np.float32([[1, 0], [2, 0], [3, 0]])  # [outputs, inputs]


def node(operation, inputs, output, **attributes):
    return helper.make_node(operation, inputs, [output], **attributes)


GEMM = node("Gemm", ["x", "w"], "a", transB=1)
GEMM_X3 = node("Gemm", ["x3", "w"], "a", transB=1)


def model(folder, nodes=(node("Gemm", ["x", "w"], "y", transB=1),), version=17, change=lambda model: None, **constants):
    """A model from x to y, with the constants w, v, b, zero, six, and others."""
    constants = {"w": W, "v": W, "b": np.float32([1, 2, 3]), "zero": np.float32(0), "six": np.float32(6), **constants}
    inputs, outputs = (helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in "xy")
    tensors = [array if isinstance(array, onnx.TensorProto) else numpy_helper.from_array(array, name) for name, array in constants.items()]
    graph = helper.make_graph(nodes, "g", [inputs], [outputs], tensors)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", version)], ir_version=8)
    change(made)
    (folder / "model.onnx").write_bytes(made.SerializeToString())
    return folder / "model.onnx"


def test_chains_of_fully_connected_layers_are_read(tmp_path):
    path = model(tmp_path, [
        node("Gemm", ["x", "w", "b"], "c", transB=1), node("LeakyRelu", ["c"], "d", alpha=0.5), node("MatMul", ["d", "v"], "e"),
        node("Add", ["two", "e"], "f"), node("Clip", ["f", "zero", "six"], "g"), node("Gemm", ["g", "w"], "h", transB=1),
        node("Softmax", ["h"], "y"),
    ], two=np.float32([[1, 2]]))  # fmt: skip
    for read in (varve.Network.from_file, varve.Network.from_onnx):
        with pytest.warns(UserWarning, match="model.onnx ends with Softmax, left out: the network gives the numbers before"):
            network = read(path)
        first, second, third = network.layers()
        np.testing.assert_array_equal(first.weights.toarray(), W)
        np.testing.assert_array_equal(second.weights.toarray(), W.T)
        assert first.weights.nnz == 3 and first.bias.tolist() == [1, 2, 3] and second.bias.tolist() == [1, 2]
        assert first.activation == varve.Activation.leaky_relu(0.5) and second.activation == varve.Activation.clipped_relu(6)
        assert third.activation == varve.Activation("identity") and third.bias.tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    "nodes, activation",
    [
        ([node("Gemm", ["x", "w"], "a", transB=1), node("Add", ["a", "b"], "c"), node("Relu", ["c"], "y")], varve.Activation("relu")),
        ([GEMM, node("Sigmoid", ["a"], "y")], varve.Activation("sigmoid")),
        ([GEMM, node("Tanh", ["a"], "y")], varve.Activation("tanh")),
        ([GEMM, node("Softplus", ["a"], "y")], varve.Activation("softplus")),
        ([GEMM, node("PRelu", ["a", "half"], "y")], varve.Activation.leaky_relu(0.5)),
        ([GEMM, node("LeakyRelu", ["a"], "y", alpha=0.0)], varve.Activation("relu")),
        ([node("Cast", ["x"], "x2", to=1), node("Identity", ["x2"], "x3"), GEMM_X3, node("Dropout", ["a"], "y")], varve.Activation("identity")),
        ([node("Transpose", ["wt"], "w2"), node("Gemm", ["x", "w2"], "y", transB=1)], varve.Activation("identity")),
        ([node("Mul", ["w", "mask"], "w2"), node("Gemm", ["x", "w2"], "y", transB=1)], varve.Activation("identity")),
        ([GEMM, node("LogSoftmax", ["a"], "b2"), node("ArgMax", ["b2"], "y", axis=1)], varve.Activation("identity")),
        ([GEMM, node("LeakyRelu", ["a"], "y")], varve.Activation.leaky_relu(float(np.float32(0.01)))),
        ([GEMM, node("Clip", ["a", "zero"], "y")], varve.Activation("relu")),
        ([GEMM, node("Softmax", ["a"], "y", axis=1)], varve.Activation("identity")),
        ([GEMM, node("Softmax", ["a"], "y", axis=-1)], varve.Activation("identity")),
        ([helper.make_node("Constant", [], ["k"], value=numpy_helper.from_array(W)), node("Gemm", ["x", "k"], "y", transB=1)], varve.Activation("identity")),
    ],
)  # fmt: skip
def test_activations_of_onnx(tmp_path, nodes, activation):
    path = model(tmp_path, nodes, half=np.float32(0.5), wt=W.T, mask=np.ones((3, 2), np.float32))
    has_end = any("max" in node.op_type.lower() for node in nodes)
    with pytest.warns(UserWarning, match="model.onnx ends with .*max.*, left out") if has_end else contextlib.nullcontext():
        (layer,) = varve.Network.from_onnx(path).layers()
    assert layer.activation == activation
    np.testing.assert_array_equal(layer.weights.toarray(), W)


def test_limits_of_clip_were_attributes(tmp_path):
    nodes = [node("Gemm", ["x", "w", "zero3"], "a", transB=1), node("Clip", ["a"], "y", min=0.0, max=6.0)]
    path = model(tmp_path, nodes, version=10, zero3=np.zeros(3, np.float32))
    assert varve.Network.from_onnx(path).layer(0).activation == varve.Activation.clipped_relu(6)


@pytest.mark.parametrize("kind", [TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.DOUBLE])
@pytest.mark.parametrize("raw", [False, True])
def test_constants_of_all_types(tmp_path, kind, raw):
    constant = helper.make_tensor("w", kind, W.shape, W.flatten())
    if raw:
        array = numpy_helper.to_array(constant)
        constant = onnx.TensorProto(name="w", data_type=kind, dims=W.shape, raw_data=array.tobytes())
        if kind == TensorProto.BFLOAT16 and array.dtype == np.float32:
            constant.raw_data = (array.view(np.uint32) >> 16).astype(np.uint16).tobytes()

    def change(made):
        for value in (*made.graph.input, *made.graph.output):
            value.type.tensor_type.elem_type = kind
        for name in ("v", "b", "zero", "six"):
            del made.graph.initializer[1:]

    np.testing.assert_array_equal(varve.Network.from_onnx(model(tmp_path, change=change, w=constant)).layer(0).weights.toarray(), W)


def reference_of(path, X):
    """What the reference evaluator of the package gives."""
    return ReferenceEvaluator(str(path)).run(None, {"x": X})[0]


def test_every_form_of_gemm_and_arithmetic_is_folded(tmp_path):
    """Against the reference evaluator: alpha and beta, both orders of subtraction, normalizations on both sides of layers, and limits."""
    generator = np.random.default_rng(1)
    width = 6
    constants = {name: generator.standard_normal((width, width)).astype(np.float32) for name in "pqr"}
    constants |= {name: generator.uniform(0.5, 2, width).astype(np.float32) for name in ("scale", "shift", "mean", "variance", "c")}
    nodes = [
        node("Flatten", ["x"], "x0"), node("Sub", ["x0", "mean"], "x1"), node("Div", ["x1", "variance"], "x2"),
        node("Gemm", ["x2", "p", "c"], "a", alpha=0.5, beta=2.0), node("BatchNormalization", ["a", "scale", "shift", "mean", "variance"], "a1"),
        node("Clip", ["a1", "minus", "six"], "a2"), node("Mul", ["scale", "a2"], "a3"),
        node("MatMul", ["a3", "q"], "b0"), node("Add", ["c", "b0"], "b1"), node("LeakyRelu", ["b1"], "b2", alpha=2.0),
        node("BatchNormalization", ["b2", "scale", "shift", "mean", "variance"], "b3"), node("Tanh", ["b3"], "b4"),
        node("Gemm", ["b4", "r"], "d", transB=1), node("Sub", ["c", "d"], "d1"), node("Relu", ["d1"], "d2"), node("Mul", ["d2", "six"], "y"),
    ]  # fmt: skip
    path = model(tmp_path, nodes, minus=np.float32(-1), **constants)
    X = generator.standard_normal((40, width)).astype(np.float32)
    network = varve.Network.from_onnx(path)
    np.testing.assert_allclose(network.infer(X, precision="float64"), reference_of(path, X), rtol=1e-4, atol=1e-4)
    first = network.layer(0)  # exactly as described, in double
    p, c, mean, variance, scale, shift = (constants[name].astype(np.float64) for name in ("p", "c", "mean", "variance", "scale", "shift"))
    inner = 1 / variance
    weights, bias = 0.5 * p.T * inner, 2 * c + 0.5 * p.T @ (-mean * inner)
    factor = scale / np.sqrt(variance + np.float32(1e-5))
    np.testing.assert_allclose(first.weights.toarray(), factor[:, None] * weights, rtol=1e-14)
    np.testing.assert_allclose(first.bias, factor * bias + (shift - factor * mean) + 1, rtol=1e-13)


def test_samples_of_several_dimensions_are_flattened_first(tmp_path):
    images = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 1, 2, 1])

    def change(made):
        made.graph.input[0].CopyFrom(images)

    nodes = [node("Div", ["x", "six"], "x0"), node("Reshape", ["x0", "to"], "x1"), node("Gemm", ["x1", "w"], "y", transB=1)]
    network = varve.Network.from_onnx(model(tmp_path, nodes, change=change, to=np.int64([-1, 2])))
    np.testing.assert_allclose(network.layer(0).weights.toarray(), W.astype(np.float64) / 6, rtol=1e-14)
    with pytest.raises(varve.InputError, match="cannot be read|gets samples of 3 dimensions"):
        varve.Network.from_onnx(model(tmp_path, [node("MatMul", ["x", "one"], "y")], change=change, one=np.ones((1, 2), np.float32)))


def test_weights_in_a_file_beside_the_model(tmp_path):
    made = onnx.load(model(tmp_path))
    onnx.save(made, tmp_path / "external.onnx", save_as_external_data=True, location="external.onnx.data", size_threshold=0)
    for read in (varve.Network.from_onnx, varve.Network.from_file):
        np.testing.assert_array_equal(read(tmp_path / "external.onnx").layer(0).weights.toarray(), W)
    (tmp_path / "external.onnx.data").unlink()
    with pytest.raises(varve.InputError, match="external.onnx cannot be read"):
        varve.Network.from_onnx(tmp_path / "external.onnx")


@pytest.mark.parametrize("is_linear", [True, False])
def test_sparse_constants_keep_their_stored_zeros(tmp_path, is_linear):
    def change(made):
        values = numpy_helper.from_array(np.float32([1, 0, 3]), "w")
        places = np.int64([0, 3, 4]) if is_linear else np.int64([[0, 0], [1, 1], [2, 0]])
        sparse = onnx.SparseTensorProto(values=values, indices=numpy_helper.from_array(places, "places"), dims=[3, 2])
        del made.graph.initializer[0]
        made.graph.sparse_initializer.append(sparse)

    (layer,) = varve.Network.from_onnx(model(tmp_path, change=change)).layers()
    np.testing.assert_array_equal(layer.weights.toarray(), [[1, 0], [0, 0], [3, 0]])
    assert layer.weights.nnz == 3


def test_fields_of_a_model_may_come_in_any_order(tmp_path):
    content = model(tmp_path).read_bytes()
    head, rest = content[:2], content[2:]
    assert head == b"\x08\x08"
    (tmp_path / "m").write_bytes(rest + head)
    assert varve.Network.from_file(tmp_path / "m").num_layers == 1
    for other in (rest, rest + b"\x08\0", rest + b"xy" + head, b"20\t5\t0.5\n", b"2\t5\t0.5\n22\t5\t0.5\n", b"", (rest + head)[:-2]):
        (tmp_path / "m").write_bytes(other)
        with pytest.raises(varve.InputError, match="is not a network"):
            varve.Network.from_file(tmp_path / "m")


def attribute(name, kind, **value):
    return onnx.AttributeProto(name=name, type=kind, **value)


def with_attributes(operation, inputs, output, *attributes):
    made = node(operation, inputs, output)
    made.attribute.extend(attributes)
    return made


@pytest.mark.parametrize(
    "nodes, sentence",
    [
        ([node("Conv", ["x", "w"], "y")], ': found the operation "Conv", expected a chain without branches of Gemm, MatMul'),
        ([helper.make_node("Gemm", ["x", "w"], ["y"], domain="mine")], "No opset import for domain 'mine'"),
        ([helper.make_node("Conv", ["x", "w"], ["y"], name="first")], ': found the operation "Conv" (node "first")'),
        ([GEMM, node("Relu", ["x"], "y")], 'the operation "Gemm" beside other uses of "x"'),
        ([GEMM, node("Softmax", ["a"], "c"), node("Relu", ["c"], "y")], 'the operation "Relu" behind "Softmax"'),
        ([GEMM, node("Softmax", ["a"], "y", axis=0)], 'the operation "Softmax" with the axis 0'),
        ([GEMM, node("Softmax", ["a"], "y", axis=-2)], 'the operation "Softmax" with the axis -2'),
        ([GEMM, node("ArgMax", ["a"], "y")], 'the operation "ArgMax" with the axis 0'),
        ([GEMM, node("Mul", ["a", "a"], "y")], 'the operation "Mul" beside other uses of "a"'),
        ([GEMM, node("Div", ["zero", "a"], "y")], '"Div" divides by a sample'),
        ([GEMM, node("LeakyRelu", ["a"], "y", alpha=-0.5)], '"LeakyRelu" has the slope -0.5, expected 0 or more'),
        ([GEMM, node("PRelu", ["a", "b"], "y")], '"PRelu" has 3 slopes, expected one'),
        ([GEMM, node("Clip", ["a", "", "six"], "y")], '"Clip" has no lower limit, expected one'),
        ([GEMM, node("Clip", ["a", "zero", "zero"], "y")], '"Clip" clips from 0.0 to 0.0, expected ascending limits'),
        ([GEMM, node("Reshape", ["a", "back"], "y")], '"Reshape" changes its input, expected what leaves samples as they are'),
        ([GEMM], "Graph output 'y' is not an output of any node"),
        ([node("Relu", ["x"], "y")], "found a model without Gemm and MatMul, expected at least one"),
        ([node("Gemm", ["w", "x"], "y")], 'the operation "Gemm" of samples from the right, or transposed, expected samples times weights'),
        ([node("Gemm", ["x", "z"], "y")], "input 'z' of node"),
        ([node("Gemm", ["x", "b"], "y")], "Input 1 expected to have rank 2 but has rank 1"),
        ([node("Gemm", ["x", "w"], "y", transA=1)], 'the operation "Gemm" of samples from the right, or transposed'),
        ([node("MatMul", ["x", "b3"], "y")], "has weights of the shape (2, 2, 2), expected (outputs, 2)"),
        ([node("Gemm", ["x", "w", "b"], "y")], "cannot be read: operands could not be broadcast"),
        ([GEMM, node("Gemm", ["a", "w"], "y", transB=1)], "Dimension mismatch in unification between 2 and 3"),
        ([node("Gemm", ["x", "w"], "y", alpha=2)], "Mismatched attribute type"),
        ([GEMM, node("Relu", ["a"], "y", alpha=1.0)], "Unrecognized attribute: alpha for operator Relu"),
        ([with_attributes("Gemm", ["x", "w"], "y", *2 * [attribute("beta", 1, f=1.0)])], "Attribute 'beta' appeared multiple times"),
        ([GEMM, node("Relu", ["a", "b"], "y")], "input size 2 not in range"),
        ([helper.make_node("Constant", [], ["b"], value=numpy_helper.from_array(W)), GEMM], "single static assignment"),
    ],
)  # fmt: skip
def test_what_the_tables_do_not_know_is_refused(tmp_path, nodes, sentence):
    path = model(tmp_path, nodes, back=np.int64([3, -1]), b3=np.zeros((2, 2, 2), np.float32))
    with pytest.raises(varve.InputError) as refused:
        varve.Network.from_onnx(path)
    assert sentence in str(refused.value) and str(refused.value).startswith(str(path))


def tensor(**changed):
    return onnx.TensorProto(**{"name": "w", "data_type": 1, "dims": [3, 2], "raw_data": W.tobytes(), **changed})


@pytest.mark.parametrize(
    "constant, sentence",
    [
        (onnx.TensorProto(name="w", data_type=1, dims=[3, 2], data_location=1, external_data=[onnx.StringStringEntryProto(key="location", value="no")]), "cannot be read"),
        (onnx.TensorProto(name="w", data_type=1, dims=[3, 2], data_location=1, external_data=[onnx.StringStringEntryProto(key="location", value="../w")]), "cannot be read"),
        (tensor(data_type=6), "B has inconsistent type tensor(int32)"),
        (tensor(dims=[3, 3]), "raw_data size (24 bytes) is too small"),
        (tensor(dims=[3, -1]), "Negative dimension value"),
        (tensor(dims=[2**40, 2**20]), "raw_data size (24 bytes) is too small"),
        (numpy_helper.from_array(np.float32([[np.inf], [0], [0]]).reshape(1, 3), "w"), "model.onnx: layer 0: entry 0 has the value inf"),
    ],
)
def test_broken_constants_are_refused(tmp_path, constant, sentence):
    with pytest.raises(varve.InputError) as refused:
        varve.Network.from_onnx(model(tmp_path, w=constant))
    assert sentence in str(refused.value)


def import_of(domain, version):
    return lambda model: model.opset_import.append(helper.make_opsetid(domain, version))


@pytest.mark.parametrize(
    "change, sentence",
    [
        (lambda model: model.ClearField("opset_import"), "no version of ONNX's operations (opset_import)"),
        (import_of("ai.onnx", 16), "version 17 and 16 of ONNX's operations"),
        (lambda model: model.ClearField("graph"), "an ONNX model without a graph"),
        (lambda model: model.graph.input.append(helper.make_tensor_value_info("second", TensorProto.FLOAT, None)), "a model of 2 inputs, expected one"),
        (lambda model: model.graph.initializer.add(name="w"), "w initializer name is not unique"),
        (lambda model: model.graph.sparse_initializer.add(), "cannot be read"),
        (import_of("ai.onnx.ml", 3), None),
        (lambda model: model.graph.input.append(helper.make_tensor_value_info("w", TensorProto.FLOAT, None)), None),
    ],
)
def test_broken_models_are_refused(tmp_path, change, sentence):
    path = model(tmp_path, change=lambda model: change(model) and None)
    if sentence is None:
        assert varve.Network.from_onnx(path).num_layers == 1
        return
    with pytest.raises(varve.InputError) as refused:
        varve.Network.from_onnx(path)
    assert sentence in str(refused.value)


@pytest.mark.parametrize("version", [0, 1, 6, 29, 999])
def test_other_versions_of_operations_are_refused(tmp_path, version):
    with pytest.raises(varve.InputError, match=rf"found version {version} of ONNX's operations \(opset_import\), expected one from 7 to 2"):
        varve.Network.from_onnx(model(tmp_path, version=version))


def test_constants_that_many_layers_share_are_limited(tmp_path):
    nodes = [node("Gemm", ["x" if number == 0 else f"x{number}", "w"], "y" if number == 29 else f"x{number + 1}") for number in range(30)]
    with pytest.raises(varve.InputError, match="shares its weights with other layers, expected as many numbers as the file holds"):
        varve.Network.from_onnx(model(tmp_path, nodes, w=np.eye(300, dtype=np.float32)))


# --- broken bytes

WHOLE = {
    "npy": lambda folder: np.save(folder / "w.npy", MATRIX),
    "npz": lambda folder: sp.save_npz(folder / "w.npz", sp.csr_matrix(MATRIX)),
    "mtx": lambda folder: scipy.io.mmwrite(folder / "w.mtx", sp.coo_matrix(MATRIX.astype(float))),
    "gz": lambda folder: (folder / "w.gz").write_bytes(gzip.compress(npy_of("<f4", (3, 4), MATRIX.tobytes()))),
    "xz": lambda folder: (folder / "w.xz").write_bytes(lzma.compress(npy_of("<f4", (3, 4), MATRIX.tobytes()))),
    "onnx": lambda folder: model(folder).rename(folder / "w.onnx"),
    "safetensors": lambda folder: tensors(folder).rename(folder / "list"),
    "json": lambda folder: tensors(folder).rename(folder / "w.json"),
}


def mutants(content, count):
    """Bytes with a few changes: other bits, bytes, or parts left out, doubled or replaced."""
    generator = random.Random(1)
    for _ in range(count):
        changed = bytearray(content)
        for _ in range(generator.choice((1, 1, 2, 4))):
            at = generator.randrange(len(changed) or 1)
            way = generator.randrange(5)
            if way == 0 and changed:
                changed[at] ^= 1 << generator.randrange(8)
            elif way == 1 and changed:
                changed[at] = generator.choice((0, 1, 127, 128, 255, generator.randrange(256)))
            elif way == 2:
                del changed[at : at + generator.choice((1, 1, 8, 10_000))]
            elif way == 3:
                changed[at:at] = changed[at : at + generator.choice((1, 4, 16))]
            else:
                changed[at : at + 4] = generator.choice((b"\xff\xff\xff\x7f", b"\0\0\0\0", b"9999", b"-1 1"))
        yield bytes(changed)


@pytest.mark.parametrize("kind", WHOLE)
def test_mutants_end_with_an_error_of_ours(tmp_path, kind):
    WHOLE[kind](tmp_path)
    name = "m.safetensors" if kind == "safetensors" else f"w.{kind}"
    opened = tmp_path / ("list" if kind == "safetensors" else name)
    options = {} if kind in ("onnx", "safetensors", "json") else {"activation": "relu"}
    content = (tmp_path / name).read_bytes()
    refused = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for changed in mutants(content, 2000 // SHARE):
            (tmp_path / name).write_bytes(changed)
            try:
                varve.Network.from_file(opened, **options)
            except varve.Error as error:
                assert "\n" not in str(error)
                refused += 1
    assert 100 // SHARE < refused < 2000 // SHARE


MUTANTS_OF_HDF5 = """
import pathlib, signal, sys
import varve
from test_convert import mutants

path, content = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]).read_bytes()
for number, changed in enumerate(mutants(content, int(sys.argv[3]))):
    if number < int(sys.argv[4]):
        continue
    print(number, flush=True)
    path.write_bytes(changed)
    signal.setitimer(signal.ITIMER_REAL, 2)  # or it ends this process
    try:
        varve.Network.from_file(path)
    except varve.Error:
        pass
    signal.setitimer(signal.ITIMER_REAL, 0)
print("done")
"""


@pytest.mark.parametrize("late", [False, True])
def test_mutants_of_hdf5_end_with_an_error_or_the_end_of_its_library(tmp_path, late):
    """Which crashes or takes for ever: therefore varve-convert has a child process."""
    whole = old_network(tmp_path / "whole.h5")
    if late:  # a format with checksums
        with h5py.File(whole) as old, h5py.File(tmp_path / "new.h5", "w", libver="v110") as file:
            old.copy(old["layers"], file, "layers")
            file.attrs.update(old.attrs)
        (tmp_path / "new.h5").rename(whole)
    first, ends = 0, 0
    while True:
        arguments = [tmp_path / "x.h5", whole, 1000 // SHARE, first]
        done = subprocess.run(
            [sys.executable, "-c", MUTANTS_OF_HDF5, *map(str, arguments)],
            cwd=pathlib.Path(__file__).parent, capture_output=True, text=True, timeout=100,
        )  # fmt: skip
        if done.returncode == 0:
            assert done.stdout.endswith("done\n")
            break
        assert done.returncode < 0, done.stderr
        first, ends = int(done.stdout.split()[-1]) + 1, ends + 1
        assert ends < 10
