"""The exact loss inside the binary mechanism: a tree over the steps 1, 2, 3, ... of which every other node is published.

At step ``t`` the output holds one node per set bit of ``t``: for bit ``l`` the node that ends at ``t`` with its lower
``l`` bits cleared. Each step begins exactly one new node, so the shift that turns one output sequence into its
neighbour is unique: one for each published node that holds the changed step. The exact loss is therefore the node
budget times the number of published nodes that hold the step and have ended. A node of level ``l`` that holds step
``p`` is published if bit ``l`` of ``p - 1`` is 0.
"""

from __future__ import annotations

from fractions import Fraction
from math import inf, nextafter
from typing import Any

import numpy as np

from fadecount.mechanisms.exact import Whole


def node_budget(epsilon: float, levels: int) -> float:
    """An equal share of a budget for each level, rounded down so that all levels together stay within it."""
    share = epsilon / levels
    return share if Fraction(share) * levels <= Fraction(epsilon) else nextafter(share, -inf)


def nodes_seen(step: Whole, last: Whole, levels: int) -> Whole:
    """How many published nodes hold ``step`` and end at or before ``last``."""
    before = step - 1
    seen: Whole = 0 * step
    for level in range(levels):
        ends: Any = ((before >> level) + 1) << level
        seen = seen + (((before >> level) & 1 == 0) & (ends <= last))
    return seen


def bit_length(number: Whole) -> Whole:
    """How many nodes ``[1, 2**l]`` have ended at a step: the length of its binary form."""
    if not isinstance(number, np.ndarray):
        return int(number).bit_length()
    length = np.zeros_like(number)
    for bit in range(int(np.max(number, initial=0)).bit_length()):
        length += (number >> bit) > 0
    return length


def most_nodes_seen(earliest: int, window: int) -> int:
    """The largest ``nodes_seen(step, window)`` over the steps ``earliest .. window``.

    Let ``u = step - 1`` and ``h`` the highest bit in which ``u`` and ``window`` differ. The nodes of the levels above
    ``h`` end too late; below, each zero bit of ``u`` counts. So look for the ``u >= earliest - 1`` with the fewest
    ones below ``h``: either a smaller ``h`` with only zeros below it, or the same ``h`` with the fewest ones that
    still reach ``earliest - 1``.
    """
    before = earliest - 1
    split = (before ^ window).bit_length() - 1
    rest = before & ((1 << split) - 1)
    run = split - (rest ^ ((1 << split) - 1)).bit_length()
    ones = run + (rest & ((1 << (split - run)) - 1) > 0)
    lower = window & ((1 << split) - 1)
    return max(1 + split - ones, lower.bit_length())
