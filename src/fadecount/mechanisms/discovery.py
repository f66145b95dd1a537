"""Discovery: keys that appear by themselves, from a public threshold on (partition selection).

Every key that somebody brought in a block has a chain of noisy counts ``y_1, .., y_n`` of its own,
as the stages of a level have (:mod:`fadecount.noise.chain`). At stage ``i`` the key is shown if
``y_i`` is at least the threshold of that stage, or if it was shown at a stage before. Nothing else
looks at a hidden key. Each person counts once under a key.

Loss. Under a key that others brought too, a person changes a count by 1, and what is shown is a
function of ``y_1, .., y_i``: a loss of ``epsilon_i``. Without a person who was alone under a key,
nothing is ever shown of it; with the person it is shown by stage ``i`` with the chance

    delta_i = Pr[1 + Z_k >= threshold_k for some k <= i],

``Z`` the noises of the chain. So a person with up to ``m`` keys in a block loses ``m epsilon_i``
at a delta of ``m delta_i``, and one who is alone under none of them has a delta of 0. Proof:
docs/theory.md.

The chance is computed as the noise is made. The sharpest value comes first. What is below its
threshold goes on to the next coarser value by the distribution of the difference, which is 0 with
probability ``w`` and else discrete Laplace: two one-sided recursive filters. What reaches that
threshold is moved aside, and so on. All terms are positive, so a sum is as exact as its terms: the
constants are rounded up, and the result is raised by more than all roundings. Values far below
the thresholds are moved up to the lowest that is kept, which only makes passing likelier.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from fractions import Fraction
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fadecount.checks import (
    require_delta,
    require_integer,
    require_real,
    require_whole,
    set_fields,
    shaped,
)
from fadecount.errors import ParameterError, bad_parameter
from fadecount.mechanisms.base import json_fields, json_line, require_keys
from fadecount.mechanisms.levels import MILLION, MOST_LEVELS, stages_of
from fadecount.mechanisms.noise_distribution import scale_of

LENGTHS = ("1d", "1mo")
"""The blocks in which keys can be discovered, as people say them."""
SMALLEST_EPSILON = 0.001
_LEFT = 20.0
"""How many scales below a count its values are kept: the rest moves a chance by a factor of at most
1 + exp(-40)."""


@dataclass(frozen=True)
class Discovery:
    """Keys that appear by themselves: each block's count of persons under a key is shown from a
    public threshold on, in stages.

    ``per`` is the length of the blocks, "1d" or "1mo". ``stages`` are pairs of a lag, in steps
    after the block's end, and the whole budget of one count from then on, both growing. ``delta``
    bounds the chance that anything of a person's block is shown under a key that this person
    alone brought, over all stages and all of at most ``keys`` keys of one person in one block.

    Guarantees: ``thresholds`` are certified; no rounding makes them too low. Test:
    tests/mechanisms/test_discovery.py.

    >>> import fadecount as fc
    >>> days = fc.Discovery("1d", ((1, 1.0), (31, 3.0)), 1e-9)
    >>> days.thresholds, days.min_count(probability=0.95, stage=0)
    ((22, 9), 24)
    >>> days.loss(0), days.loss(1), days.loss(31)
    (0.0, 1.0, 3.0)
    """

    per: str
    stages: tuple[tuple[int, float], ...]
    delta: float
    keys: int = 1

    def __post_init__(self) -> None:
        if self.per not in LENGTHS:
            bound = " or ".join(LENGTHS)
            raise bad_parameter("per", self.per, bound, "keys appear by the day or by the month")
        example = "such as ((1, 1.0), (31, 3.0))"
        try:
            pairs = [(lag, epsilon) for lag, epsilon in self.stages]
        except (TypeError, ValueError):
            pairs = []
        if not 1 <= len(pairs) <= MOST_LEVELS:
            bound = f"1 to {MOST_LEVELS} pairs of a lag and a budget"
            raise bad_parameter("stages", self.stages, bound, example)
        stages = stages_of([(f"stages[{at}] ", *pair) for at, pair in enumerate(pairs)])
        if stages[0].epsilon < SMALLEST_EPSILON:
            raise bad_parameter(
                "stages[0] epsilon",
                stages[0].epsilon,
                f"at least {SMALLEST_EPSILON}",
                "with less no key would appear; allow fewer keys per person, or a larger loss",
            )
        set_fields(
            self,
            stages=tuple((stage.lag, stage.epsilon) for stage in stages),
            delta=require_delta(self.delta),
            keys=require_keys(self.keys),
        )

    # What appears
    # --------------------------------------------------------------------------------------------
    @property
    def scales(self) -> tuple[float, ...]:
        """The scales of the noises of a key's chain, one per stage: those that thresholds and
        chances are computed for."""
        return tuple(scale_of(epsilon) for _, epsilon in self.stages)

    @cached_property
    def thresholds(self) -> tuple[int, ...]:
        """From which noisy count on a key is shown at each stage; they never rise.

        They start with equal shares of the delta; then each, from the first on, is the smallest
        that the exact delta of all stages allows.
        """
        each = math.nextafter(self.delta / self.keys, 0.0)
        count = len(self.stages)
        thresholds = [
            1 + _least(distribution.tail_above, each / count)
            for distribution in self._distributions
        ]
        for stage in range(count):
            below = (*thresholds, 1)[stage + 1]

            def passing(more: int, stage: int = stage, below: int = below) -> float:
                return self._passed(
                    (*thresholds[:stage], below + more, *thresholds[stage + 1 :]), 1
                )

            thresholds[stage] = below + _least(passing, each)
        return tuple(thresholds)

    def first_shown(self, values: Sequence[ArrayLike]) -> NDArray[np.int64]:
        """For each key the first stage whose value reaches the threshold, or the number of stages
        if none does. ``values`` are the noisy counts of each stage, an array each.

        >>> Discovery("1d", ((1, 1.0), (31, 3.0)), 1e-9).first_shown([[25, 20, 8], [3, 9, 8]])
        array([0, 1, 2])
        """
        pairs = zip(values, self.thresholds, strict=True)
        passed = [np.asarray(each) >= threshold for each, threshold in pairs]
        first: NDArray[np.int64] = np.argmax([*passed, np.ones_like(passed[0])], axis=0)
        return first

    # What it costs, and what it finds
    # --------------------------------------------------------------------------------------------
    def loss(self, age: ArrayLike) -> float | NDArray[np.float64]:
        """The loss (epsilon, beside ``delta``) of one person's block, with all its keys, so many
        steps after the block's end; scalar or array."""
        remedy = "it is the number of steps since the block's end"
        ages = require_whole("age", age, minimum=0, remedy=remedy)
        lags = [lag for lag, _ in self.stages]
        millionths = [0, *(round(epsilon * MILLION) for _, epsilon in self.stages)]
        losses = np.array([self.keys * each / MILLION for each in millionths])
        return shaped(losses[np.searchsorted(lags, ages, side="right")], ages)

    def spent(self, since: int) -> int:
        """The budget of one count, in millionths, so many steps after the block's end."""
        stages = (epsilon for lag, epsilon in self.stages if lag <= since)
        return max((round(epsilon * MILLION) for epsilon in stages), default=0)

    def passing(self, stage: int) -> float:
        """The chance that a key which one person alone brought is shown by a stage, rounded up."""
        return self.chance(1, stage)

    def chance(self, count: int, stage: int) -> float:
        """The chance that a key with this count of persons is shown by a stage; rounded up for
        counts below the thresholds."""
        remedy = "it is how many persons brought the key in one block"
        count = require_integer("count", count, minimum=1, maximum=1 << 60, remedy=remedy)
        last = len(self.stages) - 1
        remedy = "stages are numbered from 0, the first"
        stage = require_integer("stage", stage, minimum=0, maximum=last, remedy=remedy)
        return self._passed(self.thresholds[: stage + 1], count)

    def min_count(self, *, probability: float, stage: int) -> int:
        """Returns the smallest count of persons whose key is shown by a stage with at least this
        probability."""
        wanted = require_real(
            "probability",
            probability,
            low=0.0,
            high=1.0,
            open_ends=True,
            remedy="such as 0.5 or 0.95",
        )
        return 1 + _least(lambda more: -self.chance(1 + more, stage), -wanted)

    @cached_property
    def _distributions(self) -> list[_Distribution]:
        """The distributions of the noises, from ``exp(-1 / scale)`` to 60 digits, rounded up."""
        digits = Context(prec=60)
        exponents = (digits.divide(Decimal(-1), Decimal.from_float(scale)) for scale in self.scales)
        exact = distributions_of([Fraction(digits.exp(each)) for each in exponents])
        return [
            _Distribution(*(math.nextafter(float(each), math.inf) for each in distribution))
            for distribution in exact
        ]

    def _passed(self, thresholds: Sequence[int], count: int) -> float:
        """The chance that a count passes one of the thresholds of the first stages, rounded up."""
        left = math.ceil(_LEFT * self.scales[0])
        chance = shown(self._distributions[: len(thresholds)], thresholds, count, left)
        return _raised(chance, len(thresholds) * (2 * (thresholds[0] + left) + 20))

    # As text
    # --------------------------------------------------------------------------------------------
    def to_json(self) -> str:
        """The discovery as one line of versioned JSON."""
        return json_line("discovery", self)

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """The discovery that :meth:`to_json` described. Anything else is refused with a
        :class:`ParameterError`."""
        fields = json_fields(text, "discovery")
        try:
            return cls(**fields)
        except TypeError as error:
            raise ParameterError(
                "discovery JSON must hold per, stages, delta and keys; write it with to_json()"
            ) from error


