"""Whole files of events to counts per tick and key.

The reader of this file uses the standard library alone: it is the reference for every faster reader, and the one that explains
bad rows. Where polars is installed, ``frames`` reads what it can faster, by the same rules.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import BinaryIO

from fadecount.errors import InputError, MissingExtraError, bad_parameter
from fadecount.sources.lines import LineParser, csv_header, csv_parser, json_parser, numbered_lines
from fadecount.sources.options import Format, SourceOptions
from fadecount.sources.reading import Reading, Reason, SourceReport, TickBatch, bad_row, batches_of
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
    tick_of = options.ticks.at
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


def read_file(path: str | Path, options: SourceOptions) -> Reading:
    """The counts of the events in a file, as batches in the order of time; rows may stand in the file in any order.

    Guarantees: with ``on_bad="stop"``, a bad row raises :class:`~fadecount.errors.BadRowError` before any batch is yielded, so
    nothing of a bad file is counted; no message holds a value of a row. Memory grows with the number of distinct pairs of tick
    and key (and of tick and person, where persons are bounded), not with the number of rows. With and without polars, the
    batches and the report are the same.
    """
    path = Path(path)
    if options.time is None:
        raise bad_parameter("time", None, "the name of a column", "the rows of a file are placed by their time")
    kind = options.format_of(path)
    require_content(path)
    if kind == "parquet" and not has_polars():
        raise MissingExtraError(f"{path.name}: reading Parquet needs polars; install fadecount[files]")
    report = SourceReport()
    return Reading(_batches(path, kind, options, report), report)


def has_polars() -> bool:
    """Whether the extra ``files`` is installed."""
    return find_spec("polars") is not None


def _batches(path: Path, kind: Format, options: SourceOptions, report: SourceReport) -> Iterator[TickBatch]:
    try:
        batches = _fast(path, kind, options, report) or read_plain(path, kind, options, report)
        yield from batches
    except OSError as error:
        reason = error.strerror
    else:
        return
    raise InputError(f"{path} cannot be read: {reason}")


def _fast(path: Path, kind: Format, options: SourceOptions, report: SourceReport) -> Iterator[TickBatch] | None:
    """What polars makes of the file, or None where the plain reader has the word."""
    if kind == "jsonl" or not has_polars():
        return None
    from fadecount.sources import frames

    return frames.read_parquet(path, options, report) if kind == "parquet" else frames.read_csv(path, options, report)
