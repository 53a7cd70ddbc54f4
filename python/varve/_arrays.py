"""Arrays of users, brought into the forms that the C++ part reads."""

from __future__ import annotations

import contextlib
import functools
import math
import sys
from typing import Any

import numpy as np

from . import _core
from ._errors import InputError, UsageError


_HOST = (1, 3)  # kinds of devices of DLPack whose memory the host reads: kDLCPU, kDLCUDAHost

_MANAGED = 13  # kDLCUDAManaged, which every GPU reads

#: The kinds of memory that each backend reads and writes: kDLCUDA, kDLROCM. (Pinned memory of the host is read as the host's.)
_REACHED = {"serial": _HOST, "openmp": _HOST, "cuda": (2, _MANAGED), "hip": (10,)}


def is_sparse(array: Any) -> bool:
    """True for matrices and arrays of scipy.sparse."""
    return hasattr(array, "tocsr") and hasattr(array, "nnz")


def known(array: Any, place: str = "X") -> Any:
    """The same numbers in a form that this package reads: sparse tensors of torch as csr_array of scipy.sparse, tensors of
    bfloat16 as float32, and what pandas holds as an array; anything else as it is."""
    library = type(array).__module__.partition(".")[0]
    if library == "pandas" and hasattr(array, "to_numpy"):
        return _of_pandas(array, place)
    if library != "torch" or not hasattr(array, "layout"):
        return array
    if array.is_meta:
        raise InputError(f"{place} is a tensor on the device meta, which has no numbers")
    if str(array.layout) != "torch.strided":
        return of_tensor(array)
    return array.detach().float() if str(array.dtype) == "torch.bfloat16" else array


def _of_pandas(frame: Any, place: str) -> np.ndarray:
    numbers = frame.to_numpy()
    if numbers.dtype.kind in "buif":
        return numbers
    if frame.ndim == 1:
        return frame.to_numpy(float) if hasattr(frame.dtype, "numpy_dtype") else numbers  # Int64, Float64, ...
    for name, column in frame.items():
        try:
            column.to_numpy(float)
        except (ValueError, TypeError):
            raise InputError(
                f"{place} has the column {name!r} of the type {column.dtype}, expected a number in every row; "
                "pandas.get_dummies makes numbers of classes"
            ) from None
    return frame.to_numpy(float)


def of_tensor(tensor: Any) -> Any:
    """A tensor of torch as an array, or as a csr_array of scipy.sparse whose stored zeros remain; of float32 or float64."""
    tensor = tensor.detach().cpu()
    if _name_of_type(tensor) not in ("float32", "float64"):
        tensor = tensor.double()
    if str(tensor.layout) == "torch.strided":
        return np.array(tensor.numpy())
    rows = tensor.coalesce().to_sparse_csr() if str(tensor.layout) == "torch.sparse_coo" else tensor.to_sparse_csr()
    return csr_of_tensors(rows.crow_indices(), rows.col_indices(), rows.values(), tuple(tensor.shape))


def csr_of_tensors(pointers: Any, columns: Any, values: Any, shape: tuple[int, ...]) -> Any:
    """A csr_array of scipy.sparse from copies of tensors."""
    from scipy.sparse import csr_array

    return csr_array(tuple(np.array(part.detach().cpu().numpy()) for part in (values, columns, pointers)), shape=shape)


def as_rows(X: Any, num_inputs: int) -> Any:
    """Samples in a known form; those of several dimensions, such as images, as rows if they have as many numbers as inputs."""
    X = known(X)
    shape: tuple[int, ...] = getattr(X, "shape", ())
    return X.reshape(shape[0], num_inputs) if len(shape) > 2 and math.prod(shape[1:]) == num_inputs else X


def shape_text(shape: tuple[int, ...]) -> str:
    return "(" + ", ".join(str(extent) for extent in shape) + ("," if len(shape) == 1 else "") + ")"


