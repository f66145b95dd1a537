"""Keys that appear by themselves, in a plan: stages that use up the losses allowed, and how many
persons a key needs.

Ages of a discovery count from the end of its block. So its stages keep a limit for the youngest
event of a person's day, and all the more for an age that counts from the day's start.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from fadecount.durations import UNITS
from fadecount.errors import ParameterError, bad_parameter
from fadecount.mechanisms.discovery import SMALLEST_EPSILON, Discovery
from fadecount.mechanisms.levels import MILLION
from fadecount.planning.request import Request


@dataclass(frozen=True, slots=True, kw_only=True)
class Appearance:
    """A stage of discovery: ``lag`` steps after its block's end a key is shown from the
    ``threshold`` on, so with 50 % at a count of ``persons_50``, and with 95 % at ``persons_95``.
    ``loss`` is that of all keys of one person's block by then."""

    lag: int
    threshold: int
    persons_50: int
    persons_95: int
    loss: float


def appearances(discovery: Discovery) -> list[Appearance]:
    """What a key needs to appear, stage by stage."""
    return [
        Appearance(
            lag=lag,
            threshold=discovery.thresholds[stage],
            persons_50=discovery.min_count(probability=0.5, stage=stage),
            persons_95=discovery.min_count(probability=0.95, stage=stage),
            loss=float(discovery.loss(lag)),
        )
        for stage, (lag, _) in enumerate(discovery.stages)
    ]


@lru_cache(maxsize=16)
def discovery_for(request: Request) -> Discovery | None:
    """The discovery that a request asks for. It uses up its share of every limit.

    The stage after a limit begins one step after its age. Each of a person's keys has the same part
    of it, rounded down to millionths.
    """
    if request.discover is None:
        return None
    (per, share), unit, delta = request.discover, request.unit, request.delta
    if unit.per != per:
        bound = f"limited per {per} where keys appear by themselves"
        remedy = (
            f"such as one person's {per} (--per-person 1/{'day' if per == '1d' else 'month'}): one"
            " who repeats a private key would publish it"
        )
        raise bad_parameter("unit", f"one {unit.subject}", bound, remedy)
    if unit.amount > 1 or (unit.keys == 1 and unit.events > 1):
        name, given = "events and amount of the unit", (unit.events, unit.amount)
        bound = "1 where keys appear by themselves under one key"
        raise bad_parameter(name, given, bound, "persons are counted; give them several keys")
    if request.tick_seconds is None or UNITS["d"] % request.tick_seconds:
        bound = "a part of a day where keys appear"
        raise bad_parameter("tick", request.tick_seconds, bound, "such as 1m or 1d")
    if delta is None or not request.targets:
        name, example = ("loss", "{'1h': 0.5}") if delta else ("delta", "1e-9")
        raise ParameterError(
            f"{name} must be given where keys appear by themselves; such as {example}"
        )
    stages: list[tuple[int, Fraction]] = []
    lag = 0
    for age, loss in request.targets:
        budget = Fraction(repr(loss)) * Fraction(repr(share)) / unit.keys
        budget = Fraction(math.floor(budget * MILLION), MILLION)
        if not stages or budget > stages[-1][1]:
            stages.append((lag, budget))
        lag = age + 1
    useful = [stage for stage in stages if stage[1] >= SMALLEST_EPSILON] or stages[-1:]
    return Discovery(per, tuple(useful), delta, unit.keys)  # type: ignore[arg-type] # budgets are exact
