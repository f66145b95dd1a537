"""Events -> counts per tick and key -> figures, and all of it for a table of events."""

from __future__ import annotations

import math
import time as system_time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as sql

from fadecount.checks import require_integer
from fadecount.errors import CheckpointError, ParameterError, bad_parameter
from fadecount.mechanisms import ANNOUNCED, Mechanism
from fadecount.noise import KeyedNoise
from fadecount.spark.due import Counts, Numbers, Piece, due, make
from fadecount.spark.identity import Identity, proof_of, read_secret, require_moment
from fadecount.spark.state import Commit, State
from fadecount.streams.ticks import DAY, LATEST
from fadecount.streams.unit import LARGEST_EVENTS

FIGURES = (
    "stream string, per string, start timestamp, end timestamp, key string, stage int,"
    " status string, value long, low long, high long, published timestamp"
)
"""``stage`` is -1 for the difference that a tied block announces when it opens: pure noise."""
_COUNTS = pa.schema([("position", pa.int64()), ("key", pa.string()), ("events", pa.int64())])
_ROWS_PER_TASK = 1 << 18
_TIMES = ("timestamp", "timestamp_ntz", "date", "string")


def figures(
    events: DataFrame,
    mechanism: Mechanism,
    *,
    tick: str,
    start: Any,
    until: Any,
    time: str,
    key: str,
    keys: DataFrame | Sequence[str],
    secret: str,
    state: str,
    zone: str = "UTC",
    stream: str = "counts",
    person: str | None = None,
    per_person: int = 1,
    per: str = "",
    moved: bool = False,
) -> DataFrame:
    """The figures of a table of events that are public at the time ``until``: a DataFrame of
    (stream, per, start, end, key, stage, status, value, low, high, published).

    The column ``time`` puts an event into a ``tick`` ("15m"), the column ``key`` under one of the
    declared ``keys`` (a list, or the first column of a DataFrame). Every block has a figure for
    every key; events with other keys are not counted. ``low`` and ``high`` enclose the true count
    with probability 95 %. ``secret`` names where executors find the secret of the noise:
    ``file:/path`` or ``env:NAME``. ``state`` is a directory of the stream's own.

    The call counts the ticks that are over at ``until``, and freezes the counts in ``state``. A
    call with a later ``until`` adds the ticks since then. So the same call gives the same rows
    again, whatever happened to the table. Events that came into the table after their tick was
    counted are left out.

    With a column ``person``, at most ``per_person`` events of one person count in each block of the
    level ``per`` ("1d"), the first ones, under any keys. The mechanism then is the promise for all
    that a person does in such a block, with the age counted from the first event.

    Guarantees: the loss of the mechanism, for one event or one person's block. Assumes: the keys
    are public; people who hold the secret, the state or the events are trusted. Refuses, before
    anything is counted: the state of another stream, a copied or restored one, a time to come.
    """
    if events.isStreaming:
        raise ParameterError("events must be a table, got a stream; use fadecount.spark.publish")
    columns, unit = {"key": key}, "one event"
    if person is None:
        per_person = 1
    else:
        columns["person"] = person
        unit = f"one person's {per}, at most {per_person} events"
        require_integer(
            "per_person",
            per_person,
            minimum=1,
            maximum=LARGEST_EVENTS,
            remedy="noise grows with it",
        )
    opened = State(
        events.sparkSession,
        state,
        mechanism,
        kind="table",
        stream=stream,
        tick=tick,
        zone=zone,
        start=start,
        keys=keys,
        secret=secret,
        moved=moved,
        unit=unit,
        per_unit=per_person,
    )
    end = require_moment("until", until, zone)
    if end > system_time.time():
        raise bad_parameter("until", until, "over", "ticks are counted when they are over")
    last, until_position = opened.last(), opened.identity.position(end)
    if until_position > last.open:
        commit = replace(last, number=last.number + 1, after=last.open, open=until_position)
        rows = placed(events, opened.identity, time, columns).where(
            f"position >= {commit.after}L and position < {commit.open}L"
        )
        if person is not None:
            rows = _capped(rows, opened, commit, per, per_person)
        part = opened.append(counted(rows), commit.number)
        last = opened.commit(replace(commit, parts=(*last.parts, part)))
    return figures_of(opened, last, 0, until_position)


def placed(events: DataFrame, identity: Identity, time: str, columns: dict[str, str]) -> DataFrame:
    """Events with the position of their tick, their time, and some columns as text.

    Left out are events before the stream's start, without a time, or with a text that is no time,
    and those without one of the columns.
    """
    for name, column in {"time": time, **columns}.items():
        if column not in events.columns:
            bound = f"a column of the events ({', '.join(events.columns)})"
            raise bad_parameter(name, column, bound, "check the spelling")
    kind = events.schema[time].dataType.simpleString()
    if kind not in _TIMES:  # a number may mean seconds or milliseconds
        remedy = "convert it, such as with timestamp_seconds or timestamp_millis"
        raise ParameterError(f"time must be a timestamp, got a column of type {kind}; {remedy}")
    position = f"(unix_micros(time) - {identity.start}000000L) div {identity.tick}000000L"
    if identity.tick % DAY == 0:  # local days, which clock changes make shorter or longer
        local = f"unix_micros(from_utc_timestamp(time, '{identity.zone}')) div {DAY}000000L"
        position = f"({local}) div {identity.tick // DAY}L - {identity.first_tick}L"
    texts = [sql.col(column).cast("string").alias(name) for name, column in columns.items()]
    dated = events.select(sql.col(time).try_cast("timestamp").alias("time"), *texts).where(
        f"time >= timestamp_seconds({identity.start}L) and time < timestamp_seconds({LATEST}L)"
    )
    return dated.dropna().withColumn("position", sql.expr(position))


