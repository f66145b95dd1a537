"""Read with polars: Parquet and CSV files as a stream of blocks, larger than memory or not; and
data frames. The rules of ``rows`` as expressions, many rows at once.

CSV readers differ on blank lines, stray quotes, missing fields, lone carriage returns, NUL bytes
and wrong encodings. All of them agree on a line without any of these (:func:`regular_lines`), so
polars may read it. Every other line goes to the plain parser by itself: how a line is read depends
on that line alone. The check is several times faster than parsing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from decimal import Decimal
from functools import lru_cache, partial
from itertools import compress
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np
import numpy.typing as npt
import polars as pl
from polars.io.plugins import register_io_source

from fadecount.errors import InputError
from fadecount.sources.caps import BulkCaps
from fadecount.sources.files import (
    ROWS_PER_BATCH,
    People,
    SourceReport,
    TickBatch,
    batches_of,
    count_row,
)
from fadecount.sources.options import SourceOptions
from fadecount.sources.rows import (
    AUTO_EARLIEST,
    AUTO_LATEST,
    EARLIEST,
    ISO_PATTERN,
    LATEST,
    NEGATIVE_PATTERN,
    NUMBER_PATTERN,
    PER_SECOND,
    WHOLE_PATTERN,
    ZONE_STEP,
    LineParser,
    Reason,
    column_places,
    csv_header,
    csv_parser,
    number_text,
    numbered_lines,
    offset_at_local,
    offset_seconds,
    read_iso,
    without_ending,
)
from fadecount.streams.discovery import LONGEST_KEY, can_be_key
from fadecount.streams.inputs import person_digest
from fadecount.streams.ticks import Ticks

ROWS_PER_BLOCK = 500_000
ROWS_AT_ONCE = 8 * ROWS_PER_BLOCK


def read_csv(
    path: Path, options: SourceOptions, report: SourceReport, people: People
) -> Iterator[TickBatch]:
    """The counts of a CSV file: polars reads its regular lines, the plain parser each other line by
    itself."""
    schema = {**dict.fromkeys(options.columns, pl.String()), REASON: pl.Int64()}

    def frames(
        wanted: list[str] | None, predicate: pl.Expr | None, _rows: int | None, _batch: int | None
    ) -> Iterator[pl.DataFrame]:
        for frame in _csv_frames(path, options, schema):
            rows = frame.select(wanted or list(schema))
            yield rows if predicate is None else rows.filter(predicate)

    return _counts(register_io_source(frames, schema=schema), path.name, options, report, people)


def _csv_frames(
    path: Path, options: SourceOptions, schema: dict[str, pl.DataType]
) -> Iterator[pl.DataFrame]:
    """The texts of the rows in the order of the file, and why a row has none."""
    yield pl.DataFrame(schema=schema)
    with path.open("rb") as stream:
        _, header = next(numbered_lines(stream, options.max_line_bytes), (0, None))
        if header is None:
            return
        places, width = csv_header(header, options, path.name)
        parse = csv_parser(places, width, options.separator)
        names = {f"field{at}": pl.String() for at in range(width)}
        head = options.separator.join(names).encode() + b"\n"
        texts = [
            pl.col(f"field{place}").alias(name)
            for name, place in zip(options.columns, places, strict=True)
        ]
        none = pl.lit(None, dtype=pl.Int64).alias(REASON)
        for block in line_blocks(stream, options.max_line_bytes):
            regular = regular_lines(block, width, options.separator, options.max_line_bytes)
            plain = regular.all()
            lines = [] if plain else block.split(b"\n")
            fast = block if plain else b"".join(line + b"\n" for line in compress(lines, regular))
            frame = pl.DataFrame(schema=schema)
            # behind a header of ours: polars would unpack bytes that begin like a compressed file
            if fast:
                rows = pl.scan_csv(head + fast, separator=options.separator, schema=names)
                frame = rows.select(*texts, none).collect()
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
                odd = pl.DataFrame(others, schema={LINE: pl.Int64(), **schema}, orient="row")
                frame = frame.with_columns(pl.Series(LINE, np.flatnonzero(regular)))
                frame = pl.concat([frame, odd], how="diagonal").sort(LINE).drop(LINE)
            yield frame


def _texts(raw: bytes, parse: LineParser, options: SourceOptions) -> tuple[str | int | None, ...]:
    line = without_ending(raw)
    row = parse(line) if len(line) <= options.max_line_bytes else Reason.OVERLONG
    return (*(None for _ in options.columns), int(row)) if isinstance(row, Reason) else (*row, None)


def read_parquet(
    path: Path, options: SourceOptions, report: SourceReport, people: People
) -> Iterator[TickBatch]:
    """The counts of a Parquet file."""
    try:
        rows = pl.scan_parquet(path, glob=False)
        names = rows.collect_schema().names()
    except (pl.exceptions.PolarsError, OSError):
        names = None
    if names is None:
        raise InputError(f"{path.name} is not a readable Parquet file; check its format")
    column_places(names, options, path.name)
    return _counts(rows.select(options.columns), path.name, options, report, people)


def read_frame(
    frame: Any, options: SourceOptions, report: SourceReport, people: People
) -> Iterator[TickBatch]:
    """The counts of a data frame of polars or pandas, from its columns as they are: no text in
    between, except for pandas' columns of objects."""
    if not isinstance(frame, pl.DataFrame):
        frame = pl.DataFrame({column: _from_pandas(frame[column]) for column in options.columns})
    rows = frame.lazy().select(options.columns)
    return _counts(rows, "the data frame", options, report, people)


