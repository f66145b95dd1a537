"""Where the figures of a stream go. A micro-batch may be executed twice: what was written already
stays.

Figures that differ from those written before mean that an older state has replaced a newer one:
they are refused.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator
from typing import Any

from pyspark.sql import DataFrame

from fadecount.errors import CheckpointError, ParameterError, StoreError, bad_parameter
from fadecount.spark.state import Directory
from fadecount.spark.streaming import Sink

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)?")
_OWN = re.compile(r"fadecount\.errors\.\w+: ([^\n]+)")
_PLACE = ("stream", "per", '"start"', "key", "stage")
_COLUMNS = (
    "stream text not null",
    "per text not null",
    '"start" timestamptz not null',
    '"end" timestamptz not null',
    "key text not null",
    "stage integer not null",
    "status text not null",
    "value bigint not null",
    "low bigint",
    "high bigint",
    "published timestamptz not null",
)


def parquet(path: str) -> Sink:
    """A directory of Parquet files: one directory below it for each micro-batch that published
    something."""

    def write(figures: DataFrame, name: str) -> None:
        directory = Directory(figures.sparkSession, path)
        epoch, number, _ = name.split("-")
        for other in directory.names():
            there = other.removeprefix("batch=")
            if there != other and there != name and not f"{epoch}-" < there < f"{epoch}-{number}":
                raise CheckpointError(
                    f"figures must lie with those of the same state, got others in {path!r}; an"
                    " older state was restored, or begun anew: take new directories for both"
                )
        if not directory.holds(f"batch={name}/_SUCCESS"):
            figures.write.mode("overwrite").parquet(directory.path(f"batch={name}"))

    return write


def postgresql(table: str, *, database: str) -> Sink:
    """A table, created if needed. Executors connect with ``database`` (libpq parameters). Passwords
    come from libpq's own sources: PGPASSFILE, PGPASSWORD, a service file."""
    import psycopg

    if not _NAME.fullmatch(table):
        raise bad_parameter(
            "table", table, "a plain name, or schema.name", "use letters, digits and _"
        )
    if "password" in database.lower() or re.search(r"://[^/@]*:[^/@]*@", database):
        raise ParameterError(
            "database must not hold a password, which would travel with the job; use PGPASSFILE on"
            " executors"
        )
    columns = f"{', '.join(_COLUMNS)}, primary key ({', '.join(_PLACE)})"
    try:
        with psycopg.connect(database) as connection:
            connection.execute(f"create table if not exists {table} ({columns})".encode())
    except psycopg.Error as error:
        raise ParameterError(
            f"database must be reachable and let tables be made, got {_reason(error)!r}; check it"
        ) from None

    def write_partition(rows: Iterator[Any]) -> None:
        first = next(rows, None)
        if first is not None:
            try:
                _copy(table, database, itertools.chain([first], rows))
            except psycopg.Error as error:
                raise StoreError(
                    f"table {table} must take figures, got {_reason(error)!r}; repair it, then"
                    " restart"
                ) from None

    def write(figures: DataFrame, _name: str) -> None:
        times = {name: figures[name].cast("string") for name in ("start", "end", "published")}
        figures.withColumns(times).foreachPartition(write_partition)

    return write


def _copy(table: str, database: str, rows: Iterable[Any]) -> None:
    """Write rows in one transaction; those that are there already must be the same."""
    import psycopg

    with psycopg.connect(database, options="-c timezone=UTC") as connection:
        cursor = connection.cursor()
        cursor.execute(f"create temporary table fresh ({', '.join(_COLUMNS)}) on commit drop")
        with cursor.copy("copy fresh from stdin") as copy:
            for row in rows:
                copy.write_row(tuple(row))
        insert = f"insert into {table} select * from fresh on conflict do nothing"  # noqa: S608
        cursor.execute(insert.encode())
        differs = (
            f"select 1 from fresh join {table} old using ({', '.join(_PLACE)})"  # noqa: S608
            " where old.value <> fresh.value limit 1"
        )
        if cursor.execute(differs.encode()).fetchone():
            raise CheckpointError(
                "figures must be those published before, got others for the same block; an older"
                " state was restored: take a new directory and a new table"
            )


def _reason(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def explain(error: BaseException) -> str | None:
    """The one line of fadecount's own error inside a long error of Spark, or None if there is none.

    >>> text = "Traceback ...\\nfadecount.errors.InputError: key must not be null\\n at java.lang"
    >>> explain(RuntimeError(text))
    'key must not be null'
    """
    told = _OWN.findall(str(error))
    return told[-1].strip() if told else None
