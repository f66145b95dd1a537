"""Ten thousand visits of strangers; ``make strangers`` sends a million."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from campaigns.service.strangers import OPTIONS, flood

from tests.service.process import ServeProcess

MOST_GROWTH = 40
"""Mebibytes: the memory of the doors, and what waits to be written."""
MOST_DISK = 4096
"""Bytes for each request, the log of SQLite included; gone when the day after has begun."""


def test_a_flood_of_visits(tmp_path: Path) -> None:
    with ServeProcess(tmp_path, *OPTIONS) as service, ThreadPoolExecutor(1) as thread:
        outcome = thread.submit(asyncio.run, flood(service, 10_000)).result(120)
        assert service.process.poll() is None
    assert outcome.ended - outcome.begun < MOST_GROWTH
    assert outcome.disk_bytes < MOST_DISK
    assert outcome.median_seconds < 1.0
    assert service.log == b""
