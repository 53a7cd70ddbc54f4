#!/usr/bin/env python3
"""Times other libraries on networks that Varve runs, each checked first, and prints who wins where.

The cases hold those of `varve benchmark --suite quick`, whose records perf/compare.py joins with these. For each case it
generates network and samples from a seed (kept in --data), computes the first --check samples by Varve's reference, and accepts a peer only if the same samples are live and every last activation is within 0.001 of the largest of
its sample. Varve and the peers run one after the other, in rounds with a rest before each turn; preparing weights and converting samples is not timed,
as it is no part of Varve's layer loop. Varve's turn is a short `varve benchmark` with everything computed ("varve none") and as by
default ("varve auto"). A peer that is not installed, or cannot run a network, is listed with the reason.

  perf/baselines/measure.py --varve build/openmp/bin/varve --threads 2 --records baselines.jsonl --page baselines.md
  perf/compare.py baselines.jsonl --against "varve none" --output comparison

--page writes all records of --records, those of earlier runs included, as a page of tables (perf/baselines/page.py).

With --contender and --backend cuda also cuSPARSE and cuBLAS, each by its fastest layout and algorithm (perf/contenders):

  perf/baselines/measure.py --varve build/cuda-h100/bin/varve --backend cuda --contender build/contenders/bin/varve_contender

With --kokkos-kernels VARVE also Kokkos Kernels, by a command that was built with -DVARVE_ENABLE_KOKKOS_KERNELS=ON. It runs in a process of its
own after the others, not in turn with them.

Needs scipy. Peers: scipy, NumPy, ONNX Runtime, PyTorch, SuiteSparse:GraphBLAS (libgraphblas-dev and a compiler).
"""
import argparse
import os
import pathlib
import statistics
import sys
import tempfile
import time

PERF = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(PERF), str(pathlib.Path(__file__).resolve().parent)]

CASES = {
    "radixnet-1024x120": ("radixnet", (1024, 120), (1000, 10000)),
    "random-1024x30": ("random", (1024, 30), (5000,)),
    "own-weights-1024x30": ("own_weights", (1024, 30), (1000, 5000)),
    "trained-256x12-0.6": ("trained", ([256] * 13, 0.6), (1, 64, 1000)),
    "trained-1024x30-0.1": ("trained", ([1024] * 31, 0.1), (1, 64, 1000)),
    "trained-4096x6-0.01": ("trained", ([4096] * 7, 0.01), (1, 64, 1000)),
    "trained-784-2000-1000-10-0.1": ("trained", ([784, 2000, 1000, 10], 0.1), (1, 64, 1000)),
}
MODULES = ["peer_scipy", "peer_numpy", "peer_onnxruntime", "peer_torch", "peer_graphblas"]
REST = 0.1  # seconds
TOLERANCE = 0.001  # of the largest activation of a sample, as varve verify takes it


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--varve", required=True, help="the command to measure")
    parser.add_argument("--backend", default="openmp", help="Varve's")
    parser.add_argument("--contender", help="varve_contender, to time cuSPARSE and cuBLAS on a GPU as well")
    parser.add_argument("--kokkos-kernels", metavar="VARVE", help="a command with the engine kokkos-kernels, to time that as well")
    parser.add_argument("--cases", nargs="+", default=list(CASES), choices=list(CASES))
    parser.add_argument("--samples", nargs="+", type=int, help="numbers of samples (default: those of the case)")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--repeats", type=int, default=7, help="rounds, at least")
    parser.add_argument("--seconds", type=float, default=30.0, help="no further round of a case after so long, beyond 3")
    parser.add_argument("--check", type=int, default=1000, help="samples to check, at most")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--data", type=pathlib.Path, default=pathlib.Path("challenge-data"))
    parser.add_argument("--records", type=pathlib.Path, help="JSON lines to append to")
    parser.add_argument("--page", type=pathlib.Path, help="Markdown file for tables of all --records")
    asked = parser.parse_args()
    if asked.page and not asked.records:
        parser.error("--page needs --records, which it shows")
    return asked


def files_of(asked, name, most):
    """Network and samples of a case."""
    from harness import generated, images_file, network_file
    kind, shape, _ = CASES[name]
    if kind != "trained":
        return network_file(asked.varve, asked.data, kind, *shape, asked.seed), images_file(asked.varve, asked.data, shape[0], most, asked.seed)
    widths, density = shape
    network = generated(asked.varve, asked.data / f"{name}-seed{asked.seed}.safetensors", "random", "--widths", ",".join(map(str, widths)),
                        "--density", density, "--cap", 1, "--seed", asked.seed)
    samples = generated(asked.varve, asked.data / f"samples-{widths[0]}-{most}-0.5-seed{asked.seed}.safetensors", "samples",
                        "--neurons", widths[0], "--samples", most, "--density", 0.5, "--seed", asked.seed)
    return network, samples


