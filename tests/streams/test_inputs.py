"""What is accepted: persons up to their cap in every released tick, sources with how far they were
read, in few statements."""

from __future__ import annotations

import tracemalloc
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import fadecount as fc
from fadecount.errors import ClockError, InputError, ParameterError
from fadecount.mechanisms import Unit
from fadecount.mechanisms.unit import person_digest
from fadecount.streams import Batch, Description, Seal, Store, Stream, Ticks, inputs
from fadecount.streams import stream as stream_module
from fadecount.streams.figures import Closed
from fadecount.streams.inputs import Events, ReadPosition
from fadecount.streams.stream import close_together
from tests.streams.backends import Backend, BriefStore, SQLiteBackend, totals_of
from tests.streams.rows import add_rows
from tests.streams.scripted import NamedNoise, expected

MECHANISM = fc.Gradual(epsilon=1.0)
HOURS = Ticks(tick_seconds=3600)
PERSON = Unit(of="person", events=2)


def create(store: Store, unit: Unit = PERSON) -> Stream:
    return store.create(
        Description(name="doors", mechanism=MECHANISM, ticks=HOURS, unit=unit),
        keys=["a", "b"],
        start_tick=0,
    )


def numbers(*values: int) -> NDArray[np.int64]:
    return np.array(values, dtype=np.int64)


def test_a_person_is_counted_up_to_the_cap_of_each_released_tick_over_runs_and_restarts(
    backend: Backend,
) -> None:
    noise = NamedNoise()
    with backend.open(noise=noise) as store:
        stream = create(store)
        assert stream.add({"a": 1}, person="ann", id="1")
        assert not stream.add({"a": 1}, person="ann", id="1"), (
            "a repeated batch does not use up the cap"
        )
        assert add_rows(stream, [0, 1, 0], [1, 1, 1], ["bob", "ann", "ann"]) == 2
    with backend.open(noise=noise) as store:
        stream = store.open("doors")
        bob = person_digest("bob", stream.person_key)
        np.testing.assert_array_equal(stream.persons_counted(["ann", bob, "eve"]), [2, 1, 0])
        assert stream.add({"a": 5, "b": 5}, person="ann"), (
            "the answer does not tell that a cap was reached"
        )
        assert (
            add_rows(store.intake("doors"), [0], [1], [person_digest("ann", stream.person_key)])
            == 0
        )
        assert stream.add({"a": 1, "b": 9}, person="bob")
        first = stream.close_through(0)[0].values
        np.testing.assert_array_equal(stream.persons_counted(["ann", "bob"]), [0, 0])
        assert stream.add({"b": 9}, person="ann")
        second = stream.close_through(1)[0].values
    found = np.concatenate([first, second])
    np.testing.assert_array_equal(found, expected(MECHANISM, np.array([[3, 1], [0, 2]])))


def test_amounts_are_held_to_the_unit(backend: Backend) -> None:
    with backend.open(noise=NamedNoise()) as store:
        stream = create(store, Unit(of="person", amount=3, events=2))
        assert stream.add({"a": 3, "b": 2}, person="ann")
        assert stream.add({"a": 1}, person="ann")
        assert add_rows(stream, [1, 1], [3, 0], ["bob", "bob"]) == 2
        assert stream.add({"a": 4}, person="eve"), "which counts as 3"
        assert add_rows(stream, [1], [2**40], ["eve"]) == 1
        values = stream.close_through(0)[0].values
    np.testing.assert_array_equal(values, expected(MECHANISM, np.array([[6, 8]])))


def test_one_event_adds_at_most_the_amount_of_its_unit_through_every_door(backend: Backend) -> None:
    with backend.open(noise=NamedNoise()) as store:
        stream, intake = create(store, Unit(amount=5)), store.intake("doors")
        assert stream.add({"a": 5, "b": 0}, id="1") and stream.add({"a": 1000}, id="2")
        assert stream.add_many([Batch(counts={"a": 1}), Batch(counts={"a": 6})])
        assert intake.add_many([Batch(counts={"b": 6})])
        assert add_rows(stream, [1, 1], [5, 9]) == 2
        assert stream.accept([stream.events([("a", 2, 5), ("b", 3, 9)], None, None)]).fresh
        values = stream.close_through(0)[0].values
    np.testing.assert_array_equal(values, expected(MECHANISM, np.array([[26, 30]])))


