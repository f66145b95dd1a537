"""The exact loss by a linear program that scipy solves: an oracle that shares nothing with the closed forms.

Which noise variable is in use at which step is written down here once more, from the definitions alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from typing import Any

import numpy as np
from scipy.optimize import linprog

import fadecount as fc

Uses = Callable[[int], dict[Hashable, float]]
"""From a step to the noise variables in its output, with their budgets."""


def uses_of(mechanism: fc.Mechanism) -> Uses:
    """The definition of each mechanism: the variables in the output of step t (none before the delay is over)."""
    if isinstance(mechanism, fc.Gradual):
        return lambda t: _dyadic(t - mechanism.delay, lambda level: mechanism.epsilon * (1.0 + level) ** (mechanism.exponent - 1))
    if isinstance(mechanism, fc.Designed):
        last = len(mechanism.budgets) - 1
        return lambda t: _dyadic(t - mechanism.delay, lambda level: mechanism.budgets[min(level, last)])
    if isinstance(mechanism, fc.Linear):
        return lambda t: {t: mechanism.epsilon} if t > 1 else {}
    if isinstance(mechanism, fc.Binary):
        share = mechanism.epsilon / mechanism.horizon.bit_length()
        return lambda t: _prefix(t, share)
    assert isinstance(mechanism, fc.Refresh)
    return lambda t: _refresh(mechanism, t)


def delay_of(mechanism: fc.Mechanism) -> int:
    return 1 if isinstance(mechanism, fc.Linear) else getattr(mechanism, "delay", 0)


def _dyadic(clock: int, budget: Callable[[int], float]) -> dict[Hashable, float]:
    return {(level, clock >> level): budget(level) for level in range(max(0, clock).bit_length())}


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


def loss_by_program(mechanism: fc.Mechanism, position: int, now: int) -> float:
    """min sum e |D|  subject to  the shifts of the variables in use at step t adding up to [t shows the item], t <= now."""
    uses, delay = uses_of(mechanism), delay_of(mechanism)
    first = position + delay
    rows = [uses(t) for t in range(delay + 1, now + 1)]
    wanted = [float(t >= first) for t in range(delay + 1, now + 1)]
    if not any(wanted):
        return 0.0
    names = [name for name in dict.fromkeys(name for row in rows for name in row) if _finite(rows, name)]
    column = {name: at for at, name in enumerate(names)}
    matrix = np.zeros((len(rows), len(names)))
    costs = np.zeros(len(names))
    for at, row in enumerate(rows):
        for name, budget in row.items():
            if name in column:
                matrix[at, column[name]] = 1.0
                costs[column[name]] = budget
    answer = linprog(np.concatenate([costs, costs]), A_eq=np.hstack([matrix, -matrix]), b_eq=wanted, method="highs")
    value: Any = answer.fun
    return math.inf if answer.status == 2 else float(value)


def _finite(rows: list[dict[Hashable, float]], name: Hashable) -> bool:
    return all(math.isfinite(row.get(name, 0.0)) for row in rows)
