"""Noise that is known beforehand: a source whose variables are a function of their names, and
outputs by the definition alone."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

import fadecount as fc
from fadecount.mechanisms import CARRY
from fadecount.noise import DiscreteLaplace
from tests.mechanisms.any_levels import AnyLevels

Name = tuple[int, int, int]


def scripted_value(name: Name, key: int) -> int:
    level, round_number, node = name
    return (
        level * 7919 + round_number * 104729 + node * 1299709 + key * 15485863 + 17
    ) * 2654435761 % 4001 - 2000


class ScriptedNoise:
    """Gives each variable the value of its name, and insists that each is asked for at most once,
    with one scale per level."""

    def __init__(self) -> None:
        self.asked: set[tuple[Name, int]] = set()
        self.scales: dict[int, float] = {}
        self.calls = 0

    def many(
        self, distribution: DiscreteLaplace, level: int, rounds: range, nodes: range, width: int
    ) -> NDArray[np.int64]:
        values = [
            self._give(distribution, (level, each, node), key)
            for each in rounds
            for node in nodes
            for key in range(width)
        ]
        array = np.array(values, dtype=np.int64).reshape(len(rounds), len(nodes), width)
        array.flags.writeable = False
        return array

    def _give(self, distribution: DiscreteLaplace, name: Name, key: int) -> int:
        assert (name, key) not in self.asked, f"{name} was drawn twice for key {key}"
        assert self.scales.setdefault(name[0], distribution.scale) == distribution.scale
        self.asked.add((name, key))
        self.calls += 1
        return scripted_value(name, key)


def names_in_use(mechanism: fc.Mechanism, step: int) -> dict[Name, float]:
    """The noise variables in the output of a step and their budgets, straight from the definition
    of each mechanism."""
    if isinstance(mechanism, fc.Linear):
        return {(0, 0, step - 1): mechanism.epsilon} if step > 1 else {}
    if isinstance(mechanism, fc.Gradual | AnyLevels):
        clock = max(step - mechanism.delay, 0)
        names: dict[Name, float] = {}
        for level in range(clock.bit_length()):
            if isinstance(mechanism, fc.Gradual):
                budget = mechanism.epsilon * (1.0 + level) ** (mechanism.exponent - 1.0)
            else:
                budget = mechanism.budgets[min(level, len(mechanism.budgets) - 1)]
            if np.isfinite(budget):
                names[level, 0, clock >> level] = budget
        return names
    if isinstance(mechanism, fc.Binary):
        return _tree(0, step, mechanism.epsilon / mechanism.horizon.bit_length())
    if isinstance(mechanism, fc.Intervals):
        numbered = enumerate(mechanism.intervals)
        return {(n, 0, 0): e for n, (first, last, e) in numbered if first <= step <= last}
    assert isinstance(mechanism, fc.Refresh), (
        f"say in names_in_use which variables {mechanism.kind} uses"
    )
    rounds, offset = divmod(step - 1, mechanism.window)
    names = _tree(rounds, offset + 1, mechanism.epsilon_current / mechanism.window.bit_length())
    return {**names, (CARRY, rounds, 0): mechanism.epsilon_past} if rounds else names


def _tree(round_number: int, clock: int, share: float) -> dict[Name, float]:
    """One node per set bit: the node of level l that ends where the lower bits are cleared."""
    return {
        (level, round_number, clock >> level): share
        for level in range(clock.bit_length())
        if clock >> level & 1
    }


def delay_of(mechanism: fc.Mechanism) -> int:
    return 1 if isinstance(mechanism, fc.Linear) else getattr(mechanism, "delay", 0)


def naive_outputs(
    mechanism: fc.Mechanism, inputs: ArrayLike, width: int | None
) -> NDArray[np.int64]:
    """The outputs by the definition: the inputs up to the delay, plus every variable in use; 0
    while the delay lasts."""
    delay, keys = delay_of(mechanism), range(1 if width is None else width)
    array = np.reshape(np.asarray(inputs, dtype=np.int64), (-1, len(keys)))
    outputs = np.zeros_like(array)
    for step in range(delay + 1, len(array) + 1):
        names = names_in_use(mechanism, step)
        noise = [sum(scripted_value(name, key) for name in names) for key in keys]
        outputs[step - 1] = array[: step - delay].sum(axis=0) + noise
    return outputs[:, 0] if width is None else outputs
