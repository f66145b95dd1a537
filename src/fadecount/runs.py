"""Count the events of a file or pipe privately: the library form of ``fadecount run``.

>>> import io, fadecount as fc
>>> from fadecount.runs import run
>>> from fadecount.sources import SourceOptions
>>> visits = io.BytesIO(b"at\\n2026-03-01T10:10\\n2026-03-01T10:50\\n2026-03-01T12:30\\n")
>>> options = SourceOptions(tick="1h", time="at", format="csv")
>>> for piece in run(visits, options, mechanism=fc.Gradual(epsilon=50.0)):
...     print(piece.first_tick, piece.values[:, 0].tolist())
492322 [2, 2, 3]
"""

from __future__ import annotations

import json
import time
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, cast
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray

from fadecount.counters.inputs import add_up
from fadecount.durations import UNITS
from fadecount.errors import ClockError, InputError, ParameterError, bad_parameter
from fadecount.mechanisms import Discovery, Mechanism, Unit
from fadecount.noise import unpredictable
from fadecount.rounding import shown_loss
from fadecount.sources import (
    Earlier,
    Gate,
    History,
    LiveReading,
    SourceOptions,
    SourceReport,
    check_source,
    live,
    read,
)
from fadecount.sources.files import paths_of, require_file
from fadecount.sources.live import LiveRow
from fadecount.streams.calendar import BlockCalendar, calendar_of
from fadecount.streams.description import ONLY_KEY, Description, checked_keys
from fadecount.streams.discovery import Counts, HiddenKeys
from fadecount.streams.embargo import add_counts, count_ticks, drawn, new_machine
from fadecount.streams.figures import CELLS, Closed, FiguresInMemory
from fadecount.streams.loss import NO_GROUP, Group, GroupLoss, StreamLoss
from fadecount.streams.published import Published

if TYPE_CHECKING:
    from fadecount.mechanisms.unit import Noted
    from fadecount.sources.files import Frame, Source
    from fadecount.streams import Reader, Store, Stream, Ticks
    from fadecount.streams.status import Status

LARGEST_DAY = 1 << 24
"""Counts (ticks times keys) of a day that are released at once, where the unit is a day."""
LARGEST_RANGE = 50_000_000
"""The most ticks of a history; more are taken for wrong times."""


