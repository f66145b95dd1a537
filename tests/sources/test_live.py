"""Live pipes: which tick an event counts in, when ticks are complete, what happens to late and bad rows."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from fadecount.errors import BadRowError, InputError, ParameterError
from fadecount.sources import Reading, Reason, SourceOptions, read_lines

NOON = 1_700_000_000 // 60 * 60


def options(**changes: Any) -> SourceOptions:
    return SourceOptions(**{"tick_seconds": 60, **changes})


class Pipe(io.RawIOBase):
    """Lines that arrive at given moments; its clock stands at the moment of the line read last."""

    def __init__(self, lines: Iterable[tuple[float, str]]) -> None:
        self._lines = iter(lines)
        self._now: float = NOON

    def clock(self) -> float:
        return self._now

    def readline(self, size: int | None = -1, /) -> bytes:
        self._now, line = next(self._lines, (self._now, ""))
        return line.encode() + b"\n" if line else b""


def reading_of(lines: Iterable[tuple[float, str]], chosen: SourceOptions) -> Reading:
    pipe = Pipe(lines)
    return read_lines(pipe, chosen, pipe.clock)  # type: ignore[arg-type]


def totals(reading: Reading) -> dict[tuple[int, int], int]:
    sums: dict[tuple[int, int], int] = {}
    last = -1
    for batch in reading:
        for tick, key, count in zip(batch.ticks.tolist(), batch.keys.tolist(), batch.counts.tolist(), strict=True):
            assert tick >= last, "ticks went back"
            last = tick
            sums[tick, key] = sums.get((tick, key), 0) + count
    return sums


def test_without_a_time_column_the_arrival_decides_and_time_never_goes_back() -> None:
    lines = [(NOON, "key"), (NOON, "a"), (NOON + 59.9, "a"), (NOON + 60, "b"), (NOON - 10**6, "b"), (NOON + 240, "a")]
    first = NOON // 60
    found = totals(reading_of(lines, options(key="key", keys=("a", "b"))))
    assert {place: count for place, count in found.items() if count} == {
        (first, 0): 2,
        (first + 1, 1): 2,
        (first + 4, 0): 1,
    }


def test_late_events_count_in_the_open_tick_and_grace_keeps_it_open() -> None:
    times = [NOON, NOON + 70, NOON + 10, NOON + 100, NOON + 59]
    lines = [(NOON + 200, f'{{"t": {moment}}}') for moment in times]
    first = NOON // 60
    assert totals(reading_of(lines, options(time="t"))) == {(first, 0): 1, (first + 1, 0): 4}
    assert totals(reading_of(lines, options(time="t", grace_seconds=30))) == {(first - 1, 0): 0, (first, 0): 2, (first + 1, 0): 3}
    assert totals(reading_of(lines, options(time="t", grace_seconds=90))) == {
        (first - 2, 0): 0,
        (first - 1, 0): 0,
        (first, 0): 3,
    } | {(first + 1, 0): 2}


def test_a_person_is_bounded_in_the_tick_that_counts() -> None:
    lines = [(NOON + 100, f'{{"t": {moment}, "who": "ann"}}') for moment in (NOON, NOON + 60, NOON + 1, NOON + 61)]
    reading = reading_of(lines, options(time="t", person="who", per_person=1))
    assert totals(reading) == {(NOON // 60, 0): 1, (NOON // 60 + 1, 0): 1}
    assert reading.report.rows_dropped == 2


def test_a_time_far_ahead_of_the_clock_is_a_bad_row() -> None:
    lines = [(NOON, f'{{"t": {moment}}}') for moment in (NOON, NOON + 3600, NOON + 5)]
    reading = reading_of(lines, options(time="t", on_bad="skip"))
    assert totals(reading) == {(NOON // 60, 0): 2}
    assert dict(reading.report.skipped) == {Reason.FUTURE: 1}


def test_a_bad_row_stops_after_what_came_before_it() -> None:
    reading = reading_of([(NOON, "key"), (NOON, "a"), (NOON, "kanarie7"), (NOON, "a")], options(key="key", keys=("a",)))
    assert [batch.counts.tolist() for batch in [next(reading)]] == [[1]]
    with pytest.raises(BadRowError) as caught:
        next(reading)
    assert caught.value.number == 3
    assert "kanarie7" not in str(caught.value)


def test_ticks_pass_and_rows_are_handed_on_while_the_pipe_is_silent() -> None:
    inward, outward = os.pipe()
    now = float(NOON)
    with os.fdopen(inward, "rb") as stream, os.fdopen(outward, "wb", buffering=0) as writer:
        reading = read_lines(stream, options(key="key", keys=("a",)), lambda: now)
        writer.write(b"key\na\na\n")
        counts = 0
        while counts < 2:
            counts += int(next(reading).counts.sum())
        assert len(next(reading)) == 0, "silence is told, so that the reader can stop"
        now += 120
        batch = next(batch for batch in reading if len(batch))
        assert (batch.ticks.tolist(), batch.counts.tolist()) == ([NOON // 60 + 2], [0])
        writer.close()
        assert sum(len(batch) for batch in reading) == 0


def test_a_pipe_that_breaks_is_an_error_after_what_came_before() -> None:
    def lines() -> Iterable[tuple[float, str]]:
        yield from [(NOON, "key"), (NOON, "a")]
        raise OSError(5, "Input/output error")

    reading = reading_of(lines(), options(key="key", keys=("a",)))
    assert next(reading).counts.tolist() == [1]
    with pytest.raises(InputError, match="standard input cannot be read: Input/output error"):
        next(reading)


EMPTY: list[tuple[str, Callable[[], SourceOptions]]] = [("csv", lambda: options(format="csv")), ("any", options)]


@pytest.mark.parametrize(("name", "chosen"), EMPTY)
def test_an_empty_pipe_is_an_error(name: str, chosen: Callable[[], SourceOptions]) -> None:
    with pytest.raises(InputError, match="standard input is empty"):
        totals(reading_of([], chosen()))


def test_parquet_cannot_be_piped() -> None:
    with pytest.raises(ParameterError, match="format must be csv or jsonl"):
        read_lines(io.BytesIO(), options(format="parquet"))
