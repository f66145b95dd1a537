"""fadecount curve: the table, the JSON, the picture, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import fadecount as fc
from fadecount.cli.main import main

FADING = ["curve", "--epsilon", "0.1"]


def said(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(list(words)) == 0
    return capsys.readouterr().out


def test_the_table_shows_human_time_and_fits_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    text = said(capsys, *FADING, "--tick", "1m")
    lines = [line.split() for line in text.splitlines()]
    assert ["1,440", "1", "day", "1.1000"] in lines
    assert ["525,600", "1", "year", "2.0000"] in lines
    assert max(map(len, text.splitlines())) <= 80


def test_the_table_says_whose_loss_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "\nloss: privacy loss (ε) of one event\n" in said(capsys, *FADING)
    saved = str(tmp_path / "plan.json")
    words = ["plan", "--tick", "1h", "--loss", "30d=4", "--per-person", "4/day", "--save", saved]
    said(capsys, *words)
    text = said(capsys, "curve", "--plan", saved, "--tick", "1h")
    assert "(ε) of one event; the plan's unit is larger: see streams curve\n" in text


def test_without_a_tick_ages_are_powers_of_ten(capsys: pytest.CaptureFixture[str]) -> None:
    lines = [line.split() for line in said(capsys, *FADING).splitlines()]
    assert ["1,000", "1.0000"] in lines
    assert lines[-1][0] == "1,000,000"


def test_json_holds_the_exact_figures(capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(
        said(capsys, *FADING, "--exponent", "2", "--until", "1d", "--tick", "1h", "--json")
    )
    mechanism = fc.Gradual(epsilon=0.1, exponent=2.0)
    assert fc.Mechanism.from_json(json.dumps(found["mechanism"])) == mechanism
    assert [(one["age"], one["seconds"], one["loss"]) for one in found["losses"]] == [
        (age, age * 3600, mechanism.loss(age)) for age in (0, 1, 24)
    ]


@pytest.mark.parametrize(
    "mechanism",
    [
        fc.Linear(epsilon=1.0),
        fc.Binary(epsilon=1.0, horizon=1000),
        fc.Refresh(window=7, epsilon_current=1.0, epsilon_past=0.1),
        fc.Totals(fc.Level(1, 0.5), fc.Level(60, 0.5)),
        fc.Blocks(fc.Level(1, 0.5), fc.Level(60, 0.5, lag=61)),
    ],
)
def test_every_mechanism_has_a_curve_and_a_picture(
    mechanism: fc.Mechanism, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    picture, plan = tmp_path / "curve.svg", tmp_path / "plan.json"
    plan.write_text(mechanism.to_json())
    words = ("--plan", str(plan), "--plot", str(picture))
    assert "age (steps)" in said(capsys, "curve", *words)
    assert b"<svg" in picture.read_bytes()


def test_a_block_counter_shows_the_steps_and_what_causes_each(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = tmp_path / "plan.json"
    days = fc.Level(1440, 0.91, lag=61, later=((43201, 2.9),))
    blocks = fc.Blocks(fc.Level(1, 0.5), fc.Level(60, 0.59, lag=61), days)
    plan.write_text(blocks.to_json())
    words = ("curve", "--plan", str(plan), "--tick", "1m")
    text = said(capsys, *words)
    assert "figures per 1h, 1d (provisional)" in text and "figures per 1d (final)" in text
    assert "paper" not in text and max(map(len, text.splitlines())) <= 88
    found = json.loads(said(capsys, *words, "--json"))["losses"]
    assert [(row["age"], row["loss"]) for row in found] == [
        (age, blocks.loss(age)) for age in (0, 61, 43201)
    ]
    assert [row["cause"] for row in found] == [cause for _, cause in blocks.loss_steps(60)]
    late = fc.Blocks(fc.Level(1, 0.5, lag=100))
    plan.write_text(late.to_json())
    assert said(capsys, *words, "--until", "1h").splitlines()[-1].split() == [
        "0",
        "at",
        "once",
        "0.0000",
    ]


def test_a_plan_file_is_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "plan.json").write_text(fc.Linear(epsilon=0.5).to_json())
    assert "Linear(epsilon=0.5)" in said(capsys, "curve", "--plan", str(tmp_path / "plan.json"))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["--epsilon", "0.1", "--until", "1d"],
            "--until must be a number of steps, got '1d'; give --tick",
        ),
        (
            ["--epsilon", "0.1", "--tick", "1d", "--until", "1h"],
            "--until must be from 1 to 2**60 - 1 steps, got '1h'",
        ),
        (["--epsilon", "0.1", "--tick", "soon"], "--tick must be a positive duration, got 'soon'"),
        (["--epsilon", "0.1", "--until", str(2**60)], "--until must be from 0"),
        (["--epsilon", "-1"], "epsilon must be between"),
        ([], "--epsilon or --plan must be given"),
        (
            ["--epsilon", "0.1", "--plot", "picture.gif"],
            "plot must be a file that ends with .png, .svg, .pdf",
        ),
    ],
)
def test_bad_input_is_one_line(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["curve", *words]) == 1
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_a_plan_holds_for_its_tick_only(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = str(tmp_path / "plan.json")
    made = ["plan", "--tick", "1h", "--horizon", "1y", "--loss", "1d=0.5", "--save", plan]
    assert main([*made, "--option", "4"]) == 0  # a gradual one: streams take running totals
    (tmp_path / "visits.csv").write_text("time\n2026-01-01T00:00:00Z\n")
    run = [
        "run",
        str(tmp_path / "visits.csv"),
        "--time",
        "time",
        "--state",
        str(tmp_path / "state"),
        "--start",
        "2026-01-01",
    ]
    for words in (["curve"], ["compare", "--window", "1d"], run):
        capsys.readouterr()
        assert main([*words, "--plan", plan, "--tick", "1m"]) == 1
        assert capsys.readouterr().err.startswith(
            "fadecount: --tick must be 1 hour, for which the mechanism was planned, got 1 minute;"
        )
        assert main([*words, "--plan", plan, "--tick", "1h"]) == 0


def test_keys_that_appear_by_themselves(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    days = fc.Discovery("1d", ((0, 0.25), (61, 1.0)), 1e-9, 2)
    document = {**json.loads(fc.Gradual(0.5).to_json()), "discovery": json.loads(days.to_json())}
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps(document))
    for tick, lag in ([], "61 steps"), (["--tick", "1m"], "1 hour 1 minute"):
        assert main(["curve", "--plan", str(plan), *tick]) == 0
        said = " ".join(capsys.readouterr().out.split())
        assert f"a person's day loses 0.50 at its end, 2.00 {lag} after it, except with" in said
    assert main(["curve", "--plan", str(plan), "--json"]) == 0
    written = json.loads(capsys.readouterr().out)["discovery"]
    assert fc.Discovery.from_json(json.dumps(written)) == days
