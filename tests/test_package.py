"""The front door: what `import fadecount` offers, and what it costs to open."""

from __future__ import annotations

import subprocess
import sys

import fadecount

HEAVY = ("matplotlib", "pandas", "scipy", "sqlite3", "asyncio", "polars", "psycopg", "starlette", "pyspark")


def test_every_public_name_exists() -> None:
    assert all(hasattr(fadecount, name) for name in fadecount.__all__)
    assert list(fadecount.__all__) == sorted(fadecount.__all__)


def test_import_brings_in_nothing_heavy() -> None:
    code = f"import sys, fadecount; print([name for name in {HEAVY!r} if name in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert found.strip() == "[]"
