"""The writing thread: how requests become groups."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest

from fadecount.errors import StoreError
from fadecount.service import writer as writer_module
from fadecount.service.clock import Clock
from fadecount.service.metrics import Metrics
from fadecount.service.parsing import SentEvents
from fadecount.service.problems import Problem, not_found
from fadecount.service.writer import Writer


class Groups:
    """A leader that takes everything, and notes how many batches came together."""

    next_due = None

    def __init__(self) -> None:
        self.sizes: list[int] = []
        self.keys: list[list[int]] = []
        """Of each group, how many keys each batch had."""

    def accept(
        self, wanted: Mapping[str, Sequence[Any]], _: float
    ) -> dict[str, list[bool] | Problem]:
        self.sizes.extend([sum(map(len, wanted.values()))] if wanted else [])
        self.keys.extend(
            [[len(events.counts) for sent in wanted.values() for events, _ in sent]]
            if wanted
            else []
        )
        return {
            name: not_found() if name == "nowhere" else [True] * len(sent)
            for name, sent in wanted.items()
        }

    def close_due(self, _: float) -> None: ...

    def is_catching_up(self, *_: object) -> bool:
        return False

    def look_after(self) -> None: ...

    def close(self) -> None: ...


async def sizes_of(
    arrivals: Sequence[int], *, before: tuple[int, int], commit_seconds: float
) -> list[int]:
    """The sizes of groups, if so many requests arrive at a time, each time after the writing thread
    has had time to begin."""
    leader = Groups()
    writer = Writer(lambda: leader, Clock(), Metrics(), most_waiting=100, reconnects=False)  # type: ignore[arg-type, return-value]
    writer.start()
    writer._sizes, writer._commit_seconds = before, commit_seconds
    waiting = []
    for number in arrivals:
        waiting += [writer.accept(f"s{at % 3}", SentEvents({"a": 1}), None) for at in range(number)]
        await asyncio.sleep(0.1)
    assert await asyncio.gather(*waiting) == [True] * sum(arrivals)
    writer.stop()
    return leader.sizes


def test_a_group_waits_for_as_many_requests_as_the_groups_before_had(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(writer_module, "LONGEST_GATHERING", 60.0)
    assert asyncio.run(sizes_of([3, 2, 3], before=(8, 1), commit_seconds=100.0)) == [8]


def test_large_requests_are_committed_one_by_one_and_small_ones_do_not_wait_for_all_of_them() -> (
    None
):
    async def run() -> list[list[int]]:
        leader = Groups()
        writer = Writer(lambda: leader, Clock(), Metrics(), most_waiting=100, reconnects=False)  # type: ignore[arg-type, return-value]
        writer.start()
        with writer._wake:  # so that all of them wait when the first group is made
            sent = [
                writer.accept("s", SentEvents(dict.fromkeys(map(str, range(size)), 1)), None)
                for size in (20_000, 9_000, 20_000, 2_000, 1, 2)
            ]
        assert await asyncio.gather(*sent) == [True] * 6
        writer.stop()
        return leader.keys

    assert asyncio.run(run()) == [[20_000, 9_000, 1, 2], [20_000, 2_000]]


def test_requests_that_are_refused_do_not_end_the_waiting() -> None:
    async def run() -> tuple[tuple[int, int], float]:
        writer = Writer(Groups, Clock(), Metrics(), most_waiting=100, reconnects=False)  # type: ignore[arg-type]
        writer.start()
        writer._sizes, writer._commit_seconds = (8, 8), 0.02
        with pytest.raises(Problem):
            await writer.accept("nowhere", SentEvents({"a": 1}), None)
        writer.stop()
        return writer._sizes, writer._commit_seconds

    assert asyncio.run(run()) == ((8, 8), 0.02)


def test_it_does_not_wait_where_commits_are_fast_or_clients_are_few() -> None:
    assert asyncio.run(sizes_of([1, 1], before=(8, 8), commit_seconds=0.0)) == [1, 1]
    assert asyncio.run(sizes_of([2, 1], before=(1, 2), commit_seconds=100.0))[0] == 2


def test_a_long_job_pauses_between_its_steps_unless_requests_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In the pause other threads run: those that read requests, and answer them."""
    monkeypatch.setattr(writer_module, "STEP_PAUSE", 60.0)
    done: list[int] = []

    def steps(_: object) -> Iterator[None]:
        for number in range(2):
            done.append(number)
            yield

    async def run() -> None:
        leader = Groups()
        writer = Writer(lambda: leader, Clock(), Metrics(), most_waiting=100, reconnects=False)  # type: ignore[arg-type, return-value]
        writer.start()
        finished = writer.call_in_steps("wide", steps)
        for number in (1, 2):
            await asyncio.sleep(0.1)
            assert len(done) == number and not finished.done()
            assert await writer.accept("other", SentEvents({"a": 1}), None)
        await finished
        writer.stop()

    asyncio.run(run())


def test_an_error_that_is_no_store_error_ends_the_service_with_a_sign(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The store is lost, and connecting again fails in a way that nobody has thought of."""
    monkeypatch.setattr(writer_module, "LONGEST_WAIT", 0.01)
    opened: list[Groups] = []

    def open_leader() -> Groups:
        if opened:
            raise ZeroDivisionError("17 visits of anna")
        opened.append(Groups())
        return opened[0]

    def lose(_: object) -> None:
        raise StoreError("lost")

    async def run() -> bool:
        writer = Writer(open_leader, Clock(), Metrics(), most_waiting=100, reconnects=True)  # type: ignore[arg-type]
        told = asyncio.Event()
        writer.on_failure = told.set
        writer.start()
        with pytest.raises(Problem):
            await writer.call(lose)
        await asyncio.wait_for(told.wait(), 10)
        writer.stop()
        assert writer.trouble() is not None
        return writer.failed.is_set()

    assert asyncio.run(run())
    assert "ZeroDivisionError" in caplog.text and "anna" not in caplog.text


def test_whoever_waits_for_a_long_job_is_told_when_it_fails() -> None:
    def steps(_: object) -> Iterator[None]:
        yield
        raise ZeroDivisionError

    async def run() -> None:
        writer = Writer(Groups, Clock(), Metrics(), most_waiting=100, reconnects=False)  # type: ignore[arg-type]
        writer.start()
        with pytest.raises(Problem):
            await asyncio.wait_for(writer.call_in_steps("wide", steps), 10)
        writer.stop()
        assert writer.failed.is_set()

    asyncio.run(run())
