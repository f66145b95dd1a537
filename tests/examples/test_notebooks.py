"""The notebooks run from the first cell to the last, and are kept with what they show."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "examples" / "notebooks").glob("*.ipynb"))


def cells(path: Path) -> list[dict[str, Any]]:
    return [
        cell
        for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]
        if cell["cell_type"] == "code"
    ]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path: Path) -> None:
    """In a process of its own: Jupyter's client needs an event loop."""
    before = path.read_bytes()
    words = [sys.executable, "-m", "tools.notebooks", "--check", path.stem]
    done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr[-4000:]
    assert done.stdout == f"{path.stem} runs\n"
    assert path.read_bytes() == before


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_kept_with_its_pictures(path: Path) -> None:
    outputs = [output for cell in cells(path) for output in cell["outputs"]]
    assert any("image/png" in output.get("data", {}) for output in outputs)
    assert [
        output
        for output in outputs
        if output["output_type"] == "error" or output.get("name") == "stderr"
    ] == []
