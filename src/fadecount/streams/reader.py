"""Readers: published figures and what they cost. Nothing here can reach a counter's state or its
inputs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Self

from fadecount.streams.database import Database, require_format
from fadecount.streams.figures import read_figures
from fadecount.streams.published import Published
from fadecount.streams.sqlite import SQLiteDatabase
from fadecount.streams.status import (
    Keys,
    KeySteps,
    Status,
    read_keys,
    read_status,
    read_statuses,
    stream_names,
)

if TYPE_CHECKING:
    import polars

    from fadecount.planning.publication import Part


class Reader:
    """Reads the published figures of a store, in any process, at any time."""

    def __init__(self, database: Database) -> None:
        """Refuses, and closes, the database of a store of another format."""
        self.database = database
        """The connection."""
        try:
            require_format(database)
        except BaseException:
            self.close()
            raise

    @classmethod
    def of_file(cls, path: str | Path) -> Reader:
        """A reader of an SQLite store."""
        database = SQLiteDatabase(path, writes=False)
        database.restrict()
        return cls(database)

    @classmethod
    def of_server(cls, url: str) -> Reader:
        """A reader of a PostgreSQL store."""
        from fadecount.streams.postgres import PostgresDatabase

        return cls(PostgresDatabase(url, writes=False))

    def names(self) -> list[str]:
        """The names of all streams, in order."""
        return stream_names(self.database)

    def has(self, name: str) -> bool:
        """Whether there is a stream of that name."""
        return bool(self.database.query("SELECT 1 FROM streams WHERE name = ?", (name,)))

    def published(self) -> list[tuple[str, int, int]]:
        """(name, last published tick, number of keys) of every stream."""
        rows = self.database.query("SELECT name, published_tick, widths FROM streams")
        return [(name, int(tick), sum(json.loads(widths))) for name, tick, widths in rows]

    def status(self, name: str) -> Status:
        """What the stream is, and where it is in time."""
        return read_status(self.database, name)

    def statuses(self, *, after: str = "", limit: int = 1000) -> list[Status]:
        """:meth:`status` of the streams after a name, in alphabetical order."""
        return read_statuses(self.database, after=after, limit=limit)

    def keys(self, name: str) -> tuple[str, ...]:
        """The keys of a stream with one series, in order."""
        return self.declared(self.status(name))[0]

    def stream(self, name: str) -> Published:
        """What a stream with one series has published, for questions about it."""
        (status,) = self.status(name).parts
        return self.published_of(status, *self.declared(status))

    def series(self, name: str, measure: str, part: Part = "keys") -> Published:
        """What a publication has published of a part of a measure."""
        status = self.status(name)
        each = status.parts[status.description.number_of(measure, part)]
        return self.published_of(each, *self.declared(each))

    def declared(self, status: Status) -> tuple[Keys, KeySteps]:
        """The keys of a series, and when which of them were declared: see ``Published``."""
        return read_keys(self.database, status.id, status.description.number or 0)

    def published_of(
        self, status: Status, keys: tuple[str, ...], steps: Sequence[tuple[int, int]]
    ) -> Published:
        """What a series with this status and these keys has published."""
        return Published(
            description=status.description,
            keys=keys,
            first_tick=status.first_tick,
            steps=status.published_steps,
            source=partial(read_figures, self.database, status.id, status.description.number or 0),
            calendar=status.calendar,
            key_steps=steps,
            kept=status.kept,
        )

    def frame(self, name: str, *, per: str | None = None) -> polars.DataFrame:
        """What a stream has published as a data frame of polars, with real timestamps in the
        stream's zone. See :func:`fadecount.streams.export.published_tables` for ``per`` and the
        columns."""
        from fadecount.streams.export import published_frame

        frame: polars.DataFrame = published_frame(self.stream(name), per=per)
        return frame

    def deleted(self) -> list[tuple[str, int, int]]:
        """(name, steps released, Unix seconds of the deletion) of every deleted stream that had
        released something."""
        sql = "SELECT name, last_tick - first_tick + 1, deleted_at FROM deleted ORDER BY name"
        return [(name, int(steps), int(moment)) for name, steps, moment in self.database.query(sql)]

    def loss(self, name: str, tick: int) -> float:
        """The privacy loss of a unit in a tick, given all releases published so far; an upper
        bound, rounded up. A unit that arrived late was counted in a later tick, and its loss is at
        most this.
        """
        status = self.status(name)
        described, last = status.description, status.published_tick
        first = described.ticks_of(described.block_of(tick)).start
        if not status.published_steps or last < first:
            return 0.0
        return described.loss.at_age(last - first).epsilon

    def curve(self, name: str, ages: Sequence[int]) -> list[float]:
        """The loss at each age in ticks of a unit of that age."""
        loss = self.status(name).description.loss
        return [loss.at_age(age).epsilon for age in ages]

    def close(self) -> None:
        """Close the connection."""
        self.database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
