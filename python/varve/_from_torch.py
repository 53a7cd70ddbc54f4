"""Networks of torch, which is not imported here: a caller with a module has it."""

from __future__ import annotations

import contextlib
import math
import sys
from collections.abc import Mapping
from typing import Any, Iterator

import numpy as np

from . import _arrays, _layers
from ._activation import CURVES, SIMPLE, Activation
from ._chain import Chain, arithmetic, run_first
from ._errors import InputError, UsageError

_ACTIVATIONS = {name + end: name for name in SIMPLE for end in ("", "_")}
_LEAKY = ("leaky_relu", "leaky_relu_", "prelu")
_CLIPS = ("relu6", "hardtanh", "hardtanh_", "clamp", "clamp_", "clip", "clip_", "clamp_min", "clamp_min_")
_ARITHMETIC = {"add": "add", "sub": "sub", "mul": "mul", "truediv": "div", "div": "div", "subtract": "sub", "multiply": "mul", "divide": "div"}
_PRODUCTS = ("linear", "matmul", "mm", "addmm")
_ENDS = {"softmax": "Softmax", "log_softmax": "LogSoftmax", "argmax": "ArgMax", "exp": "Exp"}
#: What leaves the numbers of each sample as they are, which the random batch shows.
_SAME = (
    *("identity", "dropout", "alphadropout", "flatten", "unflatten", "view", "reshape", "squeeze", "unsqueeze", "contiguous", "float", "double"),
    *("to", "type", "clone", "detach", "type_as", "view_as", "reshape_as", "cpu", "cuda"),
)
#: Modules that are not looked into: their names, and those of the functions that they compute.
_MODULES = {
    **{name: name.lower() for name in ("Linear", *SIMPLE.values(), "ReLU6", "Hardtanh", "Identity", "Dropout", "Flatten", "Unflatten")},
    **{"LeakyReLU": "leaky_relu", "PReLU": "prelu", "AlphaDropout": "alphadropout", "Softmax": "softmax", "LogSoftmax": "log_softmax"},
    **{"BatchNorm1d": "batch_norm", "SparseLinear": "linear"},
}  # fmt: skip
_EXPECTED = (
    f"expected a chain of Linear (or matmul), ReLU, ReLU6, LeakyReLU, PReLU, Hardtanh, clamp, {', '.join(CURVES.values())}, BatchNorm1d, sums and products "
    "with constants, Flatten, Dropout and Identity, with Softmax, LogSoftmax, argmax or exp at the end; give the part of the module that is one"
)


def chain_of(module: Any, activation: Any = None) -> Chain:
    """The layers of a module, or of a state_dict with an activation for all layers or one for each.

    torch.fx traces the module; one random batch runs through the traced graph and through the module. Raises InputError,
    naming the first operation that no layer can hold, or whose result its layer does not give.
    """
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(module, Mapping):
        return _chain_of_state(torch, module, activation)
    if torch is None or not isinstance(module, torch.nn.Module):
        raise InputError(f"found {type(module).__name__}, expected a module of torch or its state_dict")
    if activation is not None:
        raise UsageError("activation is for a state_dict; a module says its activations itself")
    module = _unwrapped(module)
    if isinstance(module, torch.jit.ScriptModule):
        raise InputError(f"found {type(module).__name__} of torch.jit, expected the module that it was made of, or its state_dict")
    for name, tensor in [*module.named_parameters(), *module.named_buffers()]:
        if torch.nn.parameter.is_lazy(tensor) or tensor.is_meta:
            raise InputError(f"{name} has no numbers yet, expected a module that has run or was loaded")
    with contextlib.ExitStack() as stack:
        for child in module.modules():
            stack.callback(child.__dict__.update, dict(child.__dict__))  # training, and weights under masks
        module.eval()
        return _Reader(torch, module).chain()


def _unwrapped(module: Any) -> Any:
    """The module in what torch.compile, DataParallel and DistributedDataParallel make of it."""
    while True:
        inner = getattr(module, "_orig_mod", None)
        if inner is None and type(module).__name__ in ("DataParallel", "DistributedDataParallel"):
            inner = module.module
        if inner is None:
            return module
        module = inner


