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

*Cells.* ``2**64 T_i`` is computed in fixed point of 160 bits, from the middle outward, by Taylor's
series of Phi. Its error is below 2**-40 (see ``_outward``). A word at least 2 away from every floor
of these numbers therefore determines the cell. Any other word takes further words, and the cell is
found by decimal arithmetic of growing precision (``_settled_cell``). A table says for each of the
2**16 possible first bits whether they determine the cell already.

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
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from decimal import ROUND_HALF_EVEN, Context, Decimal
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

SMALLEST_DEVIATION, LARGEST_DEVIATION = 2.0**8, 2.0**40
"""The units of a counter's noise are so fine that its deviation is at least 2**17 of them."""
_UNDETERMINED = -(1 << 15)
_CHUNK = 1 << 15
_FIXED = 160
_LITTLE = sys.byteorder == "little"
_FIRST, _SECOND = (3, 2) if _LITTLE else (0, 1)

MoreWords = Callable[[NDArray[np.int64], int], NDArray[np.uint64]]
"""Gives the n-th (from 0) further word for each of the draws at some positions of the batch. No n
is asked for twice."""


@dataclass(frozen=True, slots=True, eq=False)
class RoundedGaussian:
    """The rounded Gaussian law of one standard deviation, as a function from words to integers.
    Laws are compared by identity."""

    scale: float
    _cells: _Cells = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not SMALLEST_DEVIATION <= self.scale <= LARGEST_DEVIATION:
            raise ValueError(f"scale must be in [2**8, 2**40], got {self.scale!r}")
        object.__setattr__(self, "_cells", _cells(self.scale))

    def from_words(self, words: NDArray[np.uint64], more: MoreWords) -> NDArray[np.int64]:
        """One draw per word. ``more`` is asked only for the draws that a word does not determine:
        one in twenty or fewer."""
        draws = np.empty(len(words), dtype=np.int64)
        self._places(draws, lambda start, count: words[start : start + count], more)
        return draws

    def fill(
        self, draws: NDArray[np.int64], words: Callable[[int], NDArray[np.uint64]]
    ) -> NDArray[np.int64]:
        """Fill an array with independent draws from fresh words."""

        def more(positions: NDArray[np.int64], _asked: int) -> NDArray[np.uint64]:
            return words(len(positions))

        self._places(draws, lambda _start, count: words(count), more)
        return draws

    def _places(
        self,
        draws: NDArray[np.int64],
        words: Callable[[int, int], NDArray[np.uint64]],
        more: MoreWords,
    ) -> None:
        """Draws of a cell (bits 48 to 63 of a word), of a place in it (0 to 31) and of its
        acceptance (32 to 47)."""
        cells = self._cells
        positions, begun, chosen = [], [], []
        for start in range(0, len(draws), _CHUNK):
            part = draws[start : start + _CHUNK]
            some = words(start, len(part))
            found = cells.table.take(_sixteen(some, _FIRST))
            np.bitwise_and(some, cells.width - 1, out=part.view(np.uint64))
            part += found.astype(np.int64) << cells.bits
            rest = ((found == _UNDETERMINED) | (_sixteen(some, _SECOND) >= cells.surely)).nonzero()[
                0
            ]
            positions.append(rest + start)
            begun.append(some[rest])
            chosen.append(found[rest])
        if draws.size:
            self._settle(
                draws,
                np.concatenate(positions),
                np.concatenate(begun),
                np.concatenate(chosen).astype(np.int64),
                more,
            )

    def _settle(
        self,
        draws: NDArray[np.int64],
        left: NDArray[np.int64],
        tried: NDArray[np.uint64],
        chosen: NDArray[np.int64],
        more: MoreWords,
    ) -> None:
        """The draws at the remaining positions, given their words and what these determine about
        their cells."""
        cells = self._cells
        unknown = (chosen == _UNDETERMINED).nonzero()[0]
        at = left[unknown]
        begun = tried[unknown] >> np.uint64(48) << np.uint64(48) | more(at, 0) >> np.uint64(16)
        chosen[unknown] = cells.of_words(begun, at, more)
        attempt = 0
        while len(left):
            places = (chosen << cells.bits) + (tried & np.uint64(cells.width - 1)).astype(np.int64)
            drawn = tried >> np.uint64(32) << np.uint64(48) | more(
                left, _acceptance(attempt, 0)
            ) >> np.uint64(16)
            accepted = self._accept(places, chosen, drawn, left, attempt, more)
            draws[left] = places
            rejected = (~accepted).nonzero()[0]
            left, chosen = left[rejected], chosen[rejected]
            tried = more(left, 3 * attempt + 1) if len(left) else tried
            attempt += 1

    def _accept(
        self,
        places: NDArray[np.int64],
        chosen: NDArray[np.int64],
        drawn: NDArray[np.uint64],
        positions: NDArray[np.int64],
        attempt: int,
        more: MoreWords,
    ) -> NDArray[np.bool]:
        """Which places stay, by their 64 first bits of V and, where these do not decide, by exact
        arithmetic."""
        cells = self._cells
        nearest = cells.twice_nearest(chosen)
        variance = self.scale * self.scale
        twice = 2 * places
        exponents = (
            (twice - nearest).astype(np.float64)
            * (twice + nearest).astype(np.float64)
            / (-8.0 * variance)
        )
        correction = (np.square(places / self.scale) - 1.0) / (24.0 * variance)
        difference = np.exp(exponents) * (1.0 + correction) - drawn * 2.0**-64
        margin = 2.0**-44 + 40.0 / variance**2
        accepted = difference > 0.0
        for at in ((np.abs(difference) <= margin) | cells.outside(chosen)).nonzero()[0].tolist():

            def further(asked: int, place: int = at) -> int:
                return int(more(positions[place : place + 1], _acceptance(attempt, asked))[0])

            accepted[at] = _accepted(
                self.scale, int(places[at]), int(nearest[at]), int(drawn[at]), further
            )
        return accepted


