"""Noise of zero, handed in at the private step where a store takes its noise source: releases then
show what was counted.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray

from fadecount.streams import Store, Stream
from tests.unsynced import unsynced


class Silence:
    """Every noise variable is 0."""

    def one(self, distribution: object, level: int, round_number: int, node: int) -> int:
        return 0

    def many(
        self, distribution: object, level: int, rounds: range, nodes: range, width: int
    ) -> NDArray[np.int64]:
        return np.zeros((len(rounds), len(nodes), width), dtype=np.int64)


@contextmanager
def silence() -> Iterator[None]:
    """Streams opened meanwhile, by any thread of this process, have no noise and do not wait for
    the disk."""
    opened = Store._open

    def silent(self: Store, name: str, uid: str) -> Stream:
        self._context.noise = Silence()
        return opened(self, name, uid)

    with patch.object(Store, "_open", silent), unsynced():
        yield