class _Reader:
    """Traces a module, runs a random batch, and follows it from the input to the output."""

    def __init__(self, torch: Any, module: Any) -> None:
        self.torch, self.module, self.name = torch, module, type(module).__name__
        root = torch.nn.Sequential(module)  # so that a Linear alone is a node, too
        try:
            traced = torch.fx.GraphModule(root, _tracer(torch).trace(root))
        except Exception as error:
            raise InputError(
                f"torch.fx cannot trace {self.name}: {_line(error)}; give the part of it that is a chain without conditions on numbers"
            ) from error
        self.modules, self.graph = dict(root.named_modules()), traced.graph
        self.graph.eliminate_dead_code()
        inputs = [node for node in self.graph.nodes if node.op == "placeholder" and not node.args]
        if len(inputs) != 1:
            raise InputError(f"{self.name} takes {len(inputs)} inputs, expected one")
        self.input = inputs[0]
        self.on_samples = {self.input}  # the nodes that depend on it
        for node in self.graph.nodes:
            if self.on_samples.intersection(node.all_input_nodes):
                self.on_samples.add(node)
        self.run = _interpreter(torch, traced, self.on_samples)

    def chain(self) -> Chain:
        torch, tensors = self.torch, [*self.module.parameters(), *self.module.buffers()]
        weights = [tensor for tensor in tensors if tensor.is_floating_point() or tensor.is_complex()]
        if not weights:
            self._require_known()
            raise InputError(f"found no Linear in {self.name}, expected at least one")
        like, sizes = weights[0], sum(tensor.numel() for tensor in weights)
        with _plain_arithmetic(torch, like.device):

            def run(batch: np.ndarray) -> Any:
                samples = torch.from_numpy(batch).to(like.device, like.dtype)
                self.run.run(samples)
                return self.module(samples)

            try:
                batch, result = run_first(self._widths(weights), run, sizes)
            except Exception as error:
                self._require_known()
                raise InputError(f"{self.name} cannot run a random batch, by which its layers are checked: {_line(error)}") from error
        batch = np.asarray(self.run.values[self.input])  # rounded to the type of the module
        self.unit = float(torch.finfo(like.dtype).eps) / 2
        chain, last = self._follow(Chain(batch.shape[1]))
        chain.finish()
        if not chain.layers:
            raise InputError(f"found no Linear in {self.name}, expected at least one")
        chain.mark(self._shown(last), self.run.values[last].reshape(len(batch), -1))
        chain.require_same(batch, self.unit)
        traced = next(node for node in reversed(self.graph.nodes) if node.op == "output").args[0]
        if not isinstance(result, torch.Tensor) or not np.array_equal(_to_array(torch, result), self.run.values.get(traced), equal_nan=True):
            raise InputError(f"{self.name} gives another result than its traced graph: a hook changes it, which no layer can do")
        return chain

    def _widths(self, weights: list[Any]) -> list[int]:
        """Numbers of inputs that the module may have, the likely ones first."""
        nodes = [self.modules[node.target] for node in self.graph.nodes if node.op == "call_module"]
        first = [getattr(part, name) for part in nodes for name in ("in_features", "num_features") if hasattr(part, name)]
        shapes = [tensor.shape for tensor in weights if tensor.ndim == 2]
        return list(dict.fromkeys([*first[:1], *(width for shape in shapes for width in reversed(shape)), *first]))

    def _follow(self, chain: Chain) -> tuple[Chain, Any]:
        """The layers, and the last node that they hold."""
        value = last = self.input
        for node in self.graph.nodes:
            if node.op == "output":
                if node.args[0] is not value:
                    raise InputError(f"{self.name} gives {node.args[0]}, expected {self._shown(value)}, its last operation, as a tensor")
            if not node.op.startswith("call") or node not in self.on_samples or node not in self.run.values:
                continue  # constants, and shapes
            if [given for given in node.all_input_nodes if given in self.on_samples and given in self.run.values] != [value]:
                raise InputError(f"{self._shown(node)} takes another value than that of {self._shown(value)} before it, expected a chain without branches")
            if not self._is_known(node):
                raise self._refused(node)
            if chain.left_out and self._function(node) not in (*_ENDS, *_SAME):
                raise InputError(f"{self._shown(node)} comes behind {chain.left_out[0]}, which stands at the end only")
            try:
                self._take(chain, node, value)
            except InputError as error:
                raise InputError(f"{self._shown(node)} {error}") from None
            value = node
            if not chain.left_out:
                last = node
                chain.mark(self._shown(node), self.run.values[node].reshape(len(self.run.values[self.input]), -1))
        return chain, last

    def _take(self, chain: Chain, node: Any, value: Any) -> None:
        function, given, result = self._function(node), self.run.values[value], self.run.values[node]
        arguments = [self._constant(argument) for argument in node.args]
        named = {name: self._constant(argument) for name, argument in node.kwargs.items()}
        part = self.run.parts.get(node)

        def option(position: int, name: str, otherwise: Any) -> Any:
            if part is not None:
                return part.get(name, otherwise)
            return arguments[position] if position < len(arguments) else named.get(name, otherwise)

        if function in _PRODUCTS or function == "batch_norm":
            if given.ndim != 2:
                raise InputError(f"gets samples of {given.ndim - 1} dimensions, expected one: Flatten before it")
        if function == "linear":
            bias = option(2, "bias", None)
            chain.linear(option(1, "weight", None), 0.0 if bias is None else bias)
        elif function in ("matmul", "mm", "addmm"):
            left, right, bias = (*arguments, 0.0)[:3] if function != "addmm" else (arguments[1], arguments[2], arguments[0])
            if left is not None or right is None or named:
                raise InputError("multiplies samples from the right, or scales, expected samples @ weights")
            chain.linear(right.T, bias)
        elif function in _ACTIVATIONS:
            if function == "softplus":
                self._require_softplus(float(option(1, "beta", 1.0)), float(option(2, "threshold", 20.0)))
            chain.activate(Activation(_ACTIVATIONS[function]))
        elif function in _LEAKY:
            slope = option(1, "weight" if function == "prelu" else "negative_slope", 0.01)
            if np.size(slope) != 1:
                raise InputError(f"has {np.size(slope)} slopes, expected one")
            chain.leaky(float(np.reshape(slope, ())))
        elif function in _CLIPS:
            lowest, highest = ("min", "max") if function.startswith("cl") else ("min_val", "max_val")
            otherwise = (None, None) if function.startswith("cl") else (-1.0, 1.0)
            limits = (0.0, 6.0) if function == "relu6" else (option(1, lowest, otherwise[0]), option(2, highest, otherwise[1]))
            chain.clip(*(None if limit is None else float(limit) for limit in limits))
        elif function == "batch_norm":
            names = ("running_mean", "running_var", "weight", "bias")
            mean, variance, scale, shift = (option(place, name, None) for place, name in enumerate(names, 1))
            if mean is None or variance is None:
                raise InputError("has no running mean and variance, expected them")
            chain.normalize(mean, variance, 1.0 if scale is None else scale, 0.0 if shift is None else shift, option(7, "eps", 1e-5))
        elif function in _SAME:
            if not np.array_equal(result.reshape(-1), given.reshape(-1), equal_nan=True) or len(result) != len(given):
                raise InputError("changes its input, expected what leaves samples as they are")
        elif function in _ENDS:
            if function != "exp" and option(1, "dim", None) not in (None, -1, given.ndim - 1):
                raise InputError(f"has the dimension {option(1, 'dim', None)}, expected 1 or -1: over the outputs of a sample")
            chain.left_out.append(_ENDS[function])
        elif function == "neg":
            chain.affine(-1.0, 0.0)
        else:
            name = _ARITHMETIC[function.strip("_").removeprefix("i") if function not in _ARITHMETIC else function]
            is_first = node.args[0] is value
            if len(arguments) != 2 or named or arguments[1 if is_first else 0] is None:
                raise InputError("takes samples twice, or more than two operands, expected a value and a constant")
            arithmetic(chain, name, arguments[1 if is_first else 0], is_first)

    def _require_softplus(self, beta: float, threshold: float) -> None:
        """Raises InputError unless log(1 + exp(x)) rounds to x from the threshold on, where torch takes x."""
        if beta != 1.0:
            raise InputError(f"has the beta {beta:g}, expected 1")
        if not math.exp(-max(threshold, 0.0)) <= threshold * self.unit:
            raise InputError(f"takes x for log(1 + exp(x)) from the threshold {threshold:g} on, where they differ: set it to 40")

    def _constant(self, argument: Any) -> Any:
        """The numbers of an argument of a node; None for the samples."""
        if not isinstance(argument, self.torch.fx.Node):
            return argument
        return self.run.constants.get(argument)

    def _function(self, node: Any) -> str:
        """What a node computes; "" for what is not known."""
        if node.op == "call_module":
            return _MODULES.get(_kind_of(self.torch, self.modules[node.target]) or "", "")
        if node.op == "call_method":
            return str(node.target)
        place = str(getattr(node.target, "__module__", None) or "")
        return node.target.__name__.strip("_") if place.partition(".")[0] in ("torch", "_operator", "") else ""

    def _is_known(self, node: Any) -> bool:
        function = self._function(node)
        plain = function.strip("_").removeprefix("i")
        names = (*_PRODUCTS, *_ACTIVATIONS, *_LEAKY, *_CLIPS, *_SAME, *_ENDS, *_ARITHMETIC, "neg", "batch_norm")
        return function in names or plain in _ARITHMETIC or function in ("size", "dim", "getitem", "getattr", "numel")

    def _shown(self, node: Any) -> str:
        if node is self.input:
            return "the input"
        if node.op == "call_module":
            place = node.target.partition(".")[2]
            return f"{place} ({type(self.modules[node.target]).__name__})" if place else type(self.modules[node.target]).__name__
        return f"{getattr(node.target, '__name__', node.target)} ({node.name})"

    def _require_known(self) -> None:
        for node in self.graph.nodes:
            if node in self.on_samples and node.op.startswith("call") and not self._is_known(node):
                raise self._refused(node)

    def _refused(self, node: Any) -> InputError:
        owner = ""
        if node.op == "call_module" and type(self.modules[node.target]).__name__ in _MODULES:
            owner = f" of {type(self.modules[node.target]).__module__}"
        return InputError(f"found {self._shown(node)}{owner}, {_EXPECTED}")