def _sixteen(words: NDArray[np.uint64], which: int) -> NDArray[np.uint16]:
    return words.view(np.uint16)[which::4]


def _acceptance(attempt: int, asked: int) -> int:
    """The number of a further word of V: one for each pair. The words of U are 0, 3, ..., the new
    places 1, 4, ..."""
    return 3 * ((attempt + asked) * (attempt + asked + 1) // 2 + asked) + 2


@dataclass(frozen=True, slots=True)
class _Cells:
    """The cells of one standard deviation: their boundaries among 64-bit words, and what 16 bits
    determine."""

    scale: float
    bits: int
    first: int
    bounds: NDArray[np.uint64]
    table: NDArray[np.int16]
    surely: int

    @property
    def width(self) -> int:
        return 1 << self.bits

    def of_words(
        self, words: NDArray[np.uint64], positions: NDArray[np.int64], more: MoreWords
    ) -> NDArray[np.int64]:
        """The cells of whole words; ``more`` is asked for further bits of the very few beside a
        boundary."""
        above = np.searchsorted(self.bounds, words, side="right")
        cells = above + (self.first - 1)
        last = len(self.bounds) - 1
        below = self.bounds[np.maximum(above - 1, 0)]
        beyond = self.bounds[np.minimum(above, last)]
        doubtful = (above == 0) | (above > last) | (words - below < 2) | (beyond - words < 2)
        for at in doubtful.nonzero()[0].tolist():

            def further(number: int, place: int = at) -> int:
                return int(more(positions[place : place + 1], 3 * (number + 1))[0])

            cells[at] = _settled_cell(self.scale, self.width, int(words[at]), further)
        return cells

    def twice_nearest(self, cells: NDArray[np.int64]) -> NDArray[np.int64]:
        """Twice the point nearest to 0 of each cell, which covers the reals from ``i w - 1/2`` to
        ``(i + 1) w - 1/2``."""
        return np.where(cells == 0, 0, ((cells + (cells < 0)) << (self.bits + 1)) - 1)

    def outside(self, cells: NDArray[np.int64]) -> NDArray[np.bool]:
        """Which cells lie beyond the table, where the float arithmetic is not analysed."""
        return (cells < self.first) | (cells >= self.first + len(self.bounds) - 1)


@lru_cache(maxsize=16)
def _cells(scale: float) -> _Cells:
    bits = min(32, math.floor(math.log2(scale)) - 7)
    lower = [(1 << _FIXED) - each for each in _outward(scale, 1 << bits, 1)][::-1]
    upper = list(_outward(scale, 1 << bits, -1))
    shared = [max(0, each) >> (_FIXED - 64) for each in [*lower[:-1], *upper]]
    bounds = np.array([min(each, (1 << 64) - 1) for each in shared], dtype=np.uint64)
    first = 1 - len(lower)
    starts = np.arange(1 << 16, dtype=np.uint64) << np.uint64(48)
    low = np.searchsorted(bounds, np.maximum(starts, 2) - np.uint64(2), side="right")
    high = np.searchsorted(
        bounds,
        np.minimum(starts | np.uint64((1 << 48) - 1), (1 << 64) - 3) + np.uint64(2),
        side="right",
    )
    cells = low + (first - 1)
    known = (low == high) & (low > 0) & (low < len(bounds))
    known[[0, -1]] = False
    table = np.where(known, cells, _UNDETERMINED).astype(np.int16)
    for each in (bounds, table):
        each.flags.writeable = False
    farthest = float(np.abs(cells[known]).max() + 1) * (1 << bits) / scale
    least = math.exp(-farthest * (1 << bits) / scale)
    return _Cells(scale, bits, first, bounds, table, math.floor(65536.0 * least) - 1)


def _outward(scale: float, width: int, side: int) -> Iterator[int]:
    """``2**160 Phi(x)`` at ``x = (k width + side / 2) / scale`` for k = 0, 1, ... until ``1 -
    Phi(x) < 2**-64``.

    One step of the length h adds ``sum of phi^(n)(x) h^(n+1) / (n+1)!``, whose terms follow from
    ``phi^(n+1) = -x phi^(n) - n phi^(n-1)``. The density follows from ``phi(x + h) = phi(x) exp(-x
    h - h**2 / 2)``. With ``x h <= 19`` and ``h <= 2`` a rounding error in a term grows by less than
    ``e**23`` through the recurrence, and the density is off by at most the square of the number of
    steps (below 2**23). Over 2,500 steps of fewer than 2**7 terms all this stays below ``2**-160 *
    2**56``, that is 2**-40 of a word.
    """
    numerator, denominator = scale.as_integer_ratio()
    one, digits = 1 << _FIXED, 60
    context = _context(digits)
    at = _fixed(side * denominator, 2 * numerator)
    step = _fixed(width * denominator, numerator)
    square = step * step >> _FIXED
    ratio = _fixed_exp(-(at * step >> _FIXED) - (square >> 1), context)
    shrink = _fixed_exp(-square, context)
    density = _fixed_exp(-(at * at >> (_FIXED + 1)), context) * one // _fixed_root_two_pi(context)
    half, over = divmod(one, 2)[0], _central(scale, 1, context)
    value = half + side * int(context.multiply(over, Decimal(one)))
    place = 0
    while True:
        yield value
        if one - value < 1 << (_FIXED - 64):
            return
        before, term, number = 0, density * step >> _FIXED, 0
        while term or before:
            value += term
            following = -(
                ((at * step >> _FIXED) * term >> _FIXED)
                + (number * square * before >> _FIXED) // (number + 1)
            ) // (number + 2)
            before, term, number = term, following if abs(following) > 1 else 0, number + 1
        density = density * ratio >> _FIXED
        ratio = ratio * shrink >> _FIXED
        place += 1
        at = _fixed((2 * place * width + side) * denominator, 2 * numerator)


def _fixed(numerator: int, denominator: int) -> int:
    return (numerator << _FIXED) // denominator


def _fixed_exp(fixed: int, context: Context) -> int:
    exact = context.divide(context.create_decimal(fixed), Decimal(1 << _FIXED))
    return int(context.multiply(context.exp(exact), Decimal(1 << _FIXED)))


def _fixed_root_two_pi(context: Context) -> int:
    return int(context.multiply(_root_two_pi(context.prec), Decimal(1 << _FIXED)))


def _settled_cell(scale: float, width: int, bits: int, more: Callable[[int], int]) -> int:
    """The cell of a uniform number that begins with these 64 bits, taking further words as long as
    needed.

    Looks for the last cell that begins below all numbers with these bits. If the next one begins
    above all of them, that is the cell. It will be in the end with probability one, because the
    numbers shrink to a point, and boundaries are points.
    """
    length, asked = 64, 0
    while True:
        context = _context(30 + length * 3 // 10)
        slack = context.scaleb(Decimal(1), 8 - context.prec)
        unit = context.power(Decimal(2), Decimal(-length))
        lowest, highest = (
            context.multiply(Decimal(bits), unit),
            context.multiply(Decimal(bits + 1), unit),
        )

        def begins(cell: int, context: Context = context) -> Decimal:
            return _below(scale, 2 * cell * width - 1, context)

        reach = math.ceil((math.sqrt(1.4 * length) + 1.0) * scale / width) + 2
        low, high = -reach, reach
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (
                (middle, high) if context.add(begins(middle), slack) <= lowest else (low, middle)
            )
        above = context.subtract(begins(low + 1), slack)
        if low > -reach and high < reach and above >= highest:
            return low
        bits, length = bits << 64 | more(asked), length + 64
        asked += 1


def _accepted(
    scale: float, place: int, twice_nearest: int, bits: int, more: Callable[[int], int]
) -> bool:
    """Whether a uniform number V that begins with these 64 bits is below ``a(place)``, taking
    further words as long as needed."""
    length, asked = 64, 1
    while True:
        context = _context(60 + length * 3 // 10 + round((place / scale) ** 2))
        exact = context.create_decimal(Decimal.from_float(scale))
        nearest = context.divide(Decimal(twice_nearest), context.multiply(Decimal(2), exact))
        grown = context.exp(context.divide(context.multiply(nearest, nearest), Decimal(2)))
        factor = context.multiply(context.multiply(exact, _root_two_pi(context.prec)), grown)
        mass = context.subtract(
            _below(scale, 2 * place + 1, context), _below(scale, 2 * place - 1, context)
        )
        chance = context.multiply(factor, mass)
        slack = context.multiply(factor, context.scaleb(Decimal(1), 8 - context.prec))
        unit = context.power(Decimal(2), Decimal(-length))
        if context.multiply(Decimal(bits + 1), unit) <= context.subtract(chance, slack):
            return True
        if context.multiply(Decimal(bits), unit) >= context.add(chance, slack):
            return False
        bits, length = bits << 64 | more(asked), length + 64
        asked += 1


def _below(scale: float, twice: int, context: Context) -> Decimal:
    """``Phi(twice / (2 scale))``, off by less than ``10**(7 - precision)``."""
    central = _central(scale, abs(twice), context)
    half = Decimal("0.5")
    return context.add(half, central) if twice >= 0 else context.subtract(half, central)


def _central(scale: float, twice: int, context: Context) -> Decimal:
    """``Phi(x) - 1/2`` for ``x = twice / (2 scale) >= 0``: ``phi(x) * (x + x**3 / 3 + x**5 / (3 *
    5) + ...)``.

    All terms are positive. Each of the fewer than 10**4 has a relative error below ``10**(5 -
    precision)``; the rest of the series is below the last one.
    """
    x = context.divide(Decimal(twice), context.multiply(Decimal(2), Decimal.from_float(scale)))
    square = context.multiply(x, x)
    total, term, odd = x, x, 1
    smallest, enough = (
        context.scaleb(Decimal(1), -context.prec),
        context.multiply(Decimal(2), square),
    )
    while term > context.multiply(smallest, total) or enough > odd:
        odd += 2
        term = context.divide(context.multiply(term, square), Decimal(odd))
        total = context.add(total, term)
    decay = context.exp(context.divide(square, Decimal(-2)))
    return context.divide(context.multiply(decay, total), _root_two_pi(context.prec))


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

    wide = _context(precision + 10)
    pi = wide.divide(Decimal(4 * (4 * arctangent(5) - arctangent(239))), Decimal(one))
    return _context(precision).sqrt(wide.multiply(Decimal(2), pi))


@lru_cache(maxsize=64)
def _context(precision: int) -> Context:
    return Context(prec=precision, rounding=ROUND_HALF_EVEN, Emin=-(10**17), Emax=10**17, traps=[])
