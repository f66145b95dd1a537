"""Where the figures of a stream go. A micro-batch may be executed twice: what was written already
stays.

Figures that differ from those written before mean that an older state has replaced a newer one:
they are refused.
"""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from fadecount.errors import CheckpointError
from fadecount.spark.ledger import Directory

Sink = Callable[[DataFrame, str], None]
"""Writes the figures of a micro-batch. If it is executed again, its name and its figures are the
same: what was written already stays."""
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


def parquet(path: str) -> Sink:
    """A directory of Parquet files: one directory below it for each micro-batch that published
    something."""

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
    figures of a micro-batch appear all at once."""
    import psycopg
    from psycopg.sql import SQL, Identifier

    def write(figures: DataFrame, _name: str) -> None:
        """Write figures in one transaction; those that are there already must be the same."""
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
