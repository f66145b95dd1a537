"""Options refuse what cannot be meant."""

from __future__ import annotations

from typing import Any

import pytest

from fadecount.errors import ParameterError
from fadecount.sources import SourceOptions


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"tick": 0}, "tick"),
        ({"tick": 1.5}, "tick"),
        ({"max_amount": 0, "amount": "n"}, "max_amount"),
        ({"max_amount": 2}, "max_amount"),
        ({"per_person": 0}, "per_person"),
        ({"grace_seconds": -1}, "grace_seconds"),
        ({"max_line_bytes": 1}, "max_line_bytes"),
        ({"time_unit": "ns"}, "time_unit"),
        ({"format": "xlsx"}, "format"),
        ({"separator": ",,"}, "separator"),
        ({"zone": "Mars/Olympus"}, "zone"),
        ({"zone": "../etc"}, "zone"),
        ({"key": "time", "keys": ("a",)}, "columns"),
        ({"person": ""}, "columns"),
        ({"key": "k", "keys": ("a", "a")}, "keys"),
        ({"key": "k", "keys": "discover"}, "keys"),
        ({"key": "k"}, "keys"),
        ({"keys": ("a",)}, "keys"),
        ({"key": "k", "keys": ("a",), "other": "b"}, "other"),
    ],
)
def test_refused(changes: dict[str, Any], name: str) -> None:
    with pytest.raises(ParameterError, match=f"^{name} must be "):
        SourceOptions(**{"tick": 60, "time": "time", **changes})
