"""perf/timeline.py on the report of a small product: timeline_test.py MPIRUN|- VARVE"""
import hashlib
import json
import pathlib
import struct
import subprocess
import sys
import tempfile
import types
import unittest

PERF = pathlib.Path(__file__).resolve().parents[2] / "perf"
sys.path.insert(0, str(PERF))
import timeline  # noqa: E402

VARVE, MPIRUN = sys.argv.pop(), sys.argv.pop()


def script(*arguments):
    return subprocess.run([sys.executable, PERF / "timeline.py", *map(str, arguments)], capture_output=True, text=True)


def write_matrix(path, size):
    """A square matrix as src/io/FORMAT.md says."""
    data = struct.pack(f"<{size * size}d", *(float((7 * row + 3 * column) % 11) for row in range(size) for column in range(size)))
    hashes = b"".join(hashlib.sha256(data[at:at + 65536]).digest() for at in range(0, len(data), 65536))
    text = json.dumps({"kind": "matrix", "version": 1, "shape": [size, size]})
    root = hashlib.sha256(text.encode() + hashes).hexdigest()
    header = json.dumps({"__metadata__": {"varve": text, "varve.sha256": root},
                         "matrix": {"dtype": "F64", "shape": [size, size], "data_offsets": [0, len(data)]},
                         "sha256": {"dtype": "U8", "shape": [len(hashes) // 32, 32], "data_offsets": [len(data), len(data) + len(hashes)]}}).encode()
    path.write_bytes(struct.pack("<Q", len(header)) + header + data + hashes)


def product(folder, num_ranks):
    """The report of a product of two small matrices."""
    write_matrix(folder / "a.safetensors", 200)
    command = [VARVE, "multiply", folder / "a.safetensors", folder / "a.safetensors", "--output", folder / "c.safetensors", "--tile", "32", "--backend", "serial",
               "--report", folder / "report.json"]
    if MPIRUN != "-":
        command = [MPIRUN, "-n", str(num_ranks)] + command
    subprocess.run(command, check=True, capture_output=True)
    return json.loads((folder / "report.json").read_text())


class Parts(unittest.TestCase):
    def test_seconds_in_two_spans_count_once(self):
        self.assertEqual(timeline.covered([(3, 4), (0, 2), (1, 2.5)]), 3.5)
        self.assertEqual(timeline.covered([]), 0)

    def test_every_event_is_drawn_in_the_row_of_its_rank(self):
        calls = []
        axes = types.SimpleNamespace(broken_barh=lambda bars, place, **_: calls.append((bars, place[0])),
                                     set=lambda **_: None)
        figure = types.SimpleNamespace(legend=lambda **_: None, savefig=lambda path, **_: path.write_text("drawn"))
        plots = types.SimpleNamespace(subplots=lambda **_: (figure, axes))
        sys.modules["study"] = types.SimpleNamespace(plotting=lambda: plots)
        self.addCleanup(sys.modules.pop, "study")
        event = {"what": "task", "begin": 0.0, "end": 1.0, "task": 3, "lane": 2}
        ranks = [[event, event | {"what": "copy"}], [event | {"what": "copy"}, event | {"what": "wait"}, event | {"what": "finish"}]]
        with tempfile.TemporaryDirectory() as folder:
            timeline.draw(ranks, pathlib.Path(folder) / "plot.svg")
        drawn = [int(place) for bars, place in calls for _ in bars]
        self.assertEqual(sorted(drawn), [0, 0, 1, 1, 1])

    def test_a_file_without_events_is_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "report.json"
            for text in ("", "{}", '{"ranks": [{}]}', '{"ranks": [{"events": [{"what": "rest", "begin": 0, "end": 1}]}]}'):
                path.write_text(text)
                done = script(path)
                self.assertEqual(done.returncode, 1)
                self.assertIn("no report of varve multiply with events", done.stderr)


    def test_a_file_that_is_not_there_is_named(self):
        done = script("/no/such/report.json")
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stderr, "/no/such/report.json: cannot be read (No such file or directory)\n")


class Product(unittest.TestCase):
    def test_events_of_ranks_become_a_table_and_a_trace(self):
        num_ranks = 1 if MPIRUN == "-" else 2
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            report = product(folder, num_ranks)
            done = script(folder / "report.json", "--trace", folder / "trace.json")
            self.assertEqual(done.returncode, 0, done.stderr)
            lines = [line.split() for line in done.stdout.splitlines()[1:]]
            self.assertEqual([int(line[1]) for line in lines], [rank["tasks"] for rank in report["ranks"]])
            trace = json.loads((folder / "trace.json").read_text())["traceEvents"]
            tasks = [event for event in trace if event.get("cat") == "task"]
            self.assertEqual(len(tasks), report["tiles"]["tasks"])
            self.assertLessEqual(max(event["ts"] + event["dur"] for event in tasks), 1e6 * report["run_seconds"])


if __name__ == "__main__":
    unittest.main()
