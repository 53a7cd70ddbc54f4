"""Sparse layers for models of torch, forward and backward by Varve's kernels. Needs torch; nothing else of varve imports it.

:class:`SparseLinear` replaces ``torch.nn.Linear``, and :func:`sparsify` does so in a whole model. Its edges may move while it
learns: :func:`set_step` and :func:`rigl_step`. :func:`prune_step` takes edges away.
"""

from __future__ import annotations

import contextlib
import functools
import math
from typing import Any, Iterable, Iterator, Optional, Sequence

import torch
from torch import Tensor, nn

from . import _core
from ._errors import InputError, UsageError

__all__ = ["SparseLinear", "erdos_renyi", "prune_step", "rigl_step", "set_step", "sparsify", "watched"]


# --- the operator


@functools.lru_cache(maxsize=None)
def _backend_of(device: torch.device) -> str:
    backends = _core.backends()
    names = ("cuda", "hip") if device.type == "cuda" else ("openmp", "serial") if device.type == "cpu" else ()
    backend = next((name for name in names if name in backends), None)
    if backend is None:
        raise UsageError(f"x is on {device}, which no backend of this build of varve reaches; it has {', '.join(backends)}")
    if device.type == "cuda" and device.index != (_core.gpu() or (None,))[0]:
        raise UsageError(f"x is on {device}, which is not the GPU that varve runs on: varve.start(device=...) takes another one")
    return backend


class _Run:
    """One call of the kernels: the layer, and memory of torch for what they need beside it."""

    def __init__(self, x: Tensor, weight: Tensor, pattern: tuple[Tensor, ...]) -> None:
        if x.dtype != weight.dtype or x.dtype not in (torch.float32, torch.float64):
            raise UsageError(f"x and weight are {x.dtype} and {weight.dtype}, expected both torch.float32 or both torch.float64")
        device = x.device
        if any(tensor.device != device for tensor in (weight, *pattern)):
            raise UsageError(f"x is on {device}, weight and pattern on {weight.device} and {pattern[0].device}, expected one device")
        backend = _backend_of(device)
        self.pattern = tuple(part.contiguous() for part in pattern)  # lives as long as the call
        rows, columns, input_rows, outputs, places = (part.data_ptr() for part in self.pattern)
        stream = torch.cuda.current_stream(device).cuda_stream if x.is_cuda else 0
        num_outputs, num_inputs = self.pattern[0].shape[0] - 1, self.pattern[2].shape[0] - 1
        self.layer = _core.SparseLayer(
            backend, stream, x.dtype == torch.float64, rows, columns, input_rows, outputs, places, num_inputs, num_outputs, weight.shape[0]
        )
        self.scratch = torch.empty(self.layer.scratch(x.shape[0]), dtype=torch.uint8, device=device)


def _pointer(tensor: Optional[Tensor]) -> int:
    return 0 if tensor is None else tensor.data_ptr()


def _compute(
    x: Tensor, weight: Tensor, bias: Optional[Tensor], rows: Tensor, columns: Tensor, input_rows: Tensor, outputs: Tensor, places: Tensor
) -> Tensor:
    x, weight, bias = x.contiguous(), weight.contiguous(), None if bias is None else bias.contiguous()
    num_samples = x.shape[0]
    y = x.new_empty(num_samples, rows.shape[0] - 1)
    if num_samples:
        run = _Run(x, weight, (rows, columns, input_rows, outputs, places))
        run.layer.forward(num_samples, x.data_ptr(), weight.data_ptr(), _pointer(bias), y.data_ptr(), run.scratch.data_ptr())
    return y


