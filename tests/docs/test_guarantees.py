"""Every test and every make target that the pages name as evidence exists."""

from __future__ import annotations

import ast
import re

import pytest

from tests.docs.pages import ROOT, read

PAGES = ("docs/guarantees.md", "SECURITY.md", "docs/theory.md", "docs/measurements.md", "README.md")
_TEST = re.compile(r"\btests/[\w/]+(?:\.py(?:::\w+)?)?")
_TARGET = re.compile(r"`make ([a-z-]+)")


def missing(text: str) -> list[str]:
    """The named tests and targets that are not there."""
    return [name for name in _TEST.findall(text) if not exists(name)] + [
        f"make {name}"
        for name in _TARGET.findall(text)
        if not re.search(
            rf"^{name}:", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE
        )
    ]


def exists(name: str) -> bool:
    file, _, function = name.partition("::")
    path = ROOT / file
    if not function:
        return path.exists()
    tree = ast.parse(path.read_text(encoding="utf-8")) if path.is_file() else ast.Module([], [])
    return any(isinstance(each, ast.FunctionDef) and each.name == function for each in tree.body)


@pytest.mark.parametrize("page", PAGES)
def test_the_evidence_is_there(page: str) -> None:
    assert missing(read(page)) == []


def test_every_promise_names_a_test() -> None:
    rows = [
        line
        for line in read("docs/guarantees.md").splitlines()
        if line.startswith("| ") and not line.startswith("| promise")
    ]
    assert len(rows) > 25
    evidence = [row.split("|")[3] for row in rows]
    assert all(_TEST.search(each) or _TARGET.search(each) for each in evidence)


def test_missing_evidence_is_found() -> None:
    here = "tests/docs/test_guarantees.py"
    text = (
        f"`{here}` `{here}::test_missing_evidence_is_found` `{here}::test_nothing`"
        " `tests/no/such.py` `make test` `make gold`"
    )
    assert missing(text) == [f"{here}::test_nothing", "tests/no/such.py", "make gold"]
