"""The client: what breaks is repeated, elsewhere if need be."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

import fadecount as fc
from fadecount.service.client import ServiceError
from tests.service.faulty import LossyProxy
from tests.service.harness import EXACT, Harness


class _Balanced(BaseHTTPRequestHandler):
    """Stands where a balancer does: the process behind the first connection never can, the one
    behind the second can."""

    protocol_version = "HTTP/1.1"
    connections, retry_after = 0, "0"

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
        self.send_header("Retry-After", self.retry_after)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Quiet."""


@pytest.mark.parametrize("after", ["0", "-1", "-inf", "Thu, 01 Jan 1970 00:00:00 GMT"])
def test_a_repeated_request_takes_another_connection(
    after: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_Balanced, "connections", 0)
    monkeypatch.setattr(_Balanced, "retry_after", after)
    with ThreadingHTTPServer(("127.0.0.1", 0), _Balanced) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with fc.Client(f"http://127.0.0.1:{server.server_port}", attempts=3) as client:
            client.declare("doors", ["c"])
        server.shutdown()
    assert _Balanced.connections == 2


def test_every_call(harness: Harness) -> None:
    with fc.Client(harness.url, harness.admin) as client:
        assert client.create("gates", tick="1m", mechanism=EXACT, keys=["a", "b"])
        client.declare("gates", ["c"])
        assert client.add("gates", {"a": 3, "c": 4}, id="one")
        assert not client.add("gates", {"a": 3, "c": 4}, id="one")
        assert [each.name for each in client.streams()] == ["doors", "gates"]
        assert client.stream("gates").keys == ("a", "b", "c")
        assert client.create("brief", tick="1m", mechanism=EXACT)
        client.delete("brief")
        with pytest.raises(ServiceError, match="no such stream"):
            client.stream("brief")
        harness.close_tick(name="gates")
        assert [row.value for row in client.figures("gates", "total")] == [3, 0, 4]
        assert [row.value for row in client.total("gates")] == [3, 0, 4]
        assert [row.value for row in client.so_far("gates", "1h")] == [3, 0, 4]
        ticks = client.live("gates")
        assert client.stream("gates").published_through == next(ticks)
        ticks.close()
        with pytest.raises(ServiceError, match="no such stream"):
            next(client.live("absent"))


def test_amounts(harness: Harness) -> None:
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
        assert client.add("paid", {"a": 1}, amount=5)
        assert client.add("baskets", {"a": 1}, person="ann", amount=3)
        assert client.add("baskets", {"b": 5}, person="eve", amount=4), "of which two count"
        assert client.add("paid", {"a": 1}, amount=6), "which counts as 5"
        harness.close_tick(name="paid")
        harness.close_tick(name="baskets")
        assert [row.value for row in client.total("paid")] == [23, 104]
        assert [row.value for row in client.total("baskets")] == [5, 13]


def test_keys_are_as_long_as_elsewhere(harness: Harness) -> None:
    keys = ["k" * 200, "\U0001f600" * 200]
    with harness.client() as client:
        client.create("long", tick="1m", mechanism=EXACT, keys=keys[:1])
        client.declare("long", keys[1:])
        assert client.add("long", dict.fromkeys(keys, 2))
        harness.close_tick(name="long")
        for key in keys:
            assert [row.value for row in client.total("long", key=key)] == [2]
        with pytest.raises(ServiceError, match="length <= 200"):
            client.declare("long", ["k" * 201])


def test_what_gets_lost_is_repeated(harness: Harness) -> None:
    with LossyProxy(harness.port, lose_every=2) as proxy:
        with fc.Client(proxy.url, harness.admin) as client:
            for _ in range(6):
                assert client.add("doors", {"a": 1}) in (True, False)
            with pytest.raises(ServiceError, match="declared"):
                client.add("doors", {"unknown": 1})
        assert proxy.lost >= 3
    nobody = fc.Client("http://127.0.0.1:1", attempts=2)
    with pytest.raises(ServiceError, match="cannot be reached"):
        nobody.streams()
    harness.close_tick()
    with harness.client() as client:
        assert client.total("doors")[0].value == 6