def _compute_backward(
    dy: Tensor, x: Tensor, weight: Tensor, rows: Tensor, columns: Tensor, input_rows: Tensor, outputs: Tensor, places: Tensor, needs_dx: bool
) -> tuple[Tensor, Tensor, Tensor]:
    dy, x, weight = dy.contiguous(), x.contiguous(), weight.contiguous()
    num_samples = x.shape[0]
    dx = torch.empty_like(x) if needs_dx else x.new_empty(0)
    if not num_samples:
        return dx, torch.zeros_like(weight), x.new_zeros(rows.shape[0] - 1)
    dweight, dbias = torch.empty_like(weight), x.new_empty(rows.shape[0] - 1)
    run = _Run(x, weight, (rows, columns, input_rows, outputs, places))
    given = (x.data_ptr(), dy.data_ptr(), weight.data_ptr())
    run.layer.backward(num_samples, *given, dx.data_ptr() if needs_dx else 0, dweight.data_ptr(), dbias.data_ptr(), run.scratch.data_ptr())
    return dx, dweight, dbias


_operator = torch.library.custom_op("varve::sparse_linear", _compute, mutates_args=())
_backward_operator = torch.library.custom_op("varve::sparse_linear_backward", _compute_backward, mutates_args=())


@_operator.register_fake
def _(x, weight, bias, rows, columns, input_rows, outputs, places):  # type: ignore[no-untyped-def]
    return x.new_empty(x.shape[0], rows.shape[0] - 1)


@_backward_operator.register_fake
def _(dy, x, weight, rows, columns, input_rows, outputs, places, needs_dx):  # type: ignore[no-untyped-def]
    return torch.empty_like(x) if needs_dx else x.new_empty(0), torch.empty_like(weight), x.new_empty(rows.shape[0] - 1)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: Optional[Tensor] = None) -> None:
    x, weight, _, *pattern = inputs
    ctx.save_for_backward(x, weight, *pattern)


def _gradients(ctx: Any, dy: Tensor, backward: Any = _backward_operator) -> tuple[Optional[Tensor], ...]:
    needs_dx, _, needs_bias = ctx.needs_input_grad[:3]
    dx, dweight, dbias = backward(dy, *ctx.saved_tensors, needs_dx)
    return dx if needs_dx else None, dweight, dbias if needs_bias else None, None, None, None, None, None


torch.library.register_autograd("varve::sparse_linear", _gradients, setup_context=_keep)


class _Direct(torch.autograd.Function):
    """The operator without torch's dispatcher, which takes longer than the kernels where samples are few."""

    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> Tensor:  # type: ignore[override]
        _keep(ctx, inputs)
        return _compute(*inputs)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, dy: Tensor) -> tuple[Optional[Tensor], ...]:  # type: ignore[override]
        return _gradients(ctx, dy, _compute_backward)


def _is_observed(x: Tensor) -> bool:
    """True where torch traces, transforms or makes up what it computes, for which it has to see the operator."""
    if torch.compiler.is_compiling() or torch.jit.is_tracing() or type(x) not in (Tensor, nn.Parameter) or x.device.type == "meta":
        return True
    return torch._C._len_torch_dispatch_stack() > 0 or torch._C._are_functorch_transforms_active()


def _linear(x: Tensor, *others: Optional[Tensor]) -> Tensor:
    return _operator(x, *others) if _is_observed(x) else _Direct.apply(x, *others)


# --- the layer


