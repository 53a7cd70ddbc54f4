"""The examples run and say what they promise."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np

EXAMPLES = Path(__file__).parent.parent / "examples"


def output_of(name):
    done = subprocess.run([sys.executable, EXAMPLES / name], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_challenge():
    text = output_of("challenge.py")
    assert text.startswith("1844 of 60000 images reach the end") and "layer 0: counts kernel" in text


def test_digits():
    text = output_of("digits.py")
    accuracies = [float(number) for number in re.findall(r"accuracy (0\.\d+)", text)]
    sparse, dense, pruned = accuracies
    again = float(re.search(r"after more training (0\.\d+)", text)[1])
    assert sparse > 0.95 and dense > 0.95 and pruned < again and again > 0.93
    assert "varve agrees on 100.0%" in text


def test_every_example_is_tested():
    assert {path.name for path in EXAMPLES.glob("*.py")} == {"challenge.py", "digits.py"}


def blocks_of_page():
    page = Path(__file__).parent.parent.parent / "docs" / "python.md"
    return re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)


def test_the_page_about_python_runs(tmp_path, monkeypatch):
    first, training = blocks_of_page()
    monkeypatch.chdir(tmp_path)
    names = {}
    exec(first, names)
    assert names["network"].infer(names["X"]).shape == (1000, 10) and (tmp_path / "small.h5").exists()
    X = np.random.default_rng(1).random((400, 64))
    labels = X[:, :10].argmax(axis=1)
    names.update(X=X[:300], labels=labels[:300], X_test=X[300:], labels_test=labels[300:])
    exec(training, names)
    assert len(names["result"].history) == 20
