"""Lines of bytes to the texts of rows: CSV with a header, or JSON lines. One row is one line, in both.

CSV readers differ on blank lines, stray quotes, missing fields, lone carriage returns, NUL bytes and wrong encodings. All readers
agree on a file without any of these (:func:`is_regular`), so a fast reader may read it. Any other file goes to the plain
reader, which reports line by line what is wrong. The check is several times faster than parsing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import BinaryIO, NoReturn, Protocol

import numpy as np
import numpy.typing as npt

from fadecount.errors import InputError
from fadecount.sources.options import SourceOptions
from fadecount.sources.reading import Reason

BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class Lines(Protocol):
    """What lines are read from: a file, a pipe, or a file that grows."""

    def readline(self, size: int = -1, /) -> bytes: ...


LineParser = Callable[[bytes], "list[str] | Reason"]


def numbered_lines(stream: Lines, max_bytes: int) -> Iterator[tuple[int, bytes | Reason]]:
    """Every line that is not blank, with its number from 1 and without its ending. Holds at most one line in memory."""
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
        found = pattern.match(text, position)
        if found is None:
            return None
        quoted, plain, end = found.groups()
        fields.append(plain if quoted is None else quoted.replace('""', '"'))
        if not end:
            return fields
        position = found.end()


def _field_pattern(separator: str) -> re.Pattern[str]:
    mark = re.escape(separator)
    return re.compile(rf'(?:"([^"]*(?:""[^"]*)*)"|([^"{mark}]*))({mark}|\Z)')


def csv_header(line: bytes | Reason | None, options: SourceOptions, source: str) -> tuple[list[int], int]:
    """The positions of the named columns in the header, and how many columns it has.

    Messages never repeat the header: for a file without one they would show its first row.
    """
    if line is None:
        raise InputError(f"{source} is empty; a CSV file begins with a header")
    text = line if isinstance(line, Reason) else decoded(line)
    names = None if isinstance(text, Reason) else split_fields(text, options.separator)
    if names is None:
        raise InputError(f"{source}, line 1: the header cannot be read; a CSV file begins with the names of its columns")
    for column in options.columns:
        if names.count(column) != 1:
            found = "appears more than once" if column in names else "is not"
            raise InputError(f"{source}: the column {column!r} {found} in the header ({len(names)} columns); check its name")
    return [names.index(column) for column in options.columns], len(names)


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
    """A parser of JSON objects, of which the members named ``columns`` are wanted. Numbers stay as they are written."""
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


CHUNK_BYTES = 1 << 18  # fits in the cache of a core
_NEWLINE, _RETURN, _QUOTE = 10, 13, 34


def is_regular(stream: BinaryIO, width: int, separator: str, max_line_bytes: int) -> bool:
    """Whether every line that follows has ``width`` fields, well-placed quotes, valid text, and is neither blank nor overlong."""
    rest = b""
    while chunk := stream.read(max(CHUNK_BYTES, 2 * max_line_bytes)):
        chunk = rest + chunk
        end = chunk.rfind(b"\n") + 1
        if len(chunk) - end > max_line_bytes or not _lines_are_regular(chunk[:end], width, ord(separator), max_line_bytes):
            return False
        rest = chunk[end:]
    return _lines_are_regular(rest + b"\n", width, ord(separator), max_line_bytes) if rest else True


def _lines_are_regular(lines: bytes, width: int, separator: int, max_line_bytes: int) -> bool:
    if b"\0" in lines or not _is_utf8(lines):
        return False
    if b"\r" in lines and lines.count(b"\r") != lines.count(b"\r\n"):
        return False
    values = np.frombuffer(lines, dtype=np.uint8)
    marks = np.flatnonzero((values == separator) | (values == _NEWLINE))
    if b'"' in lines:
        quotes = np.flatnonzero(values == _QUOTE)
        if not _quotes_are_regular(values, quotes, separator):
            return False
        inside = np.searchsorted(quotes, marks) & 1 == 1
        if np.any(values[marks[inside]] == _NEWLINE):
            return False
        marks = marks[~inside]
    if len(marks) % width:
        return False
    ends = marks[width - 1 :: width]
    newlines = values[marks] == _NEWLINE
    if np.count_nonzero(newlines) != len(ends) or not np.all(newlines[width - 1 :: width]):
        return False
    lengths = np.diff(ends, prepend=-1) - 1
    shortest = 2 if b"\r" in lines else 1
    return len(lengths) == 0 or bool(lengths.min() >= shortest and lengths.max() <= max_line_bytes)


def _is_utf8(data: bytes) -> bool:
    if data.isascii():
        return True
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _quotes_are_regular(values: npt.NDArray[np.uint8], quotes: npt.NDArray[np.int64], separator: int) -> bool:
    """Quotes come in pairs. The first of a pair begins a field or follows a quote; the second ends one or precedes a quote."""
    if len(quotes) % 2:
        return False
    before = np.where(quotes[::2] == 0, _NEWLINE, values[quotes[::2] - 1])
    after = values[quotes[1::2] + 1]  # lines end with a line feed, so there is always a next byte
    begins = (before == separator) | (before == _NEWLINE) | (before == _QUOTE)
    finishes = (after == separator) | (after == _NEWLINE) | (after == _RETURN) | (after == _QUOTE)
    return bool(begins.all() and finishes.all())
