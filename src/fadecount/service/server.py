"""The service: the writer and the readers behind the application, on a socket; a shutdown that
loses nothing."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import resource
import signal
import socket
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from fadecount.errors import StoreError
from fadecount.service.connection import Connection, Connections
from fadecount.service.http import Problem
from fadecount.service.operations import STATES, static_files
from fadecount.service.read_routes import ReadContext
from fadecount.service.reader_pool import ReaderPool
from fadecount.service.routes import PAGES, READING, VISITS, WRITING, Application
from fadecount.service.settings import Settings
from fadecount.service.tokens import Access
from fadecount.service.website import VisitContext, Websites
from fadecount.service.writer import Leader, Writer
from fadecount.sources.visits import customer_of
from fadecount.streams.storage import open_reader, open_store

__all__ = ["configure_logs", "serve"]

log = logging.getLogger("fadecount.service")
LOOK_SECONDS = 0.5
"""Seconds between two checks for changes by others: new and revoked tokens, and ticks that other
processes published."""

BACKLOG = 128
"""Connections that may wait in the system's queue before the first of them is accepted."""

OTHER_FILES = 128
"""Open files that the store, the fence and the readers need at most."""

SHUTDOWN_SECONDS = 3.0
"""How long a shutdown waits for answers that have begun."""

END_SECONDS = 4.5
"""When the process ends at the latest, even if the store does not answer."""

SILENT_SECONDS = 30
"""After this time the connection of a client that has vanished is closed; live readers get a
heartbeat every 15 seconds."""


class Service:
    """An application with its writer, its readers and its connections."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.access = Access(public=settings.public)
        self._websites = settings.websites or Websites()
        self.pool = ReaderPool(lambda: open_reader(settings.storage))
        is_shared = settings.storage.database is not None
        self.writer = Writer(
            lambda: Leader(open_store(settings.storage), settings.clock, is_shared=is_shared),
            settings.clock,
            settings.limits,
            on_change=self.pool.changed,
            reconnects=is_shared,
        )
        self.reading = ReadContext(
            pool=self.pool,
            access=self.access,
            clock=settings.clock,
            public=settings.public,
            files=static_files(),
            metrics=self._metrics,
            state_of=self.writer.stream_state,
            trouble=self.trouble,
            client_of=lambda request: customer_of(self._websites.address(request)),
        )
        visiting = VisitContext(websites=self._websites, writer=self.writer)
        tables = (
            (READING + PAGES, self.reading),
            (WRITING, self.writer),
            (VISITS, visiting),
        )
        application = Application(
            [(route, each) for table, each in tables for route in table],
            self.access,
            hosts=settings.hosts,
            body_bytes=settings.limits.body_bytes,
        )
        self.connections = Connections(application, settings.limits)
        self._looking: asyncio.Task[None] | None = None

    def trouble(self) -> str | None:
        """Why the service is not ready; None if it is."""
        return self.writer.trouble() or self.access.trouble()

    async def start(self, listening: socket.socket) -> None:
        """Open the store, or raise the error that prevents it; then listen."""
        self._loop = asyncio.get_running_loop()
        self.writer.start()
        try:
            await self.writer.call(self._websites.create)
        except BaseException:
            self._close()
            raise
        await self.read_tokens()
        self._looking = asyncio.create_task(self._look())
        self._looking.add_done_callback(self._looked)
        self._server = await self._loop.create_server(
            lambda: Connection(self.connections), sock=listening, backlog=BACKLOG
        )

    async def stop(self) -> bool:
        """Answer the requests that have begun, acknowledge accepted events, end live connections,
        close the store; False if the store did not answer in time."""
        end = self._loop.time() + END_SECONDS
        self._server.close()
        self.pool.end_live()
        await self.connections.end(SHUTDOWN_SECONDS)
        if self._looking:
            self._looking.cancel()
            await asyncio.wait([self._looking])
        try:
            async with asyncio.timeout_at(end):
                await asyncio.to_thread(self._close)
        except TimeoutError:
            log.error("the store does not answer: the service ends without it")
            return False
        return True

    def _close(self) -> None:
        self.writer.stop()
        self.pool.close()

    async def read_tokens(self) -> None:
        """Use the tokens as they are now, also for live connections."""
        if self.access.replace(await self.writer.call(lambda leader: leader.tokens.grants())):
            self.pool.wake_all()

    async def _look(self) -> None:
        """Check for changes by others: tokens, and ticks that other processes published."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            with contextlib.suppress(Problem):
                await self.read_tokens()
                if self._settings.storage.database is not None:
                    await self.pool.find_changes()

    def _looked(self, looking: asyncio.Task[None]) -> None:
        """Revoked tokens are noticed no more: the service ends."""
        if not looking.cancelled() and (error := looking.exception()) is not None:
            log.error("looking for changes by others ended: %s", type(error).__name__)
            self.writer.give_up()

    def _metrics(self) -> Mapping[str, float]:
        writer, leader = self.writer, self.writer.leader
        states: Mapping[str, int] = leader.states() if leader else {}
        return {
            "ready": int(self.trouble() is None),
            "tick_lag_seconds": int(leader.lag_seconds()) if leader else 0,
            "live_readers": self.reading.live_readers,
            "ticker_failures_total": writer.failures,
            "ticks_closed_total": writer.ticks_closed,
            **{f'streams{{state="{state}"}}': states.get(state, 0) for state in STATES},
        }


