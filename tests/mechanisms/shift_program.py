"""The exact loss by a linear program that scipy solves: an oracle that shares nothing with the
closed forms.

Which noise variable is in use at which step is written down here once more, from the definitions
alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog
from scipy.sparse import coo_array, hstack

import fadecount as fc
from tests.mechanisms.any_levels import AnyLevels

Uses = Callable[[int], dict[Hashable, float]]
"""From a step to the noise variables in its output, with their budgets."""

NEVER = 1e4
"""More than any loss in the tests: what a shift of a variable without noise costs."""


def uses_of(mechanism: fc.Mechanism) -> Uses:
    """The definition of each mechanism: the variables in the output of step t (none before the
    delay is over)."""
    if isinstance(mechanism, fc.Gradual):
        power = mechanism.exponent - 1
        return lambda t: _dyadic(
            t - mechanism.delay, lambda level: mechanism.epsilon * (1.0 + level) ** power
        )
    if isinstance(mechanism, AnyLevels):
        last = len(mechanism.budgets) - 1
        return lambda t: _dyadic(
            t - mechanism.delay, lambda level: mechanism.budgets[min(level, last)]
        )
    if isinstance(mechanism, fc.Linear):
        return lambda t: {t: mechanism.epsilon} if t > 1 else {}
    if isinstance(mechanism, fc.Binary):
        share = mechanism.epsilon / mechanism.horizon.bit_length()
        return lambda t: _prefix(t, share)
    if isinstance(mechanism, fc.Intervals):
        numbered = list(enumerate(mechanism.intervals))
        return lambda t: {n: e for n, (first, last, e) in numbered if first <= t <= last}
    assert isinstance(mechanism, fc.Refresh)
    return lambda t: _refresh(mechanism, t)


def delay_of(mechanism: fc.Mechanism) -> int:
    return 1 if isinstance(mechanism, fc.Linear) else getattr(mechanism, "delay", 0)


def _dyadic(shown: int, budget: Callable[[int], float]) -> dict[Hashable, float]:
    clock = max(shown, 0)
    return {(level, clock >> level): budget(level) for level in range(clock.bit_length())}


def _prefix(clock: int, share: float, name: int = 0) -> dict[Hashable, float]:
    """The dyadic decomposition of [1, clock]: one node per set bit."""
    nodes: dict[Hashable, float] = {}
    start = 0
    for level in reversed(range(clock.bit_length())):
        if clock >> level & 1:
            nodes[(name, start, start + (1 << level))] = share
            start += 1 << level
    return nodes


def _refresh(mechanism: fc.Refresh, t: int) -> dict[Hashable, float]:
    rounds, offset = divmod(t - 1, mechanism.window)
    share = mechanism.epsilon_current / mechanism.window.bit_length()
    nodes = _prefix(offset + 1, share, name=rounds)
    return {**nodes, ("past", rounds): mechanism.epsilon_past} if rounds else nodes


def losses_by_program(mechanism: fc.Mechanism, pairs: list[tuple[int, int]]) -> NDArray[np.float64]:
    """The exact loss of the item at ``position`` given all outputs up to ``now``, for each pair
    ``(position, now)``.

    Each is min sum e |D| subject to the shifts of the variables in use at step t adding up to [t
    shows the item], t <= now. The programs are independent, so one solver call does them all: the
    optimum of the sum is the sum of the optima, and each part of the solution is optimal for its
    own part. A variable without noise cannot be shifted; at a cost of ``NEVER`` it is shifted only
    where nothing else helps, and the loss is infinite.
    """
    uses, delay = uses_of(mechanism), delay_of(mechanism)
    used = [uses(step) for step in range(1 + max(now for _, now in pairs))]
    rows: list[int] = []
    columns: list[int] = []
    wanted: list[float] = []
    costs: list[float] = []
    owners: list[int] = []
    for owner, (position, now) in enumerate(pairs):
        known: dict[Hashable, int] = {}
        for step in range(delay + 1, now + 1):
            for name, budget in used[step].items():
                if name not in known:
                    known[name] = len(costs)
                    costs.append(min(budget, NEVER))
                    owners.append(owner)
                rows.append(len(wanted))
                columns.append(known[name])
            wanted.append(float(step >= position + delay))
    if not any(wanted):
        return np.zeros(len(pairs))
    matrix: Any = coo_array(
        (np.ones(len(rows)), (rows, columns)), shape=(len(wanted), len(costs))
    ).tocsc()
    both: Any = hstack([matrix, -matrix])  # a shift up, a shift down
    solved = linprog(np.tile(costs, 2), A_eq=both, b_eq=wanted, method="highs-ds")
    assert solved.status == 0, solved.message
    paid = np.tile(costs, 2) * np.asarray(solved.x)
    values = np.bincount(np.tile(owners, 2), weights=paid, minlength=len(pairs))
    return np.where(values < NEVER / 2, values, math.inf)
