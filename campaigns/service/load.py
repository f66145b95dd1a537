"""How much the service carries, against plain SQLite in the same run: ``python -m
campaigns.service.load`` (``make load``).

A service in a process of its own, 32 connections that each wait for an answer before they send
again, every request with an idempotency key of its own. The yardstick: single-row commits per
second of SQLite with synchronous = FULL on the same disk, as it comes (rollback journal) and with a
write-ahead log.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sqlite3
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.service.process import ServeProcess

import fadecount as fc

CONNECTIONS = 32
BATCH = 500
LIVE_READERS = 512
KEYS = tuple(f"key{number:03d}" for number in range(100))


@dataclass
class Sender(asyncio.Protocol):
    """Sends a request, waits for its answer, sends the next; notes how long each took."""

    make: Callable[[int], bytes]
    expected: bytes
    end: float
    times: list[float] = field(default_factory=list)
    done: asyncio.Future[None] = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )
    wrong: int = 0
    pause: float = 0.0

    def connection_made(self, transport: Any) -> None:
        self._transport, self._buffer = transport, b""
        self._send()

    def _send(self) -> None:
        self._sent = time.perf_counter()
        self._transport.write(self.make(len(self.times)))

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        head, found, rest = self._buffer.partition(b"\r\n\r\n")
        if not found:
            return
        length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        if len(rest) < length:
            return
        self.wrong += not head.startswith(self.expected)
        self._buffer = rest[length:]
        self.times.append(time.perf_counter() - self._sent)
        if time.perf_counter() > self.end:
            self._transport.close()
        elif self.pause:
            asyncio.get_running_loop().call_later(self.pause, self._send)
        else:
            self._send()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.done.done():
            self.done.set_result(None)


async def drive(
    port: int,
    makers: list[Callable[[int], bytes]],
    expected: bytes,
    seconds: float,
    pause: float = 0.0,
) -> list[Sender]:
    """One connection per maker, all at once, for so long."""
    loop = asyncio.get_running_loop()
    end = time.perf_counter() + seconds
    senders = [Sender(make, expected, end, pause=pause) for make in makers]
    for sender in senders:
        await loop.create_connection(lambda sender=sender: sender, "127.0.0.1", port)  # type: ignore[misc]
    await asyncio.gather(*(sender.done for sender in senders))
    assert sum(sender.wrong for sender in senders) == 0
    return senders


def poster(port: int, token: str, body: bytes, name: str) -> Callable[[int], bytes]:
    head = (
        f"POST /v1/streams/load/events HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Bearer"
        f" {token}\r\nContent-Type: application/json\r\nContent-Length:"
        f" {len(body)}\r\nIdempotency-Key: {name}-"
    ).encode()
    return lambda number: b"%b%d\r\n\r\n%b" % (head, number, body)


def getter(port: int, token: str, path: str) -> Callable[[int], bytes]:
    request = (
        f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Bearer {token}\r\n\r\n"
    ).encode()
    return lambda _: request


def sqlite_commits(folder: Path, seconds: float, journal: str) -> float:
    """Single-row commits a second."""
    connection = sqlite3.connect(folder / f"plain-{journal}.db", isolation_level=None)
    for pragma in (f"journal_mode = {journal}", "synchronous = FULL"):
        connection.execute(f"PRAGMA {pragma}").fetchall()
    connection.execute("CREATE TABLE IF NOT EXISTS events (key TEXT, count INTEGER)")
    begun, number = time.perf_counter(), 0
    while time.perf_counter() - begun < seconds:
        connection.execute("INSERT INTO events VALUES (?, ?)", ("key", 1))
        number += 1
    connection.close()
    return number / seconds


def high(times: list[float], share: float = 0.99) -> float:
    return sorted(times)[min(len(times) - 1, int(share * len(times)))]


async def live(port: int, token: str, count: int, seconds: float) -> list[int]:
    """How many publications each of ``count`` live readers heard of, with an address for each."""

    async def follow(number: int) -> int:
        own = f"127.0.{1 + number // 250}.{1 + number % 250}"
        reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(own, 0))
        writer.write(getter(port, token, "/v1/streams/load/live")(0))
        seen, end = 0, time.monotonic() + seconds
        while time.monotonic() < end:
            try:
                line = await asyncio.wait_for(reader.readline(), max(0.01, end - time.monotonic()))
            except TimeoutError:
                break
            seen += line.startswith(b"event: published")
        writer.close()
        return seen

    return list(await asyncio.gather(*(follow(number) for number in range(count))))


def resident(pid: int) -> float:
    """Mebibytes that a process holds."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * 4096 / 2**20


