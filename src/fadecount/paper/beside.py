"""Block counters beside the paper's algorithm, all with the same mean squared error.

For each exponent of Table 1 two block counters: one that keeps the shape of the paper's exact loss
at every age, and one that keeps it from age ``LATER`` on. The planner finds levels and budgets with
the least error under that curve. Then all budgets are multiplied by one factor, so that the error
is that of the table. A factor below 1 means that blocks lose less, one above 1 that the paper's
algorithm does.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial

import numpy as np

import fadecount as fc
from fadecount.paper.figures import Losses, losses_of
from fadecount.paper.report import Section
from fadecount.paper.table import LONG, MSE, SHORT, TableRow, rows
from fadecount.planning.blocks import BlockRequest, blocks_for, plain_lengths
from fadecount.planning.request import read_request
from fadecount.plots import Curve, spread_ages
from fadecount.rounding import rounded_up, short_loss

LATER = 10
_EVERY_AGE = 12
_PARTS = 1.125, 1.5
"""Where in an octave of ages a lag may be, so that the search takes seconds."""
_LAGS = 64
_PLANNED = 4.0
"""The loss at the end of the curve that is planned for. The planner's noise is discrete, the
table's is continuous: under larger budgets they would differ, and other levels would be best."""


@lru_cache(maxsize=16)
def blocks_like(row: TableRow, first: int) -> tuple[fc.Blocks, float]:
    """The block counter with the error of the table whose loss is, from age ``first`` on, at most
    the returned factor times the exact loss of the row's mechanism."""
    losses = np.asarray(row.computed.loss(np.arange(row.horizon)))
    starts = _starts(losses, first, row.horizon)
    ends = [*(start - 1 for start in starts[1:]), row.horizon - 1]
    scale = _PLANNED / float(losses[-1])
    # Up to the end of a stretch no more is lost than the curve allows at its start.
    targets = {end: scale * float(losses[start]) for start, end in zip(starts, ends, strict=True)}
    block_request = BlockRequest(
        lengths=tuple(plain_lengths(row.horizon)), ties=first > 0, most_lags=(_LAGS, _LAGS)
    )
    shape = blocks_for(read_request(loss=targets, horizon=row.horizon), block_request)
    assert shape is not None
    blocks = shape.for_mse(MSE, horizon=row.horizon, continuous=True)
    factor = max(
        stage.millionths / before.millionths
        for level, old in zip(blocks.levels, shape.levels, strict=True)
        for stage, before in zip(level.stages, old.stages, strict=True)
    )
    return blocks, scale * factor


def _starts(losses: Losses, first: int, horizon: int) -> list[int]:
    """The ages from ``first`` on at which more may be published: every early one at which the loss
    rises, then a few in each octave."""
    octaves = range(_EVERY_AGE.bit_length(), horizon.bit_length())
    ages = [int(part * 2**octave) - 1 for octave in octaves for part in _PARTS]
    wanted = np.array([*range(first, _EVERY_AGE), *(age for age in ages if age < horizon)])
    rises = np.searchsorted(losses, losses[wanted] * (1.0 - 1e-12))
    return sorted({max(first, rise) for rise in rises.tolist()})


def _beside(name: str, horizon: int, steps: str) -> Section:
    """For each exponent the paper's exact loss and theorem, and both block counters."""
    used = rows(horizon, fading=True)
    designs = {(row, first): blocks_like(row, first) for row in used for first in (0, LATER)}
    levels = [level for blocks, _ in designs.values() for level in blocks.levels]
    lags = np.array([stage.lag for level in levels for stage in level.stages])
    shown = sorted({0, 1, 3, LATER, 100, SHORT - 1, horizon - 1})
    jumps = np.concatenate([lags - 1, lags, shown])
    ages = np.union1d(spread_ages(horizon), jumps[(jumps >= 0) & (jumps < horizon)])
    curves = [
        Curve(label=f"{row.short}, {what}", ages=ages, losses=losses, kind=kind, group=group)
        for group, row in enumerate(used)
        for what, kind, losses in (
            ("exact", "exact", losses_of(row, "exact", ages)),
            ("theorem", "bound", losses_of(row, "theorem", ages)),
            ("blocks", "paper", np.asarray(designs[row, 0][0].loss(ages))),
            (f"blocks, age {LATER}+", "baseline", np.asarray(designs[row, LATER][0].loss(ages))),
        )
    ]
    early, late = (
        ", ".join(f"{rounded_up(designs[row, first][1], 3)} ({row.short})" for row in used)
        for first in (0, LATER)
    )
    places = np.searchsorted(ages, shown)
    numbers = [[curve.label, *map(short_loss, curve.losses[places].tolist())] for curve in curves]
    return Section(
        name=name,
        heading=f"Beside block counters: Algorithm 3 and blocks with the same error, {steps} steps",
        text=[
            f"""Block counters that keep the shape of the paper's exact loss at every age lose at
            most so many times as much: {early}. Where this is above 1, the paper's algorithm is the
            better one: a curve that is tightest at the first ages suits it. Block counters that
            keep the shape only from age {LATER} on lose from then on at most {late} times as much,
            and before it as much as at age {LATER}: more than the paper's algorithm at the first
            ages.""",
            "The same losses at a few ages, rounded up.",
        ],
        table=[["", *(f"age {age:,}" for age in shown)], *numbers],
        parameters=(
            f"T = {horizon:,}, mean squared error {MSE:g} over the first T outputs, continuous"
            " noise."
        ),
        curves=curves,
        logarithmic=True,
    )


BESIDE: dict[str, Callable[[], Section]] = {
    name: partial(_beside, name, horizon, steps)
    for name, horizon, steps in (
        ("blocks_thousand", SHORT, "a thousand"),
        ("blocks_million", LONG, "a million"),
    )
}
