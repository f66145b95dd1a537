"""The mechanism in a file: what ``to_json`` wrote, or a plan, which also says how long a step was meant to be."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from fadecount.durations import format_duration
from fadecount.errors import ParameterError
from fadecount.mechanisms.base import Mechanism


def read_mechanism(path: str, *, tick_seconds: float | None = None) -> Mechanism:
    """The mechanism in a JSON file, for steps of this length if it is known.

    Refused with a :class:`ParameterError`: a file that holds none, and a plan that was made for steps of another length.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not UTF-8 text"
        raise ParameterError(f"plan must be a readable JSON file, got {path!r} ({reason}); check the path") from error
    mechanism = Mechanism.from_json(text)
    if tick_seconds is not None:
        require_planned_tick(json.loads(text), tick_seconds)
    return mechanism


def require_planned_tick(document: Any, tick_seconds: float) -> None:
    """Refuse steps of another length than a plan was made for: its losses by hour and day would not hold.

    Twice as many steps a day make an event twice as old by evening, and what was promised for two days is lost in one.
    """
    found = document
    for name in ("plan", "request", "tick_seconds"):
        found = found.get(name) if isinstance(found, dict) else None
    if isinstance(found, int | float) and found > 0 and found != tick_seconds:
        planned, given = format_duration(found), format_duration(tick_seconds)
        raise ParameterError(
            f"tick must be {planned}, for which the plan was made, got {given}; plan again for that tick, or keep the plan's"
        )
