"""Routes that read: streams, releases, windows, and what they cost. They see published releases and
public facts, nothing else.

Each answer is made on a thread and kept in memory until the next tick of its stream is closed. Each
has an entity tag, so a reader who has it already gets a status 304.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import msgspec
from starlette.requests import Request

from fadecount.durations import UNITS, parse_duration
from fadecount.errors import ParameterError
from fadecount.service.answers import (
    CountedWindow,
    PrivacyCurve,
    PrivacyLosses,
    ReleasedRow,
    ReleasedTick,
    ReleasedValue,
    ReleasePage,
    Statement,
    StreamPage,
    WindowPage,
)
from fadecount.service.clock import Clock, utc_text
from fadecount.service.fading_curve import FadingCurve, curve_of
from fadecount.service.http import Answer, Tagged, wants_csv
from fadecount.service.parsing import (
    LONGEST_NAME,
    MOST_ROWS,
    MOST_STREAMS,
    Query,
    bad_cursor,
    first_from,
)
from fadecount.service.problems import bad_request, not_found
from fadecount.service.reader_pool import PublicStream, ReaderPool, Release, read_page
from fadecount.service.routes import Handler
from fadecount.service.stream_info import stream_info
from fadecount.service.tokens import Access, Action
from fadecount.streams.export import COLUMNS, WINDOW_COLUMNS, csv_text, table_rows, windows_table
from fadecount.streams.reader import Reader
from fadecount.streams.windows import WindowCalendar, Windows

CSV = "text/csv; charset=utf-8"
MOST_VISITS = 10_000
MOST_CELLS = 1_000_000
"""Windows times keys that one request may read."""

LONGEST_PER = 12
LONGEST_WINDOW = 1000 * UNITS["y"]
WHOLE_TICKS = "per must be made of whole ticks of the stream, such as 1h or 1d"
Maker = Callable[[Reader], Tagged]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadContext:
    """What reading routes work with."""

    pool: ReaderPool
    access: Access
    clock: Clock
    public: bool
    state_of: Callable[[str], str]
    """What the process that writes says of a stream."""

    async def stream(self, request: Request) -> PublicStream:
        """The stream of a request, if the request may read it."""
        name: str = request.path_params["name"]
        self.access.allow(request.scope, Action.READ, name)
        return await self.pool.stream(name, request)

    async def kept(
        self,
        request: Request,
        stream: PublicStream,
        kind: str,
        prepare: Callable[[], Maker],
        *,
        lasting: bool = False,
    ) -> Answer:
        """The answer to a request, kept until the next tick, or for longer if it is ``lasting``.

        ``prepare`` checks the query; a query that has an answer in memory was checked before.
        """
        question = (kind, request.scope["query_string"])
        tagged = await self.pool.read(stream, question, prepare, request, lasting=lasting)
        return tagged.answer(request, public=self.public)


def read_handlers(context: ReadContext) -> Mapping[str, Handler]:
    """The handlers of the routes that read, by the names of the routes."""
    handlers = (list_streams, get_stream, get_releases, get_latest, get_windows, get_privacy)
    return {each.__name__: partial(each, context) for each in handlers}


async def list_streams(context: ReadContext, request: Request) -> Answer:
    """A page of the streams that the request may see."""
    only = context.access.visible(request.scope)
    query = Query.of(request)
    limit = query.integer("limit", MOST_STREAMS, minimum=1, maximum=MOST_STREAMS)
    after = query.text("cursor") or ""
    if len(after) > LONGEST_NAME or "\0" in after:
        raise bad_cursor()
    if only is None:
        statuses = await context.pool.ask(
            lambda reader: reader.statuses(after=after, limit=limit + 1), request
        )
    else:
        statuses = await context.pool.ask(
            lambda reader: [reader.status(only)] if reader.has(only) else [], request
        )
    now = context.clock.now()
    streams = [
        stream_info(each, context.state_of(each.description.name), now) for each in statuses[:limit]
    ]
    page = StreamPage(streams, next=streams[-1].name if len(statuses) > limit else None)
    return Tagged.of(msgspec.json.encode(page)).answer(request, public=context.public)


async def get_stream(context: ReadContext, request: Request) -> Answer:
    """Everything that is public about a stream."""
    stream = await context.stream(request)
    Query.of(request)
    state, now = context.state_of(stream.name), context.clock.now()
    body = msgspec.json.encode(stream_info(stream.status, state, now, stream.keys))
    return Tagged.of(body).answer(request, public=context.public)


async def get_releases(context: ReadContext, request: Request) -> Answer:
    """A page of released counts."""
    stream, as_csv = await context.stream(request), wants_csv(request)

    def prepare() -> Maker:
        return _page_maker(stream, Query.of(request), as_csv=as_csv)

    return await context.kept(request, stream, f"releases {as_csv}", prepare)


async def get_latest(context: ReadContext, request: Request) -> Answer:
    """The last published tick."""
    stream = await context.stream(request)
    if not stream.has_releases:
        raise not_found("no tick of this stream has ended yet; ask again when one has")

    def prepare() -> Maker:
        Query.of(request)
        last = stream.last_tick or 0
        return lambda reader: Tagged.of(msgspec.json.encode(released_tick(reader, stream, last)))

    return await context.kept(request, stream, "latest", prepare)


async def get_windows(context: ReadContext, request: Request) -> Answer:
    """Counts of hours, days, weeks and months: differences of published releases, with exact
    intervals. They cost no privacy."""
    stream, as_csv = await context.stream(request), wants_csv(request)

    def prepare() -> Maker:
        return _windows_maker(stream, Query.of(request), as_csv=as_csv)

    return await context.kept(request, stream, f"windows {as_csv}", prepare)


async def get_privacy(context: ReadContext, request: Request) -> Answer:
    """The fading curve of a stream, or single losses."""
    stream = await context.stream(request)
    query, curve = Query.of(request), curve_of(stream, context.clock.now())
    kind = f"curve {curve.stream.histories} {curve.ahead}"  # closing other ticks does not change it
    keep = partial(context.kept, request, stream, kind, lasting=True)
    if "visits" in query or "every" in query or "during" in query:
        return await keep(lambda: _person_maker(stream, query, curve))
    if (age := query.age("age")) is not None:
        losses = _losses(stream, [curve.statement(age)])
        return losses.answer(request, public=context.public)
    return await keep(lambda: _curve_maker(stream, curve))


def released_tick(reader: Reader, stream: PublicStream, tick: int) -> ReleasedTick:
    """One published tick with all its keys: the body of ``latest``, and of a live event."""
    rows = read_page(
        reader, stream.name, tick, tick + 1, skip=0, limit=len(stream.keys) + 1, position=None
    )
    values = [
        ReleasedValue(key=stream.keys[row.position], value=row.value, low=row.low, high=row.high)
        for row in rows
    ]
    return ReleasedTick(start=stream.ticks.shown(tick), releases=values)


def _losses(stream: PublicStream, losses: list[Statement]) -> Tagged:
    unit = stream.status.description.unit.text
    return Tagged.of(msgspec.json.encode(PrivacyLosses(stream.name, unit, losses)))


def _curve_maker(stream: PublicStream, curve: FadingCurve) -> Maker:
    def make(_: Reader) -> Tagged:
        answer = PrivacyCurve(
            stream=stream.name,
            unit=stream.status.description.unit.text,
            tick_seconds=curve.tick_seconds,
            typical_error=round(curve.typical_error(), 1),
            statements=curve.statements(),
            curve=curve.curve(),
        )
        return Tagged.of(msgspec.json.encode(answer))

    return make


def _person_maker(stream: PublicStream, query: Query, curve: FadingCurve) -> Maker:
    visits = query.integer("visits", 1, minimum=1, maximum=1000)
    every, during = query.age("every") or UNITS["d"], query.age("during") or UNITS["mo"]
    if visits * -(-during // every) > MOST_VISITS:
        detail = f"visits in during must be at most {MOST_VISITS:,}; ask for a shorter time"
        raise bad_request("bad_query", detail)
    unit = stream.status.description.unit
    return lambda _: _losses(stream, [curve.person(visits, every, during, unit)])


def _position(stream: PublicStream, query: Query) -> int | None:
    """The position of the key that is asked for; None for all of them."""
    key = query.text("key")
    if key is not None and key not in stream.positions:
        raise not_found()
    return None if key is None else stream.positions[key]


def _range(stream: PublicStream, query: Query) -> tuple[int, int]:
    """The ticks that begin in [since, until) and are there, first and last; none if the first is
    after the last."""
    since, until = query.moment("since"), query.moment("until")
    if not stream.has_releases or stream.first_tick is None or stream.last_tick is None:
        return 1, 0
    first, last = stream.first_tick, stream.last_tick
    if until is not None:
        last = min(last, first_from(stream.ticks, until, "until") - 1)
    if since is not None:
        first = max(first, first_from(stream.ticks, since, "since"))
    return first, last


def _page_maker(stream: PublicStream, query: Query, *, as_csv: bool) -> Maker:
    limit = query.integer("limit", 1000, minimum=1, maximum=MOST_ROWS)
    position, cursor = _position(stream, query), query.cursor()
    first, last = _range(stream, query)
    skip = 0
    since = query.moment("since")
    if stream.has_releases and since is not None:
        stream.require_kept(first_from(stream.ticks, since, "since"))
    if stream.has_releases and cursor is not None:
        stream.require_kept(cursor[0])
        if cursor[0] >= first:
            first, skip = cursor
    closed = "until" in query and first <= last and last < (stream.last_tick or 0)

    def make(reader: Reader) -> Tagged:
        rows: list[Release] = []
        if first <= last:
            rows = read_page(
                reader, stream.name, first, last + 1, skip=skip, limit=limit + 1, position=position
            )
        more, rows = len(rows) > limit, rows[:limit]
        following = f"{rows[-1].tick}.{rows[-1].position + 1}" if more else None
        body = _csv(stream, rows) if as_csv else _json(stream, rows, following)
        return Tagged.of(
            body,
            CSV if as_csv else "application/json",
            closed=closed or more,
            next_page=None if following is None else query.page_after(following),
        )

    return make


def _csv(stream: PublicStream, rows: list[Release]) -> bytes:
    """A table with the times of exported files."""
    starts = {tick: stream.ticks.local(tick) for tick in {row.tick for row in rows}}
    lines = (
        (stream.name, starts[row.tick], stream.keys[row.position], row.value, row.low, row.high)
        for row in rows
    )
    return csv_text([COLUMNS, *lines]).encode()


def _json(stream: PublicStream, rows: list[Release], following: str | None) -> bytes:
    starts = {tick: stream.ticks.shown(tick) for tick in {row.tick for row in rows}}
    shown = [
        ReleasedRow(
            start=starts[row.tick],
            key=stream.keys[row.position],
            value=row.value,
            low=row.low,
            high=row.high,
        )
        for row in rows
    ]
    return msgspec.json.encode(ReleasePage(releases=shown, next=following))


def _windows_maker(stream: PublicStream, query: Query, *, as_csv: bool) -> Maker:
    calendar, position = _calendar(stream, query.text("per")), _position(stream, query)
    nonnegative = query.text("nonnegative") or "false"
    if nonnegative not in ("true", "false"):
        raise bad_request("bad_query", "nonnegative must be true or false")
    first, last = _range(stream, query)
    if stream.has_releases and "until" in query:
        stream.require_kept(last)
    count, keys = 0, len(stream.keys)
    if first <= last:
        seconds = (last - first + 1) * stream.ticks.tick_seconds
        count = seconds // parse_duration(calendar.per) + 2
    if count * keys > MOST_CELLS or count * (keys if position is None else 1) > MOST_ROWS:
        raise bad_request(
            "bad_query",
            f"there must be at most {MOST_ROWS:,} windows of all keys together; give key, or since",
        )
    positions = range(keys) if position is None else (position,)

    def make(reader: Reader) -> Tagged:
        windows = None
        if count:
            try:
                windows = reader.windows(
                    stream.name,
                    per=calendar.per,
                    since=first,
                    until=last + 1,
                    nonnegative=nonnegative == "true",
                )
            except ParameterError:
                raise bad_request("bad_query", WHOLE_TICKS) from None
        if as_csv:
            lines = () if windows is None else windows_table(windows, stream.keys, positions)
            rows = table_rows(stream.name, lines, stream.ticks.zone) if lines else ()
            return Tagged.of(csv_text([WINDOW_COLUMNS, *rows]).encode(), CSV)
        shown = [] if windows is None else _counted(stream, windows, positions)
        page = WindowPage(per=calendar.per, zone=stream.ticks.zone, windows=shown)
        return Tagged.of(msgspec.json.encode(page))

    return make


def _calendar(stream: PublicStream, per: str | None) -> WindowCalendar:
    try:
        if per is None or len(per) > LONGEST_PER:
            raise ParameterError("per")
        calendar = WindowCalendar(per=per, zone=stream.ticks.zone)
    except ParameterError:
        detail = "per must be the length of a window, such as 1h, 1d, 1w or 1mo"
        raise bad_request("bad_query", detail) from None
    if parse_duration(per) < stream.ticks.tick_seconds:
        raise bad_request("bad_query", WHOLE_TICKS)
    if parse_duration(per) > LONGEST_WINDOW:  # it would end after the last year of the calendar
        raise bad_request("bad_query", "per must be at most 1,000 years")
    return calendar


def _counted(
    stream: PublicStream, windows: Windows, positions: range | tuple[int, ...]
) -> list[CountedWindow]:
    """One row for each window and key that existed then."""
    low, high = windows.low, windows.high
    spans = zip(windows.starts.tolist(), windows.ends.tolist(), strict=True)
    return [
        CountedWindow(
            start=utc_text(start),
            end=utc_text(end),
            partial=bool(windows.partial[at]),
            key=stream.keys[position],
            value=int(windows.values[at, position]),
            low=int(low[at, position]),
            high=int(high[at, position]),
        )
        for at, (start, end) in enumerate(spans)
        for position in positions
        if position < windows.values.shape[1] and windows.known[at, position]
    ]
