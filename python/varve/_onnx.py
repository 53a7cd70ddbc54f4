"""ONNX models of fully connected layers: read, checked and run by the package onnx, and written by it."""

from __future__ import annotations

import os
from collections import Counter
from typing import Any, Sequence

import numpy as np

from . import _container
from ._activation import SIMPLE, Activation
from ._chain import Chain, arithmetic, run_first
from ._errors import InputError, UsageError
from ._foreign import csr_of_parts, fail, library, opened, quote, reading
from ._results import Layer

_SIMPLE = {name.capitalize(): name for name in SIMPLE}
_SAME = ("Flatten", "Reshape", "Squeeze", "Unsqueeze", "Identity", "Cast", "CastLike", "Dropout")
_PRODUCTS = ("Gemm", "MatMul")
_LAYERS = (*_PRODUCTS, "Add", "Sub", "Mul", "Div", *_SIMPLE, "Clip", "LeakyRelu", "PRelu", "BatchNormalization", "Scaler", *_SAME)
#: What may stand behind the last layer, in any arrangement, and is left out.
_ENDS = ("Softmax", "LogSoftmax", "ArgMax", "ZipMap", "Exp", "Binarizer")
_BESIDE = ("Normalizer", "ArrayFeatureExtractor", "Slice", "Concat", "Round", "Sub", "Greater", *_SAME)  # with one of them
_DOMAINS = ("", "ai.onnx", "ai.onnx.ml")

