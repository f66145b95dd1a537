"""Chains of discrete Laplace noises: a figure that is published again, each time with less noise.

The noises ``Z_1, .., Z_n`` of one count have falling scales ``s_1 > .. > s_n``, and ``Z_i = Z_(i+1)
+ M_i`` with independent differences. So the values published before stage ``i`` are that stage's
value plus independent noise: all of them together reveal exactly as much as stage ``i`` alone.

The difference. Let ``p = exp(-1 / s)`` for the coarser scale and ``p'`` for the sharper one. The
quotient of the two characteristic functions is ``w + (1 - w) f``, where ``f`` is that of the
coarser distribution and ``w = (p' / p) ((1 - p) / (1 - p'))**2``: both shares are positive. So
``M`` is 0 with probability ``w``, and else a draw of the coarser distribution. For every integer
``m >= 1``

    Pr[|M| >= m] = c p**m    with    c = 2 (1 - w) / (1 + p),
    1 - w = (1 - p' / p) (1 - p p') / (1 - p')**2.

That is the distribution of :mod:`fadecount.noise.laplace` with another constant ``c``, and the same
exact arithmetic draws it from one word: ``|M| = max(0, floor(s (-ln U) + s ln c))``. The bounds
there hold as they are, because ``c`` is at most the constant there and at least ``2**-62``.

The sharpest noise is drawn first, then the differences towards the coarser ones. The scales are
float64 numbers taken as exact, in the differences and in the draws alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal, getcontext
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fadecount.noise.keyed import KeyedNoise
from fadecount.noise.laplace import DiscreteLaplace, MoreBits, digits
from fadecount.noise.source import NoiseSource

_CANCELLED_DIGITS = 60
"""More than the digits that the differences from 1 of two scales up to 2**40 can lose."""


@dataclass(frozen=True, slots=True, eq=False)
class Difference(DiscreteLaplace):
    """What turns noise of the scale ``sharper`` into noise of the larger ``scale``."""

    sharper: float = 0.0

    @property
    def tabled(self) -> bool:
        return False

    def _centre(self) -> Decimal:
        """``ln c``, see the module."""
        with digits(getcontext().prec + _CANCELLED_DIGITS):
            scales = self.scale, self.sharper
            p, sharp = ((-1 / Decimal.from_float(scale)).exp() for scale in scales)
            other = (1 - sharp / p) * (1 - p * sharp) / (1 - sharp) ** 2
            return (2 * other / (1 + p)).ln()

    def from_words(
        self, words: NDArray[np.uint64], more: MoreBits, out: NDArray[np.int64] | None = None
    ) -> NDArray[np.int64]:
        # The word's sign is on a magnitude that may be below 0: then the difference is 0.
        draws = DiscreteLaplace.from_words(self, words, more, out)
        draws[(draws < 0) != (words & np.uint64(1)).astype(bool)] = 0
        return draws


class Chain:
    """The noises of the stages of one level's figures, by the names ``(level, stage, block)``."""

    __slots__ = ("_differences", "_level", "sharpest")

    def __init__(self, level: int, scales: Sequence[float]) -> None:
        """``scales`` are those of the stages, the first and largest one first."""
        self._level = level
        self.sharpest = DiscreteLaplace(scales[-1])
        self._differences = [
            Difference(coarse, sharper=sharp) for coarse, sharp in pairwise(scales)
        ]

    def many(
        self, source: NoiseSource | KeyedNoise, blocks: range, width: int
    ) -> list[NDArray[np.int64]]:
        """The noises of many blocks of ``width`` counts, for each stage from the first, in the
        shape (blocks, width): only to be read."""

        def drawn(distribution: DiscreteLaplace, stage: int) -> Any:
            return source.many(distribution, self._level, range(stage, stage + 1), blocks, width)[0]

        noises = [drawn(self.sharpest, len(self._differences))]
        for stage in range(len(self._differences) - 1, -1, -1):
            noises.append(noises[-1] + drawn(self._differences[stage], stage))
        return noises[::-1]
