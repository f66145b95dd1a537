"""A counter's state in parts, so that a store can write only those that a step changed.

A keyed counter is its time, one sum per key, the inputs still delayed, and the noise tails (see
:mod:`fadecount.counters.path`), one array over the keys per level. A step replaces two of the tails on average. This is
private to fadecount: whoever holds the parts holds the true sums.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fadecount.counters.counter import Counter
from fadecount.counters.path import _law
from fadecount.errors import SavedStateError
from fadecount.mechanisms import CARRY, Mechanism
from fadecount.noise import NoiseSource, SystemNoise

Row = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Parts:
    """All of a keyed counter's state; arrays are copies, in the order of the keys."""

    time: int
    total: Row
    delayed: Sequence[Row]
    tails: Sequence[Row]


def parts_of(counter: Counter) -> Parts:
    """The state of a counter of the shape (keys,)."""
    with counter._lock:
        return Parts(
            time=counter.time,
            total=counter._total.copy(),
            delayed=[np.array(row) for row in counter._delayed],
            tails=[np.array(row) for row in counter._path.tails],
        )


def counter_of(mechanism: Mechanism, parts: Parts, source: NoiseSource | None = None) -> Counter:
    """The counter that goes on from these parts; parts that do not fit their time are refused."""
    counter = Counter._with_noise(mechanism, source or SystemNoise(), width=len(parts.total))
    _check(mechanism, parts)
    counter._total = parts.total.copy()
    counter._delayed = deque(row.copy() for row in parts.delayed)
    counter._path.tails = [row.copy() for row in parts.tails]
    counter._path.shown = max(0, parts.time - mechanism.schedule.delay)
    return counter


def widened(mechanism: Mechanism, parts: Parts, extra: int, source: NoiseSource | None = None) -> Parts:
    """The parts with ``extra`` more keys that have counted nothing so far.

    The new keys get a fresh variable for each noise slot in use, so the law is the one they would have had if they had been
    there from the beginning: variables of intervals that are over were never needed.
    """
    tails = _new_tails(mechanism, parts.time, extra, source or SystemNoise())
    zeros = np.zeros(extra, dtype=np.int64)
    return Parts(
        time=parts.time,
        total=np.concatenate([parts.total, zeros]),
        delayed=[np.concatenate([row, zeros]) for row in parts.delayed],
        tails=[np.concatenate([old, new]) for old, new in zip(parts.tails, tails, strict=True)],
    )


def _new_tails(mechanism: Mechanism, time: int, width: int, source: NoiseSource) -> list[Row]:
    schedule = mechanism.schedule
    shown = max(0, time - schedule.delay)
    round_number, clock = schedule.place(shown) if shown else (0, 0)

    def draw(budget: float, level: int, node: int) -> Row:
        law = _law(budget, 0)
        if law is None:
            return np.zeros(width, dtype=np.int64)
        rounds, nodes = range(round_number, round_number + 1), range(node, node + 1)
        row: Row = source.many(law, level, rounds, nodes, width)[0, 0]
        return row

    above = draw(schedule.carry_budget, CARRY, 0) if round_number else np.zeros(width, dtype=np.int64)
    tails = [above]
    for level in range(clock.bit_length() - 1, -1, -1):
        if not schedule.alternating or clock >> level & 1:
            above = above + draw(schedule.budgets[level], level, clock >> level)
        tails.append(above)
    return tails[::-1]


def _check(mechanism: Mechanism, parts: Parts) -> None:
    schedule, width = mechanism.schedule, len(parts.total)
    shown = max(0, parts.time - schedule.delay)
    levels = (schedule.place(shown)[1] if shown else 0).bit_length() + 1
    whole = len(parts.delayed) == min(parts.time, schedule.delay) and len(parts.tails) == levels
    if not whole or any(len(row) != width for row in (*parts.delayed, *parts.tails)):
        raise SavedStateError("state must fit its time, got a damaged one; take an intact copy")
