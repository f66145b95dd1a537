"""Read with polars: Parquet and CSV files as a stream of blocks, larger than memory or not; and
data frames."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import compress
from pathlib import Path

import numpy as np
import polars as pl
from polars.io.plugins import register_io_source

from fadecount.errors import InputError
from fadecount.sources.columns import FIRST_BAD, LAST_BAD, NUMBER, REASON, judged, split_places
from fadecount.sources.files import Earlier
from fadecount.sources.lines import (
    LineParser,
    csv_header,
    csv_parser,
    line_blocks,
    numbered_lines,
    regular_lines,
    without_ending,
)
from fadecount.sources.options import SourceOptions
from fadecount.sources.reading import (
    OUTSIDE,
    ROWS_PER_BATCH,
    Reason,
    SourceReport,
    TickBatch,
    bad_row,
)
from fadecount.streams.inputs import person_digest

ROWS_PER_BLOCK = 500_000
PARTS_KEPT = 16


def read_csv(
    path: Path, options: SourceOptions, report: SourceReport, earlier: Earlier | None = None
) -> Iterator[TickBatch]:
    """The counts of a CSV file: polars reads its regular lines, the plain parser each other line by
    itself."""
    schema = {**dict.fromkeys(options.columns, pl.String()), REASON: pl.Int64()}

    def frames(
        wanted: list[str] | None, predicate: pl.Expr | None, _rows: int | None, _batch: int | None
    ) -> Iterator[pl.DataFrame]:
        for frame in _csv_frames(path, options):
            rows = frame.rename(dict(zip(frame.columns, schema, strict=True))).select(
                wanted or list(schema)
            )
            yield rows if predicate is None else rows.filter(predicate)

    return _judged(register_io_source(frames, schema=schema), path.name, options, report, earlier)


def _csv_frames(path: Path, options: SourceOptions) -> Iterator[pl.DataFrame]:
    """The texts of the rows in the order of ``options.columns`` and of the file, and why a row has
    none."""
    kinds = {f"text{at}": pl.String() for at in range(len(options.columns))} | {
        "reason": pl.Int64()
    }
    yield pl.DataFrame(schema=kinds)
    with path.open("rb") as stream:
        _, header = next(numbered_lines(stream, options.max_line_bytes), (0, None))
        if header is None:
            return
        places, width = csv_header(header, options, path.name)
        parse = csv_parser(places, width, options.separator)
        names = {f"field{at}": pl.String() for at in range(width)}
        head = options.separator.join(names).encode() + b"\n"
        texts = [pl.col(f"field{place}").alias(f"text{at}") for at, place in enumerate(places)]
        for block in line_blocks(stream, options.max_line_bytes):
            regular = regular_lines(block, width, options.separator, options.max_line_bytes)
            plain = regular.all()
            lines = [] if plain else block.split(b"\n")
            fast = block if plain else b"".join(line + b"\n" for line in compress(lines, regular))
            frame = pl.DataFrame(schema=kinds)
            # behind a header of ours: polars would unpack bytes that begin like a compressed file
            if fast:
                rows = pl.scan_csv(head + fast, separator=options.separator, schema=names)
                frame = rows.select(*texts, reason=pl.lit(None, dtype=pl.Int64)).collect()
            if frame.height != np.count_nonzero(regular):
                raise InputError(
                    f"{path.name}: polars read other lines than there are; read it without polars"
                )
            if not plain:
                others = [
                    (at, *_texts(lines[at], parse, options))
                    for at in np.flatnonzero(~regular)
                    if without_ending(lines[at])
                ]
                odd = pl.DataFrame(others, schema={"line": pl.Int64(), **kinds}, orient="row")
                frame = (
                    pl.concat(
                        [frame.with_columns(line=np.flatnonzero(regular)), odd], how="diagonal"
                    )
                    .sort("line")
                    .drop("line")
                )
            yield frame


def _texts(raw: bytes, parse: LineParser, options: SourceOptions) -> tuple[str | int | None, ...]:
    line = without_ending(raw)
    row = parse(line) if len(line) <= options.max_line_bytes else Reason.OVERLONG
    return (*(None for _ in options.columns), int(row)) if isinstance(row, Reason) else (*row, None)


def read_parquet(
    path: Path,
    options: SourceOptions,
    report: SourceReport,
    earlier: Earlier | None = None,
    *,
    stop: bool = False,
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
    frame: pl.DataFrame,
    options: SourceOptions,
    report: SourceReport,
    earlier: Earlier | None = None,
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
            raise InputError(
                f"{source}: the column {column!r} is not among its {len(names)} columns; check its"
                " name"
            )
    return _judged(rows.select(options.columns), source, options, report, earlier, stop=stop)


def _judged(
    rows: pl.LazyFrame,
    source: str,
    options: SourceOptions,
    report: SourceReport,
    earlier: Earlier | None,
    *,
    stop: bool = False,
) -> Iterator[TickBatch]:
    try:
        batches = _counts(rows, options, report, earlier)
        bad = (
            _first_bad(rows, options)
            if stop and any(reason not in OUTSIDE for reason in report.skipped)
            else None
        )
    except (pl.exceptions.PolarsError, OSError):
        batches = None
    if batches is None:
        raise InputError(f"{source} is damaged: its columns cannot be read; write it again")
    if bad is not None:
        raise bad_row(source, "row", bad[0] + 1, bad[1])
    return batches


def _counts(
    rows: pl.LazyFrame, options: SourceOptions, report: SourceReport, earlier: Earlier | None
) -> Iterator[TickBatch]:
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
    return (
        table.group_by("place")
        .agg(pl.len().cast(pl.Int64).alias("rows"), *sums)
        .collect(engine="streaming")
    )


_PERSON = ("tick", "person", "twin")
_PAIR = ("place", *_PERSON)


class _People:
    """What of each person was counted in each tick, by the rule of :meth:`Unit.takes`, for whole
    blocks of rows.

    ``events`` says how many events were counted: of each person, or of each pair of a person and a
    place (tick and key) where the unit has several keys. ``keys`` says under how many keys. Only
    hashes are kept.
    """

    def __init__(
        self, table: pl.LazyFrame, options: SourceOptions, earlier: Earlier | None
    ) -> None:
        self._unit = options.unit
        self._by = _PERSON if self._unit.keys == 1 else _PAIR
        kinds = {"place": pl.Int64, "tick": pl.Int64, "person": pl.UInt64, "twin": pl.UInt64}
        self._events = pl.DataFrame(
            schema={**{name: kinds[name] for name in self._by}, "counted": pl.UInt32}
        )
        self._keys = pl.DataFrame(
            schema={**{name: kinds[name] for name in _PERSON}, "keys": pl.UInt32}
        )
        if earlier is None or options.first_tick is None:
            return
        wanted = table.filter((pl.col("place") > LAST_BAD) & (pl.col("tick") == options.first_tick))
        people = wanted.select(*self._by, "name").unique().collect(engine="streaming")
        digests = [person_digest(name, earlier.key) for name in people["name"]]
        places = (
            None if self._by == _PERSON else split_places(people["place"], options)[1].to_list()
        )
        self._count(
            people.with_columns(
                pl.Series("counted", earlier.counted(digests, places), dtype=pl.UInt32)
            )
        )
        if places is not None:
            known = people.with_columns(
                pl.Series("keys", earlier.counted(digests, None), dtype=pl.UInt32)
            )
            self._keys = known.select(*_PERSON, "keys").unique()

    def within(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Those of the next rows that count."""
        rows = rows.join(self._events, on=self._by, how="left", maintain_order="left")
        nth = pl.col("counted").fill_null(0) + pl.int_range(pl.len(), dtype=pl.UInt32).over(
            *self._by
        )
        if self._unit.keys > 1:
            rows = self._under_first_keys(rows)
        kept = rows.filter(nth < self._unit.events).drop("counted")
        self._count(kept.group_by(*self._by).agg(pl.len().cast(pl.UInt32).alias("counted")))
        return kept

    def _under_first_keys(self, rows: pl.DataFrame) -> pl.DataFrame:
        """The rows under keys of their person that were counted before, or that are among the
        person's first ones."""
        rows = rows.join(self._keys, on=_PERSON, how="left", maintain_order="left").with_row_index(
            "row"
        )
        begins = pl.when(pl.col("counted").is_null()).then(pl.col("row").min().over(*_PAIR))
        rows = rows.with_columns(new=begins).with_columns(
            rank=pl.col("new").rank("dense").over(*_PERSON)
        )
        total = pl.col("keys").fill_null(0) + pl.col("rank")
        kept = rows.filter(pl.col("new").is_null() | (total <= self._unit.keys))
        added = kept.group_by(*_PERSON).agg(
            pl.col("new").drop_nulls().n_unique().cast(pl.UInt32).alias("keys")
        )
        self._keys = pl.concat([self._keys, added]).group_by(*_PERSON).agg(pl.col("keys").sum())
        return kept.drop("keys", "row", "new", "rank")

    def _count(self, counted: pl.DataFrame) -> None:
        more = counted.select(*self._by, "counted").filter(pl.col("counted") > 0)
        self._events = (
            pl.concat([self._events, more]).group_by(*self._by).agg(pl.col("counted").sum())
        )


