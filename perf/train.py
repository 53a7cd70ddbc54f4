#!/usr/bin/env python3
"""Measures and judges `varve train`.

  perf/train.py times --varve build/cuda-h100/bin/varve --backend cuda [--torch]
      milliseconds a step of sparse networks with random patterns, and of the forward pass alone (varve infer on one batch);
      with --torch also those of PyTorch on the same device: CSR weights (errors through a stored transpose, gradients by
      sampled_addmm) and dense weights under a mask; with --scipy those of SciPy and a compiled loop over edges, as in SET's
      published program; with --ranks 1 2 under mpirun with so many ranks each, and how many times as fast as with the first
  perf/train.py epoch --varve build/openmp/bin/varve --backend openmp [--peers numpy torch scikit-learn]
      milliseconds an epoch of 784-100-10 with all edges: sigmoid, softmax, gradient descent in batches of 800, L2
  perf/train.py judge --varve build/openmp/bin/varve --backend openmp
      trains one network by Varve and by NumPy (with --torch: by PyTorch's automatic derivatives), dense weights under a
      mask, from the same start on the same batches for 100 steps and compares all losses; ends with exit code 1 if they
      differ by more than 1e-5 of the loss in float or 1e-12 in double
  perf/train.py curves history.tsv... --plot curves.svg
      draws loss and accuracy by epoch of histories that `varve train --history` has written
"""
import argparse
import csv
import pathlib
import random
import sys
import tempfile

import training_peers
from harness import append_record, infer, report_of, run
from parallel_training import BATCH, L2, MODES

EPOCHS_OF_PEERS = {"numpy": training_peers.numpy_epoch, "torch": training_peers.torch_epoch, "scikit-learn": training_peers.scikit_learn_epoch}
NETWORKS = ["1024x120x32@64", "1024x120x32@1024", "1024x120x32@4096", "4096x24x32@1024", "16384x12x32@1024", "1024x30x102@1024", "512x20x154@1024"]


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    tasks = parser.add_subparsers(dest="task", required=True)
    times = tasks.add_parser("times")
    times.add_argument("--networks", nargs="+", default=NETWORKS, help="WIDTHxLAYERSxDEGREE@BATCH")
    times.add_argument("--ranks", nargs="+", type=int, default=[0], help="numbers of ranks, each under mpirun (default: without mpirun)")
    times.add_argument("--torch", action="store_true", help="time PyTorch as well")
    times.add_argument("--scipy", action="store_true", help="time SciPy with a compiled loop over edges as well")
    epoch = tasks.add_parser("epoch")
    epoch.add_argument("--samples", type=int, default=60000)
    epoch.add_argument("--precisions", nargs="+", choices=["float", "double"], default=["float", "double"])
    epoch.add_argument("--peers", nargs="*", choices=list(EPOCHS_OF_PEERS), default=[], help="other programs to time")
    for task in (times, epoch):
        task.add_argument("--records", type=pathlib.Path, help="append one JSON record a line")
    judge = tasks.add_parser("judge")
    judge.add_argument("--steps", type=int, default=100)
    judge.add_argument("--torch", action="store_true", help="compare with PyTorch instead of NumPy")
    for task in (times, epoch, judge):
        task.add_argument("--varve", required=True, help="the command to measure")
        task.add_argument("--backend", default="openmp")
    curves = tasks.add_parser("curves")
    curves.add_argument("histories", nargs="+", type=pathlib.Path)
    curves.add_argument("--plot", type=pathlib.Path, required=True)
    return parser.parse_args()


def write_labels(path, count, classes):
    numbers = random.Random(1)
    path.write_text("".join(f"{numbers.randrange(classes)}\n" for _ in range(count)))


def seconds_an_epoch(train):
    """Seconds an epoch of train(epochs), which gives those of a whole run: the difference between many epochs and one, which leaves out all that is done
    once. As many that they differ by two seconds, beside which the start of a process, a tenth of a second more or less, counts little."""
    enough_seconds = 2.0
    once, epochs = train(1), 5
    while (more := train(epochs) - once) < enough_seconds and epochs < 300:
        epochs *= 4
    return more / (epochs - 1)


def varve_times(asked, folder, width, layers, degree, batch, ranks):
    """Seconds a step, and seconds of the forward pass of one batch (of one rank)."""
    steps = 8
    network, samples, labels = folder / "network.safetensors", folder / "samples.safetensors", folder / "labels.txt"
    run(asked.varve, "generate", "random", "--neurons", width, "--layers", layers, "--degree", degree, "--output", network)
    run(asked.varve, "generate", "samples", "--neurons", width, "--samples", steps * batch, "--density", 0.1, "--output", samples)
    write_labels(labels, steps * batch, width)
    command = ["mpirun", "-n", ranks, asked.varve] if ranks else [asked.varve]

    def train(epochs):
        report = report_of(*command, "train", "--network", network, "--input", samples, "--labels", labels, "--output", folder / "trained.safetensors", "--batch",
                           batch, "--epochs", epochs, "--rate", 1e-6, "--backend", asked.backend)
        return report["seconds"]

    forward = infer(asked.varve, network, samples, "--samples", f"1:{batch}", "--repeat", 21, "--reductions", "none", "--backend", asked.backend)
    return seconds_an_epoch(train) / steps, forward["loop_seconds"]


