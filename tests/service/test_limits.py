"""Bounds on what one client may take: bytes, time, connections, requests."""

from __future__ import annotations

import gzip
import json
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from fadecount.service.settings import Limits
from tests.service.harness import Harness, wait_for

TIGHT = Limits(
    body_bytes=2000, request_seconds=0.4, idle_seconds=1, connections=8, send_seconds=0.3
)
EVENTS = "/v1/streams/doors/events"
PING = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"


@pytest.fixture
def tight(tmp_path: Path) -> Iterator[Harness]:
    with Harness(tmp_path, limits=TIGHT) as harness:
        harness.create()
        yield harness


def raw(harness: Harness, *pieces: bytes, pause: float = 0.0) -> bytes:
    """Send bytes as they are, and return everything that comes back until the server closes."""
    with socket.create_connection(("127.0.0.1", harness.port), timeout=10) as connection:
        for piece in pieces:
            try:
                connection.sendall(piece)
            except OSError:
                break
            time.sleep(pause)
        answer = b""
        try:
            while piece := connection.recv(65536):
                answer += piece
        except OSError:
            pass
        return answer


def head(harness: Harness, *lines: str) -> bytes:
    first = (
        f"POST {EVENTS} HTTP/1.1",
        f"Host: 127.0.0.1:{harness.port}",
        f"Authorization: Bearer {harness.admin}",
    )
    return "\r\n".join([*first, "Content-Type: application/json", *lines, "", ""]).encode()


def test_a_declared_length_is_refused_before_the_body_is_read(tight: Harness) -> None:
    answer = raw(tight, head(tight, "Content-Length: 999999999999", "Connection: close"))
    assert answer.startswith(b"HTTP/1.1 413")


def test_a_body_without_a_length_is_refused_while_it_is_read(tight: Harness) -> None:
    chunk = b"400\r\n" + b" " * 1024 + b"\r\n"
    answer = raw(
        tight, head(tight, "Transfer-Encoding: chunked", "Connection: close"), *[chunk] * 8
    )
    assert answer.startswith(b"HTTP/1.1 413")


def test_a_packed_body_is_refused(tight: Harness) -> None:
    headers = {"content_type": "application/json", "content_encoding": "gzip"}
    packed = gzip.compress(json.dumps({"events": [{"key": "a", "count": 5}]}).encode())
    assert tight.request("POST", EVENTS, packed, token=tight.admin, **headers).status == 415


def test_a_slow_body_is_given_up(tight: Harness) -> None:
    answer = raw(tight, head(tight, "Content-Length: 100", "Connection: close"), b"{")
    assert answer.startswith(b"HTTP/1.1 408")


def test_silence_and_slow_headers_end_the_connection(tight: Harness) -> None:
    assert raw(tight) == b""
    assert raw(tight, *[bytes([letter]) for letter in b"GET / HTTP/1.1"], pause=0.05) == b""


def test_headers_without_end_are_cut_off(tight: Harness) -> None:
    answer = raw(tight, b"GET / HTTP/1.1\r\n", *[b"X-Long: " + b"a" * 4000 + b"\r\n"] * 10)
    assert b"200 OK" not in answer


def answered(connection: socket.socket) -> bool:
    """Whether the service says that it is alive, to the end of its answer."""
    found = b""
    while not found.endswith(b"ok\n") and (piece := connection.recv(65536)):
        found += piece
    return found.startswith(b"HTTP/1.1 200")


def test_a_connection_too_many_takes_the_place_of_one_that_waits(tmp_path: Path) -> None:
    """Silent connections, and those that wait for their next request, cannot keep others out; the
    one that waits longest goes."""
    with Harness(tmp_path, limits=Limits(connections=8)) as harness, ExitStack() as stack:
        held = []
        for _ in range(4):
            for sent in (b"", PING):
                held.append(
                    connection := stack.enter_context(
                        socket.create_connection(("127.0.0.1", harness.port), timeout=10)
                    )
                )
                connection.sendall(sent)
                assert not sent or answered(connection)
        wait_for(lambda: len(harness.connections) == 8)
        for _ in range(3):
            assert harness.request("GET", "/healthz").status == 200
        assert held[0].recv(1) == b""
        held[7].sendall(PING)
        assert answered(held[7])


def test_a_connection_too_many_is_closed_while_all_others_are_being_answered(
    tight: Harness,
) -> None:
    live = (
        "GET /v1/streams/doors/live HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer"
        f" {tight.admin}\r\n\r\n".encode()
    )
    with ExitStack() as stack:
        for _ in range(TIGHT.connections):
            connection = stack.enter_context(
                socket.create_connection(("127.0.0.1", tight.port), timeout=10)
            )
            connection.sendall(live)
            assert connection.recv(65536).startswith(b"HTTP/1.1 200")
        assert raw(tight, PING) == b""
        assert tight.live_readers == TIGHT.connections
    wait_for(lambda: tight.live_readers == 0)
    assert tight.request("GET", "/healthz").status == 200


