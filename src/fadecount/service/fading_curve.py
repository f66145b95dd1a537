"""The fading curve in words: what has been lost about an event, as a person can read it. Every figure is rounded up.

A loss ``x`` is turned into a guess: whoever held it for as likely as not that an event happened can, after seeing everything
that was published, be at most ``e**x / (1 + e**x)`` sure. That is the loss itself, read by Bayes' rule; nothing is lost in the
reading.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

import numpy as np

from fadecount.checks import LONGEST
from fadecount.durations import UNITS, format_duration
from fadecount.errors import ParameterError
from fadecount.mechanisms import Mechanism, Refresh
from fadecount.rounding import shown_loss, shown_sureness
from fadecount.service.parsing import Query, tick_at
from fadecount.service.problems import bad_request
from fadecount.service.reader_pool import Facts, ReaderPool

MONTH, YEAR = UNITS["mo"], UNITS["y"]
LONGEST_SECONDS = 100 * YEAR
_LANDMARKS = (*(UNITS[unit] for unit in ("m", "h", "d", "w", "mo", "y")), 10 * YEAR)
_POINTS_PER_DECADE = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class FadingCurve:
    """How a stream fades: its mechanism, its tick, and by what its losses are multiplied.

    The factor is the sensitivity of the stream times the number of its histories: an old backup that was opened on purpose
    publishes everything before it once more (see :mod:`fadecount.streams.forks`). Where another history went on for longer than
    this one has so far, events are ``ahead`` ticks older there.
    """

    mechanism: Mechanism
    tick_seconds: int
    factor: int = 1
    ahead: int = 0

    def loss(self, age_seconds: float) -> float:
        """The loss of an event that happened that long ago, for the worst moment within its tick: rounded up to whole ticks."""
        return self.loss_at(math.ceil(age_seconds / self.tick_seconds))

    def loss_at(self, age_ticks: int) -> float:
        return self._scaled(self.mechanism.loss(min(LONGEST, age_ticks + self.ahead)))

    def _scaled(self, loss: float) -> float:
        return loss if self.factor == 1 or not loss else math.nextafter(loss * self.factor, math.inf)

    def statement(self, age_seconds: float) -> dict[str, Any]:
        """The loss at an age, in figures and in a sentence."""
        loss = self.loss(age_seconds)
        label = format_duration(age_seconds)
        return {
            "age_seconds": age_seconds,
            "age": label,
            "loss": loss,
            "shown": shown_loss(loss),
            "sure": shown_sureness(loss),
            "meaning": meaning(loss),
            "sentence": sentence(f"An event from {label} ago", loss),
        }

    def statements(self) -> list[dict[str, Any]]:
        """The ages that people ask about, from one tick on."""
        return [self.statement(seconds) for seconds in _LANDMARKS if seconds >= self.tick_seconds]

    def curve(self) -> list[dict[str, Any]]:
        """The loss at ages from one tick to a hundred years, evenly spaced in their logarithm."""
        return [self.statement(seconds) for seconds in curve_ages(self.tick_seconds)]

    def refresh(self) -> dict[str, Any] | None:
        """The same ages under a monthly budget refresh with the same typical error over a year: what practice would do.

        None if no refresh within the bounds of its parameters has that error.
        """
        try:
            baseline = monthly_refresh(self.mechanism, self.tick_seconds)
        except ParameterError:
            return None
        ticks = np.array([math.ceil(seconds / self.tick_seconds) for seconds in curve_ages(self.tick_seconds)], dtype=np.int64)
        losses = [self._scaled(loss) for loss in np.atleast_1d(np.asarray(baseline.loss(ticks))).tolist()]
        points = [{"loss": loss, "shown": shown_loss(loss), "sure": shown_sureness(loss)} for loss in losses]
        return {
            "window_ticks": baseline.window,
            "epsilon_current": baseline.epsilon_current,
            "epsilon_past": baseline.epsilon_past,
            "typical_error": round(self.typical_error(), 1),
            "points": points,
        }

    def typical_error(self) -> float:
        """The root of the mean squared error of the noise over a year of ticks."""
        return math.sqrt(self.mechanism.mse(_year(self.tick_seconds)))


def curve_of(facts: Facts) -> FadingCurve:
    """The curve of a stream, over all of its histories."""
    factor = facts.sensitivity * facts.histories
    return FadingCurve(mechanism=facts.mechanism, tick_seconds=facts.ticks.tick_seconds, factor=factor, ahead=facts.ahead)


@lru_cache(maxsize=64)
def monthly_refresh(mechanism: Mechanism, tick_seconds: int) -> Refresh:
    """The budget refresh, every 30 days, whose mean squared error over a year of ticks is that of the mechanism."""
    horizon = _year(tick_seconds)
    window = max(1, min(MONTH // tick_seconds, horizon - 1))
    return Refresh.for_mse(max(mechanism.mse(horizon), 1e-6), horizon=horizon, window=window)


def _year(tick_seconds: int) -> int:
    return max(2, YEAR // tick_seconds)


@lru_cache(maxsize=64)
def curve_ages(tick_seconds: int) -> tuple[int, ...]:
    """Whole seconds: a logarithmic grid on whole ticks, with the landmarks on it."""
    decades = math.log10(LONGEST_SECONDS / tick_seconds)
    grid = np.geomspace(tick_seconds, LONGEST_SECONDS, max(2, round(decades * _POINTS_PER_DECADE)))
    ticks = {round(float(each) / tick_seconds) * tick_seconds for each in grid}
    return tuple(sorted(ticks | {each for each in _LANDMARKS if each >= tick_seconds}))


def sentence(subject: str, loss: float) -> str:
    """The promise about an event, for someone who has never heard of differential privacy."""
    return f"{subject}: {f'a loss of at most {shown_loss(loss)}. ' if loss else ''}{meaning(loss)}"


def meaning(loss: float) -> str:
    """What a loss means for a guess."""
    if loss == 0:
        return "nothing has been published about it yet."
    guess = "Whoever would have guessed fifty-fifty whether it happened can, from everything published since,"
    sure = shown_sureness(loss)
    return f"{guess} be all but certain." if sure.startswith("over") else f"{guess} be at most {sure} sure."


_LATER = (("now", 0), ("in a day", UNITS["d"]), ("in a month", UNITS["mo"]), ("in a year", UNITS["y"]))


def moment_answer(releases: ReaderPool, facts: Facts, query: Query, now: float) -> dict[str, Any]:
    """The body for ``?time=...`` and ``?time=...&at=...``."""
    moment, at = query.moment("time"), query.moment("at")
    if moment is None or "age" in query:
        raise bad_request("bad_query", "give age, or time, or time and at")
    tick = tick_at(facts.ticks, moment, "time")
    last = facts.last_tick if facts.last_tick is not None else tick - 1
    if at is None:
        views = [(words, max(0, facts.ticks.at(now + seconds) - 1 - last) if seconds else 0) for words, seconds in _LATER]
    else:
        views = [(f"at {_shown(at)}", tick_at(facts.ticks, at, "at") - 1 - last)]
    losses = [(words, releases.loss(facts.name, tick, ticks)) for words, ticks in views]
    subject = f"An event at {_shown(moment)}"
    return {
        "stream": facts.name,
        "time": _shown(moment),
        "losses": [
            {"when": words, "loss": loss, "shown": shown_loss(loss), "sure": shown_sureness(loss)} for words, loss in losses
        ],
        "sentence": " ".join(sentence(f"{subject}, {words}", loss) for words, loss in losses),
    }


def _shown(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
