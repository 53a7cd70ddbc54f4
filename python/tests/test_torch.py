"""Networks of torch. Without torch, modules of the same names that run in the same way take its place."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import varve

try:
    import torch
except ImportError:
    import fake_torch as torch

nn = torch.nn
is_real = hasattr(torch, "Generator")


@pytest.fixture(autouse=True)
def torch_is_there(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", torch)


def samples(count, width):
    return np.random.default_rng(1).standard_normal((count, width)).astype(np.float32)


def assert_same_results(module, network, X, tolerance=1e-5):
    module.eval()
    expected = np.array(module(torch.from_numpy(X)).tolist())
    np.testing.assert_allclose(network.infer(X), expected, atol=tolerance)


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
    made, X = model(), samples(50, 12)
    network = varve.Network.from_torch(made)
    assert_same_results(made, network, X)
    if is_real:
        tensor = torch.tensor(X.tolist(), requires_grad=True)
        np.testing.assert_array_equal(network.infer(tensor), network.infer(X))  # by DLPack


def test_modules_that_are_used_several_times_are_read_so_often():
    activation, hidden = nn.Tanh(), nn.Linear(9, 9)
    block = nn.Sequential(nn.Linear(9, 9), nn.ReLU())
    made = nn.Sequential(nn.Linear(8, 9), activation, hidden, activation, block, hidden, activation, block, nn.Linear(9, 4))
    network = varve.Network.from_torch(made)
    names = ["tanh", "tanh", "relu", "tanh", "relu", "identity"]
    assert [layer.activation.name for layer in network.layers()] == names
    assert_same_results(made, network, samples(50, 8))


def masked(module, original, mask):
    """What torch.nn.utils.prune makes of a module: its weight is computed anew when it runs, and stale before."""

    def renew(part, given):
        part.weight = original * mask

    module.register_forward_pre_hook(renew)
    return module


def test_masks_that_came_after_the_last_run_count():
    linear = nn.Linear(10, 6)
    made = nn.Sequential(linear, nn.ReLU())
    mask = torch.from_numpy((np.arange(60).reshape(6, 10) % 3 == 0).astype(np.float32))
    if is_real:
        from torch.nn.utils import prune

        prune.identity(linear, "weight")
        stale = linear.weight
        with torch.no_grad():
            linear.weight_mask.copy_(mask)
            linear.weight_orig.mul_(2)
    else:
        stale = linear.weight
        masked(linear, 2 * linear.weight, mask)
    network = varve.Network.from_torch(made)
    assert linear.weight is stale, "the module stays as it was"
    assert network.num_edges == 20
    np.testing.assert_array_equal(network.layer(0).weights.toarray(), np.array((2 * stale * mask).tolist()))
    assert_same_results(made, network, samples(50, 10))


class OwnLinear(nn.Linear):
    """An own class without an own forward()."""


Scaled = type("Linear", (nn.Linear,), {"forward": lambda self, x: 2 * nn.Linear.forward(self, x)})
Squared = type("ReLU", (nn.Module,), {"forward": lambda self, x: x * x})
Twice = type("Sequential", (nn.Sequential,), {"forward": lambda self, x: 2 * nn.Sequential.forward(self, x)})


def test_own_classes_without_an_own_forward_are_those_of_torch():
    made = type("Mine", (nn.Sequential,), {})(OwnLinear(5, 4), nn.ReLU())
    assert_same_results(made, varve.Network.from_torch(made), samples(50, 5))


def with_hook(module, hook):
    module.register_forward_hook(hook)
    return module


def with_pre_hook(module, hook):
    module.register_forward_pre_hook(hook)
    return module


def with_own_forward(module):
    plain = module.forward
    module.forward = lambda x: 1.01 * plain(x)
    return module


def double_it(module, given, result):
    return result * 2


def add_one(module, given):
    return given[0] + 1


@pytest.mark.parametrize(
    "make, sentence",
    [
        (lambda: nn.Sequential(Scaled(3, 3), nn.ReLU()), r"found \[0\] Linear of test_torch, expected Linear, .*, as torch.nn has them"),
        (lambda: nn.Sequential(nn.Linear(3, 3), Squared()), r"found \[1\] ReLU of test_torch, expected Linear"),
        (lambda: Twice(nn.Linear(3, 3)), "found Sequential of test_torch, expected Linear"),
        (lambda: nn.Sequential(nn.Linear(3, 3), with_hook(nn.Linear(3, 3), double_it)), r"\[1\] Linear gives .* expected .* its weights"),
        (lambda: nn.Sequential(nn.Linear(3, 3), with_hook(nn.ReLU(), double_it)), r"\[0\] Linear gives .* by its weights, bias and relu"),
        (lambda: nn.Sequential(with_own_forward(nn.Linear(3, 3)), nn.ReLU()), r"\[0\] Linear gives"),
        (lambda: nn.Sequential(nn.Linear(3, 3), with_pre_hook(nn.Linear(3, 3), add_one)), r"\[1\] Linear gets another input than \[0\] Linear"),
        (lambda: with_pre_hook(nn.Sequential(nn.Linear(3, 3)), add_one), r"\[0\] Linear gets another input than the module"),
        (lambda: with_hook(nn.Sequential(nn.Linear(3, 3)), double_it), r"the module gives another result than \[0\] Linear"),
        (lambda: nn.Sequential(with_hook(nn.Flatten(), double_it), nn.Linear(3, 3)), r"\[0\] Flatten changes its input"),
        (lambda: with_hook(nn.Linear(3, 3), lambda *found: 1 / 0), "Linear cannot run a random batch, .*: division by zero"),
    ],
)
def test_what_computes_something_else_is_refused_by_its_place(make, sentence):
    with pytest.raises(varve.InputError, match=sentence):
        varve.Network.from_torch(make())


def test_an_import_changes_nothing_but_runs_the_hooks_once():
    made, runs = model(), []
    made.train()
    made._modules["2"].eval()
    made._modules["1"].register_forward_hook(lambda *found: runs.append(found[0].training))
    before = [module.training for module in made.modules()]
    hooks = [len(getattr(module, "_forward_hooks", None) or getattr(module, "_hooks", ())) for module in made.modules()]
    if is_real:
        state = torch.get_rng_state().tolist()
    varve.Network.from_torch(made)
    assert runs == [False] and [module.training for module in made.modules()] == before
    assert hooks == [len(getattr(module, "_forward_hooks", None) or getattr(module, "_hooks", ())) for module in made.modules()]
    if is_real:
        assert torch.get_rng_state().tolist() == state


@pytest.mark.parametrize("kind", ["float64", "float32"] + (["float16", "bfloat16"] if is_real else []))
def test_types_of_modules(kind):
    made = nn.Sequential(nn.Linear(200, 300), nn.Tanh(), nn.Linear(300, 5))
    for linear in (made._modules["0"], made._modules["2"]):
        if not is_real:
            linear.weight, linear.bias = (part.to(kind) for part in (linear.weight, linear.bias))
    if is_real:
        made.to(getattr(torch, kind))
    network = varve.Network.from_torch(made)
    last = made._modules["2"].weight
    np.testing.assert_array_equal(network.layer(1).weights.toarray(), np.array(last.tolist()))


def test_deep_modules_are_compared_layer_by_layer():
    """Roundings of 300 layers would hide a difference at the end."""
    layers = [part for _ in range(300) for part in (nn.Linear(16, 16), nn.LeakyReLU(0.9))]
    assert varve.Network.from_torch(nn.Sequential(*layers)).num_layers == 300
    layers[2 * 299].register_forward_hook(lambda part, given, result: result * 1.0001)
    with pytest.raises(varve.InputError, match=r"\[598\] Linear gives"):
        varve.Network.from_torch(nn.Sequential(*layers))


def test_pruned_weights_are_no_edges():
    linear = nn.Linear(10, 10)
    with torch.no_grad():
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
        (lambda: "a module", "found str, expected a module of torch"),
    ],
)
def test_modules_that_varve_lacks_are_refused_by_a_sentence(wrong, sentence):
    with pytest.raises(varve.InputError, match=sentence):
        varve.Network.from_torch(wrong())


if is_real:  # the other tensors are arrays of NumPy, of which test_out.py tells

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
