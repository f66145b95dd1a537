"""Read files, pipes and data frames to their end, and count their events per tick and key.

The standard library reads JSON lines, access logs, pipes and small CSV files, one row after the
other. Polars reads large CSV files, Parquet and data frames (``columns``). Both give the same.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, TypeAlias, cast

from fadecount.errors import InputError, bad_parameter, missing_extra
from fadecount.sources.additions import EarlierNotes, InputAdditions, MeasureTally
from fadecount.sources.grouping import Rows, rows_of
from fadecount.sources.measures import MeasureRules, PublicationRows
from fadecount.sources.options import PACKED, Format, Layout, SourceOptions, format_of
from fadecount.sources.rows import (
    OUTSIDE,
    Event,
    Reason,
    RowRules,
    Rules,
    column_places,
    numbered_lines,
    row_reader,
)
from fadecount.sources.tally import Earlier, History, Tally

if TYPE_CHECKING:
    import pandas
    import polars

    Frame: TypeAlias = polars.DataFrame | pandas.DataFrame
    Source: TypeAlias = str | Path | Sequence[str | Path] | BinaryIO | Frame

ROWS_AT_ONCE = 65_536
SMALL_BYTES = 1 << 18
"""CSV files up to this size are read without polars, whose import alone takes longer."""


def read(
    source: Source,
    options: SourceOptions,
    *,
    earlier: Earlier | None = None,
    per_address: int | None = None,
) -> History:
    """Read a source to its end: a file, several files as if they were one, a pipe, whose
    ``options.format`` must be given, or a data frame, whose columns keep their types. Rows may
    stand in any order. ``per_address`` is that of the stream's :class:`HiddenKeys`.

    Guarantees: a row that cannot be read is left out and changes nothing else; an empty file has no
    events; no message holds a value of a row. With and without polars, the counts and the report
    are the same.
    """
    check_source(source, options)
    rules = Rules(options)
    tally = Tally(rules, earlier, per_address)
    for rows in _rows(source, rules):
        tally.add(rows)
    return tally.done()


def count_rows(
    source: Source, wanted: PublicationRows, *, earlier: EarlierNotes | None = None
) -> InputAdditions:
    """Read a source to its end, as :func:`read` does, once for all measures of a publication.
    ``earlier`` is what was noted of persons in the slot of the first tick."""
    check_source(source, wanted)
    rules = MeasureRules(wanted)
    tally = MeasureTally(rules, earlier)
    for rows in _rows(source, rules):
        tally.add(rows)
    return tally.done()


def check_source(source: Source, options: SourceOptions | PublicationRows) -> None:
    """Refuse a source that cannot be read: a file that is not there, a header without a column, an
    unknown format, an extra that is missing. Nothing is taken from a pipe."""
    if isinstance(options, SourceOptions) and options.time is None:
        raise bad_parameter(
            "time", None, "the name of a column", "the rows of a history are placed by their time"
        )
    places = set[tuple[int, int]]()
    for path in paths_of(source):
        _check_file(path, options)
        file = path.stat()
        if (place := (file.st_dev, file.st_ino)) in places:
            raise InputError(f"{path} is given twice; its rows would count, and lose, twice")
        places.add(place)
    if _is_frame(source):
        if not has_polars():
            raise missing_extra("counting a data frame", "polars", "files")
        column_places(list(cast("Frame", source).columns), options, "the data frame")
    elif hasattr(source, "readline"):
        line_format(options)


def _check_file(path: Path, options: Layout) -> None:
    require_file(path)
    kind = format_of(options, path)
    if kind == "parquet" and not has_polars():
        raise missing_extra(f"{path.name}: reading Parquet", "polars", "files")
    if kind == "csv":
        with path.open("rb") as stream:
            row_reader(kind, numbered_lines(stream, options.max_line_bytes), options, path.name)


def paths_of(source: Source) -> list[Path]:
    """The files of a source; none of a pipe or a data frame."""
    if isinstance(source, str | Path):
        return [Path(source)]
    return [Path(each) for each in source] if isinstance(source, Sequence) else []


def _is_frame(source: Source) -> bool:
    return hasattr(source, "columns")


def _rows(source: Source, rules: RowRules) -> Iterator[Rows]:
    where = "standard input"
    try:
        if _is_frame(source):
            from fadecount.sources.columns import frame_rows

            yield from frame_rows(source, rules)
        elif hasattr(source, "readline"):
            lines = cast("BinaryIO", source)
            yield from _line_rows(lines, line_format(rules.layout), rules, where)
        for path in paths_of(source):
            where = str(path)
            yield from _file_rows(path, format_of(rules.layout, path), rules)
    except OSError as error:
        raise InputError(f"{where} cannot be read: {error.strerror}") from None


def _file_rows(path: Path, kind: Format, rules: RowRules) -> Iterator[Rows]:
    small = path.stat().st_size <= SMALL_BYTES or not has_polars()
    if kind in ("jsonl", "log") or (kind == "csv" and small):
        with _opened(path) as stream:
            yield from _line_rows(stream, kind, rules, path.name)
        return
    from fadecount.sources import columns

    yield from (columns.parquet_rows if kind == "parquet" else columns.csv_rows)(path, rules)


@contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    """The bytes of a file; those of an access log may be packed."""
    try:
        with gzip.open(path) if path.suffix.lower() == ".gz" else path.open("rb") as stream:
            yield cast("BinaryIO", stream)
    except (EOFError, gzip.BadGzipFile, zlib.error):
        raise InputError(
            f"{path.name} is damaged: it cannot be unpacked; take a whole copy"
        ) from None


def events(
    stream: BinaryIO, kind: Format, rules: RowRules, source: str
) -> Iterator[tuple[int, Event | Reason]]:
    """The number and the event of each line of a stream of bytes, or why it has none; ``source`` is
    its name in messages."""
    lines = numbered_lines(stream, rules.layout.max_line_bytes)
    read_row = row_reader(kind, lines, rules.layout, source)
    return ((number, rules.event(read_row(line))) for number, line in lines)


def _line_rows(stream: BinaryIO, kind: Format, rules: RowRules, source: str) -> Iterator[Rows]:
    found = (event for _, event in events(stream, kind, rules, source))
    while some := list(islice(found, ROWS_AT_ONCE)):
        yield rows_of(some, rules)


def first_bad_row(path: str | Path, options: SourceOptions | PublicationRows) -> str | None:
    """Where the first bad row of a file of lines is, and why it is one; for its owner only."""
    path = Path(path)
    if (kind := format_of(options, path)) == "parquet":
        return None
    rules = Rules(options) if isinstance(options, SourceOptions) else MeasureRules(options)
    with _opened(path) as stream:
        for number, event in events(stream, kind, rules, path.name):
            if isinstance(event, Event) and isinstance(rules, MeasureRules):
                reason: object = rules.entry(event, rules.wanted.ticks.at(event.seconds), b"")
            else:
                reason = event
            if isinstance(reason, Reason) and reason not in OUTSIDE:
                return f"{path.name}, line {number}: {reason.text}; a run leaves this row out"
    return None


def live_options(path: Path | None, options: SourceOptions) -> SourceOptions:
    """The options with the format of a live source: a file that grows, or (None) a pipe. Refused if
    it cannot be read line by line."""
    if options.unique is not None:
        remedy = "a live source forgets rows; send batches with ids to the service instead"
        raise bad_parameter("unique", options.unique, "left out for a live source", remedy)
    if path is not None:
        require_file(path)
        options = replace(options, format=format_of(options, path))
        if path.suffix.lower() in PACKED:
            remedy = "follow the file that the server writes"
            raise bad_parameter("input", str(path), "an unpacked file that grows", remedy)
    line_format(options)
    return options


def require_file(path: Path) -> None:
    """Refuse a path that is not a readable file. A pipe is not opened: a byte read from it would be
    lost."""
    if path.exists() and not path.is_file():
        kind = "a folder; name its files" if path.is_dir() else "not a file"
        raise InputError(f"{path} is {kind}; a pipe is read as standard input")
    try:
        path.open("rb").close()
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from None


def line_format(options: Layout) -> Format:
    """The format of a pipe. It is never guessed from the first row: one bad row would affect all
    others."""
    if options.format not in ("csv", "jsonl", "log"):
        raise bad_parameter(
            "format",
            options.format,
            "csv, jsonl or log for a pipe",
            "name it; Parquet is read by path",
        )
    return options.format


def has_polars() -> bool:
    """Whether the extra ``files`` is installed."""
    return find_spec("polars") is not None
