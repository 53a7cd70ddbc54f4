"""Varve in turns with its peers: a short `varve benchmark` in each round, joined into one record for each --reductions."""
import json
import pathlib
import sys
import tempfile

from harness import run

SUMMARIES = ("loop_seconds", "call_seconds", "throughput")  # of one turn; the lists of all runs stand for all turns


class OwnTurns:
    """The records of a case: "varve none" (everything computed) and "varve auto" (the default)."""

    def __init__(self, asked, network, samples, count, name):
        self.command = [asked.varve, "benchmark", "--network", network, "--input", samples, "--samples", count,
                        "--backend", asked.backend, "--reductions", "none", "auto", "--repeats", 2]
        self.checked = min(count, asked.check)
        self.name = name
        self.records = []

    def measure(self, seconds):
        """Two runs of each at least, for so many seconds. The first turn checks all samples that peers are checked with."""
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "records.jsonl"
            run(*self.command, "--seconds", seconds, "--check", 1 if self.records else self.checked, "--output", path)
            turn = [{**json.loads(line), "case": self.name} for line in path.read_text().splitlines()]
        if not self.records:
            self.records = [{key: value for key, value in record.items() if key not in SUMMARIES} for record in turn]
            return
        for record, more in zip(self.records, turn, strict=True):
            if record["activation_hash"] != more["activation_hash"]:
                sys.exit(f"{self.name}: two runs of varve have the activations {record['activation_hash']} and {more['activation_hash']}")
            for key in ("loop_seconds_all", "call_seconds_all"):
                record[key] += more[key]
