"""Figures of a table equal those of the local library, however often and when they are asked
for."""

from __future__ import annotations

import random
import shutil
from base64 import b64encode
from collections import Counter as Tally
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import fadecount as fc
from fadecount.errors import CheckpointError, ParameterError
from fadecount.mechanisms import Unit
from fadecount.noise import KeyedNoise
from fadecount.streams import Description, Ticks
from fadecount.streams.discovery import HiddenKeys
from fadecount.streams.embargo import draw_stages
from fadecount.streams.fence import FileFence, Mark
from tests.spark import oracle
from tests.spark.oracle import (
    SECRET,
    START,
    Event,
    expected,
    expected_frame,
    last_commit,
    rows_of,
    table_of,
    tally,
)
from tests.spark.session import events_frame, files_with, write_events

from fadecount.spark import figures  # isort: skip
from fadecount.spark.ledger import COUNTS, Ledger  # isort: skip

HOUR, DAY = 3600, 86400
KEYS = [f"page {number}" for number in range(40)]
MECHANISM = fc.Blocks(
    fc.Level(1, 0.5),
    fc.Level(24, 0.8, later=((30, 1.5), (48, 2.0))),
    fc.Level(720, 1.0, lag=50),
)
EXACT = fc.Blocks(fc.Level(1, 1000.0), fc.Level(24, 1000.0))


def stream(session: Any, state: Path, mechanism: Any = MECHANISM, **changes: Any) -> Any:
    return oracle.stream(session, state, mechanism, **{"keys": KEYS} | changes)


def some_events(number: int, seconds: int, *, start: int = START) -> list[Event]:
    chance = random.Random(11)
    keys = [*KEYS[:-3], "undeclared", None]
    return [(start + chance.randrange(seconds), chance.choice(keys)) for _ in range(number)]


def frame(session: Any, events: Sequence[tuple[Any, ...]]) -> Any:
    return session.createDataFrame(events_frame(events))


def test_a_table_that_grows_equals_the_local_library_and_is_frozen(
    spark: Any, tmp_path: Path
) -> None:
    events = some_events(3000, 40 * DAY)
    write_events(tmp_path / "in" / "0.parquet", events)
    table, pages = spark.read.parquet(str(tmp_path / "in")), stream(spark, tmp_path / "state")
    first = figures(table, pages, until="2026-01-04T12:30:00")
    early = rows_of(first)
    assert early == expected(tmp_path / "state", KEYS, tally(events, HOUR), 84)
    assert {status for _, status, *_ in early.values()} == {
        "provisional",
        "revised",
        "final",
    }

    late = [(START + HOUR, key) for key in KEYS]
    write_events(tmp_path / "in" / "1.parquet", late)
    table = spark.read.parquet(str(tmp_path / "in"))
    again = figures(table, pages, until="2026-01-04T12:30:00")
    assert rows_of(again) == rows_of(first) == early, "a counted tick is frozen"
    whole = figures(table, pages, until="2026-02-05")
    found = rows_of(whole)
    assert found == expected(tmp_path / "state", KEYS, tally(events, HOUR), 35 * 24)
    assert found.items() >= early.items()
    assert any(per == "1mo" for per, *_ in found)
    assert rows_of(figures(table, pages, until="2026-01-04T12:30:00")) == early
    log = spark.fadecount_test_root / "log"
    assert files_with([str(tmp_path / "state").encode()], log), "the log can be searched"
    noise = Ledger(spark, pages, "table").noise(last_commit(tmp_path / "state")["epoch"])
    derived = noise._stream_key
    secrets = [SECRET.encode(), bytes.fromhex(SECRET), derived, derived.hex().encode()]
    assert not files_with([*secrets, b64encode(derived)], log)


