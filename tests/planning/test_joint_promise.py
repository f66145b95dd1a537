"""Random publications: what one unit loses through all measures together is what is stated, by
linear programs; and every plan keeps its promise in exact integers at every age."""

from __future__ import annotations

import random
from fractions import Fraction
from typing import Any

import pytest

import fadecount as fc
from fadecount.calendar import Ticks, level_calendar
from fadecount.errors import ParameterError
from fadecount.mechanisms.levels import MILLION
from fadecount.planning.promise import free_ages, millionths, plan_publication
from fadecount.planning.publication import Measure, Publication
from tests.planning.unit_program import loss_by_program

PUBLICATIONS = 60
HOURS = (("1h",), ("1h", "1d"), ("6h", "1d"), ("1d",), ("1d", "1mo"), ("6h", "1d", "1mo"))


def random_measure(chance: random.Random, name: str, unit: fc.Unit) -> Measure:
    fields: dict[str, Any] = {"share": chance.choice([0.3, 1, 1, 2.5])}
    kind = chance.choice(["events", "persons", "sum", "hidden"])
    if kind in ("persons", "hidden") and unit.of == "person":
        fields |= {"count": "persons", "per": [unit.per]}
        if kind == "hidden" or chance.random() < 0.5:
            keys = ("north", "south") if chance.random() < 0.7 else ()
            fields |= {"key": (name,), "keys": keys, "max_keys": chance.randint(1, 4)}
            fields["discover"] = kind == "hidden" or not keys
            if fields["discover"] and keys and chance.random() < 0.5:
                fields["other"] = "north"
    else:
        fields["per"] = chance.choice(HOURS[2:] if unit.per == "1mo" else HOURS)
        if kind == "sum":
            fields |= {"sum": "minutes", "max": chance.randint(1, 9)}
        if chance.random() < 0.5:
            fields |= {"key": (name,), "keys": ("north", "south")}
    if fields.get("key") and chance.random() < 0.4:
        fields["overall"] = chance.choice([True, 0.2])
    return Measure(name=name, **fields)


def random_publication(chance: random.Random, **fields: Any) -> Publication:
    """Up to four measures with one unit, and up to three limits."""
    unit = chance.choice(
        [
            fc.Unit(),
            fc.Unit(of="person", events=chance.randint(1, 5), per="1d"),
            fc.Unit(of="person", events=chance.randint(1, 5), per="1mo"),
        ]
    )
    ages = chance.sample(["1h", "6h", "1d", "30h", "7d", "40d"], chance.randint(0, 3))
    order = sorted(ages, key=lambda age: int(age[:-1]) * {"h": 1, "d": 24}[age[-1]])
    losses = sorted(round(10 ** chance.uniform(-1, 0.7), 3) for _ in range(len(order) + 1))
    if order and chance.random() < 0.2:
        losses[0] = 0
    names = ["a", "b", "c", "d"][: chance.randint(1, 4)]
    given: dict[str, Any] = {
        "name": "made",
        "zone": "UTC",
        "start": "2026-02-01",
        "tick": "6h" if unit.per == "1mo" else "1h",
        "unit": unit,
        "promise": dict(zip([*order, "ever"], losses, strict=True)),
        "delta": 1e-9,
        "reserve": chance.choice([0, 0, 1.5]),
        "measures": tuple(random_measure(chance, name, unit) for name in names),
        **fields,
    }
    return Publication(**given)


@pytest.mark.parametrize("seed", range(PUBLICATIONS))
def test_the_loss_is_that_of_linear_programs(seed: int) -> None:
    """At every age at which something appears, and before it: a unit in the last slot of February
    loses exactly what is stated, one in an earlier slot no more."""
    chance = random.Random(seed)
    made = random_publication(chance)
    series = plan_publication(made)
    ticks, day = Ticks(tick_seconds=made.tick_seconds), 86_400 // made.tick_seconds
    first = ticks.at(1_769_904_000)
    calendars = [
        level_calendar(each.mechanism.lengths, ticks, first).reaching(200 * day)  # type: ignore[attr-defined] # blocks
        for each in series
    ]
    length = {"tick": 1, "1d": day, "1mo": 28 * day}[made.unit.per]
    slots = [range(begin, begin + length) for begin in range(0, 28 * day, length)]
    ages = {age - before for each in series for age in each.ages for before in (0, 1)} | {10**5}
    for age in sorted(ages - {-1}):
        stated = millionths(made, series, age) / MILLION
        last = slots[-1]
        found = loss_by_program(made, series, calendars, last, last.start + age)
        assert found == pytest.approx(stated, abs=1e-7), age
        slot = chance.choice(slots)
        assert loss_by_program(made, series, calendars, slot, slot.start + age) <= stated + 1e-7


@pytest.mark.parametrize("zone", ["UTC", "Europe/Vienna"])
def test_every_plan_keeps_its_promise_at_every_age(zone: str) -> None:
    """In exact integers, just before each limit ends and for ever; and it uses nearly all of the
    last one."""
    chance = random.Random(7)
    for _ in range(60):
        made = random_publication(chance, zone=zone, tick="1h", reserve=0)
        series = plan_publication(made)
        ages = sorted({age for each in series for age in each.ages})
        for age in [0, *ages, *(each - 1 for each in ages), 1 << 59]:
            bounds = zip(free_ages(made), made.limits, strict=True)
            limit = next(most for free, (_, most) in bounds if free is None or age < free)
            assert millionths(made, series, age) <= limit * MILLION
        last = made.limits[-1][1] * MILLION
        assert millionths(made, series, 1 << 59) >= last * Fraction(97, 100)


def test_tiny_and_huge_limits_have_plans_or_one_line() -> None:
    chance = random.Random(3)
    refused = 0
    for _ in range(100):
        losses = sorted(10 ** chance.uniform(-7, 4) for _ in range(3))
        promise = dict(zip(["1h", "7d", "ever"], losses, strict=True))
        made = random_publication(chance, promise=promise)
        try:
            plan_publication(made)
        except ParameterError as error:
            refused += 1
            assert "\n" not in str(error)
            assert str(error).startswith(("loss must be at least", "measures."))
    assert 5 < refused < 60


def test_the_chance_is_split_over_the_measures_that_discover_together() -> None:
    """The next number below a third of the whole; measures at other times do not share it."""
    made = Publication(
        name="pages",
        zone="UTC",
        start="2026-03-01",
        unit=fc.Unit(of="person", per="1d"),
        promise={"ever": 3},
        delta=1e-9,
        measures=tuple(
            Measure(
                name=name, count="persons", key=(name,), discover=True, start=start, until=until
            )
            for name, start, until in (
                ("a", None, None),
                ("b", None, "2026-04-01"),
                ("b", "2026-04-01", None),
                ("c", None, None),
            )
        ),
    )
    chances = [each.selection.delta for each in plan_publication(made) if each.selection]
    assert len({*chances}) == 1 and sum(map(Fraction, chances[:3])) <= Fraction(1e-9)
    assert chances[0] == pytest.approx(1e-9 / 3)
    assert made.plan().delta == pytest.approx(1e-9) and made.plan().delta <= 1e-9  # type: ignore[operator] # not None
