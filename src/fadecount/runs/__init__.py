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

import time
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, BinaryIO, cast
from zoneinfo import ZoneInfo

from fadecount.durations import parse_time
from fadecount.errors import ClockError, InputError, ParameterError, bad_parameter
from fadecount.mechanisms import Discovery, Mechanism, Unit
from fadecount.runs.base import Run, StoredStream
from fadecount.runs.history import HistoryRun, released_ticks
from fadecount.sources import Gate, SourceOptions, SourceReport, check_source, read
from fadecount.sources.files import live_options, paths_of
from fadecount.sources.visits import PER_ADDRESS
from fadecount.streams.description import ONLY_KEY, Description, checked_keys
from fadecount.streams.discovery import HiddenKeys
from fadecount.streams.loss import Group
from fadecount.streams.memory import MemoryStream

if TYPE_CHECKING:
    from fadecount.sources.files import Frame, Source
    from fadecount.streams import Store
    from fadecount.streams.status import Status

__all__ = ["Run", "check", "count", "run"]


def run(
    source: Source,
    options: SourceOptions,
    *,
    mechanism: Mechanism | None = None,
    store: Store | None = None,
    name: str = "counts",
    start: datetime | str | None = None,
    until: datetime | str | None = None,
    follow: bool = False,
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
      by the clock. When it ends, its open ticks stay open for the next run.

    Without a ``store`` nothing is kept: another run on the same history has new noise, and the
    losses add up. A live source needs a store: a restart must know what was counted.

    ``start`` (for a new stream) and ``until`` say which ticks are released, as times or as ISO 8601
    in the zone of ``options``; events outside are left out and reported. Without them, a history is
    released from its first to its last event, which reveals when these happened; a new stream of a
    store needs ``start``. Only ticks that are over by the clock are released: figures of later ones
    would be public before their time. A live stream begins with the tick in which it is started.

    ``mechanism`` is the promise for one protected unit (``options.unit``). It may be left out for
    an existing stream; a different mechanism, tick or unit is refused.

    ``planned`` is the unit of the plan that the mechanism comes from: the mechanism is then used
    unchanged. ``group`` is for a new stream of a store: the streams that count the same people, and
    their promise.

    ``discovery`` says how undeclared keys of a new stream appear (``options.discover``). Such an
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
    if isinstance(discovery, Discovery):
        most = PER_ADDRESS if options.format == "log" else None
        discovery = HiddenKeys(discovery=discovery, other=options.other, per_address=most)
    keys = tuple(options.keys) if options.key is not None else (ONLY_KEY,)
    if mechanism is not None:
        if not isinstance(mechanism, Mechanism):
            remedy = "such as fadecount.Gradual(epsilon=0.1), or the mechanism of a plan"
            raise bad_parameter("mechanism", mechanism, "a fadecount mechanism", remedy)
        mechanism = options.unit.scaled(mechanism, planned)
    stream: MemoryStream | StoredStream
    if store is None:
        if group is not None:
            raise ParameterError("store must be given with a group; without one nothing is kept")
        if mechanism is None:
            raise ParameterError("mechanism must be given; such as fadecount.Gradual(epsilon=0.1)")
        _check_hidden(options, discovery)
        description = Description(
            name=name,
            mechanism=mechanism,
            ticks=options.ticks,
            unit=options.unit,
            hidden=discovery,
        )
        keys = checked_keys(keys, none=not description.needs_keys)
        stream = MemoryStream(description, keys, begin)
    else:
        reader = store.reader()
        if reader.has(name):
            _check_same(reader.status(name), options, begin)
        else:
            _check_hidden(options, discovery)
        writer = store.open_or_create(
            name,
            tick=options.ticks,
            mechanism=mechanism,
            keys=keys,
            unit=options.unit,
            group=group,
            start_tick=over if live and begin is None else begin,
            hidden=discovery,
        )
        stream = StoredStream(writer, reader)
        if live:
            from fadecount.runs.live import LiveRun

            options = replace(options, first_tick=stream.first_tick, end_tick=end)
            lines = paths[0] if paths else cast("BinaryIO", source)
            return LiveRun(lines, options, stream, clock)
    options = replace(
        options,
        first_tick=stream.open_tick,
        late_from=stream.first_tick,
        end_tick=over if end is None else end,
    )
    return HistoryRun(source, options, stream, gate or Gate(), last_event_ends=end is None)


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
    mechanism: Mechanism | None = None,
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
