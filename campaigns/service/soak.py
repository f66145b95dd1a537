"""Steady load for a long time: memory must not grow. ``python -m campaigns.service.soak --minutes
30`` (``make soak``)."""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
import time
from pathlib import Path

from tests.service.process import ServeProcess

import fadecount as fc
from campaigns.service.load import KEYS, drive, getter, live, poster, resident

MOST_GROWTH = 1.15
"""Memory at the end against memory after the first tenth of the time."""


async def soak(service: ServeProcess, minutes: float) -> tuple[list[float], int]:
    """Mebibytes, about forty times, and how many requests were answered."""
    port, token = int(service.url.rpartition(":")[2]), service.admin
    body = json.dumps({"events": [{"key": key, "count": 1} for key in KEYS[:20]]}).encode()
    part = minutes * 60 / 40
    memory, answered = [], 0
    for number in range(40):
        writers = [poster(port, token, body, f"soak{number}-{at}") for at in range(8)]
        readers = [
            getter(port, token, "/v1/streams/load/total"),
            getter(port, token, "/v1/streams/load/privacy"),
        ]
        groups = await asyncio.gather(
            drive(port, writers, b"HTTP/1.1 202", part, pause=0.04),
            drive(port, readers, b"HTTP/1.1 200", part, pause=0.1),
            live(port, token, 10, part),
        )
        answered += sum(len(sender.times) for group in groups[:2] for sender in group)
        memory.append(resident(service.process.pid))
        print(
            f"{(number + 1) * part / 60:6.1f} min  {answered:9,d} answers  {memory[-1]:7.1f} MiB",
            flush=True,
        )
    return memory, answered


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=30.0)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, ServeProcess(Path(name)) as service:
        with fc.Client(service.url, service.admin) as client:
            client.create(
                "load", tick="1s", mechanism=fc.Gradual(epsilon=0.1, exponent=1.0), keys=KEYS
            )
        begun = time.monotonic()
        memory, answered = asyncio.run(soak(service, arguments.minutes))
        assert service.log == b"", service.log[-500:]
    growth = memory[-1] / memory[3]
    minutes = (time.monotonic() - begun) / 60
    print(
        f"soak: {answered:,} answers in {minutes:.1f} minutes; memory x {growth:.3f} since a tenth"
        " of it"
    )
    assert growth < MOST_GROWTH, "memory grows"


if __name__ == "__main__":
    main()
