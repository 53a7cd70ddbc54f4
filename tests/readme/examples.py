#!/usr/bin/env python3
"""Runs the commands of pages in docs/examples, as a reader would type them, and compares what they print with what the page says.

  examples.py [--write] [--varve COMMAND] [--mpirun COMMAND] PAGE...

A block ```console has commands (`$ `, continued by `> `) and their output. The commands of a page run one after another in a folder of their
own, in which python, perf and tests are those of the checkout; each must end with exit code 0. `varve`, `mpirun` and `python3` are those given here;
python3 is this interpreter. A line `...` of the page stands for any lines. Times, rates, versions and spaces are not compared. A block ```python
is a part of the file that the line above it names. --write puts the output into the page.
"""
import argparse
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^```(console|python)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
UNITS = r"s|ms|us|ns|min|%|[kMGT]?B/s|[kMGT]?samples/s|[GT]?E/s|[GT]?fma/s"
MASKS = [(rf"\d[\d.]*(?:e[-+]?\d+)? ?(?:{UNITS})(?![A-Za-z])", "#"),  # times and rates, whose units depend on the machine, too
         (r"(?<=accuracy 0\.\d)\d+|(?<=training 0\.\d)\d+|\b\d\.\de[-+]\d+", "#"),  # other libraries round in ways of their own
         (r"\d+(?= samples found finished)", "#"), (r"\b[0-9a-f]{12}\b", "#"), (r"\d+ threads?\b", "# threads"), (r"[ \t]+", " "), (r" $", "")]


def masked(line):
    for expression, replacement in MASKS:
        line = re.sub(expression, replacement, line)
    return line


def commands_of(block):
    """The commands of a block, each with the lines below it."""
    found = []
    for line in block.splitlines():
        if line.startswith("$ "):
            found.append(([line], []))
        elif line.startswith("> ") and not found[-1][1]:
            found[-1][0].append(line)
        else:
            found[-1][1].append(line)
    return found


def agree(expected, printed):
    """Whether printed lines are the expected ones, in which `...` stands for any lines."""
    expression = "".join(r"(?:[^\n]*\n)*?" if line == "..." else re.escape(masked(line)) + "\n" for line in expected)
    return re.fullmatch(expression, "".join(masked(line) + "\n" for line in printed)) is not None


class Folder:
    """Where the commands of a page run."""

    def __init__(self, programs):
        self.kept = tempfile.TemporaryDirectory()
        self.path = pathlib.Path(self.kept.name)
        work, tools = self.path / "work", self.path / "tools"
        work.mkdir()
        tools.mkdir()
        for name in ("perf", "python", "tests"):
            (work / name).symlink_to(ROOT / name)
        for name, program in programs.items():
            (tools / name).write_text(f'#!/bin/sh\nexec {shlex.quote(str(program))} "$@"\n')
            (tools / name).chmod(0o755)
        self.options = {"cwd": work, "env": os.environ | {"PATH": f"{tools}:{os.environ['PATH']}", "PYTHONDONTWRITEBYTECODE": "1"}}

    def run(self, command):
        done = subprocess.run(["bash", "-c", command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=500, **self.options)
        return done.returncode, [line.rstrip() for line in done.stdout.splitlines()]


def require_part_of_file(page, block, above):
    names = re.findall(r"`([\w/]+\.py)`", above)
    if not names or block not in (ROOT / names[-1]).read_text(encoding="utf-8"):
        yield f"{page}: found a block that is no part of {names[-1] if names else 'a file that the text above it names'}:\n{block}"


def check(page, programs, write):
    """Complaints about a page."""
    text = page.read_text(encoding="utf-8")
    folder, parts, complaints, end = Folder(programs), [], [], 0
    for found in BLOCK.finditer(text):
        parts.append(text[end:found.start(2)])
        end = found.end(2)
        if found[1] == "python":
            complaints += require_part_of_file(page, found[2], text[:found.start()])
            parts.append(found[2])
            continue
        for typed, expected in commands_of(found[2]):
            code, printed = folder.run("\n".join(line[2:] for line in typed))
            if code or not (write or agree(expected, printed)):
                complaints.append("\n".join([f"{page}: found exit code {code} and another output than expected:", *typed, *printed, "expected:", *expected]))
            parts.append("".join(line + "\n" for line in typed + printed))
    if not parts:
        complaints.append(f"{page}: found no block of commands, expected some")
    if write:
        page.write_text("".join(parts) + text[end:], encoding="utf-8")
    return complaints


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages", nargs="+", type=pathlib.Path)
    parser.add_argument("--varve", default=ROOT / "build" / "openmp" / "bin" / "varve")
    parser.add_argument("--mpirun", default="mpirun")
    parser.add_argument("--write", action="store_true")
    asked = parser.parse_args()
    programs = {"varve": asked.varve, "mpirun": shutil.which(asked.mpirun), "python3": sys.executable}
    complaints = [complaint for page in asked.pages for complaint in check(page.resolve(), programs, asked.write)]
    if complaints:
        sys.exit("\n".join(complaints))
    print(f"{len(asked.pages)} pages say what their commands print.")


if __name__ == "__main__":
    main()