def _from_pandas(column: Any) -> pl.Series:
    """A column of pandas. It takes its type from all its cells, and one cell must not change the
    others: in a column of objects, each cell becomes text by itself."""
    if column.dtype.kind not in "Oc":
        return cast(pl.Series, pl.from_pandas(column))
    cells = zip(column.astype(object), column.isna().tolist(), strict=True)
    texts = [None if missing else _cell(value) for value, missing in cells]
    return pl.Series(texts, dtype=pl.String)


def _cell(value: object) -> str | None:
    """The text of a value: whole numbers have no decimals, whatever their type; infinity is
    missing."""
    if isinstance(value, float | np.floating | Decimal):
        return number_text(value if isinstance(value, Decimal) else float(value))
    return str(value).lower() if isinstance(value, bool | np.bool_) else str(value)


def _counts(
    rows: pl.LazyFrame,
    source: str,
    options: SourceOptions,
    report: SourceReport,
    people: People,
) -> Iterator[TickBatch]:
    """Everything is read and judged here; what is returned only cuts the result into batches."""
    try:
        table = judged(rows, rows.collect_schema(), options)
        if options.person is not None and people.in_bulk:
            return _batches(_capped(table, options, report, people), options)
        if options.person is not None or options.unique is not None:
            return batches_of(_one_by_one(table, options, report, people))
        groups = (
            table.group_by("place")
            .agg(
                pl.len(),
                pl.col("amount").clip(upper_bound=options.max_amount).sum(),
                (pl.col("amount") > options.max_amount).sum().alias("cut"),
            )
            .collect(engine="streaming")
        )
    except (pl.exceptions.PolarsError, OSError):  # without its text: it may quote a row
        groups = None
    if groups is None:
        raise InputError(f"{source} is damaged: its columns cannot be read; write it again")
    report.rows_read += int(groups["len"].sum())
    for place, count in groups.filter(pl.col("place") <= LAST_BAD).select("place", "len").rows():
        report.skipped[Reason(place - FIRST_BAD)] += count
    good = groups.filter(pl.col("place") > LAST_BAD).sort("place")
    report.rows_cut += int(good["cut"].sum())
    return _batches(good, options)


