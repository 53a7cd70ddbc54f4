"""A network and samples as the peers take them, read from Varve's HDF5 files (src/io/FORMAT.md)."""
import dataclasses

import h5py
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


def read_matrix(group):
    """A matrix in CSR, its values as float32."""
    import json
    rows, columns = json.loads(group.attrs["binsparse"])["binsparse"]["shape"]
    indices = group["indices_1"][:].astype(numpy.int32)
    values = numpy.asarray(group["values"][:], dtype=numpy.float32)
    if values.size == 1:
        values = numpy.full(indices.size, values[0], dtype=numpy.float32)
    pointers = group["pointers_to_1"][:].astype(numpy.int64)
    pointers = pointers.astype(numpy.int32) if indices.size < 2**31 else pointers
    return scipy.sparse.csr_array((values, indices, pointers), shape=(rows, columns))


def text_of(attribute):
    return attribute.decode() if isinstance(attribute, bytes) else str(attribute)


def read_layer(group):
    weights = read_matrix(group["weights"])
    bias = numpy.broadcast_to(numpy.asarray(group["bias"][()], dtype=numpy.float32).ravel(), (weights.shape[0],)).copy()
    return Layer(weights, bias, text_of(group.attrs["activation"]), float(group.attrs.get("cap", 0.0)),
                 float(group.attrs.get("slope", 0.0)))


def read_network(path):
    with h5py.File(path) as file:
        return [read_layer(file["layers"][name]) for name in sorted(file["layers"])]


def read_samples(path, count=None):
    """The first `count` samples (None: all), CSR [samples, neurons], float32."""
    with h5py.File(path) as file:
        return read_matrix(file["samples"])[:count]


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
