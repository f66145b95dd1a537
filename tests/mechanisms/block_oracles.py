"""The exact loss of block counters from the definition alone, by a linear program that scipy
solves."""

from __future__ import annotations

import random
from collections.abc import Iterator
from fractions import Fraction

import numpy as np
from scipy.optimize import linprog

import fadecount as fc
from fadecount.errors import ParameterError

Block = tuple[int, int]
"""A level, and the number of a block from 1."""


def random_design(chance: random.Random, *, longest: int = 12, most_levels: int = 3) -> fc.Blocks:
    """A small design with lags, delays and stages."""
    while True:
        levels: list[fc.Level] = []
        length, lag = chance.choice([1, 1, 1, 2, 3]), chance.choice([0, 0, 0, 1, 3])
        for _ in range(chance.randint(1, most_levels)):
            budget = chance.randint(1, 40) * 50_000
            if levels:
                length *= chance.choice([2, 2, 3, 4])
                lag = levels[-1].stages[-1].lag + chance.choice([0, 0, 1, 4])
            stages = [(lag, budget)]
            for _ in range(chance.choice([0, 0, 0, 1, 2])):
                last, before = stages[-1]
                stages.append((last + chance.randint(1, 4), before + chance.randint(1, 9) * 50_000))
            levels.append(fc.Level.of_stages(length, stages))
        if length <= longest:
            try:
                return fc.Blocks(*levels)
            except ParameterError:  # a later stage after the next level
                continue


def pairs(mechanism: fc.Blocks) -> Iterator[tuple[int, int]]:
    """Every position in a block of the largest level, and every time until all is out."""
    top = mechanism.levels[-1]
    for position in range(1, top.length + 1):
        for now in range(position, position + top.length + top.stages[-1].lag + 2):
            yield position, now


def _published(mechanism: fc.Blocks, block: Block, now: int) -> int | None:
    """The budget of the last stage of a block that is out, in millionths, or None."""
    level = mechanism.levels[block[0]]
    out = [budget for lag, budget in level.stages if block[1] * level.length + lag <= now]
    return out[-1] if out else None


def shift_loss(mechanism: fc.Blocks, position: int, now: int) -> int:
    """What it costs, in millionths, to lower the noise of the latest public figure of every block
    that holds the position: then all records are equal."""
    blocks = [(number, -(-position // each.length)) for number, each in enumerate(mechanism.levels)]
    return sum(_published(mechanism, block, now) or 0 for block in blocks)


def program_loss(mechanism: fc.Blocks, position: int, now: int) -> float:
    """The least cost of real shifts of all noises that keep all records, in millionths."""
    budgets: dict[Block, int] = {}
    rows: list[dict[Block, int]] = []
    right: list[int] = []
    for number, level in enumerate(mechanism.levels):
        for at in range(1, -(-now // level.length) + 1):
            out = _published(mechanism, (number, at), now)
            if out is not None:
                holds = (at - 1) * level.length < position <= at * level.length
                budgets[number, at] = out
                rows.append({(number, at): 1})
                right.append(-int(holds))
    names = sorted(budgets)
    if not names:
        return 0.0
    matrix = np.zeros((len(rows), len(names)))
    for place, row in enumerate(rows):
        for block, factor in row.items():
            matrix[place, names.index(block)] = factor
    costs = np.array([budgets[name] for name in names], dtype=np.float64)
    solved = linprog(np.concatenate([costs, costs]), A_eq=np.hstack([matrix, -matrix]), b_eq=right)
    assert solved.status == 0
    return float(solved.fun or 0.0)


def chain_law(ratios: list[Fraction], reach: int) -> dict[tuple[int, ...], Fraction]:
    """The joint distribution of the noises of a chain on ``-reach .. reach``, the coarsest first,
    with rational ratios in place of exp(-budget)."""
    distribution: dict[tuple[int, ...], Fraction] = {
        (z,): (1 - ratios[-1]) / (1 + ratios[-1]) * ratios[-1] ** abs(z)
        for z in range(-reach, reach + 1)
    }
    for coarse, sharp in zip(ratios[-2::-1], ratios[:0:-1], strict=True):
        atom = sharp / coarse * ((1 - coarse) / (1 - sharp)) ** 2
        step = {
            m: (1 - atom) * (1 - coarse) / (1 + coarse) * coarse ** abs(m) + (atom if m == 0 else 0)
            for m in range(-reach, reach + 1)
        }
        distribution = {
            (noises[0] + m, *noises): chance * other
            for noises, chance in distribution.items()
            for m, other in step.items()
        }
    return distribution
