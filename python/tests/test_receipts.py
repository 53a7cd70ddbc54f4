"""Receipts of inference: made, written, read by the command, and what an audit finds."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest
import scipy.sparse as sp
import varve
from conftest import MIXED, random_layers
from varve import _receipt


@pytest.fixture(scope="module")
def network():
    return varve.Network.from_scipy(*random_layers(MIXED))


@pytest.fixture(scope="module")
def X():
    generator = np.random.default_rng(3)
    return generator.uniform(-1, 1, (60, 70)) * (generator.random((60, 70)) < 0.3)


def test_equal_work_has_equal_receipts(network, X):
    receipt = network.receipt(X)
    for backend in varve.backends():
        assert network.receipt(sp.csr_array(X), backend=backend, batch=7) == receipt
    assert receipt.contradictions() == [] and receipt.audit(network, X, num_samples=60) == []
    assert network.receipt(X, precision="float64").digest != receipt.digest
    assert network.receipt(X, first_sample=1).bound["inputs"] != receipt.bound["inputs"]
    assert varve.Receipt.__name__ in dir(varve)


def test_digests_are_those_of_the_command():
    """The network, samples and digests of tests/receipts/digests_test.cpp."""
    weights = [sp.csr_array([[0.5, 0, 0.5], [0, 0.5, 0]]), sp.csr_array([[1.0, -2.0]])]
    small = varve.Network.from_scipy(weights, [-0.25, 0.125], [varve.Activation.clipped_relu(32.0), "identity"])
    assert _receipt.network_digest(small).hex() == "86addb17720fef88719b32800785cf20689b1e653b82b1c5097ac0a2aaf026fe"
    inputs = _receipt.leaves_of(b"input", 7, sp.csr_array([[1.0, 0, 0.5], [0, 0, 0], [0, 1.0, 0]]))
    assert _receipt.root_of(inputs).hex() == "cd07edb0be16680da5b60bb9471adf911ba910ae1ffb44621fd83bb24a4a10e7"
    outputs = _receipt.leaves_of(b"output", 7, sp.csr_array([[0.75], [0], [2.0]]))
    assert _receipt.leaves_of(b"input", 0, sp.csr_array([[1.0, 0, 1.0]]))[0].hex() == "d2177027110762a7dbda7f6164d9f680a2860954c1944ca59887395da7ffd40c"
    assert _receipt.root_of(outputs).hex() == "608d0e7323860f194b54552936ac0c9ff5b9416d9d218c1c08bf02ad8c524dcd"


def test_an_audit_names_what_differs(network, X):
    receipt = network.receipt(X)
    layers = random_layers(MIXED)
    layers[0][2].data[5] = np.nextafter(layers[0][2].data[5], 9)
    assert receipt.audit(varve.Network.from_scipy(*layers), X) == ["the network is not that of the receipt"]
    changed = X.copy()
    changed[41, 3] += 1e-9
    assert receipt.audit(network, changed) == ["sample 41 of X is not that of the receipt"]
    assert receipt.audit(network, X[:59]) == ["X has 59 samples, and the receipt 60"]
    forged = network.receipt(np.where(np.arange(60)[:, None] == 17, 2 * X, X))  # another sample 17
    assert receipt.differences(forged)[-2:] == [
        "sample 17 of the receipts is the first with another input",
        "sample 17 of the receipts is the first with another output",
    ]
    outputs = list(receipt.outputs)
    outputs[17] = forged.outputs[17]
    altered = dataclasses.replace(receipt, outputs=outputs)
    assert altered.audit(network, X) == ["the digests of its outputs have another root"]
    sealed = dataclasses.replace(altered, bound={**receipt.bound, "outputs": _receipt.root_of(outputs).hex()})
    assert sealed.contradictions() == []
    assert sealed.audit(network, X, num_samples=60) == ["the last activations of sample 17 are not those of the receipt"]


def test_other_files_are_refused(network, X, tmp_path):
    receipt, path = network.receipt(X), tmp_path / "receipt.json"
    receipt.save(path)
    content = json.loads(path.read_text())
    for change in ({"kind": "other"}, {"version": 2}, {"input_leaves": "abc"}, {"bound": 7}, {"output_leaves": "00" * 32}):
        path.write_text(json.dumps({**content, **change}))
        with pytest.raises(varve.InputError):
            varve.Receipt.load(path)
    path.write_text("no JSON")
    with pytest.raises(varve.InputError, match="found no JSON"):
        varve.Receipt.load(path)
    with pytest.raises(varve.InputError, match="numerics 2"):
        dataclasses.replace(receipt, bound={**receipt.bound, "numerics": 2}).audit(network, X)
    with pytest.raises(varve.UsageError, match="num_samples is 0"):
        receipt.audit(network, X, num_samples=0)


def test_receipts_are_read_as_they_were_written(network, X, tmp_path):
    receipt = network.receipt(X, first_sample=5)
    receipt.save(tmp_path / "receipt.json")
    read = varve.Receipt.load(tmp_path / "receipt.json")
    assert read == receipt and read.claimed == receipt.digest and read.made_by == receipt.made_by
    content = json.loads((tmp_path / "receipt.json").read_text())
    content["bound"]["precision"] = "double"
    (tmp_path / "receipt.json").write_text(json.dumps(content))
    assert varve.Receipt.load(tmp_path / "receipt.json").contradictions() == ["its digest is not that of its bound part"]
    for name, value in (("precision", "half"), ("first_sample", 0), ("reductions", [1]), ("numerics", True), ("inputs", None), ("edge_order", None)):
        changed = {**content, "bound": {**content["bound"], name: value}}
        if value is None:
            del changed["bound"][name]
        (tmp_path / "receipt.json").write_text(json.dumps(changed))
        with pytest.raises(varve.InputError, match="found another file, expected a receipt of varve infer --receipt"):
            varve.Receipt.load(tmp_path / "receipt.json")
    (tmp_path / "receipt.json").write_text(json.dumps({**content, "bound": {"note": 1, **receipt.bound}}))
    assert varve.Receipt.load(tmp_path / "receipt.json").bound == receipt.bound  # as the command reads it


def test_no_samples(network):
    receipt = network.receipt(np.zeros((0, 70)))
    assert receipt.bound["samples"] == 0 and receipt.audit(network, np.zeros((0, 70))) == []


def test_a_proof_holds_one_sample(network, X, tmp_path):
    receipt = network.receipt(X, first_sample=5)
    for sample in (0, 17, 59):
        proof = receipt.prove(sample)
        (tmp_path / "proof.json").write_text(json.dumps(proof))
        assert varve.audit(proof, network, X[[sample]]) == varve.audit(tmp_path / "proof.json", network, X[[sample]]) == []
        assert varve.audit(proof, network, X[[sample - 1]]) == ["X is not the sample of the proof"]
        forged = {**proof, "output": "00" * 32}
        assert varve.audit(forged, network, X[[sample]]) == ["the path of its output leads to another root"]
        altered = {**proof, "bound": {**proof["bound"], "precision": "double"}}
        assert varve.audit(altered, network, X[[sample]]) == ["its digest is not that of its bound part"]
    for wrong in ({**proof, "input_path": "0"}, {**proof, "sample": 99}, {"kind": 1}, {**proof, "bound": 3}):
        with pytest.raises(varve.InputError):
            varve.audit(wrong, network, X[[0]])
    with pytest.raises(varve.UsageError, match="sample is 60"):
        receipt.prove(60)
    receipt.save(tmp_path / "receipt.json")
    assert varve.audit(tmp_path / "receipt.json", network, X, num_samples=60) == varve.audit(receipt, network, X) == []


def test_paths_lead_to_the_root():
    for count in range(1, 20):
        leaves = [bytes([leaf]) * 32 for leaf in range(count)]
        for place in range(count):
            path = _receipt.path_of(leaves, place)
            assert _receipt.root_by(leaves[place], place, count, path) == _receipt.root_of(leaves)
            assert _receipt.root_by(leaves[place], place, count, [*path, leaves[0]]) is None
            assert not path or _receipt.root_by(leaves[place], place, count, path[1:]) is None


def test_a_training_has_a_receipt(tmp_path):
    start = varve.generate.random([16, 24, 4], density=0.5, seed=3).with_initial_weights()
    generator = np.random.default_rng(4)
    X, labels = generator.random((300, 16)), generator.integers(0, 4, 300)

    def trained(**options):
        return varve.train(start, X, labels, batch=64, epochs=4, receipt_every=3, rate_schedule="constant", **options)

    receipt = trained().receipt
    assert receipt.bound["steps"] == 20 and receipt.bound["every"] == 3 and receipt.digest in repr(receipt)
    assert receipt.bound["network"] == _receipt.network_digest(start).hex()
    assert receipt.bound["result"] == _receipt.network_digest(trained().network).hex()
    for backend in varve.backends():
        assert trained(backend=backend).receipt.digest == receipt.digest
    assert trained(seed=2).receipt.bound["states"] != receipt.bound["states"]
    options = {"batch": 64, "epochs": 4, "receipt_every": 3, "rate_schedule": "constant", "checkpoint": tmp_path / "c.safetensors"}
    training = varve.Training(start, **options)
    for epoch in training.epochs(X, labels):
        if epoch.epoch == 2:
            break
    del training
    assert trained(checkpoint=tmp_path / "c.safetensors").receipt.digest == receipt.digest
    receipt.save(tmp_path / "receipt.json")
    assert json.loads((tmp_path / "receipt.json").read_text())["digest"] == receipt.digest
    with pytest.raises(varve.UsageError, match="receipt_every"):
        varve.train(start, X, labels, epochs=1).receipt  # noqa: B018
    with pytest.raises(varve.UsageError, match="receipt_every is 0"):
        varve.Training(start, receipt_every=0)
