"""Lines of bytes to the texts of rows: CSV with a header, or JSON lines. One row is one line, in
both.

CSV readers differ on blank lines, stray quotes, missing fields, lone carriage returns, NUL bytes
and wrong encodings. All of them agree on a line without any of these (:func:`regular_lines`), so a
fast reader may read it. Every other line goes to the plain parser by itself: how a line is read
depends on that line alone. The check is several times faster than parsing.
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
    for column in options.columns:
        if names.count(column) != 1:
            found = "appears more than once" if column in names else "is not"
            raise InputError(
                f"{source}: the column {column!r} {found} in the header ({len(names)} columns);"
                " check its name"
            )
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


BLOCK_BYTES = 1 << 20
_NEWLINE, _RETURN, _QUOTE = 10, 13, 34


def line_blocks(stream: BinaryIO, max_line_bytes: int) -> Iterator[bytes]:
    """The rest of a stream as blocks of whole lines. Of an overlong line, more than
    ``max_line_bytes`` remain, not all."""
    while block := stream.read(BLOCK_BYTES):
        if not block.endswith(b"\n"):
            block += stream.readline(max_line_bytes + 2)
        rest = block
        while not rest.endswith(b"\n") and (rest := stream.readline(max_line_bytes)):
            pass
        yield block if block.endswith(b"\n") else block + b"\n"


def regular_lines(
    block: bytes, width: int, separator: str, max_line_bytes: int
) -> npt.NDArray[np.bool_]:
    """Which lines of a block have ``width`` fields, well-placed quotes and valid text, and are
    neither blank nor overlong.

    A line with a lone carriage return or a byte order mark at its beginning is not regular either.
    Each verdict depends on its own line alone.
    """
    values = np.frombuffer(block, dtype=np.uint8)
    ends = np.flatnonzero(values == _NEWLINE)
    starts = np.concatenate(([0], ends[:-1] + 1))
    lengths = ends - starts
    regular: npt.NDArray[np.bool_] = (
        (lengths >= 1) & (lengths <= max_line_bytes) & (values[starts] != BYTE_ORDER_MARK[0])
    )
    marks = np.flatnonzero(values == ord(separator))
    if b'"' in block:
        quotes = np.flatnonzero(values == _QUOTE)
        number = np.diff(np.searchsorted(quotes, ends), prepend=0)
        paired = number % 2 == 0
        quotes = quotes if paired.all() else quotes[np.repeat(paired, number)]
        before, after = (
            values[quotes[::2] - 1],
            values[quotes[1::2] + 1],
        )  # -1 is the line feed at the end of the block
        begins = (before == ord(separator)) | (before == _NEWLINE) | (before == _QUOTE)
        finishes = (
            (after == ord(separator)) | (after == _NEWLINE) | (after == _RETURN) | (after == _QUOTE)
        )
        regular &= paired
        regular[np.searchsorted(ends, quotes[::2][~(begins & finishes)])] = False
        marks = marks[np.searchsorted(quotes, marks) % 2 == 0]
    regular &= np.diff(np.searchsorted(marks, ends), prepend=0) == width - 1
    if b"\r" in block:
        regular &= (lengths > 1) | (values[starts] != _RETURN)
        returns = np.flatnonzero(values == _RETURN)
        regular[np.searchsorted(ends, returns[values[returns + 1] != _NEWLINE])] = False
    if b"\0" in block:
        regular[np.searchsorted(ends, np.flatnonzero(values == 0))] = False
    if not _is_utf8(block):
        for place in np.flatnonzero(regular):
            regular[place] = _is_utf8(block[starts[place] : ends[place]])
    return regular


def _is_utf8(data: bytes) -> bool:
    if data.isascii():
        return True
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True
