"""From the texts of one row to an event, or to the reason why there is none. Every reader judges
rows by these rules.

Times have one grammar, stated as two patterns. ISO 8601: ``2026-03-01``, ``2026-03-01T10:00``, a
blank instead of T, seconds, up to nine decimals, then nothing, ``Z`` or an offset (``+01``,
``+0100``, ``+01:00``); years 1000 to 9986. Numbers are Unix times. With ``auto`` the size of a
number says its unit: each instant from 1973-03-03 to 2099-12-31 has one reading (10**8 to
4,102,444,799 are seconds, 1,000 times that milliseconds, 1,000,000 times that microseconds), and
any other number is refused. Part seconds are cut off downward.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from datetime import date, datetime, timedelta
from decimal import Decimal
from functools import lru_cache
from typing import NamedTuple
from zoneinfo import ZoneInfo

from fadecount.noise import unpredictable
from fadecount.sources.options import SourceOptions
from fadecount.sources.reading import Reason
from fadecount.streams.inputs import person_digest

ISO_PATTERN = (
    r"^[1-9][0-9]{3}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12][0-9]|3[01])"
    r"(?:[T ](?:[01][0-9]|2[0-3]):[0-5][0-9](?::[0-5][0-9](?:\.[0-9]{1,9})?)?"
    r"(?:Z|[+-](?:[01][0-9]|2[0-3])(?::?[0-5][0-9])?)?)?$"
)
NUMBER_PATTERN = r"^-?[0-9]{1,17}(?:\.[0-9]+)?$"
OFFSET_PATTERN = r"(?:Z|[+-][0-9]{2}(?::?[0-9]{2})?)$"
EARLIEST = -30_610_224_000  # 1000-01-01
LATEST = 252_990_000_000  # in the year 9986: room for every zone
AUTO_EARLIEST = 100_000_000  # 1973-03-03
AUTO_LATEST = 4_102_444_799  # 2099-12-31
PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000}

_iso = re.compile(ISO_PATTERN.removeprefix("^").removesuffix("$"))
_number = re.compile(NUMBER_PATTERN.removeprefix("^").removesuffix("$"))
_offset = re.compile(OFFSET_PATTERN)
_EPOCH = datetime(1970, 1, 1)
_EPOCH_DAY = _EPOCH.toordinal()
ZONE_STEP = 900  # the rules of every zone since 1972 change at a quarter of an hour


def number_text(value: float | Decimal) -> str | None:
    """The text of a number in a cell: whole numbers have no decimals, others no exponent; NaN and
    infinity are missing."""
    if not math.isfinite(value):
        return None
    return str(int(value)) if value == value // 1 else format(Decimal(str(value)).normalize(), "f")


def time_reader(options: SourceOptions) -> Callable[[str], int | None]:
    """A function from text to Unix seconds, or None where the text is not a time."""
    unit, zone = options.time_unit, options.zone

    def read(text: str) -> int | None:
        if unit in ("auto", "iso") and text[4:5] == "-":
            seconds = _read_iso(text, zone)
        else:
            seconds = None if unit == "iso" else _read_number(text, unit)
        return seconds if seconds is not None and EARLIEST <= seconds <= LATEST else None

    return read


@lru_cache(maxsize=65_536)
def offset_at_local(local_step: int, zone: str) -> int:
    """Seconds by which ``zone`` is ahead of UTC, at a local time in quarters of an hour since 1970.

    Where the clock is set back, the hour that happens twice is taken the first time; an hour that
    is left out is taken as if the clock had not been set forward yet.
    """
    if zone == "UTC":
        return 0
    offset = (
        (_EPOCH + timedelta(seconds=local_step * ZONE_STEP))
        .replace(tzinfo=ZoneInfo(zone))
        .utcoffset()
    )
    assert offset is not None
    return round(offset.total_seconds())


@lru_cache(maxsize=4096)
def _day(text: str) -> int | None:
    try:
        return date.fromisoformat(text).toordinal() - _EPOCH_DAY
    except ValueError:  # the 30th of February
        return None


def _read_iso(text: str, zone: str) -> int | None:
    if _iso.fullmatch(text) is None:
        return None
    day = _day(text[:10])
    if day is None:
        return None
    local = day * 86_400
    if len(text) > 10:
        local += int(text[11:13]) * 3600 + int(text[14:16]) * 60
        if text[16:17] == ":":
            local += int(text[17:19])
        offset = _offset.search(text, 16)
        if offset is not None:
            return local - offset_seconds(offset.group())
    return local - offset_at_local(local // ZONE_STEP, zone)


@lru_cache(maxsize=1024)
def offset_seconds(text: str) -> int:
    """``Z``, ``+01``, ``+0100`` or ``+01:00`` in seconds."""
    if text == "Z":
        return 0
    digits = text[1:].replace(":", "").ljust(4, "0")
    seconds = int(digits[:2]) * 3600 + int(digits[2:]) * 60
    return -seconds if text[0] == "-" else seconds


def _read_number(text: str, unit: str) -> int | None:
    if _number.fullmatch(text) is None:
        return None
    whole, _, decimals = text.partition(".")
    number = int(whole) - (text[0] == "-" and decimals.strip("0") != "")
    if unit != "auto":
        return number // PER_SECOND[unit]
    for per_second in PER_SECOND.values():
        if AUTO_EARLIEST * per_second <= number < (AUTO_LATEST + 1) * per_second:
            return number // per_second
    return None


WHOLE_PATTERN = r"^[0-9]{1,18}(?:\.0{1,9})?$"
NEGATIVE_PATTERN = r"^-[0-9]{1,18}(?:\.[0-9]{1,9})?$"
_whole = re.compile(WHOLE_PATTERN.removeprefix("^").removesuffix("$"))
_negative = re.compile(NEGATIVE_PATTERN.removeprefix("^").removesuffix("$"))


class Event(NamedTuple):
    """One good row: Unix seconds (0 without a time column), index of the key, amount, and a digest
    of the person."""

    seconds: int
    key: int
    amount: int
    person: bytes


class RowJudge:
    """Judges the texts of a row, given in the order of ``options.columns``. Keeps nothing between
    rows."""

    def __init__(self, options: SourceOptions, person_key: bytes | None = None) -> None:
        self._options = options
        self._read_time = time_reader(options)
        self._key_index = {key: index for index, key in enumerate(options.keys)}
        self._other = None if options.other is None else self._key_index[options.other]
        self._person_key = person_key or unpredictable(32)
        columns = options.columns
        self._at = {name: columns.index(name) for name in columns}

    def __call__(self, texts: list[str]) -> Event | Reason:
        options, at = self._options, self._at
        seconds: int | None = 0
        if options.time is not None:
            seconds = self._read_time(texts[at[options.time]])
            if seconds is None:
                return Reason.TIME
        key: int | None = 0
        if options.key is not None:
            key = self._key_index.get(texts[at[options.key]], self._other)
            if key is None:
                return Reason.KEY
        amount: int | Reason = 1
        if options.amount is not None:
            amount = read_amount(texts[at[options.amount]], options.max_amount)
            if isinstance(amount, Reason):
                return amount
        person = b""
        if options.person is not None:
            name = texts[at[options.person]]
            if not name:
                return Reason.PERSON
            person = person_digest(name, self._person_key)
        assert seconds is not None and key is not None
        return Event(seconds, key, amount, person)


def read_amount(text: str, max_amount: int) -> int | Reason:
    """A whole number from 0 to ``max_amount`` (``3`` or ``3.0``), or the reason why the text is not
    one."""
    if _whole.fullmatch(text) is None:
        return Reason.NEGATIVE if _negative.fullmatch(text) is not None else Reason.AMOUNT
    amount = int(text.partition(".")[0])
    return amount if amount <= max_amount else Reason.ABOVE
