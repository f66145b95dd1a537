"""``fadecount plan``: what it prints, saves and draws, and how it refuses."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

import fadecount as fc
from fadecount.cli.main import main
from fadecount.cli.plan import WIDTH

YEAR = [
    "plan",
    "--tick",
    "1m",
    "--horizon",
    "1y",
    "--loss",
    "1h=0.5",
    "--loss",
    "30d=2",
    "--loss",
    "1y=4",
]


@pytest.mark.parametrize(
    "more",
    [
        [],
        ["--delay", "1h"],
        ["--mean-error", "60"],
        ["--per-person", "24/day"],
        ["--per-person", "20/month"],
        ["--max-amount", "5"],
        ["--per-person", "3/tick", "--keys-per-person", "4"],
        ["--per-person", "1/day", "--keys-per-person", "3", "--delta", "1e-9", "--discover", "1d"],
    ],
)
def test_the_table_fits_a_terminal(more: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*YEAR, *more]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= WIDTH
    assert lines[0] == "plan for 525,600 steps, each 1 minute"
    assert any(line.startswith("* 1  blocks") for line in lines)
    assert any(line.startswith("figures per ") for line in lines)
    assert any(line.startswith("so far today  ") and " ± " in line for line in lines)


def test_the_table_says_what_is_published_when_and_how_exact(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(YEAR) == 0
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    made = fc.plan(tick="1m", loss={"1h": 0.5, "30d": 2, "1y": 4})
    day = next(row for row in made.published() if row.per == "1d")
    assert f"1d provisional 1 hour 1 minute 2.000 ± {day.half_width}" in lines
    assert "1mo final 1 month 1 minute 4.000 ± 2" in lines
    for width in made.widths():
        assert any(line.startswith(f"{width.name} ± {width.half_width}") for line in lines)
    assert main([*YEAR, "--json"]) == 0
    said = json.loads(capsys.readouterr().out)["plan"]["option"]
    assert said["published"] == [dataclasses.asdict(row) for row in made.published()]
    assert said["widths"] == [dataclasses.asdict(width) for width in made.widths()]


def test_what_a_key_needs_to_appear(capsys: pytest.CaptureFixture[str]) -> None:
    keys = ["--per-person", "1/day", "--delta", "1e-9", "--discover"]
    assert main([*YEAR, *keys, "1d"]) == 0
    shown = capsys.readouterr().out
    lines = [" ".join(line.split()) for line in shown.splitlines()]
    at = lines.index("persons a day that a key needs 50 % 95 % lost (ε)")
    assert lines[at + 1 : at + 4] == [
        "to appear at its end 43 48 0.5000",
        "to appear 1 hour 1 minute after its end 12 13 2.000",
        "to appear 1 month 1 minute after its end 7 7 4.000",
    ]
    chance = (
        "a key that one person alone brought in one day appears with a chance of at most 7.55e-10"
    )
    assert chance in " ".join(lines)
    assert main([*YEAR, *keys, "1d=0.5", "--json"]) == 0
    halves = [[0, 0.25], [61, 1.0], [43_201, 2.0]]
    assert json.loads(capsys.readouterr().out)["discovery"]["stages"] == halves
    for wrong, words in (("1d=much", "1d=PART"), ("1w", "discover must be 1d or 1mo")):
        assert main([*YEAR, *keys, wrong]) == 1
        assert words in capsys.readouterr().err


def test_steps_and_errors_without_a_tick(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "--horizon", "1000000000000000000", "--mean-error", "1000"]) == 0
    assert max(map(len, capsys.readouterr().out.splitlines())) <= WIDTH


def test_the_saved_plan_is_the_mechanism(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "plan.json"
    assert main([*YEAR, "--save", str(file), "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed == json.loads(file.read_text())
    made = fc.plan(tick=60, loss={60: 0.5, 43_200: 2.0, 525_600: 4.0})
    assert fc.Mechanism.from_json(file.read_text()) == made.mechanism
    assert file.read_text().count("\n") > 50  # for people to read

    assert main([*YEAR, "--save", str(file), "--option", "2"]) == 1
    assert capsys.readouterr().err.startswith("fadecount: --save must be a new file")
    assert main([*YEAR, "--save", str(file), "--option", "2", "--force"]) == 0
    assert "plan saved as" in capsys.readouterr().out
    assert fc.Mechanism.from_json(file.read_text()) == made.options[1].mechanism


def test_every_option_of_a_plan_can_be_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    days = ["plan", "--tick", "1d", "--horizon", "1y", "--loss", "30d=1", "--loss", "1y=2"]
    file, events = tmp_path / "plan.json", tmp_path / "events.csv"
    events.write_text("at\n2026-03-01T10:10\n2026-03-03T10:10\n")
    count = ["run", str(events), "--tick", "1d", "--time", "at", "--plan", str(file)]
    made = fc.plan(tick="1d", horizon="1y", loss={"30d": 1.0, "1y": 2.0})
    assert isinstance(made.mechanism, fc.Blocks) and len(made.options) > 1
    for number in range(1, len(made.options) + 1):
        assert main([*days, "--save", str(file), "--option", str(number), "--force"]) == 0
        store = ["--state", str(tmp_path / "state"), "--name", f"days-{number}"]
        store += ["--start", "2026-03-01"]
        for where in ([], store):
            capsys.readouterr()
            assert main([*count, *where]) == 0
            assert len(capsys.readouterr().out.splitlines()) == 4


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["--tick", "1m", "--horizon", "1y"], "--loss must be given; or --mean-error 100, which"),
        (
            ["--horizon", "1y", "--loss", "9=1"],
            "--horizon must be a number of steps without a tick",
        ),
        (["--tick", "soon", "--loss", "1h=1"], "--tick must be a positive duration"),
        (["--tick", "1m", "--loss", "1h"], "--loss must be AGE=LOSS"),
        (["--tick", "1m", "--loss", "1h=much"], "--loss must be AGE=LOSS"),
        (["--tick", "1m", "--loss", "1h=1", "--loss", "1h=2"], "--loss must name each age once"),
        (
            ["--tick", "1m", "--loss", "1h=1", "--loss", "60m=2"],
            "--loss must have one value per step",
        ),
        (["--tick", "1m", "--loss", "1h=2", "--loss", "1d=1"], "--loss must not decrease with age"),
        (
            ["--tick", "1m", "--horizon", "1h", "--loss", "1d=1"],
            "target age must be an integer from 0 to 60",
        ),
        (["--tick", "1m", "--loss", "1d=0"], "target loss at age 1440 must be"),
        ([*YEAR[1:], "--mean-error", "5"], "--mean-error must be an error that noise"),
        (
            ["--tick", "1m", "--loss", "1d=1", "--per-person", "many"],
            "--per-person must be a number of events",
        ),
        (
            ["--tick", "1m", "--loss", "1d=1", "--per-person", "24/"],
            "--per-person must be a number of events",
        ),
        (
            ["--tick", "1m", "--loss", "1d=1", "--per-person", "24/moon"],
            "--per-person must be a number of events",
        ),
        (
            ["--tick", "1m", "--loss", "1d=1", "--keys-per-person", "4"],
            "--per-person must be given with --keys-per-person",
        ),
        (
            ["--tick", "1m", "--loss", "1d=1", "--per-person", "1", "--keys-per-person", "0"],
            "keys of the unit must be an integer from 1",
        ),
        (["--tick", "1m", "--loss", "1d=1", "--option", "9"], "--option must be from 1 to"),
    ],
)
def test_senseless_words_get_one_clear_line(
    words: list[str], line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plan", *words]) == 1
    error = capsys.readouterr().err
    assert error.startswith(f"fadecount: {line}")
    assert error.count("\n") == 1


def test_a_plan_says_for_whom_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    short = ["plan", "--tick", "1h", "--horizon", "30d", "--loss", "30d=4"]
    for more, words in (
        (
            ["--per-person", "3/tick", "--keys-per-person", "4"],
            "for one person within a tick, at most 3 events in each of at most 4 keys privacy",
        ),
        (
            ["--per-person", "4/day"],
            "for one person's day, at most 4 events; ages count from the day's start privacy",
        ),
        (["--max-amount", "5"], "for one event with an amount up to 5 privacy"),
    ):
        assert main([*short, *more]) == 0
        shown = " ".join(capsys.readouterr().out.split())
        assert words.removesuffix(" privacy") in shown
        unit = words.removeprefix("for ").split(";")[0].removesuffix(" privacy")
        assert f"privacy loss (ε) of {unit}: " in shown and f"lost: about {unit}, at most" in shown


def test_a_sample_shows_what_each_cap_leaves_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ann comes 5 times on a day, Bob once a day for three days; one row cannot be read."""
    rows = [f"2026-03-01T{hour:02}:00:00Z,ann" for hour in range(5)]
    rows += [f"2026-03-0{day}T10:00:00Z,bob" for day in (1, 2, 3)]
    (tmp_path / "s.csv").write_text("\n".join(["at,who", *rows, "never,eve"]) + "\n")
    words = ["plan", "--tick", "1h", "--horizon", "30d", "--loss", "30d=4", "--per-person", "2/day"]
    sample = ["--sample", str(tmp_path / "s.csv"), "--time", "at", "--person", "who"]
    assert main([*words, *sample]) == 0
    shown = capsys.readouterr().out
    table = shown[shown.index("for you only") :].splitlines()[2:]
    assert [line.split(" %")[0].split() for line in table] == [
        ["1", "per", "day", "50"],
        ["2", "per", "day", "37.5"],
        ["4", "per", "day", "12.5"],
        ["8", "per", "day", "0"],
    ]
    days = [float(line.split("±")[1].split()[0].replace(",", "")) for line in table]
    assert days == sorted(days) and days[0] < days[-1]
    planned = [line for line in shown.splitlines() if line.startswith("* 1 ")]
    assert f"± {days[1]:g} " in planned[0], "the cap of the plan has the errors of the plan"
    assert main([*words, "--sample", "s.csv"]) == 1
    assert "--sample, --person, --time and --tick must be given" in capsys.readouterr().err


def test_plot_draws_the_chosen_option(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    picture = tmp_path / "plan.svg"
    assert main([*YEAR, "--plot", str(picture)]) == 0
    first = picture.read_bytes()
    assert first.startswith(b"<?xml")
    assert main([*YEAR, "--option", "2", "--plot", str(picture)]) == 0
    assert picture.read_bytes() != first
    assert main([*YEAR, "--plot", str(tmp_path / "plan.txt")]) == 1
    assert "a file that ends with" in capsys.readouterr().err