def serve(
    settings: Settings, host: str, port: int, *, announce: Callable[[str], None] = print
) -> int:
    """Serve until SIGTERM or SIGINT; 0 after a requested shutdown, 1 if the store failed. To be
    called in the main thread.

    A store that does not answer does not prevent the shutdown: the process then ends at once, as if
    it had been killed. A store survives that.
    """
    listening = _listen(host, port)
    hosts = allowed_hosts(host, listening.getsockname()[1], settings.hosts)
    room = room_for(settings.limits.connections)
    if room < settings.limits.connections:
        log.warning("the system allows too few open files: at most %d connections", room)
    settings = replace(settings, hosts=hosts, limits=replace(settings.limits, connections=room))
    with listening, asyncio.Runner(loop_factory=_loop_factory()) as runner:
        return runner.run(_serve(settings, listening, announce))


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:  # not every system has it
        return None
    return uvloop.new_event_loop


async def _serve(
    settings: Settings, listening: socket.socket, announce: Callable[[str], None]
) -> int:
    service, ending = Service(settings), asyncio.Event()
    service.writer.on_failure = ending.set
    for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(each, ending.set)
    await service.start(listening)
    host, port = listening.getsockname()[:2]
    announce(f"fadecount serves http://{f'[{host}]' if ':' in host else host}:{port}/")
    await ending.wait()
    if not await service.stop():
        logging.shutdown()
        os._exit(1)
    return 1 if service.writer.failed else 0


def allowed_hosts(host: str, port: int, extra: Iterable[str] = ()) -> frozenset[str]:
    """The accepted Host headers: the listening address, the loopback names, those the operator
    adds; with and without port.

    >>> sorted(allowed_hosts("::1", 8000, ("counts.example.org", "localhost:8080")))[:3]
    ['127.0.0.1', '127.0.0.1:8000', '[::1]']
    """
    own = {f"[{host}]" if ":" in host else host, "localhost", "127.0.0.1", "[::1]"} - {
        "0.0.0.0",  # noqa: S104 - not names
        "[::]",
        "",
    }
    return frozenset(name for each in own | set(extra) for name in (each, f"{each}:{port}"))


def room_for(connections: int) -> int:
    """The largest number of connections: each is an open file, and the store must always get the
    few that it needs.

    The limit on open files is raised where the system allows it; otherwise fewer connections are
    accepted.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = connections + BACKLOG + OTHER_FILES
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return connections
    allowed = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    return max(1, allowed - BACKLOG - OTHER_FILES)


def configure_logs() -> None:
    """One line per log entry, to standard error: a time, a level, a message from this code, names
    of streams. No counts, inputs, keys or tokens."""
    form = "%(asctime)s %(levelname)s %(message)s"
    logging.basicConfig(level=logging.WARNING, format=form, force=True)


def _listen(host: str, port: int) -> socket.socket:
    """A listening socket. Connections inherit its option, by which the system closes those whose
    clients confirm nothing."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio lets answers go at once where the socket names its protocol
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
    except (OSError, OverflowError) as error:
        listening.close()
        reason = error.strerror if isinstance(error, OSError) else "ports go from 0 to 65535"
        raise StoreError(
            f"cannot listen on {host} port {port}: {reason}; choose another with --port or --host"
        ) from error
    if hasattr(socket, "TCP_USER_TIMEOUT"):  # not every system has it
        option = socket.TCP_USER_TIMEOUT
        listening.setsockopt(socket.IPPROTO_TCP, option, 1000 * SILENT_SECONDS)
    return listening
