"""Why one would take an option, in one sentence."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

from fadecount.durations import format_duration
from fadecount.mechanisms import Designed
from fadecount.planning.fit import least_factor
from fadecount.planning.options import Option
from fadecount.planning.request import Request


def with_reasons(request: Request, options: Sequence[Option]) -> tuple[Option, ...]:
    """The options, each with a sentence that compares it with the others."""
    return tuple(dataclasses.replace(option, reason=_reason(request, option, options)) for option in options)


def _reason(request: Request, option: Option, options: Sequence[Option]) -> str:
    parts = [_standing(request, option, options), _character(option)]
    if option.mechanism.delay:
        parts.append(f"outputs lag by {_lag(request, option.mechanism.delay)}")
    return "; ".join(part for part in parts if part) + "."


def _standing(request: Request, option: Option, options: Sequence[Option]) -> str:
    best = options[0]
    if not option.meets:
        factor = least_factor(option.mechanism, request)
        return "misses the error asked for" + (f", which needs {factor:.3g} times the losses" if factor else "")
    if not request.targets:
        if option is best:
            return "loses least by the horizon for this error"
        return f"loses {_compared(option.curve[-1][1], best.curve[-1][1], '')} by the horizon for the same error"
    if request.wants_error:
        return f"has the error asked for with {100.0 * (option.share or 0.0):.3g} % of the losses allowed"
    if option is best:
        return "has the least error under these losses"
    if request.objective == "worst":
        return f"has {_compared(option.forecast.horizon, best.forecast.horizon, ' error')} at the horizon compared with the best"
    return f"has {_compared(option.forecast.mean, best.forecast.mean, ' error')} compared with the best"


def _character(option: Option) -> str:
    if isinstance(option.mechanism, Designed):
        return "every level has its own budget" + (", chosen for the worst step" if "even" in option.name else "")
    return f"one formula, a loss of the order log(age)^{option.mechanism.exponent:g}"


def _compared(value: float, least: float, what: str) -> str:
    """How much more than the best, with the noun in its place."""
    more = 100.0 * (value / least - 1.0) if least > 0 else math.inf
    return f"about as little{what}" if more < 0.05 else f"{more:.3g} % more{what}"


def _lag(request: Request, delay: int) -> str:
    return f"{delay} steps" if request.tick_seconds is None else format_duration(delay * request.tick_seconds)