# The distribution of what is shown
# ------------------------------------------------------------------------------------------------
class _Distribution(NamedTuple):
    """The noise of one stage: ``Pr[Z = z] = centre * ratio**|z|``, and ``Pr[Z >= z] = tail *
    ratio**z`` for ``z >= 0``. It is the noise of the next sharper stage plus a difference, which is
    0 with the chance ``stay``, and else, with the chance ``move``, of this same distribution."""

    ratio: Any
    tail: Any
    centre: Any
    stay: Any = 0
    move: Any = 0

    def tail_above(self, distance: int) -> float:
        """``Pr[Z >= distance]``, rounded up."""
        return _raised(self.tail * self.ratio**distance, 4)


def distributions_of(ratios: Sequence[Fraction]) -> list[_Distribution]:
    """The distributions of a chain, exactly, from their ratios, the first and coarsest one
    first."""
    alone = [_Distribution(p, 1 / (1 + p), (1 - p) / (1 + p)) for p in ratios]
    stays = [sharp / p * ((1 - p) / (1 - sharp)) ** 2 for p, sharp in pairwise(ratios)]
    steps = [
        distribution._replace(stay=w, move=1 - w)
        for distribution, w in zip(alone, stays, strict=False)
    ]
    return [*steps, alone[-1]]