def _capped(
    table: pl.LazyFrame, options: SourceOptions, report: SourceReport, people: People
) -> pl.DataFrame:
    """The sums per place of the rows that count, by the rule of :class:`People`: of each person and
    tick (or day) the first ones in the order of the file, under the first keys."""
    caps, amount, most = BulkCaps(options, people), pl.col("amount"), options.max_amount

    def sums(rows: pl.DataFrame) -> pl.DataFrame:
        """Those of the next rows."""
        report.rows_read += rows.height
        good = rows["place"] > LAST_BAD
        if not good.all():
            for place, count in rows["place"].filter(~good).value_counts().rows():
                report.skipped[Reason(place - FIRST_BAD)] += count
            rows = rows.filter(good)
        kept = rows.drop("name").filter(pl.Series(caps.counts(rows)))
        report.rows_dropped += rows.height - kept.height
        if options.discover:
            kept = _hidden(kept, options, people)
        report.rows_cut += kept.select((amount > most).sum()).item()
        return kept.with_columns(amount.clip(upper_bound=most)).group_by("place").agg(amount.sum())

    none = pl.DataFrame(schema={"place": pl.Int64(), "amount": pl.Int64()})
    parts = pl.concat([none, *map(sums, _pieces(table.drop("id"), caps))])
    people.counted_in_bulk = caps.in_block
    return parts.group_by("place").agg(amount.sum()).sort("place")


def _pieces(table: pl.LazyFrame, caps: BulkCaps) -> Iterator[pl.DataFrame]:
    """The rows in order, in pieces that grow with what is kept of the earlier ones: to look at that
    again takes no longer than to look at the rows."""
    blocks = list[pl.DataFrame]()
    for block in table.collect_batches(
        chunk_size=ROWS_PER_BLOCK, maintain_order=True, engine="streaming"
    ):
        blocks.append(block)
        if ROWS_PER_BLOCK * len(blocks) >= max(ROWS_AT_ONCE, caps.noted):
            yield _emptied(blocks)
    if blocks:
        yield _emptied(blocks)


def _emptied(blocks: list[pl.DataFrame]) -> pl.DataFrame:
    """All blocks as one, without chunks: to gather texts from many takes ten times as long."""
    joined = pl.concat(blocks, rechunk=True)
    blocks.clear()
    return joined


def _hidden(rows: pl.DataFrame, options: SourceOptions, people: People) -> pl.DataFrame:
    """Note the hidden keys of rows that count, of distinct persons, and return the others; or all,
    the hidden ones under ``other``."""
    hidden = pl.col("text").is_not_null()
    tick = pl.col("place") // options.width
    ticks = rows.select(tick).to_series().to_numpy()
    block = pl.Series("block", options.unit.blocks_of(options.ticks, ticks))
    found = rows.lazy().with_columns(block).filter(hidden).group_by("block", "text")
    keys = found.agg(pl.len(), tick.min().alias("first"), tick.max().alias("last")).collect()
    for some in keys.partition_by("block"):
        first, last = cast("tuple[int, int]", (some["first"].min(), some["last"].max()))
        people.hide(first, last, some["text"].to_list(), some["len"].to_list())
    if options.other is None:
        return rows.filter(~hidden)
    step = len(options.keys) - options.keys.index(options.other)
    return rows.with_columns(pl.col("place") - pl.when(hidden).then(step).otherwise(0))


def _one_by_one(
    table: pl.LazyFrame, options: SourceOptions, report: SourceReport, people: People
) -> dict[tuple[int, int], int]:
    """The sums per (tick, key) of the rows that count, in the order of the file: the first of each
    id and of each person, by the rules of :class:`People`."""
    width = options.width
    digest = lru_cache(maxsize=1 << 16)(partial(person_digest, key=people.key))
    counts: dict[tuple[int, int], int] = {}
    for block in table.collect_batches(
        chunk_size=ROWS_PER_BLOCK, maintain_order=True, engine="streaming"
    ):
        report.rows_read += len(block)
        for place, amount, name, row_id, *text in block.iter_rows():
            if place <= LAST_BAD:
                report.skipped[Reason(place - FIRST_BAD)] += 1
                continue
            whose = (b"" if options.person is None else digest(name), row_id)
            tick, key = divmod(place, width)
            key = text[0] if text and text[0] is not None else key
            count_row(counts, tick, key, amount, whose, people, report, options)
    return counts


