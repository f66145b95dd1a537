"""The rule for several histories against an oracle: scipy's linear program.

Histories share the noise variables drawn before they parted. An event that is in the shared part is
the same in all of them; one that arrived later may be counted in different steps. The rule takes
the earliest of these steps.
"""

from __future__ import annotations

import math
import random
from collections.abc import Hashable
from dataclasses import dataclass

import numpy as np
import pytest
from scipy.optimize import linprog

import fadecount as fc
from fadecount.streams.loss import StreamLoss
from tests.mechanisms.any_levels import AnyLevels
from tests.mechanisms.shift_program import NEVER, delay_of, uses_of

MOST = 24
"""Steps of the longest history."""


@dataclass(frozen=True)
class History:
    """It parted from the history ``parent`` after step ``parted``, was published up to ``end``, and
    has the event in ``step``."""

    parent: int
    parted: int
    end: int
    step: int


def owner(histories: list[History], number: int, drawn: int) -> int:
    """The history in which a variable of another one was drawn at that step."""
    while drawn <= histories[number].parted:
        number = histories[number].parent
    return number


def random_histories(chance: random.Random) -> list[History]:
    """Two to four. An event in a shared step is in that step everywhere; another one is in the same
    step or in different ones, of which some were never published."""
    found = [History(parent=0, parted=0, end=chance.randint(1, MOST), step=chance.randint(1, MOST))]
    for _ in range(chance.randint(1, 3)):
        parent = chance.randrange(len(found))
        before = found[parent]
        parted = chance.randint(0, before.end)
        step = before.step
        if step > parted and chance.random() < 0.6:
            step = chance.randint(parted + 1, MOST + 1)
        found.append(
            History(
                parent=parent, parted=parted, end=chance.randint(max(1, parted), MOST), step=step
            )
        )
    return found


def exact_loss(mechanism: fc.Mechanism, histories: list[History]) -> float:
    """min sum e |D| subject to: in each history, the shifts in use at step t add up to [t shows the
    event]."""
    uses, delay = uses_of(mechanism), delay_of(mechanism)
    drawn: dict[Hashable, int] = {}
    for step in range(1, 1 + max(each.end for each in histories)):
        for name in uses(step):
            drawn.setdefault(name, step)
    columns: dict[Hashable, int] = {}
    costs: list[float] = []
    rows: list[list[int]] = []
    wanted: list[float] = []
    for number, each in enumerate(histories):
        for step in range(delay + 1, each.end + 1):
            row = []
            for name, budget in uses(step).items():
                variable = owner(histories, number, drawn[name]), name
                if variable not in columns:
                    columns[variable] = len(costs)
                    costs.append(min(budget, NEVER))
                row.append(columns[variable])
            rows.append(row)
            wanted.append(float(step >= each.step + delay))
    if not any(wanted):
        return 0.0
    matrix = np.zeros((len(rows), len(costs)))
    for at, row in enumerate(rows):
        matrix[at, row] = 1.0
    solved = linprog(
        np.tile(costs, 2), A_eq=np.hstack([matrix, -matrix]), b_eq=wanted, method="highs"
    )
    assert solved.status == 0, solved.message
    value = float(solved.fun or 0.0)
    return value if value < NEVER / 2 else math.inf


def random_mechanism(chance: random.Random) -> fc.Mechanism:
    kind, delay = (
        chance.choice(["designed", "designed", "gradual", "linear", "binary", "refresh"]),
        chance.choice([0, 0, 1, 3]),
    )
    if kind == "designed":
        budgets = [
            chance.choice([0.125, 0.5, 2.0, math.inf, chance.uniform(0.05, 2.0)])
            for _ in range(chance.randint(1, 5))
        ]
        return AnyLevels(budgets=budgets, delay=delay)
    if kind == "gradual":
        return fc.Gradual(
            epsilon=chance.uniform(0.1, 1.0), exponent=chance.choice([0.0, 1.0, 2.0]), delay=delay
        )
    if kind == "linear":
        return fc.Linear(epsilon=0.5)
    if kind == "binary":
        return fc.Binary(epsilon=1.0, horizon=MOST)
    return fc.Refresh(
        window=chance.randint(1, 9),
        epsilon_current=chance.uniform(0.1, 2.0),
        epsilon_past=chance.uniform(0.1, 2.0),
    )


def stated(mechanism: fc.Mechanism, histories: list[History], step: int) -> tuple[float, float]:
    """By the step, and by the age at the end of this history, which is the last one in the list."""
    *others, this = histories
    loss = StreamLoss(
        mechanism=mechanism,
        forks=tuple(each.end for each in others),
        steps=this.end,
    )
    age = this.end - step
    return loss.of_step(step).epsilon, loss.at_age(age).epsilon if age >= 0 else math.inf


@pytest.mark.parametrize("seed", range(600))
def test_the_rule_covers_the_exact_loss_of_all_histories(seed: int) -> None:
    chance = random.Random(seed)
    mechanism, histories = random_mechanism(chance), random_histories(chance)
    exact = exact_loss(mechanism, histories)
    earliest = min(each.step for each in histories)
    for bound in stated(mechanism, histories, earliest):
        assert exact <= bound + 1e-6


def test_one_history_or_a_later_step_would_state_too_little() -> None:
    """The cases above need the rule: the loss in one history, and that from a later step on, are
    often below the exact one."""
    alone = later = 0
    for seed in range(150):
        chance = random.Random(seed)
        mechanism, histories = random_mechanism(chance), random_histories(chance)
        exact = exact_loss(mechanism, histories)
        steps, end = [each.step for each in histories], max(each.end for each in histories)
        alone += exact > mechanism.loss(max(0, end - min(steps))) + 1e-6
        later += exact > stated(mechanism, histories, max(steps))[0] + 1e-6
    assert alone > 20 and later > 20
