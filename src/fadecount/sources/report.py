"""What became of the rows: how many were read, skipped and why. Reasons are fixed phrases: never a value of a row."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import IntEnum

from fadecount.errors import BadRowError
from fadecount.sources.batch import TickBatch


class Reason(IntEnum):
    """Why a row cannot be counted. A row is judged in this order, and the first reason is the one reported."""

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

    @property
    def text(self) -> str:
        """The reason in words."""
        return _TEXTS[self]


_TEXTS = {
    Reason.OVERLONG: "the line is too long (max_line_bytes)",
    Reason.BINARY: "the line holds a NUL byte, so it is not text",
    Reason.ENCODING: "the line is not valid UTF-8",
    Reason.QUOTES: "a quote is not closed on its line, or stands inside an unquoted field",
    Reason.FIELDS: "the line has more or fewer fields than the header",
    Reason.OBJECT: "the line is not a JSON object",
    Reason.TIME: "the time is missing or cannot be read",
    Reason.FUTURE: "the time lies too far in the future",
    Reason.KEY: "the key is not declared",
    Reason.AMOUNT: "the amount is not a whole number",
    Reason.NEGATIVE: "the amount is negative",
    Reason.ABOVE: "the amount is above max_amount",
    Reason.PERSON: "the person is missing",
}


@dataclass(slots=True)
class SourceReport:
    """Tallies of one input, for its owner. They are exact and therefore not for publication.

    ``rows_read`` counts every row, bad ones included; ``rows_dropped`` the good rows beyond ``per_person``.
    """

    rows_read: int = 0
    rows_dropped: int = 0
    skipped: Counter[Reason] = field(default_factory=Counter)

    @property
    def rows_skipped(self) -> int:
        """How many rows were skipped, for all reasons together."""
        return self.skipped.total()

    def lines(self) -> list[str]:
        """One line per reason, the most frequent first: ``3 rows skipped: the key is not declared``."""
        return [f"{count:,} row{'s' * (count != 1)} skipped: {reason.text}" for reason, count in self.skipped.most_common()]


class Reading(Iterator[TickBatch]):
    """Batches to iterate over, and the report, which is complete once the batches are."""

    def __init__(self, batches: Iterator[TickBatch], report: SourceReport) -> None:
        self._batches = batches
        self.report = report

    def __next__(self) -> TickBatch:
        return next(self._batches)


def bad_row(source: str, place: str, number: int, reason: Reason) -> BadRowError:
    """The error for one row: where it stands and what is wrong, never what it says."""
    return BadRowError(f"{source}, {place} {number}: {reason.text}; correct it, or skip bad rows (--on-bad skip)", number=number)
