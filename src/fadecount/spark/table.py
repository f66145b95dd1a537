"""Events -> counts per tick and key -> figures, and all of it for a table of events."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as sql
from pyspark.sql.types import NumericType

from fadecount.counters.named import due
from fadecount.errors import ParameterError, bad_parameter
from fadecount.mechanisms import ANNOUNCED
from fadecount.spark.ledger import Commit, Ledger
from fadecount.spark.stream import Stream
from fadecount.spark.task import FIGURES, Task
from fadecount.streams.ticks import DAY, LATEST

_ROWS_PER_TASK = 1 << 18


def figures(events: DataFrame, stream: Stream, *, until: Any) -> DataFrame:
    """The figures of a table of events that are public at the time ``until``: a DataFrame of
    (stream, per, start, end, key, stage, status, value, low, high, published). ``low`` and ``high``
    enclose the true count with probability 95 %. ``stage`` is -1 for the difference that a tied
    block announces when it opens: pure noise.

    The call counts the ticks that are over at ``until``, and freezes the counts in the stream's
    ledger. A call with a later ``until`` adds the ticks since then. So the same call gives the same
    rows again, whatever happened to the table. Events that came into the table after their tick was
    counted are left out.

    Guarantees: what :class:`fadecount.spark.Stream` does. Refuses, before anything is counted: the
    ledger of another stream, a copied or restored one, a time to come.
    """
    if events.isStreaming:
        raise ParameterError("events must be a table, got a stream; use fadecount.spark.publish")
    end = stream.seconds("until", until)
    if end > time.time():
        raise bad_parameter("until", until, "over", "ticks are counted when they are over")
    ledger, public = Ledger(events.sparkSession, stream, "table"), stream.position(end)
    last = ledger.last()
    if public > last.open:
        commit = replace(last, number=last.number + 1, after=last.open, open=public)
        rows = placed(events, stream).where(f"position >= {last.open}L and position < {public}L")
        if stream.person:
            known = ledger.keys.withColumn("declared", sql.lit(True))
            rows = rows.join(known, "key", "inner" if stream.discovery is None else "left")
            rows = _capped(rows, stream, commit)
        part = ledger.write(counted(rows), commit.number)
        last = ledger.commit(replace(commit, parts=(*last.parts, part)))
    return figures_of(ledger, last, 0, public)


def placed(events: DataFrame, stream: Stream) -> DataFrame:
    """Events with the position of their tick, their time, key and person.

    Left out are events before the stream's start, without a time, or with a text that is no time,
    and those without a key or a person.
    """
    start, tick = stream.start_seconds, stream.description.ticks.tick_seconds
    position = f"(unix_micros(time) - {start}000000L) div {tick}000000L"
    if tick % DAY == 0:  # local days, which clock changes make shorter or longer
        local = f"unix_micros(from_utc_timestamp(time, '{stream.zone}')) div {DAY}000000L"
        position = f"({local}) div {tick // DAY}L - {stream.first_tick}L"
    columns = {"key": stream.key} | ({"person": stream.person} if stream.person else {})
    if isinstance(events.select(events[stream.time]).schema[0].dataType, NumericType):
        remedy = "seconds and milliseconds look alike: make one of them, as by timestamp_millis"
        raise bad_parameter("time", stream.time, "a column of timestamps or texts", remedy)
    texts = [events[column].cast("string").alias(name) for name, column in columns.items()]
    dated = events.select(events[stream.time].try_cast("timestamp").alias("time"), *texts).where(
        f"time >= timestamp_seconds({start}L) and time < timestamp_seconds({LATEST}L)"
    )
    return dated.dropna().withColumn("position", sql.expr(position))


def counted(events: DataFrame) -> DataFrame:
    """How many of some placed events count in each tick under each key."""
    return events.groupBy("position", "key").agg(sql.count("*").alias("events"))


def _capped(rows: DataFrame, stream: Stream, commit: Commit) -> DataFrame:
    """The events that the unit allows each person in its tick or day: the first ones by time or,
    where it allows several keys, the first ones under each of the person's first keys. Under a key
    that is not declared a person counts once, in the first tick. A day is capped and frozen as a
    whole, so only the person's own events decide, at one time."""
    description, first, ends = stream.description, stream.first_tick, [commit.after]
    while ends[-1] < commit.open:
        ends.append(description.ticks_of(description.block_of(first + ends[-1])).stop - first)
    if ends[-1] > commit.open:
        bound = "the end of a day or tick of the unit"
        moment = description.ticks.local(first + commit.open)
        raise bad_parameter("until", moment, bound, "what a person does in it is capped as a whole")
    positions = np.arange(commit.after, commit.open)
    slot = np.array(ends)[np.searchsorted(ends, positions, side="right") - 1]
    slots = rows.sparkSession.createDataFrame(pd.DataFrame({"position": positions, "slot": slot}))
    rows = rows.join(sql.broadcast(slots), "position")
    unit, person = stream.unit, Window.partitionBy("person", "slot")
    if unit.keys > 1:
        own = Window.partitionBy("person", "slot", "key")
        rows = rows.withColumn("since", sql.min("time").over(own))
        rows = rows.withColumn("keys", sql.dense_rank().over(person.orderBy("since", "key")))
        rows, person = rows.where(f"keys <= {unit.keys}"), own
    ranked = rows.withColumn("rank", sql.row_number().over(person.orderBy("time", "key")))
    most = sql.expr(f"rank <= if(declared, {unit.events}, 1)")
    return ranked.where(most).withColumn("position", sql.expr("if(declared, position, slot)"))


def figures_of(ledger: Ledger, commit: Commit, after: int, until: int) -> DataFrame:
    """The figures that become public after more than ``after`` and at most ``until`` ticks: those
    of every declared key, also where nothing happened, and of keys that appear by themselves.

    A task makes those of some keys, from their counts in the ledger and the keyed noise.
    """
    stream, calendar = ledger.stream, ledger.calendar(commit)
    wanted = due(stream.blocks, calendar, after, until)
    task = Task(replace(stream, keys=()), commit, calendar, wanted, after, until)
    counted = [int(each.starts[0]) for each in wanted if each.stage != ANNOUNCED]
    first = min(counted, default=until) if stream.discovery is None else 0
    ranges = sum(len(each.ends) for each in wanted), until - first
    by_output, by_input = (ledger.number_of_keys * each // _ROWS_PER_TASK for each in ranges)
    usual = int(ledger.spark.conf.get("spark.sql.shuffle.partitions") or 200)
    tasks = 1 + max(by_output, min(by_input, usual), usual if stream.discovery else 0)
    needed = f"position is null or position >= {first}L and position < {until}L"
    rows = ledger.counts(commit).where(needed).repartition(tasks, "key")
    return rows.mapInArrow(task.__call__, FIGURES)