def show(record, records):
    print("  ".join(f"{key} {value:.2f}" if isinstance(value, float) else f"{key} {value}" for key, value in record.items()), flush=True)
    append_record(records, record)


def times(asked):
    for name in asked.networks:
        shape, batch = name.split("@")
        width, layers, degree = map(int, shape.split("x"))
        network = (width, layers, degree, int(batch))
        once = None
        for ranks in asked.ranks:
            with tempfile.TemporaryDirectory() as folder:
                seconds, forward = varve_times(asked, pathlib.Path(folder), *network, ranks)
            record = {"network": shape, "batch": int(batch), "backend": asked.backend, "varve_ms": 1e3 * seconds, "forward_ms": 1e3 * forward}
            once = once or seconds
            if ranks:
                record |= {"ranks": ranks, "times_as_fast": once / seconds}
            if asked.torch:
                record["torch_csr_ms"] = 1e3 * training_peers.apart(training_peers.torch_step, *network, True)
                record["torch_dense_ms"] = 1e3 * training_peers.apart(training_peers.torch_step, *network, False)
            if asked.scipy:
                record["scipy_ms"] = 1e3 * training_peers.apart(training_peers.scipy_step, *network)
            show(record, asked.records)


def epoch(asked):
    for precision in asked.precisions:
        with tempfile.TemporaryDirectory() as place:
            folder = pathlib.Path(place)
            network, samples, labels = folder / "network.safetensors", folder / "samples.safetensors", folder / "labels.txt"
            run(asked.varve, "generate", "random", "--widths", "784,100,10", "--density", 1, "--init", "he", "--activation",
                "sigmoid,last=identity", "--output", network)
            run(asked.varve, "generate", "samples", "--neurons", 784, "--samples", asked.samples, "--density", 0.5, "--output", samples)
            write_labels(labels, asked.samples, 10)

            def train(epochs):
                report = report_of(asked.varve, "train", "--network", network, "--input", samples, "--labels", labels, "--output", folder / "trained.safetensors",
                                   "--optimizer", "sgd", "--rate", MODES[1][1], "--optimizer", f"l2={L2}", "--rate-schedule", "constant", "--batch", BATCH, "--epochs", epochs,
                                   "--precision", precision, "--backend", asked.backend)
                return report["seconds"]

            record = {"network": "784-100-10", "precision": precision, "backend": asked.backend, "varve_ms": 1e3 * seconds_an_epoch(train)}
        for peer in asked.peers:
            record[f"{peer}_ms"] = 1e3 * training_peers.apart(EPOCHS_OF_PEERS[peer], asked.samples, precision)
        show(record, asked.records)


def losses_of_varve(asked, folder, precision, width, layers, count):
    network = folder / "network.safetensors"
    run(asked.varve, "convert", folder / "network", network, "--text", f"neurons={width},layers={layers},bias=0,cap=1e9")
    run(asked.varve, "train", "--network", network, "--input", folder / "samples.tsv",
        "--labels", folder / "labels.txt", "--output", folder / "trained.safetensors", "--optimizer", "sgd", "--rate", 0.05, "--rate-schedule", "constant", "--batch",
        count, "--epochs", asked.steps, "--precision", precision, "--backend", asked.backend, "--history", folder / f"{precision}.tsv")
    with open(folder / f"{precision}.tsv") as history:
        return [float(row["loss"]) for row in csv.DictReader(history, delimiter="\t")]


def losses_of_numpy(steps, precision, weights, samples, labels):
    import numpy
    kind = numpy.float32 if precision == "float" else numpy.float64
    matrices = [numpy.array(matrix).astype(kind) for matrix in weights]
    masks = [matrix != 0 for matrix in matrices]
    biases = [numpy.zeros(len(matrix)) for matrix in weights]
    everybody, labels, losses = numpy.arange(len(labels)), numpy.array(labels), []
    for _ in range(steps):
        kept = [numpy.array(samples).astype(kind)]
        for matrix, bias in zip(matrices, biases, strict=True):
            kept.append(numpy.maximum(kept[-1] @ matrix.T + bias.astype(kind), 0).astype(kind))
        above = kept[-1].astype(float)
        above -= above.max(axis=1, keepdims=True)
        sums = numpy.exp(above).sum(axis=1, keepdims=True)
        losses.append(float(numpy.mean(numpy.log(sums[:, 0]) - above[everybody, labels])))
        slopes = numpy.exp(above) / sums
        slopes[everybody, labels] -= 1
        error = (slopes / len(labels)).astype(kind) * (kept[-1] > 0)
        for layer in reversed(range(len(matrices))):
            before = (error @ matrices[layer]) * (kept[layer] > 0)
            matrices[layer] -= kind(0.05) * (error.T @ kept[layer]) * masks[layer]
            biases[layer] -= 0.05 * error.sum(axis=0)
            error = before
    return losses


