"""Files of networks and samples: those of other programs by their libraries, all others by the C++ part."""

from __future__ import annotations

import math
import os
import re
import warnings
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Iterator, Union

import numpy as np

from . import _arrays, _container, _core, _foreign, _hdf5, _layer_lists, _tables
from ._activation import to_activation
from ._errors import Error, InputError, ResourceError, UsageError
from ._options import to_optional_count, to_optional_number

#: The name of a file.
Path = Union[str, "os.PathLike[str]"]

#: Options of the command that its sentences name, and what they are called here.
_NAMES = {
    "--transpose-weights": "transposed=True",
    "--activation": "activation",
    "--text neurons=N": "neurons",
    "--neurons": "neurons",
    "--layers": "layers",
    "--bias": "bias",
    "--cap": "cap",
    "--slope": "slope",
    "--precision double": "precision='float64'",
    "--tile": "tile",
}


@dataclass(frozen=True)
class Samples:
    """The samples of a file, with what is wanted for them if the file says it."""

    X: Any  #: scipy.sparse.csr_array [samples, neurons], float64
    labels: np.ndarray | None = None  #: int64 [samples]: the index of the right output
    targets: Any = None  #: scipy.sparse.csr_array [samples, outputs]: the wanted outputs
    first_sample: int = 0  #: number of the first row within the whole input, from 0

    def __len__(self) -> int:
        return self.X.shape[0]


def is_path(value: Any) -> bool:
    return isinstance(value, (str, os.PathLike))


def name_of(path: Path) -> str:
    """The name of a file for the C++ part. Raises InputError if it is not text, TypeError if the path is not one."""
    name = os.fsdecode(path)
    if "\0" in name or not name.isprintable() and any("\ud800" <= letter <= "\udfff" for letter in name):
        raise InputError(f"the name of a file is {name!a}, expected UTF-8 without null characters")
    return name


def in_words_of_python(text: str) -> str:
    """A sentence of the command with the names that its options have in Python."""
    return re.sub("|".join(_NAMES), lambda found: _NAMES[found[0]], text)


def in_names_of_python(error: Error) -> Error:
    """The same error in words of Python."""
    return type(error)(in_words_of_python(str(error)))


@contextmanager
def sentences() -> Iterator[None]:
    """Errors that leave the block are in words of Python."""
    try:
        yield
    except (InputError, UsageError, ResourceError) as error:
        raise in_names_of_python(error) from None


def open_network(path: Path, options: _layer_lists.Options) -> _core.Network:
    """See Network.from_file."""
    options = _checked(options)
    with sentences():
        network, note = network_of(name_of(path), options)
    if note:
        warnings.warn(in_words_of_python(note), stacklevel=3)
    return network


def network_of(path: str, options: _layer_lists.Options) -> tuple[_core.Network, str]:
    """The network of any file or folder, and a remark about its orientation, "" without one."""
    if _layer_lists.is_network(path):
        return _layer_lists.open_network(path, options)
    _foreign.require_own(path)
    _layer_lists.require_no_matrix_options(path, options)
    own = _core.FileOptions()
    own.neurons, own.layers, own.bias, own.cap = options[:4]
    return _core.open_network(path, own), ""


def _checked(given: _layer_lists.Options) -> _layer_lists.Options:
    """The options of a user, with the activation as a name; a name alone may have its parameter in cap or slope."""
    changed: dict[str, Any] = {name: to_optional_count(getattr(given, name), name) for name in ("neurons", "layers")}
    changed.update({name: to_optional_number(getattr(given, name), name) for name in ("bias", "cap", "slope")})
    if given.activation is not None and given.activation not in ("clipped_relu", "leaky_relu"):
        found = to_activation(given.activation)
        changed["activation"] = found.name
        if found.parameter is not None:
            name = "cap" if found.name == "clipped_relu" else "slope"
            if changed[name] is not None:
                raise UsageError(f"the {name} is given in the activation and in {name}; give it once")
            changed[name] = float(found.parameter)
    return given._replace(**changed)


