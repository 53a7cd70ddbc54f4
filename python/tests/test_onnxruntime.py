"""Models of ONNX compute what ONNX Runtime says."""

from __future__ import annotations

import numpy as np
import onnxruntime
import varve
from test_files import WIDTHS, expect_written, onnx_model


def test_onnx_computes_what_onnxruntime_does(tmp_path):
    path = onnx_model(tmp_path)
    network = varve.Network.from_onnx(path)
    expect_written(network)
    X = np.random.default_rng(2).standard_normal((50, WIDTHS[0])).astype(np.float32)
    (expected,) = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, {"x": X})
    np.testing.assert_allclose(network.infer(X), expected, rtol=1e-5, atol=1e-6)
