"""Figures for people are rounded up, and the comparison is fair."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import fadecount as fc
from fadecount.service.fading_curve import FadingCurve, curve_ages, monthly_refresh, sentence
from fadecount.streams.forks import Fork, StreamLoss


def curve(mechanism: fc.Mechanism, sensitivity: int = 1) -> FadingCurve:
    return FadingCurve(stream=StreamLoss(mechanism=mechanism, sensitivity=sensitivity), tick_seconds=60)


@pytest.mark.parametrize("tick_seconds", [1, 60, 3600, 86400, 7 * 86400])
def test_the_comparison_has_the_same_error(tick_seconds: int) -> None:
    mechanism = fc.Gradual(epsilon=0.1, exponent=1.5)
    refresh = monthly_refresh(mechanism, tick_seconds)
    horizon = 31536000 // tick_seconds
    assert refresh.window == 2592000 // tick_seconds
    assert refresh.mse(horizon) == pytest.approx(mechanism.mse(horizon), rel=1e-6)


def test_the_curve_never_falls_and_holds_what_is_stated() -> None:
    fading = curve(fc.Gradual(epsilon=0.1, exponent=2.0))
    points = fading.curve()
    losses = [point.loss for point in points]
    assert losses == sorted(losses)
    ages = {point.age_seconds: point.loss for point in points}
    assert all(ages[each.age_seconds] == each.loss for each in fading.statements())
    assert set(curve_ages(60)) == set(ages)


def test_a_factor_multiplies_every_loss() -> None:
    plain = curve(fc.Gradual(epsilon=0.1, exponent=2.0))
    twice = curve(plain.mechanism, sensitivity=2)
    for one, two in zip(plain.curve(), twice.curve(), strict=True):
        assert 2 * one.loss <= two.loss <= 2 * one.loss * (1 + 1e-12)
    once, both = plain.refresh(), twice.refresh()
    assert once and both and both.points[0].loss >= 2 * once.points[0].loss


@given(
    st.lists(st.one_of(st.none(), st.integers(1, 300)), max_size=3), st.integers(1, 200), st.integers(0, 199), st.integers(1, 3)
)
def test_the_curve_covers_every_fork(ends: list[int | None], steps: int, age: int, sensitivity: int) -> None:
    """What the page says of an age is never less than what the store says of an event of that age."""
    mechanism, forks = fc.Gradual(epsilon=0.5, exponent=2.0), [Fork(last_step=end) for end in ends]
    stream = StreamLoss(mechanism=mechanism, sensitivity=sensitivity, forks=tuple(forks), steps=steps)
    for due in (None, steps, steps - 3, steps + 3):  # a clock that is right, behind the releases, and ahead of them
        late = 0 if due is None else due - steps
        assert FadingCurve(stream=stream, tick_seconds=60, due=due).loss(60 * age) >= stream.of_step(max(1, steps - age + late))


def test_without_a_refresh_to_compare_with_there_is_none() -> None:
    unreachable = FadingCurve(stream=StreamLoss(mechanism=fc.Gradual(epsilon=2.0**-30, exponent=1.0)), tick_seconds=1)
    assert unreachable.refresh() is None
    assert unreachable.curve()


def test_sentences() -> None:
    assert sentence("An event", 0.0) == "An event: nothing has been published about it yet."
    assert "at most 63 % sure" in sentence("An event", 0.5)
    assert "all but certain" in sentence("An event", 30.0)
