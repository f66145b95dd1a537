"""Figures of a stream of events: append, commit, publish, in every micro-batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as sql

from fadecount.durations import parse_duration
from fadecount.errors import CheckpointError, ParameterError
from fadecount.mechanisms import Mechanism
from fadecount.spark.state import Commit, State
from fadecount.spark.table import counted, figures_of, placed

Sink = Callable[[DataFrame, str], None]
"""Writes the figures of a micro-batch. If it is executed again, its name and its figures are the
same: what was written already stays."""
_QUERY_ID = "sql.streaming.queryId"
_MOST_PARTS = 16


def publish(
    events: DataFrame,
    mechanism: Mechanism,
    *,
    to: Sink,
    tick: str,
    start: Any,
    time: str,
    key: str,
    keys: DataFrame | Sequence[str],
    secret: str,
    state: str,
    late: str = "",
    zone: str = "UTC",
    stream: str = "counts",
    person: str | None = None,
    moved: bool = False,
) -> Any:
    """A stream writer that publishes the figures of a stream of events, to be started with a
    trigger. The parameters are those of :func:`fadecount.spark.figures`, and ``to``, where figures
    go: :func:`fadecount.spark.parquet`, :func:`fadecount.spark.postgresql`, or your own function.

    Each micro-batch appends its counts to the ledger in ``state``, then publishes what has become
    due. A tick closes by the clock, ``late`` ("5m") after its end, never by other events. An event
    that comes after that counts in the first tick still open.

    Guarantees: executing a micro-batch again gives the same figures again; in which tick an event
    counts depends on its own time, its own micro-batch and the clock. Assumes, besides what
    ``figures`` does: a micro-batch takes less time than its trigger, and holds all events that are
    there (no limit by their number).
    """
    if not events.isStreaming:
        raise ParameterError("events must be a stream, got a table; use fadecount.spark.figures")
    if person is not None:
        raise ParameterError(
            "person must not be given for a stream: a cap would need a list of the persons of every"
            " open block, which no ledger keeps; count a table of whole blocks with figures"
        )
    late_seconds = parse_duration(late, name="late") if late else 0
    opened = State(
        events.sparkSession,
        state,
        mechanism,
        kind="stream",
        stream=stream,
        tick=tick,
        zone=zone,
        start=start,
        keys=keys,
        secret=secret,
        moved=moved,
    )
    rows = placed(events, opened.identity, time, {"key": key}).select("position", "key")
    batch = _MicroBatch(opened, late_seconds, to)
    return (
        _with_clock(rows)
        .writeStream.foreachBatch(batch)
        .option("checkpointLocation", opened.path("checkpoint"))
    )


_clock = sql.current_timestamp


def _with_clock(rows: DataFrame) -> DataFrame:
    """Rows, and one more in every micro-batch that only says when it began.

    Spark logs that time before a micro-batch begins, so a second execution sees the same. Because
    of this row there is a micro-batch at every trigger, with or without events: no event can close
    a tick, or keep one open.
    """
    source = rows.sparkSession.readStream.format("rate-micro-batch").option("rowsPerBatch", "1")
    nothing = [sql.expr("cast(null as long) position"), sql.expr("cast(null as string) key")]
    moments = source.option("numPartitions", "1").load().select(*nothing, _clock().alias("clock"))
    return rows.withColumn("clock", sql.lit(None).cast("timestamp")).unionByName(moments)


class _MicroBatch:
    """Executes micro-batches, once or again."""

    def __init__(self, state: State, late_seconds: int, to: Sink) -> None:
        self._state, self._late_seconds, self._to = state, late_seconds, to

    def __call__(self, rows: DataFrame, number: int) -> None:
        query = rows.sparkSession.sparkContext.getLocalProperty(_QUERY_ID) or ""
        commit = self._state.last()
        same = query and commit.query in ("", query)
        if not same or number - commit.number not in (0, 1):
            raise CheckpointError(
                f"state must be that of the checkpoint, got {commit.number + 1} micro-batches in it"
                f" and {number} in the checkpoint; one of them is another one, or was restored:"
                " take a new directory for both"
            )
        if number > commit.number:
            commit = self._append(replace(commit, number=number, query=query), rows)
        if commit.open > commit.after:
            figures = figures_of(self._state, commit, commit.after, commit.open)
            self._to(figures, commit.name)

    def _append(self, commit: Commit, rows: DataFrame) -> Commit:
        """Freeze the counts of a micro-batch; late events count in the open tick. Now and then the
        ledger is written anew as one part, without the ticks of which everything is public."""
        state, seen = self._state, Observation()
        levels = state.identity.blocks.levels
        public = max(0, commit.open - levels[-1].stages[-1].lag)
        kept = int(state.calendar(commit).frontier(len(levels) - 1, public))
        clock = sql.max(sql.unix_micros("clock")).alias("clock")
        open_tick = sql.lit(commit.open)
        timed = rows.observe(seen, clock, sql.count("key").alias("events")).dropna(subset=["key"])
        counts = counted(timed.withColumn("position", sql.greatest("position", open_tick)))
        parts = commit.parts
        if kept > commit.kept or len(parts) >= _MOST_PARTS:
            older = state.counts(commit).where(f"position >= {kept}L")
            both = counts.unionByName(older).groupBy("position", "key")
            counts, parts = both.agg(sql.sum("events").alias("events")), ()
        part = state.append(counts, commit.number)
        if seen.get["events"] or not parts:
            parts = (*parts, part)
        now = state.identity.position(seen.get["clock"] // 1_000_000 - self._late_seconds)
        return state.commit(
            replace(commit, after=commit.open, open=max(commit.open, now), kept=kept, parts=parts)
        )
