"""How far a sum of noise variables strays, exactly: quantiles by Fourier inversion, rounded outward.

The noise in one output is a sum ``Z`` of independent discrete Laplace variables. The characteristic function of one of
scale ``s`` is ``1 / (1 + (sin(x / 2) / sinh(1 / (2 s)))**2)``, real and positive, so that of the sum is their product. The
discrete Fourier transform of its values at ``N`` points gives the law of ``Z`` modulo ``N``, which differs from the law of
``Z`` by at most ``Pr[|Z| >= N / 2]`` in total. ``N`` is taken so large that Chernoff's inequality bounds this by 1e-13; the
transform itself is off by less than 1e-12. The quantile is taken at ``beta - 1e-11``, which covers both: it is never too
small.

Wide noise is first made coarser. A discrete Laplace variable of scale ``s`` has the law of ``floor(E) - floor(E')`` for two
exponential variables of scale ``s``, and ``floor(E / c) - floor(E' / c)`` the law of scale ``s / c``. As ``floor(E)`` lies
between ``c floor(E / c)`` and that plus ``c - 1``, the sum of ``k`` variables and ``c`` times the sum of the coarser ones
differ by at most ``k (c - 1)``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import lru_cache

import numpy as np

from fadecount.mechanisms.spread import scale_of, tail_bound

_WIDEST = 1 << 12
_SLACK = 1e-11


def quantile_of(budgets: Iterable[float], beta: float) -> int:
    """An integer that the absolute sum of noise variables of these budgets passes with probability at most ``beta``.

    The smallest such integer while the noise is narrow; within about one part in 4,000 per variable otherwise. ``beta`` is
    between 1e-6 and 1.

    >>> quantile_of([0.5], 0.05), quantile_of([0.5, 0.25, 0.25], 0.05)
    (6, 17)
    """
    return _quantile(tuple(sorted(budget for budget in budgets if math.isfinite(budget))), beta)


@lru_cache(maxsize=4096)
def _quantile(budgets: tuple[float, ...], beta: float) -> int:
    if not budgets:
        return 0
    scales = np.array([scale_of(budget, 0) for budget in budgets])
    coarse = max(1, math.ceil(float(np.sqrt((scales**2).sum())) / _WIDEST))
    farthest = tail_bound([coarse / scale for scale in scales.tolist()], 1e-13, 0)
    size = 1 << math.ceil(math.log2(2.0 * farthest + 16.0))
    angles = np.sin(np.arange(size // 2 + 1) * (math.pi / size)) ** 2
    transform = np.ones(size // 2 + 1)
    for scale in scales / coarse:
        transform /= 1.0 + angles / math.sinh(min(0.5 / scale, 300.0)) ** 2
    law = np.fft.irfft(transform, size)
    inside = law[0] + 2.0 * np.concatenate([[0.0], np.cumsum(law[1 : size // 2])])
    found = int(np.argmax(inside >= 1.0 - beta + _SLACK))
    return coarse * found + len(budgets) * (coarse - 1)
