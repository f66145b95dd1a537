"""Counts by tick and key into a stream: from inputs that can be read again, and from pipes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from fadecount.errors import AlreadyReleasedError, InputError
from fadecount.streams.chunks import CELLS, Chunk
from fadecount.streams.stream import LARGEST_GAP, Stream

Numbers = NDArray[np.int64]


class Feed:
    """Feeds a stream with arrays of (tick, key, count), ticks never decreasing.

    A tick is closed when a later one comes, or by :meth:`finish`. What waits is in memory only: a feed is for inputs that can be
    read again. With ``skip_released``, counts for closed ticks are left out; otherwise they are refused.
    """

    def __init__(self, stream: Stream, *, skip_released: bool = False, largest_gap: int = LARGEST_GAP) -> None:
        self._stream = stream
        self._skip = skip_released
        self._largest_gap = largest_gap
        self._tick: int | None = None
        self._waiting = np.zeros(stream.status.width, dtype=np.int64)
        self.skipped = 0

    def add(self, ticks: Numbers, keys: Numbers, counts: Numbers) -> Iterator[Chunk]:
        """Take some counts; yields what was closed and published because of them."""
        ticks, keys, counts = self._newer(ticks, keys, counts)
        if not len(ticks):
            return
        if np.any(np.diff(ticks) < 0) or (self._tick is not None and int(ticks[0]) < self._tick):
            raise InputError("ticks must not decrease; sort the input by time")
        if int(keys.min()) < 0 or int(keys.max()) >= len(self._waiting):
            raise InputError("keys must be positions in the declared keys")
        last = int(ticks[-1])
        if self._tick is None:
            self._tick = int(ticks[0])
        while self._tick < last:
            yield from self._close(ticks, keys, counts, last)
        self._gather(self._waiting[np.newaxis], last, ticks, keys, counts)

    def finish(self) -> Iterator[Chunk]:
        """Close the last tick."""
        if self._tick is not None:
            tick, self._tick = self._tick, None
            rows, self._waiting = self._waiting[np.newaxis], np.zeros_like(self._waiting)
            yield from self._stream.release(tick, rows, largest_gap=self._largest_gap)

    def _newer(self, ticks: Numbers, keys: Numbers, counts: Numbers) -> tuple[Numbers, Numbers, Numbers]:
        begin = self._stream.open_tick
        if begin is None or not len(ticks) or int(ticks[0]) >= begin:
            return ticks, keys, counts
        if not self._skip:
            shown = self._stream.description.ticks.shown
            where = f"is released up to {shown(begin)}" if self._stream.status.steps else f"is to begin at {shown(begin)}"
            raise AlreadyReleasedError(
                f"stream {self._stream.description.name!r} {where}, the input begins in the tick of {shown(int(ticks[0]))}; "
                "give newer events, or --skip-released to leave out the older ones"
            )
        known = int(np.searchsorted(ticks, begin))
        self.skipped += known
        return ticks[known:], keys[known:], counts[known:]

    def _close(self, ticks: Numbers, keys: Numbers, counts: Numbers, last: int) -> Iterator[Chunk]:
        """Release the ticks from the waiting one on, before ``last``, as many as fit in one transaction."""
        begin: int = self._tick or 0
        size = max(1, CELLS // len(self._waiting))
        following = int(ticks[min(len(ticks) - 1, int(np.searchsorted(ticks, begin, side="right")))])
        end = min(begin + size, last)
        if following >= end:  # a gap: release what waits alone, the empty ticks come with the next release
            end = begin + 1
        rows = np.zeros((end - begin, len(self._waiting)), dtype=np.int64)
        rows[0] = self._waiting
        self._gather(rows, begin, ticks, keys, counts)
        self._waiting = np.zeros_like(self._waiting)
        self._tick = max(end, min(following, last)) if end == begin + 1 else end
        yield from self._stream.release(begin, rows, largest_gap=self._largest_gap)

    @staticmethod
    def _gather(rows: Numbers, first: int, ticks: Numbers, keys: Numbers, counts: Numbers) -> None:
        low, high = np.searchsorted(ticks, [first, first + len(rows)])
        np.add.at(rows, (ticks[low:high] - first, keys[low:high]), counts[low:high])


class LiveFeed:
    """Feeds a stream from a source that cannot be read again.

    Counts are accepted for the open tick as they come, so that a crash loses only what was not handed over yet. A tick is closed
    when a later one comes; counts for ticks that are closed are late and count in the open one.
    """

    def __init__(self, stream: Stream, *, largest_gap: int = LARGEST_GAP) -> None:
        self._stream = stream
        self._largest_gap = largest_gap
        self._keys = stream.keys

    def add(self, ticks: Numbers, keys: Numbers, counts: Numbers) -> Iterator[Chunk]:
        """Take some counts; yields what was closed and published because of them."""
        for tick in np.unique(ticks).tolist():
            if self._stream.open_tick is None:
                self._stream.begin(tick)
            if tick > (self._stream.open_tick or 0):
                yield from self._stream.close_through(tick - 1, largest_gap=self._largest_gap)
            here = ticks == tick
            sums = np.zeros(len(self._keys), dtype=np.int64)
            np.add.at(sums, keys[here], counts[here])
            batch = {self._keys[at]: int(sums[at]) for at in np.flatnonzero(sums).tolist()}
            if batch:
                self._stream.add_sums(batch)

    def finish(self) -> Iterator[Chunk]:
        """Close the open tick too, for a stream that ends with its input."""
        if self._stream.open_tick is not None:
            yield from self._stream.close_through(self._stream.open_tick)
