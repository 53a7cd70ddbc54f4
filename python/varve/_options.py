"""The options of methods that run samples."""

from __future__ import annotations

from typing import Any, Callable, TypedDict

#: Called with the number of samples done and the number of all samples.
Progress = Callable[[int, int], Any]


class RunOptions(TypedDict, total=False):
    """The options of Network.run that other methods pass on."""

    sparse: bool
    precision: Any
    backend: str | None
    reductions: str
    edge_order: str
    engine: str
    batch: int | None
    memory_limit: int | None
    progress: Progress | None
    out: Any
