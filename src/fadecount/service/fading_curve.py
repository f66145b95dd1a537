"""The fading curve in words: the privacy loss (ε) of an event, in sentences for everyone. Every
figure is rounded up.

A loss ``x`` is explained as a guess. Suppose someone believes with probability 1/2 that an event
happened. After seeing everything published, they can be at most ``e**x / (1 + e**x)`` sure. By
Bayes' rule this is equivalent to the loss itself.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from fadecount.durations import UNITS, format_duration
from fadecount.mechanisms import ONE_EVENT, Loss, Unit
from fadecount.rounding import shown_chance, shown_loss
from fadecount.service.answers import Statement
from fadecount.streams.loss import UnitLoss

LONGEST_SECONDS = 100 * UNITS["y"]
_LANDMARKS = (*(UNITS[unit] for unit in ("m", "h", "d", "w", "mo", "y")), 10 * UNITS["y"])
_POINTS_PER_DECADE = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class FadingCurve:
    """How a stream fades: the loss of its unit, and the length of its ticks.

    Ages are counted by the clock. So where the releases are some ticks ``ahead`` of it (it was
    wrong for a time), a unit has lost as much as one that is so many ticks older.
    """

    stream: UnitLoss
    tick_seconds: int
    ahead: int = 0
    unit: Unit = ONE_EVENT

    def loss(self, age_seconds: float) -> Loss:
        """The loss of a unit of that age, for the worst moment within its tick: rounded up to whole
        ticks.

        The last tick that is over is at most so many ticks after that of the event, also where
        clocks change: local days that are shorter, even one that is left out, take less than the
        tick that rounding adds.
        """
        return self.stream.at_age(math.ceil(age_seconds / self.tick_seconds) + self.ahead)

    def statement(self, age_seconds: int) -> Statement:
        """The loss at an age, as numbers and in words."""
        age = format_duration(age_seconds)
        subject, loss = self.unit.ago(age), self.loss(age_seconds)
        return self.stated(subject, loss, age_seconds=age_seconds, age=age)

    def statements(self) -> list[Statement]:
        """The losses at common ages, from one tick on."""
        return [self.statement(seconds) for seconds in _LANDMARKS if seconds >= self.tick_seconds]

    def curve(self) -> list[Statement]:
        """The loss at ages from one tick to a hundred years, evenly spaced in their logarithm; of
        blocks also where it grows."""
        ages = set(curve_ages(self.tick_seconds))
        ages |= {max(1, age) * self.tick_seconds for age in self.stream.grows_at}
        return [self.statement(age) for age in sorted(ages)]

    def person(self, visits: int, every_seconds: int, during_seconds: int) -> Statement:
        """The loss of all visits of a person who came up to ``visits`` times in any
        ``every_seconds``, for so long until now.

        An upper bound, whenever the visits were (:meth:`UnitLoss.of_person`).
        """
        loss = self.stream.of_person(
            visits,
            every=every_seconds,
            during=during_seconds,
            tick_seconds=self.tick_seconds,
            ahead=self.ahead,
            unit=self.unit,
        )
        times = "once" if visits == 1 else f"{visits} times"
        every, during = format_duration(every_seconds), format_duration(during_seconds)
        subject = f"Someone who came {times} in {every} for {during}"
        return self.stated(subject, loss, whether="this person was here at all")

    def stated(
        self,
        subject: str,
        loss: Loss,
        *,
        whether: str = "it happened",
        age_seconds: int | None = None,
        age: str | None = None,
    ) -> Statement:
        """A loss as numbers, and what it means for someone who guesses ``whether``; for readers who
        have never heard of differential privacy. Says what a delta means, if there is one."""
        sure = shown_chance(loss.certainty)
        known = "all but certain" if sure.startswith("over") else f"at most {sure} sure"
        meaning = (
            f"Someone who would have guessed fifty-fifty whether {whether} can, from everything"
            f" published since, be {known}{self.stream.exception}."
        )
        if not loss.epsilon:
            meaning = "Nothing has been published about it yet."
        return Statement(
            loss=loss.epsilon,
            shown=shown_loss(loss.epsilon),
            sure=sure,
            subject=subject,
            age_seconds=age_seconds,
            age=age,
            meaning=meaning,
        )


@lru_cache(maxsize=64)
def curve_ages(tick_seconds: int) -> tuple[int, ...]:
    """Whole seconds: a logarithmic grid of whole ticks that includes the common ages."""
    decades = math.log10(LONGEST_SECONDS / tick_seconds)
    grid = np.geomspace(tick_seconds, LONGEST_SECONDS, max(2, round(decades * _POINTS_PER_DECADE)))
    ticks = {round(float(each) / tick_seconds) * tick_seconds for each in grid}
    return tuple(sorted(ticks | {each for each in _LANDMARKS if each >= tick_seconds}))
