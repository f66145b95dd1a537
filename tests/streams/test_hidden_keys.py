"""Keys that appear by themselves in durable streams: when they appear, what is stored of them until
then, and what is destroyed."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import fadecount as fc
from fadecount.errors import FullError, InputError, ParameterError, StoreError
from fadecount.mechanisms import Unit
from fadecount.mechanisms.unit import person_digest
from fadecount.streams import (
    Batch,
    Description,
    Reader,
    Seal,
    Stream,
    Ticks,
    embargo,
    inputs,
    sqlite,
)
from fadecount.streams import stream as stream_module
from fadecount.streams.audit_log import AuditLog
from fadecount.streams.backup import make_backup
from fadecount.streams.discovery import DISCOVERED, HiddenKeys
from fadecount.streams.embargo import SMALLEST_CLASS, draw_stages
from fadecount.streams.export import about_stream, csv_text, published_tables, table_rows
from fadecount.streams.figures import packed, unpacked
from fadecount.streams.seal import TAG
from tests.streams.backends import Backend, PostgresBackend, SQLiteBackend
from tests.streams.hidden_keys import (
    DAYS,
    DISCOVERY,
    FIRST,
    HOURS,
    ScriptedNoise,
    bring,
    create,
    describe,
    shown,
)
from tests.streams.test_destruction import bytes_of


def published(backend: Backend) -> list[tuple[int, str, int, int]]:
    with backend.reader() as reader:
        return shown(reader.stream("pages").discovered())


def test_a_key_appears_at_the_stage_whose_threshold_it_passes(backend: Backend) -> None:
    with backend.open(noise=ScriptedNoise([0], [0])) as store:  # type: ignore[arg-type]
        stream = create(store)
        bring(stream, "many", range(30))
        bring(stream, "some", range(30, 45))
        bring(stream, "few", range(45, 53))
        stream.close_through(FIRST + 22)
        assert not published(backend)
        (closed,) = stream.close_through(FIRST + 23)
        assert [list(each.keys) for each in closed.figures if each.level == DISCOVERED] == [
            ["many"]
        ]
        assert published(backend) == [(0, "many", 0, 30)]
        assert not backend.query("SELECT * FROM hidden")
        stream.close_through(FIRST + 23 + 29)
        assert published(backend) == [(0, "many", 0, 30)]
        stream.close_through(FIRST + 23 + 30)
        assert published(backend) == [(0, "many", 1, 30), (0, "some", 1, 15)]
    with backend.reader() as reader:
        table = reader.stream("pages").discovered()
        day, lag = 24 * 3600, 30 * 3600
        assert (table["appeared"] - table["start"]).tolist() == [day, day + lag]
        assert (table["published"] - table["end"]).tolist() == [lag, lag]
        assert (table["high"] - table["value"]).tolist() == [1, 1], (
            "95 % of the noise of the last stage"
        )
        before = reader.stream("pages").discovered(as_of=FIRST + 24)
        assert shown(before) == [(0, "many", 0, 30)], "as it was shown then"
        assert (before["high"] - before["value"]).tolist() == [3]


def test_noise_decides_and_what_was_shown_stays_shown(backend: Backend) -> None:
    """The coarse value has both noises; the sharp one that of the last stage alone."""
    noise = ScriptedNoise([14, 10, 20, -30], [2, -3, -18, 0])
    with backend.open(noise=noise) as store:  # type: ignore[arg-type]
        stream = create(store)
        bring(stream, "passes by noise", range(10))  # 26, then 12
        bring(stream, "misses by noise", range(10, 24))  # 21, then 11
        bring(stream, "vanishes never", range(24, 44))  # 22, then 2
        bring(stream, "hidden at first", range(44, 75))  # 1, then 31
        stream.close_through(FIRST + 23)
        assert published(backend) == [(0, "passes by noise", 0, 26), (0, "vanishes never", 0, 22)]
        stream.close_through(FIRST + 60)
        assert published(backend) == [
            (0, "hidden at first", 1, 31),
            (0, "misses by noise", 1, 11),
            (0, "passes by noise", 1, 12),
            (0, "vanishes never", 1, 2),
        ]


def test_keys_are_sorted_by_their_bytes_whatever_their_order(backend: Backend) -> None:
    names = ["é", "z", "a\u00df", "B", "\U0001f600", "中", "a b"]
    with backend.open(noise=ScriptedNoise([40], [0])) as store:  # type: ignore[arg-type]
        stream = create(store)
        for at, name in enumerate(names):
            bring(stream, name, [at])
        stream.close_through(FIRST + 23)
    found = [key for _, key, _, _ in published(backend)]
    assert found == sorted(names, key=str.encode) and found != sorted(names, key=str.lower)


def test_each_day_is_its_own_and_empty_days_show_nothing(backend: Backend) -> None:
    with backend.open(noise=ScriptedNoise([0], [0])) as store:  # type: ignore[arg-type]
        stream = create(store)
        bring(stream, "a", range(25))
        stream.close_through(FIRST + 24 * 3)  # days without events among them
        bring(stream, "a", range(26))
        stream.close_through(FIRST + 24 * 4)
    assert published(backend) == [(0, "a", 1, 25), (3, "a", 0, 26)]
    rows = backend.query("SELECT stage, COUNT(*) FROM figures WHERE level = -1 GROUP BY stage")
    assert sorted(rows) == [(0, 4), (1, 2)], "a figure for each day, with or without keys"


def test_released_keys_count_once_and_in_their_own_day(
    backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many transactions the ticks take, and whatever empty ticks come before them."""
    monkeypatch.setattr(stream_module, "CELLS", 4)
    with backend.open(noise=ScriptedNoise([0], [0])) as store:  # type: ignore[arg-type]
        stream = create(store)
        rows = np.zeros((10, 0), dtype=np.int64)
        hidden = {"many": 22, "one person's": 1}
        closed = list(stream.release(FIRST, rows, hidden=hidden))
        assert [each.last_tick - each.first_tick + 1 for each in closed] == [10]
        # the rest of this day is empty, and so is the next day
        list(stream.release(FIRST + 50, rows, hidden={"later": 23}))
        assert published(backend) == [(0, "many", 1, 22)]
        stream.close_through(FIRST + 71)
        assert published(backend)[-1] == (2, "later", 0, 23)
        assert "one person's" not in [key for _, key, _, _ in published(backend)]


