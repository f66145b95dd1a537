"""Several streams in one transaction, and one declaration in several."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import fadecount as fc
from fadecount.errors import (
    AlreadyReleasedError,
    ClockError,
    FenceError,
    HorizonError,
    InputError,
    ParameterError,
    StoreError,
)
from fadecount.streams import (
    Batch,
    Description,
    FileFence,
    SQLiteStore,
    Store,
    Stream,
    Ticks,
)
from fadecount.streams.database import Checkpoints
from fadecount.streams.fence import Mark
from fadecount.streams.inputs import Acceptance, Accepted, accept_together
from fadecount.streams.stream import close_together
from tests.streams.backends import Backend, totals_of

EXACT = fc.Gradual(epsilon=2.0**14)
NAMES = ("a", "b", "c")


class StopError(Exception):
    """The process ends here."""


class Stopping(Checkpoints):
    """Notes every step, and stops at one of them."""

    def __init__(self, step: str = "", passing: int = 1) -> None:
        self.step, self.passing, self.seen = step, passing, list[str]()

    def __call__(self, step: str) -> None:
        self.seen.append(step)
        if step == self.step and self.seen.count(step) == self.passing:
            raise StopError


def made(store: Store, mechanism: fc.Mechanism = EXACT) -> list[Stream]:
    streams = []
    for number, name in enumerate(NAMES, 1):
        description = Description(name=name, mechanism=mechanism, ticks=Ticks(tick_seconds=60))
        streams.append(store.create(description, start_tick=100))
        streams[-1].add({"all": number})
    return streams


def released(backend: Backend) -> dict[str, list[int]]:
    with backend.reader() as reader:
        return {name: [row[0] for row in totals_of(reader, name).values()] for name in NAMES}


def test_the_ticks_of_several_streams_are_closed_in_one_transaction(backend: Backend) -> None:
    with backend.open() as store:
        store._context.checkpoint = noted = Stopping()
        streams = made(store)
        noted.seen.clear()
        closed = close_together([(each, 100 + at) for at, each in enumerate(streams)])
        assert [len(each.values) for each in closed if not isinstance(each, FenceError)] == [
            1,
            2,
            3,
        ]
        assert [noted.seen.count(step) for step in ("committed", "fenced", "published")] == [
            1,
            1,
            1,
        ]
        assert noted.seen.count("noise drawn") == 3
        with pytest.raises(AlreadyReleasedError, match="moved on"):
            close_together([(streams[0], 101), (streams[2], 100)])
        assert released(backend) == {"a": [1], "b": [2, 2], "c": [3, 3, 3]}
        assert [each.open_tick for each in streams] == [101, 102, 103]


@pytest.mark.parametrize("step", ["noise drawn", "state written", "before commit"])
def test_an_end_before_the_commit_closes_nothing(backend: Backend, step: str) -> None:
    with backend.open() as store:
        store._context.checkpoint = stopping = Stopping(step)
        streams = made(store)
        with pytest.raises(StopError):
            close_together([(each, 100) for each in streams])
        assert released(backend) == {"a": [], "b": [], "c": []}
        stopping.step = ""
        close_together(
            [(each, 100) for each in streams]
        )  # the same objects go on: nothing was lost
    assert released(backend) == {"a": [1], "b": [2], "c": [3]}


@pytest.mark.parametrize("step", ["committed", "fenced"])
def test_an_end_after_the_commit_is_completed_by_the_next_process(
    backend: Backend, step: str
) -> None:
    with backend.open() as store:
        store._context.checkpoint = Stopping(step)
        with pytest.raises(StopError):
            close_together([(each, 100) for each in made(store)])
    assert released(backend) == {"a": [], "b": [], "c": []}
    with backend.open() as store:
        for name in NAMES:
            assert store.open(name).open_tick == 101
    assert released(backend) == {"a": [1], "b": [2], "c": [3]}


def test_a_stream_that_another_copy_went_on_with_does_not_stop_the_others(backend: Backend) -> None:
    with backend.open() as store:
        streams = made(store)
        fence, before = store._context.fence, streams[1].status
        assert fence is not None
        fence.move(before.uid, before.commit_id, Mark(commit_id="another copy", steps=1, name="b"))
        first, second, third = close_together([(each, 100) for each in streams])
        assert (
            isinstance(second, FenceError)
            and not isinstance(first, FenceError)
            and not isinstance(third, FenceError)
        )
        assert released(backend) == {"a": [1], "b": [], "c": [3]}
        with pytest.raises(FenceError, match="from another copy"):
            streams[1].close_through(101)


def test_a_stream_that_cannot_go_on_closes_nothing_of_the_group(backend: Backend) -> None:
    with backend.open() as store:
        streams = made(store, fc.Binary(epsilon=1000.0, horizon=2))
        with pytest.raises(HorizonError):
            close_together([(streams[0], 100), (streams[1], 103)])
        assert released(backend) == {"a": [], "b": [], "c": []}
        assert [each.open_tick for each in streams] == [100, 100, 100]


def test_batches_for_several_streams_are_accepted_in_one_transaction(backend: Backend) -> None:
    """A stream whose open tick is over, or that was deleted, does not stop the others."""
    with backend.open() as store:
        streams = made(store)
        store.create(
            Description(name="gone", mechanism=EXACT, ticks=Ticks(tick_seconds=60)), start_tick=100
        )
        gone = store.intake("gone")
        store.delete("gone")
        store._context.checkpoint = noted = Stopping()
        intakes = [store.intake(each.description.name) for each in streams]
        batches = [Batch(counts={"all": 10}, id="one"), Batch(counts={"all": 10}, id="one")]
        events = [gone.checked(each) for each in batches]
        wanted = [
            Acceptance(intakes[2], events, 100),
            Acceptance(intakes[1], events, 101),
            Acceptance(gone, events),
        ]
        last, late, deleted, none = accept_together([*wanted, Acceptance(intakes[0], [])])
        assert (
            (last, none) == (Accepted([True, False], 10), Accepted([], 0))
            and isinstance(late, ClockError)
            and isinstance(deleted, ParameterError)
        )
        assert noted.seen == ["before accept", "accept written", "accept committed"]
        close_together([(each, 100) for each in streams])
    assert released(backend) == {"a": [1], "b": [2], "c": [13]}


def test_a_declaration_that_does_not_finish_declares_nothing(backend: Backend) -> None:
    with backend.open() as store:
        store._context.checkpoint = Stopping("declare written")
        streams = made(store)
        with pytest.raises(StopError):
            streams[0].declare([f"key{at}" for at in range(10)])
        assert streams[0].keys == ("all",)
    with backend.open() as store:
        again = store.open("a")
        assert again.keys == store.reader().keys("a") == ("all",)
        with pytest.raises(InputError, match="declared"):
            store.intake("a").add_many([Batch(counts={"key0": 1})])
        again.declare(["key7", "other"])
        assert again.keys == store.reader().keys("a") == ("all", "key7", "other")
        again.add({"other": 5})
        assert again.close_through(100)[0].values.tolist() == [[1, 0, 5]]


def test_wrong_keys_and_a_second_object_are_refused(backend: Backend) -> None:
    with backend.open() as store:
        one = made(store)[0]
        two = store.open("a")
        one.declare(["x"])
        with pytest.raises(StoreError, match="changed through another object"):
            two.declare(["z"])
        assert one.keys == two.keys == store.reader().keys("a") == ("all", "x")
        for wrong in (["k", "l", "m", "n", "k"], ["k", "l", "m", "all"], ["k", "l", "m", ""], []):
            with pytest.raises(ParameterError):
                one.declare(wrong)
        one.declare(["y"])
        assert store.reader().keys("a") == ("all", "x", "y")


def test_keys_in_no_order_write_no_more_than_sorted_ones(tmp_path: Path) -> None:
    """With an index over the names, they would change pages all over it."""
    names = [f"key{number:06d}" for number in range(30_000)]
    written = []
    for order, shuffled in enumerate((names, random.Random(7).sample(names, len(names)))):
        with SQLiteStore(
            tmp_path / f"{order}" / "streams.db", fence=FileFence(tmp_path / "fence")
        ) as store:
            made = store.create(
                Description(name="wide", mechanism=EXACT, ticks=Ticks(tick_seconds=60)),
                start_tick=1,
            )
            store._database.change("PRAGMA wal_autocheckpoint = 0")
            made.declare(shuffled)
            assert set(made.keys) == {"all", *names} == set(store.reader().keys("wide"))
            written.append((tmp_path / f"{order}" / "streams.db-wal").stat().st_size)
    assert max(written) < 1.1 * min(written) < 4_000_000
