"""Figures by the names of their noise equal those of the local library, however the ticks are cut
into ranges."""

from __future__ import annotations

import random
from itertools import pairwise

import numpy as np
import pytest

import fadecount as fc
from fadecount.calendar import Calendar, Ticks, level_calendar
from fadecount.counters import figures
from fadecount.counters.figures import FigureMaker, Rows
from fadecount.noise import KeyedNoise
from tests.mechanisms.edged_blocks import EdgedBlocks

KEYS = ["a", "b", "c"]
Found = dict[tuple[int, int, int], tuple[int, int, list[int]]]
"""(level, stage, end of the block) -> where it begins, when it is public, and its figures."""

STAGED = fc.Blocks(
    fc.Level(1, 0.5),
    fc.Level(2, 0.6),
    fc.Level(6, 0.7, later=((3, 1.5), (5, 2.5))),
    fc.Level(12, 0.4, lag=5),
    fc.Level(24, 0.8, lag=5, later=((30, 2.0),)),
)
HOURS = fc.Blocks(
    fc.Level(1, 0.5, lag=2),
    fc.Level(6, 0.5, lag=2),
    fc.Level(24, 0.6, lag=3, later=((24, 2.0),)),
    fc.Level(720, 0.7, lag=24),
)


def _noise(mechanism: fc.Blocks) -> KeyedNoise:
    text = mechanism.to_json()
    return KeyedNoise(b"s" * 32, epoch="e", stream="s", mechanism=text, keys=KEYS)


def _local(mechanism: fc.Blocks, calendar: Calendar, counts: Rows) -> Found:
    made = FigureMaker(mechanism, calendar, len(KEYS), _noise(mechanism)).close(counts)
    return {
        (each.level, each.stage, int(end)): (int(start), int(public), values.tolist())
        for each in made
        for start, end, public, values in zip(
            each.starts, each.ends, each.public, each.values, strict=True
        )
    }


def _by_name(mechanism: fc.Blocks, calendar: Calendar, counts: Rows, cuts: list[int]) -> Found:
    positions, keys = np.nonzero(counts)
    sparse = positions, keys, counts[positions, keys]
    rows: Found = {}
    for after, until in pairwise(cuts):
        wanted = figures.due_blocks(mechanism, calendar, after, until)
        for made in figures.keyed_figures(mechanism, calendar, wanted, sparse, _noise(mechanism)):
            for start, end, public, each in zip(*made[2:], strict=True):
                assert after < public <= until
                place = made.level, made.stage, int(end)
                assert place not in rows, "a figure is made once"
                rows[place] = int(start), int(public), each.tolist()
    return rows


@pytest.mark.parametrize("cells", [7, 1 << 17])
@pytest.mark.parametrize("kind", ["equal", "edges", "calendar", "cut"])
def test_figures_equal_those_of_the_local_library(
    kind: str, cells: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(figures, "CELLS", cells)
    steps, mechanism = 100, STAGED
    calendar = STAGED.calendar
    if kind == "edges":
        calendar = EdgedBlocks(
            [[*range(1, 200)], [*range(3, 200, 3)], [9, 21, 30, 99, 120], [30, 99, 120], [99, 120]]
        )
    elif kind in ("calendar", "cut"):  # over a change of clocks; a stream that begins at 05:00
        mechanism, ticks = HOURS, Ticks(tick_seconds=3600, zone="Europe/Vienna")
        first = ticks.at(1_774_652_400) + (5 if kind == "cut" else 0)
        steps = 24 * 32
        calendar = level_calendar(mechanism.lengths, ticks, first).reaching(steps)
    chance = random.Random(7)
    counts = np.array([[chance.choice((0, 0, 1, 5)) for _ in KEYS] for _ in range(steps)])
    local = {
        place: row for place, row in _local(mechanism, calendar, counts).items() if row[1] <= steps
    }
    for cuts in (
        [0, steps],
        [*range(steps + 1)],
        [0, *sorted(chance.sample(range(1, steps), 9)), steps],
    ):
        assert _by_name(mechanism, calendar, counts, cuts) == local
