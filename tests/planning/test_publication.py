"""Publications: their file, what is refused and with which words, and the way back to a file."""

from __future__ import annotations

import tomllib
from dataclasses import fields
from datetime import UTC, datetime, time
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import fadecount as fc
from fadecount.errors import ParameterError
from fadecount.planning.publication import Columns, Measure, Publication
from fadecount.planning.publication_file import (
    fields_of,
    parse_publication,
    publication_of,
    read_publication,
    to_toml,
)

RIDES = """
title = "Bicycle rides"
zone = "Europe/Vienna"
start = 2026-03-01
unit = { of = "person", each = "1d", max_events = 2 }
columns = { time = "started_at", person = "card", id = "ride_id" }
[loss]
7d = 2
ever = 4
[input]
separator = ";"
[measures.rides]
key = "station"
keys = ["north", "south"]
overall = true
per = ["1h", "1d", "1mo"]
[measures.riders]
count = "persons"
[measures.minutes]
sum = "minutes"
max = 120
share = 2
"""


def test_a_file_says_what_is_published() -> None:
    rides = parse_publication(RIDES, name="rides")
    assert (rides.name, rides.title, rides.start) == ("rides", "Bicycle rides", "2026-03-01")
    assert rides.columns == Columns(time="started_at", person="card", id="ride_id")
    assert rides.limits == ((604_800, Fraction(2)), (None, Fraction(4)))
    parts = [(each.measure.name, each.part, each.weight) for each in rides.parts]
    assert parts == [
        ("rides", "keys", 2),
        ("rides", "overall", 2),
        ("riders", "keys", 1),
        ("minutes", "keys", 120),
    ]
    assert rides.lengths(rides.measures[0]) == (1, 24, 720)


def test_the_smallest_file() -> None:
    text = 'zone = "UTC"\nstart = 2026-03-01\nunit = { of = "event" }\nloss = { ever = 1 }\n'
    visits = parse_publication(f"{text}[measures.visits]\n", name="visits")
    assert visits.measures == (Measure(name="visits"),) and visits.feed == "files"
    assert visits.limits == ((None, Fraction(1)),)


