"""The application: every route, and around all of them what no route may forget."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import unquote

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.routing import Match

from fadecount.service.access import Access
from fadecount.service.http import Gone, Guard, Message, Receive, Scope, Send, send_problem
from fadecount.service.lane import LaneCycle, finish
from fadecount.service.leader import Leader
from fadecount.service.limits import RateLimit
from fadecount.service.live import Broadcaster, frame_maker, live_route
from fadecount.service.metrics import Metrics
from fadecount.service.operations import operation_routes
from fadecount.service.problems import Problem, from_starlette, not_found, noted, wrong_host
from fadecount.service.read_routes import ReadContext, reader_routes
from fadecount.service.reader_pool import ReaderPool
from fadecount.service.settings import Settings, open_reader, open_store
from fadecount.service.write_routes import WriteContext
from fadecount.service.writer import Writer

log = logging.getLogger("fadecount.service")
LOOK_SECONDS = 1.0
_PREFIX = "/v1/streams/"


class Service:
    """An ASGI application with its writer, its readers and its live broadcaster."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.metrics = Metrics()
        self._rate = RateLimit(settings.limits.requests_per_second, settings.limits.burst)
        self._threads = ThreadPoolExecutor(4, thread_name_prefix="fadecount reader")
        self._releases = ReaderPool(lambda: open_reader(settings.storage))
        access = Access(settings.storage.tokens(), public=settings.public)
        reading = ReadContext(
            releases=self._releases, access=access, clock=settings.clock, public=settings.public, threads=self._threads
        )
        self._reading = reading
        self.broadcaster = Broadcaster(frame_maker(reading))
        self.writer = Writer(
            self._open_leader,
            settings.clock,
            self.metrics,
            most_waiting=settings.limits.waiting_batches,
            reconnects=settings.storage.database is not None,
        )
        self._writing = WriteContext(writer=self.writer, access=access, limits=settings.limits)
        routes = [
            *reader_routes(reading),
            live_route(reading, self.broadcaster, self.metrics),
            *operation_routes(reading, self.metrics, lambda: self.writer.ready, self.writer.lag_seconds),
        ]
        self.routes = routes
        self._guard = Guard(self._answer, settings.hosts)
        self._looking: asyncio.Task[None] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self._guard(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1000})

    async def start(self) -> None:
        """Open the store, or raise what is wrong with it."""
        self._loop = asyncio.get_running_loop()
        self.writer.start()
        self._looking = asyncio.create_task(self._look())

    async def stop(self, seconds: float = 20.0) -> bool:
        """Acknowledge what was taken, let live readers go, close the store; False if the store did not answer in time."""
        self.broadcaster.close()
        if self._looking:
            self._looking.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._looking
        try:
            async with asyncio.timeout(seconds):
                await asyncio.to_thread(self._close)
        except TimeoutError:
            log.error("the store does not answer: the service ends without it")
            return False
        return True

    def _close(self) -> None:
        self.writer.stop()
        self._threads.shutdown(wait=True)
        self._releases.close()

    def _open_leader(self) -> Leader:
        settings = self._settings
        return Leader(
            open_store(settings.storage), settings.clock, on_tick=self._closed, accept_extra_loss=settings.accept_extra_loss
        )

    def _closed(self, stream: str, tick: int) -> None:
        self.metrics.ticks_closed += 1
        self._loop.call_soon_threadsafe(self.broadcaster.nudge, stream, tick)

    async def _look(self) -> None:
        """Find what other processes have published."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            with contextlib.suppress(Problem):
                for name in await self._reading.ask(self._releases.names):
                    facts = await self._reading.ask(self._releases.facts, name)
                    if facts.last_tick is not None:
                        self.broadcaster.nudge(name, facts.last_tick)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Route a request; whatever goes wrong becomes a Problem, and a log line without values."""
        begun = False

        async def send_noted(message: Message) -> None:
            nonlocal begun
            begun = True
            if message["type"] == "http.response.start" and scope.get("fadecount.route"):
                self.metrics.answered(scope["fadecount.route"], message["status"])
            await send(message)

        try:
            client = scope["client"][0] if scope.get("client") else "local"
            self._rate.take(client)
            await self._route(scope, receive, send_noted)
        except (Gone, ClientDisconnect):
            return
        except Problem as problem:
            if not begun:
                await send_problem(send_noted, problem)
        except HTTPException as error:
            if not begun:
                await send_problem(send_noted, from_starlette(error))
        except Exception as error:
            answer = noted(error)
            if not begun:
                await send_problem(send_noted, answer)

    def lane(self, scope: Scope, body: bytes, cycle: LaneCycle) -> None:
        """Small event requests, the short way: the same checks in the same order as for all others."""
        try:
            if not self._guard.allows(scope):
                raise wrong_host()
            self._rate.take(scope["client"][0] if scope.get("client") else "local")
            name, _, action = _raw_rest(scope).partition("/")
            if action != "events" or not scope["path"].startswith(_PREFIX):
                raise not_found()
            headers, stream = dict(scope["headers"]), unquote(name)
            self._writing.may_write(headers, stream)
            self._writing.accept(headers, stream, body).add_done_callback(lambda done: finish(done, cycle))
        except Problem as problem:
            cycle.refuse(problem)
        except Exception as error:
            cycle.refuse(noted(error))

    async def _route(self, scope: Scope, receive: Receive, send: Send) -> None:
        path, method = scope["path"], scope["method"]
        if path.startswith(_PREFIX) and method == "POST":
            name, _, action = _raw_rest(scope).partition("/")
            if action == "events":
                await self._writing.events(scope, receive, send, unquote(name))
                return
            if action == "keys":
                await self._writing.keys(scope, receive, send, unquote(name))
                return
        elif path == "/v1/streams" and method == "POST":
            await self._writing.create(scope, receive, send)
            return
        for route in self.routes:
            match, child = route.matches(scope)
            if match is not Match.NONE:
                if match is Match.PARTIAL:
                    methods = "GET, HEAD, POST" if route.path == "/v1/streams" else "GET, HEAD"
                    raise Problem(405, "wrong_method", f"this route takes {methods}", headers={"Allow": methods})
                scope.update(child)
                scope["fadecount.route"] = route.path
                await route.handle(scope, receive, send)
                return
        if path.startswith(_PREFIX) and _raw_rest(scope).partition("/")[2] in ("events", "keys"):
            raise Problem(405, "wrong_method", "this route takes POST", headers={"Allow": "POST"})
        raise not_found()


def _raw_rest(scope: Scope) -> str:
    raw: bytes = scope.get("raw_path") or scope["path"].encode()
    return raw.decode("ascii", "replace").partition("?")[0].removeprefix(_PREFIX)