def test_a_million_rows_equal_the_local_library(spark: Any, tmp_path: Path) -> None:
    source, keys = np.random.default_rng(3), [f"key {number:04}" for number in range(1900)]
    hours = source.integers(0, 480, 100_000)
    pages = np.array([f"key {number:04}" for number in range(2000)])[
        source.integers(0, 2000, 100_000)
    ]
    events = list(zip((START + HOUR * hours).tolist(), pages.tolist(), strict=True))
    state = stream(spark, tmp_path / "state", keys=keys)
    found = figures(frame(spark, events), state, until="2026-01-21")
    counts = tally(events, HOUR)
    rows = table_of(found)
    assert len(rows) > 10**6
    frame_wanted = expected_frame(tmp_path / "state", keys, counts, 480)
    wanted = pa.Table.from_pandas(frame_wanted, schema=rows.schema, preserve_index=False)
    place = [(name, "ascending") for name in ("per", "stage", "start", "key")]
    assert rows.sort_by(place).equals(wanted.sort_by(place))


def test_two_states_have_independent_noise(spark: Any, tmp_path: Path) -> None:
    """If equal events gave equal figures, unequal ones would tell that a single event was added."""
    table = frame(spark, some_events(100, DAY))
    one, other = (
        rows_of(figures(table, stream(spark, tmp_path / name), until="2026-01-02"))
        for name in ("one", "other")
    )
    assert one.keys() == other.keys()
    assert sum(row == other[place] for place, row in one.items()) < len(one) // 2


