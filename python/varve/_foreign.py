"""Files of other programs: their kinds, and matrices of NumPy, SciPy and Matrix Market as csr_array of float64.

(SciPy's own reader of Matrix Market crashes over broken files; the C++ part has one.)
"""

from __future__ import annotations

import bz2
import gzip
import importlib
import io
import json
import lzma
import math
import os
import re
import zipfile
from collections import Counter
from contextlib import contextmanager
from typing import Any, BinaryIO, Callable, Iterable, Iterator, NoReturn, Sequence

import numpy as np

from . import _container, _core
from ._activation import PARAMETERS, Activation
from ._errors import Error, InputError, ResourceError
from ._results import Layer

LARGEST_INDEX = 2**32 - 1  # of rows and columns
_HDF5 = b"\x89HDF\r\n\x1a\n"
_BZIP2 = b"BZh"
_LONGEST_JSON = 100_000_000
SVMLIGHT = re.compile(rb"[-+.\deE]+([ \t]+\d+:[-+.\deE]+)+[ \t]*(#|\r?\n|\Z)")  # a line

#: Files that are not read: how they begin, what they are, and what to do.
_STRANGERS = (
    (rb"\x80[\x02-\x05]", "is a pickle", "load it (pickle.load, joblib.load, torch.load) and give what it holds"),
    (rb"\s*<(!doctype|html|\?xml)", "is an HTML page", "a web site showed it instead of the file; fetch the file again"),
    (rb"[^%]{1,99}%%MatrixMarket", "has a Matrix Market banner not in the first column", "%%MatrixMarket must begin the first line"),
    (rb"PAR1", "is a Parquet file", "pandas.read_parquet reads it, and its frame is taken as an array"),
    (rb"MATLAB 5", "is a MAT file", "scipy.io.loadmat reads it, and its matrices are taken as they are"),
    (rb"\x89PNG|\xff\xd8\xff|GIF8", "is a picture", "samples are an array [samples, numbers], such as numpy.save writes"),
    (rb".{257}ustar", "is a tar archive", "unpack it (tar -xf) and give the file or folder inside"),
)


def quote(value: Any) -> str:
    """A text, or something of JSON, for messages: shortened, and in letters of ASCII."""
    text = value if isinstance(value, str) else json.dumps(value)
    return json.dumps(text[:40])[:-1] + ('..."' if len(text) > 40 else '"')


def fail(place: str, found: str, expected: str) -> NoReturn:
    raise InputError(f"{place}: found {found}, expected {expected}")


@contextmanager
def reading(place: str) -> Iterator[None]:
    """What a library raises about a file becomes a sentence."""
    try:
        yield
    except Error:
        raise
    except MemoryError:
        raise ResourceError(f"{place} does not fit into memory") from None
    except Exception as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error) or type(error).__name__
        if "unable to lock file" in reason or "already open for write" in reason:
            raise InputError(f"{place} is open for writing elsewhere, such as in a notebook: close it there") from error
        raise InputError(f"{place} cannot be read: {' '.join(reason.split())[:300]}") from error


