"""Live sources: which tick an event counts in, when ticks are over, what happens to late, early and
bad rows."""

from __future__ import annotations

import io
import os
import threading
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from fadecount.errors import InputError
from fadecount.sources import Reason, SourceOptions
from fadecount.sources.live import GrowingFile, LiveReading

NOON = 1_700_000_000 // 60 * 60
FIRST = NOON // 60


def options(**changes: Any) -> SourceOptions:
    return SourceOptions(**{"tick": 60, "format": "jsonl", **changes})


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


def reading_of(
    lines: Iterable[tuple[float, str]], chosen: SourceOptions, **more: Any
) -> LiveReading:
    pipe = Pipe(lines)
    return LiveReading(pipe, chosen, clock=pipe.clock, **{"open_tick": FIRST, **more})


def totals(reading: LiveReading) -> dict[tuple[int, int | str], int]:
    sums: dict[tuple[int, int | str], int] = {}
    last = -1
    for batch in reading:
        for tick, key, count, _ in batch.rows:
            assert tick >= last, "an event counts in a tick that is over"
            sums[tick, key] = sums.get((tick, key), 0) + count
        assert batch.open_tick >= last, "ticks went back"
        last = batch.open_tick
    return sums


def at(moment: float, time: float) -> tuple[float, str]:
    return moment, f'{{"t": {time}}}'


def test_without_a_time_column_the_arrival_decides() -> None:
    lines = [(NOON, "key"), (NOON, "a"), (NOON + 59.9, "a"), (NOON + 60, "b"), (NOON + 240, "a")]
    found = totals(
        reading_of(lines, options(key="key", keys=("a", "b"), format="csv"), open_tick=FIRST)
    )
    assert found == {(FIRST, 0): 2, (FIRST + 1, 1): 1, (FIRST + 4, 0): 1}


def test_the_clock_alone_closes_ticks_and_grace_keeps_them_open() -> None:
    lines = [
        at(NOON + 1, NOON),
        at(NOON + 59, NOON + 59),
        at(NOON + 61, NOON + 59),
        at(NOON + 61, NOON + 61),
    ]
    assert totals(reading_of(lines, options(time="t"), open_tick=FIRST)) == {
        (FIRST, 0): 2,
        (FIRST + 1, 0): 2,
    }
    assert totals(reading_of(lines, options(time="t", grace_seconds=5), open_tick=FIRST)) == {
        (FIRST, 0): 3,
        (FIRST + 1, 0): 1,
    }


