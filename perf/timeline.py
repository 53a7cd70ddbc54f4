#!/usr/bin/env python3
"""Draws what the ranks of `varve multiply` did and when, from its report: tasks, copies, waits.

  mpirun -n 4 varve multiply A.safetensors B.safetensors --output C.safetensors --report report.json
  perf/timeline.py report.json --plot timeline.svg       # matplotlib
  perf/timeline.py report.json --trace trace.json        # for chrome://tracing or Perfetto

Prints for each rank its tasks, the parts of the time in which it had one, read tiles, waited and finished, and when it
ended. Times of ranks begin at the same barrier.
"""
import argparse
import json
import pathlib
import sys

KINDS = {"task": "#9dbbd8", "copy": "#c9a227", "wait": "#b5523b", "finish": "#2b8a57"}
LABELS = {"task": "task", "copy": "reading a tile of A or B", "wait": "waiting for tiles or results", "finish": "finishing and storing"}


def read_ranks(path):
    """The events of each rank. A file that holds none ends the program."""
    try:
        ranks = [rank["events"] for rank in json.loads(path.read_text(encoding="utf-8"))["ranks"]]
        for events in ranks:
            for event in events:
                if event["what"] not in KINDS or not 0 <= event["begin"] <= event["end"]:
                    raise ValueError(f"event {event}")
        return ranks
    except OSError as error:
        sys.exit(f"{path}: cannot be read ({error.strerror})")
    except (ValueError, KeyError, TypeError) as error:
        sys.exit(f"{path}: no report of varve multiply with events ({type(error).__name__}: {error})")


def covered(spans):
    """The seconds that are in at least one of the spans (begin, end)."""
    seconds, last = 0.0, 0.0
    for begin, end in sorted(spans):
        seconds += max(0.0, end - max(begin, last))
        last = max(last, end)
    return seconds


def spans_of(events, what):
    return [(event["begin"], event["end"]) for event in events if event["what"] == what]


def table(ranks):
    end = max((event["end"] for events in ranks for event in events), default=0.0)
    lines = [f"{'rank':>4} {'tasks':>6} {'busy':>7} {'copy':>7} {'wait':>7} {'finish':>7} {'end, s':>9}"]
    for number, events in enumerate(ranks):
        parts = "".join(f"{100 * covered(spans_of(events, what)) / end if end else 0:6.1f}% " for what in ("task", "copy", "wait", "finish"))
        last = max((event["end"] for event in events), default=0.0)
        lines.append(f"{number:4} {len(spans_of(events, 'task')):6} {parts}{last:9.4f}")
    return "\n".join(lines)


def draw(ranks, path):
    from study import plotting
    pyplot = plotting()
    figure, axes = pyplot.subplots(figsize=(9, 1.2 + 1.1 * len(ranks)), layout="constrained")
    for number, events in enumerate(ranks):
        for what, color in KINDS.items():
            mine = [event for event in events if event["what"] == what]
            label = LABELS[what] if number == 0 else None
            if what == "task":
                for lane in range(4):
                    bars = [(event["begin"], event["end"] - event["begin"]) for event in mine if event["lane"] == lane]
                    axes.broken_barh(bars, (number + 0.42 + 0.11 * lane, 0.09), facecolor=color, edgecolor="white", linewidth=0.3,
                                     label=label if lane == 0 else None)
            else:
                bars = [(event["begin"], event["end"] - event["begin"]) for event in mine]
                place = {"copy": 0.05, "wait": 0.17, "finish": 0.29}[what]
                axes.broken_barh(bars, (number + place, 0.1), facecolor=color, label=label)
    axes.set(xlabel="s", ylim=(len(ranks) + 0.05, -0.05), yticks=[number + 0.5 for number in range(len(ranks))],
             yticklabels=[f"rank {number}" for number in range(len(ranks))])
    figure.legend(fontsize="x-small", loc="outside upper center", ncols=5)
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)


def trace_events(ranks):
    """The events in Chrome's format: a process for each rank, tasks by lane, a line for each other kind."""
    lines = {"copy": 10, "wait": 11, "finish": 12}
    events = [{"name": "process_name", "ph": "M", "pid": number, "args": {"name": f"rank {number}"}} for number in range(len(ranks))]
    for number, mine in enumerate(ranks):
        for event in mine:
            name = f"{event['what']} {event['task']}" if "task" in event else event["what"]
            events.append({"name": name, "cat": event["what"], "ph": "X", "pid": number, "tid": lines.get(event["what"], event.get("lane", 0)),
                           "ts": 1e6 * event["begin"], "dur": 1e6 * (event["end"] - event["begin"])})
    return events


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("report", type=pathlib.Path)
    parser.add_argument("--plot", type=pathlib.Path, help="picture (.svg or .png)")
    parser.add_argument("--trace", type=pathlib.Path, help="trace (.json)")
    asked = parser.parse_args()
    ranks = read_ranks(asked.report)
    print(table(ranks))
    if asked.trace:
        asked.trace.write_text(json.dumps({"traceEvents": trace_events(ranks), "displayTimeUnit": "ms"}) + "\n")
    if asked.plot:
        draw(ranks, asked.plot)


if __name__ == "__main__":
    main()
