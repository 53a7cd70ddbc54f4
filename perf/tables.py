#!/usr/bin/env python3
"""Fills the tables of perf/RESULTS.md and perf/results/*.md from the records beside them (perf/RESULTS.json, perf/results/*.json).

  perf/tables.py            writes the pages
  perf/tables.py --check    exit code 1 if a page differs from what would be written, or perf/comparison from its records

A record is one table: its command (lines to type, or a sentence), machine, commit, spread, names of columns, and rows of cells. A page has it
between `<!-- table NAME -->` and `<!-- end -->`. A table without a command is a digest of others: {PAGE/NAME|ROW|COLUMN} in a cell is the cell of
the table NAME in the records of PAGE whose row begins with ROW (cells joined by ", ") and whose column begins with COLUMN, without bold;
{...#N} is its number N, from 0.
"""
import argparse
import json
import pathlib
import re
import subprocess
import sys
import textwrap

PERF = pathlib.Path(__file__).resolve().parent
PLACE = re.compile(r"(<!-- table (\S+) -->\n).*?(<!-- end -->)", re.DOTALL)
REFERENCE = re.compile(r"\{([a-z0-9-]+)/([a-z0-9-]+)\|([^|}]+)\|([^|}#]+)(?:#(\d+))?\}")
NUMBER = re.compile(r"(?<![A-Za-z\d.])\d+(?:\.\d+)?")
FACTS = ("machine", "commit", "spread")


def read_tables(path):
    """The records of a page by their names."""
    tables = {table["name"]: table for table in json.loads(path.read_text(encoding="utf-8"))}
    for name, table in tables.items():
        missing = [fact for fact in FACTS if "command" in table and not table.get(fact)]
        if missing:
            sys.exit(f"{path}: table {name}: found no {' and no '.join(missing)}, expected it beside the command")
        for row in table["rows"]:
            if len(row) != len(table["columns"]):
                sys.exit(f"{path}: table {name}: found {len(row)} cells, expected {len(table['columns'])}: {row}")
    return tables


def only(names, begins, what):
    """The number of the name that is this one, or else of the only one that begins so."""
    found = [place for place, name in enumerate(names) if name == begins] or [place for place, name in enumerate(names) if name.startswith(begins)]
    if len(found) != 1:
        sys.exit(f"{what}: found {len(found)}, expected one")
    return found[0]


def look_up(found):
    """The cell that a reference names."""
    page, name, row_begins, column_begins, number = found.groups()
    table = read_tables(PERF / "results" / f"{page}.json")[name]
    row = only([", ".join(row).replace("**", "") for row in table["rows"]], row_begins, f"rows of {found[0]}")
    cell = table["rows"][row][only(table["columns"], column_begins, f"columns of {found[0]}")].replace("**", "")
    return NUMBER.findall(cell)[int(number)] if number else cell


def markdown(table):
    lines = []
    if isinstance(table.get("command"), list):
        lines += [*(f"    {line}" for line in table["command"]), ""]
    rows = [[REFERENCE.sub(look_up, cell) for cell in row] for row in table["rows"]]
    lines += [f"| {' | '.join(cells)} |".replace("|  |", "| |") for cells in (table["columns"], ["---"] * len(table["columns"]), *rows)]
    lines[lines.index("| " + " | ".join(["---"] * len(table["columns"])) + " |")] = "|" + "---|" * len(table["columns"])
    if "command" in table:
        told = [] if isinstance(table["command"], list) else [f"Command: {table['command']}."]
        facts = " ".join([*told, *(f"{fact.capitalize()}: {table[fact]}." for fact in FACTS)])
        lines += ["", *textwrap.wrap(f"*{facts}*", width=155, break_on_hyphens=False)]
    return "\n".join(lines) + "\n"


def filled(page):
    """The text of a page with its tables; each record is on the page, and each place has a record."""
    tables = read_tables(page.with_suffix(".json"))
    text = page.read_text(encoding="utf-8")
    places = [found[2] for found in PLACE.finditer(text)]
    if sorted(places) != sorted(tables):
        sys.exit(f"{page}: found places for the tables {', '.join(sorted(places))}, expected {', '.join(sorted(tables))}")
    bare = [line for line in PLACE.sub("", text).splitlines() if line.startswith("|")]
    if bare:
        sys.exit(f"{page}: found a table without a record, expected one in {page.with_suffix('.json').name}: {bare[0]}")
    return PLACE.sub(lambda found: found[1] + markdown(tables[found[2]]) + found[3], text)


def pages():
    return [path.with_suffix(".md") for path in (PERF / "RESULTS.json", *sorted((PERF / "results").glob("*.json")))]


def compared():
    """The page of perf/comparison, as perf/compare.py makes it from the records there."""
    records = sorted((PERF / "comparison" / "records").glob("*.jsonl"))
    return subprocess.run([sys.executable, PERF / "compare.py", *records, "--no-pictures"], capture_output=True, text=True, check=True).stdout


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing, compare")
    check = parser.parse_args().check
    texts = {page: filled(page) for page in pages()}
    if check:
        texts[PERF / "comparison" / "comparison.md"] = compared()
    other = [page for page, text in texts.items() if text != page.read_text(encoding="utf-8")]
    if not check:
        for page in other:
            page.write_text(texts[page], encoding="utf-8")
    elif other:
        sys.exit("\n".join(f"{page}: found tables that differ from their records, expected those that perf/tables.py writes" for page in other))
    print(f"{len(texts)} pages {'agree with' if check else 'are filled from'} their records.")


if __name__ == "__main__":
    main()
