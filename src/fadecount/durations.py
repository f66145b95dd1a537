"""Durations as people write and read them: ``90s``, ``15m``, ``1d12h``, ``30d``, ``1y``; whole
seconds inside. Times in ISO 8601.

A year is 365 days and a month 30 days, so that ages count the same number of ticks every time.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from fadecount.errors import bad_parameter

if TYPE_CHECKING:
    from datetime import datetime

UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800, "mo": 2592000, "y": 31536000}
_NAMES = (
    ("year", "y"),
    ("month", "mo"),
    ("week", "w"),
    ("day", "d"),
    ("hour", "h"),
    ("minute", "m"),
    ("second", "s"),
)
_PART = re.compile(r"(\d+)(mo|[smhdwy])")


def parse_duration(text: str, *, name: str = "duration") -> int:
    """A written duration in seconds, always positive.

    >>> parse_duration("90s"), parse_duration("1d12h"), parse_duration("1y")
    (90, 129600, 31536000)
    """
    compact = text.strip().lower().replace(" ", "")
    parts = _PART.findall(compact)
    seconds = sum(int(number) * UNITS[unit] for number, unit in parts)
    if "".join(number + unit for number, unit in parts) != compact or not 0 < seconds < 1 << 60:
        raise bad_parameter(
            name,
            text,
            "a positive duration",
            f"write a number and a unit ({', '.join(UNITS)}), such as 15m or 1d12h",
        )
    return seconds


def parse_time(text: str, zone: str, *, name: str) -> datetime:
    """A written time; without an offset it is in the given zone."""
    from datetime import datetime
    from zoneinfo import ZoneInfo

    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = datetime.min
    if not 6 < moment.year < 9987:
        bound = "a time in ISO 8601, in the years 7 to 9986"
        raise bad_parameter(name, text, bound, "such as 2026-03-01T10:00 or 2026-03-01T10:00+01:00")
    return moment if moment.tzinfo else moment.replace(tzinfo=ZoneInfo(zone))


def format_duration(seconds: int) -> str:
    """A duration as a person would say it: its largest unit, and the next one if it matters.

    >>> [format_duration(seconds) for seconds in (0, 90, 3600, 36 * 3600, 400 * 86400)]
    ['0 seconds', '1 minute 30 seconds', '1 hour', '1 day 12 hours', '1 year 1 month']
    """
    for at, (name, unit) in enumerate(_NAMES):
        count, rest = divmod(seconds, UNITS[unit])
        if count:
            shown = _counted(count, name)
            for smaller_name, smaller in _NAMES[at + 1 :]:
                more = rest // UNITS[smaller]
                if more:
                    return f"{shown} {_counted(more, smaller_name)}" if count < 10 else shown
            return shown
    return "0 seconds"


def _counted(number: int, name: str) -> str:
    return f"{number:,} {name}" if number == 1 else f"{number:,} {name}s"
