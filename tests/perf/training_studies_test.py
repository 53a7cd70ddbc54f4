"""perf/parallel_training.py runs on little data: training_studies_test.py VARVE"""
import pathlib
import subprocess
import sys
import unittest

PERF = pathlib.Path(__file__).resolve().parents[2] / "perf"
sys.path.insert(0, str(PERF))
import parallel_training  # noqa: E402

VARVE, RANKS = sys.argv.pop(), sys.argv.pop()


class Parallel(unittest.TestCase):
    def test_counts_bytes(self):
        self.assertEqual(parallel_training.different_bytes(b"abc", b"abc"), 0)
        self.assertEqual(parallel_training.different_bytes(b"abcd", b"xbc"), 2)

    def test_a_small_run(self):
        done = subprocess.run([sys.executable, PERF / "parallel_training.py", "--varve", VARVE, "--backend", "serial", "--ranks", *RANKS.split(","),
                               "--samples", "1700", "--epochs", "2", "--modes", "2", "3"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = [line.split() for line in done.stdout.splitlines()[1:]]
        self.assertEqual(len(lines), 4 * len(RANKS.split(",")))
        self.assertEqual({line[6] for line in lines}, {"0"}, done.stdout)
        self.assertEqual(len({line[7] for line in lines}), 4, "a hash for each mode and precision")


if __name__ == "__main__":
    unittest.main()
