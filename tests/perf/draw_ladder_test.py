"""perf/draw_ladder.py places rungs by the numbers that their teams read, and refuses what does not belong together: draw_ladder_test.py"""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

PERF = pathlib.Path(__file__).resolve().parents[2] / "perf"
sys.path.insert(0, str(PERF))
import draw_ladder  # noqa: E402

CEILINGS = {"copy_bytes_per_second": 1e12, "gather_bytes_per_second": 8e12, "fma_per_second": 3e13}


def rung(name, rate, rows, columns, precision="float"):
    return {"rung": name, "device": "a GPU", "precision": precision, "rows": 512, "columns": 512, "depth": 512, "gfma_per_second": rate, "part_rows": rows,
            "part_columns": columns}


class Ladder(unittest.TestCase):
    def run_script(self, rungs, ceilings):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            (folder / "rungs").write_text("".join(json.dumps(one) + "\n" for one in rungs))
            (folder / "machine").write_text("".join(json.dumps(one) + "\n" for one in ceilings))
            return subprocess.run([sys.executable, PERF / "draw_ladder.py", folder / "rungs", "--ceilings", folder / "machine"], capture_output=True, text=True)

    def test_intensity(self):
        self.assertEqual(draw_ladder.intensity_of(rung("naive", 1, 1, 1)), 0.125)  # two numbers of 4 bytes for one fma
        self.assertEqual(draw_ladder.intensity_of(rung("scratch", 1, 32, 32)), 4)
        self.assertEqual(draw_ladder.intensity_of(rung("scratch", 1, 32, 32, "double")), 2)
        self.assertIsNone(draw_ladder.intensity_of(rung("blas", 1, 0, 0)))

    def test_table(self):
        done = self.run_script([rung("naive", 250, 1, 1), rung("kernel", 24000, 128, 128), rung("cublas", 27000, 0, 0)], [{}, {"ceilings": CEILINGS}])
        self.assertEqual(done.returncode, 0, done.stderr)
        rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in done.stdout.splitlines()[2:]]
        self.assertEqual(rows, [["naive", "0.125", "250", "0.01", "2.00"], ["kernel", "16", "2.4e+04", "0.80", "1.50"], ["cublas", "-", "2.7e+04", "0.90", "-"]])

    def test_what_does_not_belong_together(self):
        done = self.run_script([rung("naive", 1, 1, 1), rung("naive", 1, 1, 1, "double")], [{"ceilings": CEILINGS}])
        self.assertIn("expected records of one size, precision and device", done.stderr)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("holds no ceilings", self.run_script([rung("naive", 1, 1, 1)], [{}]).stderr)


if __name__ == "__main__":
    unittest.main()
