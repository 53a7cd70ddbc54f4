"""varve.matmul: the bits of chains of fused multiply-adds, beside NumPy, from and to arrays, tensors and files."""

from __future__ import annotations

import _thread
import ctypes
import os
import re
import signal

import numpy as np
import pytest
import scipy.sparse as sp
import varve
from safetensors.numpy import load_file
from varve import _container

ROWS, DEPTH, COLUMNS = 41, 67, 38  # straddle blocks and tiles
KINDS = pytest.mark.parametrize("kind", ["float32", "float64"])


def matrices(kind, seed=1):
    generator = np.random.default_rng(seed)
    shapes = (ROWS, DEPTH), (DEPTH, COLUMNS), (ROWS, COLUMNS)
    return [generator.standard_normal(shape).astype(kind) for shape in shapes]


def fused(kind):
    """The fused multiply-add of the C library."""
    number = ctypes.c_float if kind == "float32" else ctypes.c_double
    function = getattr(ctypes.CDLL("libm.so.6"), "fmaf" if kind == "float32" else "fma")
    function.restype, function.argtypes = number, (number,) * 3
    return function


def chains(a, b):
    """The numbers of a @ b, each one chain of fused multiply-adds."""
    fma = fused(a.dtype.name)
    sums = np.zeros((a.shape[0], b.shape[1]), a.dtype)
    for row, column in np.ndindex(*sums.shape):
        total = 0.0
        for left, right in zip(a[row].tolist(), b[:, column].tolist()):
            total = fma(left, right, total)
        sums[row, column] = total
    return sums


def scaled(sums, alpha, beta, c):
    """alpha * sums + beta * c, fused in float64 and rounded once."""
    fma = fused("float64")
    values = [fma(alpha, total, beta * added) for total, added in zip(sums.ravel().tolist(), c.ravel().tolist())]
    return np.array(values).astype(sums.dtype).reshape(sums.shape)


def strided(matrix, order):
    """The same matrix in another place and order, not contiguous."""
    rows, columns = matrix.shape
    if order == "fortran":
        return np.asfortranarray(matrix)
    if order == "reversed":
        return matrix[::-1, ::-1].copy()[::-1, ::-1]
    if order == "unaligned":
        found = np.zeros(matrix.nbytes + 1, np.uint8)[1:].view(matrix.dtype).reshape(rows, columns)
        found[:] = matrix
        return found
    memory = np.zeros((3 * rows, 2 * columns), matrix.dtype)
    memory[1::3, ::2] = matrix
    return memory[1::3, ::2]


def write(path, matrix):
    _container.write(str(path), {"kind": "matrix", "shape": matrix.shape}, {"matrix": matrix})
    return str(path)


@KINDS
def test_bits_are_those_of_chains_on_every_backend_and_tile(kind):
    a, b, _ = matrices(kind)
    expected = chains(a, b)
    np.testing.assert_allclose(expected, a.astype("float64") @ b.astype("float64"), rtol=0, atol=1e-4)
    for backend in varve.backends():
        for tile in (None, 5, 32):
            found = varve.matmul(a, b, backend=backend, tile=tile)
            assert found.dtype == kind
            np.testing.assert_array_equal(found, expected)


@KINDS
@pytest.mark.parametrize("order", ["fortran", "reversed", "unaligned", "scattered"])
def test_strides_do_not_matter(kind, order):
    a, b, c = matrices(kind)
    expected = varve.matmul(a, b, c=c)
    out = strided(np.zeros_like(c), order) if order != "unaligned" else np.zeros_like(c)
    kept = a.copy()
    found = varve.matmul(strided(a, order), strided(b, order), c=strided(c, order), out=out, tile=16)
    assert found is out
    np.testing.assert_array_equal(out, expected)
    np.testing.assert_array_equal(a, kept)


@KINDS
def test_transposes_scales_and_adds(kind):
    a, b, c = matrices(kind)
    expected = scaled(chains(a, b), 0.1, -0.3, c)
    left, right = np.ascontiguousarray(a.T), np.ascontiguousarray(b.T)
    np.testing.assert_array_equal(varve.matmul(left.T, right.T, alpha=0.1, beta=-0.3, c=c), expected)
    options = dict(transpose_a=True, transpose_b=True, alpha=0.1, beta=-0.3)
    np.testing.assert_array_equal(varve.matmul(left, right, c=c, **options), expected)
    assert varve.matmul(left, right, c=c, out=c, **options) is c
    np.testing.assert_array_equal(c, expected)


