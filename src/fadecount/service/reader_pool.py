"""What reading routes may know: published figures and public facts, through connections that
cannot write.

This module and the routes on it import nothing that can reach a counter's state, the noise behind a
release, or accepted inputs; import-linter checks this.
"""

from __future__ import annotations

import asyncio
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar

from fadecount.calendar import Ticks
from fadecount.errors import DatabaseError, RemovedError, StoreError
from fadecount.service.http import NOT_IN_ORDER, Problem, not_found, unavailable
from fadecount.service.parsing import LONGEST_QUERY
from fadecount.streams.published import Published
from fadecount.streams.reader import Reader
from fadecount.streams.status import Status

Result = TypeVar("Result")
THREADS = 4
MOST_WAITING = 256
"""Reads that may wait for a thread; the client of one more is asked to try again later."""

CACHE_BYTES = 32 << 20
MOST_AROUND = 1500 + LONGEST_QUERY
"""Bytes that a cached answer takes beside its body: its headers, and the question."""

KEY_BYTES = 300
"""About how many bytes a key takes in memory."""

STREAM = "stream"


@dataclass(frozen=True, slots=True, kw_only=True)
class PublicStream:
    """The status of a stream and its keys: nothing here depends on events. ``version`` grows with
    every change of the stream that this process knows of, such as a published tick."""

    status: Status
    keys: tuple[str, ...]
    positions: dict[str, int] = field(repr=False)
    key_steps: Sequence[tuple[int, int]] = ((0, 0),)
    version: int = 0

    def __len__(self) -> int:
        """What this takes in memory, about, in bytes."""
        return KEY_BYTES * len(self.keys)

    def published(self, reader: Reader) -> Published:
        """What the stream has published, as of this status."""
        return reader.published_of(self.status, self.keys, self.key_steps)

    @property
    def name(self) -> str:
        return self.status.description.name

    @property
    def ticks(self) -> Ticks:
        return self.status.description.ticks

    @property
    def last_tick(self) -> int:
        """The last tick that readers can see."""
        return self.status.published_tick

    @property
    def through(self) -> int | None:
        """The tick at whose beginning everything was public that readers can see; None if that is
        nothing."""
        return self.last_tick + 1 if self.status.published_steps else None


