"""perf/builds_in_turn.py times two builds on the same files and tells unlike answers: builds_in_turn_test.py VARVE"""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

PERF = pathlib.Path(__file__).resolve().parents[2] / "perf"
VARVE = sys.argv.pop()

# A build whose answers are off: it writes another hash into its report, which perf/harness.py names last.
OTHER_BUILD = """#!/usr/bin/env bash
set -euo pipefail
"{varve}" "$@"
if [[ $1 == infer ]]; then sed -i 's/"activation_hash": "./"activation_hash": "x/' "${{@: -1}}"; fi
"""


class BuildsInTurn(unittest.TestCase):
    def run_script(self, folder, after):
        records = folder / "records.jsonl"
        done = subprocess.run([sys.executable, PERF / "builds_in_turn.py", "--builds", VARVE, after, "--backend", "serial", "--networks", "radixnet-32x4", "24x3x0.5",
                               "--samples", "50", "--trained-samples", "5", "40", "--variant=--reductions none", "--variant=", "--repeat", "2", "--rounds", "2",
                               "--data", folder, "--records", records], capture_output=True, text=True)
        return done, [json.loads(line) for line in records.read_text().splitlines()] if records.exists() else []

    def test_one_build_against_itself(self):
        with tempfile.TemporaryDirectory() as folder:
            done, records = self.run_script(pathlib.Path(folder), VARVE)
        self.assertEqual(done.returncode, 0, done.stderr)
        measured = [(record["network"], record["samples"], record["variant"]) for record in records]
        self.assertEqual(measured, [(network, count, variant) for network, count in [("radixnet-32x4", 50), ("24x3x0.5", 5), ("24x3x0.5", 40)]
                                    for variant in ["--reductions none", ""]])
        for record, line in zip(records, done.stdout.splitlines()[1:], strict=True):
            self.assertEqual(record["answer"], "equal")
            self.assertGreater(record["before_ms"], 0)
            self.assertAlmostEqual(record["ratio"], record["after_ms"] / record["before_ms"])
            self.assertIn(f"{record['ratio']:.3f}", line)

    def test_unlike_answers(self):
        with tempfile.TemporaryDirectory() as folder:
            other = pathlib.Path(folder) / "other"
            other.write_text(OTHER_BUILD.format(varve=VARVE))
            other.chmod(0o700)
            done, records = self.run_script(pathlib.Path(folder), other)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("UNLIKE", {record["answer"] for record in records})


if __name__ == "__main__":
    unittest.main()
