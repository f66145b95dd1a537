"""Routes that read: streams, releases, windows, and what they cost. They see published releases and
public facts, nothing else.

Each answer is made on a thread and kept in memory until the next tick of its stream is closed. Each
has an entity tag, so a reader who has it already gets a status 304.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from urllib.parse import parse_qsl, urlencode

import numpy as np

from fadecount.durations import UNITS, parse_duration
from fadecount.service.answers import (
    CountedWindow,
    PrivacyCurve,
    PrivacyLosses,
    ReleasedRow,
    ReleasedTick,
    ReleasedValue,
    ReleasePage,
    StreamPage,
    WindowPage,
)
from fadecount.service.fading_curve import FadingCurve
from fadecount.service.http import JSON, Answer, Call, Tagged, tagged_json, wants_csv
from fadecount.service.metrics import Metrics
from fadecount.service.parsing import (
    MOST_ROWS,
    PrivacyQuery,
    RangeQuery,
    ReleasesQuery,
    StreamsQuery,
    WindowsQuery,
    length_of,
)
from fadecount.service.problems import bad_request, not_found, refusing
from fadecount.service.reader_pool import PublicStream, ReaderPool
from fadecount.service.settings import Clock
from fadecount.service.stream_info import StreamInfo, stream_info
from fadecount.service.tokens import Access
from fadecount.streams.export import COLUMNS, Table, csv_text, figures_table, table_rows
from fadecount.streams.published import Figures, no_figures
from fadecount.streams.reader import Reader
from fadecount.streams.status import Status
from fadecount.streams.ticks import iso_time
from fadecount.streams.windows import WindowCalendar

CSV = "text/csv; charset=utf-8"
MOST_VISITS = 10_000
MOST_CELLS = 1_000_000
"""Windows times keys that one request may read."""

LONGEST_WINDOW = 1000 * UNITS["y"]
WHOLE_TICKS = "per must be made of whole ticks of the stream, such as 1h or 1d"


@dataclass(slots=True, kw_only=True)
class ReadContext:
    """What reading routes work with."""

    pool: ReaderPool
    access: Access
    clock: Clock
    public: bool
    metrics: Metrics
    files: Mapping[str, Tagged]
    state_of: Callable[[str], str]
    """What the process that writes says of a stream."""
    trouble: Callable[[], str | None]
    """Why the service is not ready; None if it is."""
    live_readers: int = 0

    async def stream(self, call: Call) -> PublicStream:
        """The stream of a request."""
        return await self.pool.stream(call.stream_name, call)

    def info(self, status: Status, keys: tuple[str, ...] = ()) -> StreamInfo:
        """What is public about a stream now."""
        return stream_info(status, self.state_of(status.description.name), self.clock.now(), keys)

    def answer(self, call: Call, tagged: Tagged) -> Answer:
        """The answer to a request, or status 304."""
        return tagged.answer(call, public=self.public)


async def list_streams(context: ReadContext, call: Call) -> Answer:
    """The streams that the token may see, in pages."""
    query: StreamsQuery = call.query
    only = call.grant.stream if call.grant else None

    def read(reader: Reader) -> list[Status]:
        if only is None:
            return reader.statuses(after=query.cursor, limit=query.limit + 1)
        return [reader.status(only)] if reader.has(only) else []

    statuses = await context.pool.ask(read, call)
    streams = [context.info(each) for each in statuses[: query.limit]]
    following = streams[-1].name if len(statuses) > query.limit else None
    return context.answer(call, tagged_json(StreamPage(streams, next=following)))


async def get_stream(context: ReadContext, call: Call) -> Answer:
    """What is public about a stream."""
    stream = await context.stream(call)
    return context.answer(call, tagged_json(context.info(stream.status, stream.keys)))


async def get_releases(context: ReadContext, call: Call) -> Answer:
    """Released counts, oldest first, in pages; JSON or CSV."""
    return await _table(context, call, _page)


async def get_windows(context: ReadContext, call: Call) -> Answer:
    """Counts of hours, days, weeks or months, with exact intervals; JSON or CSV. They cost no
    privacy."""
    return await _table(context, call, _windows)


async def _table(
    context: ReadContext, call: Call, make: Callable[[PublicStream, Call, bool, Reader], Tagged]
) -> Answer:
    stream, as_csv = await context.stream(call), wants_csv(call)
    question = (make.__name__, as_csv, call.scope["query_string"])
    made = partial(make, stream, call, as_csv)
    return context.answer(call, await context.pool.read(stream, question, made, call))


async def get_latest(context: ReadContext, call: Call) -> Answer:
    """The last tick with all its keys."""
    stream = await context.stream(call)
    if not stream.released:
        raise not_found("no tick of this stream has ended yet; ask again when one has")

    def make(reader: Reader) -> Tagged:
        return tagged_json(read_tick(reader, stream, stream.released[-1]))

    return context.answer(call, await context.pool.read(stream, "latest", make, call))


async def get_privacy(context: ReadContext, call: Call) -> Answer:
    """The fading curve. Or single losses: with `age`, at an age; with `visits`, `every` and
    `during`, of someone who came again and again."""
    stream = await context.stream(call)
    status, ticks = stream.status, stream.ticks
    due = status.step_of(ticks.at(context.clock.now()) - 1)
    curve = FadingCurve(stream=status.loss, tick_seconds=ticks.tick_seconds, due=due)
    # closing other ticks does not change it
    question = ("curve", curve.stream.histories, curve.ahead, call.query)
    make = partial(_privacy, stream, call.query, curve)
    tagged = await context.pool.read(stream, question, make, call, lasting=True)
    return context.answer(call, tagged)


def _privacy(stream: PublicStream, query: PrivacyQuery, curve: FadingCurve, _: Reader) -> Tagged:
    unit = stream.status.description.unit
    if query.visits or query.every or query.during:
        visits = query.visits or 1
        every, during = (
            length_of(query.every or "1d", "every"),
            length_of(query.during or "1mo", "during"),
        )
        if visits * -(-during // every) > MOST_VISITS:
            detail = f"visits in during must be at most {MOST_VISITS:,}; ask for a shorter time"
            raise bad_request("bad_query", detail)
        losses = [curve.person(visits, every, during, unit)]
        return tagged_json(PrivacyLosses(stream.name, unit.text, losses))
    if query.age is not None:
        losses = [curve.statement(length_of(query.age, "age"))]
        return tagged_json(PrivacyLosses(stream.name, unit.text, losses))
    whole = PrivacyCurve(
        stream=stream.name,
        unit=unit.text,
        tick_seconds=curve.tick_seconds,
        typical_error=round(curve.typical_error(), 1),
        statements=curve.statements(),
        curve=curve.curve(),
    )
    return tagged_json(whole)


def read_tick(reader: Reader, stream: PublicStream, tick: int) -> ReleasedTick:
    """One published tick with all its keys: the body of ``latest``, and of a live event."""
    values = [
        ReleasedValue(key, value, value - around, value + around)
        for piece in stream.published(reader).running(since=tick, until=tick + 1)
        for key, value, around, known in zip(
            stream.keys,
            *(each[0].tolist() for each in (piece.values, piece.half_widths, piece.known)),
            strict=True,
        )
        if known
    ]
    return ReleasedTick(start=stream.ticks.shown(tick), releases=values)


def read_page(
    reader: Reader,
    stream: PublicStream,
    ticks: range,
    *,
    skip: int,
    limit: int,
    position: int | None,
) -> tuple[Table, list[int], str | None]:
    """At most ``limit`` totals as published with these ticks, without the first ``skip`` keys of
    the first one; the tick of each; and where the next page begins."""
    if not ticks:
        return figures_table(no_figures(0), ()), [], None
    columns = range(len(stream.keys)) if position is None else range(position, position + 1)
    end = min(ticks.stop, ticks[0] + limit // len(columns) + 2)
    pieces = stream.published(reader).running(since=ticks[0], until=end)
    whole = Figures.joined(list(pieces)).columns(columns)
    places = np.flatnonzero(whole.known.ravel())
    places = places[(places >= len(columns)) | (places + columns.start >= skip)]
    numbers, keys = np.divmod(places, len(columns))
    following = None
    if len(places) > limit:
        following = f"{ticks[0] + int(numbers[limit])}.{columns.start + int(keys[limit])}"
    elif end < ticks.stop:
        following = f"{end}.0"
    table = figures_table(whole, [stream.keys[each] for each in columns])
    cut = slice(len(whole.known.nonzero()[0]) - len(places), None)
    table = {name: column[cut][:limit] for name, column in table.items()}
    return table, (ticks[0] + numbers[:limit]).tolist(), following


def _position(stream: PublicStream, query: RangeQuery) -> int | None:
    """The position of the key that is asked for; None for all of them."""
    if query.key is not None and query.key not in stream.positions:
        raise not_found()
    return None if query.key is None else stream.positions[query.key]


def _first_from(stream: PublicStream, moment: datetime, name: str) -> int:
    """The first tick that begins at or after a time."""
    with refusing("bad_query", f"{name} must lie between the years 6 and 9987"):
        return stream.ticks.first_from(moment.timestamp())


def _range(stream: PublicStream, query: RangeQuery) -> range:
    """The ticks that begin in [since, until) and are there."""
    ticks = stream.released
    first, end = ticks.start, ticks.stop
    if query.since is not None:
        first = max(first, _first_from(stream, query.since, "since"))
    if query.until is not None:
        end = min(end, _first_from(stream, query.until, "until"))
    return range(first, end) if ticks else ticks


def _page(stream: PublicStream, call: Call, as_csv: bool, reader: Reader) -> Tagged:
    query: ReleasesQuery = call.query
    ticks, skip, position = _range(stream, query), 0, _position(stream, query)
    if query.since is not None:
        stream.require_kept(_first_from(stream, query.since, "since"))
    if query.cursor is not None:
        tick, _, column = query.cursor.partition(".")
        stream.require_kept(int(tick))
        if int(tick) >= ticks.start:
            ticks, skip = range(int(tick), ticks.stop), int(column)
    table, numbers, following = read_page(
        reader, stream, ticks, skip=skip, limit=query.limit, position=position
    )
    closed = query.until is not None and ticks.stop < stream.released.stop and bool(ticks)
    next_page = None
    if following:
        before = dict(parse_qsl(call.scope["query_string"].decode()))
        next_page = urlencode({**before, "cursor": following})
    if as_csv:
        lines = table_rows(stream.name, table, stream.ticks.zone)
        body = csv_text([COLUMNS, *lines]).encode()
    else:
        starts = {tick: stream.ticks.shown(tick) for tick in set(numbers)}
        columns = (table[name].tolist() for name in ("key", "value", "low", "high"))
        rows = [
            ReleasedRow(key, value, low, high, starts[tick])
            for tick, key, value, low, high in zip(numbers, *columns, strict=True)
        ]
        body = tagged_json(ReleasePage(releases=rows, next=following)).body
    return Tagged(
        body,
        CSV if as_csv else JSON,
        closed=closed or following is not None,
        next_page=next_page,
    )


def _windows(stream: PublicStream, call: Call, as_csv: bool, reader: Reader) -> Tagged:
    query: WindowsQuery = call.query
    length, ticks = _window_seconds(stream, query.per), _range(stream, query)
    if query.until is not None:
        stream.require_kept(ticks.stop - 1)
    position = _position(stream, query)
    positions = range(len(stream.keys)) if position is None else (position,)
    count = len(ticks) * stream.ticks.tick_seconds // length + 2 if ticks else 0
    if count * len(stream.keys) > MOST_CELLS or count * len(positions) > MOST_ROWS:
        raise bad_request(
            "bad_query",
            f"there must be at most {MOST_ROWS:,} windows of all keys together; give key, or since",
        )
    windows = None
    if ticks:
        with refusing("bad_query", WHOLE_TICKS):
            windows = stream.published(reader).figures(
                query.per, since=ticks.start, until=ticks.stop
            )
    if as_csv:
        lines = () if windows is None else figures_table(windows, stream.keys, positions)
        rows = table_rows(stream.name, lines, stream.ticks.zone) if lines else ()
        return Tagged(csv_text([COLUMNS, *rows]).encode(), CSV)
    shown = [] if windows is None else _counted(stream, windows, positions)
    return tagged_json(WindowPage(per=query.per, zone=stream.ticks.zone, windows=shown))


def _window_seconds(stream: PublicStream, per: str) -> int:
    with refusing("bad_query", "per must be the length of a window, such as 1h, 1d, 1w or 1mo"):
        WindowCalendar(per=per, zone=stream.ticks.zone)
    seconds = parse_duration(per)
    if seconds < stream.ticks.tick_seconds:
        raise bad_request("bad_query", WHOLE_TICKS)
    if seconds > LONGEST_WINDOW:  # it would end after the last year of the calendar
        raise bad_request("bad_query", "per must be at most 1,000 years")
    return seconds


def _counted(
    stream: PublicStream, windows: Figures, positions: range | tuple[int, ...]
) -> list[CountedWindow]:
    """One row for each window and key that existed then."""
    low, high, statuses = windows.low, windows.high, windows.shown_status
    spans = zip(windows.starts.tolist(), windows.ends.tolist(), strict=True)
    return [
        CountedWindow(
            key=stream.keys[position],
            value=int(windows.values[at, position]),
            low=int(low[at, position]),
            high=int(high[at, position]),
            start=iso_time(start),
            end=iso_time(end),
            partial=bool(windows.partial[at]),
            status=statuses[at],
            published=iso_time(int(windows.published[at])),
        )
        for at, (start, end) in enumerate(spans)
        for position in positions
        if position < windows.values.shape[1] and windows.known[at, position]
    ]
