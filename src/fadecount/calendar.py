"""The calendar: from times to ticks, and from ticks to hours, days, weeks and months in a zone.

A **tick** of ``tick_seconds`` has the number ``floor(unix_seconds / tick_seconds)``: it begins at a
multiple of its length in UTC, whatever the time zone. Only ticks of whole days look at the zone:
they begin at local midnight, and their number is the number of local days since 1970-01-01 divided
by their length in days, rounded down.

A **block** holds the ticks that begin in a slot of the calendar: a part of a day, one or more days,
a week from Monday on, months or years. A day begins at local midnight and may have 23 or 25 hours.
Parts of a day restart at midnight: the last one of a day may be shorter. Levels, the caps of a unit
and the windows that people ask for are blocks. They nest, and their ends are fixed before they
open.

When days begin is stored with a stream up to the end of its open blocks (:class:`Midnights`). So a
change of the zone's rules moves nothing that is open, and nothing that was published.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray

from fadecount.checks import require_tick, set_fields
from fadecount.durations import UNITS, format_duration
from fadecount.errors import ParameterError, bad_parameter

Numbers = NDArray[np.int64]
DAY = UNITS["d"]
QUARTER = 900
"""The rules of every zone since 1972 change at a quarter of an hour."""
EARLIEST, LATEST = -62_000_000_000, 253_000_000_000
"""Unix seconds that have a calendar date here: the years 6 to 9987."""
_EPOCH, _EPOCH_TIME = datetime(1970, 1, 1), datetime(1970, 1, 1, tzinfo=UTC)
_SECOND = timedelta(seconds=1)


# Zones
# ------------------------------------------------------------------------------------------------
def iso_time(seconds: int, zone: str = "UTC") -> str:
    """Unix seconds as ISO 8601: with the offset of the zone, or Z for UTC.

    >>> iso_time(0), iso_time(0, "Europe/Vienna")
    ('1970-01-01T00:00:00Z', '1970-01-01T01:00:00+01:00')
    """
    moment = _EPOCH_TIME + timedelta(seconds=seconds)
    if zone == "UTC":
        return moment.replace(tzinfo=None).isoformat() + "Z"
    return moment.astimezone(zone_of(zone)).isoformat()


def iso_times(seconds: Numbers, zone: str) -> list[str]:
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
    try:
        local = _EPOCH + timedelta(seconds=quarter * QUARTER)
    except OverflowError:
        seconds, bound = quarter * QUARTER, "a moment between the years 1 and 9999"
        raise bad_parameter("time", seconds, bound, "choose shorter slots of time") from None
    offset = local.replace(tzinfo=zone_of(zone)).utcoffset()
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
def zone_of(name: str) -> ZoneInfo:
    """The time zone of a name."""
    try:
        if _NO_ZONE.fullmatch(name):
            raise ValueError
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError, TypeError):  # ZoneInfoNotFoundError is a KeyError
        raise bad_parameter(
            "zone", name, "a time zone of the IANA database", "such as UTC or Europe/Zurich"
        ) from None


@dataclass(frozen=True, slots=True, kw_only=True)
class Midnights:
    """When the days of a zone begin: stored up to before the day ``through`` (a number since 1970),
    else by the rules known now.

    ``offsets`` are pairs of a day and the offset from UTC in seconds at its midnight, where it
    changes.

    >>> Midnights(zone="Europe/Vienna", through=20454).extended(20819).offsets
    ((20454, 3600), (20542, 7200), (20752, 3600))
    """

    zone: str
    offsets: tuple[tuple[int, int], ...] = ()
    through: int = 0
    first: int = field(init=False, repr=False, compare=False)
    """The first day whose midnight is stored."""
    stored: Numbers = field(init=False, repr=False, compare=False)
    """The midnights of the days from there on."""

    def __post_init__(self) -> None:
        first = self.offsets[0][0] if self.offsets else self.through
        begins = np.array([day for day, _ in self.offsets], dtype=np.int64)
        offsets = np.array([offset for _, offset in self.offsets], dtype=np.int64)
        each = np.repeat(offsets, np.diff(begins, append=self.through))
        days = np.arange(first, self.through, dtype=np.int64)
        set_fields(self, first=first, stored=days * DAY - each)

    def extended(self, through: int) -> Midnights:
        """The same, and those of the days up to before ``through`` by the rules known now."""
        offsets = list(self.offsets)
        for day in range(self.through, through):
            offset = zone_offset(self.zone, day * DAY // QUARTER)
            if offsets and offset - offsets[-1][1] >= DAY:  # it would be a block without ticks
                raise bad_parameter("zone", self.zone, "one that leaves out no day", "choose UTC")
            if not offsets or offsets[-1][1] != offset:
                offsets.append((day, offset))
        through = max(through, self.through)
        return Midnights(zone=self.zone, offsets=tuple(offsets), through=through)

    def of(self, days: Numbers) -> Numbers:
        """When days begin, in Unix seconds."""
        if self.zone == "UTC" or not days.size:
            return days * DAY
        inside, known = days - self.first, len(self.stored)
        if known and inside.view(np.uint64).max() < known:  # none is below 0
            starts: Numbers = self.stored[inside]
            return starts
        starts = from_local(np.atleast_1d(days * DAY), self.zone).reshape(days.shape)
        if known:
            among = (inside >= 0) & (inside < known)
            starts[among] = self.stored[inside[among]]
        return starts

    def days_of(self, moments: Numbers) -> Numbers:
        """The local days of some times in Unix seconds."""
        if self.zone == "UTC" or not moments.size:
            return moments // DAY
        if known := len(self.stored):
            inside = self.stored.searchsorted(moments, side="right") - 1
            if inside.view(np.uint64).max() < known - 1:  # after the last one days are unknown
                return inside + self.first
        # the local day is that of UTC, or the one before it or after it
        distinct = np.unique(moments // DAY)
        days = np.unique(np.concatenate([distinct - 1, distinct, distinct + 1]))
        return days[self.of(days).searchsorted(moments, side="right") - 1]

    def to_json(self) -> str:
        """The midnights as JSON text."""
        fields = {"zone": self.zone, "offsets": self.offsets, "through": self.through}
        return json.dumps(fields)

    @classmethod
    @lru_cache(maxsize=256)
    def from_json(cls, text: str) -> Midnights:
        """The midnights from JSON text."""
        fields = json.loads(text)
        offsets = tuple((int(day), int(offset)) for day, offset in fields["offsets"])
        return cls(zone=fields["zone"], offsets=offsets, through=int(fields["through"]))


@lru_cache(maxsize=64)
def _rules(zone: str) -> Midnights:
    """The midnights of a zone by the rules known now."""
    return Midnights(zone=zone)


# Ticks
# ------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True, kw_only=True)
class Ticks:
    """How long ticks are, and in which zone days begin: from times to tick numbers and back.

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
        seconds = require_tick("tick_seconds", self.tick_seconds)
        zone_of(self.zone)
        set_fields(self, tick_seconds=seconds, _by_day=seconds % DAY == 0 and self.zone != "UTC")

    @property
    def text(self) -> str:
        """The ticks in words."""
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
        day += (unix_seconds >= next_began) - (unix_seconds < began)  # as in Midnights.days_of
        return day // (self.tick_seconds // DAY)

    def _midnight(self, day: int) -> int:
        return day * DAY - zone_offset(self.zone, day * DAY // QUARTER)

    def first_from(self, unix_seconds: float) -> int:
        """The first tick that begins at a time or later. A range of time holds the ticks that begin
        in [since, until).

        >>> hours = Ticks(tick_seconds=3600)
        >>> hours.first_from(7200), hours.first_from(7201)
        (2, 3)
        """
        tick = self.at(unix_seconds)
        return tick if self.start_seconds(tick) >= unix_seconds else tick + 1

    def of(self, unix_seconds: Numbers) -> Numbers:
        """The ticks of many times (whole Unix seconds, rounded down)."""
        if not self._by_day:
            return unix_seconds // self.tick_seconds
        return _rules(self.zone).days_of(unix_seconds) // (self.tick_seconds // DAY)

    def start_seconds(self, tick: int) -> int:
        """When a tick begins, in Unix seconds."""
        local = tick * self.tick_seconds
        return self._midnight(local // DAY) if self._by_day else local

    def starts_of(self, ticks: Numbers) -> Numbers:
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

    def blocks_of(self, per: str, numbers: Numbers) -> Numbers:
        """The numbers of the slots in which ticks share the caps of a unit ``per`` tick, ``1h``,
        ``1d``, ``1mo``: the ticks themselves, or their local hours, days or months."""
        return _slots(per, self).numbers(0, numbers)

    @lru_cache(maxsize=1024)  # noqa: B019 # ticks are values, and few
    def block_of(self, per: str, tick: int) -> int:
        """:meth:`blocks_of` for one tick."""
        return tick if per == "tick" else int(self.blocks_of(per, np.array([tick]))[0])

    def ticks_of(self, per: str, block: int) -> range:
        """The ticks that share the caps of a unit. Ages of the unit count from the first."""
        return range(*_slots(per, self).begins(0, np.array([block, block + 1])).tolist())


@lru_cache(maxsize=256)
def _slots(per: str, ticks: Ticks) -> Calendar:
    """The slots of a unit, by the rules known now."""
    return Calendar((1 if per == "tick" else Length.of(per),), ticks)


# Lengths
# ------------------------------------------------------------------------------------------------
_WRITTEN = re.compile(r"\s*([1-9]\d{0,5})\s*(mo|[smhdwy])\s*")
_MONTHS = {"mo": 1, "y": 12}
_MONDAY = 3
"""Weeks begin on Monday; the first one of all, on 1969-12-29."""
_MOST_YEARS = 1000
"""No slot is longer."""


@dataclass(frozen=True, slots=True)
class Length:
    """The length of blocks on the calendar: so many ``seconds`` (a part of a day, or days, counted
    from ``first_day`` on), or so many ``months``."""

    seconds: int = 0
    months: int = 0
    first_day: int = 0

    @classmethod
    @lru_cache(maxsize=256)
    def of(cls, per: str) -> Length:
        """The slots that people ask for: ``15m``, ``1h``, ``1d``, ``2w``, ``1mo``, ``1y``.

        >>> Length.of("1h"), Length.of("1w"), Length.of("1y")
        (Length(seconds=3600, months=0, first_day=0), Length(seconds=604800, months=0, \
first_day=-3), Length(seconds=0, months=12, first_day=0))
        """
        written = _WRITTEN.fullmatch(per)
        count, unit = (int(written[1]), written[2]) if written else (0, "s")
        months = count * _MONTHS.get(unit, 0)
        length = cls(0 if months else count * UNITS[unit], months, -_MONDAY if unit == "w" else 0)
        seconds = length.seconds
        if not months and (not seconds or (DAY % seconds and seconds % DAY)):
            bound = "a part of a day, or a number of days, weeks, months or years"
            raise bad_parameter("per", per, bound, "such as 15m, 1h, 1d or 1mo")
        if length.nominal_seconds > _MOST_YEARS * UNITS["y"]:
            raise bad_parameter("per", per, f"at most {_MOST_YEARS}y", "such as 1y")
        return length

    @classmethod
    def named(cls, name: str) -> Length | None:
        """The length with this :attr:`name`, if a level or a unit can have it.

        >>> Length.named("1h"), Length.named("1w"), Length.named("7h")
        (Length(seconds=3600, months=0, first_day=0), None, None)
        """
        try:
            length = cls.of(name)
        except ParameterError:
            return None
        return length if length._nests and length.name == name else None

    @classmethod
    def of_ticks(cls, length: int, tick_seconds: int) -> Length | None:
        """The length of so many ticks, if a level can have it: a tick, a part of a day, a day, or
        months of 30 days that divide a year or make up years; several ticks must fit into a day.

        >>> names = [Length.of_ticks(days, 86400) for days in (1, 7, 30, 150, 180, 720)]
        >>> [name and name.name for name in names]
        ['1d', None, '1mo', None, '6mo', '2y']
        """
        seconds = length * tick_seconds
        if length == 1 or seconds <= DAY:
            return cls(seconds=seconds) if length == 1 or DAY % seconds == 0 else None
        months, rest = divmod(seconds, UNITS["mo"])
        if rest or DAY % tick_seconds or not cls(months=months)._nests:
            return None
        return cls(months=months)

    @property
    def _nests(self) -> bool:
        """Whether blocks of this length nest with days, months and years."""
        if self.months:
            return 0 in (12 % self.months, self.months % 12)
        return self.seconds > 0 and DAY % self.seconds == 0

    @property
    def nominal_seconds(self) -> int:
        """About how long a block is: months of 30 days."""
        return self.seconds or self.months * UNITS["mo"]

    def can_hold(self, ticks: Ticks) -> bool:
        """Whether blocks of this length can be made of whole ticks."""
        tick = ticks.tick_seconds
        return self.seconds % tick == 0 and self.nominal_seconds >= tick

    @property
    def words(self) -> str:
        """The length as a noun: ``hour``, ``day``, ``month``, or ``6 hours``."""
        count, unit = re.fullmatch(r"(\d+)(\D+)", self.name).groups()  # type: ignore[union-attr] # a name is both
        noun = format_duration(UNITS[unit]).removeprefix("1 ")
        return noun if count == "1" else f"{int(count):,} {noun}s"

    def longest_seconds(self, zone: str) -> int:
        """The most seconds that such a slot of the calendar has: a day has up to 25 hours where
        clocks may change."""
        most = self.seconds or 31 * self.months * DAY
        return most if most < DAY or zone == "UTC" else most + UNITS["h"]

    @property
    def name(self) -> str:
        """The length as people say it: ``20m``, ``1h``, ``1d``, ``1mo``, ``1y``.

        >>> [Length(seconds=each).name for each in (90, 1200, 7200, 86400, 604800)]
        ['90s', '20m', '2h', '1d', '7d']
        >>> Length(months=3).name, Length(months=12).name
        ('3mo', '1y')
        """
        if self.months:
            return f"{self.months // 12}y" if self.months % 12 == 0 else f"{self.months}mo"
        unit = next(unit for unit in ("d", "h", "m", "s") if self.seconds % UNITS[unit] == 0)
        return f"{self.seconds // UNITS[unit]}{unit}"


@lru_cache(maxsize=1024)
def level_lengths(lengths: tuple[int, ...], ticks: Ticks) -> tuple[Length, ...]:
    """The lengths of levels of so many ticks, or a refusal of one that the calendar does not have,
    and of a zone whose days do not begin with a tick."""
    tick, found = ticks.tick_seconds, []
    if len(lengths) > 1 and DAY % tick:
        bound = "a part of a day, or a day, where there are several levels"
        raise bad_parameter("tick", f"{tick} s", bound, "such as 1m, 1h or 1d")
    for each in lengths:
        if (length := Length.of_ticks(each, tick)) is None:
            bound = "a part of a day, a day, or 1, 2, 3, 4, 6 or 12 months of 30 days"
            remedy = "weeks and other lengths are views of days"
            raise bad_parameter("level", f"{each} ticks of {tick} s", bound, remedy)
        found.append(length)
    midnights = _rules(ticks.zone).of(np.arange(18262, 23742, 182))  # twice a year, 2020 to 2034
    if len(lengths) > 1 and tick < DAY and np.any(midnights % tick):
        bound = f"one whose days begin with a tick of {tick} s"
        raise bad_parameter("zone", ticks.zone, bound, "choose a shorter tick")
    return tuple(found)


# Blocks
# ------------------------------------------------------------------------------------------------
_PART_BITS = 17
"""A day has fewer than 2**17 parts: the number of one is this many bits behind that of the day."""
_PART = (1 << _PART_BITS) - 1
_STEPS = Ticks(tick_seconds=1)


class Calendar:
    """The blocks of some lengths: which ticks each of them holds.

    A length in ticks, without a calendar, has equal blocks from the tick 0 on. The others follow
    the ``midnights``, by default those of the rules known now.

    **Positions** are steps after the beginning: position 0 is where the tick ``first_tick`` begins,
    and an end of every length; a block holds the steps after the end before it up to its own end. A
    beginning inside a block cuts that block short. All questions about positions take an integer or
    an array.

    Of a unit that lasts, figures are published by its age, which counts from the start of its
    ``slot``. A promise says how old the unit is at least when a block of each length ends: more
    than its ``shifts`` in ticks. What ends earlier, in a slot that turns out shorter than any that
    was known when the promise was made, waits until then (:meth:`due`).

    >>> ticks = Ticks(tick_seconds=3600, zone="Europe/Vienna")
    >>> calendar = level_calendar((1, 24, 720), ticks, ticks.at(1_774_652_400))
    >>> np.diff(calendar.edges(1, 0, 80), prepend=0).tolist()
    [24, 23, 24]
    >>> Calendar((1, 5)).edges(1, 4, 15).tolist()
    [5, 10, 15]
    """

    def __init__(
        self,
        lengths: Iterable[Length | int],
        ticks: Ticks = _STEPS,
        first_tick: int = 0,
        midnights: Midnights | None = None,
        *,
        slot: Length | None = None,
        shifts: tuple[int, ...] = (),
    ) -> None:
        self.slot, self.shifts = slot, shifts if slot else ()
        self.lengths, self.ticks, self.first_tick = tuple(lengths), ticks, first_tick
        self.midnights = midnights or _rules(ticks.zone)
        self._equal = tuple(map(self._in_ticks, self.lengths))
        self._parts = tuple(map(self._part_of_day, self.lengths))
        self._last_tick = LATEST // ticks.tick_seconds
        self._before: dict[int, Numbers] = {}

    def _in_ticks(self, length: Length | int) -> int:
        """How many ticks each block has, wherever it is; 0 if the calendar says it."""
        if isinstance(length, int):
            return length
        return int(length.seconds == self.ticks.tick_seconds and not length.first_day)

    def _part_of_day(self, length: Length | int) -> int:
        """How many seconds of a day each block has; 0 for equal blocks and other lengths."""
        if isinstance(length, int) or self._in_ticks(length) or length.seconds >= DAY:
            return 0
        return length.seconds

    def reaching(self, position: int) -> Calendar:
        """The calendar with stored midnights of the days of all blocks that are open at a
        position."""
        day = self.ticks.start_seconds(self.first_tick + position) // DAY + 1
        last = self.lengths[-1]
        if isinstance(last, Length) and last.months:
            month = int(_months(np.int64(day))) // last.months + 1
            day = int(first_days(np.int64(month * last.months)))
        if day + 2 <= self.midnights.through:
            return self
        midnights, place = self.midnights.extended(day + 2), (self.ticks, self.first_tick)
        return Calendar(self.lengths, *place, midnights, slot=self.slot, shifts=self.shifts)

    # Positions
    # --------------------------------------------------------------------------------------------
    def frontier(self, level: int, position: Any) -> Any:
        """The end of the last block that ends at or before a position; 0 if there is none. Every
        block ends before a position after the year 9987."""
        ticks = self._ticks(position)
        if not self._equal[level]:
            if (ticks > self._last_tick).all():
                return position
            ticks = np.minimum(ticks, self._last_tick)
        begins = self.begins(level, self.numbers(level, ticks))
        return _like(np.maximum(begins - self.first_tick, 0), position)

    def due(self, level: int, end: Any) -> Any:
        """From which position on a block with this end may be public: its end; or later, if it
        ends earlier in the slot of a unit than was promised."""
        if not self.shifts:
            return end
        assert self.slot is not None
        slots = Calendar((self.slot,), self.ticks, self.first_tick, self.midnights)
        last = np.minimum(self._ticks(end) - 1, self._last_tick)
        begins = slots.begins(0, slots.numbers(0, last)) - self.first_tick
        later = np.where(np.asarray(end) > 0, begins + self.shifts[level] + 1, 0)
        return _like(np.maximum(end, later), end)

    def out(self, level: int, position: Any) -> Any:
        """The end of the last block that is due at or before a position; 0 if there is none."""
        end = self.frontier(level, position)
        if not self.shifts:
            return end
        while np.any(waits := np.asarray(self.due(level, end)) > np.asarray(position).clip(0)):
            before = self.frontier(level, end - 1)
            end = _like(np.where(waits, before, end), position)
        return end

    def end(self, level: int, position: Any) -> Any:
        """The end of the block that holds the step before a position; the position itself if a
        block ends there, or the stream begins."""
        ticks = self._ticks(position)
        if equal := self._equal[level]:
            return _like(-(-ticks // equal) * equal - self.first_tick, position)
        number = self.numbers(level, ticks)
        ends_here = (self.begins(level, number) == ticks) | (ticks == self.first_tick)
        end = np.where(ends_here, ticks, self.begins(level, number + 1))
        return _like(end - self.first_tick, position)

    def count(self, level: int, start: Any, end: Any) -> Any:
        """How many blocks lie between two ends of blocks (0: the stream's beginning)."""
        first, last = (self._ranks(level, self._ticks(each)) for each in (start, end))
        return _like(last - first, end)

    def edges(self, level: int, start: int, end: int) -> Numbers:
        """The ends of the blocks in the positions ``start + 1 .. end``."""
        ticks = np.array([start, end]) + self.first_tick
        if not (seconds := self._parts[level]):
            first, last = self.numbers(level, ticks).tolist()
            return self.begins(level, np.arange(first + 1, last + 1)) - self.first_tick
        first_day, last_day = self._days_of(ticks).tolist()
        midnights = self.midnights.of(np.arange(first_day, last_day + 2))[:, np.newaxis]
        starts = midnights[:-1] + np.arange(0, np.diff(midnights, axis=0).max(), seconds)
        begins = -(-starts[starts < midnights[1:]] // self.ticks.tick_seconds)
        begins = begins[np.diff(begins, prepend=begins[0] - 1) > 0]  # some blocks have no tick
        low, high = begins.searchsorted(ticks, side="right").tolist()
        inside: Numbers = begins[low:high] - self.first_tick
        return inside

    def around(self, level: int, start: int, end: int) -> Numbers:
        """The begins of the blocks that hold the positions from ``start`` to before ``end``, and
        the end of the last one. The first may lie before the stream's beginning."""
        first, last = self.numbers(level, self.first_tick + np.array([start, end - 1])).tolist()
        begin, stop = self.begins(level, np.array([first, last + 1])) - self.first_tick
        return np.concatenate([[begin], self.edges(level, start, end - 1), [stop]])

    def is_whole(self, level: int, positions: Numbers) -> bool:
        """Whether the blocks that hold some positions begin where ticks begin."""
        if self._equal[level]:
            return True
        starts = self._starts(level, self.numbers(level, self._ticks(positions)))
        return not np.any(starts % self.ticks.tick_seconds)

    # Numbers of blocks
    # --------------------------------------------------------------------------------------------
    def numbers(self, level: int, ticks: Numbers) -> Numbers:
        """The numbers of the blocks that hold some ticks: later blocks have larger ones."""
        if equal := self._equal[level]:
            return ticks // equal
        length, days = self.lengths[level], self._days_of(ticks)
        assert isinstance(length, Length)
        if length.months:
            months: Numbers = _months(days) // length.months
            return months
        if length.seconds >= DAY:
            return (days - length.first_day) // (length.seconds // DAY)
        inside = ticks * self.ticks.tick_seconds - self.midnights.of(days)
        return (days << _PART_BITS) + inside // length.seconds

    def begins(self, level: int, numbers: Numbers) -> Numbers:
        """The first ticks of blocks; of the number after the last one of a day, of the next day."""
        if equal := self._equal[level]:
            return numbers * equal
        return -(-self._starts(level, numbers) // self.ticks.tick_seconds)

    def _starts(self, level: int, numbers: Numbers) -> Numbers:
        """When blocks begin, in seconds: local ones where ticks are whole days, else Unix time."""
        length, of = self.lengths[level], self.midnights.of
        assert isinstance(length, Length)
        if seconds := self._parts[level]:
            days, part = numbers >> _PART_BITS, numbers & _PART
            cut: Numbers = np.minimum(of(days) + part * seconds, of(days + 1))
            return cut
        if length.months:
            days = first_days(numbers * length.months)
        else:
            days = numbers * (length.seconds // DAY) + length.first_day
        starts: Numbers = days * DAY if self.ticks.tick_seconds % DAY == 0 else of(days)
        return starts

    def _ranks(self, level: int, ticks: Numbers) -> Numbers:
        """Numbers of blocks without gaps, from one of the first stored day on."""
        numbers = self.numbers(level, ticks)
        if not (seconds := self._parts[level]):
            return numbers
        if level not in self._before:
            tick = self.ticks.tick_seconds
            in_days = np.diff(-(-self.midnights.stored // tick)) * tick
            self._before[level] = np.append(0, np.cumsum(-(-in_days // seconds)))
        days, part = numbers >> _PART_BITS, numbers & _PART
        ranks: Numbers = self._before[level][days - self.midnights.first] + part
        return ranks

    def _ticks(self, position: Any) -> Numbers:
        ticks: Numbers = np.asarray(position, dtype=np.int64) + self.first_tick
        return ticks

    def _days_of(self, ticks: Numbers) -> Numbers:
        """The local days in which ticks begin."""
        seconds = ticks * self.ticks.tick_seconds
        whole_days = self.ticks.tick_seconds % DAY == 0
        return seconds // DAY if whole_days else self.midnights.days_of(seconds)


@lru_cache(maxsize=1024)
def level_calendar(
    lengths: tuple[int, ...],
    ticks: Ticks,
    first_tick: int,
    midnights: Midnights | None = None,
    slot: Length | None = None,
    shifts: tuple[int, ...] = (),
) -> Calendar:
    """The calendar of a stream that begins with a tick, with levels of so many ticks, and with the
    midnights stored for it, or those of a new one. ``slot`` and ``shifts`` are those of
    :class:`Calendar`."""
    known = midnights or _first_midnights(ticks, first_tick, slot)
    on_calendar = level_lengths(lengths, ticks)
    calendar = Calendar(on_calendar, ticks, first_tick, known, slot=slot, shifts=shifts)
    return calendar if midnights is not None else calendar.reaching(0)


def _first_midnights(ticks: Ticks, first_tick: int, slot: Length | None) -> Midnights:
    """None yet: those of the slot of a unit that holds the first tick come first."""
    day = ticks.start_seconds(first_tick) // DAY
    if slot is not None and slot.months:
        day = int(first_days(_months(np.int64(day)) // slot.months * slot.months))
    return Midnights(zone=ticks.zone, through=day - 1)


def _months(days: Any) -> Any:
    """The months, numbered since 1970, that hold days."""
    return np.asarray(days).astype("datetime64[D]").astype("datetime64[M]").astype(np.int64)


def first_days(months: Any) -> Any:
    """The days with which months begin, both numbered since 1970."""
    return np.asarray(months).astype("datetime64[M]").astype("datetime64[D]").astype(np.int64)


def _like(numbers: Numbers, given: Any) -> Any:
    """An int for a number, an array for an array."""
    return numbers if isinstance(given, np.ndarray) else int(numbers)
