"""Columns of a frame to ticks, keys, amounts and reasons: the rules of ``rows`` as polars
expressions, many rows at once."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, cast

import polars as pl

from fadecount.errors import InputError
from fadecount.noise import unpredictable
from fadecount.sources.options import SourceOptions
from fadecount.sources.reading import Reason
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
    number_text,
    offset_at_local,
    offset_seconds,
)
from fadecount.streams import Ticks

_LAYOUTS = (
    (19, "%Y-%m-%dT%H:%M:%S"),
    (19, "%Y-%m-%d %H:%M:%S"),
    (16, "%Y-%m-%dT%H:%M"),
    (16, "%Y-%m-%d %H:%M"),
    (10, "%Y-%m-%d"),
)
_OFFSET = r"(Z|[+-][0-9]{2}(?::?[0-9]{2})?)$"


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
    found = pl.Series(ticks.of(seconds.fill_null(0).to_numpy()), dtype=pl.Int64)
    return (
        found
        if not seconds.null_count()
        else found.zip_with(seconds.is_not_null(), pl.Series([None], dtype=pl.Int64))
    )


def _mapped(values: pl.Series, function: Callable[[Any], int]) -> pl.Series:
    """A function applied once to each distinct value; null stays null."""
    distinct = values.drop_nulls().unique()
    results = pl.Series([function(value) for value in distinct], dtype=pl.Int64)
    return values.replace_strict(distinct, results, default=None, return_dtype=pl.Int64)


def _iso_seconds(texts: pl.Series, zone: str) -> pl.Series:
    texts = _where(texts, texts.str.contains(ISO_PATTERN))
    wanted = texts.null_count()
    local: pl.Series | None = None
    for length, layout in _LAYOUTS:
        found = (
            texts.str.head(length)
            .str.to_datetime(layout, strict=False, time_unit="ms")
            .to_physical()
            // 1000
        )
        # longer texts have a layout of their own above: their beginning would match here too
        local = found if local is None else local.zip_with(local.is_not_null(), found)
        if local.null_count() == wanted:
            break
    assert local is not None
    if texts.str.ends_with("Z").all():
        return local
    offsets = texts.str.slice(16).str.extract(_OFFSET)
    if offsets.null_count() == len(offsets):
        return local_to_unix(local, zone)
    shifted = local - _mapped(offsets, offset_seconds)
    return shifted.zip_with(offsets.is_not_null(), local_to_unix(local, zone))


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
REASON, NUMBER = "\nreason", "\nnumber"
"""Columns beside those of the input, under names that no header can have: why a row has no texts,
and the number of a row."""


def judged(rows: pl.LazyFrame, schema: pl.Schema, options: SourceOptions) -> pl.LazyFrame:
    """One row per row of the input: its place (see ``FIRST_BAD``), its amount where there are
    amounts, its number where it has one, and, where persons are bounded, its tick and its person as
    two hashes.
    """
    assert options.time is not None
    rows = rows.with_columns(
        _seconds(options.time, schema[options.time], options).alias(".seconds"),
        _key(options, schema).alias(".key"),
        _amount(options, schema).alias(".amount"),
        _person(options, schema, unpredictable(8)).alias(".person"),
        _person(options, schema, unpredictable(8)).alias(".twin"),
    ).with_columns(_tick(options).alias(".tick"))
    bad = (
        pl.when(pl.col(REASON).is_not_null() if REASON in schema else pl.lit(value=False))
        .then(FIRST_BAD + (pl.col(REASON) if REASON in schema else 0))
        .when(pl.col(".seconds").is_null())
        .then(FIRST_BAD + Reason.TIME)
        .when(pl.col(".key").is_null())
        .then(FIRST_BAD + Reason.KEY)
        .when(pl.col(".amount") < 0)
        .then(FIRST_BAD - pl.col(".amount"))
        .when(pl.col(".person").is_null())
        .then(FIRST_BAD + Reason.PERSON)
        .when(pl.col(".tick") < (_FIRST if options.first_tick is None else options.first_tick))
        .then(FIRST_BAD + Reason.BEFORE)
        .when(pl.col(".tick") >= (-_FIRST if options.end_tick is None else options.end_tick))
        .then(FIRST_BAD + Reason.AFTER)
    )
    place = bad.otherwise(pl.col(".tick") * max(1, len(options.keys)) + pl.col(".key"))
    return rows.select(
        place.alias("place"),
        amount=".amount",
        tick=".tick",
        person=".person",
        twin=".twin",
        name=pl.lit("")
        if options.person is None
        else _text(options.person, schema[options.person]),
        **({NUMBER: NUMBER} if NUMBER in schema else {}),
    )


def split_places(places: pl.Series, options: SourceOptions) -> tuple[pl.Series, pl.Series]:
    """The ticks and the keys of good places."""
    width = max(1, len(options.keys))
    ticks = places // width
    return ticks, places - ticks * width


def _tick(options: SourceOptions) -> pl.Expr:
    return pl.col(".seconds").map_batches(
        partial(ticks_of, ticks=options.ticks), return_dtype=pl.Int64, is_elementwise=True
    )


def _seconds(name: str, kind: pl.DataType, options: SourceOptions) -> pl.Expr:
    """Unix seconds; null where there is no time."""
    column = pl.col(name)
    zone = options.zone
    if isinstance(kind, pl.Date):
        local = column.to_physical().cast(pl.Int64) * 86_400
        return _applied(local, lambda series: within_range(local_to_unix(series, zone)))
    if isinstance(kind, pl.Datetime):
        seconds = column.to_physical() // _UNITS[kind.time_unit]
        if kind.time_zone is not None:
            return _applied(seconds, within_range)
        return _applied(seconds, lambda series: within_range(local_to_unix(series, zone)))
    if kind.is_integer() and options.time_unit != "iso":
        numbers = column.cast(pl.Int64, strict=False)
        return _applied(
            numbers, lambda series: within_range(seconds_of_numbers(series, options.time_unit))
        )
    if kind.is_float() and options.time_unit != "iso":
        numbers = column.cast(pl.Float64).floor().cast(pl.Int64, strict=False)
        return _applied(
            numbers, lambda series: within_range(seconds_of_numbers(series, options.time_unit))
        )
    return _applied(_text(name, kind), lambda series: seconds_of_texts(series, options))


def _applied(column: pl.Expr, function: object) -> pl.Expr:
    return column.map_batches(
        cast("type[pl.Series]", function), return_dtype=pl.Int64, is_elementwise=True
    )


def _key(options: SourceOptions, schema: pl.Schema) -> pl.Expr:
    """The index of the key; null where it is not declared."""
    if options.key is None:
        return pl.lit(0, dtype=pl.Int64)
    known = (
        _text(options.key, schema[options.key])
        .fill_null("")
        .cast(pl.Enum(options.keys), strict=False)
    )
    index = known.to_physical().cast(pl.Int64)
    return index if options.other is None else index.fill_null(options.keys.index(options.other))


def _amount(options: SourceOptions, schema: pl.Schema) -> pl.Expr:
    """The amount; where there is none, the reason as a negative number."""
    if options.amount is None:
        return pl.lit(1, dtype=pl.Int64)
    kind = schema[options.amount]
    column = pl.col(options.amount)
    if kind.is_integer():
        whole, negative = column.is_not_null(), column < 0
    elif kind.is_float():
        whole, negative = (
            column.is_finite() & (column.floor() == column),
            column.is_finite() & (column < 0),
        )
    else:
        column = _text(options.amount, kind)
        whole, negative = column.str.contains(WHOLE_PATTERN), column.str.contains(NEGATIVE_PATTERN)
        column = column.str.extract("^([0-9]+)").cast(pl.Int64, strict=False)
    return (
        pl.when(negative)
        .then(-int(Reason.NEGATIVE))
        .when(whole & (column > options.max_amount))
        .then(-int(Reason.ABOVE))
        .when(whole)
        .then(column.cast(pl.Int64, strict=False))
        .otherwise(-int(Reason.AMOUNT))
        .cast(pl.Int64)
    )


def _person(options: SourceOptions, schema: pl.Schema, key: bytes) -> pl.Expr:
    """A hash of the person under a secret key; null where the person is missing. Two hashes with
    two keys identify a person."""
    if options.person is None:
        return pl.lit(0, dtype=pl.UInt64)
    text = _text(options.person, schema[options.person])
    return pl.when(text != "").then(text.hash(seed=int.from_bytes(key)))


def _texts_of_floats(values: pl.Series) -> pl.Series:
    """:func:`number_text` of each value, in bulk for whole numbers."""
    whole = values.cast(pl.Int64, strict=False)
    exact = (whole == values).fill_null(value=False)
    others = values.filter(~exact & values.is_not_null()).unique()
    if not len(others):
        return whole.cast(pl.String)
    texts = pl.Series([number_text(value) for value in others], dtype=pl.String)
    found = values.replace_strict(others, texts, default=None, return_dtype=pl.String)
    return whole.cast(pl.String).zip_with(exact, found)


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
