"""Routes that read: streams, releases, and what they cost. They see published releases and public facts, nothing else."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeVar

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from fadecount.service.access import Access, Action
from fadecount.service.clock import Clock
from fadecount.service.fading_curve import FadingCurve, curve_of, moment_answer
from fadecount.service.http import FRESH, as_csv, as_json, json_answer, tagged, wants_csv
from fadecount.service.parsing import Query, first_from
from fadecount.service.problems import not_found
from fadecount.service.reader_pool import Facts, ReaderPool, Release

MOST_ROWS = 10_000
_ALL = frozenset[str]()
_RANGE = frozenset({"key", "since", "until", "limit", "cursor"})
Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadContext:
    """What reading routes work with."""

    releases: ReaderPool
    access: Access
    clock: Clock
    public: bool
    threads: Executor

    async def ask(self, question: Callable[..., Answer], *arguments: Any) -> Answer:
        """Ask the store on a thread that may wait for it."""
        return await asyncio.get_running_loop().run_in_executor(self.threads, question, *arguments)

    async def facts(self, request: Request) -> Facts:
        """The stream of a request, if the request may read it."""
        return await self.ask(self.releases.facts, self.allowed(request))

    def allowed(self, request: Request) -> str:
        """The name of the stream of a request, if the request may read it."""
        name: str = request.path_params["name"]
        self.access.allow(request.headers.get("authorization"), Action.READ, name)
        return name


def reader_routes(reading: ReadContext) -> list[Route]:
    """Each route checks the token, then does all of its reading in one go on a thread."""

    def route(path: str, answer: Callable[[Request, Facts], Response]) -> Route:
        def read(request: Request, name: str) -> Response:
            return answer(request, reading.releases.facts(name))

        async def handle(request: Request) -> Response:
            return await reading.ask(read, request, reading.allowed(request))

        return Route(f"/v1/streams/{{name}}{path}", handle, methods=["GET"])

    def list_seen(request: Request, only: str | None) -> Response:
        Query(request.scope["query_string"], _ALL)
        seen = [name for name in reading.releases.names() if only is None or name == only]
        return json_answer({"streams": [summary(reading.releases.facts(name)) for name in seen]}, cache=FRESH)

    async def list_streams(request: Request) -> Response:
        return await reading.ask(list_seen, request, reading.access.visible(request.headers.get("authorization")))

    def describe(request: Request, facts: Facts) -> Response:
        Query(request.scope["query_string"], _ALL)
        return json_answer(description(facts, reading.clock.now()), cache=FRESH)

    def releases(request: Request, facts: Facts) -> Response:
        query = Query(request.scope["query_string"], _RANGE)
        limit = query.integer("limit", 1000, minimum=1, maximum=MOST_ROWS)
        position = _position(facts, query.text("key"))
        begin, end, skip, closed = _range(facts, query)
        rows: list[Release] = []
        if begin <= end:
            rows = reading.releases.page(facts.name, begin, end, skip=skip, limit=limit + 1, position=position)
        more, rows = len(rows) > limit, rows[:limit]
        following = f"{rows[-1].tick}.{rows[-1].position + 1}" if more else None
        return _page(request, facts, rows, following, closed or more, reading.public)

    def latest(request: Request, facts: Facts) -> Response:
        Query(request.scope["query_string"], _ALL)
        if not facts.has_releases or facts.last_tick is None:
            raise not_found("no tick of this stream has ended yet; ask again when one has")
        body = as_json(tick_object(reading.releases, facts, facts.last_tick))
        return tagged(request, body, "application/json", closed=False, public=reading.public)

    def privacy(request: Request, facts: Facts) -> Response:
        query = Query(request.scope["query_string"], frozenset({"age", "time", "at"}))
        if "time" in query or "at" in query:
            return json_answer(moment_answer(reading.releases, facts, query, reading.clock.now()), cache=FRESH)
        age = query.age("age")
        if age is not None:
            return json_answer({"stream": facts.name, **curve_of(facts).statement(age)}, cache=FRESH)
        return tagged(request, curve_body(facts.name, curve_of(facts)), "application/json", closed=False, public=reading.public)

    return [
        Route("/v1/streams", list_streams, methods=["GET"]),
        route("", describe),
        route("/releases", releases),
        route("/releases/latest", latest),
        route("/privacy", privacy),
    ]


def summary(facts: Facts) -> dict[str, Any]:
    return {"name": facts.name, "tick_seconds": facts.ticks.tick_seconds, "keys": list(facts.keys)}


def description(facts: Facts, now: float) -> dict[str, Any]:
    """Everything that is public about a stream."""
    return {
        **summary(facts),
        "zone": facts.ticks.zone,
        "mechanism": json.loads(facts.mechanism.to_json()),
        "sensitivity": facts.sensitivity,
        "histories": facts.histories,
        "first_start": facts.ticks.shown(facts.first_tick) if facts.has_releases and facts.first_tick is not None else None,
        "last_start": facts.ticks.shown(facts.last_tick) if facts.has_releases and facts.last_tick is not None else None,
        "last_tick": facts.last_tick if facts.has_releases else None,
        "now": facts.ticks.shown(facts.ticks.at(now)),
    }


def tick_object(releases: ReaderPool, facts: Facts, tick: int) -> dict[str, Any]:
    """One published tick with all its keys: the body of ``latest``, and of a live event."""
    rows = releases.page(facts.name, tick, tick, skip=0, limit=len(facts.keys) + 1, position=None)
    return {"tick": tick, "start": facts.ticks.shown(tick), "releases": [_row(facts, row) for row in rows]}


@lru_cache(maxsize=64)
def curve_body(name: str, fading: FadingCurve) -> bytes:
    return as_json(
        {
            "stream": name,
            "tick_seconds": fading.tick_seconds,
            "typical_error": round(fading.typical_error(), 1),
            "statements": fading.statements(),
            "curve": fading.curve(),
            "refresh": fading.refresh(),
        }
    )


def _row(facts: Facts, row: Release) -> dict[str, Any]:
    return {"key": facts.keys[row.position], "value": row.value, "low": row.low, "high": row.high}


def _position(facts: Facts, key: str | None) -> int | None:
    if key is None:
        return None
    if key not in facts.keys:
        raise not_found()
    return facts.keys.index(key)


def _range(facts: Facts, query: Query) -> tuple[int, int, int, bool]:
    """The ticks asked for, how many keys of the first to leave out, and whether all of them are closed."""
    since, until, cursor = query.moment("since"), query.moment("until"), query.cursor()
    if not facts.has_releases or facts.first_tick is None or facts.last_tick is None:
        return 1, 0, 0, False
    begin = facts.first_tick if since is None else max(facts.first_tick, first_from(facts.ticks, since, "since"))
    wanted = None if until is None else first_from(facts.ticks, until, "until") - 1
    end = facts.last_tick if wanted is None else min(wanted, facts.last_tick)
    skip = 0
    if cursor is not None and cursor[0] >= begin:
        begin, skip = cursor
    return begin, end, skip, wanted is not None and wanted <= facts.last_tick


def _page(request: Request, facts: Facts, rows: list[Release], following: str | None, closed: bool, public: bool) -> Response:
    starts = {tick: facts.ticks.shown(tick) for tick in {row.tick for row in rows}}
    if wants_csv(request):
        header = ("stream", "tick_start", "key", "value", "low", "high")
        lines = ((facts.name, starts[row.tick], facts.keys[row.position], row.value, row.low, row.high) for row in rows)
        answer = tagged(request, as_csv(header, lines), "text/csv; charset=utf-8", closed=closed, public=public)
        if following:
            answer.headers["Link"] = f'<?cursor={following}>; rel="next"'
        return answer
    shown = [{"start": starts[row.tick], **_row(facts, row)} for row in rows]
    return tagged(request, as_json({"releases": shown, "next": following}), "application/json", closed=closed, public=public)
