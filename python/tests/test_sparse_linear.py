"""Sparse layers for models of torch, compared with dense ones under masks."""

from __future__ import annotations

import copy
import io
import os
import pickle

import pytest
import torch
import varve
from torch import nn
from varve.torch import SparseLinear, erdos_renyi, prune_step, rigl_step, set_step, sparsify, watched


def seeded(seed=1):
    return torch.Generator().manual_seed(seed)


def layer_of(inputs=70, outputs=33, density=0.15, dtype=torch.float64, **options):
    made = SparseLinear(inputs, outputs, density, dtype=dtype, generator=seeded(), **options)
    return made


def gradients_of(layer, x, dy, parameters):
    for tensor in (x, *parameters):
        tensor.grad = None
    y = layer(x)
    y.backward(dy)
    return [y.detach(), x.grad, *(parameter.grad for parameter in parameters)]


@pytest.mark.parametrize("count", [1, 3, 31, 32, 33, 64, 65, 200, 1000])
@pytest.mark.parametrize("dtype, tolerance", [(torch.float64, 1e-12), (torch.float32, 1e-4)])
def test_results_and_gradients_are_those_of_a_dense_layer(count, dtype, tolerance):
    layer = layer_of(dtype=dtype)
    dense = layer.to_dense()
    x = torch.randn(count, 70, dtype=dtype, generator=seeded(2)).requires_grad_()
    dy = torch.randn(count, 33, dtype=dtype, generator=seeded(3))
    y, dx, dweight, dbias = gradients_of(layer, x, dy, [layer.weight, layer.bias])
    expected, dx0, dweight0, dbias0 = gradients_of(dense, x, dy, [dense.weight, dense.bias])
    for found, wanted in ((y, expected), (dx, dx0), (dweight, dweight0[layer.mask()]), (dbias, dbias0)):
        torch.testing.assert_close(found, wanted, rtol=tolerance, atol=tolerance)


def test_gradients_by_differences():
    layer = layer_of(9, 7, 0.4)
    x = torch.randn(5, 9, dtype=torch.float64, generator=seeded()).requires_grad_()
    arguments = (layer.weight, layer.bias, layer.rows, layer.columns, layer.input_rows, layer.outputs, layer.places)
    assert torch.autograd.gradcheck(torch.ops.varve.sparse_linear, (x, *arguments))
    torch.library.opcheck(torch.ops.varve.sparse_linear, (x, *arguments))


def test_shapes_and_layouts():
    layer = layer_of(12, 5, 0.5, bias=False)
    dense = layer.to_dense()
    for x in (torch.randn(12), torch.randn(2, 3, 12), torch.randn(12, 4).T, torch.randn(4, 24)[:, ::2], torch.randn(0, 12)):
        x = x.double()
        torch.testing.assert_close(layer(x), dense(x), rtol=1e-12, atol=1e-12)
    layer(torch.randn(0, 12).double().requires_grad_()).sum().backward()
    assert layer.weight.grad.count_nonzero() == 0
    assert layer(torch.randn(2, 12)).dtype == torch.float64
    with pytest.raises(varve.InputError, match=r"x has the shape \(3, 5\), expected \(..., 12\)"):
        layer(torch.randn(3, 5))
    with pytest.raises(varve.UsageError, match="expected both torch.float32"):
        layer.half()(torch.randn(3, 12).half())
    with pytest.raises((varve.UsageError, NotImplementedError)):
        layer_of(device="meta")(torch.randn(3, 70))


def test_no_bit_depends_on_the_samples_beside_and_nan_is_seen():
    layer = layer_of(dtype=torch.float32)
    x = torch.randn(130, 70, generator=seeded())
    assert torch.equal(layer(x)[100:101], layer(x[100:101]))
    x[3] = float("nan")
    assert layer(x)[3].isinf().any() and not layer(x)[4].isinf().any()


