"""The pages are written in plain modern English: words that puzzle a reader of today do not come
back."""

from __future__ import annotations

import re

import pytest

from tests.docs.pages import PAGES, read, without_code

PUZZLING = re.compile(
    r"\b(whoever|is let go|are let go|mend(?:ed|s)?|has the word|is told|are"
    r" told|reckoned|anew|whilst|lest|henceforth)\b",
    re.IGNORECASE,
)


@pytest.mark.parametrize("page", [page for page in PAGES if page != "CHANGELOG.md"])
def test_plain_words(page: str) -> None:
    assert sorted(set(PUZZLING.findall(without_code(read(page))))) == []


def test_a_puzzling_word_is_found() -> None:
    assert PUZZLING.findall("Whoever reads it is told.") == ["Whoever", "is told"]