def test_sums_that_do_not_fit_stay_at_the_limit_and_stop_the_stream() -> None:
    """A sum that wrapped would differ by 2**64 with one event more or less, and no noise hides
    that."""
    mechanism = Description(
        name="big", mechanism=fc.Gradual(epsilon=2.0**-30), ticks=HOURS, unit=Unit(amount=1 << 40)
    )
    with BriefStore() as store:
        stream = store.create(mechanism, keys=["a"], start_tick=0)
        rows = Events([(0, 1, 1 << 40, b"")] * (1 << 19))
        for _ in range(16):
            stream.accept([rows])
        with pytest.raises(InputError, match="2\\*\\*62"):
            stream.close_through(0)
        add_rows(stream, [0], [1 << 40])
        with pytest.raises(InputError, match="2\\*\\*62"):
            list(stream.release(0, np.array([[(1 << 63) - 1]], dtype=np.int64)))


def test_no_few_batches_reach_the_limit_of_a_sum() -> None:
    """Each different amount of a key is an entry: all together they are held to what one may be."""
    unit = Unit(amount=1 << 20)
    about = Description(name="s", mechanism=fc.Gradual(epsilon=1.0), ticks=HOURS, unit=unit)
    with BriefStore() as store:
        stream = store.create(about, keys=["a", "b"], start_tick=0)
        most = [(key, 1 << 19, (1 << 20) - at) for at, key in enumerate(("a", "a", "b"))]
        assert stream.accept([stream.events(most[:2], None, None)]).fresh
        with pytest.raises(InputError, match=r"from 0 to 2\*\*40, also together; split"):
            stream.events(most, None, None)


def test_events_of_one_key_count_up_to_the_cap_of_their_person(backend: Backend) -> None:
    with backend.open(noise=NamedNoise()) as store:
        stream = create(store, Unit(of="person", amount=3, events=3))
        assert stream.accept([stream.events([("a", 2, 1), ("a", 2, 3)], None, "ann")]).counted == 3
        values = stream.close_through(0)[0].values
    np.testing.assert_array_equal(values, expected(MECHANISM, np.array([[5, 0]])))


def test_the_bound_of_a_count_is_one_of_how_many_events_times_their_amount() -> None:
    with BriefStore() as store:
        stream = create(store, Unit(amount=5))
        assert stream.events([("a", 2**37, 8)], None, None).entries == [(0, 2**37, 5, b"")]
        with pytest.raises(InputError, match="from 0 to"):
            stream.events([("a", 2**38, 5)], None, None)


def test_persons_are_given_where_the_unit_is_a_person_and_only_there() -> None:
    with BriefStore() as store:
        stream = create(store)
        with pytest.raises(InputError, match="person must be given"):
            stream.add({"a": 1})
        stream.declare(["c"])
        assert add_rows(stream, [2], [1], ["ann"]) == 1
    with BriefStore() as store:
        stream = create(store, Unit())
        with pytest.raises(InputError, match="person must be left out"):
            stream.add({"a": 1}, person="ann")


ROWS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2), st.integers(0, 3)), max_size=30)


