"""What two processes on one PostgreSQL do at the same moment."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fadecount.errors import ParameterError
from fadecount.service.http import Problem
from fadecount.service.parsing import Event, SentEvents
from fadecount.service.tokens import Role
from fadecount.service.website import Websites
from fadecount.service.writer import Leader
from fadecount.streams import Batch, Description, FileFence, PostgresStore, Store, Stream, Ticks
from fadecount.streams.database import Checkpoints
from fadecount.streams.inputs import Acceptance, accept_together
from fadecount.streams.stream import close_together
from tests.service.harness import EXACT, START, Harness, StillClock, wait_for
from tests.service.test_leaders import database
from tests.service.test_live import following

__all__ = ["database"]


@pytest.fixture
def open_store(database: str, tmp_path: Path) -> Iterator[Callable[[], Store]]:
    opened: list[Store] = []

    def make() -> Store:
        opened.append(
            PostgresStore(database, fence=FileFence(tmp_path / "fence"), lock_wait_seconds=0.0)
        )
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


def test_pages_of_a_website_that_another_process_leads(
    open_store: Callable[[], Store], caplog: pytest.LogCaptureFixture
) -> None:
    """The process starts, and its log says which pages are missing."""
    first, second = (Leader(open_store(), StillClock(START), is_shared=True) for _ in range(2))
    Websites(domains=("example.org",)).create(first)
    for page in ("/", "/more"):
        assert "are not declared" not in caplog.text
        Websites(domains=("example.org",), pages=(page,)).create(second)
    assert "pages of stream example.org_pages are not declared: another process" in caplog.text
    with pytest.raises(ParameterError, match="zone must be UTC, with which stream"):
        Websites(domains=("example.org",), zone="Europe/Vienna").create(second)


def test_the_same_ids_in_opposite_orders_do_not_lock_each_other_out(
    open_store: Callable[[], Store],
) -> None:
    open_store().create(described("doors"), keys=["a"], start_tick=0)
    intakes = [open_store().intake("doors"), open_store().intake("doors")]
    counted: list[int] = []

    def send(at: int) -> None:
        for number in range(40):
            batches = [Batch(counts={"a": 1}, id=f"{number}/{each}") for each in range(250)]
            counted.append(sum(intakes[at].add_many(batches if at else batches[::-1])))

    together(lambda: send(0), lambda: send(1))
    assert sum(counted) == 40 * 250


def test_a_stream_that_another_process_leads_at_once_is_created_all_the_same(
    open_store: Callable[[], Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other process looks for streams just between the creation and the lead."""
    store = open_store()
    leaders = [Leader(each, StillClock()) for each in (store, open_store())]
    open_stream = store._open

    def open_late(name: str, uid: str) -> Stream:
        leaders[1].take_over()
        return open_stream(name, uid)

    monkeypatch.setattr(store, "_open", open_late)
    assert leaders[0].create(described("doors"), ["a"])
    assert not leaders[0].create(described("doors"), ["a"])
    assert leaders[0].accept({"doors": [(SentEvents({Event("a"): 1}), None)]}, START) == {
        "doors": [True]
    }
    assert (leaders[0].states(), leaders[1].states()) == ({}, {"running": 1})


def test_two_processes_that_create_one_name_make_one_stream(
    open_store: Callable[[], Store],
) -> None:
    leaders = [Leader(open_store(), StillClock()) for _ in range(2)]
    made: list[bool] = []
    for number in range(10):
        name = f"doors{number}"
        together(
            *(
                lambda leader=leader, name=name: made.append(leader.create(described(name), ["a"]))
                for leader in leaders
            )
        )
    assert sum(made) == 10 and len(made) == 20


def test_keys_declared_at_a_process_that_does_not_lead(open_store: Callable[[], Store]) -> None:
    """It says so, unless there is nothing to declare; and it counts under keys that the other one
    has declared since."""
    one, two = (Leader(open_store(), StillClock()) for _ in range(2))
    one.create(described("doors"), ["a"])
    assert two.accept({"doors": [(SentEvents({Event("a"): 1}), None)]}, START) == {"doors": [True]}
    two.declare("doors", ["a"])
    with pytest.raises(Problem, match="another process leads"):
        two.declare("doors", ["b"])
    one.declare("doors", ["b"])
    assert two.accept({"doors": [(SentEvents({Event("b"): 1}), None)]}, START) == {"doors": [True]}


class _Stops(Checkpoints):
    """Stops at one step until it may go on."""

    def __init__(self, step: str) -> None:
        self.step, self.reached, self.go_on = step, threading.Event(), threading.Event()

    def __call__(self, step: str) -> None:
        if step == self.step:
            self.reached.set()
            assert self.go_on.wait(30)


def _waits_for_a_lock(store: Store) -> bool:
    words = (
        "SELECT 1 FROM pg_locks JOIN pg_stat_activity USING (pid) WHERE NOT granted AND datname ="
        " current_database()"
    )
    return bool(store._database.query(words))


