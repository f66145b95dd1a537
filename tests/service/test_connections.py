"""What one connection may take from everybody else, tried with raw sockets and without a token."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from fadecount.service.connection import PIECE_BYTES
from fadecount.service.http import SECURITY_HEADERS
from fadecount.service.routes import openapi_document
from fadecount.service.settings import Limits
from tests.service.harness import Harness, wait_for

GET = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
CHUNKED = (
    b"POST /v1/streams/doors/events HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n"
)
EVENTS = json.dumps({"events": [{"key": "a"}]}).encode()


@pytest.fixture
def tight(tmp_path: Path) -> Iterator[Harness]:
    with Harness(
        tmp_path,
        limits=Limits(body_bytes=50_000, request_seconds=3.0, idle_seconds=0.5, connections=60),
    ) as harness:
        harness.create()
        yield harness


def connected(harness: Harness) -> socket.socket:
    return socket.create_connection(("127.0.0.1", harness.port), timeout=10)


def rest(connection: socket.socket) -> bytes:
    """Everything until the server closes."""
    found = b""
    try:
        while piece := connection.recv(65536):
            found += piece
    except OSError:
        pass
    return found


def flood(connection: socket.socket, piece: bytes, most: int) -> int:
    """Send a piece again and again until the server has had enough; how many bytes it took."""
    sent = 0
    try:
        while sent < most:
            connection.sendall(piece)
            sent += len(piece)
    except OSError:
        pass
    return sent


@pytest.mark.parametrize("noise", [b"\r\n", b"\r", b"\n", b""])
def test_nothing_between_requests_holds_a_connection(tight: Harness, noise: bytes) -> None:
    """Sixty of them would be all that there are."""
    with ExitStack() as stack:
        held = []
        for _ in range(60):
            held.append(connection := stack.enter_context(connected(tight)))
            connection.sendall(GET)
            assert connection.recv(65536).startswith(b"HTTP/1.1 200")

        def gone() -> bool:
            for connection in held:
                try:
                    connection.sendall(noise)
                except OSError:
                    return True
            return not tight.connections

        wait_for(gone, 10)
        wait_for(lambda: not tight.connections, 10)
    assert tight.request("GET", "/healthz").status == 200


def test_trailers_are_not_headers(tight: Harness) -> None:
    body = b"%x\r\n%b\r\n0\r\n" % (len(EVENTS), EVENTS)
    trailers = (
        f"Authorization: Bearer {tight.admin}\r\nContent-Type: application/json\r\n\r\n".encode()
    )
    with connected(tight) as connection:
        connection.sendall(
            CHUNKED
            + b"Connection: close\r\nContent-Type: application/json\r\n\r\n"
            + body
            + trailers
        )
        assert rest(connection).startswith(b"HTTP/1.1 401")
    with connected(tight) as connection:
        head = CHUNKED + f"Connection: close\r\nAuthorization: Bearer {tight.admin}\r\n".encode()
        connection.sendall(
            head
            + b"Content-Type: application/json\r\n\r\n"
            + body
            + b"Content-Type: text/plain\r\n\r\n"
        )
        assert rest(connection).startswith(b"HTTP/1.1 202")


@pytest.mark.parametrize(
    ("head", "piece"),
    [
        (CHUNKED + b"\r\n0\r\n", b"X-Trailer: " + b"a" * 4000 + b"\r\n"),
        (CHUNKED + b"\r\n0\r\nX-Trailer: ", b"a" * 4000),
        (CHUNKED + b"\r\n", b"1;" + b"x" * 4000 + b"\r\na\r\n"),
        (
            (
                b"POST /v1/streams/doors/events HTTP/1.1\r\nHost: localhost\r\nContent-Length:"
                b" 99999999999\r\n\r\n"
            ),
            b"a" * 4000,
        ),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\n", b"X-Header: " + b"a" * 4000 + b"\r\n"),
        (b"GET /", b"a" * 4000),
    ],
    ids=["trailers", "one trailer", "chunk extensions", "a body", "headers", "a target"],
)
def test_a_message_is_bounded_as_a_whole(tight: Harness, head: bytes, piece: bytes) -> None:
    """What the system's own buffers take is a few megabytes."""
    with connected(tight) as connection:
        connection.sendall(head)
        assert flood(connection, piece, 60_000_000) < 30_000_000
    wait_for(lambda: not tight.connections)


def test_what_is_sent_before_an_answer_is_not_read(tight: Harness) -> None:
    """The answer says that the connection is closed, so a client sends the rest again."""
    missing = GET.replace(b"/healthz", b"/missing")
    for following in (missing, missing[:7], b"garbage\r\n", GET * 5000):
        with connected(tight) as connection:
            connection.sendall(GET + following)
            answer = rest(connection)
        assert answer.startswith(b"HTTP/1.1 200") and answer.count(b"HTTP/1.1") == 1
        assert b"connection: close" in answer
    wait_for(lambda: not tight.connections)


