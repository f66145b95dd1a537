"""Long inputs are worked off in blocks: the same outputs, and nothing changes when a block
fails."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

import fadecount as fc
from fadecount.counters import Counter, paths
from fadecount.noise import DiscreteLaplace
from tests.counters.scripted import ScriptedNoise, naive_outputs
from tests.mechanisms.any_levels import AnyLevels

MECHANISMS = [
    fc.Gradual(epsilon=0.3, exponent=2.0),
    AnyLevels(budgets=(0.3, np.inf, 0.2), delay=3),
    fc.Linear(epsilon=0.4),
    fc.Binary(epsilon=1.0, horizon=700),
    fc.Refresh(window=5, epsilon_current=0.9, epsilon_past=0.2),
    fc.Refresh(window=200, epsilon_current=0.9, epsilon_past=0.2),
]


class FailingNoise(ScriptedNoise):
    """Scripted noise that breaks once, when ``left`` calls are over."""

    left = -1

    def many(
        self, distribution: DiscreteLaplace, level: int, rounds: range, nodes: range, width: int
    ) -> NDArray[np.int64]:
        self.left -= 1
        if self.left == 0:
            self.asked.clear()
            raise OSError("no entropy")
        return super().many(distribution, level, rounds, nodes, width)


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=repr)
@pytest.mark.parametrize(
    ("width", "block"), [(None, 1), (None, 7), (None, 64), (None, 100), (3, 64), (5, 4)]
)
def test_blocks_of_any_size_give_the_definition(
    mechanism: fc.Mechanism, width: int | None, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paths, "_BLOCK", block)
    inputs = np.random.default_rng(block).integers(-5, 9, (700,) if width is None else (700, width))
    counter = Counter._with_noise(mechanism, ScriptedNoise(), width=width)
    outputs = np.concatenate([counter.extend(inputs[:333]), counter.extend(inputs[333:])])
    assert np.array_equal(outputs, naive_outputs(mechanism, inputs, width))


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=repr)
def test_a_block_that_fails_changes_nothing(
    mechanism: fc.Mechanism, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paths, "_BLOCK", 16)
    inputs = np.random.default_rng(5).integers(-5, 9, (100, 2))
    source = FailingNoise()
    counter = Counter._with_noise(mechanism, source, width=2)
    counter.extend(inputs[:10])
    before = counter.save()
    source.left = 4
    with pytest.raises(OSError, match="no entropy"):
        counter.extend(inputs[10:])
    assert counter.save() == before
    assert np.array_equal(counter.extend(inputs[10:]), naive_outputs(mechanism, inputs, 2)[10:])


def test_wide_rows_are_summed_like_narrow_ones() -> None:
    inputs = np.random.default_rng(6).integers(-5, 9, (5, 1500))
    mechanism = fc.Gradual(epsilon=0.5)
    counter = Counter._with_noise(mechanism, ScriptedNoise(), width=1500)
    outputs = np.concatenate([counter.extend(inputs[:2]), counter.extend(inputs[2:])])
    assert np.array_equal(outputs, naive_outputs(mechanism, inputs, 1500))
