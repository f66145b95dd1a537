"""A view of releases for readers who want counts that never fall and never jump.

It is computed from the releases alone, so it costs no privacy, and it is never fed back into a counter. The running maximum
of the releases is what a count that only grows suggests; to keep one large noise value from lifting the view for ever, each
step may raise it by at most ``largest_step`` (if given): the view moves toward the running maximum of what the releases say
*now* at that pace.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


class Monotone:
    """Turns the values of consecutive ticks, piece by piece, into a view that starts at 0 or above and never falls."""

    def __init__(self, *, largest_step: int | None = None) -> None:
        self._largest_step = largest_step
        self._last: NDArray[np.int64] = np.zeros(0, dtype=np.int64)

    def through(self, values: NDArray[np.int64]) -> NDArray[np.int64]:
        """The view of the next ticks, in the shape (ticks, keys); keys declared since then begin at 0."""
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
