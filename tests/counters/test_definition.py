"""A counter's outputs equal the definition, whatever mixture of step, extend, save and resume led
there."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import fadecount as fc
from fadecount.counters import Counter
from tests.counters.scripted import Name, ScriptedNoise, naive_outputs, names_in_use
from tests.mechanisms.any_levels import AnyLevels
from tests.mechanisms.examples import ALL

STEPS = 1000
DELAYED: list[fc.Mechanism] = [
    make
    for delay in (0, 1, 7)
    for make in (
        fc.Gradual(epsilon=0.3, exponent=2.0, delay=delay),
        AnyLevels(budgets=(0.3, np.inf, 0.2), delay=delay),
    )
]


@pytest.mark.no_cover
@pytest.mark.parametrize("mechanism", [*ALL, *DELAYED], ids=repr)
@pytest.mark.parametrize("width", [None, 2])
def test_outputs_equal_the_definition(mechanism: fc.Mechanism, width: int | None) -> None:
    generator = np.random.default_rng(1000 * (width or 0))
    inputs = generator.integers(-5, 9, (STEPS,) if width is None else (STEPS, width))
    runs = _Run(mechanism, width)
    while (left := STEPS - runs.time) > 0:
        runs.act(
            int(generator.integers(0, 4)),
            inputs[runs.time : runs.time + min(left, int(generator.integers(1, 90)))],
        )
    assert np.array_equal(np.asarray(runs.outputs), naive_outputs(mechanism, inputs, width))
    budgets = {
        name[0]: budget
        for step in range(1, STEPS + len(runs.counter._ahead) + 1)
        for name, budget in names_in_use(mechanism, step).items()
    }
    assert runs.source.scales == pytest.approx(
        {level: 1 / budget for level, budget in budgets.items()}, rel=1e-12
    )


@given(
    window=st.integers(1, 20),
    plan=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 45)), max_size=12),
    width=st.sampled_from([None, 1, 2]),
)
@settings(max_examples=150, derandomize=True)
def test_rounds_of_any_length_in_any_mixture(
    window: int, plan: list[tuple[int, int]], width: int | None
) -> None:
    mechanism = fc.Refresh(window=window, epsilon_current=0.9, epsilon_past=0.2)
    runs = _Run(mechanism, width)
    inputs = np.zeros((12 * 45,) if width is None else (12 * 45, width), dtype=np.int64)
    for action, count in plan:
        runs.act(action, inputs[:count])
    assert np.array_equal(
        np.asarray(runs.outputs).reshape(-1, width or 1),
        naive_outputs(mechanism, inputs[: runs.time], width).reshape(-1, width or 1),
    )


def test_draws_are_two_per_step_on_average() -> None:
    for act in (0, 1):
        runs = _Run(fc.Gradual(epsilon=0.3), None)
        runs.act(act, np.zeros(1 << 12, dtype=np.int64))
        assert runs.source.calls < 2 * ((1 << 12) + len(runs.counter._ahead)) + 2


class _Run:
    """A counter on scripted noise that is checked after each action to have asked for what its
    outputs use, those of the look-ahead included, and nothing else."""

    def __init__(self, mechanism: fc.Mechanism, width: int | None) -> None:
        self.mechanism, self.width, self.source = mechanism, width, ScriptedNoise()
        self.counter = Counter._with_noise(mechanism, self.source, width=width)
        self.outputs: list[Any] = []
        self.used: set[Name] = set()

    @property
    def time(self) -> int:
        return len(self.outputs)

    def act(self, action: int, inputs: NDArray[np.int64]) -> None:
        if action == 0:
            self._record([self.counter.step(each if self.width else int(each)) for each in inputs])
        elif action == 1:
            self._record(self.counter.extend(inputs))
        elif action == 2:
            self._record(self.counter.extend(inputs.tolist()))
        else:
            self.counter = Counter._resume_with_noise(self.counter.save(), self.source)
        assert self.counter.time == self.time

    def _record(self, outputs: Any) -> None:
        first = self.time + 1
        self.outputs.extend(outputs)
        for step in range(first, self.time + 1):
            self.used |= names_in_use(self.mechanism, step).keys()
        used = self.used
        ahead = len(self.counter._ahead)
        for step in range(self.time + 1, self.time + ahead + 1):
            used = used | names_in_use(self.mechanism, step).keys()
        assert {name for name, _ in self.source.asked} == used
        assert len(self.source.asked) == len(used) * (self.width or 1)
