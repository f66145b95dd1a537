"""Arguments without names, where a reader would write them; what is easily mixed up keeps its
name."""

from __future__ import annotations

from typing import Any

import pytest

import fadecount as fc


@pytest.mark.parametrize(
    ("short", "named"),
    [
        (fc.Gradual(0.1), fc.Gradual(epsilon=0.1)),
        (fc.Gradual(0.1, 2.0), fc.Gradual(epsilon=0.1, exponent=2.0)),
        (fc.Linear(0.4), fc.Linear(epsilon=0.4)),
        (fc.Binary(0.8, 1023), fc.Binary(epsilon=0.8, horizon=1023)),
        (fc.Refresh(7, 0.9, 0.2), fc.Refresh(window=7, epsilon_current=0.9, epsilon_past=0.2)),
    ],
    ids=repr,
)
def test_both_forms_make_the_same_mechanism(short: fc.Mechanism, named: fc.Mechanism) -> None:
    assert short == named
    assert short.to_json() == named.to_json()


@pytest.mark.parametrize(
    ("kind", "arguments"),
    [
        (fc.Gradual, (0.1, 2.0, 3)),
        (fc.Linear, (0.1, 1)),
    ],
)
def test_a_delay_needs_its_name(kind: Any, arguments: tuple[object, ...]) -> None:
    with pytest.raises(TypeError, match="positional argument"):
        kind(*arguments)
