"""The releases that a stream must give, computed on one machine: naive counting, and one vector counter over all keys."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Sequence
from dataclasses import dataclass

import fadecount as fc
from fadecount.noise import KeyedNoise

START = 1_767_225_600  # 2026-01-01
EPOCH = "an epoch for tests"
STREAM = "test"
SECRET = "".join(f"{number:02x}" for number in range(32))

Event = tuple[int, str]
"""When (in seconds) and under which key."""


@dataclass(frozen=True)
class MicroBatch:
    """The events of one micro-batch, and the watermark in milliseconds that Spark had logged when it began."""

    watermark: int
    events: Sequence[Event]


def frozen_counts(batches: Sequence[MicroBatch], tick: int) -> tuple[Tally[tuple[int, str]], int]:
    """How often each key counts in each tick, and how many ticks the last watermark has closed."""
    counts: Tally[tuple[int, str]] = Tally()
    closed = 0
    for batch in batches:
        closed = max(closed, (batch.watermark - 1000 * START) // (1000 * tick))
        for moment, key in batch.events:
            counts[max((moment - START) // tick, closed), key] += 1
    return counts, closed


def released(
    mechanism: fc.Mechanism, keys: Sequence[str], counts: Tally[tuple[int, str]], ticks: int, *, epoch: str = EPOCH
) -> dict[tuple[int, str], int]:
    """The value of each (tick, key), step by step from one vector counter with the words of the secret."""
    noise = KeyedNoise.derive(SECRET.encode(), epoch=epoch, stream=STREAM, mechanism=mechanism.to_json(), keys=keys)
    counter = fc.Counter._with_noise(mechanism, noise, width=len(keys))
    values = {}
    for tick in range(ticks):
        outputs = counter.step([counts[tick, key] for key in keys]).tolist()
        values.update({(tick, key): value for key, value in zip(keys, outputs, strict=True)})
    return values
