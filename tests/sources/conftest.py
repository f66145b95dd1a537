"""Small files are read with polars too: these tests compare the readers."""

from __future__ import annotations

import pytest

from fadecount.sources import files


@pytest.fixture(autouse=True)
def no_file_is_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "SMALL_BYTES", -1)
