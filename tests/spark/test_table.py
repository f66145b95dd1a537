"""Releases from a table that is not a stream: equal to local counters; each call with noise of its
own."""

from __future__ import annotations

from collections import Counter as Tally
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fadecount as fc
from tests.spark.oracle import EPOCH, SECRET, START, Event, released
from tests.spark.scene import KEYS, MECHANISM, TICK, files, options
from tests.spark.session import files_with, read_releases, write_events

from fadecount.spark import release  # isort: skip
from fadecount.spark.table import digest_of  # isort: skip
from fadecount.spark.parameters import Parameters  # isort: skip
from fadecount.spark.shard import Pending, Roster  # isort: skip
from fadecount.spark.release import _released, _shard  # isort: skip

TICKS = 6
END = START + TICKS * TICK
EVENTS: list[Event] = [event for some in files(3) for event in some]


def _in_epoch(session: Any, place: Path) -> Any:
    """A call in a known epoch."""
    declared = session.createDataFrame([(key,) for key in KEYS], "key string")
    parameters = Parameters.checked(MECHANISM, **options(session), end=END, streaming=False)
    dated = session.read.parquet(str(place)).selectExpr("at as time", "page as key")
    return _released(dated, declared, parameters, checkpoint="", epoch=EPOCH)


def _values(releases: Any) -> dict[tuple[Any, str], int]:
    return {(row.tick, row.key): row.value for row in releases.collect()}


def test_a_table_equals_the_local_counter_however_often_it_is_executed(
    spark: Any, tmp_path: Path
) -> None:
    write_events(tmp_path / "in" / "0.parquet", list(EVENTS))
    releases = _in_epoch(spark, tmp_path / "in")
    releases.write.parquet(str(tmp_path / "out"))
    found = read_releases(spark, tmp_path / "out", TICK)
    again = _values(releases)
    assert len(again) == len(found) == TICKS * len(KEYS)
    assert sorted(again.values()) == sorted(found.values())

    counts = Tally(((moment - START) // TICK, key) for moment, key in EVENTS if key)
    shards = {
        row.key: row.shard
        for row in spark.createDataFrame([(key,) for key in KEYS], "key string")
        .select("key", _shard(4))
        .collect()
    }
    for shard in range(4):
        keys = sorted(key for key in KEYS if shards[key] == shard)
        cells = [
            (tick * len(keys) + keys.index(key), n)
            for (tick, key), n in counts.items()
            if key in keys and tick < TICKS
        ]
        pending = Pending.empty().with_counts(*_columns(cells))
        inputs = digest_of(Roster.of(keys), pending, TICKS)
        wanted = released(MECHANISM, keys, counts, TICKS, of=f"inputs {inputs}")
        assert {place: value for place, value in found.items() if place[1] in keys} == wanted

    write_events(tmp_path / "in" / "1.parquet", [(START, key) for key in KEYS])
    assert _values(releases) == again, "a table is counted once"
    changed = _values(_in_epoch(spark, tmp_path / "in"))
    first = min(tick for tick, _ in changed)
    same = sum(value == again[place] + 1 for place, value in changed.items() if place[0] != first)
    assert same < len(changed) // 2, "changed events met the same noise"
    assert (
        files_with([SECRET.encode(), bytes.fromhex(SECRET)], spark.fadecount_test_root / "log")
        == []
    )


@pytest.mark.parametrize(
    "mechanism", [MECHANISM, fc.Gaussian.gradual(14.0)], ids=lambda one: one.kind
)
def test_two_calls_on_one_table_have_independent_noise(
    spark: Any, tmp_path: Path, mechanism: fc.Mechanism
) -> None:
    """If equal events gave equal releases, unequal ones would tell that a single event was added.
    Most shards are empty here."""
    write_events(tmp_path / "in" / "0.parquet", list(EVENTS))
    table = spark.read.parquet(str(tmp_path / "in"))
    words = {**options(spark, shards=1000), "end": END, "time": "at", "key": "page", "keys": KEYS}
    first, second = (_values(release(table, mechanism, **words)) for _ in range(2))
    assert first.keys() == second.keys()
    assert len(first) == TICKS * len(KEYS)
    assert sum(value == second[place] for place, value in first.items()) < len(first) // 2


def test_a_bad_row_and_an_event_outside_the_range_change_nothing_else_in_a_table(
    spark: Any, tmp_path: Path
) -> None:
    exact = fc.Designed(budgets=(1000.0,) * 4)
    words = {**options(spark, shards=2), "end": END, "time": "at", "key": "page", "keys": KEYS[:3]}
    texts = [("2026-01-01 00:00:01", KEYS[0]), ("2026-01-01 00:20:00", KEYS[1])]
    bad = [
        ("yesterday", KEYS[0]),
        (None, KEYS[0]),
        ("2026-01-01", None),
        ("2025-12-31", KEYS[0]),
        ("2027-01-01", KEYS[0]),
    ]
    bad += [("-290000-01-01", KEYS[0]), ("+290000-01-01", KEYS[0])]
    alone, beside, empty = (
        _values(release(spark.createDataFrame(rows, "at string, page string"), exact, **words))
        for rows in (texts, texts + bad, [])
    )
    assert beside == alone
    assert empty.keys() == alone.keys()
    assert sum(alone.values()) == TICKS + (TICKS - 2)
    assert set(empty.values()) == {0}


def test_ticks_are_moments_where_an_hour_happens_twice(spark: Any, tmp_path: Path) -> None:
    start = 1_793_505_600  # 2026-11-01 04:00 UTC; in New York clocks go back from 06:00 UTC on
    hours = [start + 3600 * number for number in range(5)]
    write_events(tmp_path / "in" / "0.parquet", [(hour, "a") for hour in hours])
    words = {
        **options(spark, tick=3600, shards=1),
        "start": start,
        "end": start + 5 * 3600,
        "time": "at",
        "key": "page",
    }
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        releases = release(
            spark.read.parquet(str(tmp_path / "in")),
            fc.Designed(budgets=(1000.0,) * 4),
            keys=["a"],
            **words,
        )
        found = {
            row.at: row.value
            for row in releases.selectExpr("unix_seconds(tick) as at", "value").collect()
        }
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    assert found == {hour: number + 1 for number, hour in enumerate(hours)}


def _columns(cells: list[tuple[int, int]]) -> Any:
    return np.array([cell for cell, _ in cells], dtype=np.uint64), np.array(
        [count for _, count in cells], dtype=np.uint64
    )
