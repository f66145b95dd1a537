"""Files read with the standard library alone: the reference for every faster reader, and the one that explains bad rows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from fadecount.errors import InputError
from fadecount.sources.batch import TickBatch, batches_of
from fadecount.sources.calendar import tick_reader
from fadecount.sources.lines import LineParser, csv_header, csv_parser, json_parser, numbered_lines
from fadecount.sources.options import Format, SourceOptions
from fadecount.sources.report import Reason, SourceReport, bad_row
from fadecount.sources.rows import RowJudge


class People:
    """How often each person was counted in each tick: fingerprints only, in memory only."""

    def __init__(self, options: SourceOptions) -> None:
        self._limit = 0 if options.person is None else options.per_person
        self._seen: dict[tuple[int, bytes], int] = {}

    def accepts(self, tick: int, person: bytes) -> bool:
        """Whether one more row of this person counts in this tick; if so it is noted."""
        if not self._limit:
            return True
        seen = self._seen.get((tick, person), 0)
        if seen >= self._limit:
            return False
        self._seen[tick, person] = seen + 1
        return True

    def forget_before(self, tick: int) -> None:
        """Drop every note about ticks before this one."""
        if self._limit:
            self._seen = {place: count for place, count in self._seen.items() if place[0] >= tick}


def read_plain(path: Path, kind: Format, options: SourceOptions, report: SourceReport) -> Iterator[TickBatch]:
    """The counts of a CSV or JSON lines file. The whole file is judged before the first batch is yielded.

    Memory grows with the number of distinct pairs of tick and key (and of tick and person), not with the number of rows.
    """
    with path.open("rb") as stream:
        counts = count_stream(stream, path.name, kind, options, report)
    yield from batches_of(counts)


def count_stream(
    stream: BinaryIO, source: str, kind: Format, options: SourceOptions, report: SourceReport
) -> dict[tuple[int, int], int]:
    """The sums per (tick, key) of everything that a stream of bytes holds; ``source`` is its name in messages."""
    lines = numbered_lines(stream, options.max_line_bytes)
    parse = parser_for(kind, lines, options, source)
    judge, people = RowJudge(options), People(options)
    tick_of = tick_reader(options)
    counts: dict[tuple[int, int], int] = {}
    for number, line in lines:
        report.rows_read += 1
        texts = line if isinstance(line, Reason) else parse(line)
        event = texts if isinstance(texts, Reason) else judge(texts)
        if isinstance(event, Reason):
            if options.on_bad == "stop":
                raise bad_row(source, "line", number, event)
            report.skipped[event] += 1
            continue
        place = (tick_of(event.seconds), event.key)
        if people.accepts(place[0], event.person):
            counts[place] = counts.get(place, 0) + event.amount
        else:
            report.rows_dropped += 1
    return counts


def parser_for(kind: Format, lines: Iterator[tuple[int, bytes | Reason]], options: SourceOptions, source: str) -> LineParser:
    """The parser of the lines that follow; for CSV this takes the header from ``lines``."""
    if kind == "csv":
        _, header = next(lines, (0, None))
        return csv_parser(*csv_header(header, options, source), options.separator)
    return json_parser(options.columns)


def require_content(path: Path) -> None:
    """Refuse a path that is no readable file, or an empty one. A pipe is not opened: a byte taken from it would be lost."""
    if path.exists() and not path.is_file():
        raise InputError(f"{path} is not a file; a pipe is read as standard input")
    try:
        with path.open("rb") as stream:
            empty = not stream.read(1)
    except OSError as error:
        reason = error.strerror
    else:
        if not empty:
            return
        raise InputError(f"{path.name} is empty; there is nothing to count")
    raise InputError(f"{path} cannot be read: {reason}")
