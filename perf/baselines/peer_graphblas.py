"""SuiteSparse:GraphBLAS, LAGraph's four calls a layer (graphblas_loop.cpp), compiled on first use. Debian: libgraphblas-dev, g++."""
import ctypes
import functools
import pathlib
import shutil
import subprocess
import tempfile

import numpy

from peer import Peer, Unavailable

SOURCE = pathlib.Path(__file__).resolve().parent / "graphblas_loop.cpp"
HEADERS = ["/usr/include/suitesparse"]


@functools.cache
def library(threads):
    """The compiled library, started. Raises Unavailable if there is no compiler or no GraphBLAS."""
    compiler = shutil.which("g++") or shutil.which("c++")
    if compiler is None:
        raise Unavailable("there is no C++ compiler to build graphblas_loop.cpp")
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "graphblas_loop.so"
        done = subprocess.run([compiler, "-std=c++17", "-O2", "-shared", "-fPIC", *(f"-I{folder}" for folder in HEADERS), str(SOURCE),
                               "-o", str(path), "-lgraphblas"], capture_output=True, text=True)
        if done.returncode != 0:
            raise Unavailable("graphblas_loop.cpp does not build: " + next(iter(done.stderr.splitlines()), "no message"))
        loaded = ctypes.CDLL(str(path))
    if loaded.varve_start(threads) != 0:
        raise Unavailable("GraphBLAS does not start")
    return loaded


def arrays_of(matrix):
    """Shape and arrays of a CSR matrix as arguments of graphblas_loop.cpp; kept alive by the caller."""
    kept = matrix.indptr.astype(numpy.uint64), matrix.indices.astype(numpy.uint64), matrix.data.astype(numpy.float32)
    return kept, [ctypes.c_uint64(matrix.shape[0]), ctypes.c_uint64(matrix.shape[1]), *(array.ctypes.data_as(ctypes.c_void_p) for array in kept)]


def require(code):
    if code != 0:
        raise Unavailable(f"GraphBLAS ends with error {code}")


class FourCalls(Peer):
    """One network at a time, because the library holds it."""
    name = "GraphBLAS, four calls"

    def __init__(self, layers, threads):
        if any((layer.bias > 0).any() for layer in layers):
            raise Unavailable("a bias above zero revives neurons that are not stored")
        if any(layer.activation not in ("relu", "clipped_relu") for layer in layers):
            raise Unavailable("activations other than ReLU do not drop what is below zero")
        self.library = library(threads)
        number = self.library.varve_version()
        self.version = f"{number // 10000}.{number // 100 % 100}.{number % 100}"
        self.library.varve_forget()
        self.num_outputs = layers[-1].weights.shape[0]
        for layer in layers:
            transposed = layer.weights.T.tocsr()
            transposed.sort_indices()
            kept, arguments = arrays_of(transposed)
            bias = numpy.ascontiguousarray(layer.bias, dtype=numpy.float32)
            require(self.library.varve_add(*arguments, bias.ctypes.data_as(ctypes.c_void_p), ctypes.c_float(layer.cap)))
            del kept

    def take(self, samples):
        self.num_samples = samples.shape[0]
        kept, arguments = arrays_of(samples)
        require(self.library.varve_take(*arguments))
        del kept

    def run(self):
        require(self.library.varve_run())

    def result(self):
        dense = numpy.zeros((self.num_samples, self.num_outputs), dtype=numpy.float32)
        require(self.library.varve_result(ctypes.c_uint64(self.num_outputs), dense.ctypes.data_as(ctypes.c_void_p)))
        return dense


PEERS = [FourCalls]
