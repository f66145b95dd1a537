"""A process is killed at every step around a tick of three measures. Whoever goes on finds the tick
closed in all of them, with the noise that was committed, or open in all of them, with every row
that was acknowledged."""

from __future__ import annotations

import os
import signal
from typing import Any

import numpy as np
import pytest
from campaigns.crash.worker import Killer

import fadecount as fc
from fadecount.planning.publication import Measure
from fadecount.streams import Store
from fadecount.streams.inputs import RowBatch
from tests.streams.backends import Backend
from tests.streams.conftest import backend, postgres_url
from tests.streams.publications import described, events_of, rides, rules_of

__all__ = ["backend", "postgres_url"]

COMMITTED = ("committed", "fence written", "fence synced", "fenced", "published")
TAKEN = ("accept committed", "before close", "inputs taken", "keys drawn", "noise drawn")
STEPS = (
    *("before accept", "accept written", *TAKEN, "state written", "before commit"),
    *COMMITTED,
)
LEVELS = fc.Blocks(fc.Level(1, 1.0), fc.Level(24, 1.0, lag=1))
PLACES = Measure(
    name="places",
    count="persons",
    key=("place",),
    keys=("north", "south"),
    max_keys=2,
    discover=True,
    other="south",
)
RIDES = rides(measures=(rides().measures[0], PLACES, rides().measures[2]), delta=1e-9)
ROWS = [
    {"time": "", "who": who, "id": str(at), "place": place, "minutes": "40"}
    for at, (who, place) in enumerate(
        [("ann", "north"), ("bob", "zoo"), ("eve", "zoo"), ("ann", "zoo")]
    )
]


class Numbered:
    """All noise of a process is its number, times a thousand."""

    def __init__(self, process: int) -> None:
        self._value = 1000 * process

    def many(self, _law: object, _level: int, rounds: range, nodes: range, width: int) -> Any:
        return np.full((len(rounds), len(nodes), width), self._value, dtype=np.int64)


def opened(backend: Backend, process: int) -> Store:
    return backend.open(noise=Numbered(process))  # type: ignore[arg-type]


def bring(store: Store, rows: list[dict[str, str]], batch: str) -> None:
    """Rows of the last hour of the first day, in one batch."""
    stream, rules = store.open("rides"), rules_of(RIDES)
    timed = [{**row, "time": "2026-03-27T23:10"} for row in rows]
    stream.take([RowBatch(events_of(rules, timed), batch)], rules)


def killed(backend: Backend, step: str) -> bool:
    """Whether a process that brings a row, and closes the last tick of a day, was killed at a
    step."""
    child = os.fork()
    if not child:
        try:
            store = opened(backend, 1)
            killer = Killer(step, 1)
            store._context.checkpoint = killer
            store._context.fence.checkpoint = killer
            bring(store, ROWS[3:], "last")
            stream = store.open("rides")
            stream.close_through(stream.open_tick)
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL


@pytest.mark.parametrize("step", STEPS)
def test_three_measures_close_together_or_not_at_all(backend: Backend, step: str) -> None:
    with opened(backend, 1) as store:
        store.create(described(RIDES, LEVELS))
        stream = store.open("rides")
        begin = stream.open_tick
        stream.close_through(begin + 22)
        bring(store, ROWS[:3], "first")
    assert killed(backend, step), "the step is passed"
    with opened(backend, 2) as store:
        stream = store.open("rides")
        is_committed = step in COMMITTED
        assert stream.status.steps == (24 if is_committed else 23)
        database = store._database
        assert bool(database.query("SELECT 1 FROM inputs")) is not is_committed
        assert bool(database.query("SELECT 1 FROM hidden")) is not is_committed
        if not is_committed:
            bring(store, ROWS[3:], "last")  # again: the same batch
        stream.close_through(begin + 24)
        reader, drawn = store.reader(), 1000 * (1 if is_committed else 2)
        values = {
            (name, part, per): reader.series("rides", name, part).figures(per)  # type: ignore[arg-type]
            for name, part in (("rides", "keys"), ("rides", "overall"), ("places", "keys"))
            for per in ("1h", "1d")
        }
        values["minutes", "keys", "1d"] = reader.series("rides", "minutes").figures("1d")
        wanted = {"rides": [1, 0], "places": [1, 3]}
        for (name, part, per), figures in values.items():
            own = {"overall": [4], "keys": wanted.get(name, [60 + 40 + 40])}[part]
            at = 23 if per == "1h" else 0
            assert figures.values[at].tolist() == [each + drawn for each in own], (name, part, per)
        (value,) = reader.series("rides", "places").discovered()["value"].tolist()
        assert value == 3 + drawn
        assert not database.query("SELECT 1 FROM embargo WHERE public_tick <= ?", (begin + 25,))
