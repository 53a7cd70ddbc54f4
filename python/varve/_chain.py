"""A chain of operations of another program on its way to layers. All imports of models build one, and are checked by it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable, Sequence

import numpy as np

from . import _arrays, _core, _layers
from ._activation import CURVES, Activation
from ._errors import InputError

#: What may stand behind the last layer and is left out.
ENDS = ("Softmax", "LogSoftmax", "ArgMax", "ZipMap", "Exp")

Fail = Callable[[str], None]


@dataclass
class _Made:
    """A layer. Its activation is None as long as the next operation may still become a part of it."""

    weights: Any  # [outputs, inputs]: an array, or a matrix of scipy.sparse whose stored zeros are edges
    bias: np.ndarray  # float64, [outputs]
    bias_size: np.ndarray  # [outputs]: sum of the sizes of the terms of the bias, by which roundings are judged
    activation: Activation | None = None


class Chain:
    """Layers, and a scale and a shift for each of their outputs that no layer holds yet.

    Sums and products of constants become parts of the weights and biases beside them, in double and exactly as described:
    behind a layer without an activation W' = diag(s) W, b' = s b + t; before a layer W' = W diag(s), b' = b + W t. Where
    no layer is beside them, a diagonal one is made.
    """

    def __init__(self, width: int) -> None:
        self.layers: list[_Made] = []
        self.left_out: list[str] = []  #: operations at the end
        self._width = width
        self._scale: Any = None  # None: no scale and no shift wait
        self._shift: Any = 0.0
        self._shift_size: Any = 0.0
        self._marks: dict[int, tuple[str, Any]] = {}  # by number of layers: the operation whose result they give

    @property
    def width(self) -> int:
        """Numbers of a sample now."""
        return self.layers[-1].weights.shape[0] if self.layers else self._width

    def linear(self, weights: Any, bias: Any) -> None:
        """Raises InputError unless the weights [outputs, inputs] and the bias, a number or [outputs], fit."""
        if len(weights.shape) != 2 or weights.shape[1] != self.width:
            raise InputError(f"has weights of the shape {_arrays.shape_text(tuple(weights.shape))}, expected (outputs, {self.width})")
        bias = self._per_neuron(bias, weights.shape[0])
        size = np.abs(bias)
        if self._scale is not None:
            bias = bias + weights @ self._shift
            size = size + abs(weights) @ self._shift_size
            weights = _scaled(weights, columns=self._scale)
            self._scale = None
        self.layers.append(_Made(weights, bias, size))

    def affine(self, scale: Any, shift: Any, shift_size: Any = None) -> None:
        """x * scale + shift, each a number or [width]. shift_size: the sizes of the terms of the shift."""
        scale, shift = self._per_neuron(scale, self.width), self._per_neuron(shift, self.width)
        size = np.abs(shift) if shift_size is None else self._per_neuron(shift_size, self.width)
        if self.layers and self.layers[-1].activation is None:
            last = self.layers[-1]
            self._marks.pop(len(self.layers), None)
            weights = last.weights if (scale == 1).all() else _scaled(last.weights, rows=scale)
            self.layers[-1] = _Made(weights, scale * last.bias + shift, np.abs(scale) * last.bias_size + size)
        elif self._scale is None:
            self._scale, self._shift, self._shift_size = scale, shift, size
        else:
            self._scale = scale * self._scale
            self._shift, self._shift_size = scale * self._shift + shift, np.abs(scale) * self._shift_size + size

    def activate(self, activation: Activation) -> None:
        if not self.layers or self.layers[-1].activation is not None:
            self._add_diagonal()
        self._marks.pop(len(self.layers), None)
        self.layers[-1].activation = activation

    def clip(self, lowest: float | None, highest: float | None) -> None:
        """min(max(x, lowest), highest); None: without this limit. Raises InputError if no layer can hold it."""
        if lowest is None:
            raise InputError("has no lower limit, expected one")
        if highest is None:
            self._shifted(lowest, Activation("relu"))
        elif highest > lowest:
            self._shifted(lowest, Activation.clipped_relu(highest - lowest))
        else:
            raise InputError(f"clips from {lowest} to {highest}, expected ascending limits")

    def _shifted(self, lowest: float, activation: Activation) -> None:
        if lowest != 0:
            self.affine(1.0, -lowest)
        self.activate(activation)
        if lowest != 0:
            self.affine(1.0, lowest)

    def leaky(self, slope: float) -> None:
        """x for x > 0, slope * x for x <= 0; with a slope above 1: -slope * leaky(-slope x) / slope, whose slope is 1 / slope."""
        if not slope >= 0:
            raise InputError(f"has the slope {slope}, expected 0 or more")
        if slope in (0, 1):
            self.activate(Activation("relu") if slope == 0 else Activation("identity"))
        elif slope < 1:
            self.activate(Activation.leaky_relu(slope))
        else:
            self.affine(-slope, 0.0)
            self.activate(Activation.leaky_relu(1 / slope))
            self.affine(-1.0, 0.0)

    def normalize(self, mean: Any, variance: Any, scale: Any, shift: Any, epsilon: float) -> None:
        """(x - mean) / sqrt(variance + epsilon) * scale + shift, of a batch normalization that does not learn."""
        with np.errstate(all="ignore"):  # what is not finite is refused with the weights
            factor = np.asarray(scale, np.float64) / np.sqrt(np.asarray(variance, np.float64) + epsilon)
        moved = factor * np.asarray(mean, np.float64)
        self.affine(factor, shift - moved, np.abs(shift) + np.abs(moved))

    def mark(self, name: str, values: Any) -> None:
        """What the source has computed up to here, after its operation of this name: [samples, width] in float64."""
        if self._scale is None:
            self._marks[len(self.layers)] = name, values

    def finish(self) -> None:
        if self._scale is not None:
            self._add_diagonal()
        for layer in self.layers:
            layer.activation = layer.activation or Activation("identity")

    def parts(self) -> tuple[list[Any], list[np.ndarray], list[Activation]]:
        """Weights, biases and activations."""
        assert all(layer.activation for layer in self.layers)
        return [layer.weights for layer in self.layers], [layer.bias for layer in self.layers], [layer.activation for layer in self.layers]  # type: ignore[misc]

    def network(self, place: str, name: str) -> _core.Network:
        """The network. place: before the sentences of errors, "" for none."""
        self.finish()
        if not self.layers:
            raise InputError(f"{place}found no layer, expected at least one")
        try:
            return _layers.make_network(*self.parts(), False, name, warns=False)
        except InputError as error:
            raise InputError(f"{place}{error}") from None

    def note(self, what: str) -> str:
        """A remark about what was left out, "" for nothing."""
        return f"{what} ends with {', '.join(self.left_out)}, left out: the network gives the numbers before" if self.left_out else ""

    def require_same(self, batch: np.ndarray, unit: float, place: str = "") -> None:
        """Raises InputError, naming the first operation, unless the layers give what the source gave at each mark.

        A sum of n products in any order is off by n roundings of its type (of float, in which numbers of half the size are
        added) times the sum of the products' sizes at most; the bias, the stored result, sums that are kept in a short type
        in between and a smooth activation add some roundings more. No activation makes differences larger.

        :param unit: half the distance of 1 from the next number of the source's type
        """
        given, first = batch, 0
        for end, (name, expected) in sorted(self._marks.items()):
            made = self.layers[first:end]
            if not made:
                continue
            found, error = given, np.zeros((len(given), 1))
            for layer in made:
                sizes = np.abs(found) @ abs(layer.weights).T + layer.bias_size
                smooth = layer.activation is not None and layer.activation.name in CURVES
                if error.any():
                    error = error @ abs(layer.weights).T
                error = error + (found.shape[1] * min(unit, 2.0**-24) + 16 * unit) * (sizes + smooth)
                found = _layers.outputs_of([layer.weights], [layer.bias], [layer.activation], found)
            wrong = np.argwhere(~(np.abs(found - expected) <= error))
            if wrong.size:
                at = tuple(wrong[0])
                raise InputError(
                    f"{place}{name} gives {expected[at]:.6g} at output {at[1]} for a random sample, but the layer read of it "
                    f"gives {found[at]:.6g}: something else, such as a hook or a class of your own, changes it, which no layer can do"
                )
            given, first = expected, end

    def _add_diagonal(self) -> None:
        """A layer that passes its inputs on, with the scale and the shift that wait."""
        from scipy.sparse import diags_array

        width = self.width
        scale, shift, size = (np.ones(width), np.zeros(width), np.zeros(width)) if self._scale is None else (self._scale, self._shift, self._shift_size)
        self.layers.append(_Made(diags_array(scale, format="csr"), shift, size))
        self._scale = None

    def _per_neuron(self, numbers: Any, width: int) -> np.ndarray:
        array = np.asarray(numbers, np.float64)
        if array.size not in (1, width) or array.ndim > 1 and array.shape[-1] != array.size:
            raise InputError(f"has numbers of the shape {_arrays.shape_text(array.shape)}, expected one, or {width}")
        return np.array(np.broadcast_to(array.reshape(-1), (width,)))


def _scaled(weights: Any, rows: Any = None, columns: Any = None) -> Any:
    """The weights with scaled rows or columns, in double. Those that were stored remain so."""
    if not _arrays.is_sparse(weights):
        return weights.astype(np.float64) * (columns if rows is None else rows[:, None])
    matrix = weights.tocsr().astype(np.float64)
    matrix.data = matrix.data * (np.repeat(rows, np.diff(matrix.indptr)) if rows is not None else columns[matrix.indices])
    return matrix


def arithmetic(chain: Chain, operation: str, constant: Any, is_first: bool) -> None:
    """A sum, difference, product or quotient of the value and a constant. is_first: the value is the first of the two."""
    number = np.asarray(constant, np.float64)
    if operation == "add":
        chain.affine(1.0, number)
    elif operation == "sub":
        chain.affine(*((1.0, -number) if is_first else (-1.0, number)))
    elif operation == "mul":
        chain.affine(number, 0.0)
    elif is_first:
        with np.errstate(all="ignore"):
            chain.affine(1 / number, 0.0)
    else:
        raise InputError("divides by a sample, which no layer can do")


def run_first(candidates: Sequence[int], run: Callable[[np.ndarray], Any], sizes: int) -> tuple[np.ndarray, Any]:
    """A random batch of the first of these widths with which a model runs, and what it gives. Raises what the first raises."""
    failure: Exception | None = None
    for width in candidates:
        batch = _layers.random_batch(width, sizes)
        try:
            return batch, run(batch)
        except Exception as error:  # noqa: BLE001 (whatever the model and its hooks raise)
            failure = failure or error
    raise failure or InputError("no weights say how many inputs it has")