def reference_answer(asked, network, samples, count):
    """The last activations of the first samples by Varve's reference, dense."""
    from harness import run
    from network import read_samples
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "last.safetensors"
        run(asked.varve, "infer", "--network", network, "--input", samples, "--samples", f"1:{count}", "--tuning", "engine=reference",
            "--activations", path)
        return read_samples(path).toarray()


def difference(answer, truth):
    """What is wrong with an answer, as a sentence; None if it is right."""
    import numpy
    if answer.shape != truth.shape:
        return f"found activations of shape {answer.shape}, expected {truth.shape}"
    if not numpy.isfinite(answer).all():
        return "found activations that are not finite"
    wrong = numpy.flatnonzero((answer != 0).any(axis=1) != (truth != 0).any(axis=1))
    if wrong.size:
        return f"{wrong.size} samples are live in one of the two answers only, the first is {wrong[0] + 1}"
    largest = numpy.abs(truth).max(axis=1, initial=0.0)
    far = numpy.flatnonzero(numpy.abs(answer - truth).max(axis=1, initial=0.0) > TOLERANCE * largest)
    return f"activations of {far.size} samples are not the reference's, the first is {far[0] + 1}" if far.size else None


def load_peers():
    import importlib
    return [peer for name in MODULES for peer in importlib.import_module(name).PEERS]


def enter(kind, asked, layers, samples, truth):
    """A peer that is prepared, checked and warm, or the reason why there is none."""
    from peer import Unavailable
    try:
        peer = kind(layers, asked.threads)
        peer.take(samples[:truth.shape[0]])
        peer.run()
        wrong = difference(peer.result(), truth)
        if wrong:
            return None, f"not timed, its answer is wrong: {wrong}"
        peer.take(samples)
        peer.run()
        return peer, None
    except (Unavailable, MemoryError) as reason:
        return None, str(reason) or "not enough memory"


def measure_turn(peer):
    """Seconds of a turn: one run if it takes long, else as many as take a tenth of a second, after one that is not counted.
    Threads of libraries wait busily for a while after their work, so each turn begins when those of the peer before sleep."""
    time.sleep(REST)
    seconds = []
    while not seconds or sum(seconds) < REST:
        begin = time.perf_counter()
        peer.run()
        seconds.append(time.perf_counter() - begin)
    return seconds if len(seconds) == 1 else seconds[1:]


def measure_in_turn(asked, peers, own=None):
    """Seconds of each peer, all rounds; `own` (OwnTurns) is measured in each round before them."""
    times = {peer: [] for peer in peers}
    start = time.perf_counter()
    for number in range(asked.repeats):
        if number >= 3 and time.perf_counter() - start > asked.seconds:
            break
        if own:
            time.sleep(REST)
            own.measure(REST)
        for peer in peers:
            times[peer] += measure_turn(peer)
    return times


def contender_records(asked, own, network, samples, count):
    """Records of the fastest loops of cuSPARSE and cuBLAS, which varve_contender checks, and why there is none."""
    from harness import contend, fastest
    if not asked.contender:
        return [], []
    checked = min(count, asked.check)
    ran = contend(asked.contender, network, samples, "--samples", count, "--repeat", max(asked.repeats, 11), "--check", checked)
    found, refused = [], []
    for library in ("cusparse", "cublas"):
        record = fastest(ran, library, count)
        failures = [one["failed"] for one in ran if one["contender"].startswith(library) and "failed" in one]
        if record is None:
            refused.append((library, next(iter(failures), "not tried")))
            continue
        way = f"the reference's live samples, largest difference {record['largest_difference']:.3g}"
        found.append({**kept_of(own), "peer": record["contender"], "setup": {**own["setup"], "reductions": "none"},
                      "program": "varve_contender", "check": {"right": True, "way": way, "samples": checked},
                      "loop_seconds_all": record["loop_seconds_all"]})
    return found, refused


