"""One unit moves nothing else, on a real Spark: inputs that differ by one event or one person's
day, hardly any noise. Figures differ by at most the unit, in at most one block of each level."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

import fadecount as fc
from tests.spark.oracle import START, Event, Place, Row, rows_of, stream
from tests.spark.session import events_frame
from tests.spark.test_streaming import Stage

from fadecount.spark import figures  # isort: skip

HOUR, DAY, YEAR = 3600, 86400, 365 * 86400
KEYS = ["a", "b", "c"]
EXACT = fc.Blocks(
    fc.Level(1, 1000.0),
    fc.Level(24, 1000.0, later=((30, 1001.0),)),
    fc.Level(720, 1000.0, lag=48),
)


def violations(without: dict[Place, Row], with_unit: dict[Place, Row], most: int = 1) -> list[str]:
    """Every way in which figures differ by more than a unit that adds at most so many events to one
    day."""
    if without.keys() != with_unit.keys():
        return ["other figures"]
    wrong, added, days = [], dict[tuple[str, int], int](), set[int]()
    for place, (end, status, value, *_, published) in without.items():
        per, start, stage, _ = place
        now = with_unit[place]
        if (end, status, published) != (now[0], now[1], now[5]):
            wrong.append(f"{place}: end, status or published")
        if now[2] != value:
            added[per, stage] = added.get((per, stage), 0) + now[2] - value
            days |= {start // DAY} if per != "1mo" else set()
            if now[2] < value or stage < 0:
                wrong.append(f"{place}: {value} became {now[2]}")
    wrong += [f"{where}: {sum_} more" for where, sum_ in added.items() if sum_ > most]
    return wrong + (["several days"] if len(days) > 1 else [])


def table_figures(session: Any, root: Path, events: list[Any], **person: Any) -> dict[Place, Row]:
    """The figures of a table of (moment, key, person) after three days."""
    frame = session.createDataFrame(events_frame(events))
    hours = stream(session, root, EXACT, keys=KEYS, **person)
    return rows_of(figures(frame, hours, until="2026-01-04"))


UNITS = [(START + HOUR, "c", "ann"), (START + 2 * DAY, "a", "ann")]
NOWHERE = [
    (START - 1, "a", "ann"),
    (START + 3 * DAY, "a", "ann"),
    (START + YEAR, "a", "ann"),
    (START + HOUR, None, "ann"),
    (START + HOUR, "undeclared", "ann"),
]
"""Events that count nowhere."""


def test_one_event_moves_nothing_else_in_a_table(spark: Any, tmp_path: Path) -> None:
    chance = random.Random(3)
    events = [(START + chance.randrange(3 * DAY), chance.choice("ab"), "bob") for _ in range(30)]
    without = table_figures(spark, tmp_path / "without", events)
    cases: list[tuple[Any, list[Any]]] = [(UNITS[0], []), (UNITS[1], NOWHERE)]
    for number, (unit, others) in enumerate(cases):
        found = table_figures(spark, tmp_path / str(number), [*events, unit, *others])
        assert not violations(without, found), unit
        hours = [place for place in without if place[0] == "1h" and without[place] != found[place]]
        assert hours == [("1h", unit[0], 0, unit[1])]


def test_one_persons_day_moves_nothing_else_in_a_table(spark: Any, tmp_path: Path) -> None:
    events = [(START + HOUR * hour, "ab"[hour % 2], f"p{hour % 5}") for hour in range(60)]
    ann = [(START + DAY + HOUR * hour, KEYS[hour % 3], "ann") for hour in range(20)]
    cap = {"person": "who", "per_person": 2, "person_per": "1d"}
    without = table_figures(spark, tmp_path / "without", events, **cap)
    found = table_figures(spark, tmp_path / "with", [*ann, *events], **cap)
    changed = {place for place in without if without[place] != found[place]}
    assert {start for per, start, *_ in changed if per == "1h"} == {START + DAY, START + DAY + HOUR}
    days = {place: found[place][2] - without[place][2] for place in changed if place[0] == "1d"}
    assert sum(value for (*_, stage, _), value in days.items() if stage == 0) == 2
    assert {start for _, start, *_ in days} == {START + DAY}


SMALL = fc.Blocks(fc.Level(1, 1000.0), fc.Level(6, 1000.0), fc.Level(12, 1000.0, lag=1))


def test_one_event_moves_nothing_else_in_a_stream(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without events there is a micro-batch too; the unit comes in its own tick, late, or from a
    time to come."""
    units: dict[str, list[Event]] = {
        "without": [],
        "in its tick": [(START + 650, "c")],
        "late": [(START + 10, "a")],
        "ahead": [(START + YEAR, "a")],
    }
    found = {}
    for name, unit in units.items():
        stage = Stage(spark, tmp_path / name, monkeypatch, SMALL)
        stage.add([(START + 20, "a")])
        if name in ("without", "late"):
            stage.run(640)
        if unit:
            stage.add(unit)
        stage.run(5000)
        found[name] = stage.found
    for name in units:
        assert not violations(found["without"], found[name]), name
        assert (found[name] != found["without"]) == (name in ("in its tick", "late"))