def read_samples(path: Path, *, neurons: int | None = None) -> Samples:
    """Read samples, recognized by their content: Varve's files (also of 0.2), IDX (MNIST), NumPy (an array of two and more
    dimensions, or ``numpy.savez`` of X and y), SciPy, Matrix Market, binsparse, CSV, svmlight, text of the Graph Challenge.

    In CSV, names in the first row are recognized; a column of the name label, class, target or y holds the answers. Whole
    numbers as answers are labels, others targets [samples, 1].

    :param neurons: width of the samples. Text does not say it; for other files it is checked
    :returns: the samples, with the labels and targets that the file holds
    :raises InputError: if the file is missing or broken, naming it
    :raises ResourceError: if the library that reads such files is missing, naming it
    """
    with sentences():
        return samples_in(name_of(path), to_optional_count(neurons, "neurons"), True)


def samples_in(path: str, neurons: int | None, wants_answers: bool) -> Samples:
    """The samples of a file, with its labels and targets if they are wanted."""
    kind = _foreign.kind_of(path)
    if kind in ("", "mtx"):
        _foreign.require_own(path)
        matrix, first_sample, labels, targets = _core.read_samples(path, neurons, wants_answers)
        return Samples(_foreign.csr(*matrix), labels, None if targets is None else _foreign.csr(*targets), first_sample)
    read = _foreign_samples(path, kind, neurons)
    if neurons is not None and read.X.shape[1] != neurons:
        hint = ", one of which may hold labels: a first row with names would say so" if kind == "csv" and read.labels is None else ""
        raise InputError(f"{path} holds samples of {read.X.shape[1]} neurons, the network has {neurons} inputs{hint}")
    return read


def _foreign_samples(path: str, kind: str, neurons: int | None) -> Samples:
    """The samples of a file of another program, without zeros."""
    _foreign.library("scipy.sparse", path, "scipy")
    parts: _tables.Parts | None = None
    if kind == "svmlight":
        parts = _tables.read_svmlight(path, neurons)
    elif kind == "csv":
        parts = _tables.read_csv(path)
    elif kind == "npy":
        parts = (_tables.flattened(_foreign.read_npy(path), path), None, None)
    elif kind == "npz":
        parts = _tables.read_savez(path)
    elif kind == "hdf5" and (content := _hdf5.content_of(path)) != "binsparse":
        if not content:
            _foreign.fail(path, "HDF5 of another program", "arrays of it: h5py.File(FILE)[NAME][:]")
        return Samples(*_hdf5.read_samples(path))
    elif kind != "hdf5":
        raise InputError(f"{path} may hold a network, expected samples")
    X, labels, targets = parts or (_foreign.read_matrix(path), None, None)
    if isinstance(X, np.ndarray):
        X = _foreign.csr_of_dense(X, path)
    X.eliminate_zeros()
    return Samples(X, labels, targets if targets is None else _foreign.csr_of_dense(targets, path))


def labels_in(path: str, first_sample: int, num_samples: int) -> np.ndarray:
    """The labels of these samples."""
    kind = _foreign.kind_of(path)
    if kind not in ("npy", "npz", "hdf5", "csv", "svmlight"):
        _foreign.require_own(path)
        return np.asarray(_core.read_labels(path, first_sample, num_samples))
    first, labels = 0, None
    if kind == "npy":
        labels = _foreign.read_labels(path)
    elif kind != "hdf5" or _hdf5.content_of(path) == "samples":
        read = samples_in(path, None, True)
        first, labels = read.first_sample, read.labels
    if labels is None:
        raise InputError(f"{path} has no labels")
    if (first, len(labels)) != (first_sample, num_samples):
        found, wanted = f"{first + 1}:{first + len(labels)}", f"{first_sample + 1}:{first_sample + num_samples}"
        _foreign.fail(path, f"labels of the samples {found}", f"labels of the samples {wanted}")
    return labels


def targets_in(path: str) -> Any:
    """The targets of a file or, if it has none, its samples."""
    read = samples_in(path, None, True)
    return read.X if read.targets is None else read.targets


