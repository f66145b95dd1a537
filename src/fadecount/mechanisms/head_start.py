"""The exact loss of the worst item when the dyadic forest starts at clock ``2**m`` instead of 1.

Step ``t`` then reads the clock ``u = 2**m - 1 + t``. The loss of one item is the same minimum as without a head start, at the
clock readings of the head start (:func:`~fadecount.mechanisms.level_budgets.at_position`): the trees before ``2**m`` share no
interval with the others. What changes is the worst item: it is no longer the first one.

The recursion. Let ``j`` be the item's clock and ``t = j + d`` the last one. Climbing from both leaves, three costs matter:
``h0`` and ``h1``, what the left end costs if all higher levels together shift by 0 or 1, and ``r``, what the right end costs.
One level up, with ``F_l = min(e_l, 2 F_{l-1})`` the cost of shifting a whole interval:

    bit of j is 0:  h0 += F     bit of j is 1:  h1 += F     bit of t is 1:  r += F
    then            h0, h1 = min(h0, e + h1), min(h1, e + h0)    and    r = min(r, e)

Where both ends meet below one node of level ``x`` the loss is ``min(h0 + r, h1 + g_x)``, where ``g_x`` is the cheapest shift
of a node above; it is largest if the meeting point is the last part of its tree. Where they lie in different trees it is
``h0 + r`` plus ``F`` for each tree between them. All bits of ``j`` are free; those of ``t`` follow with a carry. Every step
is non-decreasing in ``(h0, h1, r)``. So a triple that is nowhere larger than another one with the same carry can be dropped,
and the largest loss of the others is the largest of all. docs/theory.md, section 6, has the proof.

Numbers are integers in a unit so small that budgets are exact multiples of it, or rounded up to one where their range is too
large for 61 bits. Steeply rising budgets keep many triples. Then values are rounded up to a coarser grid, which overstates the
loss by less than :data:`EXCESS`, relatively, and never understates it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fadecount.checks import Number, Whole

EXCESS = 1e-3
"""By how much, relatively, a loss may be overstated where the number of triples would grow."""

_MANY = 256
_FEW = 48
_BEAM = 8
_BITS = 60
_TOGETHER = 1 << 22
_WORTH_IT = 12
_PARTS = 21
_LARGE = 1 << 40
_AT_ONCE = 512

Triple = tuple[int, int, int, int]
"""The three costs, and the bits of the item so far."""


def worst_from(budgets: Sequence[float], head_start: int, age: Whole) -> Number:
    """The largest loss over all positions at an age counted from the first output that shows the item, rounded up."""
    fixed = tuple(budgets)
    if not isinstance(age, np.ndarray):
        return _one(fixed, head_start, int(age))
    distinct, inverse = np.unique(age, return_inverse=True)
    found = np.empty(len(distinct))
    lengths = np.frexp((distinct + 1).astype(np.float64))[1]
    for length in np.unique(lengths).tolist():
        some = lengths == length
        found[some] = _several(fixed, head_start, distinct[some])
    return found[inverse].reshape(age.shape)


@lru_cache(maxsize=4096)
def _one(budgets: tuple[float, ...], head_start: int, age: int) -> float:
    if math.isinf(budgets[0]):
        return math.inf
    costs = _costs(budgets, head_start, (age + 1).bit_length())
    if age == 0:
        return costs.as_loss(costs.alone())
    return costs.as_loss(_Search(costs, age, _Search(costs, age).run(_BEAM)).run(None)[0])


def worst_item(budgets: Sequence[float], head_start: int, age: int) -> int:
    """The clock of an item that loses (about) the most at an age; budgets must begin with a finite one."""
    if age == 0:
        return (2 << head_start) - 1
    costs = _costs(tuple(budgets), head_start, (age + 1).bit_length())
    return _Search(costs, age).run(4 * _BEAM)[1]


def _several(budgets: tuple[float, ...], head_start: int, ages: NDArray[np.int64]) -> NDArray[np.float64]:
    """The same for distinct ages whose values plus one have the same length in bits: all at once where that is faster."""
    if len(ages) < _WORTH_IT or math.isinf(budgets[0]):
        return np.array([_one(budgets, head_start, int(age)) for age in ages])
    costs = _costs(budgets, head_start, (int(ages[0]) + 1).bit_length())
    found: list[float] = []
    for start in range(0, len(ages), _AT_ONCE):
        some = ages[start : start + _AT_ONCE]
        values = _Table(costs, some).run()
        if values is None:
            found += [_one(budgets, head_start, int(age)) for age in some]
        else:
            found += [costs.as_loss(value) for value in values.tolist()]
    return np.array(found)


class _Costs(NamedTuple):
    """Level budgets and the costs of whole intervals as integers in a unit, for ages of one length in bits."""

    own: tuple[int, ...]
    whole: tuple[int, ...]
    meeting: tuple[int, ...]
    limit: int
    unit: Fraction
    head_start: int

    def as_loss(self, value: int) -> float:
        """The least float64 at or above a value."""
        exact = value * self.unit
        nearest = float(exact)
        return nearest if Fraction(nearest) >= exact else math.nextafter(nearest, math.inf)

    def alone(self) -> int:
        """The loss at age 0: the item's own leaf, or a shift of a node above that is undone before the item."""
        return min(self.own[0], self.meeting[0])

    def apart(self, level: int, beyond: int) -> tuple[int, int, int]:
        """For an item in the tree of ``level`` and a last clock ``beyond`` of its node widths on: what is paid between the
        trees, what the right end pays at most on its way up, and a bound on the latter.
        """
        top = level + beyond.bit_length() - 1
        paid, bound = 0, self.limit
        for at in range(level + 1, top + 1):
            if beyond >> (at - level - 1) & 1:
                paid, bound = paid + self.whole[at - 1], bound + self.whole[at - 1]
            bound = min(bound, self.own[at])
        return min(sum(self.whole[level + 1 : top]), self.limit), min(paid, self.limit), bound


