"""The request for a plan, checked for consistency.

A target ``age: loss`` says that no item may have lost more than ``loss`` up to that age. Between
two targets the limit is that of the next one; past the last one it is the last, up to the horizon
(that age included). Since the loss never falls with the age, it is enough to check the targets'
ages and the horizon.

For a person within a slot of time (a day) the limit is on all of that together, at the age from the
slot's start: the losses of several contributions add up, and none is older (docs/planning.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Any

from fadecount.checks import LONGEST, require_delta, require_integer, require_real, require_tick
from fadecount.durations import UNITS, parse_duration
from fadecount.errors import ParameterError, bad_parameter
from fadecount.mechanisms import ONE_EVENT, Mechanism, Unit
from fadecount.mechanisms.discovery import LENGTHS

LARGEST_LOSS = float(1 << 20)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """Losses at ages, an error, or both, over a horizon in steps.

    ``mean_error`` limits the root of the mean squared error over the horizon: of the noise, not of
    what a delay hides. ``delay`` is by how much outputs lag. ``tick_seconds`` is the
    length of a step. ``figures`` are lengths and the weights of their figures beside the total
    (None: hours and days that can be read). ``discover`` is the length of the blocks in which keys
    appear by themselves, and what part of every loss this may use: 1 where each event counts under
    a declared key or a hidden one, less where it counts under both. ``delta`` is the chance with
    which a key may appear that one person alone brought.
    """

    horizon: int
    targets: tuple[tuple[int, float], ...] = ()
    mean_error: float | None = None
    delay: int = 0
    unit: Unit = ONE_EVENT
    tick_seconds: int | None = None
    figures: tuple[tuple[int, float], ...] | None = None
    delta: float | None = None
    discover: tuple[str, float] | None = None

    def limits(self) -> list[tuple[int, float]]:
        """The ages and losses that imply all others: the last age of each loss, and the horizon.
        Without any, a loss of 1 at the horizon. The delay alone keeps those before it."""
        pairs = dict(self.targets) or {self.horizon: 1.0}
        if self.discover is not None and self.discover[1] < 1.0:
            left = 1 - Fraction(repr(self.discover[1]))
            pairs = {age: float(Fraction(repr(loss)) * left) for age, loss in pairs.items()}
        largest = max(pairs.values())
        ends = {loss: age for age, loss in pairs.items() if age >= self.delay}
        return [(age, loss) for loss, age in {**ends, largest: self.horizon}.items()]

    @property
    def longest_figure(self) -> int:
        """The most steps that a figure may be about: the slot of distinct persons, or the horizon,
        also where the length of a step is not known."""
        slot = self.unit.length if self.unit.distinct_per else None
        if slot is None or self.tick_seconds is None:
            return self.horizon
        return (slot.seconds or slot.months * UNITS["mo"]) // self.tick_seconds

    def kept_by(self, mechanism: Mechanism) -> bool:
        """Whether a mechanism loses no more than every limit. The promise of a plan rests on this
        alone, and on no solver."""
        return all(self.unit.loss(mechanism, age).epsilon <= most for age, most in self.limits())


def read_request(
    *,
    loss: Mapping[Any, float] | None = None,
    tick: Any = None,
    horizon: Any = None,
    mean_error: Any = None,
    delay: Any = 0,
    unit: Unit = ONE_EVENT,
    figures: Mapping[Any, float] | None = None,
    delta: Any = None,
    discover: Any = None,
    name: str = "loss",
) -> Request:
    """A checked request in steps, or a :class:`ParameterError` in one line; ``name`` is that of the
    losses."""
    if loss is None and mean_error is None:
        raise ParameterError(
            "loss must be given; or mean_error=100, which says how wrong counts may be"
        )
    if not isinstance(unit, Unit):
        remedy = "such as Unit(of='person', events=24, per='1d')"
        raise bad_parameter("unit", unit, "a Unit", remedy)
    seconds = parse_duration(tick, name="tick") if isinstance(tick, str) else tick
    seconds = None if seconds is None else require_tick("tick", seconds)
    length = unit.length
    if length and seconds and seconds > (length.seconds or length.months * 28 * UNITS["d"]):
        remedy = "plan for a person within a tick"
        raise bad_parameter("per", length.name, "at least a tick", remedy)
    losses = None if loss is None else _in_steps(name, loss, seconds)
    if horizon is None and not losses:
        raise ParameterError(
            "horizon must be given where no loss has an age; it is the number of steps to plan for"
        )
    longest = max(losses or ()) if horizon is None else _steps("horizon", horizon, seconds)
    remedy = "it is the number of steps to plan for"
    longest = require_integer("horizon", longest, minimum=1, maximum=LONGEST, remedy=remedy)
    remedy = "it is by how many steps outputs lag"
    late = _steps("delay", delay, seconds)
    late = require_integer("delay", late, minimum=0, maximum=LONGEST, remedy=remedy)
    if late >= longest:
        bound = f"less than the horizon, {longest}"
        raise bad_parameter("delay", late, bound, "no output would show anything")
    if mean_error is not None:
        remedy = "it is an error in counts, such as 100"
        mean_error = require_real(
            "mean_error", mean_error, low=0.0, high=1e18, open_ends=True, remedy=remedy
        )
    if delta is not None and discover is None:
        remedy = "it is the chance of an exception that only keys that appear by themselves have"
        raise bad_parameter("delta", delta, "given with discover only", remedy)
    weights = None if figures is None else _in_steps("figures", figures, seconds)
    return Request(
        horizon=longest,
        targets=() if losses is None else _targets(name, losses, longest),
        mean_error=mean_error,
        delay=late,
        unit=unit,
        tick_seconds=seconds,
        figures=None if weights is None else _weights(weights, longest),
        delta=None if delta is None else require_delta(delta),
        discover=_discover(discover),
    )


def _in_steps(name: str, values: Any, tick: int | None) -> dict[Any, float]:
    """A mapping with durations as steps."""
    if not isinstance(values, Mapping):
        remedy = "such as {60: 0.5, 1440: 2.0}"
        raise bad_parameter(name, values, "a mapping from steps or durations to numbers", remedy)
    steps = {_steps(name, key, tick): value for key, value in values.items()}
    if len(steps) < len(values):
        raise ParameterError(f"{name} must have one value per step; remove the duplicate")
    return steps


def _steps(name: str, value: Any, tick: int | None) -> Any:
    """A written duration in steps, rounded up, which is the stricter age; others as they are."""
    if not isinstance(value, str):
        return value
    if tick is None:
        bound = "a number of steps without a tick"
        raise bad_parameter(name, value, bound, "give a tick, such as tick='1m'")
    return -(-parse_duration(value, name=name) // tick)


def _targets(name: str, losses: dict[Any, float], horizon: int) -> tuple[tuple[int, float], ...]:
    """Checked, consistent ages and losses."""
    if not losses:
        raise bad_parameter(name, losses, "a mapping from ages to losses", "such as {1000: 2.0}")
    pairs = []
    for age, loss in losses.items():
        remedy = "an age is a number of steps, and nothing grows older than the horizon"
        number = require_integer("target age", age, minimum=0, maximum=horizon, remedy=remedy)
        about, remedy = f"target loss at age {number}", "leave an age out to set no limit there"
        most = require_real(about, loss, low=0.0, high=LARGEST_LOSS, open_ends=True, remedy=remedy)
        pairs.append((number, most))
    pairs.sort()
    for (age, loss), (next_age, next_loss) in pairwise(pairs):
        if next_loss < loss:
            raise ParameterError(
                f"{name} must not decrease with age, got {loss:.12g} at {age} and {next_loss:.12g}"
                f" at {next_age}; what has been lost stays lost"
            )
    return tuple(pairs)


def _weights(figures: dict[Any, float], horizon: int) -> tuple[tuple[int, float], ...]:
    """Checked weights of figures by their lengths."""
    pairs = []
    for length, weight in figures.items():
        remedy = "it is the length of a figure in steps"
        number = require_integer("figures", length, minimum=1, maximum=horizon, remedy=remedy)
        about = f"weight of figures of length {number}"
        remedy = "3 makes the figure's variance count three times as much as the total's"
        checked = require_real(about, weight, low=0.0, high=1e9, open_ends=True, remedy=remedy)
        pairs.append((number, checked))
    return tuple(pairs)


def _discover(discover: Any) -> tuple[str, float] | None:
    """A request for discovery: the length of its blocks and its share of the losses allowed."""
    if discover is None:
        return None
    shares = {discover: 1.0} if isinstance(discover, str) else discover
    if not isinstance(shares, Mapping) or len(shares) != 1 or not {*shares} <= {*LENGTHS}:
        bound = f"{' or '.join(LENGTHS)}, or such a length with a share"
        raise bad_parameter("discover", discover, bound, "such as '1d' or {'1d': 0.5}")
    ((per, share),) = shares.items()
    remedy = "it is the part of every loss that discovery may use; leave out discover for none"
    return per, require_real("share of discover", share, low=0.001, high=1.0, remedy=remedy)
