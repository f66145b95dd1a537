"""fadecount run: from a file to releases, once and only once."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from fadecount.cli.main import main
from fadecount.cli.run import _default_name

BEGIN = datetime(2026, 3, 1, tzinfo=UTC)


def write_events(path: Path, first: int, last: int, keys: tuple[str, ...] = ("home", "help", "else")) -> Path:
    """One event per minute."""
    rows = [f"{(BEGIN + timedelta(minutes=at)).isoformat()},{keys[at % len(keys)]}" for at in range(first, last)]
    path.write_text("\n".join(["at,page", *rows]) + "\n")
    return path


def read(path: Path) -> list[dict[str, str]]:
    with path.open() as file:
        return list(csv.DictReader(file))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "user"))
    monkeypatch.chdir(tmp_path)
    write_events(tmp_path / "first.csv", 0, 600)
    write_events(tmp_path / "second.csv", 660, 900)
    return tmp_path


KEYED = ["--tick", "1h", "--time", "at", "--key", "page", "--keys", "home,help", "--other"]
STORED = [*KEYED, "--epsilon", "4", "--state", "state", "--name", "pages"]


def test_a_one_off_run_releases_every_tick_with_an_interval(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "first.csv", "--tick", "1h", "--time", "at", "--epsilon", "50"]) == 0
    rows = list(csv.DictReader(capsys.readouterr().out.splitlines()))
    assert [row["tick"] for row in rows] == [f"2026-03-01T{hour:02}:00:00Z" for hour in range(10)]
    assert [int(row["value"]) for row in rows] == [60 * hour for hour in range(1, 11)]
    assert {(row["stream"], row["key"]) for row in rows} == {("first", "all")}
    assert all(row["low"] == row["value"] == row["high"] for row in rows)
    assert not (folder / "user").exists()


def test_newer_data_continue_and_the_same_data_are_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "first.csv", *STORED, "--output", "one.csv"]) == 0
    before = (folder / "one.csv").read_bytes()
    assert main(["run", "first.csv", *STORED, "--output", "one.csv"]) == 1
    error = capsys.readouterr().err
    assert "released up to 2026-03-01T10:00:00Z" in error
    assert error.count("\n") == 1
    assert (folder / "one.csv").read_bytes() == before, "a refused run must leave the older file alone"
    assert main(["run", "second.csv", *STORED, "--output", "two.jsonl"]) == 0
    rows = [json.loads(line) for line in (folder / "two.jsonl").read_text().splitlines()]
    assert [row["tick"] for row in rows[::3]] == [f"2026-03-01T{hour:02}:00:00Z" for hour in range(10, 15)]
    assert [row["key"] for row in rows[:3]] == ["home", "help", "other"]
    assert abs(rows[-1]["value"] - 280) < 40


def test_events_of_released_ticks_can_be_skipped(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "first.csv", *STORED, "--output", "one.csv"]) == 0
    write_events(folder / "grown.csv", 0, 720)
    assert main(["run", "grown.csv", *STORED, "--skip-released", "--output", "two.csv"]) == 0
    assert len(read(folder / "two.csv")) == 2 * 3
    assert "were left out" in capsys.readouterr().err


def test_a_refused_file_releases_nothing(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with (folder / "first.csv").open("a") as file:
        file.write("not a time,home\n")
    assert main(["run", "first.csv", *STORED, "--output", "one.csv"]) == 1
    assert "line 602" in capsys.readouterr().err
    assert not (folder / "one.csv").exists()
    assert main(["streams", "show", "pages", "--state", "state", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["ticks_released"] == 0
    assert main(["run", "first.csv", *STORED, "--on-bad", "skip", "--output", "one.csv"]) == 0
    assert "1 row skipped" in capsys.readouterr().err


def test_new_keys_are_declared_and_others_are_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "first.csv", *STORED, "--output", "one.csv"]) == 0
    changed = [word.replace("home,help", "help,home") for word in STORED]
    assert main(["run", "second.csv", *changed]) == 1
    assert "must begin with those declared so far" in capsys.readouterr().err
    more = [word.replace("home,help", "home,help,other,new") for word in STORED]
    assert main(["run", "second.csv", *more, "--output", "two.csv"]) == 0
    assert {row["key"] for row in read(folder / "two.csv")} == {"home", "help", "other", "new"}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--tick", "1d"], "--tick must be 3600 s in UTC"),
        (["--epsilon", "1"], "is fixed, got another one"),
        (["--amount", "n", "--max-amount", "3"], "protected unit must be one event"),
    ],
)
def test_a_stream_cannot_become_another(folder: Path, words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "first.csv", *STORED, "--output", "one.csv"]) == 0
    assert main(["run", "second.csv", *STORED, *words]) == 1
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_amounts_and_persons_make_the_noise_wider_and_the_loss_hold(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [f"2026-03-01T0{hour}:00:00Z,{hour},anna" for hour in range(8)]
    (folder / "amounts.csv").write_text("\n".join(["at,n,who", *rows]))
    words = ["--tick", "1h", "--time", "at", "--amount", "n", "--max-amount", "10", "--person", "who", "--per-person", "2/tick"]
    assert main(["run", "amounts.csv", *words, "--epsilon", "1", "--state", "state", "--output", "one.csv"]) == 0
    assert main(["streams", "show", "amounts", "--state", "state", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["sensitivity"] == 20
    assert shown["error_95"] > 100
    assert main(["streams", "show", "amounts", "--state", "state", "--json", "--item", "2026-03-01T07:30"]) == 0
    assert json.loads(capsys.readouterr().out)["loss_now"] == pytest.approx(1.0, abs=1e-12)


def test_start_and_until_do_not_depend_on_the_events(folder: Path) -> None:
    words = ["--start", "2026-02-28T22:00", "--until", "2026-03-01T15:00+01:00", "--output", "one.csv"]
    assert main(["run", "first.csv", *STORED, *words]) == 0
    ticks = [row["tick"] for row in read(folder / "one.csv")[::3]]
    assert (ticks[0], ticks[-1], len(ticks)) == ("2026-02-28T22:00:00Z", "2026-03-01T13:00:00Z", 16)


def test_the_monotone_view_goes_on_from_the_earlier_run(folder: Path) -> None:
    noisy = [word if word != "4" else "0.05" for word in STORED]
    assert main(["run", "first.csv", *noisy, "--monotone", "--output", "one.csv"]) == 0
    assert main(["run", "second.csv", *noisy, "--monotone", "--output", "two.csv"]) == 0
    values = [int(row["value"]) for name in ("one.csv", "two.csv") for row in read(folder / name) if row["key"] == "home"]
    assert values == sorted(values)
    assert values[0] >= 0


def test_parquet_output(folder: Path) -> None:
    polars = pytest.importorskip("polars", reason="polars is not installed: Parquet is not tested")
    assert main(["run", "first.csv", *STORED, "--output", "one.parquet"]) == 0
    frame = polars.read_parquet("one.parquet")
    assert frame.columns == ["stream", "tick", "key", "value", "low", "high"]
    assert len(frame) == 30


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["missing.csv"], "missing.csv"),
        (["first.csv.gz"], "unpack the file first"),
        (["first.csv", "--output", "one.xls"], "--output must be"),
        (["first.csv", "--state", "state", "--start", "2026-03-02"], "is to begin at 2026-03-02T00:00:00Z"),
        (["first.csv", "--output", "no/such/folder/one.csv"], "a file that can be written"),
        (["first.csv", "--time", "when"], "when"),
        (["first.csv", "--per-person", "many"], "--per-person must be"),
        (["first.csv", "--monotone", "0"], "--monotone must be"),
        (["first.csv", "--start", "soon"], "--start must be"),
        (["first.csv", "--name", "a/b"], "stream name must be"),
        (["first.csv", "--zone", "Mars"], "must be"),
    ],
)
def test_mistakes_are_one_line(folder: Path, words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", *words[:1], "--tick", "1h", "--time", "at", "--epsilon", "1", *words[1:]]) == 1
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    "words",
    ["--until tomorrow", "--until 9999-12-31", "--monotone -3", "--output no/one.csv", "--output one.xls", "--output first.csv"],
)
def test_nothing_is_released_under_a_wrong_option(folder: Path, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    before = (folder / "first.csv").read_text()
    option, value = words.split()
    assert main(["run", "first.csv", *STORED, option, value]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith((f"fadecount: {option} must be ", "fadecount: time must be "))
    assert captured.err.count("\n") == 1
    assert (folder / "first.csv").read_text() == before
    assert not (folder / "state").exists()


def test_a_file_that_is_missing_makes_no_stream(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "third.csv", *STORED]) == 1
    assert main(["streams", "list", "--state", "state"]) == 0
    assert capsys.readouterr().out == ""


def test_names_come_from_files() -> None:
    assert [_default_name(each) for each in ("-", "/a/My visits.csv", "...", "x.y.parquet")] == [
        "stream",
        "My-visits",
        "stream",
        "x.y",
    ]


def test_interrupting_stops_between_ticks_with_everything_committed(folder: Path) -> None:
    """Years of short ticks with gaps, in many transactions: after the signal, the store and the file agree and it goes on."""
    rows = [f"{(BEGIN + timedelta(days=day)).isoformat()}" for day in range(2000)]
    (folder / "days.csv").write_text("\n".join(["at", *rows]))
    words = ["run", "days.csv", "--tick", "10s", "--time", "at", "--epsilon", "1", "--state", "state"]
    process = subprocess.Popen(
        [sys.executable, "-m", "fadecount", *words, "--output", "one.csv"], stderr=subprocess.PIPE, text=True, env=os.environ
    )
    until = time.monotonic() + 60
    while time.monotonic() < until and not ((folder / "one.csv").exists() and (folder / "one.csv").stat().st_size > 1000):
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=60)
    assert process.returncode == 130, error
    assert "stopped; released up to" in error
    lines = (folder / "one.csv").read_text().splitlines()
    assert main(["streams", "export", "days", "--state", "state", "--output", "all.csv"]) == 0
    assert (folder / "all.csv").read_text().splitlines() == lines
    assert len(lines) < 2000 * 8640


def test_keys_with_commas_and_quotes_survive_in_every_format(folder: Path) -> None:
    keys = ["a,b", 'say "hi"', "ünï", "plain"]
    (folder / "odd.txt").write_text("\n".join(keys))
    rows = [json.dumps({"at": f"2026-03-01T0{at}:00:00Z", "page": key}) for at, key in enumerate(keys)]
    (folder / "odd.jsonl").write_text("\n".join(rows) + "\n")
    words = ["--tick", "1h", "--time", "at", "--key", "page", "--keys-file", "odd.txt", "--epsilon", "50"]
    assert main(["run", "odd.jsonl", *words, "--output", "odd.csv"]) == 0
    assert main(["run", "odd.jsonl", *words, "--output", "out.jsonl"]) == 0
    found = [json.loads(line) for line in (folder / "out.jsonl").read_text().splitlines()]
    assert [row["key"] for row in read(folder / "odd.csv")] == [row["key"] for row in found] == keys * 4
    assert [list(row) for row in found] == [["stream", "tick", "key", "value", "low", "high"]] * 16
