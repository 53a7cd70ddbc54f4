#!/usr/bin/env python3
"""Studies the options of `varve infer` on one network and draws what each is worth: formats,
kernels, the samples of a batch in float and double, and how much a sample takes when there are few.

Data come from a seed (kept in --data). All runs of one precision and number of samples must have the same hash of the last
activations. One JSON record a line goes to --records, the plot to --plot (.svg, .png or .pdf by its name).

  perf/study.py --varve build/openmp/bin/varve --backend openmp --size 1024x24 --samples 4096 --plot study.svg
  perf/study.py --varve build/cuda-h100/bin/varve --backend cuda --size 16384x120 --pattern random --plot study.png
"""
import argparse
import json
import pathlib
import statistics
import sys
import tempfile

from harness import append_record, images_file, infer, network_file, run

FORMATS = ["auto", "dense", "pattern_blocks", "staged_blocks", "sliced_ell", "csr"]
KERNELS = ["auto", "direct", "stationary", "staged", "fused"]


def plotting():
    """matplotlib's pyplot, for files only."""
    try:
        import matplotlib
    except ImportError:
        sys.exit(f"{sys.executable} has no matplotlib to draw with: install python3-matplotlib (Debian, Ubuntu) or"
                 " py-matplotlib (Spack), or run this with a Python that has it")
    matplotlib.use("Agg")
    matplotlib.rcParams.update({"svg.hashsalt": "varve", "svg.fonttype": "none"})  # equal figures, equal files; text as text
    from matplotlib import pyplot
    return pyplot


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--varve", required=True, help="the command to study")
    parser.add_argument("--backend", default="openmp")
    parser.add_argument("--size", default="1024x120", help="NEURONSxLAYERS")
    parser.add_argument("--pattern", default="radixnet", choices=["radixnet", "random", "own_weights"])
    parser.add_argument("--reductions", default="none", help="as for varve infer; none studies the kernels")
    parser.add_argument("--samples", type=int, default=60000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--repeat", type=int, default=7, help="runs of each choice, one after the other")
    parser.add_argument("--rounds", type=int, default=1, help="times that all choices have their turn")
    parser.add_argument("--data", type=pathlib.Path, default=pathlib.Path("challenge-data"))
    parser.add_argument("--records", type=pathlib.Path, help="JSON lines to append to")
    parser.add_argument("--plot", type=pathlib.Path, nargs="+", default=[pathlib.Path("study.svg")])
    parser.add_argument("--fastest", action="store_true",
                        help="draw the fastest runs, not the medians: for a machine that has other work to do")
    return parser.parse_args()


class Study:
    """Runs one network with different options and keeps watch over the answers."""

    def __init__(self, asked):
        neurons, layers = map(int, asked.size.split("x"))
        self.asked = asked
        self.network = network_file(asked.varve, asked.data, asked.pattern, neurons, layers, asked.seed)
        self.images = images_file(asked.varve, asked.data, neurons, asked.samples, asked.seed)
        self.hashes = {}
        self.times = {}  # of each choice, of all rounds

    def measure(self, *options, precision="float", samples=None):
        """The layer loop in milliseconds: what is drawn, fastest, slowest."""
        samples = samples or self.asked.samples
        record = infer(self.asked.varve, self.network, self.images, "--backend", self.asked.backend,
                       "--reductions", self.asked.reductions, "--precision", precision, "--samples", f"1:{samples}",
                       "--repeat", self.asked.repeat, *options)
        expected = self.hashes.setdefault((precision, samples), record["activation_hash"])
        if record["activation_hash"] != expected:
            sys.exit(f"{options}: activations {record['activation_hash']}, other options gave {expected}")
        append_record(self.asked.records, {**record, "size": self.asked.size, "pattern": self.asked.pattern,
                                           "options": [str(option) for option in options]})
        times = self.times.setdefault((options, precision, samples), [])
        times += [1e3 * seconds for seconds in record["loop_seconds_all"]]
        drawn = min(times) if self.asked.fastest else statistics.median(times)
        print(f"{drawn:10.3f} ms  {precision}, {samples} samples {' '.join(map(str, options))}", flush=True)
        return drawn, min(times), drawn if self.asked.fastest else max(times)


def powers_of_two(first, last):
    """first, 2 * first, 4 * first ... and last."""
    numbers = []
    while first < last:
        numbers.append(first)
        first *= 2
    return numbers + [last]


def draw_bars(axes, title, names, groups):
    """Bars side by side for each name; whiskers from the fastest to the slowest run."""
    width = 0.8 / len(groups)
    for place, (label, times) in enumerate(groups.items()):
        heights = [drawn for drawn, _, _ in times]
        whiskers = [[drawn - low for drawn, low, _ in times], [high - drawn for drawn, _, high in times]]
        bars = axes.bar([number + place * width for number in range(len(names))], heights, width, yerr=whiskers, label=label,
                        error_kw={"linewidth": 0.8})
        axes.bar_label(bars, [f"{drawn:.3g}" for drawn in heights], fontsize=7)
    axes.set_xticks([number + 0.4 - width / 2 for number in range(len(names))])
    axes.set_xticklabels(names, rotation=20)
    axes.set_title(title)
    axes.set_ylabel("layer loop, ms")
    axes.legend()


def draw_lines(axes, title, what, unit, lines, own=()):
    """Lines through points (number, time); `own`: points of the product's choice, which get a circle."""
    for label, points in lines.items():
        axes.plot([count for count, _ in points], [time for _, time in points], marker="o", markersize=3, label=label)
    if own:
        axes.plot(*zip(*own), marker="o", markersize=10, fillstyle="none", linestyle="none", color="black", label="product's choice")
    axes.set_xscale("log", base=2)
    times = [time for points in lines.values() for _, time in points]
    if max(times) > 10 * min(times):
        axes.set_yscale("log")
    else:
        axes.set_ylim(bottom=0)
    axes.set_title(title)
    axes.set_xlabel(what)
    axes.set_ylabel(unit)
    axes.legend()


def study_formats(study):
    return {"tiles": [study.measure("--tuning", f"formats={name}") for name in FORMATS]}


def study_kernels(study):
    def run(kernel, formats):
        return study.measure("--tuning", f"formats={formats},kernel={kernel}")
    return {f"formats {formats}": [run(kernel, formats) for kernel in KERNELS] for formats in ("auto", "sliced_ell")}


def study_batches(study):
    batches = powers_of_two(min(256, study.asked.samples), study.asked.samples)
    return {precision: [(batch, study.measure("--batch", batch, precision=precision)[0]) for batch in batches]
            for precision in ("float", "double")}


def study_few_samples(study):
    counts = powers_of_two(1, study.asked.samples)[::2]
    return {"tiles": [(count, 1e3 * study.measure(samples=count)[0] / count) for count in counts]}


def draw(pyplot, asked, formats, kernels, batches, few_samples):
    figure, axes = pyplot.subplots(2, 2, figsize=(11, 8))
    draw_bars(axes[0, 0], "Formats", FORMATS, formats)
    draw_bars(axes[0, 1], "Kernels (where they can run)", KERNELS, kernels)
    draw_lines(axes[1, 0], f"Samples at a time, of {asked.samples}", "batch", "layer loop, all batches, ms", batches)
    draw_lines(axes[1, 1], "Few samples", "samples in all", "microseconds a sample", few_samples)
    figure.suptitle(f"{asked.size} {asked.pattern}, {asked.samples} samples, {asked.backend}, reductions {asked.reductions}, "
                    f"{'fastest' if asked.fastest else 'median'} of {asked.rounds * asked.repeat}")
    figure.tight_layout()
    for plot in asked.plot:
        figure.savefig(plot, metadata={"Date": None} if plot.suffix == ".svg" else None)
        print(f"plot in {plot}")


def main():
    asked = parse_arguments()
    pyplot = plotting()
    study = Study(asked)
    for _ in range(asked.rounds):
        results = [part(study) for part in (study_formats, study_kernels, study_batches, study_few_samples)]
    draw(pyplot, asked, *results)


if __name__ == "__main__":
    main()
