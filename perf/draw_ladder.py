#!/usr/bin/env python3
"""Draws the roofline of the ladder from a naive product to the kernel of `varve multiply`.

  varve_product_study --backend cuda --rows 8192 --columns 8192 --depth 8192 --cublas libcublas.so.13 \\
      --only naive,scratch,registers,kernel,cublas >ladder.jsonl
  varve benchmark --suite quick --backend cuda --output machine.jsonl
  perf/draw_ladder.py ladder.jsonl --ceilings machine.jsonl --plot ladder.svg        # matplotlib

A rung stands at the fma for each byte that its teams read: a team that computes rows x columns numbers of C with one
reading of their numbers of A and B does rows * columns / (rows + columns) fma for each number. Roofs are the machine's
measured ceilings: copying in memory, gathering from the cache that all teams share, fma (of float: rungs of double are
drawn beside half of it). Rungs above the roof of memory find their numbers in caches. A BLAS, whose parts are not known,
is a line. Prints the table of what is drawn.
"""
import argparse
import json
import pathlib
import sys

from figures import save
from study import plotting

BYTES = {"float": 4, "double": 8}


def lines_of(path):
    try:
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line]
    except OSError as error:
        sys.exit(f"{path}: cannot be read ({error.strerror})")
    except ValueError as error:
        sys.exit(f"{path}: not a JSON record a line ({error})")


def intensity_of(rung):
    """fma for each byte that a team reads, or None."""
    rows, columns = rung["part_rows"], rung["part_columns"]
    return rows * columns / (rows + columns) / BYTES[rung["precision"]] if rows and columns else None


def ceilings_of(path, precision):
    """Bytes a second from memory and from the shared cache, and fma a second."""
    found = [record["ceilings"] for record in lines_of(path) if record.get("ceilings")]
    if not found:
        sys.exit(f"{path}: holds no ceilings; varve benchmark writes them")
    fma = found[0]["fma_per_second"]
    return found[0]["copy_bytes_per_second"], found[0]["gather_bytes_per_second"], fma if precision == "float" else fma / 2


def draw(rungs, ceilings, path):
    pyplot = plotting()
    copy, gather, fma = ceilings
    known = [(intensity_of(rung), 1e9 * rung["gfma_per_second"], rung["rung"]) for rung in rungs]
    placed = [point for point in known if point[0]]
    least, most = min(point[0] for point in placed) / 2, 4 * max(point[0] for point in placed)
    figure, axes = pyplot.subplots(figsize=(7, 4.5), layout="constrained")
    for bandwidth, style, label in [(copy, "--", "memory, copied"), (gather, ":", "shared cache, gathered")]:
        axes.plot([least, fma / bandwidth, most], [bandwidth * least, fma, fma] if fma / bandwidth > least else [fma] * 3, linestyle=style, color="black",
                  label=f"{label}: {bandwidth / 1e9:.0f} GB/s")
    for intensity, rate, name in known:
        if intensity:
            axes.plot(intensity, rate, marker="o", linestyle="none", color="#2b5a87")
            axes.annotate(f"{name}\n{rate / 1e9:.4g} G fma/s", (intensity, rate), textcoords="offset points", xytext=(6, -18), fontsize="x-small")
        else:
            axes.axhline(rate, color="#b5523b", linewidth=1, label=f"{name}: {rate / 1e9:.4g} G fma/s")
    first = rungs[0]
    axes.set(xscale="log", yscale="log", xlabel="fma for each byte that a team reads", ylabel="fma/s",
             title=f"{first['device']}, {first['precision']}, {first['rows']} x {first['columns']} x {first['depth']}")
    axes.legend(fontsize="x-small", loc="lower right")
    return save(figure, path)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rungs", type=pathlib.Path, help="records of varve_product_study, of one size and precision")
    parser.add_argument("--ceilings", type=pathlib.Path, required=True, help="records of varve benchmark on that machine")
    parser.add_argument("--plot", type=pathlib.Path, help="picture to draw")
    asked = parser.parse_args()
    rungs = lines_of(asked.rungs)
    if len({(rung["device"], rung["precision"], rung["rows"], rung["columns"], rung["depth"]) for rung in rungs}) != 1:
        sys.exit(f"{asked.rungs}: expected records of one size, precision and device")
    ceilings = ceilings_of(asked.ceilings, rungs[0]["precision"])
    print("| rung | fma a byte | G fma/s | share of fma's ceiling | share of what memory would feed |\n|---|---|---|---|---|")
    for rung in rungs:
        intensity, rate = intensity_of(rung), 1e9 * rung["gfma_per_second"]
        fed = f"{rate / (intensity * ceilings[0]):.2f}" if intensity else "-"
        print(f"| {rung['rung']} | {f'{intensity:.3g}' if intensity else '-'} | {rate / 1e9:.4g} | {rate / ceilings[2]:.2f} | {fed} |")
    if asked.plot:
        draw(rungs, ceilings, asked.plot)


if __name__ == "__main__":
    main()
