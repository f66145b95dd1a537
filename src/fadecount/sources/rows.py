"""From the bytes of a line to the texts of a row, and from there to an event, or to the reason why
there is none.

One row is one line, of CSV with a header or of JSON. Every reader judges rows by these rules, and
each row by itself.
"""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from enum import IntEnum
from functools import partial
from typing import NamedTuple, NoReturn, Protocol, Self, cast

from fadecount.errors import InputError
from fadecount.planning.publication import BETWEEN
from fadecount.sources.options import Format, Layout, SourceOptions
from fadecount.sources.times import NO_TIME, time_reader
from fadecount.streams.description import can_be_key


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
    KEY_TEXT = 20, "the key is no printable text of at most 200 characters"
    LARGE = 21, "the row stands for more than 2,147,483,648 events"
    CLOSED = 22, "no measure is open at its time"
    EMPTY = 23, "what is counted is empty in it"
    CAP = 24, "beyond the cap of its person"


OUTSIDE = (Reason.BEFORE, Reason.AFTER, Reason.LATE, Reason.REPEATED, Reason.VISIT, Reason.CLOSED)
"""Reasons that are not errors in a row."""

BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class Lines(Protocol):
    """What lines are read from: a file, a pipe, or a file that grows."""

    def readline(self, size: int = -1, /) -> bytes: ...


Texts = list[str] | Reason
"""The texts of a row, in the order of ``options.columns``, or why it has none."""


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


class CsvRows:
    """The rows of CSV lines under a header.

    Messages never repeat the header: for a file without one they would show its first row.
    """

    def __init__(self, header: bytes | Reason, options: Layout, source: str) -> None:
        text = header if isinstance(header, Reason) else decoded(header)
        names = None if isinstance(text, Reason) else split_fields(text, options.separator)
        if names is None:
            raise InputError(
                f"{source}, line 1: the header cannot be read; a CSV file begins with the names of"
                " its columns"
            )
        self.width, self.places = len(names), column_places(names, options, source)
        self._separator = options.separator

    def __call__(self, text: str) -> Texts:
        fields = split_fields(text, self._separator)
        if fields is None:
            return Reason.QUOTES
        if len(fields) != self.width:
            return Reason.FIELDS
        return [fields[place] for place in self.places]


def column_places(names: list[str], options: Layout, source: str) -> list[int]:
    """The positions of the named columns among all columns, each of which must be there once."""
    for column in options.columns:
        if names.count(column) != 1:
            count = "more than once" if column in names else "not"
            separator = " and the separator" if len(names) == 1 else ""
            raise InputError(
                f"{source}: the column {column!r} is {count} among its {len(names)} columns; check"
                f" its name{separator}"
            )
    return [names.index(column) for column in options.columns]


def json_row(text: str, columns: tuple[str, ...]) -> Texts:
    """The members of a JSON object that are named ``columns``. Numbers stay as they are written."""
    try:
        row = _DECODE(text)
    except (ValueError, RecursionError):
        return Reason.OBJECT
    if not isinstance(row, dict):
        return Reason.OBJECT
    values = map(row.get, columns)
    return [value if isinstance(value, str) else "" for value in values]


def _refuse(_constant: str) -> NoReturn:
    raise ValueError("not JSON")


_DECODE = json.JSONDecoder(parse_int=str, parse_float=str, parse_constant=_refuse).decode


def row_reader(
    kind: Format, lines: Iterator[tuple[int, bytes | Reason]], options: Layout, source: str
) -> Callable[[bytes | Reason], Texts]:
    """A function from the lines that follow to the texts of rows; for CSV this takes the header
    from ``lines``."""
    header = next(lines, None) if kind == "csv" else None
    parse: Callable[[str], Texts]
    if header is not None:
        parse = CsvRows(header[1], options, source)
    elif kind == "log":
        from fadecount.sources.visits import log_row

        parse = partial(log_row, columns=options.columns)
    else:  # an empty CSV file has no lines to parse
        parse = partial(json_row, columns=options.columns)
    return partial(texts_of, parse=parse)


def texts_of(line: bytes | Reason, parse: Callable[[str], Texts]) -> Texts:
    """The texts of a line."""
    text = line if isinstance(line, Reason) else decoded(line)
    return text if isinstance(text, Reason) else parse(text)


_WHOLE = re.compile(r"([0-9]{1,18})(?:\.0{1,9})?")
_NEGATIVE = re.compile(r"-[0-9]{1,18}(?:\.[0-9]{1,9})?")