def losses_of_torch(steps, precision, weights, samples, labels):
    import torch
    kind = torch.float32 if precision == "float" else torch.float64
    start = [torch.tensor(matrix, dtype=torch.float64).to(kind) for matrix in weights]
    masks = [matrix != 0 for matrix in start]
    parameters = [matrix.clone().requires_grad_() for matrix in start]
    biases = [torch.zeros(len(matrix), dtype=torch.float64, requires_grad=True) for matrix in weights]
    x, y, losses = torch.tensor(samples, dtype=torch.float64).to(kind), torch.tensor(labels), []
    for _ in range(steps):
        out = x
        for weight, bias in zip(parameters, biases, strict=True):
            out = torch.relu(out @ weight.t() + bias.to(kind))  # 0 at 0, as in Varve; the gradient of clamp is 1 there
        loss = torch.nn.functional.cross_entropy(out, y)
        losses.append(loss.item())
        loss.backward()
        with torch.no_grad():
            for weight, bias, mask in zip(parameters, biases, masks, strict=True):
                weight -= 0.05 * weight.grad * mask
                bias -= 0.05 * bias.grad
                weight.grad = bias.grad = None
    return losses


def judge(asked):
    width, layers, degree, count = 64, 4, 8, 200
    numbers = random.Random(7)
    weights = [[[0.0] * width for _ in range(width)] for _ in range(layers)]
    samples = [[float(numbers.random() < 0.3) for _ in range(width)] for _ in range(count)]
    labels = [numbers.randrange(10) for _ in range(count)]
    differs = False
    with tempfile.TemporaryDirectory() as place:
        folder = pathlib.Path(place)
        (folder / "network").mkdir()  # varve writes no output among the layers that it reads
        for layer, matrix in enumerate(weights):
            lines = []
            for row in matrix:
                for column in numbers.sample(range(width), degree):
                    row[column] = numbers.gauss(0, (2 / degree)**0.5)
            for j in range(width):  # a line of a layer file: input, output, weight
                lines += [f"{i + 1}\t{j + 1}\t{matrix[j][i]!r}\n" for i in range(width) if matrix[j][i]]
            (folder / "network" / f"n{width}-l{layer + 1}.tsv").write_text("".join(lines))
        (folder / "samples.tsv").write_text("".join(f"{s + 1}\t{i + 1}\t1\n" for s, row in enumerate(samples) for i, value in enumerate(row) if value))
        (folder / "labels.txt").write_text("".join(f"{label}\n" for label in labels))
        for precision, most in (("float", 1e-5), ("double", 1e-12)):
            ours = losses_of_varve(asked, folder, precision, width, layers, count)
            theirs = (losses_of_torch if asked.torch else losses_of_numpy)(asked.steps, precision, weights, samples, labels)
            difference = max(abs(a - b) / abs(b) for a, b in zip(ours, theirs, strict=True))
            print(f"{precision}: {len(ours)} steps, loss {ours[0]:.6f} to {ours[-1]:.6f}, largest relative difference {difference:.2e}, allowed {most:.0e}")
            differs = differs or difference > most
    sys.exit(1 if differs else 0)


def curves(asked):
    from study import plotting
    figure, (left, right) = plotting().subplots(1, 2, figsize=(8, 3), layout="constrained")
    for path in asked.histories:
        with open(path) as history:
            rows = list(csv.DictReader(history, delimiter="\t"))
        epochs = [int(row["epoch"]) for row in rows]
        line, = left.plot(epochs, [float(row["loss"]) for row in rows], label=path.stem)
        right.plot(epochs, [float(row["accuracy"]) for row in rows], color=line.get_color())
        if rows and rows[0]["validation_loss"]:
            left.plot(epochs, [float(row["validation_loss"]) for row in rows], "--", color=line.get_color())
            right.plot(epochs, [float(row["validation_accuracy"]) for row in rows], "--", color=line.get_color())
    left.set(xlabel="epoch", ylabel="loss", yscale="log")
    right.set(xlabel="epoch", ylabel="accuracy")
    left.legend(fontsize="small", title="dashed: validation", title_fontsize="small")
    figure.savefig(asked.plot, metadata={"Date": None} if asked.plot.suffix == ".svg" else None)


def main():
    asked = parse_arguments()
    {"times": times, "epoch": epoch, "judge": judge, "curves": curves}[asked.task](asked)


if __name__ == "__main__":
    main()
