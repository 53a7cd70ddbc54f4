"""scipy: sparse weights times activations, with sparse activations (as in the challenge's own Python) or dense ones. One thread."""
import numpy
import scipy
import scipy.sparse

from network import activate
from peer import Peer, Unavailable


class SparseActivations(Peer):
    """CSR times CSR: only nonzero activations are stored, so biases above zero cannot be."""
    name = "scipy, sparse activations"
    version = scipy.__version__

    def __init__(self, layers, threads):
        if any((layer.bias > 0).any() for layer in layers):
            raise Unavailable("a bias above zero revives neurons that are not stored")
        if any(layer.activation not in ("relu", "clipped_relu") for layer in layers):
            raise Unavailable("activations other than ReLU do not drop what is below zero")
        self.layers = [(layer, layer.weights.T.tocsr()) for layer in layers]

    def take(self, samples):
        self.samples = samples

    def run(self):
        current = self.samples
        for layer, transposed in self.layers:
            current = current @ transposed
            current.data += layer.bias[current.indices]
            if layer.activation == "relu":
                numpy.maximum(current.data, 0, out=current.data)
            else:
                numpy.clip(current.data, 0, layer.cap, out=current.data)
            current.eliminate_zeros()
        self.last = current

    def result(self):
        return self.last.toarray()


class DenseActivations(Peer):
    """CSR times a dense array [neurons, samples]."""
    name = "scipy, dense activations"
    version = scipy.__version__

    def __init__(self, layers, threads):
        self.layers = layers

    def take(self, samples):
        self.samples = numpy.ascontiguousarray(samples.T.toarray())

    def run(self):
        current = self.samples
        for layer in self.layers:
            current = layer.weights @ current
            current += layer.bias[:, None]
            activate(layer, current)
        self.last = current

    def result(self):
        return self.last.T


PEERS = [SparseActivations, DenseActivations]
