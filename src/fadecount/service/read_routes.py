"""Routes that read: streams, their figures, and what they cost. They see published figures and
public facts, nothing else.

Each answer is made on a thread and kept in memory until the next tick of its stream is closed. Each
has an entity tag, so a reader who has it already gets a status 304.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any
from urllib.parse import parse_qsl, urlencode

import msgspec
import numpy as np

from fadecount.durations import UNITS, format_duration, parse_duration
from fadecount.errors import ParameterError
from fadecount.service.answers import PrivacyCurve, PrivacyLosses, StreamPage
from fadecount.service.fading_curve import FadingCurve
from fadecount.service.http import Answer, Call, Tagged, tagged_json, wants_csv
from fadecount.service.metrics import Metrics
from fadecount.service.parsing import (
    FigureQuery,
    PrivacyQuery,
    ShownQuery,
    SoFarQuery,
    StreamsQuery,
    Time,
    TopQuery,
    length_of,
)
from fadecount.service.problems import bad_request, not_found, refusing
from fadecount.service.reader_pool import PublicStream, ReaderPool
from fadecount.service.settings import Clock
from fadecount.service.stream_info import FigurePage, PublishedFigure, StreamInfo, stream_info
from fadecount.service.tokens import Access
from fadecount.streams.export import COLUMNS, csv_text, table_rows
from fadecount.streams.published import (
    TOTAL,
    Figures,
    Published,
    Table,
    first_per,
    no_figures,
    require_sum,
)
from fadecount.streams.reader import Reader
from fadecount.streams.status import Status
from fadecount.streams.windows import WindowCalendar

CSV = "text/csv; charset=utf-8"
MOST_VISITS = 10_000
MOST_CELLS = 1_000_000
"""Slots times keys that one request may read."""

TIMES = "at must be a time with its zone, or several with commas between"
LONGEST_SLOT = 1000 * UNITS["y"]
LONGEST_UNCHANGED = 60
"""Seconds for which readers may keep figures without asking again, at most. Someone may delete a
stream."""


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
        return await self.pool.stream(call.stream_name)

    def unchanged(self, stream: PublicStream, most: int = LONGEST_UNCHANGED) -> int:
        """For how many seconds figures cannot change: until the open tick is over, which is public.
        A second less, so that nobody who hears of the change has an answer from before."""
        due = self.clock.until(stream.ticks.start_seconds(stream.last_tick + 2))
        return max(0, min(most, int(due) - 1))

    def info(self, status: Status, keys: tuple[str, ...] | None = None) -> StreamInfo:
        """What is public about a stream now; without keys as in a list."""
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

    statuses = await context.pool.ask(read)
    streams = [context.info(each) for each in statuses[: query.limit]]
    following = streams[-1].name if len(statuses) > query.limit else None
    return context.answer(call, tagged_json(StreamPage(streams, next=following)))


async def get_stream(context: ReadContext, call: Call) -> Answer:
    """What is public about a stream."""
    stream = await context.stream(call)
    return context.answer(call, tagged_json(context.info(stream.status, stream.keys)))


async def get_figures(context: ReadContext, call: Call) -> Answer:
    """Figures of hours, days, weeks or months with exact intervals, oldest first, in pages; or with
    `per=total` the total after each tick as it was published then. JSON or CSV. Reading costs no
    privacy."""
    return await _answered(context, call, _figures)


async def get_total(context: ReadContext, call: Call) -> Answer:
    """The total since the stream began, as it is known now; JSON or CSV."""
    return await _answered(context, call, _total)


async def get_so_far(context: ReadContext, call: Call) -> Answer:
    """The slot that is not over: so far today, for a day; JSON or CSV."""
    return await _answered(context, call, _so_far)


async def get_privacy(context: ReadContext, call: Call) -> Answer:
    """The fading curve. Or single losses: with `age`, at an age; with `visits`, `every` and
    `during`, of someone who came again and again."""
    stream = await context.stream(call)
    status, ticks = stream.status, stream.ticks
    due = status.step_of(ticks.at(context.clock.now()) - 1)
    curve = FadingCurve(
        stream=status.loss,
        tick_seconds=ticks.tick_seconds,
        due=due,
        unit=status.description.unit,
    )
    question = ("curve", curve.ahead, call.query)
    tagged = await context.pool.read(stream, question, partial(_privacy, stream, call.query, curve))
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
        losses = [curve.person(visits, every, during)]
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A question about what a stream has published."""

    stream: PublicStream
    published: Published
    query: Any
    per: str
    as_of: int | None
    keys: Sequence[str | None]
    """The names of the columns of figures; None for the sum over all keys."""
    positions: Sequence[int]

    def table(self, figures: Figures) -> Table:
        """The rows of the keys that were asked for."""
        return figures.table(self.keys, self.positions)