def _batches(groups: pl.DataFrame, options: SourceOptions) -> Iterator[TickBatch]:
    for part in groups.iter_slices(ROWS_PER_BATCH):
        places, counts = (part[name].to_numpy().astype(np.int64) for name in ("place", "amount"))
        yield TickBatch(*np.divmod(places, options.width), counts)


BLOCK_BYTES = 1 << 22
_NEWLINE, _RETURN, _QUOTE = 10, 13, 34


def line_blocks(stream: BinaryIO, max_line_bytes: int) -> Iterator[bytes]:
    """The rest of a stream as blocks of whole lines. Of an overlong line, more than
    ``max_line_bytes`` remain, not all."""
    while block := stream.read(BLOCK_BYTES):
        if not block.endswith(b"\n"):
            block += stream.readline(max_line_bytes + 2)
        rest = block
        while not rest.endswith(b"\n") and (rest := stream.readline(max_line_bytes)):
            pass
        yield block if block.endswith(b"\n") else block + b"\n"


def regular_lines(
    block: bytes, width: int, separator: str, max_line_bytes: int
) -> npt.NDArray[np.bool_]:
    """Which lines of a block have ``width`` fields, well-placed quotes and valid text, and are
    neither blank nor overlong.

    A line with a lone carriage return is not regular either. Each verdict depends on its own line
    alone.
    """
    values = np.frombuffer(block, dtype=np.uint8)
    ends = np.flatnonzero(values == _NEWLINE)
    starts = np.concatenate(([0], ends[:-1] + 1))
    lengths = ends - starts
    regular: npt.NDArray[np.bool_] = (lengths >= 1) & (lengths <= max_line_bytes)
    separators = np.flatnonzero(values == ord(separator))
    if b'"' in block:
        quotes = np.flatnonzero(values == _QUOTE)
        number = np.diff(np.searchsorted(quotes, ends), prepend=0)
        paired = number % 2 == 0
        quotes = quotes if paired.all() else quotes[np.repeat(paired, number)]
        before, after = (
            values[quotes[::2] - 1],
            values[quotes[1::2] + 1],
        )  # -1 is the line feed at the end of the block
        begins = (before == ord(separator)) | (before == _NEWLINE) | (before == _QUOTE)
        finishes = (
            (after == ord(separator)) | (after == _NEWLINE) | (after == _RETURN) | (after == _QUOTE)
        )
        regular &= paired
        regular[np.searchsorted(ends, quotes[::2][~(begins & finishes)])] = False
        separators = separators[np.searchsorted(quotes, separators) % 2 == 0]
    even = width > 1 and len(separators) == len(ends) * (width - 1)
    by_line = separators.reshape(-1, width - 1) if even else None
    # to look at the first and last separator of each line costs half as much as to count them
    if by_line is None or (by_line[:, 0] < starts).any() or (by_line[:, -1] > ends).any():
        regular &= np.diff(np.searchsorted(separators, ends), prepend=0) == width - 1
    if b"\r" in block:
        regular &= (lengths > 1) | (values[starts] != _RETURN)
        returns = np.flatnonzero(values == _RETURN)
        regular[np.searchsorted(ends, returns[values[returns + 1] != _NEWLINE])] = False
    if b"\0" in block:
        regular[np.searchsorted(ends, np.flatnonzero(values == 0))] = False
    if not _is_utf8(block):
        for place in np.flatnonzero(regular):
            regular[place] = _is_utf8(block[starts[place] : ends[place]])
    return regular


def _is_utf8(data: bytes) -> bool:
    if data.isascii():
        return True
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def seconds_of_texts(texts: pl.Series, options: SourceOptions) -> pl.Series:
    """Unix seconds of a column of text; null where the text is not a time."""
    if options.time_unit == "iso":
        return within_range(_iso_seconds(texts, options.zone))
    if options.time_unit != "auto":
        return within_range(seconds_of_numbers(_whole_numbers(texts), options.time_unit))
    seconds = _iso_seconds(texts, options.zone)
    if seconds.null_count():
        numbers = seconds_of_numbers(_whole_numbers(texts), "auto")
        seconds = seconds.zip_with(seconds.is_not_null(), numbers)
    return within_range(seconds)


