"""The options of methods that run samples, and checks of the numbers that come from outside."""

from __future__ import annotations

import operator
from typing import Any, Callable, TypedDict

from ._errors import UsageError

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


def to_count(value: Any, name: str, least: int = 0, bits: int = 63) -> int:
    """A whole number of so many bits, not below ``least``. Raises TypeError for other kinds, UsageError for other numbers."""
    try:
        count = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} is {value!r}, expected a whole number") from None
    if not least <= count < 2**bits:
        raise UsageError(f"{name} is {count}, expected at least {least}{f' and less than 2**{bits}' if count >= least else ''}")
    return count


def to_seed(value: Any) -> int:
    """A seed, of 64 bits as in the command."""
    return to_count(value, "seed", bits=64)


def to_optional_count(value: Any, name: str, least: int = 0) -> int | None:
    """The same, also for None."""
    return None if value is None else to_count(value, name, least)


def to_number(value: Any, name: str) -> float:
    """A real number as float: also NumPy's, and arrays and tensors of one number. Raises TypeError for other kinds."""
    if hasattr(value, "__float__") and not isinstance(value, bool):
        try:
            return float(value)
        except (TypeError, ValueError, RuntimeError):  # an array or tensor of several numbers
            pass
    raise TypeError(f"{name} is {value!r}, expected a number")


def to_optional_number(value: Any, name: str) -> float | None:
    """The same, also for None."""
    return None if value is None else to_number(value, name)


def to_name(value: Any, name: str) -> str:
    """One of the words that an option takes. Raises TypeError for other kinds."""
    if not isinstance(value, str):
        raise TypeError(f"{name} is {value!r}, expected a name")
    return value
