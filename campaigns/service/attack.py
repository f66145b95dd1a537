"""Attacks by strangers, and by one writer: memory must stay small. ``python -m
campaigns.service.attack --seconds 60`` (``make attack``).

Each attack runs over many connections for some time. Meanwhile the memory of the service is read,
and an honest client at another address asks for something. The last line sums up.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import resource
import socket
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tests.service.process import ServeProcess

import fadecount as fc
from campaigns.service.load import resident
from campaigns.service.strangers import random_visit

MOST_MEGABYTES = 200.0
KEYS = 5000
LARGEST_PAGE = 10_000
HEAD = (
    b"POST /v1/streams/doors/events HTTP/1.1\r\nHost: localhost\r\nContent-Type:"
    b" application/json\r\n"
)
PING = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
LIVE = b"GET /v1/streams/wide/live HTTP/1.1\r\nHost: localhost\r\n\r\n"
EVENT = b'{"events":[{"key":"a"}]}'
OPTIONS = ("--website", "example.org", "--trust-proxy", "127.0.0.1")
HONEST_PART = 0.9
"""Of an honest client's requests, so many must be answered within five seconds."""


def authorized(token: str, length: int) -> bytes:
    """The head of a request with events of a writer."""
    return HEAD + f"Authorization: Bearer {token}\r\nContent-Length: {length}\r\n\r\n".encode()


async def sent(writer: asyncio.StreamWriter, data: bytes, seconds: float = 1.0) -> None:
    """Send, and wait for the client's buffer to empty, but not for long: an attacker does not wait
    for answers."""
    writer.write(data)
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):  # wait_for of Python 3.11 may lose a cancellation
            await writer.drain()


async def line_breaks(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, token: str
) -> None:
    """One request, then line breaks for ever: the next request never begins."""
    await sent(writer, PING)
    while True:
        await sent(writer, b"\r\n")
        await asyncio.sleep(0.2)


async def trailers(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, token: str) -> None:
    """A chunked body whose trailers never end."""
    await sent(writer, HEAD + b"Transfer-Encoding: chunked\r\n\r\n0\r\n")
    for number in range(1_000_000):
        await sent(writer, b"x-%d: %b\r\n" % (number, b"y" * 4000))


async def pipelining(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, token: str
) -> None:
    """Requests whose answers nobody reads."""
    while True:
        await sent(writer, b"GET /v1/openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n" * 200)


async def slow_bodies(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, token: str
) -> None:
    """A large body, almost whole, then a byte at a time."""
    await sent(writer, HEAD + b"Content-Length: 1000000\r\n\r\n" + b" " * 990_000)
    while True:
        await sent(writer, b" ")
        await asyncio.sleep(0.5)


async def many_connections(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, token: str
) -> None:
    """A head that is almost as large as allowed and never ends."""
    await sent(writer, b"GET / HTTP/1.1\r\nHost: localhost\r\nx-long: " + b"z" * 15_000)
    await reader.read()


async def unread_answers(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, token: str
) -> None:
    """A large answer for each connection, another one each time, that nobody reads."""
    path = b"GET /v1/streams/wide/figures?per=total&since=%d HTTP/1.1\r\nHost: localhost\r\n\r\n"
    await sent(writer, path % next(_times))
    await asyncio.sleep(3600)


async def unread_ticks(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, token: str
) -> None:
    """Live readers of a stream with many keys that do not read."""
    await sent(writer, LIVE)
    await asyncio.sleep(3600)


async def heads(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, token: str) -> None:
    """The head of a request that anybody may send, and no body."""
    await sent(writer, b"POST /api/event HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99\r\n\r\n")
    await reader.read()


async def unfinished_bodies(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, token: str
) -> None:
    """A body of a writer that lacks its last byte."""
    await sent(writer, authorized(token, 1_000_000) + b" " * 999_999)
    await reader.read()


async def slow_readers(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, token: str
) -> None:
    """A large answer that is read byte by byte."""
    path = b"GET /v1/streams/wide/figures?per=total HTTP/1.1\r\nHost: localhost\r\n\r\n"
    await sent(writer, path)
    while await reader.read(1):
        await asyncio.sleep(0.5)


async def many_totals(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, token: str
) -> None:
    """Totals of many keys at as many times as a query holds, others each time."""
    begin = 1_000 * next(_times)
    times = b",".join(b"%d" % (4_000_000_000 + begin + number) for number in range(180))
    path = b"GET /v1/streams/wide/total?at=%b HTTP/1.1\r\nHost: localhost\r\n\r\n"
    await sent(writer, path % times)
    await reader.readuntil(b"\r\n\r\n")


async def live_readers(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, token: str
) -> None:
    """Live readers, all from one address."""
    await sent(writer, LIVE)
    while await reader.read(1000):
        pass


async def visits(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, token: str) -> None:
    """Visits of strangers, as many as there can be."""
    port = int(writer.get_extra_info("peername")[1])
    while True:
        writer.write(random_visit(port))
        await reader.readuntil(b"\r\n\r\nok")


_times = itertools.cycle(range(5000))


@dataclass(frozen=True)
class Attack:
    run: Callable[[asyncio.StreamReader, asyncio.StreamWriter, str], Awaitable[None]]
    connections: int
    public: bool = False
    """Whether everyone may read; there is a stream with many keys then."""
    honest: bytes = PING
    """What an honest client asks for meanwhile."""


