"""The error interval of a release, from the noise that is really in it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fadecount.mechanisms import Mechanism
from fadecount.mechanisms.quantile import quantile_of

CONFIDENCE = 0.95


def half_widths(mechanism: Mechanism, first_step: int, count: int) -> NDArray[np.int64]:
    """For each of ``count`` steps from ``first_step`` on, how far the count shown may be from the true one with probability 95 %.

    With a delay, the true count is the one that many ticks earlier: the output shows nothing later.
    """
    schedule = mechanism.schedule
    shown = np.arange(first_step, first_step + count, dtype=np.int64) - schedule.delay
    length = schedule.round_length
    rounds = shown * 0 if length is None else (shown - 1) // length
    clock = shown - rounds * (length or 0)
    levels = np.bitwise_count(np.maximum(clock, 0)) if schedule.alternating else np.frexp(np.maximum(clock, 0).astype(float))[1]
    kinds = np.where(shown <= 0, -1, 2 * levels.astype(np.int64) + (rounds > 0))
    distinct, first, inverse = np.unique(kinds, return_index=True, return_inverse=True)
    widths = [
        quantile_of(schedule.budgets_in_use(first_step + int(at)), 1.0 - CONFIDENCE) if kind >= 0 else 0
        for kind, at in zip(distinct.tolist(), first.tolist(), strict=True)
    ]
    return np.array(widths, dtype=np.int64)[inverse]
