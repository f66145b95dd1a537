"""The exact loss of the worst item when the dyadic forest starts at clock ``2**m`` instead of 1.

Step ``t`` then reads the clock ``u = 2**m - 1 + t``. The loss of one item is the same minimum as
without a head start, at the clock readings of the head start
(:func:`~fadecount.mechanisms.level_budgets.at_position`): the trees before ``2**m`` share no
interval with the others. What changes is the worst item: it is no longer the first one.

One item. Let ``j`` be the item's clock and ``t = j + d`` the last one. Climbing from both leaves,
three costs matter: ``h0`` and ``h1``, what the left end costs if all higher levels together shift
by 0 or 1, and ``r``, what the right end costs. One level up, with ``F_l = min(e_l, 2 F_{l-1})`` the
cost of shifting a whole interval:

    bit of j is 0:  h0 += F     bit of j is 1:  h1 += F     bit of t is 1:  r += F
    then            h0, h1 = min(h0, F + h1), min(h1, F + h0)    and    r = min(r, F)

The second line has the cost ``F`` of the whole interval in place of its own budget ``e``: shifting
both halves does the same. So a level whose budget is more than twice the cost of a half, or
infinite, is a level whose budget is exactly twice that cost.

Where both ends meet below one node of level ``x`` the loss is ``min(h0 + r, h1 + g_x)``, where
``g_x`` is the cheapest shift of a node above; it is largest if the meeting point is the last part
of its tree. Where they lie in different trees it is ``h0 + r`` plus ``F`` for each tree between
them.

All items. Whatever the upper bits of ``j`` are, the loss is a function of the costs at a level, of
one form:

    min(a + h0 + r,  b + h1 + r,  c + h0,  d + h1)

Such a function is a *way*: four numbers. The ways of a level depend on the distance ``q`` of the
nodes above ``j`` and ``t`` only. They follow from those one level up, at the distances ``q // 2``
and ``(q + 1) // 2``. The numbers are made as small as the function allows (``|h0 - h1| <= F`` and
``min(e) <= r <= F``), and a way that is nowhere above another one is dropped. Few remain. The loss
of the worst item is the largest value of a way of level 0. On low levels whose budgets at least
double, only leaves are shifted: there the best bits of ``j`` are found by one division.
docs/theory.md, section 6, has the proof.

Numbers are integers in a unit so small that budgets are exact multiples of it. Where their range is
too large for 61 bits, budgets are rounded up to a larger unit, by at most one part in a million.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fadecount.checks import Number, Whole
from fadecount.mechanisms.binary_tree import bit_length

_BITS, _ROUNDED = 60, 20
"""The bits of a loss in its unit, and the bits that the least budget has at least, whatever that
takes."""

_WORTH_IT = 12
_PARTS = 21
_LARGE = 1 << 40
_AT_ONCE = 1024

_NUMBERS = itemgetter(0, 1, 2, 3)

Way = tuple[int, int, int, int, int]
"""The four numbers, and the bits of the item from this level on."""


def worst_from(budgets: Sequence[float], head_start: int, age: Whole) -> Number:
    """The largest loss over all positions at an age counted from the first output that shows the
    item, rounded up."""
    fixed = tuple(budgets)
    if not isinstance(age, np.ndarray):
        return _one(fixed, head_start, int(age))
    distinct, inverse = np.unique(age, return_inverse=True)
    lengths: Any = bit_length(distinct + 1)
    if len(distinct) and math.isfinite(fixed[0]):
        least, most = (_costs(fixed, head_start, int(lengths[at])) for at in (0, -1))
        if (
            least.unit == most.unit
        ):  # nothing is rounded differently: only the leaves make a difference
            lengths = np.minimum(lengths, most.leaves + 2)
    ends = np.flatnonzero(np.diff(lengths)) + 1
    losses = [_several(fixed, head_start, some) for some in np.split(distinct, ends)]
    return np.concatenate(losses)[inverse].reshape(age.shape)


def worst_item(budgets: Sequence[float], head_start: int, age: int) -> int:
    """The clock of an item that loses the most at an age; the first budget is finite."""
    return (
        _worst(_costs(tuple(budgets), head_start, (age + 1).bit_length()), age)[1]
        if age
        else (2 << head_start) - 1
    )


@lru_cache(maxsize=4096)
def _one(budgets: tuple[float, ...], head_start: int, age: int) -> float:
    if math.isinf(budgets[0]):
        return math.inf
    costs = _costs(budgets, head_start, (age + 1).bit_length())
    return costs.as_loss(_worst(costs, age)[0] if age else costs.meeting[0])


def _several(
    budgets: tuple[float, ...], head_start: int, ages: NDArray[np.int64]
) -> NDArray[np.float64]:
    """The same for distinct ages that can be computed at once, which is done where that is
    faster."""
    few = len(ages) < _WORTH_IT or math.isinf(budgets[0])
    if few or (costs := _costs(budgets, head_start, (int(ages[-1]) + 1).bit_length())).wide:
        return np.array([_one(budgets, head_start, int(age)) for age in ages])
    found: list[float] = []
    for start in range(0, len(ages), _AT_ONCE):
        some = ages[start : start + _AT_ONCE]
        found += [costs.as_loss(value) for value in _together(costs, some).tolist()]
    return np.array(found)


class _Costs(NamedTuple):
    """The costs of whole intervals of each level as integers in a unit, for ages of one length in
    bits."""

    whole: tuple[int, ...]
    meeting: tuple[int, ...]
    least: tuple[int, ...]
    limit: int
    unit: Fraction
    head_start: int
    leaves: int
    """The level up to which only leaves are shifted."""

    @property
    def wide(self) -> bool:
        """Whether numbers have more bits than a machine word."""
        return self.limit >> _BITS + 1 > 0

    def as_loss(self, value: int) -> float:
        """The least float64 at or above a value."""
        number, parts = value * self.unit.numerator, self.unit.denominator
        nearest = number / parts
        above, below = nearest.as_integer_ratio()
        return nearest if above * parts >= number * below else math.nextafter(nearest, math.inf)

    def apart(self, level: int, beyond: int) -> tuple[int, int, int]:
        """For an item in the tree of ``level`` and a last clock ``beyond`` of its node widths on:
        what is paid between the trees, what the right end pays at most on its way up, and a bound
        on the latter.
        """
        top = level + beyond.bit_length() - 1
        paid, bound = 0, self.limit
        for at in range(level + 1, top + 1):
            if beyond >> (at - level - 1) & 1:
                paid, bound = paid + self.whole[at - 1], bound + self.whole[at - 1]
            bound = min(bound, self.whole[at])
        return min(sum(self.whole[level + 1 : top]), self.limit), min(paid, self.limit), bound


@lru_cache(maxsize=256)
def _costs(budgets: tuple[float, ...], head_start: int, length: int) -> _Costs:
    """``length`` is the number of bits of the age plus one: it bounds the loss by two whole
    intervals per level."""
    exact, shared = _multiples(budgets)
    highest, total = Fraction(0), Fraction(0)
    for level in range(length):
        own = exact[level]
        highest = 2 * highest if level and (own is None or 2 * highest <= own) else own or highest
        total += 2 * highest
    finite = [each for each in exact if each is not None]
    finest = shared or min(Fraction(1, each.denominator) for each in finite)
    coarsest = Fraction(2) ** (_exponent(min(finite)) - 1 - _ROUNDED)
    unit = max(finest, min(Fraction(2) ** (_exponent(total) - _BITS), coarsest))
    limit = math.ceil(total / unit) + 1
    whole: list[int] = []
    for each in exact:
        halves = 2 * whole[-1] if whole else limit
        whole.append(
            min(limit, halves) if each is None else min(limit, halves, math.ceil(each / unit))
        )
    least = tuple(accumulate(whole, min))
    meeting = []
    for level, cheapest in enumerate(whole):
        climbed = 0
        for above in range(level + 1, head_start + 1):
            climbed += whole[above - 1]
            cheapest = min(cheapest, whole[above] + climbed)
        meeting.append(cheapest)
    leaves = next(
        level
        for level in range(len(whole))
        if level == head_start or whole[level + 1] < 2 * whole[level]
    )
    return _Costs(tuple(whole), tuple(meeting), least, limit, unit, head_start, leaves)


@lru_cache(maxsize=256)
def _multiples(budgets: tuple[float, ...]) -> tuple[list[Fraction | None], Fraction | None]:
    """The budgets as exact numbers (None for no noise). If they are multiples of one number, up to
    their own rounding, they are raised to be so exactly, by less than one part in 10**14: equal
    sums are then equal, and one of them can be dropped.
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