ATTACKS = {
    "line breaks": Attack(line_breaks, 1000),
    "trailers": Attack(trailers, 1000),
    "pipelining": Attack(pipelining, 1000),
    "slow bodies": Attack(slow_bodies, 1000),
    "many connections": Attack(many_connections, 2000),
    "unread answers": Attack(unread_answers, 1000, public=True),
    "unread ticks": Attack(unread_ticks, 1000, public=True),
    "heads": Attack(heads, 2000),
    "unfinished bodies": Attack(unfinished_bodies, 1000, honest=EVENT),
    "slow readers": Attack(slow_readers, 2000, public=True),
    "many totals": Attack(many_totals, 50, public=True),
    "live readers": Attack(live_readers, 1000, public=True, honest=LIVE),
    "visits": Attack(visits, 200, honest=EVENT),
}


async def attacker(port: int, attack: Attack, end: float, token: str) -> None:
    """One connection after the other, until the time is over."""
    while time.monotonic() < end:
        writer = None
        with suppress(OSError, TimeoutError, asyncio.IncompleteReadError):
            async with asyncio.timeout(max(0.01, end - time.monotonic())):
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                await attack.run(reader, writer, token)
        if writer is not None:
            writer.transport.abort()
        await asyncio.sleep(0.02)


def honest(port: int, end: float, request: bytes) -> tuple[int, int]:
    """How often a client asked, and got what it asked for within five seconds. Runs on a thread of
    its own: the attackers' loop is busy."""
    asked = answered = 0
    while time.monotonic() < end:
        asked += 1
        with (
            suppress(OSError),
            socket.create_connection(("127.0.0.1", port), 5.0, ("127.0.0.2", 0)) as asking,
        ):
            asking.sendall(request)
            answered += asking.recv(12) in (b"HTTP/1.1 200", b"HTTP/1.1 202")
        time.sleep(0.2)
    return asked, answered


def largest(pid: int, end: float) -> float:
    """The most memory that a process had, in megabytes."""
    most = 0.0
    while time.monotonic() < end:
        most = max(most, resident(pid) * 2**20 / 1e6)
        time.sleep(0.05)
    return most


async def attacked(
    service: ServeProcess, attack: Attack, seconds: float, share: float
) -> tuple[float, int, int]:
    """The most memory in megabytes, how often an honest client asked, and how often it was
    answered."""
    port, token = int(service.url.rpartition(":")[2]), service.admin
    request = authorized(token, len(EVENT)) + EVENT if attack.honest == EVENT else attack.honest
    end = time.monotonic() + seconds
    count = max(1, round(share * attack.connections))
    watching = asyncio.gather(
        asyncio.to_thread(largest, service.process.pid, end),
        asyncio.to_thread(honest, port, end, request),
    )
    await asyncio.gather(*(attacker(port, attack, end, token) for _ in range(count)))
    memory, (asked, answered) = await watching
    return memory, asked, answered


def prepare(service: ServeProcess, *, wide: bool) -> None:
    """A stream for events; and one with many keys, until a page of it is large."""
    with fc.Client(service.url, service.admin) as client:
        client.create("doors", tick="1s", mechanism=fc.Gradual(epsilon=0.1), keys=["a"])
        if not wide:
            return
        client.create(
            "wide",
            tick="1s",
            mechanism=fc.Gradual(epsilon=0.1),
            keys=[f"key{number}" for number in range(KEYS)],
        )
        while len(client.figures("wide", "total")) < LARGEST_PAGE:
            time.sleep(0.2)


def campaign(folder: Path, seconds: float, share: float = 1.0) -> dict[str, tuple[float, int, int]]:
    """Every attack on a service of its own, for so long, with a share of the connections; raises if
    memory grows too much, or if honest requests are not answered."""
    found: dict[str, tuple[float, int, int]] = {}
    for name, attack in ATTACKS.items():
        options = [*OPTIONS, *(["--public"] if attack.public else [])]
        with ServeProcess(folder / name.replace(" ", "-"), *options) as service:
            prepare(service, wide=attack.public)
            found[name] = asyncio.run(attacked(service, attack, seconds, share))
            assert service.process.poll() is None, f"{name}: the service has ended"
        memory, asked, answered = found[name]
        print(
            f"{name:18} {memory:6.0f} MB at most, {answered} of {asked} honest requests answered",
            flush=True,
        )
        assert memory < MOST_MEGABYTES, f"{name}: {memory:.0f} MB"
        assert answered >= HONEST_PART * asked, f"{name}: {answered} of {asked}"
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="per attack")
    parser.add_argument(
        "--share", type=float, default=1.0, help="of the connections of each attack"
    )
    arguments = parser.parse_args()
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(
        resource.RLIMIT_NOFILE, (min(hard, 8192) if hard != resource.RLIM_INFINITY else 8192, hard)
    )
    with tempfile.TemporaryDirectory() as name:
        found = campaign(Path(name), arguments.seconds, arguments.share)
    most = max(memory for memory, _, _ in found.values())
    words = ", ".join(f"{name} {memory:.0f} MB" for name, (memory, _, _) in found.items())
    print(
        f"attack: {len(found)} attacks of {arguments.seconds:g} s, at most {most:.0f} MB (limit"
        f" {MOST_MEGABYTES:.0f}): {words}"
    )


if __name__ == "__main__":
    main()
