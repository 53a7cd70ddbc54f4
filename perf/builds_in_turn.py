#!/usr/bin/env python3
"""Times the layer loops of two builds of Varve in turn, on the same files, and compares their answers.

  perf/builds_in_turn.py --builds before/varve build/cuda-h100/bin/varve --backend cuda \\
      --networks radixnet-1024x120 random-4096x120 own_weights-1024x120 512x20x0.3 --variant "--reductions none" --variant ""

Networks: PATTERN-NEURONSxLAYERS as in perf/challenge.py (radixnet, random, own_weights) with generated images, or
NEURONSxLAYERSxDENSITY as in perf/trained.py with samples of random values. The first build writes the files. Each round runs
both builds once; a line gives their medians over all repetitions of all rounds and the ratio of the second to the first.
Ends with exit code 1 if the hashes of all last activations differ anywhere.
"""
import argparse
import pathlib
import statistics
import sys

from harness import append_record, generated, images_file, infer, network_file


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--builds", nargs=2, required=True, metavar=("BEFORE", "AFTER"), help="the two commands")
    parser.add_argument("--backend", default="openmp")
    parser.add_argument("--networks", nargs="+", required=True, help="PATTERN-NEURONSxLAYERS or NEURONSxLAYERSxDENSITY")
    parser.add_argument("--samples", type=int, default=60000, help="images for networks of the challenge's shapes")
    parser.add_argument("--trained-samples", type=int, nargs="+", default=[10000], help="samples for the other networks, one measurement each")
    parser.add_argument("--variant", action="append", help="further options of varve infer, one measurement each (--variant=--OPTION)")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--repeat", type=int, default=11, help="repetitions of the layer loop in a round")
    parser.add_argument("--data", type=pathlib.Path, default=pathlib.Path("challenge-data"))
    parser.add_argument("--records", type=pathlib.Path, help="JSON lines to append to")
    return parser.parse_args()


def files_of(asked, name):
    """Network, samples, and the numbers of samples to measure."""
    pattern, _, shape = name.rpartition("-")
    if pattern:
        neurons, layers = map(int, shape.split("x"))
        return (network_file(asked.builds[0], asked.data, pattern, neurons, layers, 1),
                images_file(asked.builds[0], asked.data, neurons, asked.samples, 1), [asked.samples])
    width, layers, density = shape.split("x")
    network = generated(asked.builds[0], asked.data / f"trained-{shape}.safetensors", "random", "--neurons", width, "--layers", layers, "--density", density,
                        "--cap", 1)
    count = max(asked.trained_samples)
    samples = generated(asked.builds[0], asked.data / f"samples-{width}-{count}.safetensors", "samples", "--neurons", width, "--samples", count, "--density", 0.5)
    return network, samples, asked.trained_samples


def measure(asked, name, network, samples, count, variant):
    """The medians of both builds, in ms, and whether their answers were equal."""
    options = ["--backend", asked.backend, *variant.split(), "--samples", f"1:{count}", "--repeat", asked.repeat]
    times, hashes = ([], []), set()
    for _ in range(asked.rounds):
        for build, seconds in zip(asked.builds, times, strict=True):
            record = infer(build, network, samples, *options)
            seconds.extend(record["loop_seconds_all"])
            hashes.add(record["activation_hash"])
    before, after = (1e3 * statistics.median(seconds) for seconds in times)
    least = [1e3 * min(seconds) for seconds in times]
    answer = "equal" if len(hashes) == 1 else "UNLIKE"
    print(f"{name:>22} {count:7} {variant or 'auto':24} {before:10.4f} {after:10.4f} {after / before:7.3f} {least[0]:10.4f} {least[1]:10.4f}"
          f" {least[1] / least[0]:7.3f}  {answer}", flush=True)
    append_record(asked.records, {"network": name, "samples": count, "variant": variant, "backend": asked.backend, "before_ms": before, "after_ms": after,
                                  "ratio": after / before, "least_before_ms": least[0], "least_after_ms": least[1], "answer": answer})
    return len(hashes) == 1


def main():
    asked = parse_arguments()
    print(f"{'network':>22} {'samples':>7} {'variant':24} {'before':>10} {'after':>10} {'ratio':>7} {'least':>10} {'least':>10} {'ratio':>7}  answers (times in ms)",
          flush=True)
    are_equal = True
    for name in asked.networks:
        network, samples, counts = files_of(asked, name)
        for count in counts:
            for variant in asked.variant or [""]:
                are_equal &= measure(asked, name, network, samples, count, variant)
    sys.exit(0 if are_equal else 1)


if __name__ == "__main__":
    main()
