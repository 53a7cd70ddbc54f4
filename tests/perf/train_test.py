"""perf/train.py measures and judges training on little data: train_test.py VARVE"""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

TRAIN = pathlib.Path(__file__).resolve().parents[2] / "perf" / "train.py"
VARVE = sys.argv.pop()


def train(*arguments):
    return subprocess.run([sys.executable, TRAIN, *arguments, "--varve", VARVE, "--backend", "serial"], capture_output=True, text=True)


class Train(unittest.TestCase):
    def test_judges_by_derivatives_of_numpy(self):
        done = train("judge", "--steps", "10")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        lines = done.stdout.splitlines()
        self.assertEqual([line.split(":")[0] for line in lines], ["float", "double"])
        for line in lines:
            self.assertIn(": 10 steps, loss ", line)

    def test_finds_a_wrong_derivative(self):
        with tempfile.TemporaryDirectory() as folder:
            wrong = pathlib.Path(folder) / "train.py"
            text = TRAIN.read_text()
            right = "error = before\n    return losses"
            self.assertEqual(text.count(right), 1)
            wrong.write_text(text.replace(right, right.replace("before", "1.001 * before")))
            done = subprocess.run([sys.executable, wrong, "judge", "--steps", "10", "--varve", VARVE, "--backend", "serial"], capture_output=True, text=True,
                                  env={"PYTHONPATH": str(TRAIN.parent), "PYTHONDONTWRITEBYTECODE": "1"})
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)

    def test_times_steps(self):
        with tempfile.TemporaryDirectory() as folder:
            records = pathlib.Path(folder) / "records.jsonl"
            done = train("times", "--networks", "64x4x8@64", "--records", str(records))
            self.assertEqual(done.returncode, 0, done.stderr)
            record, = [json.loads(line) for line in records.read_text().splitlines()]
        self.assertEqual((record["network"], record["batch"], record["backend"]), ("64x4x8", 64, "serial"))
        self.assertGreater(record["varve_ms"], 0)
        self.assertGreater(record["forward_ms"], 0)

    def test_times_epochs_beside_numpy(self):
        with tempfile.TemporaryDirectory() as folder:
            records = pathlib.Path(folder) / "records.jsonl"
            done = train("epoch", "--samples", "1600", "--precisions", "float", "--peers", "numpy", "--records", str(records))
            self.assertEqual(done.returncode, 0, done.stderr)
            record, = [json.loads(line) for line in records.read_text().splitlines()]
        self.assertEqual((record["network"], record["precision"], record["backend"]), ("784-100-10", "float", "serial"))
        self.assertGreater(record["varve_ms"], 0)
        self.assertGreater(record["numpy_ms"], 0)


if __name__ == "__main__":
    unittest.main()
