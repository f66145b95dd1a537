"""Columns of a frame to ticks, keys, amounts and reasons: the rules of ``rows`` as polars expressions."""

from __future__ import annotations

from functools import partial
from typing import cast

import polars as pl

from fadecount.errors import InputError
from fadecount.sources.calendar import follows_zone
from fadecount.sources.options import SourceOptions
from fadecount.sources.report import Reason
from fadecount.sources.rows import NEGATIVE_PATTERN, WHOLE_PATTERN
from fadecount.sources.texts import local_to_unix, seconds_of_numbers, seconds_of_texts, unix_to_local, within_range

_UNITS = {"ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
FIRST_BAD = -(1 << 62)
"""A good row has the place tick * number of keys + key; a bad one FIRST_BAD + reason, which is below every good place.

One number per row, because grouping by one column takes half the time of grouping by two.
"""
LAST_BAD = FIRST_BAD + 100


def judged(rows: pl.LazyFrame, schema: pl.Schema, options: SourceOptions) -> pl.LazyFrame:
    """One row per row of the input: its place (see ``FIRST_BAD``), its amount where there are amounts, its number where it
    has one, and, where persons are bounded, its tick and its person as a hash.
    """
    assert options.time is not None
    rows = rows.with_columns(
        _seconds(options.time, schema[options.time], options).alias(".seconds"),
        _key(options, schema).alias(".key"),
        _amount(options, schema).alias(".amount"),
        _person(options, schema).alias(".person"),
    ).with_columns(_tick(options).alias(".tick"))
    bad = (
        pl.when(pl.col(".seconds").is_null())
        .then(FIRST_BAD + Reason.TIME)
        .when(pl.col(".key").is_null())
        .then(FIRST_BAD + Reason.KEY)
        .when(pl.col(".amount") < 0)
        .then(FIRST_BAD - pl.col(".amount"))
        .when(pl.col(".person").is_null())
        .then(FIRST_BAD + Reason.PERSON)
    )
    place = bad.otherwise(pl.col(".tick") * max(1, len(options.keys)) + pl.col(".key"))
    return rows.select(
        place.alias("place"),
        amount=".amount",
        tick=".tick",
        person=".person",
        **({"number": "number"} if "number" in schema else {}),
    )


def split_places(places: pl.Series, options: SourceOptions) -> tuple[pl.Series, pl.Series]:
    """The ticks and the keys of good places."""
    width = max(1, len(options.keys))
    ticks = places // width
    return ticks, places - ticks * width


def _tick(options: SourceOptions) -> pl.Expr:
    seconds = pl.col(".seconds")
    if follows_zone(options):
        shift = partial(unix_to_local, zone=options.time_zone)
        seconds = seconds.map_batches(shift, return_dtype=pl.Int64, is_elementwise=True)
    return seconds // options.tick_seconds


def _seconds(name: str, kind: pl.DataType, options: SourceOptions) -> pl.Expr:
    """Unix seconds; null where there is no time."""
    column = pl.col(name)
    zone = options.time_zone
    if isinstance(kind, pl.Date):
        local = column.to_physical().cast(pl.Int64) * 86_400
        return _mapped(local, lambda series: within_range(local_to_unix(series, zone)))
    if isinstance(kind, pl.Datetime):
        seconds = column.to_physical() // _UNITS[kind.time_unit]
        if kind.time_zone is not None:
            return _mapped(seconds, within_range)
        return _mapped(seconds, lambda series: within_range(local_to_unix(series, zone)))
    if kind.is_integer() and options.time_unit != "iso":
        numbers = column.cast(pl.Int64, strict=False)
        return _mapped(numbers, lambda series: within_range(seconds_of_numbers(series, options.time_unit)))
    if kind.is_float() and options.time_unit != "iso":
        numbers = column.cast(pl.Float64).floor().cast(pl.Int64, strict=False)
        return _mapped(numbers, lambda series: within_range(seconds_of_numbers(series, options.time_unit)))
    return _mapped(_text(name, kind), lambda series: seconds_of_texts(series, options))


def _mapped(column: pl.Expr, function: object) -> pl.Expr:
    return column.map_batches(cast("type[pl.Series]", function), return_dtype=pl.Int64, is_elementwise=True)


def _key(options: SourceOptions, schema: pl.Schema) -> pl.Expr:
    """The index of the key; null where it is not declared."""
    if options.key is None:
        return pl.lit(0, dtype=pl.Int64)
    known = _text(options.key, schema[options.key]).fill_null("").cast(pl.Enum(options.keys), strict=False)
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
        whole, negative = column.is_finite() & (column.floor() == column), column.is_finite() & (column < 0)
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


def _person(options: SourceOptions, schema: pl.Schema) -> pl.Expr:
    """A hash of the person; null where it is missing."""
    if options.person is None:
        return pl.lit(0, dtype=pl.UInt64)
    text = _text(options.person, schema[options.person])
    return pl.when(text != "").then(text.hash(seed=1))


def _text(name: str, kind: pl.DataType) -> pl.Expr:
    if isinstance(kind, pl.String):
        return pl.col(name)
    if kind.is_numeric() or isinstance(kind, pl.Categorical | pl.Enum | pl.Boolean | pl.Null):
        return pl.col(name).cast(pl.String)
    raise InputError(f"the column {name!r} is neither text nor numbers; choose another column")
