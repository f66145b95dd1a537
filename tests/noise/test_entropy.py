"""Unpredictable bytes that are not noise."""

from __future__ import annotations

from fadecount.noise.entropy import unpredictable


def test_names_are_as_long_as_asked_for_and_never_the_same() -> None:
    found = {unpredictable(16) for _ in range(1000)}
    assert len(found) == 1000
    assert {len(each) for each in found} == {16}
