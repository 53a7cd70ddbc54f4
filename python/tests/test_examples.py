"""The examples run and say what they promise."""

from __future__ import annotations

import doctest
import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import varve

EXAMPLES = Path(__file__).parent.parent / "examples"


def output_of(name):
    done = subprocess.run([sys.executable, EXAMPLES / name], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")
def test_torch_curves():
    rows = re.findall(r"(\w+): (\d+) weights and biases, [\d.]+ s, accuracy ([\d.]+)", output_of("torch_curves.py"))
    (dense, dense_weights, dense_accuracy), (sparse, sparse_weights, sparse_accuracy) = rows[-2:]
    assert (dense, sparse) == ("dense", "sparse") and int(sparse_weights) < 0.06 * int(dense_weights)
    assert float(dense_accuracy) > 0.96 and float(sparse_accuracy) > 0.96


def test_every_example_is_tested():
    names = {path.name for path in EXAMPLES.iterdir() if path.is_file()}
    assert names == {"challenge.py", "digits.py", "first_ten_minutes.ipynb", "torch_curves.py", "torch_pruned.py"}


PAGE = Path(__file__).parent.parent.parent / "docs" / "python.md"


def test_the_first_ten_minutes_say_what_the_page_says(tmp_path, monkeypatch):
    """The sessions of the page (>>>), one after another, as doctests: every output is compared."""
    monkeypatch.chdir(tmp_path)
    sessions = re.findall(r"```pycon\n(.*?)```", PAGE.read_text(), re.DOTALL)
    text = "\n".join(sessions)
    test = doctest.DocTestParser().get_doctest(text, {}, PAGE.name, str(PAGE), 0)
    assert len(test.examples) >= 20
    complaints = []
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    runner.run(test, out=complaints.append)
    assert runner.summarize(verbose=False).failed == 0, "".join(complaints)


def test_the_lines_of_readme_run():
    (code,) = re.findall(r"```python\n(.*?)```", (PAGE.parent.parent / "README.md").read_text(), re.DOTALL)
    names = {"varve": varve}
    exec(code, names)
    assert 0 < len(names["alive"]) < 600


def test_the_page_about_python_runs(tmp_path, monkeypatch):
    (training,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    monkeypatch.chdir(tmp_path)
    X = np.random.default_rng(1).random((400, 64))
    labels = X[:, :10].argmax(axis=1)
    names = {"varve": varve, "X": X[:300], "labels": labels[:300], "X_test": X[300:], "labels_test": labels[300:]}
    exec(training, names)
    assert len(names["result"].history) == 20 and (tmp_path / "run.safetensors").exists()
    assert sum(epoch.dropped_edges for epoch in names["result"].history) > 0
