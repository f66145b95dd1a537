"""The blocks of a stream: which ticks each block of a level holds, on the calendar of its zone.

Levels are parts of a day, days, months or years. A day begins at local midnight and may have 23 or
25 hours. Smaller blocks restart at midnight: the last one of a day may be shorter. Months and years
are those of the calendar. A stream that begins inside a block cuts that block short.

Positions are those of :mod:`fadecount.mechanisms.views`: the stream begins at position 0, and
position ``p`` is where the tick ``first_tick + p`` begins.

When days begin is stored with a stream up to the end of its open blocks, so a change of the zone's
rules moves nothing that is open, and nothing that was published.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fadecount.durations import BlockLength
from fadecount.errors import bad_parameter
from fadecount.mechanisms import Blocks, Mechanism
from fadecount.streams.ticks import DAY, QUARTER, Ticks, zone_offset

_SAMPLE = range(96 * 18262, 96 * 23742, 96 * 182)
"""Midnights twice a year from 2020 to 2034, in local quarters of an hour."""
Numbers = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Midnights:
    """When the days of a zone begin: pairs of a day (a number since 1970) and the offset from UTC
    in seconds at its midnight, where it changes; known before the day ``through``.

    >>> year = Midnights.of("Europe/Vienna", 20454, 20819)
    >>> year.offsets
    ((20454, 3600), (20542, 7200), (20752, 3600))
    """

    offsets: tuple[tuple[int, int], ...]
    through: int

    @classmethod
    def of(cls, zone: str, first: int, through: int) -> Midnights:
        """The midnights of a zone by the rules known now."""
        return cls(offsets=(), through=first).extended(zone, through)

    def extended(self, zone: str, through: int) -> Midnights:
        """The same, and those of the days up to before ``through`` by the rules known now."""
        offsets = list(self.offsets)
        for day in range(self.through, through):
            offset = zone_offset(zone, day * DAY // QUARTER)
            if offsets and offset - offsets[-1][1] >= DAY:  # it would be a block without ticks
                raise bad_parameter("zone", zone, "one that leaves out no day", "choose UTC")
            if not offsets or offsets[-1][1] != offset:
                offsets.append((day, offset))
        return Midnights(offsets=tuple(offsets), through=max(through, self.through))

    def to_json(self) -> str:
        """The midnights as JSON text."""
        return json.dumps({"offsets": self.offsets, "through": self.through})

    @classmethod
    def from_json(cls, text: str) -> Midnights:
        """The midnights from JSON text."""
        fields = json.loads(text)
        offsets = tuple((int(day), int(offset)) for day, offset in fields["offsets"])
        return cls(offsets=offsets, through=int(fields["through"]))


class BlockCalendar:
    """The blocks of the levels of one stream.

    >>> from fadecount.mechanisms import Level
    >>> blocks = Blocks(Level(1, 0.1), Level(24, 0.2), Level(720, 0.3))
    >>> ticks = Ticks(tick_seconds=3600, zone="Europe/Vienna")
    >>> calendar = BlockCalendar.new(blocks, ticks, ticks.at(1_774_652_400))
    >>> np.diff(calendar.edges(1, 0, 80), prepend=0).tolist()
    [24, 23, 24]
    """

    def __init__(self, blocks: Blocks, ticks: Ticks, first_tick: int, midnights: Midnights) -> None:
        self.ticks, self.first_tick, self.midnights = ticks, first_tick, midnights
        self.lengths = block_lengths(blocks, ticks)
        self._blocks, self._per_day = blocks, max(1, DAY // ticks.tick_seconds)
        # Runs of days of one length, but for the last one: where days begin at one offset.
        self._days = np.array([day for day, _ in midnights.offsets], dtype=np.int64)
        begins = [day * DAY - offset for day, offset in midnights.offsets]
        self._begins = -(-np.array(begins, dtype=np.int64) // ticks.tick_seconds)
        if ticks.tick_seconds == DAY:  # the tick is the local day itself
            self._days = self._begins = self._days[:1]
        self._last = np.append(np.diff(self._days) - 1, 1 << 40)
        self._firsts = [self._first_numbers(length) for length in self.lengths]

    @classmethod
    def new(cls, blocks: Blocks, ticks: Ticks, first_tick: int) -> BlockCalendar:
        """The calendar of a stream that begins with a tick."""
        day = ticks.start_seconds(first_tick) // DAY - 1
        calendar = cls(blocks, ticks, first_tick, Midnights.of(ticks.zone, day, day + 1))
        return calendar.reaching(0)

    def reaching(self, position: int) -> BlockCalendar:
        """The calendar with the days of all blocks that are open at a position."""
        day = self.ticks.start_seconds(self.first_tick + position) // DAY + 1
        months = self.lengths[-1].months
        if months:
            number = int(np.int64(day).astype("datetime64[D]").astype("datetime64[M]").astype(int))
            day = int(_month_begins(np.int64((number // months + 1) * months)))
        if day + 2 <= self.midnights.through:
            return self
        midnights = self.midnights.extended(self.ticks.zone, day + 2)
        return BlockCalendar(self._blocks, self.ticks, self.first_tick, midnights)

    # Positions
    # --------------------------------------------------------------------------------------------
    def frontier(self, level: int, position: Any) -> Any:
        """The end of the last block that ends at or before a position; 0 if there is none."""
        tick = self._begin(level, self._number(level, self.first_tick + np.asarray(position)))
        return _like(np.maximum(tick - self.first_tick, 0), position)

    def end(self, level: int, position: Any) -> Any:
        """The end of the block that holds the step before a position; the position itself if a
        block ends there, or the stream begins."""
        ticks = self.first_tick + np.asarray(position)
        number = self._number(level, ticks)
        begin = self._begin(level, number)
        ends_here = (begin == ticks) | (ticks == self.first_tick)
        end = np.where(ends_here, ticks, self._begin(level, number + 1))
        return _like(end - self.first_tick, position)

    def count(self, level: int, start: Any, end: Any) -> Any:
        """How many blocks lie between two ends of blocks (0: the stream's beginning)."""
        first, last = (
            self._number(level, self.first_tick + np.asarray(each)) for each in (start, end)
        )
        return _like(last - first, end)

    def edges(self, level: int, start: int, end: int) -> Numbers:
        """The ends of the blocks in the positions ``start + 1 .. end``."""
        first, last = self._number(level, np.array([start, end]) + self.first_tick).tolist()
        return self._begin(level, np.arange(first + 1, last + 1)) - self.first_tick

    # Numbers of blocks
    # --------------------------------------------------------------------------------------------
    def _first_numbers(self, length: BlockLength) -> Numbers:
        """The number of the first block of each run of days, for a part of a day."""
        per, last = self._ticks_of(length), self._last[:-1]
        lengths = np.diff(self._begins) - last * self._per_day  # of the last days of runs
        numbers = last * -(-self._per_day // per) + -(-lengths // per)
        return np.append(0, np.cumsum(numbers))

    def _ticks_of(self, length: BlockLength) -> int:
        return max(1, length.seconds // self.ticks.tick_seconds)

    def _number(self, level: int, tick: Numbers) -> Numbers:
        """The number of the block that holds a tick."""
        length = self.lengths[level]
        per = self._ticks_of(length)
        if not length.months and per == 1:
            return tick
        run = np.searchsorted(self._begins, tick, side="right") - 1
        inside = tick - self._begins[run]
        day = np.minimum(inside // self._per_day, self._last[run])
        if length.months:
            dates = (self._days[run] + day).astype("datetime64[D]")
            number: Numbers = dates.astype("datetime64[M]").astype(np.int64) // length.months
            return number
        if length.seconds == DAY:
            days: Numbers = self._days[run] + day
            return days
        each_day = -(-self._per_day // per)
        inside = (inside - day * self._per_day) // per
        numbers: Numbers = self._firsts[level][run] + day * each_day + inside
        return numbers

    def _begin(self, level: int, number: Numbers) -> Numbers:
        """The tick with which a block begins."""
        length = self.lengths[level]
        per = self._ticks_of(length)
        if not length.months and per == 1:
            return number
        if length.months or length.seconds == DAY:
            days = _month_begins(number * length.months) if length.months else number
            run = np.searchsorted(self._days, days, side="right") - 1
            begins: Numbers = self._begins[run] + (days - self._days[run]) * self._per_day
            return begins
        first, each_day = self._firsts[level], -(-self._per_day // per)
        run = np.searchsorted(first, number, side="right") - 1
        inside = number - first[run]
        day = np.minimum(inside // each_day, self._last[run])
        begin: Numbers = self._begins[run] + day * self._per_day + (inside - day * each_day) * per
        return begin


@lru_cache(maxsize=1024)
def calendar_of(
    mechanism: Mechanism, ticks: Ticks, first_tick: int, midnights: Midnights | None = None
) -> BlockCalendar | None:
    """The calendar of a stream, with the midnights stored for it, or for a new one; None for
    running totals."""
    if not isinstance(mechanism, Blocks):
        return None
    if midnights is None:
        return BlockCalendar.new(mechanism, ticks, first_tick)
    return BlockCalendar(mechanism, ticks, first_tick, midnights)


def block_lengths(blocks: Blocks, ticks: Ticks) -> tuple[BlockLength, ...]:
    """The lengths of all levels on the calendar, or a refusal of one that the calendar does not
    have, and of a zone whose days do not begin with a tick."""
    if len(blocks.levels) > 1 and DAY % ticks.tick_seconds:
        raise bad_parameter(
            "tick",
            f"{ticks.tick_seconds} s",
            "a part of a day, or a day, where there are several levels",
            "such as 1m, 1h or 1d",
        )
    lengths = tuple(_on_calendar(level.length, ticks.tick_seconds) for level in blocks.levels)
    uneven = any(
        zone_offset(ticks.zone, day * DAY // QUARTER) % ticks.tick_seconds for day in _SAMPLE
    )
    if uneven and ticks.tick_seconds < DAY and len(lengths) > 1:
        raise bad_parameter(
            "zone",
            ticks.zone,
            f"one whose days begin with a tick of {ticks.tick_seconds} s",
            "choose a shorter tick",
        )
    return lengths


def _on_calendar(length: int, tick_seconds: int) -> BlockLength:
    block_length = BlockLength.of_ticks(length, tick_seconds)
    if block_length is None:
        raise bad_parameter(
            "level",
            f"{length} ticks of {tick_seconds} s",
            "a part of a day, a day, or 1, 2, 3, 4, 6 or 12 months of 30 days",
            "weeks and other lengths are views of days",
        )
    return block_length


def _month_begins(month: Any) -> Any:
    """The day with which a month begins, both numbered since 1970."""
    return np.asarray(month).astype("datetime64[M]").astype("datetime64[D]").astype(np.int64)


def _like(numbers: Any, given: Any) -> Any:
    """An int for a number, an array for an array."""
    return numbers if isinstance(given, np.ndarray) else int(numbers)
