"""From a promise and a request to block counters and totals: lengths, lags, stages and budgets.

Lags are the targets' ages plus one: no others help, since a figure may as well appear as early as
the promise allows (docs/theory.md). What is spent in the region between two targets counts against
all later targets. Chains of lengths and their budgets come from :mod:`fadecount.planning.chains`.

The promise does not depend on the search: budgets are integers in millionths, and the finished
mechanism is checked against every limit (:meth:`fadecount.planning.request.Request.kept_by`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from operator import attrgetter
from typing import TypeVar

import numpy as np

from fadecount.calendar import Length
from fadecount.checks import LARGEST_BUDGET
from fadecount.durations import UNITS
from fadecount.mechanisms.blocks import Blocks
from fadecount.mechanisms.levels import MILLION, Level
from fadecount.mechanisms.totals import Totals
from fadecount.planning.budgets import Vector
from fadecount.planning.chains import Chain, Graph, Search, Step
from fadecount.planning.request import Request

_HOUR, _DAY, _MONTH = UNITS["h"], UNITS["d"], UNITS["mo"]
_READ = (
    (1, (1, 2, 3, 4, 5, 6, 10, 12, 15, 20, 30)),
    (60, (1, 2, 3, 4, 5, 6, 10, 12, 15, 20, 30)),
    (_HOUR, (1, 2, 3, 4, 6, 8, 12)),
    (_DAY, (1,)),
    (_MONTH, (1, 2, 3, 4, 6, 12, 24, 48, 120, 240, 480, 1200)),
)
"""Lengths that people read, as seconds and how many of them."""

READABLE = {_HOUR: 3.0, _DAY: 5.0, _MONTH: 3.0}
DAYS = {_HOUR: 10.0, _DAY: 40.0, _MONTH: 3.0}
"""Weights of the noise of figures, by their length in seconds, beside that of the live total: for
hours and days that can be read and a total within a few per cent of the best, and for days."""

_MOST_LENGTHS = 48
_MOST_LAGS = 12
"""How many lengths and lags a search looks at, so that it takes a moment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockRequest:
    """What is requested of a block counter, in steps.

    ``lengths`` are allowed for levels, and the smallest one is a level in any case; ``figures``
    maps lengths to the weights of their figures' noise beside the total's; lengths ``kept`` are
    levels in any case. ``most_lags`` says how many lags the search looks at.
    """

    lengths: tuple[int, ...]
    figures: Mapping[int, float] = field(default_factory=dict)
    kept: tuple[int, ...] = ()
    most_lags: int = _MOST_LAGS


