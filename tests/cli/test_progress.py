"""Progress: silent where nobody looks, and only for what takes long."""

from __future__ import annotations

import io
import sys
import time

import pytest

from fadecount.cli._output import progress, waiting


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_file_gets_no_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", file := io.StringIO())
    with progress("reading", total=10) as advance, waiting("reading"):
        time.sleep(0.7)
        advance(5)
    assert file.getvalue() == ""


def test_quick_work_gets_no_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    with progress("reading", total=10) as advance:
        advance(10)
    assert "reading" not in terminal.getvalue()


def test_long_work_shows_its_share(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    with progress("reading", total=10) as advance:
        time.sleep(0.7)
        advance(3)
    assert "reading:  30%" in terminal.getvalue()
    assert terminal.getvalue().endswith("\n")


def test_work_that_does_not_say_how_far_it_is_shows_that_it_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    until = time.monotonic() + 30
    with waiting("reading"):
        while "reading ..." not in terminal.getvalue():
            assert time.monotonic() < until
            time.sleep(0.05)
    assert terminal.getvalue().endswith("\n")
