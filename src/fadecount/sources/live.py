"""Events as they happen, line by line, from a pipe or a file that grows, with the standard library
alone.

The tick that an event counts in depends on its own time, its own arrival and the clock, never on
other events. Ticks pass by the clock: a tick is over ``grace_seconds`` past its end, whether or not
anything arrives.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from fadecount.errors import InputError
from fadecount.sources.files import (
    Reading,
    SourceReport,
    line_format,
    outside,
    parser_for,
    require_file,
)
from fadecount.sources.options import SourceOptions
from fadecount.sources.rows import Event, Lines, Reason, RowJudge, numbered_lines

FLUSH_ROWS = 10_000
LINES_WAITING = 10_000
LOOK_SECONDS = 0.2
AHEAD_SECONDS = 60
"""How far a time may be ahead of the clock, in addition to the grace: clocks of different machines
differ a little."""


@dataclass(frozen=True, slots=True, eq=False)
class LiveBatch:
    """Some events, and how far time and reading have come.

    Each row of ``rows`` is (tick, position of the key, amount, digest of the person); no tick is
    before ``open_tick`` of the batch before. Where persons do not matter, the rows of one tick and
    key are added up. Once the rows are stored, every tick before ``open_tick`` may be closed.
    ``position`` is the number of bytes read so far: everything before it is in this batch or an
    earlier one.
    """

    rows: list[tuple[int, int, int, bytes]]
    open_tick: int
    position: int

    def __repr__(self) -> str:
        return f"LiveBatch({len(self.rows)} rows)"  # the counts are what is protected: never shown


def read_live(
    stream: Lines,
    options: SourceOptions,
    *,
    clock: Callable[[], float] = time.time,
    open_tick: int | None = None,
    backlog: int = 0,
    person_key: bytes | None = None,
    source: str = "standard input",
) -> Reading[LiveBatch]:
    """The counts of events that arrive line by line; ``options.format`` must be given, CSV has a
    header.

    Without a time column, an event belongs to the tick in which it arrives. With one, it belongs to
    its own tick, or, if that is over, to the oldest tick that is not: ``open_tick`` at first (by
    default the oldest open one by the clock). An event more than a minute and ``grace_seconds``
    ahead of the clock is left out by itself. ``clock`` gives Unix seconds.

    A ``stream`` with a ``position`` already holds ``backlog`` bytes: these are read before any tick
    passes, so that after a downtime each event still counts in its own tick.

    Persons are not counted here: their counts must survive the process, so the stream keeps them.
    ``person_key`` is the key of their digests.

    Guarantees: ticks pass while nothing arrives; what was read is yielded within about a second, or
    10,000 rows.
    """
    line_format(options)
    report = SourceReport()
    return Reading(
        _batches(
            stream,
            options,
            clock,
            open_tick,
            backlog,
            RowJudge(options, person_key),
            source,
            report,
        ),
        report,
    )


class OpenTicks:
    """Adds events to open ticks, never to those that are over. It has no clock: the caller passes
    the time."""

    def __init__(self, options: SourceOptions, open_tick: int | None) -> None:
        self._options = options
        self._rows: list[tuple[int, int, int, bytes]] = []
        self._open = open_tick

    def __len__(self) -> int:
        return len(self._rows)

    def pass_to(self, now: float) -> None:
        """Advance past every tick that is over at ``now``, by the clock. Time that goes back
        changes nothing."""
        tick = self._oldest(now)
        self._open = tick if self._open is None else max(tick, self._open)

    def add(self, event: Event, now: float, *, catching_up: bool = False) -> Reason | None:
        """Count an event that arrived at ``now``, or say why it is left out.

        While ``catching_up``, ticks that are over by the clock but not closed yet still take their
        events.
        """
        options = self._options
        if options.time is None:
            tick = options.ticks.at(int(now // 1))
        elif event.seconds > now + options.grace_seconds + AHEAD_SECONDS:
            return Reason.FUTURE
        else:
            tick = options.ticks.at(event.seconds)
        reason = outside(tick, options)
        if reason is None:
            assert self._open is not None
            counted_in = max(tick, self._open, tick if catching_up else self._oldest(now))
            self._rows.append((counted_in, event.key, event.amount, event.person))
        return reason

    def take(self, position: int) -> LiveBatch:
        """Everything counted since the last time."""
        rows, self._rows = self._rows, []
        if self._options.person is None:
            sums: dict[tuple[int, int], int] = {}
            for tick, key, amount, _ in rows:
                sums[tick, key] = sums.get((tick, key), 0) + amount
            rows = [(tick, key, amount, b"") for (tick, key), amount in sums.items()]
        assert self._open is not None
        return LiveBatch(rows, self._open, position)

    def _oldest(self, now: float) -> int:
        """The oldest tick that is not over, by the clock."""
        return self._options.ticks.at(int((now - self._options.grace_seconds) // 1))


@dataclass(frozen=True, slots=True)
class _Arrival:
    """A line, the time at which it arrived, and the position after it."""

    line: bytes | Reason
    now: float
    position: int


def _batches(
    stream: Lines,
    options: SourceOptions,
    clock: Callable[[], float],
    open_tick: int | None,
    backlog: int,
    judge: RowJudge,
    source: str,
    report: SourceReport,
) -> Iterator[LiveBatch]:
    arrivals: queue.Queue[_Arrival | Exception | None] = queue.Queue(LINES_WAITING)
    ticks, parse = OpenTicks(options, open_tick), None
    position = getattr(stream, "position", 0)
    if options.format == "jsonl":
        parse = parser_for("jsonl", iter(()), options, source)
    catching_up = position < backlog and open_tick is not None
    if not catching_up:
        ticks.pass_to(clock())
    second = int(clock()) + 1  # ticks pass at whole seconds, whenever events arrive
    threading.Thread(target=_listen, args=(stream, options, clock, arrivals), daemon=True).start()
    failure: InputError | None = None
    while True:
        try:
            arrival = arrivals.get(timeout=min(1.0, max(0.0, second - clock())))
        except queue.Empty:
            catching_up = False  # wait for an unfinished last line as for any other
            ticks.pass_to(clock())
            yield ticks.take(position)
            second = int(clock()) + 1
            continue
        if arrival is None:
            break
        if isinstance(arrival, Exception):
            # never its text: only the system's own words are sure to quote no row
            reason = getattr(arrival, "strerror", None) or type(arrival).__name__
            failure = InputError(f"{source} cannot be read: {reason}")
            break
        if parse is None:
            parse = parser_for("csv", iter([(1, arrival.line)]), options, source)
            # a file that holds its header alone has no backlog
            position = max(position, arrival.position)
            catching_up = catching_up and position < backlog
            continue
        if arrival.now >= second:
            if not catching_up:
                ticks.pass_to(int(arrival.now))
            yield ticks.take(position)
            second = int(arrival.now) + 1
        position = max(position, arrival.position)
        report.rows_read += 1
        texts = arrival.line if isinstance(arrival.line, Reason) else parse(arrival.line)
        event = texts if isinstance(texts, Reason) else judge(texts)
        outcome = (
            event
            if isinstance(event, Reason)
            else ticks.add(event, arrival.now, catching_up=catching_up)
        )
        catching_up = catching_up and position < backlog
        if outcome is not None:
            report.skipped[outcome] += 1
        if len(ticks) >= FLUSH_ROWS:
            yield ticks.take(position)
    ticks.pass_to(clock())
    yield ticks.take(position)
    if failure is not None:
        raise failure


def _listen(
    stream: Lines,
    options: SourceOptions,
    clock: Callable[[], float],
    arrivals: queue.Queue[_Arrival | Exception | None],
) -> None:
    """Reads in its own thread, so that ticks pass while it waits; each line gets its arrival
    time."""
    try:
        for _, line in numbered_lines(stream, options.max_line_bytes):
            arrivals.put(_Arrival(line, clock(), getattr(stream, "position", 0)))
        arrivals.put(None)
    except Exception as error:  # whatever it is, the reader must not wait for ever
        closed = isinstance(error, ValueError) and getattr(stream, "closed", False)
        arrivals.put(None if closed else error)  # closed on our side: the caller wants to end


class GrowingFile:
    """A file that is read line by line as it grows; reading waits for the end of an unfinished
    line.

    Reading continues at ``position``; the header of a CSV file is still read first.
    """

    def __init__(self, path: str | Path, options: SourceOptions, position: int = 0) -> None:
        path = Path(path)
        require_file(path)
        self._file: BinaryIO = path.open("rb")
        self.size = path.stat().st_size
        if position > self.size:
            self._file.close()
            raise InputError(
                f"{path} is shorter than what was read of it; follow another file under another"
                " name"
            )
        self._header = (
            self._file.readline(options.max_line_bytes)
            if position and options.format == "csv"
            else b""
        )
        self.position = position
        self._file.seek(position)

    def readline(self, size: int = -1, /) -> bytes:
        """The next line, or its first ``size`` bytes; waits until there is one."""
        if self._header:
            header, self._header = self._header, b""
            return header
        parts: list[bytes] = []
        while True:
            part = self._file.readline(size - sum(map(len, parts)) if size >= 0 else -1)
            parts.append(part)
            self.position += len(part)
            if part.endswith(b"\n") or (size >= 0 and sum(map(len, parts)) >= size):
                return b"".join(parts)
            if not part:
                time.sleep(LOOK_SECONDS)

    @property
    def closed(self) -> bool:
        """Whether reading has ended."""
        return self._file.closed

    def close(self) -> None:
        """End reading; a thread that waits for a line ends too."""
        self._file.close()
