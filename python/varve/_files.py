"""Files of networks and samples, in all formats that the command takes."""

from __future__ import annotations

import os
import re
import warnings
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Iterator, Union

import numpy as np

from . import _arrays, _core
from ._activation import Activation, ActivationLike, to_activation
from ._errors import Error, InputError, ResourceError, UsageError
from ._options import to_optional_count, to_optional_number

#: The name of a file.
Path = Union[str, "os.PathLike[str]"]

#: Options of the command that its sentences name, and what they are called here.
_NAMES = {
    "--transpose-weights": "transposed=True",
    "--activation": "activation",
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
    """The name of a file for the C++ part. Raises InputError if it is no text, TypeError if the path is none."""
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


def open_network(
    path: Path,
    neurons: int | None,
    layers: int | None,
    bias: float | None,
    cap: float | None,
    activation: ActivationLike | None,
    slope: float | None,
    transposed: bool,
) -> _core.Network:
    """See Network.from_file."""
    options = _core.FileOptions()
    options.neurons, options.layers = to_optional_count(neurons, "neurons"), to_optional_count(layers, "layers")
    options.bias, options.cap, options.slope = (
        to_optional_number(value, name) for value, name in ((bias, "bias"), (cap, "cap"), (slope, "slope"))
    )
    options.transposes_weights = transposed
    if activation is not None:
        _set_activation(options, activation)
    with sentences():
        network, note = _core.open_network(name_of(path), options)
    if note:
        warnings.warn(in_words_of_python(note), stacklevel=3)
    return network


def _set_activation(options: _core.FileOptions, activation: ActivationLike) -> None:
    """A name alone may have its parameter in cap or slope."""
    if isinstance(activation, str) and activation in ("clipped_relu", "leaky_relu"):
        options.activation = activation
        return
    found: Activation = to_activation(activation)
    options.activation = found.name
    if found.parameter is None:
        return
    name = "cap" if found.name == "clipped_relu" else "slope"
    if getattr(options, name) is not None:
        raise UsageError(f"the {name} stands in the activation and in {name}; give it once")
    setattr(options, name, float(found.parameter))


def read_samples(path: Path, *, neurons: int | None = None) -> Samples:
    """Read samples, recognized by their content: Varve's HDF5, IDX (MNIST), NumPy, SciPy, Matrix Market, binsparse, text.

    :param neurons: width of the samples. Text does not say it; for other files it is checked
    :returns: the samples, with the labels and targets that an HDF5 file holds
    :raises InputError: if the file is missing or broken, naming it
    """
    return _read(path, neurons, True)


def _read(path: Path, neurons: int | None, wants_answers: bool) -> Samples:
    neurons = to_optional_count(neurons, "neurons")
    with sentences():
        matrix, first_sample, labels, targets = _core.read_samples(name_of(path), neurons, wants_answers)
    return Samples(_csr(*matrix), labels, None if targets is None else _csr(*targets), first_sample)


def save_samples(path: Path, X: Any, labels: Any = None, targets: Any = None) -> None:
    """Write samples: ``.h5``, or without labels and targets ``.tsv``, ``.tsv.gz``, ``.tsv.xz``, ``.tsv.zst``.

    :param X: samples [samples, neurons]: an array, a matrix of scipy.sparse, or anything in host memory with DLPack
    :param labels: the index of the right output of each sample, [samples]
    :param targets: the wanted outputs, [samples, outputs]

    The file appears whole or not at all.
    """
    shape = _arrays.shape_of(X)
    if len(shape) != 2:
        raise InputError(f"X has the shape {_arrays.shape_text(shape)}, expected (samples, neurons)")
    rows = _arrays.to_sample_rows(X, shape[1])
    classes = None if labels is None else _arrays.to_labels(labels, shape[0])
    if classes is not None and classes.size and not (classes.min() >= 0 and classes.max() < 2**32 - 1):
        raise InputError(f"labels are {classes.min()} to {classes.max()}, expected 0 to {2**32 - 2}")
    wanted = None
    if targets is not None:
        width = _arrays.shape_of(targets)
        if len(width) != 2 or width[0] != shape[0]:
            raise InputError(f"targets have the shape {_arrays.shape_text(width)}, expected ({shape[0]}, outputs)")
        wanted = _arrays.to_sample_rows(targets, width[1], "targets")
    _core.write_samples(name_of(path), rows, classes, wanted)


def samples_of(X: Any, num_inputs: int) -> Any:
    """X itself, or the samples of a file or of read_samples()."""
    if isinstance(X, Samples):
        return X.X
    return _read(X, num_inputs, False).X if is_path(X) else X


def answered(X: Any, labels: Any, targets: Any, num_inputs: int, prefers_targets: bool = False) -> tuple[Any, Any, Any]:
    """Samples, labels and targets, where each may be a file. Without labels and targets, those of the samples' file: its
    targets if they are preferred or it has no labels, else its labels."""
    if is_path(X):
        X = _read(X, num_inputs, labels is None and targets is None)
    found = X if isinstance(X, Samples) else Samples(X)
    if labels is None and targets is None:
        if found.targets is not None and (prefers_targets or found.labels is None):
            targets = found.targets
        else:
            labels = found.labels
    if is_path(labels):
        with sentences():
            labels = _core.read_labels(name_of(labels), found.first_sample, _arrays.shape_of(found.X)[0])
    if is_path(targets):
        read = _read(targets, None, True)
        targets = read.X if read.targets is None else read.targets
    return found.X, labels, targets


def _csr(arrays: Any, num_rows: int, num_columns: int) -> Any:
    from scipy.sparse import csr_array

    return csr_array(arrays, shape=(num_rows, num_columns))
