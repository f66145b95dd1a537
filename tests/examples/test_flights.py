"""The demo runs, and says what it did."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_demo_draws_a_picture_and_says_where(tmp_path: Path) -> None:
    words = [
        sys.executable,
        "-W",
        "error",
        str(ROOT / "examples" / "flights.py"),
        "--out",
        str(tmp_path / "new" / "demo"),
    ]
    said = subprocess.run(words, capture_output=True, text=True, check=True)
    picture = tmp_path / "new" / "demo" / "flights.png"
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert str(picture) in said.stdout
    assert said.stdout.startswith("336,776 departures on 365 days")
    assert said.stderr == ""
