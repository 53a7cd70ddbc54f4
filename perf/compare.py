#!/usr/bin/env python3
"""Compares records of `varve benchmark` and of perf/baselines: any number of machines, backends and versions.

Prints Markdown, and with --output writes it to a folder with the same numbers as CSV and pictures (matplotlib):

  table         time of each contender on each platform, speedup over --against with its 95 % bootstrap interval
  changes       one machine, several commits: what became slower or faster beyond its interval and 2 %; in doubt where
                other work on the machine may have made the times
  portability   Pennycook's metric over all machines, against the best known time on each, application and architectural efficiency
  pictures      bars.svg, scaling.svg (where records differ in threads), rooflines.svg, cascades.svg

  perf/compare.py h200.jsonl epyc-*.jsonl --output comparison
  perf/compare.py before.jsonl after.jsonl --fail-on-regression

Answers of equal problems must be equal in all bits; records whose answer was wrong are refused. Exit code 1: a
regression that is not in doubt, with --fail-on-regression, or a file that holds no records.
"""
import argparse
import csv
import importlib.util
import io
import pathlib
import sys

import divergence
from estimates import changes, fastest_by, is_slower, portabilities, ratio_interval
from records import read_records, require_equal_answers

COLUMNS = ["case", "samples", "precision", "contender", "platform", "commit", "milliseconds", "call_p99_milliseconds",
           "runs", "speedup", "speedup_low", "speedup_high", "checked_by"]


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("records", nargs="+", help="files of JSON lines")
    parser.add_argument("--against", help="the contender that speedups are over, on the same machine if it ran there "
                        "(default: each problem's first record)")
    parser.add_argument("--output", type=pathlib.Path, help="folder for comparison.md, comparison.csv and pictures")
    parser.add_argument("--divergence", action="store_true", help="how far the code of Varve's backends differs (perf/divergence.py), as a section")
    parser.add_argument("--p3", type=pathlib.Path, metavar="FOLDER", help="folder for performance.csv and coverage.csv, as p3-analysis reads them")
    parser.add_argument("--no-pictures", action="store_true", help="write tables only")
    parser.add_argument("--fail-on-regression", action="store_true")
    return parser.parse_args()


def base_of(records, record, against):
    """The record over which the speedup of another is: the first one of its problem, or that of --against, on the same
    platform or machine if it ran there; None if --against did not run it."""
    candidates = [other for other in records if other.problem() == record.problem()]
    if not against:
        return candidates[0]
    candidates = [other for other in candidates if other.contender == against]
    nearness = [lambda other: other.platform() == record.platform(), lambda other: other.machine == record.machine, lambda other: True]
    return next((other for is_near in nearness for other in candidates if is_near(other)), None)


def percentile(seconds, part):
    ordered = sorted(seconds)
    place = part * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (place - below) * (ordered[above] - ordered[below])


def rows_of(records, against):
    rows = []
    for record in records:
        base = base_of(records, record, against)
        ratio, low, high = (1.0, 1.0, 1.0) if base is record else (
            ratio_interval(base.seconds, record.seconds) if base else (None, None, None))
        rows.append(dict(zip(COLUMNS, [record.case, record.samples, record.precision, record.contender, record.platform(),
                                       record.commit, 1e3 * record.median, 1e3 * percentile(record.call_seconds, 0.99),
                                       len(record.seconds), ratio, low, high, record.fields["check"]["way"]])))
    return rows


def number(value):
    return "-" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)


def markdown_table(names, rows):
    lines = ["| " + " | ".join(names) + " |", "|" + "---|" * len(names)]
    return lines + ["| " + " | ".join(str(cell).replace("|", "\\|") for cell in row) + " |" for row in rows]


def times_section(rows):
    def interval(row):
        if row["speedup"] is None:
            return "-"
        return f"{row['speedup']:.3g} ({row['speedup_low']:.3g} to {row['speedup_high']:.3g})"
    names = ["case", "samples", "precision", "contender", "platform", "commit", "ms", "p99 of calls, ms", "runs", "speedup (95 %)"]
    keys = ["case", "samples", "precision", "contender", "platform", "commit", "milliseconds", "call_p99_milliseconds", "runs"]
    return ["## Times", ""] + markdown_table(names, [[number(row[key]) for key in keys] + [interval(row)] for row in rows])


def winners_section(records):
    """Who is fastest at each problem on each machine."""
    best = fastest_by(records, "problem", "machine")
    rows = []
    for (problem, machine), record in best.items():
        others = sorted((other.median, other.contender) for other in records
                        if other.problem() == problem and other.machine == machine and other.contender != record.contender)
        second = f"{others[0][1]}, {others[0][0] / record.median:.3g} times as long" if others else "-"
        rows.append([problem[0], problem[1], problem[2], machine, record.contender, number(1e3 * record.median), second])
    return ["## Fastest", ""] + markdown_table(["case", "samples", "precision", "machine", "fastest", "ms", "next"], rows)


