"""Very deep sparse neural networks, exactly, on CPUs and GPUs.

A :class:`Network` is made of sparse matrices (:meth:`Network.from_scipy`), a trained model (:meth:`Network.from_sklearn`,
:meth:`Network.from_torch`, :meth:`Network.from_onnx`), a file of any format (:meth:`Network.from_file`) or a generator
(:mod:`varve.generate`). It runs samples (:meth:`Network.infer`, :meth:`Network.classify`, :meth:`Network.predict`), also
those of a file (:func:`read_samples`); :func:`train` :class:`SparseClassifier` and :class:`SparseRegressor` train it. Samples, neurons and layers
count from 0. :func:`matmul` multiplies dense matrices of any size.
"""

from __future__ import annotations

import atexit as _atexit
from typing import TYPE_CHECKING

from . import _core, generate
from ._activation import Activation
from ._errors import Error, InputError, MissingFileError, ResourceError, UsageError
from ._files import Samples, read_samples, save_samples
from ._network import Network, clear
from ._product import matmul
from ._receipt import Receipt, TrainingReceipt, audit
from ._results import Evaluation, Layer, Run, Verdict
from ._training import Epoch, Training, train

if TYPE_CHECKING:
    from ._estimators import SparseClassifier, SparseRegressor

__version__: str = _core.version

__all__ = [
    "Activation",
    "Epoch",
    "Error",
    "Evaluation",
    "InputError",
    "Layer",
    "MissingFileError",
    "Network",
    "Receipt",
    "ResourceError",
    "Run",
    "Samples",
    "SparseClassifier",
    "SparseRegressor",
    "Training",
    "TrainingReceipt",
    "UsageError",
    "Verdict",
    "audit",
    "backends",
    "clear",
    "generate",
    "matmul",
    "read_samples",
    "save_samples",
    "start",
    "train",
]

_atexit.register(_core.end)


def backends() -> list[str]:
    """The backends of this build, fastest first: "cuda", "hip", "openmp", "serial"."""
    return _core.backends()


def start(num_threads: int | None = None, device: int | None = None) -> None:
    """Start varve's threads and device now, with other numbers than the defaults.

    Without this call they start on first use, with the threads of ``OMP_NUM_THREADS`` (all processors without it) and
    the first device.

    :param num_threads: threads of the backend openmp
    :param device: number of the GPU, from 0
    :raises UsageError: if varve has started already
    :raises ResourceError: if the device is missing
    """
    _core.start(num_threads, device)


def __getattr__(name: str) -> object:
    if name in ("SparseClassifier", "SparseRegressor"):  # need scikit-learn, which varve itself does not
        from . import _estimators

        return getattr(_estimators, name)
    raise AttributeError(f"module 'varve' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
