"""Where the events of a run come from: a file, a file that grows, or a pipe."""

from __future__ import annotations

import argparse
import io
import sys
import time
from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, cast

from fadecount.errors import ParameterError, bad_parameter

if TYPE_CHECKING:
    from fadecount.sources import Reading, SourceOptions, TickBatch

_LOOK_SECONDS = 0.2
_PEEK = 64


def is_pipe(arguments: argparse.Namespace) -> bool:
    """Whether the input can be read once only."""
    return bool(arguments.input == "-")


def open_reading(arguments: argparse.Namespace, options: SourceOptions) -> Reading:
    """The batches of the input."""
    from fadecount.sources import read_file, read_lines

    if is_pipe(arguments):
        return read_lines(_standard_input(), options)
    if not arguments.follow:
        return read_file(arguments.input, options)
    if options.time is None:
        raise ParameterError("--time must be given with --follow; after a restart the file is read again by its times")
    return read_lines(cast(BinaryIO, GrowingFile(Path(arguments.input))), options, source=arguments.input)


def _standard_input() -> BinaryIO:
    """Standard input with a buffer of its own: a thread may still wait in it when Python closes that of ``sys.stdin``."""
    try:
        return open(sys.stdin.fileno(), "rb", closefd=False)
    except (OSError, ValueError):  # a stand-in that is no file
        return sys.stdin.buffer


class GrowingFile:
    """A file that is read line by line as it grows; an unfinished line is waited for."""

    def __init__(self, path: Path) -> None:
        try:
            self._file: io.BufferedReader = path.open("rb")
        except OSError as error:
            raise bad_parameter("INPUT", str(path), "readable", error.strerror or "check the path") from None

    def readline(self, limit: int = -1) -> bytes:
        parts: list[bytes] = []
        while True:
            part = self._file.readline(limit - sum(map(len, parts)) if limit >= 0 else -1)
            parts.append(part)
            if part.endswith(b"\n") or (limit >= 0 and sum(map(len, parts)) >= limit):
                return b"".join(parts)
            if not part:
                time.sleep(_LOOK_SECONDS)


def measured(reading: Iterator[TickBatch]) -> tuple[Iterator[TickBatch], int | None]:
    """The batches, and how many ticks they span if they are few enough to know."""
    first = list(islice(reading, _PEEK))
    if len(first) == _PEEK or not first or not len(first[-1]):
        return chain(first, reading), None
    return iter(first), int(first[-1].ticks[-1] - first[0].ticks[0]) + 1
