"""perf/parallel_training.py and perf/deep_training.py run on little data: training_studies_test.py RANKS VARVE"""
import pathlib
import subprocess
import sys
import unittest

PERF = pathlib.Path(__file__).resolve().parents[2] / "perf"
sys.path.insert(0, str(PERF))
import deep_training  # noqa: E402
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


class Deep(unittest.TestCase):
    def test_keeps_few(self):
        self.assertEqual(deep_training.keep_every(1920), 18)
        self.assertEqual(deep_training.keep_every(40), 6)

    def test_a_small_run(self):
        done = subprocess.run([sys.executable, PERF / "deep_training.py", "--varve", VARVE, "--backend", "serial", "--layers", "40", "--samples", "300",
                               "--epochs", "2"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        kept, again = done.stdout.splitlines()[1:]
        self.assertTrue(kept.split()[0] == "all" and again.split()[:2] == ["every", "6"], done.stdout)
        self.assertEqual(kept.split()[-1], again.split()[-1])
        self.assertLess(float(again.split()[2]), 0.4 * float(kept.split()[1]))


if __name__ == "__main__":
    unittest.main()
