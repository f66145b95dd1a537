"""Figures of a stream of events, and where they go. A micro-batch may be executed twice: its counts
are frozen, and what was written already stays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from fadecount.errors import CheckpointError, ParameterError
from fadecount.spark.ledger import Directory, Ledger, Stream
from fadecount.spark.tables import figures_of, placed

Sink = Callable[[DataFrame, str], None]
"""Writes the figures of a micro-batch. If it is executed again, its name and its figures are the
same."""
_STATEMENTS = (
    """create table if not exists {} (stream text, per text, "start" timestamptz,
    "end" timestamptz not null, key text, stage integer, status text not null,
    value bigint not null, low bigint, high bigint, published timestamptz not null,
    primary key (stream, per, "start", key, stage))""",
    "create temporary table fresh (like {}) on commit drop",
    "insert into {} table fresh on conflict do nothing",
    """select from fresh join {} old using (stream, per, "start", key, stage)
    where old.value <> fresh.value limit 1""",
)
_now = sql.current_timestamp


def publish(events: DataFrame, stream: Stream, *, to: Sink) -> Any:
    """A stream writer that publishes the figures of a stream of events, to be started with a
    trigger. Figures go ``to`` :func:`fadecount.spark.parquet`, :func:`fadecount.spark.postgresql`,
    or a function of your own.

    Each micro-batch appends its counts to the stream's ledger, then publishes what has become due.
    A tick closes by the clock, ``grace_seconds`` of the options after its end, never by other
    events. An event that comes after that counts in the first tick still open.

    Guarantees: executing a micro-batch again gives the same figures again; in which tick an event
    counts depends on its own time, its own micro-batch and the clock. Assumes, besides what
    ``Stream`` does: a micro-batch takes less time than its trigger, and holds all events that are
    there (no limit by their number).
    """
    if not events.isStreaming:
        raise ParameterError("events must be a stream, got a table; use fadecount.spark.figures")
    if stream.options.person is not None:
        raise ParameterError(
            "person must not be given for a stream: a cap would need a list of the persons of every"
            " open day, which no ledger keeps; count a table of whole days with figures"
        )
    ledger, grace = Ledger(events.sparkSession, stream, "stream"), stream.options.grace_seconds

    def micro_batch(rows: DataFrame, number: int) -> None:
        """Execute a micro-batch, once or again. One of the same number at another time is another
        one, which Spark planned because its checkpoint was restored."""
        query = rows.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId") or ""
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
            events = rows.dropna(subset=["key"]).withColumn("position", in_time)
            counts = events.groupBy("position", "key").count()
            now = max(commit.open, stream.position(clock // 1_000_000 - grace))
            commit = ledger.append(commit, counts, open=now, query=query, clock=clock)
        if commit.open > commit.after:
            to(figures_of(ledger, commit, commit.after, commit.open), commit.name)

    # One row more in every micro-batch says when it began. Spark logs that time before, so a second
    # execution sees the same. And there is a micro-batch at every trigger, with or without events:
    # no event can close a tick, or keep one open.
    source = events.sparkSession.readStream.format("rate-micro-batch")
    beats = source.options(rowsPerBatch="1", numPartitions="1").load()
    beats = beats.select(sql.unix_micros(_now()).alias("clock"))
    rows = placed(events, stream).select("position", "key")
    writer = rows.unionByName(beats, allowMissingColumns=True).writeStream.foreachBatch(micro_batch)
    return writer.option("checkpointLocation", f"{stream.state}/checkpoint")


def parquet(path: str) -> Sink:
    """A directory of Parquet files: one directory below it for each micro-batch that published
    something. Refused are figures of a state that is older than those there, or another one."""

    def write(figures: DataFrame, name: str) -> None:
        directory, (epoch, number, _) = Directory(figures.sparkSession, path), name.split("-")
        known, first, own = f"batch={name}", f"batch={epoch}-", f"batch={epoch}-{number}"
        batches = [each for each in directory.names() if each.startswith("batch=")]
        if any(each != known and not first < each < own for each in batches):
            raise CheckpointError(
                f"figures must lie with those of the same state, got others in {path!r}; an older"
                " state was restored, or begun anew: take new directories for both"
            )
        if "_SUCCESS" not in Directory(figures.sparkSession, f"{path}/{known}").names():
            figures.write.mode("overwrite").parquet(f"{path}/{known}")

    return write


def postgresql(table: str, *, database: str) -> Sink:
    """A table, created if needed. The driver connects with ``database`` (libpq parameters). The
    figures of a micro-batch appear all at once; others for the same block are refused."""
    import psycopg
    from psycopg.sql import SQL, Identifier

    def write(figures: DataFrame, _name: str) -> None:
        with_offset = "yyyy-MM-dd HH:mm:ssxxx"  # whatever the session's time zone is
        times = {name: sql.date_format(name, with_offset) for name in ("start", "end", "published")}
        create, fresh, insert, others = (
            SQL(text).format(Identifier(*table.split("."))) for text in _STATEMENTS
        )
        with psycopg.connect(database) as connection:
            connection.execute(create)
            connection.execute(fresh)
            with connection.cursor().copy("copy fresh from stdin") as copy:
                for row in figures.withColumns(times).toLocalIterator(prefetchPartitions=True):
                    copy.write_row(row)
            connection.execute(insert)
            if connection.execute(others).fetchone() is not None:
                raise CheckpointError(
                    "figures must be those published before, got others for the same block; an"
                    " older state was restored: take a new directory and a new table"
                )

    return write