async def _answered(
    context: ReadContext, call: Call, ask: Callable[[Asked], tuple[Table, str | None]]
) -> Answer:
    stream, as_csv = await context.stream(call), wants_csv(call)
    make = partial(_page, stream, call, as_csv, ask)
    question = (ask.__name__, as_csv, call.query)
    tagged = await context.pool.read(stream, question, make)
    return tagged.answer(call, public=context.public, seconds=context.unchanged(stream))


def _page(
    stream: PublicStream,
    call: Call,
    as_csv: bool,
    ask: Callable[[Asked], tuple[Table, str | None]],
    reader: Reader,
) -> Tagged:
    """What was asked for, with what one must know of it."""
    query: FigureQuery = call.query
    per = _per(stream, query, ask is _so_far) if isinstance(query, SoFarQuery) else TOTAL
    with refusing("bad_query", slot_lengths(stream), (ParameterError,)):
        require_sum(stream.status.description, per)
    as_of, positions = _vintage(stream, query.as_of), _positions(stream, query)
    published, following = stream.published(reader), None
    if not published.steps:
        table = no_figures(0).table(())
    else:
        asked = Asked(
            stream=stream,
            published=published.together() if query.together else published,
            query=query,
            per=per,
            as_of=as_of,
            keys=(None,) if query.together else stream.keys,
            positions=positions,
        )
        table, following = ask(asked)
    rows: Iterator[tuple[Any, ...]] = table_rows(stream.name, table, stream.ticks.zone)
    if as_csv:
        pairs = dict(parse_qsl(call.scope["query_string"].decode()))
        link = urlencode({**pairs, "cursor": following}) if following else None
        return Tagged(csv_text([COLUMNS, *rows]).encode(), CSV, next_page=link)
    through = stream.through if as_of is None else as_of
    page = FigurePage(
        stream=stream.name,
        per=per,
        zone=stream.ticks.zone,
        unit_text=stream.status.description.unit.text,
        published_through=None if through is None else stream.ticks.local(through),
        figures=[PublishedFigure(*row) for _, *row in rows],
        next=following,
    )
    return tagged_json(page)


