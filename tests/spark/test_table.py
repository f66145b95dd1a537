"""Figures of a table equal those of the local library, however often and when they are asked
for."""

from __future__ import annotations

import json
import random
import shutil
from collections import Counter as Tally
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import fadecount as fc
from fadecount.errors import CheckpointError, ParameterError
from tests.spark.oracle import SECRET, START, Event, expected, last_commit, rows_of, tally
from tests.spark.session import files_with, write_events

from fadecount.spark import explain, figures  # isort: skip

HOUR, DAY = 3600, 86400
KEYS = [f"page {number}" for number in range(40)]
MECHANISM = fc.Blocks(
    fc.Level(1, 0.5),
    fc.Level(24, 0.8, tied=True, later=((30, 1.5), (48, 2.0))),
    fc.Level(720, 1.0, lag=50),
)
EXACT = fc.Blocks(fc.Level(1, 1000.0), fc.Level(24, 1000.0))


def options(session: Any, state: Path, **changes: Any) -> dict[str, Any]:
    return {
        "tick": "1h",
        "start": "2026-01-01",
        "time": "at",
        "key": "page",
        "keys": KEYS,
        "secret": f"file:{session.fadecount_test_root / 'secret'}",
        "state": str(state),
        **changes,
    }


def some_events(number: int, seconds: int, *, start: int = START) -> list[Event]:
    chance = random.Random(11)
    keys = [*KEYS[:-3], "undeclared", None]
    return [(start + chance.randrange(seconds), chance.choice(keys)) for _ in range(number)]


def frame(session: Any, events: list[Event]) -> Any:
    rows = [(datetime.fromtimestamp(moment, UTC), key) for moment, key in events]
    return session.createDataFrame(rows, "at timestamp, page string")


def test_a_table_that_grows_equals_the_local_library_and_is_frozen(
    spark: Any, tmp_path: Path
) -> None:
    events = some_events(3000, 40 * DAY)
    write_events(tmp_path / "in" / "0.parquet", events)
    table, words = spark.read.parquet(str(tmp_path / "in")), options(spark, tmp_path / "state")
    first = figures(table, MECHANISM, until="2026-01-04T12:30:00", **words)
    early = rows_of(first)
    assert early == expected(tmp_path / "state", KEYS, tally(events, HOUR), 84)
    assert {status for _, status, *_ in early.values()} == {
        "announced",
        "provisional",
        "revised",
        "final",
    }

    late = [(START + HOUR, key) for key in KEYS]
    write_events(tmp_path / "in" / "1.parquet", late)
    table = spark.read.parquet(str(tmp_path / "in"))
    again = figures(table, MECHANISM, until="2026-01-04T12:30:00", **words)
    assert rows_of(again) == rows_of(first) == early, "a counted tick is frozen"
    whole = figures(table, MECHANISM, until="2026-02-05", **words)
    found = rows_of(whole)
    assert found == expected(tmp_path / "state", KEYS, tally(events, HOUR), 35 * 24)
    assert found.items() >= early.items()
    assert any(per == "1mo" for per, *_ in found)
    assert rows_of(figures(table, MECHANISM, until="2026-01-04T12:30:00", **words)) == early
    assert not files_with(
        [SECRET.encode(), bytes.fromhex(SECRET)], spark.fadecount_test_root / "log"
    )


def test_a_million_rows_equal_the_local_library(spark: Any, tmp_path: Path) -> None:
    source, keys = np.random.default_rng(3), [f"key {number:04}" for number in range(1900)]
    chosen = pd.DataFrame(
        {"hour": source.integers(0, 480, 200_000), "key": source.integers(0, 2000, 200_000)}
    )
    at = pd.to_datetime(START + HOUR * chosen["hour"], unit="s", utc=True)
    pages = chosen["key"].map("key {:04}".format)
    pd.DataFrame({"at": at, "page": pages}).to_parquet(
        tmp_path / "events.parquet", coerce_timestamps="us"
    )
    found = figures(
        spark.read.parquet(str(tmp_path / "events.parquet")),
        MECHANISM,
        until="2026-01-21",
        **options(spark, tmp_path / "state", keys=keys),
    )
    rows = rows_of(found)
    assert len(rows) > 10**6
    counts = Tally(zip(chosen["hour"].tolist(), pages.tolist(), strict=True))
    assert rows == expected(tmp_path / "state", keys, counts, 480)


