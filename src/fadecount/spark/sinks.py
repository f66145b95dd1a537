"""Where the figures of a stream go. A micro-batch may be executed twice: what was written already
stays.

Figures that differ from those written before mean that an older state has replaced a newer one:
they are refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql import DataFrame

from fadecount.errors import CheckpointError, ParameterError
from fadecount.spark.ledger import Directory
from fadecount.spark.streaming import Sink

_COLUMNS = """stream text not null, per text not null, "start" timestamptz not null,
    "end" timestamptz not null, key text not null, stage integer not null, status text not null,
    value bigint not null, low bigint, high bigint, published timestamptz not null"""
_PLACE = 'stream, per, "start", key, stage'


def parquet(path: str) -> Sink:
    """A directory of Parquet files: one directory below it for each micro-batch that published
    something."""

    def write(figures: DataFrame, name: str) -> None:
        directory = Directory(figures.sparkSession, path)
        epoch, number, _ = name.split("-")
        batches = [each for each in directory.names() if each.startswith("batch=")]
        earlier = f"batch={epoch}-", f"batch={epoch}-{number}"
        if any(each != f"batch={name}" and not earlier[0] < each < earlier[1] for each in batches):
            raise CheckpointError(
                f"figures must lie with those of the same state, got others in {path!r}; an older"
                " state was restored, or begun anew: take new directories for both"
            )
        batch = directory.path(f"batch={name}")
        if "_SUCCESS" not in Directory(figures.sparkSession, batch).names():
            figures.write.mode("overwrite").parquet(batch)

    return write


def postgresql(table: str, *, database: str) -> Sink:
    """A table, created if needed. Executors connect with ``database`` (libpq parameters). Passwords
    come from libpq's own sources: PGPASSFILE, PGPASSWORD, a service file."""
    import psycopg
    from psycopg.conninfo import conninfo_to_dict
    from psycopg.sql import SQL, Identifier

    if "password" in conninfo_to_dict(database):
        raise ParameterError(
            "database must not hold a password, which would travel with the job; use PGPASSFILE on"
            " executors"
        )

    def execute(connection: Any, text: str) -> Any:
        names = {"columns": SQL(_COLUMNS), "place": SQL(_PLACE)}
        return connection.execute(SQL(text).format(table=Identifier(*table.split(".")), **names))

    def write_partition(rows: Iterator[Any]) -> None:
        """Write rows in one transaction; those that are there already must be the same."""
        with psycopg.connect(database, options="-c timezone=UTC") as connection:
            execute(connection, "create temporary table fresh ({columns}) on commit drop")
            with connection.cursor().copy("copy fresh from stdin") as copy:
                for row in rows:
                    copy.write_row(row)
            execute(connection, "insert into {table} table fresh on conflict do nothing")
            differs = "from fresh join {table} old using ({place}) where old.value <> fresh.value"
            if execute(connection, f"select 1 {differs} limit 1").fetchone():
                raise CheckpointError(
                    "figures must be those published before, got others for the same block; an"
                    " older state was restored: take a new directory and a new table"
                )

    def write(figures: DataFrame, _name: str) -> None:
        with psycopg.connect(database) as connection:
            execute(
                connection, "create table if not exists {table} ({columns}, primary key ({place}))"
            )
        times = {name: figures[name].cast("string") for name in ("start", "end", "published")}
        figures.withColumns(times).foreachPartition(write_partition)

    return write