def to_numpy(array: Any, place: str) -> np.ndarray:
    """An array of real numbers in host memory, from NumPy, DLPack (torch, JAX, CuPy on hosts) or nested lists."""
    if not isinstance(array, np.ndarray):
        array = _from_other(array, place)
    if array.dtype.kind not in "buif":
        raise InputError(f"{place} has the type {array.dtype}, expected real numbers (float, integer or bool)")
    _require_unmasked(array, place)
    return array


def _require_unmasked(array: np.ndarray, place: str) -> None:
    if isinstance(array, np.ma.MaskedArray) and np.ma.is_masked(array):
        raise InputError(f"{place} is a masked array, expected a number in every place; {place}.filled(0) has zeros there")


def _from_other(array: Any, place: str) -> np.ndarray:
    array = known(array, place)
    if is_sparse(array):
        raise InputError(f"{place} is sparse, expected a dense array")
    if hasattr(array, "__dlpack__") and hasattr(array, "__dlpack_device__"):
        kind = int(array.__dlpack_device__()[0])
        if hasattr(array, "detach"):  # torch refuses to share tensors that require gradients
            array = array.detach()
        if kind not in _HOST:
            return _from_device(array, place)
        if not hasattr(array, "__array__") or type(array).__module__.partition(".")[0] == "torch":
            try:
                return np.from_dlpack(array)
            except (BufferError, TypeError, RuntimeError) as error:
                raise InputError(f"{place} cannot be read as an array: {error}") from error
    try:
        return np.asarray(array)
    except (ValueError, TypeError) as error:
        raise InputError(f"{place} cannot be read as an array: {error}") from error


def _from_device(array: Any, place: str) -> np.ndarray:
    """A copy in host memory of an array in the memory of a device: by DLPack, or as torch and CuPy copy theirs."""
    try:
        return np.from_dlpack(array, device="cpu", copy=True)  # NumPy since 2.1, if the array's library copies
    except (BufferError, TypeError, RuntimeError, ValueError, NotImplementedError):
        pass
    for copy in ("cpu", "get"):
        if hasattr(array, copy):
            return np.asarray(getattr(array, copy)())
    if hasattr(array, "__array__"):  # JAX
        return np.asarray(array)
    raise InputError(f"{place} is in the memory of a device and its library cannot copy it, expected host memory")


def is_regular(array: np.ndarray) -> bool:
    """True if the distances of numbers are whole numbers of them."""
    return array.flags.aligned and all(stride % array.itemsize == 0 for stride in array.strides)


def kind_of_device(array: Any) -> int:
    """The kind of memory of an array by the numbers of DLPack; host memory if it does not say."""
    if isinstance(array, np.ndarray) or not hasattr(array, "__dlpack_device__"):
        return _HOST[0]
    return int(array.__dlpack_device__()[0])


def is_on_host(array: Any) -> bool:
    return kind_of_device(array) in _HOST


def in_place(X: Any, num_inputs: int, backend: str, precision: str) -> Any:
    """X if the device of the backend can read it where it lies: dense, of the precision, with ascending strides; else None.

    Tensors on a GPU with other numbers are copied to such ones there. Raises InputError about the shape.
    """
    if isinstance(X, np.ndarray):
        if not (X.dtype == precision and X.dtype.isnative and X.ndim == 2 and X.size and min(X.strides) >= 0):
            return None
        _require_unmasked(X, "X")
        is_reached = backend in ("serial", "openmp") and is_regular(X)
    elif hasattr(X, "__dlpack_device__") and hasattr(X, "dtype") and hasattr(X, "shape"):
        if hasattr(X, "detach"):  # torch
            X = X.detach()
        is_reached = kind_of_device(X) in _REACHED[backend]
        if is_reached and is_on_host(X) and (_name_of_type(X) != precision or 0 in X.shape):
            return None
    else:
        return None
    if not is_reached or len(X.shape) != 2:
        return None
    require_width(tuple(X.shape), num_inputs, "X")
    return X if is_on_host(X) or _name_of_type(X) == precision else _converted(X, precision)