def within_range(seconds: pl.Series) -> pl.Series:
    """The same seconds, null outside the years that are accepted."""
    return _where(seconds, seconds.is_between(EARLIEST, LATEST))


def seconds_of_numbers(numbers: pl.Series, unit: str) -> pl.Series:
    """Unix seconds of whole numbers in the given unit, or in the unit inferred from their size."""
    if unit != "auto":
        return numbers // PER_SECOND[unit]
    seconds = pl.Series([None], dtype=pl.Int64).new_from_index(0, len(numbers))
    for per_second in PER_SECOND.values():
        fits = numbers.is_between(
            AUTO_EARLIEST * per_second, (AUTO_LATEST + 1) * per_second - 1
        ).fill_null(value=False)
        if fits.any():
            seconds = (numbers // per_second).zip_with(fits, seconds)
    return seconds


def local_to_unix(local: pl.Series, zone: str) -> pl.Series:
    """Unix seconds of local times in a zone; null where the calendar of the zone ends."""
    if zone == "UTC":
        return local
    local = _where(local, local.is_between(EARLIEST - 86_400, LATEST + 86_400))
    return local - _mapped(local // ZONE_STEP, lambda step: offset_at_local(step, zone))


def ticks_of(seconds: pl.Series, ticks: Ticks) -> pl.Series:
    """The ticks of times; null stays null."""
    numbers = pl.Series(ticks.of(seconds.fill_null(0).to_numpy()), dtype=pl.Int64)
    return _where(numbers, seconds.is_not_null())


def _mapped(values: pl.Series, function: Callable[[Any], int | None]) -> pl.Series:
    """A function applied once to each distinct value; null stays null."""
    distinct = values.drop_nulls().unique()
    results = pl.Series([function(value) for value in distinct], dtype=pl.Int64)
    return values.replace_strict(distinct, results, default=None, return_dtype=pl.Int64)


def _iso_seconds(texts: pl.Series, zone: str) -> pl.Series:
    """Unix seconds of times in ISO 8601. The plain reader reads each day and each offset once; the
    pattern leaves digits in the places of hour and minute, and seconds behind a colon. Where all
    have the commonest form, polars reads them."""
    texts = _where(texts, texts.str.contains(ISO_PATTERN))
    in_utc = texts.str.ends_with("Z").all()
    if in_utc and (texts.str.len_bytes() == len("2026-01-01T00:00:00Z")).all():
        moments = texts.str.to_datetime("%Y-%m-%dT%H:%M:%SZ", time_unit="ms", strict=False)
        if moments.null_count() == texts.null_count():
            return moments.to_physical() // 1000
    local = _mapped(texts.str.head(10), lambda day: read_iso(day, "UTC"))
    hours, minutes, seconds = (
        texts.str.slice(place, 2).cast(pl.Int64, strict=False).fill_null(0)
        for place in (11, 14, 17)
    )
    local = local + 3600 * hours + 60 * minutes
    if in_utc:
        return local + seconds
    # without seconds, these digits belong to an offset
    local = local + seconds.set((texts.str.slice(16, 1) != ":").fill_null(value=True), 0)
    offsets = texts.str.slice(16).str.strip_chars_start(":.0123456789")
    shifts = _mapped(offsets, lambda offset: offset_seconds(offset) if offset else None)
    if not shifts.null_count():
        return local - shifts
    return (local - shifts).zip_with(shifts.is_not_null(), local_to_unix(local, zone))


def _whole_numbers(texts: pl.Series) -> pl.Series:
    texts = _where(texts, texts.str.contains(NUMBER_PATTERN))
    if not texts.str.contains(".", literal=True).any():
        return texts.cast(pl.Int64, strict=False)
    whole = texts.str.extract(r"^(-?[0-9]+)").cast(pl.Int64, strict=False)
    return whole - texts.str.contains(r"^-.*\.0*[1-9]").cast(pl.Int64)


def _where(values: pl.Series, condition: pl.Series) -> pl.Series:
    return (
        values
        if condition.all() and not condition.null_count()
        else values.set(~condition.fill_null(value=False), None)
    )


_UNITS = {"ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
FIRST_BAD = -(1 << 62)
"""A good row has the place tick * number of keys + key; a bad one FIRST_BAD + reason, which is
below every good place.

One number per row, because grouping by one column takes half the time of grouping by two.
"""
LAST_BAD = FIRST_BAD + 100
_FIRST = -(1 << 61)
REASON, LINE = "\nreason", "\nline"
"""Columns beside those of the input, under names that no header can have: why a row has no texts,
and its place in a block."""


def judged(rows: pl.LazyFrame, schema: pl.Schema, options: SourceOptions) -> pl.LazyFrame:
    """One row per row of the input: its place (see ``FIRST_BAD``), its amount and, where persons
    are bounded or ids count once, the name of its person and its id; and, where keys appear by
    themselves, the text of its hidden key."""
    assert options.time is not None
    person, row_id = (
        pl.lit("-") if name is None else _text(name, schema[name]).fill_null("")
        for name in (options.person, options.unique)
    )
    rows = rows.with_columns(
        _seconds(options.time, schema[options.time], options).alias(".seconds"),
        _key(options, schema).alias(".key"),
        _amount(options, schema).alias(".amount"),
        person.alias(".person"),
        row_id.alias(".id"),
    )
    ticks = _applied(pl.col(".seconds"), lambda seconds: ticks_of(seconds, options.ticks))
    rows = rows.with_columns(ticks.alias(".tick"))
    if options.late == "next" and options.late_from is not None and options.first_tick is not None:
        late = pl.col(".tick").is_between(options.late_from, options.first_tick)
        rows = rows.with_columns(
            pl.when(late).then(options.first_tick).otherwise(".tick").alias(".tick")
        )
    bad = (
        pl.when(pl.col(REASON).is_not_null() if REASON in schema else pl.lit(value=False))
        .then(FIRST_BAD + (pl.col(REASON) if REASON in schema else 0))
        .when(pl.col(".seconds").is_null())
        .then(FIRST_BAD + Reason.TIME)
        .when(pl.col(".key").is_null())
        .then(FIRST_BAD + Reason.KEY)
        .when(pl.col(".amount") < 0)
        .then(FIRST_BAD - pl.col(".amount"))
        .when(pl.col(".person") == "")
        .then(FIRST_BAD + Reason.PERSON)
        .when(pl.col(".id") == "")
        .then(FIRST_BAD + Reason.ID)
        .when(pl.col(".tick") < (_FIRST if options.first_tick is None else options.first_tick))
        .then(FIRST_BAD + Reason.BEFORE)
        .when(pl.col(".tick") >= (-_FIRST if options.end_tick is None else options.end_tick))
        .then(FIRST_BAD + Reason.AFTER)
    )
    place = bad.otherwise(pl.col(".tick") * options.width + pl.col(".key"))
    wanted = options.person is not None or options.unique is not None
    names = [pl.col(".person").alias("name"), pl.col(".id").alias("id")] if wanted else []
    if options.discover and options.key is not None:
        text = pl.when(pl.col(".key") == len(options.keys)).then(
            _text(options.key, schema[options.key])
        )
        names.append(text.alias("text"))
    return rows.select(place.alias("place"), pl.col(".amount").alias("amount"), *names)


def _seconds(name: str, kind: pl.DataType, options: SourceOptions) -> pl.Expr:
    """Unix seconds; null where there is no time."""
    column, zone, unit = pl.col(name), options.zone, options.time_unit
    if isinstance(kind, pl.Date):
        local = column.to_physical().cast(pl.Int64) * 86_400
        return _applied(local, lambda series: within_range(local_to_unix(series, zone)))
    if isinstance(kind, pl.Datetime):
        seconds = column.to_physical() // _UNITS[kind.time_unit]
        known = "UTC" if kind.time_zone is not None else zone
        return _applied(seconds, lambda series: within_range(local_to_unix(series, known)))
    if kind.is_numeric() and not isinstance(kind, pl.Decimal) and unit != "iso":
        whole = column.cast(pl.Float64).floor() if kind.is_float() else column
        numbers = whole.cast(pl.Int64, strict=False)
        return _applied(numbers, lambda series: within_range(seconds_of_numbers(series, unit)))
    return _applied(_text(name, kind), lambda series: seconds_of_texts(series, options))


def _applied(column: pl.Expr, function: object) -> pl.Expr:
    return column.map_batches(
        cast("type[pl.Series]", function), return_dtype=pl.Int64, is_elementwise=True
    )


def _key(options: SourceOptions, schema: pl.Schema) -> pl.Expr:
    """The index of the key; null where it is not declared."""
    if options.key is None:
        return pl.lit(0, dtype=pl.Int64)
    text = _text(options.key, schema[options.key]).fill_null("")
    index = text.cast(pl.Enum(options.keys), strict=False).to_physical().cast(pl.Int64)
    if options.discover:  # one place for all hidden keys
        possible = text.map_batches(_can_be_keys, return_dtype=pl.Boolean, is_elementwise=True)
        hidden = pl.when(possible).then(len(options.keys))
        return pl.when(index.is_null()).then(hidden).otherwise(index)
    return index if options.other is None else index.fill_null(options.keys.index(options.other))


def _can_be_keys(texts: pl.Series) -> pl.Series:
    """:func:`can_be_key` of each text, at once for those of plain letters."""
    plain = texts.str.contains(f"^[ -~]{{1,{LONGEST_KEY}}}$")
    odd = [text for text in texts.filter(~plain).unique() if can_be_key(text)]
    return plain | texts.is_in(odd) if odd else plain


def _amount(options: SourceOptions, schema: pl.Schema) -> pl.Expr:
    """The amount; where there is none, the reason as a negative number."""
    if options.amount is None:
        return pl.lit(1, dtype=pl.Int64)
    text = _text(options.amount, schema[options.amount])
    whole = text.str.extract(WHOLE_PATTERN).cast(pl.Int64, strict=False)
    return (
        pl.when(whole.is_not_null())
        .then(whole)
        .when(text.str.contains(NEGATIVE_PATTERN))
        .then(-int(Reason.NEGATIVE))
        .otherwise(-int(Reason.AMOUNT))
        .cast(pl.Int64)
    )


def _texts_of_floats(values: pl.Series) -> pl.Series:
    """:func:`number_text` of each value, in bulk for whole numbers."""
    whole = values.cast(pl.Int64, strict=False)
    exact = (whole == values).fill_null(value=False)
    others = values.filter(~exact & values.is_not_null()).unique()
    if not len(others):
        return whole.cast(pl.String)
    texts = pl.Series([number_text(value) for value in others], dtype=pl.String)
    written = values.replace_strict(others, texts, default=None, return_dtype=pl.String)
    return whole.cast(pl.String).zip_with(exact, written)


def _text(name: str, kind: pl.DataType) -> pl.Expr:
    """The text of a value. A whole number has no decimals, whatever its type; NaN and infinity are
    missing, like null."""
    column = pl.col(name)
    if isinstance(kind, pl.String):
        return column
    if kind.is_float():
        return column.map_batches(_texts_of_floats, return_dtype=pl.String)
    if isinstance(kind, pl.Decimal) and kind.scale:
        return column.cast(pl.String).str.replace(r"\.?0+$", "")
    if kind.is_numeric() or isinstance(kind, pl.Categorical | pl.Enum | pl.Boolean | pl.Null):
        return column.cast(pl.String)
    raise InputError(f"the column {name!r} is neither text nor numbers; choose another column")
