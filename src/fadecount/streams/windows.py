"""Where windows of time (an hour, a day, a week, a month) begin and end, in time and in ticks."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray

from fadecount.durations import UNITS
from fadecount.errors import bad_parameter
from fadecount.streams.ticks import DAY, Ticks

Numbers = NDArray[np.int64]
LARGEST_WINDOWS = 50_000_000
_PER = re.compile(r"\s*([1-9]\d{0,5})\s*(mo|[smhdwy])\s*")
_EPOCH = date(1970, 1, 1)
_MONDAY = date(1969, 12, 29)


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowCalendar:
    """Where windows begin: ``per`` is a number and a unit (``15m``, ``1h``, ``1d``, ``1w``,
    ``1mo``, ``1y``).

    Seconds, minutes and hours are counted from the beginning of 1970 in UTC. Days begin at midnight
    in ``zone``, weeks on Monday, months and years on their first day; so a day may have 23 or 25
    hours.

    >>> days = WindowCalendar(per="1d", zone="Europe/Berlin")
    >>> (np.diff(days.edges(1_774_652_400, 1_774_900_000)) // 3600).tolist()
    [24, 23, 24]
    """

    per: str
    zone: str = "UTC"

    def __post_init__(self) -> None:
        if _PER.fullmatch(self.per) is None:
            raise bad_parameter(
                "per",
                self.per,
                "a number and a unit (s, m, h, d, w, mo, y)",
                "such as 1h, 1d or 1mo",
            )
        Ticks(tick_seconds=DAY, zone=self.zone)
        self.edges(0, 1)  # a window that Python's calendar cannot hold is refused now

    @property
    def _parts(self) -> tuple[int, str]:
        found = _PER.fullmatch(self.per)
        assert found is not None
        return int(found[1]), found[2]

    def edges(self, first: int, end: int) -> Numbers:
        """Where windows begin and end (Unix seconds): from at or before ``first`` to at or after
        ``end``."""
        count, unit = self._parts
        if (end - first) // (count * UNITS[unit]) > LARGEST_WINDOWS:
            raise bad_parameter(
                "per",
                self.per,
                f"so long that there are at most {LARGEST_WINDOWS:,} windows",
                "choose longer ones",
            )
        if unit in ("s", "m", "h"):
            length = count * UNITS[unit]
            return np.arange(first // length, -(-end // length) + 1, dtype=np.int64) * length
        number = self._number(first)
        try:
            begins = [self._begin(number)]
            while begins[-1] < end or len(begins) < 2:
                number += 1
                begins.append(self._begin(number))
        except (ValueError, OverflowError):  # Python's calendar has the years 1 to 9999
            raise bad_parameter(
                "per", self.per, "so short that windows end before the year 10000", "such as 1y"
            ) from None
        return np.array(begins, dtype=np.int64)

    def _number(self, second: int) -> int:
        """The number of the window that contains a time."""
        count, unit = self._parts
        day = datetime.fromtimestamp(second, ZoneInfo(self.zone)).date()
        if unit in ("mo", "y"):
            months = (day.year - 1970) * 12 + day.month - 1
            return months // (count if unit == "mo" else 12 * count)
        return (day - (_EPOCH if unit == "d" else _MONDAY)).days // (
            count if unit == "d" else 7 * count
        )

    def _begin(self, number: int) -> int:
        count, unit = self._parts
        if unit in ("mo", "y"):
            years, month = divmod(number * (count if unit == "mo" else 12 * count), 12)
            day = date(1970 + years, month + 1, 1)
        else:
            day = (_EPOCH if unit == "d" else _MONDAY) + timedelta(
                days=number * (count if unit == "d" else 7 * count)
            )
        return int(datetime(day.year, day.month, day.day, tzinfo=ZoneInfo(self.zone)).timestamp())


def window_ticks(
    ticks: Ticks, calendar: WindowCalendar, first: int, last: int
) -> tuple[Numbers, Numbers, NDArray[np.bool_]]:
    """The windows of the ticks ``first .. last``: edges in Unix seconds, the tick at each edge, and
    which are partial.

    Window ``i`` holds the ticks from that at edge ``i`` up to, but not including, that at edge ``i
    + 1``.
    """
    begin, end = ticks.start_seconds(first), ticks.start_seconds(last + 1)
    edges = calendar.edges(begin, end)
    inner = edges[1:-1]
    numbers = ticks.of(inner)
    starts = np.array([ticks.start_seconds(tick) for tick in numbers.tolist()], dtype=np.int64)
    if np.any(starts != inner) or len(edges) - 1 > last - first + 1:
        remedy = "give a multiple of the tick, in a zone whose days begin where a tick begins"
        raise bad_parameter(
            "per", calendar.per, f"made of whole ticks of {ticks.tick_seconds} s", remedy
        )
    at = np.concatenate([[first], numbers, [last + 1]])
    partial = np.zeros(len(edges) - 1, dtype=np.bool_)
    partial[0] |= edges[0] < begin
    partial[-1] |= edges[-1] > end
    return edges, at, partial
