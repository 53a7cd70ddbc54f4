"""PyTorch on processors: weights in CSR, and dense ones."""
import warnings

from peer import Peer, Unavailable, require_dense_fits

try:
    import torch
except ImportError as missing:
    torch = None
    REASON = str(missing)


def activate(layer, sums):
    if layer.activation == "relu":
        return sums.relu_()
    if layer.activation == "clipped_relu":
        return sums.clamp_(0, layer.cap)
    if layer.activation == "leaky_relu":
        return torch.nn.functional.leaky_relu_(sums, layer.slope)
    return {"identity": lambda: sums, "sigmoid": sums.sigmoid_, "tanh": sums.tanh_}[layer.activation]()


class OfTorch(Peer):
    version = torch.__version__ if torch else ""

    def __init__(self, layers, threads):
        if torch is None:
            raise Unavailable(REASON)
        torch.set_num_threads(threads)
        self.layers = [(layer, self.weights_of(layer), torch.from_numpy(layer.bias)) for layer in layers]


class Csr(OfTorch):
    """CSR times a dense array [neurons, samples]."""
    name = "PyTorch, CSR"

    def weights_of(self, layer):
        matrix = layer.weights
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # PyTorch says that its support of CSR is in beta state
            return torch.sparse_csr_tensor(torch.from_numpy(matrix.indptr), torch.from_numpy(matrix.indices),
                                           torch.from_numpy(matrix.data), size=matrix.shape)

    def take(self, samples):
        self.samples = torch.from_numpy(samples.T.toarray()).contiguous()

    def run(self):
        current = self.samples
        with torch.inference_mode():
            for layer, weights, bias in self.layers:
                current = activate(layer, (weights @ current).add_(bias[:, None]))
        self.last = current

    def result(self):
        return self.last.numpy().T


class Dense(OfTorch):
    name = "PyTorch, dense"

    def __init__(self, layers, threads):
        require_dense_fits(layers)
        super().__init__(layers, threads)

    def weights_of(self, layer):
        return torch.from_numpy(layer.weights.toarray())

    def take(self, samples):
        self.samples = torch.from_numpy(samples.toarray())

    def run(self):
        current = self.samples
        with torch.inference_mode():
            for layer, weights, bias in self.layers:
                current = activate(layer, torch.nn.functional.linear(current, weights, bias))
        self.last = current

    def result(self):
        return self.last.numpy()


PEERS = [Csr, Dense]
