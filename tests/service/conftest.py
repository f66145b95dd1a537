"""Services for tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.service.harness import Harness
from tests.streams.conftest import postgres_url

__all__ = ["harness", "postgres_url", "shown"]


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[Harness]:
    """A service with one stream, ``doors``, with the keys a and b; reading needs a token."""
    with Harness(tmp_path) as harness:
        harness.create()
        yield harness


@pytest.fixture
def shown(tmp_path: Path) -> Iterator[Harness]:
    """The same, open to every reader."""
    with Harness(tmp_path / "shown", public=True) as harness:
        harness.create()
        yield harness