def test_many_events_in_one_body_are_bounded(harness: Harness) -> None:
    for many, status in ((50_000, 202), (50_001, 400)):
        body = {"events": [{"key": "a"}] * many}
        assert harness.post(EVENTS, body).status == status


def test_a_live_reader_that_does_not_read_is_let_go(tight: Harness) -> None:
    tight._listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2048)
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        connection.connect(("127.0.0.1", tight.port))
        request = (
            "GET /v1/streams/doors/live HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer"
            f" {tight.admin}\r\n\r\n"
        )
        connection.sendall(request.encode())
        for _ in range(400):
            tight.close_tick()
            if tight.live_readers == 0:
                break
            time.sleep(0.01)
        assert tight.live_readers == 0


def visit(length: int = 100) -> bytes:
    """The head of a request that anybody may send."""
    return b"POST /api/event HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % length


def test_heads_without_a_body_cannot_keep_others_out(tmp_path: Path) -> None:
    """Nor those that begin one: each is closed when others need its place, longest first."""
    with (
        Harness(tmp_path, limits=Limits(connections=8)) as harness,
        ExitStack() as stack,
    ):
        held = [
            stack.enter_context(socket.create_connection(("127.0.0.1", harness.port), timeout=10))
            for _ in range(8)
        ]
        for connection in held[1:]:
            connection.sendall(visit() + b"{")
        wait_for(lambda: [each._in_message for each in harness.connections].count(True) == 7)
        held[0].sendall(visit())  # it was silent for longest, but this request is the newest
        wait_for(lambda: all(each._in_message for each in harness.connections))
        for _ in range(5):
            assert harness.request("GET", "/healthz").status == 200
        assert held[1].recv(1) == b""
        held[0].sendall(b" " * 100)
        assert held[0].recv(65536).startswith(b"HTTP/1.1 202")


def test_answers_that_are_read_slowly_cannot_keep_others_out(tmp_path: Path) -> None:
    """A client that reads a byte now and then would hold its connection for hours."""
    with (
        Harness(tmp_path, limits=Limits(connections=8)) as harness,
        ExitStack() as stack,
    ):
        harness._listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        harness.create(keys=[f"key{number:05d}{'x' * 100}" for number in range(5000)])
        for _ in range(8):
            connection = stack.enter_context(socket.socket())
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.settimeout(10)
            connection.connect(("127.0.0.1", harness.port))
            path = f"GET /v1/streams/doors HTTP/1.1\r\nAuthorization: Bearer {harness.admin}\r\n"
            connection.sendall(path.encode() + b"Host: localhost\r\n\r\n")
            assert connection.recv(12) == b"HTTP/1.1 200"
        wait_for(lambda: len(harness.service.connections.waiting) == 8)
        assert harness.request("GET", "/healthz").status == 200
        assert len(harness.connections) >= 7


def test_bodies_that_are_not_complete_are_bounded_all_together(tmp_path: Path) -> None:
    """The one that began first is refused; the others go on, and each is forgotten in the end."""
    limits = Limits(waiting_bytes=100_000)
    with Harness(tmp_path, limits=limits) as harness, ExitStack() as stack:
        harness.create()
        held = [
            stack.enter_context(socket.create_connection(("127.0.0.1", harness.port), timeout=10))
            for _ in range(4)
        ]
        body = json.dumps({"events": [{"key": "a"}]}).encode().ljust(40_000)
        connections = harness.service.connections
        begun = head(harness, "Content-Length: 40000") + body[:-1]
        held[0].sendall(begun)
        wait_for(lambda: connections._kept == 39_999)
        held[1].sendall(begun)
        wait_for(lambda: connections._kept == 2 * 39_999)
        for older, newer in ((held[0], held[2]), (held[1], held[3])):
            newer.sendall(begun)
            assert older.recv(65536).startswith(b"HTTP/1.1 503")
        for connection in held:
            connection.sendall(body[-1:])
        for connection in held[2:]:
            assert connection.recv(65536).startswith(b"HTTP/1.1 202")
        for connection in held:
            connection.sendall(begun + body[-1:])
            assert connection.recv(65536).startswith(b"HTTP/1.1 202")
        held[0].sendall(begun)
        wait_for(lambda: len(connections.bodies) == 1)
        held[0].close()
        wait_for(lambda: not connections.bodies and connections._kept == 0)
