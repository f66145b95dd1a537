"""The schedule of a mechanism: which noise slots are in use at a step, and which are renewed.

Every mechanism of fadecount releases the running sum plus the noise variables in use. A schedule
says which these are, as plain data, so that one counter runs them all:

* The first ``delay`` outputs are 0; afterwards the output at step ``t`` shows the inputs up to ``t
  - delay``.
* A *clock* starts at 1 with the first shown step, and again with each round.
* Slot ``l`` belongs to level ``l`` of the dyadic intervals of the clock (see
  :mod:`fadecount.intervals`): one variable per interval, drawn when the interval begins. An
  ``alternating`` schedule uses the intervals with an odd number only.
* The *carry* slot (rounds only) holds one variable per round for the sum of all earlier rounds,
  from the second round on.

A variable has the name ``(level, round, node)``, level ``CARRY`` for the carry slot. No two
variables share a name.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from fadecount.intervals import steps_in_use
from fadecount.mechanisms.memories import Memories
from fadecount.mechanisms.noise_law import variance_of

LEVELS = 62
"""Levels that a schedule without an end describes: enough for a clock of 2**62 - 1 steps."""

CARRY = -1
"""The level under which a carry variable is named."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """When noise is drawn, from which budget, and how long it is used. See the module for the
    rules."""

    budgets: tuple[float, ...]
    delay: int = 0
    alternating: bool = False
    round_length: int | None = None
    carry_budget: float = math.inf
    horizon: int | None = None
    memories: Memories | None = None
    """In place of slots: decaying sums of past noise."""

    def rows(self, shown: int) -> int:
        """How many numbers the noise of one count takes after so many shown steps."""
        if self.memories is not None:
            return self.memories.rows
        return (self.place(shown)[1] if shown else 0).bit_length() + 1

    def place(self, shown: int) -> tuple[int, int]:
        """The round (from 0) and the clock reading of a shown step ``shown >= 1``."""
        if self.round_length is None:
            return 0, shown
        rounds, offset = divmod(shown - 1, self.round_length)
        return rounds, offset + 1

    def budgets_in_use(self, step: int) -> list[float]:
        """The budgets of the noise variables in the output of a step, none while the delay
        lasts."""
        return list(self._variables(step).values())

    def budgets_between(self, start: int, end: int) -> list[float]:
        """The budgets of the noise variables in the difference of two outputs: those in use at one
        of the two steps only.

        ``start`` may be 0, the empty output before the first step.
        """
        before, after = self._variables(start), self._variables(end)
        return [
            *(budget for name, budget in before.items() if name not in after),
            *(budget for name, budget in after.items() if name not in before),
        ]

    def _variables(self, step: int) -> dict[tuple[int, int, int], float]:
        """The noise variables in the output of a step, by name."""
        if step <= self.delay:
            return {}
        rounds, clock = self.place(step - self.delay)
        used = {
            (level, rounds, clock >> level): budget
            for level, budget in enumerate(self.budgets)
            if clock >> level and (not self.alternating or clock >> level & 1)
        }
        return {**used, (CARRY, rounds, 0): self.carry_budget} if rounds else used

    def budgets_ever_in_use(self, horizon: int) -> list[float]:
        """The budgets of every slot that is in use at some step up to ``horizon``."""
        rounds, clock = self.place(max(1, horizon - self.delay))
        longest = clock if self.round_length is None or not rounds else self.round_length
        used = [budget for level, budget in enumerate(self.budgets) if longest >> level]
        return [*used, self.carry_budget] if rounds else used

    def mean_variance(self, horizon: int, resolution_bits: float) -> float:
        """The variance of the noise, averaged over the outputs ``1 .. horizon``."""
        shown = horizon - self.delay
        if shown <= 0:
            return 0.0
        rounds, clock = self.place(shown)
        total = 0.0
        for level, budget in enumerate(self.budgets):
            steps = steps_in_use(level, clock, alternating=self.alternating)
            if rounds:
                whole: Any = self.round_length
                steps += rounds * steps_in_use(level, whole, alternating=self.alternating)
            if steps:
                total += steps / horizon * variance_of(budget, resolution_bits)
        if rounds:
            carried: Any = shown - (self.round_length or 0)
            total += carried / horizon * variance_of(self.carry_budget, resolution_bits)
        return total
