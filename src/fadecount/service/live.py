"""The live route: server-sent events, one per tick, resumable by ``Last-Event-ID``.

Each reader waits for a newer tick than its own, and then gets everything published since from the
store. Only the position of each reader is kept, so a slow reader takes no memory. The frames of the
last ticks are cached per stream, because many readers need the same one.
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
from fadecount.service.problems import Problem, bad_request, unavailable
from fadecount.service.read_routes import ReadContext, released_tick
from fadecount.service.reader_pool import Facts, ReaderPool
from fadecount.service.sse import HEARTBEAT, MEDIA_TYPE, frame
from fadecount.service.tokens import Grant

KEPT_FRAMES = 64
FRAME_BYTES = 8 << 20
"""Bytes of frames that are kept for the readers that have not got them yet."""

HEARTBEAT_SECONDS = 15.0
RETRY_MILLISECONDS = 2000
MOST_READERS = 512


class Broadcaster:
    """Which tick of each stream is the latest, and the frames of the last few."""

    def __init__(self, make_frame: Callable[[str, int], Awaitable[bytes | None]]) -> None:
        self._make_frame = make_frame
        self._latest: dict[str, int] = {}
        self._uids: dict[str, str] = {}
        """Which stream of its name a reader last asked for: a deleted one may have a successor."""
        self._changed: dict[str, asyncio.Event] = {}
        self._frames: OrderedDict[tuple[str, int], asyncio.Future[bytes | None]] = OrderedDict()
        self._frame_bytes = 0
        self.closed = False

    def nudge(self, stream: str, tick: int) -> None:
        """Report a published tick: published here, or found to be published by another process."""
        if tick > self._latest.get(stream, tick - 1):
            self._latest[stream] = tick
            self.wake(stream)

    def follow(self, stream: str, uid: str, tick: int | None) -> None:
        """A reader asks for a stream whose last published tick this is."""
        if (
            self._uids.setdefault(stream, uid) != uid
        ):  # the ticks of the one before are not those of this one
            self.end(stream)
            self._uids[stream] = uid
        if tick is not None:
            self.nudge(stream, tick)

    def end(self, stream: str) -> None:
        """The stream of this name is gone: forget it, and wake its readers, which find nothing any
        more."""
        self._uids.pop(stream, None)
        self._latest.pop(stream, None)
        for each in [each for each in self._frames if each[0] == stream]:
            self._drop(each)
        self.wake(stream)

    def followed(self) -> frozenset[str]:
        """The streams that a reader has asked for."""
        return frozenset(self._uids)

    def latest(self, stream: str) -> int | None:
        return self._latest.get(stream)

    def wake_all(self) -> None:
        """Wake every reader, so that it checks again whether it may still read."""
        for stream in list(self._changed):
            self.wake(stream)

    def close(self) -> None:
        """End every live connection."""
        self.closed = True
        self.wake_all()

    def wake(self, stream: str) -> None:
        """Wake the readers of a stream, so that each checks again whether it may still read it, and
        whether it is there."""
        if changed := self._changed.pop(stream, None):
            changed.set()

    def change(self, stream: str) -> asyncio.Event:
        """Set when the stream next changes, or the service ends."""
        return self._changed.setdefault(stream, asyncio.Event())

    async def frame(self, stream: str, tick: int) -> bytes | None:
        """The frame of a published tick, made once for all readers."""
        found = self._frames.get((stream, tick))
        if found is None:
            found = self._frames[stream, tick] = asyncio.ensure_future(
                self._make_frame(stream, tick)
            )
            found.add_done_callback(lambda made: self._made((stream, tick), made))
        return await asyncio.shield(found)

    def _made(self, name: tuple[str, int], made: asyncio.Future[bytes | None]) -> None:
        """Keep a frame that was made, and drop those that were made first, if there are too
        many."""
        if self._frames.get(name) is not made:
            return
        if made.cancelled() or made.exception() is not None:
            del self._frames[name]
            return
        self._frame_bytes += len(made.result() or b"")
        while len(self._frames) > KEPT_FRAMES or (
            self._frame_bytes > FRAME_BYTES and len(self._frames) > 1
        ):
            self._drop(next(iter(self._frames)))

    def _drop(self, name: tuple[str, int]) -> None:
        frame = self._frames.pop(name)
        if frame.done() and not frame.cancelled() and frame.exception() is None:
            self._frame_bytes -= len(frame.result() or b"")


def frame_maker(context: ReadContext) -> Callable[[str, int], Awaitable[bytes | None]]:
    """Makes the frame of a published tick, reading it from the store."""

    async def make(name: str, tick: int) -> bytes | None:
        facts = await context.pool.facts(name)
        if facts.first_tick is not None and tick < facts.first_tick:  # removed meanwhile
            return None
        found = await context.pool.ask(lambda reader: released_tick(reader, facts, tick))
        return (
            frame(msgspec.json.encode(found).decode(), event="tick", number=tick)
            if found.releases
            else None
        )

    return make


def live_route(context: ReadContext, broadcaster: Broadcaster, metrics: Metrics) -> Route:
    readers = 0

    async def live(request: Request) -> Response:
        name = request.path_params["name"]
        grant = context.access.allow(request.scope, Action.READ, name)
        facts = await context.pool.facts(name, request)
        Query(request.scope["query_string"], frozenset())
        if broadcaster.closed or readers >= MOST_READERS:
            raise unavailable("too many live readers; try again later", seconds=5)
        after = _last_seen(request)
        broadcaster.follow(facts.name, facts.status.uid, facts.last_tick)
        if after is None and facts.last_tick is not None:
            after = facts.last_tick - (
                1 if facts.has_releases else 0
            )  # the latest one at once, then each new one
        elif after is not None and facts.first_tick is not None:
            after = max(after, facts.first_tick - 1)
        if request.method == "HEAD":
            return Response(headers={"Cache-Control": "no-store"}, media_type=MEDIA_TYPE)
        answer = StreamingResponse(counted(facts, after, grant), media_type=MEDIA_TYPE)
        answer.headers.update({"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        return answer

    async def counted(facts: Facts, after: int | None, grant: Grant | None) -> AsyncIterator[bytes]:
        nonlocal readers

        async def may_read() -> bool:
            return context.access.still(grant) and await _is_there(context.pool, facts)

        readers += 1
        metrics.live_readers.set(readers)
        try:
            async for each in _frames(facts.name, after, broadcaster, may_read):
                yield each
        finally:
            readers -= 1
            metrics.live_readers.set(readers)

    return Route("/v1/streams/{name}/live", live, methods=["GET"])


async def _is_there(pool: ReaderPool, facts: Facts) -> bool:
    """Whether a stream was not deleted meanwhile. A store that does not answer says nothing about
    that."""
    try:
        return (await pool.facts(facts.name)).status.uid == facts.status.uid
    except Problem as problem:
        return problem.status != 404


async def _frames(
    name: str, after: int | None, broadcaster: Broadcaster, may_read: Callable[[], Awaitable[bool]]
) -> AsyncIterator[bytes]:
    """The frames after a tick, until the service ends, the token is revoked or the stream is
    deleted."""
    yield b"retry: %d\n\n" % RETRY_MILLISECONDS
    while True:
        change = broadcaster.change(
            name
        )  # before the checks, so that no change after them is missed
        if broadcaster.closed or not await may_read():
            return
        latest = broadcaster.latest(name)
        if latest is None or (after is not None and latest <= after):
            try:
                async with asyncio.timeout(HEARTBEAT_SECONDS):
                    await change.wait()
            except TimeoutError:
                yield HEARTBEAT
            continue
        after = latest - 1 if after is None else after
        for tick in range(after + 1, min(latest, after + KEPT_FRAMES) + 1):
            try:
                made = await broadcaster.frame(name, tick)
            except (
                Problem
            ):  # deleted, or the store does not answer: the client asks again, and gets a status
                return
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