@pytest.mark.parametrize("ahead", [0, 60, 61, 3600, 10**8])
def test_an_event_ahead_of_the_clock_moves_no_other(ahead: int) -> None:
    others = [at(NOON + second, NOON + second) for second in range(10, 50)]
    early = at(NOON + 5, NOON + 5 + ahead)
    chosen = options(time="t")
    without, with_it = (
        totals(reading_of(lines, chosen, open_tick=FIRST)) for lines in (others, [early, *others])
    )
    changed = {
        place: with_it[place] - without.get(place, 0)
        for place in with_it
        if with_it[place] != without.get(place, 0)
    }
    assert without == {(FIRST, 0): 40}
    assert changed == ({((NOON + 5 + ahead) // 60, 0): 1} if ahead <= 60 else {})


def test_rows_before_the_stream_and_bad_rows_are_left_out_by_themselves() -> None:
    lines = [
        at(NOON, NOON - 1),
        (NOON, '{"t": "kanarie7"}'),
        (NOON, "kanarie7"),
        at(NOON, NOON),
        at(NOON, NOON + 7200),
    ]
    reading = reading_of(
        lines, options(time="t", first_tick=FIRST, end_tick=FIRST + 10), open_tick=FIRST
    )
    assert totals(reading) == {(FIRST, 0): 1}
    assert dict(reading.report.skipped) == {
        Reason.BEFORE: 1,
        Reason.TIME: 1,
        Reason.OBJECT: 1,
        Reason.FUTURE: 1,
    }
    assert reading.report.rows_read == 5


def test_persons_are_handed_on_as_keyed_digests() -> None:
    lines = [(NOON, f'{{"t": {NOON}, "who": "{who}"}}') for who in ("ann", "bob", "ann")]
    chosen = options(time="t", person="who")
    digests = [
        [
            row[3]
            for batch in reading_of(
                lines, options(time="t", person="who"), open_tick=FIRST, person_key=key
            )
            for row in batch.rows
        ]
        for key in (b"a" * 32, b"a" * 32, b"b" * 32)
    ]
    assert digests[0] == digests[1] != digests[2]
    assert digests[0][0] == digests[0][2] != digests[0][1]
    assert "ann" not in repr(next(reading_of(lines, chosen, open_tick=FIRST)))


def test_ticks_pass_while_the_pipe_is_silent() -> None:
    inward, outward = os.pipe()
    now = float(NOON)
    with os.fdopen(inward, "rb") as stream, os.fdopen(outward, "wb", buffering=0) as writer:
        reading = LiveReading(
            stream,
            options(key="key", keys=("a",), format="csv"),
            clock=lambda: now,
            open_tick=FIRST,
        )
        writer.write(b"key\na\na\n")
        counts = 0
        while counts < 2:
            counts += sum(row[2] for row in next(reading).rows)
        assert next(reading).open_tick == FIRST
        now += 120
        assert next(batch for batch in reading if batch.open_tick > FIRST).open_tick == FIRST + 2
        writer.close()
        assert sum(len(batch.rows) for batch in reading) == 0


def test_a_pipe_that_breaks_is_an_error_after_what_came_before() -> None:
    def lines() -> Iterator[tuple[float, str]]:
        yield at(NOON, NOON)
        raise OSError(5, "Input/output error")

    reading = reading_of(lines(), options(time="t"), open_tick=FIRST)
    assert next(reading).rows == [(FIRST, 0, 1, b"")]
    with pytest.raises(InputError, match="standard input cannot be read: Input/output error"):
        next(reading)


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_an_empty_pipe_has_no_events(kind: str) -> None:
    assert totals(reading_of([], options(format=kind))) == {}


def read_some(
    path: Path, chosen: SourceOptions, position: int, rows: int, **more: Any
) -> tuple[dict[tuple[int, int | str], int], int]:
    """Follow a file until so many rows were read; their counts, and the position behind them."""
    lines = GrowingFile(path, chosen, position)
    reading = LiveReading(lines, chosen, backlog=lines.size, **more)
    sums: dict[tuple[int, int | str], int] = {}
    for batch in reading:
        for tick, key, count, _ in batch.rows:
            sums[tick, key] = sums.get((tick, key), 0) + count
        if reading.report.rows_read >= rows:
            lines.close()
            return sums, batch.position
    raise AssertionError("the file ended")


def test_a_growing_file_goes_on_at_its_position_and_waits_for_unfinished_lines(
    tmp_path: Path,
) -> None:
    path = tmp_path / "events.csv"
    path.write_text(f"t\n{NOON}\n{NOON + 60}\n{NOON + 61}")
    chosen = options(time="t", format="csv")
    clock = {"clock": lambda: float(NOON + 600), "open_tick": FIRST}
    sums, position = read_some(path, chosen, 0, 2, **clock)
    assert sums == {(FIRST, 0): 1, (FIRST + 1, 0): 1}, (
        "what is there already is placed by its own time"
    )
    assert path.read_bytes()[position:] == str(NOON + 61).encode(), (
        "the unfinished line is not read yet"
    )
    with path.open("a") as file:
        file.write(f"\n{NOON + 62}\n")
    sums, position = read_some(path, chosen, position, 2, **clock)
    assert sums == {(FIRST + 1, 0): 2}
    assert position == path.stat().st_size
    with pytest.raises(InputError, match="is shorter than what was read of it"):
        GrowingFile(path, chosen, position + 1)


def row(second: int) -> str:
    return f"{NOON + second}\n"


class Followed:
    """A CSV file that is followed in a thread, which stops where it would wait for more."""

    def __init__(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.path, self.chosen = path, options(time="t", format="csv")
        self.waits, self.look = threading.Event(), threading.Semaphore(0)
        monkeypatch.setattr("fadecount.sources.live.time.sleep", self._wait)
        self.start()

    def start(self, *place: int) -> None:
        self.found: list[str] = []
        self.lines = GrowingFile(self.path, self.chosen, *place)
        self.thread = threading.Thread(target=self._listen, args=(self.lines,))
        self.waits.clear()
        self.thread.start()
        assert self.waits.wait(60)

    def _listen(self, lines: GrowingFile) -> None:
        with suppress(ValueError):  # it is closed
            while True:
                line = lines.readline().decode()
                self.found.append(line)
                self.position = lines.position

    def _wait(self, _seconds: float) -> None:
        self.waits.set()
        self.look.acquire()

    def read(self) -> list[str]:
        """The lines that there are by now."""
        self.waits.clear()
        self.look.release()
        assert self.waits.wait(60)
        found, self.found = self.found, []
        return found

    def stop(self) -> None:
        self.lines.close()
        self.look.release()
        self.thread.join()

    def restart(self) -> list[str]:
        """As another process, which knows where the last line ended."""
        self.stop()
        self.start(*self.lines.place(self.position))
        header, *found = self.read()
        assert header == "t\n"
        return found


@pytest.fixture
def followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Followed]:
    path = tmp_path / "a.csv"
    path.write_text("t\n" + "".join(map(row, range(100))))
    made = Followed(path, monkeypatch)
    assert made.read() == ["t\n", *map(row, range(100))]
    yield made
    made.stop()


@pytest.mark.parametrize("restarts", [False, True])
def test_a_rotated_file_is_read_to_its_end_and_then_the_next(
    followed: Followed, restarts: bool
) -> None:
    """The writer goes on for a while in the file that it has open, as writers do."""
    for number in range(1, 4):
        begin, old = 100 * number, followed.path.with_name(f"a.csv.{number}")
        followed.path.rename(old)
        assert followed.read() == [], "nothing has its place yet"
        with old.open("a") as file:
            file.write(row(begin) + row(begin + 1).rstrip("\n"))
        followed.path.write_text("t\n")
        read = followed.restart if restarts else followed.read
        assert read() == [row(begin)], "of the next one there is only the header"
        with followed.path.open("a") as file:
            file.write("".join(map(row, range(begin + 2, begin + 100))))
        last, *rows = read()
        assert last == row(begin + 1).rstrip("\n"), "a last line that never got its end"
        assert rows == [row(second) for second in range(begin + 2, begin + 100)]
        if restarts:
            assert read() == []


def test_a_file_that_was_cut_short_is_read_from_its_beginning(followed: Followed) -> None:
    for number in range(1, 4):
        os.truncate(followed.path, 0)
        assert followed.read() == []
        with followed.path.open("a") as file:
            file.write("t\n" * (number == 2) + "".join(map(row, range(number, number + 50))))
        assert followed.read() == [row(second) for second in range(number, number + 50)]
    with pytest.raises(InputError, match="is shorter than what was read of it"):
        os.truncate(followed.path, 0)
        followed.restart()


@pytest.mark.parametrize("way", ["copied over it", "put in its place"])
def test_a_copy_is_read_from_the_same_place_on(followed: Followed, way: str) -> None:
    """Its rows would count twice, and lose twice."""
    text = followed.path.read_text()
    for number in range(1, 4):
        into = followed.path if way == "copied over it" else followed.path.with_name("new")
        into.write_text(text[: len(text) // 2])
        into.replace(followed.path)
        assert followed.read() == []
        text += row(100 * number)
        into.write_text(text)
        into.replace(followed.path)
        assert followed.read() == [row(100 * number)]


def test_another_file_whose_first_one_has_gone_is_refused(followed: Followed) -> None:
    followed.path.unlink()
    followed.path.with_name("a.csv.gz").write_text("compressed")
    followed.path.write_text("t\n" + "".join(map(row, range(500))))
    with pytest.raises(InputError, match="is another file than the one that was read"):
        followed.restart()


def test_closing_a_growing_file_ends_its_thread(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_text(f'{{"t": {NOON}}}\n')
    before = set(threading.enumerate())
    read_some(path, options(time="t"), 0, 1, clock=lambda: float(NOON), open_tick=FIRST)
    for thread in set(threading.enumerate()) - before:
        thread.join(timeout=10)
        assert not thread.is_alive()


@pytest.mark.parametrize("error", [MemoryError("kanarie7"), ValueError("kanarie7")])
def test_a_source_that_fails_in_any_way_is_reported(error: Exception) -> None:
    class Failing(Pipe):
        def readline(self, size: int | None = -1, /) -> bytes:
            raise error

    reading = LiveReading(Failing([]), options(), clock=lambda: NOON, open_tick=FIRST)
    with pytest.raises(InputError, match=f"cannot be read: {type(error).__name__}") as caught:
        list(reading)
    assert "kanarie7" not in str(caught.value)


def test_late_rows_may_be_dropped() -> None:
    lines = [at(NOON + 1, NOON), at(NOON + 61, NOON + 59), at(NOON + 61, NOON + 61)]
    reading = reading_of(lines, options(time="t", late="drop"), open_tick=FIRST)
    assert totals(reading) == {(FIRST, 0): 1, (FIRST + 1, 0): 1}
    assert dict(reading.report.skipped) == {Reason.LATE: 1}
    assert "all in all 1 row (33.3 % of those in the range)" in reading.report.consequences()[0]


def test_amounts_of_a_live_source_are_cut() -> None:
    lines = [(NOON, '{"n": "7"}'), (NOON, '{"n": "3"}')]
    reading = reading_of(lines, options(amount="n", max_amount=5), open_tick=FIRST)
    assert totals(reading) == {(FIRST, 0): 8} and reading.report.rows_cut == 1