def test_the_precision_is_that_of_the_operands_or_of_out():
    a, b, _ = matrices("float64")
    single = a.astype("float32"), b.astype("float32")
    expected = chains(*single)
    np.testing.assert_array_equal(varve.matmul(a, b, precision="float32"), expected)
    np.testing.assert_array_equal(varve.matmul(a, b, out=np.empty((ROWS, COLUMNS), "float32")), expected)
    assert varve.matmul(a, single[1]).dtype == "float64"
    assert varve.matmul(*single).dtype == "float32"
    assert varve.matmul(*single, precision=np.float64).dtype == "float64"
    whole = np.arange(12).reshape(3, 4)
    assert varve.matmul(whole, whole.T).tolist() == (whole @ whole.T).tolist()
    assert varve.matmul(whole.astype("float16"), whole.astype("int8").T).dtype == "float32"
    np.testing.assert_array_equal(varve.matmul(single[0].astype(">f4"), single[1]), expected)
    assert varve.matmul([[1, 2]], [[3], [4]]).tolist() == [[11]]


class Tensor:
    """An array that only DLPack can read."""

    def __init__(self, array):
        self.array, self.dtype, self.shape = array, array.dtype, array.shape

    def __dlpack__(self, **options):
        return self.array.__dlpack__()

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


@KINDS
def test_tensors_are_read_and_written(kind):
    a, b, _ = matrices(kind)
    out = np.zeros((ROWS, COLUMNS), kind)
    tensor = Tensor(out)
    assert varve.matmul(Tensor(a), Tensor(b), out=tensor) is tensor
    np.testing.assert_array_equal(out, chains(a, b))


@KINDS
def test_files_are_read_and_written(kind, tmp_path):
    a, b, c = matrices(kind)
    a_file, b_file, c_file = (write(tmp_path / f"{name}.safetensors", array) for name, array in (("a", a), ("b", b.T), ("c", c)))
    expected = varve.matmul(a, b, c=c, beta=2)
    options = dict(transpose_b=True, beta=2, c=c_file, tile=16)
    found = varve.matmul(a_file, b_file, **options)
    assert found.dtype == kind
    np.testing.assert_array_equal(found, expected)
    name = tmp_path / "product.safetensors"
    assert varve.matmul(tmp_path / "a.safetensors", b_file, out=name, **options) == name
    stored = load_file(name)["matrix"]
    assert stored.dtype == kind
    np.testing.assert_array_equal(stored, expected)
    np.testing.assert_array_equal(varve.matmul(name, np.eye(COLUMNS, dtype=kind)), expected)


def test_a_limit_of_memory_changes_no_bit():
    a, b, _ = matrices("float32")
    expected = varve.matmul(a, b)
    for backend in varve.backends():
        with pytest.raises(varve.ResourceError, match=r"needs (\d+) bytes .* try a smaller tile$") as refused:
            varve.matmul(a, b, tile=16, device_memory_limit=1000, backend=backend)
        needed = int(re.search(r"needs (\d+) bytes", str(refused.value))[1])  # GPUs need more than hosts
        found = varve.matmul(a, b, tile=16, device_memory_limit=needed, backend=backend)
        np.testing.assert_array_equal(found, expected)


def test_products_without_numbers():
    assert varve.matmul(np.zeros((0, 3)), np.zeros((3, 2))).shape == (0, 2)
    for rows, depth, columns in ((0, 3, 2), (2, 3, 0), (2, 0, 0), (0, 0, 0)):
        out = np.empty((rows, columns))
        assert varve.matmul(np.zeros((rows, depth)), np.zeros((depth, columns)), out=out) is out
    np.testing.assert_array_equal(varve.matmul(np.zeros((3, 0)), np.zeros((0, 2))), np.zeros((3, 2)))
    np.testing.assert_array_equal(varve.matmul(np.zeros((3, 0)), np.zeros((0, 2)), c=np.ones((3, 2)), beta=5), np.full((3, 2), 5.0))


def test_progress_counts_steps():
    a, b, _ = matrices("float32")
    seen = []
    varve.matmul(a, b, tile=16, progress=lambda done, total: seen.append((done, total)))
    total = 3 * 3 * 2  # tiles of 16 x 16 in steps of 64
    assert seen == [(done, total) for done in range(total + 1)]


def test_an_exception_of_progress_ends_the_call(tmp_path):
    a, b, _ = matrices("float32")

    def stop(done, total):
        raise LookupError(done)

    with pytest.raises(LookupError):
        varve.matmul(a, b, out=tmp_path / "c.safetensors", progress=stop)
    assert os.listdir(tmp_path) == []
    np.testing.assert_array_equal(varve.matmul(a, b), chains(a, b))


def test_ctrl_c_ends_the_call():
    a = np.ones((300, 300))
    steps = []

    def interrupt(done, total):
        steps.append(done)
        if done == 3:
            _thread.interrupt_main()

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # shells ignore it in the background
    try:
        with pytest.raises(KeyboardInterrupt):
            varve.matmul(a, a, tile=8, progress=interrupt)
    finally:
        signal.signal(signal.SIGINT, before)
    assert steps[-1] < 38 * 38 * 5  # of the last step