def _counts(rows: list[tuple[int, int, int]], cap: int, most_keys: int = 1) -> NDArray[np.int64]:
    """Counts by tick and key of rows (tick, key, person) with the noise taken off, through a
    stream."""
    with BriefStore() as store:
        store._context.noise = NamedNoise()
        unit = Unit(of="person", events=cap, keys=most_keys)
        keys = ["a", "b", "c"]
        stream = store.create(
            Description(name="doors", mechanism=MECHANISM, ticks=HOURS, unit=unit),
            keys=keys,
            start_tick=0,
        )
        for tick in range(4):
            for _, key, person in (row for row in rows if row[0] == tick):
                add_rows(stream, [key], [1], [str(person)])
            stream.close_through(tick)
        found = np.array(list(totals_of(store.reader()).values()))
    return np.diff(found - expected(MECHANISM, np.zeros((4, 3), dtype=np.int64)), axis=0, prepend=0)


@settings(max_examples=30)
@given(rows=ROWS, cap=st.integers(1, 3), tick=st.integers(0, 3), person=st.integers(0, 3))
def test_all_that_a_person_did_in_a_tick_changes_its_counts_by_at_most_the_cap_and_no_other_tick(
    rows: list[tuple[int, int, int]], cap: int, tick: int, person: int
) -> None:
    without = [row for row in rows if (row[0], row[2]) != (tick, person)]
    change = _counts(rows, cap) - _counts(without, cap)
    assert np.abs(change[tick]).sum() <= cap
    assert not np.delete(change, tick, axis=0).any()


@settings(max_examples=30)
@given(
    rows=ROWS,
    cap=st.integers(1, 3),
    most_keys=st.integers(2, 3),
    tick=st.integers(0, 3),
    person=st.integers(0, 3),
)
def test_all_that_a_person_did_in_a_tick_changes_so_many_keys_by_at_most_the_cap_each(
    rows: list[tuple[int, int, int]], cap: int, most_keys: int, tick: int, person: int
) -> None:
    without = [row for row in rows if (row[0], row[2]) != (tick, person)]
    change = _counts(rows, cap, most_keys) - _counts(without, cap, most_keys)
    assert np.abs(change[tick]).max() <= cap
    assert np.count_nonzero(change[tick]) <= most_keys
    assert not np.delete(change, tick, axis=0).any()
    own = [key for at, key, who in rows if (at, who) == (tick, person)]
    kept = list(dict.fromkeys(own))[:most_keys]
    np.testing.assert_array_equal(
        change[tick], [min(cap, own.count(key)) if key in kept else 0 for key in range(3)]
    )


def test_a_person_counts_under_the_first_keys_over_runs_restarts_and_ways_in(
    backend: Backend,
) -> None:
    noise = NamedNoise()
    description = Description(
        name="doors", mechanism=MECHANISM, ticks=HOURS, unit=Unit(of="person", events=2, keys=2)
    )
    with backend.open(noise=noise) as store:
        stream = store.create(description, keys=["a", "b", "c"], start_tick=0)
        assert stream.add({"c": 1}, person="ann", id="1")
        assert not stream.add({"c": 1}, person="ann", id="1"), (
            "a repeated batch does not use up the cap"
        )
        assert (
            add_rows(stream, [0, 0, 1, 2, 1], [1, 1, 1, 1, 1], ["ann", "ann", "ann", "ann", "bob"])
            == 4
        )
    with backend.open(noise=noise) as store:
        stream = store.open("doors")
        ann = person_digest("ann", stream.person_key)
        np.testing.assert_array_equal(stream.persons_counted([ann, "bob", "eve"]), [2, 1, 0])
        np.testing.assert_array_equal(
            stream.persons_counted([ann, "ann", "ann", "bob"], [0, 1, 2, 1]), [2, 0, 2, 1]
        )
        assert add_rows(store.intake("doors"), [0, 1, 2], [1, 1, 1], [ann, ann, ann]) == 0
        assert stream.add({"c": 9, "b": 9, "a": 9}, person="bob"), (
            "two of c, one more of b, and no third key"
        )
        values = stream.close_through(0)[0].values
        assert not backend.query("SELECT person FROM persons")
    np.testing.assert_array_equal(values, expected(MECHANISM, np.array([[2, 2, 4]])))


