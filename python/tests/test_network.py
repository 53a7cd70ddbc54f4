"""Where networks come from and what they become."""

from __future__ import annotations

import copy
import pickle
import sys
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
import varve
from conftest import HOST, MIXED, WIDTHS, random_layers


def same(one, other):
    for first, second in zip(one.layers(), other.layers()):
        np.testing.assert_array_equal(first.weights.toarray(), second.weights.toarray())
        np.testing.assert_array_equal(np.broadcast_to(first.bias, second.bias.shape), second.bias)
        assert first.activation == second.activation
    assert one.num_layers == other.num_layers


def test_layers_are_those_given():
    weights, biases, activations = random_layers(MIXED)
    network = varve.Network.from_scipy(weights, biases, activations, name="mine")
    assert (network.num_layers, network.num_inputs, network.num_outputs) == (4, 70, 5)
    assert network.num_edges == sum(matrix.nnz for matrix in weights)
    assert network.name == "mine" and "4 layers" in repr(network)
    for layer, matrix, bias, activation in zip(network.layers(), weights, biases, activations):
        np.testing.assert_array_equal(layer.weights.toarray(), matrix.toarray())
        np.testing.assert_array_equal(layer.bias, bias)
        assert layer.activation in (activation, varve.Activation(activation) if isinstance(activation, str) else None)
    assert network.layer(-1).weights.shape == (5, 33)


@pytest.mark.parametrize("form", [sp.csc_matrix, sp.coo_array, lambda matrix: matrix.toarray(), sp.bsr_array])
def test_forms_of_weights(form):
    weights, biases, activations = random_layers(MIXED)
    same(
        varve.Network.from_scipy([form(matrix) for matrix in weights], biases, activations),
        varve.Network.from_scipy(weights, biases, activations),
    )


def test_transposed_weights():
    weights, biases, activations = random_layers(MIXED)
    for form in (lambda matrix: matrix.T, lambda matrix: matrix.T.toarray()):
        same(
            varve.Network.from_scipy([form(matrix) for matrix in weights], biases, activations, transposed=True),
            varve.Network.from_scipy(weights, biases, activations),
        )
    with pytest.raises(varve.InputError, match=r"layer 1 has weights of the shape \(130, 64\), expected .* with transposed=True"):
        varve.Network.from_scipy([matrix.T for matrix in weights])
    with pytest.raises(varve.InputError, match="without transposed=True"):
        varve.Network.from_scipy(weights, transposed=True)


def test_square_weights_that_look_transposed():
    generator = np.random.default_rng(1)
    matrix = np.zeros((50, 50))
    for output in range(50):
        matrix[output, generator.choice(50, 6, replace=False)] = 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        varve.Network.from_scipy([sp.csr_array(matrix)] * 2)
        varve.Network.from_scipy([sp.csr_array(matrix.T)], transposed=True)
    with pytest.warns(UserWarning, match="layer 1 looks transposed: every column has 6 weights, but rows have 2 to"):
        varve.Network.from_scipy([sp.csr_array(matrix), sp.csr_array(matrix.T)])


def test_stored_zeros_are_edges_of_sparse_matrices_only():
    matrix = sp.csr_array(([0.0, 1.0], [0, 1], [0, 2]), shape=(1, 2))
    assert varve.Network.from_scipy([matrix]).num_edges == 2
    assert varve.Network.from_scipy([matrix.toarray()]).num_edges == 1


def test_one_bias_for_all():
    weights, _, _ = random_layers(MIXED)
    same(varve.Network.from_scipy(weights, 0.5), varve.Network.from_scipy(weights, [np.full(m.shape[0], 0.5) for m in weights]))


def test_pickles_and_copies(network):
    for other in (pickle.loads(pickle.dumps(network)), copy.deepcopy(network)):
        same(network, other)
        assert other.weights_hash() == network.weights_hash() and other.name == network.name


