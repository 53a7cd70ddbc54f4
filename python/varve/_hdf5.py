"""HDF5, read by h5py: networks, checkpoints, samples and dense matrices of Varve 0.2, and matrices of binsparse."""

from __future__ import annotations

import math
import re
from contextlib import contextmanager
from typing import Any, Iterator, NamedTuple

import numpy as np

from ._foreign import LARGEST_INDEX, activation_of, csr_of_parts, fail, library, parse_json, quote, reading
from ._results import Layer


class Training(NamedTuple):
    """What a checkpoint holds beside its network."""

    recipe: str
    progress: str
    steps: int
    moments: list[tuple[list[np.ndarray], list[np.ndarray]]]  #: for each layer, those of its weights and of its biases
    history: np.ndarray  #: [epochs, 11]
    best: list[Layer]  #: none if the network is the best one


@contextmanager
def opened(path: str) -> Iterator[Any]:
    h5py = library("h5py", path)
    with reading(path), h5py.File(path, "r") as file:
        yield file


# --- parts of a file


def _child(parent: Any, name: str, kind: str, place: str) -> Any:
    """The Group or Dataset of this name, which must lie in the same file; with the kind HLObject any of the two."""
    h5py = library("h5py", place)
    link = parent.get(name, getlink=True)
    found = None if isinstance(link, h5py.ExternalLink) else parent.get(name)
    if found is None and link is not None or found is not None and found.file.filename != parent.file.filename:
        fail(place, f"{quote(name)} in another file, or nowhere", "all in this file")
    if not isinstance(found, getattr(h5py, kind)):
        fail(place, f"no {kind.lower() if kind != 'HLObject' else 'group or dataset'} {quote(name)}", "one")
    return found


def _text(parent: Any, name: str, place: str) -> str:
    value = parent.attrs.get(name)
    if isinstance(value, bytes):
        value = value.decode()
    if not isinstance(value, str):
        fail(place, f"no text as the attribute {quote(name)}", "one")
    return value


def _number(parent: Any, name: str, place: str, kinds: str = "iuf") -> Any:
    value = np.asarray(parent.attrs.get(name, ""))
    if value.dtype.kind not in kinds or value.size != 1 or kinds == "iu" and value.reshape(-1)[0] < 0:
        fail(place, f"no number as the attribute {quote(name)}", "one")
    return value.reshape(-1)[0].item()


def _require_own_numbers(data: Any, place: str) -> None:
    """Raises InputError about numbers in other files, and about shapes much larger than what is stored."""
    if data.is_virtual or data.external:
        fail(place, "numbers that lie in another file", "all in this file")
    if data.dtype.kind not in "biuf" or data.dtype.itemsize > 8:
        fail(place, f"numbers of the type {data.dtype}", "integers or floating point of at most 8 bytes")
    chunk = math.prod(data.chunks or ()) * data.dtype.itemsize
    if max(data.nbytes, chunk) > 2**20 + 1100 * data.id.get_storage_size():  # deflate makes no more of a byte
        fail(place, f"{data.nbytes} bytes of numbers, of which {data.id.get_storage_size()} are stored", "all of them")


def _list(parent: Any, name: str, place: str, kinds: str, length: int | None = None) -> np.ndarray:
    """The numbers of a dataset of one dimension, or the only one of it."""
    data, where = _child(parent, name, "Dataset", place), f"{place}: {name}"
    if data.shape is None or len(data.shape) > 1:
        fail(where, f"a dataset of the shape {data.shape}", "one dimension")
    _require_own_numbers(data, where)
    if data.dtype.kind not in kinds:
        fail(where, f"numbers of the type {data.dtype}", "integers")
    if length is not None and data.size != length:
        fail(place, f"{data.size} numbers in {name}", f"{length} as the descriptor says")
    numbers = np.atleast_1d(data[()])
    return numbers.astype(numbers.dtype.newbyteorder("="), copy=False)