def save_samples(path: Path, X: Any, labels: Any = None, targets: Any = None) -> None:
    """Write samples: ``.safetensors``, or without labels and targets ``.tsv``, ``.tsv.gz``, ``.tsv.xz``, ``.tsv.zst``,
    ``.npy`` (a dense array, float32 if that holds all numbers exactly, else float64) and ``.npz`` (a csr matrix of SciPy, float64).

    :param X: samples [samples, neurons]: an array, a matrix of scipy.sparse, or anything in host memory with DLPack
    :param labels: the index of the right output of each sample, [samples]
    :param targets: the wanted outputs, [samples, outputs]

    The file appears whole or not at all.
    """
    write_samples(name_of(path), Samples(X, labels, targets))


def write_samples(path: str, samples: Samples) -> None:
    """The same, with the number of the first sample."""
    X, labels, targets = _arrays.known(samples.X), samples.labels, _arrays.known(samples.targets, "targets")
    shape = _arrays.shape_of(X)
    if len(shape) > 2:
        X = _arrays.as_rows(X, math.prod(shape[1:]))
        shape = _arrays.shape_of(X)
    if len(shape) != 2:
        raise InputError(f"X has the shape {_arrays.shape_text(shape)}, expected (samples, neurons)")
    rows = _arrays.to_sample_rows(X, shape[1])
    classes = None if labels is None else _arrays.to_labels(labels, shape[0])
    if classes is not None and classes.size and not (classes.min() >= 0 and classes.max() < 2**32 - 1):
        raise InputError(f"labels are {classes.min()} to {classes.max()}, expected 0 to {2**32 - 2}")
    if path.endswith((".npy", ".npz")):
        if classes is not None or targets is not None or samples.first_sample:
            raise UsageError(f"{path} holds no labels, targets or first sample, expected .safetensors")
        _write_array(path, X)
        return
    wanted = None
    if targets is not None:
        width = _arrays.shape_of(targets)
        if len(width) != 2 or width[0] != shape[0]:
            raise InputError(f"targets have the shape {_arrays.shape_text(width)}, expected ({shape[0]}, outputs)")
        wanted = _arrays.to_sample_rows(targets, width[1], "targets")
    _core.write_samples(path, rows, classes, wanted, samples.first_sample)


def _write_array(path: str, X: Any) -> None:
    from scipy.sparse import csr_array, save_npz

    matrix = _arrays.to_csr(X, "X") if _arrays.is_sparse(X) else csr_array(_arrays.to_numpy(X, "X"))
    if not np.isfinite(matrix.data).all():
        raise InputError("X holds a value that is not finite, expected finite numbers")
    with _container.appearing(path) as file:
        if path.endswith(".npz"):
            save_npz(file, matrix.astype(np.float64))
        else:
            np.lib.format.write_array(file, _container.narrow(matrix.toarray()), allow_pickle=False)


def samples_of(X: Any, num_inputs: int) -> Any:
    """X in a form that is known, or the samples of a file or of read_samples()."""
    if is_path(X):
        with sentences():
            X = samples_in(name_of(X), num_inputs, False)
    return _arrays.as_rows(X.X if isinstance(X, Samples) else X, num_inputs)


def answered(X: Any, labels: Any, targets: Any, num_inputs: int, prefers_targets: bool = False) -> tuple[Any, Any, Any]:
    """Samples, labels and targets, where each may be a file. Without labels and targets, those of the samples' file:
    its targets if they are preferred or it has no labels, else its labels."""
    with sentences():
        if is_path(X):
            X = samples_in(name_of(X), num_inputs, labels is None and targets is None)
        if not (isinstance(X, (Samples, list, tuple)) or any(hasattr(X, name) for name in ("shape", "__array__", "__dlpack__"))):
            raise UsageError(f"X is {type(X).__name__}, expected an array; Training.step takes batches one by one")
        found = X if isinstance(X, Samples) else Samples(X)
        if labels is None and targets is None:
            if found.targets is not None and (prefers_targets or found.labels is None):
                targets = found.targets
            else:
                labels = found.labels
        if is_path(labels):
            labels = labels_in(name_of(labels), found.first_sample, _arrays.shape_of(found.X)[0])
        if is_path(targets):
            targets = targets_in(name_of(targets))
    return _arrays.as_rows(found.X, num_inputs), _arrays.known(labels, "labels"), _arrays.known(targets, "targets")
