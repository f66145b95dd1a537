"""Distinct persons: exact counts of each slot, and no sums over slots."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import polars as pl
import pytest

import fadecount as fc
from fadecount.errors import ParameterError
from fadecount.mechanisms import Unit
from fadecount.runs import run
from fadecount.sources import SourceOptions

EXACT = fc.Blocks(*(fc.Level(length, 16384.0) for length in (1, 4, 96, 2880)))
VIENNA = ZoneInfo("Europe/Vienna")
FORMATS = {"1h": "%m-%d %H %z", "1d": "%m-%d", "1mo": "%m"}


def visits(chance: random.Random) -> list[tuple[datetime, str, str]]:
    """Four days around a month's end in which clocks change, by few people."""
    begin = datetime(2019, 3, 30, tzinfo=UTC)
    return [
        (
            begin + timedelta(minutes=chance.randrange(4 * 1440)),
            f"p{chance.randrange(9)}",
            chance.choice("ab"),
        )
        for _ in range(300)
    ]


@pytest.mark.parametrize("per", FORMATS)
@pytest.mark.parametrize("keys", [1, 2])
def test_each_person_counts_once_per_slot(per: str, keys: int) -> None:
    rows = visits(random.Random(keys))
    options = SourceOptions(
        tick="15m",
        time="at",
        zone="Europe/Vienna",
        key="page",
        keys=("a", "b"),
        person="who",
        person_per=per,
        keys_per_person=keys,
    )
    frame = pl.DataFrame(rows, schema=["at", "who", "page"], orient="row")
    begin, end = datetime(2019, 3, 30, tzinfo=VIENNA), datetime(2019, 4, 5, tzinfo=UTC)
    found = fc.count(frame, options, per=per, mechanism=EXACT, start=begin, until=end)
    assert isinstance(found, pl.DataFrame)
    exact: dict[str, set[tuple[str, str]]] = {}
    for at, who, page in rows:
        slot = at.astimezone(VIENNA).strftime(FORMATS[per])
        exact.setdefault(slot, set()).add((who, page if keys == 2 else ""))
    counted: dict[str, int] = {}
    for start, value in found.select("start", "value").iter_rows():
        slot = start.astimezone(VIENNA).strftime(FORMATS[per])
        counted[slot] = counted.get(slot, 0) + value
    assert {slot: value for slot, value in counted.items() if value} == {
        slot: len(who) for slot, who in exact.items()
    }


def test_distinct_persons_are_not_added_up() -> None:
    frame = pl.DataFrame(visits(random.Random(0)), schema=["at", "who", "page"], orient="row")
    options = SourceOptions(tick="15m", time="at", person="who", person_per="1d")
    under_way = run(frame, options, mechanism=EXACT)
    list(under_way)
    published, first = under_way.published, under_way.published.first_tick
    assert published.description.default_per == "1d"
    assert published.figures("1d").values.ravel().tolist() == [9, 9, 9, 9]
    assert len(published.figures("1h")) > 24 and len(published.so_far("1d")) == 1
    begin = first + (-first) % 96
    assert published.window(begin, begin + 96).values.tolist() == [[9]]
    for ask in (
        lambda: published.figures("1w"),
        lambda: published.figures("1mo"),
        lambda: published.so_far("1mo"),
        lambda: published.check_per("total"),
        lambda: published.total(),
        lambda: list(published.running()),
        lambda: published.window(begin, begin + 97),
    ):
        with pytest.raises(ParameterError, match="distinct persons do not add up"):
            ask()
    with pytest.raises(ParameterError, match="per must be at most 1d"):
        fc.count(frame, options, per="1w", mechanism=EXACT)
    twice = Unit(of="person", events=2, per="1d")
    assert twice.distinct_per is None and Unit(of="person").distinct_per is None
