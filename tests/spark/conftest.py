"""One local Spark for all tests of this room."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.spark.oracle import SECRET


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A session; ``fadecount_test_root`` holds the file ``secret`` and the event log ``log``."""
    from tests.spark.session import build_session

    root = tmp_path_factory.mktemp("spark")
    (root / "secret").write_text(SECRET + "\n")
    session = build_session(root / "log", **{"spark.sql.warehouse.dir": str(root / "tables")})
    session.fadecount_test_root = root
    yield session
    session.stop()
