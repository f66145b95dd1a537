"""The plan of one part of a publication: blocks of exactly the lengths that its measure shows.

Limits cut the age of a unit into regions. In later regions longer lengths are published: a region
begins with the last length of the one before, published again with less noise, or with the next
one. Of all such chains, and all budgets, the plan has the least geometric mean of the variances of
what people read: each length at its first and at its last stage; in place of the shortest, and of
what appears with it, so far today, if it is below a day. That is the least sum of the variances,
each weighted by one over itself, until the weights settle.

A block of a length ends ``shift`` ticks after the start of the unit's slot at the earliest
(:func:`fadecount.planning.promise.shifts_of`), so the unit is that much older when it is published.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from fadecount.checks import LARGEST_BUDGET, LONGEST
from fadecount.mechanisms import Gradual
from fadecount.mechanisms.blocks import Blocks
from fadecount.mechanisms.discovery import SMALLEST_EPSILON, Discovery
from fadecount.mechanisms.levels import MILLION, Level
from fadecount.planning.budgets import Vector, best_budgets, variance
from fadecount.planning.publication import spent

MOST_REGIONS = 5
"""How many regions between limits a plan uses; further limits hold all the same."""
_ROUNDS = 40
_ALL_ROUNDS, _KEPT = 6, 64
"""After so many rounds only the best chains go on."""
_SETTLED = 1e-7
_BETWEEN = 1e-3
"""The weight of stages between the first and the last beside theirs."""
_SHARPER = 1.02
"""A later stage has at least so many times the budget of the one before, or is left out."""
LEAST = 4
"""Millionths that each length needs. A limit with less allows nothing."""
_DIGITS, _NEAR = 4, 1 + 1e-6
"""How many digits of a budget count, and how near to the next one is that one: no rounding of a
machine decides about a plan."""
_MOMENTS = 288
"""Times of a day at which the count so far today is looked at, at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Caps:
    """What may be spent: by everything that is out before the unit is ``ages[i]`` ticks old (None:
    ever), ``millionths[i]``."""

    ages: tuple[int | None, ...]
    millionths: tuple[int, ...]

    def kept_by(self, blocks: Blocks, shifts: Sequence[int]) -> bool:
        """Whether a mechanism spends no more, in exact integers."""
        return all(
            spent(blocks, shifts, LONGEST if age is None else age - 1) <= most
            for age, most in zip(self.ages, self.millionths, strict=True)
        )


def plan_lengths(lengths: Sequence[int], shifts: Sequence[int], caps: Caps, day: int) -> Blocks:
    """The blocks with exactly these lengths (in ticks, shortest first) that are planned for reading
    under the caps, of which the last one must be :data:`LEAST` millionths for each length. ``day``
    is how many ticks a day has.

    >>> caps = Caps(ages=(2017, None), millionths=(2_000_000, 4_000_000))
    >>> plan_lengths([288], [0], caps, 288)
    Blocks(Level(length=288, epsilon=2.0, lag=0, later=((2017, 4.0),)))
    """
    least, most = LEAST * len(lengths), int(LARGEST_BUDGET) * MILLION
    useful = tuple(min(each, most) if each >= least else 0 for each in caps.millionths)
    caps = _with_fewer(replace(caps, millionths=useful))
    options = [{region: lag for lag, region in _options(shift, caps)} for shift in shifts]
    chains = [*_chains(lengths, options, len(caps.ages))]
    return _Problem(lengths, options, caps, chains, day).best(shifts)


def plan_selection(per: str, open_ticks: int, caps: Caps, delta: float, keys: int) -> Discovery:
    """How hidden keys appear in blocks that end ``open_ticks`` ticks after the start of the unit's
    slot at the earliest: at a stage for each cap, which has all of it for one key.

    >>> caps = Caps(ages=(167, None), millionths=(2_000_000, 4_000_000))
    >>> plan_selection("1d", 23, caps, 1e-9, 1).stages
    ((0, 2.0), (144, 4.0))
    """
    caps = _with_fewer(caps)
    stages: list[tuple[int, Fraction]] = []
    for lag, region in _options(open_ticks, caps):
        budget = Fraction(min(caps.millionths[region], int(LARGEST_BUDGET) * MILLION), MILLION)
        if budget >= (stages[-1][1] * _SHARPER if stages else SMALLEST_EPSILON):
            stages.append((lag, budget))
    return Discovery(per, tuple(stages), delta, keys)  # type: ignore[arg-type] # budgets are exact


