"""Read with polars: Parquet and CSV files in blocks, larger than memory or not; and data frames.

Columns become numbers by the rules of ``rows``, each applied once to every distinct text. CSV
readers differ on blank lines, stray quotes, missing fields, lone carriage returns, NUL bytes and
wrong encodings. All of them agree on a line without any of these (:func:`regular_lines`), so polars
may read it. Every other line goes to the plain parser by itself: how a line is read depends on that
line alone. The check is several times faster than parsing.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from decimal import Decimal
from itertools import compress, count
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np
import numpy.typing as npt
import polars as pl

from fadecount.errors import InputError
from fadecount.planning.publication import BETWEEN
from fadecount.sources.grouping import Rows, joined, rows_of
from fadecount.sources.rows import (
    CsvRows,
    Reason,
    RowRules,
    column_places,
    numbered_lines,
    texts_of,
    without_ending,
)
from fadecount.sources.times import (
    NO_TIME,
    Numbers,
    seconds_of_local,
    seconds_of_numbers,
    time_reader,
)

ROWS_PER_BLOCK = 500_000
_uses = count()


def csv_rows(path: Path, rules: RowRules) -> Iterator[Rows]:
    """The rows of a CSV file: polars reads its regular lines, the plain parser each other line by
    itself."""
    options, numbers = rules.layout, Columns(rules)
    longest = options.max_line_bytes
    with path.open("rb") as stream:
        _, header = next(numbered_lines(stream, longest), (0, None))
        if header is None:
            return
        parser = CsvRows(header, options, path.name)
        names = {f"field{at}": pl.String() for at in range(parser.width)}
        head = options.separator.join(names).encode() + b"\n"
        texts = [
            pl.col(f"field{place}").alias(name)
            for name, place in zip(options.columns, parser.places, strict=True)
        ]
        for block in line_blocks(stream, longest):
            regular = regular_lines(block, parser.width, options.separator, longest)
            lines = [] if regular.all() else block.split(b"\n")
            fast = b"".join(line + b"\n" for line in compress(lines, regular)) if lines else block
            # behind a header of ours: polars would unpack bytes that begin like a compressed file
            scan = pl.scan_csv(head + fast, separator=options.separator, schema=names)
            rows = numbers.rows(scan.select(*texts).collect())
            if len(rows.times) != np.count_nonzero(regular):
                raise InputError(
                    f"{path.name}: polars read other lines than there are; read it without polars"
                )
            others = [at for at in np.flatnonzero(~regular) if without_ending(lines[at])]
            if others:
                cut = (without_ending(lines[at]) for at in others)
                odd = (line if len(line) <= longest else Reason.OVERLONG for line in cut)
                events = [rules.event(texts_of(line, parser)) for line in odd]
                order = np.argsort(np.concatenate([np.flatnonzero(regular), others]))
                rows = joined([rows, rows_of(events, rules)]).at(order)
            yield rows


def parquet_rows(path: Path, rules: RowRules) -> Iterator[Rows]:
    """The rows of a Parquet file."""
    options, numbers = rules.layout, Columns(rules)
    try:
        rows = pl.scan_parquet(path, glob=False)
        names = rows.collect_schema().names()
    except (pl.exceptions.PolarsError, OSError):
        names = None
    if names is None:
        raise InputError(f"{path.name} is not a readable Parquet file; check its format")
    column_places(names, options, path.name)
    blocks = rows.select(options.columns).collect_batches(
        chunk_size=ROWS_PER_BLOCK, maintain_order=True, engine="streaming"
    )
    try:
        for block in blocks:
            yield numbers.rows(block)
    except (pl.exceptions.PolarsError, OSError):
        damaged = True
    else:
        damaged = False
    if damaged:  # without the text of the error: it may quote a row
        raise InputError(f"{path.name} is damaged: its columns cannot be read; write it again")


def frame_rows(frame: Any, rules: RowRules) -> Iterator[Rows]:
    """The rows of a data frame of polars or pandas, from its columns as they are: no text in
    between, except for pandas' columns of objects."""
    options, numbers = rules.layout, Columns(rules)
    if not isinstance(frame, pl.DataFrame):
        frame = pl.DataFrame({column: _from_pandas(frame[column]) for column in options.columns})
    for block in frame.select(options.columns).iter_slices(ROWS_PER_BLOCK):
        yield numbers.rows(block)


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


