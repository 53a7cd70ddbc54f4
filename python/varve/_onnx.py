"""ONNX models of fully connected layers, read by the package onnx."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ._activation import Activation
from ._foreign import csr_of_dense, fail, library, opened, quote, reading
from ._results import Layer

#: The most inputs of each operation.
_INPUTS = {
    "Gemm": 3, "MatMul": 2, "Add": 2, "Relu": 1, "Clip": 3, "LeakyRelu": 1, "Sigmoid": 1, "Tanh": 1, "Softmax": 1,
    "Constant": 0,
}  # fmt: skip

#: The versions of ONNX's operations in which these are what the tables say.
_VERSIONS = range(7, 29)

_REAL, _INTEGER, _TENSOR = 1, 2, 4  # of AttributeProto.AttributeType

#: The attributes of the operations: type, value of one that is absent, and the last version that has it.
_ATTRIBUTES: dict[tuple[str, str], tuple[int, float, int]] = {
    ("Gemm", "alpha"): (_REAL, 1.0, 28),
    ("Gemm", "beta"): (_REAL, 1.0, 28),
    ("Gemm", "transA"): (_INTEGER, 0, 28),
    ("Gemm", "transB"): (_INTEGER, 0, 28),
    ("LeakyRelu", "alpha"): (_REAL, float(np.float32(0.01)), 28),
    ("Clip", "min"): (_REAL, 0.0, 10),  # then inputs
    ("Clip", "max"): (_REAL, 0.0, 10),
    ("Softmax", "axis"): (_INTEGER, -1, 28),
    ("Constant", "value"): (_TENSOR, 0, 28),
}

_TYPES = (1, 10, 11, 16)  # of TensorProto.DataType: float, float16, double, bfloat16

_SIMPLE = {"Relu": "relu", "Sigmoid": "sigmoid", "Tanh": "tanh"}


def read_layers(path: str) -> list[Layer]:
    """The layers of a model. Raises InputError, naming the operation, if it is more than a chain of them."""
    onnx = library("onnx", path)
    library("scipy.sparse", path, "scipy")
    with opened(path) as file:
        content = file.read()
        model = onnx.load_model_from_string(content)
    if not model.HasField("graph"):
        fail(path, "an ONNX model without a graph", "one")
    if len(model.graph.sparse_initializer):
        fail(path, "a sparse constant (sparse_initializer)", "dense ones")
    with reading(path):
        chain = _Chain(model, path, max(2**21, len(content) // 2), onnx.numpy_helper)
        for node in model.graph.node:
            chain.take(node)
        return chain.finish()


class _Chain:
    """Follows the operations from the input to the output and makes layers of them."""

    def __init__(self, model: Any, path: str, most_numbers: int, helper: Any) -> None:
        self.path, self.helper = path, helper
        self.most_numbers = most_numbers  # of the weights of all layers, because many may name the same constant
        self.constants: dict[str, Any] = {}
        for tensor in model.graph.initializer:
            if tensor.name in self.constants:
                fail(path, f"two constants of the name {quote(tensor.name)}", "one")
            self.constants[tensor.name] = tensor
        inputs = [found.name for found in model.graph.input if found.name not in self.constants]
        outputs = [found.name for found in model.graph.output]
        if len(inputs) != 1 or len(outputs) != 1:
            fail(path, f"a model of {len(inputs)} inputs and {len(outputs)} outputs", "one of each")
        versions = [found.version for found in model.opset_import if found.domain in ("", "ai.onnx")]
        if len(versions) > 1:
            fail(path, "two versions of ONNX's operations (opset_import)", "one")
        if not versions or versions[0] not in _VERSIONS:
            found = (
                f"version {versions[0]} of ONNX's operations"
                if versions
                else "no version of ONNX's operations (opset_import)"
            )
            fail(path, found, f"one from {_VERSIONS[0]} to {_VERSIONS[-1]}")
        self.version, self.output, self.value = versions[0], outputs[0], inputs[0]
        self.names = {self.value, *self.constants}
        self.layers: list[Layer] = []
        self.may_get_bias = self.may_get_activation = self.is_finished = False

    def take(self, node: Any) -> None:
        self.node: Any = node
        self.attributes: dict[str, Any] = {}
        self._require_known()
        operation = node.op_type
        if operation == "Constant":
            if "value" not in self.attributes:
                self._fail('no attribute "value"', "a tensor")
            self.constants[node.output[0]] = self.attributes["value"].t
            return
        if self.is_finished:
            fail(self.path, f"the operation {self._shown()} behind Softmax", "none")
        if operation != "Add":
            self._require_value(0)
        if operation == "Gemm":
            if self._number("alpha") != 1 or self._number("beta") != 1:
                self._fail("alpha or beta", "1 for both")
            if self._number("transA") != 0:
                self._fail("transA", "0")
            self._add_layer(self._number("transB") != 0)
            if self._input(2):
                self._set_bias(self._input(2))
        elif operation == "MatMul":
            self._add_layer(False)
        elif operation == "Add":
            is_first = self._input(0) == self.value
            if not is_first:
                self._require_value(1)
            if not self.may_get_bias:
                self._fail("no MatMul or Gemm without a bias before it", "one directly before it, whose bias it adds")
            self._set_bias(self._input(1 if is_first else 0))
        elif operation == "Clip":
            highest = self._limit(2, "max")
            if self._limit(1, "min") != 0:
                self._fail("another lower limit than 0", "0")
            self._set_activation(Activation("relu") if highest is None else Activation.clipped_relu(highest))
        elif operation == "Softmax":  # over the outputs: values are [samples, outputs]
            if self._number("axis") not in (1, -1):
                self._fail(f"the axis {self._number('axis')}", "1 or -1: over the outputs of a sample")
            self.is_finished = True
        else:
            self._set_activation(
                Activation(_SIMPLE[operation]) if operation in _SIMPLE else Activation.leaky_relu(self._number("alpha"))
            )
        self.value = node.output[0]

    def finish(self) -> list[Layer]:
        if not self.layers:
            fail(self.path, "a model without Gemm and MatMul", "at least one")
        if self.value != self.output:
            fail(
                self.path,
                f"a chain of operations that ends with {quote(self.value)}",
                f"{quote(self.output)}, the output of the model",
            )
        return self.layers

    def _shown(self) -> str:
        node = self.node
        what = quote(f"{node.domain}.{node.op_type}" if node.domain else node.op_type)
        return f"{what} (node {quote(node.name)})" if node.name else what

    def _fail(self, what: str, expected: str) -> None:
        fail(self.path, f"the operation {self._shown()} with {what}", expected)

    def _require_known(self) -> None:
        """Raises InputError unless the node has nothing but what the tables say, and one output of a new name."""
        node = self.node
        if node.op_type not in _INPUTS or node.domain not in ("", "ai.onnx"):
            names = ", ".join(name for name in _INPUTS if name not in ("Softmax", "Constant"))
            fail(self.path, f"the operation {self._shown()}", f"one of {names}, Softmax as the last one, and Constant")
        if len(node.input) > _INPUTS[node.op_type]:
            self._fail(f"{len(node.input)} inputs", f"{_INPUTS[node.op_type]} at most")
        if len(node.output) != 1:
            self._fail(f"{len(node.output)} outputs", "one")
        if node.output[0] in self.names:
            self._fail(f"the output {quote(node.output[0])}, a name given before", "a new name")
        self.names.add(node.output[0])
        for attribute in node.attribute:
            if attribute.name in self.attributes:
                fail(self.path, f"two attributes {quote(attribute.name)} of a node", "one")
            self.attributes[attribute.name] = attribute
            kind, _, last = _ATTRIBUTES.get((node.op_type, attribute.name), (0, 0, 0))
            if last < self.version:
                self._fail(f"the attribute {quote(attribute.name)}", "none of this name")
            if attribute.type != kind:
                self._fail(f"the attribute {quote(attribute.name)} of the type {attribute.type}", f"the type {kind}")

    def _input(self, number: int) -> str:
        return self.node.input[number] if number < len(self.node.input) else ""

    def _require_value(self, number: int) -> None:
        if self._input(number) != self.value:
            expected = f"{quote(self.value)}, the output of the operation before (a chain without branches)"
            self._fail(f"the input {quote(self._input(number))}", expected)

    def _number(self, name: str) -> float:
        kind, otherwise, _ = _ATTRIBUTES[self.node.op_type, name]
        if name not in self.attributes:
            return otherwise
        return self.attributes[name].f if kind == _REAL else self.attributes[name].i

    def _constant(self, name: str) -> np.ndarray:
        if name not in self.constants:
            self._fail(f"the input {quote(name)} that is no constant", "a constant")
        tensor = self.constants[name]
        what = f"the constant {quote(tensor.name)}"
        if tensor.data_location == 1:
            fail(
                self.path,
                f"{what} that lies in another file",
                "all in this file (torch.onnx.export: external_data=False)",
            )
        if tensor.data_type not in _TYPES:
            fail(self.path, f"{what} of the data type {tensor.data_type}", "float, double, float16 or bfloat16")
        for bits in tensor.int32_data:
            if not 0 <= bits < 2**16:
                fail(self.path, f"the number {bits} in the int32_data of a constant", "16 bits")
        if any(length < 0 for length in tensor.dims):
            fail(self.path, f"{what} of the shape ({', '.join(map(str, tensor.dims))})", "whole numbers")
        with reading(f"{self.path}: {what}"):
            array = np.asarray(self.helper.to_array(tensor))
        return array if array.dtype.kind == "f" else array.astype(np.float32)  # bfloat16

    def _add_layer(self, has_output_rows: bool) -> None:
        name = self._input(1)
        weights = self._constant(name)
        if weights.ndim != 2:
            self._fail(f"weights of {weights.ndim} dimensions", "2 dimensions")
        place = f"{self.path}: {quote(name)}"
        self.most_numbers -= weights.size + weights.shape[0]
        if self.most_numbers < 0:
            fail(place, "layers that share constants", "as many numbers as the file holds")
        matrix = csr_of_dense(weights if has_output_rows else weights.T, place)
        self.layers.append(Layer(matrix, np.zeros(1), Activation("identity")))
        self.may_get_bias = self.may_get_activation = True

    def _set_bias(self, name: str) -> None:
        bias = self._constant(name)
        num_outputs = self.layers[-1].weights.shape[0]
        if bias.size not in (1, num_outputs) or bias.ndim > 2 or bias.ndim == 2 and bias.shape[0] != 1:
            self._fail(f"a bias of the shape ({', '.join(map(str, bias.shape))})", f"1 or {num_outputs} numbers")
        self.layers[-1] = replace(self.layers[-1], bias=bias.reshape(-1))
        self.may_get_bias = False

    def _set_activation(self, activation: Activation) -> None:
        if not self.may_get_activation:
            self._fail("no Gemm, MatMul or Add before it", "one of them directly before it: one activation per layer")
        self.layers[-1] = replace(self.layers[-1], activation=activation)
        self.may_get_bias = self.may_get_activation = False

    def _limit(self, number: int, name: str) -> float | None:
        """A limit of Clip: an input since version 11 of the operations, before an attribute."""
        if name in self.attributes:
            return float(self.attributes[name].f)
        if not self._input(number):
            return None
        limit = self._constant(self._input(number))
        if limit.size != 1:
            self._fail(f"{limit.size} limits", "one number")
        return float(limit.reshape(-1)[0])