class ReaderPool:
    """Reads on a few threads, each with its own connection, and keeps every answer until its stream
    changes.

    Guarantees: at most ``MOST_WAITING`` reads wait; equal questions are read once until the next
    tick of their stream is published; the answers take at most about ``CACHE_BYTES``.
    """

    def __init__(self, connect: Callable[[], Reader]) -> None:
        self._connect = connect
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="fadecount reader")
        self._local = threading.local()
        self._open: set[Reader] = set()
        self._waiting = 0
        self._versions: dict[str, int] = {}
        self._kept: OrderedDict[tuple[str, Hashable], tuple[int, Any]] = OrderedDict()
        """Answers to questions about streams, each with the version of the stream."""
        self._bytes = 0
        self._running: dict[tuple[str, Hashable, int], asyncio.Task[Any]] = {}
        self._changes: dict[str, asyncio.Event] = {}
        self.is_ending = False

    async def stream(self, name: str) -> PublicStream:
        """What is public about a stream; a Problem with status 404 if there is none."""
        version, (_, known) = self._versions.get(name, 0), self._kept.get((name, STREAM), (0, None))
        make = partial(read_stream, name, version, known)
        stream = await self._once(name, STREAM, version, make)
        if stream is None:
            raise not_found()
        return stream

    async def read(
        self, stream: PublicStream, question: Hashable, make: Callable[[Reader], Result]
    ) -> Result:
        """The answer to a question about a stream, from memory if it was asked before.

        ``make`` checks the question and makes the answer, which has a length.
        """
        return await self._once(stream.name, question, stream.version, make)

    async def _once(
        self, name: str, question: Hashable, version: int, make: Callable[[Reader], Result]
    ) -> Result:
        kept = self._kept.get((name, question))
        if kept is not None and kept[0] == version:
            self._kept.move_to_end((name, question))
            result: Result = kept[1]
            return result
        task = self._running.get((name, question, version))
        if task is None:
            task = asyncio.create_task(self.ask(make))
            self._running[name, question, version] = task
            task.add_done_callback(partial(self._finished, name, question, version))
        return await asyncio.shield(task)

    def _finished(
        self, name: str, question: Hashable, version: int, task: asyncio.Task[Any]
    ) -> None:
        """Keep an answer, and drop those that were not asked for longest."""
        del self._running[name, question, version]
        if task.cancelled() or task.exception() is not None or task.result() is None:
            return
        if self._kept.get((name, question), (-1,))[0] < version:
            self._drop((name, question))
            self._kept[name, question] = version, task.result()
            self._bytes += MOST_AROUND + len(task.result())
        while self._bytes > CACHE_BYTES and len(self._kept) > 1:
            self._drop(next(iter(self._kept)))

    def _drop(self, place: tuple[str, Hashable]) -> None:
        if place in self._kept:
            self._bytes -= MOST_AROUND + len(self._kept.pop(place)[1])

    def changed(self, names: Iterable[str]) -> None:
        """Streams have published a tick, or have changed otherwise: read them again, and wake those
        who wait for it."""
        for name in names:
            self._versions[name] = self._versions.get(name, 0) + 1
            self._wake(name)

    def next_change(self, name: str) -> asyncio.Event:
        """Set when the stream next changes, when tokens have changed, or when the service ends."""
        return self._changes.setdefault(name, asyncio.Event())

    def wake_all(self) -> None:
        """Wake every live reader, so that it checks again whether it may still read."""
        for name in list(self._changes):
            self._wake(name)

    def _wake(self, name: str) -> None:
        if changed := self._changes.pop(name, None):
            changed.set()

    async def find_changes(self) -> None:
        """Notice ticks and keys of other processes, for the streams that somebody has asked for
        here."""
        known: dict[str, tuple[int, int] | None] = dict.fromkeys(self._changes)
        for (name, question), (version, stream) in self._kept.items():
            if question == STREAM and version == self._versions.get(name, 0):
                known[name] = stream.last_tick, len(stream.keys)
        if known:
            published = await self.ask(lambda reader: reader.published())
            current = {name: (tick, keys) for name, tick, keys in published}
            self.changed(each for each in known if current.get(each) != known[each])

    async def ask(self, question: Callable[[Reader], Result]) -> Result:
        """Ask on a thread what is not kept in memory."""
        if self._waiting >= MOST_WAITING:
            raise unavailable("too many reads are waiting; send it again")
        self._waiting += 1
        try:
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._threads, self._try, question)
        finally:
            self._waiting -= 1

    def end_live(self) -> None:
        """End every live connection."""
        self.is_ending = True
        self.wake_all()

    def close(self) -> None:
        self._threads.shutdown(wait=True, cancel_futures=True)
        while self._open:
            self._open.pop().close()

    def _try(self, question: Callable[[Reader], Result]) -> Result:
        """Ask once; if the connection has failed, ask once more on a new one. After that the client
        may try again."""
        for _ in range(2):
            reader: Reader | None = getattr(self._local, "reader", None)
            try:
                if reader is None:
                    reader = self._local.reader = self._connect()
                    self._open.add(reader)
                return question(reader)
            except RemovedError:
                detail = "they were removed; ask from first_start on, or for longer slots"
                raise Problem(410, "removed", detail) from None
            except DatabaseError:
                self._local.reader = None
                if reader is not None:
                    self._open.discard(reader)
                    reader.close()
            except StoreError:
                raise unavailable(NOT_IN_ORDER) from None
        raise unavailable()


def read_stream(
    name: str, version: int, before: PublicStream | None, reader: Reader
) -> PublicStream | None:
    """What is public about a stream, or None if there is none. Keys that were read ``before`` are
    not read again."""
    if not reader.has(name):
        return None
    status = reader.status(name)
    if before is not None and (before.status.uid, len(before.keys)) == (status.uid, status.width):
        return replace(before, status=status, version=version)
    keys, steps = reader.declared(status)
    positions = {key: at for at, key in enumerate(keys)}
    return PublicStream(
        status=status, keys=keys, positions=positions, key_steps=steps, version=version
    )
