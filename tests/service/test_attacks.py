"""Attackers must not make the service large, nor keep others out. The long version is ``make
attack``."""

from __future__ import annotations

import asyncio
import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from campaigns.service.attack import ATTACKS, HEAD, MOST_MEGABYTES, OPTIONS, attacked, prepare

from tests.service.harness import Harness, wait_for
from tests.service.process import ServeProcess


def test_memory_stays_small_under_every_attack(tmp_path: Path) -> None:
    with (
        ServeProcess(tmp_path, *OPTIONS, "--public") as service,
        ThreadPoolExecutor(1) as thread,
    ):
        prepare(service, wide=True)
        for name, attack in ATTACKS.items():
            memory, asked, answered = thread.submit(
                asyncio.run, attacked(service, attack, 0.8, 0.04)
            ).result(120)
            assert 10 < memory < MOST_MEGABYTES, name
            assert asked == answered > 0, name
        assert service.process.poll() is None


def test_a_body_that_nobody_reads_is_not_kept(harness: Harness) -> None:
    """The request is refused before its body is complete; the connection stays open until its time
    is over."""
    with socket.create_connection(("127.0.0.1", harness.port), timeout=30) as connection:
        connection.sendall(HEAD + b"Content-Length: 1000000\r\n\r\n" + b" " * 60_000)
        assert connection.recv(65536).startswith(b"HTTP/1.1 401")
        connection.sendall(b" " * 1000)
        (kept,) = harness.connections
        wait_for(lambda: kept._message_bytes >= 1000, 60)
        assert kept._body == b""
