"""Mechanisms as options of a command."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

import fadecount as fc
from fadecount.cli._options import KINDS, add_mechanism_options, mechanism_from
from fadecount.errors import ParameterError


def parsed(line: str) -> fc.Mechanism:
    parser = argparse.ArgumentParser()
    add_mechanism_options(parser)
    return mechanism_from(parser.parse_args(line.split()))


@pytest.mark.parametrize(
    ("line", "mechanism"),
    [
        ("--epsilon 0.5", fc.Gradual(epsilon=0.5)),
        ("--epsilon 0.5 --exponent 2 --delay 3", fc.Gradual(epsilon=0.5, exponent=2.0, delay=3)),
        ("--mechanism designed --budgets 0.5,0.25", fc.Designed(budgets=(0.5, 0.25))),
        ("--mechanism linear --epsilon 0.5", fc.Linear(epsilon=0.5)),
        ("--mechanism binary --epsilon 1 --steps 99", fc.Binary(epsilon=1.0, horizon=99)),
        (
            "--mechanism refresh --window 7 --epsilon-current 1 --epsilon-past 0.1",
            fc.Refresh(window=7, epsilon_current=1.0, epsilon_past=0.1),
        ),
        (
            "--mechanism designed --budgets 0.5,inf,0.25 --delay 1",
            fc.Designed(budgets=(0.5, float("inf"), 0.25), delay=1),
        ),
    ],
)
def test_a_mechanism_spelt_out(line: str, mechanism: fc.Mechanism) -> None:
    assert parsed(line) == mechanism


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("", "--epsilon"),
        ("--mechanism linear", "--epsilon"),
        ("--mechanism binary --epsilon 1", "--steps"),
        ("--mechanism refresh --window 7 --epsilon-current 1", "--epsilon-past"),
        ("--mechanism designed", "--budgets"),
        ("--mechanism designed --budgets 0.5,x", "--budgets"),
        ("--epsilon -1", "epsilon"),
        ("--plan /no/such/file.json", "plan"),
        ("--plan /no/such/file.json --epsilon 1", "--epsilon is no option of a plan"),
        ("--plan /no/such/file.json --mechanism linear", "--mechanism is no option of a plan"),
        ("--epsilon 1 --window 7", "--window is no option of gradual"),
        ("--mechanism linear --epsilon 1 --exponent 2", "--exponent is no option of linear"),
        (
            "--mechanism refresh --window 7 --epsilon-current 1 --epsilon-past 0.1 --delay 0",
            "--delay is no option of refresh",
        ),
    ],
)
def test_what_is_missing_or_wrong_is_named(line: str, named: str) -> None:
    with pytest.raises(ParameterError, match=named) as refused:
        parsed(line)
    assert "\n" not in str(refused.value)


def test_a_plan_is_read_from_its_file(tmp_path: Path) -> None:
    for mechanism in (fc.Linear(epsilon=0.5), fc.Designed(budgets=(0.5, float("inf")))):
        path = tmp_path / "plan.json"
        path.write_text(mechanism.to_json(), encoding="utf-8")
        assert parsed(f"--plan {path}") == mechanism
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(ParameterError, match="plan must be a readable JSON file"):
        parsed(f"--plan {path}")


def test_every_kind_can_be_given() -> None:
    assert set(KINDS) == {"gradual", "linear", "refresh", "binary", "designed", "gaussian"}
