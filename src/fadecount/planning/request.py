"""The request for a plan, checked for consistency.

A target ``age: loss`` says that no item may have lost more than ``loss`` up to that age. Between
two targets the limit is that of the next one; past the last one it is the last, up to the horizon
(that age included). Since the loss never falls with the age, it is enough to check the targets'
ages and the horizon.

For a person within a slot of time (a day) the limit is on all of that together, at the age from the
slot's start: the losses of several contributions add up, and none is older (docs/planning.md). With
at most ``events`` in any ``steps`` consecutive steps instead, the worst case has ``events`` at the
age itself, ``events`` one period later, and so on.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Any

from fadecount.checks import LONGEST, require_integer, require_real
from fadecount.durations import UNITS, BlockLength, parse_duration
from fadecount.errors import ParameterError, bad_parameter
from fadecount.mechanisms.base import LARGEST_SENSITIVITY, require_keys
from fadecount.mechanisms.gaussian import require_delta
from fadecount.planning.discovery import read_discover

LARGEST_LOSS = float(1 << 20)
_PARTS = 1024
"""The number of parts into which the contributions of a person are divided at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Person:
    """Who a plan protects: by default one event.

    With ``per`` (``tick``, ``1h``, ``1d``, ``1mo``) it is what one person did in such a slot, the
    unit that a stream can enforce: at most ``events``, in each of at most ``keys`` keys, each with
    an ``amount`` up to this one. Otherwise a person contributes at most ``events`` times in any
    ``steps`` consecutive steps (None: ever), which no stream enforces.
    """

    events: int = 1
    steps: int | None = None
    keys: int = 1
    amount: int = 1
    per: str | None = None

    def __post_init__(self) -> None:
        remedy = "it is how often one person can contribute"
        object.__setattr__(
            self,
            "events",
            require_integer("events", self.events, minimum=1, maximum=1 << 30, remedy=remedy),
        )
        if self.steps is not None:
            remedy = "it is the number of steps in which a person contributes at most that often"
            steps = require_integer("steps", self.steps, minimum=1, maximum=LONGEST, remedy=remedy)
            object.__setattr__(self, "steps", steps)
            if self.per is not None:
                raise bad_parameter(
                    "steps", steps, "left out with per", "per is about the events of one slot"
                )
        if self.per not in (None, "tick") and BlockLength.named(str(self.per)) is None:
            bound = "tick, or a length such as 1h, 1d or 1mo"
            raise bad_parameter(
                "per", self.per, bound, "it is the slot in which a person is capped"
            )
        object.__setattr__(self, "keys", require_keys(self.keys))
        remedy = "it is the largest amount of one event"
        amount = require_integer(
            "amount", self.amount, minimum=1, maximum=LARGEST_SENSITIVITY, remedy=remedy
        )
        object.__setattr__(self, "amount", amount)

    @property
    def is_enforceable(self) -> bool:
        """Whether a stream can have this as its unit."""
        one_event = (self.events, self.steps, self.keys) == (1, None, 1)
        return self.per is not None or one_event

    @property
    def subject(self) -> str:
        """Whose age the losses of a plan are about: event, person's day."""
        if self.per is None:
            return "event" if self.is_enforceable else "person's first event"
        length = BlockLength.named(self.per)
        return f"person's {'tick' if length is None else length.words}"

    def parts(self, reach: int, *, per_key: int = 1) -> Iterator[tuple[int, int]]:
        """The contributions seen for at most ``reach`` outputs, as ``(reach, times)``, each reach
        rounded up within its part.

        Each counts ``per_key`` times: with pure losses, the losses under different keys add up.
        """
        each = self.events * self.amount * per_key
        if self.steps is None:
            yield reach, each
            return
        periods = (reach - 1) // self.steps + 1
        size = -(-periods // _PARTS)
        for at in range(0, periods, size):
            yield reach - at * self.steps, min(size, periods - at) * each


EVENT = Person(events=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """A weighted sum of losses must stay at or below ``most``.

    Each part ``(reach, times)`` stands for so many items, each seen for ``reach`` outputs (its age
    past the delay, plus one).
    """

    most: float
    parts: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Targets:
    """Checked targets: ``losses`` at ``ages`` (increasing), for a horizon, a delay and a person."""

    ages: tuple[int, ...]
    losses: tuple[float, ...]
    horizon: int
    delay: int = 0
    person: Person = EVENT

    def limits(self) -> list[Limit]:
        """The limits on pure losses, one per pair of :meth:`ends`."""
        person = self.person
        return [
            Limit(
                most=loss,
                parts=tuple(person.parts(age - self.delay + 1, per_key=person.keys)),
            )
            for age, loss in self.ends()
        ]

    def ends(self) -> list[tuple[int, float]]:
        """The ages and losses that imply all others: the last age of each loss, and the horizon."""
        ends = dict(zip(self.losses, self.ages, strict=True))  # of equal losses the last age stays
        ends[self.losses[-1]] = max(self.horizon, self.ages[-1])
        return [(age, loss) for loss, age in ends.items() if age >= self.delay]


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """Losses at ages, errors, or both, over a horizon in steps.

    ``mean_error`` limits the root of the mean squared error over the horizon; ``max_error`` the
    error of all outputs at once, with probability ``1 - beta``. Both count the noise, not what a
    delay hides. ``delay`` is the longest that outputs may lag. ``tick_seconds`` is the length of a
    step. ``figures`` are lengths and the weights of their figures beside the total (None: hours and
    days that can be read). ``delta`` is the chance with which a promise may fail; without it only
    pure losses are planned. ``discover`` is the length of the blocks in which keys appear by
    themselves, and what part of every loss this may use: 1 where each event counts under a declared
    key or a hidden one, less where it counts under both.
    """

    horizon: int
    targets: tuple[tuple[int, float], ...] = ()
    mean_error: float | None = None
    max_error: float | None = None
    beta: float = 0.05
    delay: int = 0
    person: Person = EVENT
    tick_seconds: float | None = None
    figures: tuple[tuple[int, float], ...] | None = None
    delta: float | None = None
    discover: tuple[str, float] | None = None

    @property
    def wants_error(self) -> bool:
        """Whether the request limits the error."""
        return self.mean_error is not None or self.max_error is not None

    def targets_with(self, delay: int) -> Targets:
        """The targets for a delay: those before it are kept by the delay alone. Without any, a loss
        of 1 at the horizon."""
        pairs = dict(self.targets) or {self.horizon: 1.0}
        if self.discover is not None and self.discover[1] < 1.0:
            left = 1 - Fraction(repr(self.discover[1]))
            pairs = {age: float(Fraction(repr(loss)) * left) for age, loss in pairs.items()}
        later = {age: loss for age, loss in pairs.items() if age >= delay} or {
            self.horizon: max(pairs.values())
        }
        return read_targets(later, horizon=self.horizon, delay=delay, person=self.person)


def read_request(
    *,
    loss: Mapping[Any, float] | None = None,
    tick: Any = None,
    horizon: Any = None,
    mean_error: Any = None,
    max_error: Any = None,
    beta: Any = 0.05,
    delay: Any = 0,
    person: Person | None = None,
    figures: Mapping[Any, float] | None = None,
    delta: Any = None,
    discover: Any = None,
) -> Request:
    """A checked request in steps, or a :class:`ParameterError` in one line."""
    if loss is None and mean_error is None and max_error is None:
        raise ParameterError(
            "a plan needs loss, mean_error or max_error; say what may be lost, or how wrong"
            " counts may be"
        )
    seconds = parse_duration(tick, name="tick") if isinstance(tick, str) else tick
    seconds = _positive("tick", seconds, "it is the length of a step, such as 1m")
    if isinstance(loss, Mapping):
        loss = _in_steps("loss", loss, seconds)
    length = None if person is None or person.per is None else BlockLength.named(person.per)
    if length and seconds and seconds > (length.seconds or length.months * 28 * UNITS["d"]):
        remedy = "plan for a person within a tick"
        raise bad_parameter("per", length.name, "at least a tick", remedy)
    if horizon is None:
        if not isinstance(loss, Mapping) or not loss:
            raise ParameterError(
                "horizon must be given where no loss has an age; it is the number of steps to"
                " plan for"
            )
        horizon = max(loss)
    horizon, delay = _span(_steps("horizon", horizon, seconds), _steps("delay", delay, seconds))
    pairs: tuple[tuple[int, float], ...] = ()
    if loss is not None:
        read = read_targets(loss, horizon=horizon, person=person, name="loss")
        pairs = tuple(zip(read.ages, read.losses, strict=True))
    if isinstance(figures, Mapping):
        figures = _in_steps("figures", figures, seconds)
    weights = read_figures(figures, horizon)
    error = "it is an error in counts, such as 100"
    chance = "it is the probability that max_error may fail, such as 0.05"
    return Request(
        horizon=horizon,
        targets=pairs,
        mean_error=_positive("mean_error", mean_error, error),
        max_error=_positive("max_error", max_error, error),
        beta=require_real("beta", beta, low=0.0, high=1.0, open_ends=True, remedy=chance),
        delay=delay,
        person=person or EVENT,
        tick_seconds=seconds,
        figures=None if weights is None else tuple(weights.items()),
        delta=None if delta is None else require_delta(delta),
        discover=read_discover(discover),
    )


def _in_steps(name: str, values: Mapping[Any, float], tick: float | None) -> dict[Any, float]:
    """A mapping with durations as steps."""
    steps = {_steps(name, key, tick): value for key, value in values.items()}
    if len(steps) < len(values):
        raise ParameterError(f"{name} must have one value per step; remove the duplicate")
    return steps


def _steps(name: str, value: Any, tick: float | None) -> Any:
    """A written duration in steps, rounded up, which is the stricter age; others as they are."""
    if not isinstance(value, str):
        return value
    if tick is None:
        raise bad_parameter(
            name, value, "a number of steps without a tick", "give tick, such as 1m"
        )
    return math.ceil(Fraction(parse_duration(value, name=name)) / Fraction(tick))


def read_figures(figures: Any, horizon: int) -> dict[int, float] | None:
    """Checked weights of figures by their lengths, or a :class:`ParameterError` in one line."""
    if figures is None:
        return None
    if not isinstance(figures, Mapping):
        remedy = "such as {60: 3, 1440: 5}, or {} for the total alone"
        raise bad_parameter("figures", figures, "a mapping from lengths to weights", remedy)
    remedy = "it is the length of a figure in steps"
    return {
        require_integer("figures", length, minimum=1, maximum=horizon, remedy=remedy): require_real(
            f"weight of figures of length {length}",
            weight,
            low=0.0,
            high=1e9,
            open_ends=True,
            remedy="3 makes the figure's variance count three times as much as the total's",
        )
        for length, weight in figures.items()
    }


def _span(horizon: Any, delay: Any) -> tuple[int, int]:
    """A checked horizon and a delay that is shorter."""
    remedy = "it is the number of steps to plan for"
    horizon = require_integer("horizon", horizon, minimum=1, maximum=LONGEST, remedy=remedy)
    delay = require_integer(
        "delay", delay, minimum=0, maximum=LONGEST, remedy="it is by how many steps outputs lag"
    )
    if delay >= horizon:
        raise bad_parameter(
            "delay", delay, f"less than the horizon, {horizon}", "no output would show anything"
        )
    return horizon, delay


def _positive(name: str, value: Any, remedy: str) -> float | None:
    if value is None:
        return None
    return require_real(name, value, low=0.0, high=1e18, open_ends=True, remedy=remedy)


def read_targets(
    targets: Any,
    *,
    horizon: Any,
    delay: Any = 0,
    person: Person | None = None,
    name: str = "targets",
) -> Targets:
    """Checked, consistent targets, or a :class:`ParameterError` in one line."""
    horizon, delay = _span(horizon, delay)
    if person is not None and not isinstance(person, Person):
        raise bad_parameter("person", person, "a Person", "such as Person(events=24, steps=1440)")
    if not isinstance(targets, Mapping) or not targets:
        raise bad_parameter(
            name, targets, "a mapping from ages to losses", "such as {0: 0.1, 1000: 2.0}"
        )
    pairs = sorted(_pair(age, loss, horizon) for age, loss in targets.items())
    if len({age for age, _ in pairs}) < len(pairs):
        raise ParameterError(f"{name} must have one loss per age; remove the duplicate")
    for (age, loss), (next_age, next_loss) in pairwise(pairs):
        if next_loss < loss:
            raise ParameterError(
                f"{name} must not decrease with age, got {loss:.12g} at {age} and {next_loss:.12g}"
                f" at {next_age}; what has been lost stays lost, so lower the loss at {age} to at"
                f" most {next_loss:.12g}"
            )
    if pairs[0][0] < delay:
        age, loss = pairs[0]
        raise ParameterError(
            f"{name} must lie at or past the delay, got age {age} with delay {delay};"
            f" nothing is lost before age {delay}, so remove it or lower the delay"
        )
    ages, losses = zip(*pairs, strict=True)
    return Targets(ages=ages, losses=losses, horizon=horizon, delay=delay, person=person or EVENT)


def _pair(age: Any, loss: Any, horizon: int) -> tuple[int, float]:
    remedy = "an age is a number of steps, and nothing grows older than the horizon"
    number = require_integer("target age", age, minimum=0, maximum=horizon, remedy=remedy)
    remedy = "a loss is positive; leave an age out to set no limit there"
    name = f"target loss at age {number}"
    return number, require_real(
        name, loss, low=0.0, high=LARGEST_LOSS, open_ends=True, remedy=remedy
    )