_EXPONENTS = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0)


def plan_gradual(caps: Caps, horizon: int) -> Gradual:
    """The running total of the paper's algorithm that has the least error under the caps.

    >>> plan_gradual(Caps(ages=(13, None), millionths=(0, 4_000_000)), 365).delay
    13
    """
    pairs = [*zip(caps.ages, caps.millionths, strict=True)]
    delay = max((age for age, most in pairs if age is not None and not most), default=0)
    limits = [(LONGEST if age is None else age - 1, most) for age, most in pairs if most]

    def fitted(exponent: float) -> Gradual:
        one = Gradual(0.001, exponent, delay=delay)
        part = min(most / one.loss(age) for age, most in limits if age >= delay)
        epsilon = 0.001 * _few_digits(part) / MILLION
        return Gradual(min(epsilon, LARGEST_BUDGET), exponent, delay=delay)

    return min(map(fitted, _EXPONENTS), key=lambda each: round(each.mse(horizon), 6))


def _with_fewer(caps: Caps) -> Caps:
    """Caps of which later ones allow more, and few: where limits are many, the tighter holds, and
    never in place of the last."""
    pairs = [*zip(caps.ages, caps.millionths, strict=True)]
    kept = [
        pair for at, pair in enumerate(pairs) if at + 1 == len(pairs) or pair[1] < pairs[at + 1][1]
    ]
    while len(kept) > MOST_REGIONS:  # the one that the next one is nearest to
        ratios = [kept[at + 1][1] / max(1, kept[at][1]) for at in range(len(kept) - 2)]
        at = ratios.index(min(ratios))
        kept[at : at + 2] = [(kept[at + 1][0], kept[at][1])]
    return Caps(ages=tuple(age for age, _ in kept), millionths=tuple(most for _, most in kept))


def _options(shift: int, caps: Caps) -> Iterator[tuple[int, int]]:
    """Lags at which a length may be published, each with the first cap that it counts against."""
    begins = [0, *(age for age in caps.ages[:-1] if age is not None)]
    lags = [max(0, begin - shift) for begin in begins]
    for region, lag in enumerate(lags):
        if caps.millionths[region] and lag not in lags[region + 1 :]:
            yield lag, region


Step = tuple[int, int]
"""A length (its place among all) and a region: one of its stages."""


def _chains(
    lengths: Sequence[int], options: Sequence[dict[int, int]], regions: int
) -> Iterator[tuple[Step, ...]]:
    """All lists of steps in which later regions have longer lengths: a region begins with the last
    length of the one before, published again, or with the next one. Each length is published first
    at once, or before twice its own length has passed."""

    def first(at: int, region: int) -> bool:
        return options[at][region] < 2 * lengths[at] or region == min(options[at])

    def go(region: int, last: int, steps: tuple[Step, ...]) -> Iterator[tuple[Step, ...]]:
        if region == regions:
            if last == len(lengths) - 1:
                yield steps
            return
        yield from go(region + 1, last, steps)
        for begin in (last, last + 1):
            for end in range(max(begin, 0), len(lengths)):
                own = range(begin, end + 1)
                if begin >= 0 and all(
                    region in options[at] and (at == last or first(at, region)) for at in own
                ):
                    yield from go(region + 1, end, (*steps, *((at, region) for at in own)))

    yield from go(0, -1, ())


