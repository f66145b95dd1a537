"""Where windows of time (an hour, a day, a week, a month) begin and end, in time and in ticks."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fadecount.durations import UNITS
from fadecount.errors import bad_parameter
from fadecount.streams.ticks import DAY, EARLIEST, LATEST, Ticks

Numbers = NDArray[np.int64]
LARGEST_WINDOWS = 50_000_000
_PER = re.compile(r"\s*([1-9]\d{0,5})\s*(mo|[smhdwy])\s*")
_MONTHS = {"mo": 1, "y": 12}
_BEGIN = {"d": 0, "w": -3}
"""The first day of window 0; weeks begin on Monday, 1969-12-29."""


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
        local = Ticks(tick_seconds=DAY, zone=self.zone)
        numbers = self._number(np.array([local.at(first), local.at(max(first, end - 1))]))
        days = self._begin(np.arange(numbers[0], numbers[1] + 2))
        if days[0] * DAY < EARLIEST or days[-1] * DAY > LATEST:
            raise bad_parameter(
                "per", self.per, "so short that windows end before the year 10000", "such as 1y"
            )
        return local.starts_of(days)

    def _number(self, days: Numbers) -> Numbers:
        """The numbers of the windows that hold some days (since 1970), where windows are days or
        longer."""
        count, unit = self._parts
        if unit in _MONTHS:
            months = days.astype("datetime64[D]").astype("datetime64[M]").astype(np.int64)
            return months // (count * _MONTHS[unit])
        return (days - _BEGIN[unit]) // (count * UNITS[unit] // DAY)

    def _begin(self, numbers: Numbers) -> Numbers:
        """The first days of some windows."""
        count, unit = self._parts
        if unit in _MONTHS:
            months = (numbers * count * _MONTHS[unit]).astype("datetime64[M]")
            return months.astype("datetime64[D]").astype(np.int64)
        return numbers * (count * UNITS[unit] // DAY) + _BEGIN[unit]


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
    if np.any(ticks.starts_of(numbers) != inner) or len(edges) - 1 > last - first + 1:
        remedy = "give a multiple of the tick, in a zone whose days begin where a tick begins"
        raise bad_parameter(
            "per", calendar.per, f"made of whole ticks of {ticks.tick_seconds} s", remedy
        )
    at = np.concatenate([[first], numbers, [last + 1]])
    partial = np.zeros(len(edges) - 1, dtype=np.bool_)
    partial[0] |= edges[0] < begin
    partial[-1] |= edges[-1] > end
    return edges, at, partial
