"""Models that Keras 3.15 wrote (data/keras), and what it predicted."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys
import warnings

import numpy as np
import pytest
import varve

DATA = pathlib.Path(__file__).parent / "data" / "keras"
EXPECTED = {name: np.array(numbers) for name, numbers in json.loads((DATA / "expected.json").read_text()).items() if name != "keras"}


@pytest.mark.parametrize("name", ["chain.keras", "chain.h5"])
def test_models_predict_what_keras_did(name):
    with pytest.warns(UserWarning, match=f"{name} ends with Softmax, left out"):
        network = varve.Network.from_file(DATA / name)
    powers = np.exp(network.infer(EXPECTED["X"], precision="float64"))
    np.testing.assert_allclose(powers / powers.sum(axis=1, keepdims=True), EXPECTED["chain"], atol=1e-5)


def test_a_functional_model_that_is_a_chain():
    network = varve.Network.from_file(DATA / "functional.keras")
    assert [layer.activation.name for layer in network] == ["relu", "identity"]
    np.testing.assert_allclose(network.infer(EXPECTED["X"]), EXPECTED["functional"], atol=1e-5)


@pytest.mark.parametrize(
    "name, sentence",
    [
        ("branch.keras", 'found the layer "add.*" with the inputs .*: a chain without branches'),
        ("gelu.keras", 'the layer "dense.*" .Dense. has the activation "gelu", expected one of linear, relu'),
        ("no_flatten.keras", r"found samples of the shape \[2, 3\] for 3 inputs of the first Dense, .*: Flatten before it"),
    ],
)
def test_other_models_are_refused_by_the_layer(name, sentence):
    with pytest.raises(varve.InputError, match=sentence):
        varve.Network.from_file(DATA / name)


@pytest.mark.parametrize("name", ["functional.keras", "chain.h5"])
def test_the_command_converts_them(tmp_path, name):
    command = [sys.executable, "-m", "varve.convert", str(DATA / name), str(tmp_path / "n.safetensors")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert varve.Network.from_file(tmp_path / "n.safetensors") == varve.Network.from_file(DATA / name)


def test_broken_ones_end_with_an_error_of_ours(tmp_path):
    content = (DATA / "functional.keras").read_bytes()
    for cut in (100, len(content) // 2, len(content) - 10):
        (tmp_path / "x.keras").write_bytes(content[:cut])
        with pytest.raises(varve.Error):
            varve.Network.from_file(tmp_path / "x.keras")
