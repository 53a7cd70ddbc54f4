"""Networks as modules of torch."""

from __future__ import annotations

from typing import Any, Callable, Sequence

import numpy as np
import torch
from torch import nn

from . import _container
from ._activation import SIMPLE
from ._results import Layer
from .torch import SparseLinear


def module_of(layers: Sequence[Layer], is_sparse: bool) -> nn.Sequential:
    """See Network.to_torch."""
    parts: list[nn.Module] = []
    numbers = [part for layer in layers for part in (layer.weights.data, layer.bias)]
    dtype = torch.float32 if all(_container.narrow(part).dtype == np.float32 for part in numbers) else torch.float64
    for layer in layers:
        bias = torch.tensor(np.broadcast_to(layer.bias, layer.weights.shape[0]), dtype=dtype)
        parts.append(_sparse(layer, bias) if is_sparse else _dense(layer, bias))
        parameter: Any = layer.activation.parameter
        kinds: dict[str, Callable[[], nn.Module]] = {
            **{name: getattr(nn, kind) for name, kind in SIMPLE.items()},
            "softplus": lambda: nn.Softplus(threshold=40.0),  # from 20 on it would be off in double
            "clipped_relu": lambda: nn.Hardtanh(0.0, parameter),
            "leaky_relu": lambda: nn.LeakyReLU(parameter),
        }
        if layer.activation.name != "identity":
            parts.append(kinds[layer.activation.name]())
    return nn.Sequential(*parts)


def _dense(layer: Layer, bias: torch.Tensor) -> nn.Linear:
    outputs, inputs = layer.weights.shape
    made = nn.Linear(inputs, outputs, device="meta", dtype=bias.dtype)
    made.weight = nn.Parameter(torch.tensor(layer.weights.toarray(), dtype=bias.dtype))
    made.bias = nn.Parameter(bias)
    return made


def _sparse(layer: Layer, bias: torch.Tensor) -> SparseLinear:
    rows = layer.weights.tocoo()
    outputs, inputs = layer.weights.shape
    flat = torch.tensor(rows.row.astype(np.int64) * inputs + rows.col)
    return SparseLinear.from_places(inputs, outputs, flat, torch.tensor(rows.data, dtype=bias.dtype), bias)
