"""perf/tables.py: the tables of the pages are those of their records, and a page that differs is found."""
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

PERF = pathlib.Path(__file__).resolve().parents[2] / "perf"


def check(perf):
    done = subprocess.run([sys.executable, perf / "tables.py", "--check"], capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


class Tables(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.perf = pathlib.Path(folder.name) / "perf"
        shutil.copytree(PERF, self.perf, ignore=shutil.ignore_patterns("*.svg", "*.png", "__pycache__"))
        record = self.perf / "comparison" / "records" / "epyc-1.jsonl"  # its intervals take a second, those of all a quarter of a minute
        for other in record.parent.glob("*.jsonl"):
            if other != record:
                other.unlink()
        compare = [sys.executable, self.perf / "compare.py", record, "--no-pictures"]
        page = subprocess.run(compare, check=True, capture_output=True, text=True).stdout
        (self.perf / "comparison" / "comparison.md").write_text(page, encoding="utf-8")

    def change(self, name, text, other):
        path = self.perf / name
        found = path.read_text()
        self.assertIn(text, found)
        path.write_text(found.replace(text, other, 1))

    def test_pages_agree_with_their_records(self):
        self.assertEqual(check(PERF), (0, "6 pages agree with their records.\n"))

    def test_a_number_that_was_edited_by_hand_is_found(self):
        self.change("results/training.md", "| 26.2 |", "| 26.3 |")
        code, said = check(self.perf)
        self.assertEqual(code, 1)
        self.assertIn("training.md: found tables that differ from their records", said)

    def test_a_record_changes_the_page_and_the_digest(self):
        self.change("results/training.json", '"26.2"', '"26.3"')
        subprocess.run([sys.executable, self.perf / "tables.py"], check=True, capture_output=True)
        self.assertEqual(check(self.perf)[0], 0)
        self.assertIn("| 4.68 ms | CSR 26.3, dense masked 27.1 ms |", (self.perf / "RESULTS.md").read_text())

    def test_a_table_without_a_record_is_refused(self):
        self.change("results/products.md", "## Tiles of other ranks", "| a | b |\n|---|---|\n| 1 | 2 |\n\n## Tiles of other ranks")
        self.assertIn("found a table without a record", check(self.perf)[1])

    def test_a_record_without_its_spread_is_refused(self):
        self.change("results/products.json", '"spread": "medians of six; two runs"', '"spread": ""')
        self.assertIn("table cpu-4096: found no spread, expected it beside the command", check(self.perf)[1])


if __name__ == "__main__":
    unittest.main()