@pytest.mark.parametrize("name", ["network.safetensors", "folder.tsv", "folder.tsv.gz"])
def test_files(tmp_path, name):
    network = varve.generate.radixnet(64, 7)
    path = tmp_path / name
    network.save(path)
    again = varve.Network.from_file(path, bias=float(network.layer(0).bias[0]) if "tsv" in name else None)
    same(network, again)
    assert again.num_layers == 7


def test_file_of_mixed_layers(tmp_path, network):
    network.save(tmp_path / "mixed.safetensors")
    same(network, varve.Network.from_file(tmp_path / "mixed.safetensors"))


def test_reduce_merges_equal_neurons(X):
    weights, biases, _ = random_layers(MIXED)
    weights[1] = sp.csr_array(sp.vstack([weights[1][[3] * 60], weights[1][60:]]))
    biases[1][:60] = biases[1][3]
    network = varve.Network.from_scipy(weights, biases)
    small = network.reduce()
    assert small.layer(1).weights.shape[0] <= 5 and small.num_outputs == network.num_outputs
    np.testing.assert_allclose(small.infer(X), network.infer(X, reductions="none"), rtol=1e-5, atol=1e-5)
    assert network.reduce(merge_neurons=False, fold_constants=False, drop_unread=False).num_edges == network.num_edges


def test_prune_keeps_the_largest_weights():
    matrix = np.arange(1, 101, dtype=float).reshape(10, 10) * np.where(np.arange(100) % 2, 1, -1).reshape(10, 10)
    network = varve.Network.from_scipy([matrix, matrix / 1000])
    kept = network.prune(0.3).layer(0).weights.toarray()
    np.testing.assert_array_equal(kept, np.where(np.abs(matrix) > 70, matrix, 0))
    assert [layer.weights.nnz for layer in network.prune(0.3, scope="network").layers()] == [60, 0]


def test_initial_weights():
    pattern = varve.generate.random([32, 32, 32, 4], density=0.5)
    start = pattern.with_initial_weights(activation=varve.Activation.leaky_relu(0.2), last_activation="identity", seed=3)
    assert start.num_edges == pattern.num_edges and start.layer(0).activation == varve.Activation("leaky_relu", 0.2)
    assert start.layer(-1).activation.name == "identity" and not start.layer(0).bias.any()
    deep = pattern.with_initial_weights("identity", activation="relu")
    np.testing.assert_array_equal(deep.layer(0).weights.toarray().diagonal(), np.ones(32))


def test_generators_take_seeds_of_64_bits():
    seeds = (1, 2**63 - 1, 2**63, 2**64 - 1)
    assert len({varve.generate.random([30, 20], degree=5, seed=seed).weights_hash() for seed in seeds}) == 4
    assert len({varve.generate.samples(32, 5, seed=seed).data.tobytes() for seed in seeds}) == 4
    with pytest.raises(varve.UsageError, match=r"seed is 18446744073709551616, expected at least 0 and less than 2\*\*64"):
        varve.generate.images(32, 5, seed=2**64)


def test_generators():
    network = varve.generate.random([30, 20, 10], degree=5, weight=0.25, bias=(0.1, 0.1), cap=3.0, seed=4)
    layer = network.layer(0)
    assert set(np.diff(layer.weights.indptr)) == {5} and set(layer.weights.data) == {0.25}
    assert layer.bias.tolist() == [0.1] and layer.activation == varve.Activation.clipped_relu(3.0)
    challenge = varve.generate.radixnet(1024, 2)
    assert set(np.diff(challenge.layer(1).weights.indptr)) == {32} and challenge.layer(1).bias.tolist() == [-0.3]
    images = varve.generate.images(1024, 50)
    assert images.shape == (50, 1024) and set(images.data) == {1.0} and images.nnz > 1000
    samples = varve.generate.samples(40, 500, density=0.25)
    assert samples.shape == (500, 40) and abs(samples.nnz / 20000 - 0.25) < 0.02 and samples.data.max() <= 1