def _worst(costs: _Costs, age: int) -> tuple[int, int]:
    """The largest loss at a positive age, and the clock of its item."""
    length = age.bit_length()
    lowest = min(costs.leaves, length - 1)
    ways = {1: _carried(costs)[length]}
    for level in range(length - 1, lowest - 1, -1):
        nearest = age >> level
        ways = {
            distance: _ways(costs, level, distance, ways) for distance in (nearest, nearest + 1)
        }
    flat = [way for some in ways.values() for way in some]
    kind = object if costs.wide else np.int64
    carries = np.repeat(np.array([0, 1], dtype=kind), [len(some) for some in ways.values()])
    values, places = _at_leaves(
        costs, lowest, age, carries, np.array([way[:4] for way in flat], dtype=kind)
    )
    largest = int(values.max())
    return largest, min(
        flat[at][4] | int(places[at]) for at in np.flatnonzero(values == largest).tolist()
    )


def _at_leaves(
    costs: _Costs, lowest: int, age: Whole, carry: Whole, ways: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The largest value of each way, over the places of an item among the leaves of its node, and
    the place.

    In a node of width ``n`` an item at place ``k`` has ``h0 = (n - k) e_0``, ``h1 = k e_0`` and ``r
    = (k + s) e_0``. So a way is the minimum of a constant, two numbers that grow with ``k``, and
    one that falls: it is largest where they cross.
    """
    leaf, width = costs.whole[0], 1 << lowest
    both, other, left, alone = np.moveaxis(ways, -1, 0)
    seen = (age & width - 1) + 1 - carry * width
    first, last = np.maximum(0, 1 - seen), np.minimum(width - 1, width - seen)
    crossing = np.maximum(
        (left - alone + leaf * width) // (2 * leaf),
        (left - other + leaf * (width - seen)) // (3 * leaf),
    )
    places = [np.clip(crossing + after, first, last) for after in (0, 1)]
    values = [
        np.minimum(
            np.minimum(both + leaf * (width + seen), other + leaf * (2 * place + seen)),
            np.minimum(left + leaf * (width - place), alone + leaf * place),
        )
        for place in places
    ]
    value = np.where((both >= 0) & (first <= last), np.maximum(*values), 0)
    return value, np.where(values[0] >= values[1], *places)


@lru_cache(maxsize=256)
def _carried(costs: _Costs) -> tuple[list[Way], ...]:
    """For each level the ways of two neighbouring nodes, which meet or part anywhere above. They
    are the same for all ages."""
    ways: list[list[Way]] = [[]]
    for level in range(len(costs.whole) - 2, -1, -1):
        ways.append(_ways(costs, level, 1, {1: ways[-1]}))
    return tuple(ways[::-1])


def _ways(costs: _Costs, level: int, distance: int, above: dict[int, list[Way]]) -> list[Way]:
    """The ways from nodes of a level at a distance, given those from one level up."""
    whole, least, limit = costs.whole[level], costs.least[level], costs.limit
    found = []
    for both, other, left, alone, item in (
        *_ends(costs, level, distance),
        *_longer(costs, level, distance, above),
    ):
        both = min(both, other + whole)
        other = min(other, both + whole)
        left = min(left, alone + whole, both + whole, limit)
        alone = min(alone, left + whole, other + whole, limit)
        found.append(
            (min(both, max(left - least, 0)), min(other, max(alone - least, 0)), left, alone, item)
        )
    return _maximal(found)


def _ends(costs: _Costs, level: int, distance: int) -> Iterator[Way]:
    """The item meets the last clock one level up, in the last part of its tree; or it lies in the
    tree of this level."""
    if distance == 1:
        yield (
            0,
            costs.limit,
            costs.limit,
            costs.meeting[level + 1],
            (2 << max(costs.head_start, level + 1)) - (2 << level),
        )
    if level >= costs.head_start:
        between, paid, bound = costs.apart(level, 1 + distance)
        yield between + paid, costs.limit, between + bound, costs.limit, 1 << level


def _longer(costs: _Costs, level: int, distance: int, above: dict[int, list[Way]]) -> Iterator[Way]:
    """The ways one level up, seen from here, for both bits of the item. The bit of the last clock
    follows."""
    whole, next_whole = costs.whole[level], costs.whole[level + 1]
    for bit in (0, 1) if distance > 1 else (1,):
        seen = whole if bit + distance & 1 else 0
        up, down = (0, whole) if bit else (whole, 0)
        for both, other, left, alone, item in above[bit + distance >> 1]:
            zero, one = min(both, other + next_whole), min(other, both + next_whole)
            yield (
                up + seen + zero,
                down + seen + one,
                up + min(left, alone + next_whole, zero + next_whole),
                down + min(alone, left + next_whole, one + next_whole),
                item | bit << level,
            )


def _maximal(ways: list[Way]) -> list[Way]:
    """The ways that no other one dominates."""
    kept: list[Way] = []
    for way in sorted(ways, key=_NUMBERS, reverse=True):  # the first of equal ones ends lowest
        _, second, third, fourth, _ = way
        for _, other_second, other_third, other_fourth, _ in kept:
            if other_second >= second and other_third >= third and other_fourth >= fourth:
                break
        else:
            kept.append(way)
    return kept


def _together(costs: _Costs, ages: NDArray[np.int64]) -> NDArray[np.int64]:
    """The largest loss of each age, for positive ages of one length, or of any from ``2**leaves``
    on: one row per distance.

    Places without a way hold -1 in all four numbers.
    """
    length = int(ages.max()).bit_length()
    lowest = min(costs.leaves, int(ages.min()).bit_length() - 1)
    above, ways = (
        np.array([1]),
        np.array([[way[:4] for way in _carried(costs)[length]]], dtype=np.int64),
    )
    for level in range(length - 1, lowest - 1, -1):
        nearest = ages >> level
        distances = np.unique(np.concatenate([nearest, nearest + 1]))
        distances = distances[distances > 0]
        above, ways = distances, _maximal_rows(_level(costs, level, distances, above, ways))
    largest = np.zeros(len(ages), dtype=np.int64)
    for carry in (0, 1):
        some = ways[np.searchsorted(above, (ages >> lowest) + carry)]
        largest = np.maximum(
            largest, _at_leaves(costs, lowest, ages[:, None], carry, some)[0].max(axis=1)
        )
    return largest


def _level(
    costs: _Costs,
    level: int,
    distances: NDArray[np.int64],
    above: NDArray[np.int64],
    ways: NDArray[np.int64],
) -> NDArray[np.int64]:
    """All ways from nodes of a level, one row per distance, given those from one level up."""
    whole, next_whole = costs.whole[level], costs.whole[level + 1]
    found = [_rows_of_ends(costs, level, distances)]
    for bit in (0, 1):
        some = ways[np.searchsorted(above, distances + bit >> 1)]
        both, other, left, alone = np.moveaxis(some, 2, 0)
        seen = whole * (bit + distances & 1)[:, None]
        up, down = (0, whole) if bit else (whole, 0)
        zero, one = np.minimum(both, other + next_whole), np.minimum(other, both + next_whole)
        left, alone = (
            up + np.minimum(np.minimum(left, alone + next_whole), zero + next_whole),
            down + np.minimum(np.minimum(alone, left + next_whole), one + next_whole),
        )
        longer = np.stack([up + seen + zero, down + seen + one, left, alone], axis=2)
        longer[(both < 0) | (distances + bit == 1)[:, None]] = -1
        found.append(longer)
    every = np.concatenate(found, axis=1)
    both, other, left, alone = np.moveaxis(every, 2, 0)
    both = np.minimum(both, other + whole)
    other = np.minimum(other, both + whole)
    left = np.minimum(np.minimum(left, np.minimum(alone, both) + whole), costs.limit)
    alone = np.minimum(np.minimum(alone, np.minimum(left, other) + whole), costs.limit)
    both = np.minimum(both, np.maximum(left - costs.least[level], 0))
    other = np.minimum(other, np.maximum(alone - costs.least[level], 0))
    return np.where(every[:, :, :1] < 0, -1, np.stack([both, other, left, alone], axis=2))


def _rows_of_ends(costs: _Costs, level: int, distances: NDArray[np.int64]) -> NDArray[np.int64]:
    """As for one distance."""
    ends = np.full((len(distances), 2, 4), -1, dtype=np.int64)
    ends[distances == 1, 0] = 0, costs.limit, costs.limit, costs.meeting[level + 1]
    if level >= costs.head_start:
        between, paid, bound = _apart(costs, level, 1 + distances)
        unused = np.full_like(between, costs.limit)
        ends[:, 1] = np.stack([between + paid, unused, between + bound, unused], axis=1)
    return ends


def _apart(
    costs: _Costs, level: int, beyond: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """As for one distance."""
    between, paid = np.zeros_like(beyond), np.zeros_like(beyond)
    bound = np.full_like(beyond, costs.limit)
    for at in range(level + 1, level + int(beyond.max()).bit_length()):
        inside = beyond >> (at - level) > 0
        seen = np.where(inside & (beyond >> (at - level - 1) & 1 == 1), costs.whole[at - 1], 0)
        paid = np.minimum(paid + seen, costs.limit)
        bound = np.where(inside, np.minimum(bound + seen, costs.whole[at]), bound)
        between = np.minimum(
            between + np.where(beyond >> (at - level + 1) > 0, costs.whole[at], 0), costs.limit
        )
    return between, paid, bound


def _maximal_rows(ways: NDArray[np.int64]) -> NDArray[np.int64]:
    """The ways of each row that no other one of the row dominates, at the left; -1 in the places
    that become free."""
    order = np.argsort(
        -ways.sum(axis=2), axis=1, kind="stable"
    )  # what dominates another one comes first
    ways = np.take_along_axis(ways, order[:, :, None], axis=1)
    below = ways[:, :, 0] < 0
    for at in range(ways.shape[1] - 1):
        below[:, at + 1 :] |= np.all(ways[:, at + 1 :] <= ways[:, at, None], axis=2)
    order = np.argsort(below, axis=1, kind="stable")
    ways = np.take_along_axis(np.where(below[:, :, None], -1, ways), order[:, :, None], axis=1)
    return ways[:, : max(1, int(np.count_nonzero(~below, axis=1).max()))]
