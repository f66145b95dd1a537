"""Readers: published releases and what they cost. Nothing here can reach a counter's state or its
inputs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

import numpy as np
from numpy.typing import NDArray

from fadecount.errors import RemovedError, StoreError
from fadecount.mechanisms.noise_law import half_widths
from fadecount.streams.chunks import read_chunks
from fadecount.streams.database import Database, require_format
from fadecount.streams.releases import Monotone, Releases
from fadecount.streams.sqlite import SQLiteDatabase
from fadecount.streams.status import Status, read_keys, read_status, read_statuses, stream_names

if TYPE_CHECKING:
    import pandas
    import polars

    from fadecount.streams.windows import Windows


def _current(database: Database) -> Database:
    """The database, if its store is of the format that this version reads."""
    try:
        require_format(database)
    except BaseException:
        database.close()
        raise
    return database


def _removed(status: Status) -> RemovedError:
    name, ticks = status.description.name, status.description.ticks
    kept = "" if status.kept_tick is None else ticks.shown(status.kept_tick)
    return RemovedError(
        f"releases of stream {name!r} before {kept} were removed, got an earlier time; ask from"
        " then on"
    )


def _incomplete() -> StoreError:
    return StoreError("stored releases are incomplete; take an intact copy of the store")


class Reader:
    """Reads the published releases of a store, in any process, at any time."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @classmethod
    def of_file(cls, path: str | Path) -> Reader:
        """A reader of an SQLite store."""
        return cls(_current(SQLiteDatabase(path, writes=False)))

    @classmethod
    def of_server(cls, url: str) -> Reader:
        """A reader of a PostgreSQL store."""
        from fadecount.streams.postgres import PostgresDatabase

        return cls(_current(PostgresDatabase(url, writes=False)))

    @property
    def database(self) -> Database:
        """The connection."""
        return self._database

    def names(self) -> list[str]:
        """The names of all streams, in order."""
        return stream_names(self._database)

    def has(self, name: str) -> bool:
        """Whether there is a stream of that name."""
        return bool(self._database.query("SELECT 1 FROM streams WHERE name = ?", (name,)))

    def published(self) -> list[tuple[str, int | None, int]]:
        """(name, last published tick, number of keys) of every stream."""
        rows = self._database.query("SELECT name, published_tick, width FROM streams")
        return [
            (name, None if tick is None else int(tick), int(width)) for name, tick, width in rows
        ]

    def status(self, name: str) -> Status:
        """What the stream is, and where it is in time."""
        return read_status(self._database, name)

    def statuses(self, *, after: str = "", limit: int = 1000) -> list[Status]:
        """:meth:`status` of the streams after a name, in alphabetical order."""
        return read_statuses(self._database, after=after, limit=limit)

    def keys(self, name: str) -> tuple[str, ...]:
        """The keys of a stream, in order."""
        return read_keys(self._database, self.status(name).id)

    def releases(
        self,
        name: str,
        *,
        since: int | None = None,
        until: int | None = None,
        view: Monotone | None = None,
    ) -> Iterator[Releases]:
        """The published releases of the ticks from ``since`` to before ``until``, oldest first, in
        pieces of any size.

        With ``view``, the view is applied to them, from the first tick on that is there. A
        ``since`` before releases that were removed raises a ``RemovedError``.
        """
        status = self.status(name)
        if status.published_tick is None or status.first_tick is None:
            return
        kept = self._kept(status, since)
        first = kept if since is None else max(since, kept)
        last = status.published_tick if until is None else min(until - 1, status.published_tick)
        begin = expected = first if view is None else kept
        for chunk in read_chunks(self._database, status.id, begin, last):
            if chunk.first_tick != expected:
                raise _incomplete()
            expected = chunk.last_tick + 1
            shown = chunk.values if view is None else view.through(chunk.values)
            skip = max(0, first - chunk.first_tick)
            if skip < len(shown):
                tick, mechanism = chunk.first_tick + skip, status.description.mechanism
                yield Releases(
                    first_tick=tick,
                    values=shown[skip:],
                    half_widths=half_widths(mechanism, status.step_of(tick), len(shown) - skip),
                    released=chunk.values[skip:],
                )
        if expected <= last:
            raise _incomplete()

    def windows(
        self,
        name: str,
        *,
        per: str,
        zone: str | None = None,
        since: int | None = None,
        until: int | None = None,
        nonnegative: bool = False,
    ) -> Windows:
        """The counts of the windows of time in the ticks from ``since`` to before ``until``, per
        hour, day, week or month.

        A window that ``since`` cuts is given from its beginning; one that ``until`` cuts is
        partial.

        ``per`` is a number and a unit (``1h``, ``1d``, ``1w``, ``1mo``); days begin at midnight in
        ``zone``, by default the stream's. With a delay, only ticks that are shown already are in a
        window. A window that reaches into releases that were removed is partial; if all of them
        were removed, a ``RemovedError`` is raised. It costs no privacy: see docs/windows.md.
        """
        from fadecount.streams.windows import (
            WindowCalendar,
            no_windows,
            window_start,
            window_ticks,
            windows_of,
        )

        status = self.status(name)
        ticks, mechanism = status.description.ticks, status.description.mechanism
        delay, width = mechanism.schedule.delay, status.width
        calendar = WindowCalendar(per=per, zone=ticks.zone if zone is None else zone)
        begin, last = status.first_tick, status.published_tick
        earliest = begin
        # a window needs the release before its first tick
        if begin is not None and status.kept_tick is not None:
            earliest = max(begin + 1, status.kept_tick + 1 - delay)
            if until is not None and until <= earliest:
                raise _removed(status)
        first = max([each for each in (earliest, since) if each is not None], default=0)
        last = -1 if last is None else min(last - delay, last if until is None else until - 1)
        if begin is None or earliest is None or last < first:
            return no_windows(width)
        if since is not None:
            first = max(earliest, window_start(ticks, calendar, first))
        edges, at, partial = window_ticks(ticks, calendar, first, last)
        wanted = at - 1 + delay  # the release that shows everything before an edge
        totals, widths = self._values_at(status, wanted)
        steps = np.where(at > begin, wanted - begin + 1, 0)
        windows = windows_of(mechanism, edges, partial, steps, totals, widths)
        return windows.nonnegative() if nonnegative else windows

    def frame(
        self,
        name: str,
        *,
        per: str | None = None,
        zone: str | None = None,
        nonnegative: bool = False,
    ) -> polars.DataFrame | pandas.DataFrame:
        """All releases as a data frame with real timestamps in the stream's zone: polars, or pandas
        where only that is there.

        The columns are start, key, value, low and high; with ``per`` (see :meth:`windows`) also end
        and partial.
        """
        from fadecount.streams.export import releases_table, to_frame, windows_table

        ticks, keys = self.status(name).description.ticks, self.keys(name)
        if per is None:
            return to_frame(releases_table(self.releases(name), keys, ticks), ticks.zone)
        windows = self.windows(name, per=per, zone=zone, nonnegative=nonnegative)
        return to_frame(windows_table(windows, keys), zone or ticks.zone)

    def deleted(self) -> list[tuple[str, int, int]]:
        """(name, steps released, Unix seconds of the deletion) of every deleted stream that had
        released something."""
        rows = self._database.query("SELECT name, steps, deleted_at FROM deleted ORDER BY name")
        return [(name, steps, moment) for name, steps, moment in rows]

    @staticmethod
    def _kept(status: Status, since: int | None) -> int:
        """The first tick that is there, if ``since`` does not ask for an earlier one that was
        removed."""
        assert status.kept_from is not None
        if status.kept_tick is not None and since is not None and since < status.kept_tick:
            raise _removed(status)
        return status.kept_from

    def _values_at(
        self, status: Status, wanted: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The releases of these ticks (rising), and how many keys each has; 0 before the first
        tick."""
        totals = np.zeros((len(wanted), status.width), dtype=np.int64)
        widths = np.zeros(len(wanted), dtype=np.int64)
        first = max(int(wanted[0]), status.first_tick or 0)
        expected = first
        for chunk in read_chunks(self._database, status.id, first, int(wanted[-1])):
            if chunk.first_tick != expected:
                raise _incomplete()
            expected = chunk.last_tick + 1
            low, high = np.searchsorted(wanted, [chunk.first_tick, expected])
            rows = chunk.values[wanted[low:high] - chunk.first_tick]
            totals[low:high, : rows.shape[1]] = rows
            widths[low:high] = rows.shape[1]
        if expected <= int(wanted[-1]):
            raise _incomplete()
        return totals, widths

    def loss(self, name: str, tick: int, *, at: float | None = None) -> float:
        """The privacy loss of a unit in a tick, given all releases published so far; an upper
        bound, rounded up.

        ``at`` (Unix seconds) looks ahead: all ticks that are over by then are treated as published.
        A unit that arrived late was counted in a later tick, and its loss is at most this.
        """
        status = self.status(name)
        through = None if at is None else status.step_of(status.description.ticks.at(at) - 1)
        return status.loss.of_step(max(1, status.step_of(tick)), through=through).epsilon

    def curve(self, name: str, ages: Sequence[int]) -> list[float]:
        """The loss at each age in ticks of a unit of that age, in all histories."""
        loss = self.status(name).loss
        return [loss.at_age(age).epsilon for age in ages]

    def close(self) -> None:
        """Close the connection."""
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