def own_numbers(parent: Any, name: str, place: str) -> np.ndarray:
    """The numbers of a dataset of any shape, which must lie in the same file."""
    h5py = library("h5py", place)
    *groups, last = name.split("/")
    for group in groups:
        parent = _child(parent, group, "Group", place)
    data = _child(parent, last, "Dataset", place)
    if not isinstance(data, h5py.Dataset) or data.shape is None:
        fail(place, f"no numbers in {quote(name)}", "some")
    _require_own_numbers(data, f"{place}: {name}")
    return np.asarray(data[()])


def _shown(descriptor: dict[str, Any], key: str) -> str:
    found = f'"{key}": {quote(descriptor[key])}' if key in descriptor else f'no "{key}"'
    return f"{found} in the binsparse descriptor"


def _count(value: Any, largest: int, place: str, shown: str) -> int:
    if type(value) is not int or not 0 <= value <= largest:
        fail(place, shown, f"a number from 0 to {largest}")
    return value


def _descriptor(group: Any, place: str) -> tuple[dict[str, Any], tuple[int, int]]:
    """The descriptor of a matrix, and its shape."""
    found = parse_json(_text(group, "binsparse", place), f"{place}: binsparse descriptor")
    found = found.get("binsparse", found) if isinstance(found, dict) else found
    if not isinstance(found, dict):
        fail(place, "a binsparse descriptor that is not a JSON object", "one")
    shape = found.get("shape")
    if not isinstance(shape, list) or len(shape) != 2:
        fail(place, _shown(found, "shape"), "two numbers")
    rows, columns = (_count(length, LARGEST_INDEX, place, _shown(found, "shape")) for length in shape)
    return found, (rows, columns)


def _matrix(group: Any, place: str, formats: tuple[str, ...] = ("CSR",)) -> Any:
    """A sparse matrix of binsparse, of one of these formats."""
    found, shape = _descriptor(group, place)
    if found.get("version") not in ("0.1", "0.1.0"):
        fail(place, _shown(found, "version"), '"0.1.0"')
    if found.get("format") not in formats:
        fail(place, _shown(found, "format"), '"CSR"' if len(formats) == 1 else '"CSR", "CSC" or "COO"')
    if len(formats) > 1 and "structure" in found:
        fail(place, _shown(found, "structure"), "none: all entries are stored")
    if not isinstance(found.get("fill", False), bool):
        fail(place, _shown(found, "fill"), "true or false")
    if found.get("fill") and (value := _list(group, "fill_value", place, "biuf", 1)[0]) != 0:
        fail(place, f"the fill value {value}", "0 for all entries that are not stored")
    count = _count(found.get("number_of_stored_values"), 2**60, place, _shown(found, "number_of_stored_values"))
    if count > shape[0] * shape[1]:
        fail(
            place,
            f"{count} stored values in a matrix of the shape {shape[0]} x {shape[1]}",
            "each entry of a matrix once",
        )
    types = found.get("data_types")
    kind = types.get("values") if isinstance(types, dict) else None
    if not isinstance(kind, str):
        fail(place, _shown(found, "data_types"), "an object that names the type of the values")
    if "complex" in kind:
        fail(place, f"values of the type {quote(kind)}", "real numbers")
    layout = found["format"][:3].lower()
    outer_length = {"csr": shape[0] + 1, "csc": shape[1] + 1, "coo": count}[layout]
    outer = _list(group, "indices_0" if layout == "coo" else "pointers_to_1", place, "iu", outer_length)
    inner = _list(group, "indices_1", place, "iu", count)
    values = _list(group, "values", place, "biuf")
    if len(values) != count and len(values) != 1:
        fail(place, f"{len(values)} numbers in values", f"{count} as the descriptor says")
    return csr_of_parts(layout, shape, outer, inner, values, place)


def _require_version(file: Any, place: str, wanted: str) -> None:
    if (found := _text(file, "format", place)) != wanted:
        fail(place, f"the format {quote(found)}", f'"{wanted}"')
    if (version := _number(file, "version", place, "iu")) != 1:
        fail(place, f"version {version} of the format", "1")


