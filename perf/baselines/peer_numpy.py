"""NumPy: dense weights, products by its BLAS (OpenBLAS in most builds)."""
import numpy

from network import activate
from peer import Peer, require_dense_fits


class Dense(Peer):
    name = "numpy, dense (BLAS)"
    version = numpy.__version__

    def __init__(self, layers, threads):
        require_dense_fits(layers)
        self.layers = [(layer, numpy.ascontiguousarray(layer.weights.T.toarray())) for layer in layers]

    def take(self, samples):
        self.samples = samples.toarray()

    def run(self):
        current = self.samples
        for layer, weights in self.layers:
            current = current @ weights
            current += layer.bias
            activate(layer, current)
        self.last = current

    def result(self):
        return self.last


PEERS = [Dense]