def _name_of_type(array: Any) -> str:
    return str(array.dtype).rpartition(".")[2]  # torch: "torch.float32"


def _converted(X: Any, precision: str) -> Any:
    """The numbers of a tensor on a GPU, rounded to the precision there, as on hosts; None if torch or CuPy cannot."""
    library, name = type(X).__module__.partition(".")[0], _name_of_type(X)
    if library not in ("torch", "cupy") or not name.startswith(("float", "bfloat", "int", "uint", "bool")):
        return None
    for kind in (precision,) if "float" in name else ("float64", precision):
        X = X.to(getattr(sys.modules["torch"], kind)) if library == "torch" else X.astype(kind)
    return X


@functools.lru_cache(maxsize=None)
def _gpu() -> tuple[int, int]:
    """The number of varve's GPU and its stream there, as DLPack counts them."""
    found = _core.gpu()
    if found is None:
        raise InputError("there is no GPU in this build of varve, expected arrays in host memory")
    return found


def shared(array: Any, place: str) -> Any:
    """The array as the C++ part takes it. On a GPU, varve's work waits for all that the array's library has begun with it.

    Raises InputError if it lies on another GPU than the one that varve runs on, or says that it has negative strides (not
    every version of CuPy tells them by DLPack).
    """
    if is_on_host(array):
        return array
    if any(stride < 0 for stride in getattr(array, "strides", None) or ()):
        raise InputError(f"{place} has negative strides, expected rows and columns in ascending order")
    kind, device = (int(number) for number in array.__dlpack_device__())
    gpu, stream = _gpu()
    if device != gpu and kind != _MANAGED:
        raise InputError(
            f"{place} is on GPU {device}, expected GPU {gpu}, which varve runs on; varve.start(device={device}) before its "
            "first use in a process takes the other one"
        )
    try:
        with _made_current(array):
            try:
                return array.__dlpack__(stream=stream, max_version=(1, 0))
            except TypeError:  # libraries before the version 1.0 of DLPack
                return array.__dlpack__(stream=stream)
    except BufferError as error:
        raise InputError(f"{place} cannot be shared with varve: {error}") from error


def _made_current(array: Any) -> Any:
    """A context in which torch's present device is that of its tensor, which it shares only then."""
    is_of_torch = type(array).__module__.partition(".")[0] == "torch"
    return sys.modules["torch"].cuda.device(array.device) if is_of_torch else contextlib.nullcontext()


def empty_like(X: Any, shape: tuple[int, int], precision: str) -> Any:
    """A new array for results beside X: of NumPy in host memory, of torch or CuPy in that of their X; else None."""
    if is_on_host(X):
        return np.empty(shape, precision)
    if hasattr(X, "new_empty"):  # torch
        return X.new_empty(shape)
    if type(X).__module__.partition(".")[0] != "cupy":
        return None
    with X.device:
        return type(X)(shape, precision)


def overlap(X: Any, out: Any) -> bool:
    """True if writing out might change X."""
    if is_on_host(X) and is_on_host(out):
        one, other = (array if isinstance(array, np.ndarray) else np.from_dlpack(array) for array in (X, out))
        return np.may_share_memory(one, other)
    bounds = _bounds_on_gpu(X), _bounds_on_gpu(out)
    return None in bounds or max(bounds[0][0], bounds[1][0]) < min(bounds[0][1], bounds[1][1])


def _bounds_on_gpu(array: Any) -> Any:
    """The address of the first byte of an array with ascending strides, and that after the last; None if it does not have one."""
    try:
        found = array.__cuda_array_interface__  # torch and CuPy have it for AMD's GPUs, too
    except (AttributeError, RuntimeError, TypeError):
        return None
    shape, size = found["shape"], np.dtype(found["typestr"]).itemsize
    first = found["data"][0]
    if 0 in shape:
        return first, first
    strides = found.get("strides") or [size * int(np.prod(shape[axis + 1 :])) for axis in range(len(shape))]
    return first, first + size + sum((extent - 1) * stride for extent, stride in zip(shape, strides))


