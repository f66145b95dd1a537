"""Read with polars: Parquet and CSV files of plain shape, as a stream of blocks, larger than memory or not; and data frames."""

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
from fadecount.streams.inputs import person_digest

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
    return _read(rows, names, path.name, options, report, earlier, stop=stop)


def read_frame(
    frame: pl.DataFrame, options: SourceOptions, report: SourceReport, earlier: Earlier | None = None
) -> Iterator[TickBatch]:
    """The counts of a data frame, from its columns as they are: no text in between."""
    return _read(frame.lazy(), frame.columns, "the data frame", options, report, earlier)


def _read(
    rows: pl.LazyFrame,
    names: list[str],
    source: str,
    options: SourceOptions,
    report: SourceReport,
    earlier: Earlier | None,
    *,
    stop: bool = False,
) -> Iterator[TickBatch]:
    for column in options.columns:
        if column not in names:
            raise InputError(f"{source}: the column {column!r} is not among its {len(names)} columns; check its name")
    rows = rows.select(options.columns)
    try:
        batches = _counts(rows, options, report, earlier)
        bad = _first_bad(rows, options) if stop and any(reason not in OUTSIDE for reason in report.skipped) else None
    except (pl.exceptions.PolarsError, OSError):
        batches = None
    if batches is None:
        raise InputError(f"{source} is damaged: its columns cannot be read; write it again")
    if bad is not None:
        raise bad_row(source, "row", bad[0] + 1, bad[1])
    return batches


def _counts(rows: pl.LazyFrame, options: SourceOptions, report: SourceReport, earlier: Earlier | None) -> Iterator[TickBatch]:
    """Everything is read and judged here; what is returned only cuts the result into batches."""
    schema = rows.collect_schema()
    table = judged(rows, schema, options)
    if options.person is None:
        groups = _grouped(table, options)
    else:
        groups = _bounded(table, _People(table, options, earlier), options, report)
    bad = groups.filter(pl.col("place") <= LAST_BAD)
    report.rows_read = int(groups["rows"].sum()) + report.rows_dropped
    for place, count in bad.select("place", "rows").rows():
        report.skipped[Reason(place - FIRST_BAD)] = count
    return _batches(groups.filter(pl.col("place") > LAST_BAD).sort("place"), options)


def _grouped(table: pl.LazyFrame, options: SourceOptions) -> pl.DataFrame:
    sums = [] if options.amount is None else [pl.col("amount").sum()]
    return table.group_by("place").agg(pl.len().cast(pl.Int64).alias("rows"), *sums).collect(engine="streaming")


_PERSON = ("tick", "person", "twin")
_PAIR = ("place", *_PERSON)


class _People:
    """What of each person was counted in each tick, by the rule of :meth:`Unit.takes`, for whole blocks of rows.

    ``events`` says how many events were counted: of each person, or of each pair of a person and a place (tick and key) where
    the unit has several keys. ``keys`` says under how many keys. Only hashes are kept.
    """

    def __init__(self, table: pl.LazyFrame, options: SourceOptions, earlier: Earlier | None) -> None:
        self._unit = options.unit
        self._by = _PERSON if self._unit.keys == 1 else _PAIR
        kinds = {"place": pl.Int64, "tick": pl.Int64, "person": pl.UInt64, "twin": pl.UInt64}
        self._events = pl.DataFrame(schema={**{name: kinds[name] for name in self._by}, "counted": pl.UInt32})
        self._keys = pl.DataFrame(schema={**{name: kinds[name] for name in _PERSON}, "keys": pl.UInt32})
        if earlier is None or options.first_tick is None:
            return
        wanted = table.filter((pl.col("place") > LAST_BAD) & (pl.col("tick") == options.first_tick))
        people = wanted.select(*self._by, "name").unique().collect(engine="streaming")
        digests = [person_digest(name, earlier.key) for name in people["name"]]
        places = None if self._by == _PERSON else split_places(people["place"], options)[1].to_list()
        self._count(people.with_columns(pl.Series("counted", earlier.counted(digests, places), dtype=pl.UInt32)))
        if places is not None:
            known = people.with_columns(pl.Series("keys", earlier.counted(digests, None), dtype=pl.UInt32))
            self._keys = known.select(*_PERSON, "keys").unique()

    def within(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Those of the next rows that count."""
        rows = rows.join(self._events, on=self._by, how="left", maintain_order="left")
        nth = pl.col("counted").fill_null(0) + pl.int_range(pl.len(), dtype=pl.UInt32).over(*self._by)
        if self._unit.keys > 1:
            rows = self._under_first_keys(rows)
        kept = rows.filter(nth < self._unit.events).drop("counted")
        self._count(kept.group_by(*self._by).agg(pl.len().cast(pl.UInt32).alias("counted")))
        return kept

    def _under_first_keys(self, rows: pl.DataFrame) -> pl.DataFrame:
        """The rows under keys of their person that were counted before, or that are among the person's first ones."""
        rows = rows.join(self._keys, on=_PERSON, how="left", maintain_order="left").with_row_index("row")
        begins = pl.when(pl.col("counted").is_null()).then(pl.col("row").min().over(*_PAIR))
        rows = rows.with_columns(new=begins).with_columns(rank=pl.col("new").rank("dense").over(*_PERSON))
        total = pl.col("keys").fill_null(0) + pl.col("rank")
        kept = rows.filter(pl.col("new").is_null() | (total <= self._unit.keys))
        added = kept.group_by(*_PERSON).agg(pl.col("new").drop_nulls().n_unique().cast(pl.UInt32).alias("keys"))
        self._keys = pl.concat([self._keys, added]).group_by(*_PERSON).agg(pl.col("keys").sum())
        return kept.drop("keys", "row", "new", "rank")

    def _count(self, counted: pl.DataFrame) -> None:
        more = counted.select(*self._by, "counted").filter(pl.col("counted") > 0)
        self._events = pl.concat([self._events, more]).group_by(*self._by).agg(pl.col("counted").sum())


def _bounded(table: pl.LazyFrame, people: _People, options: SourceOptions, report: SourceReport) -> pl.DataFrame:
    """The same, after dropping the rows of each person beyond the limits: block by block, in the order of the file."""
    table = table.drop("name")
    parts = [_grouped(table.filter(pl.lit(value=False)), options)]
    for block in table.collect_batches(chunk_size=ROWS_PER_BLOCK, maintain_order=True, engine="streaming"):
        good = block.filter(pl.col("place") > LAST_BAD)
        kept = people.within(good)
        report.rows_dropped += len(good) - len(kept)
        bad = block.filter(pl.col("place") <= LAST_BAD)
        parts.append(_grouped(pl.concat([kept, bad]).lazy(), options))
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