@pytest.mark.parametrize("adding_up", [False, True])
def test_what_is_accepted_while_a_stream_is_deleted_is_deleted_too(
    open_store: Callable[[], Store], adding_up: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two, three = open_store(), open_store(), open_store()
    one.create(described("doors"), keys=["a"], start_tick=0)
    intake, stops = two.intake("doors"), _Stops("accept written")
    intake.add_many([Batch(counts={"a": 5})])
    if adding_up:  # then what waits is added up, in the middle of the transaction
        intake._unfolded = 1 << 30
        insert = intake._insert

        def insert_late(*arguments: Any) -> None:
            stops("accept written")
            insert(*arguments)

        monkeypatch.setattr(intake, "_insert", insert_late)
    else:
        intake._context.checkpoint = stops

    def delete() -> None:
        assert stops.reached.wait(30)
        one.delete("doors")

    def go_on() -> None:
        wait_for(lambda: _waits_for_a_lock(three))
        stops.go_on.set()

    together(lambda: intake.add_many([Batch(counts={"a": 1})]), delete, go_on)
    assert one._database.query("SELECT COUNT(*) FROM inputs") == [(0,)]


def test_publishing_and_accepting_do_not_lock_each_other_out(
    open_store: Callable[[], Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rows of streams are in the order in which they were last written, which is not that of
    their numbers."""
    one, two, three = open_store(), open_store(), open_store()
    streams = [
        one.create(described(f"s{number}"), keys=["a"], start_tick=0) for number in range(40)
    ]
    for tick in range(4):
        close_together([(each, tick) for each in (streams[7 * tick :] + streams[: 7 * tick])[::-1]])
    order = [number for (number,) in one._database.query("SELECT id FROM streams")]
    first = min(streams, key=lambda each: each.status.id)
    assert order[0] != first.status.id, "the test needs another order"
    begins, publishes = _Stops("begins"), _Stops("fenced")
    intakes = [two.intake(each.description.name) for each in streams]
    accept = intakes[1]._accept

    def accept_late(*arguments: Any) -> Any:
        begins("begins")
        return accept(*arguments)

    monkeypatch.setattr(intakes[1], "_accept", accept_late)

    def publish_late() -> None:
        assert begins.reached.wait(30)
        publishes.go_on.set()
        wait_for(lambda: _waits_for_a_lock(three))
        begins.go_on.set()

    def send() -> None:
        assert publishes.reached.wait(30)
        accept_together(
            [Acceptance(each, [each.checked(Batch(counts={"a": 1}))]) for each in intakes]
        )

    streams[-1]._context = dataclasses.replace(streams[-1]._context, checkpoint=publishes)
    together(lambda: close_together([(each, 4) for each in streams[::-1]]), send, publish_late)
    close_together([(each, 5) for each in streams])
    with one.reader() as reader:
        assert all(reader.status(each.description.name).published_tick == 5 for each in streams)


def test_a_stream_that_another_process_deleted_takes_nothing_and_others_do(
    open_store: Callable[[], Store],
) -> None:
    """Also together with a key that was never declared, for which the keys are read again."""
    one, two = (Leader(open_store(), StillClock()) for _ in range(2))
    for name in ("doors", "gates"):
        one.create(described(name), ["a"])
    sent = (SentEvents({Event("a"): 1}), None)
    assert two.accept({"doors": [sent], "gates": [sent]}, START) == {
        "doors": [True],
        "gates": [True],
    }
    one.delete("doors")
    found = two.accept(
        {"doors": [sent, (SentEvents({Event("b"): 1}), None)], "gates": [sent]}, START
    )
    assert found["gates"] == [True]
    assert [isinstance(each, Problem) and each.status for each in found["doors"]] == [404, 404]


def test_a_process_that_does_not_lead_says_so_and_ends_readers_of_what_the_leader_deletes(
    tmp_path: Path, database: str
) -> None:
    with Harness(tmp_path, database=database) as one, Harness(tmp_path, database=database) as two:
        one.create()
        one.close_tick()
        latest = "/v1/streams/doors/total"
        wait_for(lambda: two.request("GET", latest, token=one.admin).status == 200)
        held = two.service.writer.leader
        assert held is not None and held.state("doors") == "led elsewhere"
        with following(two) as ticks, one.client() as client:
            next(ticks)
            for method, path, body in (
                ("DELETE", "", None),
                ("POST", "/keys", '{"keys": ["c"]}'),
            ):
                headers = {"content_type": "application/json"} if body else {}
                refused = two.request(
                    method, f"/v1/streams/doors{path}", body, token=one.admin, **headers
                )
                assert refused.status == 503 and b"another process leads" in refused.body
            client.delete("doors")
            assert list(ticks) == []
        wait_for(lambda: two.request("GET", "/v1/streams/doors", token=one.admin).status == 404)
        assert one.request("GET", "/v1/streams/doors", token=one.admin).status == 404


def test_a_token_of_one_process_is_soon_known_to_the_other(tmp_path: Path, database: str) -> None:
    with Harness(tmp_path, database=database) as one, Harness(tmp_path, database=database) as two:
        token, made = one.new_token(Role.READER)
        for status in (200, 401):
            wait_for(
                lambda status=status: (  # type: ignore[misc]
                    two.request("GET", "/v1/streams", token=token).status == status
                )
            )
            if status == 200:
                one.with_tokens(lambda tokens: tokens.revoke(made.id))


def test_a_zero_in_a_name_does_not_cost_the_connection(tmp_path: Path, database: str) -> None:
    """PostgreSQL takes none in a text, and what fails there is in doubt: every client would be
    asked to send again."""
    with Harness(tmp_path, database=database) as harness:
        harness.create()
        held = harness.service.writer.leader
        assert harness.post("/v1/streams/%00/events", {"events": [{"key": "a"}]}).status == 404
        for method, path in (("GET", "/v1/streams/%00"), ("DELETE", "/v1/streams/doors%00")):
            assert harness.request(method, path, token=harness.admin).status == 404
        assert harness.request("GET", "/v1/streams?cursor=%00", token=harness.admin).status == 400
        assert harness.service.writer.leader is held
