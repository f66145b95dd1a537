"""The search for the best level budgets: a convex problem for each choice of patterns, and
successively better choices.

For fixed choices the problem is convex (:mod:`fadecount.planning.convex`). The search starts with
the sufficient condition "pay once for every level", so it never ends worse than that, and then
takes two kinds of steps, both of which only ever improve:

* Re-choose: at the solution found, other patterns may be cheaper. They leave room, and the convex
  problem uses it.
* Move: at the prices of the limits, moving one stop level, or dropping the own variable of one
  level, changes the noise by an amount that is estimated for all such moves at once. The most
  promising ones are solved.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from fadecount.planning.convex import Vector, least_noise, variance
from fadecount.planning.patterns import Choices, Limit, Patterns

MOST_SOLVED = 24
"""The most convex problems solved from one starting point."""

SEARCH_PRECISION = 1e-4
FINAL_PRECISION = 1e-9

_EXPONENTS = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
_CLOSE = 1.1
_SPARE = 6
_PROMISING = 5
_BETTER = 1.0 - 1e-4
_NOTHING = 1e-6
_CHEAP = 1e-3
"""A limit with a price below this share of the noise does not bind; moving its stop level changes
nothing."""


@dataclass(frozen=True, slots=True)
class Found:
    """Budgets that meet all limits up to rounding, their noise, and the choices and prices at which
    they were found."""

    budgets: Vector
    noise: float
    choices: Choices
    prices: Vector


class Search:
    """One search: the share of the steps at which each level is in use, and the limits."""

    def __init__(
        self, shares: Vector, limits: Sequence[Limit], *, most_solved: int = MOST_SOLVED
    ) -> None:
        self._shares = shares
        self._patterns = Patterns(limits, len(shares))
        self._weights = np.cbrt(shares)
        self._left = most_solved

    def run(self) -> Found:
        """The best budgets found from the sufficient condition, and from the best gradual curve
        where that is about as good."""
        best = self._improved(self._solved(self._patterns.cumulative(), self._weights))
        gradual, noise = self._best_gradual()
        if noise < _CLOSE * best.noise:
            self._left = max(self._left, _SPARE)
            found = self._improved(self._solved(self._patterns.cheapest(gradual), gradual))
            best = found if found.noise < best.noise else best
        return self._solved(best.choices, best.budgets, precision=FINAL_PRECISION)

    def _improved(self, found: Found) -> Found:
        best: Found | None = self._rechosen(found)
        tried: set[Choices] = set()
        while best is not None:
            found, best = best, self._step(best, tried)
        return found

    def _best_gradual(self) -> tuple[Vector, float]:
        """The gradual curve (budgets that grow like a power of the level) with the least noise, and
        that noise."""
        levels = np.arange(1.0, len(self._shares) + 1.0)
        best, least = levels, math.inf
        for exponent in _EXPONENTS:
            budgets = levels ** (exponent - 1.0)
            budgets /= (self._patterns.matrix(self._patterns.cheapest(budgets)) @ budgets).max()
            noise = float(self._shares @ variance(budgets))
            best, least = (budgets, noise) if noise < least else (best, least)
        return best, least

    def _step(self, best: Found, tried: set[Choices]) -> Found | None:
        """A better solution from the most promising choices, if one of them is."""
        for _, choices in sorted(self._moves(best), key=lambda move: move[0])[:_PROMISING]:
            if choices in tried or self._left <= 0:
                continue
            tried.add(choices)
            found = self._rechosen(self._solved(choices, best.budgets))
            if found.noise < _BETTER * best.noise:
                return found
        return None

    def _solved(
        self, choices: Choices, start: Vector, *, precision: float = SEARCH_PRECISION
    ) -> Found:
        self._left -= 1
        budgets, prices = least_noise(
            self._shares, self._patterns.matrix(choices), start, precision
        )
        return Found(budgets, float(self._shares @ variance(budgets)), choices, prices)

    def _rechosen(self, found: Found) -> Found:
        """The same, as long as cheaper patterns at the solution give room for less noise."""
        while self._left > 0:
            choices = self._patterns.cheapest(found.budgets)
            if choices == found.choices:
                break
            again = self._solved(choices, found.budgets)
            if again.noise >= _BETTER * found.noise:
                break
            found = again
        return found

    def _moves(self, best: Found) -> Iterator[tuple[float, Choices]]:
        """Every neighbouring choice that promises less noise at the prices of the limits, with the
        estimated change."""
        paid = best.prices @ self._patterns.matrix(best.choices)
        yield from self._stop_moves(best, paid)
        yield from self._own_moves(best, paid)

    def _stop_moves(self, best: Found, paid: Vector) -> Iterator[tuple[float, Choices]]:
        own, stops = best.choices.own, best.choices.stops
        unit, now = self._patterns.whole_payments(best.choices), self._estimate(paid)
        prices = best.prices @ self._patterns.weights
        for at in np.flatnonzero(
            best.prices @ (self._patterns.weights > 0) > _CHEAP * best.noise
        ).tolist():
            seen = self._patterns.seen[at][:, None] * unit
            rows = np.eye(len(unit)) + np.cumsum(seen[::-1], axis=0)[::-1]
            change = prices[at] * (rows[: self._patterns.tops[at] + 1] - rows[stops[at]])
            gains = self._estimate(np.maximum(paid + change, 0.0)) - now
            for stop in np.flatnonzero(gains < -_NOTHING * now).tolist():
                yield float(gains[stop]), Choices(own, (*stops[:at], stop, *stops[at + 1 :]))

    def _own_moves(self, best: Found, paid: Vector) -> Iterator[tuple[float, Choices]]:
        """Drop the variable of a level everywhere, or use one again for whole intervals."""
        own, stops = best.choices.own, best.choices.stops
        payer, factor = best.choices.chains()
        shifts = (
            best.prices @ self._patterns.weights @ self._patterns.shifted(best.choices)
        ).tolist()
        now, chained = self._estimate(paid), 0.0
        for level in range(len(own) - 1, 0, -1):
            chained = (
                shifts[level] + 2.0 * chained
            )  # paid for whole intervals up to the next own level, in units of this one
            choices = self._patterns.toggled(best.choices, level, best.budgets)
            if choices.stops != stops:
                other = best.prices @ self._patterns.matrix(choices)
            else:
                other = paid.copy()
                other[level] += -chained if own[level] else chained
                other[payer[level - 1]] += (
                    (2.0 if own[level] else -2.0) * factor[level - 1] * chained
                )
            gain = self._estimate(np.maximum(other, 0.0)) - now
            if gain < -_NOTHING * now:
                yield float(gain), choices
            chained = 0.0 if own[level] else chained

    def _estimate(self, paid: Vector) -> Vector:
        """The least noise plus payment at given prices per budget, up to a factor: (share *
        paid**2)**(1/3) over the levels."""
        noise: Vector = np.cbrt(paid * paid) @ self._weights
        return noise
