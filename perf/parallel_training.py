#!/usr/bin/env python3
"""Measures `varve train` on several ranks by the exercise of a course, and counts the bytes that ranks change.

  perf/parallel_training.py --varve build/openmp/bin/varve --backend serial --ranks 1 2 3 4 \\
      --images train-images-idx3-ubyte.gz --labels train-labels-idx1-ubyte.gz

The network is 784-100-10 with all edges, sigmoid and softmax; mini-batches have 800 samples, l2 is 1e-4. Its three modes
are 40 epochs at a rate of 0.0005, 10 at 0.001 and 1 at 0.002, by plain gradient descent. The report of the exercise
compares parallel with sequential training: weights differ by 1e-7 in float and 1e-16 in double. Here the trained files
are compared byte by byte; a difference ends the measurement with exit code 1. Without --images the images are made from
a seed, and labels are random.
"""
import argparse
import pathlib
import random
import sys
import tempfile

from harness import append_record, report_of, run

MODES = {1: (40, 0.0005), 2: (10, 0.001), 3: (1, 0.002)} # epochs, rate
BATCH, L2 = 800, 1e-4


def parse_arguments(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--varve", required=True, help="the command to measure")
    parser.add_argument("--backend", default="openmp")
    parser.add_argument("--mpirun", default="mpirun", help="the command that starts ranks, with its options")
    parser.add_argument("--ranks", nargs="+", type=int, default=[1, 2, 3, 4])
    parser.add_argument("--modes", nargs="+", type=int, choices=MODES, default=list(MODES))
    parser.add_argument("--precisions", nargs="+", choices=["float", "double"], default=["float", "double"])
    parser.add_argument("--images", type=pathlib.Path, help="IDX images of 28x28")
    parser.add_argument("--labels", type=pathlib.Path, help="their labels")
    parser.add_argument("--samples", type=int, default=60000, help="images to make if there is no --images")
    parser.add_argument("--epochs", type=int, help="at most so many epochs in each mode")
    parser.add_argument("--records", type=pathlib.Path, help="append one JSON record a line")
    asked = parser.parse_args(arguments)
    if (asked.images is None) != (asked.labels is None):
        parser.error("--images and --labels come together")
    return asked


def training_file(asked, folder):
    """A sample file with labels."""
    path, labels = folder / "train.safetensors", asked.labels
    samples = asked.images
    if samples is None:
        samples, labels = folder / "samples.safetensors", folder / "labels.txt"
        run(asked.varve, "generate", "samples", "--neurons", 784, "--samples", asked.samples, "--density", 0.5, "--output", samples)
        numbers = random.Random(4)
        labels.write_text("".join(f"{numbers.randrange(10)}\n" for _ in range(asked.samples)))
    run(asked.varve, "convert", samples, path, "--labels", labels)
    return path


def train(asked, folder, start, samples, ranks, mode, precision):
    """The report of a training and the bytes of the network that it wrote."""
    epochs, rate = MODES[mode]
    output = folder / "trained.safetensors"
    arguments = ["train", "--network", start, "--input", samples, "--output", output, "--backend", asked.backend, "--precision", precision,
                 "--optimizer", "sgd", "--rate", rate, "--rate-schedule", "constant", "--optimizer", f"l2={L2}", "--batch", BATCH, "--epochs",
                 min(epochs, asked.epochs or epochs), "--tuning=share-devices=on"]
    command = [asked.varve] if ranks == 1 else [*asked.mpirun.split(), "-n", str(ranks), asked.varve]
    report = report_of(*command, *arguments)
    return report, output.read_bytes()


def different_bytes(one, other):
    return abs(len(one) - len(other)) + sum(a != b for a, b in zip(one, other))


def measure(asked, folder):
    """Prints the table; returns the number of bytes that differ in all runs together."""
    samples, start = training_file(asked, folder), folder / "start.safetensors"
    run(asked.varve, "generate", "random", "--widths", "784,100,10", "--density", 1, "--init", "he", "--activation", "sigmoid",
        "--activation", "last=identity", "--output", start)
    print(f"{'mode':>4} {'precision':>9} {'ranks':>5} {'seconds':>9} {'speedup':>7} {'accuracy':>8} {'bytes that differ':>17}  weights")
    all_different = 0
    for precision in asked.precisions:
        for mode in asked.modes:
            alone, alone_bytes = train(asked, folder, start, samples, 1, mode, precision)
            for ranks in asked.ranks:
                report, found = (alone, alone_bytes) if ranks == 1 else train(asked, folder, start, samples, ranks, mode, precision)
                different = different_bytes(found, alone_bytes)
                all_different += different
                print(f"{mode:>4} {precision:>9} {ranks:>5} {report['seconds']:>9.3f} {alone['seconds'] / report['seconds']:>7.2f} "
                      f"{report['epochs'][-1]['accuracy']:>8.4f} {different:>17}  {report['weights_hash']}", flush=True)
                append_record(asked.records, {"study": "parallel_training", "mode": mode, "precision": precision, "ranks": ranks,
                                              "seconds": report["seconds"], "different_bytes": different, "backend": asked.backend,
                                              "device": report["device"], "commit": report["commit"], "weights_hash": report["weights_hash"]})
    return all_different


def main(arguments):
    asked = parse_arguments(arguments)
    with tempfile.TemporaryDirectory() as folder:
        different = measure(asked, pathlib.Path(folder))
    if different > 0:
        sys.exit(f"{different} bytes differ between numbers of ranks, expected 0")


if __name__ == "__main__":
    main(sys.argv[1:])