def output_of(out: Any, shape: tuple[int, int], precision: str, backend: str = "serial") -> Any:
    """The array of the caller in a form that the C++ part writes: of NumPy, or one with DLPack that the backend reaches.

    Raises InputError unless it is writable, has the shape and the precision, and lies row by row without gaps.
    """
    if hasattr(out, "detach"):  # torch
        out = out.detach()
    if not isinstance(out, np.ndarray) and not hasattr(out, "__dlpack__"):
        raise InputError(f"out is {type(out).__name__}, expected an array of NumPy or one with DLPack")
    if tuple(out.shape) != shape:
        raise InputError(f"out has the shape {shape_text(tuple(out.shape))}, expected {shape_text(shape)}")
    if _name_of_type(out) != precision:
        raise InputError(f"out has the type {out.dtype}, expected {precision}, the precision of this call")
    if isinstance(out, np.ndarray):
        if not out.dtype.isnative or not out.flags.c_contiguous:
            raise InputError("out does not lie row by row without gaps, in the byte order of this machine")
        if not out.flags.writeable:
            raise InputError("out is read-only")
    elif kind_of_device(out) not in _REACHED[backend]:
        expected = "host memory" if backend in ("serial", "openmp") else f"memory that the backend {backend} reaches"
        raise InputError(f"out is in {'host memory' if is_on_host(out) else 'the memory of a device'}, expected {expected}")
    elif not _is_contiguous(out):
        raise InputError("out does not lie row by row without gaps")
    return out


def _is_contiguous(array: Any) -> bool:
    """False if the array says that it does not lie row by row without gaps, as those of torch and CuPy do."""
    if hasattr(array, "is_contiguous"):
        return bool(array.is_contiguous())
    return bool(getattr(getattr(array, "flags", None), "c_contiguous", True))


def to_float(array: np.ndarray) -> np.ndarray:
    """The same numbers row by row as float32 if that holds them all, else as float64."""
    kind = np.float32 if np.can_cast(array.dtype, np.float32, casting="safe") else np.float64
    return np.ascontiguousarray(array, dtype=kind)


def to_csr(matrix: Any, place: str) -> Any:
    """A matrix of scipy.sparse in canonical compressed sparse rows: ascending columns, no duplicates."""
    rows = matrix.tocsr()
    if rows.dtype.kind not in "buif":
        raise InputError(f"{place} has the type {rows.dtype}, expected real numbers (float, integer or bool)")
    if not getattr(rows, "_has_canonical_format", False):  # SciPy has not looked yet, and trusts the pointers when it does
        _require_pointers(rows, place)
    if not rows.has_canonical_format:
        rows = rows.copy()  # it may be the user's
        rows.sum_duplicates()
    return rows


def _require_pointers(rows: Any, place: str) -> None:
    """Raises InputError if the pointers of a csr matrix lead out of its arrays, in which SciPy would read and write then."""
    pointers, num_entries = rows.indptr, min(len(rows.indices), len(rows.data))
    is_whole = len(pointers) == rows.shape[0] + 1 and pointers[0] == 0 and pointers[-1] <= num_entries
    if not is_whole or np.any(pointers[1:] < pointers[:-1]):
        raise InputError(
            f"{place} has pointers (indptr) that are not ascending from 0 to at most {num_entries}, its stored entries, "
            f"expected {rows.shape[0] + 1} such numbers"
        )


def to_dense(matrix: Any, place: str) -> np.ndarray:
    """A sparse matrix of users as an array of float64. SciPy's own way would trust its pointers and columns."""
    rows = to_csr(matrix, place)
    _require_pointers(rows, place)
    num_entries = rows.indptr[-1]
    columns = rows.indices[:num_entries]
    if columns.size and not 0 <= columns.min() <= columns.max() < rows.shape[1]:
        raise InputError(f"{place} has columns {columns.min()} to {columns.max()}, expected 0 to {rows.shape[1] - 1}")
    return rows_to_dense((rows.data[:num_entries], columns, rows.indptr), rows.shape)


