"""Releases from a DataFrame of events: the main function of this package."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pandas as pd
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sql

from fadecount.errors import ParameterError
from fadecount.mechanisms import Mechanism
from fadecount.spark.checkpoint import new_epoch, require_classic, settle_epoch, sign
from fadecount.spark.job import Identity, Job, budgets_of, probe
from fadecount.spark.parameters import LATEST, Parameters, require_column, require_time_type
from fadecount.spark.shard import RELEASES
from fadecount.spark.stream import ShardProcessor
from fadecount.spark.table import release_shard

_PROVIDER = "spark.sql.streaming.stateStore.providerClass"
_ROCKS = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_PROBES = 4
NO_SHARD = -1


def release(
    events: DataFrame,
    mechanism: Mechanism,
    *,
    tick: Any,
    time: str,
    key: str,
    keys: DataFrame | Sequence[str],
    secret: str,
    shards: int,
    start: Any,
    end: Any = None,
    late: Any = 0,
    beta: float = 0.05,
    stream: str = "default",
    checkpoint: str | None = None,
    moved: bool = False,
) -> DataFrame:
    """Private running counts of events by key: a DataFrame of (tick, key, value, low, high).

    ``events`` may be streaming or not. Its column ``time`` (a timestamp) puts each event into a
    ``tick`` ("15m", a timedelta, or seconds) counted from ``start``; its column ``key`` (a string)
    into one of the declared ``keys`` (a list, or a DataFrame with that column). Every tick releases
    every key, those without events too; events with other keys are not counted. ``low`` and
    ``high`` enclose the true count with probability ``1 - beta`` (with a delay: the count that many
    ticks earlier). ``secret`` names where executors find the secret of the noise: ``file:/path`` or
    ``env:NAME``.

    A stream closes a tick by the clock, ``late`` after its end, never by other events. An event
    that arrives later counts in the first tick still open. ``checkpoint`` is the directory that the
    query will be started with; ``moved`` states that it was moved and that no copy is left. A table
    needs ``end``, and is counted when this is called; every call is a separate release, and losses
    add up (see :mod:`fadecount.spark.table`). A row without a key or a time, or from before
    ``start``, is left out alone.

    Guarantees: the releases have the loss of the mechanism, one event being the unit; executing a
    micro-batch again gives the same values again; in which tick an event counts depends on its own
    time, its own micro-batch and the clock. Assumes: the keys are public or were chosen privately;
    people who hold the secret, the checkpoint or the events are trusted; the sink keeps the first
    of equal (tick, key) rows; a micro-batch takes less time than its trigger. Refuses, before
    anything is released: a missing or short secret, a checkpoint that belongs to something else.
    Proof: docs/spark.md.
    """
    parameters = Parameters.checked(
        mechanism,
        tick=tick,
        start=start,
        end=end,
        late=late,
        shards=shards,
        beta=beta,
        stream=stream,
        secret=secret,
        streaming=events.isStreaming,
    )
    time, key = (
        require_column("time", time, events.columns),
        require_column("key", key, events.columns),
    )
    require_time_type(events.schema[time].dataType.simpleString())
    dated = events.select(
        sql.col(time).try_cast("timestamp").alias("time"), sql.col(key).cast("string").alias("key")
    )
    declared = _declared(events.sparkSession, keys, key)
    return _released(dated, declared, parameters, checkpoint=checkpoint or "", moved=moved)


def _released(
    dated: DataFrame,
    declared: DataFrame,
    parameters: Parameters,
    *,
    checkpoint: str,
    moved: bool = False,
    epoch: str = "",
    clock: Column | None = None,
) -> DataFrame:
    """The step under :func:`release`, which takes the epoch of a new checkpoint or a table, and a
    clock too: for tests."""
    spark = dated.sparkSession
    if dated.isStreaming:
        require_classic(spark)
        _require_state_store(spark)
        _require_no_watermark(dated)
    identity = Identity(
        stream=parameters.stream,
        mechanism=parameters.mechanism.to_json(),
        tick_seconds=parameters.tick_seconds,
        start_seconds=parameters.start_seconds,
        shards=parameters.shards,
        keys=_digest(declared),
        secret_proof=_proof(spark, parameters.secret),
        epoch=epoch,
        budgets=budgets_of(parameters.mechanism),
    )
    rosters = declared.groupBy(_shard(parameters.shards)).agg(sql.collect_set("key").alias("keys"))
    if not dated.isStreaming:
        identity = replace(identity, epoch=epoch or new_epoch())
        job = Job(identity=identity, secret=parameters.secret, beta=parameters.beta, begins=True)
        return _of_table(
            _placed(dated, identity, ticks=parameters.ticks), rosters, job, parameters.ticks
        )
    identity, begins = settle_epoch(spark, checkpoint, identity, moved=moved)
    job = Job(identity=identity, secret=parameters.secret, beta=parameters.beta, begins=begins)
    clock = sql.current_timestamp() if clock is None else clock
    releases = (
        with_clock(_placed(dated, identity), clock, late_seconds=parameters.late_seconds)
        .groupBy("shard")
        .transformWithStateInPandas(
            statefulProcessor=ShardProcessor(job),
            outputStructType=RELEASES,
            outputMode="Append",
            timeMode="EventTime",
            initialState=rosters.groupBy("shard"),
        )
    )
    return sign(releases, identity)


def with_clock(placed: DataFrame, clock: Column, *, late_seconds: int) -> DataFrame:
    """Events with a public clock as the watermark. No event changes the clock.

    Every micro-batch has one row that is not an event. It says when the micro-batch began (Spark
    logs this before it begins, so a second execution sees the same). Events do not affect the time
    here. So the watermark of a micro-batch is ``late_seconds`` behind the start of the micro-batch
    before it, and there is a micro-batch at every trigger, with or without events. The row belongs
    to no shard.

    Spark 4.0 stores whether a grouping key may be null in its state, and leaves out a side that has
    no rows. So both sides declare that the shard may be null, although it never is.
    """
    source = (
        placed.sparkSession.readStream.format("rate-micro-batch")
        .option("rowsPerBatch", "1")
        .option("numPartitions", "1")
    )
    none = [
        sql.expr(f"if(value < 0, null, {NO_SHARD})").alias("shard"),
        sql.lit(0).cast("long").alias("tick"),
        sql.lit("").alias("key"),
    ]
    moments = source.load().select(*none, clock.alias("clock"))
    events = placed.withColumn("shard", sql.expr("if(shard < 0, null, shard)"))
    rows = events.withColumn("clock", sql.timestamp_seconds(sql.lit(0))).unionByName(moments)
    return rows.withWatermark("clock", f"{late_seconds} seconds").drop("clock")


def _of_table(placed: DataFrame, rosters: DataFrame, job: Job, ticks: int) -> DataFrame:
    def one_shard(declared: pd.DataFrame, counted: pd.DataFrame) -> pd.DataFrame:
        return release_shard(job, ticks, declared, counted)

    counted = placed.groupBy("shard", "tick", "key").count().localCheckpoint()
    declared = rosters.localCheckpoint()
    return (
        declared.groupBy("shard")
        .cogroup(counted.groupBy("shard"))
        .applyInPandas(one_shard, RELEASES)
    )


def _placed(dated: DataFrame, identity: Identity, *, ticks: int = 0) -> DataFrame:
    """Events as (shard, tick number, key), from ``start`` on and before the end; rows without a key
    or a time are left out."""
    start, length = identity.start_seconds, identity.tick_seconds
    end = start + ticks * length if ticks else LATEST
    good = dated.where(
        f"key is not null and time >= timestamp_seconds({start}L) and time <"
        f" timestamp_seconds({end}L)"
    )
    number = sql.expr(f"(unix_micros(time) - {1_000_000 * start}L) div {1_000_000 * length}L")
    return good.select(_shard(identity.shards), number.alias("tick"), "key")


def _shard(shards: int) -> Column:
    return sql.expr(f"cast(pmod(xxhash64(key), {shards}L) as int)").alias("shard")


def _declared(spark: SparkSession, keys: DataFrame | Sequence[str], key: str) -> DataFrame:
    if isinstance(keys, DataFrame):
        name = key if key in keys.columns else keys.columns[0]
        return keys.select(sql.col(name).cast("string").alias("key"))
    if isinstance(keys, str) or not all(isinstance(each, str) for each in keys):
        raise ParameterError(
            "keys must be a list of strings or a DataFrame, got something else; declare the keys to"
            " release"
        )
    return spark.createDataFrame(pd.DataFrame({"key": list(keys)}, dtype=object), "key string")


def _digest(declared: DataFrame) -> str:
    """How many keys are declared, and a digest of them, whatever their order; refuses none at all,
    and nulls."""
    distinct = declared.distinct()
    row = distinct.agg(
        sql.count("*"),
        sql.count("key"),
        sql.expr("bit_xor(xxhash64(key))"),
        sql.expr("bit_xor(xxhash64(key, 'keys'))"),
    ).first()
    assert row is not None
    if row[0] != row[1]:
        raise ParameterError("keys must not hold null; declare only keys with a name")
    if not row[0]:
        raise ParameterError("keys must not be empty; declare the keys to release")
    return f"{row[0]} keys, {row[2] & (1 << 64) - 1:016x}{row[3] & (1 << 64) - 1:016x}"


def _proof(spark: SparkSession, location: str) -> str:
    """The proof of the secret that executors hold; refuses a missing, short or different one."""
    found = (
        spark.range(0, _PROBES, 1, _PROBES)
        .mapInPandas(partial(_probed, location), "proof string, problem string")
        .collect()
    )
    for row in found:
        if row.problem:
            raise ParameterError(row.problem)
    if len({row.proof for row in found}) != 1:
        raise ParameterError(
            "secret must be the same on every executor, got different ones; give all executors one"
            " secret"
        )
    proof: str = found[0].proof
    return proof


def _probed(location: str, parts: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
    for part in parts:
        if len(part):
            proof, problem = probe(location)
            yield pd.DataFrame({"proof": [proof], "problem": [problem]})


def _require_no_watermark(events: Any) -> None:
    """Refuse events with their own watermark: it would delay or change the clock of the ticks."""
    if "EventTimeWatermark" in str(events._jdf.queryExecution().analyzed().toString()):
        raise ParameterError(
            "events must have no watermark of their own, got one; ticks close by the clock: leave"
            " it out"
        )


def _require_state_store(spark: SparkSession) -> None:
    provider = spark.conf.get(_PROVIDER, "")
    if "RocksDB" not in (provider or ""):
        raise ParameterError(f"{_PROVIDER} must be {_ROCKS}; set it when the session is built")
