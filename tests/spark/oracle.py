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
import pandas as pd

import fadecount as fc
from fadecount.calendar import Ticks, level_calendar
from fadecount.counters.figures import FigureMaker
from fadecount.noise import KeyedNoise
from fadecount.sources import SourceOptions
from fadecount.streams.description import Description

SECRET = "".join(f"{number:02x}" for number in range(32))
START = 1_767_225_600  # 2026-01-01
Event = tuple[int, str | None]
"""When (in seconds) and under which key; an event without a key counts nowhere."""
Place = tuple[str, int, int, str]
"""Per, start, stage, key."""
Row = tuple[int, str, int, int | None, int | None, int]
"""End, status, value, low, high, published."""


def stream(session: Any, state: Path, mechanism: Any, **changes: Any) -> Any:
    """A stream in a directory, by pages of the column ``at``: what is changed belongs to its
    options or to the stream."""
    from fadecount.spark import Stream

    secret, fence = str(session.fadecount_test_root / "secret"), str(state.parent / "fence")
    own: dict[str, Any] = {"start": "2026-01-01", "secret_file": secret, "state": str(state)}
    own["fence"] = fence
    own |= {
        name: changes.pop(name)
        for name in ("start", "secret_file", "name", "discovery", "fence")
        if name in changes
    }
    options: dict[str, Any] = {"tick": "1h", "time": "at", "key": "page"} | changes
    return Stream(mechanism, SourceOptions(**options), **own)


def last_commit(state: Path) -> dict[str, Any]:
    """The last commit in the state of a stream."""
    commit: dict[str, Any] = json.loads(max(state.glob("commit-*")).read_text())
    return commit


COLUMNS = ["per", "start", "stage", "key", "end", "status", "value", "low", "high", "published"]


def expected(
    state: Path, keys: Sequence[str], counts: Mapping[tuple[int, str], int], steps: int
) -> dict[Place, Row]:
    """The figures of the stream in a state that are public after so many ticks, from the counts of
    each (position, key)."""
    return _rows(expected_frame(state, keys, counts, steps))


def expected_frame(
    state: Path, keys: Sequence[str], counts: Mapping[tuple[int, str], int], steps: int
) -> pd.DataFrame:
    """:func:`expected` as a data frame."""
    commit = last_commit(state)
    identity = commit["stream"]
    mechanism = fc.Mechanism.from_json(identity["mechanism"])
    assert isinstance(mechanism, fc.Blocks)
    ticks = Ticks(tick_seconds=identity["tick_seconds"], zone=identity["zone"])
    levels = Description(name="s", mechanism=mechanism, ticks=ticks).levels
    first = ticks.at(identity["start"])
    calendar = level_calendar(mechanism.lengths, ticks, first).reaching(steps)
    noise = KeyedNoise(
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
    frames = [pd.DataFrame(columns=COLUMNS)]
    for made in FigureMaker(mechanism, calendar, len(keys), noise).close(dense):
        around = mechanism.figure_interval(made.level, made.stage)
        stages = len(mechanism.levels[made.level].stages)
        names = [*["provisional", *["revised"] * stages][: stages - 1], "final"]
        out = made.public <= steps
        if out.any():
            begins, ends, publics = (
                [ticks.start_seconds(first + int(each)) for each in column[out]]
                for column in made[2:5]
            )
            values = made.values[out].ravel()
            table: dict[str, Any] = {
                "per": levels[made.level],
                "start": np.repeat(begins, len(keys)),
                "stage": made.stage,
                "key": np.tile(np.array(keys, dtype=object), len(begins)),
                "end": np.repeat(ends, len(keys)),
                "status": names[made.stage],
                "value": values,
                "low": values - around,
                "high": values + around,
                "published": np.repeat(publics, len(keys)),
            }
            frames.append(pd.DataFrame(table))
    return pd.concat(frames[1:] or frames)[COLUMNS]


def rows_of(figures: Any) -> dict[Place, Row]:
    """The rows of a DataFrame of figures; every place must be there once only."""
    return _rows(table_of(figures).to_pandas())


def table_of(figures: Any) -> Any:
    """A DataFrame of figures as an Arrow table, with times in seconds."""
    names = {"start", "end", "published"}
    columns = (f"unix_seconds({name}) as {name}" if name in names else name for name in COLUMNS)
    return figures.selectExpr(*columns).toArrow()


def _rows(found: pd.DataFrame) -> dict[Place, Row]:
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