def to_rows(rows: Any) -> _core.CompressedRows:
    """The arrays of a canonical csr matrix for the C++ part."""
    return _core.CompressedRows(
        np.ascontiguousarray(rows.indptr, dtype=np.int64),
        np.ascontiguousarray(rows.indices, dtype=np.int64),
        np.ascontiguousarray(rows.data, dtype=np.float64),
        *rows.shape,
    )


def dense_to_rows(array: np.ndarray) -> _core.CompressedRows:
    """The nonzero entries of a dense matrix for the C++ part."""
    rows, columns = np.nonzero(array)
    pointers = np.concatenate(([0], np.cumsum(np.bincount(rows, minlength=array.shape[0])))).astype(np.int64)
    values = np.ascontiguousarray(array[rows, columns], dtype=np.float64)
    return _core.CompressedRows(pointers, np.ascontiguousarray(columns, dtype=np.int64), values, *array.shape)


def rows_to_dense(arrays: tuple[np.ndarray, np.ndarray, np.ndarray], shape: tuple[int, int]) -> np.ndarray:
    """A dense matrix of float64 from values, columns and pointers."""
    values, columns, pointers = arrays
    dense = np.zeros(shape)
    dense[np.repeat(np.arange(shape[0]), np.diff(pointers)), columns] = values
    return dense


def shape_of(array: Any) -> tuple[int, ...]:
    """The shape of anything that to_samples takes."""
    return tuple(array.shape) if hasattr(array, "shape") else np.shape(array)


def require_width(shape: tuple[int, ...], num_inputs: int, place: str) -> None:
    """Raises InputError unless the shape is (samples, num_inputs)."""
    expected = f"expected (samples, {num_inputs})"
    if len(shape) == 1 and shape[0] == num_inputs:
        raise InputError(f"{place} has the shape {shape_text(shape)}, {expected}; one sample is {place}.reshape(1, -1)")
    if len(shape) != 2:
        raise InputError(f"{place} has the shape {shape_text(shape)}, {expected}")
    if shape[1] != num_inputs:
        hint = "; it looks transposed" if shape[0] == num_inputs else ""
        raise InputError(f"{place} has the shape {shape_text(shape)}, {expected}, one row per sample{hint}")


def to_samples(samples: Any, num_inputs: int, place: str = "X") -> Any:
    """Samples as the C++ part reads them: a float32 or float64 matrix or compressed rows, and their number."""
    if is_sparse(samples):
        require_width(samples.shape, num_inputs, place)
        return to_rows(to_csr(samples, place))
    array = to_numpy(samples, place)
    require_width(array.shape, num_inputs, place)
    return to_float(array)


def to_sample_rows(samples: Any, num_inputs: int, place: str = "X") -> _core.CompressedRows:
    """Samples as compressed rows. Entries that are not finite are refused later, by their place."""
    found = to_samples(samples, num_inputs, place)
    return found if isinstance(found, _core.CompressedRows) else dense_to_rows(found)


def to_targets(targets: Any, num_outputs: int, loss: str | None, place: str = "targets") -> _core.CompressedRows:
    """Wanted outputs as compressed rows. Raises InputError if one is not finite, or not from 0 to 1 with the loss logistic."""
    rows = targets if is_sparse(targets) else to_numpy(targets, place)
    require_width(rows.shape, num_outputs, place)
    values = to_csr(rows, place).data if is_sparse(rows) else rows
    is_finite = np.isfinite(values)
    if not is_finite.all():
        raise InputError(f"{place} hold the value {values[~is_finite][0]}, expected finite numbers")
    is_outside = (values < 0) | (values > 1)
    if loss == "logistic" and is_outside.any():
        raise InputError(f"{place} hold the value {values[is_outside][0]}, expected 0 to 1 with the loss logistic")
    return to_sample_rows(rows, num_outputs, place)