def run(
    source: Source,
    options: SourceOptions,
    *,
    mechanism: Mechanism | None = None,
    store: Store | None = None,
    name: str = "counts",
    start: datetime | None = None,
    until: datetime | None = None,
    follow: bool = False,
    finish: bool = False,
    planned: Unit | None = None,
    group: Group | None = None,
    discovery: Discovery | HiddenKeys | None = None,
    gate: Gate | None = None,
    clock: Callable[[], float] = time.time,
) -> Run:
    """Feed a stream from a source. Iterate over the result to run it; each step yields ticks that
    were closed, with the figures published. ``published`` answers questions about all of them.

    ``source`` is the path of a file (or those of several, which are counted as one), an open binary
    stream (a pipe), or a data frame of polars or pandas. It is **history** or **live**:

    - A file, a data frame, or a pipe with a time column, is history. It is read to its end; then
      its ticks are released.
    - With ``follow``, or a pipe without a time column, it is live. Ticks are released as they pass
      by the clock.

    Without a ``store`` nothing is kept: another run on the same events has new noise, and the
    losses add up.

    ``start`` (for a new stream) and ``until`` say which ticks are released; events outside are left
    out and reported. Without them, a history is released from its first to its last event, which
    reveals when these happened; a new stream of a store needs ``start``. Only ticks that are over
    by the clock are released: figures of later ones would be public before their time. A live
    stream begins with the tick in which it is started.

    When a live source ends, its open ticks stay open for the next run. With ``finish`` they are
    closed up to the current tick, for a stream that ends with its source.

    ``mechanism`` is the promise for one protected unit (``options.unit``). It may be left out for
    an existing stream; a different mechanism, tick or unit is refused.

    ``planned`` is the unit of the plan that the mechanism comes from: the mechanism is then used
    unchanged. ``group`` is for a new stream of a store: the streams that count the same people, and
    their promise.

    ``discovery`` says how undeclared keys of a new stream appear (``options.discover``). Such an
    event counts as hidden alone or, with ``options.other``, under that key too: then losses add up.

    ``gate`` is what a history must meet before anything of it is released (by default: half of its
    rows can be read, and no whole day is missing behind what the stream has published).

    Guarantees: each piece is committed before it is yielded, and stopping between two loses
    nothing. Rows that cannot be read are left out one by one. Which ticks are released, and when,
    depends on ``start``, ``until`` and the clock only, wherever these are given. The read position
    of a followed file is stored together with the events read so far.
    """
    live, paths = follow or options.time is None, paths_of(source)
    framed = hasattr(source, "columns")
    if options.time is None and (follow or framed or paths):
        raise ParameterError(
            "time must be given for everything but a pipe that is read live; it names the column of"
            " the time"
        )
    if follow and (framed or len(paths) > 1):
        raise ParameterError("follow must be given with one file; a data frame does not grow")
    begin, end, over = _tick_bounds(options, start, until, clock, live=live)
    if not live:
        check_source(source, options)  # before a stream is created
    elif gate is not None:
        raise ParameterError("gate must be left out for a live source, whose end is not known")
    elif paths:
        require_file(paths[0])
        options = replace(options, format=options.format_of(paths[0]))
    if isinstance(discovery, Discovery):
        discovery = HiddenKeys(discovery=discovery, other=options.other)
    if discovery is not None and not options.discover:
        raise ParameterError("discover must be given in the options with a discovery")
    keys = tuple(options.keys) if options.key is not None else (ONLY_KEY,)
    begins, unit = over if live and begin is None else begin, options.unit
    if mechanism is not None:
        mechanism = unit.scaled(mechanism, planned)
    stream: RunStream
    if store is not None:
        opened = store.open_or_create(
            name,
            tick=options.ticks,
            mechanism=mechanism,
            keys=keys,
            unit=unit,
            group=group,
            start_tick=begins,
            hidden=discovery,
        )
        _check_hidden(options, opened.description.hidden)
        stream = StoredStream(opened, store.reader())
    else:
        if group is not None:
            raise ParameterError("store must be given with a group; without one nothing is kept")
        if mechanism is None:
            raise ParameterError("mechanism must be given; such as fadecount.Gradual(epsilon=0.1)")
        description = Description(
            name=name,
            mechanism=mechanism,
            ticks=options.ticks,
            unit=unit,
            hidden=discovery,
        )
        _check_hidden(options, discovery)
        keys = checked_keys(keys, none=not description.needs_keys)
        stream = MemoryStream(description, keys, begins)
    _check_start(options.ticks, begin, stream.first_tick)
    if live:
        options = replace(options, first_tick=stream.first_tick, end_tick=end)
        lines = cast("str | Path | BinaryIO", paths[0] if paths else source)
        return _LiveRun(lines, options, stream, clock, finish=finish)
    options = replace(
        options,
        first_tick=stream.open_tick,
        late_from=stream.first_tick,
        end_tick=over if end is None else end,
    )
    return _HistoryRun(source, options, stream, gate or Gate(), last_event_ends=end is None)


def check(
    source: Source,
    options: SourceOptions,
    *,
    status: Status | None = None,
    start: datetime | None = None,
    until: datetime | None = None,
    gate: Gate | None = None,
    clock: Callable[[], float] = time.time,
) -> tuple[SourceReport, range | None, str | None]:
    """What :func:`run` would do with a history: the report on its rows, the ticks that would be
    released, and why it would be refused instead. Nothing is created, changed or released.

    ``status`` is that of the stream, if it exists. The cap of persons does not know what of them
    earlier runs have counted in the open tick.
    """
    begin, end, over = _tick_bounds(options, start, until, clock)
    if status is not None:
        _check_start(options.ticks, begin, status.first_tick)
        begin = status.last_tick + 1
    options = replace(
        options,
        first_tick=begin,
        late_from=None if status is None else status.first_tick,
        end_tick=over if end is None else end,
    )
    history, continues = read(source, options), status is not None and status.steps > 0
    try:
        released = _released(
            history, options, gate or Gate(), last_event_ends=end is None, continues=continues
        )
    except (InputError, ClockError) as error:
        return history.report, None, str(error)
    return history.report, released, None


