"""What an input left out, for its owner; and the gate between reading a history and releasing it.

A file with the wrong column, or a file that was forgotten, must not become noise around zero for
ever. The gate refuses before anything is released, and only the operator sees it. It depends on the
rows, so when something is published at last can depend on them too: SECURITY.md says what that
reveals.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from fadecount.calendar import Ticks
from fadecount.checks import require_real
from fadecount.errors import InputError
from fadecount.mechanisms import ONE_EVENT, Unit
from fadecount.sources.rows import OUTSIDE, Reason


@dataclass(slots=True)
class MeasureReport:
    """Tallies of one measure: the rows whose key is in no list and counts nowhere but overall,
    those without a key or amount, and those of which a sum took only a part."""

    rows_unlisted: int = 0
    rows_empty: int = 0
    rows_cut: int = 0

    def lines(self, name: str) -> list[str]:
        """One line per reason. A key that no list has is counted, never named."""
        reasons = (
            (self.rows_unlisted, "not counted by key: their key is in no list"),
            (self.rows_empty, "left out: the key or amount is empty"),
            (self.rows_cut, "counted in part: beyond the largest amount of a unit"),
        )
        return [f"{name}: {_rows(count)} {reason}" for count, reason in reasons if count]


@dataclass(slots=True)
class SourceReport:
    """Tallies of one input, for its owner. They are exact and therefore not for publication.

    ``rows_read`` counts every row, bad ones included; ``rows_dropped`` the good rows beyond
    ``per_person``; ``rows_cut`` those whose amount was cut to ``max_amount``; ``skipped`` says why
    rows were left out.
    """

    rows_read: int = 0
    rows_dropped: int = 0
    rows_cut: int = 0
    skipped: Counter[Reason] = field(default_factory=Counter)
    measures: dict[str, MeasureReport] = field(default_factory=dict)
    """Of a publication: what else its measures do not count, by name."""

    @property
    def rows_skipped(self) -> int:
        """How many rows were left out, for all reasons together."""
        return self.skipped.total()

    def lines(self) -> list[str]:
        """One line per reason, the most frequent first: ``3 rows left out: the key is not
        declared``."""
        order = sorted(self.skipped.items(), key=lambda each: (-each[1], each[0]))
        lines = [f"{_rows(count)} left out: {reason.text}" for reason, count in order]
        return lines + [line for name, each in self.measures.items() for line in each.lines(name)]

    def consequences(self, unit: Unit = ONE_EVENT) -> list[str]:
        """What else does not count in full, and by how much the figures are too low for all that:
        intervals cover the noise only. Distinct persons lose less: a person may have other rows,
        and those beyond the cap are of persons who count already."""
        lines, persons = [], unit.distinct_per is not None
        if self.rows_dropped and persons:
            where = "" if unit.keys == 1 else f", or under {unit.keys} other keys"
            lines.append(f"{_rows(self.rows_dropped)} of persons who count already{where}")
        elif self.rows_dropped:
            lines.append(f"{_rows(self.rows_dropped)} left out: beyond the cap of their person")
        if self.rows_cut:
            lines.append(f"{_rows(self.rows_cut)} counted with the largest amount: sums are lower")
        elsewhere = sum(self.skipped[reason] for reason in OUTSIDE if reason != Reason.LATE)
        missing = self.rows_skipped - elsewhere + (0 if persons else self.rows_dropped)
        if missing:
            low = (
                "at most that many persons are missing"
                if persons
                else "figures are that much too low"
            )
            share = 100.0 * missing / (self.rows_read - elsewhere)
            lines.append(
                f"all in all {_rows(missing)} ({share:.3g} % of those in the range) do not count:"
                f" {low}, and intervals cover the noise only"
            )
        return lines


def _rows(count: int) -> str:
    return f"{count:,} row{'s' * (count != 1)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """What a history must meet. At most the part ``max_left_out`` of its rows may be unreadable,
    and at least one key of a row that is in time must be declared (1 accepts everything). The first
    whole day after what is published must have an event, unless ``allow_gap`` is given."""

    max_left_out: float = 0.5
    allow_gap: bool = False

    def __post_init__(self) -> None:
        remedy = "it is a part of all rows, such as 0.05"
        require_real("max_left_out", self.max_left_out, low=0.0, high=1.0, remedy=remedy)

    def check_rows(self, report: SourceReport) -> None:
        """Refuse an input too much of which cannot be read."""
        if self.max_left_out == 1:
            return
        bad = {reason: n for reason, n in report.skipped.items() if reason not in OUTSIDE}
        undeclared = bad.pop(Reason.KEY, 0)
        unreadable = sum(bad.values())
        if unreadable > self.max_left_out * report.rows_read:
            most = max(bad, key=lambda reason: bad[reason])
            raise InputError(
                f"rows that cannot be read must be at most {_percent(self.max_left_out)} of all,"
                f" got {_percent(unreadable / report.rows_read)} (mostly: {most.text}); nothing was"
                " released: check the columns, or accept more (max_left_out, --max-left-out)"
            )
        in_time = report.rows_read - sum(report.skipped[reason] for reason in OUTSIDE)
        if undeclared and undeclared + unreadable == in_time:
            raise InputError(
                "rows must have some declared keys, got none; nothing was released: check the key"
                " column and the keys, or accept this (max_left_out 1, --max-left-out 100%)"
            )

    def check_gap(self, ticks: Ticks, begin: int, first_event: int) -> None:
        """Refuse a history whose first event comes a whole day (or tick, if that is longer) or more
        after the first tick that it would release."""
        if not self.allow_gap and first_event > begin and first_event >= _day_after(ticks, begin):
            raise InputError(
                f"events must go on where the stream ends, {ticks.local(begin)}, got none before"
                f" {ticks.local(first_event)}; nothing was released: give what is missing first, or"
                " accept the gap (allow_gap, --allow-gap)"
            )


def _day_after(ticks: Ticks, begin: int) -> int:
    """The first tick after the first whole local day that begins with this tick or later."""
    day = ticks.block_of("1d", begin - 1) + 1
    return max(begin + 1, ticks.ticks_of("1d", day).stop)


def _percent(part: float) -> str:
    return f"{100.0 * part:.3g} %"
