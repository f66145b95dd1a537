"""What two processes on one PostgreSQL do at the same moment."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fadecount.service.leader import Leader
from fadecount.streams import Batch, Description, FileFence, PostgresStore, Store, Stream, Ticks
from tests.service.harness import EXACT, StillClock
from tests.service.test_leaders import database

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
    desks = [Leader(each, StillClock(), on_tick=lambda *_: None, accept_extra_loss=False) for each in (store, open_store())]
    open_stream = store.open

    def open_late(name: str, *, accept_extra_loss: bool = False) -> Stream:
        desks[1].find_streams()
        return open_stream(name, accept_extra_loss=accept_extra_loss)

    monkeypatch.setattr(store, "open", open_late)
    assert desks[0].create(described("doors"), ["a"])
    assert not desks[0].create(described("doors"), ["a"])
    assert desks[0].accept("doors", [Batch(counts={"a": 1})]) == [True]
    assert (list(desks[0]._streams), list(desks[1]._streams)) == ([], ["doors"])
