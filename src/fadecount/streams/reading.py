"""Readers: published releases and what they cost. Nothing here can reach a counter's state or its inputs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np
from numpy.typing import NDArray

from fadecount.errors import StoreError
from fadecount.streams.bands import half_widths
from fadecount.streams.chunks import Chunk, read_chunks
from fadecount.streams.database import Database
from fadecount.streams.description import Place, read_keys, read_place, stream_names
from fadecount.streams.forks import loss_with_forks
from fadecount.streams.monotone import Monotone
from fadecount.streams.postgres import PostgresDatabase
from fadecount.streams.sqlite import SQLiteDatabase


@dataclass(frozen=True, slots=True, kw_only=True)
class Releases:
    """Published ticks: values in the shape (ticks, keys), as released or through a view, and how far the truth may be from what
    was released (95 %), per tick."""

    first_tick: int
    values: NDArray[np.int64]
    half_widths: NDArray[np.int64]
    released: NDArray[np.int64]

    @property
    def last_tick(self) -> int:
        return self.first_tick + len(self.values) - 1


class Reader:
    """Reads the published releases of a store, in any process, at any time."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @classmethod
    def of_file(cls, path: str | Path) -> Reader:
        return cls(SQLiteDatabase(path, writes=False))

    @classmethod
    def of_server(cls, url: str) -> Reader:
        return cls(PostgresDatabase(url, writes=False))

    def names(self) -> list[str]:
        return stream_names(self._database)

    def place(self, name: str) -> Place:
        """What the stream is, and where it is in time."""
        return read_place(self._database, name)

    def keys(self, name: str) -> tuple[str, ...]:
        return read_keys(self._database, self.place(name).id)

    def releases(
        self, name: str, *, since: int | None = None, until: int | None = None, view: Monotone | None = None
    ) -> Iterator[Releases]:
        """The published releases of the ticks ``since .. until`` (both included), oldest first, in pieces of any size.

        With ``view`` they are seen through it, from the first tick of the stream on.
        """
        place = self.place(name)
        if place.published_tick is None or place.first_tick is None:
            return
        first = place.first_tick if since is None else max(since, place.first_tick)
        last = place.published_tick if until is None else min(until, place.published_tick)
        begin = expected = first if view is None else place.first_tick
        for chunk in read_chunks(self._database, place.id, begin, last):
            if chunk.first_tick != expected:
                raise StoreError("stored releases are incomplete; take an intact copy of the store")
            expected = chunk.last_tick + 1
            seen = Chunk(chunk.first_tick, view.through(chunk.values)) if view is not None else chunk
            skip = max(0, first - seen.first_tick)
            if skip < len(seen.values):
                tick = seen.first_tick + skip
                widths = half_widths(place.description.mechanism, place.step_of(tick), len(seen.values) - skip)
                yield Releases(first_tick=tick, values=seen.values[skip:], half_widths=widths, released=chunk.values[skip:])
        if expected <= last:
            raise StoreError("stored releases are incomplete; take an intact copy of the store")

    def loss(self, name: str, tick: int, *, ticks_from_now: int = 0) -> float:
        """What is lost about an event in a tick, given all releases published by then; an upper bound, rounded up.

        ``ticks_from_now`` looks ahead. An event that came late was counted later and has lost at most this.
        """
        place = self.place(name)
        description = place.description
        step = max(1, place.step_of(tick))
        last = place.published_steps + ticks_from_now
        return loss_with_forks(description.mechanism, description.sensitivity, place.forks, step, last)

    def curve(self, name: str, ages: Sequence[int]) -> list[float]:
        """The loss at each age in ticks of an event of that age now (forks included)."""
        place = self.place(name)
        mechanism, sensitivity = place.description.mechanism, place.description.sensitivity
        steps = place.published_steps
        return [loss_with_forks(mechanism, sensitivity, place.forks, steps - age, steps) for age in ages]

    def close(self) -> None:
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()
