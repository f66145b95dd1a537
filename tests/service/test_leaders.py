"""Several services on one PostgreSQL: one closes the ticks of a stream, another takes over when it
goes; never both."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

import fadecount as fc
from tests.service.harness import EXACT, wait_for
from tests.service.process import ServeProcess

_numbers = itertools.count()


@pytest.fixture
def database(postgres_url: str) -> Iterator[str]:
    import psycopg

    schema = f"service{next(_numbers)}"
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {schema}".encode())
        yield f"{postgres_url}&options=-csearch_path%3D{schema}"
        connection.execute(f"DROP SCHEMA {schema} CASCADE".encode())


def values(client: fc.Client) -> list[tuple[str, int]]:
    return [(row.end, row.value) for row in client.figures("doors", "total")]


def test_a_killed_leader_is_followed_by_another(tmp_path: Path, database: str) -> None:
    with (
        ServeProcess(tmp_path, "--database", database) as first,
        ServeProcess(tmp_path, "--database", database) as second,
    ):
        with fc.Client(first.url, first.admin) as one, fc.Client(second.url, first.admin) as two:
            one.create("doors", tick="2s", mechanism=EXACT)
            ticks = two.live("doors")  # the follower sees what the leader releases
            next(ticks)
            assert one.add("doors", {"all": 5}) and two.add("doors", {"all": 7}, id="once")
            assert not one.add("doors", {"all": 7}, id="once")
            before = next(row for _ in ticks if (row := two.total("doors")[0]).value == 12)
            old = values(two)
            first.kill()
            killed = time.time()
            assert two.add("doors", {"all": 1})
            open_then = datetime.fromtimestamp(int(killed) // 2 * 2, UTC).strftime(
                "%Y-%m-%dT%H:%M:%SZ"
            )
            wait_for(lambda: two.total("doors")[0].end > open_then)
            wait_for(lambda: two.total("doors")[0].value == 13)
            after = two.total("doors")[0]
            new = values(two)
        starts = [start for start, _ in new]
        assert new[: len(old)] == old
        assert len(starts) == len(set(starts)) and starts == sorted(starts)
        assert before.end < after.end
        assert b"Traceback" not in second.log


def test_connections_that_are_cut_are_made_again(tmp_path: Path, database: str) -> None:
    import psycopg

    with (
        ServeProcess(tmp_path, "--database", database) as service,
        fc.Client(service.url, service.admin, attempts=20) as client,
    ):
        client.create("doors", tick="1s", mechanism=EXACT)
        client.add("doors", {"all": 3})
        with psycopg.connect(database, autocommit=True) as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name ="
                " 'fadecount'"
            )
        client.add("doors", {"all": 4})
        totals = (client.total("doors")[0].value for _ in client.live("doors"))
        assert next(value for value in totals if value >= 7) == 7
        assert b"Traceback" not in service.log