def test_without_ever_the_last_limit_holds() -> None:
    text = RIDES.replace("ever = 4\n", "30d = 4\n")
    assert parse_publication(text, name="rides").limits[-1] == (None, Fraction(4))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("zone =", "zoen =", "zoen must be a known field, got an unknown one; did you mean zone?"),
        ("Europe/Vienna", "Mars", "zone must be a time zone of the IANA database, got 'Mars'"),
        ("start = 2026-03-01\n", "", "start must be given; such as start = 2026-03-01"),
        ("= 2026-03-01", '= "2026-03-01T00:30"', "start must be when a tick of 1h begins"),
        ("= 2026-03-01", '= "2026-03-01T00:00+01:00"', "start must be a local time without"),
        ("7d = 2", '7d = "2"', "loss.7d must be a number, got '2'"),
        ("7d = 2", "7d = true", "loss.7d must be a number, got True"),
        ("7d = 2", "7d = nan", "loss.7d must be between 0 and 1000000"),
        ("7d = 2", "7d = 5", "loss at ever must be at least 5, as before, got 4.0"),
        ("7d = 2", "7d = 2\n168h = 2", "loss must name each age once"),
        ("ever = 4", 'ever = 4\nzone = "UTC"', "zone must stand above the first table, got it in"),
        ("[input]", '[input]\nstart = "x"', "start must stand above the first table, got it in"),
        ("max = 120", "", "measures.minutes.max must be given with sum"),
        ("max = 120", "max = 1.5", "measures.minutes.max must be an integer from 1"),
        ("max = 120", 'max = 9\ncount = "persons"', "measures.minutes.count must be left out"),
        ("= true", "= 2", "measures.rides.overall must be strictly between 0 and 1, got 2"),
        ('count = "persons"', "overall = true", "measures.riders.overall must be left out where"),
        ('key = "station"\n', "", "measures.rides.keys must be given with key"),
        ('keys = ["north", "south"]\n', "", "measures.rides.keys must be given with key: a public"),
        ('"north"', '"south"', "measures.rides.keys must be there once, got 'south'"),
        ('"north"', '"no\\nrth"', "measures.rides.keys must be 1 to 200 printable characters"),
        ("separator", "seperator", "input.seperator must be a known field, got an unknown one"),
        ('";"', '"x"', "input.separator must be one of"),
        ("share = 2", "share = 0", "measures.minutes.share must be strictly between 0"),
        ('["1h", "1d"', '["2h", "3h"', "measures.rides.per must be a multiple of 2h, got '3h'"),
        ('["1h", "1d"', '["7h", "1d"', "measures.rides.per must be ticks of 1h, parts of a day"),
        ('["1h", "1d"', '["1h", "1h"', "measures.rides.per must be different ones"),
        ("max_events", "max_event", "unit.max_event must be a known field"),
        ("max_events = 2", "max_events = 0", "unit.max_events must be an integer from 1"),
        ('each = "1d"', 'each = "5m"', "unit.each must be ticks of 1h, a day or months"),
        ('each = "1d", ', "", "unit.each must be a length such as 1d"),
        ('"persons"', '"person"', "measures.riders.count must be one of 'events', 'persons'"),
        ('"persons"', '"persons"\nper = ["1mo"]', "measures.riders.per must be at most 1d"),
        ('"persons"', '"persons"\nmax_keys = 2', "measures.riders.max_keys must be left out"),
        ('"minutes"\n', '"minutes"\ndiscover = true\n', "measures.minutes.discover must be given"),
        ('key = "station"', 'key = "station"\ndiscover = true', "measures.rides.discover must be"),
        ('key = "station"', 'key = "station"\nother = "x"', "measures.rides.other must be one of"),
        ('key = "station"', 'key = "station"\nlabels = {x="y"}', "measures.rides.labels must be"),
        ('["north", "south"]', '"stations.txt"', "measures.rides.keys must be a file with one key"),
        ("[measures.riders]", "[measures.Riders]", "name of a measure must be 1 to 64 small"),
        ('title = "', 'late = "1d"\ntitle = "', "late must be left out"),
        ('title = "', 'feed = "pipe"\ntitle = "', "feed must be one of 'files', 'live'"),
        ("[loss]", "[loss", "publication must be TOML, got an error"),
        ('"card"', '"card", count = "n"', "columns.count must be left out where the unit is a"),
        ("share = 2", 'share = 2\nstart = "2026-03-05T06:00"', "measures.minutes.start must be"),
        ("share = 2", "share = 2\nuntil = 2026-02-01", "measures.minutes.until must be after"),
        ("share = 2", 'share = 2\nmechanism = "gradual"', "measures.minutes.mechanism must be al"),
    ],
)
def test_what_is_wrong_is_named_with_its_place(old: str, new: str, message: str) -> None:
    assert old in RIDES
    with pytest.raises(ParameterError) as error:
        parse_publication(RIDES.replace(old, new, 1), name="rides")
    assert message in str(error.value)
    assert "\n" not in str(error.value)


FIELDS = [
    *("name", "title", "zone", "start", "tick", "unit", "loss", "reserve", "delta", "columns"),
    *("input", "feed", "measures", "unit.of", "unit.each", "unit.max_events", "columns.time"),
    *("input.separator", "loss.ever", "measures.rides", "contact", "licence", "description"),
    *(f"measures.rides.{each.name}" for each in fields(Measure) if each.name != "name"),
]
WRONG: list[Any] = [
    *(5, -1, 1.5, float("nan"), float("inf"), True, "", "x", "\n", [], [[]], [5], [["a", 5]]),
    *(["x", "x"], {}, {"x": 5}, {"a": {}}, 10**30, time(10), datetime(2026, 3, 1, tzinfo=UTC)),
]


