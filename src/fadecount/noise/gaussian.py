"""Exact rounded Gaussian noise: the integer nearest to a normal variable, from uniform 64-bit
words.

The law. ``Pr[z] = Phi((z + 1/2) / s) - Phi((z - 1/2) / s)`` on the integers, for the standard
deviation ``s``. An integer ``v`` plus such noise is the rounded value of ``v`` plus a normal
variable. So every guarantee of the Gaussian mechanism holds here exactly, by post-processing: a
shift by ``v`` is exactly ``|v| / s``-Gaussian differentially private. (The other common law,
``Pr[z] ~ exp(-z**2 / 2 s**2)``, does not have this property: its delta is larger.)

The draw. The integers are cut into cells of ``w = 2**c`` neighbours, where ``c`` grows so that a
cell stays between ``s / 256`` and ``s / 128`` wide, up to ``w = 2**32``.
 1. A uniform number U chooses the cell: cell ``i`` if ``T_i <= U < T_(i+1)``, with ``T_i = Phi((i w
    - 1/2) / s)``.
 2. Uniform bits choose a place in the cell, and a uniform number V < a(z) accepts it, where

        a(z) = integral over [z - 1/2, z + 1/2] of exp(-(x**2 - n**2) / 2 s**2),

    and ``n`` is the point of the cell nearest to 0, so that ``a(z) <= 1``. A rejected place is
    drawn again, in the *same* cell.
Given the cell, an accepted ``z`` has a probability proportional to ``a(z)``, that is to ``Pr[z]``;
the cell has the probability ``T_(i+1) - T_i``. So ``z`` has the stated law, if every decision is
that of real arithmetic. It is:

*Cells.* ``2**64 T_i`` is computed in float64, from ``erfc``. Assume that it is good to 16 ulp
(tests/noise/test_gaussian.py compares the boundaries with an independent library). Three roundings
move its argument, and so ``T_i`` by at most ``2**-52``; the function itself is off by at most
``2**-49``, and the product by no more. So the error is below ``2**16`` words. A word at least
``2**20`` away from every listed boundary therefore determines the cell. Any other word takes
further words, and the cell is found by decimal arithmetic of growing precision
(``_settled_cell``). A table says for each of the 2**16 possible first bits whether they determine
the cell already.

*Places.* Where the table determines the cell, ``a(z)`` is at least a constant, and most V are below
it by their first 16 bits. The others are compared with ``exp(-t) (1 + (z**2 / s**2 - 1) / (24
s**2))``, ``t = (z**2 - n**2) / 2 s**2``, in float64. By the midpoint rule this misses ``a(z)`` by
at most ``max |y**4 - 6 y**2 + 3| / (1920 s**4) < 40 / s**4`` for ``y = z / s < 16``. The factors of
``t`` are exact integers below 2**53 and ``t < 0.1``, so that the float operations add less than
2**-48, if the exponential is good to 4 ulp. V within ``2**-44 + 40 / s**4`` of it is decided by
decimal arithmetic with further bits of V (``_accepted``).

The standard deviation is a float64 number taken as exact.
"""

from __future__ import annotations

import math
import sys
from bisect import bisect
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal, getcontext
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from fadecount.checks import set_fields
from fadecount.noise.generator import Words
from fadecount.noise.laplace import UNDETERMINED, digits

