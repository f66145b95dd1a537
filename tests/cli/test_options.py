"""Mechanisms as options of a command."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

import fadecount as fc
from fadecount.cli._options import add_mechanism_options, plan_from
from fadecount.errors import ParameterError


def parsed(line: str) -> fc.Mechanism:
    parser = argparse.ArgumentParser()
    add_mechanism_options(parser)
    return plan_from(parser.parse_args(line.split())).mechanism


@pytest.mark.parametrize(
    ("line", "mechanism"),
    [
        ("--epsilon 0.5", fc.Gradual(epsilon=0.5)),
        ("--epsilon 0.5 --exponent 2 --delay 3", fc.Gradual(epsilon=0.5, exponent=2.0, delay=3)),
    ],
)
def test_a_mechanism_spelt_out(line: str, mechanism: fc.Mechanism) -> None:
    assert parsed(line) == mechanism


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("", "--epsilon or --plan must be given"),
        ("--exponent 2", "--epsilon or --plan must be given"),
        ("--epsilon -1", "epsilon"),
        ("--plan /no/such/file.json", "plan"),
        ("--plan /no/such/file.json --epsilon 1", "--epsilon is no option of a plan"),
        ("--plan /no/such/file.json --delay 0", "--delay is no option of a plan"),
    ],
)
def test_what_is_missing_or_wrong_is_named(line: str, named: str) -> None:
    with pytest.raises(ParameterError, match=named) as refused:
        parsed(line)
    assert "\n" not in str(refused.value)


def test_a_plan_is_read_from_its_file(tmp_path: Path) -> None:
    for mechanism in (fc.Linear(epsilon=0.5), fc.Intervals.levels((0.5, 0.25))):
        path = tmp_path / "plan.json"
        path.write_text(mechanism.to_json(), encoding="utf-8")
        assert parsed(f"--plan {path}") == mechanism
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(ParameterError, match="plan must be a readable JSON file"):
        parsed(f"--plan {path}")