def counted(events: DataFrame) -> DataFrame:
    """How many of some placed events count in each tick under each key."""
    return events.groupBy("position", "key").agg(sql.count("*").alias("events"))


def _capped(rows: DataFrame, state: State, commit: Commit, per: str, per_person: int) -> DataFrame:
    """The first events of each person in each block of a level. A block is capped and frozen as a
    whole: so only the person's own events decide, at one time."""
    levels, calendar = state.identity.description.levels, state.calendar(commit)
    if per not in levels:
        raise bad_parameter("per", per, f"one of {', '.join(levels)}", "it is the block of the cap")
    level = levels.index(per)
    if calendar.frontier(level, commit.open) != commit.open:
        raise ParameterError(f"until must be the end of a block of {per}; it is capped as a whole")
    positions = np.arange(commit.after, commit.open)
    ends = calendar.edges(level, commit.after, commit.open)
    block = np.searchsorted(ends, positions, side="right")
    blocks = state.spark.createDataFrame(pd.DataFrame({"position": positions, "block": block}))
    first = Window.partitionBy("person", "block").orderBy("time", "key")
    ranked = rows.join(sql.broadcast(blocks), "position").withColumn(
        "rank", sql.row_number().over(first)
    )
    return ranked.where(f"rank <= {per_person}")


def figures_of(state: State, commit: Commit, after: int, until: int) -> DataFrame:
    """The figures that become public after more than ``after`` and at most ``until`` ticks: those
    of every declared key, also where nothing happened.

    A task makes those of some keys, from their counts in the ledger and the keyed noise.
    """
    identity, calendar = state.identity, state.calendar(commit)
    epoch, secret, midnights = commit.epoch, state.secret, calendar.midnights.to_json()
    pieces = due(identity.blocks, calendar, after, until)
    first = min((int(each.starts[0]) for each in pieces if each.stage != ANNOUNCED), default=until)

    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = pa.Table.from_batches((each.cast(_COUNTS) for each in batches), _COUNTS)
        names = pc.unique(rows.filter(pc.is_null(rows["position"]))["key"])
        if len(names):
            numbers = pc.index_in(rows["key"], value_set=names)
            rows = rows.set_column(1, "key", numbers).drop_null().sort_by("position")
            counts = Counts(*(column.to_numpy().astype(np.int64) for column in rows.columns))
            noise = _noise(identity, epoch, secret, names.to_pylist())
            dates = identity.calendar(midnights)
            for piece, values in make(identity.blocks, dates, pieces, counts, noise):
                yield _rows(identity, names, piece, values)

    usual = int(state.spark.conf.get("spark.sql.shuffle.partitions") or 200)
    by_output = math.ceil(
        state.number_of_keys * sum(len(each.ends) for each in pieces) / _ROWS_PER_TASK
    )
    by_input = math.ceil(state.number_of_keys * (until - first) / _ROWS_PER_TASK)
    tasks = max(1, by_output, min(by_input, usual))
    counts = state.counts(commit).where(f"position >= {first}L and position < {until}L")
    declared = state.keys(commit).selectExpr(
        "cast(null as long) as position", "key", "0L as events"
    )
    return counts.unionByName(declared).repartition(tasks, "key").mapInArrow(task, FIGURES)


def _noise(identity: Identity, epoch: str, place: str, keys: list[str]) -> KeyedNoise:
    secret = read_secret(place)
    if proof_of(secret) != identity.secret:
        raise CheckpointError(
            "secret must be the one that the stream began with on every executor, got another one;"
            " give all executors that one"
        )
    stream, mechanism = identity.stream, identity.mechanism
    return KeyedNoise.derive(secret, epoch=epoch, stream=stream, mechanism=mechanism, keys=keys)


def _rows(identity: Identity, names: pa.Array, piece: Piece, values: Numbers) -> pa.RecordBatch:
    """Figures in the shape (blocks, keys) as rows."""
    blocks, width = values.shape
    stage, number, description = piece.stage, values.size, identity.description
    if stage == ANNOUNCED:
        status, low, high = "announced", *(2 * [pa.nulls(number, pa.int64())])
    else:
        status = identity.blocks.levels[piece.level].status(stage)
        around = identity.blocks.figure_interval(piece.level, stage)
        low, high = (pa.array(values.ravel() + side) for side in (-around, around))

    def moments(positions: Numbers) -> pa.Array:
        seconds = description.ticks.starts_of(identity.first_tick + positions)
        return pa.array(np.repeat(seconds * 1_000_000, width)).cast(pa.timestamp("us", "UTC"))

    columns: dict[str, Any] = {
        "stream": pa.repeat(identity.stream, number),
        "per": pa.repeat(description.levels[piece.level], number),
        "start": moments(piece.starts),
        "end": moments(piece.ends),
        "key": names.take(pa.array(np.tile(np.arange(width), blocks))),
        "stage": pa.repeat(pa.scalar(stage, pa.int32()), number),
        "status": pa.repeat(status, number),
        "value": pa.array(values.ravel()),
        "low": low,
        "high": high,
        "published": moments(piece.public),
    }
    return pa.RecordBatch.from_pydict(columns)