def library(name: str, path: str, package: str = "") -> Any:
    """A module that reads a file. Raises ResourceError if it is not installed."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        package = package or name
        raise ResourceError(
            f"{path} is read by the Python package {package}, which is missing: pip install {package}"
        ) from error


@contextmanager
def opened(path: str) -> Iterator[BinaryIO]:
    """The bytes of a file, decompressed if gzip, bzip2, xz or zstd compressed them."""
    with reading(path), open(path, "rb") as file:
        head = file.peek(6)
        if head.startswith(b"\x1f\x8b"):
            yield gzip.GzipFile(fileobj=file)  # type: ignore[misc]
        elif head.startswith(_BZIP2):
            yield bz2.open(file)  # type: ignore[misc]
        elif head.startswith(b"\xfd7zXZ\0"):
            yield lzma.open(file)  # type: ignore[misc]
        elif head.startswith(b"\x28\xb5\x2f\xfd"):
            with _zstd(path).open(file) as numbers:
                yield numbers
        else:
            yield file


def _zstd(path: str) -> Any:
    for name in ("compression.zstd", "backports.zstd"):  # the first is Python's own since 3.14
        try:
            return importlib.import_module(name)
        except ImportError:
            continue
    return library("zstandard", path)


def require_own(path: str) -> None:
    """Raises InputError, which says what was found, if the C++ part cannot know what a file is."""
    if not os.path.isfile(path):
        return
    with opened(path) as content:
        head = content.read(512)
    for begin, found, remedy in _STRANGERS:
        if re.match(begin, head, re.DOTALL | re.IGNORECASE):
            raise InputError(f"{path} {found}: {remedy}")
    with open(path, "rb") as file:
        if file.read(3) == _BZIP2:
            raise InputError(f"{path} is compressed by bzip2, which is read of NumPy's arrays, CSV and svmlight: unpack it (bunzip2)")


def kind_of(path: str) -> str:
    """npy, npz, mtx, hdf5, onnx, json, csv, svmlight, or foreign safetensors; "" for what the C++ part reads or refuses."""
    if not os.path.isfile(path):
        return ""
    try:
        with opened(path) as content:
            head = content.read(512)
    except ResourceError:  # zstd is missing: the C++ part has its own
        if ".npy" in os.path.basename(path):
            raise
        return ""
    except InputError:  # compressed, and broken: the C++ part says where
        return ""
    for kind, begin in (("npy", b"\x93NUMPY"), ("npz", b"PK\3\4"), ("hdf5", _HDF5), ("mtx", b"%%MatrixMarket")):
        if head.startswith(begin):
            return kind
    if head.lstrip(b" \t\r\n").startswith(b"{"):
        return "json"
    if kind := _kind_of_table(head):
        return kind
    with reading(path), open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        length = int.from_bytes(file.read(8), "little")
        if head[8:9] == b"{" and length <= min(size - 8, _LONGEST_JSON):
            return "" if b'"varve"' in file.read(length) else "safetensors"
        for place in (512 << step for step in range(max(size // 512, 1).bit_length())):  # behind a user block
            file.seek(place)
            if file.read(8) == _HDF5:
                return "hdf5"
        return "onnx" if _is_onnx(file, size) else ""


def _kind_of_table(head: bytes) -> str:
    """csv or svmlight by the first bytes of a file; "" for neither."""
    first = head.removeprefix(b"\xef\xbb\xbf").split(b"\n")[0]
    if not first.strip() or re.search(rb"[^\t\r -\xff]", first):
        return ""
    if SVMLIGHT.match(re.sub(rb"[ \t][^ \t]*\Z", b"", first) if len(first) == len(head) else first + b"\n"):
        return "svmlight"
    return "csv" if separator_of(first.decode("latin1")) != "" else ""


def separator_of(line: str) -> str | None:
    """What stands between the columns of a table, of which this is the first line: "," ";" or a tab between names, None for
    spaces; "" if it is none, but a line of the Graph Challenge's text or a label."""
    if "\t" in line:
        return "\t" if re.search(r"[a-df-zA-DF-Z]", line) else ""
    if "," in line or ";" in line:
        return max(",;", key=line.count)
    columns = line.split()
    is_table = len(columns) > 1 and len(columns) != 3 and all(re.fullmatch(r"[-+.\deE]+", column) for column in columns)
    return None if is_table else ""


def _is_onnx(file: BinaryIO, size: int) -> bool:
    """True if all bytes are fields of an ONNX model, with a version and a graph among them, or if it begins like one.

    (Protocol Buffers have no signature.)
    """
    file.seek(0)
    head = file.read(3)
    if len(head) == 3 and head[0] == 8 and 0 < head[1] < 64 and head[2] in b"\x12\x1a\x22\x28\x32\x3a\x42\x72":
        return True
    file.seek(0)
    found = set()
    while file.tell() < size:
        tag, value = _varint(file), _varint(file)
        if tag is None or value is None or tag not in (8, 18, 26, 34, 40, 50, 58, 66, 114, 162, 202):
            return False
        if tag & 7 == 2 and file.seek(value, os.SEEK_CUR) > size or tag == 8 and not 0 < value < 64:
            return False
        found.add(tag)
    return {8, 58} <= found


