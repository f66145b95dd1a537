"""The live route: server-sent events, one per tick, resumable by ``Last-Event-ID``."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from fadecount.service.answers import as_json
from fadecount.service.hub import KEPT_FRAMES, Hub
from fadecount.service.metrics import Metrics
from fadecount.service.problems import bad_request, unavailable
from fadecount.service.query import Query
from fadecount.service.reader_routes import Reading, tick_object
from fadecount.service.sse import HEARTBEAT, MEDIA_TYPE, frame

HEARTBEAT_SECONDS = 15.0
RETRY_MILLISECONDS = 2000
MOST_READERS = 512


def frame_maker(reading: Reading) -> Callable[[str, int], Awaitable[bytes | None]]:
    """Makes the frame of a published tick, reading it from the store."""

    async def make(name: str, tick: int) -> bytes | None:
        facts = await reading.ask(reading.releases.facts, name)
        found = await reading.ask(tick_object, reading.releases, facts, tick)
        return frame(as_json(found).decode(), event="tick", number=tick) if found["releases"] else None

    return make


def live_route(reading: Reading, hub: Hub, metrics: Metrics) -> Route:
    async def live(request: Request) -> Response:
        facts = await reading.facts(request)
        Query(request.scope["query_string"], frozenset())
        if hub.closed or metrics.live_readers >= MOST_READERS:
            raise unavailable("too many live readers; try again later", seconds=5)
        after = _last_seen(request)
        if facts.last_tick is not None:
            hub.nudge(facts.name, facts.last_tick)
        if after is None and facts.last_tick is not None:
            after = facts.last_tick - (1 if facts.has_releases else 0)  # the latest one at once, then each new one
        elif after is not None and facts.first_tick is not None:
            after = max(after, facts.first_tick - 1)
        if request.method == "HEAD":
            return Response(headers={"Cache-Control": "no-store"}, media_type=MEDIA_TYPE)
        answer = StreamingResponse(_frames(facts.name, after, hub, metrics), media_type=MEDIA_TYPE)
        answer.headers.update({"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        return answer

    return Route("/v1/streams/{name}/live", live, methods=["GET"])


async def _frames(name: str, after: int | None, hub: Hub, metrics: Metrics) -> AsyncIterator[bytes]:
    metrics.live_readers += 1
    try:
        yield b"retry: %d\n\n" % RETRY_MILLISECONDS
        while not hub.closed:
            latest = hub.latest(name)
            if latest is None or (after is not None and latest <= after):
                if not await hub.newer(name, after, HEARTBEAT_SECONDS) and not hub.closed:
                    yield HEARTBEAT
                continue
            after = latest - 1 if after is None else after
            for tick in range(after + 1, min(latest, after + KEPT_FRAMES) + 1):
                made = await hub.frame(name, tick)
                after = tick
                if made is not None:
                    yield made
    finally:
        metrics.live_readers -= 1


def _last_seen(request: Request) -> int | None:
    text = request.headers.get("last-event-id")
    if text is None or text == "":
        return None
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 18):
        raise bad_request("bad_event_id", "Last-Event-ID must be one that this service sent")
    return int(text)
