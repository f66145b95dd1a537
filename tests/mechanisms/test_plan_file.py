"""Plan files: read as mechanisms, for the tick that they were made for."""

from __future__ import annotations

import dataclasses
import json
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

import fadecount as fc
from fadecount.errors import ParameterError
from fadecount.mechanisms import ONE_EVENT, PlanFile, Unit, require_planned_tick

MECHANISM = fc.Gradual(epsilon=0.5, exponent=2.0)
PLANNED = dataclasses.replace(MECHANISM, planned_tick_seconds=60)


@pytest.fixture
def plan(tmp_path: Path) -> str:
    document = {**json.loads(PLANNED.to_json()), "plan": {"request": {"tick_seconds": 1.0}}}
    (tmp_path / "plan.json").write_text(json.dumps(document))
    return str(tmp_path / "plan.json")


def test_the_mechanism_of_a_plan(plan: str, tmp_path: Path) -> None:
    assert PlanFile.read(plan).mechanism == MECHANISM
    assert PlanFile.read(plan).mechanism_for(ONE_EVENT, 60) == MECHANISM
    (tmp_path / "plain.json").write_text(MECHANISM.to_json())
    plain = PlanFile.read(str(tmp_path / "plain.json"))
    assert plain == PlanFile.of(plain) == PlanFile.of(MECHANISM) == PlanFile(MECHANISM)
    assert plain.mechanism_for(ONE_EVENT, 1) == MECHANISM
    with pytest.raises(ParameterError, match="mechanism must be a fadecount mechanism, got 'plan"):
        PlanFile.of("plan.json")


@pytest.mark.parametrize(
    ("seconds", "words"), [(1, "1 second"), (61, "1 minute 1 second"), (3600, "1 hour")]
)
def test_another_tick_is_refused(plan: str, seconds: int, words: str) -> None:
    with pytest.raises(
        ParameterError,
        match=f"tick must be 1 minute, for which the mechanism was planned, got {words}; plan",
    ):
        PlanFile.read(plan).mechanism_for(ONE_EVENT, seconds)


@pytest.mark.parametrize("wanted", [{"loss": {100: 1.0}}, {"mean_error": 9.0, "horizon": 99}])
def test_every_option_of_a_plan_carries_the_tick(wanted: dict[str, Any]) -> None:
    for option in fc.plan(**wanted, tick=60).options:
        again = fc.Mechanism.from_json(option.mechanism.to_json())
        assert (
            again.planned_tick_seconds
            == option.mechanism.for_sensitivity(3).planned_tick_seconds
            == 60.0
        )
        require_planned_tick(again, 60)
        with pytest.raises(ParameterError, match="tick must be 1 minute"):
            require_planned_tick(again, 61)


def test_a_mechanism_from_no_plan_fits_every_tick() -> None:
    for mechanism in (
        MECHANISM,
        fc.Linear(epsilon=0.5),
        fc.plan({100: 1.0}).best.mechanism,
    ):
        assert "planned_tick_seconds" not in mechanism.to_json()
        require_planned_tick(mechanism, 1)


def test_the_planned_tick_is_no_part_of_the_law() -> None:
    assert PLANNED == MECHANISM
    assert hash(PLANNED) == hash(MECHANISM)
    assert repr(PLANNED) == repr(MECHANISM)
    for bad in (-1, 0.5, "1m"):
        with pytest.raises(ParameterError, match="planned_tick_seconds must be an integer"):
            fc.Gradual(0.5, planned_tick_seconds=bad)  # type: ignore[arg-type]


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "bytes").write_bytes(b"\xff")
    for name, reason in (
        ("none", "No such file"),
        ("bytes", "not UTF-8 text"),
        ("", "Is a directory"),
    ):
        with pytest.raises(ParameterError, match=f"plan must be a readable JSON file.*{reason}"):
            PlanFile.read(str(tmp_path / name))


def with_plan(**request: Any) -> PlanFile:
    """A plan that was asked for something."""
    return PlanFile.from_json(
        json.dumps({**json.loads(MECHANISM.to_json()), "plan": {"request": request}})
    )


def test_only_a_plan_with_a_share_has_room_for_other() -> None:
    """Events that count twice need both parts. A discovery that no plan made promises nothing."""
    for plan in (PlanFile(MECHANISM), with_plan(), with_plan(discover=[]), with_plan(discover=1.0)):
        plan.require_room("other")
    for share in (0.5, 1.0):
        plan = with_plan(discover=["1d", share])
        plan.require_room(None)
        with nullcontext() if share < 1 else pytest.raises(ParameterError, match="all of its loss"):
            plan.require_room("other")


def test_what_a_plan_assumes_of_persons() -> None:
    person = Unit(of="person", per="1d", events=3)
    for unit, expected in (
        ({"of": "event"}, None),
        ({"amount": 5}, fc.Unit(amount=5)),
        ({"of": "person", "per": "1d"}, fc.Unit(of="person", per="1d")),
        ({"of": "person", "keys": 4}, fc.Unit(of="person", keys=4)),
        ([], None),
        ("nonsense", None),
    ):
        assert with_plan(unit=unit).unit == expected
    with pytest.raises(ParameterError, match="unit must be event or person, got 'cat'"):
        with_plan(unit={"of": "cat"})
    plan = with_plan(unit=person.to_json())
    assert plan.mechanism_for(person, 60) is plan.mechanism, "used as it is"
    assert plan.mechanism_for(Unit(of="person", per="1d"), 60) is plan.mechanism
    with pytest.raises(ParameterError, match="unit must be at most the plan's"):
        plan.mechanism_for(Unit(of="person", per="1d", events=4), 60)
    assert PlanFile(MECHANISM).mechanism_for(person, 60) == MECHANISM.for_sensitivity(3)


@pytest.mark.parametrize("text", ["{", "[1]", "{}", '{"plan": 7}'])
def test_text_that_holds_no_mechanism(text: str) -> None:
    with pytest.raises(ParameterError, match="mechanism JSON must"):
        PlanFile.from_json(text)


@pytest.mark.parametrize("plan", [7, None, [], {"request": []}, {"request": None}])
def test_sections_that_say_nothing(plan: object) -> None:
    text = json.dumps({**json.loads(MECHANISM.to_json()), "plan": plan})
    assert PlanFile.from_json(text) == PlanFile(MECHANISM)
