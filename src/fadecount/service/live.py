"""The live route: server-sent events, one per tick, resumable by ``Last-Event-ID``.

Each reader waits for a newer tick than its own, and then gets everything published since from the
store. Only the position of each reader is kept, so a slow reader takes no memory. Readers of the
same tick share its frame, in the cache of answers.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import msgspec
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from fadecount.errors import ParameterError
from fadecount.service.metrics import Metrics
from fadecount.service.parsing import Query, moment_of
from fadecount.service.problems import Problem, bad_request, unavailable
from fadecount.service.read_routes import ReadContext, released_tick
from fadecount.service.reader_pool import PublicStream, ReaderPool
from fadecount.service.routes import Handler
from fadecount.service.tokens import Action
from fadecount.streams.reader import Reader
from fadecount.streams.ticks import Ticks

MEDIA_TYPE = "text/event-stream"
HEARTBEAT = b": still here\n\n"
HEARTBEAT_SECONDS = 15.0
RETRY_MILLISECONDS = 2000
MOST_READERS = 512


class Changes:
    """Wakes those who wait for a change of a stream."""

    def __init__(self) -> None:
        self._waiting: dict[str, asyncio.Event] = {}
        self.closed = False

    def wake(self, stream: str) -> None:
        """Wake the readers of a stream: it has published a tick, or has changed otherwise."""
        if changed := self._waiting.pop(stream, None):
            changed.set()

    def wake_all(self) -> None:
        """Wake every reader, so that it checks again whether it may still read."""
        for stream in list(self._waiting):
            self.wake(stream)

    def close(self) -> None:
        """End every live connection."""
        self.closed = True
        self.wake_all()

    def next(self, stream: str) -> asyncio.Event:
        """Set when the stream next changes, or the service ends."""
        return self._waiting.setdefault(stream, asyncio.Event())

    def waited_for(self) -> frozenset[str]:
        """The streams that a reader waits for."""
        return frozenset(self._waiting)


def live_handler(context: ReadContext, changes: Changes, metrics: Metrics) -> Handler:
    """The handler of the live route."""
    readers = 0

    async def live(request: Request) -> Response:
        name = request.path_params["name"]
        grant = context.access.allow(request.scope, Action.READ, name)
        stream = await context.pool.stream(name, request)
        Query.of(request)
        if changes.closed or readers >= MOST_READERS:
            raise unavailable("too many live readers; try again later", seconds=5)
        after = _last_seen(request, stream.ticks)
        if after is None and stream.last_tick is not None:  # the latest at once, then each new one
            after = stream.last_tick - (1 if stream.has_releases else 0)
        if request.method == "HEAD":
            return Response(headers={"Cache-Control": "no-store"}, media_type=MEDIA_TYPE)
        frames = counted(stream, after, lambda: context.access.still(grant))
        answer = StreamingResponse(frames, media_type=MEDIA_TYPE)
        answer.headers.update({"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        return answer

    async def counted(
        stream: PublicStream, after: int | None, may_read: Callable[[], bool]
    ) -> AsyncIterator[bytes]:
        nonlocal readers
        readers += 1
        metrics.live_readers.set(readers)
        try:
            async for each in _frames(stream, after, context.pool, changes, may_read):
                yield each
        finally:
            readers -= 1
            metrics.live_readers.set(readers)

    return live


async def _frames(
    stream: PublicStream,
    after: int | None,
    pool: ReaderPool,
    changes: Changes,
    may_read: Callable[[], bool],
) -> AsyncIterator[bytes]:
    """The frames after a tick, until the service ends, the token is revoked or the stream is
    deleted."""
    name, uid = stream.name, stream.status.uid
    yield b"retry: %d\n\n" % RETRY_MILLISECONDS
    while True:
        change = changes.next(name)  # before the checks, so that no change after them is missed
        if changes.closed or not may_read():
            return
        try:
            stream = await pool.stream(name)
        except Problem as problem:  # a store that does not answer says nothing about the stream
            if problem.status == 404:
                return
        if stream.status.uid != uid:  # deleted; this is another one of the same name
            return
        last, first = stream.last_tick, stream.first_tick
        if last is None or first is None or (after is not None and last <= after):
            try:
                async with asyncio.timeout(HEARTBEAT_SECONDS):
                    await change.wait()
            except TimeoutError:
                yield HEARTBEAT
            continue
        after = max(last - 1 if after is None else after, first - 1) + 1
        try:
            made = await pool.read(stream, ("frame", after), _frame_maker(stream, after))
        except Problem:  # the client asks again, and gets a status
            return
        if made:
            yield made


def _frame_maker(stream: PublicStream, tick: int) -> Callable[[], Callable[[Reader], bytes]]:
    def make(reader: Reader) -> bytes:
        released = released_tick(reader, stream, tick)
        if not released.releases:
            return b""
        return b"id: %b\nevent: tick\ndata: %b\n\n" % (
            released.start.encode(),
            msgspec.json.encode(released),  # in one line
        )

    return lambda: make


def _last_seen(request: Request, ticks: Ticks) -> int | None:
    """The tick whose start a reader sends back as Last-Event-ID; None if it sends none."""
    text = request.headers.get("last-event-id")
    if not text:
        return None
    try:
        return ticks.at(moment_of(text))
    except (ParameterError, ValueError, OverflowError, OSError):
        detail = "Last-Event-ID must be one that this service sent"
        raise bad_request("bad_event_id", detail) from None