def test_two_states_have_independent_noise(spark: Any, tmp_path: Path) -> None:
    """If equal events gave equal figures, unequal ones would tell that a single event was added."""
    table = frame(spark, some_events(100, DAY))
    one, other = (
        rows_of(figures(table, MECHANISM, until="2026-01-02", **options(spark, tmp_path / name)))
        for name in ("one", "other")
    )
    assert one.keys() == other.keys()
    assert sum(row == other[place] for place, row in one.items()) < len(one) // 2


def test_days_of_a_zone_are_ticks_and_clocks_change(spark: Any, tmp_path: Path) -> None:
    start = 1_774_652_400  # 2026-03-28 00:00 in Vienna; the next day has 23 hours
    events: list[Event] = [(start + HOUR * hour, "a") for hour in range(72)]
    words = options(spark, tmp_path, zone="Europe/Vienna", start="2026-03-28", keys=["a"])
    days = fc.Blocks(fc.Level(1, 1000.0), fc.Level(30, 1000.0))
    for tick, mechanism, state in (("1d", days, "days"), ("1h", EXACT, "hours")):
        words |= {"tick": tick, "state": str(tmp_path / state)}
        rows = rows_of(figures(frame(spark, events), mechanism, until="2026-03-31", **words))
        values = [row[2] for place, row in sorted(rows.items()) if place[0] == "1d"]
        assert values == [24, 23, 24]


def test_a_bad_row_and_an_event_outside_the_range_change_nothing_else(
    spark: Any, tmp_path: Path
) -> None:
    good = [("2026-01-01 00:00:01", "page 0"), ("2026-01-01 20:00:00", "page 1")]
    bad = [
        ("yesterday", "page 0"),
        (None, "page 0"),
        ("2026-01-01", None),
        ("2025-12-31", "page 0"),
        ("2026-01-02", "page 0"),
        ("-290000-01-01", "page 0"),
        ("+290000-01-01", "page 0"),
    ]
    for state, rows in (("alone", good), ("beside", good + bad), ("empty", [])):
        table = spark.createDataFrame(rows, "at string, page string")
        found = rows_of(
            figures(table, EXACT, until="2026-01-02", **options(spark, tmp_path / state))
        )
        assert len(found) == 25 * len(KEYS)
        counted = {place: row[2] for place, row in found.items() if row[2]}
        wanted = {
            ("1h", START, 0, "page 0"): 1,
            ("1d", START, 0, "page 0"): 1,
            ("1h", START + 20 * HOUR, 0, "page 1"): 1,
            ("1d", START, 0, "page 1"): 1,
        }
        assert counted == (wanted if rows else {})


