"""The loss of several contributions together, against scipy's linear program and against the loss
of one."""

from __future__ import annotations

import math
import random
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy.optimize import linprog

import fadecount as fc
from fadecount.errors import ParameterError
from fadecount.mechanisms.loss import loss_of_units
from tests.mechanisms.any_levels import AnyLevels
from tests.mechanisms.shift_program import delay_of, uses_of

TOLERANCE = 1e-7


def joint_by_program(mechanism: fc.Mechanism, positions: list[int], now: int) -> float:
    """min sum e |D| subject to: the shifts in use at step t add up to the number of contributions
    that t shows."""
    uses, delay = uses_of(mechanism), delay_of(mechanism)
    rows = [uses(t) for t in range(delay + 1, now + 1)]
    wanted = [
        float(sum(position + delay <= t for position in positions))
        for t in range(delay + 1, now + 1)
    ]
    if not any(wanted):
        return 0.0
    costs = {name: budget for row in rows for name, budget in row.items() if math.isfinite(budget)}
    if not costs:
        return math.inf
    column = {name: at for at, name in enumerate(costs)}
    matrix = np.zeros((len(rows), len(column)))
    for at, row in enumerate(rows):
        for name in row:
            if name in column:
                matrix[at, column[name]] = 1.0
    prices = np.array(list(costs.values()))
    answer = linprog(
        np.concatenate([prices, prices]),
        A_eq=np.hstack([matrix, -matrix]),
        b_eq=wanted,
        method="highs",
    )
    value: Any = answer.fun
    return math.inf if answer.status == 2 else float(value)


def random_mechanism(chance: random.Random, now: int) -> fc.Mechanism:
    kind = chance.choice(
        ["designed", "designed", "designed", "gradual", "linear", "binary", "refresh", "refresh"]
    )
    if kind == "designed":
        pick = [0.1, 0.25, 1.0, 3.0, math.inf, chance.uniform(0.01, 2.0)]
        budgets = [chance.choice(pick) for _ in range(chance.randint(1, 7))]
        return AnyLevels(budgets=budgets, delay=chance.choice([0, 0, 1, 5]))
    if kind == "gradual":
        exponent = chance.choice([0.0, 1.0, 2.0, 3.0])
        return fc.Gradual(epsilon=chance.uniform(0.1, 1.0), exponent=exponent)
    if kind == "linear":
        return fc.Linear(epsilon=0.5)
    if kind == "binary":
        return fc.Binary(epsilon=1.0, horizon=now + chance.randint(0, 10))
    return fc.Refresh(
        window=chance.randint(1, 12),
        epsilon_current=chance.uniform(0.1, 2.0),
        epsilon_past=chance.uniform(0.1, 2.0),
    )


@pytest.mark.no_cover
@pytest.mark.parametrize("seed", range(500))
def test_agrees_with_a_linear_program(seed: int) -> None:
    chance = random.Random(seed)
    now = chance.randint(1, 40)
    mechanism = random_mechanism(chance, now)
    positions = [chance.randint(1, now) for _ in range(chance.randint(1, 12))]
    expected = joint_by_program(mechanism, positions, now)
    assert mechanism.loss_of(positions, now) == pytest.approx(
        expected, rel=TOLERANCE, abs=TOLERANCE
    )


@pytest.mark.parametrize("seed", range(60))
def test_one_contribution_is_the_loss_at_its_position(seed: int) -> None:
    chance = random.Random(seed)
    mechanism = random_mechanism(chance, 1 << 20)
    position = chance.randint(1, 1 << chance.randint(1, 20))
    now = chance.randint(position, 1 << 20)
    assert mechanism.loss_of(position, now) == mechanism.loss(now - position, position=position)


@pytest.mark.no_cover
def test_very_many_contributions_far_apart() -> None:
    chance = random.Random(1)
    now = (1 << 60) - 1
    positions = [chance.randint(1, now) for _ in range(20_000)]
    mechanism = fc.Gradual(epsilon=0.1, exponent=1.5)
    expected = math.fsum(
        mechanism.loss(now - position, position=position) for position in positions[:200]
    )
    assert mechanism.loss_of(positions[:200], now) == pytest.approx(expected, rel=1e-15)
    assert mechanism.loss_of(positions, now) > mechanism.loss_of(positions[1:], now)


def test_contributions_still_hidden_cost_nothing() -> None:
    delayed = AnyLevels(budgets=(0.5,), delay=10)
    assert delayed.loss_of([1, 2, 3], now=10) == 0.0
    assert delayed.loss_of([1, 2, 30], now=11) == 0.5
    assert delayed.loss_of([], now=11) == 0.0


@pytest.mark.parametrize(
    ("positions", "now", "name"),
    [
        ([0], 5, "smallest positions"),
        ([1.5], 5, "positions"),
        ([1], 0, "now"),
        ([1], 1 << 60, "now"),
        ([9], 9, "positions"),
    ],
)
def test_senseless_questions_are_refused_in_one_line(positions: Any, now: int, name: str) -> None:
    with pytest.raises(ParameterError, match=f"^{name} must be") as refused:
        fc.Binary(epsilon=1.0, horizon=8).loss_of(positions, now)
    assert "\n" not in str(refused.value)


def test_sums_are_rounded_up_and_no_further() -> None:
    chance = random.Random(2)
    for _ in range(300):
        units = chance.getrandbits(chance.randint(1, 150))
        rounded = loss_of_units(units)
        exact = Fraction(units, 1 << 83)
        assert Fraction(math.nextafter(rounded, -1.0)) < exact <= Fraction(rounded)


def blocks_by_program(mechanism: fc.Blocks, positions: list[int], now: int) -> float:
    """min sum e |D| over the noises of all blocks, such that published figures stay as they
    are."""
    levels = mechanism.levels
    end = -(-now // levels[-1].length) * levels[-1].length
    blocks = [
        (number, start)
        for number, level in enumerate(levels)
        for start in range(0, end, level.length)
    ]
    column = {block: at for at, block in enumerate(blocks)}
    rows, wanted = [np.zeros(len(blocks))], [0.0]
    for number, start in blocks:
        level = levels[number]
        stop = start + level.length
        own = np.zeros(len(blocks))
        own[column[number, start]] = 1.0
        if stop + level.lag <= now:
            rows.append(own)
            wanted.append(float(sum(start < position <= stop for position in positions)))
    prices = np.tile([levels[number].epsilon for number, _ in blocks], 2)
    matrix = np.array(rows)
    answer = linprog(prices, A_eq=np.hstack([matrix, -matrix]), b_eq=wanted, method="highs")
    value: Any = answer.fun
    return float(value)


@pytest.mark.parametrize("seed", range(40))
def test_blocks_agree_with_a_linear_program(seed: int) -> None:
    chance = random.Random(seed)
    length, lag, levels = 1, chance.randint(0, 2), []
    for number in range(4):
        lag += chance.choice([0, 0, 1, 3]) if number else 0
        levels.append(fc.Level(length, chance.randint(1, 30) / 20, lag=lag))
        length *= chance.randint(2, 3)
    mechanism = fc.Blocks(*levels)
    for _ in range(5):
        now = chance.randint(1, 2 * levels[-1].length)
        positions = [chance.randint(1, now) for _ in range(chance.randint(1, 4))]
        program = blocks_by_program(mechanism, positions, now)
        assert mechanism.loss_of(positions, now=now) == pytest.approx(program, abs=TOLERANCE)
