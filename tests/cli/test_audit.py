"""fadecount audit: the table, the JSON, the picture, and the exit status."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import fadecount as fc
from fadecount.cli.main import main

QUICK = ["audit", "--epsilon", "1", "--samples", "20000", "--false-alarm", "1e-9", "--ages", "0,1"]


def test_a_true_claim_holds(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(QUICK) == 0
    text = capsys.readouterr().out
    rows = [line.split() for line in text.splitlines()[4:]]
    assert [(row[0], row[1], row[2], row[-1]) for row in rows] == [
        ("0", "1", "1.0000", "holds"),
        ("1", "1", "2.0000", "holds"),
    ]
    assert max(map(len, text.splitlines())) <= 80


def test_a_false_claim_ends_with_status_one(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    other = tmp_path / "running.json"
    other.write_text(fc.Gradual(epsilon=2.0).to_json(), encoding="utf-8")
    assert main([*QUICK, "--running", str(other)]) == 1
    assert "REFUTED" in capsys.readouterr().out
    assert main([*QUICK, "--running", str(other), "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["refuted"] is True
    assert found["findings"][0]["shown"] > found["findings"][0]["claimed"] == 1.0


def test_a_claim_of_nothing_is_shown_as_such(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    plan = tmp_path / "plan.json"
    plan.write_text(fc.Linear(epsilon=1.0).to_json())
    words = ["audit", "--plan", str(plan), "--samples", "2000", "--ages", "0"]
    assert main(words) == 0
    assert capsys.readouterr().out.splitlines()[-1].split()[-2:] == ["-", "holds"]


def test_ages_that_are_no_numbers_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["audit", "--epsilon", "1", "--ages", "one"]) == 1
    assert "--ages must be" in capsys.readouterr().err
