"""Events count in the tick in which they arrive, or a later one; never in one that is over."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

import fadecount as fc
from fadecount.mechanisms import Unit
from fadecount.service import writer
from fadecount.service.http import Problem
from fadecount.service.parsing import Event, SentEvents
from fadecount.service.writer import Leader, Sent
from fadecount.streams import Batch, Description, FileFence, SQLiteStore, Stream, Ticks
from fadecount.streams.database import Checkpoints
from fadecount.streams.fence import Mark
from tests.service.harness import START, StillClock
from tests.streams.test_destruction import bytes_of, confirmed

EXACT = fc.Gradual(epsilon=2.0**14)


@pytest.fixture
def clock() -> StillClock:
    return StillClock(START)


@pytest.fixture
def leader(tmp_path: Path, clock: StillClock) -> Iterator[Leader]:
    store = SQLiteStore(tmp_path / "state" / "streams.db", fence=FileFence(tmp_path / "fence"))
    made = Leader(store, clock)
    made.create(Description(name="doors", mechanism=EXACT, ticks=Ticks(tick_seconds=60)), ["a"])
    yield made
    made.close()


class CapKey(Checkpoints):
    """Every step that was passed."""

    def __init__(self) -> None:
        self.seen = list[str]()

    def __call__(self, step: str) -> None:
        self.seen.append(step)


def send(
    leader: Leader, counts: dict[str, int], now: float, batch_id: str | None = None
) -> list[bool | Problem]:
    return accept(
        leader,
        "doors",
        [(SentEvents({Event(key): count for key, count in counts.items()}), batch_id)],
        now,
    )


def accept(leader: Leader, name: str, sent: Sequence[Sent], now: float) -> list[bool | Problem]:
    outcome = leader.accept({name: sent}, now)[name]
    if isinstance(outcome[0], Problem):
        raise outcome[0]
    return outcome


def released(leader: Leader) -> list[int]:
    return [
        row[0]
        for piece in leader._store.reader().stream("doors").running()
        for row in piece.values.tolist()
    ]


def test_an_event_after_the_end_of_a_tick_counts_in_the_next(
    leader: Leader, clock: StillClock
) -> None:
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
    monkeypatch.setattr(writer, "MOST_TICKS_AT_ONCE", 3)
    clock.moment += 5 * 60
    leader.close_due(clock.moment)
    with pytest.raises(Problem) as caught:
        send(leader, {"a": 1}, clock.moment, "one")
    assert (caught.value.status, released(leader)) == (503, [0, 0, 0])
    leader.close_due(clock.moment)
    assert send(leader, {"a": 1}, clock.moment, "one") == [True]
    assert send(leader, {"a": 1}, clock.moment, "one") == [False]
    clock.moment += 60
    leader.close_due(clock.moment)
    assert released(leader) == [0, 0, 0, 0, 0, 1]


def test_equal_events_of_a_batch_all_count(leader: Leader, clock: StillClock) -> None:
    assert accept(leader, "doors", [(SentEvents({Event("a", 3): 2, Event("a"): 1}), None)], START)
    clock.moment += 60
    leader.close_due(clock.moment)
    assert released(leader) == [7]


def test_a_wrong_batch_is_refused_by_itself_and_before_the_others_are_written(
    leader: Leader, clock: StillClock
) -> None:
    sent = [(SentEvents({Event(key): 1}), None) for key in ("a", "unknown", "a")]
    first, wrong, last = accept(leader, "doors", sent, clock.moment)
    assert (
        (first, last) == (True, True) and isinstance(wrong, Problem) and wrong.code == "unknown_key"
    )
    clock.moment += 60
    leader.close_due(clock.moment)
    assert released(leader) == [2]


def test_a_stream_that_cannot_go_on_does_not_stop_the_others(
    leader: Leader,
    clock: StillClock,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """One has no steps left, of another a copy went on; all are due at the same time."""
    short = Description(
        name="short", mechanism=fc.Binary(epsilon=1000.0, horizon=1), ticks=Ticks(tick_seconds=60)
    )
    leader.create(short, ["all"])
    leader.create(
        Description(name="copied", mechanism=EXACT, ticks=Ticks(tick_seconds=60)), ["all"]
    )
    clock.moment += 60
    leader.close_due(clock.moment)
    monkeypatch.setattr(writer, "_steps_left", lambda _: 100)
    stream, fence = leader._intakes["copied"], leader._store._context.fence
    assert isinstance(stream, Stream)
    copied = stream.status
    assert fence is not None
    fence.move(copied.uid, copied.commit_id, Mark(commit_id="another copy", steps=9, name="copied"))
    send(leader, {"a": 4}, clock.moment)
    clock.moment += 60
    leader.close_due(clock.moment)
    assert released(leader) == [0, 4]
    assert (leader.states(), leader.trouble) == ({"running": 1, "refused": 2}, None)
    assert "stream short cannot go on (HorizonError)" in caplog.text
    assert (
        "stream copied cannot go on (stream 'copied' is at step 1, but was published" in caplog.text
    )
    for name in ("short", "copied"):
        with pytest.raises(Problem, match="not in order"):
            accept(leader, name, [(SentEvents({Event("all"): 1}), None)], clock.moment)


def test_streams_that_are_due_are_closed_in_groups(
    tmp_path: Path, clock: StillClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "MOST_TOGETHER", 4)
    monkeypatch.setattr(writer, "CELLS", 60)
    store = SQLiteStore(tmp_path / "many" / "streams.db", fence=FileFence(tmp_path / "fence"))
    noted, closed = CapKey(), list[str]()
    store._context.checkpoint = noted
    leader = Leader(store, clock)
    for number in range(10):
        wide = [f"key{at}" for at in range(50 if number == 5 else 1)]
        leader.create(
            Description(name=f"s{number}", mechanism=EXACT, ticks=Ticks(tick_seconds=60)), wide
        )
    clock.moment += 60
    turns: list[int] = []
    while not turns or turns[-1]:
        turns.append(leader.close_due(clock.moment))
    assert (turns, noted.seen.count("committed")) == ([4, 4, 2, 0], 3)
    leader.changed.clear()
    clock.moment += (
        20 * 60
    )  # now the wide one is more than fits beside others: it comes by itself, a tick at a time
    while leader.next_due is not None and leader.next_due <= clock.moment:
        leader.close_due(clock.moment)
        closed += leader.changed
        leader.changed.clear()
    assert noted.seen.count("committed") > 20 and set(closed) == {
        f"s{number}" for number in range(10)
    }
    assert closed.count("s5") == 20 and len(closed) < 20 + 9 * 20
    number = store.reader().status("s5").id
    rows = store._database.query("SELECT COUNT(*) FROM figures WHERE stream = ?", (number,))
    assert rows == [(21,)]
    leader.close()


def test_a_scrub_that_is_owed_is_done_by_the_upkeep(
    tmp_path: Path, clock: StillClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not all streams that are due are closed at once, and a store is scrubbed once a minute: a
    thief must not find persons of an ended tick until the next one ends."""
    monkeypatch.setattr(writer, "MOST_TOGETHER", 2)
    now = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    path, persons = tmp_path / "many" / "streams.db", [f"person {at}" for at in range(20)]
    leader = Leader(SQLiteStore(path, fence=FileFence(tmp_path / "fence")), clock)
    now[0] += 60
    unit, hours = Unit(of="person"), Ticks(tick_seconds=3600)
    kept = list[tuple[Stream, list[bytes]]]()
    for name in ("one", "two", "three"):
        leader.create(Description(name=name, mechanism=EXACT, ticks=hours, unit=unit), ["a"])
        stream = leader._intakes[name]
        assert isinstance(stream, Stream)
        stream.add_many([Batch(counts={"a": 1}, person=each) for each in persons])
        kept.append((stream, [body for _, body in stream._rows.read("secrets")]))

    def found() -> list[list[int]]:
        return [confirmed(bytes_of(path.parent), *each, persons) for each in kept]

    assert found() == [[20, 20]] * 3
    clock.moment += 3600
    while leader.close_due(clock.moment):
        leader.tidy()
    while leader.tidy():
        pass
    assert [20, 20] in found(), "one was closed within the minute"
    now[0] += 60
    leader.tidy()
    assert found() == [[0, 0]] * 3
    leader.close()


