"""Unusable inputs: one clear error that never shows the input, and a counter that goes on as if
nothing had happened."""

from __future__ import annotations

import decimal
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import fadecount as fc
from fadecount.counters import Counter
from tests.counters.scripted import ScriptedNoise

SECRET = 98765
MECHANISMS: list[fc.Mechanism] = [
    fc.Gradual(epsilon=0.5, exponent=2.0, delay=1),
    fc.Refresh(window=3, epsilon_current=0.5, epsilon_past=0.2),
]
NO_INTEGERS: list[Any] = [
    *(
        True,
        False,
        np.True_,
        None,
        "98765",
        b"98765",
        98765.0,
        98765.5,
        math.nan,
        math.inf,
        98765j,
        np.float32(98765.0),
    ),
    *(
        Fraction(98765, 2),
        decimal.Decimal(98765),
        {},
        {98765},
        {98765: 1},
        object(),
        np.datetime64("2024-01-01"),
        np.array("98765"),
    ),
    *(98765 * 2**62, -98765 * 2**62, 2**62 + 1, 2**64, 10**5000, np.uint64(2**63 + SECRET)),
]
NO_SCALARS: list[Any] = [[SECRET], [[SECRET]], [], np.array([SECRET]), [[SECRET], [1, 2]], range(3)]
NO_ROWS: list[Any] = [
    SECRET,
    [SECRET],
    [SECRET, 1, 2],
    [[SECRET, 1]],
    [],
    [[SECRET], 1],
    [[1], [SECRET, 2]],
    None,
]
NO_LISTS: list[Any] = [
    SECRET,
    [[SECRET]],
    [[SECRET], [1, 2]],
    [[], []],
    [1, [SECRET]],
    np.zeros((0, 2)),
    np.zeros((2, 2, 2)),
    None,
]
NO_TABLES: list[Any] = [
    SECRET,
    [SECRET, 1],
    [[SECRET]],
    [[SECRET, 1, 2]],
    [[SECRET, 1], [1]],
    np.zeros((0, 3)),
    [[[SECRET, 1]]],
]


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=repr)
def test_integers_one_by_one_and_in_lists(mechanism: fc.Mechanism) -> None:
    step = [*NO_INTEGERS, *NO_SCALARS]
    extend = [*NO_LISTS, *([1, bad] for bad in NO_INTEGERS), *([bad] for bad in NO_INTEGERS)]
    _unchanged(mechanism, None, step, extend, lambda: 3)


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=repr)
def test_rows_and_tables(mechanism: fc.Mechanism) -> None:
    step = [*NO_ROWS, *([1, bad] for bad in NO_INTEGERS), (bad for bad in (1, SECRET)), (True, 1)]
    extend = [
        *NO_TABLES,
        *([[2, 3], [1, bad]] for bad in NO_INTEGERS),
        [[SECRET, 1], (np.True_, 2)],
    ]
    _unchanged(mechanism, 2, step, extend, lambda: [4, 0])


def _unchanged(
    mechanism: fc.Mechanism,
    width: int | None,
    step: list[Any],
    extend: list[Any],
    good: Callable[[], Any],
) -> None:
    """Two counters on the same noise: one meets every bad input between its good ones, and both
    must agree to the end."""
    troubled, calm = (
        Counter._with_noise(mechanism, ScriptedNoise(), width=width) for _ in range(2)
    )
    assert np.array_equal(troubled.step(good()), calm.step(good()))
    for call, inputs in ((troubled.step, step), (troubled.extend, extend)):
        for bad in inputs:
            before = troubled.save()
            with pytest.raises(fc.errors.InputError) as refused:
                call(bad)
            text = _everything_shown(refused.value)
            assert str(refused.value).startswith("input must")
            assert "\n" not in text
            assert "8765" not in text
            assert troubled.save() == before
        assert np.array_equal(troubled.step(good()), calm.step(good()))
        assert np.array_equal(troubled.extend([good()] * 5), calm.extend([good()] * 5))


def _everything_shown(error: BaseException) -> str:
    """The messages of an error and of those that a traceback would show with it."""
    hidden = error.__cause__ is None and error.__suppress_context__
    before = error.__cause__ or (None if hidden else error.__context__)
    return str(error) + ("" if before is None else " " + _everything_shown(before))


def test_what_is_a_number_is_accepted() -> None:
    counter = Counter._with_noise(fc.Linear(epsilon=0.5), ScriptedNoise())
    numbers: list[Any] = [0, -3, 2**62, -(2**62), np.int8(5), np.uint64(7), np.array(4)]
    for good in numbers:
        counter.step(good)
    counter.extend(np.array([1, 2], dtype=np.uint8))
    counter.extend(np.array([1, 10], dtype=object))
    counter.extend(range(3))
    assert counter.extend([]).shape == (0,)
    assert counter.time == 14


def test_vector_outputs() -> None:
    quiet = Counter(fc.Linear(epsilon=2.0**14), shape=(2,))
    assert quiet.extend([]).shape == (0, 2)
    assert quiet.extend(np.zeros((0, 2))).shape == (0, 2)
    assert quiet.step([1, 2]).tolist() == [0, 0]
    row = np.array([5, 6])
    assert quiet.step(row).tolist() == [1, 2]
    row[:] = 100  # what was handed in is no longer the counter's
    assert quiet.extend([[0, 0], [0, 0]]).tolist() == [[6, 8], [6, 8]]