@pytest.mark.parametrize(
    "garbage",
    [
        b"\x16\x03\x01\x02\x00",
        b"GET / HTTP/9.9\r\n\r\n",
        b"NONSENSE\r\n\r\n",
        b"GET /#a HTTP/1.1\r\n\r\n",
    ],
)
def test_garbage_gets_a_refusal_like_all_others_and_no_line_in_the_log(
    tight: Harness, garbage: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    with connected(tight) as connection:
        connection.sendall(garbage)
        answer = rest(connection)
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400") and json.loads(body)["code"] == "not_http"
    for name, value in SECURITY_HEADERS:
        assert name + b": " + value in head
    assert not caplog.records


def test_a_head_that_comes_in_one_piece_is_bounded_too(tight: Harness) -> None:
    many, long = b"a:\r\n", b"X-Long: " + b"a" * 20_000 + b"\r\n"
    for lines, fits in ((many * 3000, True), (many * 5000, False), (long, False)):
        with connected(tight) as connection:
            connection.sendall(GET[:-2] + b"Connection: close\r\n" + lines + b"\r\n")
            assert rest(connection).startswith(b"HTTP/1.1 200") == fits


def test_what_a_live_reader_sends_is_not_read(tight: Harness) -> None:
    """It would be kept in memory for as long as the reader stays."""
    live = (
        "GET /v1/streams/doors/live HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer"
        f" {tight.admin}\r\n\r\n".encode()
    )
    with connected(tight) as connection:
        connection.sendall(live)
        wait_for(lambda: tight.live_readers == 1)
        connection.settimeout(0.5)
        assert flood(connection, GET * 1000, 60_000_000) < 30_000_000
        tight.close_tick()
        assert connection.recv(65536).count(b"HTTP/1.1") == 1
    for _ in range(2):  # the system says that it is gone when something is sent
        tight.close_tick()
    wait_for(lambda: tight.live_readers == 0)


def test_a_wish_for_another_protocol_is_answered_and_ends_the_connection(tight: Harness) -> None:
    for wish in (b"websocket", b"h2c"):
        with connected(tight) as connection:
            connection.sendall(
                GET[:-2] + b"Connection: Upgrade\r\nUpgrade: " + wish + b"\r\n\r\n" + GET
            )
            answer = rest(connection)
            assert answer.count(b"HTTP/1.1 ") == 1 and b"connection: close" in answer.lower()


def test_a_slow_request_on_a_used_connection_is_given_up(tight: Harness) -> None:
    with connected(tight) as connection:
        connection.sendall(GET)
        assert connection.recv(65536).startswith(b"HTTP/1.1 200")
        with pytest.raises(ConnectionError):
            for letter in GET[:-2] + b"X: " + b"a" * 2000:
                connection.sendall(bytes([letter]))
                time.sleep(0.01)


def test_a_client_may_ask_before_it_sends_a_body(tight: Harness) -> None:
    """The head is judged first: without a token no body is asked for."""
    head = (
        "POST /v1/streams/doors/events HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(EVENTS)}\r\n"
    )
    for line, answer in ((f"Authorization: Bearer {tight.admin}\r\n", b"100"), ("", b"401")):
        with connected(tight) as connection:
            connection.sendall(f"{head}{line}\r\n".encode())
            assert connection.recv(65536).startswith(b"HTTP/1.1 " + answer)
            connection.sendall(EVENTS)
            assert answer == b"401" or connection.recv(65536).startswith(b"HTTP/1.1 202")


def test_a_client_that_sends_nothing_more_is_answered(tight: Harness) -> None:
    """It has closed its half of the connection (``shutdown``); a request that is not complete by
    then is none."""
    head = (
        "POST /v1/streams/doors/events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer"
        f" {tight.admin}\r\nContent-Type: application/json\r\nContent-Length: {len(EVENTS)}\r\n\r\n"
    ).encode()
    with ExitStack() as stack:
        held = [stack.enter_context(connected(tight)) for _ in range(20)]
        for connection in held:
            connection.sendall(head + EVENTS)
            connection.shutdown(socket.SHUT_WR)
        answers = [rest(connection) for connection in held]
    assert all(answer.startswith(b"HTTP/1.1 202") for answer in answers)
    assert all(b"connection: close" in answer for answer in answers)
    with connected(tight) as connection:
        connection.sendall(head + EVENTS[:-1])
        connection.shutdown(socket.SHUT_WR)
        assert rest(connection) == b""
    with connected(tight) as connection:
        connection.sendall(GET)
        assert connection.recv(65536).startswith(b"HTTP/1.1 200")
        connection.shutdown(socket.SHUT_WR)
        assert rest(connection) == b""
    with connected(tight) as connection:  # an answer in pieces
        connection.sendall(GET.replace(b"/healthz", b"/v1/openapi.json"))
        connection.shutdown(socket.SHUT_WR)
        assert rest(connection).partition(b"\r\n\r\n")[2] == openapi_document().body
    assert len(openapi_document()) > PIECE_BYTES
    tight.close_tick()
    with tight.client() as client:
        assert client.total("doors")[0].value == 20


def test_a_live_reader_that_is_gone_is_let_go_at_once(tight: Harness) -> None:
    """One that will send nothing more looks the same, so it gets no live events."""
    live = (
        "GET /v1/streams/doors/live HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer"
        f" {tight.admin}\r\n\r\n".encode()
    )
    with connected(tight) as connection:
        connection.sendall(live)
        connection.shutdown(socket.SHUT_WR)
        rest(connection)
    with connected(tight) as connection:
        connection.sendall(live)
        wait_for(lambda: tight.live_readers == 1)
        connection.shutdown(socket.SHUT_WR)
        rest(connection)
        wait_for(lambda: tight.live_readers == 0 and not tight.connections)