def test_batches_of_several_streams_share_a_transaction(leader: Leader, clock: StillClock) -> None:
    leader._store._context.checkpoint = noted = CapKey()
    for name in ("gates", "walls"):
        leader.create(Description(name=name, mechanism=EXACT, ticks=Ticks(tick_seconds=60)), ["a"])
    sent: list[Sent] = [
        (SentEvents({Event("a"): 1}), None),
        (SentEvents({Event("unknown"): 1}), None),
    ]
    noted.seen.clear()
    found = leader.accept({"walls": sent, "nowhere": sent, "gates": sent}, clock.moment)
    assert noted.seen == ["before accept", "accept written", "accept committed"]
    for refused in found.pop("nowhere"):
        assert isinstance(refused, Problem) and refused.status == 404
    for outcome in found.values():
        assert isinstance(outcome, list) and outcome[0] is True and isinstance(outcome[1], Problem)
    clock.moment += 60
    late = leader.accept({"gates": sent}, clock.moment)["gates"]
    assert isinstance(late[0], Problem) and late[0].status == 503


def test_a_stream_that_is_deleted_leaves_nothing_in_the_queue_of_ticks(
    leader: Leader, clock: StillClock
) -> None:
    leader.delete("doors")
    leader.create(Description(name="doors", mechanism=EXACT, ticks=Ticks(tick_seconds=60)), ["a"])
    clock.moment += 60
    leader.close_due(clock.moment)
    clock.moment += 60
    leader.close_due(clock.moment)
    assert released(leader) == [0, 0]
    assert len(leader._queue) == 1
