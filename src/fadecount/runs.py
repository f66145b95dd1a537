"""Count the events of a file or pipe privately: the library form of ``fadecount run``.

>>> import io, fadecount as fc
>>> from fadecount.runs import run
>>> from fadecount.sources import SourceOptions
>>> visits = io.BytesIO(b"at\\n2026-03-01T10:10\\n2026-03-01T10:50\\n2026-03-01T12:30\\n")
>>> options = SourceOptions(tick_seconds=3600, time="at", format="csv")
>>> for piece in run(visits, options, mechanism=fc.Gradual(epsilon=50.0)):
...     print(piece.first_tick, piece.values[:, 0].tolist())
492322 [2, 2, 3]
"""

from __future__ import annotations

import importlib
import io
import json
import time
from abc import abstractmethod
from collections.abc import Callable, Hashable, Iterator
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, cast
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray

from fadecount.counters import Counter
from fadecount.counters.grid import add_up
from fadecount.durations import UNITS
from fadecount.errors import ClockError, InputError, ParameterError, bad_parameter
from fadecount.mechanisms import Mechanism
from fadecount.mechanisms.noise_law import half_widths
from fadecount.rounding import shown_loss
from fadecount.sources import (
    Reading,
    SourceOptions,
    SourceReport,
    TickBatch,
    read_file,
    read_frame,
    read_history,
    require_file,
)
from fadecount.sources.files import Earlier, has_polars
from fadecount.sources.rows import Lines, number_text
from fadecount.streams.description import ONLY_KEY, Description, checked_keys
from fadecount.streams.forks import StreamLoss
from fadecount.streams.releases import Monotone, Releases

if TYPE_CHECKING:
    import pandas
    import polars

    from fadecount.sources import GrowingFile
    from fadecount.streams import Chunk, Reader, Store, Stream, Windows

Row = tuple[int, int, int, bytes]
"""Tick, position of the key, amount, digest of the person."""
CELLS = 1 << 17
"""Counts (ticks times keys) that a history releases at once."""
LARGEST_RANGE = 50_000_000
"""The most ticks of a history; more are taken for wrong times."""


def run(
    source: str | Path | BinaryIO | polars.DataFrame,
    options: SourceOptions,
    *,
    mechanism: Mechanism | None = None,
    store: Store | None = None,
    name: str = "counts",
    start: datetime | None = None,
    until: datetime | None = None,
    follow: bool = False,
    finish: bool = False,
    planned_for_persons: bool = False,
    clock: Callable[[], float] = time.time,
) -> Run:
    """Feed a stream from a source. Iterate over the result to run it; each step yields published
    releases.

    ``source`` is the path of a file, an open binary stream (a pipe), or a data frame of polars. It
    is **history** or **live**:

    - A file, a data frame, or a pipe with a time column, is history. It is read to its end; then
      its ticks are released.
    - With ``follow``, or a pipe without a time column, it is live. Ticks are released as they pass
      by the clock.

    Without a ``store`` nothing is kept: another run on the same events has new noise, and the
    losses add up.

    ``start`` (for a new stream) and ``until`` say which ticks are released; events outside are left
    out and reported. Without them, a history is released from its first to its last event, which
    reveals when these happened. A live stream begins with the tick in which it is started.

    When a live source ends, its open ticks stay open for the next run. With ``finish`` they are
    closed up to the current tick, for a stream that ends with its source.

    ``mechanism`` is the promise for one protected unit (``options.unit``). It may be left out for
    an existing stream; a different mechanism, tick or unit is refused.

    With ``planned_for_persons`` the mechanism comes from a plan that counts the events of a person
    itself: it is used unchanged.

    Guarantees: each piece is committed before it is yielded, and stopping between two loses
    nothing. Rows that cannot be read are left out one by one. Which ticks are released, and when,
    depends on ``start``, ``until`` and the clock only, wherever these are given. The read position
    of a followed file is stored together with the events read so far.
    """
    live = follow or options.time is None
    ticks, path = options.ticks, Path(source) if isinstance(source, str | Path) else None
    if options.time is None and (follow or path is not None or hasattr(source, "collect_schema")):
        raise ParameterError(
            "time must be given for everything but a pipe that is read live; it names the column of"
            " the time"
        )
    if follow and hasattr(source, "collect_schema"):
        raise ParameterError("follow must not be given with a data frame, which does not grow")
    if path is not None and live:
        require_file(path)
        options = replace(options, format=options.format_of(path))
    begin, end = (
        None if moment is None else ticks.at(_seconds(moment, options.zone))
        for moment in (start, until)
    )
    if not live:
        _history(source, options)  # report missing options before a stream is created
    begins = ticks.at(clock()) if live and begin is None else begin
    stream = _stream(
        options, mechanism, store, name, begins, planned_for_persons=planned_for_persons
    )
    first = begins if isinstance(stream, MemoryStream) else stream.status.first_tick
    if first is not None and begin not in (None, first):
        raise bad_parameter(
            "start",
            ticks.shown(begin or 0),
            f"{ticks.shown(first)}, where {name!r} began",
            "leave it out",
        )
    reader = None if store is None else store.reader()
    if live:
        return _LiveRun(
            cast("str | Path | BinaryIO", source),
            replace(options, first_tick=first, end_tick=end),
            stream,
            reader,
            clock,
            finish=finish,
        )
    options = replace(options, first_tick=stream.open_tick, end_tick=end)
    if options.person is None or isinstance(stream, MemoryStream):
        return _HistoryRun(_history(source, options), options, stream, reader)
    noted, earlier = (
        stream.persons_noted,
        Earlier(key=stream.person_key, counted=stream.persons_counted),
    )
    return _HistoryRun(_history(source, options, earlier), options, stream, reader, noted)


