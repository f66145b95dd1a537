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
from fadecount.streams.calendar import BlockCalendar
from fadecount.streams.ticks import DAY, LATEST

_COUNTS = pa.schema([("position", pa.int64()), ("key", pa.string()), ("events", pa.int64())])
_MADE = "level int, stage int, start long, end long, published long, key string, value long"
_LEGEND = "level int, stage int, per string, status string, around long"
_FIGURES = [
    *("per", "timestamp_seconds(start) as start", "timestamp_seconds(end) as end"),
    *("key", "stage", "status", "value", "value - around as low", "value + around as high"),
    "timestamp_seconds(published) as published",
]
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
            rows = _capped(rows, ledger, commit)
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


def _capped(rows: DataFrame, ledger: Ledger, commit: Commit) -> DataFrame:
    """The first events of each person in each block of a level. A block is capped and frozen as a
    whole: so only the person's own events decide, at one time."""
    stream, calendar = ledger.stream, ledger.calendar(commit)
    level = stream.description.levels.index(stream.per)
    if calendar.frontier(level, commit.open) != commit.open:
        raise ParameterError(
            f"until must be the end of a block of {stream.per}; it is capped as a whole"
        )
    positions = np.arange(commit.after, commit.open)
    ends = calendar.edges(level, commit.after, commit.open)
    block = np.searchsorted(ends, positions, side="right")
    blocks = ledger.spark.createDataFrame(pd.DataFrame({"position": positions, "block": block}))
    first = Window.partitionBy("person", "block").orderBy("time", "key")
    ranked = rows.join(sql.broadcast(blocks), "position")
    ranked = ranked.withColumn("rank", sql.row_number().over(first))
    return ranked.where(f"rank <= {stream.per_person}")


def figures_of(ledger: Ledger, commit: Commit, after: int, until: int) -> DataFrame:
    """The figures that become public after more than ``after`` and at most ``until`` ticks: those
    of every declared key, also where nothing happened.

    A task makes those of some keys, from their counts in the ledger and the keyed noise.
    """
    stream, calendar, epoch = ledger.stream, ledger.calendar(commit), commit.epoch
    name, blocks, levels = stream.name, stream.blocks, stream.description.levels
    secret_file, proof = stream.secret_file, commit.stream["secret"]
    pieces = due(blocks, calendar, after, until)
    first = min((int(each.starts[0]) for each in pieces if each.stage != ANNOUNCED), default=until)

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
        for made in make(blocks, calendar, pieces, counts, noise):
            yield _rows(calendar, keys, made)

    legend: list[tuple[Any, ...]] = []
    for number, (per, level) in enumerate(zip(levels, blocks.levels, strict=True)):
        legend += [(number, ANNOUNCED, per, "announced", None)]
        for stage in range(len(level.stages)):
            around = blocks.figure_interval(number, stage)
            legend += [(number, stage, per, level.status(stage), around)]
    words = ledger.spark.createDataFrame(legend, _LEGEND)
    ranges = sum(len(each.ends) for each in pieces), until - first
    by_output, by_input = (ledger.number_of_keys * each // _ROWS_PER_TASK for each in ranges)
    usual = int(ledger.spark.conf.get("spark.sql.shuffle.partitions") or 200)
    needed = f"position is null or position >= {first}L and position < {until}L"
    counts = ledger.counts(commit).where(needed)
    made = counts.repartition(1 + max(by_output, min(by_input, usual)), "key")
    made = made.mapInArrow(task, _MADE).join(sql.broadcast(words), ["level", "stage"])
    return made.selectExpr(f"'{name}' as stream", *_FIGURES)


def _rows(calendar: BlockCalendar, keys: pa.Array, piece: Made) -> pa.RecordBatch:
    """Figures in the shape (blocks, keys) as rows."""
    height, width = piece.values.shape
    columns = {
        name: np.repeat(calendar.ticks.starts_of(calendar.first_tick + positions), width)
        for name, positions in (
            ("start", piece.starts),
            ("end", piece.ends),
            ("published", piece.public),
        )
    }
    return pa.RecordBatch.from_pydict(
        {
            "level": pa.repeat(pa.scalar(piece.level, pa.int32()), piece.values.size),
            "stage": pa.repeat(pa.scalar(piece.stage, pa.int32()), piece.values.size),
            **columns,
            "key": keys.take(pa.array(np.tile(np.arange(width), height))),
            "value": piece.values.ravel(),
        }
    )