def _kind_of(torch: Any, module: Any) -> str | None:
    """The class of torch.nn whose forward() the module has; None if that is its own, for any name of its class."""
    if type(module).__module__ == "varve.torch":
        return "SparseLinear"
    for base in type(module).__mro__:
        if base.__name__ in _MODULES and getattr(torch.nn, base.__name__, None) is base:
            return base.__name__ if type(module).forward is base.forward else None
    return None


def _tracer(torch: Any) -> Any:
    class Tracer(torch.fx.Tracer):  # type: ignore[misc]
        """Takes the modules that are known, and all others of torch but containers, as one node each."""

        def is_leaf_module(self, module: Any, name: str) -> bool:
            return _kind_of(torch, module) is not None or super().is_leaf_module(module, name)

    return Tracer()


_ATTRIBUTES = ("weight", "bias", "running_mean", "running_var", "eps", "negative_slope", "beta", "threshold", "min_val", "max_val", "dim")


def _interpreter(torch: Any, traced: Any, on_samples: set[Any]) -> Any:
    class Interpreter(torch.fx.Interpreter):  # type: ignore[misc]
        """Runs a graph and keeps what each node gives, and the weights that each module had then: masks of
        torch.nn.utils.prune come into module.weight only when it runs."""

        def __init__(self) -> None:
            super().__init__(traced)
            self.values: dict[Any, np.ndarray] = {}  # of tensors that depend on samples, as float64
            self.constants: dict[Any, Any] = {}  # of all others
            self.parts: dict[Any, dict[str, Any]] = {}  # of modules: their attributes

        def run_node(self, node: Any) -> Any:
            result = super().run_node(node)
            if node not in on_samples:
                self.constants[node] = _plain(torch, result)
            elif isinstance(result, torch.Tensor):
                self.values[node] = _to_array(torch, result)
            if node.op == "call_module":
                part = self.fetch_attr(node.target)
                found = {name: getattr(part, name, None) for name in _ATTRIBUTES}
                if type(part).__module__ == "varve.torch":
                    found["weight"] = _arrays.csr_of_tensors(part.rows, part.columns, part.weight, (part.out_features, part.in_features))
                self.parts[node] = {name: _plain(torch, value) for name, value in found.items() if value is not None}
            return result

    return Interpreter()


