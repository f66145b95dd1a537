"""Durations as people write and read them: ``90s``, ``15m``, ``1d12h``, ``30d``, ``1y``; whole
seconds inside. Times in ISO 8601.

A year is 365 days and a month 30 days, so that ages count the same number of ticks every time.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
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


@dataclass(frozen=True, slots=True)
class BlockLength:
    """The length of a level on the calendar: so many ``seconds`` below a day, one day, or so many
    ``months``."""

    seconds: int = 0
    months: int = 0

    @classmethod
    def of_ticks(cls, length: int, tick_seconds: int) -> BlockLength | None:
        """The calendar length of so many ticks, if there is one: a tick, a part of a day, a day, or
        months of 30 days that divide a year or make up years; several ticks must fit into a day.

        >>> names = [BlockLength.of_ticks(days, 86400) for days in (1, 7, 30, 150, 180, 720)]
        >>> [name and name.name for name in names]
        ['1d', None, '1mo', None, '6mo', '2y']
        """
        seconds = length * tick_seconds
        day, month = UNITS["d"], UNITS["mo"]
        if length == 1 or seconds == day or (seconds < day and day % seconds == 0):
            return cls(seconds=seconds)
        months, rest = divmod(seconds, month)
        if months and not rest and not day % tick_seconds and 0 in (12 % months, months % 12):
            return cls(months=months)
        return None

    @classmethod
    @lru_cache(maxsize=64)
    def named(cls, name: str) -> BlockLength | None:
        """The length with this :attr:`name`, if the calendar has it.

        >>> BlockLength.named("1h"), BlockLength.named("1mo"), BlockLength.named("7h")
        (BlockLength(seconds=3600, months=0), BlockLength(seconds=0, months=1), None)
        """
        written = re.fullmatch(r"([1-9]\d{0,4})(mo|[smhdy])", name)
        if written is None:
            return None
        count, unit = int(written[1]), written[2]
        if months := count * {"mo": 1, "y": 12}.get(unit, 0):
            length = cls(months=months) if 0 in (12 % months, months % 12) else None
        else:
            seconds = count * UNITS[unit]
            length = cls(seconds=seconds) if UNITS["d"] % seconds == 0 else None
        return length if length is not None and length.name == name else None

    @property
    def words(self) -> str:
        """The length as a noun: ``hour``, ``day``, ``month``, or ``6 hours``."""
        count, unit = re.fullmatch(r"(\d+)(\D+)", self.name).groups()  # type: ignore[union-attr] # a name is both
        noun = next(noun for noun, short in _NAMES if short == unit)
        return noun if count == "1" else _counted(int(count), noun)

    def longest_seconds(self, zone: str) -> int:
        """The most seconds that such a slot of the calendar has: a day has up to 25 hours where
        clocks may change."""
        most = self.seconds or 31 * self.months * UNITS["d"]
        return most if most < UNITS["d"] or zone == "UTC" else most + UNITS["h"]

    @property
    def name(self) -> str:
        """The length as people say it: ``20m``, ``1h``, ``1d``, ``1mo``, ``1y``.

        >>> [BlockLength(seconds=each).name for each in (90, 1200, 7200, 86400, 604800)]
        ['90s', '20m', '2h', '1d', '7d']
        >>> BlockLength(months=3).name, BlockLength(months=12).name
        ('3mo', '1y')
        """
        if self.months:
            return f"{self.months // 12}y" if self.months % 12 == 0 else f"{self.months}mo"
        for unit in ("d", "h", "m"):
            if self.seconds % UNITS[unit] == 0:
                return f"{self.seconds // UNITS[unit]}{unit}"
        return f"{self.seconds}s"