def test_layers_from_others():
    dense = nn.Linear(40, 30)
    layer = SparseLinear.from_linear(dense, 0.05)
    assert layer.num_edges == 60 and layer.density == 0.05
    kept = dense.weight.abs() >= dense.weight.abs().flatten().topk(60).values[-1]
    assert torch.equal(layer.mask(), kept) and torch.equal(layer.dense_weight(), dense.weight * kept)
    assert torch.equal(layer.to_dense().weight, dense.weight * kept) and torch.equal(layer.bias, dense.bias)
    assert torch.equal(SparseLinear.from_mask(kept, dense.weight, dense.bias).weight, layer.weight)
    assert "edges=60, density=0.05" in repr(layer)
    network = varve.Network.from_torch(nn.Sequential(layer, nn.ReLU()))
    assert network.num_edges == 60
    for wrong in (0, 1.5):
        with pytest.raises(varve.UsageError, match=f"density is {wrong}"):
            SparseLinear(4, 4, wrong)
    with pytest.raises(varve.InputError, match="expected .outputs, inputs. twice"):
        SparseLinear.from_mask(torch.ones(3, 4), torch.ones(4, 3))
    with pytest.raises(varve.InputError, match="the mask has no edge"):
        SparseLinear.from_mask(torch.zeros(3, 4), torch.ones(3, 4))


def model_of(dtype=torch.float32):
    torch.manual_seed(1)
    return sparsify(nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 5)), 0.2).to(dtype)


def test_models():
    made = model_of()
    layers = [made[0], made[2], made[4]]
    assert all(isinstance(layer, SparseLinear) for layer in layers)
    places = 20 * 64 + 64 * 64 + 64 * 5
    assert abs(sum(layer.num_edges for layer in layers) - 0.2 * places) < 3
    found = erdos_renyi([(64, 20), (64, 64), (5, 64)], 0.2)
    assert [layer.density for layer in layers] == pytest.approx(found, rel=1e-2)
    assert found[0] / found[1] == pytest.approx((84 / 1280) / (128 / 4096))
    assert erdos_renyi([(1000, 1000), (2, 2)], 0.1)[1] == 1
    uniform = sparsify(nn.ModuleDict({"a": nn.Linear(10, 10), "b": nn.Linear(10, 10)}), 0.3, distribution="uniform", skip=("b",))
    assert uniform["a"].num_edges == 30 and type(uniform["b"]) is nn.Linear
    assert isinstance(sparsify(nn.Linear(4, 4)), SparseLinear)
    shared = nn.Linear(6, 6)
    tied = sparsify(nn.Sequential(shared, nn.ReLU(), shared), 0.5)
    assert tied[0] is tied[2]
    with pytest.raises(varve.UsageError, match="has no torch.nn.Linear"):
        sparsify(nn.ReLU())


def test_states_copies_and_pickles():
    made, x = model_of(), torch.randn(9, 20)
    for copied in (copy.deepcopy(made), pickle.loads(pickle.dumps(made))):
        assert torch.equal(copied(x), made(x))
    file = io.BytesIO()
    torch.save(made.state_dict(), file)
    file.seek(0)
    other = model_of()
    set_step(other, fraction=0.5, generator=seeded())
    other.load_state_dict(torch.load(file))
    assert torch.equal(other(x), made(x)) and torch.equal(other[2].mask(), made[2].mask())
    y = other(x)
    y.sum().backward()
    made(x).sum().backward()
    assert torch.equal(other[2].weight.grad, made[2].weight.grad)
    fewer = SparseLinear(20, 64, 0.01)
    fewer.load_state_dict(made[0].state_dict())  # another number of edges
    assert torch.equal(fewer(x), made[0](x))
    broken = dict(made[0].state_dict())
    broken["columns"] = broken["columns"] + 20
    with pytest.raises(varve.InputError, match="are not a pattern of 20 inputs"):
        fewer.load_state_dict(broken)


