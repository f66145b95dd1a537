"""Random cases, and the loss of the worst item by trying all of them."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

import fadecount as fc


@dataclass(frozen=True, slots=True)
class Case:
    mechanism: fc.Designed
    age: int


def random_case(generator: np.random.Generator) -> Case:
    """Budgets of any size and order, some infinite; a small head start, delay and age, so that all
    items can be tried."""
    count = int(generator.integers(1, 10))
    kind = generator.integers(4)
    if kind == 0:
        budgets = generator.uniform(0.05, 2.0, count)
    elif kind == 1:
        budgets = generator.choice([0.25, 0.5, 1.0, 1.5, 3.0], count)
    elif kind == 2:
        budgets = 0.3 * np.cumprod(generator.choice([0.5, 1.0, 1.5, 2.0, 2.5, 4.0], count))
    else:
        budgets = np.exp(generator.uniform(-2.0, 2.0, count))
    budgets[1:][generator.random(count - 1) < 0.25] = math.inf
    delay, started = int(generator.choice([0, 0, 1, 5])), int(generator.integers(0, 7))
    age = int(generator.integers(int(generator.choice([4, 60, 200]))))
    return Case(fc.Designed(budgets=tuple(budgets.tolist()), delay=delay, head_start=started), age)


def brute_force(case: Case) -> float:
    """The largest loss over the items up to three levels above the age and the head start, where
    nothing new comes."""
    last = 1 << (max(case.mechanism.head_start, (case.age + 1).bit_length()) + 3)
    positions = np.arange(1, last - (1 << case.mechanism.head_start) + 1)
    return float(np.max(case.mechanism.loss(case.age, position=positions)))