@pytest.mark.parametrize("place", FIELDS)
def test_no_value_of_any_kind_is_more_than_one_line(place: str, tmp_path: Path) -> None:
    """Each field with each kind of value gives a publication, or one line that names the place."""
    *tables, field = place.split(".")
    refused = 0
    for value in WRONG:
        given = tomllib.loads(RIDES)
        table = given
        for each in tables:
            table = table[each]
        table[field] = value
        try:
            made = publication_of(given, name="rides", folder=tmp_path)
            assert publication_of(fields_of(made), name="rides") == made
            made.plan()
        except ParameterError as error:
            refused += 1
            text = str(error)
            assert "\n" not in text and " must " in text
            assert field.removesuffix("s") in text or tables[-1:] == ["rides"] or value in ({}, [])
    assert refused > len(WRONG) // 2 or place in FREE


FREE = {"title", "contact", "licence", "description", "columns.time", "measures.rides.other"}


def test_times_are_compared_as_times() -> None:
    """However they are written: measures that overlap are never taken for others."""
    text = RIDES.split("[measures.rides]", maxsplit=1)[0]
    both = "[measures.r]\nuntil = {}\n[measures.s]\nstart = {}\n"
    for until, start in (
        ('"20260501"', "2026-04-01"),
        ('"2026-W18-5"', '"20260401"'),
        ("2026-05-01T00:00:00", "2026-04-01"),
    ):
        made = parse_publication(text + both.format(until, start), name="rides")
        assert [(each.start, each.until) for each in made.measures] == [
            (None, "2026-05-01"),
            ("2026-04-01", None),
        ]
        assert [each.millionths(1 << 40) for each in made.plan().series] == [2_000_000] * 2


def test_zones_whose_days_begin_within_a_tick_and_without_a_day() -> None:
    text = RIDES.replace("Europe/Vienna", "Asia/Kolkata")
    with pytest.raises(ParameterError, match="zone must be one whose days begin with a tick of 1h"):
        parse_publication(text, name="rides")
    parse_publication('tick = "30m"\n' + text, name="rides")
    text = RIDES.replace("Europe/Vienna", "Pacific/Apia").replace("2026", "2011")
    with pytest.raises(ParameterError, match="zone must be one that leaves out no day"):
        parse_publication(text, name="rides")


def test_slots_of_years_are_those_of_the_calendar() -> None:
    """Three years begin with 1970, as blocks do."""
    text = RIDES.split("[measures.rides]", maxsplit=1)[0].replace('"1d"', '"3y"')
    for year, fits in ((2027, True), (2028, False), (2029, False), (2030, True)):
        more = f"[measures.r]\n[measures.s]\nstart = {year}-01-01\n"
        if fits:
            parse_publication(text + more, name="rides")
        else:
            with pytest.raises(ParameterError, match=r"measures.s.start must be when a 3 y"):
                parse_publication(text + more, name="rides")


def test_events_have_no_persons_and_rows_of_several() -> None:
    text = 'zone = "UTC"\nstart = 2026-03-01\nunit = { of = "event" }\nloss = { ever = 1 }\n'
    text += 'columns = { count = "n" }\n'
    assert parse_publication(text + "[measures.a]\n", name="a").columns.count == "n"
    for more, message in (
        ('count = "persons"', "measures.a.count must be events where the unit is one event"),
        ('sum = "x"\nmax = 3', "columns.count must be left out where measures sum a column"),
    ):
        with pytest.raises(ParameterError, match=message):
            parse_publication(f"{text}[measures.a]\n{more}\n", name="a")


