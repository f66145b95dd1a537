"""Events as they happen, line by line, from a pipe or a file that grows, with the standard library
alone.

The tick that an event counts in depends on its own time, its own arrival and the clock, never on
other events. Ticks pass by the clock: a tick is over ``grace_seconds`` past its end, whether or not
anything arrives.
"""

from __future__ import annotations

import os
import queue
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from fadecount.errors import InputError
from fadecount.mechanisms.unit import Key, person_digest
from fadecount.noise import unpredictable
from fadecount.sources.files import line_format
from fadecount.sources.options import SourceOptions
from fadecount.sources.report import SourceReport
from fadecount.sources.rows import Event, Lines, Reason, Rules, Texts, numbered_lines, row_reader

FLUSH_ROWS = 10_000
LINES_WAITING = 10_000
LOOK_SECONDS = 0.2
START_BYTES = 4096
"""By how much of its beginning a followed file is known."""
AHEAD_SECONDS = 60
"""How far a time may be ahead of the clock, in addition to the grace: clocks of different machines
differ a little."""

LiveRow = tuple[int, Key, int, bytes]
"""Tick, key (position, or text of a hidden one), amount, digest of the person."""


@dataclass(frozen=True, slots=True, eq=False)
class LiveBatch:
    """Some events, and how far time and reading have come.

    No tick of ``rows`` is before ``open_tick`` of the batch before. Where persons do not matter,
    the rows of one tick and key are added up. Once the rows are stored, every tick before
    ``open_tick`` may be closed. ``position`` is the number of bytes read so far: everything before
    it is in this batch or an earlier one.
    """

    rows: list[LiveRow]
    open_tick: int
    position: int

    def __repr__(self) -> str:
        return f"LiveBatch({len(self.rows)} rows)"  # the counts are what is protected: never shown


@dataclass(frozen=True, slots=True)
class _Arrival:
    """The texts of a line (None: the header), the time at which it arrived, and the position after
    it."""

    texts: Texts | None
    now: float
    position: int