def _stream(
    options: SourceOptions,
    mechanism: Mechanism | None,
    store: Store | None,
    name: str,
    start_tick: int | None,
    *,
    planned_for_persons: bool,
) -> Stream | MemoryStream:
    """The stream of the store, created if it is new; or one that is kept nowhere."""
    ticks, unit, keys = options.ticks, options.unit, options.keys or (ONLY_KEY,)
    if mechanism is not None and planned_for_persons:
        mechanism = mechanism.for_sensitivity(options.max_amount)
        description = Description(name=name, mechanism=mechanism, ticks=ticks, unit=unit)
        if store is None:
            return MemoryStream(description, checked_keys(keys), start_tick)
        if name not in store.names():
            return store.create(description, keys=keys, start_tick=start_tick)
        if store.reader().status(name).description.mechanism != mechanism:
            raise ParameterError(
                f"mechanism of stream {name!r} is fixed, got another one; leave it out, or choose"
                " another name"
            )
        mechanism = None
    if store is not None:
        return store.open_or_create(
            name, tick=ticks, mechanism=mechanism, keys=keys, unit=unit, start_tick=start_tick
        )
    if mechanism is None:
        raise ParameterError("mechanism must be given; such as fadecount.Gradual(epsilon=0.1)")
    description = Description(name=name, mechanism=unit.scaled(mechanism), ticks=ticks, unit=unit)
    return MemoryStream(description, checked_keys(keys), start_tick)


def count(
    frame: polars.DataFrame | pandas.DataFrame,
    options: SourceOptions,
    *,
    mechanism: Mechanism | None = None,
    store: Store | None = None,
    name: str = "counts",
    start: datetime | None = None,
    until: datetime | None = None,
) -> polars.DataFrame | pandas.DataFrame:
    """A data frame of events (polars or pandas) in, a data frame of releases out: tick, key, value,
    low, high. For notebooks.

    Without a ``store`` nothing is kept: counting the same events again publishes new noise, and the
    losses add up. With one, the stream continues where it stopped, and all its releases are
    returned.

    >>> import fadecount as fc, polars as pl
    >>> visits = pl.DataFrame({"at": ["2026-03-01T10:10", "2026-03-01T10:50", "2026-03-01T12:30"]})
    >>> options = SourceOptions(tick_seconds=3600, time="at")
    >>> fc.count(visits, options, mechanism=fc.Gradual(epsilon=50.0))["value"].to_list()
    [2, 2, 3]
    """
    from fadecount.streams.export import releases_table, to_frame

    source, events = _columns(frame, options), replace(options, format="jsonl")
    under_way = run(
        source, events, store=store, name=name, mechanism=mechanism, start=start, until=until
    )
    pieces = list(under_way)
    if store is not None:
        return store.reader().frame(name)
    ticks = options.ticks
    table = releases_table(pieces, under_way.stream.keys, ticks)
    return cast("polars.DataFrame | pandas.DataFrame", to_frame(table, ticks.zone))


