"""The releases that a stream must give, computed on one machine: naive counting, and one vector
counter over all keys."""

from __future__ import annotations

import json
from collections import Counter as Tally
from collections.abc import Sequence
from dataclasses import dataclass

import fadecount as fc
from fadecount.noise import KeyedNoise

START = 1_767_225_600  # 2026-01-01
EPOCH = "an epoch for tests"
QUERY = "a query for tests"
STREAM = "test"
SECRET = "".join(f"{number:02x}" for number in range(32))

Event = tuple[int, str | None]
"""When (in seconds) and under which key; an event without a key counts nowhere."""


@dataclass(frozen=True)
class MicroBatch:
    """The events of one micro-batch, and the clock in milliseconds (Spark's watermark) that was
    logged when it began."""

    watermark: int
    events: Sequence[Event]


def frozen_counts(
    batches: Sequence[MicroBatch], tick: int, *, start: int = START
) -> tuple[Tally[tuple[int, str]], int]:
    """How often each key counts in each tick, and how many ticks the last clock has closed."""
    counts: Tally[tuple[int, str]] = Tally()
    closed = 0
    for batch in batches:
        closed = max(closed, (batch.watermark - 1000 * start) // (1000 * tick))
        for moment, key in batch.events:
            if key is not None and moment >= start:
                counts[max((moment - start) // tick, closed), key] += 1
    return counts, closed


def released(
    mechanism: fc.Mechanism,
    keys: Sequence[str],
    counts: Tally[tuple[int, str]],
    ticks: int,
    *,
    epoch: str = EPOCH,
    of: str = f"query {QUERY}",
) -> dict[tuple[int, str], int]:
    """The value of each (tick, key), step by step from one vector counter with the words of the
    secret.

    ``of`` is the query, or the digest of a table's counts, that the noise is bound to.
    """
    bound = json.dumps([epoch, of])
    noise = KeyedNoise.derive(
        SECRET.encode(), epoch=bound, stream=STREAM, mechanism=mechanism.to_json(), keys=keys
    )
    counter = fc.Counter._with_noise(mechanism, noise, width=len(keys))
    values = {}
    for tick in range(ticks):
        outputs = counter.step([counts[tick, key] for key in keys]).tolist()
        values.update({(tick, key): value for key, value in zip(keys, outputs, strict=True)})
    return values
