"""The clients: what breaks is repeated, elsewhere if need be, and both say and do the same."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Coroutine
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

import fadecount as fc
from fadecount.service.client import AsyncClient, Client, ServiceError
from tests.service.faulty import LossyProxy
from tests.service.harness import EXACT, Harness


class _Balanced(BaseHTTPRequestHandler):
    """Stands where a balancer does: the process behind the first connection never can, the one
    behind the second can."""

    protocol_version = "HTTP/1.1"
    connections = 0

    def setup(self) -> None:
        super().setup()
        type(self).connections += 1
        self._can = type(self).connections > 1

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        body = (
            b"{}"
            if self._can
            else b'{"code": "unavailable", "detail": "another process leads this stream"}'
        )
        self.send_response(200 if self._can else 503)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Retry-After", "0")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Quiet."""


def test_a_repeated_request_takes_another_connection() -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Balanced) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with fc.Client(f"http://127.0.0.1:{server.server_port}", attempts=3) as client:
            client.declare("doors", ["c"])
        server.shutdown()
    assert _Balanced.connections == 2


def run(work: Coroutine[Any, Any, Any]) -> Any:
    """On a loop of its own thread: another test may have left one running in this thread."""
    found: list[Any] = []

    def inside() -> None:
        try:
            found.append(asyncio.run(work))
        except BaseException as error:
            found.append(error)

    thread = threading.Thread(target=inside)
    thread.start()
    thread.join(60)
    assert found, "it takes too long"
    if isinstance(found[0], BaseException):
        raise found[0]
    return found[0]


def test_both_clients_have_the_same_calls() -> None:
    def calls(kind: type[Any]) -> dict[str, list[str]]:
        return {
            name: list(inspect.signature(getattr(kind, name)).parameters)
            for name in dir(kind)
            if not name.startswith("_")
        }

    assert calls(AsyncClient) == calls(Client)


def test_the_asynchronous_client(harness: Harness) -> None:
    async def first() -> None:
        async with AsyncClient(harness.url, harness.admin) as client:
            assert await client.create("gates", tick="1m", mechanism=EXACT, keys=["a", "b"])
            await client.declare("gates", ["c"])
            assert await client.add("gates", {"a": 3, "c": 4}, id="one")
            assert not await client.add("gates", {"a": 3, "c": 4}, id="one")
            assert [each.name for each in await client.streams()] == ["doors", "gates"]
            assert (await client.stream("gates")).keys == ("a", "b", "c")
            await client.retain("gates", "30d")
            assert await client.create("brief", tick="1m", mechanism=EXACT)
            await client.delete("brief")
            with pytest.raises(ServiceError, match="nothing here"):
                await client.stream("brief")

    async def second() -> list[int]:
        async with AsyncClient(harness.url, harness.admin) as client:
            assert [row.value for row in await client.figures("gates", "total")] == [3, 0, 4]
            assert [row.value for row in await client.total("gates")] == [3, 0, 4]
            assert await client.loss("gates", "1h") == 2**14 * 6
            ticks = client.live("gates")
            through = await anext(ticks)
            await ticks.aclose()
            with pytest.raises(ServiceError, match="nothing here"):
                await anext(client.live("absent"))
            assert (await client.stream("gates")).published_through == through
            return [row.value for row in await client.so_far("gates", "1h")]

    run(first())
    harness.close_tick(name="gates")
    assert run(second()) == [3, 0, 4]


def test_both_clients_send_amounts(harness: Harness) -> None:
    async def send() -> None:
        async with AsyncClient(harness.url, harness.admin) as client:
            assert await client.add("paid", {"a": 1}, amount=5)
            assert await client.add("baskets", {"a": 1}, person="ann", amount=3)
            assert await client.add("paid", {"a": 1}, amount=6), "which counts as 5"

    with harness.client() as client:
        client.create("paid", tick="1m", mechanism=EXACT, keys=["a", "b"], unit={"amount": 5})
        client.create(
            "baskets",
            tick="1m",
            mechanism=EXACT,
            keys=["a", "b"],
            unit={"of": "person", "amount": 5, "events": 2},
        )
        assert client.add("paid", {"a": 2, "b": 1}, amount=4), "two events of 4, and one"
        assert client.add("paid", {"b": 100}), "a hundred events of 1"
        assert client.add("baskets", {"b": 1, "a": 1}, person="ann", amount=5)
        assert client.add("paid", {"a": 1}, amount=6), "which counts as 5"
        with pytest.raises(ServiceError, match="send one event per key"):
            client.add("baskets", {"b": 2}, person="ann", amount=5)
        run(send())
        harness.close_tick(name="paid")
        harness.close_tick(name="baskets")
        assert [row.value for row in client.total("paid")] == [23, 104]
        assert [row.value for row in client.total("baskets")] == [5, 5]


def test_the_asynchronous_client_repeats_what_gets_lost(harness: Harness) -> None:
    async def send(url: str) -> None:
        client = AsyncClient(url, harness.admin)
        for _ in range(6):
            assert await client.add("doors", {"a": 1}) in (True, False)
        with pytest.raises(ServiceError, match="declared"):
            await client.add("doors", {"unknown": 1})
        nobody = AsyncClient("http://127.0.0.1:1", attempts=2)
        with pytest.raises(ServiceError, match="cannot be reached"):
            await nobody.streams()

    with LossyProxy(harness.port, lose_every=2) as proxy:
        run(send(proxy.url))
        assert proxy.lost >= 3
    harness.close_tick()
    with harness.client() as client:
        assert client.total("doors")[0].value == 6
