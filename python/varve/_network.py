"""The class Network."""

from __future__ import annotations

import functools
import operator
import os
import warnings
import weakref
from typing import TYPE_CHECKING, Any, Iterator, Sequence, Union

import numpy as np

from . import _arrays, _core, _files, _foreign, _layer_lists, _layers, _onnx, _pictures, _receipt, _running
from ._activation import Activation, ActivationLike, from_core
from ._errors import InputError, ResourceError, UsageError
from ._options import Progress, RunOptions, to_count, to_name, to_number, to_optional_count, to_seed
from ._receipt import Receipt
from ._results import Evaluation, Layer, Plan, Run, Verdict
from ._running import Wanted, expected_samples

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._chain import Chain

class Network:
    """A network of sparse layers; it is never changed.

    Layer ``l`` computes ``x[l + 1] = activation(weights @ x[l] + bias)`` with weights of the shape [outputs, inputs].
    The first call that runs samples prepares the network for a device and keeps it there; later calls with the same
    options are fast. Calls may come from several threads; they run one after another.

    Options of all methods that run samples:

    :param X: samples [samples, inputs], one per row: an array of NumPy, a matrix of scipy.sparse, anything with DLPack,
        such as a tensor of torch, or the name of a file of samples (:func:`varve.read_samples`)
    :param precision: "float32" or "float64", of weights and activations
    :param backend: a name of :func:`varve.backends`; the fastest one by default
    :param reductions: work that is saved: "auto" (everything), "none", or a comma-separated list of merge_neurons,
        fold_constants, drop_unread, saturation, equal_samples. The first two add up weights in advance, so that last
        bits may differ; so may they with drop_unread, unless edge_order="ascending"
    :param edge_order: order of the terms of sums, which decides last bits: "balanced" or "ascending".
        With reductions="none" and edge_order="ascending", all bits are those of engine="reference"
    :param engine: "varve", or "reference", plain loops to compare with
    :param batch: samples at a time; by default as many as fit and suit the speed
    :param memory_limit: bytes of host memory: on CPUs for weights and activations, nine tenths of the free memory by default;
        on GPUs for weights that wait to be streamed to the device
    """

    def __init__(self, core: _core.Network) -> None:
        """Networks are made by the methods ``from_...``, not by this one."""
        if not isinstance(core, _core.Network):
            raise UsageError("networks are made by Network.from_scipy, from_file, from_sklearn, from_torch or varve.generate")
        self._core = core
        self._engines: dict[tuple[Any, ...], _core.Engine] = {}

    # --- where networks come from

    @classmethod
    def from_scipy(
        cls,
        weights: Sequence[Any],
        bias: Any = 0.0,
        activation: Union[ActivationLike, Sequence[ActivationLike]] = "relu",
        *,
        transposed: bool = False,
        name: str = "network in memory",
    ) -> Network:
        """A network of matrices.

        :param weights: one matrix per layer, of scipy.sparse or dense, [outputs, inputs]. Stored zeros of sparse
            matrices remain edges, which training can change; zeros of dense matrices are no edges
        :param bias: one number for all neurons, or for each layer a number or an array [outputs]
        :param activation: one for all layers, or one per layer: an :class:`Activation` or its name
        :param transposed: True if the matrices are [inputs, outputs], as in scikit-learn and Keras
        :param name: the name in messages
        :raises InputError: if a matrix, a bias or an activation does not fit, naming the layer

        A square matrix that looks transposed leads to a warning.
        """
        return cls(_layers.make_network(weights, bias, activation, transposed, name))

    @classmethod
    def from_file(
        cls,
        path: Union[str, os.PathLike[str]],
        *,
        neurons: int | None = None,
        layers: int | None = None,
        bias: float | None = None,
        cap: float | None = None,
        activation: ActivationLike | None = None,
        slope: float | None = None,
        transposed: bool = False,
    ) -> Network:
        """Read a network, recognized by the content.

        - Varve's file (also the HDF5 of 0.2), a folder of the Graph Challenge's text files, an ONNX model, a
          model of Keras (``.keras``, ``.h5``; a Softmax at the end is left out with a warning), what :meth:`save` writes;
        - weights [outputs, inputs] in NumPy's ``.npy``, SciPy's ``.npz``, Matrix Market or binsparse: one file, the groups
          of one binsparse file, or a folder with a file per layer in the order of their names;
        - a JSON file that lists the layers, with their weights in such files or in one safetensors file.

        :param neurons: neurons per layer, if a folder of text files has networks of several widths
        :param layers: read only so many layers of text files
        :param bias: bias of all neurons of text files (default: the challenge's) or of matrices (default: 0)
        :param cap: cap of the clipped ReLU of text files (default: 32) or of matrices
        :param activation: of every layer, for matrices, which do not say it
        :param slope: of the leaky ReLU of matrices
        :param transposed: True if the matrices are [inputs, outputs], as in scikit-learn and Keras
        :raises InputError: if the file is missing or broken, naming file and layer
        :raises UsageError: if an option is missing or contradicts the file
        :raises ResourceError: if the library that reads such files is missing, naming it

        If all matrices are square and nothing says what their rows are, they are taken as outputs, with a warning.
        """
        return cls(_files.open_network(path, _layer_lists.Options(neurons, layers, bias, cap, activation, slope, transposed)))

    @classmethod
    def from_onnx(cls, path: Union[str, os.PathLike[str]]) -> Network:
        """Read an ONNX model that is a chain of layers; weights may lie in a file beside it, or be sparse.

        Gemm and MatMul; Add, Sub, Mul and Div with constants, and BatchNormalization, which become parts of weights and
        biases in double as in :meth:`from_torch`; Relu, Clip, LeakyRelu, PRelu of one slope, Sigmoid, Tanh; Flatten,
        Reshape, Squeeze, Unsqueeze, Identity, Cast and Dropout, which change nothing. Constants may be computed by other
        operations. Softmax, LogSoftmax, ArgMax, ZipMap, Binarizer and Exp at the end are left out with a warning. Weights that are
        exactly 0 are no edges; those that a sparse constant stores are.

        A random batch runs through the model, by the reference evaluator of the package onnx, and through what was read.

        :raises InputError: if the file is missing or broken, has another operation, or gives other results, naming it
        :raises ResourceError: if the package onnx is missing
        """
        name = _files.name_of(path)
        return cls._from_chain(_onnx.chain_of(name), name)

    @classmethod
    def from_sklearn(cls, model: Any) -> Network:
        """The network of a fitted MLPClassifier or MLPRegressor of scikit-learn.

        Its coefficients, [inputs, outputs] there, are transposed. The last layer has the identity in place of softmax
        and logistic: the largest output is the same, and :class:`SparseClassifier` computes probabilities. A
        classifier of two classes has one output, which is positive for the second class. Exp (``loss="poisson"``) is left
        out with a warning: ``numpy.exp`` of the outputs is what ``predict`` gives.

        A random batch runs through the model and through what was read.

        :raises InputError: if their answers differ, as where a method is a class's own
        """
        from ._from_sklearn import chain_of

        return cls._from_chain(chain_of(model), type(model).__name__)

    @classmethod
    def from_torch(cls, module: Any, *, activation: Any = None) -> Network:
        """The network of a module of torch that is a chain of layers, or of a state_dict.

        :param module: any module that ``torch.fx`` traces: a class with ``forward``, Sequential, nested ones, subclasses,
            what ``torch.compile`` and DataParallel make of one; or a state_dict, whose weights [outputs, inputs] and biases
            are layers in its order
        :param activation: of a state_dict, which does not say it: one for all layers, or one per layer

        Operations: Linear and products with weights; the functions of :class:`Activation`, PReLU of one slope, ReLU6,
        Hardtanh, clamp, as modules, functions or methods; BatchNorm1d, and sums and products with constants, which become parts of
        weights and biases in double, W' = diag(s) W and b' = s b + t behind a layer; Flatten, Dropout and Identity, which
        change nothing. Softmax, LogSoftmax, argmax and exp at the end are left out with a warning. Weights that are exactly
        0, such as pruned ones, are no edges; those that a sparse tensor stores are.

        A random batch runs through the module, in eval mode and with its hooks, and through what was read; masks of
        torch.nn.utils.prune are applied by that. The module stays as it was.

        :raises InputError: if an operation is none of these, naming it, or if a result differs, as where a hook changes it
        :raises UsageError: if a state_dict comes without activation, or a module with one
        """
        from ._from_torch import chain_of

        return cls._from_chain(chain_of(module, activation), type(module).__name__)

    @classmethod
    def _from_chain(cls, chain: Chain, name: str) -> Network:
        network = cls(chain.network("", name))
        if chain.left_out:
            warnings.warn(chain.note(name), stacklevel=3)
        return network

    # --- what a network is

    @property
    def name(self) -> str:
        """Where the network comes from, for messages."""
        return self._core.name

    @property
    def num_layers(self) -> int:
        """Layers, at least one."""
        return self._core.num_layers

    @property
    def num_inputs(self) -> int:
        """Values of a sample."""
        return self._core.num_inputs

    @property
    def num_outputs(self) -> int:
        """Last activations of a sample."""
        return self._core.num_outputs

    @property
    def num_edges(self) -> int:
        """Stored weights of all layers."""
        return self._edges_and_places[0]

    @property
    def density(self) -> float:
        """Edges, as a share of the places of all matrices (outputs * inputs); 0 if there are none."""
        edges, places = self._edges_and_places
        return edges / max(places, 1)

    @functools.cached_property
    def _edges_and_places(self) -> tuple[int, int]:
        return self._core.count_edges()

    def __len__(self) -> int:
        """The number of layers."""
        return self.num_layers

    def __getitem__(self, number: int) -> Layer:
        """``network[i]`` is :meth:`layer`."""
        return self.layer(number)

    def __iter__(self) -> Iterator[Layer]:
        return self.layers()

    def __eq__(self, other: object) -> bool:
        """True if all edges, weights, biases and activations are equal, in every bit."""
        if not isinstance(other, Network):
            return NotImplemented
        if self is other:
            return True
        shapes = [(network.num_layers, network.num_inputs, network.num_outputs, network.num_edges) for network in (self, other)]
        return shapes[0] == shapes[1] and all(_are_equal(one, another) for one, another in zip(self, other))

    def __hash__(self) -> int:
        return hash((self.num_layers, self.num_inputs, self.num_outputs, self.num_edges))

    def layer(self, number: int) -> Layer:
        """Layer ``number``, from 0 (negative numbers count from the end), as matrices of scipy.sparse."""
        from scipy.sparse import csr_array

        number = operator.index(number)
        if not -self.num_layers <= number < self.num_layers:
            raise IndexError(f"there is no layer {number}; the network has {self.num_layers} layers, from 0")
        arrays, outputs, inputs, bias, activation = self._core.layer(number % self.num_layers)
        return Layer(csr_array(arrays, shape=(outputs, inputs)), bias, from_core(activation))

    def layers(self) -> Iterator[Layer]:
        """All layers, one after another."""
        return (self.layer(number) for number in range(self.num_layers))

    def weights_hash(self) -> int:
        """A hash of all weights and biases, equal for networks of one shape with equal bits."""
        return self._core.weights_hash()

    def __repr__(self) -> str:
        return (
            f"<varve.Network {self.name!r}: {self.num_layers} layers, {self.num_inputs} inputs, {self.num_outputs} outputs, "
            f"{self.num_edges} edges, density {self.density:.3g}>"
        )

    def _repr_html_(self) -> str:
        """A table of the layers, which notebooks show; of deep networks, of the ten layers at each end."""
        return _pictures.table_of(self)

    def plot(self, layers: Sequence[int] | None = None) -> Any:
        """Draw the places of the edges of layers, the darker the denser, and the histograms of their weights, by matplotlib.

        :param layers: their numbers; by default all of up to 6, or three at each end
        :returns: the axes of matplotlib, [2, layers]; ``axes[0, 0].figure.savefig(...)`` writes the picture
        :raises ResourceError: if matplotlib is missing
        """
        return _pictures.plot_network(self, layers)

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickle, (*self.to_scipy(), self.name)

    def save(self, path: Union[str, os.PathLike[str]], *, sparse: bool = False) -> None:
        """Write the network. The file appears whole or not at all, and :meth:`from_file` reads the same bits from it.

        - ``.safetensors``: Varve's file, also for the command;
        - ``.tsv``, ``.tsv.gz``, ``.tsv.xz``, ``.tsv.zst``: a folder of text files;
        - ``.npz``: an archive of NumPy. Of layer N, ``layers.N.`` and the names in an archive of scipy.sparse.save_npz are its
          weights [outputs, inputs]; ``bias``, ``activation`` and ``parameter`` (nan for none) its other parts;
        - ``.onnx``: Gemm and activations of version 17, from x [samples, inputs] to y [samples, outputs], in float if that
          holds all weights and biases exactly, else in double; slopes and caps are rounded to it. Needs the package onnx.

        :param sparse: for ``.onnx``: weights as ``sparse_initializer``; dense ones lose edges of weight 0
        :raises UsageError: for another ending, or a model of ONNX of 2 GiB and more
        :raises ResourceError: if the file cannot be written, or the package onnx is missing
        """
        name = _files.name_of(path)
        if name.endswith(".onnx"):
            _onnx.write(list(self.layers()), self.name, name, sparse)
            return
        if sparse:
            raise UsageError(f"sparse is for .onnx; {name} holds sparse weights anyway")
        if name.endswith(".npz"):
            _foreign.write_npz(self.layers(), name)
            return
        _core.save_network(self._core, name)

    def to_scipy(self) -> tuple[list[Any], list[np.ndarray], list[Activation]]:
        """Weights (scipy.sparse.csr_array [outputs, inputs], float64), biases (float64, [outputs], or [1] for all outputs) and
        activations, as :meth:`from_scipy` takes them."""
        layers = list(self.layers())
        return [layer.weights for layer in layers], [layer.bias for layer in layers], [layer.activation for layer in layers]

    def to_torch(self, *, sparse: bool = False) -> Any:
        """A torch.nn.Sequential of Linear and activations, of torch.float32 if that holds all weights and biases exactly, else of
        torch.float64. Needs torch.

        :param sparse: layers of :class:`varve.torch.SparseLinear` in place of torch.nn.Linear, which loses edges of weight 0

        :meth:`from_torch` gives the same bits back.
        """
        from ._to_torch import module_of

        return module_of(list(self.layers()), sparse)

    # --- other networks from it

    def reduce(self, *, merge_neurons: bool = True, fold_constants: bool = True, drop_unread: bool = True) -> Network:
        """A smaller network with the same outputs: equal neurons merged, constant ones folded, unread ones dropped.

        Merging adds up weights, so that the last bits of activations may differ. ``infer`` does this by itself; this
        method is for keeping the smaller network.
        """
        return Network(self._core.reduce(merge_neurons, fold_constants, drop_unread))

    def prune(self, density: float, scope: str = "layer") -> Network:
        """A network without its smallest weights.

        :param density: share of the places of a matrix (outputs * inputs) that stay edges, above 0 and at most 1
        :param scope: "layer": each layer keeps its own share; "network": the largest weights of all layers stay
        """
        return Network(self._core.prune(to_number(density, "density"), to_name(scope, "scope")))

    def with_initial_weights(
        self,
        weights: str = "he",
        *,
        activation: ActivationLike | None = None,
        last_activation: ActivationLike | None = None,
        seed: int = 1,
    ) -> Network:
        """A network with the same edges, biases 0 and weights to begin training with.

        :param weights: "he" (random), or "identity" (1 on the diagonal of square layers, for hundreds of layers)
        :param activation: of all layers but the last; None: as they are
        :param last_activation: of the last layer
        """
        first, last = (_layers.activation_pair(wanted) for wanted in (activation, last_activation))
        return Network(self._core.with_initial_weights(weights, *first, *last, to_seed(seed)))

    # --- running samples

    def run(
        self,
        X: Any,
        *,
        activations: bool = True,
        predictions: bool = False,
        sparse: bool = False,
        precision: Any = "float32",
        backend: str | None = None,
        reductions: str = "auto",
        edge_order: str = "balanced",
        engine: str = "varve",
        batch: int | None = None,
        memory_limit: int | None = None,
        progress: Progress | None = None,
        out: Any = None,
    ) -> Run:
        """Run samples and return everything that is known then. See the class for the options.

        :param activations: whether to return the last activations
        :param predictions: whether to return the output of the largest activation of each sample
        :param sparse: activations as scipy.sparse.csr_array instead of an array
        :param progress: called as progress(done, samples) after each batch
        :param out: array [samples, outputs] of the precision that gets the activations, batch by batch, in place of a new
            one: of NumPy, or in host memory with DLPack, such as a tensor of torch. If the call fails, it may hold a part
        """
        options = (_arrays.to_precision(precision), backend, reductions, edge_order, engine, batch, memory_limit)
        try:  # as _files.sentences() does, in less time
            return _running.run(self, X, out, Wanted(activations, predictions, sparse), options, progress)
        except (InputError, UsageError, ResourceError) as error:
            raise _files.in_names_of_python(error) from None

    def infer(self, X: Any, **options: Unpack[RunOptions]) -> Any:
        """The last activations of samples.

        :param X: samples [samples, inputs]
        :param options: those of :meth:`run`
        :returns: [samples, outputs] in the precision asked for: an array, ``out`` if given, or a scipy.sparse.csr_array if
            sparse=True
        :raises InputError: if X has another width or a value that is no finite number
        """
        return self.run(X, **options).activations

    def classify(self, X: Any, **options: Unpack[RunOptions]) -> np.ndarray:
        """The categories of the Graph Challenge: the numbers (from 0) of samples with a nonzero last activation.

        :param X: samples [samples, inputs]
        :returns: int64, ascending
        """
        return self.run(X, activations=False, **options).live_samples

    def predict(self, X: Any, **options: Unpack[RunOptions]) -> np.ndarray:
        """The output of the largest last activation of each sample, the lowest of equal ones.

        Refused for a network of one output, whose answer would always be 0: use :meth:`infer` for its activation, or
        :meth:`classify` for the samples whose activation is not 0.

        :param X: samples [samples, inputs]
        :returns: int64 [samples]
        """
        if self.num_outputs == 1:
            raise UsageError("the network has one output, so every prediction would be 0; use infer for its activation, or classify")
        predictions = self.run(X, activations=False, predictions=True, **options).predictions
        assert predictions is not None
        return predictions

    def plan(
        self,
        X: Any = None,
        *,
        precision: Any = "float32",
        backend: str | None = None,
        reductions: str = "auto",
        edge_order: str = "balanced",
        batch: int | None = None,
        memory_limit: int | None = None,
    ) -> str:
        """Which format and kernel each layer gets, one line for each run of layers.

        :param X: the samples that the plan is for; 8192 samples of any values by default
        """
        num_samples = planned_for = 8192
        if X is not None:
            X = _files.samples_of(X, self.num_inputs)
            num_samples, planned_for = _arrays.shape_of(X)[0], _arrays.to_sample_rows(X, self.num_inputs)
        options = (_arrays.to_precision(precision), backend, reductions, edge_order, "varve", batch, memory_limit)
        with _files.sentences():
            return Plan("\n".join(self._new_engine(num_samples, *options).plan_lines(planned_for)))

    # --- judging

    def evaluate(
        self,
        X: Any,
        labels: Any = None,
        *,
        targets: Any = None,
        loss: str | None = None,
        delta: float = 1.0,
        top: int = 5,
        **options: Unpack[RunOptions],
    ) -> Evaluation:
        """Measure how well the network answers.

        :param X: samples [samples, inputs], or the name of a file, whose labels or targets are taken if none are given
        :param labels: the index of the right output of each sample, [samples], or the name of a file with them
        :param targets: wanted outputs, [samples, outputs], or the name of a file with them
        :param loss: "cross-entropy" (needs labels; the default with labels), "mean-square" (the default with targets), "logistic"
            (binary cross-entropy of the sigmoid of each output; a network of one output takes labels 0 and 1) or "huber"
        :param delta: of huber: the error from which on the loss is a line
        :param top: a label counts for top_accuracy if it is among so many largest outputs
        :param options: those of :meth:`run`
        """
        from ._evaluation import evaluate

        return evaluate(self, X, labels, targets, loss, delta, top, options)

    def verify(self, X: Any, result: Any, *, exact: bool = False, tolerance: float = 1e-3) -> Verdict:
        """Compare a result with plain loops in double, or with exact arithmetic.

        :param X: samples [samples, inputs]
        :param result: what :meth:`classify` (one dimension) or :meth:`infer` (two dimensions) returned
        :param exact: judge by arithmetic without rounding
        :param tolerance: largest accepted error of an activation, in units of the sample's largest true one
        """
        from ._verdict import compare

        return compare(self, X, result, exact, to_number(tolerance, "tolerance"))

    # --- engines

    def receipt(
        self,
        X: Any,
        *,
        first_sample: int = 0,
        precision: Any = "float32",
        reductions: str = "auto",
        edge_order: str = "balanced",
        backend: str | None = None,
        batch: int | None = None,
    ) -> Receipt:
        """Run samples, and say in digests what was computed, so that others can check it: see :class:`Receipt`.

        :param X: samples [samples, inputs]
        :param first_sample: the number of the first one
        :returns: equal to what ``varve infer --receipt`` writes with the same options
        """
        options = {"backend": backend, "batch": batch}
        return _receipt.receipt_of(self, X, first_sample, precision, reductions, edge_order, options)

    def _engine(self, num_samples: int, *options: Any) -> _core.Engine:
        """The warm engine of these options, the first of which is the precision, for about num_samples samples."""
        key = (expected_samples(num_samples, options[0]), *options)
        engine = self._engines.get(key)
        if engine is None:
            engine = self._engines.setdefault(key, self._new_engine(num_samples, *options))
            _prepared[id(self)] = self
        return engine

    def _new_engine(
        self,
        num_samples: int,
        precision: str,
        backend: str | None,
        reductions: str,
        edge_order: str,
        engine: str,
        batch: int | None,
        memory_limit: int | None,
    ) -> _core.Engine:
        expected = expected_samples(num_samples, precision)
        batch = to_optional_count(batch, "batch")
        memory_limit = to_optional_count(memory_limit, "memory_limit")
        names = ((engine, "engine"), (backend or "", "backend"), (reductions, "reductions"), (edge_order, "edge_order"))
        engine, backend, reductions, edge_order = (to_name(given, name) for given, name in names)
        return _core.Engine(self._core, engine, backend, precision, reductions, edge_order, batch, memory_limit, expected)


#: Networks that are prepared for some calls.
_prepared: weakref.WeakValueDictionary[int, Network] = weakref.WeakValueDictionary()


def clear(*networks: Network) -> None:
    """Free what calls have prepared, each for its options: weights on the device and memory for activations.

    The next call prepares its network again. A call of another thread that is under way keeps what it uses until its end.

    :param networks: those whose preparations go; all by default
    """
    for network in networks or list(_prepared.values()):
        network._engines.clear()


def _are_equal(one: Layer, other: Layer) -> bool:
    parts = [(layer.weights.indptr, layer.weights.indices, layer.weights.data) for layer in (one, other)]
    if one.weights.shape != other.weights.shape or one.activation != other.activation:
        return False
    mine, theirs = (np.broadcast_to(layer.bias, layer.weights.shape[:1]) for layer in (one, other))
    return np.array_equal(mine, theirs) and all(np.array_equal(part, another) for part, another in zip(*parts))


def _core_of(weights: list[Any], bias: list[Any], activation: list[Any], name: str) -> _core.Network:
    return _layers.make_network(weights, bias, activation, False, name, warns=False)


def _unpickle(weights: list[Any], bias: list[Any], activation: list[Any], name: str) -> Network:
    return Network(_core_of(weights, bias, activation, name))
