"""Events -> counts per tick and key -> figures, and all of it for a table of events."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as sql
from pyspark.sql.types import NumericType

from fadecount.counters.figures import Made
from fadecount.counters.named import Counts, due, make
from fadecount.errors import CheckpointError, ParameterError, bad_parameter
from fadecount.mechanisms import ANNOUNCED
from fadecount.noise import KeyedNoise
from fadecount.spark.ledger import Commit, Ledger
from fadecount.spark.stream import Stream, proof_of, read_secret
from fadecount.streams.ticks import DAY, LATEST

_COUNTS = pa.schema([("position", pa.int64()), ("key", pa.string()), ("events", pa.int64())])
_FIGURES = (
    "stream string, per string, start timestamp, end timestamp, key string, stage int, "
    "status string, value long, low long, high long, published timestamp"
)
_NAMES = [column.split()[0] for column in _FIGURES.split(", ")]
_TIME = pa.timestamp("us", "UTC")
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
            rows = _capped(rows.join(ledger.keys, "key", "left_semi"), stream, commit)
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
    where it allows several keys, the first ones under each of the person's first keys. A day is
    capped and frozen as a whole, so only the person's own events decide, at one time."""
    description, first, ends = stream.description, stream.first_tick, [commit.after]
    while ends[-1] < commit.open:
        ends.append(description.ticks_of(description.block_of(first + ends[-1])).stop - first)
    if ends[-1] > commit.open:
        bound = "the end of a day or tick of the unit"
        moment = description.ticks.local(first + commit.open)
        raise bad_parameter("until", moment, bound, "what a person does in it is capped as a whole")
    positions = np.arange(commit.after, commit.open)
    slot = np.searchsorted(ends, positions, side="right")
    slots = rows.sparkSession.createDataFrame(pd.DataFrame({"position": positions, "slot": slot}))
    rows = rows.join(sql.broadcast(slots), "position")
    unit, person = stream.unit, Window.partitionBy("person", "slot")
    if unit.keys > 1:
        own = Window.partitionBy("person", "slot", "key")
        rows = rows.withColumn("since", sql.min("time").over(own))
        rows = rows.withColumn("keys", sql.dense_rank().over(person.orderBy("since", "key")))
        rows, person = rows.where(f"keys <= {unit.keys}"), own
    rank = sql.row_number().over(person.orderBy("time", "key"))
    return rows.withColumn("rank", rank).where(f"rank <= {unit.events}")


def figures_of(ledger: Ledger, commit: Commit, after: int, until: int) -> DataFrame:
    """The figures that become public after more than ``after`` and at most ``until`` ticks: those
    of every declared key, also where nothing happened.

    A task makes those of some keys, from their counts in the ledger and the keyed noise.
    """
    stream, calendar, epoch = ledger.stream, ledger.calendar(commit), commit.epoch
    name, blocks, levels = stream.name, stream.blocks, stream.description.levels
    ticks, first_tick = calendar.ticks, calendar.first_tick
    secret_file, proof = stream.secret_file, commit.stream["secret"]
    wanted = due(blocks, calendar, after, until)
    first = min((int(each.starts[0]) for each in wanted if each.stage != ANNOUNCED), default=until)

    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = pa.Table.from_batches((each.cast(_COUNTS) for each in batches), _COUNTS)
        keys = pc.unique(rows.filter(pc.is_null(rows["position"]))["key"])
        if not len(keys):
            return
        numbers = pc.index_in(rows["key"], value_set=keys)
        rows = rows.set_column(1, "key", numbers).drop_null().sort_by("position")
        counts = Counts(*(column.to_numpy().astype(np.int64) for column in rows.columns))
        secret = read_secret(secret_file)
        if proof_of(secret) != proof:
            raise CheckpointError(
                "secret_file must hold the secret that the stream began with on every executor, got"
                " another one; give all executors that one"
            )
        noise = KeyedNoise.derive(
            secret, epoch=epoch, stream=name, mechanism=blocks.to_json(), keys=keys.to_pylist()
        )
        for made in make(blocks, calendar, wanted, counts, noise):
            yield rows_of(made, keys)

    def rows_of(made: Made, keys: pa.Array) -> pa.RecordBatch:
        """Figures in the shape (blocks, keys) as rows."""
        level, announced = blocks.levels[made.level], made.stage == ANNOUNCED
        status = "announced" if announced else level.status(made.stage)
        around = None if announced else blocks.figure_interval(made.level, made.stage)
        (height, width), values = made.values.shape, pa.array(made.values.ravel())
        fixed = name, levels[made.level], pa.scalar(made.stage, pa.int32()), status
        stream, per, stage, status = (pa.repeat(each, len(values)) for each in fixed)
        start, end, published = (
            pa.array(np.repeat(ticks.starts_of(first_tick + each), width) * 10**6, _TIME)
            for each in made[2:5]
        )
        key, half = keys.take(np.tile(np.arange(width), height)), pa.scalar(around, pa.int64())
        low, high = pc.subtract(values, half), pc.add(values, half)
        columns = [stream, per, start, end, key, stage, status, values, low, high, published]
        return pa.RecordBatch.from_arrays(columns, _NAMES)

    ranges = sum(len(each.ends) for each in wanted), until - first
    by_output, by_input = (ledger.number_of_keys * each // _ROWS_PER_TASK for each in ranges)
    usual = int(ledger.spark.conf.get("spark.sql.shuffle.partitions") or 200)
    needed = f"position is null or position >= {first}L and position < {until}L"
    counts = ledger.counts(commit).where(needed)
    tasks = 1 + max(by_output, min(by_input, usual))
    return counts.repartition(tasks, "key").mapInArrow(task, _FIGURES)