class LiveReading(Iterator[LiveBatch]):
    """The counts of events that arrive line by line; the options are those of
    :func:`~fadecount.sources.files.live_options`, CSV has a header.

    Without a time column, an event belongs to the tick in which it arrives. With one, it belongs to
    its own tick, or, if that is over, to the oldest tick that is not: ``open_tick`` at first; with
    ``late="drop"`` it is left out. An event more
    than a minute and ``grace_seconds`` ahead of the clock is left out by itself. ``clock`` gives
    Unix seconds.

    A ``stream`` with a ``position`` already holds ``backlog`` bytes: these are read before any tick
    passes, so that after a downtime each event still counts in its own tick.

    Persons are not counted here: their counts must survive the process, so the stream keeps them.
    ``person_key`` is the key of their digests.

    Guarantees: ticks pass while nothing arrives; what was read is yielded within about a second, or
    10,000 rows.
    """

    def __init__(
        self,
        stream: Lines,
        options: SourceOptions,
        *,
        clock: Callable[[], float],
        open_tick: int,
        backlog: int = 0,
        person_key: bytes | None = None,
        source: str = "standard input",
    ) -> None:
        self.report = SourceReport()
        self._stream, self._options, self._clock, self._source = stream, options, clock, source
        self._rules = Rules(options)
        self._person_key = person_key or unpredictable(32)
        self._arrivals: queue.Queue[_Arrival | Exception | None] = queue.Queue(LINES_WAITING)
        self._rows: list[LiveRow] = []
        self._open = open_tick
        self._position: int = getattr(stream, "position", 0)
        self._backlog = backlog
        self._batches = self._read()

    def __next__(self) -> LiveBatch:
        return next(self._batches)

    def _read(self) -> Iterator[LiveBatch]:
        clock = self._clock
        self._pass_to(clock())
        second = int(clock()) + 1  # ticks pass at whole seconds, whenever events arrive
        threading.Thread(target=self._listen, daemon=True).start()
        while True:
            try:
                arrival = self._arrivals.get(timeout=min(1.0, max(0.0, second - clock())))
            except queue.Empty:
                self._backlog = 0  # wait for an unfinished last line as for any other
                self._pass_to(clock())
                yield self._batch()
                second = int(clock()) + 1
                continue
            if arrival is None or isinstance(arrival, Exception):
                break
            if arrival.texts is not None:
                if arrival.now >= second:
                    self._pass_to(int(arrival.now))
                    yield self._batch()
                    second = int(arrival.now) + 1
                self.report.rows_read += 1
                event = self._rules.event(arrival.texts)
                reason = event if isinstance(event, Reason) else self._add(event, arrival.now)
                if reason is not None:
                    self.report.skipped[reason] += 1
            # also of a header: a file that holds it alone has no backlog
            self._position = max(self._position, arrival.position)
            if len(self._rows) >= FLUSH_ROWS:
                yield self._batch()
        self._backlog = 0
        self._pass_to(clock())
        yield self._batch()
        if isinstance(arrival, InputError):
            raise arrival
        if arrival is not None:
            # never its text: only the system's own words are sure to quote no row
            message = getattr(arrival, "strerror", None) or type(arrival).__name__
            raise InputError(f"{self._source} cannot be read: {message}")

    def _listen(self) -> None:
        """Read in a thread of its own, so that ticks pass while it waits."""
        try:
            for arrival in self._arriving():
                self._arrivals.put(arrival)
            self._arrivals.put(None)
        except Exception as error:  # whatever it is, the reader must not wait for ever
            closed = isinstance(error, ValueError) and getattr(self._stream, "closed", False)
            self._arrivals.put(None if closed else error)  # closed on our side: the caller ends it

    def _arriving(self) -> Iterator[_Arrival]:
        """The header, or what stands for it, and each line with its arrival time."""
        stream, options = self._stream, self._options
        lines = numbered_lines(stream, options.max_line_bytes)
        read_row = row_reader(line_format(options), lines, options, self._source)
        yield _Arrival(None, self._clock(), getattr(stream, "position", 0))
        for _, line in lines:
            yield _Arrival(read_row(line), self._clock(), getattr(stream, "position", 0))

    @property
    def _catching_up(self) -> bool:
        """Whether rows of before are read: ticks that are over by the clock still take them."""
        return self._position < self._backlog

    def _pass_to(self, now: float) -> None:
        """Advance past every tick that is over at ``now``, by the clock. Time that goes back
        changes nothing."""
        if not self._catching_up:
            self._open = max(self._oldest(now), self._open)

    def _oldest(self, now: float) -> int:
        """The oldest tick that is not over, by the clock."""
        return self._options.ticks.at(int((now - self._options.grace_seconds) // 1))

    def _add(self, event: Event, now: float) -> Reason | None:
        """Count an event that arrived at ``now`` in an open tick, or say why it is left out."""
        options = self._options
        if options.time is None:
            tick = options.ticks.at(int(now // 1))
        elif event.seconds > now + options.grace_seconds + AHEAD_SECONDS:
            return Reason.FUTURE
        else:
            tick = options.ticks.at(event.seconds)
        if options.first_tick is not None and tick < options.first_tick:
            return Reason.BEFORE
        if options.end_tick is not None and tick >= options.end_tick:
            return Reason.AFTER
        counted_in = max(tick, self._open, tick if self._catching_up else self._oldest(now))
        if counted_in > tick and options.late == "drop":
            return Reason.LATE
        amount = min(event.amount, options.max_amount)
        self.report.rows_cut += amount < event.amount
        person = person_digest(event.person, self._person_key) if event.person else b""
        self._rows.append((counted_in, event.key, amount, person))
        return None

    def _batch(self) -> LiveBatch:
        """Everything counted since the last batch."""
        rows, self._rows = self._rows, []
        if self._options.person is None:
            sums: dict[tuple[int, Key], int] = {}
            for tick, key, amount, _ in rows:
                sums[tick, key] = sums.get((tick, key), 0) + amount
            rows = [(tick, key, amount, b"") for (tick, key), amount in sums.items()]
        return LiveBatch(rows, self._open, self._position)


class GrowingFile:
    """A file that is read line by line as it grows; reading waits for the end of an unfinished
    line.

    Logs are rotated. Where another file has taken the place of this one, this one is read to its
    end, then the other from its beginning; a file that was cut short is read from its beginning.
    But what begins like the file that was read is a copy of it: its rows would count twice, so it
    is read from the same place on.

    Reading continues at ``position``, and in the file with the number ``inode``, which may have
    another name by now; the header of a CSV file is still read first. ``position`` goes on over
    several files, and :meth:`place` says where it is.
    """

    def __init__(
        self,
        path: str | Path,
        options: SourceOptions,
        position: int = 0,
        inode: int | None = None,
    ) -> None:
        self._path = Path(path)
        self.closed = False
        """Whether reading has ended."""
        self._file: BinaryIO = _opened(self._path, inode)
        own, there = os.fstat(self._file.fileno()), self._path.stat()
        self.size = own.st_size + (0 if os.path.samestat(own, there) else there.st_size)
        if position > own.st_size:
            self._file.close()
            raise InputError(
                f"{path} is shorter than what was read of it; follow another file under another"
                " name"
            )
        is_csv = options.format == "csv"
        self._title = self._file.readline(options.max_line_bytes) if is_csv else b""
        """The header of every file."""
        self._header = self._title if position else b""
        self.position = position
        self._file.seek(position)
        self._files = [(0, own.st_ino)]
        """The position at which each file begins, and its number."""
        self._start = b""
        """How this file begins, of what was read of it. It is never stored."""

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
                begun = self._files[-1][0]
                while not self._has_more():
                    time.sleep(LOOK_SECONDS)
                if self._files[-1][0] > begun and any(parts):  # of the file that has ended
                    return b"".join(parts)

    def place(self, position: int) -> tuple[int, int]:
        """Where a position is: how far in which file."""
        files = reversed(self._files)
        return next((position - begun, inode) for begun, inode in files if begun <= position)

    def _has_more(self) -> bool:
        """Whether there is more to read at the end of the file: in itself, in the one that has its
        place now, or at its beginning if it was cut short."""
        offset, own = self.position - self._files[-1][0], os.fstat(self._file.fileno())
        if own.st_size >= offset:
            start = os.pread(self._file.fileno(), START_BYTES, 0)[:offset]
            self._start = start if start.startswith(self._start) else self._start
        try:
            file = self._path.open("rb")
        except FileNotFoundError:  # it has been renamed, and nothing has its place yet
            return own.st_size > offset
        there, start = os.fstat(file.fileno()), os.pread(file.fileno(), len(self._start), 0)
        is_other, is_copy = not os.path.samestat(own, there), self._start.startswith(start)
        if is_other and os.fstat(self._file.fileno()).st_size > offset:
            file.close()
            return True  # written before the other file was
        if is_copy and (not is_other or there.st_size < offset):  # or too short to say
            file.close()
            return not is_other and there.st_size > offset
        skipped = 0
        if not is_copy:
            skipped = len(self._title) if start.startswith(self._title) else 0
            offset, self._start = skipped, b""
        self._files.append((self.position + skipped - offset, there.st_ino))
        self.position += skipped
        file.seek(offset)
        self._file.close()
        self._file = file
        if self.closed:  # meanwhile
            file.close()
        return True

    def close(self) -> None:
        """End reading; a thread that waits for a line ends too."""
        self.closed = True
        self._file.close()


def _opened(path: Path, inode: int | None) -> BinaryIO:
    """The file with this number: that of the path, or one beside it whose name begins like it."""
    if inode is None or path.stat().st_ino == inode:
        return path.open("rb")
    with os.scandir(path.parent) as beside:
        for each in beside:
            if each.inode() == inode and each.name.startswith(path.stem):
                return Path(each.path).open("rb")
    raise InputError(
        f"{path} is another file than the one that was read, which is not beside it any more; put"
        " that one back, or follow this one under another name"
    )
