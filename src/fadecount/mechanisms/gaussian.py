"""Gaussian noise with memories: the least error, for users who accept a delta."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from fractions import Fraction
from itertools import pairwise
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fadecount.checks import (
    LONGEST,
    Number,
    Whole,
    planned_tick,
    require_integer,
    require_real,
    set_fields,
    shaped,
)
from fadecount.errors import ParameterError, bad_parameter
from fadecount.mechanisms.base import (
    Mechanism,
    require_age,
    require_delay,
    require_keys,
    require_sensitivity,
    require_sequence,
)
from fadecount.mechanisms.gaussian_law import epsilon_at
from fadecount.mechanisms.loss import Loss
from fadecount.mechanisms.memories import (
    LARGEST_SHIFT,
    LONGEST_HALF_LIFE,
    MEMORIES,
    Memories,
    as_epoch,
    geometric,
    memories_of,
    resolved,
)
from fadecount.mechanisms.schedule import Steps

SMALLEST_SIGMA, LARGEST_SIGMA = 0.5, 2.0**32
SMALLEST_DELTA = 1e-300
_UP = 1.0 + 1e-12
_AGES = np.array(sorted({0, *np.exp2(np.arange(30 * 256 + 1) / 256).astype(int).tolist()}))
"""Ages up to 2**30: the first 200, then each at most half a percent above the one before."""


@dataclass(frozen=True, slots=True)
class Gaussian(Mechanism):
    """A running count with correlated Gaussian noise that decays over time; its loss is an epsilon
    at a delta.

    ``sigma`` is the standard deviation of the fresh noise at each step, in counts. ``half_lives``
    are in steps, longest first. ``weights`` add up to 1: the first is the part of the noise that
    never decays, the others are the parts that are halved every half-life. They are stored as the
    counter uses them, in units of ``2**-44``. A half-life is a whole number of steps, or such a
    number divided by 2, 3 or 4.

    Formal guarantee: for streams that differ by at most 1 in one step, all outputs up to an age are
    ``mu(age)``-Gaussian differentially private, also if inputs are chosen after seeing outputs.
    ``loss(age)`` is the exact epsilon of that at ``delta``. Both hold for the integers that run,
    with their rounding. Proof: docs/gaussian.md.

    >>> import dataclasses
    >>> import fadecount as fc
    >>> weights = (2**-14, 3 * 2**-10, 0.25, 0.7470093)
    >>> mechanism = fc.Gaussian(sigma=16.0, half_lives=(8192, 32, 1), weights=weights)
    >>> year = 525_600
    >>> [round(loss, 4) for loss in (mechanism.loss(0), mechanism.loss(year))]
    [0.3281, 4.3589]
    >>> round(dataclasses.replace(mechanism, delta=1e-6).loss(year), 4)
    3.4147
    """

    sigma: float
    half_lives: Sequence[float]
    weights: Sequence[float]
    _: KW_ONLY
    delta: float = 1e-9
    delay: int = 0
    planned_tick_seconds: int | None = field(default=None, compare=False, repr=False)
    kind: ClassVar[str] = "gaussian"

    def __post_init__(self) -> None:
        low, high = SMALLEST_SIGMA, LARGEST_SIGMA
        remedy = "it is the standard deviation of the noise at each step, in counts"
        half_lives = _half_lives(self.half_lives)
        set_fields(
            self,
            sigma=require_real("sigma", self.sigma, low=low, high=high, remedy=remedy),
            delta=require_delta(self.delta),
            half_lives=half_lives,
            weights=_weights(self.weights, len(half_lives)),
            delay=require_delay(self.delay),
            planned_tick_seconds=planned_tick(self.planned_tick_seconds),
        )
        self.noise  # noqa: B018 - refuses what does not fit

    @property
    def noise(self) -> Memories:
        epochs = tuple(as_epoch(each) for each in self.half_lives)
        memories = memories_of(self.sigma, epochs, tuple(self.weights))
        if memories is None:
            raise _too_wide("sigma", self.sigma)
        return memories

    def for_sensitivity(self, sensitivity: int, *, keys: int = 1) -> Self:
        """The same promise when one unit can change up to ``keys`` counts by up to ``sensitivity``
        each.

        The noise is wider by the sensitivity and by the square root of the keys. Guarantees: the
        loss of such a unit under the result is at most the loss of a unit of 1 under this
        mechanism, up to an age of 2**30 steps, or to where rounding makes the latter infinite.
        Later, where the rounding of integers is most of the bound, each mechanism states its own.
        """
        factor = require_sensitivity(sensitivity, 1 << 32)
        root = math.sqrt(require_keys(keys))
        if factor == keys == 1:
            return self
        memories = self.noise
        added = memories.shift_bound(_AGES)
        usable = np.flatnonzero(np.isfinite(added[1:]))
        own = (np.sqrt(memories.response.loss_square(_AGES)) + added)[usable]
        mechanism = self.scaled(1.0 / (factor * root))
        while True:
            wide = mechanism.noise
            # what is added grows with the age, so between two ages it is at most that of the later
            more = wide.shift_bound(_AGES, float(factor))[usable + 1] - factor * added[usable]
            worst = factor + float(np.max(more / own, initial=0.0))
            worst *= root * self.sigma * memories.shrink / (mechanism.sigma * wide.shrink) * _UP**2
            if worst <= 1.0:
                return mechanism
            if math.isinf(worst):
                raise _too_wide("sensitivity", sensitivity)
            mechanism = mechanism.scaled(1.0 / (worst * (1.0 + 1e-9)))

    def _composed(self, ages: Steps, units: int, sensitivity: int, copies: int) -> Loss:
        """The ``mu`` of units add up. Each grows in proportion to the sensitivity, and with the
        square root of the number of copies: squares of ``mu`` add up, because keys have independent
        noise, and histories share the noise drawn before they diverged and have their own after it
        (docs/gaussian.md)."""
        single = float(np.sum(self._mu(ages, float(sensitivity))))
        return Loss(single * units * math.sqrt(copies) * _UP, self.delta)

    # Privacy
    # --------------------------------------------------------------------------------------------
    def mu(self, age: ArrayLike) -> float | NDArray[np.float64]:
        """The loss of an item of a given age as a ``mu`` of Gaussian differential privacy, rounded
        up: it gives every epsilon.

        ``Phi(mu / 2)`` is the chance that the best guess about the item is right; ``mu**2 / 2`` is
        the ``rho`` of zero-concentrated differential privacy.
        """
        ages = require_age(age)
        return shaped(self._mu(ages), ages)

    def _mu(self, age: Whole, size: float = 1.0) -> Number:
        memories, shown = self.noise, np.maximum(np.asarray(age) - self.delay, 0)
        length = size * np.sqrt(memories.response.loss_square(shown)) + memories.shift_bound(
            shown, size
        )
        return np.where(
            np.asarray(age) >= self.delay, length / (self.sigma * memories.shrink) * _UP, 0.0
        )

    def _losses(self, ages: Steps, positions: Steps | None) -> NDArray[np.float64]:  # noqa: ARG002 - it is the same everywhere
        epsilons: NDArray[np.float64] = epsilon_at(self._mu(ages), self.delta)
        return epsilons

    def mu_of(self, positions: ArrayLike, now: int) -> float:
        """The ``mu`` of one person who contributed at all these positions, given all outputs up to
        step ``now``.

        A position that occurs twice counts twice. Guarantees: an upper bound for any change by at
        most 1 per contribution, and for adding or removing the person exact but for the rounding of
        the integers. Between two contributions what shows of the person is a sum of falling
        exponentials, so that the squares are summed in closed form.
        """
        places, times, now = self._contributions(positions, now)
        last = now - self.delay
        distinct, counts = places[places <= last], times[places <= last]
        if not distinct.size:
            return 0.0
        memories = self.noise
        response = memories.response
        rates = response.decays[:, None] + response.decays[None, :]
        amplitudes, square = np.zeros(len(response.decays)), 0.0
        ends = [*distinct[1:].tolist(), last + 1]
        for place, end, count in zip(distinct.tolist(), ends, counts.tolist(), strict=True):
            amplitudes = amplitudes + count * response.parts
            gap = float(end - place)
            sums = geometric(rates, gap)
            first = count * response.first
            square += float(amplitudes @ sums @ amplitudes) + first * (
                2.0 * float(amplitudes.sum()) + first
            )
            amplitudes = amplitudes * np.exp(-response.decays * gap)
        total = int(counts.sum())
        added = float(memories.shift_bound(last - int(distinct[0]), float(total)))
        return (math.sqrt(square) * _UP + added) / (self.sigma * memories.shrink) * _UP

    def loss_of(self, positions: ArrayLike, now: int) -> float:
        """The loss (epsilon at the mechanism's delta) of one person who contributed at all these
        positions; see ``mu_of``."""
        return float(epsilon_at(self.mu_of(positions, now), self.delta))

    # Ways to one
    # --------------------------------------------------------------------------------------------
    @classmethod
    def gradual(
        cls,
        sigma: float,
        *,
        growth: float = 0.0,
        horizon: int = 1 << 28,
        delta: float = 1e-9,
        delay: int = 0,
    ) -> Self:
        """A ready-made mechanism for streams of any length: half-lives 1, 16, 256, ... up to the
        horizon, with weights in proportion to ``4**-i (1 + i ln 16)**-growth``.

        ``growth`` 0 has the best balance of error and loss. With a larger growth the loss is
        smaller when an item is young and grows faster, as the square root of ``log(age)**(1 + 2
        growth)``. Below -1/2 (-0.6 is a good balance) a part of the noise never decays, and the
        ideal loss is bounded over all ages, while the error grows; the loss of the integers is
        within a few percent of it up to the horizon.

        >>> import fadecount as fc
        >>> mechanism = fc.Gaussian.gradual(13.5065)
        >>> [round(mechanism.loss(age), 2) for age in (0, 10, 1000, 10**6 - 1)]
        [0.39, 0.52, 0.7, 0.93]
        >>> bounded = fc.Gaussian.gradual(20.0, growth=-0.6)
        >>> [round(bounded.loss(age), 2) for age in (0, 10**3, 10**6, 10**8)]
        [0.26, 0.32, 0.34, 0.35]
        """
        remedy = "0 is the best balance; 1/2 and 1 favour young items"
        growth = require_real("growth", growth, low=-4.0, high=4.0, remedy=remedy)
        remedy = "it is the number of steps up to which the loss follows the family"
        horizon = require_integer("horizon", horizon, minimum=1, maximum=LONGEST, remedy=remedy)
        count = min(11, 1 + (horizon.bit_length() + 2) // 4)
        parts = [4.0**-level * (1.0 + level * math.log(16.0)) ** -growth for level in range(60)]
        beyond = math.fsum(parts[count:]) if growth < -0.5 else 0.0
        total = math.fsum(parts[:count]) + beyond
        return cls(
            sigma=sigma,
            half_lives=[16**level for level in reversed(range(count))],
            weights=[each / total for each in (beyond, *reversed(parts[:count]))],
            delta=delta,
            delay=delay,
        )

    def scaled(self, factor: float) -> Self:
        """The same weights with a deviation divided by a factor."""
        return replace(self, sigma=self.sigma / factor)


def _too_wide(name: str, value: float) -> ParameterError:
    remedy = "64-bit integers end there; shorten the longest half-life"
    return bad_parameter(name, value, "smaller for half-lives so long", remedy)


def require_delta(value: float) -> float:
    """A delta as a float, or a ``ParameterError``."""
    remedy = "it is the chance that the promise may fail, such as 1e-9"
    return require_real("delta", value, low=SMALLEST_DELTA, high=0.5, open_ends=True, remedy=remedy)


def _half_lives(values: Any) -> tuple[float, ...]:
    remedy = "give whole steps (or such divided by 2, 3 or 4), longest first"
    low, high = 1.0 / LARGEST_SHIFT, float(LONGEST_HALF_LIFE)
    half_lives: list[float] = []
    for at, each in enumerate(require_sequence("half_lives", values, remedy)):
        number = require_real(f"half_lives[{at}]", each, low=low, high=high, remedy=remedy)
        exact = Fraction(*as_epoch(number))
        if abs(exact - Fraction(number)) > exact * Fraction(1, 1 << 50):
            raise bad_parameter(f"half_lives[{at}]", each, "a whole number of steps", remedy)
        half_lives.append(int(number) if number == int(number) else number)
    if not 1 <= len(half_lives) <= MEMORIES:
        raise bad_parameter(
            "number of half_lives", len(half_lives), f"from 1 to {MEMORIES}", remedy
        )
    if any(late >= early for early, late in pairwise(half_lives)):
        raise bad_parameter("half_lives", tuple(half_lives), "decreasing", remedy)
    return tuple(half_lives)


def _weights(values: Any, half_lives: int) -> tuple[float, ...]:
    remedy = "give what is kept for ever, then one weight per half-life; they add up to 1"
    least = 2.0**-43
    weights = tuple(
        require_real(f"weights[{at}]", each, low=least if at else 0.0, high=1.0, remedy=remedy)
        for at, each in enumerate(require_sequence("weights", values, remedy))
    )
    if len(weights) != half_lives + 1:
        bound = f"{half_lives + 1}, one more than half_lives"
        raise bad_parameter("number of weights", len(weights), bound, remedy)
    if abs(math.fsum(weights) - 1.0) > 1e-6:
        raise bad_parameter("sum of weights", math.fsum(weights), "1", remedy)
    exact = resolved(weights)
    if exact[-1] < least:
        bound = "at least 2**-43 once the others are rounded"
        raise bad_parameter(f"weights[{half_lives}]", weights[-1], bound, remedy)
    return exact
