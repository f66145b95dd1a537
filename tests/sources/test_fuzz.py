"""The short version of the fuzz campaign, and proof that it can find something."""

from __future__ import annotations

import pytest
from campaigns.sources import fuzz

from fadecount.errors import FadecountError
from fadecount.sources import rows


def test_a_few_thousand_inputs() -> None:
    fuzz.run_loop(5_000, seed=7)


def test_a_reader_that_echoes_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def echo(_rules: object, text: str) -> int:
        raise FadecountError(f"the amount {text} is bad")

    monkeypatch.setattr(rows.Rules, "amount", echo)
    with pytest.raises(AssertionError, match="a message outside the known ones"):
        fuzz.run_loop(5_000, seed=7)


def test_a_reader_that_crashes_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "decoded", lambda line: line.decode("utf-8"))
    with pytest.raises(UnicodeDecodeError):
        fuzz.run_loop(5_000, seed=7)


def test_the_two_csv_readers_agree() -> None:
    pytest.importorskip("polars")
    fuzz.run_differential(100, seed=7)
