"""Where releases go. A micro-batch may be written twice, so a sink keeps the first of equal (tick,
key) rows.

Parquet: Spark's own file sink enters each micro-batch once into its log ``_spark_metadata``; a
reader of the directory who uses Spark sees exactly what that log names. PostgreSQL: the primary key
is (tick, key), and a conflict changes nothing. A repeated row with *another* value means that an
older checkpoint has replaced a newer one: it is refused, and nothing of it is published.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from fadecount.errors import CheckpointError, ParameterError, StoreError, bad_parameter
from fadecount.spark.checkpoint import Directory, require_checkpoint_of

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)?")
_TYPES = (
    "tick {} not null, key text not null, value bigint not null, low bigint not null, high bigint"
    " not null"
)
_COLUMNS = "tick, key, value, low, high"


def to_parquet(releases: DataFrame, path: str, *, checkpoint: str) -> Any:
    """A stream writer into a directory of Parquet files, to be started with a trigger.

    Spark's file sink skips micro-batches with numbers it has seen, of any checkpoint. So the
    directory must be the one that this checkpoint has written to: all of its micro-batches, and at
    most the one that was not committed.
    """
    spark = releases.sparkSession
    directory = Directory(spark, checkpoint)
    require_checkpoint_of(releases, directory)
    committed = directory.last_batch("commits")
    written = Directory(spark, path).last_batch("_spark_metadata")
    if written - committed not in (0, 1):
        raise CheckpointError(
            f"releases must lie with those of the same checkpoint, got {written + 1} micro-batches"
            f" in {path!r} and {committed + 1} in the checkpoint; take the directory that goes with"
            " it, or create both again"
        )
    return (
        releases.writeStream.format("parquet")
        .option("path", path)
        .option("checkpointLocation", checkpoint)
    )


def to_postgresql(releases: DataFrame, table: str, *, database: str, checkpoint: str) -> Any:
    """A stream writer into a table, created if needed; executors connect with ``database`` (libpq
    parameters, no password)."""
    require_checkpoint_of(releases, Directory(releases.sparkSession, checkpoint))
    sink = PostgresTable(table, database)
    sink.prepare()
    return releases.writeStream.foreachBatch(sink.write).option("checkpointLocation", checkpoint)


class PostgresTable:
    """A table of releases. Passwords come from libpq's own sources: PGPASSFILE, PGPASSWORD, a
    service file."""

    def __init__(self, table: str, database: str) -> None:
        if not _NAME.fullmatch(table):
            raise bad_parameter(
                "table", table, "a plain name, or schema.name", "use letters, digits and _"
            )
        if "password" in database.lower() or re.search(r"://[^/@]*:[^/@]*@", database):
            raise ParameterError(
                "database must not hold a password, which would travel with the job; use PGPASSFILE"
                " on executors"
            )
        self._table = table
        self._database = database

    def prepare(self) -> None:
        import psycopg

        columns = _TYPES.format("timestamptz")
        try:
            with psycopg.connect(self._database) as connection:
                table = f"{self._table} ({columns}, primary key (tick, key))"
                connection.execute(f"create table if not exists {table}".encode())
        except psycopg.Error as error:
            raise ParameterError(
                f"database must be reachable and let tables be made, got {_reason(error)!r};"
                " check it"
            ) from None

    def write(self, releases: DataFrame, _batch: int) -> None:
        """One micro-batch, written by the executors: one transaction for each of its parts."""
        releases.withColumn("tick", sql.unix_seconds("tick")).foreachPartition(self.write_rows)

    def write_rows(self, rows: Iterator[Any]) -> None:
        import psycopg

        first = next(rows, None)
        if first is None:
            return
        try:
            self._write_rows(itertools.chain([first], rows))
        except psycopg.Error as error:
            raise StoreError(
                f"table {self._table} must take releases, got {_reason(error)!r}; repair it, then"
                " restart"
            ) from None

    def _write_rows(self, rows: Iterable[Any]) -> None:
        import psycopg

        with psycopg.connect(self._database) as connection, connection.cursor() as cursor:
            cursor.execute(
                f"create temporary table fresh ({_TYPES.format('bigint')}) on commit drop".encode()
            )
            with cursor.copy(f"copy fresh ({_COLUMNS}) from stdin".encode()) as copy:
                for row in rows:
                    copy.write_row((row.tick, row.key, row.value, row.low, row.high))
            rows_now = "select to_timestamp(tick) as tick, key, value, low, high from fresh"
            insert = (
                f"insert into {self._table} ({_COLUMNS}) {rows_now} on conflict (tick, key) do"
                " nothing"
            )
            cursor.execute(insert.encode())
            join = f"({rows_now}) new join {self._table} old using (tick, key)"
            differs = f"select 1 from {join} where old.value <> new.value limit 1"  # noqa: S608
            if cursor.execute(differs.encode()).fetchone():
                raise CheckpointError(
                    "releases must be those published before, got others for the same tick; "
                    "an older checkpoint was restored: take a new checkpoint and a new table"
                )


def _reason(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