class SparseLinear(nn.Module):
    """y = x W^T + b with a sparse W [out_features, in_features], whose pattern is fixed until a step moves edges.

    :param in_features: numbers of a sample
    :param out_features: numbers of a result
    :param density: share of the places of W that are edges, above 0 and at most 1; their places are random
    :param bias: False for none
    :param device: of parameters and pattern, as of torch.nn.Linear
    :param dtype: torch.float32 or torch.float64
    :param generator: of places and first values
    :raises UsageError: if density is out of range

    ``weight`` is the parameter of the values of edges, [edges], in the order of ``rows`` [out_features + 1] and ``columns`` [edges] (int32
    buffers, compressed sparse rows with ascending columns, part of the state_dict); ``bias`` is [out_features] or None. First values are
    uniform in +- 1 / sqrt(edges per output).

    x is [..., in_features], on the host or, in builds with CUDA or HIP, on the GPU that Varve runs on, in torch's present stream and
    without copies. Each result is one chain of fused multiply-adds in ascending order of inputs; sums over samples are added in the fixed
    order of Varve's training, so that no bit depends on the number of threads. A sum that is not a number becomes minus
    infinity. Gradients of gradients are not computed.
    """

    rows: Tensor  #: int32 [out_features + 1]: the first edge of each output
    columns: Tensor  #: int32 [edges]: the input of each edge, ascending within an output
    input_rows: Tensor  #: int32 [in_features + 1]: the first edge of each input, if edges are sorted by input
    outputs: Tensor  #: int32 [edges]: the output of each edge, sorted by input
    places: Tensor  #: int32 [edges]: the number of each edge in the order of ``columns``, sorted by input

    def __init__(
        self,
        in_features: int,
        out_features: int,
        density: float = 0.1,
        *,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
        generator: Optional[torch.Generator] = None,
    ) -> None:
        super().__init__()
        count = _num_edges(density, in_features, out_features)
        flat = _random_places(in_features * out_features, count, generator)
        self._build(in_features, out_features, flat.to(device) if device is not None else flat)
        bound = 1 / math.sqrt(max(count / out_features, 1))
        kind = {"device": device, "dtype": dtype}
        self.weight = nn.Parameter(torch.empty(count, **kind).uniform_(-bound, bound, generator=generator if device is None else None))
        self.bias = nn.Parameter(torch.empty(out_features, **kind).uniform_(-bound, bound, generator=generator if device is None else None)) if bias else None

    def _build(self, in_features: int, out_features: int, flat: Tensor) -> None:
        """Sets sizes and pattern. flat: output * in_features + input of each edge, ascending."""
        self.in_features, self.out_features = in_features, out_features
        self._gradient: Optional[Tensor] = None  # of all places, while watched
        self._is_watched = False
        for name, part, is_state in zip(("rows", "columns", "input_rows", "outputs", "places"), self._pattern(flat), (True, True, False, False, False)):
            self.register_buffer(name, part, persistent=is_state)

    def _pattern(self, flat: Tensor) -> tuple[Tensor, ...]:
        """rows, columns, input_rows, outputs and places of edges at these places."""
        outputs, columns = flat // self.in_features, flat % self.in_features
        order = torch.argsort(columns, stable=True)
        parts = _pointers(outputs, self.out_features), columns, _pointers(columns, self.in_features), outputs[order], order
        return tuple(part.to(torch.int32) for part in parts)

    @classmethod
    def from_mask(cls, mask: Tensor, weight: Tensor, bias: Optional[Tensor] = None) -> SparseLinear:
        """A layer whose edges are where the mask is not 0.

        :param mask: [out_features, in_features]
        :param weight: values, of the same shape; those beside edges do not count
        :param bias: [out_features], or None for none
        :raises InputError: if shapes do not fit, or no edge is left
        """
        if mask.ndim != 2 or mask.shape != weight.shape or bias is not None and bias.shape != mask.shape[:1]:
            shapes = ", ".join(str(tuple(part.shape)) for part in (mask, weight, bias) if part is not None)
            raise InputError(f"mask, weight and bias have the shapes {shapes}, expected (outputs, inputs) twice and (outputs,)")
        flat = mask.detach().reshape(-1).nonzero()[:, 0].to(weight.device)
        if not len(flat):
            raise InputError("the mask has no edge, expected at least one")
        return cls.from_places(mask.shape[1], mask.shape[0], flat, weight.detach().reshape(-1)[flat], bias)

    @classmethod
    def from_places(cls, in_features: int, out_features: int, places: Tensor, weight: Tensor, bias: Optional[Tensor] = None) -> SparseLinear:
        """A layer with these edges.

        :param places: output * in_features + input of each edge, ascending: int64 [edges]
        :param weight: value of each edge, [edges]
        :param bias: [out_features], or None for none
        """
        made = cls.__new__(cls)
        nn.Module.__init__(made)
        made._build(in_features, out_features, places)
        made.weight = nn.Parameter(weight.detach().clone())
        made.bias = None if bias is None else nn.Parameter(bias.detach().clone())
        return made

    @classmethod
    def from_linear(cls, layer: nn.Linear, density: float = 0.05) -> SparseLinear:
        """A layer with the largest weights of a dense one: density of its places, those of equal size in any order."""
        count = _num_edges(density, layer.in_features, layer.out_features)
        mask = torch.zeros(layer.weight.numel(), dtype=torch.bool, device=layer.weight.device)
        mask[layer.weight.detach().abs().reshape(-1).topk(count).indices] = True
        return cls.from_mask(mask.reshape(layer.weight.shape), layer.weight, layer.bias)

    def forward(self, x: Tensor) -> Tensor:
        """x W^T + b: [..., out_features]. x is [..., in_features], and is converted to the type of the weights."""
        if x.shape[-1] != self.in_features:
            raise InputError(f"x has the shape {tuple(x.shape)}, expected (..., {self.in_features})")
        samples = x.to(self.weight.dtype)
        if x.ndim != 2:
            samples = samples.reshape(-1, self.in_features)
        y = _linear(samples, self.weight, self.bias, self.rows, self.columns, self.input_rows, self.outputs, self.places)
        if self._is_watched and y.requires_grad:
            y.register_hook(lambda dy: self._add_gradient(dy, samples.detach()))
        return y if x.ndim == 2 else y.reshape(*x.shape[:-1], self.out_features)

    def _add_gradient(self, dy: Tensor, x: Tensor) -> None:
        found = dy.detach().T @ x
        self._gradient = found if self._gradient is None else self._gradient + found

    @property
    def num_edges(self) -> int:
        """Edges, which are the values of ``weight``."""
        return len(self.columns)

    @property
    def density(self) -> float:
        """Edges, as a share of in_features * out_features."""
        return self.num_edges / (self.in_features * self.out_features)

    def flat_places(self) -> Tensor:
        """output * in_features + input of each edge, ascending: int64 [edges]."""
        outputs = torch.repeat_interleave(torch.arange(self.out_features, device=self.rows.device), self.rows.diff().long())
        return outputs * self.in_features + self.columns.long()

    def mask(self) -> Tensor:
        """True where there is an edge: [out_features, in_features]."""
        found = torch.zeros(self.out_features * self.in_features, dtype=torch.bool, device=self.rows.device)
        found[self.flat_places()] = True
        return found.reshape(self.out_features, self.in_features)

    def dense_weight(self) -> Tensor:
        """W with zeros beside the edges: [out_features, in_features]. Gradients flow to ``weight``."""
        zeros = self.weight.new_zeros(self.out_features * self.in_features)
        return zeros.index_put((self.flat_places(),), self.weight).reshape(self.out_features, self.in_features)

    def to_dense(self) -> nn.Linear:
        """A torch.nn.Linear with copies of the numbers."""
        kind = {"device": self.weight.device, "dtype": self.weight.dtype}
        made = nn.Linear(self.in_features, self.out_features, bias=self.bias is not None, **kind)
        with torch.no_grad():
            made.weight.copy_(self.dense_weight())
            if self.bias is not None:
                made.bias.copy_(self.bias)
        return made

    @torch.no_grad()
    def move_edges(self, dropped: Tensor, grown: Tensor, beside: Iterable[Tensor] = ()) -> None:
        """Edges go to other places, with the value 0 there.

        :param dropped: numbers of edges, each once
        :param grown: as many places, output * in_features + input, each once and without an edge that stays
        :param beside: tensors with a number for each edge, such as an optimizer's moments: those of edges that stay move with them, others become 0
        :raises InputError: if the numbers do not fit, and nothing has changed
        """
        stays = torch.ones(self.num_edges, dtype=torch.bool, device=self.columns.device)
        stays[dropped] = False
        places = torch.cat([self.flat_places()[stays], grown])
        flat, order = torch.sort(places)
        if len(flat) != self.num_edges or bool((flat.diff() == 0).any()) or len(flat) and not 0 <= int(flat[0]) <= int(flat[-1]) < self.in_features * self.out_features:
            raise InputError(f"{len(dropped)} edges cannot go to these {len(grown)} places, expected as many free ones")
        for numbers in (self.weight, *beside):
            numbers.copy_(torch.cat([numbers[stays], numbers.new_zeros(len(grown))])[order])
        for buffer, part in zip((self.rows, self.columns, self.input_rows, self.outputs, self.places), self._pattern(flat)):
            buffer.copy_(part)

    @torch.no_grad()
    def keep_edges(self, kept: Tensor, optimizer: Optional[torch.optim.Optimizer] = None) -> None:
        """The other edges go. ``weight`` becomes shorter, with the optimizer's numbers for each edge, and loses its gradient.

        :param kept: numbers of edges, ascending, each once
        """
        flat = self.flat_places()[kept]
        state = {} if optimizer is None else optimizer.state.get(self.weight, {})
        for name, numbers in state.items():
            if isinstance(numbers, Tensor) and numbers.shape == self.weight.shape:
                state[name] = numbers[kept]
        self.weight.grad = None
        self.weight.data = self.weight.detach()[kept]
        for name, part in zip(("rows", "columns", "input_rows", "outputs", "places"), self._pattern(flat)):
            setattr(self, name, part)

    def _load_from_state_dict(self, state: dict[str, Any], prefix: str, *others: Any) -> None:
        rows, columns = state.get(f"{prefix}rows"), state.get(f"{prefix}columns")
        if rows is not None and columns is not None and rows.shape == self.rows.shape:
            if columns.shape != self.columns.shape:  # another number of edges
                self.columns = self.columns.new_empty(columns.shape)
                self.weight = nn.Parameter(self.weight.new_empty(columns.shape), requires_grad=self.weight.requires_grad)
            _require_pattern(rows, columns, self.in_features, prefix)
        super()._load_from_state_dict(state, prefix, *others)
        if rows is not None and columns is not None and rows.shape == self.rows.shape:
            for name, part in zip(("rows", "columns", "input_rows", "outputs", "places"), self._pattern(self.flat_places())):
                setattr(self, name, part)

    def extra_repr(self) -> str:
        """Sizes and density, for the ``repr`` of the model."""
        return f"{self.in_features}, {self.out_features}, edges={self.num_edges}, density={self.density:.3g}, bias={self.bias is not None}"


