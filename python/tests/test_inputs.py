"""What people have at hand as samples: tables of text, archives, images, and files that hold something else."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import pickle
import subprocess
import sys
import tarfile
import zipfile

import numpy as np
import pytest
import scipy.sparse as sp
import varve
from varve import _tables

X = np.round(np.random.default_rng(3).random((6, 4)), 3)
X[X < 0.4] = 0
LABELS = np.array([0, 1, 2, 0, 1, 2])


def table(array, separator=",", head=""):
    return head + "".join(separator.join(repr(float(value)) for value in row) + "\n" for row in array)


def svmlight(first=1, answers=LABELS):
    lines = (" ".join([repr(answer), *(f"{j + first}:{value!r}" for j, value in enumerate(map(float, row)) if value)]) for answer, row in zip(answers.tolist(), X))
    return "".join(line + "  # a remark\n" for line in lines)


def archive(**arrays):
    content = io.BytesIO()
    np.savez(content, **arrays)
    return content.getvalue()


def npy(array):
    content = io.BytesIO()
    np.save(content, array)
    return content.getvalue()


WITH_LABELS = {
    "first.csv": table(np.column_stack([LABELS, X]), head="label,a,b,c,d\n"),
    "last.csv": table(np.column_stack([X, LABELS]), ";", '"a";"b";"c";"d";"Class"\r\n'),
    "names.tsv": table(np.column_stack([X, LABELS]), "\t", "a\tb\tc\td\ty\n"),
    "quoted.csv": '"a","b","c","d","label"\n' + "".join(f'"{row[0]}",{row[1]},"{row[2]}",{row[3]},"{label}"\n' for row, label in zip(X, LABELS)),
    "svmlight": svmlight(),
    "from_zero": "2 0:1\n" + svmlight(0),
    "savez.npz": archive(X=X, y=LABELS),
    "images.npz": archive(images=X.reshape(6, 2, 2), labels=LABELS.astype(np.uint8)),
}
WITHOUT = {
    "plain.csv": table(X),
    "bom.csv": "\ufeff" + table(X, head="a,b,c,d\n"),
    "savetxt": table(X, " "),
    "images.npy": npy(X.reshape(6, 2, 2)),
    "savez.npz": archive(x=X),
}


def write(path, content, open_as=open):
    with open_as(path, "wb") as file:
        file.write(content if isinstance(content, bytes) else content.encode())
    return path


@pytest.mark.parametrize("open_as", [open, bz2.open, gzip.open, lzma.open])
@pytest.mark.parametrize("name", WITH_LABELS)
def test_tables_hold_samples_and_labels(tmp_path, name, open_as):
    if name.endswith("npz") and open_as is not open:
        pytest.skip("archives are compressed inside")
    path = write(tmp_path / "file", WITH_LABELS[name], open_as)
    samples = varve.read_samples(path, neurons=4)
    rows, labels = samples.X.toarray()[-6:], samples.labels[-6:]
    np.testing.assert_array_equal(rows, X)
    np.testing.assert_array_equal(labels, LABELS)
    assert samples.targets is None and samples.X.nnz == np.count_nonzero(samples.X.toarray())
    network = varve.Network.from_scipy([np.eye(3, 4)])
    np.testing.assert_array_equal(network.infer(path)[-6:], X[:, :3].astype(np.float32))
    assert network.evaluate(path) == network.evaluate(samples) == network.evaluate(samples.X, path)


@pytest.mark.parametrize("name", WITHOUT)
def test_tables_of_samples_alone(tmp_path, name):
    samples = varve.read_samples(write(tmp_path / "file", WITHOUT[name]))
    np.testing.assert_array_equal(samples.X.toarray(), X)
    assert samples.labels is None and samples.targets is None


@pytest.mark.parametrize("content", [table(np.column_stack([X, LABELS + 0.5]), head="a,b,c,d,target\n"), svmlight(answers=LABELS + 0.5), archive(X=X, y=LABELS + 0.5)])
def test_answers_that_are_no_whole_numbers_are_targets(tmp_path, content):
    samples = varve.read_samples(write(tmp_path / "file", content))
    np.testing.assert_array_equal(samples.X.toarray(), X)
    np.testing.assert_array_equal(samples.targets.toarray(), LABELS[:, None] + 0.5)


def test_the_command_converts_tables(tmp_path):
    from varve.convert import convert, _parse

    convert(_parse([str(write(tmp_path / "x.csv", WITH_LABELS["first.csv"])), str(tmp_path / "x.safetensors")]))
    samples = varve.read_samples(tmp_path / "x.safetensors")
    np.testing.assert_array_equal(samples.X.toarray(), X)
    np.testing.assert_array_equal(samples.labels, LABELS)


def torch_file(path):
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("model/data.pkl", b"")


def tar(path):
    with tarfile.open(path, "w:gz") as file:
        file.addfile(tarfile.TarInfo("n1024-l1.tsv"))


def mat(path):
    from scipy.io import savemat

    savemat(path, {"X": X})


STRANGERS = {
    "a pickle: load it": pickle.dumps(X),
    "an HTML page: a web site": gzip.compress(b"\n<!DOCTYPE html><html>"),
    "has a Matrix Market banner not in the first column: %%MatrixMarket must": " %%MatrixMarket matrix coordinate real general\n1 1 1\n1 1 1\n",
    "Matrix Market banner not in": "\ufeff%%MatrixMarket matrix coordinate real general\n1 1 1\n1 1 1\n",
    "a Parquet file: pandas.read_parquet": b"PAR1\x15\0",
    "a MAT file: scipy.io.loadmat": mat,
    "a picture: samples are": b"\x89PNG\r\n\x1a\n",
    "a tar archive: unpack it": tar,
    "a file of torch.save: Network.from_torch": torch_file,
    "a ZIP archive of W1.npy, b1.npy, expected .* Network.from_scipy takes weights": archive(W1=X, b1=LABELS),
    r"compressed by bzip2, .* unpack it \(bunzip2\)": bz2.compress(b"1\t1\t1\n"),
}


@pytest.mark.parametrize("sentence", STRANGERS)
def test_other_files_are_refused_by_what_they_are(tmp_path, sentence):
    content, path = STRANGERS[sentence], tmp_path / "file"
    content(path) if callable(content) else write(path, content)
    for call in (varve.read_samples, lambda path: varve.Network.from_file(path, activation="relu"), varve.Network.from_scipy([np.eye(3, 4)]).infer):
        with pytest.raises(varve.InputError, match=sentence) as raised:
            call(path)
        assert str(raised.value).startswith(str(path))


@pytest.mark.parametrize(
    "content, sentence",
    [
        (table(X, head=",a,b,c\n"), r"first column has no name, as pandas writes row numbers, expected none: to_csv\(FILE, index=False\)"),
        ("a,b\n1,2\n3,dog\n", "a CSV file of which could not convert string 'dog' to float64 at row 1, column 2, expected numbers alone"),
        ("a,b\n1,2\n3,\n", "could not convert string '' to float64 at row 1, column 2"),
        ("1,2\n3,4,5\n", "a CSV file of which the number of columns changed from 2 to 3"),
        ("a,b\n", "found a CSV file without rows, expected samples in rows"),
        ("a,b,c\n1,2\n", "a CSV file of 2 columns with 3 names, expected as many"),
        ("1,2\n3,inf\n", "the value inf in row 1, column 1"),
        (svmlight() + "1 2:3 x\n", 'an svmlight file with "1 2:3 x" as sample 6, expected an answer and number:value'),
        ("1 1:2\n1 qid:1 2:3\n", 'an svmlight file with "1 qid:1 2:3" as sample 1'),
        ("1 1:2\n1 2.5:3\n", "a feature whose number is not a whole number|as sample 1"),
        ("1 1:2 1:3\n", "row 0, column 0 .* a second time"),
        ("1 7:2\n", "an svmlight file with the feature 7, expected 4 features, from 1 on"),
        (table(np.column_stack([LABELS, X])), "holds samples of 5 neurons, the network has 4 inputs, one of which may hold labels: a first row with names"),
    ],
)
def test_broken_tables_are_refused_by_a_sentence(tmp_path, content, sentence):
    path = write(tmp_path / "file", content)
    with pytest.raises(varve.InputError, match=sentence):
        varve.read_samples(path, neurons=4)


def test_text_of_the_challenge_is_no_table(tmp_path):
    path = write(tmp_path / "file", "1\t2\t0.5\n")
    assert varve.read_samples(path, neurons=4).X.toarray().tolist() == [[0, 0.5, 0, 0]]
    with pytest.raises(varve.InputError, match="found 2 columns .*, expected 3"):
        varve.read_samples(write(path, "1\t2\n"), neurons=4)


@pytest.mark.parametrize("labels", [np.array(["a", "b", "c"])[LABELS], list("abcabc"), np.array(list("abcabc"), object)])
def test_names_of_classes_are_refused_with_what_to_do(labels):
    with pytest.raises(varve.InputError, match=r"labels are not numbers; numpy.unique\(labels, return_inverse=True\)\[1\] gives each"):
        varve.Network.from_scipy([np.eye(4)]).evaluate(X, labels)
    with pytest.raises(varve.InputError, match="one label per sample; rows that are 1 at the right output are targets"):
        varve.Network.from_scipy([np.eye(4)]).evaluate(X, np.eye(4)[LABELS])


def test_tables_are_no_weights(tmp_path):
    for content, what in ((table(X), "CSV"), (svmlight(), "svmlight")):
        with pytest.raises(varve.InputError, match=f"is a {what} file|is an {what} file"):
            varve.Network.from_file(write(tmp_path / "file", content), activation="relu")


def test_a_row_of_text_is_known_by_its_beginning():
    assert _tables.SVMLIGHT.match(b"-1 1:0.5 3:1e-3 # x") and not _tables.SVMLIGHT.match(b"1\t2\t3")


def test_files_that_are_open_for_writing_are_named(tmp_path):
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["X"] = X
        done = subprocess.run([sys.executable, "-m", "varve.convert", "x.h5", "x.safetensors"], cwd=tmp_path, capture_output=True, text=True, timeout=300)
        assert "x.h5 is open for writing elsewhere, such as in a notebook: close it there" in done.stderr
    with pytest.raises(varve.InputError, match=r"found HDF5 of another program, expected arrays of it: h5py.File\(FILE\)\[NAME\]\[:\]"):
        varve.read_samples(tmp_path / "x.h5")


def test_images_are_rows(tmp_path):
    images, network = np.random.default_rng(1).random((70, 4, 5)).astype(np.float32), varve.Network.from_scipy([np.eye(20)])
    for some in (images, images[:3]):
        np.testing.assert_array_equal(network.infer(some), some.reshape(len(some), 20))
    assert network.evaluate(images, np.arange(70) % 20).num_samples == 70
    assert varve.train(network, images, np.arange(70) % 20, epochs=1).num_steps == 1
    with pytest.raises(varve.InputError, match=r"X has the shape \(70, 4, 5\), expected \(samples, 5\)"):
        varve.Network.from_scipy([np.eye(5)]).infer(images)
    varve.save_samples(tmp_path / "images.npy", images)
    assert np.load(tmp_path / "images.npy").shape == (70, 20)


def test_batches_of_a_loader_are_for_steps():
    network = varve.Network.from_scipy([np.eye(4)])
    with pytest.raises(varve.UsageError, match="X is generator, expected an array; Training.step takes batches one by one"):
        varve.train(network, (X for _ in range(2)))


def test_one_output_has_no_classes():
    network = varve.Network.from_scipy([np.ones((1, 4))], activation="identity")
    for call in (network.evaluate, lambda X, labels: varve.train(network, X, labels)):
        with pytest.raises(varve.UsageError, match=r"one output, so that labels say nothing: give .*targets=labels.reshape\(-1, 1\)"):
            call(X, LABELS % 2)
    assert varve.train(network, X, targets=(LABELS % 2).reshape(-1, 1), epochs=1).num_steps == 1


def test_sparse_arrays_where_dense_ones_are_expected():
    with pytest.raises(varve.InputError, match="labels is sparse, expected a dense array|labels"):
        varve.Network.from_scipy([np.eye(4)]).evaluate(X, sp.csr_array(LABELS[:, None]))
