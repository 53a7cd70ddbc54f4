"""Writes Varve's container, safetensors with a description and hashes (src/io/FORMAT.md), from arrays of NumPy."""

from __future__ import annotations

import fcntl
import hashlib
import json
import math
import os
import secrets
from contextlib import contextmanager, suppress
from typing import Any, BinaryIO, Iterable, Iterator, NamedTuple, Union

import numpy as np

from ._errors import ResourceError, UsageError

_PIECE = 1 << 16  # bytes that have a hash of their own
_TYPES = {"uint8": "U8", "uint16": "U16", "uint32": "U32", "uint64": "U64", "float32": "F32", "float64": "F64"}


class Blocks(NamedTuple):
    """An array that comes block by block, such as one larger than memory."""

    dtype: np.dtype
    shape: tuple[int, ...]
    blocks: Iterable[np.ndarray]


ArrayLike = Union[np.ndarray, Blocks]


def write(path: str, description: dict[str, Any], arrays: dict[str, ArrayLike]) -> None:
    """Write a file, which appears whole or not at all.

    :param description: of FORMAT.md, without "version"
    :param arrays: by their names in the file, of the types that it has there
    :raises ResourceError: if the file cannot be written, or its disk loses some bytes
    """
    items = sorted(arrays.items(), key=lambda item: (-item[1].dtype.itemsize, item[0]))  # so that none needs padding
    sizes = {name: array.dtype.itemsize * math.prod(array.shape) for name, array in items}
    num_pieces = sum(-(-size // _PIECE) for size in sizes.values())
    header: dict[str, Any] = {}
    end = 0
    for name, kind, shape, size in (
        *((name, _TYPES[array.dtype.name], array.shape, sizes[name]) for name, array in items),
        ("sha256", "U8", (num_pieces, 32), 32 * num_pieces),
    ):
        header[name] = {"dtype": kind, "shape": list(shape), "data_offsets": [end, end + size]}
        end += size
    text = json.dumps({"version": 1, **description})

    def head(root: str) -> bytes:
        words = json.dumps({"__metadata__": {"varve": text, "varve.sha256": root}, **header}).encode()
        words += b" " * (-len(words) % 8)
        return len(words).to_bytes(8, "little") + words

    begin = len(head("0" * 64))
    with appearing(path) as file:
        file.write(bytes(begin))
        hashes = {}
        for name, array in items:
            blocks = array.blocks if isinstance(array, Blocks) else (array,)
            hashes[name] = _hashes(_written(file, block) for block in blocks)
        joined = b"".join(hashes[name] for name in sorted(hashes))
        file.write(joined)
        file.seek(0)
        file.write(head(hashlib.sha256(text.encode() + joined).hexdigest()))
        file.flush()
        for name in hashes:  # what the disk holds
            first, last = (begin + offset for offset in header[name]["data_offsets"])
            if _hashes(_read(file, first, last)) != hashes[name]:
                raise ResourceError(
                    f"{path} cannot be written: it holds other numbers than were written; its disk lost some"
                )


def sparse(name: str, rows: Any) -> dict[str, ArrayLike]:
    """The arrays of a canonical csr matrix of scipy.sparse, in the narrowest types that hold all numbers."""
    values = narrow(rows.data)
    if len(values) > 1 and (values == values[0]).all():
        values = values[:1]
    return {
        f"{name}.pointers": rows.indptr.astype(np.uint32 if rows.nnz < 2**32 else np.uint64),
        f"{name}.indices": rows.indices.astype(np.uint16 if rows.shape[1] <= 2**16 else np.uint32),
        f"{name}.values": values,
    }


def narrow(numbers: np.ndarray) -> np.ndarray:
    """Finite numbers as float32 if that holds all of them, else as float64."""
    with np.errstate(over="ignore"):
        narrowed = numbers.astype(np.float32)
    return narrowed if (narrowed == numbers).all() else numbers.astype(np.float64)


def _written(file: BinaryIO, block: np.ndarray) -> memoryview:
    """Writes the bytes of a block, and returns them."""
    data = np.ascontiguousarray(block).reshape(-1).view(np.uint8).data
    file.write(data)
    return data


def _read(file: BinaryIO, first: int, last: int) -> Iterator[memoryview]:
    file.seek(first)
    while first < last and (data := file.read(min(last - first, 16 * _PIECE))):
        first += len(data)
        yield memoryview(data)


def _hashes(blocks: Iterable[memoryview]) -> bytes:
    """The hashes of all pieces of the bytes, one after the other."""
    found, room, current = bytearray(), _PIECE, hashlib.sha256()
    for data in blocks:
        while len(data) >= room:
            current.update(data[:room])
            found += current.digest()
            data, room, current = data[room:], _PIECE, hashlib.sha256()
        current.update(data)
        room -= len(data)
    return bytes(found if room == _PIECE else found + current.digest())


@contextmanager
def appearing(path: str) -> Iterator[BinaryIO]:
    """A file beside its name, which it gets when the block ends without an error.

    It is named and locked as the C++ part does it, which removes what a process that was killed has left.
    """
    target = os.path.realpath(path)
    if os.path.exists(target) and not os.path.isfile(target):
        raise UsageError(f"{path} is a folder or a device, expected the name of a file to write")
    partial = f"{target}.partial-{secrets.token_hex(8)}"
    try:
        with open(partial, "xb+") as file:
            with suppress(OSError):  # file systems without locks
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield file
            file.flush()
            os.fsync(file.fileno())
            os.replace(partial, target)
        folder = os.open(os.path.dirname(target), os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError as error:
        raise ResourceError(f"{path} cannot be written: {error.strerror or error}") from error
    finally:
        with suppress(FileNotFoundError):
            os.unlink(partial)
