"""Visits with random paths, agents and addresses: memory and disk stay small, and honest visitors
are answered. ``python -m campaigns.service.strangers --requests 1000000`` (``make strangers``)."""

from __future__ import annotations

import argparse
import asyncio
import json
import secrets
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.service.process import ServeProcess

from campaigns.service.load import resident

SITE = "example.org"
CONNECTIONS = 16
OPTIONS = ("--website", SITE, "--pages", "/about", "--trust-proxy", "127.0.0.1", "--public")
HONEST_PART = 100
"""One in so many requests is an honest one."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """Mebibytes of memory after a tenth and at the end, bytes on the disk for each request, and
    the seconds that honest visitors waited for their answers: the median and the longest."""

    requests: int
    begun: float
    ended: float
    disk_bytes: float
    median_seconds: float
    longest_seconds: float

    @property
    def text(self) -> str:
        return (
            f"{self.requests:,} requests: {self.begun:.0f} MiB after a tenth, {self.ended:.0f} at"
            f" the end; {self.disk_bytes:.0f} bytes of disk for each; honest visitors waited"
            f" {1000 * self.median_seconds:.1f} ms, at most {1000 * self.longest_seconds:.0f}"
        )


def visit(port: int, path: str, agent: str, address: str) -> bytes:
    """A visit as it is sent."""
    sent = {"name": "pageview", "url": f"https://{SITE}{path}", "domain": SITE}
    body = json.dumps(sent).encode()
    head = (
        f"POST /api/event HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nUser-Agent: {agent}\r\n"
        f"X-Forwarded-For: {address}\r\nContent-Type: text/plain\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def random_visit(port: int) -> bytes:
    """A visit of somebody else each time, to another page."""
    address = ".".join(str(each) for each in secrets.token_bytes(4))
    return visit(port, f"/{secrets.token_hex(8)}", f"Firefox/{secrets.token_hex(4)}", address)


async def _send(port: int, numbers: Iterator[int], waited: list[float]) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for number in numbers:
        honest = number % HONEST_PART == 0
        address = f"198.51.100.{number % 250}"
        sent = visit(port, "/about", "Mozilla/5.0", address) if honest else random_visit(port)
        begun = time.perf_counter()
        writer.write(sent)
        answer = await reader.readuntil(b"\r\n\r\nok")
        assert answer.startswith(b"HTTP/1.1 202 ")
        if honest:
            waited.append(time.perf_counter() - begun)
    writer.close()


async def flood(service: ServeProcess, requests: int) -> Outcome:
    """Send so many visits, and watch the service."""
    port, waited = int(service.url.rpartition(":")[2]), list[float]()
    memory = []
    for part in (requests // 10, requests - requests // 10):
        numbers = iter(range(part))
        await asyncio.gather(*(_send(port, numbers, waited) for _ in range(CONNECTIONS)))
        memory.append(resident(service.process.pid))
    disk = sum(each.stat().st_size for each in (service.folder / "state").iterdir())
    waited.sort()
    middle = waited[len(waited) // 2]
    return Outcome(requests, memory[0], memory[1], disk / requests, middle, waited[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=1_000_000)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, ServeProcess(Path(name), *OPTIONS) as service:
        begun = time.monotonic()
        outcome = asyncio.run(flood(service, arguments.requests))
        print(f"{outcome.text}; {time.monotonic() - begun:.0f} s")


if __name__ == "__main__":
    main()
