"""Records of `varve benchmark` and of perf/baselines: reading them, and what each is about."""
import json
import re
import statistics
import sys

TIMES = {"inference": "loop_seconds_all", "training": "step_seconds_all", "product": "run_seconds_all"}


class Record:
    """One line of a file of records: what was computed, by what, where, and how long each run took."""

    def __init__(self, fields, place):
        self.fields = fields
        self.place = place
        self.kind = fields["record"]
        setup = fields["setup"]
        self.case = fields["case"]
        self.samples = fields["samples"]
        self.precision = setup["precision"]
        self.backend = setup["backend"]
        self.peer = fields.get("peer")  # of perf/baselines; None: Varve itself
        self.work = setup.get("reductions", "-")
        self.seconds = fields[TIMES[self.kind]]
        self.call_seconds = fields.get("call_seconds_all", self.seconds)
        self.median = statistics.median(self.seconds)
        self.commit = fields.get("git_commit", "-")
        self.date = fields.get("date", "")
        self.machine = machine_of(fields)
        self.threads = threads_of(setup.get("device", ""))
        self.contender = self.peer or f"varve {self.work}"
        self.answer = next((fields[name] for name in ("activation_hash", "weights_hash", "product_hash") if fields.get(name)), None)

    def problem(self):
        """What was computed: records with equal problems can be compared."""
        return self.case, self.samples, self.precision, self.kind

    def platform(self):
        """Where and by which backend it ran."""
        threads = f", {self.threads} thread{'' if self.threads == 1 else 's'}" if self.threads else ""
        return f"{self.machine}, {self.backend}{threads}"


def machine_of(fields):
    """The GPU if the record is from one, else the processor."""
    machine = fields["machine"]
    gpu = machine.get("gpu") or {}
    if fields["setup"]["backend"] in ("cuda", "hip") and gpu.get("name"):
        return gpu["name"]
    return machine["processor"].get("model") or machine["host"]


def threads_of(device):
    """The number in "16 threads"; None for a device that is no processor."""
    found = re.fullmatch(r"(\d+) threads?", device)
    return int(found[1]) if found else None


def is_time(number):
    return isinstance(number, (int, float)) and 0 < number < float("inf")


def read_line(line, place):
    """The record on a line. Anything else, and a record that must not count, ends the program."""
    try:
        fields = json.loads(line)
        version, seconds, is_right = fields["record_version"], fields[TIMES[fields["record"]]], fields["check"]["right"]
        if version != 1:
            sys.exit(f"{place}: found version {version} of records, expected 1")
        if is_right is not True:
            sys.exit(f"{place}: the answer was not right, so its times do not count")
        if not seconds or not all(map(is_time, seconds)):
            sys.exit(f"{place}: found no positive times, expected a list of seconds in {TIMES[fields['record']]}")
        return Record(fields, place)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        sys.exit(f"{place}: no record of varve benchmark or perf/baselines ({type(error).__name__}: {error})")


def read_records(paths):
    """All records of these files. A broken line ends the program with its place."""
    records = []
    for path in paths:
        try:
            lines = open(path, encoding="utf-8").read().splitlines()
        except (OSError, UnicodeDecodeError) as error:
            sys.exit(f"{path}: cannot be read ({error})")
        records += [read_line(line, f"{path}, line {number}") for number, line in enumerate(lines, 1) if line.strip()]
    return records


def require_equal_answers(records):
    """Varve's answers have equal bits everywhere; records of one problem and work that differ cannot be compared."""
    answers = {}
    for record in records:
        if record.peer or not record.answer:
            continue
        merges = record.work != "none"
        first = answers.setdefault((record.problem(), merges and record.work), record)
        counts_differ = len(first.seconds) != len(record.seconds)
        if record.kind == "training" and counts_differ:
            continue  # other numbers of steps, other weights
        if first.answer != record.answer:
            sys.exit(f"{record.place}: activations {record.answer}, but {first.place} has {first.answer} for the same"
                     f" problem ({record.case}, {record.samples} samples, reductions {record.work})")
