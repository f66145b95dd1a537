"""Block counters: counts of nested blocks, each published a public lag after its block's end.

Level ``l`` cuts the steps into blocks of one length: block ``k`` holds the steps ``(k - 1) * length
+ 1 .. k * length``. Every step is in exactly one block of each level. A block's count is published
once, with a discrete Laplace noise of its own, ``lag`` steps after its end; *later stages* publish
it again with less noise. The noises of the stages of one block form a chain (see
:mod:`fadecount.noise.chain`): everything up to a stage reveals as much as that stage alone.

Loss. An event is in one block of each level, and the figures of other blocks do not depend on it.
So everything published up to age ``d`` loses at most the sum over the levels of the budget of the
last stage with a lag of at most ``d``. An event at the end of a block of every level attains it.

Budgets are exact decimals, held as integers in millionths: sums are exact, and a loss is the
decimal that a person would write. Proofs: docs/blocks.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fadecount.calendar import Calendar, Length
from fadecount.checks import (
    LARGEST_BUDGET,
    LONGEST,
    planned_tick,
    require_beta,
    require_horizon,
    require_integer,
    require_real,
    set_fields,
    shaped,
)
from fadecount.errors import bad_parameter
from fadecount.mechanisms.base import (
    Mechanism,
    require_sensitivity,
    require_step,
    require_window,
)
from fadecount.mechanisms.noise_law import quantile, variance_of
from fadecount.mechanisms.views import View, views_of

MILLION = 1_000_000
MOST_LEVELS = 64


class Stage(NamedTuple):
    """One publication of a block's count: how long after the block's end, and its whole budget."""

    lag: int
    millionths: int

    @property
    def epsilon(self) -> float:
        """The budget as the float64 number nearest to the decimal."""
        return self.millionths / MILLION


@dataclass(frozen=True, slots=True)
class Level:
    """Blocks of ``length`` steps, published ``lag`` steps after their end with the budget
    ``epsilon``.

    ``later`` are further stages: pairs of a lag and the whole budget from then on, both growing.

    >>> Level(1440, 0.91, lag=61, later=((43201, 2.9),)).stages
    (Stage(lag=61, millionths=910000), Stage(lag=43201, millionths=2900000))
    """

    length: int
    epsilon: float
    lag: int = 0
    later: tuple[tuple[int, float], ...] = ()
    stages: tuple[Stage, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        remedy = "it is a number of steps"
        length = require_integer("length", self.length, minimum=1, maximum=LONGEST, remedy=remedy)
        try:
            later = [(f"later[{at}] ", lag, budget) for at, (lag, budget) in enumerate(self.later)]
        except (TypeError, ValueError):
            remedy = "such as ((43201, 2.0),)"
            raise bad_parameter(
                "later", self.later, "pairs of a lag and a budget", remedy
            ) from None
        stages = stages_of([("", self.lag, self.epsilon), *later])
        set_fields(
            self,
            length=length,
            epsilon=stages[0].epsilon,
            lag=stages[0].lag,
            later=tuple((stage.lag, stage.epsilon) for stage in stages[1:]),
            stages=stages,
        )

    def status(self, stage: int) -> str:
        """What a figure at a stage is called: the last one is final, also if it is the only one,
        the first one provisional, others revised."""
        return "final" if stage == len(self.stages) - 1 else "revised" if stage else "provisional"

    def spent(self, since: int) -> int:
        """The budget in millionths of the last stage with a lag of at most so many steps; 0 if
        there is none."""
        return max((stage.millionths for stage in self.stages if stage.lag <= since), default=0)

    def name(self, tick_seconds: int | None) -> str:
        """The length as people say it, such as ``1d``, if the calendar has it; else in steps."""
        length = Length.of_ticks(self.length, tick_seconds) if tick_seconds else None
        if length:
            return length.name
        return f"{self.length:,} step" + ("" if self.length == 1 else "s")

    @classmethod
    def of_stages(cls, length: int, stages: Sequence[tuple[int, int]]) -> Level:
        """The level with these stages: pairs of a lag and a whole budget in millionths."""
        (lag, first), *rest = [(lag, Fraction(budget, MILLION)) for lag, budget in stages]
        return cls(length, first, lag=lag, later=tuple(rest))  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Blocks(Mechanism):
    """Nested blocks of several lengths, each published a lag after its end; the live total is a
    sum over the largest that are out.

    Lengths strictly increase and nest; lags do not fall with the length; the lag of a level's last
    stage is at most that of the next level. ``loss`` is exact, at every age, position and for ever
    bounded by the sum of the last budgets. Proof: docs/blocks.md. Test:
    tests/mechanisms/test_blocks.py.

    >>> import fadecount as fc
    >>> hours, days = fc.Level(60, 0.59, lag=61), fc.Level(1440, 0.91, lag=61)
    >>> blocks = fc.Blocks(fc.Level(1, 0.22), fc.Level(10, 0.28), hours, days)
    >>> blocks.loss(60), blocks.loss(61), blocks.loss(10**6)
    (0.5, 2.0, 2.0)
    """

    levels: tuple[Level, ...]
    planned_tick_seconds: int | None = field(compare=False)
    kind: ClassVar[str] = "blocks"

    def __init__(self, *levels: Level, planned_tick_seconds: int | None = None) -> None:
        _check_levels(levels)
        set_fields(self, levels=levels, planned_tick_seconds=planned_tick(planned_tick_seconds))

    def __repr__(self) -> str:
        return f"Blocks({', '.join(map(repr, self.levels))})"

    # Privacy
    # --------------------------------------------------------------------------------------------
    def _exact(self, age: int, position: int | None) -> int:
        """In millionths. An event loses the budget of the last stage of each level that is out for
        its block; the worst one ends a block of every level."""
        if position is None:
            return sum(level.spent(age) for level in self.levels)
        now = position + age
        ends = (-(-position // level.length) * level.length for level in self.levels)
        return sum(level.spent(now - end) for level, end in zip(self.levels, ends, strict=True))

    @staticmethod
    def _as_loss(millionths: int) -> float:
        """The float64 number nearest to the decimal. The noise that runs loses less: its budgets
        are smaller by a relative 2**-46 (:func:`fadecount.mechanisms.noise_law.scale_of`)."""
        return millionths / MILLION

    def loss_steps(self, tick_seconds: int | None = None) -> list[tuple[int, str]]:
        """The ages at which the loss grows, each with what is published then; lengths are those of
        the calendar, or numbers of steps.

        >>> import fadecount as fc
        >>> days = fc.Level(1440, 0.91, lag=61, later=((43201, 2.9),))
        >>> blocks = fc.Blocks(fc.Level(1, 0.22), fc.Level(40, 0.59, lag=61), days)
        >>> blocks.loss_steps(tick_seconds=60)[1:]
        [(61, 'figures per 40m, 1d (provisional)'), (43201, 'figures per 1d (final)')]
        """
        causes: dict[int, list[str]] = {}
        for level in self.levels:
            for number, stage in enumerate(level.stages):
                status = f" ({level.status(number)})" if level.later else ""
                causes.setdefault(stage.lag, []).append(f"{level.name(tick_seconds)}{status}")
        return [(lag, f"figures per {', '.join(names)}") for lag, names in sorted(causes.items())]

    def for_sensitivity(self, sensitivity: int) -> Self:
        """The same promise for a unit that can change the counts of a step by up to
        ``sensitivity``: all budgets divided by it, rounded down to millionths.

        >>> import fadecount as fc
        >>> fc.Blocks(fc.Level(1, 1.0)).for_sensitivity(3)
        Blocks(Level(length=1, epsilon=0.333333, lag=0, later=()))
        """
        return self.scaled(Fraction(1, require_sensitivity(sensitivity)))

    def scaled(self, factor: float | Fraction) -> Self:
        """The same levels with all budgets multiplied by a factor and rounded down to millionths,
        exactly."""
        levels = [
            Level.of_stages(
                level.length,
                [(lag, math.floor(budget * Fraction(factor))) for lag, budget in level.stages],
            )
            for level in self.levels
        ]
        return type(self)(*levels, planned_tick_seconds=self.planned_tick_seconds)

    # Structure
    # --------------------------------------------------------------------------------------------
    @property
    def delay(self) -> int:
        """The lag of the smallest level: by how many steps the live total is late."""
        return self.levels[0].lag

    @property
    def lengths(self) -> tuple[int, ...]:
        """The lengths of the levels in steps."""
        return tuple(level.length for level in self.levels)

    @property
    def calendar(self) -> Calendar:
        """The blocks of a stream that begins with one of each level and cuts none short."""
        return Calendar(self.lengths)

    def stage(self, level: int, stage: int = 0) -> Stage:
        """The lag and budget of one stage of a level; both are numbered from 0."""
        remedy = "levels are numbered from 0, the smallest"
        number = require_integer(
            "level", level, minimum=0, maximum=len(self.levels) - 1, remedy=remedy
        )
        stages = self.levels[number].stages
        remedy = "stages are numbered from 0, the first"
        return stages[
            require_integer("stage", stage, minimum=0, maximum=len(stages) - 1, remedy=remedy)
        ]

    # Error
    # --------------------------------------------------------------------------------------------
    def figure_variance(self, level: int, stage: int = 0) -> float:
        """The variance of the noise in the figures of a level at one of its stages."""
        return variance_of(self.stage(level, stage).epsilon)

    def variance(self, step: ArrayLike) -> float | NDArray[np.float64]:
        """The variance of the noise in the live total after a step; scalar or array."""
        steps = require_step(step)
        at = np.ravel(steps)
        variances = views_of(self, 0, at, at, calendar=self.calendar).variances()
        return shaped(variances.reshape(np.shape(steps)), steps)

    def weights(self, horizon: int) -> tuple[tuple[float, ...], ...]:
        """For each level and stage the weight of the variance of its figures in :meth:`mse`.

        It is how many of them the live total adds up on average over the steps ``1 .. horizon``.
        """
        horizon = require_horizon(horizon)
        result = [[0.0] * len(level.stages) for level in self.levels]
        reached = Fraction(0)
        for level, each in reversed(list(enumerate(self.levels))):
            for stage in reversed(range(len(each.stages))):
                frontier = mean_frontier(each.length, each.stages[stage].lag, horizon)
                result[level][stage] += float((frontier - reached) / each.length)
                reached = frontier
        return tuple(map(tuple, result))

    def mse(self, horizon: int, *, continuous: bool = False) -> float:
        """The mean squared error of the live total over the steps ``1 .. horizon``, in closed form
        (the bias of what is not published yet is not in it); see :meth:`Mechanism.mse`."""
        return math.fsum(
            weight * variance_of(stage.epsilon, continuous=continuous)
            for level, weights in zip(self.levels, self.weights(horizon), strict=True)
            for stage, weight in zip(level.stages, weights, strict=True)
        )

    # Views
    # --------------------------------------------------------------------------------------------
    def view(
        self,
        start: int,
        end: int,
        *,
        as_of: int | None = None,
    ) -> View:
        """How to count the steps ``start + 1 .. end`` from what is public after step ``as_of``
        (``end`` if left out): which figures to add, and the noise in the result. The live total
        after step ``t`` is ``view(0, t)``. Where figures of the last steps are not public yet, the
        view is ``partial``: it counts up to the step ``reached``.

        >>> import fadecount as fc
        >>> blocks = fc.Blocks(fc.Level(1, 0.5), fc.Level(4, 0.5, lag=2))
        >>> [(run.level, int(run.blocks[0])) for run in blocks.view(0, 9).views.runs]
        [(0, 5), (1, 1)]
        >>> [(run.level, int(run.blocks[0])) for run in blocks.view(0, 9, as_of=10).views.runs]
        [(0, 1), (1, 2)]
        """
        first, last = require_window(start, end)
        remedy = "it is the last step of which everything published is known"
        now = last if as_of is None else as_of
        now = require_integer("as_of", now, minimum=1, maximum=LONGEST, remedy=remedy)
        if (before := self.calendar.frontier(0, first)) != first:
            bound = "the end of a block of the smallest level"
            raise bad_parameter("start", start, bound, f"such as {before}")
        return View(views_of(self, first, last, now, calendar=self.calendar))

    def window_variance(self, start: int, end: int, *, as_of: int | None = None) -> float:
        """The variance of the noise in the count of the steps ``start + 1 .. end``, from what is
        public after step ``as_of`` (``end`` if left out). A window of which a part is not public is
        refused."""
        return self._whole(start, end, as_of).variance()

    def window_interval(
        self, start: int, end: int, beta: float = 0.05, *, as_of: int | None = None
    ) -> int:
        """How far the count of a window may be from the true one at most, except with probability
        ``beta``; see :meth:`view`. Exact, and it costs no privacy. A window of which a part is not
        public is refused."""
        return self._whole(start, end, as_of).half_width(require_beta(beta))

    def _whole(self, start: int, end: int, as_of: int | None) -> View:
        view = self.view(start, end, as_of=as_of)
        if view.partial:
            bound = f"at most {view.reached}, up to which figures are public"
            raise bad_parameter(
                "end", end, bound, "ask as_of a later step, or view() for that part"
            )
        return view

    def error_bound(self, step: int, beta: float) -> int:
        """A bound on the noise in the live total after a step, of all that is public by then; see
        :meth:`Mechanism.error_bound`."""
        return self.view(0, int(require_step(step))).half_width(require_beta(beta))

    def figure_interval(self, level: int, stage: int = 0, beta: float = 0.05) -> int:
        """How far a figure may be from the true count at most, except with probability
        ``beta``."""
        noise = ((Fraction(1), self.stage(level, stage).epsilon, 1),)
        return int(quantile(noise, require_beta(beta)))

    @classmethod
    def _from_fields(cls, fields: dict[str, Any]) -> Self:
        levels = fields.pop("levels")[: MOST_LEVELS + 1]
        return cls(*(Level(**each) for each in levels), **fields)


def stages_of(values: Iterable[tuple[str, Any, Any]]) -> tuple[Stage, ...]:
    """Checked stages: each a prefix of its parameters' names, a lag and a whole budget, both
    growing."""
    stages: list[Stage] = []
    for name, lag, epsilon in values:
        stage = Stage(_lag(f"{name}lag", lag), _millionths(f"{name}epsilon", epsilon))
        if stages and stage.lag <= stages[-1].lag:
            bound = f"above {stages[-1].lag}, the lag of the stage before"
            raise bad_parameter(f"{name}lag", lag, bound, "later stages are published later")
        if stages and stage.millionths <= stages[-1].millionths:
            bound = f"above {stages[-1].epsilon}, the whole budget of the stage before"
            raise bad_parameter(f"{name}epsilon", epsilon, bound, "a later stage must be sharper")
        stages.append(stage)
    return tuple(stages)


def _lag(name: str, value: Any) -> int:
    remedy = "it is how many steps after its block's end a figure is published"
    return require_integer(name, value, minimum=0, maximum=LONGEST, remedy=remedy)


def _millionths(name: str, value: Any) -> int:
    """A budget as an exact number of millionths, or a :class:`ParameterError`."""
    if isinstance(value, Fraction | Decimal | int) and not isinstance(value, bool):
        try:
            exact = Fraction(value)
        except (ValueError, OverflowError):  # no number, or none that is finite
            exact = Fraction(0)
    else:
        remedy = "a smaller budget is more private and noisier"
        real = require_real(name, value, low=0.0, high=LARGEST_BUDGET, remedy=remedy)
        exact = Fraction(repr(real))
    if not Fraction(1, MILLION) <= exact <= int(LARGEST_BUDGET):
        bound = f"between 0.000001 and {LARGEST_BUDGET:.0f}"
        raise bad_parameter(name, value, bound, "a smaller budget is more private and noisier")
    if (exact * MILLION).denominator != 1:
        lower = math.floor(exact * MILLION) / MILLION
        raise bad_parameter(
            name, value, "a multiple of 0.000001", f"round it down to keep a promise, to {lower}"
        )
    return int(exact * MILLION)


def _check_levels(levels: tuple[Level, ...]) -> None:
    """Refuse levels that do not nest, or are published in the wrong order."""
    example = "such as Level(1, 0.5)"
    if not 1 <= len(levels) <= MOST_LEVELS:
        raise bad_parameter("levels", len(levels), f"1 to {MOST_LEVELS} levels", example)
    for number, level in enumerate(levels):
        if not isinstance(level, Level):
            raise bad_parameter(f"levels[{number}]", level, "a fadecount.Level", example)
    for number, (below, level) in enumerate(pairwise(levels), start=1):
        last = below.stages[-1].lag
        for wrong, name, bound, remedy in (
            (
                level.length <= below.length or level.length % below.length,
                "length",
                f"a larger multiple of {below.length}, the length of the level below",
                "blocks must nest; a level that sharpens is one level with later stages",
            ),
            (
                level.lag < below.lag,
                "lag",
                f"at least {below.lag}, the lag of the level below",
                "lags must not fall with the length",
            ),
            (
                level.lag < last,
                "lag",
                f"at least {last}, the last lag of the level below",
                "move the later stage of the level below, or drop it",
            ),
        ):
            if wrong:
                value = getattr(level, name)
                raise bad_parameter(f"levels[{number}] {name}", value, bound, remedy)


def mean_frontier(length: int, lag: int, horizon: int) -> Fraction:
    """The mean over the steps ``1 .. horizon`` of the end of the last block that is published."""
    whole, rest = divmod(max(0, horizon - lag), length)
    return Fraction(length * (length * whole * (whole - 1) // 2 + whole * (rest + 1)), horizon)


def mean_square_part(length: int, finest: int, lag: int, horizon: int) -> Fraction:
    """The mean over the steps ``1 .. horizon`` of the square of the part of the open block that is
    covered by blocks of the finest length of its group."""
    ratio = length // finest
    whole, rest = divmod(max(0, horizon - lag + 1), finest)
    groups, part = divmod(whole, ratio)
    squares = groups * _squares(ratio) + _squares(part)
    return Fraction(finest * squares + rest * part**2, ratio**2 * horizon)


def _squares(count: int) -> int:
    """The sum of the squares of ``0 .. count - 1``."""
    return (count - 1) * count * (2 * count - 1) // 6
