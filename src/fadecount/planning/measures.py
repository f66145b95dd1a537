"""The plan of one part of a publication: blocks of exactly the lengths that its measure shows.

Limits cut the age of a unit into regions. In later regions longer lengths are published: a region
begins with the last length of the one before, published again with less noise, or with the next
one. Of all such chains, and all budgets, the plan has the least geometric mean of the variances of
what people read: each length at its first and at its last stage; for the shortest, and for what
appears with it, so far today, if it is below a day. That is the least sum of the variances, each
weighted by one over itself, until the weights settle.

A block of a length ends ``shift`` ticks after the start of the unit's slot at the earliest
(:func:`fadecount.planning.promise.shifts_of`), so the unit is that much older when it is published.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from fadecount.checks import LARGEST_BUDGET, LONGEST
from fadecount.errors import bad_parameter
from fadecount.mechanisms.blocks import Blocks
from fadecount.mechanisms.levels import MILLION, Level
from fadecount.planning.budgets import Vector, best_budgets, variance
from fadecount.planning.publication import spent

MOST_REGIONS = 5
"""How many regions between limits a plan uses; further limits hold all the same."""
_ROUNDS = 40
_SETTLED = 1e-7
_BETWEEN = 1e-3
"""The weight of stages between the first and the last beside theirs."""
_SHARPER = 1.02
"""A later stage has at least so many times the budget of the one before, or is left out."""
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


def plan_lengths(
    lengths: Sequence[int], shifts: Sequence[int], caps: Caps, day: int, *, place: str
) -> Blocks:
    """The blocks with exactly these lengths (in ticks, shortest first) that are planned for reading
    under the caps. ``day`` is how many ticks a day has.

    >>> caps = Caps(ages=(2017, None), millionths=(2_000_000, 4_000_000))
    >>> plan_lengths([288], [0], caps, 288, place="visits")
    Blocks(Level(length=288, epsilon=2.0, lag=0, later=((2017, 4.0),)))
    """
    caps = _with_fewer(caps)
    options = [{region: lag for lag, region in _options(shift, caps)} for shift in shifts]
    if caps.millionths[-1] < 2 * len(lengths):
        bound = "large enough for noise that can be drawn"
        remedy = "allow a larger loss, a larger share, or fewer lengths"
        raise bad_parameter(f"share of {place}", caps.millionths[-1] / MILLION, bound, remedy)
    chains = [*_chains(lengths, options, len(caps.ages))]
    return _Problem(lengths, options, caps, chains, day).best(shifts)


def _with_fewer(caps: Caps) -> Caps:
    """Caps of which later ones allow more, and few: where limits are many, the tighter holds."""
    pairs = [*zip(caps.ages, caps.millionths, strict=True)]
    kept = [
        pair for at, pair in enumerate(pairs) if at + 1 == len(pairs) or pair[1] < pairs[at + 1][1]
    ]
    while len(kept) > MOST_REGIONS:  # the one that the next one is nearest to
        ratios = [kept[at + 1][1] / max(1, kept[at][1]) for at in range(len(kept) - 1)]
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
                live = lengths[at] < day  # read as a part of so far today
                first = region == own[0] and not (live and region == steps[0][1])
                self._shown[row, column, 2 * at] = region == own[-1] and not (live and at == 0)
                self._shown[row, column, 2 * at + 1] = first and len(own) > 1
                self._shown[row, column, -1] = today.get((at, region), 0.0)
        self._used = self._level >= 0
        self._later = np.zeros(shape, dtype=np.bool_)
        self._later[:, 1:] = self._used[:, 1:] & (self._level[:, 1:] == self._level[:, :-1])

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
        caps, counts = np.minimum(caps, LARGEST_BUDGET)[live], np.tri(len(caps))[live]
        weights, means = np.where(self._used, 1.0, 0.0), np.full(len(self._chains), np.inf)
        for _ in range(_ROUNDS):
            found = best_budgets(weights, self._regions, self._later, counts, caps)
            noise = np.where(
                self._used, variance(np.maximum(self._whole(found.increments), 1e-9)), 0
            )
            read = np.maximum(np.einsum("rs,rsi->ri", noise, self._shown), 1e-300)
            there = read > 1e-300
            logs = np.log(np.where(there, read, 1.0)).sum(axis=1)
            previous, means = means, logs / there.sum(axis=1)
            if np.all(np.abs(means - previous) < _SETTLED):
                break
            wanted = np.einsum("rsi,ri->rs", self._shown, 1.0 / read)
            weights = np.where(
                self._used, np.maximum(wanted, _BETWEEN / np.maximum(noise, 1e-300)), 0
            )
        for row in np.argsort(means, kind="stable").tolist():
            blocks = self._blocks(self._chains[row], found.increments[row])
            if blocks is not None and self._caps.kept_by(blocks, shifts):
                return blocks
        raise AssertionError("budgets that are rounded down keep every cap")

    def _whole(self, increments: Vector) -> Vector:
        """The whole budget of each step."""
        same = self._level[:, :, None] == self._level[:, None, :]
        earlier = same & np.tri(increments.shape[1], dtype=np.bool_)
        return np.asarray((earlier @ increments[:, :, None])[:, :, 0])

    def _blocks(self, steps: Sequence[Step], increments: Vector) -> Blocks | None:
        """The mechanism of a chain, with budgets in millionths, rounded down. A stage that would
        hardly be sharper is left out. What is left of a region's cap goes to its largest step."""
        spent: dict[Step, int] = {}
        whole = dict.fromkeys(range(len(self._lengths)), 0)
        for step, each in zip(steps, increments.tolist(), strict=False):
            more = math.floor(each * MILLION)
            if whole[step[0]] + more > whole[step[0]] * _SHARPER:
                spent[step] = more
                whole[step[0]] += more
        if not all(whole.values()):
            return None
        for region in sorted({region for _, region in spent}):
            own = [step for step in spent if step[1] == region]
            left = min(
                most - sum(each for (_, begin), each in spent.items() if begin <= at)
                for at, most in enumerate(self._caps.millionths)
                if at >= region
            )
            spent[max(own, key=spent.__getitem__)] += left
        stages: dict[int, list[tuple[int, int]]] = {at: [] for at in whole}
        for (at, region), each in spent.items():
            before = stages[at][-1][1] if stages[at] else 0
            stages[at].append((self._options[at][region], before + each))
        return Blocks(*(Level.of_stages(self._lengths[at], each) for at, each in stages.items()))