@pytest.mark.parametrize(
    "make, sentence",
    [
        (lambda: varve.Network.from_scipy([]), "needs at least one layer"),
        (lambda: varve.Network.from_scipy(sp.eye(3).tocsr()), "expected a list of matrices"),
        (lambda: varve.Network.from_scipy([np.ones(3)]), r"layer 0 has weights of the shape \(3,\)"),
        (lambda: varve.Network.from_scipy([np.ones((2, 3)) * 1j]), "layer 0 has the type complex128, expected real"),
        (lambda: varve.Network.from_scipy([np.full((2, 3), np.nan)]), "layer 0.*nan"),
        (lambda: varve.Network.from_scipy([np.ones((2, 3))], [np.ones(3)]), r"bias has the shape \(3,\), expected \(2,\)"),
        (lambda: varve.Network.from_scipy([np.ones((2, 3))], [1, 2]), "there are 2 biases, expected 1"),
        (lambda: varve.Network.from_scipy([np.ones((2, 3))], np.ones(2)), "the biases are one array, expected one number"),
        (lambda: varve.Network.from_scipy([np.ones((2, 3))], [np.inf]), "bias of output 0 is inf"),
        (lambda: varve.Network.from_scipy([np.ones((2, 3))], 0, "softmax"), "there is no activation 'softmax'"),
        (lambda: varve.Network.from_scipy([np.ones((2, 3))], 0, "leaky_relu"), "leaky_relu needs its slope"),
        (lambda: varve.Network.from_scipy([np.ones((2, 3))], 0, varve.Activation.leaky_relu(2)), "slope is 2, expected"),
        (lambda: varve.Network.from_scipy([np.ones((2, 3))], sp.csr_array((1, 2))), "the biases are one array, expected one number"),
        (lambda: varve.Network.from_scipy(None), "the weights are NoneType, expected a list of matrices"),
        (lambda: varve.Network.from_scipy("weights"), "the weights are str, expected a list of matrices"),
        (lambda: varve.Network.from_scipy([with_pointers(0, 5, 2)]), r"layer 0 has pointers \(indptr\) that are not ascending"),
        (lambda: varve.Network.from_scipy([np.ma.masked_less(np.eye(3), 1)]), r"layer 0 is a masked array, expected a number"),
        (lambda: varve.Activation.clipped_relu("1"), "the cap of the activation clipped_relu is '1', expected a number"),
        (lambda: varve.Network.from_file("missing.safetensors"), "missing.safetensors"),
        (lambda: varve.Network.from_file("a\0b.safetensors"), r"name of a file is 'a\\x00b.safetensors', expected UTF-8 without null"),
        (lambda: varve.Network.from_file(b"\xff.safetensors"), r"name of a file is '\\udcff.safetensors', expected UTF-8"),
        (lambda: varve.Network.from_file("missing.safetensors", neurons=-1), "neurons is -1, expected at least 0"),
        (lambda: varve.Network.from_torch(3), "found int, expected a module of torch"),
        (lambda: varve.Network.from_sklearn(3), "found int, expected an MLPClassifier"),
        (lambda: varve.Network(3), "networks are made by"),
        (lambda: varve.generate.radixnet(1000, 2), "power of two"),
        (lambda: varve.generate.radixnet(64, 2**70), r"layers is 1180591620717411303424, expected .* less than 2\*\*63"),
        (lambda: varve.generate.random([3]), "at least 1 layer"),
        (lambda: varve.generate.random([3, -2], degree=1), "a width is -2, expected at least 1"),
        (lambda: varve.generate.images(64, -1), "samples is -1, expected at least 0"),
        (lambda: varve.generate.radixnet(64, 2).prune(0.0), "density is 0, expected"),
        (lambda: varve.generate.radixnet(64, 2).prune(0.5, "row"), "no scope 'row'"),
        (lambda: varve.generate.radixnet(64, 2).with_initial_weights("zero"), "zero"),
        (lambda: varve.generate.radixnet(64, 2).save("x.txt"), "x.txt"),
    ],
)
def test_wrong_networks_are_refused_by_a_sentence(make, sentence):
    with pytest.raises((varve.InputError, varve.UsageError), match=sentence):
        make()


