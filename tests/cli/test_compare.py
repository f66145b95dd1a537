"""fadecount compare: the same error, both curves, the crossing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import fadecount as fc
from fadecount.cli.compare import _which_loses_less
from fadecount.cli.main import main

WORDS = ["compare", "--window", "1d", "--tick", "1m"]


def test_both_have_the_same_error_and_the_crossing_is_exact(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main([*WORDS, "--epsilon", "0.125", "--exponent", "2", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    refresh, fading = (
        fc.Mechanism.from_json(json.dumps(found[name])) for name in ("refresh", "fading")
    )
    assert isinstance(refresh, fc.Refresh) and refresh.window == 1440
    assert fading == fc.Gradual(epsilon=0.125, exponent=2.0)
    assert found["horizon"] == 525_600
    assert fading.mse(525_600) == pytest.approx(refresh.mse(525_600), rel=1e-6)
    best = fc.Refresh.best_ratio(window=1440, horizon=525_600)
    assert refresh.epsilon_past == pytest.approx(best * refresh.epsilon_current, rel=1e-9)
    crossing = found["crossing_age"]
    assert refresh.loss(crossing - 1) < fading.loss(crossing - 1)
    assert refresh.loss(crossing) >= fading.loss(crossing)
    assert [one["age"] for one in found["losses"]] == [0, 1, 60, 1440, 10_080, 43_200, 525_600]
    assert all(
        one["refresh"] == refresh.loss(one["age"]) and one["fading"] == fading.loss(one["age"])
        for one in found["losses"]
    )


def test_the_text_answers_the_question(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*WORDS, "--epsilon", "0.1"]) == 0
    text = capsys.readouterr().out
    for part in (
        "1 day",
        "1 month",
        "1 year",
        "At the same typical error",
        "loses less",
        "with refreshing",
    ):
        assert part in text
    assert max(map(len, text.splitlines())) <= 90


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (
            ["--window", "5", "--epsilon", "0.1", "--horizon", "12", "--exponent", "4"],
            "refreshing can lose less for events younger than",
        ),
        (
            ["--window", "31", "--epsilon", "0.1", "--horizon", "100000"],
            "fading loses less, or as much",
        ),
    ],
)
def test_the_verdict_depends_on_the_crossing(
    words: list[str], part: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compare", *words]) == 0
    assert part in capsys.readouterr().out


def test_verdicts_without_a_crossing() -> None:
    assert _which_loses_less(0, None) == "fading loses less, or as much, at every age"
    assert _which_loses_less(None, 60) == "there is no age from which on fading loses less"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["--window", "127", "--epsilon", "0.1", "--horizon", "127"],
            "--horizon must be more steps than the window, 127",
        ),
        (["--window", "0", "--epsilon", "1"], "--window must be from 1"),
        (["--window", "1d", "--epsilon", "1"], "--window must be a number of steps"),
        (["--window", "7", "--epsilon", "0"], "--epsilon must be between"),
        (
            ["--window", "7", "--epsilon", "1", "--exponent", "-1"],
            "exponent must be between",
        ),
    ],
)
def test_bad_input_is_one_line(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compare", *words]) == 1
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_a_plan_is_compared_as_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    planned = fc.Gradual(epsilon=0.05, exponent=2.0)
    path = tmp_path / "plan.json"
    path.write_text(planned.to_json())
    assert main([*WORDS, "--plan", str(path), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert fc.Mechanism.from_json(json.dumps(found["fading"])) == planned
    assert found["fading_mse"] == planned.mse(525_600) == pytest.approx(found["mse"], rel=1e-6)


@pytest.mark.parametrize(("every", "window"), [(None, 24), ("1w", 168), ("1mo", 720), ("1y", 8760)])
def test_the_rival_has_the_error_of_the_other(
    every: str | None, window: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (
        main(
            [
                "compare",
                "--tick",
                "1h",
                "--epsilon",
                "0.125",
                *(["--window", every] if every else []),
                "--json",
            ]
        )
        == 0
    )
    found = json.loads(capsys.readouterr().out)
    rival = fc.Mechanism.from_json(json.dumps(found["refresh"]))
    assert isinstance(rival, fc.Refresh) and rival.window == window
    assert found["horizon"] == max(8760, 4 * window)
    assert found["mse"] == pytest.approx(found["fading_mse"], rel=1e-6)
    younger = found["crossing_age"] > 0
    assert ("refreshing can lose less for events younger than" in found["sentence"]) == younger
    assert ("fading loses less, or as much, at every age" in found["sentence"]) == (not younger)


def test_the_window_is_a_day_or_the_next_that_has_two_steps(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for tick, window in (("1d", 7), ("1w", 4), ("1y", 2)):
        assert main(["compare", "--tick", tick, "--epsilon", "0.5", "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["refresh"]["window"] == window


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--tick", "1h"], "--epsilon or --plan must be given"),
        (["--epsilon", "1"], "--window must be given where --tick is not"),
        (["--tick", "1h", "--epsilon", "1", "--plan", "x"], "--epsilon is no option of a plan"),
    ],
)
def test_the_mechanism_and_the_window_must_be_known(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compare", *words]) == 1
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1


def test_the_sentence_names_the_construction(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*WORDS, "--epsilon", "0.1", "--json"]) == 0
    sentence = json.loads(capsys.readouterr().out)["sentence"]
    assert "Refreshing is the paper's baseline here: a binary tree in each period" in sentence
    assert "its budget split to lose least after 1 year." in sentence
    assert "can lose less than both" in sentence


def test_no_crossing_is_named_after_the_last_step(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    steps = [(step, step, 0.4) for step in range(1, 97)]
    own = fc.Intervals((*steps, *((first, first + 11, 0.2) for first in range(1, 97, 12))))
    (tmp_path / "own.json").write_text(own.to_json(), encoding="utf-8")
    words = ["compare", "--plan", str(tmp_path / "own.json"), "--window", "12", "--horizon", "96"]
    assert main([*words, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["crossing_age"] is None
    assert "there is no age from which on fading loses less" in found["sentence"]
