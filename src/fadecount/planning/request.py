"""What someone asks of a plan, checked for sense."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fadecount.errors import ParameterError, bad_parameter, require_integer, require_real
from fadecount.mechanisms.schedule import LONGEST
from fadecount.planning.targets import EVENT, Person, Targets, read_targets


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """Losses at ages, errors, or both, over a horizon in steps.

    ``mean_error`` limits the root of the mean squared error over the horizon; ``max_error`` the error of all outputs at once,
    with probability ``1 - beta``. Both count the noise, not what a delay hides. ``delay`` is the longest that outputs may lag;
    ``tick_seconds`` the length of a step, for people to read.
    """

    horizon: int
    targets: tuple[tuple[int, float], ...] = ()
    mean_error: float | None = None
    max_error: float | None = None
    beta: float = 0.05
    delay: int = 0
    person: Person = EVENT
    tick_seconds: float | None = None
    objective: str = "mse"

    @property
    def wants_error(self) -> bool:
        return self.mean_error is not None or self.max_error is not None

    def targets_with(self, delay: int) -> Targets:
        """The targets for a delay: those before it are kept by the delay alone. Without any, a loss of 1 at the horizon."""
        pairs = dict(self.targets) or {self.horizon: 1.0}
        later = {age: loss for age, loss in pairs.items() if age >= delay} or {self.horizon: max(pairs.values())}
        return read_targets(later, horizon=self.horizon, delay=delay, person=self.person)


def read_request(
    *,
    horizon: Any = None,
    targets: Mapping[int, float] | None = None,
    mean_error: Any = None,
    max_error: Any = None,
    beta: Any = 0.05,
    delay: Any = 0,
    person: Person | None = None,
    tick_seconds: Any = None,
    objective: str = "mse",
) -> Request:
    """A request that makes sense, or a :class:`ParameterError` in one line."""
    if targets is None and mean_error is None and max_error is None:
        raise ParameterError("a plan needs targets, mean_error or max_error; say what may be lost, or how wrong counts may be")
    if horizon is None:
        if not isinstance(targets, Mapping) or not targets:
            raise ParameterError("horizon must be given where no target has an age; it is the number of steps to plan for")
        horizon = max(targets)
    horizon = require_integer("horizon", horizon, minimum=1, maximum=LONGEST, remedy="it is the number of steps to plan for")
    delay = require_integer("delay", delay, minimum=0, maximum=LONGEST, remedy="it is the longest that outputs may lag")
    if delay >= horizon:
        raise bad_parameter("delay", delay, f"less than the horizon, {horizon}", "no output would show anything")
    pairs = () if targets is None else _pairs(read_targets(targets, horizon=horizon, person=person))
    remedy = "it is an error in counts, such as 100"
    chance = require_real(
        "beta", beta, low=0.0, high=1.0, open_ends=True, remedy="it is the probability that max_error may fail, such as 0.05"
    )
    return Request(
        horizon=horizon,
        targets=pairs,
        mean_error=_positive("mean_error", mean_error, remedy),
        max_error=_positive("max_error", max_error, remedy),
        beta=chance,
        delay=delay,
        person=person or EVENT,
        tick_seconds=_positive("tick_seconds", tick_seconds, "it is the length of a step, such as 60"),
        objective=objective,
    )


def _pairs(targets: Targets) -> tuple[tuple[int, float], ...]:
    return tuple(zip(targets.ages, targets.losses, strict=True))


def _positive(name: str, value: Any, remedy: str) -> float | None:
    return None if value is None else require_real(name, value, low=0.0, high=1e18, open_ends=True, remedy=remedy)