@lru_cache(maxsize=256)
def _costs(budgets: tuple[float, ...], head_start: int, length: int) -> _Costs:
    """``length`` is the number of bits of the age plus one: it bounds the loss by two whole intervals per level."""
    exact, shared = _multiples(budgets)
    highest, total = Fraction(0), Fraction(0)
    for level in range(length):
        own = exact[level]
        highest = 2 * highest if level and (own is None or 2 * highest <= own) else own or highest
        total += 2 * highest
    finest = shared or min(Fraction(1, each.denominator) for each in exact if each is not None)
    unit = max(finest, Fraction(2) ** (_exponent(total) - _BITS))
    limit = math.ceil(total / unit) + 1
    own_costs = tuple(limit if each is None else min(limit, math.ceil(each / unit)) for each in exact)
    whole = [own_costs[0]]
    for cost in own_costs[1:]:
        whole.append(min(cost, 2 * whole[-1]))
    meeting = []
    for level, cheapest in enumerate(own_costs):
        climbed = 0
        for above in range(level + 1, head_start + 1):
            climbed += whole[above - 1]
            cheapest = min(cheapest, own_costs[above] + climbed)
        meeting.append(cheapest)
    return _Costs(own_costs, tuple(whole), tuple(meeting), limit, unit, head_start)


def _multiples(budgets: tuple[float, ...]) -> tuple[list[Fraction | None], Fraction | None]:
    """The budgets as exact numbers (None for no noise). If they are multiples of one number, up to their own rounding, they are
    raised to be so exactly, by less than one part in 10**14: equal sums are then equal, and one of them can be dropped.
    """
    exact = [Fraction(budget) if math.isfinite(budget) else None for budget in budgets]
    finite = [each for each in exact if each is not None]
    ratios = np.array([budget / min(finite) for budget in finite], dtype=np.float64)
    for parts in range(1, _PARTS):
        whole = np.rint(ratios * parts)
        if np.all(np.abs(ratios * parts - whole) <= 2e-15 * whole) and whole.max() < _LARGE:
            unit = max(each / int(number) for each, number in zip(finite, whole, strict=True))
            numbers = iter(whole.tolist())
            return [None if each is None else unit * int(next(numbers)) for each in exact], unit
    return exact, None