def test_days_of_a_zone_are_ticks_and_clocks_change(spark: Any, tmp_path: Path) -> None:
    """Also before 1970."""
    days = fc.Blocks(fc.Level(1, 1000.0), fc.Level(30, 1000.0))
    cases: list[tuple[str, Any, int, str, str]] = [
        ("1d", days, 1_774_652_400, "2026-03-28", "2026-03-31"),  # the next day has 23 hours
        ("1h", EXACT, 1_774_652_400, "2026-03-28", "2026-03-31"),
        ("1d", days, -176_400, "1969-12-30", "1970-01-02"),
    ]
    for number, (tick, mechanism, begin, start, until) in enumerate(cases):
        events: list[Event] = [(begin + HOUR * hour, "a") for hour in range(-1, 72)]
        events += [(far, "a") for far in (-9_223_372_036_000, 9_223_372_036_000)]
        words = {"zone": "Europe/Vienna", "start": start, "keys": ["a"], "tick": tick}
        doors = stream(spark, tmp_path / str(number), mechanism, **words)
        rows = rows_of(figures(frame(spark, events), doors, until=until))
        values = [row[2] for place, row in sorted(rows.items()) if place[0] == "1d"]
        assert values == [24, 23 if number < 2 else 24, 24]


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
    for state, rows in (("beside", good + bad), ("empty", [])):
        table = spark.createDataFrame(rows, "at string, page string")
        found = rows_of(figures(table, stream(spark, tmp_path / state, EXACT), until="2026-01-02"))
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
@pytest.mark.parametrize(
    "caps",
    [
        {"per_person": 3, "person_per": "1d"},
        {"keys_per_person": 2, "person_per": "1d"},
        {"per_person": 2, "keys_per_person": 2},
    ],
)
def test_persons_are_capped_as_in_the_local_library(
    spark: Any, tmp_path: Path, caps: dict[str, Any]
) -> None:
    """By the person's own events in the order of their times; one event a day under each of some
    keys counts distinct persons. What has no person, or no declared key, uses up no cap."""
    chance, keys = random.Random(7), ["a", "b", "c"]
    table: list[Any] = [
        (
            START + HOUR * chance.randrange(48) + chance.randrange(3),
            chance.choice([*keys, "x"]),
            who,
        )
        for who in ["ann", "bob", "cy", "ann", None]
        for _ in range(40)
    ]
    visits = frame(spark, table)
    persons = stream(spark, tmp_path / "state", EXACT, keys=keys, person="who", **caps)
    unit = persons.options.unit
    first = rows_of(figures(visits, persons, until="2026-01-02")) if unit.keys == 1 else {}
    both = rows_of(figures(visits, persons, until="2026-01-03"))
    assert both.items() >= first.items(), "a day is capped by itself"

    counted: dict[int, dict[Any, int]] = {}
    wanted: Tally[tuple[int, str]] = Tally()
    for moment, key, who in sorted(each for each in table if each[2] and each[1] != "x"):
        hour = (moment - START) // HOUR
        slot = counted.setdefault(hour // 24 if unit.per == "1d" else hour, {})
        wanted[hour, key] += unit.takes(slot, who, keys.index(key))
    hours = {place: row[2] for place, row in both.items() if place[0] == "1h" and row[2]}
    assert hours == {("1h", START + HOUR * hour, 0, key): n for (hour, key), n in (+wanted).items()}
    assert len(hours) > 6
    identity = last_commit(tmp_path / "state")["stream"]
    assert Unit.from_json(identity["unit"]) == unit
    loss = fc.Mechanism.from_json(identity["mechanism"])
    assert loss.loss(24) == pytest.approx(2000 / unit.sensitivity, abs=1e-4), "for all events"
    if unit.per == "1d":
        with pytest.raises(ParameterError, match=r"^until must be the end of a day or tick of the"):
            figures(visits, persons, until="2026-01-03T05:00")
        assert last_commit(tmp_path / "state")["open"] == 48


# Keys that appear by themselves
# ------------------------------------------------------------------------------------------------
def test_keys_appear_as_in_the_local_library(spark: Any, tmp_path: Path) -> None:
    """Distinct persons of each day under at most two keys of each, by the local library's own maker
    with the same keyed noise; each stage at its time, and what was shown stays."""
    chance, days = random.Random(5), fc.Discovery("1d", ((2, 2.0), (26, 8.0)), 0.01, keys=2)
    words: dict[str, Any] = {"per_person": 3, "keys_per_person": 2, "person_per": "1d"}
    words |= {"keys": ["a"], "discover": True, "person": "who", "discovery": days}
    pages = stream(spark, tmp_path / "state", EXACT, **words)
    unit = pages.options.unit
    names = ["a", "b", "c", "d", "e f", "rare", "un\nprintable", None]
    table: list[Any] = [
        (START + HOUR * chance.randrange(72), chance.choice(names), f"p{chance.randrange(12)}")
        for _ in range(150)
    ]
    visits = frame(spark, table)
    early = rows_of(figures(visits, pages, until="2026-01-03"))
    found = rows_of(figures(visits, pages, until="2026-01-04"))
    assert found.items() >= early.items()

    brought: list[Tally[str]] = [Tally(), Tally(), Tally()]
    caps: list[dict[Any, int]] = [{}, {}, {}]
    for moment, key, who in sorted(each for each in table if each[1]):
        day, hidden_key = (moment - START) // DAY, key != "a"
        if key.isprintable():  # what can be no key uses up no cap
            brought[day][key] += unit.takes(caps[day], who, key if hidden_key else 0) * hidden_key
    identity, wanted = last_commit(tmp_path / "state"), {}
    description = Description(
        name="counts",
        mechanism=EXACT,
        ticks=Ticks(tick_seconds=HOUR),
        unit=unit,
        hidden=HiddenKeys(discovery=days),
    )
    for day, persons in enumerate(brought):
        counts = dict(+persons)
        noise = KeyedNoise(
            SECRET.encode(),
            epoch=identity["epoch"],
            stream="counts",
            mechanism=identity["stream"]["mechanism"],
            keys=list(counts),
        )
        first = START // HOUR + 24 * day
        for _, shown in draw_stages(description, first, START // DAY + day, counts, noise):
            public = HOUR * (first + 24 + days.stages[shown.stage][0])
            if public > START + 3 * DAY:
                continue
            for key, value in zip(shown.keys, shown.values[0].tolist(), strict=True):
                status, around = (("provisional", 1), ("final", 0))[shown.stage]
                wanted["1d", HOUR * first, shown.stage, key] = (
                    *(HOUR * first + DAY, status, value, value - around, value + around, public),
                )
    assert {place: row for place, row in found.items() if place[3] != "a"} == wanted
    assert {stage for _, _, stage, _ in wanted} == {0, 1}
    assert len({key for *_, key in wanted}) in range(2, 6), "some keys appear, others do not"
    assert {place[1] for place in found if place[3] == "a" and place[0] == "1h"} == {
        START + HOUR * hour for hour in range(72)
    }


def test_what_can_be_no_key_uses_up_no_cap_as_in_the_local_library(
    spark: Any, tmp_path: Path
) -> None:
    """Nor does a row without a key or a person. Every person counts under one key a day: the first
    that is one."""
    odd = ["un\nprintable", "", "y" * 201, None, "a\u2028b", "\ue000"]
    table: list[Any] = [(START + at, key, f"p{at}") for at, key in enumerate(odd)]
    table += [(START + HOUR, "new", f"p{at}") for at in range(6)]
    table += [(START + 2 * HOUR, "later", f"p{at}") for at in range(6)]
    table += [(START, "later", who) for who in ("", None)]
    days = fc.Discovery("1d", ((0, 1000.0),), 1e-9)
    words = {"keys": (), "discover": True, "person": "who", "person_per": "1d", "discovery": days}
    hidden = stream(spark, tmp_path / "state", EXACT, **words)
    local = fc.count(
        events_frame(table).to_pandas(),
        hidden.options,
        mechanism=EXACT,
        discovery=days,
        start=datetime(2026, 1, 1, tzinfo=UTC),
        until=datetime(2026, 1, 2, tzinfo=UTC),
    )
    found = rows_of(figures(frame(spark, table), hidden, until="2026-01-02"))
    counts = {key: row[2] for (*_, key), row in found.items()}
    assert counts == dict(zip(local["key"], local["value"], strict=True)) == {"new": 6}


# Refusals
# ------------------------------------------------------------------------------------------------
def test_a_wrong_call_is_refused_in_one_line_before_anything_is_counted(
    spark: Any, tmp_path: Path
) -> None:
    table = frame(spark, some_events(10, DAY))
    (tmp_path / "short").write_text("s" * 31)
    refusals: list[tuple[dict[str, Any], str]] = [
        ({"secret_file": None}, "secret_file must be a file that the driver can read, got none"),
        ({"secret_file": SECRET}, "secret_file must be a file that the driver can read, got none"),
        ({"secret_file": str(tmp_path / "short")}, "secret must have at least 32 bytes, got 31"),
        ({"mechanism": fc.Gradual(epsilon=1.0)}, "mechanism must be fadecount.Blocks, got Gradual"),
        ({"mechanism": "blocks"}, "mechanism must be a fadecount mechanism, got 'blocks'"),
        (
            {"mechanism": fc.Blocks(fc.Level(1, 1), planned_tick_seconds=60)},
            "tick must be 1 minute, for which the mechanism was planned, got 1 hour",
        ),
        ({"tick": "soon"}, "tick must be a positive duration, got 'soon'"),
        ({"tick": "7h"}, "tick must be a part of a day"),
        ({"zone": "Mars"}, "zone must be a time zone of the IANA database, got 'Mars'"),
        ({"start": "today"}, "start must be a time in ISO 8601, in the years 7 to 9986, got 'tod"),
        ({"until": "today"}, "until must be a time in ISO 8601, in the years 7 to 9986, got 'tod"),
        ({"until": "2026-01-01T00:59"}, "until must be a tick after start or later, and over, got"),
        ({"until": "2999-01-01"}, "until must be a tick after start or later, and over, got '2999"),
        ({"keys": []}, "keys must be given together with a key column"),
        ({"keys": [], "key": None}, "time and key must be given; they are columns"),
        ({"keys": ["a\nb"]}, "key must be 1 to 200 printable characters"),
        ({"amount": "n"}, "amount must be None, got 'n'; Spark has no such option"),
        ({"late": "next"}, "late must be None, got 'next'; Spark has no such option"),
        ({"discover": True}, "discovery must be given if keys are to be discovered, only then"),
        (
            {"discover": True, "discovery": fc.Discovery("1d", ((1, 1.0),), 1e-9)},
            "unit must be one person's day",
        ),
        ({"name": "a b"}, "stream name must be 1 to 100 letters"),
    ]
    for number, (changes, message) in enumerate(refusals):
        until = changes.pop("until", "2026-01-02")
        with pytest.raises(ParameterError) as caught:
            figures(table, stream(spark, tmp_path / str(number), **changes), until=until)
        assert str(caught.value).startswith(message)
        assert "\n" not in str(caught.value) and SECRET not in str(caught.value)
        assert not (tmp_path / str(number)).exists()
    numbers = spark.createDataFrame([(START, KEYS[0])], "at long, page string")
    with pytest.raises(ParameterError, match="time must be a column of timestamps or texts"):
        figures(numbers, stream(spark, tmp_path / "x"), until="2026-01-02")
    assert not (tmp_path / "x").exists()
    for column in ("time", "key"):  # Spark's own error names it, and what there is
        with pytest.raises(Exception, match=r"UNRESOLVED_COLUMN|pages"):
            figures(table, stream(spark, tmp_path / "x", **{column: "pages"}), until="2026-01-02")


def test_another_stream_is_refused_and_the_right_one_goes_on(spark: Any, tmp_path: Path) -> None:
    events = some_events(50, 2 * DAY)
    table, state = frame(spark, events), tmp_path / "state"
    figures(table, stream(spark, state), until="2026-01-02")
    (tmp_path / "secret").write_text("another secret of thirty-two bytes")
    changes: list[tuple[str, dict[str, Any]]] = [
        ("mechanism", {"mechanism": EXACT}),
        ("tick_seconds", {"tick": "1d", "mechanism": fc.Blocks(fc.Level(1, 0.5))}),
        ("zone", {"zone": "Europe/Vienna", "start": "2026-01-01T00:00Z"}),
        ("start", {"start": "2026-01-01T01:00"}),
        ("keys", {"keys": KEYS[1:]}),
        ("name", {"name": "other"}),
        ("secret", {"secret_file": str(tmp_path / "secret")}),
        ("unit", {"person": "who", "person_per": "1d"}),
    ]
    for name, change in changes:
        with pytest.raises(
            CheckpointError, match=rf"^({name}|mechanism) must be that of the state"
        ):
            figures(table, stream(spark, state, **change), until="2026-01-03")
    (tmp_path / "own").write_text(SECRET)
    about = {"start": "2026-01-01T00:30", "secret_file": str(tmp_path / "own")}
    same = stream(spark, state, **about)  # a start is that of its tick
    found = figures(table, same, until="2026-01-03")
    (tmp_path / "own").unlink()  # no task needs the secret
    assert rows_of(found) == expected(state, KEYS, tally(events, HOUR), 48)


@pytest.mark.parametrize("system", ["file:", "viewfs://elsewhere"])
def test_of_all_copies_of_a_state_only_the_one_with_the_last_commit_goes_on(
    spark: Any, tmp_path: Path, system: str
) -> None:
    """Also on a file system that lets a copy keep its times, and whatever is removed or moved."""
    spark.conf.set(f"fs.viewfs.mounttable.elsewhere.link.{tmp_path}", tmp_path.as_uri())
    events = some_events(50, 3 * DAY)
    table, fence = frame(spark, events), str(tmp_path / "fence")

    def count(place: Path, until: str, marks: str = fence) -> Any:
        doors = replace(stream(spark, place, fence=marks), state=f"{system}{place}")
        return rows_of(figures(table, doors, until=until))

    state, copy, older = (tmp_path / name for name in ("state", "copy", "older"))
    first = count(state, "2026-01-02")
    for place in (copy, older):
        shutil.copytree(state, place)
    assert count(copy, "2026-01-02") == first, "a copy has the same figures"
    found = count(copy, "2026-01-03")
    assert found == expected(copy, KEYS, tally(events, HOUR), 48)
    for until in ("2026-01-02", "2026-01-04"):
        with pytest.raises(CheckpointError, match=r"^state must have the last commit, 0000000001-"):
            count(state, until)
    with pytest.raises(
        CheckpointError, match=r"^state must have the last commit, None by the fence"
    ):
        count(copy, "2026-01-04", str(tmp_path / "another fence"))
    shutil.rmtree(state)
    shutil.copytree(older, state)  # with its times
    with pytest.raises(CheckpointError, match="a copy or a restored backup would put the same"):
        count(state, "2026-01-04")
    shutil.move(copy, tmp_path / "moved")
    assert count(tmp_path / "moved", "2026-01-03") == found


def test_a_commit_that_the_fence_does_not_know_yet_is_public_once_it_does(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed between the two. A copy that went on meanwhile is the only one that does."""
    events = some_events(50, 3 * DAY)
    table, (state, copy) = frame(spark, events), (tmp_path / name for name in ("state", "copy"))

    move = FileFence.move

    def killed(fence: FileFence, uid: str, expected: str | None, mark: Mark) -> None:
        if mark.steps:
            raise RuntimeError("killed")
        move(fence, uid, expected, mark)

    for until in ("2026-01-02", "2026-01-03"):
        with monkeypatch.context() as patch:
            patch.setattr(FileFence, "move", killed)
            with pytest.raises(RuntimeError, match="killed"):
                figures(table, stream(spark, state), until=until)
        if until == "2026-01-02":
            found = rows_of(figures(table, stream(spark, state), until=until))
            assert found == expected(state, KEYS, tally(events, HOUR), 24)
            shutil.copytree(state, copy)
    figures(table, stream(spark, copy), until="2026-01-04")
    with pytest.raises(CheckpointError, match=r"^state must have the last commit, 0000000001-"):
        figures(table, stream(spark, state), until="2026-01-03")


def test_a_state_is_its_owners_and_its_fence_is_outside(spark: Any, tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.mkdir(mode=0o755)
    inside = stream(spark, state, fence=str(state / "fence"))
    assert "fence" not in repr(inside), "it may hold a password"
    with pytest.raises(ParameterError, match=r"^fence must be outside the state, got "):
        figures(frame(spark, []), inside, until="2026-01-02")
    for place in (state, tmp_path / "new"):
        figures(frame(spark, some_events(50, DAY)), stream(spark, place), until="2026-01-02")
        assert place.stat().st_mode & 0o777 == 0o700
        modes = {(path.is_dir(), path.stat().st_mode & 0o777) for path in place.rglob("*")}
        assert modes == {(True, 0o700), (False, 0o600)}


def test_one_of_two_jobs_at_a_time_is_refused(spark: Any, tmp_path: Path) -> None:
    """Three jobs have counted the same ticks. What the first one counted stays; the others are
    never published, not even when the commit of the first is removed after the next one."""
    pages, empty = stream(spark, tmp_path / "state"), spark.createDataFrame([], COUNTS)
    one, other, slow = (Ledger(spark, pages, "table") for _ in range(3))
    first, second, third = (each.last() for each in (one, other, slow))
    assert len({first.epoch, second.epoch, third.epoch}) == 3
    one.append(first, empty, open=2)
    with pytest.raises(CheckpointError, match=r"^state must be used by one job at a time"):
        other.append(second, empty, open=2)
    assert other.last().epoch == first.epoch
    after = one.append(one.last(), empty, open=3)
    with pytest.raises(CheckpointError, match=r"^state must be used by one job at a time"):
        slow.append(third, empty, open=2)
    assert other.last() == replace(after, parts=list(after.parts))
    assert other.counts(other.last(), 0).count() == 0