def _tick_bounds(
    options: SourceOptions,
    start: datetime | None,
    until: datetime | None,
    clock: Callable[[], float],
    *,
    live: bool = False,
) -> tuple[int | None, int | None, int]:
    """The ticks of the given start and end, and the one that is not over by the clock. A history
    that ends later is refused."""
    ticks, zone = options.ticks, ZoneInfo(options.zone)
    begin, end = (
        None
        if moment is None
        else ticks.at((moment if moment.tzinfo else moment.replace(tzinfo=zone)).timestamp())
        for moment in (start, until)
    )
    over = ticks.at(clock())
    if not live and end is not None and end > over:
        bound = f"at most {ticks.local(over)}, when the last tick so far ended"
        remedy = "figures of later ticks would be public before their time"
        raise bad_parameter("until", ticks.local(end), bound, remedy)
    return begin, end, over


def _check_start(ticks: Ticks, begin: int | None, first: int | None) -> None:
    """Refuse another start than that of the stream, if it has one."""
    if begin is not None and first is not None and begin != first:
        bound = f"{ticks.local(first)}, where the stream began"
        raise bad_parameter("start", ticks.local(begin), bound, "leave it out")


def _released(
    history: History, options: SourceOptions, gate: Gate, *, last_event_ends: bool, continues: bool
) -> range | None:
    """The ticks to release: from the first wanted one or, if there is none, that of the first
    event. A history that the gate refuses releases nothing."""
    gate.check_rows(history.report)
    first, end, last = options.first_tick, options.end_tick, history.last_tick
    if last_event_ends:
        end = None if last is None else last + 1
    if first is None:
        first = history.first_tick
    if first is None or end is None:
        return None
    if end - first > LARGEST_RANGE:
        raise ClockError(
            f"range must be at most {LARGEST_RANGE:,} ticks, got {end - first:,}; check the"
            " times, or say where it ends"
        )
    if continues and end > first:
        event = end if history.first_tick is None else history.first_tick
        gate.check_gap(options.ticks, first, event)
    return range(first, end)


def _check_hidden(options: SourceOptions, hidden: HiddenKeys | None) -> None:
    """Refuse to read undeclared keys in another way than the stream counts them."""
    if options.discover != (hidden is not None):
        wanted = "given" if hidden is not None else "left out"
        bound = f"{wanted}, as for the stream, or with a discovery for a new one"
        remedy = "keys appear by themselves in all of a stream or not at all"
        raise bad_parameter("discover", options.discover, bound, remedy)
    if hidden is not None and hidden.other != options.other:
        bound = f"{hidden.other}, as the stream was created"
        raise bad_parameter("other", options.other, bound, "its loss counts on it")


def count(
    frame: Frame,
    options: SourceOptions,
    *,
    per: str | None = None,
    mechanism: Mechanism | None = None,
    store: Store | None = None,
    name: str = "counts",
    start: datetime | None = None,
    until: datetime | None = None,
    gate: Gate | None = None,
    discovery: Discovery | HiddenKeys | None = None,
) -> Frame:
    """A data frame of events (polars or pandas) in, a data frame of figures out, one row for each
    slot of the length ``per`` and key: start, end, key, value, low, high, status, partial,
    published. For notebooks. See :func:`fadecount.streams.export.published_tables` for the default.

    Without a ``store`` nothing is kept: counting the same events again publishes new noise, and the
    losses add up. With one, the stream continues where it stopped, and everything that it has
    published is returned.

    >>> import fadecount as fc, polars as pl
    >>> visits = pl.DataFrame({"at": ["2026-03-01T10:10", "2026-03-01T10:50", "2026-03-01T12:30"]})
    >>> options = SourceOptions(tick="1h", time="at")
    >>> hours = fc.Blocks(fc.Level(1, 20.0), fc.Level(24, 20.0))
    >>> fc.count(visits, options, per="1h", mechanism=hours)["value"].to_list()
    [2, 0, 1]
    """
    from fadecount.streams.export import published_frame

    under_way = run(
        frame,
        options,
        store=store,
        name=name,
        mechanism=mechanism,
        start=start,
        until=until,
        gate=gate,
        discovery=discovery,
    )
    under_way.check_per(per)
    for _ in under_way:
        pass
    return cast("Frame", published_frame(under_way.published, per=per))


