"""Routes that read: streams, releases, and what they cost. They see published releases and public
facts, nothing else.

Each answer is made once per closed tick, on a thread, and kept in memory until the next tick of its
stream is closed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from fadecount.durations import UNITS
from fadecount.service.access import Access, Action
from fadecount.service.answers import (
    AgeStatement,
    ComparisonAnswer,
    PersonAnswer,
    PrivacyCurve,
    ReleasedRow,
    ReleasedTick,
    ReleasedValue,
    ReleasePage,
    StreamDescription,
    StreamList,
    StreamSummary,
    UnitAnswer,
)
from fadecount.service.clock import Clock
from fadecount.service.fading_curve import (
    REFRESHED,
    FadingCurve,
    curve_of,
    privacy_of_event,
    unit_text,
)
from fadecount.service.http import FRESH, Tagged, json_answer, wants_csv
from fadecount.service.parsing import (
    LONGEST_NAME,
    MOST_ROWS,
    MOST_STREAMS,
    Query,
    first_from,
)
from fadecount.service.problems import bad_request, not_found
from fadecount.service.reader_pool import Facts, ReaderPool, Release, read_page
from fadecount.service.window_route import PARAMETERS, windows_maker
from fadecount.streams.export import COLUMNS, csv_text
from fadecount.streams.reader import Reader

_NONE = frozenset[str]()
_PRIVACY = frozenset({"age", "time", "at", "refresh", "visits", "every", "during"})
MOST_VISITS = 10_000
_RANGE = frozenset({"key", "since", "until", "limit", "cursor"})
Maker = Callable[[Reader], Tagged]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadContext:
    """What reading routes work with."""

    pool: ReaderPool
    access: Access
    clock: Clock
    public: bool
    clock_trouble: Callable[[str], str | None]
    """What is wrong with the clock, for a given stream."""

    def allowed(self, request: Request) -> str:
        """The name of the stream of a request, if the request may read it."""
        name: str = request.path_params["name"]
        self.access.allow(request.scope, Action.READ, name)
        return name

    async def facts(self, request: Request) -> Facts:
        """The stream of a request, if the request may read it."""
        return await self.pool.facts(self.allowed(request), request)

    async def kept(
        self,
        request: Request,
        facts: Facts,
        kind: str,
        prepare: Callable[[], Maker],
        *,
        lasting: bool = False,
    ) -> Response:
        """The cached answer to a request, or a new one, cached until the next tick, or for longer
        if it is ``lasting``.

        ``prepare`` checks the query; a query that has an answer in the cache was checked before.
        """
        question = (kind, request.scope["query_string"])
        tagged = await self.pool.read(facts, question, prepare, request, lasting=lasting)
        return tagged.answer(request, public=self.public)


def read_routes(context: ReadContext) -> Iterator[Route]:
    """Each route checks the token, then answers from the cache or does all of its reading in one
    call on a thread."""

    async def releases(request: Request) -> Response:
        facts = await context.facts(request)
        as_table = wants_csv(request)

        def prepare() -> Maker:
            return _page_maker(
                facts, Query(request.scope["query_string"], _RANGE), as_table=as_table
            )

        return await context.kept(request, facts, "csv" if as_table else "json", prepare)

    async def latest(request: Request) -> Response:
        facts = await context.facts(request)
        if not facts.has_releases or facts.last_tick is None:
            raise not_found("no tick of this stream has ended yet; ask again when one has")

        def prepare() -> Maker:
            Query(request.scope["query_string"], _NONE)
            return lambda reader: latest_answer(reader, facts)

        return await context.kept(request, facts, "latest", prepare)

    async def windows(request: Request) -> Response:
        facts = await context.facts(request)
        as_table = wants_csv(request)

        def prepare() -> Maker:
            return windows_maker(
                facts, Query(request.scope["query_string"], PARAMETERS), as_table=as_table
            )

        return await context.kept(request, facts, f"windows {as_table}", prepare)

    async def privacy(request: Request) -> Response:
        facts = await context.facts(request)
        query = Query(request.scope["query_string"], _PRIVACY)
        now = context.clock.now()
        curve = curve_of(facts, now)
        # closing other ticks does not change it
        kind = f"curve {curve.stream.histories} {curve.ahead}"
        if "refresh" in query:
            return await context.kept(
                request, facts, kind, lambda: _comparison(facts, query, now), lasting=True
            )
        if "visits" in query or "every" in query or "during" in query:
            return await context.kept(
                request, facts, kind, lambda: _person(facts, query, now), lasting=True
            )
        if "time" in query or "at" in query:
            return json_answer(privacy_of_event(facts, query, now), cache=FRESH)
        age = query.age("age")
        if age is not None:
            found = msgspec.structs.asdict(curve.statement(age))
            return json_answer(
                AgeStatement(**found, stream=facts.name, unit=unit_text(facts)), cache=FRESH
            )
        return await context.kept(
            request, facts, kind, lambda: lambda _: _curve(facts, curve), lasting=True
        )

    yield Route("/v1/streams/{name}/releases", releases, methods=["GET"])
    yield Route("/v1/streams/{name}/releases/latest", latest, methods=["GET"])
    yield Route("/v1/streams/{name}/windows", windows, methods=["GET"])
    yield Route("/v1/streams/{name}/privacy", privacy, methods=["GET"])


async def list_streams(context: ReadContext, request: Request) -> Response:
    """``GET /v1/streams``: a page of the streams that the request may see."""
    only = context.access.visible(request.scope)
    query = Query(request.scope["query_string"], frozenset({"limit", "cursor"}))
    limit, after = (
        query.integer("limit", MOST_STREAMS, minimum=1, maximum=MOST_STREAMS),
        query.text("cursor") or "",
    )
    if len(after) > LONGEST_NAME or "\0" in after:
        raise bad_request("bad_cursor", "cursor must be one that this service returned")

    def read(reader: Reader) -> list[StreamSummary]:
        found = (
            reader.summaries(after=after, limit=limit + 1)
            if only is None
            else reader.summaries(only=only)
        )
        return [
            StreamSummary(name=name, tick_seconds=seconds, key_count=keys)
            for name, seconds, keys in found
        ]

    found = await context.pool.ask(read, request)
    following = found[limit - 1].name if len(found) > limit else None
    return json_answer(StreamList(streams=found[:limit], next=following), cache=FRESH)


async def describe_stream(context: ReadContext, request: Request) -> Response:
    """``GET /v1/streams/{name}``: everything that is public about a stream."""
    facts = await context.facts(request)
    Query(request.scope["query_string"], _NONE)
    return json_answer(
        description(facts, context.clock.now(), context.clock_trouble(facts.name)), cache=FRESH
    )


def description(facts: Facts, now: float, clock: str | None) -> StreamDescription:
    """Everything that is public about a stream."""
    shown, unit = facts.ticks.shown, facts.status.description.unit
    return StreamDescription(
        name=facts.name,
        tick_seconds=facts.ticks.tick_seconds,
        zone=facts.ticks.zone,
        keys=list(facts.keys),
        mechanism=json.loads(facts.mechanism.to_json()),
        unit=UnitAnswer(
            of=unit.of,
            amount=unit.amount,
            events=unit.events,
            keys=unit.keys,
            sensitivity=unit.sensitivity,
            text=unit.text,
        ),
        histories=facts.status.loss.histories,
        retain_seconds=facts.status.retain_seconds,
        first_tick=shown(facts.first_tick)
        if facts.has_releases and facts.first_tick is not None
        else None,
        last_tick=shown(facts.last_tick)
        if facts.has_releases and facts.last_tick is not None
        else None,
        last_id=facts.last_tick if facts.has_releases else None,
        now=shown(facts.ticks.at(now)),
        clock=clock,
    )


def released_tick(reader: Reader, facts: Facts, tick: int) -> ReleasedTick:
    """One published tick with all its keys: the body of ``latest``, and of a live event."""
    rows = read_page(
        reader, facts.name, tick, tick + 1, skip=0, limit=len(facts.keys) + 1, position=None
    )
    values = [
        ReleasedValue(key=facts.keys[row.position], value=row.value, low=row.low, high=row.high)
        for row in rows
    ]
    return ReleasedTick(id=tick, tick=facts.ticks.shown(tick), releases=values)


def latest_answer(reader: Reader, facts: Facts) -> Tagged:
    """The last published tick."""
    assert facts.last_tick is not None
    return Tagged.of(
        msgspec.json.encode(released_tick(reader, facts, facts.last_tick)), "application/json"
    )


def _curve(facts: Facts, curve: FadingCurve) -> Tagged:
    found = PrivacyCurve(
        stream=facts.name,
        unit=unit_text(facts),
        tick_seconds=curve.tick_seconds,
        typical_error=round(curve.typical_error(), 1),
        statements=curve.statements(),
        curve=curve.curve(),
        refresh=curve.refresh(),
    )
    return Tagged.of(msgspec.json.encode(found), "application/json")


def _comparison(facts: Facts, query: Query, now: float) -> Maker:
    every = query.age("refresh") or 0
    if every not in REFRESHED:
        raise bad_request("bad_query", "refresh must be 1d, 1w, 1mo or 1y")
    found = ComparisonAnswer(stream=facts.name, unit=unit_text(facts), refresh=None)

    def make(_: Reader) -> Tagged:
        found.refresh = curve_of(facts, now).refresh(every)
        return Tagged.of(msgspec.json.encode(found), "application/json")

    return make


def _person(facts: Facts, query: Query, now: float) -> Maker:
    visits = query.integer("visits", 1, minimum=1, maximum=1000)
    every, during = query.age("every") or UNITS["d"], query.age("during") or UNITS["mo"]
    if visits * -(-during // every) > MOST_VISITS:
        raise bad_request(
            "bad_query", f"visits in during must be at most {MOST_VISITS:,}; ask for a shorter time"
        )

    def make(_: Reader) -> Tagged:
        unit = facts.status.description.unit
        found = msgspec.structs.asdict(curve_of(facts, now).person(visits, every, during, unit))
        return Tagged.of(
            msgspec.json.encode(PersonAnswer(**found, stream=facts.name, unit=unit_text(facts))),
            "application/json",
        )

    return make


def _page_maker(facts: Facts, query: Query, *, as_table: bool) -> Maker:
    limit = query.integer("limit", 1000, minimum=1, maximum=MOST_ROWS)
    key = query.text("key")
    if key is not None and key not in facts.positions:
        raise not_found()
    position = None if key is None else facts.positions[key]
    begin, end, skip, closed = _range(facts, query)

    def make(reader: Reader) -> Tagged:
        rows: list[Release] = []
        if begin <= end:
            rows = read_page(
                reader, facts.name, begin, end + 1, skip=skip, limit=limit + 1, position=position
            )
        more, rows = len(rows) > limit, rows[:limit]
        following = f"{rows[-1].tick}.{rows[-1].position + 1}" if more else None
        return _page(facts, rows, following, closed=closed or more, as_table=as_table)

    return make


def _range(facts: Facts, query: Query) -> tuple[int, int, int, bool]:
    """The requested ticks, how many keys of the first one to skip, and whether all of them are
    closed."""
    since, until, cursor = query.moment("since"), query.moment("until"), query.cursor()
    if not facts.has_releases or facts.first_tick is None or facts.last_tick is None:
        return 1, 0, 0, False
    begin = facts.first_tick
    if since is not None:
        asked = first_from(facts.ticks, since, "since")
        facts.require_kept(asked)
        begin = max(begin, asked)
    wanted = None if until is None else first_from(facts.ticks, until, "until") - 1
    end = facts.last_tick if wanted is None else min(wanted, facts.last_tick)
    skip = 0
    if cursor is not None:
        facts.require_kept(cursor[0])
    if cursor is not None and cursor[0] >= begin:
        begin, skip = cursor
    return begin, end, skip, wanted is not None and wanted <= facts.last_tick


def _page(
    facts: Facts, rows: list[Release], following: str | None, *, closed: bool, as_table: bool
) -> Tagged:
    shown_tick = (
        facts.ticks.local if as_table else facts.ticks.shown
    )  # a table has the times of exported files
    ticks = {tick: shown_tick(tick) for tick in {row.tick for row in rows}}
    if as_table:
        lines = (
            (facts.name, ticks[row.tick], facts.keys[row.position], row.value, row.low, row.high)
            for row in rows
        )
        return Tagged.of(
            csv_text([COLUMNS, *lines]).encode(),
            "text/csv; charset=utf-8",
            closed=closed,
            next_cursor=following,
        )
    shown = [
        ReleasedRow(
            tick=ticks[row.tick],
            key=facts.keys[row.position],
            value=row.value,
            low=row.low,
            high=row.high,
        )
        for row in rows
    ]
    page = ReleasePage(releases=shown, next=following)
    return Tagged.of(
        msgspec.json.encode(page), "application/json", closed=closed, next_cursor=following
    )