def _varint(file: BinaryIO) -> int | None:
    number = 0
    for shift in range(0, 63, 7):
        byte = file.read(1)
        if not byte:
            return None
        number |= (byte[0] & 127) << shift
        if byte[0] < 128:
            return number
    return None


def parse_json(text: str | bytes, place: str) -> Any:
    """What a JSON text says; None if it is none. Raises InputError about keys that are there twice."""

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, value in pairs:
            if key in found:
                fail(place, f"the JSON key {quote(key)} twice in one object", "it once")
            found[key] = value
        return found

    if len(text) > _LONGEST_JSON:
        fail(place, f"JSON of more than {_LONGEST_JSON} bytes", "no more")
    try:
        return json.loads(
            text, object_pairs_hook=once, parse_constant=lambda word: fail(place, f"the word {word}", "a number")
        )
    except InputError:
        raise
    except (ValueError, RecursionError):
        return None


def read_json(path: str) -> Any:
    with opened(path) as file:
        return parse_json(file.read(_LONGEST_JSON + 1), path)


def activation_of(name: str, cap: float | None, slope: float | None, place: str) -> Activation:
    """An activation with the parameter that it has, and no other."""
    known = PARAMETERS
    if name not in known:
        fail(place, f"the activation {quote(name)}", f"one of {', '.join(known)}")
    for key, value in (("cap", cap), ("slope", slope)):
        if value is not None and known[name] != key:
            fail(place, f"a {key} for the activation {name}, which has none", "none")
        if value is None and known[name] == key:
            fail(place, f"no {key} for the activation {name}", "one")
    return Activation(name, cap if cap is not None else slope)


# --- matrices


def require_countable(num_rows: int, num_columns: int, num_entries: int, place: str) -> None:
    """Raises InputError about a matrix whose shape takes much more memory than its entries."""
    if max(num_rows, num_columns) > LARGEST_INDEX:
        fail(place, f"a matrix of {num_rows} x {num_columns}", f"no more than {LARGEST_INDEX}")
    if num_rows > max(2**21, num_entries):
        fail(place, f"{num_rows} rows for {num_entries} entries", f"no more than {2**21}, or than there are entries")


def csr(arrays: Any, num_rows: int, num_columns: int) -> Any:
    """A matrix of the C++ part."""
    from scipy.sparse import csr_array

    return csr_array(arrays, shape=(num_rows, num_columns))


def csr_of_parts(
    layout: str, shape: Sequence[int], outer: np.ndarray, inner: np.ndarray, values: np.ndarray, place: str
) -> Any:
    """A matrix of the lists of SciPy's formats and binsparse's.

    :param layout: csr, csc or coo
    :param outer: the pointers or, of coo, the row of each entry
    :param inner: the column of each entry or, of csc, its row
    :param values: one for each entry, or one for all
    """
    if len(values) not in (len(inner), 1):
        fail(place, f"{len(values)} values for {len(inner)} entries", "one for each")
    num_rows, num_columns = shape
    require_countable(
        num_rows, num_columns, num_rows if layout == "csr" else len(inner), place
    )  # pointers are content, too
    values = values.astype(np.float64) if len(values) == len(inner) else np.full(len(inner), values[0], np.float64)
    if layout == "csc":
        return _compressed((num_columns, num_rows), outer, inner, values, ("column", "row"), place).T.tocsr()
    if layout == "coo":
        if len(outer) != len(inner):
            fail(place, f"{len(outer)} rows and {len(inner)} columns of entries", "as many")
        rows = _indices(outer, num_rows, "row", place)
        order = np.argsort(rows, kind="stable")
        inner, values = inner[order], values[order]
        outer = np.concatenate(([0], np.cumsum(np.bincount(rows, minlength=num_rows))))
    return _compressed((num_rows, num_columns), outer, inner, values, ("row", "column"), place)


