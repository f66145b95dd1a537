"""Mechanisms that the tests run on: at least one example of every kind, and the budget sequences
that are hard for a loss."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

import fadecount as fc
from fadecount.mechanisms import RunningTotal
from tests.mechanisms.any_levels import AnyLevels

INF = math.inf
_RANDOM = np.random.default_rng(20241).uniform(0.05, 2.0, 7).tolist()

EXAMPLES: dict[str, list[RunningTotal]] = {
    "gradual": [
        fc.Gradual(epsilon=0.3),
        fc.Gradual(epsilon=0.7, exponent=0.0),
        fc.Gradual(epsilon=0.1, exponent=1.5, delay=1),
        fc.Gradual(epsilon=0.25, exponent=2.0, delay=7),
        fc.Gradual(epsilon=0.2, exponent=3.0),
    ],
    "any levels": [
        AnyLevels(budgets=(0.5, 0.25, 0.125)),
        AnyLevels(budgets=(0.3, INF, 0.4, INF), delay=1),
        AnyLevels(budgets=tuple(_RANDOM), delay=7),
    ],
    "linear": [fc.Linear(epsilon=0.4)],
    "refresh": [
        fc.Refresh(window=7, epsilon_current=0.9, epsilon_past=0.2),
        fc.Refresh(window=12, epsilon_current=0.5, epsilon_past=0.4),
        fc.Refresh(window=1, epsilon_current=0.5, epsilon_past=0.3),
    ],
    "binary": [fc.Binary(epsilon=0.8, horizon=1023), fc.Binary(epsilon=1.0, horizon=1500)],
}
"""By kind. A new mechanism is tested by everything below as soon as it has an example here."""

ALL = [mechanism for examples in EXAMPLES.values() for mechanism in examples]

SEQUENCES: dict[str, fc.Mechanism] = {
    "constant": fc.Gradual(epsilon=0.5, exponent=1.0),
    "falling fast": fc.Gradual(epsilon=0.8, exponent=0.0, delay=2),
    "rising slowly": fc.Gradual(epsilon=0.5, exponent=1.5),
    "rising": fc.Gradual(epsilon=0.25, exponent=2.0, delay=1),
    "rising fast": fc.Gradual(epsilon=0.25, exponent=3.0, delay=5),
    "falling": AnyLevels(budgets=(1.0, 0.9, 0.4, 0.35, 0.1)),
    "random": AnyLevels(budgets=tuple(_RANDOM)),
    "random, delayed": AnyLevels(budgets=tuple(reversed(_RANDOM)), delay=3),
    "without noise on some levels": AnyLevels(budgets=(0.5, INF, 0.7, INF, INF, 0.3)),
    "without noise above": AnyLevels(budgets=(0.5, 0.3, INF), delay=1),
    "without noise on the first level": AnyLevels(budgets=(INF, 0.3, 0.7, INF, 0.2)),
}
"""Level budgets in every order of size."""

ROUNDS: dict[str, fc.Mechanism] = {
    f"window {window}, past {past}": fc.Refresh(
        window=window, epsilon_current=0.8, epsilon_past=past
    )
    for window, past in (
        (1, 0.3),
        (2, 0.1),
        (3, 1.5),
        (5, 0.05),
        (6, 0.35),
        (7, 0.25),
        (7, 0.9),
        (12, 0.15),
        (20, 0.5),
        (31, 0.3),
    )
}
"""Rounds of every length, with a carry cheaper and dearer than the nodes of the tree."""

_NO_NUMBER = (
    math.nan,
    INF,
    -INF,
    True,
    np.True_,
    "0.1",
    None,
    [0.1],
    np.array([0.1]),
    np.zeros((9, 9)),
    1j,
)
_NO_BUDGET = (*_NO_NUMBER, 0, 0.0, -1.0, 1e-12, 1e9)
_NO_INTEGER = (-1, 1.5, math.nan, INF, True, np.True_, "7", None, [7], 1 << 60, 10**5000)
BAD_FIELDS: dict[str, tuple[object, ...]] = {
    "epsilon": _NO_BUDGET,
    "epsilon_current": _NO_BUDGET,
    "epsilon_past": _NO_BUDGET,
    "exponent": (*_NO_NUMBER, -1, -1e-9, 65.0),
    "budgets": (
        "0.1",
        b"1",
        5,
        None,
        (),
        (0.1,) * 63,
        *((0.1, bad) for bad in _NO_BUDGET if bad is not INF),
    ),
    "delay": _NO_INTEGER,
    "planned_tick_seconds": (*(bad for bad in _NO_NUMBER if bad is not None), 0, -1.0),
    "window": (*_NO_INTEGER, 0),
    "horizon": (*_NO_INTEGER, 0),
}
"""Values that no mechanism may accept, by the name of the field."""


def half_widths(mechanism: RunningTotal, first: int, count: int) -> NDArray[np.int64]:
    """The 95 % half widths of the outputs of successive steps."""
    steps = np.arange(first, first + count, dtype=np.int64)
    return mechanism.half_widths(np.zeros_like(steps), steps)
