"""Checks that every mechanism passes. They find the mechanisms on their own; a new one needs an
example to run on."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pytest

import fadecount as fc
from tests.mechanisms.examples import ALL, BAD_FIELDS, EXAMPLES

AGES = np.unique(
    np.concatenate([np.arange(300), np.random.default_rng(3).integers(0, 10**18, 200)])
)
NO_WHOLE_NUMBERS: list[Any] = [
    -1,
    1.5,
    math.nan,
    True,
    "1",
    [None],
    1 << 60,
    10**5000,
    [0.5],
    [True],
    [[1], [1, 2]],
    [10**30],
]


def kinds() -> dict[str, type[fc.Mechanism]]:
    """Every class under Mechanism that has a kind of its own, however deep."""
    found: dict[str, type[fc.Mechanism]] = {}
    waiting: list[type[fc.Mechanism]] = fc.Mechanism.__subclasses__()
    while waiting:
        one = waiting.pop()
        waiting.extend(one.__subclasses__())
        # the others: test_blocks.py, test_totals.py and test_own_schedules.py
        if "kind" in vars(one) and one.kind not in ("blocks", "intervals", "totals"):
            found[one.kind] = one
    return found


def test_the_last_step() -> None:
    """Only a tree that was made for a horizon ends."""
    assert fc.Binary(epsilon=1.0, horizon=100).last_step == 100
    assert fc.Gradual(epsilon=1.0).last_step is None
    assert fc.Blocks(fc.Level(1, 1.0)).last_step is None


def test_every_kind_has_examples() -> None:
    for kind in kinds():
        assert EXAMPLES.get(kind), (
            f"add an example of {kind!r} to EXAMPLES in tests/mechanisms/examples.py"
        )
        assert all(one.kind == kind for one in EXAMPLES[kind])
    assert EXAMPLES.keys() == kinds().keys()
    names = {field.name for one in ALL for field in fields(one)}
    assert names <= BAD_FIELDS.keys(), (
        f"say in BAD_FIELDS what {names - BAD_FIELDS.keys()} must refuse"
    )


@pytest.mark.parametrize("mechanism", ALL, ids=repr)
class TestEveryMechanism:
    def test_loss_never_falls(self, mechanism: fc.Mechanism) -> None:
        assert np.all(np.diff(np.asarray(mechanism.loss(AGES))) >= 0)

    def test_no_position_loses_more_than_the_worst(self, mechanism: fc.Mechanism) -> None:
        last = getattr(mechanism, "horizon", 10**17)
        positions = np.random.default_rng(4).integers(1, last, AGES.size, endpoint=True)
        for places in (positions, np.minimum(positions, 40)):
            assert np.all(np.asarray(mechanism.loss(AGES, position=places)) <= mechanism.loss(AGES))

    def test_the_published_bound_is_not_below_the_loss(self, mechanism: fc.Mechanism) -> None:
        assert np.all(np.asarray(mechanism.loss(AGES)) <= mechanism.paper_loss(AGES))

    def test_json_brings_it_back(self, mechanism: fc.Mechanism) -> None:
        text = mechanism.to_json()
        assert "\n" not in text
        for form in (text, text.encode()):
            again = fc.Mechanism.from_json(form)
            assert again == mechanism
            assert type(again) is type(mechanism)
            assert hash(again) == hash(mechanism)
            assert again.to_json() == text

    def test_it_is_frozen_and_says_what_it_is(self, mechanism: fc.Mechanism) -> None:
        first = fields(mechanism)[0].name
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(mechanism, first, 1)
        assert not hasattr(mechanism, "__dict__")
        shown = ", ".join(
            f"{field.name}={getattr(mechanism, field.name)!r}"
            for field in fields(mechanism)
            if field.repr
        )
        assert repr(mechanism) == f"{type(mechanism).__name__}({shown})"
        assert mechanism != scaled(mechanism, 0.5)

    def test_bad_fields_are_named_in_one_line(self, mechanism: fc.Mechanism) -> None:
        for field in fields(mechanism):
            for value in BAD_FIELDS[field.name]:
                with pytest.raises(fc.errors.ParameterError) as refused:
                    dataclasses.replace(mechanism, **{field.name: value})  # type: ignore[type-var]
                assert one_line(refused.value), value
                assert field.name in str(refused.value), value

    def test_bad_ages_and_steps(self, mechanism: fc.Mechanism) -> None:
        for bad in NO_WHOLE_NUMBERS:
            refuse("age", mechanism.loss, bad)
            refuse("age", mechanism.paper_loss, bad)
            refuse("position", lambda bad=bad: mechanism.loss(1, position=bad))
            refuse("step", mechanism.variance, bad)
            refuse("step", mechanism.error_bound, bad, 0.1)
            refuse("horizon", mechanism.mse, bad)

    def test_zero_is_an_age_but_no_position_step_or_horizon(self, mechanism: fc.Mechanism) -> None:
        assert mechanism.loss(0) >= 0
        refuse("position", lambda: mechanism.loss(0, position=0))
        refuse("step", mechanism.variance, 0)
        refuse("step", mechanism.variance, [0, 1])
        refuse("step", mechanism.error_bound, 0, 0.1)
        refuse("horizon", mechanism.mse, 0)
        refuse("age", lambda: mechanism.loss([1, 2, 3], position=[1, 2]))

    def test_no_ages_have_no_losses(self, mechanism: fc.Mechanism) -> None:
        nothing = np.empty((0, 2), dtype=np.int64)
        assert (
            np.shape(mechanism.loss(nothing))
            == np.shape(mechanism.loss(nothing, position=nothing + 1))
            == (0, 2)
        )
        assert (
            np.shape(mechanism.paper_loss(nothing))
            == np.shape(mechanism.variance(nothing))
            == (0, 2)
        )

    def test_bad_beta(self, mechanism: fc.Mechanism) -> None:
        for bad in (0, 1, -0.1, 1.5, math.nan, math.inf, True, "0.1", None, 1e-300):
            refuse("beta", mechanism.error_bound, 1, bad)


def fields(mechanism: fc.Mechanism) -> tuple[dataclasses.Field[Any], ...]:
    assert dataclasses.is_dataclass(mechanism)
    return dataclasses.fields(mechanism)


def scaled(mechanism: fc.Mechanism, factor: float) -> fc.Mechanism:
    """The same mechanism with all its budgets multiplied."""
    changes = {
        field.name: tuple(factor * each for each in value)
        if isinstance(value, tuple)
        else factor * value
        for field in fields(mechanism)
        if field.name.startswith(("epsilon", "budgets"))
        and (value := getattr(mechanism, field.name))
    }
    assert changes, "say which fields are budgets"
    result: fc.Mechanism = dataclasses.replace(mechanism, **changes)  # type: ignore[type-var]
    return result


def refuse(name: str, call: Any, *arguments: Any) -> None:
    with pytest.raises(fc.errors.ParameterError, match=name) as refused:
        call(*arguments)
    assert one_line(refused.value)


def one_line(error: Exception) -> bool:
    return "\n" not in str(error) and len(str(error)) < 250 and "must" in str(error)
