"""Runs the application on uvicorn: limits on connections, short logs, and a shutdown that loses
nothing."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import uvicorn
from starlette.types import ASGIApp

from fadecount.errors import StoreError
from fadecount.service.app import Service
from fadecount.service.http import allowed_hosts
from fadecount.service.limits import BACKLOG, Limits, room_for
from fadecount.service.notify import Notifier
from fadecount.service.protocol import guarded
from fadecount.service.settings import Settings

log = logging.getLogger("fadecount.service")
SHUTDOWN_SECONDS = 3
"""How long a shutdown waits for answers that have begun."""

END_SECONDS = 4.5
"""When the process ends at the latest, even if the store does not answer."""

SILENT_SECONDS = 30
"""After this time the connection of a client that has vanished is closed; live readers get a
heartbeat every 15 seconds."""


class _Server(uvicorn.Server):
    """Closes live connections as soon as a shutdown is requested; otherwise they would delay it."""

    service: Service
    notifier: Notifier
    asked: float | None = None
    on_listening: Callable[[], None] = staticmethod(lambda: None)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Shuts down in order: uvicorn would raise the signal again and end the process before the
        store is closed."""
        loop = asyncio.get_running_loop()
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        for each in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(each, self.handle_exit, each, None)
        loop.add_signal_handler(signal.SIGHUP, self._reload)
        try:
            yield
        finally:
            for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                loop.remove_signal_handler(each)

    def _reload(self) -> None:
        self.notifier.reloading()
        self.service.reload()
        self.notifier.ready()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Announces the address once the server listens."""
        await super().startup(sockets)
        self.on_listening()
        self.notifier.ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self.asked = asyncio.get_running_loop().time()
        self.notifier.stopping()
        self.service.broadcaster.close()
        await super().shutdown(sockets)


def serve(
    settings: Settings, host: str, port: int, *, announce: Callable[[str], None] = print
) -> int:
    """Serve until SIGTERM or SIGINT; 0 after a requested shutdown, 1 if the store failed.

    A store that does not answer does not prevent the shutdown: the process then ends at once, as if
    it had been killed. A store survives that.
    """
    listening = _listen(host, port)
    hosts = settings.hosts | allowed_hosts(host, listening.getsockname()[1])
    room = room_for(settings.limits.connections)
    if room < settings.limits.connections:
        log.warning("the system allows too few open files: at most %d connections", room)
    limits = replace(settings.limits, connections=room)
    with listening, asyncio.Runner(loop_factory=_loop_factory()) as runner:
        return runner.run(
            _serve(replace(settings, hosts=hosts, limits=limits), listening, announce)
        )


async def _serve(
    settings: Settings, listening: socket.socket, announce: Callable[[str], None]
) -> int:
    service = Service(settings)
    await service.start()
    server = make_server(service, settings)

    def failed() -> None:
        server.should_exit = True

    service.writer.on_failure = failed
    host, port = listening.getsockname()[:2]
    address = f"http://{f'[{host}]' if ':' in host else host}:{port}/"
    server.on_listening = lambda: announce(f"fadecount serves {address}")
    alive = asyncio.create_task(
        server.notifier.signs_of_life(lambda: not service.writer.failed.is_set())
    )
    try:
        await server.serve(sockets=[listening])
    finally:
        alive.cancel()
        now = asyncio.get_running_loop().time()
        if not await service.stop(
            END_SECONDS - (0.0 if server.asked is None else now - server.asked)
        ):
            logging.shutdown()
            os._exit(1)
    return 1 if service.writer.failed.is_set() else 0


def make_server(service: Service, settings: Settings) -> _Server:
    server = _Server(_configured(service, settings.limits))
    server.service, server.notifier = service, Notifier()
    return server


def _configured(application: ASGIApp, limits: Limits) -> uvicorn.Config:
    return uvicorn.Config(
        application,
        http=guarded(limits),
        loop="none",
        lifespan="off",
        ws="none",
        access_log=False,
        log_config=None,
        server_header=False,
        date_header=True,
        proxy_headers=False,
        timeout_keep_alive=int(limits.idle_seconds),
        timeout_graceful_shutdown=SHUTDOWN_SECONDS,
        backlog=BACKLOG,
    )


class _JsonLines(logging.Formatter):
    """One JSON object per line."""

    def format(self, record: logging.LogRecord) -> str:
        fields = {
            "time": self.formatTime(record, "%Y-%m-%dT%H:%M:%S%z"),
            "level": record.levelname,
            "message": record.getMessage(),
        }
        found = getattr(record, "request_id", None)
        return json.dumps({**fields, **({"request_id": found} if found else {})})


class _Text(logging.Formatter):
    """A time, a level, a message; the id of the request, if there is one."""

    def format(self, record: logging.LogRecord) -> str:
        found = getattr(record, "request_id", None)
        return super().format(record) + (f" (request {found})" if found else "")


def configure_logs(stream: Any = None, *, as_json: bool = False) -> None:
    """One line per log entry, to standard error: a time, a level, a message from this code, names
    of streams. No counts, inputs, keys or tokens."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(
        _JsonLines() if as_json else _Text("%(asctime)s %(levelname)s %(message)s")
    )
    logging.getLogger("uvicorn.error").setLevel(
        logging.CRITICAL
    )  # this module logs what matters of it
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
    except (OSError, OverflowError) as error:
        listening.close()
        reason = error.strerror if isinstance(error, OSError) else "ports go from 0 to 65535"
        raise StoreError(
            f"cannot listen on {host} port {port}: {reason}; choose another with --port or --host"
        ) from error
    listening.set_inheritable(True)
    _notice_silence(listening)
    listening.setsockopt(
        socket.IPPROTO_TCP, socket.TCP_NODELAY, 1
    )  # asyncio does so only for sockets that name their protocol
    return listening


def _notice_silence(listening: socket.socket) -> None:
    """Turn on TCP keepalive, which connections inherit: the system closes connections of clients
    that do not respond."""
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    options = {
        "TCP_KEEPIDLE": 15,
        "TCP_KEEPINTVL": 5,
        "TCP_KEEPCNT": 3,
        "TCP_USER_TIMEOUT": 1000 * SILENT_SECONDS,
    }
    for name, value in options.items():
        if hasattr(socket, name):  # not every system has all of them
            listening.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop where it is installed: it handles about twice as many requests."""
    try:
        import uvloop
    except ImportError:
        return None
    made: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return made