class Event(NamedTuple):
    """One good row: Unix seconds (0 without a time column), what its cells mean
    (:meth:`RowRules.cell`), person, and its own id."""

    seconds: int
    cells: tuple[int | str, ...]
    person: str
    id: str

    @property
    def key(self) -> int | str:
        """The key of a source with one key."""
        return self.cells[0]

    @property
    def amount(self) -> int:
        """The amount of a source with one amount."""
        return cast("int", self.cells[1])


class RowRules(ABC):
    """What cells and rows mean, whichever reader reads them. A number below 0 is minus the
    :class:`Reason` why a cell means nothing. No row says what another one means.

    ``cells`` are the columns of each key (those of one key together) and of each amount.
    """

    def __init__(
        self,
        layout: Layout,
        *,
        time: str | None,
        cells: Sequence[tuple[str, ...]],
        person: str | None,
        id: str | None,  # noqa: A002 - the word for it
    ) -> None:
        self.layout, self.cells = layout, tuple(cells)
        self.time_column, self.person, self.id = time, person, id
        self.time = time_reader(layout.time_unit, layout.zone)
        """Unix seconds, or ``NO_TIME``."""
        place = layout.columns.index
        self._at_time, self._at_person, self._at_id = (
            None if name is None else place(name) for name in (time, person, id)
        )
        self._at_cells = [[place(name) for name in columns] for columns in self.cells]

    @abstractmethod
    def cell(self, at: int, text: str) -> int | str:
        """What a cell means: a number, or the text of a hidden key. The texts of several columns
        are joined by ``BETWEEN``."""

    @abstractmethod
    def number(self, at: int, meaning: int | str) -> int:
        """The number of what :meth:`cell` returns: those of hidden keys are behind those of the
        declared ones. What is numbered is kept, so a live source numbers none."""

    def event(self, texts: Texts) -> Event | Reason:
        """The event of a row, whose texts are in the order of the layout's columns. Its person, its
        id, and what its cells mean are not judged here."""
        if isinstance(texts, Reason):
            return texts
        seconds = 0 if self._at_time is None else self.time(texts[self._at_time])
        if seconds == NO_TIME:
            return Reason.TIME
        cells = tuple(
            self.cell(at, BETWEEN.join([texts[place] for place in places]))
            for at, places in enumerate(self._at_cells)
        )
        person, row_id = ("" if at is None else texts[at] for at in (self._at_person, self._at_id))
        return Event(seconds, cells, person, row_id)


def whole_number(text: str) -> int:
    """A whole number from 0 on (``3`` or ``3.0``), or minus the reason why it is none."""
    whole = _WHOLE.fullmatch(text)
    if whole is None:
        return -int(Reason.NEGATIVE if _NEGATIVE.fullmatch(text) else Reason.AMOUNT)
    return int(whole[1])


class Rules(RowRules):
    """The rules of a source with one key and one amount."""

    def __init__(self, options: SourceOptions) -> None:
        key, amount = (() if name is None else (name,) for name in (options.key, options.amount))
        super().__init__(
            options,
            time=options.time,
            cells=(key, amount),
            person=options.person,
            id=options.unique,
        )
        self.options = options
        self.names = [*options.keys]
        """The keys that have numbers."""
        self._declared = {key: number for number, key in enumerate(options.keys)}
        self._hidden: dict[str, int] = {}

    def cell(self, at: int, text: str) -> int | str:
        if not self.cells[at]:  # the first key, and an amount of 1
            return at
        return self.amount(text) if at else self.key(text)

    def key(self, text: str) -> int | str:
        """The number of a declared key, or the text of a hidden one."""
        options, number = self.options, self._declared.get(text)
        if number is not None:
            return number
        if options.discover:
            return text if can_be_key(text) else -int(Reason.KEY)
        return -int(Reason.KEY) if options.other is None else self._declared[options.other]

    def number(self, at: int, meaning: int | str) -> int:  # noqa: ARG002 - amounts are numbers
        if isinstance(meaning, int):
            return meaning
        number = self._hidden.setdefault(meaning, len(self.names))
        if number == len(self.names):
            self.names.append(meaning)
        return number

    def amount(self, text: str) -> int:
        """A whole number from 0 on (``3`` or ``3.0``)."""
        return whole_number(text)

    def event(self, texts: Texts) -> Event | Reason:
        event = super().event(texts)
        if isinstance(event, Reason):
            return event
        for meaning in event.cells:
            if isinstance(meaning, int) and meaning < 0:
                return Reason(-meaning)
        if self.person is not None and not event.person:
            return Reason.PERSON
        return Reason.ID if self.id is not None and not event.id else event