async def measure(service: ServeProcess, seconds: float, folder: Path) -> dict[str, float]:
    port, token = int(service.url.rpartition(":")[2]), service.admin
    single = json.dumps({"events": [{"key": KEYS[0], "count": 1}]}).encode()
    batch = json.dumps(
        {"events": [{"key": KEYS[at % len(KEYS)], "count": 1} for at in range(BATCH)]}
    ).encode()
    journals = ("DELETE", "WAL")
    before_load = [sqlite_commits(folder, seconds / 4, journal) for journal in journals]
    ones = await drive(
        port,
        [poster(port, token, single, f"s{at}") for at in range(CONNECTIONS)],
        b"HTTP/1.1 202",
        seconds,
    )
    before = resident(service.process.pid)
    many = await drive(
        port,
        [poster(port, token, batch, f"b{at}") for at in range(CONNECTIONS)],
        b"HTTP/1.1 202",
        seconds,
    )
    after = resident(service.process.pid)
    after_load = [sqlite_commits(folder, seconds / 4, journal) for journal in journals]
    plain, logged = (max(pair) for pair in zip(before_load, after_load, strict=True))
    reads = [getter(port, token, "/v1/streams/load/total")] * 2
    idle = await drive(port, reads, b"HTTP/1.1 200", seconds, pause=0.005)
    writers = [poster(port, token, single, f"w{at}") for at in range(CONNECTIONS)]
    busy, _ = await asyncio.gather(
        drive(port, reads, b"HTTP/1.1 200", seconds, pause=0.005),
        drive(port, writers, b"HTTP/1.1 202", seconds),
    )
    seen = await live(port, token, LIVE_READERS, seconds)
    sent = [time for sender in ones for time in sender.times]
    idle_times, busy_times = (
        [time for sender in group for time in sender.times] for group in (idle, busy)
    )
    return {
        "plain SQLite, commits/s": plain,
        "SQLite with a write-ahead log, commits/s": logged,
        "single-event posts/s": len(sent) / seconds,
        "single-event posts, times plain": len(sent) / seconds / plain,
        "single-event posts, times write-ahead log": len(sent) / seconds / logged,
        "single-event posts, p99 ms": high(sent) * 1000,
        "batches of 500, events/s": BATCH * sum(len(sender.times) for sender in many) / seconds,
        "batches of 500, times plain": (
            BATCH * sum(len(sender.times) for sender in many) / seconds / plain
        ),
        "batches of 500, times write-ahead log": (
            BATCH * sum(len(sender.times) for sender in many) / seconds / logged
        ),
        "reads idle, p99 ms": high(idle_times) * 1000,
        "reads under write load, p99 ms": high(busy_times) * 1000,
        "reads under load / idle": high(busy_times) / high(idle_times),
        "live readers": len(seen),
        "fewest publications that a live reader heard of": min(seen),
        "MiB before the batches": before,
        "MiB after the batches": after,
        "events in the batches": BATCH * sum(len(sender.times) for sender in many),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=8.0, help="per measurement")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, ServeProcess(Path(name)) as service:
        with fc.Client(service.url, service.admin) as client:
            client.create(
                "load", tick="1s", mechanism=fc.Gradual(epsilon=0.1, exponent=1.0), keys=KEYS
            )
        found = asyncio.run(measure(service, arguments.seconds, Path(name)))
        for words, value in found.items():
            print(f"{words:42} {value:12,.1f}")
        print("load: " + "; ".join(f"{words} {value:,.1f}" for words, value in found.items()))


if __name__ == "__main__":
    main()
