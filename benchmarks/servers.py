"""What our own connection class costs beside uvicorn and granian, all with the same application,
store and event loop: ``python -m benchmarks.servers``.

Each server is a process of its own. In turns, 32 connections each wait for an answer before they
send again; measured is the processor time of the server for one request.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, MutableMapping
from pathlib import Path
from typing import Any

from campaigns.service.load import CONNECTIONS, drive, getter, poster

import fadecount as fc
from fadecount.service.http import Problem, Request
from fadecount.service.server import Service, allowed_hosts, serve
from fadecount.service.settings import Settings, open_tokens
from fadecount.service.tokens import Role
from fadecount.streams import Ticks
from fadecount.streams.storage import Storage, open_store

PLACE, PORT = "FADECOUNT_BENCHMARK_STATE", "FADECOUNT_BENCHMARK_PORT"
Message = MutableMapping[str, Any]
NAME = "load"


def storage_in(folder: Path) -> Storage:
    """Where a server keeps what it counts."""
    return Storage(folder=folder / "state", fence=folder / "fence")


def settings() -> Settings:
    """The settings of this process, from its environment."""
    hosts = allowed_hosts("127.0.0.1", int(os.environ[PORT]))
    return Settings(storage=storage_in(Path(os.environ[PLACE])), hosts=hosts)


class Adapter:
    """The application for servers that speak ASGI."""

    _service: Service

    async def __call__(
        self,
        scope: Message,
        receive: Callable[[], Awaitable[Message]],
        send: Callable[[Message], Awaitable[None]],
    ) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
            return
        request = Request(
            method=scope["method"],
            path=scope["path"],
            query_string=scope["query_string"],
            headers={name.decode(): value.decode() for name, value in scope["headers"]},
            address=scope["client"][0],
        )
        application = self._service.connections.application
        try:
            handler, _ = application.begin(request)
            more = True
            while more:
                message = await receive()
                request.body += message.get("body", b"")
                more = message.get("more_body", False)
            answer = await application.answer(handler, request)
        except Problem as problem:
            answer = problem.answer()
        headers = [*answer.headers, *answer.security]
        headers.append((b"content-length", b"%d" % len(answer.body)))
        start = {"type": "http.response.start", "status": answer.status, "headers": headers}
        await send(start)
        await send({"type": "http.response.body", "body": answer.body})

    async def _live(
        self,
        receive: Callable[[], Awaitable[Message]],
        send: Callable[[Message], Awaitable[None]],
    ) -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                self._service = Service(settings())
                unused = socket.create_server(("127.0.0.1", 0))
                await self._service.start(unused)
                await send({"type": "lifespan.startup.complete"})
            else:
                await self._service.stop()
                await send({"type": "lifespan.shutdown.complete"})
                return


adapter = Adapter()


def commands(port: int) -> dict[str, list[str]]:
    """How each server that is installed is started."""
    run = [sys.executable, "-m"]
    made = {"ours": [*run, "benchmarks.servers", "--serve"]}
    if importlib.util.find_spec("uvicorn"):
        words = "--loop uvloop --http httptools --lifespan on --no-access-log --log-level warning"
        made["uvicorn"] = [*run, "uvicorn", "benchmarks.servers:adapter", *words.split()]
        made["uvicorn"] += ["--port", str(port)]
    if importlib.util.find_spec("granian"):
        words = "--interface asgi --loop uvloop --no-log --workers 1 benchmarks.servers:adapter"
        made["granian"] = [*run, "granian", *words.split(), "--port", str(port)]
    return made


def spent(pid: int) -> float:
    """Seconds of processor time that a process and its children have used."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    own = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return own + sum(spent(int(child)) for child in children)


def wait_for(port: int) -> None:
    """Wait until somebody listens."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise TimeoutError("the server does not listen")


def measure(name: str, folder: Path, seconds: float) -> dict[str, float]:
    """Microseconds of processor time of a server for one GET and for one durable POST."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = int(free.getsockname()[1])
    storage = storage_in(folder)
    with open_store(storage) as store:
        store.open_or_create(
            NAME,
            tick=Ticks(tick_seconds=3600),
            mechanism=fc.Gradual(epsilon=0.1),
            keys=("key",),
            start_tick=int(time.time()) // 3600,
        )
    with open_tokens(storage) as tokens:
        token, _ = tokens.create(Role.ADMIN)
    environment = {**os.environ, PLACE: str(folder), PORT: str(port)}
    process = subprocess.Popen(commands(port)[name], env=environment, stdout=subprocess.DEVNULL)
    post = json.dumps({"events": [{"key": "key", "count": 1}]}).encode()
    results = {}
    try:
        wait_for(port)
        for what, expected, makers in (
            ("GET", b"HTTP/1.1 200", [getter(port, token, f"/v1/streams/{NAME}")] * CONNECTIONS),
            (
                "durable POST",
                b"HTTP/1.1 202",
                [poster(port, token, post, f"p{at}") for at in range(CONNECTIONS)],
            ),
        ):
            asyncio.run(drive(port, makers, expected, seconds / 4))  # to warm up
            before = spent(process.pid)
            senders = asyncio.run(drive(port, makers, expected, seconds))
            requests = sum(len(sender.times) for sender in senders)
            results[what] = (spent(process.pid) - before) / requests * 1e6
    finally:
        process.terminate()
        process.wait()
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=3.0, help="per measurement")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        sys.exit(serve(settings(), "127.0.0.1", int(os.environ[PORT])))
    names = list(commands(0))
    found: dict[tuple[str, str], list[float]] = {}
    for _ in range(arguments.repeats):
        for name in names:
            with tempfile.TemporaryDirectory() as folder:
                for what, each in measure(name, Path(folder), arguments.seconds).items():
                    found.setdefault((what, name), []).append(each)
    for (what, name), times in found.items():
        middle, ours = statistics.median(times), statistics.median(found[what, "ours"])
        print(f"{what:14} {name:8} {middle:6.1f} µs  {middle / ours:5.2f} times ours")


if __name__ == "__main__":
    main()