UNITS = st.builds(
    Unit,
    of=st.just("person"),
    amount=st.sampled_from((1, 1, 3)),
    events=st.integers(1, 4),
    keys=st.integers(1, 3),
)
SENT = st.tuples(
    st.sampled_from(("ann", "bob")),
    st.sampled_from((None, None, "1", "2")),
    st.dictionaries(st.sampled_from("abcd"), st.integers(0, 6), max_size=4),
)


def _one_by_one(
    unit: Unit, calls: list[list[tuple[str, str | None, dict[str, int]]]]
) -> tuple[dict[str, int], dict[Any, int]]:
    """The counts by key, and the events that count by person and key: every event by itself, in the
    order of arrival."""
    sums, counted, seen = dict.fromkeys("abcd", 0), dict[Any, int](), set[str]()
    for person, id_, counts in (batch for batches in calls for batch in batches):
        if id_ in seen:
            continue
        seen |= set() if id_ is None else {id_}
        events = list(counts.items())
        if unit.amount == 1:
            events = [(key, 1) for key, number in events for _ in range(number)]
        for key, amount in events:
            mine = {each: number for (who, each), number in counted.items() if who == person}
            if unit.keys == 1:
                counts_too = sum(mine.values()) < unit.events
            else:
                counts_too = mine.get(key, 0) < unit.events and (
                    key in mine or len(mine) < unit.keys
                )
            if counts_too:
                counted[person, key] = counted.get((person, key), 0) + 1
                sums[key] += amount
    return sums, counted


@settings(max_examples=150)
@given(unit=UNITS, calls=st.lists(st.lists(SENT, min_size=1, max_size=3), max_size=4))
def test_counts_are_capped_as_if_each_event_came_by_itself(
    unit: Unit, calls: list[list[tuple[str, str | None, dict[str, int]]]]
) -> None:
    most = unit.amount if unit.amount > 1 else 6
    calls = [
        [
            (person, id_, {key: min(number, most) for key, number in counts.items()})
            for person, id_, counts in call
        ]
        for call in calls
    ]
    sums, counted = _one_by_one(unit, calls)
    with BriefStore() as store:
        store._context.noise = NamedNoise()
        description = Description(name="doors", mechanism=MECHANISM, ticks=HOURS, unit=unit)
        stream = store.create(description, keys="abcd", start_tick=0)
        for call in calls:
            stream.add_many(
                [Batch(counts=counts, id=id_, person=person) for person, id_, counts in call]
            )
        for person in ("ann", "bob"):
            mine = [counted.get((person, key), 0) for key in "abcd"]
            assert stream.persons_counted([person]) == (
                sum(mine) if unit.keys == 1 else np.count_nonzero(mine)
            )
            if unit.keys > 1:
                assert stream.persons_counted([person] * 4, range(4)).tolist() == mine
        values = stream.close_through(0)[0].values
    np.testing.assert_array_equal(values, expected(MECHANISM, np.array([list(sums.values())])))


