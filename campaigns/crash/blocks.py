"""Does a store with a stream of blocks agree with the journal? No figure is lost, doubled, changed,
drawn again or shown before its time, and no count is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tests.counters.block_reference import NamedNoise
from tests.streams.backends import totals_of

from campaigns.crash.check import Account
from campaigns.crash.journal import Record
from campaigns.crash.worker import BESIDE, BLOCKS, FIRST_TICK, NAME, Site, calendar_of
from fadecount.errors import StoreError
from fadecount.streams.database import Database
from fadecount.streams.figures import read_figures, unpacked
from fadecount.streams.seal import Seal
from fadecount.streams.status import Status, read_status

Name = tuple[int, int, int]
"""Level, end and stage."""
_VIEWS_EVERY = 5


class BlockAccount(Account):
    """Follows the journal, and every figure from when it is first seen, be it under embargo.

    With real noise nobody knows a figure beforehand, but what was seen once must never change. With
    noise that follows from its name every value is known.
    """

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self.figures: dict[Name, list[int]] = {}
        self._held: dict[Name, list[int]] = {}
        self._returned: dict[Name, list[int]] = {}
        self._declared, self._confirmed = [0, 0], 0
        self._noise = NamedNoise(spread=10**6)

    def _expected(self, step: int) -> list[int]:
        return []  # a figure is about a block, not about a step

    def _on_opened(self, record: Record) -> None:
        super()._on_opened(record)
        self._note_declared()
        self._confirmed = record["steps"]

    def _on_declared(self, record: Record) -> None:
        super()._on_declared(record)
        self._note_declared()

    def _note_declared(self) -> None:
        """Keys that are new are declared after as many steps as there are."""
        self._declared += [len(self.rows)] * (self._width - len(self._declared))

    def _check_returned(self, values: list[Any]) -> None:
        self._confirmed = len(self.rows)
        dates = calendar_of(len(self.rows) + 100)
        for level, stage, first, end, rows in values:
            ends = dates.edges(level, first - FIRST_TICK, end - FIRST_TICK).tolist()
            for each, row in zip(ends, rows, strict=True):
                self._returned[level, each, stage] = row

    def compare(self, *, last: int | None = None) -> None:
        """Everything that is stored (all of it, or the newest) is what it must be."""
        since = 0 if last is None else max(0, len(self.rows) - 150)
        try:
            with self._site.open_database() as database:
                status = read_status(database, NAME)
                figures = self._figures(database, status, since)
                held = dict(self._embargo(database, status))
        except StoreError:  # right only for a process killed before it had made the stream
            assert not self.rows
            return
        steps = status.steps
        if steps > len(self.rows):  # committed, and the next process will say so
            assert self._closing == FIRST_TICK + steps - 1, "steps appeared that nobody closed"
            self._commit(steps)
            self._closing = None
        wanted, waiting = self._names(steps, since)
        assert figures.keys() == wanted, (
            "published figures are missing, or shown before their time:"
            f" {sorted(figures.keys() ^ wanted)[:5]}"
        )
        assert held.keys() == waiting, (
            f"figures under embargo are missing: {sorted(held.keys() ^ waiting)[:5]}"
        )
        for seen in (self.figures, self._held, self._returned):
            for name, row in (figures | held).items():
                assert seen.get(name, row) == row, f"a figure changed: {name}"
        self.figures.update(figures)
        self._held = held
        self._returned.clear()
        if self._site.named:
            for name, row in (figures | held).items():
                assert row == self._value(*name), f"not what inputs and noise say: {name}"
        self._check_readers(steps, since, views=last is None or steps % _VIEWS_EVERY == 0)

    def _figures(self, database: Database, status: Status, since: int) -> dict[Name, list[int]]:
        dates, figures = calendar_of(status.steps + 100), {}
        for level, stage in _places():
            for rows in read_figures(
                database, status.id, 0, level, stage, FIRST_TICK + since, 1 << 40
            ):
                ends = dates.edges(level, rows.first_tick - FIRST_TICK, rows.end_tick - FIRST_TICK)
                for end, row in zip(ends.tolist(), rows.values.tolist(), strict=True):
                    if end > since:
                        assert (level, end, stage) not in figures, "a figure is there twice"
                        figures[level, end, stage] = row
        return figures

    def _embargo(self, database: Database, status: Status) -> Iterator[tuple[Name, list[int]]]:
        for level, stage, *ticks, body in database.query(
            "SELECT level, stage, first_tick, end_tick, public_tick, body FROM embargo WHERE"
            " stream = ?",
            (status.id,),
        ):
            about = "/".join(map(str, (status.uid, "embargo", 0, level, stage, *ticks)))
            (row,), _ = unpacked(Seal().open(body, about))
            yield (level, ticks[1] - FIRST_TICK, stage), row.tolist()

    def _names(self, steps: int, since: int) -> tuple[set[Name], set[Name]]:
        """What must be published after so many steps (of blocks that end after ``since``), and what
        must wait."""
        dates, wanted, waiting = calendar_of(steps + 100), set(), set()
        for level, stage in _places():
            for end in dates.edges(level, since, steps + 100).tolist():
                if end + BLOCKS.levels[level].stages[stage].lag <= steps:
                    wanted.add((level, end, stage))
            for end in dates.edges(level, max(0, steps - 100), steps).tolist():
                if end + BLOCKS.levels[level].stages[stage].lag > steps:
                    waiting.add((level, end, stage))
        return wanted, waiting

    def _value(self, level: int, end: int, stage: int) -> list[int]:
        """A figure by the definition."""
        dates = calendar_of(len(self.rows) + 100)
        start = dates.frontier(level, end - 1)
        block = dates.count(level, 0, end)
        row = []
        for key, declared in enumerate(self._declared):
            if declared <= start:
                noise = self._noise.of(BLOCKS, key)
                counted: NDArray[np.int64] = self._sums[end] - self._sums[start]
                row.append(int(counted[key]) + noise(level, block, stage))
        return row

    def _check_readers(self, steps: int, since: int, *, views: bool) -> None:
        """What readers see ends where it is published: with the last commit, or the one before. The
        hours that they see take long to compute, so these are not looked at every time."""
        with self._site.reader() as reader:
            published = reader.stream(NAME)
            seen = published.steps
            assert self._confirmed <= seen <= steps, "published steps are missing"
            if seen and views:
                hours = published.figures("1h")
                ends = published.first_tick + np.minimum(
                    calendar_of(steps + 100).edges(3, 0, steps + 100), steps
                )
                for end, status in zip(ends.tolist(), hours.shown_status, strict=False):
                    final = end + 20 <= published.first_tick + published.steps
                    assert (status == "final") is final, "a later stage is shown before its time"
            if reader.has(BESIDE):
                rows = totals_of(reader, BESIDE, since=FIRST_TICK + since)
                assert self._site.named or not any(map(any, rows.values())), (
                    "not what inputs and noise say, beside the blocks"
                )
                assert self._confirmed <= since + len(rows) <= steps, "published steps are missing"


def _places() -> Iterator[tuple[int, int]]:
    for number, level in enumerate(BLOCKS.levels):
        for stage in range(len(level.stages)):
            yield number, stage
