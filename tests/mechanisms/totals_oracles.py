"""Totals from tied blocks from their definition alone: the weights of all noises, and losses by a
linear program that scipy solves."""

from __future__ import annotations

import random
from collections import defaultdict
from fractions import Fraction

import numpy as np
from scipy.optimize import linprog

import fadecount as fc
from fadecount.errors import ParameterError

Noise = tuple[int, int, int]
"""A level, a stage, and the number of a block from 1."""
Levels = tuple[fc.Level, ...]


def random_totals(chance: random.Random, *, longest: int = 24, most_levels: int = 4) -> fc.Totals:
    """A small design: each level has the lag of the one before, or a later one."""
    while True:
        levels: list[fc.Level] = []
        length, lag = 1, chance.choice([0, 0, 0, 1, 3])
        for _ in range(chance.randint(1, most_levels)):
            if levels:
                length *= chance.choice([2, 2, 3, 4])
                lag = levels[-1].stages[-1].lag + chance.choice([0, 0, 0, 1, 4])
            stages = [(lag, chance.randint(1, 40) * 50_000)]
            for _ in range(chance.choice([0, 0, 0, 1, 2])):
                last, before = stages[-1]
                stages.append((last + chance.randint(1, 4), before + chance.randint(1, 9) * 50_000))
            levels.append(fc.Level.of_stages(length, stages))
        if length <= longest:
            try:
                return fc.Totals(*levels)
            except ParameterError:  # a later stage after the next level
                continue


def tied(levels: Levels, number: int) -> bool:
    """Whether a level is tied to the one below."""
    return number > 0 and levels[number].lag == levels[number - 1].lag


def weights(levels: Levels, step: int) -> dict[Noise, Fraction]:
    """The weight of every noise in the output of a step: the cover, and shares of bridges."""
    total: dict[Noise, Fraction] = defaultdict(Fraction)
    reached = 0
    for number in range(len(levels) - 1, -1, -1):
        level = levels[number]
        for stage in range(len(level.stages) - 1, -1, -1):
            while reached + level.length + level.stages[stage].lag <= step:
                reached += level.length
                total[number, stage, reached // level.length] += 1
    smallest = 0
    for number, level in enumerate(levels):
        smallest = smallest if tied(levels, number) else number
        finest = levels[smallest]
        covered = max(0, step - finest.lag) // finest.length * finest.length
        if number > smallest and covered % level.length:
            part, block = Fraction(covered % level.length, level.length), covered // level.length
            total[number, 0, block + 1] += part
            children = level.length // levels[number - 1].length
            for child in range(block * children + 1, (block + 1) * children + 1):
                total[number - 1, 0, child] -= part
    return {noise: weight for noise, weight in total.items() if weight}


def _in_use(levels: Levels, number: int, block: int, now: int) -> int | None:
    """The budget of the last stage of a block that is in use, in millionths, or None."""
    level = levels[number]
    out = [budget for lag, budget in level.stages if block * level.length + lag <= now]
    return out[-1] if out else None


def program_loss(levels: Levels, position: int, now: int) -> float:
    """The least cost of real shifts of noises that keep all figures and bridges, of which outputs
    are functions, in millionths."""
    budgets: dict[tuple[int, int], int] = {}
    rows: list[dict[tuple[int, int], int]] = []
    right: list[int] = []
    for number, level in enumerate(levels):
        for at in range(1, -(-now // level.length) + 1):
            budget = _in_use(levels, number, at, now)
            if budget is not None:
                holds = (at - 1) * level.length < position <= at * level.length
                budgets[number, at] = budget
                rows.append({(number, at): 1})
                right.append(-int(holds))
            if tied(levels, number):
                ratio = level.length // levels[number - 1].length
                bridge = {(number, at): 1}
                for child in range((at - 1) * ratio + 1, at * ratio + 1):
                    bridge[number - 1, child] = -1
                rows.append(bridge)
                right.append(0)
    for block in {block for row in rows for block in row}:
        budgets.setdefault(block, levels[block[0]].stages[0].millionths)
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
