"""A pipe into a stream: what was read is durable within the source's pace, and ticks are closed as they pass."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from fadecount.streams.chunks import Chunk
from fadecount.streams.stream import LARGEST_GAP, Stream

Numbers = NDArray[np.int64]


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
                self._stream.add(batch)

    def finish(self) -> Iterator[Chunk]:
        """Close the open tick too, for a stream that ends with its input."""
        if self._stream.open_tick is not None:
            yield from self._stream.close_through(self._stream.open_tick)
