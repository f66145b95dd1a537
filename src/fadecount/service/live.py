"""The live route: server-sent events that say that something was published, not what.

An event holds the time through which the stream is published, so its size and its time depend on
the public clock alone. Only the position of each reader is kept; one that is slow gets the newest
event. Readers read figures again when they get one.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import msgspec
from starlette.responses import Response, StreamingResponse

from fadecount.service.http import Call
from fadecount.service.parsing import Time
from fadecount.service.problems import Problem, refusing, unavailable
from fadecount.service.read_routes import ReadContext
from fadecount.service.reader_pool import PublicStream
from fadecount.service.tokens import Grant
from fadecount.streams.ticks import Ticks

MEDIA_TYPE = "text/event-stream"
HEARTBEAT = b": still here\n\n"
HEARTBEAT_SECONDS = 15.0
RETRY_MILLISECONDS = 2000
MOST_READERS = 512


async def follow_live(context: ReadContext, call: Call) -> Response:
    """Server-sent events: one at once if something was published after Last-Event-ID, then one for
    each publication."""
    stream = await context.stream(call)
    if context.pool.is_ending or context.live_readers >= MOST_READERS:
        raise unavailable("too many live readers; try again later", seconds=5)
    after = _last_seen(call, stream.ticks)
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    if call.method == "HEAD":
        return Response(headers=headers, media_type=MEDIA_TYPE)
    frames = _counted(context, _frames(context, call.grant, stream, after))
    return StreamingResponse(frames, headers=headers, media_type=MEDIA_TYPE)


async def _counted(context: ReadContext, frames: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    context.live_readers += 1
    try:
        async for each in frames:
            yield each
    finally:
        context.live_readers -= 1


async def _frames(
    context: ReadContext, grant: Grant | None, stream: PublicStream, after: int | None
) -> AsyncIterator[bytes]:
    """What follows after the stream was published through a tick, until the service ends, the token
    is revoked or the stream is deleted."""
    name, uid, pool = stream.name, stream.status.uid, context.pool
    yield b"retry: %d\n\n" % RETRY_MILLISECONDS
    while True:
        change = pool.next_change(name)  # before the checks, so that no change after them is missed
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
            yield (
                b'id: %b\nevent: published\ndata: {"published_through":"%b"}\n\n' % (moment, moment)
            )
            continue
        try:
            async with asyncio.timeout(HEARTBEAT_SECONDS):
                await change.wait()
        except TimeoutError:
            yield HEARTBEAT


def _last_seen(call: Call, ticks: Ticks) -> int | None:
    """The tick before whose start everything was published, which a reader sends back as
    Last-Event-ID; None if it sends none."""
    text = call.headers.get("last-event-id")
    if not text:
        return None
    with refusing("bad_event_id", "Last-Event-ID must be one that this service sent"):
        return ticks.at(msgspec.convert(text, Time).timestamp())
