"""Files read with polars: Parquet, and CSV files of plain shape, as a stream of blocks, larger than memory or not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import polars as pl

from fadecount.errors import InputError
from fadecount.sources.columns import FIRST_BAD, LAST_BAD, judged, split_places
from fadecount.sources.lines import csv_header, is_regular, numbered_lines
from fadecount.sources.options import SourceOptions
from fadecount.sources.reading import ROWS_PER_BATCH, Reason, SourceReport, TickBatch, bad_row

ROWS_PER_BLOCK = 500_000
PARTS_KEPT = 16


def read_csv(path: Path, options: SourceOptions, report: SourceReport) -> Iterator[TickBatch] | None:
    """The counts of a CSV file, or None if its shape is not plain, or polars refuses it: then the plain reader has the word."""
    with path.open("rb") as stream:
        number, header = next(numbered_lines(stream, options.max_line_bytes), (0, None))
        places, width = csv_header(header, options, path.name)
        start = stream.tell()
        if number != 1 or not is_regular(stream, width, options.separator, options.max_line_bytes) or stream.tell() == start:
            return None
    names = [str(place) for place in range(width)]
    for place, column in zip(places, options.columns, strict=True):
        names[place] = f"={column}"
    rows = pl.scan_csv(
        path,
        has_header=False,
        skip_lines=1,
        separator=options.separator,
        schema=dict.fromkeys(names, pl.String()),
        glob=False,
        low_memory=True,
    ).select(pl.col(f"={column}").alias(column) for column in options.columns)
    try:
        return _counts(rows, options, report, lambda number, reason: bad_row(path.name, "line", number + 2, reason))
    except pl.exceptions.PolarsError:
        return None


def read_parquet(path: Path, options: SourceOptions, report: SourceReport) -> Iterator[TickBatch]:
    """The counts of a Parquet file."""
    try:
        rows = pl.scan_parquet(path, glob=False)
        names = rows.collect_schema().names()
    except (pl.exceptions.PolarsError, OSError):
        names = None
    if names is None:
        raise InputError(f"{path.name} is not a readable Parquet file; check its format")
    for column in options.columns:
        if column not in names:
            raise InputError(f"{path.name}: the column {column!r} is not in the file ({len(names)} columns); check its name")
    rows = rows.select(options.columns)
    try:
        return _counts(rows, options, report, lambda number, reason: bad_row(path.name, "row", number + 1, reason))
    except (pl.exceptions.PolarsError, OSError):
        failed = True
    assert failed
    raise InputError(f"{path.name} is damaged: its columns cannot be read; write the file again")


def _counts(
    rows: pl.LazyFrame, options: SourceOptions, report: SourceReport, refuse: Callable[[int, Reason], InputError]
) -> Iterator[TickBatch]:
    """Everything is read and judged here; what is returned only cuts the result into batches."""
    table = judged(rows, rows.collect_schema(), options)
    groups = _grouped(table, options) if options.person is None else _bounded(table, options, report)
    bad = groups.filter(pl.col("place") <= LAST_BAD)
    if len(bad) and options.on_bad == "stop":
        raise refuse(*_first_bad(rows, options))
    report.rows_read = int(groups["rows"].sum()) + report.rows_dropped
    for place, count in bad.select("place", "rows").rows():
        report.skipped[Reason(place - FIRST_BAD)] = count
    return _batches(groups.filter(pl.col("place") > LAST_BAD).sort("place"), options)


def _grouped(table: pl.LazyFrame, options: SourceOptions) -> pl.DataFrame:
    sums = [] if options.amount is None else [pl.col("amount").sum()]
    return table.group_by("place").agg(pl.len().cast(pl.Int64).alias("rows"), *sums).collect(engine="streaming")


def _bounded(table: pl.LazyFrame, options: SourceOptions, report: SourceReport) -> pl.DataFrame:
    """The same, after dropping the rows of each person beyond the limit: block by block, in the order of the file.

    Between blocks only hashes and how often each was seen in a tick are kept.
    """
    seen = pl.DataFrame(schema={"tick": pl.Int64, "person": pl.UInt64, "seen": pl.UInt32})
    parts = []
    for block in table.collect_batches(chunk_size=ROWS_PER_BLOCK, maintain_order=True, engine="streaming"):
        good = block.filter(pl.col("place") > LAST_BAD).join(seen, on=["tick", "person"], how="left", maintain_order="left")
        nth = pl.col("seen").fill_null(0) + pl.int_range(pl.len(), dtype=pl.UInt32).over("tick", "person")
        kept = good.filter(nth < options.per_person)
        report.rows_dropped += len(good) - len(kept)
        now = kept.group_by("tick", "person").agg(pl.len().cast(pl.UInt32).alias("seen"))
        seen = pl.concat([seen, now]).group_by("tick", "person").agg(pl.col("seen").sum())
        bad = block.filter(pl.col("place") <= LAST_BAD)
        parts.append(_grouped(pl.concat([kept.drop("seen"), bad]).lazy(), options))
        if len(parts) > PARTS_KEPT:
            parts = [_merged(parts)]
    return _merged(parts)


def _merged(parts: list[pl.DataFrame]) -> pl.DataFrame:
    return pl.concat(parts).group_by("place").sum()


def _first_bad(rows: pl.LazyFrame, options: SourceOptions) -> tuple[int, Reason]:
    numbered = rows.with_row_index("number")
    table = judged(numbered, numbered.collect_schema(), options).filter(pl.col("place") <= LAST_BAD)
    first = table.group_by("place").agg(pl.col("number").min()).collect(engine="streaming").sort("number")
    return int(first["number"][0]), Reason(first["place"][0] - FIRST_BAD)


def _batches(groups: pl.DataFrame, options: SourceOptions) -> Iterator[TickBatch]:
    for part in groups.iter_slices(ROWS_PER_BATCH):
        counts = part["rows" if options.amount is None else "amount"]
        columns = (*split_places(part["place"], options), counts)
        yield TickBatch(*(np.array(column.to_numpy(), dtype=np.int64) for column in columns))
