"""The loss that the paper's figures call empirical: the costliest smallest cover of any range of a
given length.

For an item at position ``j`` seen up to ``j + age`` the paper shifts the noise of the intervals
that cover ``[j, j + age]`` exactly (its ``D[j, t]``), at the cost of their level budgets. Its
figures show, for each age, the maximum over the positions ``1 <= j`` and ``j + age <= horizon``:
the positions within the first ``horizon`` outputs.

That is a maximum over ``horizon - age`` positions for each of ``horizon`` ages. Here it is exact
and takes O(horizon) operations in all. Let ``n = age + 1`` be the length of the range, ``u = j -
1`` and ``N = n + 1``. Climbing the levels from 0, the cover takes an interval on the left where bit
``l`` of ``u`` is 0, and one on the right where bit ``l`` of ``u + N`` is 1, for as long as ``(N >>
l) + carry - 1 > 0`` intervals of level ``l`` lie within the range, where ``carry`` is what the
lower bits of ``u + N`` hand up. What the levels from ``l`` on can cost depends on the lower bits
only through ``N >> l``, the carry, and how large ``u >> l`` may still be: at most ``((horizon + 1)
>> l) - (N >> l) - short`` with ``short`` 0, 1 or 2. So there are six numbers per value of ``N >>
l``, each found from two of the level above (bit ``l`` of ``u`` is 0 or 1), from the top down.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import numpy as np
from numpy.typing import NDArray


def empirical_losses(budgets: Sequence[float], horizon: int) -> NDArray[np.float64]:
    """The paper's empirical loss at the ages ``0 .. horizon - 1``, for level budgets without a
    delay.

    >>> empirical_losses([1.0] * 4, 7).tolist()
    [1.0, 2.0, 2.0, 3.0, 3.0, 4.0, 3.0]
    """
    end = horizon + 1
    costs = np.full((2, 3, 1), -np.inf)
    costs[:, 0] = (
        # nothing is left to cover above the highest bit, and no bit of the position is left to
        # choose
        0.0
    )
    for level in reversed(range(end.bit_length())):
        costs = _lower(
            costs,
            budgets[level] if level < len(budgets) else budgets[-1],
            end >> level,
            last=level == 0,
        )
    return costs[0, 0, 2:]


def _lower(
    above: NDArray[np.float64], budget: float, end: int, *, last: bool
) -> NDArray[np.float64]:
    """The six numbers for every length at a level, from those of the level above; on the last level
    only the one asked for."""
    length = np.arange(end + 1)
    odd, half = length & 1, length >> 1
    costs = np.empty((2, 3, end + 1))
    wanted = [(0, 0)] if last else list(product(range(2), range(3)))
    for carry, short in wanted:
        best = np.full(end + 1, -np.inf)
        for bit in range(2):
            right = odd + bit + carry
            shorter = -(((end & 1) - odd - short - bit) >> 1)
            np.maximum(
                best, budget * (1 - bit + (right & 1)) + above[right >> 1, shorter, half], out=best
            )
        best[length + carry <= 1] = 0.0
        best[length > end - short] = -np.inf
        costs[carry, short] = best
    return costs
