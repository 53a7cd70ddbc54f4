"""Networks of torch, which is not imported here: whoever has a module of it has torch."""

from __future__ import annotations

import contextlib
import sys
from typing import Any, Iterator, NamedTuple

import numpy as np

from . import _arrays, _layers
from ._activation import Activation
from ._errors import InputError

_PLAIN = ("ReLU", "Sigmoid", "Tanh", "Identity")
_SKIPPED = ("Flatten", "Dropout")
_KINDS = ("Linear", "ReLU6", "LeakyReLU", "Hardtanh", *_PLAIN, *_SKIPPED)
_EXPECTED = "Linear, ReLU, ReLU6, LeakyReLU, Hardtanh(0, cap), Sigmoid, Tanh, Identity, Flatten, Dropout or Sequential of them"


class _Part(NamedTuple):
    """A module that is no Sequential, as often as it is used."""

    module: Any
    kind: str
    name: str  #: for messages: its place and its kind


class _Call(NamedTuple):
    """What a part did with the random batch, and the weights and biases that it used, if it has any: masks of
    torch.nn.utils.prune come into module.weight only when it runs."""

    module: Any
    given: np.ndarray
    result: np.ndarray
    weight: Any
    bias: Any


def layers_of(module: Any) -> tuple[list[Any], list[Any], list[Activation]]:
    """Weights [outputs, inputs], biases and activations of a Sequential.

    One random batch runs through the module. Raises InputError, naming the first part, unless each layer that was read
    gives the module's own result for it, so that hooks and classes of others are noticed.
    """
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(module, torch.nn.Module):
        raise InputError(f"found {type(module).__name__}, expected a module of torch")
    parts = list(_parts(torch, module, ""))
    groups = _groups(parts)
    if not groups:
        raise InputError(f"found no Linear in {type(module).__name__}, expected at least one")
    linears = [parts[group[0]].module for group in groups]
    try:
        shapes = [tuple(linear.weight.shape) for linear in linears]
        _layers.require_chain(shapes, False)
        batch = _layers.random_batch(shapes)
        calls, result = _run(torch, module, parts, linears[0].weight, batch)
    except InputError:
        raise
    except Exception as error:  # whatever the module and its hooks raise
        raise InputError(f"{type(module).__name__} cannot run a random batch, by which its layers are checked: {error}") from error
    _require_chain(parts, calls, batch, result)
    unit = float(torch.finfo(linears[0].weight.dtype).eps) / 2
    layers = [(calls[group[0]].weight, calls[group[0]].bias, _activation_of_group(parts, group)) for group in groups]
    for group, layer in zip(groups, layers):
        _require_same(parts[group[0]].name, layer, calls[group[0]].given, calls[group[-1]].result, unit)
    weights, biases, activations = (list(column) for column in zip(*layers))
    return weights, biases, activations


def _parts(torch: Any, module: Any, place: str) -> Iterator[_Part]:
    """The parts in order, those that are used several times so many times."""
    kind = _kind_of(torch, module, ("Sequential", *_KINDS))
    if kind is None:
        name = type(module).__name__
        owner = f" of {type(module).__module__}" if name in ("Sequential", *_KINDS) else ""
        raise InputError(f"found {place}{name}{owner}, expected {_EXPECTED}, as torch.nn has them")
    if kind != "Sequential":
        yield _Part(module, kind, place + kind)
        return
    for name, child in module._modules.items():  # named_children() has each child once
        yield from _parts(torch, child, f"{place}[{name}] ")


def _kind_of(torch: Any, module: Any, kinds: tuple[str, ...]) -> str | None:
    """The class of torch.nn whose forward() the module has; None if that is its own, whatever its class is called."""
    for base in type(module).__mro__:
        if base.__name__ in kinds and getattr(torch.nn, base.__name__) is base:
            return base.__name__ if type(module).forward is base.forward else None
    return None


def _groups(parts: list[_Part]) -> list[range]:
    """The parts of each layer: a Linear and what follows it, checked to be one activation at most. Parts before the first
    Linear change nothing."""
    starts = [number for number, part in enumerate(parts) if part.kind == "Linear"]
    for part in parts[: starts[0]] if starts else parts:
        if part.kind not in _SKIPPED:
            raise InputError(f"{part.name} has no Linear before it, whose activation it could be")
    groups = [range(start, end) for start, end in zip(starts, [*starts[1:], len(parts)])]
    for group in groups:
        _activation_of_group(parts, group)
    return groups


def _activation_of_group(parts: list[_Part], group: range) -> Activation:
    found: Activation | None = None
    for number in group[1:]:
        if parts[number].kind in _SKIPPED:
            continue
        activation = _activation_of(parts[number])
        if found is not None and activation.name != "identity":
            raise InputError(f"{parts[number].name} follows another activation, expected Linear or the end")
        found = found or activation
    return found or Activation("identity")