SMALLEST_DEVIATION, LARGEST_DEVIATION = 2.0**8, 2.0**40
"""The units of a counter's noise are so fine that its deviation is at least 2**17 of them."""
_CHUNK = 1 << 15
_FARTHEST = 9.0
"""How many deviations from 0 the boundaries of cells are listed; cells beyond are settled."""
_DOUBT = np.uint64(1 << 20)
"""Words so near to a listed boundary are settled: 16 times the error of the list."""
_LITTLE = sys.byteorder == "little"
_FIRST, _SECOND = (3, 2) if _LITTLE else (0, 1)
Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class RoundedGaussian:
    """The rounded Gaussian law of one standard deviation, as a function from words to integers.
    Laws are compared by identity. Costs about 3 milliseconds and 200 KiB."""

    scale: float
    _bits: int = field(init=False, repr=False)
    """A cell holds two to this power integers."""
    _first: int = field(init=False, repr=False)
    """The cell that begins with the first boundary."""
    _bounds: NDArray[np.uint64] = field(init=False, repr=False)
    """Where cells begin, among 64-bit words; see the module for the error."""
    _table: NDArray[np.int16] = field(init=False, repr=False)
    """The cell that the first 16 bits of a word determine, or ``UNDETERMINED``."""
    _surely: int = field(init=False, repr=False)
    """Below it, 16 bits of V accept every place in the cells of the table."""

    def __post_init__(self) -> None:
        scale = self.scale
        if not SMALLEST_DEVIATION <= scale <= LARGEST_DEVIATION:
            raise ValueError(f"scale must be in [2**8, 2**40], got {scale!r}")
        bits = min(32, math.floor(math.log2(scale)) - 7)
        last = math.ceil(_FARTHEST * scale / (1 << bits))
        points = (np.ldexp(np.arange(-last, last + 1.0), bits) - 0.5) / scale
        shares = np.array([math.erfc(-each / math.sqrt(2.0)) for each in points.tolist()])
        bounds = np.minimum(shares * 2.0**63, 2.0**64 - 2.0**11).astype(np.uint64)
        starts = np.arange(1 << 16, dtype=np.uint64) << 48
        ends = ~starts[::-1]  # the last word of each prefix
        low = np.searchsorted(bounds, np.maximum(starts, _DOUBT) - _DOUBT, side="right")
        high = np.searchsorted(bounds, np.minimum(ends, ~_DOUBT) + _DOUBT, side="right")
        cells = low - (last + 1)
        known = low == high
        known[[0, -1]] = False
        farthest = float(np.abs(cells[known]).max() + 1) * (1 << bits) / scale
        least = math.exp(-farthest * (1 << bits) / scale)
        set_fields(
            self,
            _bits=bits,
            _first=-last,
            _bounds=bounds,
            _table=np.where(known, cells, UNDETERMINED).astype(np.int16),
            _surely=math.floor(65536.0 * least) - 1,
        )

    def fill(self, draws: Integers, words: Words) -> Integers:
        """Fill an array (of one draw at least) with independent draws from fresh words: bits 48 to
        63 of a word are for the cell, 0 to 31 for a place in it, and 32 to 47 for its
        acceptance."""
        left, begun, chosen = [], [], []
        for start in range(0, len(draws), _CHUNK):
            part = draws[start : start + _CHUNK]
            some = words(len(part))
            found = self._table.take(_sixteen(some, _FIRST))
            np.bitwise_and(some, (1 << self._bits) - 1, out=part.view(np.uint64))
            part += found.astype(np.int64) << self._bits
            undecided = (found == UNDETERMINED) | (_sixteen(some, _SECOND) >= self._surely)
            rest = undecided.nonzero()[0]
            left.append(rest + start)
            begun.append(some[rest])
            chosen.append(found[rest])
        cells = np.concatenate(chosen).astype(np.int64)
        self._settle(draws, np.concatenate(left), np.concatenate(begun), cells, words)
        return draws

    def _settle(
        self,
        draws: Integers,
        left: Integers,
        tried: NDArray[np.uint64],
        cells: Integers,
        words: Words,
    ) -> None:
        """Draw at the positions that are left, given their words and the cells that these
        determine."""
        unknown = (cells == UNDETERMINED).nonzero()[0]
        begun = tried[unknown] >> 48 << 48 | words(len(unknown)) >> 16
        cells[unknown] = self._cells_of(begun, words)
        while len(left):
            places = (cells << self._bits) + (tried & (1 << self._bits) - 1).astype(np.int64)
            draws[left] = places
            drawn = tried >> np.uint64(32) << np.uint64(48) | words(len(left)) >> np.uint64(16)
            rejected = (~self._accept(places, cells, drawn, words)).nonzero()[0]
            left, cells = left[rejected], cells[rejected]
            tried = words(len(left))

    def _cells_of(self, begun: NDArray[np.uint64], words: Words) -> Integers:
        """The cells of numbers U that begin with these 64 bits; further ones are taken for the very
        few beside a boundary."""
        bounds, last = self._bounds, len(self._bounds) - 1
        above = np.searchsorted(bounds, begun, side="right")
        cells = above + (self._first - 1)
        beside = begun - bounds[np.maximum(above - 1, 0)] < _DOUBT
        beside |= bounds[np.minimum(above, last)] - begun <= _DOUBT
        for at in (beside | (above == 0) | (above > last)).nonzero()[0].tolist():
            cells[at] = _settled_cell(
                self.scale, 1 << self._bits, int(begun[at]), lambda: int(words(1)[0])
            )
        return cells

    def _accept(
        self, places: Integers, cells: Integers, drawn: NDArray[np.uint64], words: Words
    ) -> NDArray[np.bool]:
        """Which places stay, by the 64 first bits of V and, where these do not decide, by exact
        arithmetic with further ones."""
        # twice the point nearest to 0 of a cell, which covers the reals from ``i w - 1/2`` to
        # ``(i + 1) w - 1/2``
        nearest = np.where(cells == 0, 0, ((cells + (cells < 0)) << (self._bits + 1)) - 1)
        variance, twice = self.scale * self.scale, 2 * places
        exponents = (
            (twice - nearest).astype(np.float64)
            * (twice + nearest).astype(np.float64)
            / (-8.0 * variance)
        )
        correction = (np.square(places / self.scale) - 1.0) / (24.0 * variance)
        difference = np.exp(exponents) * (1.0 + correction) - drawn * 2.0**-64
        accepted = difference > 0.0
        doubtful = np.abs(difference) <= 2.0**-44 + 40.0 / variance**2
        # the float arithmetic is not analysed beyond the listed cells
        doubtful |= (cells < self._first) | (cells >= self._first + len(self._bounds) - 1)
        for at in doubtful.nonzero()[0].tolist():
            accepted[at] = _accepted(
                self.scale,
                int(places[at]),
                int(nearest[at]),
                int(drawn[at]),
                lambda: int(words(1)[0]),
            )
        return accepted


