"""The mechanism in a file: what ``to_json`` wrote, or a plan, which also says how long a step was
meant to be."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

from fadecount.durations import format_duration
from fadecount.errors import ParameterError
from fadecount.mechanisms.base import Mechanism
from fadecount.mechanisms.discovery import Discovery


def read_mechanism(path: str, *, tick_seconds: float | None = None) -> Mechanism:
    """The mechanism in a JSON file, for steps of this length if it is known.

    Refused with a :class:`ParameterError`: a file that holds none, and a plan that was made for
    steps of another length.
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
        raise ParameterError(
            f"plan must be a readable JSON file, got {path!r} ({reason}); check the path"
        ) from error


def read_discovery(path: str) -> Discovery | None:
    """The discovery of keys in a plan file; None if the plan has none."""
    try:
        found = json.loads(_read(path)).get("discovery")
    except (ValueError, AttributeError):
        return None
    return None if found is None else Discovery.from_json(json.dumps(found))


class PlannedPerson(NamedTuple):
    """What a plan assumes about persons: at most ``events`` contributions in any ``steps`` steps
    (None: ever), each of them under at most ``keys`` keys. A plan for what a person does in one
    step has one step here.
    """

    events: int
    steps: int | None
    keys: int = 1


def read_planned_person(path: str) -> PlannedPerson | None:
    """What :func:`planned_person` finds in a plan file; None if the file holds no JSON."""
    try:
        return planned_person(json.loads(_read(path)))
    except ValueError:
        return None


def planned_person(plan: object) -> PlannedPerson | None:
    """What a plan's JSON assumes about persons; None if the plan is about single events."""
    try:
        found = plan["plan"]["request"]["person"]  # type: ignore[index] # what is no such object is a KeyError or TypeError
        steps = (
            1 if found.get("per_step") else None if found["steps"] is None else int(found["steps"])
        )
        person = PlannedPerson(int(found["events"]), steps, int(found.get("keys", 1)))
    except (KeyError, TypeError, ValueError, AttributeError):
        return None
    return None if person == (1, None, 1) else person


def require_planned_person(planned: PlannedPerson, per_tick: int | None, keys: int = 1) -> None:
    """Refuse a stream that violates its plan's assumption about persons: its losses would not hold
    for them.

    ``per_tick`` is how many events of a person the stream counts in a tick (None: it ignores
    persons), under each of at most ``keys`` keys. That many in each of ``steps`` ticks must not be
    more than the plan assumes.
    """
    events, steps, most_keys = planned
    if steps is None or steps > events:
        span = "ever" if steps is None else f"in any {steps:,} ticks"
        raise ParameterError(
            f"plan must assume what a limit per tick can enforce, got at most {events:,} events of"
            f" a person {span}; plan with longer ticks, or for single events"
        )
    if per_tick is None or per_tick * steps > events or keys > most_keys:
        most = events // steps
        under, option = (
            (f" under each of {most_keys} keys", f", keys_per_person={most_keys}")
            if most_keys > 1
            else ("", "")
        )
        assumed = "" if steps == 1 else f" ({events:,} in any {steps:,} ticks)"
        raise ParameterError(
            f"persons must be limited to {most} per tick{under}, as the plan assumes{assumed}; "
            f"give person=COLUMN, per_person={most}{option}, or plan for single events"
        )


def require_planned_tick(mechanism: Mechanism, tick_seconds: float) -> None:
    """Refuse steps of another length than the mechanism was planned for: its losses by hour and day
    would not hold.

    Twice as many steps a day make an event twice as old by evening, and what was promised for two
    days is lost in one.
    """
    planned = mechanism.planned_tick_seconds
    if planned is not None and planned != tick_seconds:
        made, given = format_duration(planned), format_duration(tick_seconds)
        raise ParameterError(
            f"tick must be {made}, for which the mechanism was planned, got {given}; plan again for"
            " that tick, or keep the plan's"
        )