@pytest.mark.parametrize(
    "wrong, kind, sentence",
    [
        (lambda n, X: n.infer(X.T), varve.InputError, r"shape \(70, 203\), expected \(samples, 70\).*looks transposed"),
        (lambda n, X: n.infer(X[:, :9]), varve.InputError, r"shape \(203, 9\), expected \(samples, 70\), one row per sample$"),
        (lambda n, X: n.infer(X[0]), varve.InputError, r"one sample is X.reshape\(1, -1\)"),
        (lambda n, X: n.infer(X[None]), varve.InputError, r"shape \(1, 203, 70\)"),
        (lambda n, X: n.infer(sp.csr_array(X)[:, :9]), varve.InputError, r"shape \(203, 9\)"),
        (lambda n, X: n.infer(X.astype(str)), varve.InputError, "expected real numbers"),
        (lambda n, X: n.infer([[1, 2], [3]]), varve.InputError, "cannot be read as an array"),
        (lambda n, X: n.infer(with_value(X, np.nan)), varve.InputError, "sample 3 has the value nan at neuron 4, expected"),
        (lambda n, X: n.infer(sp.csr_array(with_value(X, np.inf))), varve.InputError, "sample 3 has the value inf at neuron 4"),
        (lambda n, X: n.infer(with_value(X, 1e39)), varve.InputError, "sample 3 has the value 1e\\+39 .*precision='float64'"),
        (lambda n, X: n.infer(np.ma.masked_less(X, 0)), varve.InputError, r"X is a masked array, expected a number in every place"),
        (lambda n, X: n.infer(np.ma.masked_less(X.astype("f4"), 0)), varve.InputError, "X is a masked array"),
        (lambda n, X: huge_weight(n).infer(X), varve.InputError, "1e\\+300, beyond .*; precision='float64' can hold it$"),
        (lambda n, X: n.infer(X, precision="half"), varve.UsageError, "precision is 'half', expected 'float32' or 'float64'"),
        (lambda n, X: n.infer(X, precision=float), varve.UsageError, "expected 'float32' or 'float64'"),
        (lambda n, X: n.infer(X, backend="fpga"), varve.UsageError, "no backend 'fpga'; it has:"),
        (lambda n, X: n.infer(X, reductions="most"), varve.UsageError, "no reduction 'most'"),
        (lambda n, X: n.infer(X, batch=0), varve.UsageError, "at least 1 sample"),
        (lambda n, X: n.infer(X, batch=-1), varve.UsageError, "batch is -1, expected at least 0$"),
        (lambda n, X: n.infer(X, batch=2.5), TypeError, "batch is 2.5, expected a whole number$"),
        (lambda n, X: n.infer(X, backend=3), TypeError, "backend is 3, expected a name$"),
        (lambda n, X: n.prune("x"), TypeError, "density is 'x', expected a number$"),
        (lambda n, X: n.prune(np.ones(2)), TypeError, "density is .*, expected a number$"),
        (lambda n, X: n.prune(0.5, None), TypeError, "scope is None, expected a name$"),
        (lambda n, X: n.verify(X, n.infer(X), tolerance="1"), TypeError, "tolerance is '1', expected a number$"),
        (lambda n, X: varve.generate.radixnet(64, 2, cap="high"), TypeError, "cap is 'high', expected a number$"),
        (lambda n, X: varve.generate.random([4, 4], density=[1]), TypeError, r"density is \[1\], expected a number$"),
        (lambda n, X: varve.generate.random([4, 4], degree=1, bias=0.5), TypeError, "bias is 0.5, expected the lowest and the"),
        (lambda n, X: varve.matmul(X, X, alpha=1j), TypeError, "alpha is 1j, expected a number$"),
        (lambda n, X: n.infer(X, memory_limit=-1), varve.UsageError, "memory_limit is -1, expected at least 0$"),
        (lambda n, X: n.infer(X, memory_limit=1, backend=HOST), varve.ResourceError, "GiB"),
        (lambda n, X: n.layer(4), IndexError, "no layer 4; the network has 4 layers"),
        (lambda n, X: n.verify(X, np.array([203])), varve.InputError, "names sample 203, but X holds samples 0 to 202"),
        (lambda n, X: n.verify(X, n.infer(X), tolerance=-1), varve.UsageError, "the tolerance is -1, expected"),
        (lambda n, X: n.verify(X, n.infer(X), tolerance=np.nan), varve.UsageError, "the tolerance is nan, expected"),
        (lambda n, X: n.verify(X, X), varve.InputError, r"expected \(203, 5\)"),
        (lambda n, X: n.evaluate(X, [5] * 203), varve.InputError, "sample 0 has the label 5, expected 0 to 4"),
        (lambda n, X: n.evaluate(X, [0.5] * 203), varve.InputError, "not whole numbers"),
        (lambda n, X: n.evaluate(X, [np.inf] * 203), varve.InputError, "labels are inf to inf, expected the index of an output"),
        (lambda n, X: n.evaluate(X, np.full(203, 2**64 - 1, np.uint64)), varve.InputError, "labels are 18446744073709551615 to"),
        (lambda n, X: n.evaluate(X, [0] * 203, top=0), varve.UsageError, "top is 0, expected at least 1$"),
        (lambda n, X: n.evaluate(X, targets=np.full((203, 5), np.nan)), varve.InputError, "targets hold the value nan, expected"),
        (lambda n, X: n.evaluate(X, targets=sp.csr_array(np.full((203, 5), np.inf))), varve.InputError, "targets hold the value inf"),
        (lambda n, X: n.evaluate(X, [1, 2]), varve.InputError, r"expected \(203,\), one label per sample"),
        (lambda n, X: n.evaluate(X), varve.UsageError, "needs labels or targets"),
    ],
)
def test_wrong_calls_are_refused_by_a_sentence(network, X, wrong, kind, sentence):
    with pytest.raises(kind, match=sentence):
        wrong(network, X)
    np.testing.assert_array_equal(network.infer(X), network.infer(X))


