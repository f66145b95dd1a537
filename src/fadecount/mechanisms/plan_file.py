"""The mechanism in a file: what ``to_json`` wrote, or a plan, which also says how long a step was meant to be."""

from __future__ import annotations

from pathlib import Path

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
        require_planned_tick(mechanism, tick_seconds)
    return mechanism


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
