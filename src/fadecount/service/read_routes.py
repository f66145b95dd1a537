"""Routes that read: streams, their figures, what they cost, and when something new is published.
They see published figures and public facts, nothing else.

Each answer is made on a thread and kept in memory until the next tick of its stream is closed. Each
has an entity tag, so a reader who has it already gets a status 304.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import wraps
from typing import Any

import msgspec

from fadecount.calendar import Length
from fadecount.durations import UNITS, format_duration, parse_duration
from fadecount.errors import ParameterError
from fadecount.service.answers import (
    FigurePage,
    Privacy,
    PublishedFigure,
    StreamPage,
)
from fadecount.service.fading_curve import FadingCurve
from fadecount.service.http import (
    EMBEDDED_HEADERS,
    SECURITY_HEADERS,
    Problem,
    Request,
    Response,
    Tagged,
    bad_request,
    not_found,
    refusing,
    tagged_json,
    unavailable,
)
from fadecount.service.parsing import FigureQuery, PrivacyQuery, StreamsQuery, Time, length_of
from fadecount.service.reader_pool import PublicStream, ReaderPool
from fadecount.service.settings import Clock
from fadecount.service.tokens import Access, Grant
from fadecount.streams.description import TOTAL
from fadecount.streams.export import table_rows
from fadecount.streams.info import StreamInfo, stream_info
from fadecount.streams.published import Figures, Published, no_figures
from fadecount.streams.reader import Reader
from fadecount.streams.status import Status

MOST_VISITS = 10_000
MOST_STREAMS = 1000
MOST_ROWS = 10_000
"""Rows on a page: whole slots, and at least one."""

MOST_CELLS = 1_000_000
"""Slots times keys that one request may read."""

TIMES = "at must be a time with its zone, or several with commas between"
LONGEST_SLOT = 1000 * UNITS["y"]
LONGEST_UNCHANGED = 60
"""Seconds for which readers may keep figures without asking again, at most. Someone may delete a
stream."""

LONGEST_SHOWN = 3600
"""The same, for what other websites show."""


@dataclass(slots=True, kw_only=True)
class ReadContext:
    """What reading routes work with."""

    pool: ReaderPool
    access: Access
    clock: Clock
    public: bool
    files: Mapping[str, Tagged]
    metrics: Callable[[], Mapping[str, float]]
    state_of: Callable[[str], str]
    """What the process that writes says of a stream."""
    not_ready_reason: Callable[[], str | None]
    """Why the service is not ready; None if it is."""
    client_of: Callable[[Request], str]
    """Who sent a request, behind proxies too."""
    live: Counter[str] = field(default_factory=Counter)
    """How many live readers each client has."""

    @property
    def live_readers(self) -> int:
        """Open live connections."""
        return self.live.total()

    def info(self, status: Status, keys: tuple[str, ...] | None = None) -> StreamInfo:
        """What is public about a stream now; without keys as in a list."""
        return stream_info(status, self.state_of(status.description.name), self.clock.now(), keys)

    def answer(self, request: Request, tagged: Tagged) -> Response:
        """The answer to a request, or status 304."""
        return tagged.answer(request, public=self.public)


@dataclass(frozen=True, slots=True)
class ReadRequest:
    """A question about what a stream has ``published``: about the columns of some keys (their
    ``positions``), as it was public at the beginning of the tick ``as_of`` (None: now)."""

    stream: PublicStream
    query: Any
    published: Published
    positions: Sequence[int]
    as_of: int | None

    @classmethod
    def of(cls, stream: PublicStream, query: Any, reader: Reader) -> ReadRequest:
        """The question of a query, or a Problem."""
        published, positions = stream.published(reader), range(len(stream.keys))
        as_of = _vintage(stream, query.as_of) if isinstance(query, FigureQuery) else None
        key, together = getattr(query, "key", None), getattr(query, "together", False)
        if together:
            published, positions = published.together(), range(1)
        if key is not None:
            if together:
                raise bad_request("bad_query", "together must be false where there is a key")
            if key not in stream.positions:
                raise not_found()
            positions = range(stream.positions[key], stream.positions[key] + 1)
        return cls(stream, query, published, positions, as_of)


def from_published(
    make: Callable[[ReadRequest], Tagged], *, embedded: bool = False
) -> Callable[[ReadContext, Request], Awaitable[Response]]:
    """A handler of questions about published figures: the answer may be kept until the next
    publication. What is ``embedded`` may be shown by other websites. Slots that the stream cannot
    have are refused."""

    @wraps(make)
    async def handler(context: ReadContext, request: Request) -> Response:
        stream = await context.pool.stream(request.name)
        query = request.query

        def read(reader: Reader) -> Tagged:
            with refusing("bad_query", slot_lengths(stream), (ParameterError,)):
                return make(ReadRequest.of(stream, query, reader))

        tagged = await context.pool.read(stream, (make.__name__, query), read)
        # until the open tick is over; a second less, so that nobody who hears of the change has an
        # answer from before
        due = context.clock.until(stream.ticks.start_seconds(stream.last_tick + 2))
        most = LONGEST_SHOWN if embedded else LONGEST_UNCHANGED
        return tagged.answer(
            request,
            public=context.public,
            seconds=max(0, min(most, int(due) - 1)),
            security=EMBEDDED_HEADERS if embedded and context.public else SECURITY_HEADERS,
        )

    return handler


async def list_streams(context: ReadContext, request: Request) -> Response:
    """The streams that the token may see, in pages."""
    query: StreamsQuery = request.query
    only = request.grant.stream if request.grant else None

    def read(reader: Reader) -> list[Status]:
        if only is None:
            return reader.statuses(after=query.cursor, limit=MOST_STREAMS + 1)
        return [reader.status(only)] if reader.has(only) else []

    statuses = await context.pool.ask(read)
    streams = [context.info(each) for each in statuses[:MOST_STREAMS]]
    following = streams[-1].name if len(statuses) > MOST_STREAMS else None
    return context.answer(request, tagged_json(StreamPage(streams, next=following)))


async def get_stream(context: ReadContext, request: Request) -> Response:
    """What is public about a stream."""
    stream = await context.pool.stream(request.name)
    return context.answer(request, tagged_json(context.info(stream.status, stream.keys)))


async def get_privacy(context: ReadContext, request: Request) -> Response:
    """The fading curve. Or single losses: with `age`, at an age; with `visits`, `every` and
    `during`, of someone who came again and again."""
    stream = await context.pool.stream(request.name)
    status = stream.status
    curve = FadingCurve(
        stream=status.description.loss,
        tick_seconds=stream.ticks.tick_seconds,
        ahead=status.ahead(context.clock.now()),
        unit=status.description.unit,
    )
    query = request.query
    tagged = await context.pool.read(
        stream,
        ("get_privacy", curve.ahead, query),
        lambda _: tagged_json(_privacy(stream.name, query, curve)),
    )
    return context.answer(request, tagged)


def _privacy(name: str, query: PrivacyQuery, curve: FadingCurve) -> Privacy:
    points = []
    if query.visits or query.every or query.during:
        visits = query.visits or 1
        every = length_of(query.every or "1d", "every")
        during = length_of(query.during or "1mo", "during")
        if visits * -(-during // every) > MOST_VISITS:
            detail = f"visits in during must be at most {MOST_VISITS:,}; ask for a shorter time"
            raise bad_request("bad_query", detail)
        losses = [curve.person(visits, every, during)]
    elif query.age is not None:
        losses = [curve.statement(length_of(query.age, "age"))]
    else:
        losses, points = curve.statements(), curve.curve()
    return Privacy(
        stream=name,
        unit=curve.unit.text,
        losses=losses,
        curve=points,
    )


def get_figures(request: ReadRequest) -> Tagged:
    """Figures of hours, days, weeks or months with exact intervals, oldest first, in pages; or with
    `per=total` the total after each tick as it was published then. Reading costs no privacy."""
    per = slot_length(request.stream, request.query.per, totals=True)
    return _page(request, per, *_figures(request, per))


def get_total(request: ReadRequest) -> Tagged:
    """The total since the stream began, as it is known now."""
    return _page(request, TOTAL, _total(request))


def get_so_far(request: ReadRequest) -> Tagged:
    """The slot that is not over: so far today, for a day."""
    per, published = slot_length(request.stream, request.query.per), request.published
    return _page(request, per, published.so_far(per, as_of=request.as_of))


def _page(request: ReadRequest, per: str, figures: Figures, following: int | None = None) -> Tagged:
    """Figures with what one must know of them; the next page begins with the tick ``following``."""
    stream, zone = request.stream, request.stream.ticks.zone
    rows: list[Any] = []
    if request.published.steps:
        keys = (None,) if request.query.together else stream.keys
        rows = list(table_rows(stream.name, figures.table(keys, request.positions), zone))
    through = stream.through if request.as_of is None else request.as_of
    page = FigurePage(
        stream=stream.name,
        per=per,
        zone=zone,
        unit_text=stream.status.description.unit.text,
        published_through=None if through is None else stream.ticks.local(through),
        figures=[PublishedFigure(*row) for _, *row in rows],
        next=None if following is None else str(following),
    )
    return tagged_json(page)


def _figures(request: ReadRequest, per: str) -> tuple[Figures, int | None]:
    """A page of whole slots, at least one, and with which tick the next page begins."""
    query, stream, published = request.query, request.stream, request.published
    first = query.cursor
    if first is None and query.since is not None:
        first = _first_from(stream, query.since, "since")
    end = published.first_tick + published.steps if request.as_of is None else request.as_of
    if query.until is not None:
        end = min(end, _first_from(stream, query.until, "until"))
    most = _most_slots(request)
    if per == TOTAL:
        begin = stream.status.shown_from if first is None else max(first, published.first_tick)
        following = begin + most
        pieces = published.running(since=begin, until=min(end, following), as_of=request.as_of)
        figures = Figures.joined([no_figures(1 if query.together else len(stream.keys)), *pieces])
    else:
        figures = published.figures(per, since=first, until=end, as_of=request.as_of, most=most)
        following = stream.ticks.at(int(figures.ends[-1])) if len(figures) == most else end
    return figures, following if following < end else None


def _most_slots(request: ReadRequest) -> int:
    """How many slots an answer has at most: few enough rows, made of few enough numbers."""
    width, keys = max(1, len(request.positions)), max(1, len(request.stream.keys))
    return max(1, min(MOST_ROWS // width, MOST_CELLS // keys))


def _total(request: ReadRequest) -> Figures:
    published, stream, at = request.published, request.stream, request.query.at
    if at is None:
        return published.total(as_of=request.as_of)
    if at.count(",") >= (most := _most_slots(request)):
        raise bad_request("bad_query", f"at must have at most {most} times for so many keys")
    with refusing("bad_query", TIMES):
        times = [msgspec.convert(each, Time, strict=False) for each in at.split(",")]
    ticks = [_tick(stream, time, "at") for time in times]
    began = stream.ticks.local(published.first_tick)
    detail = f"at must be {began} or later, where the stream began"
    with refusing("bad_query", detail, (ParameterError,)):
        return published.totals(ticks, as_of=request.as_of)


def _vintage(stream: PublicStream, moment: datetime | None) -> int | None:
    """The tick whose beginning is the time as of which figures are wanted."""
    first, through, shown = stream.status.first_tick, stream.through, stream.ticks.local
    if moment is None or through is None:
        return None
    tick = _tick(stream, moment, "as_of")
    if not first <= tick <= through:
        bound = f"from {shown(first)} to {shown(through)}"
        raise bad_request("bad_query", f"as_of must be {bound}: nothing later is published")
    return tick


def _tick(stream: PublicStream, moment: datetime, name: str) -> int:
    """The tick that contains a time."""
    with refusing("bad_query", f"{name} must lie between the years 6 and 9987"):
        return stream.ticks.at(moment.timestamp())


def _first_from(stream: PublicStream, moment: datetime, name: str) -> int:
    """The first tick that begins at a time or later."""
    _tick(stream, moment, name)
    return stream.ticks.first_from(moment.timestamp())


def slot_length(stream: PublicStream, requested: str | None, *, totals: bool = False) -> str:
    """The length of slots: the one asked for, or the one that people read first; days rather than
    ``totals``, where these are no slots."""
    per = requested or stream.status.description.default_per
    if per == TOTAL:
        if totals:
            return TOTAL
        if requested:
            raise bad_request("bad_query", slot_lengths(stream))
        return "1d"
    if not stream.ticks.tick_seconds <= parse_duration(per) <= LONGEST_SLOT:
        raise bad_request("bad_query", slot_lengths(stream))
    Length.of(per)  # or a ParameterError
    return per


def slot_lengths(stream: PublicStream) -> str:
    """Which lengths of slots there are, in a sentence."""
    levels, unit = stream.status.description.levels, stream.status.description.unit
    if unit.distinct_per:
        return (
            f"per must be at most {unit.distinct_per}: each person counts once per {unit.slot}, and"
            " distinct persons do not add up"
        )
    if levels:
        return (
            f"per must be one of {', '.join(levels)}, or made of whole blocks of {levels[0]} such"
            " as 1d, 1w or 1mo; total gives running totals"
        )
    tick = format_duration(stream.ticks.tick_seconds)
    return f"per must be made of whole ticks of {tick}, such as 1d or 1mo, up to 1,000 years"


# Live
# ------------------------------------------------------------------------------------------------
EVENT_STREAM = "text/event-stream"
LIVE_HEADERS = (
    (b"content-type", EVENT_STREAM.encode()),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
)
HEARTBEAT = b": still here\n\n"
HEARTBEAT_SECONDS = 15.0
RETRY_MILLISECONDS = 2000
MOST_LIVE_READERS = 512
LIVE_SHARE = 4
"""A client may have a quarter as many live readers as there is room for more: 103 at most."""


async def follow_live(context: ReadContext, request: Request) -> Response:
    """Server-sent events: one at once if something is published, then one for each publication."""
    stream, client = await context.pool.stream(request.name), context.client_of(request)
    room = MOST_LIVE_READERS - context.live_readers
    if context.pool.is_ending or LIVE_SHARE * context.live[client] >= room:
        raise unavailable("too many live readers; try again later")
    frames = _frames(context, request.grant, stream, client)
    return Response(b"", headers=LIVE_HEADERS, frames=frames)


async def _frames(
    context: ReadContext, grant: Grant | None, stream: PublicStream, client: str
) -> AsyncGenerator[bytes]:
    """What is published, until the service ends, the token is revoked or the stream is deleted.

    An event holds the time through which the stream is published, so its size and its time depend
    on the public clock alone. Only the position of each reader is kept; one that is slow gets the
    newest event. Readers read figures again when they get one.
    """
    name, uid, pool = stream.name, stream.status.uid, context.pool
    after: int | None = None
    context.live[client] += 1
    try:
        yield b"retry: %d\n\n" % RETRY_MILLISECONDS
        while True:
            # before the checks, so that no change after them is missed
            change = pool.next_change(name)
            if pool.is_ending or not context.access.still(grant):
                return
            try:
                stream = await pool.stream(name)
            except Problem as problem:  # a store that does not answer says nothing about the stream
                if problem.status == 404:
                    return
            if stream.status.uid != uid:  # deleted; this is another one of the same name
                return
            through = stream.through
            if through is not None and (after is None or through > after):
                after = through
                moment = stream.ticks.local(through).encode()
                data = b'{"published_through":"%b"}' % moment
                yield b"id: %b\nevent: published\ndata: %b\n\n" % (moment, data)
                continue
            try:
                async with asyncio.timeout(HEARTBEAT_SECONDS):
                    await change.wait()
            except TimeoutError:
                yield HEARTBEAT
    finally:
        context.live -= Counter({client: 1})  # which forgets those without any
