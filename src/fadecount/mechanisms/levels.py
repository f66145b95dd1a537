"""Levels: blocks of one length, their lags, budgets and stages. What block counters and totals from
tied blocks have in common.

Budgets are exact decimals, held as integers in millionths: sums are exact, and a loss is the
decimal that a person would write.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from typing import Any, NamedTuple, Self

from fadecount.calendar import Calendar, Length
from fadecount.checks import (
    LARGEST_BUDGET,
    LONGEST,
    planned_tick,
    require_integer,
    require_real,
    set_fields,
)
from fadecount.errors import bad_parameter
from fadecount.mechanisms.base import Mechanism, require_sensitivity

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


class NestedLevels(Mechanism):
    """A mechanism of nested blocks: lengths strictly increase, each a multiple of the one below.
    For a live total, lags are ordered too (:meth:`require_ordered_lags`)."""

    __slots__ = ()
    levels: tuple[Level, ...]

    def __init__(self, *levels: Level, planned_tick_seconds: int | None = None) -> None:
        _check_levels(levels)
        set_fields(self, levels=levels, planned_tick_seconds=planned_tick(planned_tick_seconds))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(repr, self.levels))})"

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
        are smaller by a relative 2**-46
        (:func:`fadecount.mechanisms.noise_distribution.scale_of`)."""
        return millionths / MILLION

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

    def require_ordered_lags(self) -> None:
        """Refuse levels that have no live total: those of which a larger one is published before
        the last stage of a smaller one. Their figures, and sums of these, are fine."""
        for number, (below, level) in enumerate(pairwise(self.levels), start=1):
            last = below.stages[-1].lag
            if level.lag < last:
                bound = f"at least {last}, the last lag of the level below, for a live total"
                remedy = "lags must not fall with the length; or publish figures only"
                raise bad_parameter(f"levels[{number}] lag", level.lag, bound, remedy)

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
    """Refuse levels that do not nest."""
    example = "such as Level(1, 0.5)"
    if not 1 <= len(levels) <= MOST_LEVELS:
        raise bad_parameter("levels", len(levels), f"1 to {MOST_LEVELS} levels", example)
    for number, level in enumerate(levels):
        if not isinstance(level, Level):
            raise bad_parameter(f"levels[{number}]", level, "a fadecount.Level", example)
    for number, (below, level) in enumerate(pairwise(levels), start=1):
        if level.length <= below.length or level.length % below.length:
            bound = f"a larger multiple of {below.length}, the length of the level below"
            remedy = "blocks must nest; a level that sharpens is one level with later stages"
            raise bad_parameter(f"levels[{number}] length", level.length, bound, remedy)


def mean_frontier(length: int, lag: int, horizon: int) -> Fraction:
    """The mean over the steps ``1 .. horizon`` of the end of the last block that is published."""
    whole, rest = divmod(max(0, horizon - lag), length)
    return Fraction(length * (length * whole * (whole - 1) // 2 + whole * (rest + 1)), horizon)


def cover_weights(levels: Sequence[Level], horizon: int) -> list[list[float]]:
    """How many blocks of each level and stage cover the steps so far, on average over the steps
    ``1 .. horizon``: the largest first, each at its latest stage."""
    result = [[0.0] * len(level.stages) for level in levels]
    reached = Fraction(0)
    for number, level in reversed(list(enumerate(levels))):
        for stage in reversed(range(len(level.stages))):
            frontier = mean_frontier(level.length, level.stages[stage].lag, horizon)
            result[number][stage] += float((frontier - reached) / level.length)
            reached = frontier
    return result
