"""Random publications, and random rows for them, of which many are odd."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from fadecount.mechanisms import Unit
from fadecount.planning.publication import Columns, Input, Measure, Publication

DECLARED = ("north", "south", "west")
KINDS = tuple(f"{place}\t{kind}" for place in DECLARED[:2] for kind in ("bus", "tram"))
TIMES = (
    "2026-03-28T{:02}:10:00",
    "2026-03-28T{:02}:10:00Z",
    "2026-03-29T{:02}:30:00",  # clocks go forward at two
    "2026-03-29T{:02}:30:30.5",
    "2026-03-29T{:02}:30:00+02:00",
    "2026-03-30 {:02}:00",
    "2026-04-01T{:02}:00:00Z",
)
ODD_TIMES = ("", "soon", "2026-02-30", "2026-03-29T25:00")
PLACES = (*DECLARED, "north", "east", "up", "down", "zoo", "", "bad\x07", "x" * 201)
AMOUNTS = ("0", "1", "2", "5", "5.0", "30", "99", "9" * 18, "", "-1", "1.5", "many")
COUNTS = ("0", "1", "1", "2", "12", "3.00", "", "-3", "x", "2147483648", "2147483649")
NAMES = ("house1 1", "house1 2", "house1 3", "house2 1", "house2 2", "ann", "")
FIELDS = ("time", "who", "place", "kind", "minutes", "fee", "n", "id")


def publication_of(chance: random.Random) -> Publication:
    """One with up to four measures."""
    person = chance.random() < 0.75
    tick = chance.choice(("1h", "1h", "30m", "1d"))
    each = chance.choice(("1d", "1d", "1mo", *(("1h",) if tick != "1d" else ())))
    unit = Unit(of="person", per=each, events=chance.choice((1, 2, 3, 8))) if person else Unit()
    count = "n" if not person and chance.random() < 0.4 else None
    ids = chance.random() < 0.4
    far = "America/St_Johns" if tick == "30m" else "America/New_York"  # days begin with a tick
    zone = chance.choice(("Europe/Vienna", "Europe/Vienna", "UTC", far))
    measures = [
        _measure(chance, f"m{at}", person, each, count) for at in range(chance.randint(1, 4))
    ]
    discovers = any(each.discover for each in measures)
    return Publication(
        name="p",
        zone=zone,
        start="2026-03-01",
        tick=tick,
        unit=unit,
        promise={"ever": 1},
        delta=1e-9 if discovers else None,
        columns=Columns(time="time", person="who", id="id" if ids else None, count=count),
        input=Input(time_unit=chance.choice(("auto", "iso"))),
        measures=tuple(measures),
    )


def _measure(
    chance: random.Random, name: str, person: bool, each: str, count: str | None
) -> Measure:
    made: dict[str, Any] = {"name": name}
    kind = chance.choice(("events", "events", "sum", "persons", "persons"))
    if kind == "persons" and person:
        made |= {"count": "persons", "per": (each,)}
    elif kind == "sum" and count is None:
        made |= {"sum": chance.choice(("minutes", "fee")), "max": chance.choice((1, 10, 100))}
    else:
        kind = "events"
    columns, keys = chance.choice((((), ()), (("place",), DECLARED), (("place", "kind"), KINDS)))
    if columns:
        made |= {"key": columns, "keys": keys, "overall": chance.random() < 0.5}
        if chance.random() < 0.3:
            made["other"] = keys[1]
        if kind == "persons" and person:
            made["max_keys"] = chance.choice((1, 2, 3))
            made["discover"] = each in ("1d", "1mo") and chance.random() < 0.5
    if chance.random() < 0.25:
        month = each == "1mo" and person
        made["start" if chance.random() < 0.5 else "until"] = (
            "2026-04-01" if month else "2026-03-29"
        )
    return Measure(**made)


def rows_of(chance: random.Random, number: int) -> Iterator[dict[str, str]]:
    """So many rows; each is odd with a certain chance."""
    bad = chance.choice((0.0, 0.05, 0.5))
    times = chance.sample(TIMES, chance.randint(1, len(TIMES)))
    people = chance.choice((NAMES[:2], NAMES))

    def some(texts: tuple[str, ...], good: int) -> str:
        return chance.choice(texts if chance.random() < bad else texts[:good])

    for _ in range(number):
        moment = chance.choice(times).format(chance.choice((0, 1, 2, 3, 9, 23)))
        yield {
            "time": chance.choice(ODD_TIMES) if chance.random() < bad / 3 else moment,
            "who": some(people, len(people) - 1) if len(people) > 2 else chance.choice(people),
            "place": some(PLACES, 8),
            "kind": some(("bus", "tram", "ship", "", "\x00".strip("\x00") or "\x07"), 3),
            "minutes": some(AMOUNTS, 8),
            "fee": some(AMOUNTS, 8),
            "n": some(COUNTS, 6),
            "id": some(("1", "2", "3", "4", "5", ""), 5),
        }