# Persons
# ------------------------------------------------------------------------------------------------
def test_persons_are_capped_in_each_block_by_their_own_events(spark: Any, tmp_path: Path) -> None:
    events: list[Any] = [(START + HOUR * hour, "ab"[hour % 2], "ann") for hour in range(48)]
    events += [(START + 5 * HOUR, "a", "bob"), (START + 5 * HOUR, "a", None)]
    table = spark.createDataFrame(
        [(datetime.fromtimestamp(moment, UTC), *rest) for moment, *rest in events],
        "at timestamp, page string, who string",
    )
    words = options(spark, tmp_path / "state", keys=["a", "b"], person="who", per="1d")
    words |= {"per_person": 3}
    first = rows_of(figures(table, EXACT, until="2026-01-02", **words))
    both = rows_of(figures(table, EXACT, until="2026-01-03", **words))
    assert both.items() >= first.items()
    values = {place: row[2] for place, row in both.items() if row[2]}
    hours = {(moment, key) for per, moment, _, key in values if per == "1h"}
    assert hours == {
        (START + DAY * day + HOUR * hour, "ab"[hour % 2]) for day in (0, 1) for hour in (0, 1, 2)
    } | {(START + 5 * HOUR, "a")}
    days = {place: value for place, value in values.items() if place[0] == "1d"}
    assert days == {
        ("1d", START, 0, "a"): 3,
        ("1d", START, 0, "b"): 1,
        ("1d", START + DAY, 0, "a"): 2,
        ("1d", START + DAY, 0, "b"): 1,
    }
    identity = json.loads((tmp_path / "state" / "fadecount.json").read_text())
    assert identity["unit"] == "one person's 1d, at most 3 events"
    loss = fc.Mechanism.from_json(identity["mechanism"])
    assert loss.loss(24) == pytest.approx(2000 / 3, abs=1e-5), "the promise is for all 3 events"
    with pytest.raises(ParameterError, match=r"^until must be the end of a block of 1d"):
        figures(table, EXACT, until="2026-01-03T05:00", **words)
    assert last_commit(tmp_path / "state")["open"] == 48


# Refusals
# ------------------------------------------------------------------------------------------------
def test_a_wrong_call_is_refused_in_one_line_before_anything_is_counted(
    spark: Any, tmp_path: Path
) -> None:
    table = frame(spark, some_events(10, DAY))
    (tmp_path / "short").write_text("s" * 31)
    refusals: list[tuple[dict[str, Any], str]] = [
        ({"secret": None}, "secret must be the name of a place, got something else"),
        ({"secret": SECRET}, "secret must be the name of a place, got something else"),
        ({"secret": f"file:{tmp_path / 'none'}"}, "secret must be readable on every executor"),
        ({"secret": "env:FADECOUNT_NOWHERE"}, "secret must be readable on every executor"),
        ({"secret": f"file:{tmp_path / 'short'}"}, "secret must have at least 32 bytes, got 31"),
        ({"mechanism": fc.Gradual(epsilon=1.0)}, "mechanism must be fadecount.Blocks, got Gradual"),
        ({"mechanism": "blocks"}, "mechanism must be a fadecount mechanism, got 'blocks'"),
        ({"tick": "soon"}, "tick must be a positive duration, got 'soon'"),
        ({"tick": "7h"}, "tick must be a part of a day"),
        ({"zone": "Mars"}, "zone must be a time zone of the IANA database, got 'Mars'"),
        ({"start": "2026-01-01T00:30"}, "start must be the beginning of a tick"),
        ({"start": "today"}, "start must be a point in time, got 'today'"),
        ({"until": "2999-01-01"}, "until must be over, got '2999-01-01'"),
        ({"time": "when"}, "time must be a column of the events (at, page), got 'when'"),
        ({"key": "pages"}, "key must be a column of the events (at, page), got 'pages'"),
        ({"keys": []}, "keys must not be empty or null"),
        ({"keys": "page 0"}, "keys must be a list of strings or a DataFrame"),
        ({"keys": frame(spark, [(START, None)]).select("page")}, "keys must not be empty or null"),
        ({"person": "page", "per": "1w"}, "per must be one of 1h, 1d, 1mo, got '1w'"),
        ({"person": "page", "per": "1d", "per_person": 0}, "per_person must be"),
        ({"stream": "a b"}, "stream name must be 1 to 100 letters"),
    ]
    for number, (changes, message) in enumerate(refusals):
        state = tmp_path / str(number)
        words = {"mechanism": MECHANISM, "until": "2026-01-02", **options(spark, state), **changes}
        with pytest.raises(ParameterError) as caught:
            figures(table, **words)
        assert str(caught.value).startswith(message)
        assert "\n" not in str(caught.value) and SECRET not in str(caught.value)
        assert not (state / "commits").exists()
    numbered = table.selectExpr("unix_millis(at) as at", "page")
    with pytest.raises(ParameterError, match=r"^time must be a timestamp, got a column of type"):
        figures(numbered, MECHANISM, until="2026-01-02", **options(spark, tmp_path / "numbers"))


