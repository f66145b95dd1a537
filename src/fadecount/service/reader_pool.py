"""What reading routes may know: published releases and public facts, through connections that
cannot write.

This module and the routes on it import nothing that can reach a counter's state, the noise behind a
release, or accepted inputs; import-linter checks this.
"""

from __future__ import annotations

import asyncio
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

import numpy as np
from starlette.requests import Request

from fadecount.errors import RemovedError, StoreError
from fadecount.mechanisms import Mechanism
from fadecount.service.http import ClientGone
from fadecount.service.problems import Problem, not_found, removed, unavailable
from fadecount.streams.reader import Reader
from fadecount.streams.status import Status
from fadecount.streams.ticks import Ticks

Answer = TypeVar("Answer")
THREADS = 4
MOST_WAITING = 256
"""Reads that may wait for a thread; the client of one more is asked to try again later."""

MOST_FACTS = 4096
"""Streams whose facts are kept in memory; those read first are dropped first."""

MOST_RENEWED = 32
"""Streams that are read again at once because they have published a tick; others are read when they
are next asked for."""

CACHE_BYTES = 32 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What is public about a stream: nothing here depends on events."""

    name: str
    status: Status
    keys: tuple[str, ...]
    positions: dict[str, int] = field(repr=False)

    @property
    def ticks(self) -> Ticks:
        return self.status.description.ticks

    @property
    def mechanism(self) -> Mechanism:
        return self.status.description.mechanism

    @property
    def first_tick(self) -> int | None:
        """The first tick that readers can see: the stream may have removed older ones."""
        return self.status.kept_from

    def require_kept(self, tick: int) -> None:
        """Refuse to begin with a tick whose release was removed."""
        kept = self.status.kept_tick
        if kept is not None and tick < kept:
            raise removed()

    @property
    def last_tick(self) -> int | None:
        """The last tick that readers can see."""
        return self.status.published_tick

    @property
    def has_releases(self) -> bool:
        return (
            self.first_tick is not None
            and self.last_tick is not None
            and self.last_tick >= self.first_tick
        )

    def ahead_of_clock(self, now: float) -> int:
        """How many ticks are released that are not over by the clock; 0 unless the clock was set
        back."""
        return 0 if self.last_tick is None else max(0, self.last_tick - (self.ticks.at(now) - 1))


@dataclass(frozen=True, slots=True)
class Release:
    """One published value: 95 % of the time the true count lies from ``low`` to ``high``."""

    tick: int
    position: int
    value: int
    low: int
    high: int


class ReaderPool:
    """Reads on a few threads. Each has its own connection, and a new one after the database failed.

    Guarantees: at most ``MOST_WAITING`` reads wait; a read whose client has disconnected does not
    run; equal pending reads run once.
    """

    def __init__(self, connect: Callable[[], Reader]) -> None:
        self._connect = connect
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="fadecount reader")
        self._local = threading.local()
        self._open: list[Reader] = []
        self._guard = threading.Lock()
        self._shared: dict[Hashable, Shared[Any]] = {}
        self._waiting = 0
        self._facts: dict[str, Facts] = {}
        self._outdated: dict[str, Facts] = {}
        """What was known of streams that have changed since: most of it is still right."""
        self._changes: dict[str, int] = {}
        self._asked: set[str] = set()
        """Streams whose facts somebody has asked for since their last tick."""
        self._renewed = 0

    async def facts(self, name: str, request: Request | None = None) -> Facts:
        """The public facts of a stream, from memory until :meth:`forget`; a Problem with status 404
        if there is none."""
        known = self._facts.get(name)
        if known is not None:
            self._asked.add(name)
            return known
        before = self._changes.get(name, 0)
        outdated = self._outdated.get(name)
        found = await self.ask(
            lambda reader: read_facts(reader, name, outdated), request, ("facts", name, before)
        )
        if found is None:
            raise not_found()
        self._asked.add(name)
        if self._changes.get(name, 0) == before:
            self._keep(found)
        return found

    def _keep(self, facts: Facts) -> None:
        self._facts[facts.name] = facts
        self._outdated.pop(facts.name, None)
        while len(self._facts) > MOST_FACTS:
            del self._facts[next(iter(self._facts))]

    def is_asked_for(self, name: str) -> bool:
        """Whether somebody has asked for a stream since its last tick, and will soon ask for it
        again."""
        return name in self._asked and name in self._facts and self._renewed < MOST_RENEWED

    async def renew(
        self, name: str, prepare: Callable[[Reader, Facts], Answer]
    ) -> tuple[Facts, Answer] | None:
        """Read a stream again that has published a tick, and ``prepare`` something from it, on a
        thread.

        Until that is done, readers get what was published before. None if the stream has changed in
        another way, is gone, or the store does not answer. Then the stream is read when it is next
        asked for.
        """
        known, before = self._facts.get(name), self._changes.get(name, 0)
        self._asked.discard(name)
        self._renewed += 1

        def read(reader: Reader) -> tuple[Facts, Answer] | None:
            facts = read_facts(reader, name, known)
            return None if facts is None else (facts, prepare(reader, facts))

        try:
            found = await self.ask(read)
        except Problem:
            found = None
        finally:
            self._renewed -= 1
        newest = self._facts.get(name)
        if found is None or newest is None or self._changes.get(name, 0) != before:
            self.forget(name)
            return None
        if (newest.last_tick or 0) > (found[0].last_tick or 0):  # a later tick was read faster
            return None
        self._keep(found[0])
        return found

    def forget(self, name: str) -> None:
        """Drop what was read of a stream, because the stream has changed."""
        self._changes[name] = self._changes.get(name, 0) + 1
        known = self._facts.pop(name, None)
        if known is not None:
            self._outdated[name] = known
            while len(self._outdated) > MOST_FACTS:
                del self._outdated[next(iter(self._outdated))]

    def known(self) -> dict[str, tuple[int | None, int]]:
        """The last published tick and the number of keys of every stream whose facts are in
        memory."""
        return {name: (facts.last_tick, len(facts.keys)) for name, facts in self._facts.items()}

    async def ask(
        self,
        question: Callable[[Reader], Answer],
        request: Request | None = None,
        name: Hashable | None = None,
    ) -> Answer:
        """Ask on a thread. Equal questions (by ``name``) are asked once; one whose clients have all
        disconnected is not asked."""
        shared: Shared[Answer] | None = None if name is None else self._shared.get(name)
        if shared is None:
            if self._waiting >= MOST_WAITING:
                raise unavailable("too many reads are waiting; send it again")
            shared = Shared(self._threads.submit(self._try, question))
            self._waiting += 1
            shared.future.add_done_callback(lambda _: self._ended(name))
            if name is not None:
                self._shared[name] = shared
        shared.readers += 1
        try:
            return await unless_gone(shared.future, request)
        finally:
            shared.readers -= 1
            if not shared.readers:
                shared.work.cancel()

    def _ended(self, name: Hashable | None) -> None:
        self._waiting -= 1
        if name is not None:
            self._shared.pop(name, None)

    def close(self) -> None:
        self._threads.shutdown(wait=True, cancel_futures=True)
        with self._guard:
            for reader in self._open:
                reader.close()
            self._open.clear()

    def _try(self, question: Callable[[Reader], Answer]) -> Answer:
        """Ask once; if the connection has failed, ask once more on a new one. After that the client
        may try again."""
        for _ in range(2):
            try:
                return question(self._reader())
            except RemovedError:
                raise removed() from None
            except StoreError:
                self._drop_connection()
        raise unavailable()

    def _reader(self) -> Reader:
        reader: Reader | None = getattr(self._local, "reader", None)
        if reader is None:
            reader = self._local.reader = self._connect()
            with self._guard:
                self._open.append(reader)
        return reader

    def _drop_connection(self) -> None:
        reader: Reader | None = getattr(self._local, "reader", None)
        if reader is not None:
            self._local.reader = None
            reader.close()
            with self._guard:
                if reader in self._open:
                    self._open.remove(reader)


class Shared(Generic[Answer]):
    """Pending work, and how many clients wait for it."""

    __slots__ = ("future", "readers", "work")

    def __init__(self, work: Future[Answer]) -> None:
        self.work = work
        self.future = asyncio.wrap_future(work)
        self.readers = 0


async def unless_gone(future: asyncio.Future[Answer], request: Request | None) -> Answer:
    """The answer, or :class:`ClientGone` as soon as the client has disconnected."""
    if request is None or future.done():
        return await asyncio.shield(future)
    gone = asyncio.ensure_future(_disconnected(request))
    try:
        waited: list[asyncio.Future[Any]] = [future, gone]
        await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
        if not future.done():
            raise ClientGone
        return future.result()
    finally:
        gone.cancel()
        with suppress(asyncio.CancelledError):
            await gone


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


class AnswerCache(Generic[Answer]):
    """A cache of answers by question, valid while the facts they were made from are current; at
    most ``CACHE_BYTES``."""

    def __init__(self, size: Callable[[Answer], int], most_bytes: int = CACHE_BYTES) -> None:
        self._size, self._most = size, most_bytes
        self._kept: OrderedDict[Hashable, tuple[Facts | None, Answer]] = OrderedDict()
        self._bytes = 0

    def get(self, name: Hashable, facts: Facts) -> Answer | None:
        found = self._kept.get(name)
        if found is None or (found[0] is not None and found[0] is not facts):
            return None
        self._kept.move_to_end(name)
        return found[1]

    def put(self, name: Hashable, facts: Facts | None, answer: Answer) -> None:
        """Keep an answer while ``facts`` are current; with None, without a time limit."""
        before = self._kept.pop(name, None)
        self._kept[name] = facts, answer
        self._bytes += self._size(answer) - (self._size(before[1]) if before else 0)
        while self._bytes > self._most:
            _, (_, oldest) = self._kept.popitem(last=False)
            self._bytes -= self._size(oldest)


def read_facts(reader: Reader, name: str, outdated: Facts | None = None) -> Facts | None:
    """The facts of a stream, or None if there is no such stream. Keys that were read before are not
    read again."""
    if not reader.has(name):
        return None
    status = reader.status(name)
    if outdated is not None and (outdated.status.uid, len(outdated.keys)) == (
        status.uid,
        status.width,
    ):
        return replace(outdated, status=status)
    keys = reader.keys(name)
    return Facts(
        name=name, status=status, keys=keys, positions={key: at for at, key in enumerate(keys)}
    )


def read_page(
    reader: Reader,
    name: str,
    since: int,
    until: int,
    *,
    skip: int,
    limit: int,
    position: int | None,
) -> list[Release]:
    """At most ``limit`` releases of ticks from ``since`` to before ``until``, without the first
    ``skip`` keys of ``since``."""
    found: list[Release] = []
    for release in _each(reader, name, since, until, position):
        if release.tick > since or release.position >= skip:
            found.append(release)
            if len(found) == limit:
                break
    return found


def _each(
    reader: Reader, name: str, since: int, until: int, position: int | None
) -> Iterator[Release]:
    for piece in reader.releases(name, since=since, until=until):
        values, widths = piece.values, piece.half_widths.tolist()
        columns = (
            range(values.shape[1])
            if position is None
            else [position]
            if position < values.shape[1]
            else []
        )
        rows = np.ascontiguousarray(
            values[:, columns] if position is not None and columns else values
        ).tolist()
        for offset, (row, width) in enumerate(zip(rows, widths, strict=True)):
            for column, value in zip(columns, row, strict=False):
                yield Release(
                    piece.first_tick + offset, column, value, value - width, value + width
                )