class MemoryStream:
    """A stream that is kept nowhere: what it counts with, and the counts of its open tick.

    Nothing that it publishes can be read again, so nothing has to be committed before. It has no
    earlier runs: no persons, read positions or figures of them.
    """

    person_key = None
    group: GroupLoss | None = None

    def __init__(
        self, description: Description, keys: tuple[str, ...], open_tick: int | None
    ) -> None:
        self.description, self.keys, self.open_tick = description, keys, open_tick
        self.first_tick = open_tick
        self.steps = 0
        """How many ticks were closed."""
        self._machine = new_machine(description.mechanism, len(keys))
        self._counts = np.zeros(len(keys), dtype=np.int64)
        self._persons: dict[Hashable, int] = {}
        self._hidden: dict[str, int] = {}
        self._figures = FiguresInMemory()

    @property
    def loss(self) -> StreamLoss:
        """What has been lost by all that was published."""
        return self.description.loss(steps=self.steps)

    @property
    def published(self) -> Published:
        """What was published, for questions about it."""
        return _view(self, self.first_tick or 0, self.steps, self._figures)

    def earlier(self) -> None:
        """What earlier runs counted in the open tick: nothing."""

    def position(self, _source: str) -> None:
        """How far earlier runs have read a source: they have read nothing."""

    def add(self, rows: Sequence[LiveRow], _source: str, _position: bytes) -> int:
        """Count rows in the open tick, and return how many count: the others are beyond the cap of
        their person."""
        unit, hidden = self.description.unit, self.description.hidden
        counted = [
            (key, amount)
            for _, key, amount, person in rows
            if unit.of == "event" or unit.takes(self._persons, person, key)
        ]
        hidden_counts = Counter(key for key, _ in counted if isinstance(key, str))
        add_counts(self._hidden, hidden_counts.items())
        places = [each for each in counted if not isinstance(each[0], str)]
        if hidden is not None and hidden.other is not None:
            places.append((self.keys.index(hidden.other), hidden_counts.total()))
        keys, amounts = np.array(places, dtype=np.int64).reshape(-1, 2).T
        add_up(self._counts, keys, amounts)
        return len(counted)

    def release(
        self,
        first_tick: int,
        inputs: NDArray[np.int64],
        _persons: Mapping[Noted, int] | None = None,
        hidden: Counts | None = None,
    ) -> Iterator[Closed]:
        """Close a tick for each row of ``inputs``, from the open one on; what was added counts in
        the first. ``hidden`` keys are those of the day of these ticks."""
        begin = first_tick if self.first_tick is None else self.first_tick
        steps = self.steps + len(inputs)
        add_up(inputs[0], slice(None), self._counts)
        made = count_ticks(
            self._machine,
            inputs,
            first_tick,
            self.description.ticks,
            _calendar(self.description, begin, steps),
        )
        self._counts[:] = 0
        block_of, end = self.description.block_of, first_tick + len(inputs)
        add_counts(self._hidden, (hidden or {}).items())
        for day in range(block_of(first_tick), block_of(end)):
            self._persons.clear()
            if (appearing := self.description.hidden) is not None:
                persons = appearing.sampled(self._hidden, unpredictable(32))
                made += drawn(self.description, begin, day, persons)
            self._hidden = {}
        self.first_tick, self.steps, self.open_tick = begin, steps, end
        for _, rows in made:
            self._figures.add(rows)
        public = tuple(rows for tick, rows in made if tick <= end)
        yield Closed(first_tick=first_tick, last_tick=end - 1, figures=public)