_UNITS = {"float64": 2.0**-53, "float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}  # largest relative roundings
_MOST_BYTES = 2**31  # of what Protocol Buffers take at a time
_MOST_DENSE = 2**28  # numbers of sparse constants that are made dense for the random batch


def chain_of(path: str) -> Chain:
    """The layers of a model. The package's reference evaluator runs a random batch, with which they are compared.

    Raises InputError, naming the operation, if the model is more than a chain of layers.
    """
    onnx = library("onnx", path)
    library("onnx.reference", path, "onnx")
    library("scipy.sparse", path, "scipy")
    with opened(path) as file, reading(path):
        content = file.read()
        model = onnx.load_model_from_string(content)
        if not model.HasField("graph"):
            fail(path, "an ONNX model without a graph", "one")
        onnx.external_data_helper.load_external_data_for_model(model, os.path.dirname(os.path.abspath(path)))
        _require_valid(onnx, model, path)
        return _Reader(onnx, model, path, max(2**21, len(content) // 2)).chain()


def _require_valid(onnx: Any, model: Any, path: str) -> None:
    """Raises what the package says against a model: its nodes, attributes and constants."""
    for value in [*model.graph.input, *model.graph.output]:
        kind = value.type.tensor_type
        if value.type.WhichOneof("value") == "tensor_type" and not kind.HasField("shape"):  # which the checker demands
            kind.shape.dim.extend([onnx.TensorShapeProto.Dimension(), onnx.TensorShapeProto.Dimension()])
    versions = [found.version for found in model.opset_import if found.domain in ("", "ai.onnx")]
    most = onnx.defs.onnx_opset_version()
    if len(versions) != 1 or not 7 <= versions[0] <= most:
        shown = f"version {' and '.join(map(str, versions))}" if versions else "no version"
        fail(path, f"{shown} of ONNX's operations (opset_import)", f"one from 7 to {most}, the last that this package onnx knows")
    onnx.checker.check_model(model if model.ByteSize() < _MOST_BYTES else path)


class _Reader:
    """Follows the operations from the input to the output."""

    def __init__(self, onnx: Any, model: Any, path: str, most_numbers: int) -> None:
        self.onnx, self.path = onnx, path
        self.most_numbers = most_numbers  # of the weights of all layers, because many may name the same constant
        graph = model.graph
        self.sparse = {tensor.values.name: self._matrix(tensor) for tensor in graph.sparse_initializer}
        self.constants = {tensor.name for tensor in graph.initializer} | set(self.sparse)
        inputs = [found for found in graph.input if found.name not in self.constants]
        if len(inputs) != 1:
            fail(path, f"a model of {len(inputs)} inputs", "one")
        self.input = inputs[0]
        self.nodes, self.tail = self._divided(graph)
        self.outputs = [output.name for output in graph.output]
        self.version = next(found.version for found in model.opset_import if found.domain in ("", "ai.onnx"))
        self.model = self._without_tail(model)

    def _divided(self, graph: Any) -> tuple[list[Any], list[Any]]:
        """The nodes of the layers, and those behind them that depend on the input. Constants' nodes are left to the evaluator."""
        on_samples, value = {self.input.name}, self.input.name
        chain: list[Any] = []
        tail: list[Any] = []
        uses = Counter([name for node in graph.node for name in node.input] + [output.name for output in graph.output])
        self.constant_nodes = []
        for node in graph.node:
            given = [name for name in node.input if name in on_samples]
            if not given:
                self.constant_nodes.append(node)
                continue
            on_samples.update(node.output)
            if not tail and given == [value] and uses[value] == 1 and node.op_type in _LAYERS and node.domain in _DOMAINS:
                if node.op_type in _PRODUCTS and (node.input[0] != value or any(found.name == "transA" and found.i for found in node.attribute)):
                    fail(self.path, f"the operation {self._shown(node)} of samples from the right, or transposed", "samples times weights")
                chain.append(node)
                value = node.output[0]
            else:
                tail.append(node)
        for node in tail:
            axis = next((found.i for found in node.attribute if found.name == "axis"), 0 if node.op_type == "ArgMax" else -1)
            if node.op_type in _ENDS and axis not in (1, -1):
                fail(self.path, f"the operation {self._shown(node)} with the axis {axis}", "1 or -1: over the outputs of a sample")
        is_end = any(node.op_type in _ENDS for node in tail)
        for node in tail:
            if node.op_type in (*_ENDS, *_BESIDE) and is_end and node.domain in _DOMAINS:
                continue
            where = f" behind {self._shown(tail[0])}" if node is not tail[0] else f" beside other uses of {quote(value)}" if node.op_type in _LAYERS else ""
            expected = f"a chain without branches of {', '.join(_LAYERS)}, and {', '.join(_ENDS)} at the end"
            fail(self.path, f"the operation {self._shown(node)}{where}", expected)
        return chain, tail

    def _without_tail(self, model: Any) -> Any:
        """The model up to the end of the chain, with dense constants."""
        made = self.onnx.ModelProto()
        made.CopyFrom(model)
        graph = made.graph
        del graph.node[:], graph.output[:], graph.sparse_initializer[:], graph.value_info[:]
        graph.node.extend([*self.constant_nodes, *self.nodes])
        graph.output.add(name=self.nodes[-1].output[0] if self.nodes else self.input.name)
        for name, matrix in self.sparse.items():
            if matrix.shape[0] * matrix.shape[1] > _MOST_DENSE:
                fail(self.path, f"the sparse constant {quote(name)} of {matrix.shape[0]} x {matrix.shape[1]}", f"no more than {_MOST_DENSE} places")
            graph.initializer.append(self.onnx.numpy_helper.from_array(matrix.toarray(), name))
        if made.ByteSize() < _MOST_BYTES:
            self.onnx.shape_inference.infer_shapes(made, check_type=True, strict_mode=True)
        return made

    def chain(self) -> Chain:
        kind = self.input.type.tensor_type
        dtype = self.onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type or 1)
        lengths = [dimension.dim_value for dimension in kind.shape.dim]
        evaluator = self.onnx.reference.ReferenceEvaluator(self.model)
        shapes = [tensor.dims for tensor in self.model.graph.initializer if len(tensor.dims) == 2]
        inner = int(np.prod(lengths[1:])) if len(lengths) > 1 and all(lengths[1:]) else 0
        candidates = [inner] if inner else list(dict.fromkeys(length for shape in shapes for length in shape))

        def run(batch: np.ndarray) -> Any:
            if lengths and lengths[0]:
                batch = np.resize(batch, (lengths[0], batch.shape[1]))
            samples = batch.astype(dtype)
            shape = (len(batch), *lengths[1:]) if inner else batch.shape
            return samples.astype(np.float64), evaluator.run(None, {self.input.name: samples.reshape(shape)}, intermediate=True)

        sizes = sum(int(np.prod(tensor.dims)) for tensor in self.model.graph.initializer)
        with np.errstate(all="ignore"):
            _, (batch, self.values) = run_first(candidates, run, sizes)
        chain, value = Chain(batch.shape[1]), self.input.name
        for node in self.nodes:
            try:
                self._take(chain, node, value)
            except InputError as error:
                raise InputError(f"{self.path}: {self._shown(node)} {error}") from None
            value = node.output[0]
            chain.mark(self._shown(node), self._flat(value, batch))
        if not any(node.op_type in _PRODUCTS for node in self.nodes):
            fail(self.path, "a model without Gemm and MatMul", "at least one")
        if not self.tail and self.outputs != [value]:
            fail(self.path, f"the outputs {', '.join(map(quote, self.outputs))}", f"{quote(value)}, the end of a chain without branches")
        chain.left_out = list(dict.fromkeys(node.op_type for node in self.tail))
        chain.finish()
        chain.mark("the model", self._flat(value, batch))
        chain.network(f"{self.path}: ", self.path)  # refuses what is not finite
        kinds = {np.asarray(found).dtype.name for found in self.values.values()}
        chain.require_same(batch, max(_UNITS.get(name, 0.0) for name in kinds), f"{self.path}: ")
        return chain

    def _flat(self, name: str, batch: np.ndarray) -> np.ndarray:
        return np.asarray(self.values[name], np.float64).reshape(len(batch), -1)

    def _take(self, chain: Chain, node: Any, value: str) -> None:
        operation = node.op_type
        options = {found.name: self.onnx.helper.get_attribute_value(found) for found in node.attribute}
        given, result = np.asarray(self.values[value]), np.asarray(self.values[node.output[0]])
        inputs: list[Any] = [None if name == value else self.sparse.get(name, self.values.get(name)) for name in node.input]
        if operation in (*_PRODUCTS, "BatchNormalization") and given.ndim != 2:
            raise InputError(f"gets samples of {given.ndim - 1} dimensions, expected one: Flatten before it")
        if operation == "Gemm":
            weights, alpha, beta = self._weights(inputs[1]), options.get("alpha", 1.0), options.get("beta", 1.0)
            weights = weights if options.get("transB", 0) else weights.T
            bias = 0.0 if len(inputs) < 3 or inputs[2] is None else inputs[2]
            chain.linear(weights if alpha == 1 else alpha * weights, bias if beta == 1 else beta * np.asarray(bias, np.float64))
        elif operation == "MatMul":
            chain.linear(self._weights(inputs[1]).T, 0.0)
        elif operation in ("Add", "Sub", "Mul", "Div"):
            is_first = inputs[0] is None
            arithmetic(chain, operation.lower(), inputs[1 if is_first else 0], is_first)
        elif operation in _SIMPLE:
            chain.activate(Activation(_SIMPLE[operation]))
        elif operation == "Clip":
            limits = [options.get("min"), options.get("max")] if self.version < 11 else [*inputs[1:], None, None][:2]
            chain.clip(*(None if limit is None else float(np.reshape(limit, ())) for limit in limits))
        elif operation == "LeakyRelu":
            chain.leaky(float(options.get("alpha", np.float32(0.01))))
        elif operation == "PRelu":
            if np.size(inputs[1]) != 1:
                raise InputError(f"has {np.size(inputs[1])} slopes, expected one")
            chain.leaky(float(np.reshape(inputs[1], ())))
        elif operation == "Scaler":
            scale = np.array(options["scale"])
            chain.affine(scale, -np.array(options["offset"]) * scale)
        elif operation == "BatchNormalization":
            scale, shift, mean, variance = inputs[1:5]
            chain.normalize(mean, variance, scale, shift, options.get("epsilon", float(np.float32(1e-5))))
        elif len(result) != len(given) or not np.array_equal(result.reshape(-1), given.reshape(-1), equal_nan=True):
            raise InputError("changes its input, expected what leaves samples as they are")

    def _weights(self, weights: Any) -> Any:
        self.most_numbers -= np.prod(weights.shape) + weights.shape[0] if not hasattr(weights, "nnz") else weights.nnz
        if self.most_numbers < 0:
            raise InputError("shares its weights with other layers, expected as many numbers as the file holds")
        return weights if weights.dtype.kind != "V" and weights.dtype.itemsize > 1 else weights.astype(np.float32)

    def _matrix(self, tensor: Any) -> Any:
        """A sparse constant as a matrix of scipy.sparse."""
        values, indices = (self.onnx.numpy_helper.to_array(part) for part in (tensor.values, tensor.indices))
        place, shape = f"{self.path}: {quote(tensor.values.name)}", tuple(tensor.dims)
        if len(shape) != 2:
            fail(place, f"a sparse constant of {len(shape)} dimensions", "2")
        rows, columns = (indices // shape[1], indices % shape[1]) if indices.ndim == 1 else indices.T
        return csr_of_parts("coo", shape, rows, columns, values, place).astype(values.dtype)

    def _shown(self, node: Any) -> str:
        what = quote(f"{node.domain}.{node.op_type}" if node.domain else node.op_type)
        return f"{what} (node {quote(node.name)})" if node.name else what


# --- writing

_OPSET = 17  # which every runtime since 2022 knows


def write(layers: Sequence[Layer], name: str, path: str, is_sparse: bool) -> None:
    """A model of Gemm and activations, of float if that holds all weights and biases exactly, else of double. The input is x
    [samples, inputs], the output y [samples, outputs]. Raises ResourceError if the package onnx is missing."""
    onnx = library("onnx", path)
    parts = [number for layer in layers for number in (layer.weights.data, layer.bias)]
    is_single = all(_container.narrow(part).dtype == np.float32 for part in parts)
    dtype, kind = (np.float32, onnx.TensorProto.FLOAT) if is_single else (np.float64, onnx.TensorProto.DOUBLE)
    to_tensor, nodes, dense, sparse, value = onnx.numpy_helper.from_array, [], [], [], "x"
    for number, layer in enumerate(layers):
        outputs, inputs = layer.weights.shape
        weights, bias, result = f"w{number}", f"b{number}", "y" if number + 1 == len(layers) else f"x{number + 1}"
        if is_sparse:
            rows = layer.weights.tocoo()
            places = rows.row.astype(np.int64) * inputs + rows.col
            values = to_tensor(rows.data.astype(dtype), weights)
            sparse.append(onnx.SparseTensorProto(values=values, indices=to_tensor(places, f"{weights}_places"), dims=[outputs, inputs]))
        else:
            dense.append(to_tensor(layer.weights.toarray().astype(dtype), weights))
        dense.append(to_tensor(np.array(np.broadcast_to(layer.bias, outputs), dtype), bias))
        activation = layer.activation.name
        total = result if activation == "identity" else f"sum{number}"
        nodes.append(onnx.helper.make_node("Gemm", [value, weights, bias], [total], transB=1))
        if activation == "clipped_relu":
            limits = [f"lowest{number}", f"highest{number}"]
            dense += [to_tensor(np.array(limit, dtype), name) for name, limit in zip(limits, (0.0, layer.activation.parameter))]
            nodes.append(onnx.helper.make_node("Clip", [total, *limits], [result]))
        elif activation == "leaky_relu":
            slope = f"slope{number}"  # an attribute of LeakyRelu would be of float
            dense.append(to_tensor(np.array(layer.activation.parameter, dtype).reshape(1), slope))
            nodes.append(onnx.helper.make_node("PRelu", [total, slope], [result]))
        elif activation != "identity":
            nodes.append(onnx.helper.make_node(activation.capitalize(), [total], [result]))
        value = result
    ends = [("x", layers[0].weights.shape[1]), ("y", layers[-1].weights.shape[0])]
    given, wanted = (onnx.helper.make_tensor_value_info(end, kind, ["samples", width]) for end, width in ends)
    graph = onnx.helper.make_graph(nodes, name, [given], [wanted], dense, sparse_initializer=sparse)
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", _OPSET)], ir_version=8, producer_name="varve")
    if model.ByteSize() >= _MOST_BYTES:
        raise UsageError(f"{path} would have {model.ByteSize()} bytes, expected less than 2 GiB in one file of ONNX" + ("" if is_sparse else ": sparse=True takes less"))
    onnx.checker.check_model(model)
    with _container.appearing(path) as file:
        file.write(model.SerializeToString())