def block_request_for(request: Request, shortest: int = 1) -> BlockRequest:
    """The blocks that a request asks for, multiples of the ``shortest``; by default, for a total
    with readable hours and days, which become levels, if the tick is a part of them, and else for
    the total alone. With a tick, lengths are those of the calendar, so that a stream can publish
    the levels. Distinct persons do not add up: a level that is longer than their slot would spend
    the loss on nothing."""
    horizon, tick = request.horizon, request.tick_seconds
    kept: list[int] = []
    if request.figures is None:
        figures = in_steps(READABLE, tick, horizon)
        kept = [*in_steps({_HOUR: 1.0, _DAY: 1.0}, tick, horizon)]
    else:
        figures = dict(request.figures)
    if tick is not None:
        lengths = {*calendar_lengths(tick, horizon, figures)}
    else:
        lengths = {*plain_lengths(horizon), *figures}
        least = min(figures, default=1)
        lengths.update(each for each in range(1, min(least, 1 << 16)) if least % each == 0)
        lengths.update(least * each for each in plain_lengths(max(1, horizon // least)))
    most = request.longest_figure
    lengths = {each for each in lengths if each <= most and each % shortest == 0}
    return BlockRequest(
        lengths=tuple(sorted(lengths)),
        figures={each: weight for each, weight in figures.items() if each <= most},
        kept=tuple(each for each in kept if each <= most),
    )


def in_steps(
    figures: Mapping[int, float], tick_seconds: int | None, horizon: int
) -> dict[int, float]:
    """Figures by their length in steps, of those by seconds that are longer than a tick and at most
    half the horizon."""
    return {
        seconds // tick_seconds: weight
        for seconds, weight in figures.items()
        if tick_seconds is not None
        and seconds % tick_seconds == 0
        and tick_seconds < seconds <= horizon * tick_seconds / 2
    }


def calendar_lengths(tick_seconds: int, horizon: int, figures: Iterable[int] = ()) -> list[int]:
    """The lengths in ticks that people read, and those of figures, as far as the calendar of a
    stream has them."""
    read = (unit * count for unit, counts in _READ for count in counts)
    ticks = {each // tick_seconds for each in read if each % tick_seconds == 0}
    return sorted(
        each
        for each in {1, *ticks, *figures}
        if 1 <= each <= horizon and Length.of_ticks(each, tick_seconds)
    )


def plain_lengths(horizon: int) -> list[int]:
    """Powers of 2 and three times them, or fewer if the horizon is very long."""
    powers = [1 << power for power in range(horizon.bit_length())]
    both = sorted({*powers, *(3 * each for each in powers if 3 * each <= horizon)})
    return next(
        each
        for each in (both, powers, powers[::2])
        if len(each) <= _MOST_LENGTHS or each[1:2] == [4]
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Regions:
    """The lags at which levels may be published, and by which ages (steps) how many millionths may
    be spent: everything with a lag up to an age counts against its cap."""

    lags: tuple[int, ...]
    ages: tuple[int, ...]
    caps: tuple[int, ...]

    @classmethod
    def of(cls, request: Request) -> Regions:
        """The regions between the limits of a request. Losses are the decimals that people write;
        what one event may lose is a person's limit by the number of times that it counts."""
        limits, times = request.limits(), request.unit.sensitivity
        most = int(LARGEST_BUDGET) * MILLION
        return cls(
            lags=(request.delay, *(age + 1 for age, _ in limits[:-1])),
            ages=tuple(age for age, _ in limits),
            caps=tuple(
                min(math.floor(Fraction(repr(loss)) * MILLION / times), most) for _, loss in limits
            ),
        )

    def with_fewer(self, most: int) -> Regions:
        """The same caps with at most so many lags, the first one and others about evenly spaced in
        their logarithms."""
        if len(self.lags) <= most:
            return self
        spaced = np.geomspace(self.lags[1], self.lags[-1], most - 1)
        nearest = np.abs(np.log(self.lags[1:]) - np.log(spaced)[:, None]).argmin(axis=1) + 1
        kept = sorted({0, *nearest.tolist()})
        return replace(self, lags=tuple(self.lags[at] for at in kept))

    @property
    def counts(self) -> Vector:
        """Whether (1 or 0) spending with a lag (column) counts against a cap (row)."""
        return np.less_equal.outer(self.lags, self.ages).T.astype(np.float64)

    def whole(self, increments: Sequence[float], regions: Sequence[int]) -> list[int]:
        """Increments in millionths, rounded down; what is left of the caps goes to the largest step
        of each region, the first region first. Guarantees: all caps are kept, in exact integers."""
        whole = [math.floor(each * MILLION) for each in increments]
        for region in sorted(set(regions)):
            left = min(
                cap - sum(e for at, e in zip(regions, whole, strict=True) if self.lags[at] <= age)
                for age, cap in zip(self.ages, self.caps, strict=True)
                if self.lags[region] <= age
            )
            own = [at for at, each in enumerate(regions) if each == region]
            whole[max(own, key=whole.__getitem__)] += left
        return whole


def blocks_for(request: Request, block_request: BlockRequest) -> Blocks | None:
    """The block counter with the least error that the search finds for what is requested, at or
    below all limits in exact arithmetic; None if budgets of a millionth are too large for them."""
    found = _best(request, block_request, Blocks)
    return found or _best(request, replace(block_request, figures={}, kept=()), Blocks)


def totals_for(request: Request, block_request: BlockRequest | None = None) -> Totals | None:
    """The same for totals from tied blocks, by default of any lengths."""
    anything = BlockRequest(lengths=tuple(plain_lengths(request.horizon)))
    return _best(request, block_request or anything, Totals)


Kind = TypeVar("Kind", Blocks, Totals)


def _best(request: Request, block_request: BlockRequest, kind: type[Kind]) -> Kind | None:
    """The first of the mechanisms that the search tried, best first, that keeps all limits."""
    every = Regions.of(request)
    if min(every.caps) < 1:
        return None
    regions = every.with_fewer(block_request.most_lags)
    seeds: list[Chain] = [(Step(min(block_request.lengths), 0),)]
    for tied in (False, True)[: 1 + (kind is Totals)]:  # the best chain without ties is a seed
        graph = Graph(
            block_request.lengths,
            regions.lags,
            request.horizon,
            tied=tied,
            figures=block_request.figures,
            kept=block_request.kept,
        )
        search = Search(graph, regions.counts, np.array(regions.caps) / MILLION)
        seeds.append(graph.chain(search.run(seeds).path))
    for each in sorted(search.known.values(), key=attrgetter("error")):
        chain = graph.chain(each.path)
        spent = regions.whole(each.increments.tolist(), [step.region for step in chain])
        if all(more > 0 or step.later for step, more in zip(chain, spent, strict=True)):
            mechanism = kind(*_levels(chain, spent, regions.lags))
            if request.kept_by(mechanism):
                return mechanism
    return None


def _levels(chain: Chain, spent: list[int], lags: tuple[int, ...]) -> list[Level]:
    """The levels of a chain with increments in millionths; a stage that would be no sharper than
    the one before is left out."""
    stages: dict[int, list[tuple[int, int]]] = {}
    for step, increment in zip(chain, spent, strict=True):
        before = stages.setdefault(step.length, [])
        if increment:
            before.append((lags[step.region], increment + (before[-1][1] if before else 0)))
    return [Level.of_stages(length, pairs) for length, pairs in stages.items()]