def _activation_of(part: _Part) -> Activation:
    if part.kind in _PLAIN:
        return Activation(part.kind.lower())
    if part.kind == "ReLU6":
        return Activation.clipped_relu(6.0)
    if part.kind == "LeakyReLU":
        return Activation.leaky_relu(float(part.module.negative_slope))
    if part.module.min_val != 0:
        raise InputError(f"{part.name} begins at {part.module.min_val}, expected 0")
    return Activation.clipped_relu(float(part.module.max_val))


# --- the random batch


def _run(torch: Any, module: Any, parts: list[_Part], weight: Any, batch: np.ndarray) -> tuple[list[_Call], np.ndarray]:
    """What each part did with the batch, in order, and the result. Leaves the module and torch's states as they are."""
    calls: list[_Call] = []
    names = {id(part.module): part.name for part in parts}

    def record(part: Any, given: Any, result: Any) -> None:
        name = names[id(part)]
        tensors = [_to_array(torch, tensor, name) for tensor in (*given, result)]
        weight, bias = (_to_array(torch, getattr(part, which, None), f"{name}.{which}") for which in ("weight", "bias"))
        calls.append(_Call(part, tensors[0], tensors[-1], weight, bias))

    with contextlib.ExitStack() as stack:
        for child in module.modules():
            stack.callback(child.__dict__.update, dict(child.__dict__))  # training, and weights under masks
        for part in {id(part.module): part.module for part in parts}.values():
            stack.callback(part.register_forward_hook(record).remove)
        stack.enter_context(_plain_arithmetic(torch, weight.device))
        module.eval()
        result = module(torch.from_numpy(batch).to(weight.device, weight.dtype))
        return calls, _to_array(torch, result, "the result")


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


def _to_array(torch: Any, tensor: Any, name: str) -> Any:
    """The numbers of a tensor in host memory as float64, which holds them exactly: a copy, since modules may write in place.
    0 for None."""
    return 0.0 if tensor is None else np.array(_arrays.to_numpy(tensor.detach().cpu().to(torch.float64), name))


# --- comparing


def _require_chain(parts: list[_Part], calls: list[_Call], batch: np.ndarray, result: np.ndarray) -> None:
    """Raises InputError unless the parts ran in their order, each with exactly the result of the one before it."""
    before, given = "the module", calls[0].given if calls else batch
    if not np.allclose(given, batch, rtol=0.01, atol=1e-3):  # the batch was rounded to the type of the module
        raise InputError(f"{parts[0].name} gets another input than the module: a hook changes it, which no layer can do")
    for part, call in zip(parts, calls):
        if call.module is not part.module:
            raise InputError(f"the module calls {type(call.module).__name__} where {part.name} is expected")
        if not np.array_equal(call.given, given, equal_nan=True):
            raise InputError(f"{part.name} gets another input than {before} gives: a hook changes it, which no layer can do")
        if part.kind in _SKIPPED and not np.array_equal(call.result, given, equal_nan=True):
            raise InputError(f"{part.name} changes its input, expected a module that leaves samples as they are")
        before, given = part.name, call.result
    if len(calls) != len(parts):
        raise InputError(f"the module calls {len(calls)} modules, expected the {len(parts)} of its Sequential, once each")
    if not np.array_equal(result, given, equal_nan=True):
        raise InputError(f"the module gives another result than {before}, its last one: a hook changes it, which no layer can do")


def _require_same(name: str, layer: tuple[Any, Any, Activation], given: np.ndarray, result: np.ndarray, unit: float) -> None:
    """Raises InputError unless a layer gives this result, up to the rounding of torch.

    A sum of n products in any order is off by n roundings of its type (of float, in which torch adds numbers of half the
    size) times the sum of the products' sizes at most; the bias, the stored result, sums that are kept in a short type in
    between and a smooth activation add some roundings more. No activation makes differences larger.
    """
    weights, bias, activation = layer
    found = _layers.outputs_of([weights], [bias], [activation], given)
    sizes = np.abs(given) @ np.abs(weights).T + np.abs(bias)
    tolerance = (given.shape[1] * min(unit, 2.0**-24) + 8 * unit) * (sizes + (activation.name in ("sigmoid", "tanh")))
    if found.shape != result.shape:
        raise InputError(f"{name} gives a result of the shape {result.shape} for random samples, expected {found.shape}")
    wrong = np.argwhere(~(np.abs(found - result) <= tolerance))
    if wrong.size:
        place = tuple(wrong[0])
        raise InputError(
            f"{name} gives {result[place]:.6g} at output {place[1]} for a random sample, expected {found[place]:.6g} by its "
            f"weights, bias and {activation.name}: something else, as a hook, changes it, which no layer can do"
        )
