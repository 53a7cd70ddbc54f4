"""ONNX models that torch.onnx.export writes, in each of its ways, are read as what the module computes, or refused by the operation."""

from __future__ import annotations

import contextlib
import io
import os

import numpy as np
import pytest
import torch
import varve
from torch import nn
from torch.nn.utils import prune

pytestmark = pytest.mark.filterwarnings("ignore")  # those of torch's exporters


def chain(*between):
    return nn.Sequential(nn.Linear(8, 16), *between, nn.Linear(16, 4))


class Layers(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last, self.activation = nn.Linear(8, 16), nn.Linear(16, 4), nn.ReLU()

    def forward(self, x):
        return self.last(self.activation(self.first(x)))


class Functions(Layers):
    def forward(self, x):
        return self.last(torch.relu(self.first(x.flatten(1))))


def pruned(keeps_masks):
    model = chain(nn.ReLU())
    for layer in (model[0], model[2]):
        prune.l1_unstructured(layer, "weight", 0.7)
        if not keeps_masks:
            prune.remove(layer, "weight")
    return model


#: By name: what makes the module, and the operation by which it is refused, or None.
MODELS = {
    "relu": (lambda: chain(nn.ReLU()), None),
    "relu6": (lambda: chain(nn.ReLU6()), None),
    "leaky relu": (lambda: chain(nn.LeakyReLU(0.2)), None),
    "sigmoid": (lambda: chain(nn.Sigmoid()), None),
    "gelu": (lambda: chain(nn.GELU()), "Gelu"),
    "elu": (lambda: chain(nn.ELU()), "Elu"),
    "dropout": (lambda: chain(nn.ReLU(), nn.Dropout(0.5)), None),
    "normalization": (lambda: chain(nn.BatchNorm1d(16), nn.ReLU()), None),
    "softmax": (lambda: nn.Sequential(*chain(nn.ReLU()), nn.Softmax(1)), None),
    "images": (lambda: nn.Sequential(nn.Flatten(), *chain(nn.ReLU())), None),
    "no bias": (lambda: nn.Sequential(nn.Linear(8, 16, bias=False), nn.ReLU(), nn.Linear(16, 4, bias=False)), None),
    "class": (Layers, None),
    "functions": (Functions, None),
    "pruned": (lambda: pruned(False), None),
    "masks": (lambda: pruned(True), None),
}
#: By name: the options of torch.onnx.export, and whether weights come into a file of their own.
WAYS = {
    "default": (lambda: {}, True),
    "one file": (lambda: {"external_data": False}, False),
    "any batch": (lambda: {"external_data": False, "dynamic_shapes": ({0: torch.export.Dim("samples")},)}, False),
    "legacy": (lambda: {"dynamo": False}, False),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", MODELS)
def test_exports_of_torch(tmp_path, name, way):
    if way != "legacy":
        pytest.importorskip("onnxscript")
    torch.manual_seed(1)
    make, refused = MODELS[name]
    options, has_file = WAYS[way][0](), WAYS[way][1]
    model, path = make().eval(), str(tmp_path / "model.onnx")
    X = torch.randn(7, 2, 4) if name in ("images", "functions") else torch.randn(7, 8)
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        torch.onnx.export(model, (X,), path, **options)
    assert os.path.exists(f"{path}.data") == has_file
    if refused:
        with pytest.raises(varve.InputError, match=f'the operation "{refused}"'):
            varve.Network.from_onnx(path)
        return
    with torch.no_grad():
        expected = (model[:3] if name == "softmax" else model)(X).numpy()
    np.testing.assert_allclose(varve.Network.from_onnx(path).infer(X.reshape(7, 8).numpy()), expected, atol=1e-5)
