"""Figures of a stream of events: append, commit, publish, in every micro-batch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as sql

from fadecount.durations import parse_duration
from fadecount.errors import CheckpointError, ParameterError
from fadecount.spark.ledger import Commit, Ledger
from fadecount.spark.stream import Stream
from fadecount.spark.table import counted, figures_of, placed

Sink = Callable[[DataFrame, str], None]
"""Writes the figures of a micro-batch. If it is executed again, its name and its figures are the
same: what was written already stays."""
_QUERY_ID = "sql.streaming.queryId"
_MOST_PARTS = 16


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
        commit = ledger.last()
        known = commit.query, commit.number, commit.clock
        if query and commit.query in ("", query) and number == commit.number + 1:
            commit = replace(commit, number=number, query=query)
            commit = _append(ledger, commit, rows, late_seconds)
        elif (query, number, rows.agg(_clock()).collect()[0][0]) != known:
            raise CheckpointError(
                f"state must be that of the checkpoint, got {commit.number + 1} micro-batches in it"
                f" and {number} in the checkpoint; one of them is another one, or was restored:"
                " take a new directory for both"
            )
        if commit.open > commit.after:
            to(figures_of(ledger, commit, commit.after, commit.open), commit.name)

    # One row more in every micro-batch says when it began. Spark logs that time before, so a second
    # execution sees the same. And there is a micro-batch at every trigger, with or without events:
    # no event can close a tick, or keep one open.
    source = events.sparkSession.readStream.format("rate-micro-batch")
    beats = source.options(rowsPerBatch="1", numPartitions="1").load()
    rows = placed(events, stream).select("position", "key")
    rows = rows.unionByName(beats.select(_now().alias("clock")), allowMissingColumns=True)
    checkpoint = ledger.directory.path("checkpoint")
    return rows.writeStream.foreachBatch(micro_batch).option("checkpointLocation", checkpoint)


_now = sql.current_timestamp


def _clock() -> Column:
    return sql.max(sql.unix_micros("clock")).alias("clock")


def _append(ledger: Ledger, commit: Commit, rows: DataFrame, late_seconds: int) -> Commit:
    """Freeze the counts of a micro-batch; late events count in the open tick. Now and then the
    ledger is written anew as one part, without the ticks of which everything is public."""
    levels, seen = ledger.stream.blocks.levels, Observation()
    public = max(0, commit.open - levels[-1].stages[-1].lag)  # no other lag is longer
    kept = int(ledger.calendar(commit).frontier(len(levels) - 1, public))
    observed = rows.observe(seen, _clock(), sql.count("key").alias("events"))
    in_time = observed.withColumn("position", sql.greatest("position", sql.lit(commit.open)))
    counts, parts = counted(in_time.dropna(subset=["key"])), commit.parts
    if kept > commit.kept or len(parts) >= _MOST_PARTS:
        older = ledger.counts(commit).where(f"position is null or position >= {kept}L")
        both = counts.unionByName(older).groupBy("position", "key")
        counts, parts = both.agg(sql.sum("events").alias("events")), ()
    part = ledger.write(counts, commit.number)
    if seen.get["events"] or not parts:
        parts = (*parts, part)
    clock = seen.get["clock"]
    now = ledger.stream.position(clock // 1_000_000 - late_seconds)
    closed = replace(commit, after=commit.open, open=max(commit.open, now))
    return ledger.commit(replace(closed, clock=clock, kept=kept, parts=parts))