def kokkos_kernels_records(asked, own, network, samples, count, truth):
    """The record of the engine kokkos-kernels, checked as peers are, or why there is none."""
    from harness import report_of, run
    from network import read_samples
    if not asked.kokkos_kernels:
        return [], []
    name = "Kokkos Kernels, SpMM"
    command = [asked.kokkos_kernels, "infer", "--tuning", "engine=kokkos-kernels", "--backend", asked.backend, "--network", network, "--input", samples]
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "last.safetensors"
        run(*command, "--samples", f"1:{truth.shape[0]}", "--activations", path)
        wrong = difference(read_samples(path).toarray(), truth)
    if wrong:
        return [], [(name, f"not timed, its answer is wrong: {wrong}")]
    report = report_of(*command, "--samples", f"1:{count}", "--repeat", max(asked.repeats, 5))
    way = f"the reference's live samples, activations within {TOLERANCE} of the largest of their sample"
    return [{**kept_of(own), "peer": name, "peer_version": report["kokkos_version"], "setup": {**own["setup"], "reductions": "none"},
             "program": "varve infer --tuning engine=kokkos-kernels", "check": {"right": True, "way": way, "samples": truth.shape[0]},
             "loop_seconds_all": report["loop_seconds_all"]}], []


def kept_of(own):
    """What a peer's record takes over from Varve's own record of the same case."""
    return {name: own[name] for name in ("host", "date", "record", "record_version", "case", "machine", "network", "samples")}


def peer_record(asked, own, peer, seconds, checked):
    """The record of a peer, in the form of Varve's own record of the same case."""
    way = f"the reference's live samples, activations within {TOLERANCE} of the largest of their sample"
    return {**kept_of(own), "program": "perf/baselines/measure.py", "peer": peer.name, "peer_version": peer.version,
            "setup": {"backend": "library", "device": f"{asked.threads} threads", "precision": "float"},
            "check": {"right": True, "way": way, "samples": checked}, "loop_seconds_all": seconds}


def print_row(name, count, contender, seconds, best):
    median = statistics.median(seconds)
    print(f"{name:22} {count:7} {contender:28} {1e3 * median:11.4f} {1e3 * min(seconds):11.4f} {len(seconds):5} {median / best:9.2f}"
          f"{'  fastest' if median == best else ''}", flush=True)


def measure_case(asked, name, count, peer_kinds):
    from harness import append_record
    from network import read_network, read_samples
    from own_turns import OwnTurns
    network, samples_path = files_of(asked, name, max(asked.samples or CASES[name][2]))
    checked = min(count, asked.check)
    truth = reference_answer(asked, network, samples_path, checked)
    layers, samples = read_network(network), read_samples(samples_path, count)
    peers, refused = [], []
    for kind in peer_kinds:
        peer, reason = enter(kind, asked, layers, samples, truth)
        peers += [peer] if peer else []
        refused += [(kind.name, reason)] if reason else []
    turns = OwnTurns(asked, network, samples_path, count, name)
    times = measure_in_turn(asked, peers, turns)
    own = turns.records
    others, missing = contender_records(asked, own[0], network, samples_path, count)
    more, lacking = kokkos_kernels_records(asked, own[0], network, samples_path, count, truth)
    others, missing = others + more, missing + lacking
    others += [peer_record(asked, own[0], peer, seconds, checked) for peer, seconds in times.items()]
    rows = [("varve " + record["setup"]["reductions"], record["loop_seconds_all"]) for record in own]
    rows += [(record["peer"], record["loop_seconds_all"]) for record in others]
    best = min(statistics.median(seconds) for _, seconds in rows)
    for contender, seconds in sorted(rows, key=lambda row: statistics.median(row[1])):
        print_row(name, count, contender, seconds, best)
    for contender, reason in refused + missing:
        print(f"{name:22} {count:7} {contender:28} {'-':>11} {'-':>11}     0 {'-':>9}  {reason}", flush=True)
    for record in own + others:
        append_record(asked.records, record)
    return name, count, min(rows, key=lambda row: statistics.median(row[1]))[0]


def main():
    asked = parse_arguments()
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[variable] = str(asked.threads)  # before the libraries are loaded
    peer_kinds = load_peers()
    print(f"{'case':22} {'samples':>7} {'contender':28} {'median, ms':>11} {'min, ms':>11} {'runs':>5} {'of best':>9}", flush=True)
    winners = [measure_case(asked, name, count, peer_kinds) for name in asked.cases for count in asked.samples or CASES[name][2]]
    print("\nfastest")
    for name, count, winner in winners:
        print(f"{name:22} {count:7} {winner}")
    lost = sum(not winner.startswith("varve") for _, _, winner in winners)
    print(f"Varve is fastest in {len(winners) - lost} of {len(winners)}, a peer in {lost}.")
    if asked.page:
        from page import write_page
        write_page([asked.records], asked.page)


if __name__ == "__main__":
    main()
