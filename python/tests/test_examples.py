"""The examples run and say what they promise."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

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