def _figures(asked: Asked) -> tuple[Table, str | None]:
    """A page, and where the next one begins: its tick, and the first of the keys."""
    query, stream, published = asked.query, asked.stream, asked.published
    first, skip = None, 0
    if query.since is not None:
        first = _first_from(stream, query.since, "since")
    if query.cursor is not None:
        first, skip = map(int, query.cursor.split("."))
    end = published.first_tick + published.steps if asked.as_of is None else asked.as_of
    if query.until is not None:
        end = min(end, _first_from(stream, query.until, "until"))
    width = max(1, len(asked.positions))
    most = max(1, min(query.limit // width + 2, MOST_CELLS // len(stream.keys)))
    if asked.per == TOTAL:
        if first is not None:
            stream.require_kept(first)
        first = max(stream.first_tick, published.first_tick if first is None else first)
        pieces = published.running(since=first, until=min(end, first + most), as_of=asked.as_of)
        figures = Figures.joined([no_figures(len(asked.keys)), *pieces])
        begins = list(range(first, first + len(figures) + 1))
    else:
        with refusing("bad_query", slot_lengths(stream), (ParameterError,)):
            figures = published.figures(
                asked.per, since=first, until=end, as_of=asked.as_of, most=most
            )
        begin = published.first_tick if first is None else first
        begins = [begin, *(stream.ticks.at(end) for end in figures.ends.tolist())]
    places = np.flatnonzero(figures.known[:, asked.positions].ravel())
    skipped = int(np.searchsorted(places, skip))
    following = None
    if len(places) - skipped > query.limit:
        slot, column = divmod(int(places[skipped + query.limit]), width)
        following = f"{begins[slot]}.{column}"
    elif len(figures) == most and begins[-1] < end:
        following = f"{begins[-1]}.0"
    part = slice(skipped, skipped + query.limit)
    return {name: column[part] for name, column in asked.table(figures).items()}, following


def _total(asked: Asked) -> tuple[Table, str | None]:
    published, at = asked.published, asked.query.at
    if at is None:
        return asked.table(published.total(as_of=asked.as_of)), None
    with refusing("bad_query", TIMES):
        times = [msgspec.convert(each, Time, strict=False) for each in at.split(",")]
    if len(times) > 1 and len(times) * len(asked.stream.keys) > MOST_CELLS:
        raise bad_request("bad_query", f"{TIMES}; fewer, since the stream has many keys")
    ticks = [_tick(asked.stream, time, "at") for time in times]
    began = asked.stream.ticks.local(published.first_tick)
    detail = f"at must be {began} or later, where the stream began"
    with refusing("bad_query", detail, (ParameterError,)):
        return asked.table(published.totals(ticks, as_of=asked.as_of)), None


def _so_far(asked: Asked) -> tuple[Table, str | None]:
    with refusing("bad_query", slot_lengths(asked.stream), (ParameterError,)):
        return asked.table(asked.published.so_far(asked.per, as_of=asked.as_of)), None


def _positions(stream: PublicStream, query: FigureQuery) -> Sequence[int]:
    """The positions of the keys that are asked for, among the columns of figures."""
    if query.key is None:
        return range(1 if query.together else len(stream.keys))
    if query.together:
        raise bad_request("bad_query", "together must be false where there is a key")
    if query.key not in stream.positions:
        raise not_found()
    return (stream.positions[query.key],)


def _vintage(stream: PublicStream, moment: datetime | None) -> int | None:
    """The tick whose beginning is the time as of which figures are wanted."""
    first, through, shown = stream.status.first_tick, stream.through, stream.ticks.local
    if moment is None or through is None:
        return None
    tick = _tick(stream, moment, "as_of")
    if not first <= tick <= through:
        bound = f"from {shown(first)} to {shown(through)}"
        raise bad_request("bad_query", f"as_of must be {bound}: nothing later is published")
    stream.require_kept(tick)
    return tick


def _tick(stream: PublicStream, moment: datetime, name: str) -> int:
    """The tick that contains a time."""
    with refusing("bad_query", f"{name} must lie between the years 6 and 9987"):
        return stream.ticks.at(moment.timestamp())


def _first_from(stream: PublicStream, moment: datetime, name: str) -> int:
    """The first tick that begins at or after a time."""
    tick = _tick(stream, moment, name)
    return tick + (stream.ticks.start_seconds(tick) < moment.timestamp())


def slot_length(stream: PublicStream, query: ShownQuery | TopQuery) -> str:
    """The length of slots that are shown: the one asked for, or days."""
    return _per(stream, query, True)


def _per(stream: PublicStream, query: SoFarQuery | ShownQuery | TopQuery, is_open: bool) -> str:
    """The length of slots: the one asked for, or the one that people read first."""
    per = query.per or first_per(stream.status.description)
    if per == TOTAL:
        if is_open and query.per is not None:
            raise bad_request("bad_query", slot_lengths(stream))
        return "1d" if is_open else TOTAL
    with refusing("bad_query", slot_lengths(stream)):
        WindowCalendar(per=per, zone=stream.ticks.zone)
    if not stream.ticks.tick_seconds <= parse_duration(per) <= LONGEST_SLOT:
        raise bad_request("bad_query", slot_lengths(stream))
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