def with_pointers(*pointers):
    """A csr matrix [2, 3] with these pointers and two entries, which SciPy has not looked at."""
    matrix = sp.csr_array(([1.0, 1.0], [0, 1], [0, 1, 2]), shape=(2, 3))
    matrix.indptr = np.array(pointers, dtype=np.int32)
    return matrix


@pytest.mark.parametrize("pointers", [(0, 5, 2), (0, 1, 3), (1, 1, 2), (0, 2), (0, -1, 2)])
def test_pointers_out_of_range_are_refused_before_scipy_follows_them(pointers):
    with pytest.raises(varve.InputError, match=r"X has pointers \(indptr\) .* at most 2, .*, expected 3 such numbers"):
        varve.Network.from_scipy([np.ones((2, 3))]).infer(with_pointers(*pointers))


def change(matrix, **arrays):
    """Changes arrays of a csr matrix after SciPy has noted that it is canonical."""
    assert matrix.has_canonical_format
    for name, array in arrays.items():
        setattr(matrix, name, np.array(array, getattr(matrix, name).dtype))
    return matrix


BROKEN = {
    "pointers beyond the entries": lambda eye: change(eye, indptr=[0, 1, 10**8, 3, 4]),
    "pointers below 0": lambda eye: change(eye, indptr=[0, 1, -1, 3, 4]),
    "pointers not from 0": lambda eye: change(eye, indptr=[1, 1, 2, 3, 4]),
    "pointers to fewer entries": lambda eye: change(eye, indptr=[0, 1, 1, 1, 9]),
    "too few pointers": lambda eye: change(eye, indptr=[0, 1, 4]),
    "columns beyond the width": lambda eye: change(eye, indices=[0, 1, 2, 10**6]),
    "columns below 0": lambda eye: change(eye, indices=[0, -1, 2, 3]),
    "fewer values": lambda eye: change(eye, data=[1.0]),
    "fewer columns": lambda eye: change(eye, indices=[0, 1]),
}

