#!/usr/bin/env python3
"""Measures and judges `varve train`.

  perf/train.py times --varve build/cuda-h100/bin/varve --backend cuda [--torch]
      milliseconds a step of sparse networks with random patterns; with --torch also those of PyTorch on the same device:
      CSR weights (errors through a stored transpose, gradients by sampled_addmm) and dense weights under a mask;
      with --ranks 1 2 under mpirun with so many ranks each, and how many times as fast as with the first of them
  perf/train.py judge --varve build/openmp/bin/varve --backend openmp
      trains one network by Varve and by NumPy (with --torch: by PyTorch's automatic derivatives), dense weights under a
      mask, from the same start on the same batches for 100 steps and compares all losses; ends with exit code 1 if they
      differ by more than 1e-5 of the loss in float or 1e-12 in double
  perf/train.py curves history.tsv... --plot curves.svg
      draws loss and accuracy by epoch of histories that `varve train --history` has written
"""
import argparse
import csv
import multiprocessing
import pathlib
import random
import sys
import tempfile
import time

from harness import append_record, report_of, run

NETWORKS = ["1024x120x32@64", "1024x120x32@1024", "1024x120x32@4096", "4096x24x32@1024", "16384x12x32@1024", "1024x30x102@1024", "512x20x154@1024"]


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    tasks = parser.add_subparsers(dest="task", required=True)
    times = tasks.add_parser("times")
    times.add_argument("--networks", nargs="+", default=NETWORKS, help="WIDTHxLAYERSxDEGREE@BATCH")
    times.add_argument("--ranks", nargs="+", type=int, default=[0], help="numbers of ranks, each under mpirun (default: without mpirun)")
    times.add_argument("--torch", action="store_true", help="time PyTorch as well")
    times.add_argument("--records", type=pathlib.Path, help="append one JSON record a line")
    judge = tasks.add_parser("judge")
    judge.add_argument("--steps", type=int, default=100)
    judge.add_argument("--torch", action="store_true", help="compare with PyTorch instead of NumPy")
    for task in (times, judge):
        task.add_argument("--varve", required=True, help="the command to measure")
        task.add_argument("--backend", default="openmp")
    curves = tasks.add_parser("curves")
    curves.add_argument("histories", nargs="+", type=pathlib.Path)
    curves.add_argument("--plot", type=pathlib.Path, required=True)
    return parser.parse_args()


def write_labels(path, count, classes):
    numbers = random.Random(1)
    path.write_text("".join(f"{numbers.randrange(classes)}\n" for _ in range(count)))


def varve_step(asked, folder, width, layers, degree, batch, ranks):
    """Seconds a step: the difference between many epochs and one, which leaves out all that is done once. As many that they differ by two seconds, beside
    which the start of a process, a tenth of a second more or less, counts little."""
    steps = 8
    enough_seconds = 2.0
    network, samples, labels = folder / "network.h5", folder / "samples.h5", folder / "labels.txt"
    run(asked.varve, "generate", "random", "--neurons", width, "--layers", layers, "--degree", degree, "--output", network)
    run(asked.varve, "generate", "samples", "--neurons", width, "--samples", steps * batch, "--density", 0.1, "--output", samples)
    write_labels(labels, steps * batch, width)
    command = ["mpirun", "-n", ranks, asked.varve] if ranks else [asked.varve]

    def seconds_of(epochs):
        report = report_of(*command, "train", "--network", network, "--input", samples, "--labels", labels, "--output", folder / "trained.h5", "--batch",
                           batch, "--epochs", epochs, "--rate", 1e-6, "--backend", asked.backend)
        return report["seconds"]

    once, epochs = seconds_of(1), 5
    while (more := seconds_of(epochs) - once) < enough_seconds and epochs < 300:
        epochs *= 4
    return more / ((epochs - 1) * steps)


