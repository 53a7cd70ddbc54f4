"""Every number in the prose and the tables of README and the start pages is that of its source; every option there exists.

  numbers_test.py COMMAND
"""
import gzip
import json
import pathlib
import re
import subprocess
import sys
import tarfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = ("README.md", "docs/getting-started.md", "docs/concepts.md")
GOLDEN = ROOT / "tests" / "golden" / "graphchallenge-1024"
# Names with digits in them, and the numbers that a reader chooses or counts by: these say nothing that could be wrong.
NAMES = r"C\+\+20|HDF5|\b[HVA]\d00\b|MI250|SHA-256|Apache-2\.0|Varve 0\.2|Varve\s+numerics 1|sample 101 has no sample 1|count from 1\b|sample 101\b"


def read(name):
    return (ROOT / name).read_text(encoding="utf-8")


def prose(page):
    """The page without code, pictures and targets of links."""
    text = re.sub(r"^```.*?^```$", "", read(page), flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"!\[[^\]]*\]\([^)]*\)|(?<=\])\([^)]*\)|`[^`\n]*`", "", text)


def helped(command, *words):
    return subprocess.run([command, *words], capture_output=True, text=True, check=True).stdout


def cells(page, table, row, column, number=0):
    """A number of the records of perf/: the row begins with `row`, the column with `column`."""
    found = {one["name"]: one for one in json.loads(read(f"perf/{page}.json"))}[table]
    (line,) = [cells for cells in found["rows"] if ", ".join(cells).replace("**", "").startswith(row)]
    place = found["columns"].index(column)
    return re.findall(r"\d+(?:\.\d+)?", line[place])[number]


def ratio(table, row, column, peer, peer_row=None, number=0):
    """How many times as fast the peer is."""
    return float(cells("results/inference", table, row, column)) / float(cells("results/inference", table, peer_row or row, peer, number))


def row_numbers():
    """README's table of speed, and the records of its rows."""
    like, step = "trained-like", "step-h200"
    return [
        ("challenge 65536x120", [cells("RESULTS", "challenge", "65536x120", name) for name in ("default, ms", "every neuron, ms", "published, fastest, ms")]),
        ("random weights 4096x120", [cells("results/inference", "patterns", "own weights 4096x120", name) for name in ("balanced edges (default), ms", "cuSPARSE, ms")]),
        ("all edges 1024x10", [cells("results/inference", like, "1024x10x1.0", "10000 samples"), cells("results/inference", like, "1024x10x1.0", "cuBLAS, the same", 4)]),
        ("one training step of 1024x120", [cells("results/training", step, "1024x120x32, 1024", name) for name in ("Varve, ms", "PyTorch CSR, ms")]),
        ("one epoch of 784-100-10", [cells("results/training", "epoch-cpu", "float", "Varve, ms"), cells("results/training", "epoch-cpu", "float", "NumPy 2.4 (OpenBLAS)")]),
    ]


