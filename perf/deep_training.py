#!/usr/bin/env python3
"""Trains a very deep sparse network, with all activations kept and with most of them computed again.

  perf/deep_training.py --varve build/openmp/bin/varve --backend openmp

The network has 1920 layers of 64 neurons, degree 9, with weights of --init identity, and a last layer for 10 classes. It
learns the 8x8 digits of scikit-learn (which must be installed): 1440 of them, and is judged by the other 357. The second
run keeps so few activations that a fifteenth of the memory for them is enough. Its weights must have the same bits;
otherwise the measurement ends with exit code 1. --samples N makes N samples of a seed with random labels instead, which
needs no other package and shows times alone. --torch times a step of PyTorch as well: dense layers under masks, Adam.
"""
import argparse
import pathlib
import random
import sys
import tempfile

import training_peers
from harness import append_record, report_of, run

WIDTH, CLASSES, BATCH = 64, 10, 128


def parse_arguments(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--varve", required=True, help="the command to measure")
    parser.add_argument("--backend", default="openmp")
    parser.add_argument("--layers", type=int, default=1920)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--rate", type=float, default=0.001)
    parser.add_argument("--samples", type=int, help="samples to make instead of scikit-learn's digits")
    parser.add_argument("--torch", action="store_true", help="time PyTorch as well")
    parser.add_argument("--records", type=pathlib.Path, help="append one JSON record a line")
    return parser.parse_args(arguments)


def write_labels(path, labels):
    path.write_text("".join(f"{label}\n" for label in labels))
    return path


def digits(folder):
    """Files of samples and labels: to train with, then to judge by."""
    try:
        import numpy
        from sklearn.datasets import load_digits
    except ImportError as missing:
        sys.exit(f"{missing.name} is not installed; install scikit-learn, or give --samples")
    images, labels = load_digits(return_X_y=True)
    order = numpy.random.default_rng(1).permutation(len(labels))
    files = []
    for name, part in (("train", order[:1440]), ("test", order[1440:])):
        numpy.save(folder / f"{name}.npy", (images[part] / 16).astype(numpy.float32))
        files += [folder / f"{name}.npy", write_labels(folder / f"{name}.txt", labels[part])]
    return files


def made(asked, folder):
    samples, numbers = folder / "samples.safetensors", random.Random(5)
    run(asked.varve, "generate", "samples", "--neurons", WIDTH, "--samples", asked.samples, "--density", 0.5, "--output", samples)
    labels = write_labels(folder / "labels.txt", [numbers.randrange(CLASSES) for _ in range(asked.samples)])
    return [samples, labels, samples, labels]


def train(asked, folder, files, *options):
    samples, labels, test, test_labels = files
    return report_of(asked.varve, "train", "--network", folder / "start.safetensors", "--input", samples, "--labels", labels, "--validation", test,
                     "--validation-labels", test_labels, "--output", folder / "trained.safetensors", "--backend", asked.backend, "--optimizer", "adam",
                     "--rate", asked.rate, "--batch", BATCH, "--tuning", f"micro-batch={BATCH}", "--epochs", asked.epochs, *options)


def keep_every(layers):
    """The distance of kept layers with which activations take about a fifteenth of the memory, or the least possible."""
    needs = {every: layers // every + every for every in range(1, layers + 1)}
    enough = [every for every, kept in needs.items() if kept <= layers / 15]
    return enough[0] if enough else min(needs, key=needs.get)


def measure(asked, folder):
    files = digits(folder) if asked.samples is None else made(asked, folder)
    widths = ",".join([str(WIDTH)] * (asked.layers + 1) + [str(CLASSES)])
    run(asked.varve, "generate", "random", "--widths", widths, "--degree", 9, "--init", "identity", "--output", folder / "start.safetensors")
    print(f"{'kept':>14} {'activations, MB':>15} {'ms a step':>9} {'accuracy':>8}  weights")
    hashes = set()
    for every in (1, keep_every(asked.layers)):
        report = train(asked, folder, files, "--recompute", every)
        step = 1e3 * report["run"]["ranks"][0]["compute_seconds"] / report["steps"]
        kept = "all" if every == 1 else f"every {every}"
        print(f"{kept:>14} {report['plan']['activation_bytes'] / 1e6:>15.1f} {step:>9.2f} {report['epochs'][-1]['validation_accuracy']:>8.4f}  "
              f"{report['weights_hash']}", flush=True)
        append_record(asked.records, {"study": "deep_training", "layers": asked.layers, "keep_every": every, "step_ms": step,
                                      "activation_bytes": report["plan"]["activation_bytes"], "weights_hash": report["weights_hash"],
                                      "backend": asked.backend, "device": report["device"], "commit": report["commit"]})
        hashes.add(report["weights_hash"])
    if asked.torch:
        print(f"{'PyTorch':>14} {'-':>15} {1e3 * training_peers.apart(training_peers.torch_deep_step, WIDTH, asked.layers, 9, BATCH, CLASSES):>9.2f}")
    return hashes


def main(arguments):
    asked = parse_arguments(arguments)
    with tempfile.TemporaryDirectory() as folder:
        hashes = measure(asked, pathlib.Path(folder))
    if len(hashes) > 1:
        sys.exit("activations that are computed again changed the weights")


if __name__ == "__main__":
    main(sys.argv[1:])
