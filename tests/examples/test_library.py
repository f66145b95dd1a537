"""The example data of the tutorial is what its program makes, and the README's picture is drawn
from it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from tools import picture

LIBRARY = Path(__file__).parents[2] / "examples" / "library"


def test_the_files_are_made_again_as_they_are(tmp_path: Path) -> None:
    program = shutil.copy(LIBRARY / "doors.py", tmp_path)
    subprocess.run([sys.executable, program], check=True)
    committed = {path.name: path.read_bytes() for path in LIBRARY.glob("*.csv")}
    assert {path.name: path.read_bytes() for path in tmp_path.glob("*.csv")} == committed
    assert len(committed) == 2


def test_the_picture_of_the_readme_is_drawn_from_them(tmp_path: Path) -> None:
    assert picture.main(tmp_path / "pictures" / "fading.svg") == 0
    assert (tmp_path / "pictures" / "fading.svg").read_text(encoding="utf-8").startswith("<?xml")
