#!/usr/bin/env python3
"""Times `varve infer` on networks of the Graph Challenge's shapes and checks every answer before it counts.

For each size it generates network and images from a seed (kept in --data), lets the reference engine run the first --check
samples (all of them with --check 0), and accepts a timing only if the hash of all last activations over those samples is
the reference's, bit for bit. One JSON record a line goes to --records; a table goes to standard output.

  perf/challenge.py --varve build/cuda-h100/bin/varve --backend cuda --sizes 1024x120 4096x120 --repeat 11
  perf/challenge.py --varve build/openmp/bin/varve --backend openmp --sizes 1024x120 --variant "" --variant "--tuning formats=sliced_ell"
  perf/challenge.py --varve build/cuda-h100/bin/varve --backend cuda --pattern random own_weights --variant "--reductions none" \\
      --contender build/contenders/bin/varve_contender

A variant "--tuning engine=kokkos-kernels" times that contender, of which the survivors must be the reference's.
Patterns: radixnet, the challenge's own; random, any 32 inputs with the challenge's weights and cap and a bias with which
about as many samples survive; own_weights, the same with random weights and a bias per neuron, where all survive.
"""
import argparse
import pathlib
import sys

from harness import append_record, contend, fastest, images_file, infer, milliseconds, network_file, verdict_on

# Layer loop in ms on one H200, all 60000 samples; the fastest published system and the fastest that takes any pattern.
PEERS_DEVICE = "H200"
PEERS_SAMPLES = 60000
PEERS = {
    "1024x120": (6.6, 10.8), "1024x480": (19.1, 34.1), "1024x1920": (65, 125),
    "4096x120": (18.3, 48.2), "4096x480": (35.2, 139), "4096x1920": (104.5, 518),
    "16384x120": (57.5, 216), "16384x480": (74.5, 687), "16384x1920": (133, 2570),
    "65536x120": (235, 1225), "65536x480": (274, 4451),
}


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--varve", required=True, help="the command to measure")
    parser.add_argument("--backend", default="openmp")
    parser.add_argument("--precision", default="float")
    parser.add_argument("--sizes", nargs="+", default=["1024x120"], help="NEURONSxLAYERS")
    parser.add_argument("--pattern", nargs="+", default=["radixnet"], choices=["radixnet", "random", "own_weights"])
    parser.add_argument("--samples", type=int, default=60000)
    parser.add_argument("--official-survivors", action="store_true", help="images that survive about as often as the official ones")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--repeat", type=int, default=11)
    parser.add_argument("--check", type=int, default=0, help="samples to check against the reference (0: all)")
    parser.add_argument("--variant", action="append",
                        help="further options of varve infer, one measurement each (--variant=--OPTION)")
    parser.add_argument("--contender", help="varve_contender, to time cuSPARSE (and, with --dense, cuBLAS) as well")
    parser.add_argument("--dense", action="store_true", help="cuBLAS on the densified network, too")
    parser.add_argument("--data", type=pathlib.Path, default=pathlib.Path("challenge-data"))
    parser.add_argument("--records", type=pathlib.Path, help="JSON lines to append to")
    return parser.parse_args()


def measure_contenders(asked, network, images, size, pattern):
    """The fastest loops of cuSPARSE and cuBLAS in ms, for the table; all that were tried are recorded."""
    if not asked.contender:
        return "-", "-"
    names = ["cusparse-samples-2", "cusparse-samples-3", "cusparse-neurons-1"]
    names += ["cublas-samples", "cublas-neurons"] if asked.dense else []
    records = contend(asked.contender, network, images, "--contenders", *names, "--repeat", asked.repeat,
                      "--check", min(asked.check or asked.samples, 1000))
    for record in records:
        append_record(asked.records, {**record, "size": size, "pattern": pattern})
        if "failed" in record:
            print(f"{record['contender']}: {record['failed']}", file=sys.stderr)
    return tuple(milliseconds(fastest(records, library, asked.samples)) for library in ("cusparse", "cublas"))


def peers_beside(size, pattern, record):
    """The peers' times, beside a run of what they ran: that network, so many samples, on one such device."""
    devices = record["devices"]
    is_theirs = (pattern == "radixnet" and record["input"]["samples"] == PEERS_SAMPLES and len(devices) == 1
                 and PEERS_DEVICE in devices[0])
    return PEERS.get(size, ("-", "-")) if is_theirs else ("-", "-")


def measure(asked, size, pattern):
    neurons, layers = map(int, size.split("x"))
    network = network_file(asked.varve, asked.data, pattern, neurons, layers, asked.seed)
    images = images_file(asked.varve, asked.data, neurons, asked.samples, asked.seed, asked.official_survivors)
    checked = ["--precision", asked.precision, "--samples", f"1:{asked.check or asked.samples}"]
    cusparse, cublas = measure_contenders(asked, network, images, size, pattern)
    for variant in asked.variant or [""]:
        options = ["--backend", asked.backend, *variant.split()]
        verdict = verdict_on(asked.varve, network, images, options, checked)
        record = infer(asked.varve, network, images, "--precision", asked.precision, *options, "--repeat", asked.repeat)
        times = sorted(1e3 * seconds for seconds in record["loop_seconds_all"])
        peers = peers_beside(size, pattern, record)
        print(f"{size:>11} {pattern:11} {variant or 'auto':30} {1e3 * record['loop_seconds']:9.3f} {times[0]:9.3f}"
              f" {times[-1]:9.3f}     {record['phases']['prepare']:8.2f}   {record['survivors']:9}"
              f" {record['edges_per_second'] / 1e12:7.2f} {peers[0]:>13} {peers[1]:>12} {cusparse:>10} {cublas:>10}"
              f"  {verdict} ({asked.check or asked.samples} samples)", flush=True)
        append_record(asked.records, {**record, "size": size, "pattern": pattern, "variant": variant, "answer": verdict})


def main():
    asked = parse_arguments()
    print(f"{'network':>11} {'pattern':11} {'variant':30} {'median':>9} {'min':>9} {'max':>9} ms  {'prepare':>8} s"
          f" {'survivors':>9} {'TE/s':>7} {'fastest peer':>13} {'any pattern':>12} {'cuSPARSE':>10} {'cuBLAS':>10}  answer",
          flush=True)
    for size in asked.sizes:
        for pattern in asked.pattern:
            measure(asked, size, pattern)


if __name__ == "__main__":
    main()
