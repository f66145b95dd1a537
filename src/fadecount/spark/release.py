"""Releases from a DataFrame of events: the one function of this room."""

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
from fadecount.spark.checkpoint import new_epoch, require_classic, settle_epoch
from fadecount.spark.job import Identity, Job, probe
from fadecount.spark.parameters import Parameters, require_column, require_time_type
from fadecount.spark.shard import RELEASES
from fadecount.spark.stream import ShardProcessor
from fadecount.spark.table import release_shard

_PROVIDER = "spark.sql.streaming.stateStore.providerClass"
_ROCKS = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_PROBES = 4


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
) -> DataFrame:
    """Private running counts of events by key: a DataFrame of (tick, key, value, low, high).

    ``events`` may be streaming or not. Its column ``time`` (a timestamp) puts each event into a ``tick`` ("15m", a
    timedelta, or seconds) counted from ``start``; its column ``key`` (a string) into one of the declared ``keys`` (a
    list, or a DataFrame with that column). Every tick releases every key, those without events too; events with other
    keys are not counted. ``low`` and ``high`` enclose the true count with probability ``1 - beta`` (with a delay: the
    count that many ticks earlier). ``secret`` names where executors find the secret of the noise: ``file:/path`` or
    ``env:NAME``.

    A stream closes a tick when Spark's watermark (``late`` behind the latest event) passes its end; an event that
    comes later, or from before ``start``, counts in the first tick still open. ``checkpoint`` is the directory that
    the query will be started with. A table needs ``end``; there, every call is a release of its own, and losses add up
    (see :mod:`fadecount.spark.table`).

    Guarantees: the releases have the loss of the mechanism, one event being the unit; executing a micro-batch again
    gives the same values again. Assumes: the keys are public or were chosen privately; whoever holds the secret, the
    checkpoint or the events is trusted; the sink keeps the first of equal (tick, key) rows. Refuses, before anything
    is released: a missing or short secret, nulls, a checkpoint that belongs to something else. Proof: docs/spark.md.
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
    time, key = require_column("time", time, events.columns), require_column("key", key, events.columns)
    require_time_type(events.schema[time].dataType.simpleString())
    dated = events.select(sql.col(time).cast("timestamp").alias("time"), sql.col(key).cast("string").alias("key"))
    declared = _declared(events.sparkSession, keys, key)
    return _released(dated, declared, parameters, checkpoint=checkpoint or "", epoch="")


def _released(dated: DataFrame, declared: DataFrame, parameters: Parameters, *, checkpoint: str, epoch: str) -> DataFrame:
    """The step under :func:`release`, which takes the epoch of a new checkpoint or a table too: for tests."""
    spark = dated.sparkSession
    if dated.isStreaming:
        require_classic(spark)
        _require_state_store(spark)
    identity = Identity(
        stream=parameters.stream,
        mechanism=parameters.mechanism.to_json(),
        tick_seconds=parameters.tick_seconds,
        start_seconds=parameters.start_seconds,
        shards=parameters.shards,
        keys=_digest(declared),
        secret_proof=_proof(spark, parameters.secret),
        epoch=epoch,
    )
    rosters = declared.groupBy(_shard(parameters.shards)).agg(sql.collect_set("key").alias("keys"))
    if not dated.isStreaming:
        identity = replace(identity, epoch=epoch or new_epoch())
        job = Job(identity=identity, secret=parameters.secret, beta=parameters.beta, begins=True)
        return _of_table(_placed(dated, identity), rosters, job, parameters.ticks)
    identity, begins = settle_epoch(spark, checkpoint, identity)
    job = Job(identity=identity, secret=parameters.secret, beta=parameters.beta, begins=begins)
    placed = _placed(dated.withWatermark("time", f"{parameters.late_seconds} seconds"), identity)
    return placed.groupBy("shard").transformWithStateInPandas(
        statefulProcessor=ShardProcessor(job),
        outputStructType=RELEASES,
        outputMode="Append",
        timeMode="EventTime",
        initialState=rosters.groupBy("shard"),
    )


def _of_table(placed: DataFrame, rosters: DataFrame, job: Job, ticks: int) -> DataFrame:
    def one_shard(declared: pd.DataFrame, counted: pd.DataFrame) -> pd.DataFrame:
        return release_shard(job, ticks, declared, counted)

    counted = placed.groupBy("shard", "tick", "key").count()
    return rosters.groupBy("shard").cogroup(counted.groupBy("shard")).applyInPandas(one_shard, RELEASES)


def _placed(dated: DataFrame, identity: Identity) -> DataFrame:
    """Events as (shard, tick number, key). The time itself goes: Spark drops rows by it that come late, and they count here."""
    start, length = 1_000_000 * identity.start_seconds, 1_000_000 * identity.tick_seconds
    number = sql.expr(f"(unix_micros(time) - {start}L) div {length}L")
    return dated.select(_shard(identity.shards), number.alias("tick"), "key")


def _shard(shards: int) -> Column:
    return sql.expr(f"cast(pmod(xxhash64(key), {shards}L) as int)").alias("shard")


def _declared(spark: SparkSession, keys: DataFrame | Sequence[str], key: str) -> DataFrame:
    if isinstance(keys, DataFrame):
        name = key if key in keys.columns else keys.columns[0]
        return keys.select(sql.col(name).cast("string").alias("key"))
    if isinstance(keys, str) or not all(isinstance(each, str) for each in keys):
        raise ParameterError("keys must be a list of strings or a DataFrame, got something else; declare the keys to release")
    return spark.createDataFrame(pd.DataFrame({"key": list(keys)}, dtype=object), "key string")


def _digest(declared: DataFrame) -> str:
    """How many keys are declared, and a digest of them, whatever their order; refuses none at all, and nulls."""
    distinct = declared.distinct()
    row = distinct.agg(
        sql.count("*"), sql.count("key"), sql.expr("bit_xor(xxhash64(key))"), sql.expr("bit_xor(xxhash64(key, 'keys'))")
    ).first()
    assert row is not None
    if row[0] != row[1]:
        raise ParameterError("keys must not hold null; declare only keys with a name")
    if not row[0]:
        raise ParameterError("keys must not be empty; declare the keys to release")
    return f"{row[0]} keys, {row[2] & (1 << 64) - 1:016x}{row[3] & (1 << 64) - 1:016x}"


def _proof(spark: SparkSession, location: str) -> str:
    """The proof of the secret that executors hold; refuses a missing, short or different one."""
    found = spark.range(0, _PROBES, 1, _PROBES).mapInPandas(partial(_probed, location), "proof string, problem string").collect()
    for row in found:
        if row.problem:
            raise ParameterError(row.problem)
    if len({row.proof for row in found}) != 1:
        raise ParameterError("secret must be the same on every executor, got different ones; give all executors one secret")
    proof: str = found[0].proof
    return proof


def _probed(location: str, parts: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
    for part in parts:
        if len(part):
            proof, problem = probe(location)
            yield pd.DataFrame({"proof": [proof], "problem": [problem]})


def _require_state_store(spark: SparkSession) -> None:
    provider = spark.conf.get(_PROVIDER, "")
    if "RocksDB" not in (provider or ""):
        raise ParameterError(f"{_PROVIDER} must be {_ROCKS}; set it when the session is built")
