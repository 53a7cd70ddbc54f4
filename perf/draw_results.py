#!/usr/bin/env python3
"""Draws the first table of perf/RESULTS.md, layer loop by network on one H200, as perf/plots/results-h200.svg.

  perf/draw_results.py [--plot FILE.svg|FILE.png]
"""
import argparse
import pathlib

from study import plotting

PERF = pathlib.Path(__file__).resolve().parent
SERIES = {"published, any pattern, ms": ("published, any pattern", "#c9a227", "^", "--"),
          "published, fastest, ms": ("published, fastest", "#b5523b", "s", "--"),
          "`--reductions none`, ms": ("Varve, everything computed", "#3b6ea8", "o", "-"),
          "default, ms": ("Varve, default", "#2b8a57", "D", "-")}


def cells(line):
    return [cell.strip() for cell in line.strip("|").split("|")]


def first_table(text):
    """The rows of the first table in a page of Markdown, each by the names of its columns."""
    lines = iter(text.splitlines())
    names = cells(next(line for line in lines if line.startswith("|")))
    next(lines)  # the rule below the names
    rows = []
    for line in lines:
        if not line.startswith("|"):
            return rows
        rows.append(dict(zip(names, cells(line), strict=True)))
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plot", type=pathlib.Path, default=PERF / "plots" / "results-h200.svg")
    asked = parser.parse_args()
    rows = first_table((PERF / "RESULTS.md").read_text())
    pyplot = plotting()
    figure, axes = pyplot.subplots(figsize=(7.5, 3.2), layout="constrained")
    for column, (label, colour, marker, line) in SERIES.items():
        axes.plot([row["network"] for row in rows], [float(row[column]) for row in rows], line, label=label, color=colour, marker=marker)
    axes.set(yscale="log", ylabel="layer loop, ms", title="60000 samples on one H200, float (lower is better)")
    axes.tick_params(axis="x", labelrotation=20, labelsize="small")
    axes.grid(axis="y", alpha=0.3)
    axes.legend(fontsize="small", ncols=2)
    figure.savefig(asked.plot, metadata={"Date": None} if asked.plot.suffix == ".svg" else None)


if __name__ == "__main__":
    main()