def _indices(numbers: np.ndarray, limit: int, what: str, place: str) -> np.ndarray:
    for position in np.flatnonzero((numbers < 0) | (numbers >= limit))[:1]:
        if numbers[position] < 0:
            fail(place, f"{numbers[position]} at position {position}", "no negative number")
        fail(place, f"the {what} {numbers[position]} at entry {position}", f"0 to below {limit}")
    return numbers.astype(np.int64, copy=False)


def _compressed(
    shape: tuple[int, int],
    pointers: np.ndarray,
    columns: np.ndarray,
    values: np.ndarray,
    names: tuple[str, str],
    place: str,
) -> Any:
    """Sorts the entries of each row by their columns. `names`: what the rows and columns are called."""
    from scipy.sparse import csr_array

    columns = _indices(columns, shape[1], names[1], place)
    pointers = pointers.astype(np.int64, copy=False)
    if len(pointers) != shape[0] + 1:
        fail(place, f"{len(pointers)} {names[0]} pointers", f"{shape[0] + 1}")
    if pointers[0] != 0:
        fail(place, f"the first {names[0]} pointer {pointers[0]}", "0")
    for bad in np.flatnonzero(pointers[1:] < pointers[:-1])[:1]:
        fail(place, f"the {names[0]} pointer {pointers[bad + 1]} after {pointers[bad]}", "ascending numbers")
    if pointers[-1] != len(columns):
        fail(place, f"the last {names[0]} pointer {pointers[-1]}", f"{len(columns)}, the number of entries")
    rows = np.repeat(np.arange(shape[0]), np.diff(pointers))

    def at(entry: int) -> str:
        where = dict(zip(names, (rows[entry], columns[entry])))
        return f"row {where['row']}, column {where['column']} (both from 0)"

    for entry in np.flatnonzero(~np.isfinite(values))[:1]:
        fail(place, f"the value {values[entry]} in {at(entry)}", "a finite number")
    if ((columns[1:] < columns[:-1]) & (rows[1:] == rows[:-1])).any():
        order = np.lexsort((columns, rows))
        columns, values = columns[order], values[order]
    for entry in np.flatnonzero((columns[1:] == columns[:-1]) & (rows[1:] == rows[:-1]))[:1]:
        fail(place, f"{at(entry)} a second time", "each entry once (SciPy: call sum_duplicates())")
    return csr_array((values, columns, pointers), shape=shape)


