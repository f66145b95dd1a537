"""The grammar of times, against the standard library's own reader."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fadecount.sources.options import SourceOptions, TimeUnit
from fadecount.sources.rows import Rules
from fadecount.sources.times import NO_TIME, time_reader


def read(text: str, unit: TimeUnit = "auto", zone: str = "UTC") -> int | None:
    seconds = time_reader(unit, zone)(text)
    return None if seconds == NO_TIME else seconds


MOMENTS = st.datetimes(min_value=datetime(1000, 1, 2), max_value=datetime(9986, 12, 30))
OFFSETS = st.integers(-1439, 1439).map(lambda minutes: timezone(timedelta(minutes=minutes)))


@given(
    MOMENTS,
    OFFSETS,
    st.sampled_from(["T", " "]),
    st.sampled_from(["minutes", "seconds", "milliseconds", "microseconds"]),
)
def test_iso_times_with_offsets_agree_with_datetime(
    moment: datetime, zone: timezone, between: str, detail: str
) -> None:
    text = moment.replace(tzinfo=zone).isoformat(between, detail)
    expected = datetime.fromisoformat(text) - datetime(1970, 1, 1, tzinfo=UTC)
    assert read(text) == expected // timedelta(seconds=1)
    assert read(text, "iso") == read(text)
    assert read(text, "s") is None


@given(st.datetimes(min_value=datetime(1972, 1, 1), max_value=datetime(2037, 1, 1)))
@pytest.mark.parametrize(
    "zone", ["Europe/Vienna", "America/New_York", "Asia/Kathmandu", "Australia/Lord_Howe"]
)
def test_naive_times_are_taken_in_the_zone(zone: str, moment: datetime) -> None:
    expected = int(moment.replace(microsecond=0, tzinfo=ZoneInfo(zone)).timestamp())
    assert read(moment.isoformat(), zone=zone) == expected


SPELLINGS = [
    f"2026-03-29T0{hour}:59{seconds}{offset}"
    for hour in (0, 2, 3)
    for seconds in ("", ":07", ":07.25", ":59.999999999")
    for offset in ("", "Z", "+01", "+0130", "-05:45", "+23:59")
]


@pytest.mark.parametrize("zone", ["UTC", "Europe/Vienna"])
@pytest.mark.parametrize("kind", ["all", "each", "in UTC"])
def test_columns_of_times_are_read_like_single_ones(zone: str, kind: str) -> None:
    """One spelling in a column decides nothing about the others."""
    polars = pytest.importorskip("polars")
    from fadecount.sources.columns import Columns

    options = SourceOptions(tick=1, time="t", zone=zone)
    texts = [*SPELLINGS, "2026-03-29", "1999-12-31 23:59", *NO_TIMES]
    if kind == "in UTC":
        texts = [text for text in texts if text.endswith("Z")]
    columns = [[text] for text in texts] if kind == "each" else [texts]
    for column in columns:
        found = Columns(Rules(options)).seconds_of_texts(polars.Series(column, dtype=polars.String))
        assert found.tolist() == [time_reader("auto", zone)(text) for text in column]


def test_other_spellings() -> None:
    noon = 12 * 3600
    assert [
        read(text) for text in ("1970-01-01", "1970-01-01T12:00", "1970-01-01 12:00:00.999999999")
    ] == [0, noon, noon]
    assert {read(f"1970-01-01T12:00:00{end}") for end in ("Z", "+00", "-0000", "+00:00")} == {noon}
    assert read("1970-01-01T12:00+0130") == noon - 5400


def test_numbers_by_their_unit() -> None:
    assert read("0", "s") == 0
    assert read("-0.5", "s") == read("-1", "ms") == read("-1", "us") == -1
    assert read("1999.999", "ms") == read("1999999.9", "us") == 1
    assert read("-1.0", "s") == -1
    assert read("9" * 17, "us") is not None
    assert read("9" * 17, "s") is None


@given(st.integers(100_000_000, 4_102_444_799), st.integers(0, 999_999))
def test_the_size_of_a_number_tells_its_unit(seconds: int, micros: int) -> None:
    for text in (
        str(seconds),
        f"{seconds}.{micros:06d}",
        str(seconds * 1000 + micros // 1000),
        str(seconds * 10**6 + micros),
    ):
        assert read(text) == seconds


NO_TIMES = [
    "0",
    "99999999",
    "4102444800",
    "-200000000",
    "20260301",
    "+1700000000",
    "1_700_000_000",
    "1700000000.",
    ".5",
    "1e9",
    "NaN",
    "inf",
    "2026-3-1",
    "2026-13-01",
    "2026-00-10",
    "2026-02-29",
    "0999-01-01",
    "02026-01-01",
    "2026-01-01T24:00",
    "2026-01-01T10",
    "2026-01-01T10:00:60",
    "2026-01-01T10:00:00,5",
    "2026-01-01T10:00:00.",
    "2026-01-01T10:00:00.1234567890",
    "2026-01-01t10:00:00z",
    "2026-01-01Z",
    "2026-01-01T10:00+24:00",
    "2026-01-01T10:00+1",
    "2026-W01-1",
    "\uff12026-01-01",
    "",
    " ",
    "2026-01-01 ",
    "2026-01-01\n",
    "1700000000\n",
]


@pytest.mark.parametrize("text", NO_TIMES)
def test_what_is_no_time(text: str) -> None:
    assert read(text) is None
