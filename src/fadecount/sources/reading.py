"""The output of a source: counts per tick and key in the order of time, and a report on the
rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from fadecount.errors import BadRowError

ROWS_PER_BATCH = 65_536


@dataclass(frozen=True, slots=True, eq=False)
class TickBatch:
    """Three arrays of one length: row i says that ``counts[i]`` was counted in tick ``ticks[i]``
    under key ``keys[i]``.

    Guarantees: int64 throughout; ticks never decrease within a batch nor from one batch to the
    next; keys are indices into the declared keys (0 where none are declared); counts are >= 0. A
    pair of tick and key may occur more than once: its counts add up. A tick that appears says that
    every earlier tick is complete.
    """

    ticks: npt.NDArray[np.int64]
    keys: npt.NDArray[np.int64]
    counts: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.ticks)

    def __repr__(self) -> str:
        return f"TickBatch({len(self.ticks)} rows)"  # the counts are what is protected: never shown


def batches_of(counts: dict[tuple[int, int], int]) -> Iterator[TickBatch]:
    """The sums per (tick, key) as batches, sorted by tick and then by key."""
    order = sorted(counts)
    for start in range(0, len(order), ROWS_PER_BATCH):
        part = order[start : start + ROWS_PER_BATCH]
        pairs = np.array(part, dtype=np.int64).reshape(-1, 2)
        sums = np.fromiter((counts[pair] for pair in part), dtype=np.int64, count=len(part))
        yield TickBatch(pairs[:, 0].copy(), pairs[:, 1].copy(), sums)


class Reason(IntEnum):
    """Why a row cannot be counted. A row is judged in this order, and the first reason is the one
    reported."""

    OVERLONG = 1
    BINARY = 2
    ENCODING = 3
    QUOTES = 4
    FIELDS = 5
    OBJECT = 6
    TIME = 7
    FUTURE = 8
    KEY = 9
    AMOUNT = 10
    NEGATIVE = 11
    ABOVE = 12
    PERSON = 13
    BEFORE = 14
    AFTER = 15

    @property
    def text(self) -> str:
        """The reason in words."""
        return _TEXTS[self]


OUTSIDE = (Reason.BEFORE, Reason.AFTER)
"""Reasons that are not errors in a row."""

_TEXTS = {
    Reason.OVERLONG: "the line is too long (max_line_bytes)",
    Reason.BINARY: "the line holds a NUL byte, so it is not text",
    Reason.ENCODING: "the line is not valid UTF-8",
    Reason.QUOTES: "a quote is not closed on its line, or stands inside an unquoted field",
    Reason.FIELDS: "the line has more or fewer fields than the header",
    Reason.OBJECT: "the line is not a JSON object",
    Reason.TIME: "the time is missing or cannot be read",
    Reason.FUTURE: "the time lies too far in the future",
    Reason.KEY: "the key is not declared (with --other, such rows count together)",
    Reason.AMOUNT: "the amount is not a whole number",
    Reason.NEGATIVE: "the amount is negative",
    Reason.ABOVE: "the amount is above max_amount",
    Reason.PERSON: "the person is missing",
    Reason.BEFORE: "the time is before the first tick that is counted",
    Reason.AFTER: "the time is after the last tick that is counted",
}


@dataclass(slots=True)
class SourceReport:
    """Tallies of one input, for its owner. They are exact and therefore not for publication.

    ``rows_read`` counts every row, bad ones included; ``rows_dropped`` the good rows beyond
    ``per_person``; ``skipped`` says why rows were left out.
    """

    rows_read: int = 0
    rows_dropped: int = 0
    skipped: Counter[Reason] = field(default_factory=Counter)

    @property
    def rows_skipped(self) -> int:
        """How many rows were left out, for all reasons together."""
        return self.skipped.total()

    def lines(self) -> list[str]:
        """One line per reason, the most frequent first: ``3 rows left out: the key is not
        declared``."""
        order = sorted(self.skipped.items(), key=lambda each: (-each[1], each[0]))
        return [
            f"{count:,} row{'s' * (count != 1)} left out: {reason.text}" for reason, count in order
        ]


class Reading(Iterator[TickBatch]):
    """Batches to iterate over, and the report, which is complete once the batches are."""

    def __init__(self, batches: Iterator[TickBatch], report: SourceReport) -> None:
        self._batches = batches
        self.report = report

    def __next__(self) -> TickBatch:
        return next(self._batches)


def bad_row(source: str, place: str, number: int, reason: Reason) -> BadRowError:
    """The error for one row: its place and what is wrong, never its values."""
    return BadRowError(
        f"{source}, {place} {number}: {reason.text}; a run leaves this row out", number=number
    )