def _num_edges(density: float, in_features: int, out_features: int) -> int:
    if not 0 < density <= 1:
        raise UsageError(f"density is {density}, expected a number above 0 and at most 1")
    count = max(1, round(density * in_features * out_features))
    if max(in_features, out_features, count) >= 2**31:
        raise UsageError(f"a layer of {in_features} x {out_features} with {count} edges, expected less than 2**31 of each")
    return count


def _random_places(size: int, count: int, generator: Optional[torch.Generator]) -> Tensor:
    """`count` different numbers below size, ascending."""
    if count > size // 4:
        return torch.randperm(size, generator=generator)[:count].sort().values
    found = torch.empty(0, dtype=torch.int64)
    while len(found) < count:
        found = torch.unique(torch.cat([found, torch.randint(size, (2 * (count - len(found)),), generator=generator)]))
    return found[torch.randperm(len(found), generator=generator)[:count]].sort().values


def _pointers(rows: Tensor, num_rows: int) -> Tensor:
    counts = torch.bincount(rows, minlength=num_rows)
    return torch.cat([counts.new_zeros(1), counts.cumsum(0)])


def _require_pattern(rows: Tensor, columns: Tensor, in_features: int, place: str) -> None:
    """Raises InputError unless they are compressed sparse rows with ascending columns, which the kernels trust."""
    is_new_row = torch.zeros(len(columns) + 1, dtype=torch.bool, device=rows.device)
    is_right = bool(rows[0] == 0) and bool(rows[-1] == len(columns)) and bool((rows.diff() >= 0).all())
    if is_right and len(columns):
        is_new_row[rows.long()] = True
        is_right = 0 <= int(columns.min()) and int(columns.max()) < in_features and bool(((columns.diff() > 0) | is_new_row[1:-1]).all())
    if not is_right:
        raise InputError(f"{place}rows and {place}columns are not a pattern of {in_features} inputs, expected ascending columns in each row")


