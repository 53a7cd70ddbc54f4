"""Networks of torch. Without torch, modules with the same names and attributes take its place."""

from __future__ import annotations

import numpy as np
import pytest
import varve

try:
    import torch
    from torch import nn
except ImportError:
    torch = None

    class nn:  # noqa: N801
        """The parts of torch.nn that varve reads."""

        class Module:
            def __init__(self, *arguments, **attributes):
                self.__dict__.update(attributes)

            def named_children(self):
                return iter(())

        class Sequential(Module):
            def __init__(self, *children):
                self._children = children

            def named_children(self):
                return ((str(number), child) for number, child in enumerate(self._children))

        class Linear(Module):
            def __init__(self, inputs, outputs, bias=True):
                generator = np.random.default_rng(inputs)
                self.weight = generator.standard_normal((outputs, inputs)).astype(np.float32) / np.sqrt(inputs)
                self.bias = generator.standard_normal(outputs).astype(np.float32) if bias else None

        class LeakyReLU(Module):
            def __init__(self, negative_slope=0.01):
                self.negative_slope = negative_slope

        class Hardtanh(Module):
            def __init__(self, min_val=-1.0, max_val=1.0):
                self.min_val, self.max_val = min_val, max_val

        class ReLU(Module): ...

        class ReLU6(Module): ...

        class Tanh(Module): ...

        class Sigmoid(Module): ...

        class Identity(Module): ...

        class Softmax(Module): ...

        class Flatten(Module): ...

        class Dropout(Module): ...


def model():
    return nn.Sequential(
        nn.Flatten(),
        nn.Linear(12, 12),
        nn.ReLU(),
        nn.Dropout(),
        nn.Sequential(nn.Linear(12, 20, bias=False), nn.LeakyReLU(0.2), nn.Linear(20, 7), nn.Hardtanh(0, 0.5)),
        nn.Linear(7, 6),
        nn.Tanh(),
        nn.Identity(),
        nn.Linear(6, 5),
        nn.ReLU6(),
        nn.Linear(5, 5),
        nn.Sigmoid(),
        nn.Linear(5, 3),
    )


def test_layers():
    network = varve.Network.from_torch(model())
    assert [layer.activation for layer in network.layers()] == [
        varve.Activation("relu"),
        varve.Activation.leaky_relu(0.2),
        varve.Activation.clipped_relu(0.5),
        varve.Activation("tanh"),
        varve.Activation.clipped_relu(6.0),
        varve.Activation("sigmoid"),
        varve.Activation("identity"),
    ]
    assert [layer.weights.shape for layer in network.layers()] == [(12, 12), (20, 12), (7, 20), (6, 7), (5, 6), (5, 5), (3, 5)]
    assert network.layer(1).bias.tolist() == [0.0]


def test_activations():
    made = model()
    X = np.random.default_rng(1).standard_normal((50, 12)).astype(np.float32)
    network = varve.Network.from_torch(made)
    if torch is None:
        expected = X.astype(np.float64)
        for layer in network.layers():
            expected = _apply(layer.activation, expected @ layer.weights.toarray().T + layer.bias)
        first = made._children[1]
        np.testing.assert_array_equal(network.layer(0).weights.toarray(), first.weight)
        np.testing.assert_array_equal(network.layer(0).bias, first.bias)
    else:
        made.eval()
        tensor = torch.tensor(X.tolist(), requires_grad=True)
        expected = np.array(made(tensor).tolist())
        np.testing.assert_array_equal(network.infer(tensor), network.infer(X))  # by DLPack
    np.testing.assert_allclose(network.infer(X), expected, atol=1e-5)


def _apply(activation, x):
    from conftest import apply

    return apply(activation if activation.parameter else activation.name, x)


def test_pruned_weights_are_no_edges():
    linear = nn.Linear(10, 10)
    if torch is not None:
        with torch.no_grad():
            linear.weight[::2] = 0
    else:
        linear.weight[::2] = 0
    assert varve.Network.from_torch(linear).num_edges == 50


@pytest.mark.parametrize(
    "wrong, sentence",
    [
        (lambda: nn.Sequential(nn.ReLU(), nn.Linear(2, 2)), r"\[0\] ReLU has no Linear before it"),
        (lambda: nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Tanh()), r"\[2\] Tanh follows another activation"),
        (lambda: nn.Sequential(nn.Linear(2, 2), nn.Softmax()), r"found \[1\] Softmax, expected Linear, ReLU"),
        (lambda: nn.Sequential(nn.Linear(2, 2), nn.Hardtanh()), "begins at -1.0, expected 0"),
        (lambda: nn.Sequential(nn.Dropout()), "found no Linear in Sequential"),
        (lambda: nn.Sequential(nn.Linear(2, 3), nn.Linear(2, 2)), "layer 1 has weights of the shape"),
    ],
)
def test_modules_that_varve_lacks_are_refused_by_a_sentence(wrong, sentence):
    with pytest.raises(varve.InputError, match=sentence):
        varve.Network.from_torch(wrong())


@pytest.mark.skipif(torch is None, reason="torch is not installed")
def test_results_go_into_tensors():
    made = model()
    network = varve.Network.from_torch(made)
    X = torch.randn(50, 12, generator=torch.Generator().manual_seed(1))
    for kind in (torch.float32, torch.float64):
        out = torch.full((50, 3), float("nan"), dtype=kind)
        precision = str(kind).partition(".")[2]
        assert network.infer(X, precision=precision, out=out) is out
        assert out.tolist() == network.infer(X, precision=precision).tolist()
    with pytest.raises(varve.InputError, match="row by row"):
        network.infer(X, out=torch.empty(3, 50).T)
    with pytest.raises(varve.InputError, match="type torch.float64, expected float32"):
        network.infer(X, out=torch.empty(50, 3, dtype=torch.float64))
