"""Networks and samples from a seed, the same on every machine."""

from __future__ import annotations

from typing import Any, Sequence

from . import _core
from ._network import Network
from ._options import to_count, to_number, to_optional_count, to_optional_number, to_seed


def radixnet(neurons: int = 1024, layers: int = 120, *, seed: int = 1, bias: float | None = None, cap: float = 32.0) -> Network:
    """A network with the structure of the Graph Challenge's networks: 32 inputs per neuron, weights 1/16.

    :param neurons: neurons per layer, a power of two, at least 32
    :param bias: of all neurons; the challenge's for this width by default
    :param cap: of the clipped ReLU
    """
    counts = to_count(neurons, "neurons"), to_count(layers, "layers"), to_seed(seed)
    return Network(_core.radixnet(*counts, to_optional_number(bias, "bias"), to_number(cap, "cap")))


def random(
    widths: Sequence[int],
    *,
    degree: int | None = None,
    density: float | None = None,
    weight: float | None = None,
    gain: float = 1.0,
    bias: tuple[float, float] = (-0.1, 0.1),
    cap: float = 1.0,
    seed: int = 1,
) -> Network:
    """A network with random edges and clipped ReLU.

    :param widths: number of inputs, then of the outputs of each layer
    :param degree: number of inputs that every output reads; give this or ``density``
    :param density: probability of every edge; 1 is a dense network
    :param weight: of all edges; without it weights are uniform in +- gain * sqrt(6 / inputs per output)
    :param bias: lowest and highest bias
    :param cap: of the clipped ReLU

    :meth:`Network.with_initial_weights` makes it ready for training.
    """
    wanted = [to_count(width, "a width", 1) for width in widths]
    degree, seed = to_optional_count(degree, "degree"), to_seed(seed)
    try:
        lowest, highest = bias
    except (TypeError, ValueError):
        raise TypeError(f"bias is {bias!r}, expected the lowest and the highest") from None
    edges = degree, to_optional_number(density, "density")
    weights = to_optional_number(weight, "weight"), to_number(gain, "gain")
    biases = to_number(lowest, "the lowest bias"), to_number(highest, "the highest bias")
    return Network(_core.random_network(wanted, *edges, *weights, *biases, to_number(cap, "cap"), seed))


def images(neurons: int = 1024, samples: int = 60000, *, seed: int = 1) -> Any:
    """Digit-like images with pixels 0 and 1: scipy.sparse.csr_array [samples, neurons].

    :param neurons: pixels of an image, a power of two, at least 32
    """
    neurons, samples, seed = to_count(neurons, "neurons"), to_count(samples, "samples"), to_seed(seed)
    return _csr(_core.images(neurons, samples, seed), samples, neurons)


def samples(neurons: int = 1024, samples: int = 10000, *, density: float = 0.5, seed: int = 1) -> Any:
    """Samples of random values in (0, 1]: scipy.sparse.csr_array [samples, neurons].

    :param density: probability that a neuron has a value
    """
    neurons, samples, seed = to_count(neurons, "neurons"), to_count(samples, "samples"), to_seed(seed)
    return _csr(_core.samples(neurons, samples, to_number(density, "density"), seed), samples, neurons)


def _csr(arrays: Any, num_rows: int, num_columns: int) -> Any:
    from scipy.sparse import csr_array

    return csr_array(arrays, shape=(num_rows, num_columns))
