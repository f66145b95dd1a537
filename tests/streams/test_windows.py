"""Counts of windows of time from running totals alone: edges, sums, delays, keys."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np
import pytest

import fadecount as fc
from fadecount.cli.main import main
from fadecount.errors import ParameterError
from fadecount.streams import Description, Reader, Store, Ticks
from fadecount.streams.export import COLUMNS, FigureWriter, published_tables
from tests.streams.backends import BriefStore, totals_of

HOUR = 3600
BERLIN = "Europe/Berlin"


def moment(text: str, zone: str = "UTC") -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).timestamp())


_OPEN: list[Store] = []


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    """Close the stores that :func:`filled` made: from Python 3.13 on, SQLite warns about
    connections that are left open."""
    yield
    while _OPEN:
        _OPEN.pop().close()


def filled(
    counts: np.ndarray,
    *,
    first: int,
    seconds: int = HOUR,
    zone: str = "UTC",
    mechanism: fc.Mechanism | None = None,
) -> tuple[Store, Reader]:
    store = BriefStore()
    _OPEN.append(store)
    keys = [f"k{at}" for at in range(counts.shape[1])]
    description = Description(
        name="s",
        mechanism=mechanism or fc.Gradual(epsilon=0.5),
        ticks=Ticks(tick_seconds=seconds, zone=zone),
    )
    stream = store.create(description, keys=keys, start_tick=first)
    list(stream.release(first, counts.astype(np.int64)))
    return store, store.reader()


def totals(reader: Reader) -> np.ndarray:
    return np.array(list(totals_of(reader, "s").values()))


@pytest.mark.parametrize("per", ["1h", "3h", "1d", "1w", "1mo", "1y"])
def test_windows_add_up_to_the_totals_exactly(per: str) -> None:
    first = moment("2026-02-20T05:00") // HOUR
    _, reader = filled(np.random.default_rng(3).integers(0, 9, (24 * 60, 2)), first=first)
    windows, shown = reader.stream("s").figures(per), totals(reader)
    assert np.array_equal(np.cumsum(windows.values, axis=0)[-1], shown[-1])
    ends = np.minimum(windows.ends // HOUR - first, len(shown)) - 1
    assert np.array_equal(np.cumsum(windows.values, axis=0), shown[ends])
    covered = (windows.starts >= first * HOUR) & (windows.ends <= (first + len(shown)) * HOUR)
    assert np.array_equal(windows.partial, ~covered)
    assert np.array_equal(windows.low + windows.high, 2 * windows.values)


def test_days_of_a_zone_have_23_and_25_hours() -> None:
    for day, hours in (("2026-03-29", 23), ("2026-10-25", 25), ("2026-07-01", 24)):
        first = moment(day, BERLIN) // HOUR
        _, reader = filled(
            np.ones((hours, 1)), first=first, zone=BERLIN, mechanism=fc.Gradual(epsilon=60.0)
        )
        windows = reader.stream("s").figures("1d")
        assert (windows.values.tolist(), windows.partial.tolist()) == ([[hours]], [False])


def test_windows_of_whole_day_ticks() -> None:
    first = Ticks(tick_seconds=86_400, zone=BERLIN).at(moment("2026-03-01", BERLIN))
    _, reader = filled(
        np.ones((61, 1)),
        first=first,
        seconds=86_400,
        zone=BERLIN,
        mechanism=fc.Gradual(epsilon=60.0),
    )
    windows = reader.stream("s").figures("1mo")
    assert (windows.values.ravel().tolist(), windows.partial.tolist()) == ([31, 30], [False, False])


def test_a_delay_moves_no_event_into_another_window() -> None:
    mechanism = fc.Gradual(epsilon=60.0, delay=5)
    first = moment("2026-03-01") // HOUR
    counts = np.arange(48)[:, np.newaxis]
    _, reader = filled(counts, first=first, mechanism=mechanism)
    windows = reader.stream("s").figures("1d")
    assert windows.values.ravel().tolist() == [sum(range(24)), sum(range(24, 43))]
    assert windows.partial.tolist() == [False, True], "the last five hours are not shown yet"


def test_what_a_delay_does_not_show_yet_is_no_part_of_a_window_or_a_top_list() -> None:
    mechanism = fc.Gradual(epsilon=60.0, delay=5)
    first = moment("2026-03-01") // HOUR
    _, reader = filled(np.arange(48)[:, np.newaxis], first=first, mechanism=mechanism)
    published = reader.stream("s")
    window = published.window(first + 40, first + 48)
    assert (window.values.tolist(), window.partial.tolist()) == ([[40 + 41 + 42]], [True])
    assert not len(published.window(first + 44, first + 48)), "nothing of it is shown yet"
    assert [each.value for each in published.top()] == [sum(range(43))]


def test_keys_declared_later_have_the_error_of_their_total() -> None:
    store, reader = filled(np.ones((30, 1)), first=moment("2026-03-01") // HOUR)
    stream = store.open("s")
    stream.declare(["late"])
    begin = stream.open_tick
    assert begin is not None
    list(stream.release(begin, np.ones((30, 2), dtype=np.int64)))
    windows = reader.stream("s").figures("1d")
    mechanism = stream.description.mechanism
    assert windows.known.tolist() == [[True, False], [True, True], [True, True]]
    assert windows.half_widths[1].tolist() == [
        mechanism.window_interval(24, 48),
        mechanism.window_interval(0, 48),
    ]
    assert windows.half_widths[2].tolist() == [mechanism.window_interval(48, 60)] * 2


@pytest.mark.parametrize(
    ("per", "zone"),
    [
        ("30m", "UTC"),
        ("1x", "UTC"),
        ("0h", "UTC"),
        ("90m", "UTC"),
        ("1d", "Asia/Kolkata"),
    ],
)
def test_windows_that_do_not_fit_are_refused(per: str, zone: str) -> None:
    _, reader = filled(np.ones((60, 1)), first=moment("2026-03-01") // HOUR, zone=zone)
    with pytest.raises(ParameterError, match=r"^per must be .*; "):
        reader.stream("s").figures(per)


def test_a_range_holds_the_windows_that_begin_in_it_and_they_are_whole() -> None:
    _, reader = filled(np.ones((72, 1)), first=moment("2026-03-01") // HOUR)
    first = moment("2026-03-01") // HOUR
    found = reader.stream("s").figures("1d", since=first + 24, until=first + 49)
    assert (found.partial.tolist(), (found.starts // HOUR - first).tolist()) == (
        [False, False],
        [24, 48],
    )
    whole = reader.stream("s").figures("1d")
    assert found.values.tolist() == whole.values[1:].tolist()
    assert len(reader.stream("s").figures("1d", since=first + 25, until=first + 48)) == 0
    assert len(reader.stream("s").figures("1d", since=first + 72)) == 0


def test_windows_of_nothing() -> None:
    with BriefStore() as store:
        store.create(
            Description(name="s", mechanism=fc.Linear(epsilon=1.0), ticks=Ticks(tick_seconds=60)),
            keys=["a", "b"],
            start_tick=0,
        )
        assert len(store.reader().stream("s").figures("1d")) == 0
    _, reader = filled(np.ones((3, 1)), first=0)
    assert len(reader.stream("s").figures("1h", since=10)) == 0
    assert len(reader.stream("s").figures("1h", since=1, until=2)) == 1
    assert len(reader.stream("s").figures("1h", since=1, until=1)) == 0


def test_frames_have_real_times_in_the_zone() -> None:
    polars = pytest.importorskip("polars")
    _, reader = filled(np.ones((49, 2)), first=moment("2026-03-01", BERLIN) // HOUR, zone=BERLIN)
    frame = reader.frame("s")
    assert frame.columns == list(COLUMNS[1:])
    assert frame.schema["start"] == polars.Datetime("us", BERLIN)
    days = reader.frame("s", per="1d")
    assert days.columns == list(COLUMNS[1:])
    assert days["status"].to_list() == ["final"] * 4 + ["provisional"] * 2
    assert days["start"].to_list()[0] == datetime(2026, 3, 1, tzinfo=ZoneInfo(BERLIN))
    assert days["partial"].to_list() == [False] * 4 + [True] * 2


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_exported_windows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "user"))
    rows = [
        f"2026-03-0{day}T{hour:02}:30+01:00,{key}"
        for day in (1, 2, 3)
        for hour in range(24)
        for key in "ab"
    ]
    (tmp_path / "e.csv").write_text("\n".join(["at,key", *rows]))
    words = [
        "--tick",
        "1h",
        "--zone",
        BERLIN,
        "--time",
        "at",
        "--key",
        "key",
        "--keys",
        "a,b",
        "--epsilon",
        "60",
    ]
    words += ["--per", "1d", "--output", f"days.{kind}"]
    begun = ["--state", "state", "--start", "2026-03-01"]
    assert main(["run", "e.csv", *words, *begun, "--name", "s"]) == 0
    if kind == "parquet":
        polars = pytest.importorskip("polars")
        frame = polars.read_parquet(f"days.{kind}")
        assert frame.schema["start"] == polars.Datetime("us", BERLIN)
        found = [
            (row["start"].isoformat(), row["key"], row["value"])
            for row in frame.iter_rows(named=True)
        ]
    elif kind == "csv":
        found = [
            (row["start"], row["key"], int(row["value"]))
            for row in csv.DictReader((tmp_path / "days.csv").read_text().splitlines())
        ]
    else:
        objects = [json.loads(line) for line in (tmp_path / "days.jsonl").read_text().splitlines()]
        assert list(objects[0]) == list(COLUMNS)
        found = [(row["start"], row["key"], row["value"]) for row in objects]
    assert found == [
        (f"2026-03-0{day}T00:00:00+01:00", key, 24) for day in (1, 2, 3) for key in "ab"
    ]
    exported = [
        "streams",
        "export",
        "s",
        "--state",
        "state",
        "--per",
        "1d",
        "--output",
        f"again.{kind}",
    ]
    assert main(exported) == 0
    if kind != "parquet":
        assert (tmp_path / f"again.{kind}").read_text() == (tmp_path / f"days.{kind}").read_text()
    capsys.readouterr()
    assert main(["streams", "export", "s", "--state", "state", "--per", "20m"]) == 1
    assert capsys.readouterr().err.count("\n") == 1
    assert (
        main(["run", "-", "--tick", "1h", "--format", "csv", "--epsilon", "1", "--per", "1d"]) == 1
    )


def test_csv_times_carry_the_offset_of_the_zone(tmp_path: Path) -> None:
    first = Ticks(tick_seconds=86_400, zone=BERLIN).at(moment("2026-03-28", BERLIN))
    _, reader = filled(np.ones((3, 1)), first=first, seconds=86_400, zone=BERLIN)
    with FigureWriter(str(tmp_path / "a.csv"), reader.status("s").description) as writer:
        for table in published_tables(reader.stream("s"), per="1d"):
            writer.write(table)
    ticks = [row["start"] for row in csv.DictReader((tmp_path / "a.csv").read_text().splitlines())]
    assert ticks == [
        "2026-03-28T00:00:00+01:00",
        "2026-03-29T00:00:00+01:00",
        "2026-03-30T00:00:00+02:00",
    ]
    assert datetime.fromisoformat(ticks[0]).astimezone(UTC).hour == 23
