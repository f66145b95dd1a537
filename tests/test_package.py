"""The front door: what `import fadecount` offers, and what it costs to open."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import fadecount

HEAVY = (
    "matplotlib",
    "pandas",
    "scipy",
    "sqlite3",
    "asyncio",
    "polars",
    "psycopg",
    "httptools",
    "pyspark",
)


def test_every_public_name_exists() -> None:
    assert all(hasattr(fadecount, name) for name in fadecount.__all__)
    assert list(fadecount.__all__) == sorted(fadecount.__all__)


def test_import_brings_in_nothing_heavy() -> None:
    code = f"import sys, fadecount; print([name for name in {HEAVY!r} if name in sys.modules])"
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout
    assert found.strip() == "[]"


RUN = ["run", "visits.csv", "--tick", "1h", "--time", "at", "--epsilon", "1", "--output", "out.csv"]


@pytest.mark.parametrize(
    ("words", "heavy"),
    [
        (["--help"], "numpy"),
        (RUN, "numpy.ma"),
        (RUN, "fadecount.service"),
    ],
)
def test_a_command_imports_only_what_it_needs(words: list[str], heavy: str, tmp_path: Path) -> None:
    (tmp_path / "visits.csv").write_text("at\n2026-03-01T10:00\n2026-03-01T12:00\n")
    code = (
        "import sys; from fadecount.cli.main import main\n"
        f"try: main({words})\n"
        f"finally: print({heavy!r} in sys.modules)"
    )
    shown = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    ).stdout
    assert shown.endswith("False\n")


def test_planning_waits_until_it_is_asked_for() -> None:
    code = (
        "import sys, fadecount; before = 'fadecount.planning' in sys.modules; fadecount.design;"
        " fadecount.design; print(before)"
    )
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout
    assert found.strip() == "False"
    assert set(fadecount.__all__) <= set(dir(fadecount))
    with pytest.raises(AttributeError, match="no attribute 'desing'"):
        fadecount.desing  # noqa: B018


def test_a_room_that_is_not_imported_is_named() -> None:
    code = "import fadecount\ntry: fadecount.streams\nexcept AttributeError as error: print(error)"
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout
    assert (
        found.strip() == "module 'fadecount' has no attribute 'streams'; import it first: import"
        " fadecount.streams"
    )


def test_completion_shows_what_a_person_may_use() -> None:
    code = (
        "import fadecount; print([name for name in dir(fadecount) if name[0] != '_'] =="
        " fadecount.__all__)"
    )
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout
    assert found.strip() == "True"


def test_every_room_of_the_hint_can_be_imported() -> None:
    folder = Path(fadecount.__file__).parent
    assert all(
        (folder / name).is_dir() or (folder / f"{name}.py").is_file() for name in fadecount._ROOMS
    )