def test_what_does_not_fit_is_refused(tmp_path):
    a, b, c = matrices("float32")

    def refuses(error, text, *matrices, **options):
        with pytest.raises(error, match=text):
            varve.matmul(*matrices, **options)

    refuses(varve.InputError, "B has 41 rows, expected 67, the columns of A$", a, a)
    refuses(varve.InputError, "B transposed has 38 rows, expected 67", a, b, transpose_b=True)
    refuses(varve.InputError, r"C0 has 41 x 67 numbers, expected 41 x 38 as in the product", a, b, c=a)
    refuses(varve.InputError, r"C has 67 x 38 numbers, expected 41 x 38", a, b, out=np.empty_like(b))
    refuses(varve.InputError, r"a has the shape \(41,\), expected \(rows, columns\); a vector is a.reshape", a[:, 0], b)
    refuses(varve.InputError, r"b has the shape \(1, 67, 38\)", a, b[None])
    refuses(varve.InputError, "a is a sparse matrix, expected a dense one", sp.csr_array(a), b)
    refuses(varve.InputError, "a has the type complex64", a.astype("complex64"), b)
    refuses(varve.UsageError, "^beta needs c$", a, b, beta=2)
    refuses(varve.UsageError, "^alpha is inf, expected a finite number", a, b, alpha=np.inf)
    refuses(varve.UsageError, "a tile has 0 rows", a, b, tile=0)
    refuses(varve.UsageError, "a tile has 100000 rows, expected 1 to 65536", a, b, tile=100_000)
    refuses(varve.UsageError, "device_memory_limit is 0", a, b, device_memory_limit=0)
    refuses(varve.UsageError, "the precision is 'half'", a, b, precision="half")
    refuses(varve.UsageError, "abacus", a, b, backend="abacus")
    refuses(varve.InputError, "none.safetensors", tmp_path / "none.safetensors", b)
    refuses(varve.UsageError, "C .*c.json has an ending of another format", a, b, out=tmp_path / "c.json")
    name = write(tmp_path / "a.safetensors", a)
    refuses(varve.UsageError, "C .*a.safetensors would replace what A .*a.safetensors reads", name, b, out=name)
    assert os.listdir(tmp_path) == ["a.safetensors"]


def test_numbers_that_are_not_finite_are_refused():
    a, b, _ = matrices("float64")
    b[40, 7] = np.nan
    with pytest.raises(varve.InputError, match=r"B: found nan in row 40, column 7 \(from 0\), expected a finite number"):
        varve.matmul(a, b)
    b[40, 7] = 1e300
    with pytest.raises(varve.InputError, match="finite number that float can hold"):
        varve.matmul(a, b, precision="float32")
    b[40, 7] = 3e38
    a[:, 40] = 0
    a[5, 40] = 10
    with pytest.raises(varve.InputError, match=r"row 5, column 7 .* try precision='float64'$"):
        varve.matmul(a, b, precision="float32")


def test_out_that_cannot_be_written_is_refused():
    a, b, c = matrices("float32")
    kept = c.copy()

    def refuses(text, out, **options):
        with pytest.raises(varve.InputError, match=text):
            varve.matmul(a, b, out=out, **options)

    locked = c.copy()
    locked.flags.writeable = False
    refuses("out is read-only", locked)
    refuses("out has the type float32, expected float64", c, precision="float64")
    refuses(r"out has the shape \(1558,\)", c.ravel())
    refuses("out is list, expected an array", [[1.0]])
    refuses("out is not aligned", strided(c, "unaligned"))
    refuses("out has several numbers in one place", np.lib.stride_tricks.as_strided(c, strides=(0, 4)))
    np.testing.assert_array_equal(c, kept)


def test_out_may_not_share_memory_with_what_is_read():
    memory = np.random.default_rng(3).standard_normal((60, 100)).astype("float32")
    a, b, out = memory[:20, :30], memory[20:50, :20], memory[:20, 30:50]  # parts of one matrix, beside each other
    expected = varve.matmul(a, b)
    np.testing.assert_array_equal(varve.matmul(a, b, out=out), expected)
    for name, options in (("a", {"out": memory[:20, 20:40]}), ("b", {"out": memory[40:60, :20]})):
        with pytest.raises(varve.InputError, match=f"out shares memory with {name}, expected an array of its own"):
            varve.matmul(a, b, **options)
    with pytest.raises(varve.InputError, match="out shares memory with c, expected an array of its own or c itself"):
        varve.matmul(a, b, c=memory[:20, 50:70], out=memory[:20, 51:71])
