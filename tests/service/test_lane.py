"""The short way for small event requests says exactly what the long way says."""

from __future__ import annotations

import json
import re
import socket
from pathlib import Path

import pytest

from fadecount.service.lane import LARGEST_BODY, qualifies
from tests.service.harness import Harness, Reply
from tests.service.hostile import HOSTILE_BODIES

EVENTS = "/v1/streams/doors/events"
GOOD = json.dumps({"events": [{"key": "a", "count": 2}]}).encode()


@pytest.fixture
def counted(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many requests took the short way."""
    taken: list[int] = []
    real = type(harness.service).lane

    def spy(*arguments: object) -> None:
        taken.append(1)
        real(harness.service, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr("fadecount.service.protocol.GuardedProtocol.lane", None)
    protocol = harness._server.config.http_protocol_class
    monkeypatch.setattr(protocol, "lane", staticmethod(spy))
    return taken


def both(harness: Harness, counted: list[int], body: bytes, path: str = EVENTS, **headers: str) -> tuple[Reply, Reply]:
    """The same request twice: with its length, and in chunks, which takes the long way."""
    before = len(counted)
    short = harness.request("POST", path, body, **headers)
    assert len(counted) == before + 1
    long = harness.request("POST", path, iter([body]) if body else iter([b"", b""]), **headers)  # type: ignore[arg-type]
    assert len(counted) == before + 1
    return short, long


def same(short: Reply, long: Reply) -> None:
    assert (short.status, short.body) == (long.status, long.body)
    assert {name: value for name, value in short.headers.items() if name != "date"} == {
        name: value for name, value in long.headers.items() if name != "date"
    }


def test_both_ways_say_the_same(harness: Harness, counted: list[int]) -> None:
    writer, reader, other = harness.token("writer"), harness.token("reader"), harness.token("writer", "gates")
    json_type = {"content_type": "application/json"}
    for token in (writer, reader, other, "fc_a_b", ""):
        same(*both(harness, counted, GOOD, authorization=f"Bearer {token}", **json_type))
    allowed = {"authorization": f"Bearer {writer}"}
    for body in (body for body in HOSTILE_BODIES if len(body) <= LARGEST_BODY):
        same(*both(harness, counted, body, **allowed, **json_type))
    same(*both(harness, counted, GOOD, **allowed, content_type="text/plain"))
    same(*both(harness, counted, GOOD, **allowed, **json_type, host="evil.example"))
    same(*both(harness, counted, GOOD, path="/v1/streams/absent/events", **allowed, **json_type))
    same(*both(harness, counted, GOOD, path="/elsewhere/events", **allowed, **json_type))
    same(*both(harness, counted, GOOD, path="/v1/streams/a/b/events", **allowed, **json_type))
    same(*both(harness, counted, GOOD, **allowed, **json_type, idempotency_key="x" * 300))
    unknown = json.dumps({"events": [{"key": "unknown"}]}).encode()
    same(*both(harness, counted, unknown, **allowed, **json_type))
    same(*both(harness, counted, b'{"key":"a"}\n{"key":"b"}', **allowed, content_type="application/x-ndjson"))


def test_requests_in_a_row_on_one_connection_are_answered_in_order(harness: Harness, counted: list[int]) -> None:
    host = f"Host: 127.0.0.1:{harness.port}\r\nAuthorization: Bearer {harness.admin}\r\n"
    post = (
        f"POST {EVENTS} HTTP/1.1\r\n{host}Content-Type: application/json\r\nContent-Length: {len(GOOD)}\r\n\r\n".encode() + GOOD
    )
    get = f"GET /v1/streams/doors HTTP/1.1\r\n{host}\r\n".encode()
    last = f"GET /healthz HTTP/1.1\r\n{host}Connection: close\r\n\r\n".encode()
    with socket.create_connection(("127.0.0.1", harness.port), timeout=10) as connection:
        connection.sendall(post + get + post + post + last)
        answer = b""
        while piece := connection.recv(65536):
            answer += piece
    assert re.findall(rb"HTTP/1\.1 (\d+) ", answer) == [b"202", b"200", b"202", b"202", b"200"]
    assert counted
    harness.close_tick()
    with harness.client() as client:
        assert client.latest("doors")[0].value == 6


def test_what_qualifies() -> None:
    length = [(b"content-length", b"10")]
    assert qualifies(b"POST", b"/v1/streams/a/events", length, 100)
    for method, url, headers in (
        (b"GET", b"/v1/streams/a/events", length),
        (b"POST", b"/v1/streams/a/events?x=1", length),
        (b"POST", b"/v1/streams/a/keys", length),
        (b"POST", b"/v1/streams/a/events", []),
        (b"POST", b"/v1/streams/a/events", [(b"content-length", b"101")]),
        (b"POST", b"/v1/streams/a/events", [(b"content-length", b"-1")]),
        (b"POST", b"/v1/streams/a/events", [*length, (b"transfer-encoding", b"chunked")]),
        (b"POST", b"/v1/streams/a/events", [*length, (b"content-encoding", b"gzip")]),
        (b"POST", b"/v1/streams/a/events", [*length, (b"expect", b"100-continue")]),
    ):
        assert not qualifies(method, url, headers, 100)


def test_a_fault_on_the_short_way_shows_nothing(
    harness: Harness, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("the secret is 734201")

    monkeypatch.setattr("fadecount.service.write_routes.parse", broken)
    reply = harness.request("POST", EVENTS, GOOD, token=harness.admin, content_type="application/json")
    assert reply.status == 500 and b"734201" not in reply.body
    assert "RuntimeError" in caplog.text and "734201" not in caplog.text
