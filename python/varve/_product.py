"""Dense products."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from . import _arrays, _core, _files
from ._errors import InputError, UsageError
from ._options import Progress, to_name, to_number, to_optional_count

#: Products that a search for memory which two matrices share may take; beyond, they are taken to share some.
_SEARCH: Any = 100_000  # NumPy's types know only -1 and 0


class _Operand(NamedTuple):
    """A matrix as the C++ part reads it, a float32 or float64 array or the name of a file, and what it says of itself."""

    matrix: Any
    shape: tuple[int, int]
    precision: str


def matmul(
    a: Any,
    b: Any,
    *,
    transpose_a: bool = False,
    transpose_b: bool = False,
    alpha: float = 1.0,
    beta: float | None = None,
    c: Any = None,
    out: Any = None,
    precision: Any = None,
    tile: int | None = None,
    device_memory_limit: int | None = None,
    backend: str | None = None,
    progress: Progress | None = None,
) -> Any:
    """The dense product alpha * op(a) @ op(b) + beta * c, of matrices in memory or in files, of any size.

    Each number is one chain of fused multiply-adds in the precision, in ascending order of the inner index; it is scaled and
    ``c`` is added in float64, and the result is rounded once. So the bits depend neither on backend, threads, tile nor
    memory limit: they are those of the command ``varve multiply``.

    A matrix is an array of NumPy with any strides, anything in host memory with DLPack (tensors of torch), or the name of a
    file of Varve, which may be larger than memory (``varve-convert --matrix`` makes one of HDF5 and ``.npy``). ``float32`` and
    ``float64`` are read where they lie; other numbers are copied first.

    :param a: [rows, depth], or [depth, rows] with ``transpose_a``
    :param b: [depth, columns], or [columns, depth] with ``transpose_b``
    :param alpha: factor of the product
    :param beta: factor of ``c``, 1 by default
    :param c: a matrix [rows, columns] to add
    :param out: where the product goes: an array [rows, columns] of the precision, with any strides, or the name of a file
        (``.safetensors``), which appears whole or not at all. It shares no memory with ``a`` and ``b``; it may be ``c`` itself. By
        default a new array. If a call fails, a part of an array may be written
    :param precision: "float32" or "float64", to which all numbers are rounded; by default that of ``out`` if it is an array,
        else "float64" if ``a``, ``b`` or ``c`` holds such numbers, else "float32"
    :param tile: rows and columns of the tiles in which the product is computed; by default many that fit the device
    :param device_memory_limit: bytes for tiles; by default nine tenths of what is free on the device, on CPUs half of the
        free memory
    :param backend: a name of :func:`varve.backends`; the fastest one by default
    :param progress: called with the number of steps done and of all steps before each step of a tile
    :returns: ``out``, or a new array [rows, columns]
    :raises InputError: if shapes do not fit, a file is broken, or a number is not finite or too large for the precision
    :raises UsageError: if options contradict each other
    :raises ResourceError: if memory does not suffice or the file cannot be written
    """
    if beta is not None and c is None:
        raise UsageError("beta needs c")
    left, right = _operand(a, "a"), _operand(b, "b")
    added = None if c is None else _operand(c, "c")
    precision = _precision_of(precision, out, [left, right] if added is None else [left, right, added])
    options = _options(locals())
    if out is not None:
        target = _target(out, precision)
        _require_own_memory(target, left, right, added)
    else:
        out = target = np.empty(_shape_of(left, right, transpose_a, transpose_b), precision)
    with _files.sentences():
        _core.multiply(left.matrix, right.matrix, target, None if added is None else added.matrix, options, progress)
    return out


def _options(given: dict[str, Any]) -> _core.ProductOptions:
    """The arguments of matmul() for the C++ part. Raises UsageError about those that it would not name."""
    tile, limit = given["tile"], given["device_memory_limit"]
    if tile is not None and tile < 1:
        raise UsageError(f"a tile has {tile} rows, expected 1 to 65536")
    if limit is not None and limit < 1:
        raise UsageError(f"device_memory_limit is {limit}, expected bytes above 0")
    tile, limit = to_optional_count(tile, "tile"), to_optional_count(limit, "device_memory_limit")
    options = _core.ProductOptions()
    options.transpose_a, options.transpose_b = bool(given["transpose_a"]), bool(given["transpose_b"])
    options.alpha = to_number(given["alpha"], "alpha")
    options.beta = 1.0 if given["beta"] is None else to_number(given["beta"], "beta")
    options.tile, options.device_memory_limit = tile, limit
    options.precision = given["precision"]
    options.backend = to_name(given["backend"] or "", "backend")
    return options


def _operand(matrix: Any, place: str) -> _Operand:
    if _files.is_path(matrix):
        with _files.sentences():
            rows, columns, precision = _core.describe_matrix(_files.name_of(matrix))
        return _Operand(_files.name_of(matrix), (rows, columns), precision)
    if _arrays.is_sparse(matrix):
        raise InputError(f"{place} is a sparse matrix, expected a dense one, such as {place}.toarray()")
    array = _arrays.to_numpy(matrix, place)
    if array.ndim != 2:
        hint = f"; a vector is {place}.reshape(1, -1) or {place}.reshape(-1, 1)" if array.ndim == 1 else ""
        raise InputError(f"{place} has the shape {_arrays.shape_text(array.shape)}, expected (rows, columns){hint}")
    if not (array.dtype.name in ("float32", "float64") and array.dtype.isnative and _arrays.is_regular(array)):
        array = _arrays.to_float(array)
    return _Operand(array, array.shape, array.dtype.name)


def _precision_of(precision: Any, out: Any, operands: list[_Operand]) -> str:
    if precision is not None:
        return _arrays.to_precision(precision)
    if out is not None and not _files.is_path(out) and hasattr(out, "dtype"):
        return _arrays.to_precision(str(out.dtype).rpartition(".")[2])  # torch: "torch.float32"
    return "float64" if any(operand.precision == "float64" for operand in operands) else "float32"


def _shape_of(a: _Operand, b: _Operand, transpose_a: bool, transpose_b: bool) -> tuple[int, int]:
    """The shape of the product. If its matrices do not fit, which the C++ part says, that of nothing."""
    rows, depth = reversed(a.shape) if transpose_a else a.shape
    depth_of_b, columns = reversed(b.shape) if transpose_b else b.shape
    return (rows, columns) if depth == depth_of_b else (0, 0)


def _target(out: Any, precision: str) -> Any:
    """Where the product goes in a form that the C++ part writes. Raises InputError about arrays that it cannot write."""
    if _files.is_path(out):
        return _files.name_of(out)
    if hasattr(out, "detach"):  # torch
        out = out.detach()
    if not isinstance(out, np.ndarray) and not hasattr(out, "__dlpack__"):
        raise InputError(f"out is {type(out).__name__}, expected an array of NumPy, one with DLPack, or the name of a file")
    if not _arrays.is_on_host(out):
        raise InputError("out is in the memory of a device, expected host memory")
    if str(out.dtype).rpartition(".")[2] != precision:
        raise InputError(f"out has the type {out.dtype}, expected {precision}, the precision of this call")
    if len(out.shape) != 2:
        raise InputError(f"out has the shape {_arrays.shape_text(tuple(out.shape))}, expected (rows, columns)")
    if isinstance(out, np.ndarray):
        if not out.flags.writeable:
            raise InputError("out is read-only")
        if not out.dtype.isnative or not _arrays.is_regular(out):
            raise InputError("out is not aligned, or not in the byte order of this machine")
    return out


def _require_own_memory(target: Any, left: _Operand, right: _Operand, added: _Operand | None) -> None:
    """Raises InputError if writing the product would change numbers that are still to be read."""
    if isinstance(target, str):
        return
    written = _arrays.to_numpy(target, "out")
    if written.size and any(stride == 0 and extent > 1 for stride, extent in zip(written.strides, written.shape)):
        raise InputError("out has several numbers in one place")
    for operand, place in ((left, "a"), (right, "b")):
        if _share_memory(written, operand.matrix):
            raise InputError(f"out shares memory with {place}, expected an array of its own")
    if added is None or not _share_memory(written, added.matrix):
        return
    if _places(written) != _places(added.matrix):
        raise InputError("out shares memory with c, expected an array of its own or c itself")


def _share_memory(one: np.ndarray, other: Any) -> bool:
    if isinstance(other, str):
        return False
    try:
        return bool(np.shares_memory(one, other, max_work=_SEARCH))
    except RuntimeError:  # np.exceptions.TooHardError, whose name older versions do not know
        return True


def _places(array: np.ndarray) -> tuple[Any, ...]:
    return array.ctypes.data, array.shape, array.strides
