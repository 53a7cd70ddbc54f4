#!/usr/bin/env python3
"""Times `varve infer` on networks of the Graph Challenge's shapes and checks every answer before it counts.

For each size it generates network and images from a seed (kept in --data), lets the reference engine run the first --check
samples (all of them with --check 0), and accepts a timing only if the hash of all last activations over those samples is
the reference's, bit for bit. One JSON record a line goes to --records; a table goes to standard output.

  perf/challenge.py --varve build/cuda-h100/bin/varve --backend cuda --sizes 1024x120 4096x120 --repeat 11
  perf/challenge.py --varve build/openmp/bin/varve --backend openmp --sizes 1024x120 --variant "" --variant "--formats sliced_ell"
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

# Layer loop in ms on one H200, all 60000 samples; the fastest published system and the fastest that takes any pattern.
PEERS = {
    "1024x120": (6.6, 10.8), "1024x480": (19.1, 34.1), "1024x1920": (65, 125),
    "4096x120": (18.3, 48.2), "4096x480": (35.2, 139), "4096x1920": (104.5, 518),
    "16384x120": (57.5, 216), "16384x480": (74.5, 687), "16384x1920": (133, 2570),
    "65536x120": (235, 1225), "65536x480": (274, 4451),
}


def run(varve, *arguments):
    """Runs a subcommand; a failure ends the measurement with the command's own sentence."""
    done = subprocess.run([varve, *map(str, arguments)], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{varve} {' '.join(map(str, arguments))}\nexit code {done.returncode}: {done.stderr.strip()}")


def infer(varve, network, images, *options):
    with tempfile.TemporaryDirectory() as folder:
        report = pathlib.Path(folder) / "report.json"
        run(varve, "infer", "--network", network, "--input", images, "--report", report, *options)
        return json.loads(report.read_text())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--varve", required=True, help="the command to measure")
    parser.add_argument("--backend", default="openmp")
    parser.add_argument("--precision", default="float")
    parser.add_argument("--sizes", nargs="+", default=["1024x120"], help="NEURONSxLAYERS")
    parser.add_argument("--samples", type=int, default=60000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--repeat", type=int, default=11)
    parser.add_argument("--check", type=int, default=0, help="samples to check against the reference (0: all)")
    parser.add_argument("--variant", action="append", help="further options of varve infer, one measurement each")
    parser.add_argument("--data", type=pathlib.Path, default=pathlib.Path("challenge-data"))
    parser.add_argument("--records", type=pathlib.Path, help="JSON lines to append to")
    asked = parser.parse_args()
    asked.data.mkdir(parents=True, exist_ok=True)

    print(f"{'network':>11} {'variant':30} {'median':>9} {'min':>9} {'max':>9} ms  {'prepare':>8} s {'survivors':>9}"
          f" {'TE/s':>7} {'fastest peer':>13} {'any pattern':>12}  answer", flush=True)
    for size in asked.sizes:
        neurons, layers = map(int, size.split("x"))
        network = asked.data / f"radixnet-{size}-seed{asked.seed}.h5"
        images = asked.data / f"images-{neurons}-{asked.samples}-seed{asked.seed}.h5"
        if not network.exists():
            run(asked.varve, "generate", "radixnet", "--neurons", neurons, "--layers", layers, "--seed", asked.seed, "--output", network)
        if not images.exists():
            run(asked.varve, "generate", "images", "--neurons", neurons, "--samples", asked.samples, "--seed", asked.seed, "--output", images)
        checked = ["--precision", asked.precision, "--samples", f"1:{asked.check or asked.samples}"]
        truth = infer(asked.varve, network, images, "--engine", "reference", *checked)["activation_hash"]
        for variant in asked.variant or [""]:
            options = ["--backend", asked.backend, *variant.split()]
            answer = infer(asked.varve, network, images, *options, *checked)["activation_hash"]
            record = infer(asked.varve, network, images, "--precision", asked.precision, *options, "--repeat", asked.repeat)
            times = sorted(1e3 * seconds for seconds in record["loop_seconds_all"])
            fastest, any_pattern = PEERS.get(size, ("-", "-"))
            verdict = "equal bits" if answer == truth else "DIFFERS"
            print(f"{size:>11} {variant or 'auto':30} {1e3 * record['loop_seconds']:9.3f} {times[0]:9.3f} {times[-1]:9.3f}    "
                  f" {record['phases']['prepare']:8.2f}   {record['survivors']:9} {record['edges_per_second'] / 1e12:7.2f}"
                  f" {fastest:>13} {any_pattern:>12}  {verdict} ({asked.check or asked.samples} samples)", flush=True)
            record.update(size=size, variant=variant, answer=verdict)
            if asked.records:
                with asked.records.open("a") as lines:
                    lines.write(json.dumps(record) + "\n")
            if answer != truth:
                sys.exit(f"{size} {variant}: activations {answer}, the reference has {truth}")


if __name__ == "__main__":
    main()
