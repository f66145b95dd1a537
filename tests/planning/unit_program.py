"""What one unit can lose at most, by a linear program that scipy solves: an oracle that knows the
calendar, when figures are out and what rows may add, and no formula for the loss.

A unit has rows in the ticks of its slot, at most ``max_events``. In each measure they add to counts
of keys: each row once, or each key once a slot, or amounts up to ``max`` in all. Every figure that
is out reveals its budget for each change of its block by 1. The largest sum is the loss.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog

import fadecount as fc
from fadecount.calendar import Calendar
from fadecount.mechanisms.levels import MILLION
from fadecount.planning.publication import Publication, Series


def loss_by_program(
    publication: Publication,
    series: Sequence[Series],
    calendars: Sequence[Calendar],
    slot: range,
    now: int,
) -> float:
    """What is lost about a unit with that slot, by all that is out after the tick ``now`` (both
    numbered from the beginning of the publication)."""
    ticks = [tick for tick in slot if tick <= now]
    rows = len(ticks)
    gains, limits, rights = [0.0] * rows, list[NDArray[np.float64]](), list[float]()
    blocks: list[tuple[int, NDArray[np.float64]]] = []  # columns of each series, and their limits
    for part, each, calendar in zip(publication.parts, series, calendars, strict=True):
        shown, hidden = _revealed(each, calendar, ticks, slot, now)
        begin = len(gains)
        gains += shown
        own = [*range(begin, begin + rows)]
        if each.selection is not None:
            gains += hidden
            own += range(begin + rows, begin + 2 * rows)
        measure = part.measure
        if measure.sum is None and not measure.distinct:
            blocks += [(tick, np.array([begin + tick])) for tick in range(rows)]
        else:
            blocks.append((-1, np.array(own)))
            rights.append(float(each.weight))
    width = len(gains)
    for tick, columns in blocks:
        line = np.zeros(width)
        line[columns] = 1.0
        if tick >= 0:  # as often as the unit has rows
            line[tick] = -1.0
        limits.append(line)
    bounds = iter(rights)
    right = [0.0 if tick >= 0 else next(bounds) for tick, _ in blocks]
    line = np.zeros(width)
    line[:rows] = 1.0
    limits.append(line)
    right.append(float(publication.unit.events))
    answer = linprog(-np.array(gains), A_ub=np.array(limits), b_ub=right, method="highs")
    value: Any = answer.fun
    return -float(value)


def _revealed(
    each: Series, calendar: Calendar, ticks: Sequence[int], slot: range, now: int
) -> tuple[list[float], list[float]]:
    """What a change by 1 in each tick reveals, under a declared key and under a hidden one."""
    assert isinstance(each.mechanism, fc.Blocks)
    shown = []
    for tick in ticks:
        total = 0
        for number, level in enumerate(each.mechanism.levels):
            end = int(calendar.end(number, tick + 1))
            total += level.spent(now - (end - 1))
        shown.append(total / MILLION)
    if each.selection is None:
        return shown, []
    out = [epsilon for lag, epsilon in each.selection.stages if slot[-1] + lag <= now]
    hidden = max(out, default=0.0)
    if each.other is not None:  # it counts there too
        return shown, [hidden + declared for declared in shown]
    return shown, [hidden] * len(ticks)
