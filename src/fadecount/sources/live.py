"""Events from a pipe, line by line, as they happen: the standard library alone."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterator
from typing import BinaryIO

from fadecount.errors import InputError, bad_parameter
from fadecount.sources.files import People, parser_for
from fadecount.sources.lines import numbered_lines
from fadecount.sources.options import SourceOptions
from fadecount.sources.reading import Reading, Reason, SourceReport, TickBatch, bad_row, batches_of, no_rows
from fadecount.sources.rows import Event, RowJudge


class OpenTicks:
    """Adds events to open ticks, never to complete ones. It has no clock of its own: moments are handed in."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._tick_of = options.ticks.at
        self._people = People(options)
        self._counts: dict[tuple[int, int], int] = {}
        self._first_open: int | None = None
        self.rows = 0

    def pass_to(self, moment: float) -> None:
        """Complete every tick that ends by this moment. Time that goes back changes nothing."""
        tick = self._tick_of(int(moment // 1))
        if self._first_open is None or tick > self._first_open:
            self._first_open = tick
            self._people.forget_before(tick)
            self._counts.setdefault((tick, 0), 0)

    def add(self, event: Event, now: float) -> bool | Reason:
        """Count an event that arrived at ``now``: True, or False if it is beyond its person's limit, or why it is bad."""
        options = self._options
        if options.time is None:
            self.pass_to(now)
            tick = self._tick_of(int(now // 1))
        else:
            if event.seconds > now + options.grace_seconds + options.tick_seconds:
                return Reason.FUTURE  # else one wrong clock would complete the ticks of everybody
            self.pass_to(event.seconds - options.grace_seconds)
            tick = self._tick_of(event.seconds)
        assert self._first_open is not None
        place = (max(tick, self._first_open), event.key)
        if not self._people.accepts(place[0], event.person):
            return False
        self._counts[place] = self._counts.get(place, 0) + event.amount
        self.rows += 1
        return True

    def take(self, *, everything: bool = False) -> Iterator[TickBatch]:
        """What waits for complete ticks and for the first open one; ``everything`` at the end of the input."""
        first = self._first_open
        ready = {place: count for place, count in self._counts.items() if everything or (first is not None and place[0] <= first)}
        self._counts = {place: count for place, count in self._counts.items() if place not in ready}
        self.rows = 0
        yield from batches_of(ready)


FLUSH_SECONDS = 1.0
FLUSH_ROWS = 10_000
LINES_WAITING = 10_000

_Arrival = tuple[int, "bytes | Reason", float]


def read_lines(
    stream: BinaryIO,
    options: SourceOptions,
    clock: Callable[[], float] = time.time,
    *,
    source: str = "standard input",
) -> Reading:
    """The counts of events that arrive line by line: CSV with a header, or JSON lines (told apart by the first line).

    Without a time column, an event belongs to the tick in which it arrives, and ticks pass even while nothing arrives. With
    one, ticks pass as the times of the events do, ``grace_seconds`` behind the latest; an event for a tick that has passed
    counts in the open one. ``clock`` gives Unix seconds.

    Guarantees: ticks never go back; a tick that is about to be counted is announced with a count of zero, which says that all
    earlier ones are complete; what was read is yielded within about a second, or 10,000 rows; while nothing arrives, a batch
    without rows is yielded every second, so that whoever iterates can look up and stop. At a bad row with
    ``on_bad="stop"``, everything before it is yielded and then :class:`~fadecount.errors.BadRowError` is raised.
    """
    if options.format == "parquet":
        raise bad_parameter("format", options.format, "csv or jsonl for a pipe", "read a Parquet file by its path")
    report = SourceReport()
    return Reading(_batches(stream, options, clock, source, report), report)


def _batches(
    stream: BinaryIO, options: SourceOptions, clock: Callable[[], float], source: str, report: SourceReport
) -> Iterator[TickBatch]:
    arrivals: queue.Queue[_Arrival | OSError | None] = queue.Queue(LINES_WAITING)
    ticks, judge, parse = OpenTicks(options), RowJudge(options), None
    flushed = time.monotonic()
    failure: InputError | None = None
    if options.time is None:
        ticks.pass_to(clock())
    threading.Thread(target=_listen, args=(stream, options, clock, arrivals), daemon=True).start()
    while True:
        try:
            arrival = arrivals.get(timeout=FLUSH_SECONDS)
        except queue.Empty:
            if options.time is None:
                ticks.pass_to(clock())
            waiting = list(ticks.take())
            yield from waiting or [no_rows()]
            flushed = time.monotonic()
            continue
        if arrival is None:
            break
        if isinstance(arrival, OSError):
            failure = InputError(f"{source} cannot be read: {arrival.strerror}")
            break
        number, line, now = arrival
        if parse is None:
            header, parse = _first_line(line, options, source)
            if header:
                continue
        report.rows_read += 1
        texts = line if isinstance(line, Reason) else parse(line)
        event = texts if isinstance(texts, Reason) else judge(texts)
        outcome = event if isinstance(event, Reason) else ticks.add(event, now)
        if isinstance(outcome, Reason):
            if options.on_bad == "stop":
                failure = bad_row(source, "line", number, outcome)
                break
            report.skipped[outcome] += 1
        elif not outcome:
            report.rows_dropped += 1
        if ticks.rows >= FLUSH_ROWS or time.monotonic() - flushed >= FLUSH_SECONDS:
            yield from ticks.take()
            flushed = time.monotonic()
    yield from ticks.take(everything=True)
    if failure is not None:
        raise failure
    if parse is None:
        raise InputError(f"{source} is empty; there is nothing to count")


def _listen(
    stream: BinaryIO, options: SourceOptions, clock: Callable[[], float], arrivals: queue.Queue[_Arrival | OSError | None]
) -> None:
    """Reads in a thread of its own, so that ticks pass while it waits; each line is stamped when it arrives."""
    try:
        for number, line in numbered_lines(stream, options.max_line_bytes):
            arrivals.put((number, line, clock()))
        arrivals.put(None)
    except OSError as error:
        arrivals.put(error)
    except ValueError:  # the stream was closed on our side: whoever did that wants to end
        arrivals.put(None)


def _first_line(line: bytes | Reason, options: SourceOptions, source: str) -> tuple[bool, Callable[[bytes], list[str] | Reason]]:
    """Whether the first line is a header, and the parser for the others."""
    is_object = isinstance(line, bytes) and line.startswith(b"{")
    kind = options.format or ("jsonl" if is_object else "csv")
    return kind == "csv", parser_for(kind, iter([(1, line)]), options, source)
