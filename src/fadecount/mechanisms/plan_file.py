"""The mechanism in a file: what ``to_json`` wrote, or a plan, which also says how long a step was meant to be."""

from __future__ import annotations

import json
from pathlib import Path

from fadecount.durations import format_duration
from fadecount.errors import ParameterError
from fadecount.mechanisms.base import Mechanism


def read_mechanism(path: str, *, tick_seconds: float | None = None) -> Mechanism:
    """The mechanism in a JSON file, for steps of this length if it is known.

    Refused with a :class:`ParameterError`: a file that holds none, and a plan that was made for steps of another length.
    """
    text = _read(path)
    mechanism = Mechanism.from_json(text)
    if tick_seconds is not None:
        require_planned_tick(mechanism, tick_seconds)
    return mechanism


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not UTF-8 text"
        raise ParameterError(f"plan must be a readable JSON file, got {path!r} ({reason}); check the path") from error


def read_planned_person(path: str) -> tuple[int, int | None] | None:
    """What :func:`planned_person` finds in a plan file; None if the file holds no JSON."""
    try:
        return planned_person(json.loads(_read(path)))
    except ValueError:
        return None


def planned_person(plan: object) -> tuple[int, int | None] | None:
    """The most contributions of one person that a plan's JSON assumes: (events, steps), in any ``steps`` steps (None: ever).

    None if the plan is about single events.
    """
    try:
        found = plan["plan"]["request"]["person"]  # type: ignore[index] # what is no such object is a KeyError or TypeError
        events, steps = int(found["events"]), None if found["steps"] is None else int(found["steps"])
    except (KeyError, TypeError, ValueError):
        return None
    return None if events == 1 and steps is None else (events, steps)


def require_planned_person(planned: tuple[int, int | None], per_tick: int | None) -> None:
    """Refuse a stream that violates its plan's assumption about persons: its losses would not hold for them.

    ``per_tick`` is how many events of a person the stream counts in a tick (None: it ignores persons). That many in each
    of ``steps`` ticks must not be more than the plan assumes.
    """
    events, steps = planned
    if steps is None or steps > events:
        span = "ever" if steps is None else f"in any {steps:,} ticks"
        raise ParameterError(
            f"plan must assume what a limit per tick can enforce, got at most {events:,} events of a person {span}; "
            "plan with longer ticks, or for single events"
        )
    if per_tick is None or per_tick * steps > events:
        most = events // steps
        raise ParameterError(
            f"persons must be limited to {most} per tick, as the plan assumes ({events:,} in any {steps:,} ticks); "
            f"give --person COLUMN --per-person {most}/tick, or plan for single events"
        )


def require_planned_tick(mechanism: Mechanism, tick_seconds: float) -> None:
    """Refuse steps of another length than the mechanism was planned for: its losses by hour and day would not hold.

    Twice as many steps a day make an event twice as old by evening, and what was promised for two days is lost in one.
    """
    planned = mechanism.planned_tick_seconds
    if planned is not None and planned != tick_seconds:
        made, given = format_duration(planned), format_duration(tick_seconds)
        raise ParameterError(
            f"tick must be {made}, for which the mechanism was planned, got {given}; plan again for that tick, or keep the plan's"
        )