# --- whole files


def content_of(path: str) -> str:
    """network, checkpoint, samples or matrix of Varve 0.2; binsparse; "" for anything else."""
    with opened(path) as file:
        if "format" in file.attrs:
            found = _text(file, "format", path)
            if found not in ("varve-network", "varve-samples", "varve-matrix"):
                fail(path, f"the format {quote(found)}", "one of Varve")
            return "checkpoint" if found == "varve-network" and "training" in file else found[len("varve-") :]
    return "binsparse" if matrix_names(path) else ""


def natural(name: str) -> Any:
    """A key that sorts names with their runs of digits as numbers: layer2 before layer10."""
    parts = re.findall("[0-9]+|[^0-9]", name)
    return [(ord("0"), int(part)) if "0" <= part[0] <= "9" else (ord(part), 0) for part in parts], name


def matrix_names(path: str) -> list[str]:
    """The groups with matrices of a file of binsparse, in the order of their names; "" for the root."""
    h5py = library("h5py", path)
    with opened(path) as file:
        if "format" in file.attrs:
            return []
        if "binsparse" in file.attrs:
            return [""]
        return sorted((name for name in file if _has_matrix(file, name, h5py)), key=natural)


def _has_matrix(file: Any, name: str, h5py: Any) -> bool:
    is_own = not isinstance(file.get(name, getlink=True), h5py.ExternalLink)
    return is_own and isinstance(group := file.get(name), h5py.Group) and "binsparse" in group.attrs


def read_matrix(path: str, name: str = "") -> Any:
    """The sparse matrix of a group of binsparse, or the only one."""
    names = [name] if name else matrix_names(path)
    if len(names) != 1:
        fail(path, f"{len(names)} matrices", "one")
    with opened(path) as file:
        place = f"{path}: {quote(names[0])}" if names[0] else path
        group = _child(file, names[0], "Group", path) if names[0] else file
        return _matrix(group, place, ("CSR", "CSC", "COO", "COOR", "COOC"))


def read_list(path: str, name: str) -> np.ndarray:
    """The numbers of a dataset."""
    with opened(path) as file:
        return _list(file, name, path, "biuf")


def read_layers(path: str, group: str = "layers") -> Iterator[Layer]:
    """The layers of a network of Varve 0.2, one after another."""
    with opened(path) as file:
        _require_version(file, path, "varve-network")
        layers = _child(file, group, "Group", path)
        if not len(layers):
            fail(path, "no layers", "at least one")
        for number in range(len(layers)):
            place = f"{path}: {'' if group == 'layers' else f'{group}: '}layer {number}"
            layer = _child(layers, f"{number:06}", "Group", place)
            weights = _matrix(_child(layer, "weights", "Group", place), place)
            bias = _list(layer, "bias", place, "biuf")
            if len(bias) not in (1, weights.shape[0]):
                fail(place, f"{len(bias)} biases", f"1 or {weights.shape[0]}")
            found = {name: _number(layer, name, place) for name in ("cap", "slope") if name in layer.attrs}
            yield Layer(
                weights,
                bias,
                activation_of(_text(layer, "activation", place), found.get("cap"), found.get("slope"), place),
            )


def read_training(path: str, layers: list[Layer]) -> Training:
    """What a checkpoint with these layers holds beside them."""
    with opened(path) as file:
        place = f"{path}: training"
        group = _child(file, "training", "Group", path)
        count = _number(group, "moments", place, "iu")
        if count > 2:
            fail(place, f"{count} moments", "0 to 2")
        moments = []
        for number, layer in enumerate(layers if len(group) else []):
            where = f"{place}: layer {number}"
            stored = _child(group, f"{number:06}", "Group", where)
            weights = [_list(stored, f"weights_{moment}", where, "f", layer.weights.nnz) for moment in range(count)]
            moments.append(
                (weights, [_list(stored, f"bias_{moment}", where, "f", len(layer.bias)) for moment in range(count)])
            )
        history = _list(file, "history", path, "f") if "history" in file else np.zeros(0)
        if len(history) % 11:
            fail(f"{path}: history", f"{len(history)} numbers", "eleven for each epoch")
        texts = _text(group, "recipe", place), _text(group, "progress", place)
        steps = _number(group, "steps", place, "iu")
        best = list(read_layers(path, "best")) if "best" in file else []
        return Training(*texts, steps, moments, history.astype(np.float64).reshape(-1, 11), best)


