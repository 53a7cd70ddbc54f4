"""Models of ONNX compute what ONNX Runtime says."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest
import varve
from test_files import WIDTHS, every_activation, expect_written, onnx_model


def test_onnx_computes_what_onnxruntime_does(tmp_path):
    path = onnx_model(tmp_path)
    network = varve.Network.from_onnx(path)
    expect_written(network)
    X = np.random.default_rng(2).standard_normal((50, WIDTHS[0])).astype(np.float32)
    (expected,) = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, {"x": X})
    np.testing.assert_allclose(network.infer(X), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("sparse", [False, True])
def test_onnxruntime_computes_what_the_network_does(tmp_path, dtype, sparse):
    network = every_activation(dtype, softplus="softplus" if dtype == np.float32 else "tanh")  # ONNX Runtime has no Softplus of doubles
    network.save(tmp_path / "n.onnx", sparse=sparse)
    X = np.random.default_rng(2).standard_normal((50, 12)).astype(dtype)
    (found,) = onnxruntime.InferenceSession(tmp_path / "n.onnx", providers=["CPUExecutionProvider"]).run(None, {"x": X})
    np.testing.assert_allclose(found, network.infer(X, precision=np.dtype(dtype).name), rtol=1e-5, atol=1e-6)
