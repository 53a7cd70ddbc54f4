#!/usr/bin/env python3
"""Times `varve infer` on networks like trained ones, small and more or less dense, for batches from one sample on.

For each network, WIDTHxLAYERSxDENSITY with random weights and a bias per neuron, and each number of samples it checks the
answer (Varve: all bits; cuSPARSE and cuBLAS: live samples, values to 1e-4), then times the layer loop. Contenders run in
several layouts and algorithms, each also as one CUDA graph; the fastest counts. One JSON record a line goes to --records.

  perf/trained.py --varve build/cuda-h100/bin/varve --backend cuda --contender build/contenders/bin/varve_contender
  perf/trained.py --varve build/openmp/bin/varve --networks 256x12x0.6 1024x30x0.1 --samples 1 64 1000

The contenders (perf/contenders) are built by nvcc, without Kokkos in them:

  cmake -B build/contenders -DVARVE_BUILD_CONTENDERS=ON -DVARVE_BUILD_TESTS=OFF -DCMAKE_CUDA_ARCHITECTURES=90
  cmake --build build/contenders --target varve_contender
"""
import argparse
import pathlib
import sys

from harness import append_record, contend, fastest, generated, infer, milliseconds, verdict_on


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--varve", required=True, help="the command to measure")
    parser.add_argument("--backend", default="openmp")
    parser.add_argument("--networks", nargs="+", default=["256x12x0.6"], help="WIDTHxLAYERSxDENSITY")
    parser.add_argument("--samples", nargs="+", type=int, default=[1, 64, 1000, 10000])
    parser.add_argument("--sample-density", type=float, default=0.5)
    parser.add_argument("--cap", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--repeat", type=int, default=21)
    parser.add_argument("--check", type=int, default=1000, help="samples to check against the reference, at most")
    parser.add_argument("--variant", action="append",
                        help="further options of varve infer, one measurement each (--variant=--OPTION)")
    parser.add_argument("--contender", help="varve_contender, to time cuSPARSE and cuBLAS as well")
    parser.add_argument("--data", type=pathlib.Path, default=pathlib.Path("challenge-data"))
    parser.add_argument("--records", type=pathlib.Path, help="JSON lines to append to")
    return parser.parse_args()


def data_for(asked, shape):
    width, layers, density = shape.split("x")
    network = generated(asked.varve, asked.data / f"trained-{shape}-cap{asked.cap:g}-seed{asked.seed}.safetensors", "random",
                        "--neurons", width, "--layers", layers, "--density", density, "--cap", asked.cap, "--seed", asked.seed)
    count = max(asked.samples)
    samples = generated(asked.varve, asked.data / f"samples-{width}-{count}-{asked.sample_density:g}-seed{asked.seed}.safetensors",
                        "samples", "--neurons", width, "--samples", count, "--density", asked.sample_density,
                        "--seed", asked.seed)
    return network, samples


def contenders_for(asked, shape, network, samples):
    if not asked.contender:
        return []
    records = contend(asked.contender, network, samples, "--samples", *asked.samples, "--repeat", asked.repeat,
                      "--check", asked.check)
    for record in records:
        append_record(asked.records, {**record, "network_shape": shape})
        if "failed" in record:
            print(f"{record['contender']}: {record['failed']}", file=sys.stderr)
    return records


def ratio(contender, record):
    """A contender's time in parts of Varve's."""
    return f"{contender['loop_seconds'] / record['loop_seconds']:.2f}" if contender else "-"


def measure(asked, shape, count, variant, network, samples, contenders):
    options = ["--backend", asked.backend, *variant.split()]
    checked = ["--samples", f"1:{min(count, asked.check)}"]
    verdict = verdict_on(asked.varve, network, samples, options, checked)
    record = infer(asked.varve, network, samples, *options, "--samples", f"1:{count}", "--repeat", asked.repeat)
    times = sorted(1e3 * seconds for seconds in record["loop_seconds_all"])
    sparse, dense = fastest(contenders, "cusparse", count), fastest(contenders, "cublas", count)
    print(f"{shape:>14} {count:7} {variant or 'auto':22} {1e3 * record['loop_seconds']:9.4f} {times[0]:9.4f} {times[-1]:9.4f}"
          f" {milliseconds(sparse):>10} {ratio(sparse, record):>7} {milliseconds(dense):>10} {ratio(dense, record):>7}"
          f"  {record['plan']['choices'][0]}", flush=True)
    append_record(asked.records, {**record, "network_shape": shape, "variant": variant, "answer": verdict})


def main():
    asked = parse_arguments()
    print(f"{'network':>14} {'samples':>7} {'variant':22} {'median':>9} {'min':>9} {'max':>9} {'cuSPARSE':>10} {'ratio':>7}"
          f" {'cuBLAS':>10} {'ratio':>7}  plan (times in ms)", flush=True)
    for shape in asked.networks:
        network, samples = data_for(asked, shape)
        contenders = contenders_for(asked, shape, network, samples)
        for count in asked.samples:
            for variant in asked.variant or [""]:
                measure(asked, shape, count, variant, network, samples, contenders)


if __name__ == "__main__":
    main()
