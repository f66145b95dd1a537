"""Events, and what a job on them is asked for: shared by the tests on a real Spark."""

from __future__ import annotations

import json
import random
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from campaigns.spark.events import logged_batches

import fadecount as fc
from tests.spark.oracle import SECRET, START, STREAM, Event, MicroBatch, frozen_counts, released

TICK = 600
RECENTLY = int(time.time()) // TICK * TICK - 6 * TICK
"""When streams begin that run by the real clock: some ticks ago."""
KEYS = [f"page {number}" for number in range(40)]
MECHANISM = fc.Gradual(epsilon=0.5, exponent=2.0, delay=1)


def files(number: int) -> list[list[Event]]:
    """Events of one file per micro-batch, some of them late, some with keys that nobody
    declared."""
    source = random.Random(11)
    return [
        [
            (
                START + file * 1500 + source.randint(-900 if file else 0, 1500),
                source.choice([*KEYS[:-3], "undeclared"]),
            )
            for _ in range(300)
        ]
        for file in range(number)
    ]


def batches(root: Path, files: list[list[Event]]) -> list[MicroBatch]:
    """What Spark made of them, by its own log: the clock of each micro-batch, and its events.

    ``files`` has a list for each time at which Spark found new files.
    """
    found, before = [], -1
    for clock, last in logged_batches(root / "checkpoint"):
        found.append(
            MicroBatch(clock, [event for file in files[before + 1 : last + 1] for event in file])
        )
        before = last
    assert before == len(files) - 1
    return found


def options(session: Any, **changes: Any) -> dict[str, Any]:
    place = f"file:{session.fadecount_test_root / 'secret'}"
    return {
        "tick": TICK,
        "start": START,
        "late": 0,
        "shards": 4,
        "beta": 0.05,
        "stream": STREAM,
        "secret": place,
        **changes,
    }


def stream(session: Any, root: Path) -> Any:
    source = session.readStream.schema("at timestamp, page string").option(
        "maxFilesPerTrigger", "1"
    )
    return source.parquet(str(root / "in"))


def command(root: Path, keys: list[str], **changes: str | None) -> list[str]:
    """The words of the entry point; what they name lies in a directory of the test."""
    (root / "keys.txt").write_text("\n".join(keys))
    (root / "secret").write_text(SECRET)
    if not (root / "plan.json").exists():
        (root / "plan.json").write_text(MECHANISM.to_json())
    words: dict[str, str | None] = {
        "events": str(root / "in"),
        "time": "at",
        "key": "page",
        "keys": str(root / "keys.txt"),
        "plan": str(root / "plan.json"),
        "tick": f"{TICK}s",
        "start": datetime.fromtimestamp(RECENTLY, UTC).isoformat(),
        "stream": STREAM,
        "shards": "2",
        "secret": f"file:{root / 'secret'}",
        "checkpoint": str(root / "checkpoint"),
        "to": f"parquet:{root / 'out'}",
    }
    words |= changes
    return [
        word for name, value in words.items() if value is not None for word in (f"--{name}", value)
    ]


def expected(
    root: Path, keys: list[str], files_of_events: list[list[Event]]
) -> dict[tuple[int, str], int]:
    """What a job in such a directory releases from one micro-batch per list of events."""
    mechanism = fc.Mechanism.from_json((root / "plan.json").read_text())
    counts, ticks = frozen_counts(batches(root, files_of_events), TICK, start=RECENTLY)
    return released(mechanism, keys, counts, ticks, **noise_of(root))


def noise_of(root: Path) -> dict[str, str]:
    """The epoch of the checkpoint in a directory, and what its noise is bound to."""
    epoch = json.loads((root / "checkpoint" / "fadecount.json").read_text())["epoch"]
    query = json.loads((root / "checkpoint" / "metadata").read_text())["id"]
    return {"epoch": epoch, "of": f"query {query}"}
