"""From the bytes of a line to the texts of a row, and from there to an event, or to the reason why
there is none.

One row is one line, of CSV with a header or of JSON. Every reader judges rows by these rules, and
each row by itself. Times have one grammar, stated as two patterns. ISO 8601: ``2026-03-01``,
``2026-03-01T10:00``, a blank instead of T, seconds, up to nine decimals, then nothing, ``Z`` or an
offset (``+01``, ``+0100``, ``+01:00``); years 1000 to 9986. Numbers are Unix times. With ``auto``
the size of a number says its unit: each instant from 1973-03-03 to 2099-12-31 has one reading
(10**8 to 4,102,444,799 are seconds, 1,000 times that milliseconds, 1,000,000 times that
microseconds), and any other number is refused. Part seconds are cut off downward.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator
from datetime import date, datetime, timedelta
from decimal import Decimal
from enum import IntEnum
from functools import lru_cache
from typing import NamedTuple, NoReturn, Protocol, Self
from zoneinfo import ZoneInfo

from fadecount.errors import InputError
from fadecount.sources.options import SourceOptions
from fadecount.streams.discovery import can_be_key


class Reason(IntEnum):
    """Why a row cannot be counted, as a number and in words. A row is judged in this order, and the
    first reason is the one reported."""

    text: str

    def __new__(cls, number: int, text: str = "") -> Self:
        reason = int.__new__(cls, number)
        reason._value_, reason.text = number, text
        return reason

    OVERLONG = 1, "the line is too long (max_line_bytes)"
    BINARY = 2, "the line holds a NUL byte, so it is not text"
    ENCODING = 3, "the line is not valid UTF-8"
    QUOTES = 4, "a quote is not closed on its line, or stands inside an unquoted field"
    FIELDS = 5, "the line has more or fewer fields than the header"
    OBJECT = 6, "the line is not a JSON object"
    TIME = 7, "the time is missing or cannot be read"
    FUTURE = 8, "the time lies too far in the future"
    KEY = 9, "the key is not declared; the option other counts such rows together"
    AMOUNT = 10, "the amount is not a whole number"
    NEGATIVE = 11, "the amount is negative"
    PERSON = 12, "the person is missing"
    ID = 13, "the id (unique) is missing"
    BEFORE = 14, "the time is before the first tick that is counted"
    AFTER = 15, "the time is after the last tick that is counted"
    LATE = 16, "the row is late: its tick is over"
    REPEATED = 17, "the id (unique) is that of an earlier row of the same tick, key and person"
    REQUEST = 18, "the line is not a request of an access log"
    VISIT = 19, "the request is no visit to a page: a program, a file, an error"


OUTSIDE = (Reason.BEFORE, Reason.AFTER, Reason.LATE, Reason.REPEATED, Reason.VISIT)
"""Reasons that are not errors in a row."""

BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class Lines(Protocol):
    """What lines are read from: a file, a pipe, or a file that grows."""

    def readline(self, size: int = -1, /) -> bytes: ...


LineParser = Callable[[bytes], "list[str] | Reason"]


def numbered_lines(stream: Lines, max_bytes: int) -> Iterator[tuple[int, bytes | Reason]]:
    """Every line that is not blank, with its number from 1 and without its ending. Holds at most
    one line in memory."""
    number = 0
    room = max_bytes + 2 + len(BYTE_ORDER_MARK)
    while raw := stream.readline(room):
        number += 1
        if number == 1:
            raw, room = raw.removeprefix(BYTE_ORDER_MARK), max_bytes + 2
        ended = raw.endswith(b"\n")
        line = without_ending(raw)
        if len(line) > max_bytes:
            while not ended and (rest := stream.readline(max_bytes)):
                ended = rest.endswith(b"\n")
            yield number, Reason.OVERLONG
        elif line:
            yield number, line


def without_ending(raw: bytes) -> bytes:
    """A line without its line feed, and without one carriage return before it."""
    return raw.removesuffix(b"\n").removesuffix(b"\r")


def decoded(line: bytes) -> str | Reason:
    """The text of a line, or why it is not text."""
    if b"\0" in line:
        return Reason.BINARY
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError:
        return Reason.ENCODING


def split_fields(text: str, separator: str) -> list[str] | None:
    """The fields of one CSV line, or None where a quote is out of place.

    >>> split_fields('a,"b ""c"", d",', ",")
    ['a', 'b "c", d', '']
    """
    if '"' not in text:
        return text.split(separator)
    pattern = _field_pattern(separator)
    fields, position = [], 0
    while True:
        field = pattern.match(text, position)
        if field is None:
            return None
        quoted, plain, end = field.groups()
        fields.append(plain if quoted is None else quoted.replace('""', '"'))
        if not end:
            return fields
        position = field.end()


def _field_pattern(separator: str) -> re.Pattern[str]:
    mark = re.escape(separator)
    return re.compile(rf'(?:"([^"]*(?:""[^"]*)*)"|([^"{mark}]*))({mark}|\Z)')


def csv_header(
    line: bytes | Reason | None, options: SourceOptions, source: str
) -> tuple[list[int], int]:
    """The positions of the named columns in the header, and how many columns it has.

    Messages never repeat the header: for a file without one they would show its first row.
    """
    if line is None:
        raise InputError(f"{source} is empty; a CSV file begins with a header")
    text = line if isinstance(line, Reason) else decoded(line)
    names = None if isinstance(text, Reason) else split_fields(text, options.separator)
    if names is None:
        raise InputError(
            f"{source}, line 1: the header cannot be read; a CSV file begins with the names of its"
            " columns"
        )
    return column_places(names, options, source), len(names)


def column_places(names: list[str], options: SourceOptions, source: str) -> list[int]:
    """The positions of the named columns among all columns, each of which must be there once."""
    for column in options.columns:
        if names.count(column) != 1:
            count = "more than once" if column in names else "not"
            raise InputError(
                f"{source}: the column {column!r} is {count} among its {len(names)} columns; check"
                " its name"
            )
    return [names.index(column) for column in options.columns]


def csv_parser(places: list[int], width: int, separator: str) -> LineParser:
    """A parser of CSV lines with ``width`` fields, of which those at ``places`` are wanted."""

    def parse(line: bytes) -> list[str] | Reason:
        text = decoded(line)
        if isinstance(text, Reason):
            return text
        fields = split_fields(text, separator)
        if fields is None:
            return Reason.QUOTES
        return [fields[place] for place in places] if len(fields) == width else Reason.FIELDS

    return parse


def json_parser(columns: tuple[str, ...]) -> LineParser:
    """A parser of JSON objects, of which the members named ``columns`` are wanted. Numbers stay as
    they are written."""
    decode = json.JSONDecoder(parse_int=str, parse_float=str, parse_constant=_refuse).decode

    def parse(line: bytes) -> list[str] | Reason:
        text = decoded(line)
        if isinstance(text, Reason):
            return text
        try:
            row = decode(text)
        except (ValueError, RecursionError):
            return Reason.OBJECT
        if not isinstance(row, dict):
            return Reason.OBJECT
        values = map(row.get, columns)
        return [value if isinstance(value, str) else "" for value in values]

    return parse


def _refuse(_constant: str) -> NoReturn:
    raise ValueError("not JSON")


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
            seconds = read_iso(text, zone)
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


def read_iso(text: str, zone: str) -> int | None:
    """Unix seconds of a time in ISO 8601; without an offset it is in ``zone``."""
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


WHOLE_PATTERN = r"^([0-9]{1,18})(?:\.0{1,9})?$"
NEGATIVE_PATTERN = r"^-[0-9]{1,18}(?:\.[0-9]{1,9})?$"
_whole = re.compile(WHOLE_PATTERN.removeprefix("^").removesuffix("$"))
_negative = re.compile(NEGATIVE_PATTERN.removeprefix("^").removesuffix("$"))


class Event(NamedTuple):
    """One good row: Unix seconds (0 without a time column), index of the key (or the text of a
    hidden one), amount, a digest of the person, and its own id."""

    seconds: int
    key: int | str
    amount: int
    person: bytes
    id: str = ""


class RowJudge:
    """Judges the texts of a row, given in the order of ``options.columns``. Keeps nothing between
    rows."""

    def __init__(self, options: SourceOptions, person_key: bytes | None = None) -> None:
        self._options = options
        self._read_time = time_reader(options)
        self._key_index = {key: index for index, key in enumerate(options.keys)}
        self._other = None if options.other is None else self._key_index[options.other]
        if options.person is not None:
            from fadecount.noise import unpredictable
            from fadecount.streams.inputs import person_digest

            self._digest, self._person_key = person_digest, person_key or unpredictable(32)
        columns = options.columns
        self._at = {name: columns.index(name) for name in columns}

    def __call__(self, texts: list[str]) -> Event | Reason:
        options, at = self._options, self._at
        seconds: int | None = 0
        if options.time is not None:
            seconds = self._read_time(texts[at[options.time]])
            if seconds is None:
                return Reason.TIME
        key: int | str | None = 0
        if options.key is not None:
            text = texts[at[options.key]]
            key = self._key_index.get(text)
            if key is None:
                key = (text if can_be_key(text) else None) if options.discover else self._other
            if key is None:
                return Reason.KEY
        amount: int | Reason = 1
        if options.amount is not None:
            amount = read_amount(texts[at[options.amount]])
            if isinstance(amount, Reason):
                return amount
        person = b""
        if options.person is not None:
            name = texts[at[options.person]]
            if not name:
                return Reason.PERSON
            person = self._digest(name, self._person_key)
        own = "" if options.unique is None else texts[at[options.unique]]
        if options.unique is not None and not own:
            return Reason.ID
        assert seconds is not None and key is not None
        return Event(seconds, key, amount, person, own)


def read_amount(text: str) -> int | Reason:
    """A whole number from 0 on (``3`` or ``3.0``), or the reason why the text is not one."""
    whole = _whole.fullmatch(text)
    if whole is None:
        return Reason.NEGATIVE if _negative.fullmatch(text) is not None else Reason.AMOUNT
    return int(whole[1])
