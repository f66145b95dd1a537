"""A service in this process for tests: a real server, port and store, and a clock that stands still
until told."""

from __future__ import annotations

import asyncio
import http.client
import json
import socket
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self, TypeVar

import fadecount as fc
from fadecount.service.connection import Connection
from fadecount.service.reader_pool import PublicStream
from fadecount.service.server import Service, allowed_hosts
from fadecount.service.settings import Clock, Limits, Settings, open_tokens
from fadecount.service.tokens import Grant, Role, Tokens
from fadecount.service.website import Websites
from fadecount.streams.storage import Storage

EXACT = fc.Gradual(epsilon=2.0**14, exponent=1.0)
"""So much budget that a noise variable differs from 0 with probability below exp(-16000): releases
show the true counts."""

Result = TypeVar("Result")
START = 1_700_000_000


class StillClock(Clock):
    """Time that moves when a test says so."""

    def __init__(self, start: float = START) -> None:
        self.moment = start

    def now(self) -> float:
        return self.moment

    def until(self, moment: float) -> float:
        return 0.0 if moment <= self.moment else 0.01


@dataclass(frozen=True)
class Reply:
    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


class Harness:
    """``with Harness(tmp_path) as harness:``; ``harness.close_tick()`` lets a tick go by and waits
    for its release."""

    def __init__(
        self,
        folder: Path,
        *,
        public: bool = False,
        limits: Limits | None = None,
        clock: Clock | None = None,
        database: str | None = None,
        websites: Websites | None = None,
    ) -> None:
        storage = Storage(folder=folder / "state", fence=folder / "fence", database=database)
        self.clock = clock or StillClock()
        self._settings = Settings(
            storage=storage,
            public=public,
            websites=websites,
            limits=limits or Limits(),
            clock=self.clock,
        )
        self.storage = storage
        self._running: Service | None = None
        self.admin, self.own = self.new_token(Role.ADMIN)

    def __enter__(self) -> Self:
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.port: int = self._listening.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._started = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()))
        self._thread.start()
        assert self._started.wait(20)
        if self._failure:
            raise self._failure
        return self

    async def _serve(self) -> None:
        ending = self._ending = asyncio.Event()
        try:
            settings = replace(self._settings, hosts=allowed_hosts("127.0.0.1", self.port))
            self.service = Service(settings)
            await self.service.start(self._listening)
            self._running = self.service
        except BaseException as error:
            self._failure = error
            self._listening.close()
            self._started.set()
            return
        self._started.set()
        await ending.wait()
        self._running = None
        await self.service.stop()

    def __exit__(self, *_: object) -> None:
        if self._thread.is_alive():
            self.end()
        self._thread.join(20)
        assert not self._thread.is_alive()

    def end(self) -> None:
        """Begin to stop."""
        self.service._loop.call_soon_threadsafe(self._ending.set)

    def token(self, role: str, stream: str | None = None) -> str:
        return self.new_token(Role(role), stream=stream)[0]

    def new_token(self, role: Role, **options: Any) -> tuple[str, Grant]:
        """A token as the command makes it, known to the service."""
        return self.with_tokens(lambda tokens: tokens.create(role, **options))

    def grants(self) -> list[Grant]:
        """The tokens in the store."""
        return self.with_tokens(lambda tokens: tokens.grants())

    def grant_of(self, token: str) -> Grant:
        """What a token allows."""
        return next(each for each in self.grants() if each.id == token.split("_")[1])

    def with_tokens(self, work: Callable[[Tokens], Result]) -> Result:
        """Do something with the tokens beside the service, and let the service notice."""
        with open_tokens(self.storage) as tokens:
            result = work(tokens)
        if self._running is not None:
            running = self._running
            asyncio.run_coroutine_threadsafe(running.read_tokens(), running._loop).result(20)
        return result

    def client(self, token: str | None = None) -> fc.Client:
        return fc.Client(self.url, token or self.admin)

    def create(
        self,
        name: str = "doors",
        keys: Iterable[str] = ("a", "b"),
        mechanism: fc.Mechanism = EXACT,
        tick: str = "1m",
    ) -> None:
        with self.client() as client:
            client.create(name, tick=tick, mechanism=mechanism, keys=keys)

    def stream(self, name: str) -> PublicStream:
        """The public facts of a stream, as the service knows them."""
        return asyncio.run_coroutine_threadsafe(
            self.service.pool.stream(name), self.service._loop
        ).result(20)

    def retain(self, name: str, seconds: int) -> None:
        """Keep the figures of a stream for a time; the service removes older ones."""

        async def ask() -> None:
            await self.service.writer.call(lambda leader: leader._store.retain(name, seconds))

        asyncio.run_coroutine_threadsafe(ask(), self.service._loop).result(20)

    @property
    def connections(self) -> list[Connection]:
        """The open connections."""
        return list(self.service.connections.open)

    @property
    def live_readers(self) -> int:
        return self.service.reading.live_readers

    def close_tick(self, count: int = 1, *, name: str = "doors") -> None:
        """Let ``count`` ticks go by and wait until the last is released."""
        stream = self.stream(name)
        assert isinstance(self.clock, StillClock) and stream.last_tick is not None
        last = stream.last_tick + count
        self.clock.moment = stream.ticks.start_seconds(last + 1) + 0.5
        wait_for(lambda: (self.stream(name).last_tick or 0) >= last)

    def wait_closed(self, name: str) -> None:
        """Until every tick of a stream is released that is over."""
        ticks = self.stream(name).ticks
        wait_for(lambda: self.stream(name).last_tick + 1 >= ticks.at(self.clock.now()))

    def request(
        self,
        method: str,
        path: str,
        body: bytes | str | None = None,
        *,
        token: str | None = None,
        **headers: str,
    ) -> Reply:
        """One request on a connection of its own; headers as ``content_type="..."``."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        if token:
            named["Authorization"] = f"Bearer {token}"
        connection.request(method, path, body, named)
        answer = connection.getresponse()
        reply = Reply(
            answer.status,
            {name.lower(): value for name, value in answer.getheaders()},
            answer.read(),
        )
        connection.close()
        return reply

    def post(self, path: str, value: Any, *, token: str | None = None, **headers: str) -> Reply:
        return self.request(
            "POST",
            path,
            json.dumps(value),
            token=token or self.admin,
            content_type="application/json",
            **headers,
        )


def last_value(client: fc.Client, stream: str = "doors") -> int | None:
    """What the last tick released of the first key; None before the first."""
    rows = client.figures(stream, "total", key=client.stream(stream).keys[0])
    return rows[-1].value if rows else None


def wait_for(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    """Until it holds; a test that waits in vain fails here."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.005)
