"""What two processes on one PostgreSQL do at the same moment."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fadecount.service.leader import Leader
from fadecount.service.parsing import SentEvents
from fadecount.service.problems import Problem
from fadecount.streams import Batch, Description, FileFence, PostgresStore, Store, Stream, Ticks
from tests.service.harness import EXACT, START, Harness, StillClock, wait_for
from tests.service.test_leaders import database
from tests.service.test_live import following

__all__ = ["database"]


@pytest.fixture
def open_store(database: str, tmp_path: Path) -> Iterator[Callable[[], Store]]:
    opened: list[Store] = []

    def make() -> Store:
        opened.append(PostgresStore(database, fence=FileFence(tmp_path / "fence"), lock_wait_seconds=0.0))
        return opened[-1]

    yield make
    for store in opened:
        store.close()


def together(*tasks: Callable[[], object]) -> None:
    """Run them at once; raises what any of them raised."""
    failures: list[BaseException] = []

    def run(task: Callable[[], object]) -> None:
        try:
            task()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(task,)) for task in tasks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


def described(name: str) -> Description:
    return Description(name=name, mechanism=EXACT, ticks=Ticks(tick_seconds=60))


def test_the_same_ids_in_opposite_orders_do_not_lock_each_other_out(open_store: Callable[[], Store]) -> None:
    open_store().create(described("doors"), keys=["a"], start_tick=0)
    intakes = [open_store().intake("doors"), open_store().intake("doors")]
    counted: list[int] = []

    def send(at: int) -> None:
        for number in range(40):
            batches = [Batch(counts={"a": 1}, id=f"{number}/{each}") for each in range(250)]
            counted.append(sum(intakes[at].accept(batches if at else batches[::-1])))

    together(lambda: send(0), lambda: send(1))
    assert sum(counted) == 40 * 250


def test_a_stream_that_another_process_leads_at_once_is_created_all_the_same(
    open_store: Callable[[], Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other process looks for streams just between the creation and the lead."""
    store = open_store()
    leaders = [Leader(each, StillClock(), on_ticks=lambda _: None) for each in (store, open_store())]
    open_stream = store.open

    def open_late(name: str) -> Stream:
        leaders[1].find_streams()
        return open_stream(name)

    monkeypatch.setattr(store, "open", open_late)
    assert leaders[0].create(described("doors"), ["a"])
    assert not leaders[0].create(described("doors"), ["a"])
    assert leaders[0].accept({"doors": [(SentEvents({"a": 1}), None)]}, START) == {"doors": [True]}
    assert (list(leaders[0]._streams), list(leaders[1]._streams)) == ([], ["doors"])


def test_two_processes_that_create_one_name_make_one_stream(open_store: Callable[[], Store]) -> None:
    leaders = [Leader(open_store(), StillClock(), on_ticks=lambda _: None) for _ in range(2)]
    made: list[bool] = []
    for number in range(10):
        name = f"doors{number}"
        together(*(lambda leader=leader, name=name: made.append(leader.create(described(name), ["a"])) for leader in leaders))
    assert sum(made) == 10 and len(made) == 20


def test_keys_declared_at_a_process_that_does_not_lead(open_store: Callable[[], Store]) -> None:
    """It says so, unless there is nothing to declare; and it counts under keys that the other one has declared since."""
    one, two = (Leader(open_store(), StillClock(), on_ticks=lambda _: None) for _ in range(2))
    one.create(described("doors"), ["a"])
    assert two.accept({"doors": [(SentEvents({"a": 1}), None)]}, START) == {"doors": [True]}
    list(two.declare("doors", ["a"]))
    with pytest.raises(Problem, match="another process leads"):
        list(two.declare("doors", ["b"]))
    list(one.declare("doors", ["b"]))
    assert two.accept({"doors": [(SentEvents({"b": 1}), None)]}, START) == {"doors": [True]}


def test_a_process_that_does_not_lead_has_streams_changed_and_ends_their_readers(tmp_path: Path, database: str) -> None:
    with Harness(tmp_path, database=database) as one, Harness(tmp_path, database=database) as two:
        one.create()
        one.close_tick()
        wait_for(lambda: two.request("GET", "/v1/streams/doors/releases/latest", token=one.admin).status == 200)
        held = two.service.writer._leader
        assert held is not None and held.state("doors") == "led elsewhere"
        with following(two) as ticks, two.client(one.admin) as client:
            next(ticks)
            client.retain("doors", "30d")
            assert one.request("GET", "/v1/streams/doors", token=one.admin).json()["retain_seconds"] == 30 * 86400
            client.delete("doors")
            assert list(ticks) == []
        wait_for(lambda: two.request("GET", "/v1/streams/doors", token=one.admin).status == 404)
        assert one.request("GET", "/v1/streams/doors", token=one.admin).status == 404
