"""The noise of a schedule of one's own: one variable for each interval that holds the step."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fadecount.counters.path import law_of, row_of
from fadecount.mechanisms import IntervalSchedule
from fadecount.noise import NoiseSource


class IntervalPath:
    """The noise variables in use by one counter (``width`` None) or by a vector of counters.

    ``tails`` are the variables of the intervals that hold the last step, in the order of the
    schedule. All changes are made at the end of a call: a call that fails changes nothing.
    """

    __slots__ = ("_schedule", "_source", "_width", "shown", "tails")

    def __init__(
        self, schedule: IntervalSchedule, source: NoiseSource, *, width: int | None
    ) -> None:
        self._schedule, self._source, self._width = schedule, source, width
        self.shown = 0
        self.tails: list[Any] = []

    def step(self) -> Any:
        """The noise of the next step: an int, or an array over the counts."""
        tails = self._next(self.shown, self.tails)
        self.shown, self.tails = self.shown + 1, tails
        return sum(tails)

    def add_to(self, sums: NDArray[np.int64]) -> None:
        """Add the noise of the next ``len(sums)`` steps."""
        shown, tails = self.shown, self.tails
        for row in range(len(sums)):
            tails = self._next(shown + row, tails)
            sums[row] += sum(tails)
        self.shown, self.tails = shown + len(sums), tails

    def _next(self, shown: int, tails: list[Any]) -> list[Any]:
        """The variables of the step after ``shown``: kept where they are in use already."""
        kept = dict(zip(self._schedule.in_use(shown), tails, strict=True))
        return [
            kept[number] if number in kept else self._draw(number)
            for number in self._schedule.in_use(shown + 1)
        ]

    def _draw(self, number: int) -> Any:
        law = law_of(self._schedule.budgets[number])
        assert law is not None  # budgets of intervals are finite
        if self._width is None:
            return self._source.one(law, number, 0, 0)
        return row_of(self._source, self._width, law, number, 0, 0)
