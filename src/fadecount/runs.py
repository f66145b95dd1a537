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
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, cast
from zoneinfo import ZoneInfo

import numpy as np

from fadecount.counters.inputs import add_up
from fadecount.durations import UNITS, parse_time
from fadecount.errors import ClockError, InputError, ParameterError, bad_parameter
from fadecount.mechanisms import Discovery, Mechanism, PlanFile
from fadecount.rounding import shown_loss
from fadecount.sources import (
    Earlier,
    Gate,
    History,
    SourceOptions,
    SourceReport,
    check_source,
    read,
)
from fadecount.sources.files import live_options, paths_of
from fadecount.sources.visits import PER_ADDRESS
from fadecount.streams.clock import ClockState, read_clock
from fadecount.streams.description import ONLY_KEY, Description, checked_keys
from fadecount.streams.discovery import HiddenKeys
from fadecount.streams.figures import CELLS, Closed
from fadecount.streams.inputs import Events, ReadPosition
from fadecount.streams.loss import NO_GROUP, Group, GroupLoss
from fadecount.streams.published import Published
from fadecount.streams.store import MemoryStore
from fadecount.streams.stream import MOST_TICKS

if TYPE_CHECKING:
    from fadecount.mechanisms.unit import CapKey
    from fadecount.sources.files import Frame, Source
    from fadecount.sources.live import LiveRow
    from fadecount.streams import Store, Stream
    from fadecount.streams.status import Status

__all__ = ["Run", "check", "count", "run"]

LARGEST_DAY = 1 << 24
"""Counts (ticks times keys) of a day that are released at once, where the unit is a day."""