def _columns(
    frame: polars.DataFrame | pandas.DataFrame, options: SourceOptions
) -> polars.DataFrame | BinaryIO:
    """The columns of a frame with their types. Columns of objects, and all columns where polars is
    missing, become text.

    Each cell becomes text by itself: a pandas column takes its type from all its cells, and one
    cell must not change the others.
    """
    fast = importlib.import_module("polars") if has_polars() else None
    if fast is not None and isinstance(frame, fast.DataFrame):
        return cast("polars.DataFrame", frame)
    columns: dict[str, Any] = {}
    for name in options.columns:
        if list(frame.columns).count(name) != 1:
            raise InputError(
                f"the data frame: the column {name!r} is not once among its {len(frame.columns)}"
                " columns; check its name"
            )
        column: Any = frame[name]
        if fast is not None and column.dtype.kind not in "Oc":
            columns[name] = fast.from_pandas(column)
            continue
        missing = column.isna().tolist()
        texts = [
            None if gone else _cell(value)
            for value, gone in zip(column.astype(object), missing, strict=True)
        ]
        columns[name] = texts if fast is None else fast.Series(texts, dtype=fast.String)
    if fast is not None:
        return cast("polars.DataFrame", fast.DataFrame(columns))
    rows = (dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True))
    return io.BytesIO("".join(json.dumps(row) + "\n" for row in rows).encode())


def _cell(value: object) -> str | None:
    """The text of a value: whole numbers have no decimals, whatever their type; infinity is
    missing."""
    if isinstance(value, float | np.floating | Decimal):
        return number_text(value if isinstance(value, Decimal) else float(value))
    return str(value).lower() if isinstance(value, bool | np.bool_) else str(value)


class MemoryStream:
    """A stream that is kept nowhere: a counter, and the counts of its open tick.

    It has what a run needs of a :class:`~fadecount.streams.Stream`. Nothing that it releases can be
    read again, so nothing has to be committed before it is published.
    """

    def __init__(
        self, description: Description, keys: tuple[str, ...], open_tick: int | None
    ) -> None:
        self.description, self.keys, self.open_tick = description, keys, open_tick
        self.first_tick = open_tick
        self._counter = Counter(description.mechanism, shape=(len(keys),))
        self._counts = np.zeros(len(keys), dtype=np.int64)
        self._persons: dict[Hashable, int] = {}
        self._released: list[NDArray[np.int64]] = []

    @property
    def steps(self) -> int:
        """How many ticks were released."""
        return self._counter.time

    @property
    def loss(self) -> StreamLoss:
        """What has been lost by all that was released."""
        unit = self.description.unit
        return StreamLoss(
            mechanism=self.description.mechanism,
            sensitivity=unit.per_key,
            keys=unit.keys,
            steps=self.steps,
        )

    def add(self, rows: list[Row]) -> int:
        """Count rows in the open tick, and return how many count: the others are beyond the cap of
        their person."""
        unit = self.description.unit
        counted = [
            (key, amount)
            for _, key, amount, person in rows
            if unit.of == "event" or unit.takes(self._persons, person, key)
        ]
        keys, amounts = np.array(counted, dtype=np.int64).reshape(-1, 2).T
        add_up(self._counts, keys, amounts)
        return len(counted)

    def release(self, first_tick: int, inputs: NDArray[np.int64]) -> Releases:
        """Close a tick for each row of ``inputs``, from the open one on; what was added counts in
        the first."""
        if self.first_tick is None:
            self.first_tick = first_tick
        add_up(inputs[0], slice(None), self._counts)
        before = self.steps
        values = cast("NDArray[np.int64]", self._counter.extend(inputs))
        self._counts[:] = 0
        self._persons.clear()
        self._released.append(values)
        self.open_tick = first_tick + len(values)
        return Releases(
            first_tick=first_tick,
            values=values,
            half_widths=half_widths(self.description.mechanism, before + 1, len(values)),
            released=values,
        )

    def windows(self, *, per: str, nonnegative: bool = False) -> Windows:
        """The counts of windows of time in everything that was released: see
        :meth:`Reader.windows <fadecount.streams.Reader.windows>`."""
        from fadecount.streams.windows import WindowCalendar, no_windows, window_ticks, windows_of

        ticks, mechanism, width = self.description.ticks, self.description.mechanism, len(self.keys)
        calendar = WindowCalendar(per=per, zone=ticks.zone)
        first, shown = self.first_tick, self.steps - mechanism.schedule.delay
        if first is None or shown <= 0:
            return no_windows(width)
        edges, at, partial = window_ticks(ticks, calendar, first, first + shown - 1)
        steps = np.where(at > first, at - first + mechanism.schedule.delay, 0)
        totals = np.concatenate([np.zeros((1, width), dtype=np.int64), *self._released])[steps]
        widths = np.full(len(steps), width, dtype=np.int64)
        windows = windows_of(mechanism, edges, partial, steps, totals, widths)
        return windows.nonnegative() if nonnegative else windows


