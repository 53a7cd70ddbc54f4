"""Networks of torch."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest
import torch
import varve
from torch import nn
from torch.nn import functional as F
from torch.nn.utils import parametrize, prune


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
        nn.Linear(5, 5),
        nn.Softplus(),
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
        varve.Activation("softplus"),
        varve.Activation("identity"),
    ]
    assert [layer.weights.shape for layer in network.layers()] == [(12, 12), (20, 12), (7, 20), (6, 7), (5, 6), (5, 5), (5, 5), (3, 5)]
    assert network.layer(1).bias.tolist() == 20 * [0.0]


def test_activations():
    made, X = model(), samples(50, 12)
    network = varve.Network.from_torch(made)
    assert_same_results(made, network, X)
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


def test_masks_that_came_after_the_last_run_count():
    linear = nn.Linear(10, 6)
    made = nn.Sequential(linear, nn.ReLU())
    mask = torch.from_numpy((np.arange(60).reshape(6, 10) % 3 == 0).astype(np.float32))
    prune.identity(linear, "weight")
    stale = linear.weight
    with torch.no_grad():
        linear.weight_mask.copy_(mask)
        linear.weight_orig.mul_(2)
    network = varve.Network.from_torch(made)
    assert linear.weight is stale, "the module stays as it was"
    assert network.num_edges == 20
    np.testing.assert_array_equal(network.layer(0).weights.toarray(), np.array((2 * stale * mask).tolist()))
    assert_same_results(made, network, samples(50, 10))


class OwnLinear(nn.Linear):
    """An own class without an own forward()."""


Scaled = type("Linear", (nn.Linear,), {"forward": lambda self, x: 2 * nn.Linear.forward(self, x)})
Squared = type("ReLU", (nn.Module,), {"forward": lambda self, x: x * x})


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 3)

    def forward(self, x):
        return x + self.fc(x)


class Conditional(Residual):
    def forward(self, x):
        return self.fc(x) if x.sum() > 0 else x


class Two(Residual):
    def forward(self, x, y):
        return self.fc(x) + y


class Mlp(nn.Module):
    """Functions, methods, a parameter under a mask, sums with constants, a loop, and a shape."""

    def __init__(self):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(12, 20), nn.Linear(20, 20)
        self.hidden = nn.ModuleList(nn.Linear(20, 20) for _ in range(3))
        self.norm = nn.BatchNorm1d(20)
        self.free = nn.Parameter(torch.randn(20, 9))
        self.register_buffer("mask", (torch.rand(20, 9) < 0.5).float())

    def forward(self, x):
        x = (x.view(x.size(0), -1) - 0.1307) / 0.3081
        x = F.dropout(torch.relu(self.fc1(x)), 0.5, self.training)
        for layer in self.hidden:
            x = F.leaky_relu(layer(x), 0.3)
        x = self.norm(self.fc2(x).clamp(min=-0.5, max=2)).tanh()
        return torch.addmm(self.free[0], x, self.free * self.mask) * 2 + 1


def statistics(made):
    """Random ones in every normalization."""
    generator = torch.Generator().manual_seed(1)
    for part in made.modules():
        if isinstance(part, nn.BatchNorm1d):
            part.running_mean.copy_(torch.randn(part.num_features, generator=generator))
            part.running_var.copy_(torch.rand(part.num_features, generator=generator) + 0.1)
            part.weight.data.copy_(torch.randn(part.num_features, generator=generator))
            part.bias.data.copy_(torch.randn(part.num_features, generator=generator))
    return made


class Wrapper(nn.Module):
    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, x):
        return self.net(x)


def block():
    return nn.Sequential(nn.Linear(12, 20), nn.BatchNorm1d(20), nn.ReLU(), nn.Linear(20, 9))


def sparse(made):
    made[0].weight = nn.Parameter((made[0].weight * (made[0].weight > 0)).detach().to_sparse_csr())
    return made


def doubled_by_a_parametrization(made):
    parametrize.register_parametrization(made[0], "weight", type("Double", (nn.Module,), {"forward": lambda self, w: 2 * w})())
    return made


@pytest.mark.parametrize(
    "make",
    [
        Mlp,
        block,
        lambda: Wrapper(Wrapper(block())),
        lambda: type("Mine", (nn.Sequential,), {})(*block()),
        lambda: type("Twice", (nn.Sequential,), {"forward": lambda self, x: 2 * nn.Sequential.forward(self, x)})(*block()),
        lambda: nn.Sequential(Scaled(12, 20), nn.ReLU(), nn.Linear(20, 9)),
        lambda: torch.compile(block()),
        lambda: nn.DataParallel(block()),
        lambda: sparse(nn.Sequential(*block()[::2])),
        lambda: doubled_by_a_parametrization(block()),
        lambda: nn.utils.parametrizations.weight_norm(nn.Linear(12, 9)),
        lambda: nn.Sequential(nn.ReLU(), nn.Linear(12, 9), nn.Hardtanh(-1, 1), nn.Tanh(), nn.PReLU(), nn.LeakyReLU(2.0), nn.BatchNorm1d(9)),
        lambda: nn.Sequential(nn.Unflatten(1, (3, 4)), nn.Flatten(), nn.Linear(12, 9), nn.Identity(), nn.ReLU()),
        lambda: with_hook(nn.Sequential(nn.Linear(12, 9)), double_it),
        lambda: with_pre_hook(nn.Sequential(nn.Linear(12, 9)), add_one),
        lambda: with_pre_hook(Wrapper(nn.Linear(12, 9)), add_one),
    ],
)
def test_modules_of_every_form(make):
    torch.manual_seed(1)
    made = statistics(make())
    made.train()
    network = varve.Network.from_torch(made)
    assert made.training
    made = made.module if isinstance(made, nn.DataParallel) else made  # which moves samples to GPUs, and not its module
    assert_same_results(getattr(made, "_orig_mod", made), network, samples(50, 12), 1e-4)


def test_normalization_is_folded_as_described():
    torch.manual_seed(1)
    made = statistics(block())
    linear, norm = made[0], made[1]
    factor = (norm.weight.double() / torch.sqrt(norm.running_var.double() + norm.eps)).detach().numpy()
    layer = varve.Network.from_torch(made).layer(0)
    np.testing.assert_allclose(layer.weights.toarray(), factor[:, None] * linear.weight.detach().double().numpy(), rtol=1e-14)
    bias = factor * linear.bias.detach().double().numpy() + (norm.bias.detach().double().numpy() - factor * norm.running_mean.double().numpy())
    np.testing.assert_allclose(layer.bias, bias, rtol=1e-14)


@pytest.mark.parametrize(
    "end, name", [(nn.Softmax(1), "Softmax"), (nn.LogSoftmax(-1), "LogSoftmax"), (nn.Flatten(), None)]
)
def test_the_end_is_left_out_and_said(end, name):
    made = nn.Sequential(*block(), end)
    with pytest.warns(UserWarning, match=f"Sequential ends with {name}, left out") if name else contextlib.nullcontext():
        network = varve.Network.from_torch(made)
    assert_same_results(made[:4], network, samples(50, 12))


def test_stored_zeros_of_sparse_weights_are_edges():
    made = nn.Linear(4, 3)
    made.weight = nn.Parameter(torch.sparse_csr_tensor([0, 1, 2, 4], [0, 1, 2, 3], [1.0, 0.0, 2.0, 0.0], (3, 4)))
    assert varve.Network.from_torch(made).num_edges == 4


def test_state_dicts():
    made = nn.Sequential(nn.Linear(12, 20), nn.ReLU(), nn.Linear(20, 9, bias=False))
    plain = varve.Network.from_torch(made)
    for module in (made, torch.compile(made), nn.DataParallel(made)):
        network = varve.Network.from_torch(module.state_dict(), activation=["relu", "identity"])
        assert network.weights_hash() == plain.weights_hash()
    prune.random_unstructured(made[0], "weight", 0.5)
    network = varve.Network.from_torch(made.state_dict(), activation=["relu", "identity"])
    assert network.weights_hash() == varve.Network.from_torch(made).weights_hash() and network.num_edges == 120 + 180
    with pytest.raises(varve.UsageError, match=r"does not say activations: give activation, one for all layers or a list of 2, for 0.weight, 2.weight"):
        varve.Network.from_torch(made.state_dict())
    with pytest.raises(varve.InputError, match=r"found 1.weight \(20,\) in the state_dict, .* load the state_dict into its module"):
        varve.Network.from_torch(block().state_dict(), activation="relu")
    with pytest.raises(varve.InputError, match=r"2.weight has weights of the shape \(9, 20\), expected \(outputs, 3\)"):
        varve.Network.from_torch({"0.weight": torch.ones(3, 4), "2.weight": torch.ones(9, 20)}, activation="relu")
    with pytest.raises(varve.UsageError, match="activation is for a state_dict"):
        varve.Network.from_torch(made, activation="relu")


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("sparse", [False, True])
def test_networks_go_to_torch_and_back(dtype, sparse):
    generator = np.random.default_rng(1)
    weights = [generator.standard_normal((12, 12)).astype(dtype) * (generator.random((12, 12)) < 0.4) for _ in range(7)]
    biases = [0.25, *(generator.standard_normal(12).astype(dtype) for _ in range(6))]
    activations = ["relu", varve.Activation.leaky_relu(0.1), varve.Activation.clipped_relu(0.7), "sigmoid", "softplus", "tanh", "identity"]
    network = varve.Network.from_scipy(weights, biases, activations)
    made = network.to_torch(sparse=sparse)
    kind = torch.float32 if dtype == np.float32 else torch.float64
    assert all(parameter.dtype == kind and parameter.requires_grad for parameter in made.parameters())
    again = varve.Network.from_torch(made)
    for one, other in zip(network.layers(), again.layers()):
        np.testing.assert_array_equal(one.weights.toarray(), other.weights.toarray())
        np.testing.assert_array_equal(*np.broadcast_arrays(one.bias, other.bias))
        assert one.activation == other.activation
    X = torch.tensor(generator.standard_normal((20, 12)), dtype=kind)
    np.testing.assert_allclose(network.infer(X, precision=np.dtype(dtype).name), made(X).detach().numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype, threshold", [(torch.float32, 20.0), (torch.float64, 40.0), (torch.float64, 34.0)])
def test_softplus_is_exact_beyond_its_threshold(dtype, threshold):
    made = nn.Sequential(nn.Linear(1, 1, bias=False), nn.Softplus(threshold=threshold)).to(dtype)
    with torch.no_grad():
        made[0].weight.fill_(1)
    X = np.concatenate([np.linspace(-130, 130, 501), [0.0, 19.999, 20.0, 20.001, 1e30, -1e30]]).reshape(-1, 1)
    network = varve.Network.from_torch(made)
    assert network.layer(0).activation == varve.Activation("softplus")
    found = network.infer(X, precision=str(dtype).partition(".")[2])
    expected = made(torch.tensor(X, dtype=dtype)).detach().numpy()
    np.testing.assert_allclose(found, expected, rtol=4 * torch.finfo(dtype).eps, atol=2e-45)


def test_softplus_may_be_a_function():
    class Soft(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(6, 4)

        def forward(self, x):
            return nn.functional.softplus(self.fc(x), beta=1, threshold=25)

    made = Soft()
    assert_same_results(made, varve.Network.from_torch(made), samples(50, 6))


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
        (lambda: nn.Sequential(nn.Linear(3, 3), Squared()), r"mul \(mul\) takes samples twice"),
        (lambda: nn.Sequential(nn.Linear(3, 3), with_hook(nn.Linear(3, 3), double_it)), r"1 \(Linear\) gives .* but the layer read of it gives"),
        (lambda: nn.Sequential(nn.Linear(3, 3), with_hook(nn.ReLU(), double_it)), r"1 \(ReLU\) gives"),
        (lambda: nn.Sequential(with_own_forward(nn.Linear(3, 3)), nn.ReLU()), r"0 \(Linear\) gives|1 \(ReLU\) gives"),
        (lambda: nn.Sequential(nn.Linear(3, 3), with_pre_hook(nn.Linear(3, 3), add_one)), r"1 \(Linear\) gives"),
        (lambda: nn.Sequential(with_hook(nn.Flatten(), double_it), nn.Linear(3, 3)), r"0 \(Flatten\) changes its input"),
        (lambda: with_hook(nn.Linear(3, 3), lambda *found: 1 / 0), "Linear cannot run a random batch, .*: division by zero"),
        (lambda: torch.ao.nn.qat.Linear(3, 3, qconfig=torch.ao.quantization.default_qconfig), "found Linear of torch.ao.nn"),
    ],
)
def test_what_computes_something_else_is_refused_by_its_place(make, sentence):
    with pytest.raises(varve.InputError, match=sentence):
        varve.Network.from_torch(make())


def test_an_import_changes_nothing_but_runs_the_hooks():
    made, runs = model(), []
    made.train()
    made._modules["2"].eval()
    made._modules["1"].register_forward_hook(lambda *found: runs.append(found[0].training))
    before = [module.training for module in made.modules()]
    hooks = [len(module._forward_hooks) for module in made.modules()]
    state = torch.get_rng_state().tolist()
    varve.Network.from_torch(made)
    assert runs == [False, False] and [module.training for module in made.modules()] == before
    assert hooks == [len(module._forward_hooks) for module in made.modules()]
    assert torch.get_rng_state().tolist() == state


@pytest.mark.parametrize("kind", ["float64", "float32", "float16", "bfloat16"])
def test_types_of_modules(kind):
    made = nn.Sequential(nn.Linear(200, 300), nn.Tanh(), nn.Linear(300, 5)).to(getattr(torch, kind))
    network = varve.Network.from_torch(made)
    np.testing.assert_array_equal(network.layer(1).weights.toarray(), np.array(made[2].weight.tolist()))


def test_deep_modules_are_compared_layer_by_layer():
    """Roundings of 300 layers would hide a difference at the end."""
    layers = [part for _ in range(300) for part in (nn.Linear(16, 16), nn.LeakyReLU(0.9))]
    assert varve.Network.from_torch(nn.Sequential(*layers)).num_layers == 300
    layers[2 * 299].register_forward_hook(lambda part, given, result: result * 1.0001)
    with pytest.raises(varve.InputError, match=r"599 \(LeakyReLU\) gives|598 \(Linear\) gives"):
        varve.Network.from_torch(nn.Sequential(*layers))


def test_pruned_weights_are_no_edges():
    linear = nn.Linear(10, 10)
    with torch.no_grad():
        linear.weight[::2] = 0
    assert varve.Network.from_torch(linear).num_edges == 50


@pytest.mark.parametrize(
    "wrong, sentence",
    [
        (lambda: nn.Sequential(nn.Linear(2, 2), nn.GELU()), r"found 1 \(GELU\), expected a chain of Linear .*; give the part of the module"),
        (lambda: nn.Sequential(nn.Linear(2, 2), nn.Softmax(1), nn.Linear(2, 2)), r"2 \(Linear\) comes behind Softmax, which stands at the end only"),
        (lambda: nn.Sequential(nn.Linear(2, 2), nn.Softmax(0)), r"1 \(Softmax\) has the dimension 0, expected 1 or -1"),
        (lambda: nn.Sequential(nn.Linear(2, 2), nn.PReLU(2)), r"1 \(PReLU\) has 2 slopes, expected one"),
        (lambda: nn.Sequential(nn.Linear(2, 2), nn.LeakyReLU(-1)), r"1 \(LeakyReLU\) has the slope -1.0, expected 0 or more"),
        (lambda: nn.Sequential(nn.Linear(2, 2), nn.Softplus(2)), r"1 \(Softplus\) has the beta 2, expected 1"),
        (lambda: nn.Sequential(nn.Linear(2, 2), nn.Softplus(1, 5)), r"1 \(Softplus\) takes x for log\(1 \+ exp\(x\)\) from the threshold 5 on"),
        (lambda: nn.Sequential(nn.Linear(2, 2), nn.Softplus()).double(), "from the threshold 20 on, where they differ: set it to 40"),
        (lambda: nn.Sequential(nn.Dropout()), "found no Linear in Sequential"),
        (lambda: nn.Sequential(nn.Linear(2, 3), nn.Linear(2, 2)), "Sequential cannot run a random batch"),
        (lambda: nn.Sequential(nn.Conv1d(1, 1, 1), nn.Linear(2, 2)), r"found 0 \(Conv1d\), expected"),
        (lambda: nn.Sequential(nn.LazyLinear(2)), "0.weight has no numbers yet"),
        (lambda: nn.Linear(2, 2, device="meta"), "weight has no numbers yet"),
        (lambda: torch.jit.script(nn.Linear(2, 2)), "of torch.jit, expected the module that it was made of"),
        (lambda: Residual(), r"add .* takes another value than that of fc \(Linear\)"),
        (lambda: Conditional(), "torch.fx cannot trace Conditional: .*; give the part of it that is a chain"),
        (lambda: Two(), "torch.fx cannot trace Two: .* missing 1 required positional argument"),
        (lambda: "a module", "found str, expected a module of torch or its state_dict"),
    ],
)
def test_modules_that_varve_lacks_are_refused_by_a_sentence(wrong, sentence):
    with pytest.raises(varve.InputError, match=sentence):
        varve.Network.from_torch(wrong())


@pytest.mark.parametrize("name", ["GELU", "SiLU", "ELU", "Softsign", "Mish"])
def test_activations_that_varve_lacks_are_refused_with_those_that_it_has(name):
    with pytest.raises(varve.InputError, match=rf"found 1 \({name}\), expected a chain of .* ReLU, ReLU6, LeakyReLU"):
        varve.Network.from_torch(nn.Sequential(nn.Linear(3, 3), getattr(nn, name)(), nn.Linear(3, 3)))


@pytest.mark.parametrize("layer", [nn.LeakyReLU(0.0), nn.LeakyReLU(1.0), nn.LeakyReLU(2.0), nn.Hardtanh(-1, 1)])
def test_slopes_and_limits_beyond_those_of_varve_are_folded(layer):
    made = nn.Sequential(nn.Linear(12, 9), layer, nn.Linear(9, 3))
    assert_same_results(made, varve.Network.from_torch(made), samples(20, 12))


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


@pytest.mark.parametrize("num_samples", [5, 100])
def test_sparse_tensors_are_samples_and_weights(num_samples):
    X = samples(num_samples, 12)
    X[np.abs(X) < 0.8] = 0
    network = varve.Network.from_scipy([samples(7, 12)], activation="identity")
    expected, labels = network.infer(X), np.arange(num_samples) % 7
    tensor = torch.from_numpy(X)
    forms = (tensor, tensor.to_sparse(), tensor.to_sparse_csr(), tensor.to_sparse_csc(), tensor.to_sparse().double(), tensor.requires_grad_())
    for form in forms:
        np.testing.assert_array_equal(network.infer(form), expected)
        assert network.evaluate(form, torch.from_numpy(labels)).loss == network.evaluate(X, labels).loss
        trained = varve.train(network, form, torch.from_numpy(labels), epochs=2)
        assert trained.network == varve.train(network, X, labels, epochs=2).network
        made = varve.Network.from_scipy([form], activation="identity")
        np.testing.assert_array_equal(made[0].weights.toarray(), X)
    stored = torch.sparse_coo_tensor([[0, 0, 1], [1, 1, 0]], [1.0, 2.0, 0.0], (2, 12))  # one twice, and a stored zero
    assert varve.Network.from_scipy([stored]).num_edges == 2
    np.testing.assert_array_equal(network.infer(stored), network.infer(stored.to_dense()))


def test_brain_floats_are_samples():
    network, X = varve.Network.from_scipy([samples(7, 12)], activation="identity"), torch.from_numpy(samples(100, 12)).bfloat16()
    np.testing.assert_array_equal(network.infer(X), network.infer(X.float()))
    np.testing.assert_array_equal(network.infer(X[:2]), network.infer(X[:2].float()))
    np.testing.assert_array_equal(network.infer(X[:2].to_sparse()), network.infer(X[:2].float()))
    assert varve.Network.from_scipy([X[:3]])[0].weights.toarray().tolist() == X[:3].tolist()
    with pytest.raises(varve.InputError, match="X is a tensor on the device meta, which has no numbers"):
        network.infer(X.to("meta"))


@pytest.mark.parametrize(
    "loss, criterion",
    [
        ({"loss": "logistic"}, nn.BCEWithLogitsLoss()),
        ({"loss": "huber", "delta": 0.3}, nn.HuberLoss(delta=0.3)),
        ({"loss": "mean-square"}, nn.MSELoss()),
        ({"loss": "cross-entropy"}, nn.CrossEntropyLoss()),
    ],
)
def test_losses_and_gradients_are_those_of_torch(loss, criterion):
    generator = np.random.default_rng(3)
    X, labels = generator.standard_normal((50, 12)), generator.integers(5, size=50)
    has_labels = loss["loss"] == "cross-entropy"
    answers = {"labels": labels} if has_labels else {"targets": generator.random((50, 5)).round(1)}
    module = nn.Sequential(nn.Linear(12, 9), nn.Tanh(), nn.Linear(9, 5)).double()
    start = varve.Network.from_torch(module)
    found = criterion(module(torch.from_numpy(X)), torch.from_numpy(next(iter(answers.values()))))
    found.backward()
    assert start.evaluate(X, **answers, **loss, precision="float64").loss == pytest.approx(found.item(), rel=1e-12)
    training = varve.Training(start, **loss, optimizer="sgd", precision="float64")
    assert training.step(X, **answers, rate=1.0).loss == pytest.approx(found.item(), rel=1e-12)
    for before, after, linear in zip(start, training.network, (module[0], module[2])):
        np.testing.assert_allclose((before.weights - after.weights).toarray(), linear.weight.grad.numpy(), rtol=0, atol=1e-12)
        np.testing.assert_allclose(before.bias - after.bias, linear.bias.grad.numpy(), rtol=0, atol=1e-12)


def test_batches_of_a_loader_are_steps():
    from torch.utils.data import DataLoader, TensorDataset

    X, labels = samples(90, 12), np.arange(90) % 3
    start = varve.generate.random([12, 20, 3], density=0.5).with_initial_weights(activation="relu", last_activation="identity")
    by_loader, by_slices = varve.Training(start), varve.Training(start)
    loader = DataLoader(TensorDataset(torch.from_numpy(X), torch.from_numpy(labels)), batch_size=32)
    for _ in range(3):
        for batch, answers in loader:
            by_loader.step(batch, answers)
        for first in range(0, 90, 32):
            by_slices.step(X[first : first + 32], labels[first : first + 32])
    assert by_loader.network == by_slices.network and by_loader.num_steps == 9
    with pytest.raises(varve.UsageError, match="X is DataLoader, expected an array; Training.step takes batches one by one"):
        varve.train(start, loader)
