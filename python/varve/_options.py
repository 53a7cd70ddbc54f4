"""The options of methods that run samples, and checks of the numbers that come from outside."""

from __future__ import annotations

import functools
import inspect
import operator
from typing import TYPE_CHECKING, Any, Callable, TypedDict, TypeVar

from . import _core
from ._errors import UsageError

if TYPE_CHECKING:
    from typing_extensions import ParamSpec

    _Parameters = ParamSpec("_Parameters")
_Result = TypeVar("_Result")

#: Names that options have elsewhere, and what to write here.
KNOWN_ELSEWHERE = {
    **dict.fromkeys(("learning_rate", "lr", "learning_rate_init"), "rate"),
    **dict.fromkeys(("batch_size", "minibatch_size"), "batch"),
    **dict.fromkeys(("weight_decay", "alpha"), "l2"),
    **dict.fromkeys(("max_iter", "n_epochs", "num_epochs", "n_iter", "nb_epoch"), "epochs"),
    **dict.fromkeys(("hidden_layer_sizes", "hidden_sizes", "layers"), "hidden"),
    **dict.fromkeys(("early_stopping", "n_iter_no_change"), "patience, with validation"),
    **dict.fromkeys(("verbose", "callbacks", "callback"), "progress=True"),
    **dict.fromkeys(("scheduler", "lr_scheduler"), "rate_schedule"),
    **dict.fromkeys(("device", "accelerator"), "backend"),
    **dict.fromkeys(("y", "target"), "labels or targets"),
    **{"dtype": "precision", "betas": "beta1 and beta2", "eps": "epsilon", "warmup": "warm_up", "sparsity": "density, 1 - sparsity"},
    **{"validation_data": "validation", "validation_split": "validation, samples of their own", "resume": "checkpoint", "solver": "optimizer", "n_jobs": "varve.start(num_threads=...)"},
}


def refuse_names_of_others(method: Callable[_Parameters, _Result]) -> Callable[_Parameters, _Result]:
    """Names that options have elsewhere are refused with the names that they have here."""
    signature = inspect.signature(method)

    @functools.wraps(method)
    def checked(*args: _Parameters.args, **options: _Parameters.kwargs) -> _Result:
        for name in options:
            own = {"seed": "random_state", "random_state": "seed"}.get(name) or KNOWN_ELSEWHERE.get(name)
            if own and name not in signature.parameters:
                raise TypeError(f"{type(args[0]).__name__ if method.__name__ == '__init__' else method.__qualname__}() has no argument {name}; here it is {own}")
        return method(*args, **options)

    return checked


_OWN_WORDS = (
    *(*_core.optimizer_names(), *_core.loss_names(), "constant", "step", "cosine", "set", "rigl", "keep"),
    *("cuda", "hip", "openmp", "serial"),
)
#: Words that options take elsewhere, in small letters without separators, and those that they take here.
_WORDS_ELSEWHERE = {
    **{word.replace("-", ""): word for word in _OWN_WORDS},
    **dict.fromkeys(("crossentropyloss", "categoricalcrossentropy", "sparsecategoricalcrossentropy", "nllloss", "logloss"), "cross-entropy"),
    **dict.fromkeys(("mse", "mseloss", "meansquarederror", "squarederror"), "mean-square"),
    **dict.fromkeys(("bce", "bcewithlogits", "bcewithlogitsloss", "binarycrossentropy", "binarylogloss", "sigmoid"), "logistic"),
    **dict.fromkeys(("huberloss", "smoothl1", "smoothl1loss"), "huber"),
    **dict.fromkeys(("cosineannealing", "cosineannealinglr", "cosinedecay"), "cosine"),
    **{"steplr": "step", "cpu": "openmp", "rocm": "hip", "static": "keep", "fixed": "keep"},
}

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
    """A whole number of at most `bits` bits, not below ``least``. Raises TypeError for other kinds, UsageError for other numbers."""
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


def takes_targets(loss: str | None) -> bool:
    """Whether a loss, if one is given, prefers targets to labels where a file holds both."""
    return loss not in (None, "cross-entropy")


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
    """One of the words that an option takes. Raises TypeError for other kinds, UsageError for words of other libraries."""
    if not isinstance(value, str):
        raise TypeError(f"{name} is {value!r}, expected a name")
    own = _WORDS_ELSEWHERE.get("".join(letter for letter in value.lower() if letter.isalnum()), value)
    if own != value:
        raise UsageError(f"there is no {name} {value!r}; here it is {own!r}")
    return value