def test_released_persons_are_noted_in_their_own_day(backend: Backend) -> None:
    described = replace(describe(), unit=Unit(of="person", events=2, per="1d"), hidden=None)
    with backend.open() as store:
        stream = create(store, described, ["a"])
        stream.add({"a": 1}, person="bob")
        (ann,) = (person_digest(each, stream.person_key) for each in ["ann"])
        rows, noted = np.ones((2, 1), dtype=np.int64), stream.persons_noted
        closed = list(stream.release(FIRST + 30, rows, noted=noted, persons={ann: 2}))
        assert [each.first_tick for each in closed] == [FIRST, FIRST + 30]
        assert stream.persons_counted(["ann", "bob"]).tolist() == [2, 0]


def test_inputs_of_several_days_name_nobody(backend: Backend) -> None:
    with backend.open() as store:
        stream = create(store)
        for ticks, given in (
            (30, {"hidden": {"a": 1}}),
            (0, {"hidden": {"a": 1}}),
            (30, {"persons": {b"ann": 1}}),
        ):
            rows = np.zeros((ticks, 0), dtype=np.int64)
            with pytest.raises(InputError, match="ticks of one day; release others by themselves"):
                list(stream.release(FIRST, rows, **given))
        assert stream.status.steps == 0


def test_months_are_those_of_the_calendar(backend: Backend) -> None:
    """Each person counts once a month; the stream begins in the middle of one."""
    months = fc.Discovery("1mo", ((0, 1.0), (30, 3.0)), 1e-9)
    described = replace(
        describe(discovery=replace(DISCOVERY)),
        unit=Unit(of="person", per="1mo"),
        hidden=HiddenKeys(discovery=months),
    )
    with backend.open(noise=ScriptedNoise([0], [0])) as store:  # type: ignore[arg-type]
        stream = create(store, described)  # 2024-10-04
        for day in (0, 3, 27):
            stream.close_through(FIRST + 24 * day - 1)
            bring(stream, "a", range(20))
            bring(stream, "a", range(20 + day, 30 + day))
        stream.close_through(FIRST + 24 * 28 - 1)
        assert published(backend) == [(0, "a", 0, 43)], "20, and 10, 3 and 10 more"
        stream.close_through(FIRST + 24 * 60)
    assert published(backend) == [(0, "a", 1, 43)]


