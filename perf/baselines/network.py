"""A network and samples as the peers take them, read from Varve's files (src/io/FORMAT.md)."""
import dataclasses
import json

import numpy
import scipy.sparse


@dataclasses.dataclass
class Layer:
    """activation(weights @ previous + bias): weights is CSR [outputs, inputs], float32; bias float32 [outputs]."""
    weights: scipy.sparse.csr_array
    bias: numpy.ndarray
    activation: str
    cap: float = 0.0
    slope: float = 0.0

    def num_dense_bytes(self):
        return 4 * self.weights.shape[0] * self.weights.shape[1]


DTYPES = {"U8": "u1", "U16": "u2", "U32": "u4", "U64": "u8", "F32": "f4", "F64": "f8"}


class Container:
    """The arrays of a file of Varve, and its description."""

    def __init__(self, path):
        with open(path, "rb") as file:
            length = int.from_bytes(file.read(8), "little")
            self._header = json.loads(file.read(length))
        self._data = numpy.memmap(path, mode="r", offset=8 + length)
        self.description = json.loads(self._header["__metadata__"]["varve"])

    def array(self, name):
        entry = self._header[name]
        begin, end = entry["data_offsets"]
        return self._data[begin:end].view("<" + DTYPES[entry["dtype"]]).reshape(entry["shape"])

    def matrix(self, name, shape):
        """A matrix in CSR, its values as float32."""
        indices = self.array(name + ".indices").astype(numpy.int32)
        values = self.array(name + ".values").astype(numpy.float32)
        if values.size == 1:
            values = numpy.full(indices.size, values[0], dtype=numpy.float32)
        pointers = self.array(name + ".pointers").astype(numpy.int64)
        pointers = pointers.astype(numpy.int32) if indices.size < 2**31 else pointers
        return scipy.sparse.csr_array((values, indices, pointers), shape=shape)


def read_network(path):
    file = Container(path)
    layers = []
    for number, entry in enumerate(file.description["layers"]):
        weights = file.matrix(f"layers.{entry.get('weights_of', number)}", entry["shape"])
        bias = numpy.broadcast_to(file.array(f"layers.{number}.bias").astype(numpy.float32), (weights.shape[0],)).copy()
        layers.append(Layer(weights, bias, entry["activation"], entry.get("cap", 0.0), entry.get("slope", 0.0)))
    return layers


def read_samples(path, count=None):
    """The first `count` samples (None: all), CSR [samples, neurons], float32."""
    file = Container(path)
    return file.matrix("samples", file.description["shape"])[:count]


def activate(layer, sums):
    """The activation of an array, in place."""
    if layer.activation == "relu":
        numpy.maximum(sums, 0, out=sums)
    elif layer.activation == "clipped_relu":
        numpy.clip(sums, 0, layer.cap, out=sums)
    elif layer.activation == "leaky_relu":
        numpy.multiply(sums, layer.slope, out=sums, where=sums < 0)
    elif layer.activation == "tanh":
        numpy.tanh(sums, out=sums)
    elif layer.activation == "sigmoid":
        numpy.negative(sums, out=sums)
        numpy.exp(sums, out=sums)
        sums += 1
        numpy.reciprocal(sums, out=sums)
    return sums