@pytest.mark.parametrize("make", [torch.optim.SGD, torch.optim.Adam, torch.optim.RMSprop, torch.optim.AdamW])
def test_optimizers_make_the_steps_of_a_dense_layer_under_a_mask(make):
    layer = layer_of(20, 10, 0.3)
    dense, mask = layer.to_dense(), layer.mask()
    optimizers = [make(part.parameters(), lr=0.01) for part in (layer, dense)]
    x, wanted = torch.randn(50, 20).double(), torch.randn(50, 10).double()
    for _ in range(5):
        for part, optimizer in zip((layer, dense), optimizers):
            optimizer.zero_grad()
            nn.functional.mse_loss(part(x), wanted).backward()
            if part is dense:
                dense.weight.grad *= mask
            optimizer.step()
    torch.testing.assert_close(layer.dense_weight(), dense.weight.detach() * mask, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("way", ["set", "rigl"])
def test_moments_move_with_their_edges(way):
    made = model_of()
    optimizer = torch.optim.Adam(made.parameters(), lr=0.01)
    x, labels = torch.randn(100, 20), torch.randint(5, (100,))

    def step():
        optimizer.zero_grad()
        nn.functional.cross_entropy(made(x), labels).backward()
        optimizer.step()

    step()
    layer = made[2]
    before = {int(place): numbers for place, *numbers in zip(layer.flat_places(), layer.weight.tolist(), optimizer.state[layer.weight]["exp_avg"].tolist())}
    smallest = sorted(before, key=lambda place: abs(before[place][0]))[: int(0.3 * layer.num_edges)]
    if way == "set":
        moved = set_step(made, optimizer, 0.3, seeded())
    else:
        with pytest.raises(varve.UsageError, match="run a backward pass within varve.torch.watched"):
            rigl_step(made, optimizer)
        with watched(made):
            optimizer.zero_grad()
            nn.functional.cross_entropy(made(x), labels).backward()
        gradient = layer._gradient
        dense = copy.deepcopy(made)
        dense[2] = layer.to_dense()
        nn.functional.cross_entropy(dense(x), labels).backward()
        torch.testing.assert_close(gradient, dense[2].weight.grad, rtol=1e-4, atol=1e-6)
        moved = rigl_step(made, optimizer, 0.3)
    assert moved == sum(min(int(0.3 * part.num_edges), part.mask().numel() - part.num_edges) for part in (made[0], made[2], made[4]))
    state = optimizer.state[layer.weight]["exp_avg"]
    after = {int(place): numbers for place, *numbers in zip(layer.flat_places(), layer.weight.tolist(), state.tolist())}
    assert len(after) == len(before)
    assert all(after[place] == before[place] for place in before if place not in smallest)
    grown = [place for place in after if place not in before or place in smallest]
    assert len(grown) == len(smallest) and all(after[place] == [0, 0] for place in grown)
    if way == "rigl":
        sizes = gradient.abs().flatten()
        left_out = set(range(64 * 64)) - set(after)
        assert min(sizes[place] for place in grown) >= max(sizes[place] for place in left_out) - 1e-12
    y = made(x)
    torch.testing.assert_close(y, nn.Sequential(*(part.to_dense() if isinstance(part, SparseLinear) else part for part in made))(x), rtol=1e-4, atol=1e-5)
    step()


@pytest.mark.parametrize("make", [torch.optim.SGD, torch.optim.Adam])
def test_gradual_pruning_keeps_the_largest_weights_with_their_moments(make):
    torch.manual_seed(1)
    model = sparsify(nn.Sequential(nn.Linear(20, 30), nn.ReLU(), nn.Linear(30, 10)), density=0.5)
    optimizer = make(model.parameters(), lr=0.01, **({"momentum": 0.9} if make is torch.optim.SGD else {}))
    x, counts = torch.randn(40, 20), []
    for density in (0.5, 0.4, 0.25, 0.3, 0.1):
        for _ in range(2):
            optimizer.zero_grad()
            model(x).square().sum().backward()
            optimizer.step()
        before = [(layer.dense_weight().detach(), [kept.clone() for kept in optimizer.state[layer.weight].values() if kept.ndim], layer.flat_places()) for layer in (model[0], model[2])]
        counts.append(prune_step(model, optimizer, density=density))
        for layer, (weights, moments, places) in zip((model[0], model[2]), before):
            kept = weights.abs().reshape(-1)[layer.flat_places()]
            assert layer.num_edges == layer.weight.numel() and kept.min() >= weights.abs().reshape(-1).topk(layer.num_edges).values.min()
            torch.testing.assert_close(layer.dense_weight(), torch.where(layer.mask(), weights, 0.0))
            stays = torch.isin(places, layer.flat_places())
            now = [number for number in optimizer.state[layer.weight].values() if number.ndim]
            assert len(now) == len(moments) > 0 and all(torch.equal(number, old[stays]) for number, old in zip(now, moments))
    assert counts == [0, 90, 135, 0, 135] and sum(layer.num_edges for layer in (model[0], model[2])) == 90
    with pytest.raises(varve.UsageError, match="density is 0, expected"):
        prune_step(model, density=0)


def test_edges_that_do_not_fit_are_refused():
    layer = layer_of(6, 6, 0.5)
    before = layer.dense_weight()
    for dropped, grown in (([0], [int(layer.flat_places()[1])]), ([0, 1], [int((~layer.mask()).flatten().nonzero()[0])]), ([0], [36])):
        with pytest.raises(varve.InputError, match="cannot go to these"):
            layer.move_edges(torch.tensor(dropped), torch.tensor(grown))
    assert torch.equal(layer.dense_weight(), before)


def test_training_learns():
    made = model_of()
    optimizer = torch.optim.Adam(made.parameters(), lr=0.01)
    x = torch.randn(400, 20, generator=seeded())
    labels = x[:, :5].argmax(1)
    for number in range(150):
        with watched(made):
            optimizer.zero_grad()
            nn.functional.cross_entropy(made(x), labels).backward()
        optimizer.step()
        if number % 30 == 29 and number < 100:
            rigl_step(made, optimizer, 0.2)
    assert (made(x).argmax(1) == labels).float().mean() > 0.9


def test_compiled_models_trace_over_the_operator():
    made, x = model_of(), torch.randn(9, 20)
    compiled = torch.compile(made, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(compiled(x), made(x), rtol=0, atol=0)
    compiled(x).sum().backward()
    found = made[2].weight.grad.clone()
    made.zero_grad()
    made(x).sum().backward()
    torch.testing.assert_close(found, made[2].weight.grad)
    exported = torch.export.export(made, (x,))
    assert sum("varve.sparse_linear" in str(node.target) for node in exported.graph.nodes) == 3


def test_what_traces_or_transforms_sees_the_operator():
    layer, x = SparseLinear(20, 9, 0.3, generator=seeded()), torch.randn(5, 20, generator=seeded())
    traced = torch.fx.experimental.proxy_tensor.make_fx(layer, tracing_mode="real")(x)
    another = torch.randn(5, 20, generator=seeded())
    assert torch.equal(traced(another), layer(another))
    with torch._subclasses.FakeTensorMode(allow_non_fake_inputs=True):
        assert layer(torch.empty(3, 20)).shape == (3, 9)
    assert layer.to("meta")(torch.empty(7, 20, device="meta")).shape == (7, 9)


def test_gradients_of_gradients_are_refused():
    layer, x = SparseLinear(20, 9, 0.3), torch.randn(5, 20, requires_grad=True)
    (gradient,) = torch.autograd.grad(layer(x).square().sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        gradient.sum().backward()


def test_distributed_data_parallel(tmp_path):
    if not torch.distributed.is_available():
        pytest.fail("this torch has no torch.distributed")
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    try:
        made, x = model_of(), torch.randn(9, 20)
        nn.parallel.DistributedDataParallel(made)(x).sum().backward()
        assert made[2].weight.grad.abs().sum() > 0
    finally:
        torch.distributed.destroy_process_group()
