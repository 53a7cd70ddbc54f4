"""Networks that several tests use."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import varve

#: A backend whose device is the host, which reads arrays where they lie; the default one may be a GPU.
HOST = next(backend for backend in varve.backends() if backend in ("openmp", "serial"))

WIDTHS = (70, 130, 64, 33, 5)  # straddle tiles of samples and blocks of outputs


def random_layers(activations, seed=1, scale=2.0):
    """Random sparse layers, some outputs without edges: weights [outputs, inputs], biases, activations."""
    generator = np.random.default_rng(seed)
    weights, biases = [], []
    for inputs, outputs in zip(WIDTHS, WIDTHS[1:]):
        matrix = sp.random(outputs, inputs, 0.15, random_state=generator, data_rvs=generator.standard_normal).tolil()
        matrix[outputs // 2] = 0
        weights.append(sp.csr_array(matrix * (scale / np.sqrt(0.15 * inputs))))
        biases.append(generator.uniform(-0.2, 0.3, outputs))
    return weights, biases, list(activations)


def forward(layers, X):
    """The last activations by SciPy, in float64."""
    x = np.asarray(X, dtype=np.float64)
    for weights, bias, activation in zip(*layers):
        x = apply(activation, (weights @ x.T).T + bias)
    return x


def apply(activation, x):
    if not isinstance(activation, str):
        if activation.name == "clipped_relu":
            return np.clip(x, 0, activation.parameter)
        return np.where(x > 0, x, activation.parameter * x)
    return {
        "identity": lambda: x,
        "relu": lambda: np.maximum(x, 0),
        "sigmoid": lambda: 1 / (1 + np.exp(-x)),
        "tanh": lambda: np.tanh(x),
        "softplus": lambda: np.logaddexp(0, x),
    }[activation]()


MIXED = ("relu", varve.Activation.leaky_relu(0.1), varve.Activation.clipped_relu(0.7), "identity")
SMOOTH = ("tanh", "softplus", "tanh", "sigmoid")


@pytest.fixture(params=[MIXED, SMOOTH], ids=["mixed", "smooth"])
def layers(request):
    return random_layers(request.param)


@pytest.fixture
def network():
    return varve.Network.from_scipy(*random_layers(MIXED))


@pytest.fixture
def X():
    generator = np.random.default_rng(7)
    samples = generator.standard_normal((203, WIDTHS[0]))
    samples[generator.random(samples.shape) < 0.5] = 0
    samples[17] = 0
    return samples