def _sixteen(words: NDArray[np.uint64], which: int) -> NDArray[np.uint16]:
    return words.view(np.uint16)[which::4]


def _settled_cell(scale: float, width: int, bits: int, more: Callable[[], int]) -> int:
    """The cell of a uniform number that begins with these 64 bits, taking further words as long as
    needed.

    Looks for the last cell that begins below all numbers with these bits. If the next one begins
    above all of them, that is the cell. It will be in the end with probability one, because the
    numbers shrink to a point, and boundaries are points.
    """

    def begins(cell: int) -> Decimal:
        return _below(scale, 2 * cell * width - 1)

    length = 64
    while True:
        with digits(30 + length * 3 // 10) as context:
            slack = Decimal(1).scaleb(8 - context.prec)
            reach = math.ceil((math.sqrt(1.4 * length) + 1.0) * scale / width) + 2
            cells = range(-reach, reach)
            after = bisect(cells, bits / Decimal(1 << length) - slack, key=begins)
            if 0 < after < len(cells):
                above = begins(cells[after]) - slack
                if above >= (bits + 1) / Decimal(1 << length):
                    return cells[after - 1]
        bits, length = bits << 64 | more(), length + 64


def _accepted(
    scale: float, place: int, twice_nearest: int, bits: int, more: Callable[[], int]
) -> bool:
    """Whether a uniform number V that begins with these 64 bits is below ``a(place)``, taking
    further words as long as needed."""
    length = 64
    while True:
        with digits(60 + length * 3 // 10 + round((place / scale) ** 2)) as context:
            exact = Decimal.from_float(scale)
            nearest = twice_nearest / (2 * exact)
            factor = exact * _root_two_pi(context.prec) * (nearest * nearest / 2).exp()
            chance = factor * (_below(scale, 2 * place + 1) - _below(scale, 2 * place - 1))
            slack = factor.scaleb(8 - context.prec)
            if (bits + 1) / Decimal(1 << length) <= chance - slack:
                return True
            if bits / Decimal(1 << length) >= chance + slack:
                return False
        bits, length = bits << 64 | more(), length + 64


def _below(scale: float, twice: int) -> Decimal:
    """``Phi(x)`` at ``x = twice / (2 scale)``, off by less than ``10**(7 - precision)``: ``Phi(x) -
    1/2 = phi(x) * (x + x**3 / 3 + x**5 / (3 * 5) + ...)``.

    All terms have one sign. Each of the fewer than 10**4 has a relative error below ``10**(5 -
    precision)``; the rest of the series is below the last one.
    """
    precision = getcontext().prec
    x = twice / (2 * Decimal.from_float(scale))
    square = x * x
    total, term, odd = x, x, 1
    smallest = Decimal(1).scaleb(-precision)
    while abs(term) > smallest * abs(total) or 2 * square > odd:
        odd += 2
        term = term * square / odd
        total += term
    return Decimal("0.5") + (square / -2).exp() * total / _root_two_pi(precision)


@lru_cache(maxsize=64)
def _root_two_pi(precision: int) -> Decimal:
    """The square root of 2 pi, by Machin's formula in integers."""
    one: int = 10 ** (precision + 10)

    def arctangent(inverse: int) -> int:
        total = term = one // inverse
        square, odd = inverse * inverse, 1
        while term:
            term = -term // square
            odd += 2
            total += term // odd
        return total

    with digits(precision + 10):
        pi = Decimal(4 * (4 * arctangent(5) - arctangent(239))) / one
        return (2 * pi).sqrt()
