"""Files read with polars: Parquet, and CSV files of plain shape, as a stream of blocks, larger than memory or not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl

from fadecount.errors import InputError
from fadecount.sources.columns import FIRST_BAD, LAST_BAD, judged, split_places
from fadecount.sources.files import Earlier
from fadecount.sources.lines import csv_header, is_regular, numbered_lines
from fadecount.sources.options import SourceOptions
from fadecount.sources.reading import OUTSIDE, ROWS_PER_BATCH, Reason, SourceReport, TickBatch, bad_row
from fadecount.sources.rows import fingerprint

ROWS_PER_BLOCK = 500_000
PARTS_KEPT = 16


def read_csv(
    path: Path, options: SourceOptions, report: SourceReport, earlier: Earlier | None = None
) -> Iterator[TickBatch] | None:
    """The counts of a CSV file, or None if its shape is not plain, or polars refuses it: then the plain reader reads it."""
    with path.open("rb") as stream:
        number, header = next(numbered_lines(stream, options.max_line_bytes), (0, None))
        if header is None:
            return None
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
        return _counts(rows, options, report, earlier)
    except pl.exceptions.PolarsError:
        return None


def read_parquet(
    path: Path, options: SourceOptions, report: SourceReport, earlier: Earlier | None = None, *, stop: bool = False
) -> Iterator[TickBatch]:
    """The counts of a Parquet file. With ``stop``, the first bad row is raised as an error."""
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
        batches = _counts(rows, options, report, earlier)
        bad = _first_bad(rows, options) if stop and any(reason not in OUTSIDE for reason in report.skipped) else None
    except (pl.exceptions.PolarsError, OSError):
        batches = None
    if batches is None:
        raise InputError(f"{path.name} is damaged: its columns cannot be read; write the file again")
    if bad is not None:
        raise bad_row(path.name, "row", bad[0] + 1, bad[1])
    return batches


def _counts(rows: pl.LazyFrame, options: SourceOptions, report: SourceReport, earlier: Earlier | None) -> Iterator[TickBatch]:
    """Everything is read and judged here; what is returned only cuts the result into batches."""
    schema = rows.collect_schema()
    table = judged(rows, schema, options)
    if options.person is None:
        groups = _grouped(table, options)
    else:
        groups = _bounded(table, _seen(table, options, earlier), options, report)
    bad = groups.filter(pl.col("place") <= LAST_BAD)
    report.rows_read = int(groups["rows"].sum()) + report.rows_dropped
    for place, count in bad.select("place", "rows").rows():
        report.skipped[Reason(place - FIRST_BAD)] = count
    return _batches(groups.filter(pl.col("place") > LAST_BAD).sort("place"), options)


def _grouped(table: pl.LazyFrame, options: SourceOptions) -> pl.DataFrame:
    sums = [] if options.amount is None else [pl.col("amount").sum()]
    return table.group_by("place").agg(pl.len().cast(pl.Int64).alias("rows"), *sums).collect(engine="streaming")


def _seen(table: pl.LazyFrame, options: SourceOptions, earlier: Earlier | None) -> pl.DataFrame:
    """The persons known before the file is read: how many events of each already count in the first wanted tick."""
    seen = pl.DataFrame(schema={"tick": pl.Int64, "person": pl.UInt64, "twin": pl.UInt64, "seen": pl.UInt32})
    if earlier is None or options.first_tick is None:
        return seen
    wanted = table.filter((pl.col("place") > LAST_BAD) & (pl.col("tick") == options.first_tick))
    people = wanted.select("tick", "person", "twin", "name").unique().collect(engine="streaming")
    counts = earlier.counted([fingerprint(name, earlier.key) for name in people["name"]])
    known = people.drop("name").with_columns(pl.Series("seen", counts, dtype=pl.UInt32))
    return pl.concat([seen, known.filter(pl.col("seen") > 0)])


def _bounded(table: pl.LazyFrame, seen: pl.DataFrame, options: SourceOptions, report: SourceReport) -> pl.DataFrame:
    """The same, after dropping the rows of each person beyond the limit: block by block, in the order of the file.

    Between blocks only hashes and how often each was seen in a tick are kept.
    """
    table = table.drop("name")
    parts = [_grouped(table.filter(pl.lit(value=False)), options)]
    for block in table.collect_batches(chunk_size=ROWS_PER_BLOCK, maintain_order=True, engine="streaming"):
        good = block.filter(pl.col("place") > LAST_BAD).join(
            seen, on=["tick", "person", "twin"], how="left", maintain_order="left"
        )
        nth = pl.col("seen").fill_null(0) + pl.int_range(pl.len(), dtype=pl.UInt32).over("tick", "person", "twin")
        kept = good.filter(nth < options.per_person)
        report.rows_dropped += len(good) - len(kept)
        now = kept.group_by("tick", "person", "twin").agg(pl.len().cast(pl.UInt32).alias("seen"))
        seen = pl.concat([seen, now]).group_by("tick", "person", "twin").agg(pl.col("seen").sum())
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
    table = table.filter(~pl.col("place").is_in([FIRST_BAD + reason for reason in OUTSIDE]))
    first = table.group_by("place").agg(pl.col("number").min()).collect(engine="streaming").sort("number")
    return int(first["number"][0]), Reason(first["place"][0] - FIRST_BAD)


def _batches(groups: pl.DataFrame, options: SourceOptions) -> Iterator[TickBatch]:
    for part in groups.iter_slices(ROWS_PER_BATCH):
        counts = part["rows" if options.amount is None else "amount"]
        columns = (*split_places(part["place"], options), counts)
        yield TickBatch(*(np.array(column.to_numpy(), dtype=np.int64) for column in columns))
