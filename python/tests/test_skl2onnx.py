"""Models of scikit-learn that skl2onnx exported: the files of data/skl2onnx, and, where skl2onnx is installed, new ones.

``python test_skl2onnx.py`` writes the files again.
"""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest
import varve

DATA = Path(__file__).parent / "data" / "skl2onnx"
NAMES = (
    *("classifier", "classifier_zipmap", "classifier_columns", "binary", "binary_zipmap", "labels"),
    *("tanh", "logistic", "identity", "regressor", "pipeline", "names", "double"),
)


def samples():
    return np.random.default_rng(4).uniform(-2, 2, (40, 4)).astype(np.float32)


def exported(name):
    """The bytes of an export, and what its model answers: probabilities, or outputs."""
    from skl2onnx import to_onnx
    from sklearn.neural_network import MLPClassifier, MLPRegressor
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    X = samples()
    y = X[:, :3].argmax(axis=1)
    common = {"hidden_layer_sizes": (5,), "max_iter": 20, "random_state": 1}
    options = {"zipmap": {"classifier_zipmap": True, "binary_zipmap": True, "classifier_columns": "columns"}.get(name, False)}
    if name.startswith("regressor"):
        model, options = MLPRegressor(**common).fit(X, X.sum(axis=1) if name == "regressor" else X[:, :2]), {}
    else:
        activation = name if name in ("tanh", "logistic", "identity") else "relu"
        model = MLPClassifier(activation=activation, **common)
        answers = {"binary": y == 1, "binary_zipmap": y == 1, "labels": X > 0, "names": np.array(["a", "b", "c"])[y]}.get(name, y)
        if name == "pipeline":
            model = make_pipeline(StandardScaler(), model)
        model.fit(X, answers)
    kind = np.float64 if name == "double" else np.float32
    made = to_onnx(model, X[:1].astype(kind), options={id(model): options} if options else None, target_opset=17)
    X = X.astype(kind)
    return made.SerializeToString(), model.predict_proba(X) if hasattr(model, "predict_proba") else model.predict(X)


def check(name, path, expected):
    """The network of an export answers as its model, up to what stands after the last layer."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what is left out at the end
        network = varve.Network.from_onnx(path)
    outputs = network.infer(samples(), precision="float64")
    if name.startswith("binary"):
        outputs = np.column_stack([1 - outputs, outputs])
    elif name not in ("labels", "regressor"):
        powers = np.exp(outputs - outputs.max(axis=1, keepdims=True))
        outputs = powers / powers.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(outputs.reshape(expected.shape), expected, atol=2e-6)


@pytest.mark.parametrize("name", NAMES)
def test_files_of_skl2onnx(name):
    check(name, DATA / f"{name}.onnx", np.load(DATA / "answers.npz")[name])


@pytest.mark.parametrize("name", NAMES)
def test_exports_of_skl2onnx(tmp_path, name):
    pytest.importorskip("skl2onnx")
    content, expected = exported(name)
    (tmp_path / "model.onnx").write_bytes(content)
    check(name, tmp_path / "model.onnx", expected)


def test_several_outputs_of_a_regressor_are_refused():
    """skl2onnx 1.20 reshapes them to one column, in which samples and outputs are mixed."""
    with pytest.raises(varve.InputError, match='"Reshape" .* changes its input, expected what leaves samples as they are'):
        varve.Network.from_onnx(DATA / "regressors.onnx")


if __name__ == "__main__":
    DATA.mkdir(exist_ok=True)
    answers = {}
    for each in (*NAMES, "regressors"):
        content, answers[each] = exported(each)
        (DATA / f"{each}.onnx").write_bytes(content)
    np.savez_compressed(DATA / "answers.npz", **answers)