DOORS = {
    "samples": lambda network, eye, T, path: network.infer(T),
    "result": lambda network, eye, T, path: network.verify(eye, T),
    "targets of evaluate": lambda network, eye, T, path: network.evaluate(eye, targets=T),
    "samples of evaluate": lambda network, eye, T, path: network.evaluate(T, [0] * 4),
    "targets of train": lambda network, eye, T, path: varve.train(network, eye, targets=T, epochs=1),
    "samples of train": lambda network, eye, T, path: varve.train(network, T, [0] * 4, epochs=1),
    "targets of validation": lambda network, eye, T, path: varve.train(network, eye, targets=eye, validation=(eye, T), epochs=1),
    "weights": lambda network, eye, T, path: varve.Network.from_scipy([T]),
    "saved samples": lambda network, eye, T, path: varve.save_samples(path / "x.safetensors", T),
    "saved targets": lambda network, eye, T, path: varve.save_samples(path / "x.safetensors", eye, targets=T),
    "plan": lambda network, eye, T, path: network.plan(T),
}


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("broken", BROKEN)
def test_broken_matrices_are_refused_wherever_they_come_in(door, broken, tmp_path):
    network = varve.Network.from_scipy([np.eye(4)], activation="identity")
    with pytest.raises(varve.InputError):
        DOORS[door](network, sp.csr_array(np.eye(4)), BROKEN[broken](sp.csr_array(np.eye(4))), tmp_path)
    assert not list(tmp_path.iterdir())


def huge_weight(network):
    """A network of the same inputs, with a weight that float32 cannot hold."""
    return varve.Network.from_scipy([np.full((2, network.num_inputs), 1e300)])


def with_value(X, value):
    other = X.copy()
    other[3, 4] = value
    return other


def test_float_types_of_numpy_are_precisions(network, X):
    assert network.infer(X, precision=np.float64).dtype == np.float64
    assert network.infer(X, precision=np.dtype("float32")).dtype == np.float32


def test_errors_are_errors_of_python():
    assert issubclass(varve.InputError, ValueError) and issubclass(varve.UsageError, ValueError)
    assert issubclass(varve.ResourceError, RuntimeError)
    assert all(issubclass(kind, varve.Error) for kind in (varve.InputError, varve.UsageError, varve.ResourceError))


def test_a_network_is_a_sequence_of_layers_with_a_density(network):
    places = sum(outputs * inputs for inputs, outputs in zip(WIDTHS, WIDTHS[1:]))
    assert len(network) == 4 and [layer.activation for layer in network] == [layer.activation for layer in network.layers()]
    assert network[-1].weights.shape == (WIDTHS[-1], WIDTHS[-2])
    assert network.density == network.num_edges / places
    assert repr(network) == (
        f"<varve.Network 'network in memory': 4 layers, 70 inputs, 5 outputs, {network.num_edges} edges, density {network.density:.3g}>"
    )
    with pytest.raises(IndexError, match="there is no layer 4"):
        network[4]
    without_places = varve.Network.from_scipy([sp.csr_array((0, 20))])
    assert without_places.density == 0 and repr(without_places).endswith("0 edges, density 0>")
    with pytest.raises(varve.InputError, match="sample 0 has the label 7, expected 0 to -1, the last class"):
        without_places.evaluate(np.ones((1, 20)), [7])


def test_networks_are_equal_in_every_bit_or_not():
    weights, biases, activations = random_layers(MIXED)
    one, other = (varve.Network.from_scipy(weights, biases, activations, name=name) for name in ("one", "other"))
    assert one == other and hash(one) == hash(other) and one != "one"
    assert pickle.loads(pickle.dumps(one)) == one
    biases[1][3] = np.nextafter(biases[1][3], 1)
    assert varve.Network.from_scipy(weights, biases, activations) != one
    assert varve.Network.from_scipy(weights, one.to_scipy()[1], ["tanh", *activations[1:]]) != one
    assert varve.Network.from_scipy([*weights[:3], weights[3] * 2], one.to_scipy()[1], activations) != one
    assert varve.Network.from_scipy(weights[:3], one.to_scipy()[1][:3], activations[:3]) != one


