"""Figures of slots of time as people read them: columns of numbers with intervals and a status."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.int64]
Table = dict[str, NDArray[Any]]
"""Columns of one length: start, end, key, value, low, high, status, partial, published, and for
keys that appeared by themselves ``appeared``. Times are Unix seconds."""
COLUMNS = ("start", "end", "key", "value", "low", "high", "status", "partial", "published")
PROVISIONAL, REVISED, FINAL = 0, 1, 2
STATUSES = ("provisional", "revised", "final")
NO_TIMES: Numbers = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Slots:
    """Slots of time: where they begin and end in Unix seconds, and as positions (steps after the
    stream began) as far as they are public. A ``partial`` slot is not covered from its beginning to
    its end."""

    starts: Numbers
    ends: Numbers
    begins: Numbers
    reached: Numbers
    partial: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.starts)

    def chosen(self, part: slice | NDArray[Any]) -> Self:
        """Some of the slots."""
        return type(self)(**{each.name: getattr(self, each.name)[part] for each in fields(self)})

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        """The slots of several tables, one after the other."""
        names = [each.name for each in fields(cls)]
        return cls(**{name: np.concatenate([getattr(e, name) for e in parts]) for name in names})

    def figures(self, **columns: NDArray[Any]) -> Figures:
        """The figures of these slots."""
        return Figures(**{each.name: getattr(self, each.name) for each in fields(Slots)}, **columns)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Figures(Slots):
    """Counts of slots of time, in the shape (slots, keys), with their 95 % intervals.

    ``status`` is an index of ``STATUSES``: a value that nothing can change any more is final.
    ``published`` is when the last part of it became public. Where ``known`` is false, the key was
    not declared in time. Values may be negative, since noise is.
    """

    values: Numbers
    half_widths: Numbers
    known: NDArray[np.bool_]
    status: Numbers
    published: Numbers

    @property
    def low(self) -> Numbers:
        """The lower ends of the intervals."""
        return self.values - self.half_widths

    @property
    def high(self) -> Numbers:
        """The upper ends of the intervals."""
        return self.values + self.half_widths

    @property
    def shown_status(self) -> list[str]:
        """The status of each slot, in words."""
        return [STATUSES[each] for each in self.status.tolist()]

    def table(self, keys: Sequence[str | None], positions: Sequence[int] | None = None) -> Table:
        """The figures as columns, without keys that were not declared in time. The key None is the
        sum over all of them. ``positions`` chooses the keys (default: all of them)."""
        wanted = range(len(keys)) if positions is None else positions
        chosen = [at for at in wanted if at < self.values.shape[1]]
        width, known = len(chosen), self.known[:, chosen].ravel()
        columns = (
            np.repeat(self.starts, width),
            np.repeat(self.ends, width),
            np.tile(np.array(keys, dtype=object)[chosen], len(self)),
            self.values[:, chosen].ravel(),
            self.low[:, chosen].ravel(),
            self.high[:, chosen].ravel(),
            np.repeat(np.array(self.shown_status, dtype=object), width),
            np.repeat(self.partial, width),
            np.repeat(self.published, width),
        )
        return {name: column[known] for name, column in zip(COLUMNS, columns, strict=True)}


def no_figures(width: int) -> Figures:
    """No slots, of so many keys."""
    numbers, none = np.zeros((0, width), dtype=np.int64), np.zeros(0, dtype=np.bool_)
    times = {"starts": NO_TIMES, "ends": NO_TIMES, "begins": NO_TIMES, "reached": NO_TIMES}
    return Slots(**times, partial=none).figures(
        values=numbers,
        half_widths=numbers,
        known=numbers.astype(np.bool_),
        status=NO_TIMES,
        published=NO_TIMES,
    )


def joined_table(tables: Iterable[Table]) -> Table:
    """The rows of some tables with the same columns, of which there is at least one."""
    parts = list(tables)
    return {name: np.concatenate([each[name] for each in parts]) for name in parts[0]}
