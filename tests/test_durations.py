"""Durations as people write and read them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fadecount.durations import UNITS, format_duration, parse_duration
from fadecount.errors import ParameterError


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1s", 1),
        (" 90 S ", 90),
        ("15m", 900),
        ("1d12h", 129600),
        ("2w", 1209600),
        ("1mo", 2592000),
        ("1y", 31536000),
        ("1h 1m 1s", 3661),
    ],
)
def test_what_is_written_is_read(text: str, seconds: int) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    "text",
    [
        "",
        "  ",
        "5",
        "m",
        "0s",
        "-5m",
        "1.5h",
        "5x",
        "5m5",
        "s5",
        "1h,2m",
        "5m!",
        "9" * 30 + "y",
        "1e3s",
        "٣x",
    ],
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ParameterError, match="tick must be a positive duration") as refused:
        parse_duration(text, name="tick")
    assert "\n" not in str(refused.value)


@given(st.dictionaries(st.sampled_from(sorted(UNITS)), st.integers(1, 999), min_size=1))
def test_parts_add_up(parts: dict[str, int]) -> None:
    assert parse_duration("".join(f"{count}{unit}" for unit, count in parts.items())) == sum(
        count * UNITS[unit] for unit, count in parts.items()
    )


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 seconds"),
        (1, "1 second"),
        (59, "59 seconds"),
        (60, "1 minute"),
        (61, "1 minute 1 second"),
        (3600, "1 hour"),
        (3601, "1 hour 1 second"),
        (86400 * 10, "1 week 3 days"),
        (86400 * 365 * 12, "12 years"),
        (86400 * 365 * 12 + 86400, "12 years"),
        (86400 * 365 * 12000, "12,000 years"),
    ],
)
def test_what_is_shown_is_short(seconds: int, text: str) -> None:
    assert format_duration(seconds) == text