def test_keys_from_a_file_with_labels_and_several_columns(tmp_path: Path) -> None:
    (tmp_path / "stations.txt").write_text("north\tNorth gate\n\nsouth\n", encoding="utf-8-sig")
    (tmp_path / "kinds.txt").write_text("north\tbike\tNorth, bikes\nnorth\tcar\n")
    file = tmp_path / "rides.toml"
    text = RIDES.replace('["north", "south"]', '"stations.txt"')
    text += '[measures.kinds]\nkey = ["station", "kind"]\nkeys = "kinds.txt"\n'
    file.write_text(text)
    rides = read_publication(file)
    assert rides.name == "rides"
    stations, kinds = rides.measures[0], rides.measures[-1]
    assert (stations.keys, stations.labels) == (("north", "south"), {"north": "North gate"})
    assert kinds.keys == ("north\tbike", "north\tcar")
    assert kinds.labels == {"north\tbike": "North, bikes"}
    assert publication_of(fields_of(rides)) == rides
    with pytest.raises(ParameterError, match="publication must be a TOML file that can be read"):
        read_publication(tmp_path / "none.toml")


def test_one_list_for_one_column() -> None:
    text = RIDES + '[measures.others]\nkey = "station"\nkeys = ["south"]\n'
    with pytest.raises(ParameterError, match=r"measures.others.keys must be those of measures.rid"):
        parse_publication(text, name="rides")


def test_measures_of_one_name_follow_each_other() -> None:
    both = "[[measures.r]]\nuntil = 2026-04-01\n[[measures.r]]\nstart = 2026-{}\nshare = 2\n"
    text = RIDES.split("[measures.rides]", maxsplit=1)[0]
    rides = parse_publication(text + both.format("04-01"), name="rides")
    assert [each.share for each in rides.measures] == [1, 2]
    assert parse_publication(to_toml(rides), name="rides") == rides
    with pytest.raises(ParameterError, match="measures must be named once at a time, got 'r'"):
        parse_publication(text + both.format("03-20"), name="rides")


def test_keys_that_appear_need_persons_and_a_delta() -> None:
    text = RIDES.replace(
        'count = "persons"', 'count = "persons"\nkey = "page"\ndiscover = true\nmax_keys = 5'
    )
    with pytest.raises(ParameterError, match="delta must be given where keys appear by themselves"):
        parse_publication(text, name="rides")
    rides = parse_publication("delta = 1e-9\n" + text, name="rides")
    assert rides.measures[1].weight(rides.unit) == 5


def test_only_a_unit_without_caps_of_its_own() -> None:
    with pytest.raises(ParameterError, match="amount of the unit must be 1, got 3"):
        Publication(
            name="a",
            zone="UTC",
            start="2026-03-01",
            unit=fc.Unit(amount=3),
            promise={"ever": 1},
            measures=(Measure(name="a"),),
        )


NAMES = st.from_regex(r"[a-z][a-z0-9_-]{0,20}", fullmatch=True)
TEXTS = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), max_size=20)
KEYS = TEXTS.filter(lambda text: bool(text) and text.isprintable())


@given(
    title=TEXTS,
    names=st.lists(NAMES, min_size=1, max_size=3, unique=True),
    keys=st.lists(KEYS, max_size=4, unique=True),
    share=st.floats(0.001, 1000),
    per=st.sampled_from([("1d",), ("1h", "1d"), ("1mo",)]),
    labels=st.booleans(),
)
def test_a_publication_survives_its_file(
    title: str,
    names: list[str],
    keys: list[str],
    share: float,
    per: tuple[str, ...],
    labels: bool,
) -> None:
    own = {"key": ("station",), "keys": tuple(keys)} if keys else {}
    if keys and labels:
        own["labels"] = {keys[0]: title}  # type: ignore[assignment] # a mapping
    made = Publication(
        name="made",
        title=title,
        zone="Europe/Vienna",
        start="2026-03-01T05:00",
        unit=fc.Unit(of="person", events=3, per="1mo"),
        promise={"30d": 0.1, "ever": 1 / 3},
        measures=tuple(Measure(name=name, share=share, per=per, **own) for name in names),  # type: ignore[arg-type] # as above
    )
    assert publication_of(fields_of(made)) == made
    assert parse_publication(to_toml(made), name="made") == made