def test_a_day_less_moves_two_counts_of_a_month(backend: Backend) -> None:
    """Both by 1: the person's next key counts instead. So a day loses up to twice the loss of a
    month (docs/keys.md)."""
    months = HiddenKeys(discovery=fc.Discovery("1mo", ((0, 1.0),), 1e-9))
    found = []
    for days in (["a", "b"], ["b"]):
        described = replace(
            describe(), name=f"{len(days)}", unit=Unit(of="person", per="1mo"), hidden=months
        )
        with backend.open(noise=ScriptedNoise([30])) as store:  # type: ignore[arg-type]
            stream = create(store, described)
            for key in "ab":
                bring(stream, key, [f"{key}{number}" for number in range(5)])
            for day, key in enumerate(days):
                stream.close_through(FIRST + 24 * day)
                bring(stream, key, ["one"])
            stream.close_through(FIRST + 24 * 40)
            found.append(shown(store.reader().stream(described.name).discovered()))
    assert found == [[(0, "a", 1, 36), (0, "b", 1, 35)], [(0, "a", 1, 35), (0, "b", 1, 36)]]


class TestPersons:
    def test_a_person_counts_once_under_a_key(self, backend: Backend) -> None:
        with backend.open(noise=ScriptedNoise([40], [0])) as store:  # type: ignore[arg-type]
            stream = create(store, describe(keys=3, events=5, discovery=replace(DISCOVERY, keys=3)))
            for hour in range(4):
                stream.add({"a": 9, "b": 1}, person="one")
                stream.add({"a": 1}, person="two")
                stream.close_through(FIRST + hour)
            stream.close_through(FIRST + 60)
        assert published(backend) == [(0, "a", 1, 2), (0, "b", 1, 1)]

    def test_the_first_keys_of_a_person_count(self, backend: Backend) -> None:
        """Declared and hidden ones alike: the cap is one."""
        with backend.open(noise=ScriptedNoise([40], [0])) as store:  # type: ignore[arg-type]
            described = describe(keys=2, discovery=replace(DISCOVERY, keys=2))
            stream = create(store, described, ["home"])
            for key in ("first", "home", "third"):
                stream.add({key: 1}, person="one")
            for key in ("a", "b", "home"):
                stream.add({key: 1}, person="two")
            stream.close_through(FIRST + 60)
            days = store.reader().stream("pages").figures("1d").values[0]
        assert [key for _, key, _, _ in published(backend)] == ["a", "b", "first"]
        assert days.tolist() == [1]

    def test_other_counts_them_too(self, backend: Backend) -> None:
        with backend.open(noise=ScriptedNoise([0], [0])) as store:  # type: ignore[arg-type]
            stream = create(store, describe(other="other"), ["home", "other"])
            bring(stream, "a", range(25))
            bring(stream, "b", range(25, 30))
            bring(stream, "home", range(30, 37))
            stream.close_through(FIRST + 23)
            days = store.reader().stream("pages").figures("1d").values[0]
        assert days.tolist() == [7, 30]
        assert published(backend) == [(0, "a", 0, 25)]


