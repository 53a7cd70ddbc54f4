"""The command varve-convert: files of other programs, and of Varve 0.2, become files of Varve."""

from __future__ import annotations

import argparse
import multiprocessing
import os
import resource
import signal
import sys
from typing import Any, Iterator, NoReturn, Sequence

import numpy as np

from . import _container, _core, _files, _foreign, _hdf5, _layer_lists
from ._activation import PARAMETERS
from ._errors import Error, InputError, UsageError
from ._layer_lists import Options

_ABOUT = """
Writes a file of other programs as a file of Varve (.safetensors). It is recognized by its content:

  networks  ONNX; Keras; HDF5 of Varve 0.2; folders of matrices; JSON lists of layers, with weights in matrices or safetensors
  samples   NumPy (.npy, .npz with X and y), SciPy (.npz), Matrix Market, IDX, CSV, svmlight, one matrix in binsparse;
            HDF5 of Varve 0.2
  both      a single matrix is samples, one in each row; with --activation or --cap it is the weights of a network
  matrices  dense ones with --matrix or as FILE:DATASET: NumPy, HDF5; HDF5 of Varve 0.2
"""

_MORE = """
Of networks, the rows of matrices are outputs. Checkpoints of Varve 0.2 remain checkpoints.

  varve-convert model.onnx network.safetensors
  varve-convert weights/ network.safetensors --activation clipped_relu --cap 32 --bias -0.3
  varve-convert x.npy train.safetensors --labels y.npy
  varve-convert results.h5:run/a a.safetensors

Exit codes: 0 done, 2 wrong arguments, 3 broken or unsuitable file, 4 no memory, disk or library for it.
"""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(2, f"varve-convert: {message} (varve-convert --help lists the options)\n")


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = _Parser(
        "varve-convert", description=_ABOUT, epilog=_MORE, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "source", metavar="FILE", help="file or folder of another program; FILE:DATASET for a dense matrix in HDF5"
    )
    parser.add_argument("target", metavar="OUT.safetensors", help="file of Varve, which appears whole or not at all")
    network = parser.add_argument_group("networks of matrices")
    network.add_argument("--activation", choices=tuple(PARAMETERS), help="of every layer")
    network.add_argument("--cap", type=float, help="of clipped_relu, which is the activation then")
    network.add_argument("--slope", type=float, help="of leaky_relu: by what sums below zero are multiplied, 0 to 1")
    network.add_argument("--bias", type=float, help="of all neurons (default: 0)")
    network.add_argument(
        "--transpose-weights", action="store_true", help="the rows are inputs, as in scikit-learn and Keras"
    )
    samples = parser.add_argument_group("samples")
    samples.add_argument(
        "--labels", metavar="FILE", help="the class of each sample: NumPy, IDX, lines, or a file of samples with labels"
    )
    samples.add_argument(
        "--targets", metavar="FILE", help="the wanted outputs of each sample: any matrix, or a file of samples"
    )
    matrix = parser.add_argument_group("dense matrices")
    matrix.add_argument("--matrix", action="store_true", help="FILE is a dense matrix: a file for varve multiply")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns its exit code.

    A child process converts: libraries may crash over a broken file, HDF5 above all, which becomes a sentence, too.
    """
    given = _parse(arguments)
    child = multiprocessing.get_context("spawn").Process(target=_run, args=(given,), daemon=True)
    child.start()
    try:
        child.join()
    except KeyboardInterrupt:
        child.join()  # it got the signal, too
        return 130
    code = child.exitcode or 0
    if code < 0:
        name = signal.Signals(-code).name
        print(f"varve-convert: {given.source} cannot be read: {name} ended the library that reads it", file=sys.stderr)
        return 3
    return code


def _run(given: argparse.Namespace) -> NoReturn:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that nothing is left
    try:
        _limit_time(_parts_of(given.source)[0])
        convert(given)
    except (Error, MemoryError) as error:
        reason = str(error) or f"{given.source} does not fit into memory"
        print(f"varve-convert: {reason}", file=sys.stderr)
        sys.exit(2 if isinstance(error, UsageError) else 3 if isinstance(error, InputError) else 4)
    except KeyboardInterrupt:
        sys.exit(130)
    sys.exit(0)


def _limit_time(path: str) -> None:
    """Ends this process if it takes much longer than a file of this size can: libraries may hang over a broken one."""
    if os.path.isfile(path):
        most = resource.getrlimit(resource.RLIMIT_CPU)[1]
        seconds = 120 + os.path.getsize(path) // 100_000  # of the processor
        resource.setrlimit(resource.RLIMIT_CPU, (seconds if most < 0 else min(seconds, most), most))


def convert(given: argparse.Namespace) -> None:
    """Converts a file. Raises Error."""
    (source, dataset), target = _parts_of(given.source), _files.name_of(given.target)
    if not os.path.exists(source):
        raise InputError(f"{source} cannot be read: No such file or directory")
    _require_own_file(target, [source, given.labels, given.targets])
    kind = _foreign.kind_of(source)
    content = _hdf5.content_of(source) if kind == "hdf5" and not dataset else ""
    options = Options(None, None, given.bias, given.cap, given.activation, given.slope, given.transpose_weights)
    is_dense = given.matrix or dataset != "" or content == "matrix"
    is_single = not _layer_lists.says_layers(source, kind) and (
        kind in ("npy", "npz", "mtx", "csv", "svmlight", "")
        and os.path.isfile(source)
        or content == "binsparse"
        and len(_hdf5.matrix_names(source)) == 1
    )
    is_network = (
        not is_dense and content != "samples" and not (is_single and given.activation is None and given.cap is None)
    )
    if not is_network:
        _refuse(source, options._asdict(), "networks of matrices", "none of their kind")
    if is_dense or is_network:
        _refuse(source, {"labels": given.labels, "targets": given.targets}, "samples", "none")
    if is_dense:
        _convert_dense(source, dataset, target)
    elif content == "checkpoint":
        _convert_checkpoint(source, options, target)
    elif is_network:
        network, note = _files.network_of(source, options)
        if note:
            print(f"varve-convert: {note}", file=sys.stderr)
        _core.save_network(network, target)
    else:
        _convert_samples(source, given, target)


def _parts_of(source: str) -> tuple[str, str]:
    """The names of a file and of a dataset in it, "" without one."""
    file, _, dataset = _files.name_of(source).rpartition(":")
    return (file, dataset) if os.path.exists(file) and not os.path.exists(source) else (source, "")


def _refuse(source: str, options: dict[str, Any], what: str, holds: str) -> None:
    for name, value in options.items():
        if value not in (None, False):
            option = "transpose-weights" if name == "transposed" else name
            raise UsageError(f"--{option} is for {what}; {source} holds {holds}")


def _require_own_file(target: str, sources: list[str | None]) -> None:
    if not target.endswith(".safetensors"):
        raise UsageError(f"{target} has an unknown ending, expected .safetensors")
    folder = os.path.dirname(os.path.realpath(target))
    for source in filter(None, sources):
        if os.path.exists(target) and os.path.exists(source) and os.path.samefile(source, target):
            raise UsageError(f"{target} would replace what {source} is read from; give it another name")
        if os.path.isdir(source) and os.path.realpath(source) == folder:
            raise UsageError(
                f"{target} would become a part of the folder {source}, which is read; give it another folder"
            )


def _convert_samples(source: str, given: argparse.Namespace, target: str) -> None:
    read = _files.samples_in(source, None, True)
    labels, targets = read.labels, read.targets
    if given.labels:
        labels = _files.labels_in(_files.name_of(given.labels), read.first_sample, len(read))
    if given.targets:
        targets = _files.targets_in(_files.name_of(given.targets))
    _files.write_samples(target, _files.Samples(read.X, labels, targets, read.first_sample))


# --- what the C++ part does not write


def _convert_checkpoint(source: str, options: Options, target: str) -> None:
    network = list(_hdf5.read_layers(source))
    training = _hdf5.read_training(source, network)
    description: dict[str, Any] = {"kind": "network"}
    arrays: dict[str, _container.ArrayLike] = {}
    for name, layers in (("layers", network), ("best", training.best)):
        if not layers:
            continue
        _layer_lists.core_of(layers, source)  # checks them
        _layer_lists.require_no_matrix_options(source, options)
        description[name] = []
        for number, layer in enumerate(layers):
            found: dict[str, Any] = {"shape": list(layer.weights.shape), "activation": layer.activation.name}
            if layer.activation.parameter is not None:
                found["cap" if layer.activation.name == "clipped_relu" else "slope"] = layer.activation.parameter
            description[name].append(found)
            arrays |= _container.sparse(f"{name}.{number}", layer.weights)
            arrays[f"{name}.{number}.bias"] = _container.narrow(layer.bias)
    moments = training.moments
    description["training"] = {"steps": training.steps, "moments": len(moments[0][0]) if moments else 0}
    for number, kinds in enumerate(moments):
        for kind, lists in zip(("weights", "bias"), kinds):
            arrays |= {f"training.{number}.{kind}.{moment}": _container.narrow(one) for moment, one in enumerate(lists)}
    for name, text in (("recipe", training.recipe), ("progress", training.progress)):
        arrays[f"training.{name}"] = np.frombuffer(text.encode(), np.uint8)
    if len(training.history):
        arrays["history"] = training.history
    _container.write(target, description, arrays)


def _convert_dense(source: str, dataset: str, target: str) -> None:
    place = f"{source}: {_foreign.quote(dataset)}" if dataset else source
    if _foreign.kind_of(source) == "hdf5":
        with _hdf5.dense(source, dataset) as (numbers, shape):
            _write_dense(
                target, numbers, shape, numbers.chunks[0] if numbers.chunks and numbers.ndim == 2 else 1, place
            )
    elif _foreign.kind_of(source) == "npy" and not dataset:
        array = _foreign.read_npy(source)
        if array.ndim != 2 or not array.size:
            _foreign.fail(
                source,
                f"an array of the shape ({', '.join(map(str, array.shape))})",
                "two dimensions, rows and columns",
            )
        _write_dense(target, array, array.shape, 1, place)
    else:
        raise InputError(f"{place} is not a dense matrix, expected HDF5 or a NumPy array")


def _write_dense(target: str, numbers: Any, shape: tuple[int, int], chunk: int, place: str) -> None:
    """Writes a matrix block by block. `numbers`: its rows, or its numbers in a list; `chunk`: rows to read together."""
    num_rows, num_columns = shape
    kind = np.dtype("float32" if np.can_cast(numbers.dtype, np.float32, casting="safe") else "float64")
    step = max(1, min(-(-(2**22 // num_columns) // chunk) * chunk, 2**28 // num_columns))

    def blocks() -> Iterator[np.ndarray]:
        for first in range(0, num_rows, step):
            last = min(first + step, num_rows)
            with _foreign.reading(place):
                rows = numbers[first:last] if numbers.ndim == 2 else numbers[first * num_columns : last * num_columns]
            rows = np.asarray(rows, kind).reshape(-1, num_columns)
            for row, column in np.argwhere(~np.isfinite(rows))[:1]:
                _foreign.fail(
                    place, f"the value {rows[row, column]} in row {first + row}, column {column}", "a finite number"
                )
            yield rows

    _container.write(
        target, {"kind": "matrix", "shape": list(shape)}, {"matrix": _container.Blocks(kind, shape, blocks())}
    )


if __name__ == "__main__":
    sys.exit(main())
