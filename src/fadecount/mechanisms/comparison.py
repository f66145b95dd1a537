"""Comparing two mechanisms (crossing ages), and a loss with the lower bound on the error."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from fadecount.checks import LONGEST, require_integer
from fadecount.errors import ParameterError
from fadecount.mechanisms.base import Mechanism

_MOST_RANGES = 1 << 11


def crossing_age(first: Mechanism, second: Mechanism) -> int | None:
    """The age from which on ``first`` never loses less than ``second``, or None if it loses less at
    the greatest age.

    Exact over all ages up to 2**60. Curves never fall, so a whole range of ages is decided once
    ``first`` at its beginning has lost as much as ``second`` at its end; undecided ranges are
    halved. Smooth curves that are not the same, but closer than about 1 in 2,000, are refused.

    >>> import fadecount as fc
    >>> crossing_age(fc.Linear(epsilon=0.1), fc.Gradual(epsilon=0.1))
    2
    """
    if first == second:
        return 0
    below, young, old = -1, np.array([0]), np.array([LONGEST])
    while 0 < len(old) <= _MOST_RANGES:
        later = np.asarray(second.loss(old))
        below = max(below, int(old[np.asarray(first.loss(old)) < later].max(initial=-1)))
        undecided = (np.asarray(first.loss(young)) < later) & (old > below)
        young, old = young[undecided], old[undecided]
        middle = (young + old) // 2
        young, old = np.concatenate([young, middle + 1]), np.concatenate([middle, old])
    if len(old):
        raise ParameterError(
            "second must differ more from first, got losses too close to say where they cross;"
            " compare loss(age) at the ages that matter"
        )
    return below + 1 if below < LONGEST else None


_FEWEST, _MOST = 1 << 6, 1 << 12


def minimum_error(
    loss: Mechanism | Callable[[NDArray[np.int64]], NDArray[np.float64]], horizon: int
) -> int:
    """The least error that an integer-valued counter can keep at all of ``horizon`` steps with
    probability 2/3, or 0 if unknown.

    ``loss`` is a mechanism, or a function from an array of ages to their losses. By Theorem 4.1 of
    the paper an error of at most C at every step implies ``sum of loss(age) over age < 2 C  >=
    ln(horizon / (6 C))``. The left side grows with C and the right side falls, so the result is the
    smallest C that satisfies it; above 65,536 up to 1 in 65,536 less, which is a bound as well.

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
        step = 1 + (error >> 16)  # curves never fall: the last two ages lose most
        candidates = error + step * np.arange(1, chunk + 1)
        ages = (2 * candidates[:, np.newaxis] - np.array([2, 1])).ravel()
        sums = spent + step * np.cumsum(
            np.asarray(curve(ages), dtype=np.float64).reshape(-1, 2).sum(axis=1)
        )
        enough = sums >= np.log(horizon / (6.0 * candidates))
        if enough.any():
            least = int(candidates[np.argmax(enough)]) - step + 1
            return least if least > 1 else 0
        spent, error, chunk = float(sums[-1]), error + step * chunk, min(2 * chunk, _MOST)
    return error + 1 if error else 0
