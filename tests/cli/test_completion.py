"""Completion of commands and options in a shell, by argcomplete."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("fadecount stre", "streams"),
        ("fadecount run x.csv --eps", "--epsilon"),
        ("fadecount streams ex", "export"),
        ("fadecount run x.csv --format js", "jsonl"),
    ],
)
def test_words_are_completed(tmp_path: Path, line: str, wanted: str) -> None:
    pytest.importorskip("argcomplete")
    variables = {
        "_ARGCOMPLETE": "1",
        "_ARGCOMPLETE_STDOUT_FILENAME": str(tmp_path / "words"),
        "COMP_LINE": line,
        "COMP_POINT": str(len(line)),
    }
    subprocess.run(
        [sys.executable, "-m", "fadecount"], env={**os.environ, **variables}, check=True, timeout=60
    )
    words = (tmp_path / "words").read_text().replace("\v", "\n").replace("\013", "\n").split()
    assert wanted in words
