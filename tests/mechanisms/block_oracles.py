"""The exact loss of block counters from the definition alone: by the cheapest shift of noises that
keeps every record, found by search over trees, and by a linear program that scipy solves."""

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
    """A small design with lags, delays, stages and ties."""
    while True:
        levels: list[fc.Level] = []
        length, lag = chance.choice([1, 1, 1, 2, 3]), chance.choice([0, 0, 0, 1, 3])
        for _ in range(chance.randint(1, most_levels)):
            budget, tied = chance.randint(1, 40) * 50_000, False
            if levels:
                length *= chance.choice([2, 2, 3, 4])
                tied = len(levels[-1].stages) == 1 and chance.random() < 0.6
                if not tied:
                    lag = levels[-1].stages[-1].lag + chance.choice([0, 0, 1, 4])
            stages = [(lag, budget)]
            for _ in range(chance.choice([0, 0, 0, 1, 2])):
                last, before = stages[-1]
                stages.append((last + chance.randint(1, 4), before + chance.randint(1, 9) * 50_000))
            levels.append(fc.Level.of_stages(length, stages, tied=tied))
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


def tree_loss(mechanism: fc.Blocks, position: int, now: int) -> int:
    """The least cost of shifts by -1, 0 or 1 that keep all records, in millionths."""
    total = 0
    for group in mechanism.groups:
        top = group[-1]
        block = -(-position // mechanism.levels[top].length)
        costs = _costs(mechanism, group, (top, block), position, now)
        total += int(min(costs.values()))
    return total


def _costs(
    mechanism: fc.Blocks, group: range, block: Block, position: int, now: int
) -> dict[int, int]:
    """For each shift of a block's noise what it and the shifts below it cost at least."""
    number, at = block
    level = mechanism.levels[number]
    holds = (at - 1) * level.length < position <= at * level.length
    out = _published(mechanism, block, now)
    shifts = (-1, 0, 1) if out is None else (-int(holds),)
    budget = level.stages[0].millionths if out is None else out
    costs = {shift: abs(shift) * budget for shift in shifts}
    announced = number > group[0] and (at - 1) * level.length < now
    if not announced:
        return costs
    ratio = level.length // mechanism.levels[number - 1].length
    sums = {0: 0}
    for child in range((at - 1) * ratio + 1, at * ratio + 1):
        below = _costs(mechanism, group, (number - 1, child), position, now)
        merged: dict[int, int] = {}
        for total, cost in sums.items():
            for shift, more in below.items():
                place = total + shift
                if abs(place) <= 2:
                    merged[place] = min(merged.get(place, cost + more), cost + more)
        sums = merged
    return {shift: cost + sums[shift] for shift, cost in costs.items() if shift in sums}


def program_loss(mechanism: fc.Blocks, position: int, now: int) -> float:
    """The same by a linear program over real shifts of all noises that occur in a record."""
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
            if level.tied:
                ratio = level.length // mechanism.levels[number - 1].length
                tie = {(number, at): 1}
                for child in range((at - 1) * ratio + 1, at * ratio + 1):
                    tie[number - 1, child] = -1
                rows.append(tie)
                right.append(0)
    for block in {block for row in rows for block in row}:
        budgets.setdefault(block, mechanism.levels[block[0]].stages[0].millionths)
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
    """The joint law of the noises of a chain on ``-reach .. reach``, the coarsest first, with
    rational ratios in place of exp(-budget)."""
    law: dict[tuple[int, ...], Fraction] = {
        (z,): (1 - ratios[-1]) / (1 + ratios[-1]) * ratios[-1] ** abs(z)
        for z in range(-reach, reach + 1)
    }
    for coarse, sharp in zip(ratios[-2::-1], ratios[:0:-1], strict=True):
        atom = sharp / coarse * ((1 - coarse) / (1 - sharp)) ** 2
        step = {
            m: (1 - atom) * (1 - coarse) / (1 + coarse) * coarse ** abs(m) + (atom if m == 0 else 0)
            for m in range(-reach, reach + 1)
        }
        law = {
            (noises[0] + m, *noises): chance * other
            for noises, chance in law.items()
            for m, other in step.items()
        }
    return law
