"""The interface of a peer: another way to compute what `varve infer` computes, timed by measure.py."""


class Unavailable(Exception):
    """A peer cannot run here or on this network; the text says why."""


class Peer:
    """A peer of one network. The constructor prepares the layers (not timed) and raises Unavailable if it cannot run them.

    take(samples) brings samples (CSR [samples, neurons]) into the peer's own layout (not timed, as Varve's upload is no part
    of its layer loop); run() computes all layers and returns when the result is complete (timed); result() gives the last
    activations as a dense array [samples, outputs] (not timed).
    """
    name = ""        # as in tables: library and layout
    version = ""     # of the library

    def __init__(self, layers, threads):
        raise NotImplementedError

    def take(self, samples):
        raise NotImplementedError

    def run(self):
        raise NotImplementedError

    def result(self):
        raise NotImplementedError


MOST_DENSE_BYTES = 4 << 30


def require_dense_fits(layers):
    """Raises Unavailable if the densified weights take more than 4 GiB."""
    size = sum(layer.num_dense_bytes() for layer in layers)
    if size > MOST_DENSE_BYTES:
        raise Unavailable(f"dense weights take {size / 2**30:.1f} GiB, at most {MOST_DENSE_BYTES / 2**30:.0f} are tried")
