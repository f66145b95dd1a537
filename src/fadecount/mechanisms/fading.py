"""What mechanisms with one budget per level of dyadic intervals share: Gradual, Designed and Linear."""

from __future__ import annotations

from abc import abstractmethod
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from fadecount.mechanisms.base import Mechanism
from fadecount.mechanisms.dyadic import at_position, worst_case
from fadecount.mechanisms.exact import INFINITE, ExactSum, Number, Whole
from fadecount.mechanisms.schedule import LEVELS, Schedule
from fadecount.mechanisms.tree import bit_length


class Fading(Mechanism):
    """A mechanism given by level budgets and a delay; its loss is exact for any budgets (docs/theory.md, section 4)."""

    __slots__ = ()

    @abstractmethod
    def _level_budget(self, level: int) -> float:
        """The budget of each noise variable of a level."""

    @property
    @abstractmethod
    def _delay(self) -> int: ...

    @property
    def schedule(self) -> Schedule:
        return _schedule(self)

    def _worst_loss(self, age: Whole) -> Number:
        shown = age - self._delay
        return _since(shown, worst_case(self.schedule.budgets, _at_least(shown, 0)))

    def _position_loss(self, age: Whole, position: Whole) -> Number:
        shown = age - self._delay
        return _since(shown, at_position(self.schedule.budgets, position, position + _at_least(shown, 0)))

    def _paper_loss(self, age: Whole) -> Number:
        """Twice the sum of the budgets of all levels reached: the paper covers an age by at most two intervals per level."""
        shown = age - self._delay
        levels_reached = bit_length(_at_least(shown, 0) + 1)
        paid: Number = _paper_sums(self)[levels_reached]
        return _since(shown, paid)


@lru_cache(maxsize=256)
def _schedule(mechanism: Fading) -> Schedule:
    return Schedule(budgets=tuple(mechanism._level_budget(level) for level in range(LEVELS)), delay=mechanism._delay)


@lru_cache(maxsize=256)
def _paper_sums(mechanism: Fading) -> NDArray[np.float64]:
    """What the paper charges for the first 0, 1, 2, ... levels, each rounded up once."""
    sums = [ExactSum(0.0)]
    for budget in mechanism.schedule.budgets:
        sums.append(sums[-1] + min(2.0 * budget, INFINITE))
    return np.array([total.rounded_up() for total in sums])


def _since(shown: Whole, loss: Number) -> Number:
    """The loss once the item shows in an output, nothing before."""
    if isinstance(shown, np.ndarray):
        return np.where(shown >= 0, loss, 0.0)
    return loss if shown >= 0 else 0.0


def _at_least(value: Whole, floor: int) -> Whole:
    return np.maximum(value, floor) if isinstance(value, np.ndarray) else max(value, floor)
