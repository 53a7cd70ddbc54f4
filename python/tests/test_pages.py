"""The pages of docs/examples whose commands need this package say what is printed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("page, needed", [("challenge", []), ("sparse-classifier", ["sklearn"]), ("prune-torch", ["sklearn", "torch"])])
def test_a_page_says_what_its_commands_print(page, needed):
    for library in needed:
        pytest.importorskip(library)
    command = [sys.executable, ROOT / "tests" / "readme" / "examples.py", ROOT / "docs" / "examples" / f"{page}.md"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
