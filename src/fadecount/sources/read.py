"""Reading a whole file of events into counts per tick and key."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from fadecount.errors import InputError, MissingExtraError, bad_parameter
from fadecount.sources.batch import TickBatch
from fadecount.sources.options import Format, SourceOptions
from fadecount.sources.plain import read_plain, require_content
from fadecount.sources.report import Reading, SourceReport


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
