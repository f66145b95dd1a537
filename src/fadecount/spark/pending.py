"""Counts of ticks that are still open: which key was seen how often in which tick, as compact arrays."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fadecount.errors import SavedStateError

_HEADER = 2
_TYPES = ("<u1", "<u2", "<u4", "<u8")


@dataclass(frozen=True, slots=True)
class Pending:
    """Numbers of events by cell; a cell is ``tick * width + position of the key``, cells are sorted and distinct."""

    cells: NDArray[np.uint64]
    counts: NDArray[np.uint64]

    @classmethod
    def empty(cls) -> Pending:
        return cls(np.empty(0, dtype=np.uint64), np.empty(0, dtype=np.uint64))

    def with_counts(self, cells: NDArray[np.uint64], counts: NDArray[np.uint64]) -> Pending:
        """These counts and some more; a cell may come several times."""
        merged, places = np.unique(np.concatenate([self.cells, cells]), return_inverse=True)
        sums = np.zeros(len(merged), dtype=np.uint64)
        np.add.at(sums, places, np.concatenate([self.counts, counts]))
        return Pending(merged, sums)

    def before(self, cell: int) -> tuple[Pending, Pending]:
        """The counts of the cells below one, and the rest."""
        at = int(np.searchsorted(self.cells, np.uint64(cell)))
        return Pending(self.cells[:at], self.counts[:at]), Pending(self.cells[at:], self.counts[at:])

    def dense(self, first: int, count: int) -> NDArray[np.int64]:
        """The counts of ``count`` cells from ``first`` on; all cells held must be among them."""
        counts = np.zeros(count, dtype=np.int64)
        counts[(self.cells - np.uint64(first)).astype(np.int64)] = self.counts.astype(np.int64)
        return counts

    def to_bytes(self) -> bytes:
        """Two bytes for the widths of the numbers, then cells, then counts: about 5 bytes an entry."""
        widths = bytes([_narrowest(self.cells), _narrowest(self.counts)])
        return widths + self.cells.astype(_TYPES[widths[0]]).tobytes() + self.counts.astype(_TYPES[widths[1]]).tobytes()

    @classmethod
    def from_bytes(cls, blob: bytes) -> Pending:
        try:
            cell_type, count_type = np.dtype(_TYPES[blob[0]]), np.dtype(_TYPES[blob[1]])
            number, rest = divmod(len(blob) - _HEADER, cell_type.itemsize + count_type.itemsize)
            if rest:
                raise ValueError("entries are cut")
            cells = np.frombuffer(blob, cell_type, number, _HEADER)
            counts = np.frombuffer(blob, count_type, number, _HEADER + number * cell_type.itemsize)
        except (IndexError, ValueError) as error:
            raise SavedStateError("pending counts must be whole, got damaged bytes; restore the checkpoint") from error
        return cls(cells.astype(np.uint64), counts.astype(np.uint64))


def _narrowest(numbers: NDArray[np.uint64]) -> int:
    largest = int(numbers.max()) if len(numbers) else 0
    return (largest > 0xFF) + (largest > 0xFFFF) + (largest > 0xFFFFFFFF)
