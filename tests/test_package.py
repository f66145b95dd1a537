"""The front door: what `import fadecount` offers, and what it costs to open."""

from __future__ import annotations

import subprocess
import sys

import pytest

import fadecount

HEAVY = ("matplotlib", "pandas", "scipy", "sqlite3", "asyncio", "polars", "psycopg", "starlette", "pyspark")


def test_every_public_name_exists() -> None:
    assert all(hasattr(fadecount, name) for name in fadecount.__all__)
    assert list(fadecount.__all__) == sorted(fadecount.__all__)


def test_import_brings_in_nothing_heavy() -> None:
    code = f"import sys, fadecount; print([name for name in {HEAVY!r} if name in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert found.strip() == "[]"


def test_planning_waits_until_it_is_asked_for() -> None:
    code = (
        "import sys, fadecount; before = 'fadecount.planning' in sys.modules; fadecount.design; fadecount.design; print(before)"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert found.strip() == "False"
    assert set(fadecount.__all__) <= set(dir(fadecount))
    with pytest.raises(AttributeError, match="no attribute 'desing'"):
        fadecount.desing  # noqa: B018
