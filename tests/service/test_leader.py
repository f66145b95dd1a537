"""Events count in the tick in which they arrive, or a later one; never in one that is over."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import fadecount as fc
from fadecount.service import leader as leader_module
from fadecount.service.leader import Leader
from fadecount.service.parsing import SentEvents
from fadecount.service.problems import Problem
from fadecount.streams import Description, FileFence, SQLiteStore, Ticks
from fadecount.streams.database import Checkpoints
from fadecount.streams.fence import Mark
from fadecount.streams.status import KEYS_AT_ONCE
from tests.service.harness import START, StillClock

EXACT = fc.Gradual(epsilon=2.0**14)


@pytest.fixture
def clock() -> StillClock:
    return StillClock(START)


@pytest.fixture
def leader(tmp_path: Path, clock: StillClock) -> Iterator[Leader]:
    store = SQLiteStore(tmp_path / "state" / "streams.db", fence=FileFence(tmp_path / "fence"))
    made = Leader(store, clock, on_tick=lambda *_: None)
    made.create(Description(name="doors", mechanism=EXACT, ticks=Ticks(tick_seconds=60)), ["a"])
    yield made
    made.close()


class Noted(Checkpoints):
    """Every step that was passed."""

    def __init__(self) -> None:
        self.seen = list[str]()

    def __call__(self, step: str) -> None:
        self.seen.append(step)


def send(leader: Leader, counts: dict[str, int], now: float, batch_id: str | None = None) -> list[bool | Problem]:
    return leader.accept("doors", [(SentEvents(counts), batch_id)], now)


def released(leader: Leader) -> list[int]:
    return [row[0] for piece in leader._store.reader().releases("doors") for row in piece.values.tolist()]


def test_an_event_after_the_end_of_a_tick_counts_in_the_next(leader: Leader, clock: StillClock) -> None:
    send(leader, {"a": 1}, clock.moment)
    clock.moment += 60.01
    with pytest.raises(Problem, match="catching up"):  # nobody has closed the tick yet
        send(leader, {"a": 10}, clock.moment)
    assert released(leader) == []
    leader.close_due(clock.moment)
    send(leader, {"a": 10}, clock.moment)
    assert released(leader) == [1]
    clock.moment += 60
    leader.close_due(clock.moment)
    assert released(leader) == [1, 11]


def test_while_a_stream_catches_up_events_are_to_be_sent_again(
    leader: Leader, clock: StillClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leader_module, "MOST_TICKS_AT_ONCE", 3)
    monkeypatch.setattr(leader_module, "LONGEST_TURN", 0.0)
    clock.moment += 5 * 60
    leader._close(leader._next_group(clock.moment))
    with pytest.raises(Problem) as caught:
        send(leader, {"a": 1}, clock.moment, "one")
    assert (caught.value.status, released(leader)) == (503, [0, 0, 0])
    monkeypatch.setattr(leader_module, "LONGEST_TURN", 1.0)
    leader.close_due(clock.moment)
    assert send(leader, {"a": 1}, clock.moment, "one") == [True]
    assert send(leader, {"a": 1}, clock.moment, "one") == [False]
    clock.moment += 60
    leader.close_due(clock.moment)
    assert released(leader) == [0, 0, 0, 0, 0, 1]


def test_a_wrong_batch_is_refused_by_itself_and_before_the_others_are_written(leader: Leader, clock: StillClock) -> None:
    sent = [(SentEvents({key: 1}), None) for key in ("a", "unknown", "a")]
    first, wrong, last = leader.accept("doors", sent, clock.moment)
    assert (first, last) == (True, True) and isinstance(wrong, Problem) and wrong.code == "unknown_key"
    many = leader.accept("doors", [(SentEvents({"a": 1}, largest_amount=2), None)], clock.moment)
    assert isinstance(many[0], Problem) and many[0].code == "wrong_amount"
    clock.moment += 60
    leader.close_due(clock.moment)
    assert released(leader) == [2]


def test_a_stream_that_cannot_go_on_does_not_stop_the_others(
    leader: Leader, clock: StillClock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """One has no steps left, of another a copy went on; all are due at the same time."""
    short = Description(name="short", mechanism=fc.Binary(epsilon=1000.0, horizon=1), ticks=Ticks(tick_seconds=60))
    leader.create(short, ["all"])
    leader.create(Description(name="copied", mechanism=EXACT, ticks=Ticks(tick_seconds=60)), ["all"])
    clock.moment += 60
    leader.close_due(clock.moment)
    monkeypatch.setattr(leader_module, "_steps_left", lambda _: 100)
    copied, fence = leader._streams["copied"].status, leader._store._fence
    assert fence is not None
    fence.move(copied.uid, copied.commit_id, Mark(commit_id="another copy", steps=9))
    send(leader, {"a": 4}, clock.moment)
    clock.moment += 60
    leader.close_due(clock.moment)
    assert released(leader) == [0, 4]
    assert (leader.stream_count, leader.trouble) == (1, None)
    assert "stream short cannot go on (HorizonError)" in caplog.text
    assert "stream copied cannot go on (FenceError)" in caplog.text
    for name in ("short", "copied"):
        with pytest.raises(Problem, match="not in order"):
            leader.accept(name, [(SentEvents({"all": 1}), None)], clock.moment)


def test_streams_that_are_due_are_closed_in_groups(tmp_path: Path, clock: StillClock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leader_module, "MOST_TOGETHER", 4)
    monkeypatch.setattr(leader_module, "CELLS", 60)
    monkeypatch.setattr(leader_module, "LONGEST_TURN", 0.0)
    store = SQLiteStore(tmp_path / "many" / "streams.db", fence=FileFence(tmp_path / "fence"))
    noted, closed = Noted(), list[str]()
    store._checkpoint = noted
    leader = Leader(store, clock, on_tick=lambda name, _: closed.append(name))
    for number in range(10):
        wide = [f"key{at}" for at in range(50 if number == 5 else 1)]
        leader.create(Description(name=f"s{number}", mechanism=EXACT, ticks=Ticks(tick_seconds=60)), wide)
    clock.moment += 60
    turns: list[int] = []
    while not turns or turns[-1]:
        before = len(closed)
        leader.close_due(clock.moment)
        turns.append(len(closed) - before)
    assert (turns, noted.seen.count("committed")) == ([4, 4, 2, 0], 3)
    closed.clear()
    clock.moment += 20 * 60  # now the wide one is more than fits beside others, and comes by itself or with few
    while len(closed) < 10:
        leader.close_due(clock.moment)
    assert noted.seen.count("committed") > 6 and sorted(closed) == [f"s{number}" for number in range(10)]
    leader.close()


def test_a_declaration_ends_when_its_stream_is_deleted(leader: Leader) -> None:
    """The store goes on: what is left of the declaration touches nothing."""
    steps = leader.declare("doors", [f"key{number}" for number in range(KEYS_AT_ONCE + 1)])
    for _ in range(3):  # checked in two steps, then the first names are written
        next(steps)
    leader._store.delete("doors")
    leader._forget("doors")
    with pytest.raises(Problem) as caught:
        next(steps)
    assert caught.value.status == 404
    leader.create(Description(name="gates", mechanism=EXACT, ticks=Ticks(tick_seconds=60)), ["a"])
    assert leader.stream_count == 1
