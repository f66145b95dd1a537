"""The journal of a crash campaign: what the killed processes did, in order, outside the store.

Each record is one line, written by one system call: a killed process leaves whole records, since
its writes are in the kernel.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fadecount.noise import DiscreteLaplace, SystemNoise

Record = dict[str, Any]


class Journal:
    """Appends records."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def write(self, what: str, **fields: Any) -> None:
        os.write(self._file, json.dumps({"what": what, **fields}).encode() + b"\n")


def records(path: Path) -> list[Record]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


class JournalNoise:
    """Real noise, every draw of which is written down. ``first_column`` is where the drawn columns
    stand among the keys."""

    def __init__(self, journal: Journal) -> None:
        self._journal, self._source = journal, SystemNoise()
        self.first_column = 0

    def many(
        self, distribution: DiscreteLaplace, level: int, rounds: range, nodes: range, width: int
    ) -> NDArray[np.int64]:
        values = self._source.many(distribution, level, rounds, nodes, width)
        names = [(level, r, n) for r in rounds for n in nodes]
        drawn = list(zip(names, values.reshape(-1, width).tolist(), strict=True))
        self._journal.write("drawn", variables=drawn, first_column=self.first_column)
        return values
