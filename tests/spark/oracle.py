"""The figures that a stream on Spark must give, computed on one machine: naive counting, and the
local library's own maker of figures with the same keyed noise."""

from __future__ import annotations

import json
import re
from collections import Counter as Tally
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import fadecount as fc
from fadecount.counters.figures import FigureMaker
from fadecount.noise import KeyedNoise
from fadecount.streams.calendar import BlockCalendar
from fadecount.streams.description import Description
from fadecount.streams.ticks import Ticks

SECRET = "".join(f"{number:02x}" for number in range(32))
START = 1_767_225_600  # 2026-01-01
Event = tuple[int, str | None]
"""When (in seconds) and under which key; an event without a key counts nowhere."""
Place = tuple[str, int, int, str]
"""Per, start, stage, key."""
Row = tuple[int, str, int, int | None, int | None, int]
"""End, status, value, low, high, published."""


def last_commit(state: Path) -> dict[str, Any]:
    """The last commit in the state of a stream."""
    numbers = [int(path.name.removeprefix("commit-")) for path in state.glob("commit-*")]
    commit: dict[str, Any] = json.loads((state / f"commit-{max(numbers)}").read_text())
    return commit


def expected(
    state: Path, keys: Sequence[str], counts: Mapping[tuple[int, str], int], steps: int
) -> dict[Place, Row]:
    """The figures of the stream in a state that are public after so many ticks, from the counts of
    each (position, key)."""
    commit = last_commit(state)
    identity = commit["stream"]
    mechanism = fc.Mechanism.from_json(identity["mechanism"])
    assert isinstance(mechanism, fc.Blocks)
    ticks = Ticks(tick_seconds=identity["tick_seconds"], zone=identity["zone"])
    levels = Description(name="s", mechanism=mechanism, ticks=ticks).levels
    first = ticks.at(identity["start"])
    calendar = BlockCalendar.new(mechanism, ticks, first).reaching(steps)
    noise = KeyedNoise.derive(
        SECRET.encode(),
        epoch=commit["epoch"],
        stream=identity["name"],
        mechanism=identity["mechanism"],
        keys=keys,
    )
    dense = np.zeros((steps, len(keys)), dtype=np.int64)
    columns = {key: number for number, key in enumerate(keys)}
    for (position, key), count in counts.items():
        if key in columns and position < steps:
            dense[position, columns[key]] += count
    rows: dict[Place, Row] = {}
    for made in FigureMaker(mechanism, calendar, len(keys), noise).close(dense):
        around = mechanism.figure_interval(made.level, made.stage) if made.stage >= 0 else None
        stages = len(mechanism.levels[made.level].stages)
        names = [*["provisional", *["revised"] * stages][: stages - 1], "final", "announced"]
        status = names[made.stage]
        for begin, end, public, values in zip(*made[2:], strict=True):
            if public > steps:
                continue
            begin_at, end_at, public_at = (
                ticks.start_seconds(first + int(each)) for each in (begin, end, public)
            )
            for key, value in zip(keys, values.tolist(), strict=True):
                low, high = (None, None) if around is None else (value - around, value + around)
                place = levels[made.level], begin_at, made.stage, key
                rows[place] = end_at, status, value, low, high, public_at
    return rows


def rows_of(figures: Any) -> dict[Place, Row]:
    """The rows of a DataFrame of figures; every place must be there once only."""
    found = figures.selectExpr(
        "per",
        "unix_seconds(start) as start",
        "stage",
        "key",
        "unix_seconds(end) as end",
        "status",
        "value",
        "low",
        "high",
        "unix_seconds(published) as published",
    ).toPandas()
    found = found.astype(object).where(found.notna(), None)
    rows = {
        (per, start, stage, key): (end, status, value, low, high, published)
        for per, start, stage, key, end, status, value, low, high, published in zip(
            *(found[name].tolist() for name in found.columns), strict=True
        )
    }
    assert len(rows) == len(found)
    return rows


def tally(events: Sequence[Event], tick: int, *, start: int = START) -> Tally[tuple[int, str]]:
    """How many events count in which tick, from ``start`` on."""
    return Tally(
        ((moment - start) // tick, key) for moment, key in events if key and moment >= start
    )


def reason(error: BaseException) -> str:
    """The one line of fadecount's own error inside a long error of Spark."""
    told = re.findall(r"fadecount\.errors\.\w+: ([^\n]+)", str(error))
    return told[-1].strip() if told else str(error)