# --- models


def erdos_renyi(shapes: Sequence[tuple[int, int]], density: float) -> list[float]:
    """Densities of layers [outputs, inputs], in proportion to (outputs + inputs) / (outputs * inputs), and 1 at most, that give all
    layers together this density (Mocanu et al., Scalable training of artificial neural networks with adaptive sparse connectivity, 2018).

    :raises UsageError: if density is not above 0 and at most 1
    """
    _num_edges(density, 1, 1)
    sizes = [outputs * inputs for outputs, inputs in shapes]
    wanted, is_full = density * sum(sizes), [False] * len(sizes)
    while True:
        left = wanted - sum(size for size, full in zip(sizes, is_full) if full)
        sums = sum(outputs + inputs for (outputs, inputs), full in zip(shapes, is_full) if not full)
        found = [1.0 if full else left / sums * (shape[0] + shape[1]) / size for shape, size, full in zip(shapes, sizes, is_full)]
        if all(number <= 1 for number in found):
            return found
        is_full = [full or number > 1 for full, number in zip(is_full, found)]


def sparsify(model: nn.Module, density: float = 0.05, *, distribution: str = "erdos-renyi", skip: Sequence[str] = ()) -> nn.Module:
    """Puts a SparseLinear with the largest weights in the place of each torch.nn.Linear, and returns the model.

    :param density: of all of them together
    :param distribution: "erdos-renyi" (:func:`erdos_renyi`), or "uniform", the same density for each
    :param skip: names of modules that stay as they are
    :raises UsageError: if the model has no such layer, or an argument is none of these
    """
    if distribution not in ("erdos-renyi", "uniform"):
        raise UsageError(f"distribution is {distribution!r}, expected 'erdos-renyi' or 'uniform'")
    found = [(name, part) for name, part in model.named_modules(remove_duplicate=False) if type(part) is nn.Linear and name not in skip]
    layers = list({id(part): part for _, part in found}.values())
    if not layers:
        raise UsageError(f"{type(model).__name__} has no torch.nn.Linear, expected at least one")
    shapes = [(layer.out_features, layer.in_features) for layer in layers]
    densities = erdos_renyi(shapes, density) if distribution == "erdos-renyi" else [density] * len(layers)
    made = {id(layer): SparseLinear.from_linear(layer, share) for layer, share in zip(layers, densities)}
    for name, part in found:
        if not name:
            return made[id(part)]
        parent, _, own = name.rpartition(".")
        setattr(model.get_submodule(parent), own, made[id(part)])
    return model