def _bounded(
    table: pl.LazyFrame, people: _People, options: SourceOptions, report: SourceReport
) -> pl.DataFrame:
    """The same, after dropping the rows of each person beyond the limits: block by block, in the
    order of the file."""
    table = table.drop("name")
    parts = [_grouped(table.filter(pl.lit(value=False)), options)]
    for block in table.collect_batches(
        chunk_size=ROWS_PER_BLOCK, maintain_order=True, engine="streaming"
    ):
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
    numbered = rows.with_row_index(NUMBER)
    table = judged(numbered, numbered.collect_schema(), options).filter(pl.col("place") <= LAST_BAD)
    table = table.filter(~pl.col("place").is_in([FIRST_BAD + reason for reason in OUTSIDE]))
    first = (
        table.group_by("place").agg(pl.col(NUMBER).min()).collect(engine="streaming").sort(NUMBER)
    )
    return int(first[NUMBER][0]), Reason(first["place"][0] - FIRST_BAD)


def _batches(groups: pl.DataFrame, options: SourceOptions) -> Iterator[TickBatch]:
    for part in groups.iter_slices(ROWS_PER_BATCH):
        counts = part["rows" if options.amount is None else "amount"]
        columns = (*split_places(part["place"], options), counts)
        yield TickBatch(*(np.array(column.to_numpy(), dtype=np.int64) for column in columns))
