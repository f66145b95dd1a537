"""Events count in the tick in which they arrive, or a later one; never in one that is over."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import fadecount as fc
from fadecount.service import leader as leader_module
from fadecount.service.leader import Leader
from fadecount.service.problems import Problem
from fadecount.streams import Batch, Description, FileFence, SQLiteStore, Ticks
from tests.service.harness import START, StillClock

EXACT = fc.Gradual(epsilon=2.0**14)


@pytest.fixture
def clock() -> StillClock:
    return StillClock(START)


@pytest.fixture
def leader(tmp_path: Path, clock: StillClock) -> Iterator[Leader]:
    store = SQLiteStore(tmp_path / "state" / "streams.db", fence=FileFence(tmp_path / "fence"))
    made = Leader(store, clock, on_tick=lambda *_: None, accept_extra_loss=False)
    made.create(Description(name="doors", mechanism=EXACT, ticks=Ticks(tick_seconds=60)), ["a"])
    yield made
    made.close()


def released(leader: Leader) -> list[int]:
    return [row[0] for piece in leader._store.reader().releases("doors") for row in piece.values.tolist()]


def test_an_event_after_the_end_of_a_tick_counts_in_the_next(leader: Leader, clock: StillClock) -> None:
    leader.accept("doors", [Batch(counts={"a": 1})])
    clock.moment += 60.01  # nobody has closed the tick yet
    leader.accept("doors", [Batch(counts={"a": 10})])
    assert released(leader) == [1]
    clock.moment += 60
    leader.close_due()
    assert released(leader) == [1, 11]


def test_while_a_stream_catches_up_events_are_to_be_sent_again(
    leader: Leader, clock: StillClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leader_module, "MOST_TICKS_AT_ONCE", 3)
    clock.moment += 5 * 60
    with pytest.raises(Problem) as caught:
        leader.accept("doors", [Batch(counts={"a": 1}, id="one")])
    assert (caught.value.status, released(leader)) == (503, [0, 0, 0])
    assert leader.accept("doors", [Batch(counts={"a": 1}, id="one")]) == [True]
    assert leader.accept("doors", [Batch(counts={"a": 1}, id="one")]) == [False]
    clock.moment += 60
    leader.close_due()
    assert released(leader) == [0, 0, 0, 0, 0, 1]
