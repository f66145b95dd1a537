"""The live route: server-sent events that say that something was published, not what.

An event holds the time through which the stream is published, so its size and its time depend on
the public clock alone. Only the position of each reader is kept; one that is slow gets the newest
event. Readers read figures again when they get one.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

from fadecount.service.http import Answer, Problem, Request, unavailable
from fadecount.service.read_routes import ReadContext
from fadecount.service.reader_pool import PublicStream
from fadecount.service.tokens import Grant

MEDIA_TYPE = "text/event-stream"
HEADERS = (
    (b"content-type", MEDIA_TYPE.encode()),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
)
HEARTBEAT = b": still here\n\n"
HEARTBEAT_SECONDS = 15.0
RETRY_MILLISECONDS = 2000
MOST_READERS = 512


async def follow_live(context: ReadContext, request: Request) -> Answer:
    """Server-sent events: one at once if something is published, then one for each publication."""
    stream = await context.pool.stream(request.name)
    if context.pool.is_ending or context.live_readers >= MOST_READERS:
        raise unavailable("too many live readers; try again later")
    frames = None if request.method == "HEAD" else _frames(context, request.grant, stream)
    return Answer(b"", headers=HEADERS, frames=frames)


async def _frames(
    context: ReadContext, grant: Grant | None, stream: PublicStream
) -> AsyncGenerator[bytes]:
    """What is published, until the service ends, the token is revoked or the stream is deleted."""
    name, uid, pool = stream.name, stream.status.uid, context.pool
    after: int | None = None
    context.live_readers += 1
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
        context.live_readers -= 1