def test_another_stream_or_a_copy_is_refused_and_the_right_one_goes_on(
    spark: Any, tmp_path: Path
) -> None:
    events = some_events(50, 2 * DAY)
    table, words = frame(spark, events), options(spark, tmp_path / "state")
    figures(table, MECHANISM, until="2026-01-02", **words)
    (tmp_path / "secret").write_text("another secret of thirty-two bytes")
    changes: list[tuple[str, dict[str, Any]]] = [
        ("mechanism", {"mechanism": EXACT}),
        ("tick", {"tick": "1d", "mechanism": fc.Blocks(fc.Level(1, 0.5))}),
        ("zone", {"zone": "Europe/Vienna", "start": "2026-01-01T00:00Z"}),
        ("start", {"start": "2026-01-01T01:00"}),
        ("keys", {"keys": KEYS[1:]}),
        ("stream", {"stream": "other"}),
        ("secret", {"secret": f"file:{tmp_path / 'secret'}"}),
        ("unit", {"person": "page", "per": "1d"}),
    ]
    for name, change in changes:
        with pytest.raises(
            CheckpointError, match=rf"^({name}|mechanism) must be that of the state"
        ):
            figures(table, **{"mechanism": MECHANISM, "until": "2026-01-03", **words, **change})
    shutil.copytree(tmp_path / "state", tmp_path / "copy")
    copied = {**words, "state": str(tmp_path / "copy")}
    with pytest.raises(
        CheckpointError, match=r"^state must be the first one, in file:.*state, got"
    ):
        figures(table, MECHANISM, until="2026-01-03", **copied)
    shutil.move(tmp_path / "state", tmp_path / "away")
    shutil.copytree(tmp_path / "away", tmp_path / "state")
    with pytest.raises(CheckpointError, match=r"got a copy or a restored backup"):
        figures(table, MECHANISM, until="2026-01-03", **words)
    for path in (tmp_path / "copy" / "commits").glob("[0-9]*"):
        path.write_text("{")
        (path.parent / f".{path.name}.crc").unlink()
    with pytest.raises(CheckpointError, match=r"^state must hold whole commits, got a damaged one"):
        figures(table, MECHANISM, until="2026-01-03", **copied)
    found = figures(table, MECHANISM, until="2026-01-03", moved=True, **words)
    assert rows_of(found) == expected(tmp_path / "state", KEYS, tally(events, HOUR), 48)
    (tmp_path / "state" / "fadecount.json").write_text("{}")
    (tmp_path / "state" / ".fadecount.json.crc").unlink()
    with pytest.raises(CheckpointError, match=r"^kind must be that of the state, None"):
        figures(table, MECHANISM, until="2026-01-03", **words)


def test_an_executor_with_another_secret_is_refused(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text(SECRET)
    words = options(spark, tmp_path / "state", secret=f"file:{tmp_path / 'secret'}")
    found = figures(frame(spark, []), MECHANISM, until="2026-01-02", **words)
    (tmp_path / "secret").write_text("another secret of thirty-two bytes")
    with pytest.raises(Exception) as caught:
        found.count()
    assert (explain(caught.value) or "").startswith("secret must be the one that the stream began")


def test_one_of_two_jobs_at_a_time_is_refused(spark: Any, tmp_path: Path) -> None:
    from fadecount.spark.state import State

    words = options(spark, tmp_path / "state")
    for name in ("time", "key", "state"):
        del words[name]
    words |= {"kind": "table", "stream": "counts", "zone": "UTC", "moved": False}
    one, other = (State(spark, str(tmp_path / "state"), MECHANISM, **words) for _ in range(2))
    first, second = (
        type(state.last())(epoch=state.last().epoch, number=0) for state in (one, other)
    )
    one.commit(first)
    with pytest.raises(CheckpointError, match=r"^state must be used by one job at a time"):
        other.commit(second)
    assert other.last().epoch == first.epoch != second.epoch