def _layers_of(model: nn.Module) -> list[SparseLinear]:
    return [part for part in model.modules() if isinstance(part, SparseLinear)]


def _beside(layer: SparseLinear, optimizer: Optional[torch.optim.Optimizer]) -> list[Tensor]:
    """What an optimizer keeps for each edge."""
    state = {} if optimizer is None else optimizer.state.get(layer.weight, {})
    return [kept for kept in state.values() if isinstance(kept, Tensor) and kept.shape == layer.weight.shape]


def _smallest(layer: SparseLinear, fraction: float) -> Tensor:
    if not 0 <= fraction <= 1:
        raise UsageError(f"fraction is {fraction}, expected 0 to 1")
    count = min(int(fraction * layer.num_edges), layer.in_features * layer.out_features - layer.num_edges)
    return layer.weight.detach().abs().topk(count, largest=False).indices


def _free(layer: SparseLinear, dropped: Tensor) -> Tensor:
    """True at places without an edge that stays: [places]."""
    free = torch.ones(layer.in_features * layer.out_features, dtype=torch.bool, device=layer.columns.device)
    free[layer.flat_places()] = False
    free[layer.flat_places()[dropped]] = True
    return free


def set_step(
    model: nn.Module, optimizer: Optional[torch.optim.Optimizer] = None, fraction: float = 0.3, generator: Optional[torch.Generator] = None
) -> int:
    """In each SparseLinear, this fraction of the edges, those of the smallest weights, goes to random places without an edge (Mocanu et
    al. 2018). Moments of the optimizer move with their edges. Returns the number of edges that went."""
    moved = 0
    for layer in _layers_of(model):
        dropped = _smallest(layer, fraction)
        free = _free(layer, dropped).nonzero()[:, 0]
        chosen = _random_places(len(free), len(dropped), generator).to(free.device)
        layer.move_edges(dropped, free[chosen], _beside(layer, optimizer))
        moved += len(dropped)
    return moved


