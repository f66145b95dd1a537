"""What is not public yet: figures that were made when their block ended, and keys that are hidden.

Ticks are counted into open blocks, and the figures of those that end are made at once, for all
stages. What is not public yet waits in the table ``embargo``, sealed, which no reader selects from.
The transaction that closes the tick of its public time moves it to ``figures``; it is visible when
that tick is published.

While its day is open, the text of a hidden key and the number of its persons wait in the table
``hidden``, sealed. The transaction that closes the day takes them, draws the chain of noises of
each key that somebody brought, and knows which stage shows it first. Of a key that no stage shows
nothing is kept. Of the others the noisy counts are kept from that stage on: one sealed body for
each stage, of a public size class, under embargo. So no true count outlives its day, and nobody can
see how many keys wait.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Sized
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fadecount.calendar import DAY, Ticks
from fadecount.counters import Counter
from fadecount.counters.figures import FigureBatch, FigureMaker
from fadecount.errors import FullError
from fadecount.mechanisms import Blocks, Mechanism
from fadecount.noise import Chain, KeyedNoise, NoiseSource, SystemNoise
from fadecount.streams.discovery import DISCOVERED, Counts
from fadecount.streams.figures import FigureRows, packed, unpacked

if TYPE_CHECKING:
    from fadecount.calendar import Calendar
    from fadecount.streams.database import Database
    from fadecount.streams.description import Description
    from fadecount.streams.seal import SecretRows

Machine = Counter | FigureMaker
"""What a stream counts with."""
Numbers = NDArray[np.int64]
MOST_HIDDEN_KEYS = 1 << 24
"""More hidden keys in one day stop the stream."""
Dated = tuple[int, FigureRows]
"""Figures, and the end of the tick with which they become public."""
SMALLEST_CLASS = 4096
"""Bodies of hidden keys under embargo have this size, or 4, 16, 64, ... times as much."""


def new_machine(mechanism: Mechanism, width: int, source: NoiseSource | None = None) -> Machine:
    """What a new stream of so many keys counts with."""
    if isinstance(mechanism, Blocks):
        return FigureMaker(mechanism, mechanism.calendar, width, source)
    return Counter(mechanism, shape=(width,))


def largest_count(ticks: Ticks) -> int:
    """The most that a tick of a stream of blocks counts under one key: no sum over 200 years can
    pass 2**61."""
    return (1 << 61) // (200 * 366 * DAY // ticks.tick_seconds + 1)


def count_ticks(
    machine: Machine,
    rows: Numbers,
    first_tick: int,
    ticks: Ticks,
    calendar: Calendar | None,
    series: int = 0,
) -> list[Dated]:
    """Count a row for each tick from ``first_tick`` on, and return the figures that this makes of a
    series. Those that are not public with these ticks are one block each."""
    end = first_tick + len(rows)
    if isinstance(machine, Counter):
        values = np.asarray(machine.extend(rows), dtype=np.int64)
        return [(end, FigureRows(0, 0, first_tick, end, values, series=series))]
    assert calendar is not None
    machine.calendar = calendar
    begin, dated = calendar.first_tick, list[Dated]()
    for made in machine.close(np.minimum(rows, largest_count(ticks))):
        due = int(np.searchsorted(made.public, end - begin, side="right"))
        later = (slice(at, at + 1) for at in range(due, len(made.ends)))
        dated.extend(
            (begin + int(made.public[part][-1]), _rows_of(made, part, begin, series))
            for part in ((slice(due), *later) if due else later)
        )
    return dated


def _rows_of(made: FigureBatch, part: slice, first_tick: int, series: int) -> FigureRows:
    first, end = first_tick + int(made.starts[part][0]), first_tick + int(made.ends[part][-1])
    return FigureRows(made.level, made.stage, first, end, made.values[part], series=series)


# The embargo
# ------------------------------------------------------------------------------------------------
def embargo(rows: SecretRows, waiting: Sequence[Dated]) -> None:
    """Store figures that are not public yet, one block in a row. Sealed, and of a size that depends
    on the number of declared keys alone; of hidden keys, of a size class."""
    stored = []
    for public_tick, each in waiting:
        body = packed(each.values, each.keys)
        if each.level == DISCOVERED:
            body = body.ljust(size_class(body), b"\0")
        place = (each.series, each.level, each.stage, each.first_tick, each.end_tick)
        stored.append((*place, public_tick, body))
    rows.put("embargo", *stored)


def next_public_tick(database: Database, stream: int) -> int | None:
    """The end of the tick with which the next figure under embargo becomes public."""
    ((tick,),) = database.query("SELECT MIN(public_tick) FROM embargo WHERE stream = ?", (stream,))
    return None if tick is None else int(tick)


def release_due(rows: SecretRows, end: int) -> list[FigureRows]:
    """Take the figures out of the embargo that become public with the ticks before ``end``."""
    taken = sorted(rows.take("embargo", "public_tick <= ?", end))
    figures = []
    for series, level, stage, first, end_tick, _, body in taken:
        values, keys = unpacked(body)
        figures.append(FigureRows(level, stage, first, end_tick, values, keys, series))
    return figures


def size_class(body: bytes) -> int:
    """The public size of a body of hidden keys under embargo."""
    size = SMALLEST_CLASS
    while size < len(body):
        size *= 4
    return size


# Hidden keys
# ------------------------------------------------------------------------------------------------
def draw_stages(
    description: Description,
    first_tick: int,
    day: int,
    persons: Counts,
    source: NoiseSource | KeyedNoise | None = None,
) -> list[Dated]:
    """The figures of a day of a series at each stage, from how many persons brought each key. Each
    key has noises of its own, drawn here and once; nothing is left of a key that no stage shows."""
    hidden, ticks = description.hidden, description.ticks_of(day)
    assert hidden is not None
    if is_full(persons):
        raise full()
    begin = max(first_tick, ticks.start)
    keys, counts = list(persons), _numbers(persons)
    discovery = hidden.discovery
    chain = Chain(DISCOVERED, discovery.scales)
    noises = chain.many(source or SystemNoise(), range(day, day + 1), len(keys))
    values = [counts + noise[0] for noise in noises]
    first = discovery.first_shown(values)
    shown = np.flatnonzero(first < len(values)).tolist()
    order = np.array(sorted(shown, key=keys.__getitem__), dtype=np.int64)
    dated = []
    for stage, each in enumerate(values):
        some = order[first[order] <= stage]
        names = [keys[at] for at in some.tolist()]
        shown_now = each[np.newaxis, some]
        number = description.number or 0
        rows = FigureRows(DISCOVERED, stage, begin, ticks.stop, shown_now, names, number)
        dated.append((description.public_tick(stage, ticks.stop), rows))
    return dated


def is_full(keys: Sized) -> bool:
    """Whether a day has more hidden keys than a stream takes."""
    return len(keys) > MOST_HIDDEN_KEYS


def full() -> FullError:
    """The incident that stops a stream."""
    return FullError(
        f"hidden keys of one day must be at most {MOST_HIDDEN_KEYS:,}; the stream stops: find out"
        " who sends ever new keys, then go on with a new stream and a smaller sample"
    )


def hide(rows: SecretRows, series: int, block: int, counts: Counts) -> None:
    """Store hidden keys of a series in the open day."""
    rows.put("hidden", (series, block, packed(_numbers(counts)[np.newaxis], counts)))


def take_hidden(rows: SecretRows, series: int, before: int) -> dict[int, dict[str, int]]:
    """Take the hidden keys of a series in the days before a block, added up, and remove them."""
    taken: dict[int, dict[str, int]] = {}
    condition = "series = ? AND block < ?"
    for _, block, body in rows.take("hidden", condition, series, before):
        (numbers,), keys = unpacked(body)
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
