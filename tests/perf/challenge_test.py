"""perf/challenge.py runs, and shows the peers' figures only beside runs of what they ran: challenge_test.py VARVE"""
import pathlib
import subprocess
import sys
import tempfile
import unittest

PERF = pathlib.Path(__file__).resolve().parents[2] / "perf"
sys.path.insert(0, str(PERF))
import challenge  # noqa: E402

VARVE = sys.argv.pop()
NONE = ("-", "-")


def record_of(samples=60000, devices=("NVIDIA H200 (device 0)",)):
    return {"devices": list(devices), "input": {"samples": samples}}


class Peers(unittest.TestCase):
    def test_beside_what_they_ran(self):
        self.assertEqual(challenge.peers_beside("1024x120", "radixnet", record_of()), challenge.PEERS["1024x120"])

    def test_not_beside_anything_else(self):
        for size, pattern, record in [("1024x120", "radixnet", record_of(samples=600)),
                                      ("1024x120", "radixnet", record_of(devices=["2 threads"])),
                                      ("1024x120", "radixnet", record_of(devices=["NVIDIA A100-SXM4-80GB (device 0)"])),
                                      ("1024x120", "radixnet", record_of(devices=["NVIDIA H200 (device 0)"] * 2)),
                                      ("1024x120", "random", record_of()), ("1024x121", "radixnet", record_of())]:
            self.assertEqual(challenge.peers_beside(size, pattern, record), NONE, (size, pattern, record))

    def test_a_small_run_shows_none(self):
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run([sys.executable, PERF / "challenge.py", "--varve", VARVE, "--backend", "serial", "--sizes", "32x4",
                                   "--samples", "50", "--repeat", "1", "--variant=--reductions none", "--data", folder], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        header, line = done.stdout.splitlines()
        self.assertIn("equal bits (50 samples)", line)
        self.assertEqual(line.split()[-8:-4], ["-"] * 4, line) # two peers, cuSPARSE and cuBLAS
        self.assertIn("fastest peer", header)


if __name__ == "__main__":
    unittest.main()
