"""The application: every route, the middleware around them, and the writer and readers behind
them."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route, Router
from starlette.types import Receive, Scope, Send

from fadecount.noise import unpredictable
from fadecount.service.access import Access
from fadecount.service.http import Guard
from fadecount.service.leader import Leader
from fadecount.service.limits import RateLimit, TokenLimits
from fadecount.service.live import Broadcaster, frame_maker, live_route
from fadecount.service.metrics import Metrics
from fadecount.service.operations import operation_routes
from fadecount.service.problems import Problem
from fadecount.service.read_routes import ReadContext, describe_stream, list_streams, read_routes
from fadecount.service.reader_pool import ReaderPool
from fadecount.service.settings import Settings, open_reader, open_store
from fadecount.service.stream_status import StreamGauges, status_route
from fadecount.service.token_routes import token_routes
from fadecount.service.tokens import TokenFileError
from fadecount.service.write_routes import WriteContext, create_stream, delete_stream, write_routes
from fadecount.service.writer import Writer

log = logging.getLogger("fadecount.service")
SAVE_USES_SECONDS = 60.0
"""Seconds between two writes of the days on which tokens were last used."""

HEALTH = ("/healthz", "/readyz")
"""Paths that no limit on requests applies to: a busy service is not a broken one."""

LIVE_PATH = re.compile(r"/v1/streams/[^/]+/live")
LOOK_SECONDS = 0.5
"""Seconds between two checks for changes by others: revoked tokens, and ticks that other processes
published."""


class Service:
    """An ASGI application with its writer, its readers and its live connections."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.metrics = Metrics()
        self._rate = RateLimit(settings.limits.requests_per_second, settings.limits.burst)
        self._token_limits = TokenLimits()
        self._parsers = ThreadPoolExecutor(2, thread_name_prefix="fadecount parser")
        self._tokens = settings.storage.tokens()
        access = Access(self._tokens, public=settings.public)
        self.pool = ReaderPool(lambda: open_reader(settings.storage))
        self.writer = Writer(
            self._open_leader,
            settings.clock,
            self.metrics,
            most_waiting=settings.limits.waiting_batches,
            reconnects=settings.storage.database is not None,
        )
        self._reads = ReadContext(
            pool=self.pool,
            access=access,
            clock=settings.clock,
            public=settings.public,
            clock_trouble=self.writer.clock_trouble,
        )
        self._access = access
        self._writes = WriteContext(
            writer=self.writer, access=access, limits=settings.limits, parsers=self._parsers
        )
        self.broadcaster = Broadcaster(frame_maker(self._reads))
        gauges = StreamGauges(
            context=self._reads,
            state_of=self.writer.stream_state,
            most_values=settings.metrics_values,
        )
        self.routes = [
            Route("/v1/streams", self._streams, methods=["GET", "POST"]),
            Route("/v1/streams/{name}", self._stream, methods=["GET", "DELETE"]),
            *read_routes(self._reads),
            live_route(self._reads, self.broadcaster, self.metrics),
            *write_routes(self._writes),
            *token_routes(self._writes, self._tokens),
            status_route(self._reads, self.writer.stream_state),
            *operation_routes(access, self.metrics, gauges, self.trouble),
        ]
        reading = [route for route in self.routes if "GET" in (route.methods or ())]
        self._patterns: dict[object, str] = {route.endpoint: route.path for route in reading}
        self._application = Guard(
            Router(self.routes, redirect_slashes=False),
            hosts=settings.hosts,
            new_id=lambda: unpredictable(8).hex(),
            admit=self._admit,
            answered=self._count_answer,
        )
        self.metrics.ready.set_function(lambda: float(self.trouble() is None))
        self.metrics.streams.set_function(lambda: float(self.writer.stream_count()))
        self.metrics.lag.set_function(lambda: round(self.writer.lag_seconds(), 1))
        self._looking: asyncio.Task[None] | None = None
        self._renewals: set[asyncio.Future[None]] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._application(scope, receive, send)

    def trouble(self) -> str | None:
        """Why the service is not ready; None if it is."""
        return self.writer.trouble() or self._access.trouble()

    def reload(self) -> None:
        """Read again what the operator may have changed. Tokens take effect at once, also for live
        connections."""
        self.broadcaster.wake_all()
        log.warning("reloaded: %s", self.trouble() or "everything is in order")

    async def start(self) -> None:
        """Open the store, or raise the error that prevents it."""
        self._loop = asyncio.get_running_loop()
        self.writer.start()
        self._looking = asyncio.create_task(self._look())
        self._looking.add_done_callback(self._looked)

    async def stop(self, seconds: float = 20.0) -> bool:
        """Acknowledge accepted events, end live connections, close the store; False if the store
        did not answer in time."""
        self.broadcaster.close()
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
        self._save_uses()
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
        self._loop.call_soon_threadsafe(self._published, published)

    def _changed(self, stream: str) -> None:
        """On the writing thread: what is public about a stream has changed, or the stream is
        deleted."""
        self._loop.call_soon_threadsafe(self._forget, stream)

    def _forget(self, stream: str) -> None:
        self.pool.forget(stream)
        self.broadcaster.wake(stream)

    def _published(self, published: Sequence[tuple[str, int]]) -> None:
        """Let readers see the ticks. A stream that is being asked for is read first, so that nobody
        waits for it."""
        for stream, tick in published:
            if not self.pool.is_asked_for(stream) or self.broadcaster.closed:
                self.pool.forget(stream)
                self.broadcaster.nudge(stream, tick)
                continue
            task = asyncio.ensure_future(self._renew(stream, tick))
            self._renewals.add(task)
            task.add_done_callback(self._renewals.discard)

    async def _renew(self, stream: str, tick: int) -> None:
        await self._reads.renew(stream)
        self.broadcaster.nudge(stream, tick)

    async def _look(self) -> None:
        """Check for changes by others: revoked tokens, and ticks that other processes published."""
        tokens, save_at = self._token_version(), time.monotonic() + SAVE_USES_SECONDS
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            if tokens != (tokens := self._token_version()):
                self.broadcaster.wake_all()
            if time.monotonic() >= save_at:
                save_at = time.monotonic() + SAVE_USES_SECONDS
                await asyncio.to_thread(self._save_uses)
            if self._settings.storage.database is not None:
                with contextlib.suppress(Problem):
                    await self._find_published()

    def _looked(self, looking: asyncio.Task[None]) -> None:
        """Revoked tokens are noticed no more: the service ends."""
        if not looking.cancelled() and (error := looking.exception()) is not None:
            log.error("looking for changes by others ended: %s", type(error).__name__)
            self.writer.give_up()

    def _token_version(self) -> object:
        """Changes when a token is created, revoked or expires."""
        try:
            return self._tokens.version, self._tokens.expired()
        except TokenFileError:
            return None

    def _save_uses(self) -> None:
        try:
            self._tokens.save_uses()
        except (TokenFileError, OSError) as error:
            log.warning("the last use of tokens cannot be saved: %s", type(error).__name__)

    async def _find_published(self) -> None:
        """Compare only the streams that readers of this process have asked for."""
        known, followed = self.pool.known(), self.broadcaster.followed()
        if not known and not followed:
            return
        published = await self.pool.ask(lambda reader: reader.published())
        for name in (known.keys() | followed) - {each for each, _, _ in published}:  # deleted
            self.pool.forget(name)
            self.broadcaster.end(name)
        for name, tick, keys in published:
            if known.get(name, (tick, keys)) != (tick, keys):
                self.pool.forget(name)
            if tick is not None and self.broadcaster.latest(name) is not None:
                self.broadcaster.nudge(name, tick)

    def _admit(self, scope: Scope) -> AbstractContextManager[None] | None:
        """Hold addresses and tokens to their limits. Health checks have none."""
        if scope["path"] in HEALTH:
            return None
        self._rate.take(scope["client"][0] if scope.get("client") else "local")
        try:
            grant = self._access.recognised(scope)
        except Problem:
            return None  # the route refuses it, if it needs a token
        if grant is None or not grant.is_limited:
            return None
        return self._token_limits.request(
            grant, live=LIVE_PATH.fullmatch(scope["path"]) is not None
        )

    def _count_answer(self, scope: Scope, status: int) -> None:
        """Count the answers of reading routes."""
        pattern = (
            self._patterns.get(scope.get("endpoint"))
            if scope["method"] in ("GET", "HEAD")
            else None
        )
        if pattern is not None:
            self.metrics.answered(pattern, status)

    async def _streams(self, request: Request) -> Response:
        if request.method == "POST":
            return await create_stream(self._writes, request)
        return await list_streams(self._reads, request)

    async def _stream(self, request: Request) -> Response:
        if request.method == "DELETE":
            return await delete_stream(self._writes, request)
        return await describe_stream(self._reads, request)
