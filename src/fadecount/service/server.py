"""Runs the application on uvicorn: limits on connections, short logs, and a shutdown that loses
nothing."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import resource
import signal
import socket
import sys
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import uvicorn
from uvicorn.loops.auto import auto_loop_factory

from fadecount.errors import StoreError
from fadecount.service.app import Service
from fadecount.service.protocol import guarded
from fadecount.service.settings import Settings

__all__ = ["configure_logs", "serve"]

log = logging.getLogger("fadecount.service")
BACKLOG = 128
"""Connections that may wait in the system's queue before the first of them is accepted."""

OTHER_FILES = 128
"""Open files that the store, the fence and the readers need at most."""

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
    asked: float | None = None
    on_listening: Callable[[], None] = staticmethod(lambda: None)

    def capture_signals(self) -> contextlib.AbstractContextManager[None]:  # type: ignore[override]
        """Leave signals alone: uvicorn would raise them again at its end, before the store is
        closed."""
        return contextlib.nullcontext()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Announces the address once the server listens."""
        await super().startup(sockets)
        self.on_listening()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self.asked = asyncio.get_running_loop().time()
        self.service.pool.end_live()
        await super().shutdown(sockets)


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
    limits = replace(settings.limits, connections=room)
    with listening, asyncio.Runner(loop_factory=auto_loop_factory()) as runner:
        return runner.run(
            _serve(replace(settings, hosts=hosts, limits=limits), listening, announce)
        )


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


async def _serve(
    settings: Settings, listening: socket.socket, announce: Callable[[str], None]
) -> int:
    service = Service(settings)
    await service.start()
    server = make_server(service, settings)

    def end() -> None:
        server.should_exit = True

    service.writer.on_failure = end
    for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(each, end)
    host, port = listening.getsockname()[:2]
    address = f"http://{f'[{host}]' if ':' in host else host}:{port}/"
    server.on_listening = lambda: announce(f"fadecount serves {address}")
    try:
        await server.serve(sockets=[listening])
    finally:
        now = asyncio.get_running_loop().time()
        if not await service.stop(
            END_SECONDS - (0.0 if server.asked is None else now - server.asked)
        ):
            logging.shutdown()
            os._exit(1)
    return 1 if service.writer.failed.is_set() else 0


def make_server(service: Service, settings: Settings) -> _Server:
    config = uvicorn.Config(
        service.application,
        http=guarded(settings.limits),
        loop="none",
        lifespan="off",
        ws="none",
        access_log=False,
        log_config=None,
        server_header=False,
        date_header=True,
        proxy_headers=False,
        timeout_keep_alive=int(settings.limits.idle_seconds),
        timeout_graceful_shutdown=SHUTDOWN_SECONDS,
        backlog=BACKLOG,
    )
    server = _Server(config)
    server.service = service
    return server


def configure_logs(stream: Any = None) -> None:
    """One line per log entry, to standard error: a time, a level, a message from this code, names
    of streams. No counts, inputs, keys or tokens."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    # this module logs what matters of it
    logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
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
    # asyncio does so only for sockets that name their protocol
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
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