def test_notebooks_get_a_table_of_layers(network):
    table = network._repr_html_()
    assert table.count("<tr>") == 5 and f"<td>{network[1].weights.nnz}</td>" in table and "<td>leaky_relu (0.1)</td>" in table
    assert "&lt;varve.Network" in table
    deep = varve.generate.radixnet(32, 50)._repr_html_()
    assert deep.count("<tr>") == 22 and "30 layers more" in deep and "<td>49</td>" in deep and "<td>10</td>" not in deep
    assert repr(network.plan()) == str(network.plan()) and repr(network.plan()).startswith("layers 0")


def test_pictures_need_matplotlib(network, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(varve.ResourceError, match="package matplotlib, which is missing: pip install matplotlib"):
        network.plot()


def test_preparations_can_be_freed(network, X):
    other = varve.Network.from_scipy([np.eye(70)])
    expected = network.infer(X)
    for _ in range(3):
        network.infer(X[:1]), network.infer(X), other.infer(X)
        assert len(network._engines) == 2 and len(other._engines) == 1
        varve.clear(network)
        assert not network._engines and other._engines
        varve.clear()
        assert not other._engines
    np.testing.assert_array_equal(network.infer(X), expected)


def test_all_names_are_listed():
    assert set(varve.__all__) <= set(dir(varve))


@pytest.mark.parametrize("name", ["no.safetensors", "no.npy", "no.onnx"])
def test_missing_files_are_errors_that_people_expect(tmp_path, name):
    calls = [varve.Network.from_file, varve.read_samples] + ([varve.Network.from_onnx] if name == "no.onnx" else [])
    for call in calls:
        with pytest.raises(FileNotFoundError, match=f"{name}.*No such file or directory") as raised:
            call(tmp_path / name)
        error = raised.value
        assert isinstance(error, (varve.InputError, ValueError)) and error.errno == 2
        assert str(pickle.loads(pickle.dumps(error))) == str(error)


@pytest.mark.parametrize(
    "options, own",
    [({"learning_rate": 1}, "rate"), ({"batch_size": 1}, "batch"), ({"weight_decay": 1}, "l2"), ({"max_iter": 1}, "epochs"), ({"random_state": 1}, "seed")],
)
def test_names_of_others_are_known(network, options, own):
    (name,) = options
    with pytest.raises(TypeError, match=rf"train\(\) has no argument {name}; here it is {own}"):
        varve.train(network, np.zeros((1, 70)), [0], **options)
    with pytest.raises(TypeError, match="unexpected keyword argument 'nonsense'"):
        varve.train(network, np.zeros((1, 70)), [0], nonsense=1)


def test_words_of_others_are_known(network):
    for given, own in (("ReLU", "relu"), ("logistic", "sigmoid"), ("LeakyReLU", "leaky_relu"), ("linear", "identity")):
        with pytest.raises(varve.UsageError, match=f"no activation {given!r}; .*; here it is {own!r}"):
            varve.Activation(given)
    with pytest.raises(varve.UsageError, match="double is 'float64' here"):
        network.infer(np.zeros((1, 70)), precision="double")
    options = [("optimizer", "SGD", "sgd"), ("optimizer", "AdamW", "adamw"), ("loss", "CrossEntropyLoss", "cross-entropy"), ("loss", "mse", "mean-square")]
    for name, given, own in [*options, ("rate_schedule", "CosineAnnealingLR", "cosine"), ("pattern", "RigL", "rigl"), ("backend", "cpu", "openmp")]:
        with pytest.raises(varve.UsageError, match=f"there is no {name} {given!r}; here it is {own!r}"):
            varve.Training(network, **{name: given})