def torch_step(width, layers, degree, batch, is_sparse):
    """Seconds a step of PyTorch: forward, backward, SGD with momentum; the median of ten."""
    import torch
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.backends.cuda.matmul.allow_tf32 = False
    numbers = torch.Generator().manual_seed(1)
    patterns = []
    for _ in range(layers):
        mask = torch.zeros(width, width)
        mask.scatter_(1, torch.rand(width, width, generator=numbers).topk(degree).indices, 1.0)
        patterns.append(mask)
    weights = [(torch.randn(width, width, generator=numbers) * mask / degree**0.5).to(device) for mask in patterns]
    x0 = (torch.rand(batch, width, generator=numbers) < 0.1).float().to(device)
    labels = torch.randint(width, (batch,), generator=numbers).to(device)
    if is_sparse:
        rows = [w.to_sparse_csr() for w in weights]
        columns = [w.t().contiguous().to_sparse_csr() for w in weights]
        moments = [torch.zeros_like(w.values()) for w in rows]
    else:
        masks = [mask.to(device) for mask in patterns]
        moments = [torch.zeros_like(w) for w in weights]

    def step():
        kept = [x0.t().contiguous()]
        for layer in range(layers):
            kept.append(((rows if is_sparse else weights)[layer] @ kept[-1]).clamp_(0, 32))
        slopes = torch.softmax(kept[-1], 0)
        slopes[labels, torch.arange(batch, device=device)] -= 1
        error = slopes * ((kept[-1] > 0) & (kept[-1] < 32))
        for layer in reversed(range(layers)):
            x = kept[layer]
            if is_sparse:
                zero = torch.sparse_csr_tensor(rows[layer].crow_indices(), rows[layer].col_indices(), torch.zeros_like(rows[layer].values()), (width, width))
                gradient = torch.sparse.sampled_addmm(zero, error, x.t(), beta=0.0).values()
                before = columns[layer] @ error if layer else None
                values = rows[layer].values()
            else:
                gradient = (error @ x.t()).mul_(masks[layer])
                before = weights[layer].t() @ error if layer else None
                values = weights[layer]
            moments[layer].mul_(0.9).add_(gradient, alpha=1 / batch)
            values.add_(moments[layer], alpha=-1e-6)
            if layer:
                error = before * ((x > 0) & (x < 32))

    def timed():
        begin = time.perf_counter()
        step()
        if device == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter() - begin

    for _ in range(3):
        timed()
    return sorted(timed() for _ in range(10))[5]


def apart(function, *arguments):
    """Calls a function in a process of its own. Under OMP_PROC_BIND PyTorch binds the thread that imports it to one processor, and every process started
    from there, such as the next run of Varve, would have that processor alone."""
    with multiprocessing.get_context("spawn").Pool(1) as process:
        return process.apply(function, arguments)


def times(asked):
    for name in asked.networks:
        shape, batch = name.split("@")
        width, layers, degree = map(int, shape.split("x"))
        once = None
        for ranks in asked.ranks:
            with tempfile.TemporaryDirectory() as folder:
                seconds = varve_step(asked, pathlib.Path(folder), width, layers, degree, int(batch), ranks)
            record = {"network": shape, "batch": int(batch), "backend": asked.backend, "varve_ms": 1e3 * seconds}
            once = once or seconds
            if ranks:
                record |= {"ranks": ranks, "times_as_fast": once / seconds}
            if asked.torch:
                record["torch_csr_ms"] = 1e3 * apart(torch_step, width, layers, degree, int(batch), True)
                record["torch_dense_ms"] = 1e3 * apart(torch_step, width, layers, degree, int(batch), False)
            print("  ".join(f"{key} {value:.2f}" if isinstance(value, float) else f"{key} {value}" for key, value in record.items()), flush=True)
            append_record(asked.records, record)


def losses_of_varve(asked, folder, precision, width, layers, count):
    run(asked.varve, "train", "--network", folder / "network", "--neurons", width, "--layers", layers, "--bias", 0, "--cap", 1e9, "--input", folder / "samples.tsv",
        "--labels", folder / "labels.txt", "--output", folder / "trained.h5", "--optimizer", "sgd", "--rate", 0.05, "--rate-schedule", "constant", "--batch",
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
    {"times": times, "judge": judge, "curves": curves}[asked.task](asked)


if __name__ == "__main__":
    main()
