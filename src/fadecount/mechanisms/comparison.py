"""Comparing two mechanisms (crossing ages), and a loss with the lower bound on the error."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from fadecount.checks import LONGEST, require_integer
from fadecount.mechanisms.base import Mechanism


def crossing_age(first: Mechanism, second: Mechanism) -> int | None:
    """The age from which on ``first`` never loses less than ``second``, or None if it loses less at
    the greatest age.

    Exact over all ages up to 2**60. Curves never fall, so a whole range of ages is decided once
    ``first`` at its beginning has lost as much as ``second`` at its end; undecided ranges are
    halved.

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
        ranges += [(young, middle), (middle + 1, old)]  # the older half is examined first
    return 0


_FEWEST, _MOST = 1 << 6, 1 << 12


def minimum_error(
    loss: Mechanism | Callable[[NDArray[np.int64]], NDArray[np.float64]], horizon: int
) -> int:
    """The least error that an integer-valued counter can keep at all of ``horizon`` steps with
    probability 2/3, or 0 if unknown.

    ``loss`` is a mechanism, or a function from an array of ages to their losses. By Theorem 4.1 of
    the paper an error of at most C at every step implies ``sum of loss(age) over age < 2 C  >=
    ln(horizon / (6 C))``. The left side grows with C and the right side falls, so the result is the
    smallest C that satisfies it.

    >>> import fadecount as fc
    >>> fc.minimum_error(fc.Gradual(epsilon=0.1), horizon=10**6)
    13
    """
    horizon = require_integer(
        "horizon",
        horizon,
        minimum=1,
        maximum=LONGEST,
        remedy="it is the number of outputs looked at",
    )
    curve = loss.loss if isinstance(loss, Mechanism) else loss
    spent, error, chunk = 0.0, 0, _FEWEST
    while 6 * (error + 1) < horizon:
        candidates = np.arange(error + 1, error + 1 + chunk)
        ages = np.arange(2 * error, 2 * (error + chunk))
        sums = spent + np.cumsum(
            np.asarray(curve(ages), dtype=np.float64).reshape(-1, 2).sum(axis=1)
        )
        enough = sums >= np.log(horizon / (6.0 * candidates))
        if enough.any():
            least = int(candidates[np.argmax(enough)])
            return least if least > 1 else 0
        spent, error, chunk = float(sums[-1]), error + chunk, min(2 * chunk, _MOST)
    return error + 1 if error else 0