def doubts_section(records):
    """Records whose times may be those of other work on the machine."""
    rows = [[record.case, record.samples, record.contender, record.platform(), record.commit, "; ".join(record.doubts())]
            for record in records if record.doubts()]
    names = ["case", "samples", "contender", "platform", "commit", "why"]
    return ["## In doubt", "", "Other work on the machine may have made these times: measure again.", ""] + markdown_table(names, rows) if rows else []


def verdict_of(before, after, ratio, low, high):
    if before.doubts() or after.doubts():
        return "in doubt"
    is_faster = is_slower(1 / ratio, 1 / high, 1 / low)
    return "slower" if is_slower(ratio, low, high) else "faster" if is_faster else "same"


def changes_section(pairs):
    rows = [[after.case, after.samples, after.contender, after.platform(), before.commit, after.commit,
             f"{ratio:.3g} ({low:.3g} to {high:.3g})", verdict_of(before, after, ratio, low, high)]
            for before, after, (ratio, low, high) in pairs]
    return ["## Changes", ""] + markdown_table(
        ["case", "samples", "contender", "platform", "before", "after", "times as fast (95 %)", "verdict"], rows)


def portability_section(found):
    rows = []
    for (problem, contender), (efficiencies, metric) in found.items():
        parts = "; ".join(f"{machine}: {percent(part)} ({percent(share)})" if part is not None else f"{machine}: no record"
                          for machine, (part, share) in efficiencies.items())
        rows.append([*problem[:3], contender, f"{100 * metric:.3g} %", parts])
    return ["## Performance portability", "",
            "Over the machines of each row: the harmonic mean (Pennycook, Sewall and Lee) of the best known time over the contender's own, which is its "
            "application efficiency there; 0 where it has no record from one. In brackets the architectural efficiency: the least time that the measured "
            "ceilings of fma and copies allow, over its own.",
            ""] + markdown_table(["case", "samples", "precision", "contender", "metric", "efficiency"], rows)


def percent(part):
    return "-" if part is None else f"{100 * part:.3g} %"


def p3_rows(records, found):
    """The rows of performance.csv, a run each: the fastest of each problem, contender and machine."""
    for record in fastest_by(records, "problem", "contender", "machine").values():
        share = found[record.problem(), record.contender][0][record.machine][1]
        yield [record.date, ", ".join(map(str, record.problem()[:3])), record.contender, record.machine, record.median, "" if share is None else number(share),
               record.backend if not record.peer else ""]


def write_p3(folder, records, found):
    """The tables that p3-analysis reads: times by problem, application and platform, and the lines that each backend compiles."""
    folder.mkdir(parents=True, exist_ok=True)
    tables = {"performance": (["date", "problem", "application", "platform", "fom", "arch eff", "coverage_key"], p3_rows(records, found)),
              "coverage": (["coverage_key", "coverage"], divergence.coverage_rows(divergence.lines_by_backend()))}
    for name, (columns, rows) in tables.items():
        with (folder / f"{name}.csv").open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(columns)
            writer.writerows(rows)


def csv_text(rows):
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def write_all(folder, text, rows, records, has_pictures):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "comparison.md").write_text(text)
    (folder / "comparison.csv").write_text(csv_text(rows))
    if has_pictures:
        import figures
        figures.draw_bars(records, folder / "bars.svg")
        figures.draw_scaling(records, folder / "scaling.svg")
        figures.draw_rooflines(records, folder / "rooflines.svg")
        figures.draw_cascades(portabilities(records), folder / "cascades.svg")


def main():
    asked = parse_arguments()
    if asked.output and not asked.no_pictures and importlib.util.find_spec("matplotlib") is None:
        sys.exit("pictures need matplotlib (pip install matplotlib); --no-pictures writes tables only")
    records = read_records(asked.records)
    if not records:
        sys.exit(f"{', '.join(asked.records)}: no records")
    if asked.against and all(record.contender != asked.against for record in records):
        known = ", ".join(sorted({record.contender for record in records}))
        sys.exit(f"--against {asked.against}: no such contender, expected one of: {known}")
    require_equal_answers(records)
    rows = rows_of(records, asked.against)
    pairs = changes(records)
    found = portabilities(records)
    sections = [["# Comparison"], times_section(rows), winners_section(records), portability_section(found)]
    if asked.divergence:
        sections.append(divergence.section(divergence.lines_by_backend()))
    if pairs:
        sections.append(changes_section(pairs))
    doubts = doubts_section(records)
    if doubts:
        sections.append(doubts)
    text = "\n\n".join("\n".join(section) for section in sections) + "\n"
    print(text, end="")
    if asked.output:
        write_all(asked.output, text, rows, records, not asked.no_pictures)
    if asked.p3:
        write_p3(asked.p3, records, found)
    is_worse = any(verdict_of(before, after, *interval) == "slower" for before, after, interval in pairs)
    sys.exit(1 if asked.fail_on_regression and is_worse else 0)


if __name__ == "__main__":
    main()
