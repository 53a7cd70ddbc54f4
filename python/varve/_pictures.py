"""What notebooks show: tables in HTML, and pictures by matplotlib, which is imported only for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Sequence

import numpy as np

from ._errors import ResourceError

if TYPE_CHECKING:
    from ._network import Network
    from ._results import Layer
    from ._training import Epoch

_MOST_ROWS = 20  # layers that a table shows
_MOST_LAYERS = 6  # layers that a picture shows
_CELLS = 128  # rows and columns of a picture of weights, at most


def shown(num_layers: int, most: int) -> list[int]:
    """The numbers of num_layers layers: all, or those at both ends."""
    if num_layers <= most:
        return list(range(num_layers))
    return [*range(most - most // 2), *range(num_layers - most // 2, num_layers)]


def table_of(network: Network) -> str:
    """An HTML table with a row for each layer; of deep networks, for those at both ends."""
    from html import escape

    numbers = shown(len(network), _MOST_ROWS)
    rows = []
    for place, number in enumerate(numbers):
        if place > 0 and number > numbers[place - 1] + 1:
            rows.append(f'<tr><td colspan="6">{number - numbers[place - 1] - 1} layers more</td></tr>')
        layer = network.layer(number)
        outputs, inputs = layer.weights.shape
        parameter = "" if layer.activation.parameter is None else f" ({layer.activation.parameter:g})"
        cells = (number, inputs, outputs, layer.weights.nnz, f"{layer.weights.nnz / (outputs * inputs):.3g}", layer.activation.name + parameter)
        rows.append("<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>")
    head = "".join(f"<th>{name}</th>" for name in ("layer", "inputs", "outputs", "edges", "density", "activation"))
    return f"<p>{escape(repr(network))}</p><table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"


def plot_network(network: Network, layers: Sequence[int] | None) -> Any:
    """See Network.plot."""
    numbers = shown(len(network), _MOST_LAYERS) if layers is None else list(layers)
    found = [network.layer(number) for number in numbers]
    axes = _pyplot().subplots(2, len(found), figsize=(2.6 * len(found), 5), squeeze=False, layout="constrained")[1]
    for (above, below), number, layer in zip(axes.T, numbers, found):
        outputs, inputs = layer.weights.shape
        above.imshow(_density(layer), cmap="Greys", vmin=0, aspect="auto", interpolation="nearest", extent=(0, inputs, outputs, 0))
        above.set(title=f"layer {number}", xlabel="inputs", ylabel="outputs" if above is axes[0, 0] else "")
        below.hist(layer.weights.data, bins=50, color="dimgrey")
        below.set(xlabel="weight", ylabel="edges" if below is axes[1, 0] else "")
    return axes


def _density(layer: Layer) -> np.ndarray:
    """The share of places with an edge in each cell of a picture."""
    rows = layer.weights.tocoo()
    (outputs, inputs) = rows.shape
    cells = min(outputs, _CELLS), min(inputs, _CELLS)
    edges = [np.linspace(0, extent, count + 1).round() for extent, count in zip(rows.shape, cells)]
    counts = np.histogram2d(rows.row, rows.col, bins=edges)[0]
    return counts / np.outer(*(np.diff(edge) for edge in edges))


def plot_history(history: Sequence[Epoch], best_epoch: int | None) -> Any:
    """See Training.plot."""
    has_accuracy = any(epoch.accuracy is not None for epoch in history)
    names = ("loss", "accuracy") if has_accuracy else ("loss",)
    axes = _pyplot().subplots(1, len(names), figsize=(4.2 * len(names), 3.2), squeeze=False, layout="constrained")[1][0]
    epochs = [epoch.epoch for epoch in history]
    for axis, name in zip(axes, names):
        axis.plot(epochs, [getattr(epoch, name) for epoch in history], label="training", color="black")
        validation = [getattr(epoch, f"validation_{name}") for epoch in history]
        if any(value is not None for value in validation):
            axis.plot(epochs, [np.nan if value is None else value for value in validation], label="validation", color="tab:blue")
        if best_epoch is not None:
            axis.axvline(best_epoch, label="best epoch", color="tab:blue", linewidth=0.8, linestyle=":")
        axis.set(xlabel="epoch", ylabel=name)
        axis.legend()
    return axes


def _pyplot() -> Any:
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise ResourceError("pictures are drawn by the Python package matplotlib, which is missing: pip install matplotlib") from error
    return pyplot
