"""Published releases, and views that are computed from them alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, kw_only=True)
class Releases:
    """Published ticks: values in the shape (ticks, keys), as released or through a view, and per
    tick the half width of the 95 % interval around what was released."""

    first_tick: int
    values: NDArray[np.int64]
    half_widths: NDArray[np.int64]
    released: NDArray[np.int64]

    @property
    def last_tick(self) -> int:
        """The last tick of the piece."""
        return self.first_tick + len(self.values) - 1


class Monotone:
    """A view for readers who want counts that never fall: it starts at 0 or above and takes
    consecutive ticks, piece by piece.

    It is computed from the releases alone, so it costs no privacy, and it is never fed back into a
    counter. It is the running maximum of the releases, since the true count only grows. To keep one
    large noise value from raising the view permanently, each step may raise it by at most
    ``largest_step`` (if given).
    """

    def __init__(self, *, largest_step: int | None = None) -> None:
        self._largest_step = largest_step
        self._last: NDArray[np.int64] = np.zeros(0, dtype=np.int64)

    def through(self, values: NDArray[np.int64]) -> NDArray[np.int64]:
        """The view of the next ticks, in the shape (ticks, keys); keys declared since then begin at
        0."""
        width = values.shape[1]
        before = np.concatenate([self._last, np.zeros(width - len(self._last), dtype=np.int64)])
        if self._largest_step is None:
            view = np.maximum.accumulate(np.vstack([before, values]), axis=0)[1:]
        else:
            view = np.empty_like(values)
            last = before
            for at, row in enumerate(values):
                last = np.clip(row, last, last + self._largest_step)
                view[at] = last
        if len(view):
            self._last = view[-1].copy()
        return view
