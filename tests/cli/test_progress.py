"""The progress bar: silent where nobody looks, and only for what takes long."""

from __future__ import annotations

import io
import time

import pytest

from fadecount.cli._progress import Progress, waiting


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """A clock that the test moves on."""
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    return now


def test_a_file_gets_no_bar(clock: list[float]) -> None:
    stream = io.StringIO()
    with Progress("reading", total=10, stream=stream) as bar:
        clock[0] += 60
        bar.advance(5)
    assert stream.getvalue() == ""


def test_quick_work_gets_no_bar(clock: list[float]) -> None:
    stream = Terminal()
    with Progress("reading", total=10, stream=stream) as bar:
        clock[0] += 0.4
        bar.advance(10)
    assert stream.getvalue() == ""


def test_long_work_shows_share_and_time_left(clock: list[float]) -> None:
    stream = Terminal()
    with Progress("reading", total=10, stream=stream) as bar:
        clock[0] += 3
        bar.advance(3, note="third")
        bar.advance(0)  # too soon after the last one to draw again
        assert stream.getvalue().count("\r") == 1
        assert " 30%  7 s left  third" in stream.getvalue()
        bar.advance(9)
    assert "100%" in stream.getvalue()
    assert stream.getvalue().endswith("\n")


def test_work_of_unknown_length_shows_what_is_done(clock: list[float]) -> None:
    stream = Terminal()
    with Progress("reading", stream=stream) as bar:
        clock[0] += 2
        bar.advance(12345)
    assert "12,345 done, 2 s" in stream.getvalue()


def test_nothing_done_yet(clock: list[float]) -> None:
    stream = Terminal()
    with Progress("reading", total=5, stream=stream) as bar:
        clock[0] += 2
        bar.advance(0)
    assert "0%" in stream.getvalue()


def test_work_that_does_not_say_how_far_it_is_shows_that_it_goes_on() -> None:
    stream, until = Terminal(), time.monotonic() + 30
    with waiting("reading", stream=stream):
        while "reading 0 s" not in stream.getvalue() and "reading 1 s" not in stream.getvalue():
            assert time.monotonic() < until
            time.sleep(0.05)
    assert stream.getvalue().endswith("\n")
