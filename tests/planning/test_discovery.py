"""Plans in which keys appear by themselves: the stages keep every limit, exactly, and the plan file
carries them."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fadecount as fc
from fadecount.errors import ParameterError
from fadecount.mechanisms import PlanFile
from fadecount.planning import appearances, save_plan
from fadecount.planning.discovery import discovery_for
from fadecount.planning.request import read_request
from tests.planning.oracles import limit_at

LOSS = {"1h": 0.5, "30d": 2, "1y": 4}
DAY = fc.Unit(of="person", per="1d")


def arguments(**changes: Any) -> dict[str, Any]:
    good = {"loss": LOSS, "tick": "1m", "unit": DAY, "delta": 1e-9, "discover": "1d"}
    return {**good, **changes}


def test_stages_use_up_the_limits_and_say_what_a_key_needs() -> None:
    found = fc.plan(**arguments()).discovery
    assert found == fc.Discovery("1d", ((0, 0.5), (61, 2.0), (43_201, 4.0)), 1e-9)
    rows = [(each.lag, each.persons_50, each.persons_95, each.loss) for each in appearances(found)]
    assert rows == [(0, 43, 48, 0.5), (61, 12, 13, 2.0), (43_201, 7, 7, 4.0)]
    assert [each.threshold for each in appearances(found)] == [43, 12, 7]


@settings(max_examples=60)
@given(
    st.dictionaries(st.integers(0, 500), st.integers(1, 4000), min_size=1, max_size=5),
    st.integers(1, 7),
    st.sampled_from([1.0, 0.5, 0.3, 0.123456789]),
)
def test_every_limit_is_kept(targets: dict[int, int], keys: int, share: float) -> None:
    rising = sorted(loss / 1000 for loss in targets.values())
    loss = dict(zip(sorted(targets), rising, strict=True))
    person = fc.Unit(of="person", per="1d", keys=keys)
    request = read_request(
        loss=loss, horizon=600, tick="1h", unit=person, delta=1e-6, discover={"1d": share}
    )
    if rising[-1] * share / keys < 0.0011:
        return
    found = discovery_for(request)
    assert found is not None
    assert found.keys == keys
    left = dict(request.limits())
    for age in range(601):
        limit = Fraction(repr(limit_at(loss, age)))
        budget = Fraction(repr(max((e for lag, e in found.stages if lag <= age), default=0.0)))
        assert keys * budget <= Fraction(repr(share)) * limit
        if share < 1.0 and age in left:
            assert keys * budget + Fraction(repr(left[age])) <= limit * (1 + Fraction(1, 10**15))
    assert found.loss(600) >= share * rising[-1] - 1e-6 * keys - 1e-12


def test_losses_of_a_plan_are_the_larger_or_the_sum() -> None:
    alone = fc.plan(
        **arguments(unit=fc.Unit(of="person", per="1d", keys=2), tick="1h", loss={"1d": 1, "1y": 3})
    )
    assert {option.mechanism.kind for option in alone.options} == {"blocks"}
    half = fc.plan(**arguments(discover={"1d": 0.25}, tick="1h", loss={"1d": 1, "1y": 3}))
    for made, part in ((alone, 1.0), (half, 0.75)):
        curve = dict(made.best.curve)
        assert curve[24] <= 1.0
        assert 3.0 >= curve[8760] >= 2.99
        lost = made.mechanism.loss(8760) * made.request.unit.keys
        assert lost == pytest.approx(3.0 * part, abs=1e-4)
        assert made.published()[-1].loss == pytest.approx(3.0, abs=1e-4)
    assert half.discovery == fc.Discovery("1d", ((0, 0.25), (25, 0.75)), 1e-9)
    early = fc.plan(**arguments(loss={"1h": 0.5, "1y": 4}, delay="1h"))
    assert dict(early.options[-1].curve)[0] == 0.5  # of the discovery, while the total is late


def test_the_plan_file(tmp_path: Path) -> None:
    path, three = tmp_path / "plan.json", fc.Unit(of="person", per="1d", keys=3)
    made = fc.plan(**arguments(unit=three, tick="1h"))
    save_plan(path, made)
    plan = PlanFile.read(str(path))
    assert plan.mechanism_for(three, 3600) == made.mechanism
    assert plan.discovery == made.discovery
    written = json.loads(path.read_text())["plan"]
    assert [row["lag"] for row in written["appearances"]] == [0, 2, 721]
    save_plan(path, fc.plan(**arguments(discover=None, delta=None, tick="1h")), force=True)
    assert PlanFile.read(str(path)).discovery is None
    assert "appearances" not in json.loads(path.read_text())["plan"]
    month = fc.plan(**arguments(unit=fc.Unit(of="person", per="1mo"), discover="1mo", tick="1h"))
    save_plan(path, month, force=True)
    stages = ((0, 0.5), (2, 2.0), (721, 4.0))
    assert PlanFile.read(str(path)).discovery == fc.Discovery("1mo", stages, 1e-9)


def test_limits_that_are_too_small_for_a_look_are_left_out() -> None:
    found = fc.plan(**arguments(loss={"1h": 0.0005, "30d": 0.0005, "1y": 4})).discovery
    assert found == fc.Discovery("1d", ((43_201, 4.0),), 1e-9)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"discover": "1w"}, "discover must be 1d or 1mo, or such a length with a share, got '1w'"),
        ({"discover": 7}, "discover must be 1d or 1mo"),
        ({"discover": {"1d": 0.5, "1mo": 0.5}}, "discover must be 1d or 1mo"),
        ({"discover": {"1d": 0}}, "share of discover must be between 0.001 and 1, got 0"),
        ({"discover": {"1d": 1.5}}, "share of discover must be between 0.001 and 1"),
        ({"unit": fc.Unit()}, "unit must be limited per 1d where keys appear .* 'one event'; such"),
        ({"unit": fc.Unit(of="person", per="tick")}, "unit must be limited per 1d .*person's tick"),
        ({"discover": "1mo"}, "unit must be limited per 1mo .*person's day"),
        (
            {"unit": fc.Unit(of="person", per="1d", events=4)},
            "events and amount of the unit must be 1",
        ),
        (
            {"unit": fc.Unit(of="person", per="1d", amount=4)},
            "events and amount of the unit must be 1",
        ),
        ({"delta": None}, "delta must be given where keys appear by themselves"),
        ({"discover": None}, "delta must be given with discover only, got 1e-09; it is the chance"),
        ({"loss": None, "mean_error": 9, "horizon": "1y"}, "loss must be given where keys appear"),
        ({"tick": "7m"}, "tick must be a part of a day where keys appear"),
        ({"loss": {"1y": 0.0005}}, r"stages\[0\] epsilon must be at least 0.001"),
    ],
)
def test_what_is_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ParameterError, match=words) as refused:
        fc.plan(**arguments(**changes))
    assert "\n" not in str(refused.value)
