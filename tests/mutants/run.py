#!/usr/bin/env python3
"""Breaks the passes on purpose, one condition at a time, and says which test notices.

    cmake --build build/openmp --target tests_passes tests_network
    tests/mutants/run.py build/openmp [--only WORD] [--jobs N] [--table tests/mutants/RESULTS.md]

Nothing of the source tree changes: a mutated copy of one file is compiled by the command that the build has for it
(without optimisation), linked in front of the library into the programs of the tests that mutants.py names, and these are
run. Of a header, the file that UNITS names is compiled with the mutated copy in place of it. Needs a build in which those
tests are up to date and pass. Ends with 1 if a mutant lived.
"""

import argparse
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from mutants import EQUIVALENT, MUTANTS, TESTS, UNITS  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 300  # a mutant that runs longer hangs: that is noticed, too


class Build:
    """The commands of a build folder."""

    def __init__(self, folder):
        self.folder = Path(folder).resolve()
        commands = json.loads((self.folder / "compile_commands.json").read_text())
        self.commands = {Path(c["file"]).resolve(): c for c in commands}
        shown = subprocess.run(["ctest", "--test-dir", self.folder, "--show-only=json-v1"], text=True, capture_output=True, check=True)
        self.tests = json.loads(shown.stdout)["tests"]

    def compile(self, source, mutated, target, folder):
        """folder: where headers are looked for first"""
        command = self.command_of(source)
        text = command.get("command") or shlex.join(command["arguments"])
        words = [word for word in shlex.split(text) if not re.fullmatch(r"-O\d|-Werror|-g", word)]
        if words[0].endswith("ccache"):
            words = words[1:]
        words[words.index("-o") + 1] = str(target)
        words[words.index("-c") + 1] = str(mutated)
        words.insert(1, f"-I{folder}")
        return run(words + ["-O0", "-w"], command["directory"])

    def command_of(self, source):
        """The command that compiles a file, or in a build that compiles several at a time another file of the library."""
        if source in self.commands:
            return self.commands[source]
        return next(c for file, c in self.commands.items() if "/varve_host.dir/Unity/" in str(file))

    def link(self, program, mutated_object, target):
        """Links a test program anew, with this object in front of the library."""
        words, folder = self.link_command(Path(program))
        words[words.index("-o") + 1] = str(target)
        words.insert(next(i for i, word in enumerate(words) if word.endswith(".o")), str(mutated_object))
        words.append("-Wl,-z,muldefs")  # where several files are compiled at a time the library's object holds the others, too
        return run(words, folder)

    def link_command(self, program):
        for link in self.folder.glob(f"tests/*/CMakeFiles/{program.name}.dir/link.txt"):
            return shlex.split(link.read_text()), link.parents[2]
        commands = subprocess.run(["ninja", "-C", self.folder, "-t", "commands", program.relative_to(self.folder)], text=True,
                                  capture_output=True, check=True).stdout
        words = shlex.split(commands.splitlines()[-1])
        return [word for word in words if word not in (":", "&&")], self.folder

    def test(self, name):
        """The program of a ctest, the words before it (those of Python) and the words behind it."""
        command = next(test["command"] for test in self.tests if test["name"] == name)
        place = next(place for place, word in enumerate(command) if word.startswith(str(self.folder)))
        return command[:place], command[place], command[place + 1:]


def run(words, folder=None):
    environment = dict(os.environ, OMP_PROC_BIND="false", OMP_WAIT_POLICY="passive")
    try:
        done = subprocess.run(words, cwd=folder, env=environment, timeout=SECONDS, text=True, errors="replace",
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        return done.returncode, done.stdout
    except subprocess.TimeoutExpired:
        return None, ""


def killer(words, program, options, test):
    """The first case that fails, or how else the program noticed; nothing if all pass."""
    code, output = run([*words, program, *options] if words else [program, *options, "--gtest_fail_fast", "--gtest_brief=1"])
    if code == 0:
        return None
    failed = re.search(r"\[  FAILED  \] (\S+?),? |DIFFERS +(.+?): ", output + " ")
    if failed:
        return f"{test}: {' '.join((failed.group(1) or failed.group(2)).split())}"
    return f"{test}: " + ("did not end" if code is None else "crashed")


def try_mutant(build, mutant):
    """Who killed the mutant, or why nobody can; else nothing."""
    file, _, old, new = mutant
    source = ROOT / "src" / file
    text = source.read_text()
    if text.count(old) != 1:
        return f"!! {text.count(old)} places to change, expected one"
    with tempfile.TemporaryDirectory() as folder:
        mutated = Path(folder) / file
        mutated.parent.mkdir()
        mutated.write_text(text.replace(old, new))
        unit = build.folder / UNITS[file] if file in UNITS else None
        code, output = build.compile(unit or source, unit or mutated, Path(folder) / "mutated.o", folder)
        if code != 0:
            return "!! does not compile: " + next((l for l in output.splitlines() if "error" in l), output[-200:])
        linked = set()
        for test in TESTS[file]:
            words, program, options = build.test(test)
            mutated_program = Path(folder) / Path(program).name
            if program not in linked:
                code, output = build.link(program, Path(folder) / "mutated.o", mutated_program)
                if code != 0:
                    return "!! does not link: " + output[-200:]
                linked.add(program)
            found = killer(words, mutated_program, options, test)
            if found:
                return found
    return f"(equivalent: {EQUIVALENT[mutant[1]]})" if mutant[1] in EQUIVALENT else None


def table_of(results):
    lines = ["# Mutants of the passes and of the numerics", "",
             "Written by `tests/mutants/run.py build/openmp --table tests/mutants/RESULTS.md`: each line is one condition "
             "of a pass or one rounding, broken on purpose, and the test that noticed first.", "",
             "| file | mutation | killed by |", "|---|---|---|"]
    lines += [f"| {file} | {name} | {found or '**nobody**'} |" for (file, name, _, _), found in results]
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("--only", default="", help="mutants whose file or name holds this")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--table", help="write the results here, as Markdown")
    options = parser.parse_args()
    build = Build(options.build)
    wanted = [mutant for mutant in MUTANTS if options.only in mutant[0] or options.only in mutant[1]]
    results = []
    with ThreadPoolExecutor(options.jobs) as pool:
        for mutant, found in zip(wanted, pool.map(lambda m: try_mutant(build, m), wanted)):
            results.append((mutant, found))
            print(f"{mutant[0]}: {mutant[1]}: {found or 'LIVES'}", flush=True)
    if options.table:
        Path(options.table).write_text(table_of(results))
    bad = [r for r in results if r[1] is None or r[1].startswith("!!")]
    print(f"{len(results) - len(bad)} of {len(results)} mutants were killed")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