class _Problem:
    """Budgets for several chains at once."""

    def __init__(
        self,
        lengths: Sequence[int],
        options: Sequence[dict[int, int]],
        caps: Caps,
        chains: Sequence[tuple[Step, ...]],
        day: int,
    ) -> None:
        self._lengths, self._options, self._caps = lengths, options, caps
        self._chains = [sorted(each) for each in chains]
        shape = (len(chains), max(map(len, chains)))
        self._regions = np.zeros(shape, dtype=np.int64)
        self._level = np.full(shape, -1)
        self._shown = np.zeros((*shape, 2 * len(lengths) + 1))
        """How often the noise of a step is in each thing that people read."""
        for row, steps in enumerate(self._chains):
            today = self._today(steps, day)
            for column, (at, region) in enumerate(steps):
                self._level[row, column], self._regions[row, column] = at, region
                own = [each for level, each in steps if level == at]
                counted = today.get((at, region), 0.0)
                now = counted > 0 and region == steps[0][1]  # read as a part of so far today
                last = region == own[-1] and not (now and at == 0)
                self._shown[row, column, 2 * at] = last
                self._shown[row, column, 2 * at + 1] = region == own[0] and not (now or last)
                self._shown[row, column, -1] = counted

    def _today(self, steps: Sequence[Step], day: int) -> dict[Step, float]:
        """How many figures of each step are added up for so far today, on average over the day:
        the largest first, each at its latest stage. None where no length is below a day."""
        counts: dict[Step, float] = {}
        moments = np.unique(np.linspace(1, day, min(day, _MOMENTS)).astype(np.int64))
        reached = np.zeros_like(moments)
        for at, region in reversed(steps):  # of a length, the latest stage reaches least far
            length, lag = self._lengths[at], self._options[at][region]
            if length < day:
                frontier = np.maximum(moments - lag, 0) // length * length
                frontier = np.maximum(reached, frontier)
                counts[at, region] = float(np.mean((frontier - reached) // length))
                reached = frontier
        return counts

    def best(self, shifts: Sequence[int]) -> Blocks:
        """The blocks of the chain whose figures have the least geometric mean of variances."""
        caps = np.array(self._caps.millionths, dtype=np.float64) / MILLION
        live = np.flatnonzero(caps)
        caps, counts = caps[live], np.tri(len(caps))[live]
        rows = np.arange(len(self._chains))
        weights, means = (self._level >= 0).astype(np.float64), np.full(len(rows), np.inf)
        for number in range(_ROUNDS):
            level, shown = self._level[rows], self._shown[rows]
            used, same = level >= 0, level[:, :, None] == level[:, None, :]
            later = np.zeros_like(used)
            later[:, 1:] = used[:, 1:] & (level[:, 1:] == level[:, :-1])
            found = best_budgets(weights, self._regions[rows], later, counts, caps).increments
            whole = (same & np.tri(level.shape[1], dtype=np.bool_)) @ found[:, :, None]
            noise = np.where(used, variance(np.maximum(whole[:, :, 0], 1e-9)), 0.0)
            read = np.maximum(np.einsum("rs,rsi->ri", noise, shown), 1e-300)
            there = read > 1e-300
            logs = np.log(np.where(there, read, 1.0)).sum(axis=1)
            previous, means = means, logs / there.sum(axis=1)
            best = np.argsort(np.round(means, 6), kind="stable")
            if number == _ROUNDS - 1 or np.all(np.abs(means - previous) < _SETTLED):
                break
            wanted = np.einsum("rsi,ri->rs", shown, 1.0 / read)
            weights = np.maximum(wanted, _BETWEEN / np.maximum(noise, 1e-300)) * used
            if number == _ALL_ROUNDS:
                best = best[:_KEPT]
                rows, weights, means = rows[best], weights[best], means[best]
        made = (self._blocks(self._chains[rows[row]], found[row]) for row in best.tolist())
        return next(each for each in made if each is not None and self._caps.kept_by(each, shifts))

    def _blocks(self, steps: Sequence[Step], increments: Vector) -> Blocks | None:
        """The mechanism of a chain, with budgets of few digits in millionths. A stage that would
        hardly be sharper is left out. What is left of a region's cap goes to its largest step."""
        spent: dict[Step, int] = {}
        whole = dict.fromkeys(range(len(self._lengths)), 0)
        for step, each in zip(steps, increments.tolist(), strict=False):
            more = max(1, _few_digits(each * MILLION))
            if whole[step[0]] + more > whole[step[0]] * _SHARPER:
                spent[step] = more
                whole[step[0]] += more
        for region in sorted({region for _, region in spent}):
            own = [step for step in spent if step[1] == region]
            left = min(
                most - sum(each for (_, begin), each in spent.items() if begin <= at)
                for at, most in enumerate(self._caps.millionths)
                if at >= region
            )
            largest = max(own, key=spent.__getitem__)
            spent[largest] += left
            if spent[largest] < 1:
                return None
        stages: dict[int, list[tuple[int, int]]] = {at: [] for at in whole}
        for (at, region), each in spent.items():
            before = stages[at][-1][1] if stages[at] else 0
            stages[at].append((self._options[at][region], before + each))
        return Blocks(*(Level.of_stages(self._lengths[at], each) for at, each in stages.items()))


def _few_digits(number: float) -> int:
    """A number with few digits, rounded down."""
    whole = math.floor(number * _NEAR)
    unit: int = 10 ** max(0, len(str(whole)) - _DIGITS)
    return whole // unit * unit