def run(
    source: Source,
    options: SourceOptions,
    *,
    mechanism: Mechanism | PlanFile | None = None,
    store: Store | None = None,
    name: str = "counts",
    start: datetime | str | None = None,
    until: datetime | str | None = None,
    follow: bool = False,
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
      by the clock. When it ends, its open ticks stay open for the next run.

    Without a ``store`` nothing is kept: another run on the same history has new noise, and the
    losses add up. A live source needs a store: a restart must know what was counted.

    ``start`` (for a new stream) and ``until`` say which ticks are released, as times or as ISO 8601
    in the zone of ``options``; events outside are left out and reported. Without them, a history is
    released from its first to its last event, which reveals when these happened; a new stream of a
    store needs ``start``. Only ticks that are over by the clock are released: figures of later ones
    would be public before their time. A live stream begins with the tick in which it is started.

    ``mechanism`` is the promise for one protected unit (``options.unit``), or a plan, which is used
    as it is. It may be left out for an existing stream; a different mechanism, tick or unit is
    refused. ``group`` is for a new stream of a store: the streams that count the same people, and
    their promise.

    ``discovery``, by default that of the plan, says how undeclared keys of a new stream appear
    (``options.discover``). Such an
    event counts as hidden alone or, with ``options.other``, under that key too: then losses add up,
    so plan with a share, such as ``discover={"1d": 0.5}``. Of an access log, few visitors of one
    address count under such a key, as in a website's stream
    (:data:`fadecount.sources.visits.PER_ADDRESS`).

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
    if live and store is None:
        remedy = "a restart must know what was counted"
        raise ParameterError(f"store must be given for a live source; {remedy}")
    begin, end, over = _tick_bounds(options, start, until, clock, live=live)
    if not live:
        check_source(source, options)  # before a stream is created
    elif gate is not None:
        raise ParameterError("gate must be left out for a live source, whose end is not known")
    else:
        options = live_options(paths[0] if paths else None, options)
    plan = None if mechanism is None else PlanFile.of(mechanism)
    if plan is not None and options.discover and discovery is None:
        plan.require_room(options.other)
        discovery = plan.discovery
    if isinstance(discovery, Discovery):
        most = PER_ADDRESS if options.format == "log" else None
        discovery = HiddenKeys(discovery=discovery, other=options.other, per_address=most)
    keys = tuple(options.keys) if options.key is not None else (ONLY_KEY,)
    seconds = options.ticks.tick_seconds
    fitted = None if plan is None else plan.mechanism_for(options.unit, seconds)
    gate, last_event_ends = gate or Gate(), end is None
    end_tick = end if live else over if end is None else end
    if store is None:
        if group is not None:
            raise ParameterError("store must be given with a group; without one nothing is kept")
        if fitted is None:
            raise ParameterError("mechanism must be given; such as fadecount.Gradual(epsilon=0.1)")
        _check_hidden(options, discovery)
        description = Description(
            name=name,
            mechanism=fitted,
            ticks=options.ticks,
            unit=options.unit,
            hidden=discovery,
        )
        keys = checked_keys(keys, none=not description.needs_keys)
        options = replace(options, first_tick=begin, late_from=begin, end_tick=end_tick)
        memory = MemoryStore()
        return HistoryRun(
            source, options, gate, memory, description, keys, last_event_ends=last_event_ends
        )
    if store.reader().has(name):
        _check_same(store.reader().status(name), options, begin)
    else:
        _check_hidden(options, discovery)
    stream = store.open_or_create(
        name,
        tick=options.ticks,
        mechanism=fitted,
        keys=keys,
        unit=options.unit,
        group=group,
        start_tick=over if live and begin is None else begin,
        hidden=discovery,
    )
    first_tick = stream.status.first_tick
    if live:
        options = replace(options, first_tick=first_tick, end_tick=end_tick)
        lines = paths[0] if paths else cast("BinaryIO", source)
        return LiveRun(lines, options, store, stream, clock)
    options = replace(options, first_tick=stream.open_tick, late_from=first_tick, end_tick=end_tick)
    return HistoryRun(
        source,
        options,
        gate,
        store,
        stream.description,
        stream.keys,
        stream,
        last_event_ends=last_event_ends,
    )


def check(
    source: Source,
    options: SourceOptions,
    *,
    status: Status | None = None,
    start: datetime | str | None = None,
    until: datetime | str | None = None,
    gate: Gate | None = None,
    clock: Callable[[], float] = time.time,
) -> tuple[SourceReport, range, str | None]:
    """What :func:`run` would do with a history: the report on its rows, the ticks that would be
    released, and why it would be refused instead. Nothing is created, changed or released.

    ``status`` is that of the stream, if it exists. The cap of persons does not know what of them
    earlier runs have counted in the open tick.
    """
    begin, end, over = _tick_bounds(options, start, until, clock)
    if status is not None:
        _check_same(status, options, begin)
        begin = status.last_tick + 1
    options = replace(
        options,
        first_tick=begin,
        late_from=None if status is None else status.first_tick,
        end_tick=over if end is None else end,
    )
    history, continues = read(source, options), status is not None and status.steps > 0
    try:
        released = released_ticks(
            history, options, gate or Gate(), last_event_ends=end is None, continues=continues
        )
    except (InputError, ClockError) as error:
        return history.report, range(0), str(error)
    return history.report, released, None


def _tick_bounds(
    options: SourceOptions,
    start: datetime | str | None,
    until: datetime | str | None,
    clock: Callable[[], float],
    *,
    live: bool = False,
) -> tuple[int | None, int | None, int]:
    """The ticks of the given start and end, and the one that is not over by the clock. A history
    that ends later is refused."""
    ticks, zone = options.ticks, ZoneInfo(options.zone)
    bounds: list[int | None] = []
    for name, given in (("start", start), ("until", until)):
        moment = parse_time(given, options.zone, name=name) if isinstance(given, str) else given
        if moment is not None and moment.tzinfo is None:
            moment = moment.replace(tzinfo=zone)
        bounds.append(None if moment is None else ticks.at(moment.timestamp()))
    begin, end = bounds
    if begin is not None and end is not None and end < begin:
        bound = f"at or after start, {ticks.local(begin)}"
        raise bad_parameter("until", ticks.local(end), bound, "it is when the last tick ends")
    over = ticks.at(clock())
    if not live and end is not None and end > over:
        bound = f"at most {ticks.local(over)}, when the last tick so far ended"
        remedy = "figures of later ticks would be public before their time"
        raise bad_parameter("until", ticks.local(end), bound, remedy)
    return begin, end, over


def _check_same(status: Status, options: SourceOptions, begin: int | None) -> None:
    """Refuse to read events in another way than the stream counts them, and another start than
    its own."""
    ticks, first = options.ticks, status.first_tick
    status.description.require_same(ticks=ticks, unit=options.unit)
    _check_hidden(options, status.description.hidden)
    if begin is not None and begin != first:
        bound = f"{ticks.local(first)}, where the stream began"
        raise bad_parameter("start", ticks.local(begin), bound, "leave it out")


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
    mechanism: Mechanism | PlanFile | None = None,
    store: Store | None = None,
    name: str = "counts",
    start: datetime | str | None = None,
    until: datetime | str | None = None,
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


def released_ticks(
    history: History, options: SourceOptions, gate: Gate, *, last_event_ends: bool, continues: bool
) -> range:
    """The ticks to release: from the first wanted one or, if there is none, that of the first
    event. A history that the gate refuses releases nothing."""
    gate.check_rows(history.report)
    first, end, last = options.first_tick, options.end_tick, history.last_tick
    if last_event_ends:
        end = None if last is None else last + 1
    if first is None:
        first = history.first_tick
    if first is None or end is None:
        return range(0)
    if end - first > MOST_TICKS:
        raise ClockError(
            f"range must be at most {MOST_TICKS:,} ticks, got {end - first:,}; check the"
            " times, or say where it ends"
        )
    if continues and end > first:
        event = end if history.first_tick is None else history.first_tick
        gate.check_gap(options.ticks, first, event)
    return range(first, end)


class Run(Iterator[Closed]):
    """A run in progress: iterate over it. What it yields is published and, with a store,
    committed."""

    live = False
    """Whether ticks are released by the clock."""
    shows_range = False
    """Whether the first or last released tick reveals when the first or last event happened."""

    def __init__(self, options: SourceOptions, store: Store, description: Description) -> None:
        self.options, self.description, self._reader = options, description, store.reader()
        self._releases = self._published()
        self.stopped = False
        """Whether the run ends between two ticks."""

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
    def published(self) -> Published:
        """What the stream has published, by this run and before."""
        return self._reader.stream(self.description.name)

    @property
    def group(self) -> GroupLoss | None:
        """What all streams of the stream's group together lose; None if it is in no group."""
        described = self.description
        return None if described.group is None else self._reader.status(described.name).group

    def check_per(self, per: str | None) -> None:
        """Refuse a length of slots that the figures of this run cannot give, before anything is
        published, if that is known."""

    def stop(self) -> None:
        """End the run between two ticks; everything up to there is published."""
        self.stopped = True

    def close(self) -> None:
        """Close the source, also if nothing was read of it."""

    def summary(self) -> str:
        """One line for the reader of the figures: the protected unit, and its loss now, after a
        month and after a year."""
        description, loss, group = self.description, self.description.loss, self.group
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
            + (NO_GROUP if group is None else f"group {group.text}")
        )

    def __next__(self) -> Closed:
        return next(self._releases)

    @abstractmethod
    def _published(self) -> Iterator[Closed]:
        """Release the ticks one chunk after the other; between two chunks the run may be
        stopped."""


