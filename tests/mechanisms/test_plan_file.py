"""Plan files: read as mechanisms, for the tick that they were made for."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import fadecount as fc
from fadecount.errors import ParameterError
from fadecount.mechanisms import read_mechanism, require_planned_tick

MECHANISM = fc.Gradual(epsilon=0.5, exponent=2.0)


@pytest.fixture
def plan(tmp_path: Path) -> str:
    document = {**json.loads(MECHANISM.to_json()), "plan": {"request": {"tick_seconds": 60.0}}}
    (tmp_path / "plan.json").write_text(json.dumps(document))
    return str(tmp_path / "plan.json")


def test_the_mechanism_of_a_plan(plan: str, tmp_path: Path) -> None:
    assert read_mechanism(plan) == MECHANISM
    assert read_mechanism(plan, tick_seconds=60) == MECHANISM
    (tmp_path / "plain.json").write_text(MECHANISM.to_json())
    assert read_mechanism(str(tmp_path / "plain.json"), tick_seconds=1) == MECHANISM


@pytest.mark.parametrize(("seconds", "words"), [(1, "1 second"), (61, "1 minute 1 second"), (3600, "1 hour")])
def test_another_tick_is_refused(plan: str, seconds: int, words: str) -> None:
    with pytest.raises(ParameterError, match=f"^tick must be 1 minute, for which the plan was made, got {words}; plan again"):
        read_mechanism(plan, tick_seconds=seconds)


@pytest.mark.parametrize("section", [None, 1, [], {}, {"request": 1}, {"request": {"tick_seconds": "60"}}, {"request": {}}])
def test_a_plan_without_a_tick_fits_every_one(section: object) -> None:
    require_planned_tick({"plan": section}, 1)


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "bytes").write_bytes(b"\xff")
    for name, reason in (("none", "No such file"), ("bytes", "not UTF-8 text"), ("", "Is a directory")):
        with pytest.raises(ParameterError, match=f"plan must be a readable JSON file.*{reason}"):
            read_mechanism(str(tmp_path / name))
