"""Services for tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.service.house import House
from tests.streams.conftest import postgres_url

__all__ = ["house", "postgres_url", "shown"]


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    """A service with one stream, ``doors``, with the keys a and b; reading needs a token."""
    with House(tmp_path) as house:
        house.create()
        yield house


@pytest.fixture
def shown(tmp_path: Path) -> Iterator[House]:
    """The same, open to every reader."""
    with House(tmp_path / "shown", public=True) as house:
        house.create()
        yield house
