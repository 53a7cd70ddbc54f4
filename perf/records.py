"""Records of `varve benchmark` and of perf/baselines: reading them, and what each is about."""
import json
import pathlib
import re
import statistics
import sys

from machines import tell_machines_apart, traits_of

TIMES = {"inference": "loop_seconds_all", "training": "step_seconds_all", "product": "run_seconds_all"}
MOST_LOAD = 1.0  # of the system for each processor, before a run; a benchmark on all of them before it counts with 1
MOST_SPREAD = 0.2  # interquartile range of the times of the runs, as a part of their median
STEP_AMOUNTS = ["fma", "least_bytes", "seconds"]
CEILINGS = ["copy_bytes_per_second", "fma_per_second"]


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
        self.machine = machine_of(fields)  # tell_machines_apart() adds what differs between machines of one name
        self.traits = traits_of(fields)
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

    def doubts(self):
        """Why other work may have made these times: sentences, none if nothing speaks for it."""
        machine = self.fields["machine"]
        processor = machine["processor"]
        load = (machine.get("system") or {}).get("load_average_1_minute")
        count = max(processor.get("units_allowed") or 0, (processor.get("topology") or {}).get("cores") or 0)
        doubts = []
        if self.backend in ("openmp", "serial") and load is not None and count > 0 and load > MOST_LOAD * count:
            doubts.append(f"the load was {load:.3g} on {count} processor{'' if count == 1 else 's'}")
        if len(self.seconds) > 1:
            first, _, third = statistics.quantiles(self.seconds, n=4, method="inclusive")
            if third - first > MOST_SPREAD * self.median:
                doubts.append(f"the middle half of its times varies by {100 * (third - first) / self.median:.0f} %")
        return doubts


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


def is_amount(number):
    """True for numbers from 0 to 1e300; larger ones overflow when they are added up."""
    return isinstance(number, (int, float)) and not isinstance(number, bool) and 0 <= number <= 1e300


def is_time(number):
    return is_amount(number) and number > 0


def are_times(seconds):
    return isinstance(seconds, list) and bool(seconds) and all(map(is_time, seconds))


def flaw_of(fields):
    """What is wrong with a record that has all its parts, as a sentence; None if nothing is."""
    times = TIMES[fields["record"]]
    if fields["record_version"] != 1:
        return f"found version {fields['record_version']} of records, expected 1"
    if fields["check"]["right"] is not True:
        return "the answer was not right, so its times do not count"
    for name in (times, "call_seconds_all"):
        if not are_times(fields.get(name, [1.0])):
            return f"found no positive times, expected a list of seconds in {name}"
    if not isinstance(fields["samples"], int):
        return f"found samples {fields['samples']!r}, expected a number"
    for step in fields.get("steps") or []:
        if not all(is_amount(step.get(name)) for name in STEP_AMOUNTS):
            return f"found a step without {', '.join(STEP_AMOUNTS)}, expected these as numbers from 0"
    ceilings = fields.get("ceilings")
    if ceilings and not all(is_time(ceilings.get(name)) for name in CEILINGS):
        return f"found ceilings without {', '.join(CEILINGS)}, expected these as positive numbers"
    return None


def flawed_name(record):
    """The first name that would break a row of a table, as a sentence; None if there is none."""
    names = {"case": record.case, "precision": record.precision, "backend": record.backend, "contender": record.contender,
             "machine": record.machine, "git_commit": record.commit, "date": record.date, "check": record.fields["check"]["way"]}
    for key, name in names.items():
        if not isinstance(name, str) or not name.isprintable():
            return f"found the {key} {name!r}, expected a text of one line"
    return None


def read_line(line, place):
    """The record on a line. Anything else, and a record that must not count, ends the program."""
    try:
        fields = json.loads(line)
        flaw = flaw_of(fields)
        if flaw:
            sys.exit(f"{place}: {flaw}")
        record = Record(fields, place)
        flaw = flawed_name(record)
        if flaw:
            sys.exit(f"{place}: {flaw}")
        return record
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        sys.exit(f"{place}: no record of varve benchmark or perf/baselines ({type(error).__name__}: {error})")


def read_records(paths):
    """All records of these files. A broken line ends the program with its place."""
    records = []
    for path in paths:
        try:
            lines = pathlib.Path(path).read_text(encoding="utf-8").split("\n")
        except (OSError, UnicodeDecodeError) as error:
            sys.exit(f"{path}: cannot be read ({error})")
        records += [read_line(line, f"{path}, line {number}") for number, line in enumerate(lines, 1) if line.strip()]
    tell_machines_apart(records)
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
