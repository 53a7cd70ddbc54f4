"""Speedups with confidence intervals, regressions, and the metric of performance portability."""
import random
import statistics

RESAMPLES = 1000
LEAST_CHANGE = 0.02  # smaller changes come from other load


def ratio_interval(before, after, confidence=0.95, seed=1):
    """How many times as fast `after` is: median(before) / median(after), and the bootstrap interval of this ratio
    (percentiles over resampled runs: Efron and Tibshirani, "An introduction to the bootstrap", 1993, chapter 13)."""
    source = random.Random(seed)
    ratio = statistics.median(before) / statistics.median(after)
    ratios = sorted(statistics.median(source.choices(before, k=len(before))) /
                    statistics.median(source.choices(after, k=len(after))) for _ in range(RESAMPLES))
    cut = round((1 - confidence) / 2 * RESAMPLES)
    return ratio, ratios[cut], ratios[-1 - cut]


def is_slower(ratio, low, high):
    """True if the interval of a ratio lies below 1 by more than LEAST_CHANGE."""
    return high < 1 - LEAST_CHANGE and low <= ratio


def portability(efficiencies):
    """The harmonic mean of the efficiencies on all platforms, 0 if one of them is None: the application does not run
    there (Pennycook, Sewall and Lee, "Implications of a metric for performance portability", 2019)."""
    if not efficiencies or any(not efficiency for efficiency in efficiencies):
        return 0.0
    return len(efficiencies) / sum(1 / efficiency for efficiency in efficiencies)


def roofline_share(record):
    """Architectural efficiency: the least time of the traced steps, in which either all fma or all bytes that must move keep the processor
    at its measured ceiling, over their time. More than 1 where data stay in caches; None without traced steps and ceilings."""
    steps, ceilings = record.fields.get("steps"), record.fields.get("ceilings")
    seconds = sum(step["seconds"] for step in steps or [])
    if not ceilings or seconds <= 0:
        return None
    least = sum(max(step["fma"] / ceilings["fma_per_second"], step["least_bytes"] / ceilings["copy_bytes_per_second"]) for step in steps)
    return least / seconds


def fastest_by(records, *names):
    """The record of the least median for each combination of these attributes (or results of methods)."""
    best = {}
    for record in records:
        key = tuple(value() if callable(value) else value for value in (getattr(record, name) for name in names))
        if key not in best or record.median < best[key].median:
            best[key] = record
    return best


def portabilities(records):
    """By problem and contender: on each machine the application efficiency, best known time over own time (None: no record
    from there), and roofline_share(); and the metric of the first. The best known time is the shortest of any contender on that
    machine, other versions and peers included."""
    best = fastest_by(records, "problem", "machine")
    own = fastest_by(records, "problem", "contender", "machine")
    found = {}
    for problem in dict.fromkeys(record.problem() for record in records):
        machines = list(dict.fromkeys(record.machine for record in records if record.problem() == problem))
        for contender in dict.fromkeys(record.contender for record in records if record.problem() == problem):
            efficiencies = {}
            for machine in machines:
                record = own.get((problem, contender, machine))
                efficiencies[machine] = (best[problem, machine].median / record.median, roofline_share(record)) if record else (None, None)
            found[problem, contender] = efficiencies, portability([part for part, _ in efficiencies.values()])
    return found


def changes(records):
    """Pairs of records of one problem, contender and platform, each commit's last one and that of the commit before
    it by date: (before, after, (ratio, low, high))."""
    by_place = {}
    for record in sorted(records, key=lambda record: record.date):
        by_place.setdefault((record.problem(), record.contender, record.platform()), {})[record.commit] = record
    pairs = []
    for versions in by_place.values():
        ordered = sorted(versions.values(), key=lambda record: record.date)
        for before, after in zip(ordered, ordered[1:]):
            pairs.append((before, after, ratio_interval(before.seconds, after.seconds)))
    return pairs
