"""What varve and its tests use of torch, on NumPy, for machines without torch: modules that run, with hooks and masks."""

from __future__ import annotations

import contextlib
import types

import numpy as np


class Tensor(np.ndarray):
    device = "cpu"

    def detach(self):
        return self

    def cpu(self):
        return self

    def to(self, *kinds):
        return self.astype(kinds[-1]).view(Tensor)


def tensor(array, dtype=np.float32):
    return np.array(array, dtype).view(Tensor)


class _Handle:
    def __init__(self, hooks, hook):
        self._hooks, self._hook = hooks, hook
        hooks.append(hook)

    def remove(self):
        self._hooks.remove(self._hook)


class Module:
    def __init__(self):
        self._modules, self._pre_hooks, self._hooks, self.training = {}, [], [], True

    def __call__(self, *given):
        for hook in list(self._pre_hooks):
            changed = hook(self, given)
            given = given if changed is None else (changed,)
        result = self.forward(*given)
        for hook in list(self._hooks):
            changed = hook(self, given, result)
            result = result if changed is None else changed
        return result

    def register_forward_pre_hook(self, hook):
        return _Handle(self._pre_hooks, hook)

    def register_forward_hook(self, hook):
        return _Handle(self._hooks, hook)

    def modules(self):
        found = {id(self): self}
        for child in self._modules.values():
            found.update((id(module), module) for module in child.modules())
        return iter(found.values())

    def train(self, mode=True):
        for module in self.modules():
            module.training = mode
        return self

    def eval(self):
        return self.train(False)


class Sequential(Module):
    def __init__(self, *children):
        super().__init__()
        self._modules = {str(number): child for number, child in enumerate(children)}

    def forward(self, x):
        for child in self._modules.values():
            x = child(x)
        return x


class Linear(Module):
    def __init__(self, inputs, outputs, bias=True):
        super().__init__()
        generator = np.random.default_rng(inputs)
        self.weight = tensor(generator.standard_normal((outputs, inputs)) / np.sqrt(inputs))
        self.bias = tensor(generator.standard_normal(outputs)) if bias else None

    def forward(self, x):
        return x @ self.weight.T if self.bias is None else x @ self.weight.T + self.bias


def _activation(name, function, **defaults):
    def __init__(self, *values):
        Module.__init__(self)
        self.__dict__.update(zip(defaults, [*values, *list(defaults.values())[len(values) :]]))

    return type(name, (Module,), {"__init__": __init__, "forward": lambda self, x: function(self, x).astype(x.dtype).view(Tensor)})


nn = types.SimpleNamespace(
    Module=Module,
    Sequential=Sequential,
    Linear=Linear,
    ReLU=_activation("ReLU", lambda self, x: np.maximum(x, 0)),
    ReLU6=_activation("ReLU6", lambda self, x: np.clip(x, 0, 6)),
    LeakyReLU=_activation("LeakyReLU", lambda self, x: np.where(x > 0, x, self.negative_slope * x), negative_slope=0.01),
    Hardtanh=_activation("Hardtanh", lambda self, x: np.clip(x, self.min_val, self.max_val), min_val=-1.0, max_val=1.0),
    Sigmoid=_activation("Sigmoid", lambda self, x: 1 / (1 + np.exp(-x))),
    Tanh=_activation("Tanh", lambda self, x: np.tanh(x)),
    Softmax=_activation("Softmax", lambda self, x: np.exp(x) / np.exp(x).sum(axis=1, keepdims=True)),
    Identity=_activation("Identity", lambda self, x: x),
    Flatten=_activation("Flatten", lambda self, x: x),
    Dropout=_activation("Dropout", lambda self, x: x * 2 * (np.random.random(x.shape) < 0.5) if self.training else x),
)

float32, float64, finfo = np.float32, np.float64, np.finfo
random = types.SimpleNamespace(fork_rng=lambda devices: contextlib.nullcontext())


def from_numpy(array):
    return array.view(Tensor)


def no_grad():
    return contextlib.nullcontext()


def autocast(kind, enabled):
    return contextlib.nullcontext()


def get_float32_matmul_precision():
    return "highest"


def set_float32_matmul_precision(name):
    assert name == "highest"