class TestAddresses:
    """At most two persons of an address count under a hidden key: ``x 1`` is one of those at
    ``x``."""

    def test_persons_of_an_address_who_count_under_a_key(self, backend: Backend) -> None:
        """In any number of batches, over keys, intakes, restarts and days. A third one moves
        nothing, and neither do others of that address under other keys."""
        described = describe(
            keys=2, discovery=replace(DISCOVERY, keys=2), other="other", per_address=2
        )
        noise = ScriptedNoise([40], [0])
        with backend.open(noise=noise) as store:  # type: ignore[arg-type]
            stream = create(store, described, ["home", "other"])
            bring(stream, "line", [f"x {at}" for at in range(5)])
            bring(stream, "home", [f"x {at}" for at in range(5)])
            for key, who in (("line", "x"), ("line", "y"), ("new", "x 7"), ("new", "x")):
                store.intake("pages").add({key: 1}, person=who)
            stream.close_through(FIRST + 3)
        with backend.open(noise=noise) as store:  # type: ignore[arg-type]
            stream = store.open("pages")
            for who in ("x 8", "y 1", "y 2", "xy 1", "x 1"):
                stream.add({"line": 1}, person=who)
            stream.close_through(FIRST + 23)
            bring(stream, "line", [f"x {at}" for at in range(3)])
            days = store.reader().stream("pages").figures("1d").values[0]
            stream.close_through(FIRST + 47)
        assert published(backend) == [
            (0, "line", 0, 45), (0, "new", 0, 42), (1, "line", 0, 42),
        ]  # fmt: skip
        assert days.tolist() == [5, 5 + 2 + 2 + 4], "declared keys count all of them, other too"
        assert not backend.query("SELECT * FROM persons"), "it is gone with the day"

    def test_what_is_written_does_not_tell_whether_a_person_counts(self, backend: Backend) -> None:
        """The first ones of an address, and those after."""
        with backend.open() as store:
            stream = create(store, describe(per_address=2))
            rows = []
            for at in range(5):
                stream.add({"line": 1}, person=f"x {at}")
                ((persons, names),) = backend.query(
                    "SELECT COUNT(*), SUM(LENGTH(person)) FROM persons"
                )
                rows.append((persons, names, backend.query("SELECT LENGTH(body) FROM hidden")))
        assert [persons for persons, _, _ in rows] == [2, 3, 4, 5, 6]
        assert {names / persons for persons, names, _ in rows} == {8 + 16}
        assert rows[-1][2] == [rows[0][2][0]] * 5

    def test_two_processes_at_once(self, postgres_url: str, tmp_path: Path) -> None:
        """Each sends visitors of the same addresses in its own order: none waits for ever, and no
        more count than may."""
        backend = PostgresBackend(tmp_path, postgres_url, "addresses")
        with backend.open(noise=ScriptedNoise([40], [0])) as store:  # type: ignore[arg-type]
            stream = create(store, describe(per_address=7))

            def send(name: str, order: int) -> None:
                with backend.open() as other:
                    intake = other.intake("pages")
                    for start in range(0, 20, 4):
                        persons = [
                            Batch(counts={f"{key}": 1}, person=f"{address} {name}{key}{at}")
                            for key in (1, 2)
                            for address in "xy"
                            for at in range(start, start + 4)
                        ]
                        intake.add_many(persons[::order])

            with ThreadPoolExecutor() as threads:
                list(threads.map(send, "ab", (1, -1)))
            stream.close_through(FIRST + 23)
        assert published(backend) == [(0, "1", 0, 54), (0, "2", 0, 54)]

    def test_it_is_shown(self) -> None:
        """In the description, with what intervals do not cover."""
        told = about_stream(describe(per_address=3))
        assert told["hidden"]["per_address"] == 3
        assert told["interval"].endswith("by itself, at most 3 persons of one address count")
        assert "per_address" not in about_stream(describe())["hidden"]
        assert "address" not in about_stream(describe())["interval"]


class TestDeclaring:
    def test_what_was_hidden_that_day_is_destroyed(self, backend: Backend) -> None:
        with backend.open(noise=ScriptedNoise([40], [0])) as store:  # type: ignore[arg-type]
            stream = create(store)
            bring(stream, "a", range(3))
            bring(stream, "b", range(3, 5))
            stream.close_through(FIRST + 4)
            stream.declare(["a"])
            bring(stream, "a", range(5, 9))
            stream.close_through(FIRST + 24 + 3)
            bring(stream, "a", range(11))
            stream.close_through(FIRST + 48)
            figures = store.reader().stream("pages").figures("1d")
        assert [row[:2] for row in published(backend)] == [(0, "b")]
        assert figures.known[:2].tolist() == [[False], [True]], "from the next day on"
        assert figures.values[1].tolist() == [11]

    def test_another_process_learns_of_it(self, backend: Backend) -> None:
        with backend.open(noise=ScriptedNoise([40], [0])) as store:  # type: ignore[arg-type]
            stream = create(store)
            intake = store.intake("pages")
            intake.add({"a": 1}, person="one")
            stream.close_through(FIRST + 23)
            stream.declare(["a"])
            intake.add({"a": 1}, person="one")
            stream.close_through(FIRST + 24)
            hours = store.reader().stream("pages").figures("1h", since=FIRST + 24)
        assert hours.values.tolist() == [[1]]


