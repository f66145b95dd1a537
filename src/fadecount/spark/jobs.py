"""From events to figures. A table and a stream do the same: events get the position of their tick,
their counts are frozen in the ledger, figures are made from the ledger."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as sql
from pyspark.sql.types import NumericType

from fadecount.counters.named import due
from fadecount.durations import parse_duration
from fadecount.errors import CheckpointError, ParameterError, bad_parameter
from fadecount.mechanisms import ANNOUNCED
from fadecount.spark.ledger import Commit, Ledger
from fadecount.spark.sinks import Sink
from fadecount.spark.stream import Stream
from fadecount.spark.task import FIGURES, Task
from fadecount.streams.discovery import can_be_key
from fadecount.streams.ticks import DAY, LATEST

_CELLS_PER_TASK = 1 << 18
_QUERY_ID = "sql.streaming.queryId"
_now = sql.current_timestamp


def figures(events: DataFrame, stream: Stream, *, until: str | datetime) -> DataFrame:
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
        rows = _placed(events, stream).where(f"position >= {last.open}L and position < {public}L")
        if stream.person:
            rows = _capped(rows, ledger, last.open, public)
        last = ledger.append(last, _counted(rows), open=public)
    return _figures_of(ledger, last, 0, public)


def publish(events: DataFrame, stream: Stream, *, to: Sink, late: str = "") -> Any:
    """A stream writer that publishes the figures of a stream of events, to be started with a
    trigger. Figures go ``to`` :func:`fadecount.spark.parquet`, :func:`fadecount.spark.postgresql`,
    or a function of your own.

    Each micro-batch appends its counts to the stream's ledger, then publishes what has become due.
    A tick closes by the clock, ``late`` ("5m") after its end, never by other events. An event that
    comes after that counts in the first tick still open.

    Guarantees: executing a micro-batch again gives the same figures again; in which tick an event
    counts depends on its own time, its own micro-batch and the clock. Assumes, besides what
    ``Stream`` does: a micro-batch takes less time than its trigger, and holds all events that are
    there (no limit by their number).
    """
    if not events.isStreaming:
        raise ParameterError("events must be a stream, got a table; use fadecount.spark.figures")
    if stream.person:
        raise ParameterError(
            "person must not be given for a stream: a cap would need a list of the persons of every"
            " open day, which no ledger keeps; count a table of whole days with figures"
        )
    late_seconds = parse_duration(late, name="late") if late else 0
    ledger = Ledger(events.sparkSession, stream, "stream")

    def micro_batch(rows: DataFrame, number: int) -> None:
        """Execute a micro-batch, once or again. One of the same number at another time is another
        one, which Spark planned because its checkpoint was restored."""
        query = rows.sparkSession.sparkContext.getLocalProperty(_QUERY_ID) or ""
        clock = rows.where("clock is not null").collect()[0]["clock"]
        commit = ledger.last()
        if (query, number, clock) != (commit.query, commit.number, commit.clock):
            if not query or commit.query not in ("", query) or number != commit.number + 1:
                raise CheckpointError(
                    f"state must be that of the checkpoint, got {commit.number + 1} micro-batches"
                    f" in it and {number} in the checkpoint; one of them is another one, or was"
                    " restored: take a new directory for both"
                )
            in_time = sql.greatest("position", sql.lit(commit.open))  # late events too
            counts = _counted(rows.dropna(subset=["key"]).withColumn("position", in_time))
            now = max(commit.open, stream.position(clock // 1_000_000 - late_seconds))
            about = {"query": query, "clock": clock, "kept": ledger.done(commit)}
            commit = ledger.append(commit, counts, open=now, **about)
        if commit.open > commit.after:
            to(_figures_of(ledger, commit, commit.after, commit.open), commit.name)

    # One row more in every micro-batch says when it began. Spark logs that time before, so a second
    # execution sees the same. And there is a micro-batch at every trigger, with or without events:
    # no event can close a tick, or keep one open.
    source = events.sparkSession.readStream.format("rate-micro-batch")
    beats = source.options(rowsPerBatch="1", numPartitions="1").load()
    beats = beats.select(sql.unix_micros(_now()).alias("clock"))
    rows = _placed(events, stream).select("position", "key")
    writer = rows.unionByName(beats, allowMissingColumns=True).writeStream.foreachBatch(micro_batch)
    return writer.option("checkpointLocation", f"{ledger.directory.path}/checkpoint")


def _placed(events: DataFrame, stream: Stream) -> DataFrame:
    """Events with the position of their tick, their time, key and person.

    Left out are events before the stream's start, without a time, or with a text that is no time,
    and those without a key or a person.
    """
    ticks, first = stream.description.ticks, stream.first_tick
    if isinstance(events.select(events[stream.time]).schema[0].dataType, NumericType):
        remedy = "seconds and milliseconds look alike: make one of them, as by timestamp_millis"
        raise bad_parameter("time", stream.time, "a column of timestamps or texts", remedy)
    columns = {"key": stream.key} | ({"person": stream.person} if stream.person else {})
    texts = [events[column].cast("string").alias(name) for name, column in columns.items()]
    dated = events.select(events[stream.time].try_cast("timestamp").alias("time"), *texts).where(
        f"time >= timestamp_seconds({ticks.start_seconds(first)}L)"
        f" and time < timestamp_seconds({LATEST}L)"
    )
    days = ticks.tick_seconds % DAY == 0  # local days, which clock changes make shorter or longer
    clock = f"from_utc_timestamp(time, '{ticks.zone}')" if days else "time"
    position = f"floor(unix_seconds({clock}) / {ticks.tick_seconds}) - {first}L"
    return dated.replace("", None).dropna().withColumn("position", sql.expr(position))


def _counted(events: DataFrame) -> DataFrame:
    """How many of some placed events count in each tick under each key."""
    return events.groupBy("position", "key").agg(sql.count("*").alias("events"))


def _capped(rows: DataFrame, ledger: Ledger, after: int, until: int) -> DataFrame:
    """The events that the unit allows each person in its tick or day: the first ones by time or,
    where it allows several keys, the first ones under each of the person's first keys. Under a key
    that is not declared a person counts once, in the first tick. A day is capped and frozen as a
    whole, so only the person's own events decide, at one time."""
    unit, ticks = ledger.stream.unit, ledger.stream.description.ticks
    positions, first = np.arange(after, until + 1), ledger.stream.first_tick
    slots = unit.blocks_of(ticks, first + positions)
    if slots[-1] == slots[-2]:
        bound = "the end of a day or tick of the unit"
        remedy = "what a person does in it is capped as a whole"
        raise bad_parameter("until", ticks.local(first + until), bound, remedy)
    begins = positions[np.searchsorted(slots, slots)]
    slot = ledger.spark.createDataFrame(pa.table({"position": positions, "slot": begins}))
    known = ledger.keys.withColumn("declared", sql.lit(True))
    how = "inner" if ledger.stream.discovery is None else "left"
    rows = rows.join(sql.broadcast(slot), "position").join(known, "key", how)
    if ledger.stream.discovery is not None:  # what can be no key uses up no cap
        possible = sql.udf(can_be_key, "boolean", useArrow=True)
        rows = rows.where(sql.col("declared") | possible("key"))
    person = Window.partitionBy("person", "slot")
    if unit.keys > 1:
        own = Window.partitionBy("person", "slot", "key")
        rows = rows.withColumn("since", sql.min("time").over(own))
        rows = rows.withColumn("keys", sql.dense_rank().over(person.orderBy("since", "key")))
        rows, person = rows.where(f"keys <= {unit.keys}"), own
    ranked = rows.withColumn("rank", sql.row_number().over(person.orderBy("time", "key")))
    most = sql.expr(f"rank <= if(declared, {unit.events}, 1)")
    return ranked.where(most).withColumn("position", sql.expr("if(declared, position, slot)"))


def _figures_of(ledger: Ledger, commit: Commit, after: int, until: int) -> DataFrame:
    """The figures that become public after more than ``after`` and at most ``until`` ticks: those
    of every declared key, also where nothing happened, and of keys that appear by themselves.

    A task makes those of some keys, from their counts in the ledger and the keyed noise.
    """
    stream, calendar = ledger.stream, ledger.calendar(commit)
    wanted = due(stream.blocks, calendar, after, until)
    task = Task(replace(stream, keys=()), commit, calendar, wanted, after, until)
    counted = [int(each.starts[0]) for each in wanted if each.stage != ANNOUNCED]
    first = min(counted, default=until) if stream.discovery is None else 0
    rows = ledger.counts(commit).where(
        f"position is null or position >= {first}L and position < {until}L"
    )
    ranges = sum(len(each.ends) for each in wanted), until - first
    by_output, by_input = (ledger.number_of_keys * each // _CELLS_PER_TASK for each in ranges)
    usual = int(ledger.spark.conf.get("spark.sql.shuffle.partitions") or 200)
    tasks = 1 + max(by_output, min(by_input, usual), usual if stream.discovery else 0)
    return rows.repartition(tasks, "key").mapInArrow(task.__call__, FIGURES)