@contextlib.contextmanager
def watched(model: nn.Module) -> Iterator[None]:
    """While it lasts, backward passes add up the gradients of all places of each SparseLinear, which :func:`rigl_step` needs. They take
    the memory and the time of dense layers, so watch one batch before each step."""
    layers = _layers_of(model)
    for layer in layers:
        layer._is_watched, layer._gradient = True, None
    try:
        yield
    finally:
        for layer in layers:
            layer._is_watched = False


def rigl_step(model: nn.Module, optimizer: Optional[torch.optim.Optimizer] = None, fraction: float = 0.3) -> int:
    """In each SparseLinear, this fraction of the edges, those of the smallest weights, goes to the places without an edge that have the
    largest gradients in size (Evci et al., Rigging the lottery, 2020). Moments of the optimizer move with their edges.

    :raises UsageError: if no backward pass was :func:`watched` before
    :returns: the number of edges that went
    """
    moved = 0
    for layer in _layers_of(model):
        if layer._gradient is None:
            raise UsageError("no gradients of all places: run a backward pass within varve.torch.watched(model) first")
        dropped = _smallest(layer, fraction)
        sizes = layer._gradient.abs().reshape(-1).masked_fill(~_free(layer, dropped), -1)
        layer.move_edges(dropped, sizes.topk(len(dropped)).indices, _beside(layer, optimizer))
        layer._gradient = None
        moved += len(dropped)
    return moved


def prune_step(model: nn.Module, optimizer: Optional[torch.optim.Optimizer] = None, *, density: float) -> int:
    """Takes edges of the smallest weights away until all SparseLinear together have this density; each keeps the same share of its edges,
    and one at least. Moments of the optimizer go with their edges. Calls with falling densities while a model learns are gradual magnitude
    pruning (Zhu and Gupta, To prune, or not to prune, 2017). As parameters become shorter, wrap or compile the model again afterwards.

    :raises UsageError: if density is not above 0 and at most 1
    :returns: the number of edges that went
    """
    _num_edges(density, 1, 1)
    layers, gone = _layers_of(model), 0
    places = sum(layer.in_features * layer.out_features for layer in layers)
    share = density * places / max(sum(layer.num_edges for layer in layers), 1)
    for layer in layers if share < 1 else []:
        count = max(1, round(share * layer.num_edges))
        gone += layer.num_edges - count
        layer.keep_edges(layer.weight.detach().abs().topk(count).indices.sort().values, optimizer)
    return gone
