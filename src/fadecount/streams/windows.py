"""The counts of windows of time (an hour, a day, a month) from the running counts that were
released.

A window's count is the difference of two releases. Noise that is in both cancels, so the error of a
short window is smaller than that of the total
(:meth:`~fadecount.mechanisms.Mechanism.window_interval`). Nothing is released for it, so it costs
no privacy. Windows add up: the days of a year give exactly the difference of two releases, with the
error of these two.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray

from fadecount.durations import UNITS
from fadecount.errors import bad_parameter
from fadecount.mechanisms import Mechanism
from fadecount.mechanisms.noise_law import half_widths, window_half_widths
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


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Windows:
    """Counts of consecutive windows, in the shape (windows, keys), with their 95 % intervals.

    ``starts`` and ``ends`` are Unix seconds. A ``partial`` window is not covered by releases from
    its beginning to its end. Where ``known`` is false, the key was not declared yet. Values may be
    negative, since noise is: see :meth:`nonnegative`.
    """

    starts: Numbers
    ends: Numbers
    partial: NDArray[np.bool_]
    values: Numbers
    half_widths: Numbers
    known: NDArray[np.bool_]
    released: Numbers

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def low(self) -> Numbers:
        """The lower ends of the intervals."""
        return self._clipped(self.released - self.half_widths)

    @property
    def high(self) -> Numbers:
        """The upper ends of the intervals."""
        return self._clipped(self.released + self.half_widths)

    def _clipped(self, numbers: Numbers) -> Numbers:
        return numbers if self.values is self.released else np.maximum(numbers, 0)

    def nonnegative(self) -> Windows:
        """A consistent view in which no window is negative, and windows add up to totals that never
        fall.

        The totals at the edges are projected onto the nearest sequence that starts at 0 or above
        and never falls (isotonic regression), then rounded. True totals are such a sequence, so
        this never moves away from them (in the sum of squares, up to rounding). It is computed from
        the releases alone and never fed back. The intervals are those of the releases, cut at 0.
        """
        totals = np.cumsum(self.released, axis=0)
        shown = np.empty_like(totals)
        for key in range(totals.shape[1]):
            shown[:, key] = np.floor(_rising(np.maximum(totals[:, key], 0)) + 0.5)
        values = np.diff(shown, axis=0, prepend=0)
        return Windows(
            starts=self.starts,
            ends=self.ends,
            partial=self.partial,
            values=values,
            half_widths=self.half_widths,
            known=self.known,
            released=self.released,
        )


def window_start(ticks: Ticks, calendar: WindowCalendar, tick: int) -> int:
    """The first tick of the window that contains the beginning of a tick."""
    begin = ticks.start_seconds(tick)
    return ticks.at(float(calendar.edges(begin, begin + 1)[0]))


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


def windows_of(
    mechanism: Mechanism,
    edges: Numbers,
    partial: NDArray[np.bool_],
    steps: Numbers,
    totals: Numbers,
    widths: Numbers,
) -> Windows:
    """Windows from the releases at their edges: ``totals[i]`` at step ``steps[i]`` (0 at step 0),
    with ``widths[i]`` keys."""
    released = np.diff(totals, axis=0)
    keys = np.arange(totals.shape[1])
    known = keys < widths[1:, np.newaxis]
    around = np.broadcast_to(
        window_half_widths(mechanism, steps[:-1], steps[1:])[:, np.newaxis], released.shape
    ).copy()
    late = known & (keys >= widths[:-1, np.newaxis]) & (steps[:-1, np.newaxis] > 0)
    for row in np.flatnonzero(
        late.any(axis=1)
    ).tolist():  # a key declared within the window: nothing cancels
        around[row, late[row]] = half_widths(mechanism, int(steps[row + 1]), 1)[0]
    around[~known] = 0
    return Windows(
        starts=edges[:-1],
        ends=edges[1:],
        partial=partial,
        values=released,
        half_widths=around,
        known=known,
        released=released,
    )


def no_windows(width: int) -> Windows:
    """Windows of a stream that has released nothing yet."""
    times, numbers = np.zeros(0, dtype=np.int64), np.zeros((0, width), dtype=np.int64)
    flags = np.zeros((0, width), dtype=np.bool_)
    return Windows(
        starts=times,
        ends=times,
        partial=flags[:, 0],
        values=numbers,
        half_widths=numbers,
        known=flags,
        released=numbers,
    )


def _rising(totals: Numbers) -> NDArray[np.float64]:
    """The nearest sequence that never falls, by least squares (pool adjacent violators)."""
    sums: list[float] = []
    sizes: list[int] = []
    for total in totals.tolist():
        sums.append(float(total))
        sizes.append(1)
        while len(sums) > 1 and sums[-2] * sizes[-1] > sums[-1] * sizes[-2]:
            last, size = sums.pop(), sizes.pop()
            sums[-1] += last
            sizes[-1] += size
    return np.repeat(np.array(sums) / np.array(sizes), sizes)
