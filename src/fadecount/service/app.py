"""The application: every route, the middleware around them, and the writer and readers behind
them."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from prometheus_client.core import GaugeMetricFamily
from starlette.types import Receive, Scope, Send

from fadecount.service.http import Application
from fadecount.service.live import Changes, live_handler
from fadecount.service.metrics import Metrics, stream_gauges
from fadecount.service.operations import operation_handlers
from fadecount.service.problems import Problem
from fadecount.service.read_routes import ReadContext, read_handlers
from fadecount.service.reader_pool import ReaderPool
from fadecount.service.routes import Router
from fadecount.service.settings import Settings, open_reader, open_store
from fadecount.service.tokens import Access, KnownTokens
from fadecount.service.write_routes import WriteContext, token_handlers, write_handlers
from fadecount.service.writer import Leader, Writer

log = logging.getLogger("fadecount.service")
LOOK_SECONDS = 0.5
"""Seconds between two checks for changes by others: new and revoked tokens, and ticks that other
processes published."""


class Service:
    """An ASGI application with its writer, its readers and its live connections."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.metrics = Metrics()
        self._parsers = ThreadPoolExecutor(2, thread_name_prefix="fadecount parser")
        self._tokens = KnownTokens()
        access = Access(self._tokens, public=settings.public)
        self.pool = ReaderPool(lambda: open_reader(settings.storage))
        self.writer = Writer(
            self._open_leader,
            settings.clock,
            self.metrics,
            settings.limits,
            reconnects=settings.storage.database is not None,
        )
        self._reads = ReadContext(
            pool=self.pool,
            access=access,
            clock=settings.clock,
            public=settings.public,
            state_of=self.writer.stream_state,
        )
        self._access = access
        self._writes = WriteContext(
            writer=self.writer, access=access, limits=settings.limits, parsers=self._parsers
        )
        self.changes = Changes()
        handlers = {
            **read_handlers(self._reads),
            "follow_live": live_handler(self._reads, self.changes, self.metrics),
            **write_handlers(self._writes),
            **token_handlers(self._writes, self._read_tokens),
            **operation_handlers(access, self.metrics, self._gauges, self.trouble),
        }
        self._application = Application(
            Router(handlers), hosts=settings.hosts, answered=self._count_answer
        )
        self.metrics.ready.set_function(lambda: float(self.trouble() is None))
        self.metrics.streams.set_function(lambda: self._of_leader(lambda each: each.stream_count))
        self.metrics.lag.set_function(lambda: round(self._of_leader(Leader.lag_seconds), 1))
        self._looking: asyncio.Task[None] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._application(scope, receive, send)

    def trouble(self) -> str | None:
        """Why the service is not ready; None if it is."""
        return self.writer.trouble() or self._access.trouble()

    async def start(self) -> None:
        """Open the store, or raise the error that prevents it."""
        self._loop = asyncio.get_running_loop()
        self.writer.start()
        await self._read_tokens()
        self._looking = asyncio.create_task(self._look())
        self._looking.add_done_callback(self._looked)

    async def stop(self, seconds: float = 20.0) -> bool:
        """Acknowledge accepted events, end live connections, close the store; False if the store
        did not answer in time."""
        self.changes.close()
        if self._looking:
            self._looking.cancel()
            await asyncio.wait([self._looking])
        try:
            async with asyncio.timeout(seconds):
                await asyncio.to_thread(self._close)
        except TimeoutError:
            log.error("the store does not answer: the service ends without it")
            return False
        return True

    def _close(self) -> None:
        self.writer.stop()
        self._parsers.shutdown(wait=True)
        self.pool.close()

    def _open_leader(self) -> Leader:
        settings = self._settings
        return Leader(
            open_store(settings.storage),
            settings.clock,
            on_ticks=self._closed,
            on_change=self._changed,
        )

    def _closed(self, published: Sequence[tuple[str, int]]) -> None:
        """On the writing thread: ticks have been published, each of a stream."""
        self.metrics.ticks_closed.inc(len(published))
        self._loop.call_soon_threadsafe(self._advance, published)

    def _advance(self, published: Sequence[tuple[str, int]]) -> None:
        for stream, tick in published:
            self.pool.advance(stream, tick)
            self.changes.wake(stream)

    def _changed(self, stream: str) -> None:
        """On the writing thread: what is public about a stream has changed, or the stream is
        deleted."""
        self._loop.call_soon_threadsafe(self._forget, [stream])

    def _forget(self, streams: Sequence[str]) -> None:
        """Read these streams again when they are asked for, and wake those who wait for them."""
        for stream in streams:
            self.pool.forget(stream)
            self.changes.wake(stream)

    async def _look(self) -> None:
        """Check for changes by others: tokens, and ticks that other processes published."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            with contextlib.suppress(Problem):
                await self._read_tokens()
                if self._settings.storage.database is not None:
                    await self._find_published()

    async def _read_tokens(self) -> None:
        """Use the tokens as they are now, also for live connections."""
        grants = await self.writer.call(lambda leader: leader.tokens.grants())
        if self._tokens.replace(grants):
            self.changes.wake_all()

    def _looked(self, looking: asyncio.Task[None]) -> None:
        """Revoked tokens are noticed no more: the service ends."""
        if not looking.cancelled() and (error := looking.exception()) is not None:
            log.error("looking for changes by others ended: %s", type(error).__name__)
            self.writer.give_up()

    async def _find_published(self) -> None:
        """Compare only the streams that readers of this process have asked for."""
        known, followed = self.pool.known(), self.changes.waited_for()
        if not known and not followed:
            return
        published = await self.pool.ask(lambda reader: reader.published())
        current = {name: (tick, keys) for name, tick, keys in published}
        self._forget([each for each in known if current.get(each) != known[each]])
        for each in followed - known.keys():
            self.changes.wake(each)

    async def _gauges(self) -> list[GaugeMetricFamily]:
        return await stream_gauges(self.pool, self._settings.clock, self.writer.stream_state)

    def _of_leader(self, number: Callable[[Leader], float]) -> float:
        leader = self.writer.leader
        return 0.0 if leader is None else number(leader)

    def _count_answer(self, path: str, method: str, status: int) -> None:
        """Count the answers of reading routes."""
        if path and method in ("GET", "HEAD"):
            self.metrics.answered(path, status)
