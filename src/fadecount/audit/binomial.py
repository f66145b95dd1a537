"""Clopper-Pearson bounds on a probability, from how often an event was seen.

The chance of at least ``k`` successes in ``n`` trials of probability ``p`` is the regularized
incomplete beta function ``I_p(k, n - k + 1)``. A bound is the ``p`` at which a chance equals the
allowed error, found by bisection.
"""

from __future__ import annotations

import math
from collections.abc import Callable


def lower_bound(seen: int, trials: int, error: float) -> float:
    """A probability that the true one is below with chance at most ``error``.

    >>> round(lower_bound(90, 100, 0.025), 4)
    0.8238
    """
    if seen == 0:
        return 0.0
    return _bisect(lambda p: at_least(seen, trials, p) < error)


def upper_bound(seen: int, trials: int, error: float) -> float:
    """A probability that the true one is above with chance at most ``error``.

    >>> round(upper_bound(0, 100, 0.05), 4)
    0.0295
    """
    return 1.0 - lower_bound(trials - seen, trials, error)


def at_least(seen: int, trials: int, p: float) -> float:
    """The chance of at least ``seen`` (from 1 on) successes in ``trials`` of probability ``p``."""
    a, b = float(seen), float(trials - seen + 1)
    if p <= 0.0 or p >= 1.0:
        return float(p >= 1.0)
    front = (
        math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(p) + b * math.log1p(-p)
    )
    if p < (a + 1.0) / (a + b + 2.0):
        return math.exp(front) * _fraction(a, b, p) / a
    return 1.0 - math.exp(front) * _fraction(b, a, 1.0 - p) / b


def _fraction(a: float, b: float, x: float) -> float:
    """The continued fraction of the incomplete beta function, by the method of Lentz."""
    c, d = 1.0, 1.0 / _apart(1.0 - (a + b) * x / (a + 1.0))
    result, m, change = d, 0, 0.0
    while abs(change - 1.0) > 1e-15:
        m += 1
        for step in (
            m * (b - m) / ((a + 2 * m - 1.0) * (a + 2 * m)),
            -(a + m) * (a + b + m) / ((a + 2 * m) * (a + 2 * m + 1.0)),
        ):
            d, c = 1.0 / _apart(1.0 + step * x * d), _apart(1.0 + step * x / c)
            change = d * c
            result *= change
    return result


def _apart(value: float) -> float:
    """The value, or a tiny number instead of 0, so that it can be a divisor."""
    return value if abs(value) > 1e-300 else 1e-300


def _bisect(too_small: Callable[[float], bool]) -> float:
    """The largest probability known to be too small: rounding makes a lower bound lower."""
    low, high = 0.0, 1.0
    while low < (middle := 0.5 * (low + high)) < high and high - low > 1e-14 * high:
        low, high = (middle, high) if too_small(middle) else (low, middle)
    return low