@contextlib.contextmanager
def _plain_arithmetic(torch: Any, device: Any) -> Iterator[None]:
    """torch without gradients, with its numbers of random in the end as before, and float32 in full precision."""
    kind = str(device).partition(":")[0]
    before = torch.get_float32_matmul_precision()
    with torch.no_grad(), torch.random.fork_rng([device] if kind == "cuda" else []), torch.autocast(kind, enabled=False):
        torch.set_float32_matmul_precision("highest")
        try:
            yield
        finally:
            torch.set_float32_matmul_precision(before)


def _to_array(torch: Any, tensor: Any) -> np.ndarray:
    """The numbers of a tensor in host memory as float64, which holds them exactly: a copy, since modules may write in place."""
    return np.array(tensor.detach().cpu().to(torch.float64).to_dense().numpy())


def _plain(torch: Any, value: Any) -> Any:
    """A tensor as an array, or as a matrix of scipy.sparse whose stored zeros are edges; anything else as it is."""
    return _arrays.of_tensor(value) if isinstance(value, torch.Tensor) else value


def _line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0][:300]


# --- state_dict


def _chain_of_state(torch: Any, state: Mapping[str, Any], activation: Any) -> Chain:
    """The layers of the weights of a state_dict, in its order: of each a bias of the same name, if there is one."""
    state = {name: tensor for name, tensor in state.items() if isinstance(tensor, torch.Tensor)}
    weights: dict[str, Any] = {}
    for name in list(state):
        base = name.removesuffix("_orig")
        if base.rpartition(".")[2] != "weight" or state[name].ndim != 2:
            continue
        mask = state.get(f"{base}_mask") if base != name else None
        weights[base] = _plain(torch, state[name] if mask is None else state[name] * mask)
    known = {f"{base}{end}" for base in weights for end in ("", "_orig", "_mask")}
    known |= {f"{base.removesuffix('weight')}bias{end}" for base in weights for end in ("", "_orig", "_mask")}
    for name in state:
        if name not in known:
            raise InputError(
                f"found {name} {_arrays.shape_text(tuple(state[name].shape))} in the state_dict, expected the weights and biases of Linear: load the "
                "state_dict into its module and give that"
            )
    if not weights:
        raise InputError("found no weights of two dimensions in the state_dict, expected at least one")
    if activation is None:
        raise UsageError(
            f"a state_dict does not say activations: give activation, one for all layers or a list of {len(weights)}, for {', '.join(weights)}"
        )
    chain = Chain(next(iter(weights.values())).shape[1])
    activations = _layers.per_layer(activation, len(weights), "activations")
    for (name, matrix), found in zip(weights.items(), activations):
        start = name.removesuffix("weight") + "bias"
        bias = next((state[key] * state.get(f"{start}_mask", 1) if key != start else state[key] for key in (start, f"{start}_orig") if key in state), None)
        try:
            chain.linear(matrix, 0.0 if bias is None else _plain(torch, bias))
        except InputError as error:
            raise InputError(f"{name} {error}") from None
        chain.activate(_layers.to_activation(found))
    return chain
