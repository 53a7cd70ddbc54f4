"""The notebook of the examples runs from its first cell to its last, and shows what it holds."""

from __future__ import annotations

from pathlib import Path

import nbclient
import nbformat

NOTEBOOK = Path(__file__).parent.parent / "examples" / "first_ten_minutes.ipynb"


def shown(notebook):
    """The kinds of outputs of each cell, and those texts that hold no measured numbers."""
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    kinds = [[sorted(output.get("data", {"stream": ""})) for output in cell.outputs] for cell in cells]
    return kinds, [output.data["text/plain"] for cell in cells[-2:] for output in cell.outputs]


def test_the_first_ten_minutes(tmp_path):
    kept = nbformat.read(NOTEBOOK, as_version=4)
    run = nbformat.from_dict(kept)
    nbclient.NotebookClient(run, timeout=300, resources={"metadata": {"path": str(tmp_path)}}, coalesce_streams=True).execute()
    assert shown(run) == shown(kept) and shown(run)[1] == ["True", "True"]
    assert sum("image/png" in output for cell in shown(run)[0] for output in cell) == 2
    assert (tmp_path / "digits.safetensors").exists()
