"""Columns of text to Unix seconds and amounts, many rows at once: the grammar of ``times`` and ``rows``, with polars."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import polars as pl

from fadecount.sources.calendar import ZONE_STEP, offset_at_instant, offset_at_local
from fadecount.sources.options import SourceOptions
from fadecount.sources.times import (
    AUTO_EARLIEST,
    AUTO_LATEST,
    EARLIEST,
    ISO_PATTERN,
    LATEST,
    NUMBER_PATTERN,
    PER_SECOND,
    offset_seconds,
)

_LAYOUTS = (
    (19, "%Y-%m-%dT%H:%M:%S"),
    (19, "%Y-%m-%d %H:%M:%S"),
    (16, "%Y-%m-%dT%H:%M"),
    (16, "%Y-%m-%d %H:%M"),
    (10, "%Y-%m-%d"),
)
_OFFSET = r"(Z|[+-][0-9]{2}(?::?[0-9]{2})?)$"


def seconds_of_texts(texts: pl.Series, options: SourceOptions) -> pl.Series:
    """Unix seconds of a column of text; null where the text is no time."""
    if options.time_unit == "iso":
        return within_range(_iso_seconds(texts, options.time_zone))
    if options.time_unit != "auto":
        return within_range(seconds_of_numbers(_whole_numbers(texts), options.time_unit))
    seconds = _iso_seconds(texts, options.time_zone)
    if seconds.null_count():
        numbers = seconds_of_numbers(_whole_numbers(texts), "auto")
        seconds = seconds.zip_with(seconds.is_not_null(), numbers)
    return within_range(seconds)


def within_range(seconds: pl.Series) -> pl.Series:
    """The same seconds, null outside the years that are accepted."""
    return _where(seconds, seconds.is_between(EARLIEST, LATEST))


def seconds_of_numbers(numbers: pl.Series, unit: str) -> pl.Series:
    """Unix seconds of whole numbers in a unit, or in the unit that their size tells."""
    if unit != "auto":
        return numbers // PER_SECOND[unit]
    seconds = pl.Series([None], dtype=pl.Int64).new_from_index(0, len(numbers))
    for per_second in PER_SECOND.values():
        fits = numbers.is_between(AUTO_EARLIEST * per_second, (AUTO_LATEST + 1) * per_second - 1).fill_null(value=False)
        if fits.any():
            seconds = (numbers // per_second).zip_with(fits, seconds)
    return seconds


def local_to_unix(local: pl.Series, zone: str) -> pl.Series:
    """Unix seconds of local times in a zone."""
    return local if zone == "UTC" else local - _by_step(local, lambda step: offset_at_local(step, zone))


def unix_to_local(seconds: pl.Series, zone: str) -> pl.Series:
    """Local seconds of moments in a zone."""
    return seconds + _by_step(seconds, lambda step: offset_at_instant(step, zone))


def _by_step(seconds: pl.Series, offset_at: Callable[[int], int]) -> pl.Series:
    return _mapped(seconds // ZONE_STEP, offset_at)


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
        found = texts.str.head(length).str.to_datetime(layout, strict=False, time_unit="ms").to_physical() // 1000
        # a longer text is a layout further up: the head of it would match here too
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
    return values if condition.all() and not condition.null_count() else values.set(~condition.fill_null(value=False), None)
