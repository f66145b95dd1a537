"""What the tests of keys that appear by themselves share: a small stream, and scripted noise."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

import fadecount as fc
from fadecount.mechanisms import Unit
from fadecount.noise import DiscreteLaplace
from fadecount.streams import Batch, Description, Store, Stream, Ticks
from fadecount.streams.discovery import DISCOVERED, HiddenKeys
from fadecount.streams.published import Table

HOURS = Ticks(tick_seconds=3600)
FIRST = 20_000 * 24
"""Midnight."""
DISCOVERY = fc.Discovery("1d", ((0, 1.0), (30, 3.0)), 1e-9)
"""Thresholds 22 and 9: a key with 15 persons appears 30 hours after its day."""
DAYS = fc.Blocks(fc.Level(1, 0.25), fc.Level(24, 0.75))


class ScriptedNoise:
    """No noise but that of hidden keys, by stage and by the place of the key in its day; the last
    one for all that follow."""

    def __init__(self, *stages: Iterable[int]) -> None:
        self._stages = [list(stage) for stage in stages]

    def many(
        self, _distribution: DiscreteLaplace, level: int, rounds: range, nodes: range, width: int
    ) -> NDArray[np.int64]:
        values = np.zeros((len(rounds), len(nodes), width), dtype=np.int64)
        if level == DISCOVERED:
            for at, stage in enumerate(rounds):
                noise = self._stages[stage] if stage < len(self._stages) else [0]
                values[at] = [*noise, *[noise[-1]] * width][:width]
        return values


def describe(
    *,
    keys: int = 1,
    events: int = 1,
    discovery: fc.Discovery = DISCOVERY,
    other: str | None = None,
    sample: float = 1.0,
    per_address: int | None = None,
    mechanism: fc.Mechanism = DAYS,
) -> Description:
    return Description(
        name="pages",
        mechanism=mechanism,
        ticks=HOURS,
        unit=Unit(of="person", per="1d", keys=keys, events=events),
        hidden=HiddenKeys(discovery=discovery, other=other, sample=sample, per_address=per_address),
    )


def create(
    store: Store, description: Description | None = None, keys: Iterable[str] = ()
) -> Stream:
    return store.create(description or describe(), keys=tuple(keys), start_tick=FIRST)


def bring(stream: Stream, key: str, persons: Iterable[object]) -> None:
    """Each of these persons brings a key, in the open tick."""
    stream.add_many([Batch(counts={key: 1}, person=f"{person}") for person in persons])


def shown(table: Table) -> list[tuple[int, str, int, int]]:
    """Day since the first, key, whether it is final, and value of what is published."""
    starts = (table["start"] // 3600 - FIRST) // 24
    final = (table["status"] == "final").astype(int)
    columns = (starts, table["key"], final, table["value"])
    return list(zip(*(column.tolist() for column in columns), strict=True))
