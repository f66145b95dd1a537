"""One event moves nothing else, on a real Spark: inputs that differ by one event, as streams and
tables, hardly any noise."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import fadecount as fc
from tests.neighbours.harness import Published, differs, violations
from tests.spark.oracle import START, Event
from tests.spark.scene import TICK, options, stream
from tests.spark.session import write_events

from fadecount.spark import release, to_parquet  # isort: skip
from fadecount.spark.parameters import Parameters  # isort: skip
from fadecount.spark.release import _released  # isort: skip
from pyspark.sql import functions as sql  # isort: skip

KEYS = ["a", "b", "c"]
EXACT = fc.Designed(budgets=(1000.0,) * 4)
TICKS = 5
EVENTS: list[Event] = [(START + 200 * number, KEYS[number % 2]) for number in range(12)]
YEAR = 31_536_000


def _published(releases: Any) -> Published:
    rows = releases.selectExpr("unix_seconds(tick) as at", "key", "value", "low", "high").collect()
    found = {((row.at - START) // TICK, row.key): row for row in rows}
    assert len(found) == len(rows)
    ticks = sorted({tick for tick, _ in found})
    return Published(
        keys=tuple(KEYS),
        values={tick: tuple(found[tick, key].value for key in KEYS) for tick in ticks},
        widths={tick: tuple(_width(found[tick, key]) for key in KEYS) for tick in ticks},
    )


def _width(row: Any) -> tuple[int, int]:
    return row.value - row.low, row.high - row.value


def _streamed(session: Any, root: Path, *runs: list[Event]) -> Published:
    """One run when five ticks are over, after one in the middle of the second tick if there are
    two."""
    (root / "in").mkdir(parents=True)
    moments = (START + 1.5 * TICK, START + TICKS * TICK)
    for number, (events, moment) in enumerate(zip(runs, moments[-len(runs) :], strict=True)):
        if events:
            write_events(root / "in" / f"{number}.parquet", events)
        dated = stream(session, root).selectExpr("at as time", "page as key")
        declared = session.createDataFrame([(key,) for key in KEYS], "key string")
        parameters = Parameters.checked(
            EXACT, **options(session, shards=2), end=None, streaming=True
        )
        place, clock = str(root / "checkpoint"), sql.timestamp_seconds(sql.lit(moment))
        releases = _released(dated, declared, parameters, checkpoint=place, clock=clock)
        to_parquet(releases, str(root / "out"), checkpoint=place).trigger(
            availableNow=True
        ).start().awaitTermination()
    return _published(session.read.parquet(str(root / "out")))


@pytest.mark.parametrize(
    ("first", "later", "unit", "counted"),
    [
        ([], [], (START + YEAR, "a"), False),
        (EVENTS, [[(START + 1900, "b")]], (START + 2 * TICK, "c"), True),
    ],
    ids=["a year ahead in an empty input", "in a later tick"],
)
def test_one_event_moves_nothing_else_in_a_stream(
    spark: Any,
    tmp_path: Path,
    first: list[Event],
    later: list[list[Event]],
    unit: Event,
    counted: bool,
) -> None:
    without = _streamed(spark, tmp_path / "without", first, *later)
    with_unit = _streamed(spark, tmp_path / "with", [*first, unit], *later)
    assert list(without.values) == list(range(TICKS))
    assert not violations(without, with_unit)
    assert differs(without, with_unit) == counted


def test_one_event_moves_nothing_else_in_a_table(spark: Any, tmp_path: Path) -> None:
    words = {
        **options(spark, shards=2),
        "end": START + TICKS * TICK,
        "time": "at",
        "key": "page",
        "keys": KEYS,
    }
    units: list[tuple[list[Event], Event]] = [
        ([], (START + TICK, "a")),
        (EVENTS, (START + TICK, "c")),
        (EVENTS, (START - 1, "a")),
        (EVENTS, (START + YEAR, "a")),
        (EVENTS, (START + TICK, None)),
    ]
    shown = []
    for number, (events, unit) in enumerate(units):
        left, right = (
            _published(
                release(
                    spark.createDataFrame(_rows(rows), "at timestamp, page string"), EXACT, **words
                )
            )
            for rows in (events, [*events, unit])
        )
        assert list(left.values) == list(range(TICKS))
        assert not violations(left, right), number
        shown.append(differs(left, right))
    assert shown == [True, True, False, False, False]


def _rows(events: list[Event]) -> list[tuple[datetime, str | None]]:
    return [(datetime.fromtimestamp(moment, UTC), key) for moment, key in events]
