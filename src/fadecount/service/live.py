"""The live route: server-sent events, one per tick, resumable by ``Last-Event-ID``.

Each reader waits for a newer tick than its own, and then gets everything published since from the store. Only the position of
each reader is kept, so a slow reader takes no memory. The frames of the last ticks are cached per stream, because many readers
need the same one.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable

import msgspec
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from fadecount.service.access import Action
from fadecount.service.metrics import Metrics
from fadecount.service.parsing import Query
from fadecount.service.problems import bad_request, unavailable
from fadecount.service.read_routes import ReadContext, released_tick
from fadecount.service.sse import HEARTBEAT, MEDIA_TYPE, frame
from fadecount.service.tokens import Grant

KEPT_FRAMES = 64
HEARTBEAT_SECONDS = 15.0
RETRY_MILLISECONDS = 2000
MOST_READERS = 512


class Broadcaster:
    """Which tick of each stream is the latest, and the frames of the last few."""

    def __init__(self, make_frame: Callable[[str, int], Awaitable[bytes | None]]) -> None:
        self._make_frame = make_frame
        self._latest: dict[str, int] = {}
        self._changed: dict[str, asyncio.Event] = {}
        self._frames: OrderedDict[tuple[str, int], asyncio.Future[bytes | None]] = OrderedDict()
        self.closed = False

    def nudge(self, stream: str, tick: int) -> None:
        """Report a published tick: published here, or found to be published by another process."""
        if tick > self._latest.get(stream, tick - 1):
            self._latest[stream] = tick
            self._wake(stream)

    @property
    def has_streams(self) -> bool:
        """Whether any reader has asked for a stream."""
        return bool(self._latest)

    def latest(self, stream: str) -> int | None:
        return self._latest.get(stream)

    def wake_all(self) -> None:
        """Wake every reader, so that it checks again whether it may still read."""
        for stream in list(self._changed):
            self._wake(stream)

    def close(self) -> None:
        """End every live connection."""
        self.closed = True
        self.wake_all()

    def _wake(self, stream: str) -> None:
        if changed := self._changed.pop(stream, None):
            changed.set()

    async def change(self, stream: str, timeout: float) -> bool:
        """Wait until the stream changes; False after ``timeout`` seconds without a change."""
        changed = self._changed.setdefault(stream, asyncio.Event())
        try:
            async with asyncio.timeout(timeout):
                await changed.wait()
        except TimeoutError:
            return False
        return True

    async def frame(self, stream: str, tick: int) -> bytes | None:
        """The frame of a published tick, made once for all readers."""
        found = self._frames.get((stream, tick))
        if found is None:
            found = self._frames[stream, tick] = asyncio.ensure_future(self._make_frame(stream, tick))
            while len(self._frames) > KEPT_FRAMES:
                self._frames.popitem(last=False)
        try:
            return await asyncio.shield(found)
        except Exception:
            self._frames.pop((stream, tick), None)
            raise


def frame_maker(context: ReadContext) -> Callable[[str, int], Awaitable[bytes | None]]:
    """Makes the frame of a published tick, reading it from the store."""

    async def make(name: str, tick: int) -> bytes | None:
        facts = await context.pool.facts(name)
        if facts.first_tick is not None and tick < facts.first_tick:  # removed meanwhile
            return None
        found = await context.pool.ask(lambda reader: released_tick(reader, facts, tick))
        return frame(msgspec.json.encode(found).decode(), event="tick", number=tick) if found.releases else None

    return make


def live_route(context: ReadContext, broadcaster: Broadcaster, metrics: Metrics) -> Route:
    readers = 0

    async def live(request: Request) -> Response:
        name = request.path_params["name"]
        grant = context.access.allow(request.headers.get("authorization"), Action.READ, name)
        facts = await context.pool.facts(name, request)
        Query(request.scope["query_string"], frozenset())
        if broadcaster.closed or readers >= MOST_READERS:
            raise unavailable("too many live readers; try again later", seconds=5)
        after = _last_seen(request)
        if facts.last_tick is not None:
            broadcaster.nudge(facts.name, facts.last_tick)
        if after is None and facts.last_tick is not None:
            after = facts.last_tick - (1 if facts.has_releases else 0)  # the latest one at once, then each new one
        elif after is not None and facts.first_tick is not None:
            after = max(after, facts.first_tick - 1)
        if request.method == "HEAD":
            return Response(headers={"Cache-Control": "no-store"}, media_type=MEDIA_TYPE)
        answer = StreamingResponse(counted(facts.name, after, grant), media_type=MEDIA_TYPE)
        answer.headers.update({"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        return answer

    async def counted(name: str, after: int | None, grant: Grant | None) -> AsyncIterator[bytes]:
        nonlocal readers
        readers += 1
        metrics.live_readers.set(readers)
        try:
            async for each in _frames(name, after, broadcaster, lambda: context.access.still(grant)):
                yield each
        finally:
            readers -= 1
            metrics.live_readers.set(readers)

    return Route("/v1/streams/{name}/live", live, methods=["GET"])


async def _frames(name: str, after: int | None, broadcaster: Broadcaster, may_read: Callable[[], bool]) -> AsyncIterator[bytes]:
    """The frames after a tick, until the service ends or the token is revoked."""
    yield b"retry: %d\n\n" % RETRY_MILLISECONDS
    while not broadcaster.closed and may_read():
        latest = broadcaster.latest(name)
        if latest is None or (after is not None and latest <= after):
            if not await broadcaster.change(name, HEARTBEAT_SECONDS):
                yield HEARTBEAT
            continue
        after = latest - 1 if after is None else after
        for tick in range(after + 1, min(latest, after + KEPT_FRAMES) + 1):
            made = await broadcaster.frame(name, tick)
            after = tick
            if made is not None:
                yield made


def _last_seen(request: Request) -> int | None:
    text = request.headers.get("last-event-id")
    if text is None or text == "":
        return None
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 18):
        raise bad_request("bad_event_id", "Last-Event-ID must be one that this service sent")
    return int(text)
