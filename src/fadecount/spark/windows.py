"""Counts of windows of time (an hour, a day, a month) from releases that were written: differences
of two running counts."""

from __future__ import annotations

from datetime import timedelta

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as sql

from fadecount.checks import require_beta
from fadecount.errors import ParameterError, bad_parameter
from fadecount.mechanisms import Mechanism
from fadecount.mechanisms.noise_law import window_half_widths
from fadecount.spark.parameters import require_mechanism, require_moment, require_seconds
from fadecount.streams import WindowCalendar

_EMPTY = (
    "tick timestamp, tick_end timestamp, key string, value bigint, low bigint, high bigint, partial"
    " boolean"
)


def windows(
    releases: DataFrame,
    mechanism: Mechanism,
    *,
    tick: str | int | timedelta,
    start: object,
    per: str,
    zone: str = "UTC",
    beta: float = 0.05,
) -> DataFrame:
    """The counts of windows of time: a DataFrame of (tick, tick_end, key, value, low, high,
    partial).

    ``releases`` are those of one stream, all of them, as they were written (a directory or a table,
    not a stream); ``mechanism``, ``tick`` and ``start`` are those that were given to ``release``.
    ``per`` is a number and a unit (``1h``, ``1d``, ``1w``, ``1mo``). Days begin at midnight in
    ``zone``, weeks on Monday. A ``partial`` window is not covered by releases from its beginning to
    its end. With a delay, only ticks that are shown already are in a window.

    Guarantees: nothing new is released, so it costs no privacy; ``low`` and ``high`` enclose the
    true count with probability ``1 - beta``; windows add up to differences of the releases. Values
    may be negative, since noise is.
    """
    if releases.isStreaming:
        raise ParameterError(
            "releases must be those that were written, got a stream; read them back first"
        )
    length, first = require_seconds("tick", tick, minimum=1), require_moment("start", start)
    delay = require_mechanism(mechanism, length).schedule.delay
    calendar = WindowCalendar(per=per, zone=zone)
    found = releases.agg(
        sql.min(sql.unix_seconds("tick")), sql.max(sql.unix_seconds("tick"))
    ).first()
    spark = releases.sparkSession
    if found is None or found[0] is None or found[1] - delay * length < first:
        return spark.createDataFrame([], _EMPTY)
    if found[0] != first:
        raise ParameterError(
            "releases must begin at start, got others; give all releases of one stream, and its own"
            " start"
        )
    edges, steps, partial = _edges(
        calendar, first, length, last=(int(found[1]) - first) // length - delay
    )
    shown = steps + delay  # the step whose release shows everything before an edge
    around = window_half_widths(
        mechanism, np.where(steps > 0, shown, 0)[:-1], shown[1:], beta=require_beta(beta)
    )
    cuts = pd.DataFrame(
        {
            "at": first + (shown[1:] - 1) * length,
            "number": np.arange(len(around)),
            "begin": edges[:-1],
            "end": edges[1:],
            "around": around,
            "partial": partial,
        }
    )
    at_edges = releases.select(sql.unix_seconds("tick").alias("at"), "key", "value").join(
        sql.broadcast(spark.createDataFrame(cuts)), "at"
    )
    before = sql.lag("value", 1, 0).over(Window.partitionBy("key").orderBy("number"))
    count = sql.col("value")
    return at_edges.withColumn("value", count - before).select(
        sql.timestamp_seconds("begin").alias("tick"),
        sql.timestamp_seconds("end").alias("tick_end"),
        "key",
        "value",
        (count - sql.col("around")).alias("low"),
        (count + sql.col("around")).alias("high"),
        "partial",
    )


def _edges(
    calendar: WindowCalendar, start: int, length: int, *, last: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]:
    """Where windows of the ticks 0 .. ``last`` begin and end, how many ticks are before each edge,
    and which are partial."""
    end = start + (last + 1) * length
    edges = calendar.edges(start, end)
    inner = edges[1:-1] - start
    if np.any(inner % length) or len(edges) - 1 > last + 1:
        remedy = "give a multiple of the tick, whose windows begin where a tick begins"
        raise bad_parameter("per", calendar.per, f"made of whole ticks of {length} s", remedy)
    steps = np.concatenate([[0], inner // length, [last + 1]]).astype(np.int64)
    partial = np.zeros(len(edges) - 1, dtype=np.bool_)
    partial[0] |= edges[0] < start
    partial[-1] |= edges[-1] > end
    return edges, steps, partial