class StoredStream:
    """A stream of a store: what it releases is committed, then published, then read back."""

    def __init__(self, stream: Stream, reader: Reader) -> None:
        self.description, self.keys = stream.description, stream.keys
        self._stream, self._reader, self._name = stream, reader, stream.description.name
        self._noted: int | None = None

    @property
    def first_tick(self) -> int:
        """The tick in which the stream began."""
        return self._stream.status.first_tick

    @property
    def open_tick(self) -> int:
        """The tick that is released next."""
        return self._stream.open_tick

    @property
    def loss(self) -> StreamLoss:
        """What has been lost by all that was released."""
        return self._stream.status.loss

    @property
    def group(self) -> GroupLoss | None:
        """What all streams of the stream's group together lose; None if it is in no group."""
        return self._reader.status(self._name).group

    @property
    def person_key(self) -> bytes:
        """The key of the digests of persons."""
        return self._stream.person_key

    def earlier(self) -> Earlier | None:
        """What of persons counts in the open tick already. If that grows until the next release,
        the release is refused: the cap would not hold."""
        if self.description.unit.of == "event":
            return None
        self._noted = self._stream.persons_noted
        counted = self._stream.persons_counted if self._noted else None
        return Earlier(key=self.person_key, counted=counted)

    def position(self, source: str) -> bytes | None:
        """How far earlier runs have read a source, as :meth:`add` was told."""
        return self._stream.position(source)

    def add(self, rows: Sequence[LiveRow], source: str, position: bytes) -> int:
        """Count rows in the open tick, together with how far their source has been read. Return
        how many count: the others are beyond the cap of their person."""
        from fadecount.streams.inputs import Events, ReadPosition

        where = ReadPosition(source=source, body=position)
        persons = [person for *_, person in rows]
        if self.description.unit.of == "person":
            persons = self._stream.hashes(persons)
        counts = ((key, 1, amount) for _, key, amount, _ in rows)
        entries = [(*count, person) for count, person in zip(counts, persons, strict=True)]
        return self._stream.accept([Events(entries)], position=where).counted

    def release(
        self,
        first_tick: int,
        inputs: NDArray[np.int64],
        persons: Mapping[Noted, int] | None = None,
        hidden: Counts | None = None,
    ) -> Iterator[Closed]:
        """Close a tick for each row of ``inputs``, from the open one on; what was added counts in
        the first. ``persons`` says what of each is in the day that stays open; ``hidden`` keys are
        those of the day of these ticks."""
        yield from self._stream.release(
            first_tick, inputs, noted=self._noted, persons=persons, hidden=hidden
        )
        self._noted = None if self._noted is None else 0

    @property
    def published(self) -> Published:
        """What was published, for questions about it."""
        return self._reader.stream(self._name)


RunStream = MemoryStream | StoredStream


