"""The mechanism in a file: what ``to_json`` wrote, or a plan, which also says how long a step was
meant to be."""

from __future__ import annotations

import json
from pathlib import Path

from fadecount.durations import format_duration
from fadecount.errors import ParameterError, bad_parameter
from fadecount.mechanisms.base import Mechanism
from fadecount.mechanisms.discovery import Discovery
from fadecount.mechanisms.unit import ONE_EVENT, Unit


def read_mechanism(path: str, *, tick_seconds: int | None = None) -> Mechanism:
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


def read_discovery(path: str, *, other: str | None = None) -> Discovery | None:
    """The discovery of keys in a plan file; None if the plan has none. One that has no room for
    ``other`` is refused: see :func:`require_room_for_other`."""
    try:
        plan = json.loads(_read(path))
        discovery = plan.get("discovery")
    except (ValueError, AttributeError):
        return None
    require_room_for_other(plan, other)
    return None if discovery is None else Discovery.from_json(json.dumps(discovery))


def require_room_for_other(plan: object, other: str | None) -> None:
    """Refuse to count hidden events under the key ``other`` too with a plan whose discovery may use
    all of every loss: both losses would add up to more than the plan promises."""
    try:
        share = plan["plan"]["request"]["discover"][1]  # type: ignore[index] # what is no such object is a KeyError or TypeError
    except (KeyError, TypeError, IndexError):
        return
    if other is not None and share == 1.0:
        bound = "left out, as the plan's keys that appear use all of its loss"
        raise bad_parameter("other", other, bound, "plan again, such as with --discover 1d=0.5")


def read_planned_unit(path: str) -> Unit | None:
    """What :func:`planned_unit` finds in a plan file; None if the file holds no JSON."""
    try:
        return planned_unit(json.loads(_read(path)))
    except ValueError:
        return None


def planned_unit(plan: object) -> Unit | None:
    """Whom a plan's JSON protects; None if that is one event that counts 1, and its losses are for
    any unit."""
    try:
        unit = Unit.from_json(plan["plan"]["request"]["unit"])  # type: ignore[index] # what is no such object is a KeyError or TypeError
    except (KeyError, TypeError, ValueError, AttributeError):
        return None
    return None if unit == ONE_EVENT else unit


def require_planned_tick(mechanism: Mechanism, tick_seconds: int) -> None:
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
