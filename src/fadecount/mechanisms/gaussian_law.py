"""The loss and the tails of a Gaussian mechanism: formulas of Gaussian differential privacy.

A mechanism is ``mu``-Gaussian differentially private if telling two neighbouring inputs apart by
its outputs is at least as hard as telling N(0, 1) from N(mu, 1) by one draw (Dong, Roth and Su
2022). This one number gives an exact ``epsilon`` for every ``delta``, by

    delta = Phi(-epsilon / mu + mu / 2) - exp(epsilon) Phi(-epsilon / mu - mu / 2),

and the chance that the best guess between the two inputs is right, ``Phi(mu / 2)``.

The arithmetic. With ``a = epsilon / mu - mu / 2``, ``b = a + mu`` and Mills' ratio ``M(x) = Phi(-x)
/ phi(x)`` the formula becomes ``phi(a) (M(a) - M(b))``, which cancels no more than ``M`` falls from
``a`` to ``b``: the relative error of ``delta`` is below ``2**-44 (1 + a / mu)``, which moves
epsilon by less than ``2**-43``. Newton's method on ``ln delta``, which is concave in epsilon, comes
from above and never passes the root; the result is raised by more than these errors. Near a delta
of 1 the logarithm has no digits left: a mechanism takes deltas below 1/2.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

_ROOT_TWO = math.sqrt(2.0)
_ROOT_TWO_PI = math.sqrt(2.0 * math.pi)
_FAR = 25.0
_erf, _erfc = np.frompyfunc(math.erf, 1, 1), np.frompyfunc(math.erfc, 1, 1)
Reals = NDArray[np.float64]


def upper_tail(x: float) -> float:
    """``Phi(-x)``: the chance that a standard normal variable exceeds ``x``."""
    return 0.5 * math.erfc(x / _ROOT_TWO)


def certainty(mu: float) -> float:
    """The chance that the best guess between two neighbouring inputs is right: 1/2 is a blind
    guess."""
    return max(upper_tail(-0.5 * mu), math.nextafter(0.5, 1.0)) if mu > 0.0 else 0.5


def normal_quantile(chance: float) -> float:
    """The ``x`` with ``Phi(-x) = chance`` for a chance in (0, 1/2], never below it by more than a
    few units in the last place.

    >>> round(normal_quantile(0.025), 10), normal_quantile(0.5)
    (1.9599639845, 0.0)
    """
    low, high = 0.0, 40.0
    while (middle := 0.5 * (low + high)) not in (low, high):
        low, high = (middle, high) if upper_tail(middle) > chance else (low, middle)
    return high if high > 1e-300 else 0.0


def epsilon_at(mu: Any, delta: float) -> Any:
    """The ``epsilon`` at which a ``mu``-Gaussian mechanism has this ``delta`` (up to 1/2), rounded
    up; a number or an array.

    >>> round(epsilon_at(0.672131690080813, 1e-9), 9)
    4.0
    """
    values = np.atleast_1d(np.asarray(mu, dtype=np.float64))
    epsilons = np.full(values.shape, math.inf)
    epsilons[values == 0.0] = 0.0
    plain = (values > 0.0) & (values < 1e150)
    some = values[plain]
    epsilon = 0.5 * some * some + some * math.sqrt(2.0 * math.log(1.0 / delta))
    target = math.log(delta)
    while True:
        logarithm, slope = _log_delta(epsilon, some)
        step = np.where(logarithm < target, (logarithm - target) / slope, 0.0)
        closer = np.maximum(epsilon - step, 0.0)
        if np.all(closer >= epsilon * (1.0 - 1e-14)):
            break
        epsilon = closer
    at_zero = np.asarray(_erf(some / (2.0 * _ROOT_TWO)), dtype=np.float64)  # delta at epsilon 0
    nothing = at_zero <= delta * (1.0 - 1e-12)
    epsilons[plain] = np.where(nothing, 0.0, epsilon * (1.0 + 1e-12) + 1e-12)
    return epsilons.reshape(np.shape(mu)) if np.ndim(mu) else float(epsilons[0])


def mu_at(epsilon: float, delta: float) -> float:
    """The largest ``mu`` whose ``epsilon_at`` this ``delta`` is at most ``epsilon``: what a promise
    allows.

    >>> round(mu_at(4.0, 1e-9), 9)
    0.67213169
    """
    low, high = 0.0, 1.0
    while epsilon_at(high, delta) <= epsilon:
        low, high = high, 2.0 * high
    while low < (middle := 0.5 * (low + high)) < high and high - low > 1e-15 * high:
        low, high = (middle, high) if epsilon_at(middle, delta) <= epsilon else (low, middle)
    return low


def _log_delta(epsilon: Reals, mu: Reals) -> tuple[Reals, Reals]:
    """The logarithm of delta, and its negative slope in epsilon, ``M(b) / (M(a) - M(b))``."""
    a = epsilon / mu - 0.5 * mu
    near, far = _mills(a), _mills(a + mu)
    difference = np.maximum(near - far, 1e-300)
    return np.log(difference / _ROOT_TWO_PI) - 0.5 * a * a, -far / difference


def _mills(x: Reals) -> Reals:
    """``Phi(-x) / phi(x)``, growing without bound on the left: capped where a float ends."""
    inner = np.clip(x, -_FAR, _FAR)
    exact = (
        np.asarray(_erfc(inner / _ROOT_TWO), dtype=np.float64)
        * (0.5 * _ROOT_TWO_PI)
        * np.exp(0.5 * inner * inner)
    )
    square = 1.0 / np.maximum(x, _FAR) ** 2
    series = (
        1.0 - square * (1.0 - 3.0 * square * (1.0 - 5.0 * square * (1.0 - 7.0 * square)))
    ) * np.sqrt(square)
    left = _ROOT_TWO_PI * np.exp(np.minimum(0.5 * x * x, 700.0))
    return np.where(x > _FAR, series, np.where(x < -_FAR, left, exact))