@pytest.mark.parametrize(("keys", "rows"), [(1, 1), (50, 51)])
def test_one_large_batch_needs_little_memory_and_few_statements(
    keys: int, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """20,000 keys with a count of 1,000 each are 20,000 entries, not 20 million events."""
    names = [f"key{number}" for number in range(20_000)]
    batch = Batch(counts=dict.fromkeys(names, 1000), person="ann")
    with BriefStore() as store:
        unit = Unit(of="person", events=1000, keys=keys)
        stream = store.create(
            Description(name="doors", mechanism=MECHANISM, ticks=HOURS, unit=unit),
            keys=names,
            start_tick=0,
        )
        seen = noted_calls(store, monkeypatch)
        tracemalloc.start()
        stream.add_many([batch])
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < 20e6
        assert len(seen) < 100
        assert store._database.query("SELECT COUNT(*) FROM persons") == [(rows,)]
        assert store._database.query("SELECT MAX(LENGTH(body)) < 2000 FROM inputs") == [(1,)], (
            "what does not count is not stored"
        )


def test_what_is_stored_of_a_person_is_bounded() -> None:
    with BriefStore() as store:
        description = Description(
            name="doors", mechanism=MECHANISM, ticks=HOURS, unit=Unit(of="person", keys=3)
        )
        stream = store.create(description, keys=[str(key) for key in range(100)], start_tick=0)
        for key in range(100):
            stream.add({str(key): 5}, person="ann")
        assert store._database.query("SELECT COUNT(*), SUM(events) FROM persons") == [(4, 6)]


def test_a_single_event_of_a_capped_person_can_change_two_counts_by_one_each() -> None:
    rows = [(0, 0, 1), (0, 1, 1)]
    change = _counts(rows, cap=1) - _counts(rows[1:], cap=1)
    np.testing.assert_array_equal(change[0], [1, -1, 0])


def test_a_day_of_25_hours_is_one_tick_with_one_cap() -> None:
    """Clocks went back in New York on 2026-11-01: ten past midnight and ten to midnight are 24
    hours and 40 minutes apart."""
    days = Ticks(tick_seconds=86400, zone="America/New_York")
    early, late = (
        datetime.fromisoformat(f"2026-11-01T{at}").timestamp()
        for at in ("00:10-04:00", "23:50-05:00")
    )
    assert late - early > 86400
    assert days.at(early) == days.at(late)
    with BriefStore() as store:
        store._context.noise = NamedNoise()
        description = Description(
            name="doors", mechanism=MECHANISM, ticks=days, unit=Unit(of="person")
        )
        stream = store.create(description, start_tick=days.at(early))
        for at in (early, late):
            stream.add({"all": 1}, person="ann", at=at)
        values = stream.close_through(days.at(early))[0].values
    np.testing.assert_array_equal(values, expected(MECHANISM, np.array([[1]])))


def test_persons_are_stored_under_a_secret_of_the_stream(backend: Backend) -> None:
    seal = Seal(b"k" * 32)
    with backend.open(seal=seal) as store:
        description = Description(name="doors", mechanism=MECHANISM, ticks=HOURS, unit=PERSON)
        one = store.create(description, start_tick=0)
        two = store.create(
            Description(name="gates", mechanism=MECHANISM, ticks=HOURS, unit=PERSON), start_tick=0
        )
        for stream in (one, two):
            stream.add({"all": 1}, person="ann")
        assert one.person_key != two.person_key
        assert len(one.person_key) == 32
        key, uids = one.person_key, [one.status.uid, two.status.uid]
        for uid in uids:
            store._database.unlock(uid)
        store.rotate(Seal(b"n" * 32))
    hashes = [bytes(row[0]) for row in backend.query("SELECT person FROM persons ORDER BY stream")]
    assert len(hashes[0]) == 8 + 16  # the tick, and the hash
    assert hashes[0] != hashes[1]
    with backend.open(seal=Seal(b"n" * 32)) as store:
        assert store.open("doors").person_key == key
        np.testing.assert_array_equal(store.intake("doors").persons_counted(["ann"]), [1])


def test_how_far_a_source_was_read_is_stored_with_what_was_read(backend: Backend) -> None:
    seal = Seal(b"k" * 32)
    with backend.open(seal=seal, noise=NamedNoise()) as store:
        stream = create(store, Unit())
        assert stream.position("log") is None
        add_rows(
            stream,
            [0, 0],
            [1, 1],
            position=ReadPosition(source="log", body=b'{"offset": 20}'),
        )
        stream.add_many([Batch(counts={"b": 1})], position=ReadPosition(source="other", body=b"1"))
        add_rows(stream, [], [], position=ReadPosition(source="log", body=b'{"offset": 30}'))
        with pytest.raises(InputError):
            lost = ReadPosition(source="log", body=b"lost")
            stream.add_many([Batch(counts={"unknown": 1})], position=lost)
        store._database.unlock(stream.status.uid)
        store.rotate(Seal(b"n" * 32))
    assert b"offset" not in b"".join(
        bytes(row[0]) for row in backend.query("SELECT body FROM positions")
    )
    with backend.open(seal=Seal(b"n" * 32), noise=NamedNoise()) as store:
        stream = store.open("doors")
        assert (stream.position("log"), stream.position("other")) == (b'{"offset": 30}', b"1")
        values = stream.close_through(0)[0].values
        assert stream.position("log") == b'{"offset": 30}'
        store.delete("doors")
    np.testing.assert_array_equal(values, expected(MECHANISM, np.array([[2, 1]])))
    assert backend.query("SELECT COUNT(*) FROM positions") == [(0,)]


def test_an_event_does_not_count_in_a_tick_before_its_own() -> None:
    with BriefStore() as store:
        stream = create(store, Unit())
        assert stream.add({"a": 1}, at=3599.0)
        with pytest.raises(ClockError, match="open tick is over"):
            stream.add({"a": 1}, at=3600.0)
        stream.close_through(0)
        assert stream.add({"a": 1}, at=3600.0)
        assert stream.add({"a": 1}, at=0.0), "late events count in the open tick"


def test_a_deleted_stream_accepts_nothing() -> None:
    with BriefStore() as store:
        create(store, Unit())
        intake = store.intake("doors")
        store.delete("doors")
        with pytest.raises(ParameterError, match="was deleted"):
            intake.add_many([Batch(counts={"a": 1})])


@pytest.mark.parametrize("fold_bytes", [1 << 16, 100])
def test_what_is_accepted_is_added_up_as_it_comes(
    monkeypatch: pytest.MonkeyPatch, fold_bytes: int
) -> None:
    monkeypatch.setattr(inputs, "FOLD_BYTES", fold_bytes)
    with BriefStore() as store:
        store._context.noise = NamedNoise()
        stream = create(store, Unit())
        for number in range(3000):
            add_rows(stream, [number % 2], [1])
        ((rows, size),) = store._database.query("SELECT COUNT(*), SUM(LENGTH(body)) FROM inputs")
        assert rows < 3000
        assert size < max(4 * fold_bytes, 4000)
        values = stream.close_through(0)[0].values
    np.testing.assert_array_equal(values, expected(MECHANISM, np.array([[1500, 1500]])))


def test_when_rows_are_added_up_does_not_depend_on_what_counts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(inputs, "FOLD_BYTES", 1000)
    found = []
    for persons in (["ann"] * 12, [f"person {each}" for each in range(12)]):
        with BriefStore() as store:
            stream, rows = create(store, Unit(of="person", events=1)), []
            for person in persons:
                stream.add({"a": 1, "b": 1}, person=person)
                rows += store._database.query("SELECT COUNT(*) FROM inputs")
            found.append(rows)
    assert found[0] == found[1] and max(found[0]) > found[0][-1]


@pytest.mark.parametrize(
    "mechanism",
    [
        MECHANISM,
        fc.Gradual(epsilon=1.0, delay=3),
        fc.Refresh(window=3, epsilon_current=1, epsilon_past=1),
    ],
)
@pytest.mark.parametrize("unit", [Unit(), PERSON])
def test_a_closed_tick_needs_few_statements(
    tmp_path_factory: pytest.TempPathFactory,
    mechanism: fc.Mechanism,
    unit: Unit,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    backend = SQLiteBackend(tmp_path_factory.mktemp("store"))
    with backend.open() as store:
        description = Description(name="doors", mechanism=mechanism, ticks=HOURS, unit=unit)
        stream = store.create(description, keys=["a", "b"], start_tick=0)
        seen = noted_calls(store, monkeypatch)
        most = 0
        for tick in range(70):
            stream.add({"a": 1}, id=str(tick), person="ann" if unit.of == "person" else None)
            seen.clear()
            stream.close_through(tick)
            most = max(most, len(seen))
    persons = unit.of == "person"  # it has a key, which is replaced
    assert most <= 12 + persons, seen


def noted_calls(store: Store, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every statement from now on; one that is run for many rows counts once."""
    seen: list[str] = []
    for name in ("query", "change", "change_many"):
        real = getattr(store._database, name)

        def noted(
            sql: str, values: Sequence[Any] = (), real: Any = real
        ) -> Any:  # without rows, none is run
            seen.extend([sql] if values or sql in ("BEGIN IMMEDIATE", "COMMIT") else [])
            return real(sql, values)

        monkeypatch.setattr(store._database, name, noted)
    return seen


@pytest.mark.parametrize("unit", [Unit(), PERSON])
def test_the_ticks_of_many_streams_need_as_few_statements_as_one(
    tmp_path: Path, unit: Unit, monkeypatch: pytest.MonkeyPatch
) -> None:
    with SQLiteBackend(tmp_path).open() as store:
        streams = []
        for number in range(40):
            description = Description(
                name=f"s{number}", mechanism=MECHANISM, ticks=HOURS, unit=unit
            )
            streams.append(store.create(description, start_tick=0))
            streams[-1].add({"all": 1}, person="ann" if unit.of == "person" else None)
        seen = noted_calls(store, monkeypatch)
        for tick in range(4):
            seen.clear()
            close_together([(each, tick) for each in streams])
            assert len(seen) <= 12, seen


def test_old_batch_ids_are_dropped_in_short_steps_apart_from_the_closing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """How long a tick takes to close must not depend on how many batches were sent a day ago."""
    monkeypatch.setattr(stream_module, "ROWS_AT_ONCE", 5)
    with SQLiteBackend(tmp_path).open() as store:
        stream = create(store, Unit())
        stream.add_many([Batch(counts={"a": 1}, id=f"old{number}") for number in range(12)])
        stream.close_through(0)
        stream.add_many([Batch(counts={"a": 1}, id="new")])
        seen = noted_calls(store, monkeypatch)
        (closed,) = close_together([(stream, 30)])
        assert isinstance(closed, Closed) and stream.leaves_old_rows(closed)
        assert not any("seen" in sql for sql in seen)
        stream.add_many([Batch(counts={"a": 1}, id="last")])
        assert [stream.drop_old_rows() for _ in range(4)] == [True, True, False, False]
        assert store._database.query("SELECT COUNT(*) FROM seen") == [(1,)]
        assert stream.add_many([Batch(counts={"a": 1}, id=each) for each in ("old1", "last")]) == [
            True,
            False,
        ]
        stream.close_through(60)  # the library does it by itself
        assert store._database.query("SELECT COUNT(*) FROM seen") == [(0,)]


def test_persons_of_a_closed_tick_are_dropped_in_short_steps_apart_from_the_closing(
    backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """How long a tick takes to close must not depend on how many persons there were; and their caps
    begin anew at once."""
    monkeypatch.setattr(stream_module, "ROWS_AT_ONCE", 5)
    with backend.open() as store:
        stream = create(store)
        for number in range(12):
            stream.add({"a": 2}, person=f"person {number}")
        assert stream.persons_counted([]).tolist() == []
        before = stream.persons_noted
        seen = noted_calls(store, monkeypatch)
        (closed,) = close_together([(stream, 0)])
        assert isinstance(closed, Closed) and stream.leaves_old_rows(closed)
        assert not any("persons" in sql for sql in seen)
        assert (before, stream.persons_noted) == (24, 0)
        np.testing.assert_array_equal(stream.persons_counted(["person 1"]), [0])
        stream.add({"a": 1}, person="person 1")
        np.testing.assert_array_equal(stream.persons_counted(["person 1", "person 2"]), [1, 0])
        assert [stream.drop_old_rows() for _ in range(4)] == [True, True, False, False]
        assert store._database.query("SELECT COUNT(*), SUM(events) FROM persons") == [(1, 1)]
        stream.close_through(1)  # the library does it by itself
        assert store._database.query("SELECT COUNT(*) FROM persons") == [(0,)]