class HistoryRun(Run):
    """Everything is read before anything is released: a source that fails in the middle releases
    nothing."""

    def __init__(
        self,
        source: Source,
        options: SourceOptions,
        gate: Gate,
        store: Store,
        description: Description,
        keys: tuple[str, ...],
        stream: Stream | None = None,
        *,
        last_event_ends: bool,
    ) -> None:
        """Without a ``stream``, one is created in the ``store``."""
        super().__init__(options, store, description)
        self._source, self._gate, self._last_event_ends = source, gate, last_event_ends
        self._store, self._keys, self._stream = store, keys, stream
        self._earlier: Earlier | None = None
        self._noted: int | None = None
        if stream is not None and description.unit.of == "person":
            # if that grows before the ticks are closed, they are refused: the cap would not hold
            self._noted = stream.persons_noted
            counted = stream.persons_counted if self._noted else None
            self._earlier = Earlier(key=stream.person_key, counted=counted)
        self.shows_range = options.first_tick is None or last_event_ends

    @cached_property
    def stream(self) -> Stream:
        """What counts the history. That of a one-off begins with the first released tick."""
        if self._stream is not None:
            return self._stream
        first = self._range.start
        return self._store.create(self.description, keys=self._keys, start_tick=first)

    @cached_property
    def _history(self) -> History:
        hidden = self.description.hidden
        most = None if hidden is None else hidden.per_address
        return read(self._source, self.options, earlier=self._earlier, per_address=most)

    @property
    def report(self) -> SourceReport:
        return self._history.report

    @cached_property
    def _range(self) -> range:
        return released_ticks(
            self._history,
            self.options,
            self._gate,
            last_event_ends=self._last_event_ends,
            continues=self._stream is not None and self._stream.status.steps > 0,
        )

    @property
    def ticks_expected(self) -> int:
        return len(self._range)

    def check_per(self, per: str | None) -> None:
        if per is not None and self._range:
            begun = self.stream.status
            steps = self._range.stop - begun.first_tick
            calendar = begun.calendar and begun.calendar.reaching(steps)
            Published(
                description=self.description,
                keys=self._keys,
                first_tick=begun.first_tick,
                steps=steps,
                source=lambda *_: (),
                calendar=calendar,
            ).check_per(per)

    def _published(self) -> Iterator[Closed]:
        """The ticks in transactions that do not depend on where the events are."""
        history, width = self._history, len(self._keys)
        for part in self._parts(self._range, width):
            begin, end = part.start, part.stop
            rows = np.zeros((len(part), width), dtype=np.int64)
            low, high = np.searchsorted(history.ticks, [begin, end])
            place = (history.ticks[low:high] - begin, history.keys[low:high])
            add_up(rows, place, history.counts[low:high])
            yield from self.stream.release(
                begin,
                rows,
                noted=self._noted,
                persons=self._persons_of(part),
                hidden=history.hidden(begin),
            )
            self._noted = None if self._noted is None else 0
            if self.stopped:
                return

    def _parts(self, wanted: range, width: int) -> Iterator[range]:
        """Ranges of one size or, where the unit is a person's day (hour, month), single days: what
        of persons is in a day that stays open must be noted with its ticks."""
        size = max(1, CELLS // max(1, width))
        if self.options.person_per == "tick":
            yield from (wanted[at : at + size] for at in range(0, len(wanted), size))
            return
        description, at = self.description, wanted.start
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

    def _persons_of(self, part: range) -> Mapping[CapKey, int] | None:
        """What of persons the part of a day holds, if the day stays open; None where the unit is no
        day, or nothing is kept. With it, the part is one transaction."""
        block_of = self.description.block_of
        if self.options.person_per == "tick" or self._earlier is None:
            return None
        if block_of(part[-1]) != block_of(part.stop):
            return {}
        return self._history.persons(part[-1])


class LiveRun(Run):
    """Ticks are released as they pass by the clock.

    Events of ticks that are not open yet wait in the stored position, so that nothing is lost or
    counted twice by a restart.
    """

    live = True

    def __init__(
        self,
        source: Path | BinaryIO,
        options: SourceOptions,
        store: Store,
        stream: Stream,
        clock: Callable[[], float],
    ) -> None:
        from fadecount.sources import live

        super().__init__(options, store, stream.description)
        self.stream, self._clock = stream, clock
        path = source if isinstance(source, Path) else None
        self._source = "-" if path is None else str(path.resolve())
        self._waiting: dict[int, list[LiveRow]] = {}
        self._unstored = False
        self._position, inode = self._restore()
        self._file = (
            None if path is None else live.GrowingFile(path, options, self._position, inode)
        )
        self._reading = live.LiveReading(
            self._file or cast("BinaryIO", source),
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

    def close(self) -> None:
        if self._file is not None:
            self._file.close()

    def _published(self) -> Iterator[Closed]:
        end = self.options.end_tick
        try:
            for batch in self._reading:
                self._check_clock()
                for row in batch.rows:
                    self._waiting.setdefault(row[0], []).append(row)
                    self._unstored = True
                target = batch.open_tick if end is None else min(end, batch.open_tick)
                yield from self._pass_to(target, batch.position)
                self.stream.scrub()  # what is owed since two ticks closed within a minute
                if self.stopped or target == end:
                    return
        finally:
            self.close()

    def _check_clock(self) -> None:
        """End the run if the clock has jumped ahead, before anything is counted by it. A requested
        start is not a jump."""
        now = self._clock() - self.options.grace_seconds
        reading = read_clock(self.options.ticks, self.stream.open_tick, now)
        if reading.state is ClockState.AHEAD and self.stream.status.steps:
            raise ClockError(reading.text)

    def _pass_to(self, target: int, position: int) -> Iterator[Closed]:
        """Store the events of the open tick, and close ticks up to ``target``.

        Each tick has its own transaction, whether events wait for it or not, so the grouping of
        ticks reveals nothing.
        """
        while True:
            begin = self.stream.open_tick
            self._count([tick for tick in self._waiting if tick <= begin], position)
            if begin >= target:
                return
            yield from self.stream.close_through(begin)
            if self.stopped:
                return

    def _count(self, ticks: list[int], position: int) -> None:
        """Count what waits for these ticks in the open one, together with how far the source has
        been read, and what waits for others."""
        rows = [row for tick in ticks for row in self._waiting.pop(tick)]
        if not rows and position == self._position and not self._unstored:
            return
        self._position, self._unstored = position, False
        waiting = [
            [tick, key, amount, person.hex()]
            for each in self._waiting.values()
            for tick, key, amount, person in each
        ]
        offset, inode = (position, None) if self._file is None else self._file.place(position)
        body = json.dumps({"position": offset, "inode": inode, "waiting": waiting}).encode()
        persons = [person for *_, person in rows]
        if self.description.unit.of == "person":
            persons = self.stream.hashes(persons)
        counts = ((key, 1, amount) for _, key, amount, _ in rows)
        entries = [(*count, person) for count, person in zip(counts, persons, strict=True)]
        where = ReadPosition(source=self._source, body=body)
        accepted = self.stream.accept([Events(entries)], position=where)
        self.report.rows_dropped += len(rows) - accepted.counted

    def _restore(self) -> tuple[int, int | None]:
        """Restore the read position of an earlier run, in which file it is, and the events that it
        has read but not counted yet."""
        body = self.stream.position(self._source)
        if body is None:
            return 0, None
        stored = json.loads(body)
        for tick, key, amount, person in stored["waiting"]:
            self._waiting.setdefault(tick, []).append((tick, key, amount, bytes.fromhex(person)))
        return int(stored["position"]), stored["inode"]
