"""Figures for people are rounded up, and the comparison is fair."""

from __future__ import annotations

import pytest

import fadecount as fc
from fadecount.service.explain import Fading, curve_ages, monthly_refresh, sentence


@pytest.mark.parametrize("tick_seconds", [1, 60, 3600, 86400, 7 * 86400])
def test_the_comparison_has_the_same_error(tick_seconds: int) -> None:
    mechanism = fc.Gradual(epsilon=0.1, exponent=1.5)
    refresh = monthly_refresh(mechanism, tick_seconds)
    horizon = 31536000 // tick_seconds
    assert refresh.window == 2592000 // tick_seconds
    assert refresh.mse(horizon) == pytest.approx(mechanism.mse(horizon), rel=1e-6)


def test_the_curve_never_falls_and_holds_what_is_stated() -> None:
    fading = Fading(mechanism=fc.Gradual(epsilon=0.1, exponent=2.0), tick_seconds=60)
    curve = fading.curve()
    losses = [point["loss"] for point in curve]
    assert losses == sorted(losses)
    ages = {point["age_seconds"]: point["loss"] for point in curve}
    assert all(ages[each["age_seconds"]] == each["loss"] for each in fading.statements())
    assert set(curve_ages(60)) == set(ages)


def test_a_factor_multiplies_every_loss() -> None:
    plain = Fading(mechanism=fc.Gradual(epsilon=0.1, exponent=2.0), tick_seconds=60)
    twice = Fading(mechanism=plain.mechanism, tick_seconds=60, factor=2)
    for one, two in zip(plain.curve(), twice.curve(), strict=True):
        assert 2 * one["loss"] <= two["loss"] <= 2 * one["loss"] * (1 + 1e-12)
    once, both = plain.refresh(), twice.refresh()
    assert once and both and both["points"][0]["loss"] >= 2 * once["points"][0]["loss"]


def test_without_a_refresh_to_compare_with_there_is_none() -> None:
    unreachable = Fading(mechanism=fc.Gradual(epsilon=2.0**-30, exponent=1.0), tick_seconds=1)
    assert unreachable.refresh() is None
    assert unreachable.curve()


def test_sentences() -> None:
    assert sentence("An event", 0.0) == "An event: nothing has been published about it yet."
    assert "at most 63 % sure" in sentence("An event", 0.5)
    assert "all but certain" in sentence("An event", 30.0)
