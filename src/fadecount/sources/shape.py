"""Whether a CSV file has the plain shape on which all CSV readers agree.

CSV readers differ on blank lines, stray quotes, missing fields, lone carriage returns, NUL bytes and wrong encodings. A file
without any of these has one reading, so a fast reader may be trusted with it; any other file goes to the plain reader, which
says line by line what is wrong. The check reads bytes at several times the speed of parsing them.
"""

from __future__ import annotations

from typing import BinaryIO

import numpy as np
import numpy.typing as npt

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
