"""Ticks: slots of time, numbered from the beginning of 1970. Slots of the calendar: hours, days,
weeks, months. And which ticks are over, by a clock that may be wrong.

A tick of ``tick_seconds`` has the number ``floor(unix_seconds / tick_seconds)``: it begins at a
multiple of its length in UTC, whatever the time zone. Only ticks of whole days look at the zone:
they begin at local midnight, and their number is the number of local days since 1970-01-01 divided
by their length in days, rounded down. So a day has 23 or 25 hours when clocks change, and is one
tick all the same.

One policy for every tick length: a closed tick cannot be opened again, so a wrong
clock must not close any. A clock that is ahead looks like downtime. The longer the gap, the less
likely it is downtime. So up to a limit, missed ticks are closed. Beyond the limit the stream stops
releasing until the clock is right again, or until the operator confirms the clock
(:meth:`Stream.catch_up`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import lru_cache
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray

from fadecount.checks import require_tick
from fadecount.durations import UNITS
from fadecount.errors import bad_parameter

Numbers = NDArray[np.int64]
DAY = 86400
QUARTER = 900
"""The rules of every zone since 1972 change at a quarter of an hour."""
_EPOCH, _EPOCH_TIME = datetime(1970, 1, 1), datetime(1970, 1, 1, tzinfo=UTC)
_SECOND = timedelta(seconds=1)
EARLIEST, LATEST = -62_000_000_000, 253_000_000_000
"""Unix seconds that have a calendar date here: the years 6 to 9987."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ticks:
    """The calendar of a stream: from times to tick numbers and back.

    >>> hours = Ticks(tick_seconds=3600)
    >>> hours.at(7200), hours.local(2)
    (2, '1970-01-01T02:00:00Z')
    >>> Ticks(tick_seconds=86400, zone="America/New_York").start_seconds(0)
    18000
    """

    tick_seconds: int
    zone: str = "UTC"
    _by_day: bool = field(init=False, repr=False, compare=False)
    """Whether ticks begin at local midnight, which is not that of UTC."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "tick_seconds", require_tick("tick_seconds", self.tick_seconds))
        _zone(self.zone)
        by_day = self.tick_seconds % DAY == 0 and self.zone != "UTC"
        object.__setattr__(self, "_by_day", by_day)

    @property
    def text(self) -> str:
        """The calendar in words."""
        return f"{self.tick_seconds} s in {self.zone}"

    def at(self, unix_seconds: float) -> int:
        """The tick that contains a time."""
        if not EARLIEST <= unix_seconds <= LATEST:
            raise bad_parameter(
                "time", unix_seconds, "a moment between the years 6 and 9987", "give Unix seconds"
            )
        if not self._by_day:
            return int(unix_seconds // self.tick_seconds)
        day = int(unix_seconds // DAY)
        began, next_began = (self._midnight(each) for each in (day, day + 1))
        day += (unix_seconds >= next_began) - (unix_seconds < began)  # as in :meth:`of`
        return day // (self.tick_seconds // DAY)

    def _midnight(self, day: int) -> int:
        local = day * DAY
        return local - zone_offset(self.zone, local // QUARTER)

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
        if not self._by_day:
            return unix_seconds // self.tick_seconds
        # the local day is that of UTC, or the one before it or after it
        days = unix_seconds // DAY
        began, next_began = (from_local(each * DAY, self.zone) for each in (days, days + 1))
        days += (unix_seconds >= next_began) - 1 * (unix_seconds < began)
        return days // (self.tick_seconds // DAY)

    def start_seconds(self, tick: int) -> int:
        """When a tick begins, in Unix seconds."""
        local = tick * self.tick_seconds
        return local - zone_offset(self.zone, local // QUARTER) if self._by_day else local

    def starts_of(self, ticks: NDArray[np.int64]) -> NDArray[np.int64]:
        """When ticks begin, in Unix seconds."""
        local = ticks * self.tick_seconds
        return from_local(local, self.zone) if self._by_day else local

    def local(self, tick: int) -> str:
        """When a tick begins, as people read it: ISO 8601 with the offset of the zone.

        >>> Ticks(tick_seconds=3600, zone="Europe/Vienna").local(0)
        '1970-01-01T01:00:00+01:00'
        """
        seconds = self.start_seconds(tick)
        if not EARLIEST <= seconds <= LATEST:
            raise bad_parameter(
                "tick", tick, "within the years 6 to 9987", "check the times of the input"
            )
        return iso_time(seconds, self.zone)

    def blocks_of(self, per: str, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """The numbers of the slots in which ticks share the caps of a unit ``per`` tick, ``1h``,
        ``1d``, ``1mo``: the ticks themselves, or their local hours, days or months."""
        if per == "tick":
            return numbers
        return windows_of(per, self.zone).numbers(self.starts_of(numbers))

    def block_of(self, per: str, tick: int) -> int:
        """:meth:`blocks_of` for one tick."""
        return tick if per == "tick" else int(self.blocks_of(per, np.array([tick]))[0])

    def ticks_of(self, per: str, block: int) -> range:
        """The ticks that share the caps of a unit. Ages of the unit count from the first."""
        if per == "tick":
            return range(block, block + 1)
        return windows_of(per, self.zone).ticks_in(self, block)


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


@lru_cache(maxsize=1 << 16)
def zone_offset(zone: str, quarter: int) -> int:
    """Seconds by which a zone is ahead of UTC, at a local time in quarters of an hour since 1970.

    Where the clock is set back, the hour that happens twice is taken the first time; an hour that
    is left out is taken as if the clock had not been set forward yet.
    """
    local = _EPOCH + timedelta(seconds=quarter * QUARTER)
    offset = local.replace(tzinfo=_zone(zone)).utcoffset()
    assert offset is not None
    return offset // _SECOND


def from_local(seconds: Numbers, zone: str) -> Numbers:
    """The Unix seconds of local times, which are given as if they were in UTC."""
    quarters, which = np.unique(seconds // QUARTER, return_inverse=True)
    offsets = [zone_offset(zone, quarter) for quarter in quarters.tolist()]
    return seconds - np.array(offsets, dtype=np.int64)[which]


_NO_ZONE = re.compile(r"localtime|posixrules|factory|(posix|right)/.*", re.IGNORECASE)
"""Files beside those of the zones: what they say differs from one machine to the next, or counts
leap seconds."""


@lru_cache(maxsize=64)
def _zone(name: str) -> ZoneInfo:
    try:
        if _NO_ZONE.fullmatch(name):
            raise ValueError
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError, TypeError):  # ZoneInfoNotFoundError is a KeyError
        raise bad_parameter(
            "zone", name, "a time zone of the IANA database", "such as UTC or Europe/Zurich"
        ) from None


# Slots of the calendar
# ------------------------------------------------------------------------------------------------
LARGEST_WINDOWS = 50_000_000
_PER = re.compile(r"\s*([1-9]\d{0,5})\s*(mo|[smhdwy])\s*")
_MONTHS = {"mo": 1, "y": 12}
_MONDAY = 3
"""Weeks begin on Monday; the first one of all, on 1969-12-29."""
_IN_A_DAY = 1 << 17
"""More than the parts of a day that there can be."""


class WindowCalendar:
    """Where slots begin: ``per`` is a number and a unit (``15m``, ``1h``, ``1d``, ``1w``, ``1mo``,
    ``1y``).

    Days begin at midnight in ``zone``, weeks on Monday, months and years on their first day; so a
    day may have 23 or 25 hours. Parts of a day are counted from midnight.

    >>> days = WindowCalendar(per="1d", zone="Europe/Berlin")
    >>> (np.diff(days.edges(1_774_652_400, 1_774_900_000)) // 3600).tolist()
    [24, 23, 24]
    """

    def __init__(self, per: str, zone: str = "UTC") -> None:
        written = _PER.fullmatch(per)
        count, unit = (int(written[1]), written[2]) if written else (0, "s")
        self._months = count * _MONTHS.get(unit, 0)
        self._seconds = 0 if self._months else count * UNITS[unit]
        if not self._months and (
            not self._seconds or (DAY % self._seconds and self._seconds % DAY)
        ):
            bound = "a part of a day, or a number of days, weeks, months or years"
            raise bad_parameter("per", per, bound, "such as 15m, 1h, 1d or 1mo")
        self.per, self._nominal = per, count * UNITS[unit]
        self._first_day = -_MONDAY if unit == "w" else 0
        self._days = Ticks(tick_seconds=DAY, zone=zone)
        self.edges(0, 1)  # a slot that Python's calendar cannot hold is refused now

    def edges(self, first: int, end: int) -> Numbers:
        """Where slots begin and end (Unix seconds): from at or before ``first`` to at or after
        ``end``."""
        if (end - first) // self._nominal > LARGEST_WINDOWS:
            raise bad_parameter(
                "per",
                self.per,
                f"so long that there are at most {LARGEST_WINDOWS:,} windows",
                "choose longer ones",
            )
        last = max(first, end - 1)
        if 0 < self._seconds < DAY:
            days = np.arange(self._days.at(first), self._days.at(last) + 2)
            midnights = self._days.starts_of(days)[:, np.newaxis]
            inside = np.arange(0, np.diff(midnights, axis=0).max(), self._seconds)
            starts = midnights[:-1] + inside
            edges = np.append(starts[starts < midnights[1:]], midnights[-1])
            low, high = np.searchsorted(edges, first, side="right"), np.searchsorted(edges, end)
            return edges[low - 1 : high + 1]
        low, high = self.numbers(np.array([first, last]))
        return self._starts(np.arange(low, high + 2))

    def numbers(self, moments: Numbers) -> Numbers:
        """The numbers of the slots that hold some times (Unix seconds): later slots have larger
        ones."""
        days = self._days.of(moments)
        if self._months:
            months = days.astype("datetime64[D]").astype("datetime64[M]").astype(np.int64)
            return months // self._months
        if self._seconds >= DAY:
            return (days - self._first_day) // (self._seconds // DAY)
        return days * _IN_A_DAY + (moments - self._days.starts_of(days)) // self._seconds

    def _starts(self, numbers: Numbers) -> Numbers:
        """When slots begin, and when those before them end."""
        if 0 < self._seconds < DAY:
            days, inside = np.divmod(numbers, _IN_A_DAY)
            begins = self._days.starts_of(days) + inside * self._seconds
            starts: Numbers = np.minimum(begins, self._days.starts_of(days + 1))
            return starts
        if self._months:
            months = (numbers * self._months).astype("datetime64[M]")
            days = months.astype("datetime64[D]").astype(np.int64)
        else:
            days = numbers * (self._seconds // DAY) + self._first_day
        if days[0] * DAY < EARLIEST or days[-1] * DAY > LATEST:
            bound = "so short that windows end before the year 10000"
            raise bad_parameter("per", self.per, bound, "such as 1y")
        return self._days.starts_of(days)

    def ticks_in(self, ticks: Ticks, number: int) -> range:
        """The ticks that begin in the slot of that number."""
        begin, end = self._starts(np.array([number, number + 1])).tolist()
        return range(ticks.first_from(begin), ticks.first_from(end))


@lru_cache(maxsize=256)
def windows_of(per: str, zone: str) -> WindowCalendar:
    """A :class:`WindowCalendar`, made once."""
    return WindowCalendar(per=per, zone=zone)


# The clock
# ------------------------------------------------------------------------------------------------
LONGEST_DOWNTIME = 7 * 86400
"""Seconds after the end of the open tick up to which missed ticks are closed without asking."""

LARGEST_LAG = 3600
"""Seconds by which a clock may be behind the last release before that is reported."""


class ClockState(StrEnum):
    """Whether a clock agrees with a stream."""

    FINE = "fine"
    BEHIND = "behind"
    AHEAD = "ahead"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockReading:
    """What a clock says about a stream: its state, the last tick that may be closed (None: there is
    none), and why."""

    state: ClockState
    due: int | None
    text: str = ""


def read_clock(ticks: Ticks, open_tick: int, now: float) -> ClockReading:
    """What the clock (``now``, Unix seconds) says about a stream with this open tick.

    ``fine``: every tick that is over may be closed. ``behind``: the clock is more than
    ``LARGEST_LAG`` before the end of the last release; nothing is due until it is right. ``ahead``:
    the open tick seems to be over for more than ``LONGEST_DOWNTIME``; nothing is closed until the
    clock is right, or the operator says that it is.

    >>> minutes = Ticks(tick_seconds=60)
    >>> read_clock(minutes, 100, 6130.0)
    ClockReading(state=<ClockState.FINE: 'fine'>, due=101, text='')
    >>> read_clock(minutes, 100, 6130.0 + 10 * 365 * 86400).state
    <ClockState.AHEAD: 'ahead'>
    """
    overdue = now - ticks.start_seconds(open_tick + 1)
    if overdue > LONGEST_DOWNTIME:
        text = (
            f"the clock is {overdue:.0f} s past the end of the open tick (limit"
            f" {LONGEST_DOWNTIME} s): nothing is released until the clock is right; if it is"
            " right, say so: fadecount streams catch-up NAME --yes"
        )
        return ClockReading(state=ClockState.AHEAD, due=None, text=text)
    lag = ticks.start_seconds(open_tick) - now
    if lag > LARGEST_LAG:
        text = (
            f"the clock is {lag:.0f} s behind the last release: nothing is released until it is"
            " right"
        )
        return ClockReading(state=ClockState.BEHIND, due=None, text=text)
    due = ticks.at(now) - 1
    return ClockReading(state=ClockState.FINE, due=due if due >= open_tick else None)