def require_classes(num_outputs: int, loss: str | None) -> None:
    """Raises UsageError about a network of one output, whose softmax is 1 for every sample, unless the loss is logistic."""
    if num_outputs == 1 and loss != "logistic":
        raise UsageError(
            "the network has one output, so that labels say nothing: give the loss logistic for labels 0 and 1, "
            "targets=labels.reshape(-1, 1) with the loss mean-square, or a network of two outputs"
        )


def to_labels(labels: Any, num_samples: int, place: str = "labels") -> np.ndarray:
    """One whole number per sample. Raises InputError for anything else."""
    array = labels if isinstance(labels, np.ndarray) else _from_other(labels, place)
    if array.dtype.kind in "OSTU":
        raise InputError(f"{place} are not numbers; numpy.unique(labels, return_inverse=True)[1] gives each class the number of an output")
    array = to_numpy(array, place)
    if array.shape != (num_samples,):
        hint = "; rows that are 1 at the right output are targets" if array.ndim == 2 and array.shape[1] > 1 else ""
        raise InputError(f"{place} have the shape {shape_text(array.shape)}, expected ({num_samples},), one label per sample{hint}")
    if array.dtype.kind == "f" and not np.all(array == np.floor(array)):
        raise InputError(f"{place} are not whole numbers, expected the index of an output for each sample")
    if array.dtype.kind in "uf" and array.size and not (array.min() >= -(2**63) and array.max() < 2**63):
        raise InputError(f"{place} are {array.min()} to {array.max()}, expected the index of an output for each sample")
    return np.ascontiguousarray(array, dtype=np.int64)


def to_weights(weights: Any, num_samples: int, place: str = "sample_weight") -> np.ndarray:
    """Weights of samples, float64 [samples]. Raises InputError unless there is one for each, finite and not negative."""
    array = np.ascontiguousarray(to_numpy(weights, place), dtype=np.float64)
    if array.shape != (num_samples,):
        raise InputError(f"{place} has the shape {shape_text(array.shape)}, expected ({num_samples},), one weight per sample")
    is_right = np.isfinite(array) & (array >= 0)
    if not is_right.all():
        raise InputError(f"{place} holds the value {array[~is_right][0]}, expected finite numbers from 0 on")
    return array


def weights_of(sample_weight: Any, class_weight: Any, labels: np.ndarray | None, num_samples: int) -> np.ndarray | None:
    """What each sample counts, [samples]: its own weight times that of its class; None without any. class_weight: a dictionary
    from labels, "balanced", or None."""
    weights = None if sample_weight is None else to_weights(sample_weight, num_samples)
    if class_weight is None:
        return weights
    if labels is None:
        raise UsageError("class_weight needs labels; targets take sample_weight")
    factors = np.ones(num_samples)
    if isinstance(class_weight, str):
        classes, places, counts = np.unique(labels, return_inverse=True, return_counts=True)
        factors = (num_samples / (len(classes) * counts))[places]
    else:
        for label, weight in class_weight.items():
            factors[labels == label] = weight
    return to_weights(factors if weights is None else weights * factors, num_samples, "class_weight")


def to_precision(precision: Any) -> str:
    """"float32" or "float64", also from a type of NumPy. Python's float is ambiguous here and refused."""
    name = precision if isinstance(precision, str) else getattr(precision, "__name__", None) or getattr(precision, "name", None)
    if name not in ("float32", "float64"):
        own = {"double": "float64", "single": "float32", "float": "float32"}.get(str(name).lower())
        hint = f"; {name} is {own!r} here" if own and isinstance(precision, str) else ""
        raise UsageError(f"the precision is {precision!r}, expected 'float32' or 'float64'{hint}")
    return name
