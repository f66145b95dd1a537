"""The writing thread: how requests become groups, how many may wait, and what a failure does."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from fadecount.errors import DatabaseError
from fadecount.service import writer as writer_module
from fadecount.service.http import Problem
from fadecount.service.parsing import Event, SentEvents
from fadecount.service.settings import Clock, Limits
from fadecount.service.writer import Writer


class Groups:
    """A leader that takes everything, and notes how many keys each batch of a group had."""

    next_due = None
    not_ready_reason = None

    def __init__(self) -> None:
        self.keys: list[list[int]] = []
        self.untidy = 0
        self.changed: set[str] = set()

    def accept(self, wanted: Mapping[str, Sequence[Any]], _: float) -> dict[str, list[bool]]:
        sent = [events for batches in wanted.values() for events, _ in batches]
        self.keys.append([len(events.times) for events in sent])
        return {name: [True] * len(batches) for name, batches in wanted.items()}

    def close_due(self, _: float) -> int:
        return 0

    def is_catching_up(self, *_: object) -> bool:
        return False

    def maintain(self) -> bool:
        self.untidy = max(0, self.untidy - 1)
        return self.untidy > 0

    def take_over(self) -> bool:
        return False

    def close(self) -> None: ...


def made(
    open_leader: Callable[[], Any], *, limits: Limits | None = None, reconnects: bool = False
) -> Writer:
    return Writer(
        open_leader,
        Clock(),
        limits or Limits(),
        on_change=lambda _: None,
        reconnects=reconnects,
    )


def batch(keys: int) -> SentEvents:
    return SentEvents(dict.fromkeys((Event(str(each)) for each in range(keys)), 1))


def test_what_waits_is_committed_together_up_to_a_number_of_keys() -> None:
    async def run() -> list[list[int]]:
        leader, hold = Groups(), threading.Event()
        writer = made(lambda: leader)
        writer.start()
        held = writer.call(lambda _: hold.wait(20))  # so that all of them wait
        await asyncio.sleep(0.1)
        sent = [
            writer.accept(f"s{at % 3}", batch(size), None)
            for at, size in enumerate((20_000, 9_000, 1, 2, 20_000, 2_000))
        ]
        hold.set()
        assert await asyncio.gather(held, *sent) == [True] * 7
        writer.stop()
        return [sorted(each) for each in leader.keys]

    assert asyncio.run(run()) == [[20_000], [1, 2, 9_000, 20_000], [2_000]]


def test_what_waits_is_bounded_in_bytes() -> None:
    limits = Limits(waiting_bytes=3 * ((16 << 10) + 1000 * 203))

    async def run() -> None:
        hold = threading.Event()
        writer = made(Groups, limits=limits)
        writer.start()
        held = writer.call(lambda _: hold.wait(20))
        await asyncio.sleep(0.1)
        waiting = [writer.accept("s", batch(1000), None) for _ in range(3)]
        with pytest.raises(Problem):
            writer.accept("s", batch(1000), None)
        asked = writer.call(lambda _: "administrators get through")
        hold.set()
        assert await asyncio.gather(held, *waiting) == [True] * 4
        assert await asked == "administrators get through"
        assert await writer.accept("s", batch(1000), None) and not writer._bytes.total()
        writer.stop()

    asyncio.run(run())


def test_tidying_up_goes_on_in_short_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer_module, "LONGEST_WAIT", 60.0)

    async def run() -> None:
        leader = Groups()
        leader.untidy = 1000
        writer = made(lambda: leader)
        writer.start()
        assert await writer.accept("s", batch(1), None)
        while leader.untidy:
            await asyncio.sleep(0.001)
        writer.stop()

    asyncio.run(asyncio.wait_for(run(), 20))


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
        raise DatabaseError("lost")

    async def run() -> bool:
        writer = made(open_leader, reconnects=True)
        told = asyncio.Event()
        writer.on_failure = told.set
        writer.start()
        with pytest.raises(Problem):
            await writer.call(lose)
        await asyncio.wait_for(told.wait(), 10)
        writer.stop()
        assert writer.not_ready_reason() is not None
        return writer.failed

    assert asyncio.run(run())
    assert "ZeroDivisionError" in caplog.text and "anna" not in caplog.text


def test_whoever_waits_is_told_when_the_store_fails() -> None:
    def fail(_: object) -> None:
        raise ZeroDivisionError

    async def run() -> None:
        writer = made(Groups)
        writer.start()
        hold = threading.Event()
        held = writer.call(lambda _: hold.wait(20))  # so that both of them wait
        await asyncio.sleep(0.1)
        waiting = [writer.call(fail), writer.accept("s", batch(1), None)]
        hold.set()
        assert await held
        for each in waiting:
            with pytest.raises(Problem):
                await asyncio.wait_for(each, 10)
        writer.stop()
        assert writer.failed

    asyncio.run(run())