def _exponent(value: Fraction) -> int:
    """The least power of two above a positive value."""
    return value.numerator.bit_length() - value.denominator.bit_length() + 1


class _Search:
    """The recursion for one age, given a loss that some item is known to have."""

    def __init__(self, costs: _Costs, age: int, known: tuple[int, int] = (0, 0)) -> None:
        self._costs, self._age = costs, age
        least = self._best = known[0]
        self._item = known[1]
        self._grid = int(EXCESS * 0.4 * least / len(costs.own))

    def run(self, beam: int | None) -> tuple[int, int]:
        """The largest loss and the clock of its item; with a beam, that of the triples kept, which is a lower bound."""
        costs, age = self._costs, self._age
        growth = self._growth()
        kept: tuple[list[Triple], list[Triple]] = ([(costs.own[0], 0, costs.own[0], 0)], [])
        level = 0
        self._finish(level, kept)
        while level < len(costs.own) - 2 and (age >> level or max(map(_reach, kept[1]), default=0) > self._best):
            kept = self._climb(level, kept, growth)
            if beam is not None:
                kept = tuple(sorted(some, key=_reach, reverse=True)[:beam] for some in kept)  # type: ignore[assignment]
            level += 1
            self._finish(level, kept)
        return self._best, self._item

    def _finish(self, level: int, kept: tuple[list[Triple], list[Triple]]) -> None:
        """The losses of the items that meet the last clock above this level, or lie in the tree of this level."""
        costs = self._costs
        above = (2 << max(costs.head_start, level + 1)) - (2 << level)  # bits 1 above the meeting point, and that of the tree
        for carry, some in enumerate(kept):
            left = (self._age >> level) + carry
            if left == 1:
                meeting = costs.meeting[level + 1]
                for h0, h1, r, bits in some:
                    if (loss := min(h0 + r, h1 + meeting)) > self._best:
                        self._best, self._item = loss, above | bits
            if left and some and level >= costs.head_start:
                between, paid, bound = costs.apart(level, 1 + left)
                for h0, _, r, bits in some:
                    if (loss := h0 + between + min(r + paid, bound)) > self._best:
                        self._best, self._item = loss, 1 << level | bits

    def _climb(
        self, level: int, kept: tuple[list[Triple], list[Triple]], growth: list[tuple[int, int]]
    ) -> tuple[list[Triple], list[Triple]]:
        """The triples one level up that can still pass the best loss."""
        costs, best = self._costs, self._best
        whole, own, limit = costs.whole[level], costs.own[level + 1], costs.limit
        bit = self._age >> level & 1
        grown: tuple[list[Triple], list[Triple]] = ([], [])
        for carry, some in enumerate(kept):
            left = (self._age >> level) + carry
            for bit_of_item in (0, 1) if left > 1 else (1,) if left else ():
                total = bit_of_item + bit + carry
                target, more = grown[total >> 1], growth[level + 1][total >> 1]
                seen = whole if total & 1 else 0
                set_bit = bit_of_item << level
                for h0, h1, r, bits in some:
                    up, down = (h0, h1 + whole) if bit_of_item else (h0 + whole, h1)
                    right = min(own, r + seen)
                    item = min(up, own + down, limit)
                    if item + right + more > best:
                        target.append((item, min(down, own + up, limit), right, bits | set_bit))
        return self._thinned(grown[0]), self._thinned(grown[1])

    def _thinned(self, triples: list[Triple]) -> list[Triple]:
        triples = _maximal(triples)
        if len(triples) <= _MANY or not self._grid:
            return triples
        grid = self._grid
        return _maximal(
            [(-(-h0 // grid) * grid, -(-h1 // grid) * grid, -(-r // grid) * grid, bits) for h0, h1, r, bits in triples]
        )

    def _growth(self) -> list[tuple[int, int]]:
        """For each level and carry: by how much ``h0 + r`` can still grow, without the minima that hold it down."""
        costs, levels = self._costs, len(self._costs.own)
        growth = [(0, 0)] * (levels + 1)
        for level in range(levels - 2, -1, -1):
            found = []
            for carry in (0, 1):
                left = (self._age >> level) + carry
                most = 0
                if left and level >= costs.head_start:
                    between, paid, _ = costs.apart(level, 1 + left)
                    most = between + paid
                for bit_of_item in (0, 1) if left > 1 else (1,) if left else ():
                    total = bit_of_item + (self._age >> level & 1) + carry
                    here = costs.whole[level] * ((1 - bit_of_item) + (total & 1))
                    most = max(most, here + growth[level + 1][total >> 1])
                found.append(most)
            growth[level] = (found[0], found[1])
        return growth


class _Table:
    """The recursion for many ages at once, without bounds: one row per age, the triples of each carry side by side.

    Places without a triple hold -1 and are dominated by every triple.
    """

    def __init__(self, costs: _Costs, ages: NDArray[np.int64]) -> None:
        self._costs, self._ages = costs, ages
        self._best = np.zeros(len(ages), dtype=np.int64)

    def run(self) -> NDArray[np.int64] | None:
        """The largest loss of each age, or None if there are too many triples."""
        costs, ages = self._costs, self._ages
        first = np.array([costs.own[0], 0, costs.own[0]], dtype=np.int64)
        kept = (np.tile(first, (len(ages), 1, 1)), np.full((len(ages), 1, 3), -1, dtype=np.int64))
        level = 0
        self._finish(level, kept)
        while level < len(costs.own) - 2 and ((ages >> level).any() or self._can_grow(kept[1])):
            kept = self._climb(level, kept)
            if max(some.shape[1] for some in kept) > _FEW:
                return None
            level += 1
            self._finish(level, kept)
        return self._best

    def _can_grow(self, some: NDArray[np.int64]) -> bool:
        return bool(np.any((some[:, :, 0] + some[:, :, 2]).max(axis=1) > self._best))

    def _finish(self, level: int, kept: tuple[NDArray[np.int64], NDArray[np.int64]]) -> None:
        costs = self._costs
        for carry, some in enumerate(kept):
            h0, h1, r = some[:, :, 0], some[:, :, 1], some[:, :, 2]
            left = (self._ages >> level) + carry
            met = np.where(h0 < 0, 0, np.minimum(h0 + r, h1 + costs.meeting[level + 1])).max(axis=1)
            np.maximum(self._best, np.where(left == 1, met, 0), out=self._best)
            if level >= costs.head_start:
                between, paid, bound = self._apart(level, 1 + left)
                apart = h0 + between[:, None] + np.minimum(r + paid[:, None], bound[:, None])
                apart = np.where(h0 < 0, 0, apart).max(axis=1)
                np.maximum(self._best, np.where(left > 0, apart, 0), out=self._best)

    def _apart(self, level: int, beyond: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """As for one age."""
        costs = self._costs
        between, paid = np.zeros_like(beyond), np.zeros_like(beyond)
        bound = np.full_like(beyond, costs.limit)
        for at in range(level + 1, level + int(beyond.max()).bit_length()):
            inside = beyond >> (at - level) > 0
            seen = np.where(inside & (beyond >> (at - level - 1) & 1 == 1), costs.whole[at - 1], 0)
            paid = np.minimum(paid + seen, costs.limit)
            bound = np.where(inside, np.minimum(bound + seen, costs.own[at]), bound)
            between = np.minimum(between + np.where(beyond >> (at - level + 1) > 0, costs.whole[at], 0), costs.limit)
        return between, paid, bound

    def _climb(
        self, level: int, kept: tuple[NDArray[np.int64], NDArray[np.int64]]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """One level up. The bit of the age decides which carry three of the four cases lead to."""
        left, bit = self._ages >> level, self._ages >> level & 1
        wide = max(some.shape[1] for some in kept)
        both = np.stack([_padded(some, wide) for some in kept])
        rows = np.arange(len(bit))
        same, other = both[bit, rows], both[1 - bit, rows]
        many = [
            self._moved(level, kept[0], 1, 1 - bit, left > 0),
            self._moved(level, kept[1], 0, 1 - bit, left > 0),
            self._moved(level, same, bit, bit, np.where(bit == 1, left + 1 > 0, left > 1)),
        ]
        few = self._moved(level, other, 1 - bit, bit, np.where(bit == 1, left > 1, left + 1 > 0))
        large, small = _maximal_rows(np.concatenate(many, axis=1)), _maximal_rows(few)
        wide = max(large.shape[1], small.shape[1])
        large, small = _padded(large, wide), _padded(small, wide)
        zero = (bit == 0)[:, None, None]
        return _cut(np.where(zero, large, small)), _cut(np.where(zero, small, large))

    def _moved(
        self, level: int, some: NDArray[np.int64], bit_of_item: Whole, bit_of_last: NDArray[np.int64], allowed: NDArray[np.bool]
    ) -> NDArray[np.int64]:
        costs = self._costs
        whole, own = costs.whole[level], costs.own[level + 1]
        one = np.asarray(bit_of_item) if np.ndim(bit_of_item) == 0 else np.asarray(bit_of_item)[:, None]
        h0, h1, r = some[:, :, 0], some[:, :, 1], some[:, :, 2]
        up, down = h0 + whole * (1 - one), h1 + whole * one
        moved = np.empty_like(some)
        moved[:, :, 0] = np.minimum(np.minimum(up, own + down), costs.limit)
        moved[:, :, 1] = np.minimum(np.minimum(down, own + up), costs.limit)
        moved[:, :, 2] = np.minimum(own, r + whole * bit_of_last[:, None])
        moved[(h0 < 0) | ~allowed[:, None]] = -1
        return moved


def _padded(some: NDArray[np.int64], wide: int) -> NDArray[np.int64]:
    missing = wide - some.shape[1]
    return np.concatenate([some, np.full((len(some), missing, 3), -1, dtype=np.int64)], axis=1) if missing else some


def _cut(some: NDArray[np.int64]) -> NDArray[np.int64]:
    """Without columns that no row needs: triples stand at the left."""
    return some[:, : max(1, int(np.count_nonzero(some[:, :, 0] >= 0, axis=1).max()))]


def _maximal_rows(some: NDArray[np.int64]) -> NDArray[np.int64]:
    """The triples of each row that are nowhere at or below another one of the row, the others replaced by -1 and moved right."""
    for column in (2, 1, 0):
        order = np.argsort(-some[:, :, column], axis=1, kind="stable")
        some = np.take_along_axis(some, order[:, :, None], axis=1)
    some = _cut(some)
    second, third = np.ascontiguousarray(some[:, :, 1]), np.ascontiguousarray(some[:, :, 2])
    below = some[:, :, 0] < 0
    for at in range(some.shape[1] - 1):  # the first numbers fall, and the others among equals
        rest = slice(at + 1, None)
        below[:, rest] |= (second[:, rest] <= second[:, at, None]) & (third[:, rest] <= third[:, at, None])
    order = np.argsort(below, axis=1, kind="stable")
    return _cut(np.take_along_axis(np.where(below[:, :, None], -1, some), order[:, :, None], axis=1))


def _reach(triple: Triple) -> int:
    return triple[0] + triple[2]


def _maximal(triples: list[Triple]) -> list[Triple]:
    """The triples that no other triple dominates."""
    ordered = sorted(triples, reverse=True)
    if len(ordered) > _FEW:
        ordered = _thinned_by_blocks(ordered)
    kept: list[Triple] = []
    for triple in ordered:
        _, second, third, _ = triple
        for _, other_second, other_third, _ in kept:
            if other_second >= second and other_third >= third:
                break
        else:
            kept.append(triple)
    return kept


def _thinned_by_blocks(ordered: list[Triple]) -> list[Triple]:
    """The same list without most of what is below another one: all pairs at once."""
    array = np.array(ordered, dtype=np.int64)
    second, third = array[:, 1], array[:, 2]
    keep = np.ones(len(array), dtype=bool)
    size = max(1, _TOGETHER // len(array))
    for start in range(0, len(array), size):
        part = slice(start, start + size)
        below = (second[:, None] >= second[part]) & (third[:, None] >= third[part])
        below &= np.arange(len(array))[:, None] < np.arange(len(array))[part]
        keep[part] = ~below.any(axis=0)
    return [triple for triple, kept in zip(ordered, keep.tolist(), strict=True) if kept]