def read_samples(path: str) -> tuple[Any, np.ndarray | None, Any, int]:
    """Samples, labels, targets and the number of the first sample of a file of Varve 0.2."""
    with opened(path) as file:
        _require_version(file, path, "varve-samples")
        first = _number(file, "first_sample", path, "iu") if "first_sample" in file.attrs else 0
        X = _matrix(_child(file, "samples", "Group", path), f"{path}: samples")
        labels = _list(file, "labels", path, "iu") if "labels" in file else None
        targets = _matrix(_child(file, "targets", "Group", path), f"{path}: targets") if "targets" in file else None
    if first + X.shape[0] >= 2**64 - 1:
        fail(
            path,
            f"{first} as the number of the first of {X.shape[0]} samples",
            f"no more than {2**64 - 2 - X.shape[0]}",
        )
    for what, found in (("labels", labels), ("targets", targets)):
        if found is not None and found.shape[0] != X.shape[0]:
            fail(path, f"{found.shape[0]} {what} for {X.shape[0]} samples", "one for each")
    if labels is not None and len(labels) and not 0 <= labels.min() <= labels.max() < 2**32 - 1:
        fail(path, f"labels from {labels.min()} to {labels.max()}", f"0 to {2**32 - 2}")
    return X, None if labels is None else labels.astype(np.int64), targets, first


@contextmanager
def dense(path: str, name: str = "") -> Iterator[tuple[Any, tuple[int, int]]]:
    """A dataset of a dense matrix, of one or two dimensions, and the shape of the matrix.

    :param name: of the dataset, or of a group in the layout DMATR of binsparse; "": `matrix`, or the only one
    """
    h5py = library("h5py", path)
    with opened(path) as file:
        place = f"{path}: {quote(name)}" if name else path
        if not name and "binsparse" not in file.attrs:
            names = ["matrix"] if "matrix" in file else [key for key in file if _is_dense(file, key, h5py)]
            if len(names) != 1:
                fail(
                    place,
                    f"{len(names)} datasets of two dimensions",
                    "one, or FILE:DATASET" if names else "a dense matrix",
                )
            name = names[0]
        found = file
        for part in filter(None, name.split("/")):
            if not isinstance(found, h5py.Group):
                fail(place, "a dataset instead of a group", "one")
            found = _child(found, part, "HLObject", place)
        if isinstance(found, h5py.Group):
            descriptor, shape = _descriptor(found, place)
            if descriptor.get("format") != "DMATR":
                fail(place, _shown(descriptor, "format"), '"DMATR", a dense matrix row by row')
            found = _child(found, "values", "Dataset", place)
            if found.shape != (shape[0] * shape[1],):
                fail(place, f"values of the shape {found.shape}", f"{shape[0]} x {shape[1]}")
        elif found.shape is None or len(found.shape) != 2:
            fail(place, f"a dataset of the shape {found.shape}", "two dimensions")
        else:
            shape = found.shape
        _require_own_numbers(found, place)
        if found.dtype.kind != "f" or found.dtype.itemsize < 4:
            fail(place, f"numbers of the type {found.dtype}", "floating point of 32 or 64 bits")
        if 0 in shape:
            fail(place, f"a matrix of {shape[0]} x {shape[1]}", "rows and columns")
        yield found, shape


def _is_dense(file: Any, name: str, h5py: Any) -> bool:
    is_own = not isinstance(file.get(name, getlink=True), h5py.ExternalLink)
    return (
        is_own and isinstance(data := file.get(name), h5py.Dataset) and data.shape is not None and len(data.shape) == 2
    )