_UNITS = {"ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
_WITHIN_HOUR = pl.Enum([f":{at // 60:02}:{at % 60:02}" for at in range(3600)])


class Columns:
    """What the columns of a frame mean, as numbers."""

    def __init__(self, rules: RowRules) -> None:
        self._options, self._rules = rules.layout, rules
        self._read_in_utc = time_reader(rules.layout.time_unit, "UTC")

    def rows(self, frame: pl.DataFrame) -> Rows:
        """The rows of a frame."""
        rules = self._rules
        assert rules.time_column is not None
        return Rows(
            self._seconds(frame[rules.time_column]),
            tuple(self._cell(frame, at) for at in range(len(rules.cells))),
            persons=None if rules.person is None else _texts(frame[rules.person]),
            ids=None if rules.id is None else _texts(frame[rules.id]),
        )

    def _cell(self, frame: pl.DataFrame, at: int) -> Numbers:
        rules = self._rules

        def number(text: str) -> int:
            return rules.number(at, rules.cell(at, text))

        columns = [_texts(frame[name]) for name in rules.cells[at]]
        if not columns:
            return np.full(frame.height, number(""))
        if len(columns) == 1:
            return _each(columns[0], number)
        return _each(pl.select(pl.concat_str(columns, separator=BETWEEN)).to_series(), number)

    def _seconds(self, column: pl.Series) -> Numbers:
        """Unix seconds; ``NO_TIME`` where there is no time."""
        kind, zone, unit = column.dtype, self._options.zone, self._options.time_unit
        if isinstance(kind, pl.Date):
            return seconds_of_local(_numbers(column.to_physical().cast(pl.Int64) * 86_400), zone)
        if isinstance(kind, pl.Datetime):
            known = "UTC" if kind.time_zone is not None else zone
            seconds = column.to_physical() // _UNITS[kind.time_unit]
            return seconds_of_local(_numbers(seconds), known)
        if kind.is_numeric() and not isinstance(kind, pl.Decimal) and unit != "iso":
            whole = column.cast(pl.Float64).floor() if kind.is_float() else column
            return seconds_of_numbers(_numbers(whole.cast(pl.Int64, strict=False)), unit)
        return self.seconds_of_texts(_texts(column))

    def seconds_of_texts(self, texts: pl.Series) -> Numbers:
        """Unix seconds of texts. Minutes and seconds of a time in ISO 8601 are cut off, so that
        each hour is read once; whole numbers are read at once."""
        cut = texts.str.slice(13, 6).cast(_WITHIN_HOUR, strict=False).to_physical()
        hours, rest = texts.str.head(13), texts.str.slice(19)
        if rest.str.starts_with(".").any():
            rest = rest.str.replace(r"^\.[0-9]{1,9}($|[^0-9])", ".0${1}")
        if not cut.null_count() and (rest == rest[:1]).all():
            end = ":00:00" + "".join(rest[:1])  # the same for all rows: it need not be put to each
            return self._seconds_of_hours(hours, end, _numbers(cut))
        hours = (hours + ":00:00" + rest).zip_with(cut.is_not_null(), texts)
        whole = texts.str.contains("^[0-9]{1,17}$")
        if self._options.time_unit == "iso" or not whole.any():
            return self._seconds_of_hours(hours, "", _numbers(cut, missing=0))
        numbers = seconds_of_numbers(
            _numbers(texts.set(~whole, None).cast(pl.Int64)), self._options.time_unit
        )
        seconds = self._seconds_of_hours(hours.set(whole, ""), "", _numbers(cut, missing=0))
        return np.where(whole.to_numpy(), numbers, seconds)

    def _seconds_of_hours(self, hours: pl.Series, end: str, behind: Numbers) -> Numbers:
        """Unix seconds of times that have the same end, and so many seconds more."""
        zone = self._options.zone
        read = self._rules.time if zone == "UTC" else self._read_in_utc
        seconds = _each(hours, lambda hour: read(hour + end))
        seconds = np.where(seconds == NO_TIME, NO_TIME, seconds + behind)
        if zone == "UTC":
            return seconds
        offset = hours.str.slice(16).str.contains("[Z+-]") | bool(re.search("[Z+-]", end))
        local = (hours.str.slice(4, 1) == "-") & ~offset
        return np.where(local.to_numpy(), seconds_of_local(seconds, zone), seconds)


def _numbers(column: pl.Series, *, missing: int = NO_TIME) -> Numbers:
    return column.fill_null(missing).to_numpy().astype(np.int64, copy=False)


def _each(texts: pl.Series, rule: Callable[[str], int]) -> Numbers:
    """What a rule says of each text. It is applied once to each distinct one."""
    if not len(texts):
        return np.empty(0, dtype=np.int64)
    kind = pl.Categorical(pl.Categories(f"fadecount {next(_uses)}"))  # forgotten after this use
    codes = texts.cast(kind).to_physical().to_numpy()
    row = np.full(int(codes.max()) + 1, -1, dtype=np.int64)
    row[codes] = np.arange(len(codes))
    there = np.flatnonzero(row >= 0)
    results = np.zeros(len(row), dtype=np.int64)
    results[there] = [rule(text) for text in texts.gather(row[there]).to_list()]
    each: Numbers = results[codes]
    return each


def _texts(column: pl.Series) -> pl.Series:
    """The text of each value, empty where there is none. A whole number has no decimals, whatever
    its type; NaN and infinity are missing, like null."""
    kind = column.dtype
    if kind.is_float():
        column = _texts_of_floats(column)
    elif isinstance(kind, pl.Decimal) and kind.scale:
        column = column.cast(pl.String).str.replace(r"\.?0+$", "")
    elif kind.is_numeric() or isinstance(kind, pl.Categorical | pl.Enum | pl.Boolean | pl.Null):
        column = column.cast(pl.String)
    elif not isinstance(kind, pl.String):
        raise InputError(
            f"the column {column.name!r} is neither text nor numbers; choose another column"
        )
    return column.fill_null("")


def number_text(value: float | Decimal) -> str | None:
    """The text of a number in a cell: whole numbers have no decimals, others no exponent; NaN and
    infinity are missing."""
    if not math.isfinite(value):
        return None
    return str(int(value)) if value == value // 1 else format(Decimal(str(value)).normalize(), "f")


def _texts_of_floats(values: pl.Series) -> pl.Series:
    """:func:`number_text` of each value, in bulk for whole numbers."""
    whole = values.cast(pl.Int64, strict=False)
    others = (~(whole == values).fill_null(value=False) & values.is_not_null()).arg_true()
    texts = [number_text(value) for value in values.gather(others).to_list()]
    return whole.cast(pl.String).scatter(others, pl.Series(texts, dtype=pl.String))
