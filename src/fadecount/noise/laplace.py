"""Exact discrete Laplace noise: Pr[z] proportional to exp(-|z| / scale) on the integers, from
uniform 64-bit words.

The distribution. Let q = exp(-1 / s). For a uniform real U in (0, 1) and a fair sign,

    |z| = floor( s * (-ln U) + s * ln(2 / (1 + q)) )

has Pr[|z| >= m] = Pr[U <= 2 q**m / (1 + q)] = 2 q**m / (1 + q) for every integer m >= 1: exactly
the discrete Laplace distribution, no rejection.

The arithmetic. A word gives the sign (its lowest bit) and the first 63 bits B of U: U lies in [B, B
+ 1) / 2**63. In float64 we compute

    x = a - s * ln(B),    a = s * (63 ln 2 + ln(2 / (1 + q))), rounded to nearest from 50 digits.

Let u = 2**-53 be the unit roundoff and assume that the logarithm at hand is good to 4 ulp
(tests/noise/test_exactness.py measures it against an independent library). Then, for 1 <= B <
2**63, with |ln B| < 44 and |a| < 45 s:
  converting B to float64 moves ln B by at most u (1 + u);       the logarithm is off by at most 4
  ulp <= 4 * 2**-47 = 2**-45; the product is off by u * 44 s, the constant a (and the margin added
  to it) by u * 90 s, the difference by u * |x| <= u * 90 s.
Altogether |x - exact| <= s * (2**-45 + 230 * 2**-53) < s * 2**-44. The unknown further bits of U
lower the exact value by at most s * ln(1 + 1/B) <= s / B. So the true argument of the floor lies in
[x - s * 2**-44 - s / B, x + s * 2**-44]: if no integer lies inside, the floor is known, and it is
the one that exact arithmetic would give. Otherwise, or if B is below a threshold where s / B is
large, the draw is *settled*: further bits of U are taken and the bounds are computed in decimal
arithmetic of growing precision, until the integer is determined. So every draw has exactly the
stated distribution; the fast path only decides how soon it is known.

The scale is a float64 number taken as exact.

The table. It holds what the first 16 bits of a draw determine: most draws of a moderate scale need
no arithmetic at all.

A draw is a sign and a uniform number U; its magnitude is ``m`` where ``U_(m+1) < U <= U_m``, with
the boundaries ``U_m = 2 q**m / (1 + q)`` for ``m >= 1`` and ``q = exp(-1 / s)`` as above. A
*prefix* is 16 bits: 15 bits ``c``, which say that U lies in ``[c, c + 1) / 2**15``, and, lowest,
the sign. If no boundary lies in that cell, the prefix determines the draw; else the draw is made
from a whole word that begins with the prefix. Either way it has exactly the distribution of a draw
from a whole word: the table only decides how soon it is known.

``2**15 U_m`` is computed in float64 as ``2**16 / (1 + q) * exp(-m / s)``. Let u = 2**-53 be the
unit roundoff and assume that the exponential is good to 4 ulp. Where ``m / s <= 13`` (further
boundaries lie in cell 0, and so do their computed values), the division moves the exponent by at
most 13 u, the two exponentials are off by 8 u each, and the sum, the quotient and the product by u
each: altogether a relative error below 2**-47. Every cell that comes within a relative 2**-40 of a
computed boundary is left undetermined, and so is cell 0, which holds infinitely many. In the
others, the magnitude is the number of boundaries above, which is then exact.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from decimal import ROUND_FLOOR, ROUND_HALF_EVEN, Context, Decimal, localcontext
from functools import lru_cache, partial

import numpy as np
from numpy.typing import NDArray

from fadecount.noise.generator import Words

LARGEST_SCALE = 2.0**40
_LOG_ERROR = 2.0**-44
_CHUNK = 1 << 15
_WORTH_A_TABLE = 1 << 12

MoreBits = Callable[[int, int], int]
"""Gives the n-th (from 0) further 64-bit word for the draw at a position of the batch."""


@dataclass(frozen=True, slots=True, eq=False)
class DiscreteLaplace:
    """The discrete Laplace distribution of one scale, as a function from words to integers.
    Distributions are compared by identity."""

    scale: float
    _offset: float = field(init=False, repr=False, compare=False)
    _margin: float = field(init=False, repr=False, compare=False)
    _smallest: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not 0.0 < self.scale <= LARGEST_SCALE:
            raise ValueError(f"scale must be in (0, 2**40], got {self.scale!r}")
        with digits(50):
            constant = 63 * Decimal(2).ln() + self._centre()
            offset = float(Decimal.from_float(self.scale) * constant)
        # Balances the two reasons to settle.
        threshold = max(1, min(62, round((63 + math.log2(self.scale)) / 2)))
        object.__setattr__(self, "_offset", offset)
        object.__setattr__(self, "_smallest", 1 << threshold)
        object.__setattr__(
            self, "_margin", self.scale * (2.0 * _LOG_ERROR + 2.0**-threshold) * (1.0 + 2.0**-20)
        )

    @property
    def tabled(self) -> bool:
        """Whether :func:`prefix_table` holds most draws of this distribution."""
        return self.scale <= LARGEST_TABLED_SCALE

    def _centre(self) -> Decimal:
        """``ln(2 / (1 + q))`` with ``q = exp(-1 / scale)``."""
        q = (-1 / Decimal.from_float(self.scale)).exp()
        return Decimal(2).ln() - (1 + q).ln()

    def from_words(
        self, words: NDArray[np.uint64], more: MoreBits, out: NDArray[np.int64] | None = None
    ) -> NDArray[np.int64]:
        """One draw per word. ``more`` is asked only for the few draws that a word does not
        determine."""
        draws = np.empty(len(words), dtype=np.int64) if out is None else out
        size = min(len(words), _CHUNK)
        scratch = np.empty(size, dtype=np.int64), np.empty(size), np.empty(size)
        for start in range(0, len(words), _CHUNK):
            part = slice(start, start + _CHUNK)
            for position in self._certify(words[part], draws[part], *scratch):
                magnitude = self.settle(
                    int(words[start + position]) >> 1, partial(more, start + position)
                )
                draws[start + position] = (
                    -magnitude if words[start + position] & np.uint64(1) else magnitude
                )
        return draws

    def fill(self, draws: NDArray[np.int64], words: Words) -> NDArray[np.int64]:
        """Fill an array with independent draws from fresh words: by table where that pays, the
        rest from whole words."""

        def more(_position: int, _asked: int) -> int:
            return int(words(1)[0])

        if len(draws) < _WORTH_A_TABLE or not self.tabled:
            return self.from_words(words(len(draws)), more, out=draws)
        table = prefix_table(self.scale)
        positions, begun = [], []
        for start in range(0, len(draws), _CHUNK):
            part = draws[start : start + _CHUNK]
            prefixes = words(-(-len(part) // 4)).view(np.uint16)[: len(part)]
            known = table.take(prefixes, mode="clip")
            part[:] = known
            unknown = (known == UNDETERMINED).nonzero()[0]
            positions.append(unknown + start)
            begun.append(prefixes[unknown])
        rest = completed(np.concatenate(begun), words(sum(map(len, begun))))
        draws[np.concatenate(positions)] = self.from_words(rest, more)
        return draws

    def _certify(
        self,
        words: NDArray[np.uint64],
        draws: NDArray[np.int64],
        bits: NDArray[np.int64],
        upper: NDArray[np.float64],
        whole: NDArray[np.float64],
    ) -> list[int]:
        """Write the draws that the words determine, and return the positions of the others. The
        last three are work space."""
        bits, upper, whole = bits[: len(words)], upper[: len(words)], whole[: len(words)]
        np.right_shift(words, 1, out=bits.view(np.uint64))
        np.maximum(bits, 1, out=bits)
        np.copyto(upper, bits)  # from int64, which fits and converts faster than uint64
        np.log(upper, out=upper)
        upper *= -self.scale
        upper += self._offset + self.scale * _LOG_ERROR
        np.floor(upper, out=whole)
        upper -= whole
        unsettled = (upper < self._margin) | (bits < self._smallest)
        np.copyto(draws, whole, casting="unsafe")
        np.bitwise_and(words, 1, out=bits.view(np.uint64))
        np.negative(bits, out=bits)  # 0 or -1: (z ^ -1) + 1 = -z
        draws ^= bits
        draws -= bits
        positions: list[int] = unsettled.nonzero()[0].tolist()
        return positions

    def settle(self, bits: int, more: Callable[[int], int]) -> int:
        """The magnitude that a uniform number beginning with these 63 bits determines, taking
        further words as long as needed.

        Both ends of the interval in which U lies are mapped with a relative error below ``10**(4 -
        precision)``; when their floors agree, that is the draw. They agree in the end with
        probability one, because the interval shrinks to a point that maps to an integer with
        probability zero.
        """
        length, precision, asked = 63, 40, 0
        while True:
            with digits(precision):
                lowest = self._argument(bits + 1, length)
                highest = self._argument(bits, length) if bits else Decimal("Infinity")
                slack = Decimal.from_float(self.scale * (length + 2)).scaleb(6 - precision)
                low, high = lowest - slack, highest + slack
            if high.is_finite() and _floor(low) == _floor(high):
                return _floor(low)
            bits, length = bits << 64 | more(asked), length + 64
            asked, precision = asked + 1, precision + 40

    def _argument(self, numerator: int, length: int) -> Decimal:
        """``s * (length * ln 2 - ln(numerator)) + s * ln(2 / (1 + q))``, to the precision of the
        context."""
        logarithm = length * Decimal(2).ln() - Decimal(numerator).ln()
        return Decimal.from_float(self.scale) * (logarithm + self._centre())


def _floor(value: Decimal) -> int:
    return int(value.to_integral_value(rounding=ROUND_FLOOR))


def digits(precision: int) -> AbstractContextManager[Context]:
    """Decimal arithmetic with so many digits, whatever the settings of the caller."""
    context = Context(prec=precision, rounding=ROUND_HALF_EVEN, Emin=-(10**17), Emax=10**17)
    context.clear_traps()
    return localcontext(context)


LARGEST_TABLED_SCALE = 1024.0
"""Beyond, too many cells hold a boundary (at this scale one draw in seven), and magnitudes would
outgrow 16 bits."""

UNDETERMINED = -(1 << 15)
_CELLS = 1 << 15
_DOUBT = 2.0**-40


@lru_cache(maxsize=64)
def prefix_table(scale: float) -> NDArray[np.int16]:
    """The signed draw that each prefix determines, or ``UNDETERMINED``. Costs 128 KiB and about a
    millisecond per scale."""
    assert 0.0 < scale <= LARGEST_TABLED_SCALE
    numbers = np.arange(1, math.ceil(12.0 * scale) + 2)
    boundaries = 2.0 * _CELLS / (1.0 + math.exp(-1.0 / scale)) * np.exp(-numbers / scale)
    cells = boundaries.astype(np.int64)
    above = np.cumsum(np.bincount(cells, minlength=_CELLS)[::-1])[::-1]
    magnitudes = np.append(above[1:], 0).astype(np.int16)
    table = np.stack([magnitudes, -magnitudes], axis=1)
    table[0] = UNDETERMINED
    for edge in (boundaries * (1.0 - _DOUBT), boundaries * (1.0 + _DOUBT)):
        table[np.minimum(edge.astype(np.int64), _CELLS - 1)] = UNDETERMINED
    table.flags.writeable = False
    return table.reshape(-1)


def completed(prefixes: NDArray[np.uint16], further: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Whole words that begin with the prefixes and continue with 48 bits of each further word; the
    sign stays the lowest bit."""
    wide = prefixes.astype(np.uint64)
    words: NDArray[np.uint64] = (wide >> 1 << 49 | further >> 16 << 1 | wide & 1).view(np.uint64)
    return words
