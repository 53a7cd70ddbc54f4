"""Activation functions."""

from __future__ import annotations

import numbers
from dataclasses import dataclass
from typing import Union

from ._errors import UsageError

#: Smooth functions, and their classes in torch.nn. Small letters are their names in Keras and varve.
CURVES = {"sigmoid": "Sigmoid", "tanh": "Tanh", "softplus": "Softplus"}
#: Functions without a parameter that other libraries have.
SIMPLE = {"relu": "ReLU", **CURVES}
PARAMETERS = {"identity": None, "relu": None, "clipped_relu": "cap", "leaky_relu": "slope", **dict.fromkeys(CURVES)}

#: Names of other libraries, in small letters without underscores.
_NAMES_OF_OTHERS = {
    **{"logistic": "sigmoid", "linear": "identity", "none": "identity", "hardtanh": "clipped_relu", "relu6": "clipped_relu"},
    **{"leakyrelu": "leaky_relu", "clippedrelu": "clipped_relu", "hyperbolictangent": "tanh"},
}


@dataclass(frozen=True)
class Activation:
    """An activation function: its name and, for two of them, its parameter.

    ================  =========================================  ==========================
    name              f(x)                                       parameter
    ================  =========================================  ==========================
    ``identity``      x
    ``relu``          max(x, 0)
    ``clipped_relu``  min(max(x, 0), cap)                        cap, positive
    ``leaky_relu``    x for x > 0, slope * x for x <= 0          slope, between 0 and 1
    ``sigmoid``       1 / (1 + exp(-x))
    ``tanh``          tanh(x)
    ``softplus``      log(1 + exp(x))
    ================  =========================================  ==========================

    Where varve expects an activation, a name is enough if it has no parameter.
    """

    name: str  #: one of the table
    parameter: float | None = None  #: the cap of clipped_relu, above 0; the slope of leaky_relu, between 0 and 1; else None

    def __post_init__(self) -> None:
        if self.name not in PARAMETERS:
            own = _NAMES_OF_OTHERS.get(str(self.name).lower().replace("_", "")) or str(self.name).lower()
            hint = f"; here it is {own!r}" if own in PARAMETERS else ""
            raise UsageError(f"there is no activation {self.name!r}; there are: {', '.join(PARAMETERS)}{hint}")
        wanted = PARAMETERS[self.name]
        if wanted is not None and self.parameter is None:
            raise UsageError(f"the activation {self.name} needs its {wanted}: varve.Activation({self.name!r}, {wanted})")
        if self.parameter is not None and not isinstance(self.parameter, numbers.Real):
            raise UsageError(f"the {wanted or 'parameter'} of the activation {self.name} is {self.parameter!r}, expected a number")
        if wanted is None and self.parameter is not None:
            raise UsageError(f"the activation {self.name} has no parameter, found {self.parameter}")

    @classmethod
    def clipped_relu(cls, cap: float) -> Activation:
        """min(max(x, 0), cap)"""
        return cls("clipped_relu", cap)

    @classmethod
    def leaky_relu(cls, slope: float) -> Activation:
        """x for x > 0, slope * x for x <= 0"""
        return cls("leaky_relu", slope)


#: An activation, or the name of one without a parameter.
ActivationLike = Union[Activation, str]


def to_activation(activation: ActivationLike) -> Activation:
    """The activation, also from a name. Raises UsageError if there is none of this name."""
    if isinstance(activation, Activation):
        return activation
    if isinstance(activation, str):
        return Activation(activation)
    raise UsageError(f"the activation is {activation!r}, expected a name or a varve.Activation")


def from_core(pair: tuple[str, float]) -> Activation:
    name, parameter = pair
    return Activation(name, parameter if PARAMETERS[name] else None)
