"""Hidden keys: undeclared ones, until they appear by themselves or are forgotten.

While its day is open, the text of a hidden key and the number of its persons wait in the table
``hidden``, sealed. The transaction that closes the day takes them, draws the chain of noises of
each key that somebody brought, and knows which stage shows it first. Of a key that no stage shows
nothing is kept. Of the others the noisy counts are kept from that stage on: one sealed body for
each stage, of a public size class, under embargo until its time (streams/embargo.py). So no true
count outlives its day, and nobody can see how many keys wait.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from fadecount.errors import FullError
from fadecount.noise import Chain, NoiseSource, SystemNoise
from fadecount.streams.database import Database
from fadecount.streams.discovery import (
    DISCOVERED,
    Counts,
    HiddenKeys,
    KeyFigures,
    Numbers,
    packed,
    unpacked,
)
from fadecount.streams.seal import Seal

SMALLEST_CLASS = 4096
"""Bodies under embargo have this size, or 4, 16, 64, ... times as much."""


def drawn(
    hidden: HiddenKeys,
    day: int,
    ticks: range,
    persons: Counts,
    source: NoiseSource | None = None,
) -> list[KeyFigures]:
    """The figures of a day at each stage, from how many persons brought each key. Each key has
    noises of its own, drawn here and once; nothing is left of a key that no stage shows."""
    if len(persons) > hidden.most:
        raise full(hidden)
    keys, counts = list(persons), _numbers(persons)
    discovery = hidden.discovery
    chain = Chain(DISCOVERED, discovery.scales)
    noises = chain.many(source or SystemNoise(), range(day, day + 1), len(keys))
    values = [counts + noise[0] for noise in noises]
    first = discovery.first_shown(values)
    shown = np.flatnonzero(first < len(values)).tolist()
    order = np.array(sorted(shown, key=keys.__getitem__), dtype=np.int64)
    figures = []
    for stage, each in enumerate(values):
        some = order[first[order] <= stage]
        figures.append(
            KeyFigures(
                stage=stage,
                first_tick=ticks.start,
                end_tick=ticks.stop,
                keys=[keys[at] for at in some.tolist()],
                values=each[some],
            )
        )
    return figures


def full(hidden: HiddenKeys) -> FullError:
    """The incident that stops a stream."""
    return FullError(
        f"hidden keys of one day must be at most {hidden.most:,}; the stream stops: find out who"
        " sends ever new keys, then go on with a new stream and a smaller sample"
    )


def size_class(body: bytes) -> int:
    """The public size of a body under embargo."""
    size = SMALLEST_CLASS
    while size < len(body):
        size *= 4
    return size


# The open day
# ------------------------------------------------------------------------------------------------
def hide(database: Database, seal: Seal, uid: str, stream: int, block: int, counts: Counts) -> None:
    """Store hidden keys of the open day."""
    body = seal.close(packed(list(counts), _numbers(counts)), _about(uid, block))
    database.change(
        "INSERT INTO hidden (stream, block, body) VALUES (?, ?, ?)", (stream, block, body)
    )


def take_hidden(
    database: Database, seal: Seal, uid: str, stream: int, before: int
) -> dict[int, dict[str, int]]:
    """Take the hidden keys of the days before a block, added up, and remove them."""
    taken: dict[int, dict[str, int]] = {}
    sql = "DELETE FROM hidden WHERE stream = ? AND block < ? RETURNING block, body"
    for block, body in database.query(sql, (stream, before)):
        keys, numbers = unpacked(seal.open(body, _about(uid, block)))
        add_counts(taken.setdefault(block, {}), zip(keys, numbers.tolist(), strict=True))
    return taken


def add_counts(sums: dict[str, int], counts: Iterable[tuple[str, int]]) -> None:
    """Add numbers of persons to those of the same keys."""
    if not sums:
        sums.update(counts)
        return
    for key, count in counts:
        sums[key] = sums.get(key, 0) + count


def _numbers(counts: Counts) -> Numbers:
    return np.fromiter(counts.values(), dtype=np.int64, count=len(counts))


def _about(uid: str, block: int) -> str:
    return f"{uid}/hidden/{block}"