class TestTheOpenDay:
    def test_rows_are_joined_and_nothing_is_lost(
        self, backend: Backend, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(inputs, "JOIN_ENTRIES", 8)
        with backend.open(noise=ScriptedNoise([90], [0])) as store:  # type: ignore[arg-type]
            stream = create(store)
            for person in range(60):
                stream.add({f"key {person % 20}": 1}, person=f"{person}")
            assert len(backend.query("SELECT id FROM hidden")) < 30
            stream.close_through(FIRST + 23)
        expected = sorted(f"key {each}" for each in range(20))
        assert published(backend) == [(0, key, 0, 93) for key in expected]

    def test_when_rows_are_joined_does_not_depend_on_keys(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Declared, always the same, ever new, of one person: a pause would tell them apart."""
        monkeypatch.setattr(inputs, "JOIN_ENTRIES", 8)
        seen = []
        for name, (key, who) in enumerate((("home", "{}"), ("a", "{}"), ("{}", "{}"), ("a", "x"))):
            folder = tmp_path / f"{name}"
            folder.mkdir()
            with SQLiteBackend(folder).open() as store:
                stream = create(store, keys=["home"])
                rows = []
                for number in range(200):
                    stream.add({key.format(number): 1}, person=who.format(number))
                    ((count,),) = store._database.query("SELECT COUNT(*) FROM hidden")
                    rows.append(count)
            seen.append(rows)
        assert max(seen[0]) < 30 and all(rows == seen[0] for rows in seen)

    def test_a_batch_counts_once(self, backend: Backend) -> None:
        with backend.open(noise=ScriptedNoise([40], [0])) as store:  # type: ignore[arg-type]
            stream = create(store)
            batch = Batch(counts={"a": 1}, id="x", person="one")
            assert stream.add_many([batch, batch]) == [True, False]
            assert stream.add_many([batch]) == [False]
            stream.close_through(FIRST + 23)
        assert published(backend) == [(0, "a", 0, 41)]

    @pytest.mark.parametrize("key", ["", "x" * 201, "a\nb", "\x00", "\ud800"])
    def test_a_text_that_no_key_can_have_is_refused(self, tmp_path: Path, key: str) -> None:
        with SQLiteBackend(tmp_path).open() as store:
            stream = create(store)
            with pytest.raises(InputError, match="key must be 1 to 200 printable"):
                stream.add({"good": 1, key: 1}, person="one")
            assert not store._database.query("SELECT 1 FROM hidden")

    def test_a_full_table_stops_the_stream(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(inputs, "JOIN_ENTRIES", 1 << 30)
        monkeypatch.setattr(embargo, "MOST_KEYS", 3)
        with SQLiteBackend(tmp_path).open() as store:
            stream = create(store)
            for person in range(4):
                bring(stream, f"{person}", [person])
            for _ in range(2):
                with pytest.raises(FullError, match="at most 3; the stream stops"):
                    stream.close_through(FIRST + 23)

    def test_a_full_table_tells_nobody_which_keys_are_new(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The request that brings one key too many is taken like any other; then none is."""
        monkeypatch.setattr(inputs, "JOIN_ENTRIES", 4)
        monkeypatch.setattr(embargo, "MOST_KEYS", 3)
        with SQLiteBackend(tmp_path).open() as store:
            stream = create(store)
            with pytest.raises(FullError):
                for person in range(20):  # rows are joined from time to time
                    bring(stream, f"{person}", [person])
            assert person > 3
            for key in ("0", "new"):
                with pytest.raises(FullError, match="at most 3; the stream stops"):
                    stream.add({key: 1}, person="x")

    def test_a_sample_is_fixed_for_the_day(self, backend: Backend) -> None:
        with backend.open(noise=ScriptedNoise([40], [0])) as store:  # type: ignore[arg-type]
            stream = create(store, describe(sample=0.5))
            for day in range(2):
                brought = [Batch(counts={f"{at % 60}": 1}, person=f"{at}") for at in range(120)]
                stream.add_many(brought)
                stream.close_through(FIRST + 24 * day + 23)
        found = published(backend)
        for day in range(2):
            values = [value for each, _, _, value in found if each == day]
            assert 8 < len(values) < 52 and set(values) == {42}, "whole keys, about half of them"
        first, second = ({key for day, key, _, _ in found if day == each} for each in (0, 1))
        assert first != second


class TestRefusals:
    @pytest.mark.parametrize(
        ("unit", "words"),
        [
            (Unit(), "one person's day where keys appear by themselves"),
            (Unit(of="person"), "would publish it"),
            (Unit(of="person", per="1d", events=2), "distinct persons are counted"),
            (Unit(of="person", per="1d", amount=2), "distinct persons are counted"),
            (Unit(of="person", per="1d", keys=2), "keys of the unit must be 1"),
        ],
    )
    def test_units(self, unit: Unit, words: str) -> None:
        with pytest.raises(ParameterError, match=words):
            replace(describe(), unit=unit)

    def test_the_rest(self, tmp_path: Path) -> None:
        for wrong in ({"sample": 0.0}, {"sample": 1.5}, {"discovery": DAYS}, {"per_address": 0}):
            with pytest.raises(ParameterError, match=next(iter(wrong))):
                HiddenKeys(**{"discovery": DISCOVERY, **wrong})  # type: ignore[arg-type]
        months = HiddenKeys(discovery=fc.Discovery("1mo", ((0, 1.0),), 1e-6))
        with pytest.raises(ParameterError, match="unit must be one person's month"):
            replace(describe(), hidden=months)
        with SQLiteBackend(tmp_path).open() as store:
            totals = describe(mechanism=fc.Gradual(epsilon=1.0))
            with pytest.raises(ParameterError, match="keys must hold at least one name"):
                create(store, totals)
            with pytest.raises(ParameterError, match="other must be one of the declared"):
                create(store, describe(other="other"))
            create(store)
            asked = {"tick": HOURS, "unit": describe().unit, "keys": ()}
            with pytest.raises(ParameterError, match="discovery of stream 'pages' is fixed"):
                store.open_or_create("pages", hidden=describe(sample=0.5).hidden, **asked)  # type: ignore[arg-type]
            assert store.open_or_create("pages", **asked).keys == ()  # type: ignore[arg-type]

    def test_descriptions_are_read_back(self) -> None:
        for each in (describe(), describe(other="x", sample=0.25), describe(per_address=4)):
            assert Description.from_json("pages", each.to_json()) == each


class TestLoss:
    def test_the_larger_of_both_or_their_sum(self) -> None:
        """Hours at 0.25, days at 0.75 in all; hidden keys at 1, then 3, from the day's end on."""
        alone, both = describe().loss, describe(other="other").loss
        ages = (0, 22, 23, 52, 53)
        assert [alone.at_age(age).epsilon for age in ages] == [1.0, 1.0, 1.0, 1.0, 3.0]
        assert [both.at_age(age).epsilon for age in ages] == [1.0, 1.0, 2.0, 2.0, 4.0]
        small = describe(discovery=fc.Discovery("1d", ((30, 0.5), (40, 3.0)), 1e-9)).loss
        assert [small.at_age(age).epsilon for age in (0, 53, 62, 63)] == [1.0, 1.0, 1.0, 3.0]

    def test_the_loss_grows_in_the_tick_that_shows_more(self, backend: Backend) -> None:
        """By what is public of the first day after each tick; its first tick has that age then."""
        described = describe(other="other")
        loss, ages, seen = described.loss, [], set[int]()
        with backend.open(noise=ScriptedNoise([0], [0])) as store:  # type: ignore[arg-type]
            stream = create(store, described, ["other"])
            bring(stream, "a", range(30))
            for age in range(60):
                stream.close_through(FIRST + age)
                new = {stage for *_, stage, _ in published(backend)} - seen
                ages += [age] * len(new)
                seen |= new
        grown = [age for age in range(1, 60) if loss.at_age(age - 1) != loss.at_age(age)]
        assert ages == grown == [23, 53]

    @pytest.mark.parametrize("per", ["1d", "1mo"])
    @pytest.mark.parametrize("zone", ["UTC", "Pacific/Apia", "Antarctica/Casey", "Asia/Manila"])
    @pytest.mark.parametrize("seconds", [3600, 86400])
    def test_no_slot_ends_earlier_than_stated(self, per: str, zone: str, seconds: int) -> None:
        """Days were left out in Apia (2011) and in Manila (1844)."""
        described = Description(
            name="pages",
            mechanism=fc.Blocks(fc.Level(1, 1.0)),
            ticks=Ticks(tick_seconds=seconds, zone=zone),
            unit=Unit(of="person", per=per),
            hidden=HiddenKeys(discovery=replace(DISCOVERY, per=per)),
        )
        tick, most = -4_000_000_000 // seconds, 5_000_000_000 // seconds
        shortest = []
        while tick < most:
            slot = described.ticks_of(described.block_of(tick))
            shortest.append(len(slot) - 1)
            tick = slot.stop + (0 if per == "1mo" else 17 * len(slot))
        assert min(shortest) >= described.open_ticks
        assert zone != "UTC" or min(shortest) == described.open_ticks

    def test_several_keys_and_days(self) -> None:
        keys = describe(keys=4, discovery=replace(DISCOVERY, keys=4)).loss
        assert keys.at_age(53).epsilon == 12.0
        assert "except with a chance of 1e-09 a day" in describe().loss.exception
        person = describe().loss.of_person(
            1, every=24 * 3600, during=2 * 24 * 3600, tick_seconds=3600, unit=describe().unit
        )
        assert person.epsilon == 3.0 + 1.0, "two days: one older than 30 hours, one younger"
        assert person.delta == 2e-9 and describe().loss.at_age(22).delta == 0.0


def test_lone_keys_appear_as_often_as_delta_says() -> None:
    """And the exact chance is told from 2/3 and 3/2 of it; false alarms: below 1e-6."""
    discovery = fc.Discovery("1d", ((0, 1.0), (30, 3.0)), 0.01)
    lone = dict.fromkeys(map(str, range(200_000)), 1)
    described = describe(discovery=discovery)
    figures = [rows for _, rows in draw_stages(described, 0, 0, lone)]
    for stage, each in enumerate(figures):
        chance = discovery.passing(stage)
        expected, room = len(lone) * chance, 5 * (len(lone) * chance) ** 0.5
        assert abs(len(each.keys) - expected) < room < expected / 3 - room
    assert set(figures[0].keys) <= set(figures[1].keys) and figures[1].values.min() < 9


def test_a_top_list(backend: Backend) -> None:
    with backend.open(noise=ScriptedNoise([0], [0])) as store:  # type: ignore[arg-type]
        stream = create(store, keys=["home"])
        for day in range(2):
            bring(stream, "a", range(40))
            bring(stream, "b", range(40, 80 - 14 * day))
            bring(stream, "home", range(80, 190))
            stream.close_through(FIRST + 24 * day + 23)
        ranked = store.reader().stream("pages").top()
        first = store.reader().stream("pages").top(since=FIRST, until=FIRST + 24)
    assert [(each.key, each.value, each.days) for each in ranked] == [
        ("home", 220, None),
        ("a", 80, 2),
        ("b", 66, 2),
    ]
    assert [each.close for each in first] == [False, True, False], "40 ± 3 and 40 ± 3"
    assert (first[1].low, first[1].high) == (37, 43)
    assert ranked[1].around == 4, "noises of two days partly cancel"


class TestWhatIsStored:
    def test_the_embargo_has_public_sizes(self, backend: Backend) -> None:
        sizes = []
        for number, keys in enumerate((0, 1, 50, 150)):
            with backend.open(noise=ScriptedNoise([0], [20])) as store:  # type: ignore[arg-type]
                described = replace(describe(), name=f"pages{number}")
                stream = create(store, described)
                named = [f"a long name of a key {key}" for key in range(keys)]
                stream.add_many([Batch(counts={key: 1}, person=key) for key in named])
                stream.close_through(FIRST + 23)
            stage = f"level = {DISCOVERED} AND stage = 1 AND stream = {number + 1}"
            ((size,),) = backend.query(
                f"SELECT LENGTH(body) FROM embargo WHERE {stage}"  # noqa: S608
            )
            sizes.append(size - TAG)
        assert sizes == [SMALLEST_CLASS] * 3 + [4 * SMALLEST_CLASS]

    def test_bodies_are_read_back(self) -> None:
        for keys in ([], ["a"], ["a", "é b", "\U0001f600" * 200]):
            numbers = np.arange(len(keys))[np.newaxis] - 5
            values, names = unpacked(packed(numbers, keys).ljust(5000, b"\0"))
            assert names == keys and values.tolist() == numbers.tolist()

    def test_nothing_is_left_of_a_key_that_never_appears(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Its text is searched in all files, and so is its count in the place where it stood."""
        monkeypatch.setattr(sqlite, "SCRUB_SECONDS", 0.0)
        backend = SQLiteBackend(tmp_path)
        with backend.open() as store:
            stream = create(store)
            for person in range(0, 200, 10):
                bring(stream, "canary-of-some", range(person + 1, person + 10))
                bring(stream, "canary-lone" if person == 50 else f"{person}-alone", [person])
            content = bytes_of(tmp_path)
            assert content.count(b"canary-lone") and content.count(b"-alone") >= 19
            bodies = [bytes(body) for (body,) in store._database.query("SELECT body FROM hidden")]
            stream.close_through(FIRST + 23)
            content = bytes_of(tmp_path)
            assert b"canary-lone" not in content and b"-alone" not in content
            assert not any(body in content or body[:-TAG] in content for body in bodies)
            assert content.count(b"canary-of-some"), "180 persons: it appears"
            stream.close_through(FIRST + 60)
            copy = tmp_path / "copy" / "backup.db"
            copy.parent.mkdir()
            make_backup(backend.path, copy, audit_log=AuditLog(tmp_path / "log"))
        content = bytes_of(tmp_path)
        assert b"canary-lone" not in content and b"-alone" not in content

    def test_a_sealed_store_holds_no_key_in_the_clear(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Neither while its day is open, nor under embargo, nor after the seal was changed."""
        monkeypatch.setattr(sqlite, "SCRUB_SECONDS", 0.0)
        backend, seal = SQLiteBackend(tmp_path), Seal(b"k" * 32)
        noise = ScriptedNoise([0], [0])
        with backend.open(noise=noise, seal=seal) as store:  # type: ignore[arg-type]
            stream = create(store)
            bring(stream, "canary", range(15))
            assert b"canary" not in bytes_of(tmp_path)
            stream.close_through(FIRST + 23)
            bring(stream, "canary", range(16))
        with backend.open(noise=noise, seal=seal) as store:  # type: ignore[arg-type]
            store.rotate(Seal(b"n" * 32))
            assert b"canary" not in bytes_of(tmp_path)
            stream = store.open("pages")
            stream.close_through(FIRST + 47)
            assert b"canary" not in bytes_of(tmp_path)
            stream.close_through(FIRST + 48 + 30)
        assert published(backend) == [(0, "canary", 1, 15), (1, "canary", 1, 16)]

    def test_deleting_and_retention(self, backend: Backend) -> None:
        months = fc.Blocks(fc.Level(1, 0.2), fc.Level(24, 0.3), fc.Level(720, 0.5))
        with backend.open(noise=ScriptedNoise([40], [0])) as store:  # type: ignore[arg-type]
            stream = create(store, describe(mechanism=months))
            for day in range(70):
                bring(stream, "a", [1])
                stream.close_through(FIRST + 24 * day + 23)
            everything = published(backend)
            store.retain("pages", 10 * 24 * 3600)
            while store.upkeep("pages"):
                pass
            left = published(backend)
            assert len(everything) == 70 and 10 < len(left) < 50
            assert left == everything[-len(left) :]
            bring(stream, "b", [2])
            store.delete("pages")
        for table in ("hidden", "embargo", "figures"):
            assert not backend.query(f"SELECT * FROM {table}")  # noqa: S608


def everything_read(backend: Backend) -> list[object]:
    """What a reader can get of a stream: its status, keys, figures, exports, and all stored rows
    that are public."""
    with backend.reader() as reader:
        stream, status = reader.stream("pages"), reader.status("pages")
        table = stream.discovered()
        return [
            replace(status, uid="", commit_id="", previous_commit_id=None),
            reader.keys("pages"),
            [column.tolist() for column in table.values()],
            stream.figures("1h").values.tolist(),
            [(each.key, each.value, each.around) for each in stream.top()],
            [csv_text(table_rows("pages", each, "UTC")) for each in published_tables(stream)],
            about_stream(status.description, status.group),
            reader.database.query("SELECT level, stage, first_tick, body FROM figures"),
        ]


@pytest.mark.parametrize("lone", [-1, 0, 20])
def test_one_person_changes_nothing_but_a_key_that_passes(tmp_path: Path, lone: int) -> None:
    """The same noise with and without a person alone under a key, which comes last: all that
    readers see is the same, unless the noise of that key reaches the threshold."""
    read = []
    for person in (False, True):
        folder = tmp_path / f"{person}"
        folder.mkdir()
        backend = SQLiteBackend(folder)
        noise = ScriptedNoise([0, 0, 21 if lone == 20 else lone], [0, 0, 0])
        with backend.open(noise=noise) as store:  # type: ignore[arg-type]
            stream = create(store)
            bring(stream, "a", range(23))
            bring(stream, "b", range(23, 30))
            if person:
                bring(stream, "private", ["x"])
            stream.close_through(FIRST + 23)
            stream.close_through(FIRST + 60)
        read.append(everything_read(backend))
    assert (read[0] == read[1]) == (lone != 20)
    if lone == 20:
        with Reader.of_file(tmp_path / "True" / "state" / "streams.db") as reader:
            keys = reader.stream("pages").discovered()["key"].tolist()
        assert keys == ["a", "private"]


def test_a_reader_cannot_select_hidden_keys(tmp_path: Path) -> None:
    backend = SQLiteBackend(tmp_path)
    with backend.open() as store:
        stream: Stream = create(store)
        bring(stream, "a", range(3))
        with backend.reader() as reader, pytest.raises(StoreError, match="prohibited"):
            reader.database.query("SELECT body FROM hidden")
