"""Clients that read slowly, not at all, or have vanished: they get what they ask for, or are let
go; nobody waits for them."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

import fadecount as fc
from fadecount.service import connection as connection_module
from fadecount.service.connection import PIECE_BYTES
from fadecount.service.server import SILENT_SECONDS, _listen
from fadecount.service.settings import Limits
from tests.service.harness import EXACT, Harness, last_value, wait_for
from tests.service.process import ServeProcess

KEYS = [f"key-{number}-{'x' * 100}" for number in range(500)]


@pytest.fixture
def wide(tmp_path: Path) -> Iterator[Harness]:
    """A page of figures has more bytes than the system takes off the service's hands."""
    with Harness(tmp_path, limits=Limits(send_seconds=0.5)) as harness:
        harness._listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 8192)
        harness.create(keys=KEYS)
        harness.close_tick(20)
        yield harness


def asking(port: int, token: str, path: str, *lines: str) -> socket.socket:
    """A connection with a small window on which a request was sent."""
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.settimeout(10)
    connection.connect(("127.0.0.1", port))
    head = (
        f"GET {path} HTTP/1.1",
        "Host: localhost",
        f"Authorization: Bearer {token}",
        *lines,
        "",
        "",
    )
    connection.sendall("\r\n".join(head).encode())
    return connection


PAGE = "/v1/streams/doors/figures?per=total"


def test_what_nobody_reads_is_given_up(wide: Harness) -> None:
    seen = [0]

    def gone() -> bool:
        seen.extend(each.transport.get_write_buffer_size() for each in wide.connections)
        return max(seen) > 0 and not wide.connections

    with asking(wide.port, wide.admin, PAGE):
        wait_for(gone)
    # and the frame of a chunk; the rest waits, once for all readers
    assert max(seen) <= 2 * PIECE_BYTES + 16


def test_small_answers_that_nobody_reads_do_not_add_up(tmp_path: Path) -> None:
    """The next one is sent when the client has read most of those before."""
    path, seen = f"/v1/streams/doors/figures?per=total&key={KEYS[0]}", [0]
    with Harness(tmp_path) as harness:
        harness._listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 8192)
        harness.create(keys=KEYS)
        harness.close_tick(40)
        head = f"Host: localhost\r\nAuthorization: Bearer {harness.admin}\r\n\r\n"
        with asking(harness.port, harness.admin, path) as connection:
            wait_for(lambda: any(hasattr(each, "_request") for each in harness.connections))
            (kept,) = harness.connections

            def ready() -> bool:
                return kept._task is None or not kept._writable.is_set()

            for _ in range(20):
                wait_for(ready)
                seen.append(kept.transport.get_write_buffer_size())
                if kept._task is not None:
                    break
                before = kept._request
                connection.sendall(f"GET {path} HTTP/1.1\r\n{head}".encode())
                wait_for(lambda before=before: kept._request is not before)  # type: ignore[misc]
    assert 0 < max(seen) <= 2 * PIECE_BYTES


def test_large_answers_that_nobody_reads_are_bounded_all_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each has other rows, so each takes memory of its own; a small answer, and the same one again,
    do not wait for them."""
    monkeypatch.setattr(connection_module, "MOST_SENDING", 6_000_000)
    with Harness(tmp_path) as harness, ExitStack() as stack:
        harness._listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 8192)
        harness.create(keys=KEYS)
        harness.close_tick(20)

        def status(since: int, key: str = "") -> bytes:
            path = f"/v1/streams/doors/figures?per=total&since={since}{key}"
            return stack.enter_context(asking(harness.port, harness.admin, path)).recv(12)

        statuses = [status(number) for number in (0, 1, 2, 0)]
        assert statuses == [b"HTTP/1.1 200", b"HTTP/1.1 200", b"HTTP/1.1 503", b"HTTP/1.1 200"]
        assert status(3, f"&key={KEYS[0]}") == b"HTTP/1.1 200"
        stack.close()
        wait_for(lambda: not harness.connections)
        assert status(2) == b"HTTP/1.1 200"


def test_a_page_that_is_read_slowly_is_read_to_its_end(wide: Harness) -> None:
    with asking(wide.port, wide.admin, PAGE, "Connection: close") as connection:
        begun, answer = time.monotonic(), b""
        while piece := connection.recv(20_000):
            answer += piece
            time.sleep(0.005)
        assert time.monotonic() - begun > 1.0
    head, _, body = answer.partition(b"\r\n\r\n")
    assert len(body) > 1_000_000 and b"content-length: %d\r\n" % len(body) in head + b"\r\n"
    assert body.count(b'"value":') == 10_000


def test_clients_that_vanish_are_noticed_by_the_system() -> None:
    listening = _listen("127.0.0.1", 0)
    listening.listen()
    with listening, socket.create_connection(listening.getsockname()):
        accepted, _ = listening.accept()
        with accepted:
            if hasattr(socket, "TCP_USER_TIMEOUT"):
                assert (
                    accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT)
                    == 1000 * SILENT_SECONDS
                )


def test_sigterm_does_not_wait_for_clients_that_hold_on(tmp_path: Path) -> None:
    """Live readers that read and that do not, a page that nobody reads, and requests that never
    end."""
    with ServeProcess(tmp_path) as service:
        port = int(service.url.rpartition(":")[2])
        with fc.Client(service.url, service.admin) as client:
            client.create("doors", tick="1s", mechanism=EXACT, keys=KEYS)
            wait_for(lambda: len(client.figures("doors", "total", key=KEYS[0])) > 1)
            client.add("doors", {KEYS[0]: 5})
        held = [asking(port, service.admin, "/v1/streams/doors/live") for _ in range(5)]
        held += [asking(port, service.admin, PAGE) for _ in range(2)]
        held += [socket.create_connection(("127.0.0.1", port)) for _ in range(3)]
        for connection in held[-2:]:
            connection.sendall(
                b"POST /v1/streams/doors/events HTTP/1.1\r\nHost: localhost\r\nContent-Length:"
                b" 10\r\n\r\n{"
            )
        assert held[0].recv(1000).startswith(b"HTTP/1.1 200")
        time.sleep(0.5)
        status = service.stop()
        for connection in held:
            connection.close()
        assert status == 0
        assert service.log.count(b"\n") <= 1, service.log
        service.start()
        with fc.Client(service.url, service.admin) as client:
            wait_for(lambda: last_value(client) == 5)
