"""What methods of Network return."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ._activation import Activation


@dataclass(frozen=True)
class Layer:
    """One layer: next = activation(weights @ previous + bias)."""

    weights: Any  #: scipy.sparse.csr_array [outputs, inputs], float64
    bias: np.ndarray  #: float64, [outputs], or [1] if all outputs share it
    activation: Activation  #: of all outputs


class Plan(str):
    """A plan in lines, as which notebooks show it, too."""

    __repr__ = str.__str__


@dataclass(frozen=True)
class Run:
    """The results of :meth:`Network.run`."""

    activations: Any  #: if wanted: [samples, outputs], an array or a scipy.sparse.csr_array
    predictions: np.ndarray | None  #: if wanted: int64 [samples], the output of the largest activation
    live_samples: np.ndarray  #: int64, ascending numbers of the samples with a nonzero last activation
    activation_hash: int  #: the hash that ``varve infer`` prints
    loop_seconds: float  #: time in the loop over the layers


@dataclass(frozen=True)
class Evaluation:
    """How well a network answers."""

    num_samples: int  #: samples that were evaluated
    loss: float  #: mean over the samples
    accuracy: float | None  #: share of samples whose largest output is their label; None without labels
    top_accuracy: float | None  #: share of samples whose label is among the ``top`` largest outputs


@dataclass(frozen=True)
class Verdict:
    """How a result compares with the reference."""

    is_right: bool  #: no sample differs
    num_samples: int  #: samples that were compared
    differing_samples: np.ndarray  #: int64, numbers of the samples whose category or activations differ
    largest_error: float | None  #: of activations, in units of the sample's largest; None for categories
    is_alive: np.ndarray  #: bool [samples]: the true categories
    is_certain_in_float32: np.ndarray  #: bool [samples]: no rounding in float32 can change the category
    is_certain_in_float64: np.ndarray  #: bool [samples]: the same in float64
    margins: np.ndarray  #: float64 [samples]: distance of each sample from the other category
