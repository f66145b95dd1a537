"""The live route: server-sent events, one per tick, resumable by ``Last-Event-ID``.

Each reader waits for a newer tick than its own, and then gets everything published since from the
store. Only the position of each reader is kept, and a piece of what is sent to it, so a slow reader
takes little memory. Readers of the same tick share its frame, in the cache of answers.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from functools import partial

import msgspec
from starlette.responses import Response, StreamingResponse

from fadecount.service.http import PIECE_BYTES, Call
from fadecount.service.parsing import Time
from fadecount.service.problems import Problem, refusing, unavailable
from fadecount.service.read_routes import ReadContext, read_tick
from fadecount.service.reader_pool import PublicStream
from fadecount.service.tokens import Grant
from fadecount.streams.reader import Reader
from fadecount.streams.ticks import Ticks

MEDIA_TYPE = "text/event-stream"
HEARTBEAT = b": still here\n\n"
HEARTBEAT_SECONDS = 15.0
RETRY_MILLISECONDS = 2000
MOST_READERS = 512


async def follow_live(context: ReadContext, call: Call) -> Response:
    """Server-sent events, one per tick; resumes after Last-Event-ID."""
    stream = await context.stream(call)
    if context.pool.is_ending or context.live_readers >= MOST_READERS:
        raise unavailable("too many live readers; try again later", seconds=5)
    after = _last_seen(call, stream.ticks)
    if after is None:  # the latest at once, then each new one
        after = stream.last_tick - bool(stream.released)
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
    context: ReadContext, grant: Grant | None, stream: PublicStream, after: int
) -> AsyncIterator[bytes]:
    """The frames after a tick, until the service ends, the token is revoked or the stream is
    deleted."""
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
        if stream.last_tick <= after:
            try:
                async with asyncio.timeout(HEARTBEAT_SECONDS):
                    await change.wait()
            except TimeoutError:
                yield HEARTBEAT
            continue
        after = max(after + 1, stream.first_tick)
        try:
            frame = await pool.read(stream, ("frame", after), partial(_frame, stream, after))
        except Problem:  # the client asks again, and gets a status
            return
        for at in range(0, len(frame), PIECE_BYTES):  # a reader that does not read holds a piece
            yield frame[at : at + PIECE_BYTES]


def _frame(stream: PublicStream, tick: int, reader: Reader) -> bytes:
    released = read_tick(reader, stream, tick)
    if not released.releases:
        return b""
    body = msgspec.json.encode(released)  # in one line
    return b"id: %b\nevent: tick\ndata: %b\n\n" % (released.start.encode(), body)


def _last_seen(call: Call, ticks: Ticks) -> int | None:
    """The tick whose start a reader sends back as Last-Event-ID; None if it sends none."""
    text = call.headers.get("last-event-id")
    if not text:
        return None
    with refusing("bad_event_id", "Last-Event-ID must be one that this service sent"):
        return ticks.at(msgspec.convert(text, Time).timestamp())
