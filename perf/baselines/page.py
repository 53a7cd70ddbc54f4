#!/usr/bin/env python3
"""Writes a page of tables from records of measure.py: who is fastest at which network, Varve or another library.

  perf/baselines/page.py baselines.jsonl --output baselines.md

A problem's row names the fastest, whoever that is, and says how many times as fast as the fastest other library Varve is,
by default and with everything computed; numbers below 1 are losses. Records of several machines become a section each.
"""
import argparse
import pathlib
import sys

PERF = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(PERF)]

from compare import markdown_table, number  # noqa: E402
from estimates import ratio_interval  # noqa: E402
from records import read_records, require_equal_answers  # noqa: E402

HEAD = """# Other libraries beside Varve

`perf/baselines/page.py` wrote this page from records of `perf/baselines/measure.py`, which says how they are measured: every answer is compared with
Varve's reference before it is timed, Varve and the libraries take turns, and only the loop over the layers is timed, in float. Times are medians;
intervals are 95 % bootstrap intervals of ratios of medians.

`radixnet-NxL` is the challenge's network of L layers of N neurons, `own-weights-NxL` has a random pattern of 32 inputs a neuron with weights and biases of
its own, `trained-NxL-D` random layers of the density D on samples half of whose values are not 0. "Everything computed" is `--reductions none`.
"""
DEFAULT, ALL = "varve auto", "varve none"


def ratio_text(peer, own):
    if peer is None or own is None:
        return "-"
    ratio, low, high = ratio_interval(peer.seconds, own.seconds)
    return f"{ratio:.3g} ({low:.3g} to {high:.3g})"


def last_of_each(records):
    """The last record of each problem and contender, in the order of the first ones: records are appended to."""
    found = {}
    for record in records:
        found.setdefault(record.problem(), {})[record.contender] = record
    return found


def milliseconds(record):
    return number(1e3 * record.median) if record else "-"


def winners_table(problems):
    rows, lost = [], []
    for problem, contenders in problems.items():
        peers = [record for record in contenders.values() if record.peer]
        peer = min(peers, key=lambda record: record.median, default=None)
        best = min(contenders.values(), key=lambda record: record.median)
        lost += [problem] if best.peer else []
        own, all_computed = contenders.get(DEFAULT), contenders.get(ALL)
        rows.append([problem[0], problem[1], best.contender, milliseconds(own), milliseconds(all_computed),
                     peer.contender if peer else "-", milliseconds(peer), ratio_text(peer, own), ratio_text(peer, all_computed)])
    names = ["case", "samples", "fastest", "Varve, ms", "everything computed, ms", "fastest other library", "ms", "Varve is times as fast",
             "everything computed: times as fast"]
    count = len(problems)
    return [f"Varve is fastest in {count - len(lost)} of {count}, another library in {len(lost)}.", ""] + markdown_table(names, rows)


def times_table(problems):
    """The medians of all contenders, in ms; "-": it did not run, or its answer was wrong."""
    contenders = list(dict.fromkeys(name for ran in problems.values() for name in ran))
    rows = [[name] + [milliseconds(ran.get(name)) for ran in problems.values()] for name in contenders]
    return markdown_table(["ms"] + [f"{problem[0]}, {problem[1]}" for problem in problems], rows)


def about(records):
    """What ran: commits of Varve, versions of the libraries, dates."""
    own = [record for record in records if not record.peer]
    versions = dict.fromkeys(f"{record.contender.split(',')[0]} {record.fields['peer_version']}"
                             for record in records if record.fields.get("peer_version"))
    days = sorted({record.date[:10] for record in records})
    commits = ", ".join(dict.fromkeys(record.commit for record in own))
    lines = [f"Varve of commit {commits}, {own[0].platform()}.", f"Measured {' to '.join(dict.fromkeys([days[0], days[-1]]))}."]
    return lines + ([f"Libraries: {', '.join(versions)}."] if versions else [])


def page_of(records):
    sections = [HEAD.rstrip()]
    for machine in dict.fromkeys(record.machine for record in records):
        mine = [record for record in records if record.machine == machine]
        if all(record.peer for record in mine):
            sys.exit(f"{mine[0].place}: found no record of Varve on {machine}, expected one beside those of other libraries")
        problems = last_of_each(mine)
        sections.append("\n".join([f"## {machine}", "", *about(mine), "", *winners_table(problems), "",
                                   "All contenders (-: it did not run, or its answer was wrong):", "", *times_table(problems)]))
    return "\n\n".join(sections) + "\n"


def write_page(paths, output):
    records = read_records(paths)
    if not records:
        sys.exit(f"{', '.join(map(str, paths))}: no records")
    require_equal_answers(records)
    output.write_text(page_of(records), encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("records", nargs="+", help="files of JSON lines")
    parser.add_argument("--output", type=pathlib.Path, required=True)
    asked = parser.parse_args()
    write_page(asked.records, asked.output)


if __name__ == "__main__":
    main()