def shown(
    distributions: Sequence[_Distribution], thresholds: Sequence[int], count: int, left: int
) -> Any:
    """The chance that a count passes one of the thresholds, which must not rise. It is exact, up to
    the arithmetic of the distributions' numbers, but for values ``left`` and more below the count
    (or the last threshold), which are moved up to there."""
    (p, tail, centre, _, _), least = distributions[-1], thresholds[-1]
    low = min(count, least) - left
    passed = tail * p ** (least - count) if count < least else 1 - tail * p ** (count - least + 1)
    hidden = [centre * p ** abs(value - count) for value in range(low, least)]
    hidden[0] = tail * p ** (count - low)
    for distribution, threshold in list(zip(distributions, thresholds, strict=True))[-2::-1]:
        p, tail = distribution.ratio, distribution.tail
        hidden += [0 * p] * (threshold - low - len(hidden))
        rising, falling = _summed(hidden, p), _summed(hidden[::-1], p)[::-1]
        passed += distribution.move * tail * p * rising[-1]
        centre = distribution.move * distribution.centre
        hidden = [
            distribution.stay * value + centre * (up + p * down)
            for value, up, down in zip(hidden, rising, [*falling[1:], 0 * p], strict=True)
        ]
        hidden[0] += distribution.move * tail * p * falling[0]
    return passed


def _summed(values: list[Any], ratio: Any) -> list[Any]:
    """For each place the sum of the values up to there, each times ``ratio**distance``."""
    return list(accumulate(values, lambda total, value: total * ratio + value))


def _raised(chance: float, roundings: int) -> float:
    """A chance that is not below the exact one after so many roundings of positive terms (of up to
    2**-53 each, or an underflow)."""
    return min(1.0, chance * (1.0 + roundings * 2.0**-52) + 1e-310)


def _least(falling: Callable[[int], float], limit: float) -> int:
    """The smallest number from 0 on at which a falling function is at most the limit."""
    high = 1
    while falling(high - 1) > limit:
        high *= 2
    low = high // 2  # falling(high - 1) is low enough, falling(low - 1) is not
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if falling(middle - 1) > limit else (low, middle)
    return high - 1
