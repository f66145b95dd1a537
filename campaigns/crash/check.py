"""Does the store agree with the journal? Nothing lost, nothing doubled, nothing changed, nothing
drawn again, no cap passed."""

from __future__ import annotations

from collections import Counter

import numpy as np
from tests.streams.backends import totals_of
from tests.streams.scripted import names_in_use

from campaigns.crash.journal import Record
from campaigns.crash.worker import (
    FIRST_TICK,
    MOST_KEYS,
    NAME,
    Site,
    counts_of,
    person_of,
    position_of,
)
from fadecount.errors import StoreError
from fadecount.mechanisms import RunningTotal

Variable = tuple[int, int, int]


class Account:
    """Follows the journal and says, for every committed step, what must have been released.

    Only one thing is under way when a process is killed, so each record settles the one before:
    ``opened`` tells whether the tick that was being closed is closed, and the answer to a repeated
    batch whether it was counted before.
    """

    def __init__(self, site: Site) -> None:
        self._site = site
        self._variables: dict[tuple[Variable, int], int] = {}
        self._width, self._declaring = 2, False
        self._counted: set[str] = set()
        self._sums = [np.zeros(MOST_KEYS, dtype=np.int64)]
        self._waiting = np.zeros(MOST_KEYS, dtype=np.int64)
        self._used: Counter[tuple[str | None, int | None]] = Counter()
        self._position, self._written = "", False
        self._closing: int | None = None
        self.rows: list[list[int]] = []
        self.unanswered: list[str] = []
        self.next_batch = 0
        self.draws = self.answers = self.repeats = self.redraws_of_lost = 0

    def follow(self, journal: list[Record]) -> None:
        handlers = {
            "drawn": self._on_drawn,
            "opened": self._on_opened,
            "sent": self._on_sent,
            "answered": self._on_answered,
            "closing": self._on_closing,
            "closed": self._on_closed,
            "declaring": self._on_declaring,
            "declared": self._on_declared,
            "failed": self._on_failed,
        }
        for record in journal:
            handlers[record["what"]](record)

    def _on_failed(self, record: Record) -> None:
        raise AssertionError("a process could not go on by itself:\n" + record["reason"])

    def _on_drawn(self, record: Record) -> None:
        for (level, round_number, node), values in record["variables"]:
            name, first = (level, round_number, node), record["first_column"]
            self.draws += 1
            self.redraws_of_lost += (name, first) in self._variables
            if not first:
                start = self._first_step(name)
                assert start > len(self.rows), (
                    f"variable {name} drawn again after step {len(self.rows)} was committed"
                )
            for at, value in enumerate(values):
                self._variables[name, first + at] = value

    def _first_step(self, name: Variable) -> int:
        """The step whose output uses a variable first."""
        level, round_number, node = name
        mechanism = self._site.mechanism
        assert isinstance(mechanism, RunningTotal)
        clock = node << level if level >= 0 else 1
        length: int = mechanism.noise.round_length or 0
        return mechanism.delay + clock + round_number * length

    def _on_opened(self, record: Record) -> None:
        if record["steps"] != len(self.rows):
            assert self._closing is not None, "steps appeared that nobody closed"
            assert record["steps"] == self._closing - FIRST_TICK + 1, "a tick was closed in part"
            self._commit(record["steps"])
        assert record["width"] == self._width or (
            self._declaring and record["width"] == self._width + 1
        )
        self._width = record["width"]
        self._closing, self._declaring = None, False
        self._written = record["position"] != self._position
        assert not self._written or record["position"] == position_of(self.unanswered), (
            "a position that nobody sent"
        )

    def _on_sent(self, record: Record) -> None:
        self.unanswered = record["ids"]
        self.next_batch = max(self.next_batch, *(int(each[1:]) + 1 for each in record["ids"]))

    def _on_answered(self, record: Record) -> None:
        assert record["ids"] == self.unanswered
        self.unanswered, self._position = [], position_of(record["ids"])
        written, self._written = self._written, False
        for each, fresh in zip(record["ids"], record["fresh"], strict=True):
            self.answers += 1
            self.repeats += not fresh
            if each in self._counted:
                assert not fresh, "a batch that was acknowledged before was counted again"
                continue
            assert fresh is not written, (
                "what was read and how far it was read were not stored together"
            )
            self._counted.add(each)
            self._count(each)

    def _count(self, batch: str) -> None:
        """Add a batch to the open tick; of one person only so many events, or so many under each
        key."""
        unit = self._site.unit
        person = person_of(batch, unit)
        for at, count in enumerate(counts_of(batch, 2).values()):
            who = person, at if unit.keys > 1 else None
            taken = count if person is None else min(count, unit.events - self._used[who])
            self._waiting[at] += taken
            if person is not None:
                self._used[who] += taken

    @property
    def closing(self) -> tuple[int, int] | None:
        """The first and last step that were being closed when the process ended, if any were."""
        if self._closing is None:
            return None
        return len(self.rows) + 1, self._closing - FIRST_TICK + 1

    def _on_closing(self, record: Record) -> None:
        self._closing = record["last"]

    def _on_closed(self, record: Record) -> None:
        self._commit(record["steps"])
        self._closing = None
        self._check_returned(record["values"])

    def _check_returned(self, values: list[list[int]]) -> None:
        assert self.rows[len(self.rows) - len(values) :] == values, (
            "returned values are not those committed"
        )

    def _on_declaring(self, record: Record) -> None:
        self._declaring = True

    def _on_declared(self, record: Record) -> None:
        self._declaring, self._width = False, record["width"]

    def _commit(self, steps: int) -> None:
        """These steps are closed: what they show follows from the batches counted and the variables
        drawn last."""
        while len(self.rows) < steps:
            self._sums.append(self._sums[-1] + self._waiting)
            self._waiting = np.zeros(MOST_KEYS, dtype=np.int64)
            self._used.clear()
            self.rows.append(self._expected(len(self.rows) + 1))

    def _expected(self, step: int) -> list[int]:
        shown = step - self._site.mechanism.delay
        if shown < 1:
            return [0] * self._width
        sums = self._sums[shown]
        names = names_in_use(self._site.mechanism, step)
        return [
            int(sums[key]) + sum(self._variables[name, key] for name in names)
            for key in range(self._width)
        ]

    def compare(self, *, last: int | None = None) -> None:
        """Published values (all, or the last ones) equal those that the journal explains; none is
        missing, none has changed."""
        since = 0 if last is None else max(0, len(self.rows) - last)
        found = self._published(FIRST_TICK + since)
        known = self.rows[since:]
        assert len(found) >= len(known), "published steps are missing"
        assert found[: len(known)] == known, (
            "a released value is not what inputs and noise say, or it changed"
        )

    def _published(self, since: int) -> list[list[int]]:
        try:
            with self._site.reader() as reader:
                return list(totals_of(reader, NAME, since=since).values())
        except StoreError:  # right only for a process killed before it had made the stream
            assert not self.rows
            return []
