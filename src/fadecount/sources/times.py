"""Times in cells: one grammar, and the Unix seconds that a text means.

ISO 8601: ``2026-03-01``, ``2026-03-01T10:00``, a blank instead of T, seconds, up to nine decimals,
then nothing, ``Z`` or an offset (``+01``, ``+0100``, ``+01:00``); years 1000 to 9986. Numbers are
Unix times. With ``auto`` the size of a number says its unit: each instant from 1973-03-03 to
2099-12-31 has one reading (10**8 to 4,102,444,799 are seconds, 1,000 times that milliseconds,
1,000,000 times that microseconds), and any other number is refused. Part seconds are cut off
downward.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from fadecount.calendar import QUARTER, from_local, zone_offset

Numbers = npt.NDArray[np.int64]
NO_TIME = -(1 << 62)
"""In place of Unix seconds, where there is no time."""
EARLIEST = -30_610_224_000  # 1000-01-01
LATEST = 252_990_000_000  # in the year 9986: room for every zone
AUTO_EARLIEST = 100_000_000  # 1973-03-03
AUTO_END = 4_102_444_800  # 2100-01-01
PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000}

_ISO = re.compile(
    r"[1-9][0-9]{3}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12][0-9]|3[01])"
    r"(?:[T ](?:[01][0-9]|2[0-3]):[0-5][0-9](?::[0-5][0-9](?:\.[0-9]{1,9})?)?"
    r"(?:Z|[+-](?:[01][0-9]|2[0-3])(?::?[0-5][0-9])?)?)?"
)
_NUMBER = re.compile(r"-?[0-9]{1,17}(?:\.[0-9]+)?")
_EPOCH, _SECOND = datetime(1970, 1, 1), timedelta(seconds=1)


def time_reader(unit: str, zone: str) -> Callable[[str], int]:
    """A function from text to Unix seconds, or ``NO_TIME`` where the text is not a time."""

    @lru_cache(maxsize=1 << 16)
    def read(text: str) -> int:
        if unit in ("auto", "iso") and text[4:5] == "-":
            seconds = _read_iso(text, zone)
        else:
            seconds = NO_TIME if unit == "iso" else _read_number(text, unit)
        return seconds if EARLIEST <= seconds <= LATEST else NO_TIME

    return read


def _read_iso(text: str, zone: str) -> int:
    """Unix seconds of a time in ISO 8601; without an offset it is in ``zone``."""
    if _ISO.fullmatch(text) is None:
        return NO_TIME
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:  # the 30th of February
        return NO_TIME
    local = (moment.replace(tzinfo=None) - _EPOCH) // _SECOND
    offset = moment.utcoffset()
    return local - (zone_offset(zone, local // QUARTER) if offset is None else offset // _SECOND)


def _read_number(text: str, unit: str) -> int:
    if _NUMBER.fullmatch(text) is None:
        return NO_TIME
    whole, _, decimals = text.partition(".")
    number = int(whole) - (text[0] == "-" and decimals.strip("0") != "")
    if unit != "auto":
        return number // PER_SECOND[unit]
    for per_second in PER_SECOND.values():
        if AUTO_EARLIEST * per_second <= number < AUTO_END * per_second:
            return number // per_second
    return NO_TIME


def seconds_of_numbers(numbers: Numbers, unit: str) -> Numbers:
    """Unix seconds of whole numbers in the given unit, or in the unit inferred from their size."""
    if unit != "auto":
        return within_range(numbers // PER_SECOND[unit])
    units = PER_SECOND.values()
    fits = [(numbers >= AUTO_EARLIEST * each) & (numbers < AUTO_END * each) for each in units]
    return np.select(fits, [numbers // each for each in units], NO_TIME)


def seconds_of_local(local: Numbers, zone: str) -> Numbers:
    """Unix seconds of local times in a zone, given as if they were in UTC."""
    local = within_range(local)
    if zone == "UTC":
        return local
    timed, seconds = local != NO_TIME, local.copy()
    seconds[timed] = from_local(local[timed], zone)
    return within_range(seconds)


def within_range(seconds: Numbers) -> Numbers:
    """The same seconds, but for those outside the years that are accepted."""
    outside = (seconds < EARLIEST) | (seconds > LATEST)
    return np.where(outside, NO_TIME, seconds) if outside.any() else seconds
