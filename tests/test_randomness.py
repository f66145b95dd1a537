"""No randomness in src but that of the noise room, and there only the operating system's."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import fadecount

ROOT = Path(fadecount.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))
FORBIDDEN = {"random", "secrets", "numpy.random", "uuid"}
ENTROPY = {"urandom", "getrandom", "default_rng", "RandomState"}


def offences(source: str) -> set[str]:
    """Names of modules and functions that draw random numbers, as they are imported or used."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names} & FORBIDDEN
        elif isinstance(node, ast.ImportFrom):
            names = {node.module or ""} | {f"{node.module}.{alias.name}" for alias in node.names}
            found |= names & FORBIDDEN | {alias.name for alias in node.names} & ENTROPY
        elif isinstance(node, ast.Attribute):
            found |= {node.attr} & (ENTROPY | {"random"})
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_only_the_noise_room_draws(path: Path) -> None:
    allowed = {"urandom"} if path.parent.name == "noise" else set()
    assert offences(path.read_text(encoding="utf-8")) <= allowed


@pytest.mark.parametrize(
    "source",
    [
        "import random",
        "import os\nos.urandom(8)",
        "from os import urandom",
        "import numpy as np\nnp.random.normal()",
        "from numpy import random",
        "from numpy.random import default_rng",
        "import numpy.random",
        "from secrets import token_bytes",
    ],
)
def test_the_search_finds_what_it_looks_for(source: str) -> None:
    assert offences(source)