def csr_of_dense(array: np.ndarray, place: str) -> Any:
    """The numbers of an array that are not 0, taken part by part."""
    if array.ndim != 2:
        fail(place, f"an array of the shape ({', '.join(map(str, array.shape))})", "two dimensions")
    num_rows, num_columns = array.shape
    require_countable(num_rows, num_columns, array.size, place)
    if array.flags.f_contiguous and not array.flags.c_contiguous:
        return csr_of_dense(array.T, place).T.tocsr()
    step = max(1, 2**22 // max(num_columns, 1))
    counts, columns, values = [np.zeros(1, np.int64)], [np.zeros(0, np.int64)], [np.zeros(0)]
    for first in range(0, num_rows, step):
        block = array[first : first + step]
        where = np.nonzero(block)
        counts.append(np.bincount(where[0], minlength=len(block)))
        columns.append(where[1].astype(np.uint32))
        values.append(block[where].astype(np.float64))
    pointers = np.cumsum(np.concatenate(counts))
    return _compressed(
        (num_rows, num_columns), pointers, np.concatenate(columns), np.concatenate(values), ("row", "column"), place
    )


# --- NumPy and SciPy


def _read_array(file: Any, place: str, kinds: str = "buif") -> np.ndarray:
    """An array of numbers in NumPy's format. That of a file that is not compressed stays there."""
    version = np.lib.format.read_magic(file)
    if version not in ((1, 0), (2, 0)):
        fail(place, f"version {version[0]} of NumPy's format", "1 or 2")
    shape, is_fortran, dtype = getattr(np.lib.format, f"read_array_header_{version[0]}_0")(file)
    shown = f"({', '.join(map(str, shape))})"
    if dtype.kind not in kinds or dtype.byteorder == ">" or dtype.itemsize > (64 if kinds == "SU" else 8):
        expected = "integers or floating point of at most 8 bytes, lowest byte first (little endian: array.astype('<f8'))"
        fail(place, f"elements of NumPy's type {quote(dtype.str)}", "a short text" if kinds == "SU" else expected)
    if any(length < 0 for length in shape):
        fail(place, f"the shape {shown}", "one of whole numbers, such as (60000, 784)")
    count = math.prod(shape)
    size, data = count * dtype.itemsize, bytearray()
    if isinstance(file, io.BufferedReader):
        found = os.fstat(file.fileno()).st_size - file.tell()
    else:
        while len(data) <= size and (block := file.read(min(2**20, size + 1 - len(data)))):
            data += block
        found = len(data)
    if found < size:
        fail(place, f"an end after {found // dtype.itemsize} numbers", f"{count} of the shape {shown}")
    if found > size:
        fail(place, "bytes behind the last number", f"{count} numbers of the shape {shown}")
    is_in_file = count > 0 and not data
    array = (
        np.asarray(np.memmap(file, dtype, "r", file.tell(), count)) if is_in_file else np.ndarray(count, dtype, data)
    )
    return array.reshape(shape, order="F" if is_fortran else "C")


def read_npy(path: str) -> np.ndarray:
    """An array of NumPy's. Raises InputError unless it has real numbers, and a shape for which they suffice."""
    with opened(path) as file:
        return _read_array(file, path)


def read_list(path: str) -> np.ndarray:
    """The numbers of an array with no more than one dimension longer than 1."""
    if kind_of(path) != "npy":
        fail(path, "no list of numbers", "a NumPy array of one dimension")
    array = read_npy(path)
    if sum(length != 1 for length in array.shape) > 1:
        fail(path, f"an array of the shape ({', '.join(map(str, array.shape))})", "a list")
    return array.reshape(-1)


def read_labels(path: str) -> np.ndarray:
    """The classes of samples in a NumPy array."""
    labels = read_npy(path)
    if labels.ndim != 1:
        fail(
            path,
            f"an array of the shape ({', '.join(map(str, labels.shape))})",
            "one dimension, the class of each sample",
        )
    if labels.dtype.kind == "f":
        fail(path, f"elements of NumPy's type {quote(labels.dtype.str)}", "integers")
    return _indices(labels, 2**63, "label", path)


@contextmanager
def npz(path: str) -> Iterator[tuple[set[str], Callable[..., np.ndarray]]]:
    """The names of the members of an archive, and what reads one: its name, the kinds that it may have, and its number of
    dimensions (1 by default, None for any)."""
    with reading(path), zipfile.ZipFile(path) as archive:
        names = Counter(archive.namelist())
        for name, count in names.items():
            if count > 1:
                fail(path, f"two members of the name {quote(name)}", "one")

        def member(name: str, kinds: str, num_dimensions: int | None = 1) -> np.ndarray:
            place = f"{path}: {name}.npy"
            with archive.open(f"{name}.npy") as file:
                array = _read_array(file, place, kinds)
            if kinds == "SU" and array.size == 1:
                return array.reshape(1)
            if num_dimensions not in (array.ndim, None):
                fail(place, f"an array of {array.ndim} dimensions", "1")
            return array

        yield set(names), member


def _word(array: np.ndarray) -> str:
    return array[0].decode("latin1") if isinstance(array[0], bytes) else str(array[0])


def _matrix_in_npz(path: str, member: Callable[[str, str], np.ndarray], prefix: str = "") -> Any:
    layout = _word(member(f"{prefix}format", "SU"))
    lists = {"csr": ("indptr", "indices"), "csc": ("indptr", "indices"), "coo": ("row", "col")}
    if layout not in lists:
        fail(path, f"SciPy's sparse format {quote(layout)}", "csr, csc or coo (SciPy: tocsr())")
    shape = [int(length) for length in member(f"{prefix}shape", "iu")]
    if len(shape) != 2:
        fail(f"{path}: {prefix}shape.npy", f"{len(shape)} numbers", "2")
    outer, inner = (member(f"{prefix}{name}", "iu") for name in lists[layout])
    values = member(f"{prefix}data", "buif")
    if len(values) != len(inner):
        fail(f"{path}: {prefix}data.npy", f"{len(values)} values for {len(inner)} entries", "one for each")
    return csr_of_parts(layout, shape, outer, inner, values, path)


def _read_npz(path: str) -> Any:
    with npz(path) as (names, member):
        if any(name.endswith("/data.pkl") for name in names):
            raise InputError(f"{path} is a file of torch.save: Network.from_torch takes the module or state_dict that torch.load reads")
        if not {"format.npy", "shape.npy", "data.npy"} <= names:
            fail(
                path, f"a ZIP archive of {', '.join(sorted(names)[:6]) or 'nothing'}",
                "a sparse matrix of SciPy (scipy.sparse.save_npz), or samples X with y (numpy.savez); Network.from_scipy takes weights",
            )  # fmt: skip
        return _matrix_in_npz(path, member)


def layers_in_npz(path: str) -> list[Layer]:
    """The layers that Network.save wrote; none if the archive is a matrix."""
    layers: list[Layer] = []
    with npz(path) as (names, member):
        while f"layers.{len(layers)}.format.npy" in names:
            prefix = f"layers.{len(layers)}."
            name, parameter = _word(member(f"{prefix}activation", "SU")), float(member(f"{prefix}parameter", "f")[0])
            which = {PARAMETERS[name]: parameter} if PARAMETERS.get(name) else {}
            activation = activation_of(name, which.get("cap"), which.get("slope"), f"{path}: {prefix}activation.npy")
            layers.append(Layer(_matrix_in_npz(path, member, prefix), member(f"{prefix}bias", "f"), activation))
    return layers


def write_npz(layers: Iterable[Layer], path: str) -> None:
    """An archive that layers_in_npz reads."""
    with _container.appearing(path) as file, zipfile.ZipFile(file, "w") as archive:
        for number, layer in enumerate(layers):
            rows = layer.weights
            parts = {
                "format": np.array("csr"), "shape": np.array(rows.shape), "indptr": rows.indptr, "indices": rows.indices, "data": rows.data,
                "bias": layer.bias, "activation": np.array(layer.activation.name), "parameter": np.array([layer.activation.parameter or np.nan]),
            }  # fmt: skip
            for name, part in parts.items():
                with archive.open(f"layers.{number}.{name}.npy", "w", force_zip64=True) as member:
                    np.lib.format.write_array(member, np.ascontiguousarray(part), allow_pickle=False)


def is_matrix(path: str) -> bool:
    """True if a file holds a matrix, or several in binsparse."""
    kind = kind_of(path)
    if kind == "hdf5":
        from . import _hdf5

        return bool(_hdf5.matrix_names(path))
    return kind in ("npy", "npz", "mtx")


def read_matrix(path: str, member: str = "") -> Any:
    """The matrix of a file; of one of binsparse, that of a group. Zeros that are stored remain entries."""
    library("scipy.sparse", path, "scipy")
    kind = kind_of(path)
    if kind == "npy":
        return csr_of_dense(read_npy(path), path)
    if kind == "hdf5":
        from . import _hdf5

        return _hdf5.read_matrix(path, member)
    return _read_npz(path) if kind == "npz" else csr(*_core.read_matrix_market(path))
