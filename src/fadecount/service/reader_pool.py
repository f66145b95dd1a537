"""What reading routes may know: published releases and public facts, through connections that cannot write.

This module and the routes on it import nothing that can reach a counter's state, the noise behind a release, or accepted
inputs; import-linter holds them to it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from fadecount.errors import StoreError
from fadecount.mechanisms import Mechanism
from fadecount.service.problems import not_found, unavailable
from fadecount.streams.forks import ticks_ahead
from fadecount.streams.reader import Reader
from fadecount.streams.ticks import Ticks

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What is public about a stream: nothing here depends on events."""

    name: str
    ticks: Ticks
    mechanism: Mechanism
    sensitivity: int
    keys: tuple[str, ...]
    first_tick: int | None
    last_tick: int | None
    histories: int
    ahead: int

    @property
    def has_releases(self) -> bool:
        return self.first_tick is not None and self.last_tick is not None and self.last_tick >= self.first_tick


@dataclass(frozen=True, slots=True)
class Release:
    """One published value: 95 % of the time the true count lies from ``low`` to ``high``."""

    tick: int
    position: int
    value: int
    low: int
    high: int


class ReaderPool:
    """Reads with a connection per thread, and with a new one after the database failed."""

    def __init__(self, connect: Callable[[], Reader]) -> None:
        self._connect = connect
        self._local = threading.local()
        self._open: list[Reader] = []
        self._guard = threading.Lock()

    def names(self) -> list[str]:
        return self._ask(lambda reader: reader.names())

    def facts(self, name: str) -> Facts:
        """The public facts of a stream, or a Problem with status 404."""

        def ask(reader: Reader) -> Facts | None:
            if name not in reader.names():
                return None
            status = reader.status(name)
            description = status.description
            return Facts(
                name=name,
                ticks=description.ticks,
                mechanism=description.mechanism,
                sensitivity=description.sensitivity,
                keys=reader.keys(name),
                first_tick=status.first_tick,
                last_tick=status.published_tick,
                histories=1 + len(status.forks),
                ahead=ticks_ahead(status.forks, status.published_steps),
            )

        found = self._ask(ask)
        if found is None:
            raise not_found()
        return found

    def page(self, name: str, since: int, until: int, *, skip: int, limit: int, position: int | None) -> list[Release]:
        """At most ``limit`` releases of the ticks ``since .. until``, leaving out the first ``skip`` keys of ``since``."""

        def ask(reader: Reader) -> list[Release]:
            found: list[Release] = []
            for release in _each(reader, name, since, until, position):
                if release.tick > since or release.position >= skip:
                    found.append(release)
                    if len(found) == limit:
                        break
            return found

        return self._ask(ask)

    def loss(self, name: str, tick: int, ticks_from_now: int) -> float:
        def ask(reader: Reader) -> float:
            status = reader.status(name)
            steps = status.published_steps + ticks_from_now
            return replace(status.loss, steps=steps).of_step(max(1, status.step_of(tick)))

        return self._ask(ask)

    def close(self) -> None:
        with self._guard:
            for reader in self._open:
                reader.close()
            self._open.clear()

    def _ask(self, question: Callable[[Reader], Answer]) -> Answer:
        """Ask once; if the connection has failed, ask a new one. After that the client may try again."""
        for _ in range(2):
            try:
                return question(self._reader())
            except StoreError:
                self._forget()
        raise unavailable()

    def _reader(self) -> Reader:
        reader: Reader | None = getattr(self._local, "reader", None)
        if reader is None:
            reader = self._local.reader = self._connect()
            with self._guard:
                self._open.append(reader)
        return reader

    def _forget(self) -> None:
        reader: Reader | None = getattr(self._local, "reader", None)
        if reader is not None:
            self._local.reader = None
            reader.close()
            with self._guard:
                if reader in self._open:
                    self._open.remove(reader)


def _each(reader: Reader, name: str, since: int, until: int, position: int | None) -> Iterator[Release]:
    for piece in reader.releases(name, since=since, until=until):
        values, widths = piece.values, piece.half_widths.tolist()
        columns = range(values.shape[1]) if position is None else [position] if position < values.shape[1] else []
        rows = np.ascontiguousarray(values[:, columns] if position is not None and columns else values).tolist()
        for offset, (row, width) in enumerate(zip(rows, widths, strict=True)):
            for column, value in zip(columns, row, strict=False):
                yield Release(piece.first_tick + offset, column, value, value - width, value + width)
