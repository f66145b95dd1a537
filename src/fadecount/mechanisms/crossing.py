"""Where two loss curves cross for good."""

from __future__ import annotations

from fadecount.mechanisms.base import Mechanism
from fadecount.mechanisms.schedule import LONGEST


def crossing_age(first: Mechanism, second: Mechanism) -> int | None:
    """The age from which on ``first`` never loses less than ``second``, or None if it does at the greatest age there is.

    Exact over all ages up to 2**60. Curves never fall, so that a whole range of ages is clear once ``first`` at its
    beginning has lost as much as ``second`` at its end; ranges that are not clear are halved.

    >>> import fadecount as fc
    >>> crossing_age(fc.Linear(epsilon=0.1), fc.Gradual(epsilon=0.1))
    2
    """
    ranges = [(0, LONGEST)]
    while ranges:
        young, old = ranges.pop()
        if first.loss(young) >= second.loss(old):
            continue
        if young == old:
            return old + 1 if old < LONGEST else None
        middle = (young + old) // 2
        ranges += [(young, middle), (middle + 1, old)]  # the older half is looked at first
    return 0
