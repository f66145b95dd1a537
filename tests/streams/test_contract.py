"""What every store keeps: the same streams, inputs, states and releases, on SQLite and on
PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pytest
from numpy.typing import NDArray

import fadecount as fc
from fadecount.errors import (
    AlreadyReleasedError,
    ClockError,
    InputError,
    LockedError,
    ParameterError,
    StoreError,
)
from fadecount.streams import Batch, Description, Store, Stream, Ticks
from fadecount.streams.database import STREAM_TABLES
from fadecount.streams.figures import Closed
from fadecount.streams.inputs import ReadPosition
from tests.mechanisms.any_levels import AnyLevels
from tests.streams.backends import Backend, totals_of
from tests.streams.scripted import NamedNoise, expected, names_in_use, value_of

MECHANISMS = (
    fc.Gradual(epsilon=0.5, exponent=2.0),
    fc.Gradual(epsilon=0.5, delay=3),
    fc.Linear(epsilon=0.5),
    fc.Refresh(window=5, epsilon_current=0.5, epsilon_past=0.25),
    fc.Binary(epsilon=1.0, horizon=64),
    AnyLevels(budgets=(0.5, float("inf"), 0.25), delay=1),
)


def describe(mechanism: fc.Mechanism = MECHANISMS[0], name: str = "doors") -> Description:
    return Description(name=name, mechanism=mechanism, ticks=Ticks(tick_seconds=60))


def stacked(closed: Iterable[Closed]) -> NDArray[np.int64]:
    return np.concatenate([each.values for each in closed])


def released(backend: Backend, name: str = "doors") -> NDArray[np.int64]:
    with backend.reader() as reader:
        return np.array(list(totals_of(reader, name).values()))


def create(
    store: Store, mechanism: fc.Mechanism = MECHANISMS[0], keys: Iterable[str] = ("a", "b")
) -> Stream:
    return store.create(describe(mechanism), keys=keys, start_tick=100)


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda one: one.kind)
def test_releases_follow_the_definition_across_restarts_and_no_variable_is_drawn_twice(
    backend: Backend, mechanism: fc.Mechanism
) -> None:
    noise = NamedNoise()
    rows = np.arange(80, dtype=np.int64).reshape(40, 2) % 7
    store = backend.open(noise=noise)
    stream = create(store, mechanism)
    for step, row in enumerate(rows[:30]):
        stream.add({"a": int(row[0]), "b": int(row[1])})
        stream.close_through(100 + step)
        if step % 7 == 3:
            store.close()
            store = backend.open(noise=noise)
            stream = store.open("doors")
    shown = stacked(stream.release(130, rows[30:]))
    store.close()
    want = expected(mechanism, rows)
    np.testing.assert_array_equal(shown, want[30:])
    np.testing.assert_array_equal(released(backend), want)
    assert len(noise.drawn) == len(set(noise.drawn))


def test_a_batch_counts_once_under_its_id_also_after_a_restart(backend: Backend) -> None:
    with backend.open(noise=NamedNoise()) as store:
        stream = create(store)
        assert stream.add({"a": 3}, id="one")
        assert not stream.add({"a": 3}, id="one")
        many = [
            Batch(counts={"a": 1}, id="two"),
            Batch(counts={"a": 1}, id="two"),
            Batch(counts={"b": 1}),
        ]
        assert stream.add_many(many) == [True, False, True]
    with backend.open(noise=NamedNoise()) as store:
        stream = store.open("doors")
        assert not stream.add({"a": 3}, id="two")
        values = stacked(stream.close_through(100))
        assert not stream.add({"a": 3}, id="one")
    np.testing.assert_array_equal(values, expected(MECHANISMS[0], np.array([[4, 1]])))


def test_batch_ids_are_forgotten_after_a_day_of_ticks(backend: Backend) -> None:
    with backend.open() as store:
        stream = create(store)
        stream.add({"a": 1}, id="one")
        stream.close_through(100 + 1440)
        assert backend.query("SELECT COUNT(*) FROM seen") == [(1,)]
        stream.close_through(100 + 1440 + 90)
        assert backend.query("SELECT COUNT(*) FROM seen") == [(0,)]


def test_late_events_count_in_the_open_tick_and_closed_ticks_are_refused(backend: Backend) -> None:
    with backend.open(noise=NamedNoise()) as store:
        stream = create(store)
        first = stacked(stream.close_through(104))
        stream.add({"a": 5})
        second = stacked(stream.close_through(105))
        with pytest.raises(AlreadyReleasedError, match=r"released up to 1970-01-01T01:46:00Z"):
            list(stream.release(105, np.ones((1, 2), dtype=np.int64)))
        assert stream.close_through(105) == []
    rows = np.zeros((6, 2), dtype=np.int64)
    rows[5, 0] = 5
    np.testing.assert_array_equal(np.concatenate([first, second]), expected(MECHANISMS[0], rows))


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda one: one.kind)
def test_keys_declared_later_have_the_law_of_the_others(
    backend: Backend, mechanism: fc.Mechanism
) -> None:
    with backend.open(noise=NamedNoise()) as store:
        stream = create(store, mechanism)
        stream.close_through(111)
        stream.declare(["c"])
        stream.add({"c": 9})
        stream.close_through(130)
    with backend.reader() as reader:
        assert reader.keys("doors") == ("a", "b", "c")
        values = np.array(list(totals_of(reader, since=112).values()))
    kept = set(names_in_use(mechanism, 12))
    for step in range(13, 32):
        names = names_in_use(mechanism, step)
        noise = sum(value_of(*name, 0 if name in kept else 2) for name in names)
        counted = 9 if step - mechanism.delay >= 13 else 0
        assert values[step - 13, 2] == (noise + counted if names else 0)


def test_a_gap_is_filled_with_empty_ticks_and_a_wider_one_is_refused(
    backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fadecount.streams.stream.LARGEST_GAP", 1000)
    with backend.open(noise=NamedNoise()) as store:
        stream = create(store)
        row = np.array([[1, 0]], dtype=np.int64)
        values = stacked(stream.release(140, row))
        with pytest.raises(ClockError, match="at most 1000 empty ticks, got 9859"):
            list(stream.release(10000, row))
    np.testing.assert_array_equal(
        values, expected(MECHANISMS[0], np.concatenate([np.zeros((40, 2), dtype=np.int64), row]))
    )


def test_only_a_few_levels_are_written_per_tick(backend: Backend) -> None:
    with backend.open() as store:
        stream = create(
            store, fc.Gradual(epsilon=2.0**-20)
        )  # noise so wide that no sum stays the same by chance
        stream.close_through(163)
        before = dict(backend.query("SELECT number, body FROM state WHERE kind = 1"))
        stream.close_through(164)
        after = dict(backend.query("SELECT number, body FROM state WHERE kind = 1"))
    assert {level for level in before if bytes(before[level]) != bytes(after[level])} == {0}


def test_a_second_writer_is_refused_in_one_line(backend: Backend) -> None:
    with backend.open() as store:
        create(store)
        with (
            pytest.raises(LockedError, match="in use by another writer") as refused,
            backend.open() as second,
        ):
            second.open("doors")
        assert "\n" not in str(refused.value)
    with backend.open() as store:
        store.open("doors")


def test_deleted_streams_are_gone_and_their_names_stay_taken(backend: Backend) -> None:
    with backend.open() as store:
        create(store).close_through(120)
        store.create(describe(name="other"), start_tick=0)
        store.delete("doors")
        assert store.names() == ["other"]
        with pytest.raises(ParameterError, match="never used in this store"):
            create(store)
        with pytest.raises(StoreError, match="streams of this store: other"):
            store.open("doors")
    assert backend.query("SELECT COUNT(*) FROM figures") == [(0,)]


def test_nothing_is_left_of_deleted_streams(backend: Backend) -> None:
    with backend.open() as store:
        for name in ("one", "two", "three", "four"):
            stream = store.create(describe(name=name), keys=["a"], start_tick=1)
            stream.add_many(
                [Batch(counts={"a": 1}, id="batch")],
                position=ReadPosition(source="file", body=b"1"),
            )
            stream.close_through(1)
            stream.add({"a": 2})
        for name in ("two", "four"):
            store.delete(name)
    unused = ("persons", "hidden", "embargo")
    for table in STREAM_TABLES:
        rows = backend.query(f"SELECT DISTINCT stream FROM {table} ORDER BY stream")  # noqa: S608
        assert rows == ([] if table in unused else [(1,), (3,)])


def test_the_name_of_a_stream_that_released_nothing_is_free_again(backend: Backend) -> None:
    with backend.open() as store:
        create(store)
        store.delete("doors")
        assert create(store).status.steps == 0


def test_a_refused_input_changes_nothing(backend: Backend) -> None:
    noise = NamedNoise()
    with backend.open(noise=noise) as store:
        stream = create(store)
        for bad in ({"a": -1}, {"a": True}, {"a": 1.5}, {"a": 2**41}, {"z": 1}):
            with pytest.raises(InputError):
                stream.add({"b": 1, **bad})  # type: ignore[dict-item]
        for rows in (
            np.ones((1, 3), dtype=np.int64),
            np.ones((1, 2)),
            -np.ones((1, 2), dtype=np.int64),
        ):
            with pytest.raises(InputError):
                list(stream.release(100, rows))  # type: ignore[arg-type]
        values = stacked(stream.close_through(100))
    np.testing.assert_array_equal(values, expected(MECHANISMS[0], np.zeros((1, 2), dtype=np.int64)))


def test_two_objects_for_one_stream_cannot_release_a_tick_twice(backend: Backend) -> None:
    noise = NamedNoise()
    with backend.open(noise=noise) as store:
        one = create(store)
        two = store.open("doors")
        one.close_through(101)
        with pytest.raises(StoreError, match="changed through another object"):
            two.close_through(100)
        assert two.close_through(101) == []
        two.declare(["c"])
        with pytest.raises(StoreError, match="changed through another object"):
            one.close_through(102)
        one.close_through(102)
    want = expected(MECHANISMS[0], np.zeros((3, 2), dtype=np.int64))
    with backend.reader() as reader:
        rows = [row[:2] for row in totals_of(reader).values()]
    assert rows == want.tolist()
