"""Lines of bytes to the texts of rows: CSV with a header, or JSON lines. One row is one line, in both."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import BinaryIO, NoReturn

from fadecount.errors import InputError
from fadecount.sources.options import SourceOptions
from fadecount.sources.report import Reason

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
LineParser = Callable[[bytes], "list[str] | Reason"]


def numbered_lines(stream: BinaryIO, max_bytes: int) -> Iterator[tuple[int, bytes | Reason]]:
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
    """Where the named columns stand in the header, and how many columns it has.

    The header is never echoed: a file without one would show its first row.
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