class Numbers(unittest.TestCase):
    def test_times_of_readme_are_those_of_the_records(self):
        rows = [line for line in read("README.md").splitlines() if re.match(r"\|.*\d m?s", line)]
        expected = row_numbers()
        self.assertEqual(len(rows), len(expected))
        for row, (begin, times) in zip(rows, expected):
            self.assertTrue(row.startswith(f"| {begin}"), row)
            self.assertEqual(re.findall(r"([\d.]+) ms", row), times, row)

    def facts(self):
        """Pieces of the pages with their numbers, and what the numbers are."""
        with gzip.open(GOLDEN / "sparse-images-1024.tsv.gz", "rt") as lines:
            images = str(max(int(line.split()[0]) for line in lines))
        with tarfile.open(GOLDEN / "neuron1024-l1-120.tar.xz") as archive:
            layers = str(sum(member.isfile() for member in archive.getmembers()))
        shapes = [name.split("x") for name in re.findall(r'"(\d+x\d+)":', read("perf/challenge.py"))]
        neurons, depths = (sorted({int(shape[place]) for shape in shapes}) for place in (0, 1))
        (all_images,) = re.findall(r"the first 600 of the (\d+) images", read(f"{GOLDEN.relative_to(ROOT)}/README.md"))
        (before, after) = re.search(r"neurons from (\d+) to (\d+)", read("README.md")).groups()
        (digits,) = re.findall(r"partial-<(\d+) random hexadecimal digits>", read("src/io/output_file.hpp"))
        codes = re.search(r"\nExit codes:(.*?)\n\n", helped(COMMAND, "--help") + "\n\n", re.DOTALL)[1]
        wide = [ratio("trained-like", "1024x10x1.0", column, "cuBLAS, the same", number=number) for number, column in enumerate(("1 sample", "8", "64"))]
        wide.append(ratio("dense-widths", "1024x10x1.0", "500 samples", "500 samples", "cuBLAS, same run"))
        small = ratio("trained-like", "256x12x0.6", "1000", "cuBLAS, the same", number=3)
        many = [ratio("dense-widths", "1024x10x1.0", "2000", "2000", "cuBLAS, same run"), ratio("trained-like", "1024x10x1.0", "10000 samples", "cuBLAS, the same", number=4)]
        return {
            "README.md": [
                (r"on Debian (\d+) ", re.findall(r"FROM debian:(\d+)$", read("env/container/Dockerfile"), re.MULTILINE)),
                (r"run (\d+) official images", [images]),
                (r"\| challenge (\d+x\d+), (\d+) images \|", ["65536x120", all_images]),
                (r"\| random weights (\d+x\d+), (\d+) samples \|", ["4096x120", all_images]),
                (r"\| all edges (\d+x\d+), (\d+) samples \|", ["1024x10", "10000"]),
                (r"\| one training step of (\d+x\d+), batch (\d+) \|", ["1024x120", "1024"]),
                (r"\| one epoch of (\d+-\d+-\d+), (\d+) images \|", ["784-100-10", all_images]),
                (r"up to ([\d.]+) times faster on wide dense layers with up to hundreds", [f"{max(wide):.2g}"]),
                (r"([\d.]+) times on\s+small layers with a thousand", [f"{small:.2g}"]),
                (r"(\d+) to (\d+) % with thousands", [f"{100 * (value - 1):.0f}" for value in reversed(many)]),
            ],
            "docs/getting-started.md": [
                (r"On Debian (\d+),", re.findall(r"FROM debian:(\d+)$", read("env/container/Dockerfile"), re.MULTILINE)),
                (r"classifies (\d+) official images", [images]),
                (r"text file per layer, up to (\d+) \|", [str(depths[-1])]),
                (r"the first (\d+) layers:", [layers]),
                (r"\| (\d+) images; leave", [all_images]),
                (r"truth for (\d+) layers", [layers]),
                (r"exist for (\d+), (\d+) and (\d+) neurons, and for (\d+) and (\d+) layers", [str(number) for number in neurons[1:] + depths[1:]]),
                (r"(\d+) of the images and (\d+) layers come with Varve", [images, layers]),
                *((rf"^\| ({code}) \|", [code]) for code in re.findall(r"(\d) [a-z]", codes)),
            ],
            "docs/concepts.md": [
                (r"network of (\d+) neurons and (\d+) layers shrinks from (\d+) to (\d+) neurons", ["1024", layers, before, after]),
            ],
        } | {"digits": digits}

    def test_every_number_is_that_of_its_source(self):
        facts = self.facts()
        self.assertIn(f"`NAME.partial-<{facts['digits']} digits>`", read("docs/getting-started.md"))
        for page in PAGES:
            text = re.sub(NAMES, "", prose(page))
            for expression, expected in facts[page]:
                found = re.search(expression, text, re.MULTILINE)
                self.assertIsNotNone(found, f"{page}: found nothing like {expression}")
                self.assertEqual(list(found.groups()), expected, f"{page}: {found[0]}")
                text = text[:found.start()] + text[found.end():]
            left = [line for line in re.sub(r"[\d.]+ ms\b", "", text).splitlines() if re.search(r"\d", line)]
            self.assertEqual(left, [], f"{page}: found numbers whose source this test does not know")

    def test_options_of_commands_within_sentences_exist(self):
        num_found = 0
        for page in PAGES:
            text = re.sub(r"^```.*?^```$", "", read(page), flags=re.MULTILINE | re.DOTALL)
            for code in re.findall(r"`([^`\n]*)`", text):
                words = re.match(r"(?:mpirun -n \d+ )?varve ([a-z]+)\b", code)
                if words:
                    known = helped(COMMAND, words[1], "--help-all")
                    for option in re.findall(r" (--[a-z-]+)", code):
                        self.assertIn(option, known, f"{page}: {code}")
                    num_found += 1
        self.assertGreater(num_found, 5)


if __name__ == "__main__":
    COMMAND = sys.argv.pop(1)
    unittest.main()
