"""Events, and what a job on them is asked for: shared by the tests on a real Spark."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import fadecount as fc
from tests.spark.oracle import START, STREAM, Event, MicroBatch

TICK = 600
KEYS = [f"page {number}" for number in range(40)]
MECHANISM = fc.Gradual(epsilon=0.5, exponent=2.0, delay=1)


def files(number: int) -> list[list[Event]]:
    """Events of one file per micro-batch, some of them late, some with keys that nobody declared."""
    source = random.Random(11)
    return [
        [
            (START + file * 1500 + source.randint(-900 if file else 0, 1500), source.choice([*KEYS[:-3], "undeclared"]))
            for _ in range(300)
        ]
        for file in range(number)
    ]


def batches(files: list[list[Event]]) -> list[MicroBatch]:
    """What Spark makes of them: the watermark of a batch is the latest event before it; at the end comes one without events."""
    batches, latest = [], 0
    for events in [*files, []]:
        batches.append(MicroBatch(1000 * latest, events))
        latest = max([latest, *(moment for moment, _ in events)])
    return batches


def options(session: Any, **changes: Any) -> dict[str, Any]:
    place = f"file:{session.fadecount_test_root / 'secret'}"
    return {"tick": TICK, "start": START, "late": 0, "shards": 4, "beta": 0.05, "stream": STREAM, "secret": place, **changes}


def stream(session: Any, root: Path) -> Any:
    source = session.readStream.schema("at timestamp, page string").option("maxFilesPerTrigger", "1")
    return source.parquet(str(root / "in"))
