"""Ticks: slots of time, numbered from the beginning of 1970.

A tick of ``tick_seconds`` has the number ``floor(unix_seconds / tick_seconds)``: it begins at a
multiple of its length in UTC, whatever the time zone. Only ticks of whole days look at the zone:
they begin at local midnight, and their number is the number of local days since 1970-01-01 divided
by their length in days, rounded down. So a day has 23 or 25 hours when clocks change, and is one
tick all the same.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray

from fadecount.checks import require_integer
from fadecount.durations import BlockLength
from fadecount.errors import bad_parameter

DAY = 86400
_QUARTER = 900
_IN_A_DAY = 1 << 17
"""More than the parts of a day that there can be."""
_EPOCH, _EPOCH_TIME = date(1970, 1, 1), datetime(1970, 1, 1, tzinfo=UTC)
EARLIEST, LATEST = -62_000_000_000, 253_000_000_000
"""Unix seconds that have a calendar date here: the years 6 to 9987."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ticks:
    """The calendar of a stream: from times to tick numbers and back.

    >>> hours = Ticks(tick_seconds=3600)
    >>> hours.at(7200), hours.start(2).isoformat()
    (2, '1970-01-01T02:00:00+00:00')
    >>> Ticks(tick_seconds=86400, zone="America/New_York").start(0).isoformat()
    '1970-01-01T05:00:00+00:00'
    """

    tick_seconds: int
    zone: str = "UTC"
    _local: ZoneInfo | None = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        remedy = "it is the length of a tick in seconds, such as 3600"
        seconds = require_integer(
            "tick_seconds", self.tick_seconds, minimum=1, maximum=366 * DAY, remedy=remedy
        )
        object.__setattr__(self, "tick_seconds", seconds)
        zone = _zone(self.zone)
        object.__setattr__(
            self, "_local", zone if seconds % DAY == 0 and self.zone != "UTC" else None
        )

    def at(self, unix_seconds: float) -> int:
        """The tick that contains a time."""
        if not EARLIEST <= unix_seconds <= LATEST:
            raise bad_parameter(
                "time", unix_seconds, "a moment between the years 6 and 9987", "give Unix seconds"
            )
        if self._local is None:
            return int(unix_seconds // self.tick_seconds)
        local = datetime.fromtimestamp(unix_seconds, self._local).date()
        return (local - _EPOCH).days // (self.tick_seconds // DAY)

    def first_from(self, unix_seconds: float) -> int:
        """The first tick that begins at a time or later. A range of time holds the ticks that begin
        in [since, until).

        >>> hours = Ticks(tick_seconds=3600)
        >>> hours.first_from(7200), hours.first_from(7201)
        (2, 3)
        """
        tick = self.at(unix_seconds)
        return tick if self.start_seconds(tick) >= unix_seconds else tick + 1

    def of(self, unix_seconds: NDArray[np.int64]) -> NDArray[np.int64]:
        """The ticks of many times (whole Unix seconds, rounded down)."""
        if self._local is None or not len(unix_seconds):
            return unix_seconds // self.tick_seconds
        quarters, inverse = np.unique(unix_seconds // _QUARTER, return_inverse=True)
        begins = (quarters * _QUARTER).tolist()
        first = np.array([self.at(each) for each in begins], dtype=np.int64)
        last = np.array([self.at(each + _QUARTER - 1) for each in begins], dtype=np.int64)
        ticks = first[inverse]
        # zones before 1972 have offsets in seconds
        for at in np.flatnonzero((first != last)[inverse]).tolist():
            ticks[at] = self.at(int(unix_seconds[at]))
        return ticks

    def start_seconds(self, tick: int) -> int:
        """When a tick begins, in Unix seconds."""
        if self._local is None:
            return tick * self.tick_seconds
        day = _EPOCH + timedelta(days=tick * (self.tick_seconds // DAY))
        return int(datetime(day.year, day.month, day.day, tzinfo=self._local).timestamp())

    def slots_of(self, ticks: NDArray[np.int64], length: BlockLength) -> NDArray[np.int64]:
        """The numbers of the calendar slots in which ticks begin: parts of a local day (counted
        from midnight), days or months. Later slots have larger numbers."""
        begins, calendar = self.starts_of(ticks), Ticks(tick_seconds=DAY, zone=self.zone)
        days = calendar.of(begins)
        if length.months:
            months = days.astype("datetime64[D]").astype("datetime64[M]").astype(np.int64)
            return months // length.months
        if length.seconds == DAY:
            return days
        return days * _IN_A_DAY + (begins - calendar.starts_of(days)) // length.seconds

    def in_slot(self, number: int, length: BlockLength) -> range:
        """The ticks that begin in the slot of that number."""
        days = Ticks(tick_seconds=DAY, zone=self.zone)
        if length.months:
            months = (number * length.months, (number + 1) * length.months)
            dates = (date(1970 + month // 12, month % 12 + 1, 1) for month in months)
            begin, end = (days.start_seconds((each - _EPOCH).days) for each in dates)
        else:
            day, inside = (number, 0) if length.seconds == DAY else divmod(number, _IN_A_DAY)
            begin, end = (days.start_seconds(each) for each in (day, day + 1))
            if length.seconds < DAY:
                begin += inside * length.seconds
                end = min(end, begin + length.seconds)
        return range(self.first_from(begin), self.first_from(end))

    def start(self, tick: int) -> datetime:
        """When a tick begins, in UTC."""
        seconds = self.start_seconds(tick)
        if not EARLIEST <= seconds <= LATEST:
            raise bad_parameter(
                "tick", tick, "within the years 6 to 9987", "check the times of the input"
            )
        return _EPOCH_TIME + timedelta(seconds=seconds)

    def starts_of(self, ticks: NDArray[np.int64]) -> NDArray[np.int64]:
        """When ticks begin, in Unix seconds."""
        if self._local is None:
            return ticks * self.tick_seconds
        distinct, inverse = np.unique(ticks, return_inverse=True)
        seconds = [self.start_seconds(tick) for tick in distinct.tolist()]
        return np.array(seconds, dtype=np.int64)[inverse]

    def shown(self, tick: int) -> str:
        """When a tick begins, as people and files write it: ISO 8601 in UTC."""
        return iso_time(int(self.start(tick).timestamp()))

    def local(self, tick: int) -> str:
        """When a tick begins, for people at the place: ISO 8601 with the offset of the zone.

        >>> Ticks(tick_seconds=3600, zone="Europe/Vienna").local(0)
        '1970-01-01T01:00:00+01:00'
        """
        return iso_time(int(self.start(tick).timestamp()), self.zone)


def iso_time(seconds: int, zone: str = "UTC") -> str:
    """Unix seconds as ISO 8601: with the offset of the zone, or Z for UTC.

    >>> iso_time(0), iso_time(0, "Europe/Vienna")
    ('1970-01-01T00:00:00Z', '1970-01-01T01:00:00+01:00')
    """
    moment = _EPOCH_TIME + timedelta(seconds=seconds)
    if zone == "UTC":
        return moment.replace(tzinfo=None).isoformat() + "Z"
    return moment.astimezone(_zone(zone)).isoformat()


def iso_times(seconds: NDArray[np.int64], zone: str) -> list[str]:
    """:func:`iso_time` of many times."""
    if zone == "UTC":
        texts: list[str] = np.datetime_as_string(seconds.astype("datetime64[s]"), unit="s").tolist()
        return [text + "Z" for text in texts]
    distinct, inverse = np.unique(seconds, return_inverse=True)
    shown = [iso_time(second, zone) for second in distinct.tolist()]
    return [shown[at] for at in inverse.tolist()]


@lru_cache(maxsize=64)
def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError, TypeError):  # ZoneInfoNotFoundError is a KeyError
        raise bad_parameter(
            "zone", name, "a time zone of the IANA database", "such as UTC or Europe/Zurich"
        ) from None