class Run(Iterator[Releases]):
    """A run in progress: iterate over it. What it yields is published and, with a store,
    committed."""

    def __init__(
        self, options: SourceOptions, stream: Stream | MemoryStream, reader: Reader | None
    ) -> None:
        self.options, self.stream, self.reader = options, stream, reader
        self._pieces = self._published()
        self._stopped = self._viewed = False

    @property
    @abstractmethod
    def report(self) -> SourceReport:
        """How many rows were read and left out so far. It is exact, so it is for the owner of the
        events only."""

    @property
    def ticks_expected(self) -> int | None:
        """How many ticks will be released, if that is known."""
        return None

    @property
    def shows_range(self) -> bool:
        """Whether the first or last released tick reveals when the first or last event happened."""
        return False

    @property
    def loss(self) -> StreamLoss:
        """What has been lost by all that was released."""
        stream = self.stream
        return stream.loss if isinstance(stream, MemoryStream) else stream.status.loss

    def windows(self, *, per: str, since: int, nonnegative: bool = False) -> Windows:
        """The counts of windows of time in what was released from tick ``since`` on."""
        if isinstance(self.stream, MemoryStream):
            return self.stream.windows(per=per, nonnegative=nonnegative)
        assert self.reader is not None
        name = self.stream.description.name
        return self.reader.windows(name, per=per, since=since, nonnegative=nonnegative)

    def seen_through(self, view: Monotone, piece: Releases) -> NDArray[np.int64]:
        """The values of the next piece through a view. The view first takes everything released
        before this run."""
        if not self._viewed and self.reader is not None:
            name = self.stream.description.name
            for earlier in self.reader.releases(name, until=piece.first_tick):
                view.through(earlier.values)
        self._viewed = True
        return view.through(piece.values)

    def stop(self) -> None:
        """End the run between two ticks; everything up to there is published."""
        self._stopped = True

    def summary(self) -> str:
        """One line for the reader of the releases: the protected unit, and its loss now, after a
        month and after a year."""
        description, loss = self.stream.description, self.loss
        seconds = description.ticks.tick_seconds
        ages = [0, *(max(1, -(-UNITS[unit] // seconds)) for unit in ("mo", "y"))]
        now, month, year = (shown_loss(loss.at_age(age).epsilon) for age in ages)
        return (
            f"privacy loss (ε) for {description.unit.text}: at most {now} when it is released, "
            f"{month} after a month, {year} after a year"
        )

    def __next__(self) -> Releases:
        return next(self._pieces)

    def _published(self) -> Iterator[Releases]:
        """The releases of each chunk, once they are published."""
        for chunk in self._chunks():
            if isinstance(chunk, Releases):
                yield chunk
            else:
                assert self.reader is not None
                yield from self.reader.releases(
                    self.stream.description.name, since=chunk.first_tick, until=chunk.last_tick + 1
                )
            if self._stopped:
                return

    @abstractmethod
    def _chunks(self) -> Iterator[Chunk | Releases]:
        """Release the ticks one chunk after the other."""

    def _release(
        self, first_tick: int, inputs: NDArray[np.int64], noted: int | None = None
    ) -> Iterator[Chunk | Releases]:
        """Close a tick for each row of ``inputs``, from the open one on."""
        if isinstance(self.stream, MemoryStream):
            yield self.stream.release(first_tick, inputs)
        else:
            yield from self.stream.release(first_tick, inputs, noted=noted)


class _HistoryRun(Run):
    """A file, or a pipe with times: read to its end, then released."""

    def __init__(
        self,
        reading: Reading[TickBatch],
        options: SourceOptions,
        stream: Stream | MemoryStream,
        reader: Reader | None,
        noted: int | None = None,
    ) -> None:
        super().__init__(options, stream, reader)
        self._reading, self._noted = reading, noted
        self._batches: list[TickBatch] | None = None

    @property
    def report(self) -> SourceReport:
        return self._reading.report

    @property
    def shows_range(self) -> bool:
        return self.options.first_tick is None or self.options.end_tick is None

    @property
    def ticks_expected(self) -> int | None:
        batches, end, first = self._read(), self.options.end_tick, self._first()
        last = end - 1 if end is not None else (int(batches[-1].ticks[-1]) if batches else None)
        return None if first is None or last is None else max(0, last - first + 1)

    def _read(self) -> list[TickBatch]:
        """Everything is read before anything is released: a source that fails in the middle
        releases nothing."""
        if self._batches is None:
            self._batches = list(self._reading)
        return self._batches

    def _chunks(self) -> Iterator[Chunk | Releases]:
        """The ticks in transactions of one size, independent of where the events are."""
        batches = self._read()
        ticks, keys, counts = (
            (
                np.concatenate([getattr(batch, name) for batch in batches])
                if batches
                else np.empty(0, dtype=np.int64)
            )
            for name in ("ticks", "keys", "counts")
        )
        first, expected, width = self._first(), self.ticks_expected, len(self.stream.keys)
        if first is None or expected is None:
            return
        if expected > LARGEST_RANGE:
            raise ClockError(
                f"range must be at most {LARGEST_RANGE:,} ticks, got {expected:,}; check the times,"
                " or say where it ends"
            )
        size = max(1, CELLS // width)
        for begin in range(first, first + expected, size):
            rows = np.zeros((min(size, first + expected - begin), width), dtype=np.int64)
            low, high = np.searchsorted(ticks, [begin, begin + len(rows)])
            add_up(rows, (ticks[low:high] - begin, keys[low:high]), counts[low:high])
            yield from self._release(begin, rows, self._noted)
            self._noted = None if self._noted is None else 0

    def _first(self) -> int | None:
        """The first tick to release: the open one or, if the stream has not begun, that of the
        first event."""
        begin, batches = self.stream.open_tick, self._read()
        return begin if begin is not None or not batches else int(batches[0].ticks[0])


class _LiveRun(Run):
    """A pipe, or a file that grows: ticks are released as they pass by the clock.

    Events of ticks that are not open yet wait in the stored position, so that nothing is lost or
    counted twice by a restart.
    """

    def __init__(
        self,
        source: str | Path | BinaryIO,
        options: SourceOptions,
        stream: Stream | MemoryStream,
        reader: Reader | None,
        clock: Callable[[], float],
        *,
        finish: bool,
    ) -> None:
        from fadecount.sources.live import GrowingFile, read_live

        super().__init__(options, stream, reader)
        self._clock, self._finish = clock, finish
        path = Path(source) if isinstance(source, str | Path) else None
        self._source = "-" if path is None else str(path.resolve())
        self._keys = stream.keys
        self._waiting: dict[int, list[Row]] = {}
        self._unstored = False
        self._position = self._restore()
        lines: Lines = (
            GrowingFile(path, options, self._position)
            if path is not None
            else cast(BinaryIO, source)
        )
        self._lines = lines
        self._reading = read_live(
            lines,
            options,
            clock=clock,
            open_tick=stream.open_tick,
            backlog=lines.size if isinstance(lines, GrowingFile) else 0,
            person_key=None if isinstance(stream, MemoryStream) else stream.person_key,
            source=self._source if path is not None else "standard input",
        )

    @property
    def report(self) -> SourceReport:
        return self._reading.report

    def _chunks(self) -> Iterator[Chunk | Releases]:
        try:
            yield from self._arriving()
        finally:
            if self._source != "-":
                cast("GrowingFile", self._lines).close()

    def _arriving(self) -> Iterator[Chunk | Releases]:
        end = self.options.end_tick
        for batch in self._reading:
            self._check_clock()
            for row in batch.rows:
                self._waiting.setdefault(row[0], []).append(row)
                self._unstored = True
            target = batch.open_tick if end is None else min(end, batch.open_tick)
            yield from self._pass_to(target, batch.position)
            if self._stopped or target == end:
                return
        if self._finish:
            last = self.options.ticks.at(self._clock())
            for tick in [tick for tick in self._waiting if tick > last]:
                self._waiting.setdefault(last, []).extend(self._waiting.pop(tick))
            yield from self._pass_to(
                last + 1 if end is None else min(end, last + 1), self._position
            )

    def _check_clock(self) -> None:
        """End the run if the clock has jumped ahead, before anything is counted by it. A requested
        start is not a jump."""
        from fadecount.streams import ClockGuard, ClockState

        now = self._clock() - self.options.grace_seconds
        reading = ClockGuard().read(self.options.ticks, self.stream.open_tick, now)
        if reading.state is ClockState.AHEAD and self.loss.steps:
            raise ClockError(reading.text)

    def _pass_to(self, target: int, position: int) -> Iterator[Chunk | Releases]:
        """Store the events of the open tick, and close ticks up to ``target``.

        Each tick has its own transaction, whether events wait for it or not, so the grouping of
        ticks reveals nothing.
        """
        while True:
            begin = self.stream.open_tick
            assert begin is not None
            self._count([tick for tick in self._waiting if tick <= begin], position)
            if begin >= target:
                return
            yield from self._release(begin, np.zeros((1, len(self._keys)), dtype=np.int64))
            if self._stopped:
                return

    def _count(self, ticks: list[int], position: int) -> None:
        rows = [row for tick in ticks for row in self._waiting.pop(tick)]
        if not rows and position == self._position and not self._unstored:
            return
        self._position, self._unstored = position, False
        if isinstance(self.stream, MemoryStream):
            self.report.rows_dropped += len(rows) - self.stream.add(rows)
            return
        from fadecount.streams import Batch, ReadPosition

        waiting = [
            [tick, key, amount, person.hex()]
            for each in self._waiting.values()
            for tick, key, amount, person in each
        ]
        body = json.dumps({"position": position, "waiting": waiting}).encode()
        where = ReadPosition(source=self._source, body=body)
        if self.options.person is None:
            sums: dict[str, int] = {}
            for _, key, amount, _ in rows:
                sums[self._keys[key]] = sums.get(self._keys[key], 0) + amount
            self.stream.add_many(
                [Batch(counts=sums, largest_amount=self.options.max_amount)], position=where
            )
        else:
            keys, amounts = (np.array([row[at] for row in rows], dtype=np.int64) for at in (1, 2))
            self.report.rows_dropped += len(rows) - self.stream.add_rows(
                keys, amounts, [row[3] for row in rows], position=where
            )

    def _restore(self) -> int:
        """Restore the read position of an earlier run, and the events that it has read but not
        counted yet."""
        stream = self.stream
        body = None if isinstance(stream, MemoryStream) else stream.position(self._source)
        if body is None:
            return 0
        stored = json.loads(body)
        for tick, key, amount, person in stored["waiting"]:
            self._waiting.setdefault(tick, []).append((tick, key, amount, bytes.fromhex(person)))
        return int(stored["position"])


def _history(
    source: str | Path | BinaryIO | polars.DataFrame,
    options: SourceOptions,
    earlier: Earlier | None = None,
) -> Reading[TickBatch]:
    if isinstance(source, str | Path):
        return read_file(source, options, earlier=earlier)
    if hasattr(source, "collect_schema"):
        return read_frame(cast("polars.DataFrame", source), options, earlier=earlier)
    return read_history(source, options, earlier=earlier)


def _seconds(moment: datetime, zone: str) -> float:
    return (moment if moment.tzinfo else moment.replace(tzinfo=ZoneInfo(zone))).timestamp()