class Run(Iterator[Closed]):
    """A run in progress: iterate over it. What it yields is published and, with a store,
    committed."""

    shows_range = False
    """Whether the first or last released tick reveals when the first or last event happened."""

    def __init__(self, options: SourceOptions, stream: RunStream) -> None:
        self.options, self.stream = options, stream
        self._releases = self._published()
        self._stopped = False

    @property
    @abstractmethod
    def report(self) -> SourceReport:
        """How many rows were read and left out so far. It is exact, so it is for the owner of the
        events only."""

    @property
    def ticks_expected(self) -> int | None:
        """How many ticks will be released, if that is known."""
        return None if self._range is None else len(self._range)

    @property
    def _range(self) -> range | None:
        """The ticks that will be released, if they are known."""
        return None

    @property
    def published(self) -> Published:
        """What the stream has published, by this run and before."""
        return self.stream.published

    def check_per(self, per: str | None) -> None:
        """Refuse a length of slots that the figures of this run cannot give, before anything is
        published."""
        if per is None or self._range is None:
            return
        first = self.stream.first_tick
        first = self._range.start if first is None else first
        _view(self.stream, first, self._range.stop - first, FiguresInMemory()).check_per(per)

    def stop(self) -> None:
        """End the run between two ticks; everything up to there is published."""
        self._stopped = True

    def close(self) -> None:
        """Close the source, also if nothing was read of it."""

    def summary(self) -> str:
        """One line for the reader of the releases: the protected unit, and its loss now, after a
        month and after a year."""
        description, loss = self.stream.description, self.stream.loss
        seconds = description.ticks.tick_seconds
        by_day, span = description.unit.per != "tick", description.span_seconds
        ages = [
            -(-span // seconds),
            *(max(1, -(-UNITS[unit] // seconds)) for unit in ("mo", "y")),
        ]
        now, month, year = (shown_loss(loss.at_age(age).epsilon) for age in ages)
        first = f"{now} by its end" if by_day else f"{now} when it is released"
        since = " from its start" if by_day else ""
        return (
            f"privacy loss (ε) for {description.unit.text}: at most {first}, "
            f"{month} after a month{since}, {year} after a year{loss.exception}; "
            + (NO_GROUP if self.stream.group is None else f"group {self.stream.group.text}")
        )

    def __next__(self) -> Closed:
        return next(self._releases)

    @abstractmethod
    def _published(self) -> Iterator[Closed]:
        """Release the ticks one chunk after the other; between two chunks the run may be
        stopped."""


class _HistoryRun(Run):
    """A file, or a pipe with times: read to its end, then released."""

    def __init__(
        self,
        source: Source,
        options: SourceOptions,
        stream: RunStream,
        gate: Gate,
        *,
        last_event_ends: bool,
    ) -> None:
        super().__init__(options, stream)
        self._source, self._gate, self._last_event_ends = source, gate, last_event_ends
        self._earlier = stream.earlier()
        self.shows_range = options.first_tick is None or last_event_ends

    @cached_property
    def _history(self) -> History:
        """Everything is read before anything is released: a source that fails in the middle
        releases nothing."""
        return read(self._source, self.options, earlier=self._earlier)

    @property
    def report(self) -> SourceReport:
        return self._history.report

    @cached_property
    def _range(self) -> range | None:
        return _released(
            self._history,
            self.options,
            self._gate,
            last_event_ends=self._last_event_ends,
            continues=self.stream.loss.steps > 0,
        )

    def _published(self) -> Iterator[Closed]:
        """The ticks in transactions that do not depend on where the events are."""
        wanted, history, width = self._range or range(0), self._history, len(self.stream.keys)
        for part in self._parts(wanted, width):
            begin, end = part.start, part.stop
            rows = np.zeros((len(part), width), dtype=np.int64)
            low, high = np.searchsorted(history.ticks, [begin, end])
            place = (history.ticks[low:high] - begin, history.keys[low:high])
            add_up(rows, place, history.counts[low:high])
            hidden = history.hidden(begin)
            yield from self.stream.release(begin, rows, self._persons_of(part), hidden)
            if self._stopped:
                return

    def _parts(self, wanted: range, width: int) -> Iterator[range]:
        """Ranges of one size or, where the unit is a person's day (hour, month), single days: what
        of persons is in a day that stays open must be noted with its ticks."""
        size = max(1, CELLS // max(1, width))
        if self.options.person_per == "tick":
            yield from (wanted[at : at + size] for at in range(0, len(wanted), size))
            return
        description, at = self.stream.description, wanted.start
        unit = description.unit
        if description.span_seconds // self.options.ticks.tick_seconds * width > LARGEST_DAY:
            raise ParameterError(
                f"ticks of a {unit.slot} times keys must be at most {LARGEST_DAY:,} where the unit"
                f" is a person's {unit.slot}; choose longer ticks or fewer keys"
            )
        while at < wanted.stop:
            following = description.ticks_of(description.block_of(at)).stop
            yield range(at, min(following, wanted.stop))
            at = following

    def _persons_of(self, part: range) -> Mapping[Noted, int] | None:
        """What of persons the part of a day holds, if the day stays open; None where the unit is no
        day. With it, the part is one transaction."""
        block_of = self.stream.description.block_of
        if self.options.person_per == "tick" or self.options.person is None:
            return None
        if block_of(part[-1]) != block_of(part.stop):
            return {}
        return self._history.persons(part[-1])


class _LiveRun(Run):
    """A pipe, or a file that grows: ticks are released as they pass by the clock.

    Events of ticks that are not open yet wait in the stored position, so that nothing is lost or
    counted twice by a restart.
    """

    def __init__(
        self,
        source: str | Path | BinaryIO,
        options: SourceOptions,
        stream: RunStream,
        clock: Callable[[], float],
        *,
        finish: bool,
    ) -> None:
        super().__init__(options, stream)
        self._clock, self._finish = clock, finish
        path = Path(source) if isinstance(source, str | Path) else None
        self._source = "-" if path is None else str(path.resolve())
        self._waiting: dict[int, list[LiveRow]] = {}
        self._unstored = False
        self._position = self._restore()
        self._file = None if path is None else live.GrowingFile(path, options, self._position)
        assert stream.open_tick is not None
        self._reading = LiveReading(
            self._file or cast(BinaryIO, source),
            options,
            clock=clock,
            open_tick=stream.open_tick,
            backlog=0 if self._file is None else self._file.size,
            person_key=stream.person_key,
            source="standard input" if path is None else self._source,
        )

    @property
    def report(self) -> SourceReport:
        return self._reading.report

    def _published(self) -> Iterator[Closed]:
        try:
            yield from self._arriving()
        finally:
            self.close()

    def close(self) -> None:
        if self._file is not None:
            self._file.close()

    def _arriving(self) -> Iterator[Closed]:
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
        from fadecount.streams.ticks import ClockState, read_clock

        now, open_tick = self._clock() - self.options.grace_seconds, self.stream.open_tick
        assert open_tick is not None
        reading = read_clock(self.options.ticks, open_tick, now)
        if reading.state is ClockState.AHEAD and self.stream.loss.steps:
            raise ClockError(reading.text)

    def _pass_to(self, target: int, position: int) -> Iterator[Closed]:
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
            nothing = np.zeros((1, len(self.stream.keys)), dtype=np.int64)
            yield from self.stream.release(begin, nothing)
            if self._stopped:
                return

    def _count(self, ticks: list[int], position: int) -> None:
        rows = [row for tick in ticks for row in self._waiting.pop(tick)]
        if not rows and position == self._position and not self._unstored:
            return
        self._position, self._unstored = position, False
        waiting = [
            [tick, key, amount, person.hex()]
            for each in self._waiting.values()
            for tick, key, amount, person in each
        ]
        body = json.dumps({"position": position, "waiting": waiting}).encode()
        self.report.rows_dropped += len(rows) - self.stream.add(rows, self._source, body)

    def _restore(self) -> int:
        """Restore the read position of an earlier run, and the events that it has read but not
        counted yet."""
        body = self.stream.position(self._source)
        if body is None:
            return 0
        stored = json.loads(body)
        for tick, key, amount, person in stored["waiting"]:
            self._waiting.setdefault(tick, []).append((tick, key, amount, bytes.fromhex(person)))
        return int(stored["position"])


def _view(stream: RunStream, first: int, steps: int, figures: FiguresInMemory) -> Published:
    return Published(
        description=stream.description,
        keys=stream.keys,
        first_tick=first,
        steps=steps,
        source=figures.rows,
        calendar=_calendar(stream.description, first, steps),
    )


def _calendar(description: Description, first_tick: int, steps: int) -> BlockCalendar | None:
    """The blocks of a stream that begins with a tick, for so many steps."""
    if not description.levels:
        return None
    calendar = calendar_of(description.mechanism, description.ticks, first_tick)
    return calendar and calendar.reaching(steps)
