"""fadecount run: from a file to releases, once and only once."""

from __future__ import annotations

import csv
import json
import os
import re
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import fadecount as fc
from fadecount.cli.main import main
from fadecount.cli.run import _default_name
from fadecount.streams import Reader
from fadecount.streams.export import COLUMNS

BEGIN = datetime(2026, 3, 1, tzinfo=UTC)


def write_events(
    path: Path, first: int, last: int, keys: tuple[str, ...] = ("home", "help", "else")
) -> Path:
    """One event per minute."""
    rows = [
        f"{(BEGIN + timedelta(minutes=at)).isoformat()},{keys[at % len(keys)]}"
        for at in range(first, last)
    ]
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
BEGUN = ["--state", "state", "--start", BEGIN.isoformat()]
STORED = [*KEYED, "--epsilon", "4", *BEGUN, "--name", "pages"]


def test_a_one_off_run_releases_every_tick_with_an_interval(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", "first.csv", "--tick", "1h", "--time", "at", "--epsilon", "50"]) == 0
    rows = list(csv.DictReader(capsys.readouterr().out.splitlines()))
    assert {row["start"] for row in rows} == {"2026-03-01T00:00:00Z"}
    hours = [f"2026-03-01T{hour:02}:00:00Z" for hour in range(1, 11)]
    assert [row["end"] for row in rows] == [row["published"] for row in rows] == hours
    assert [int(row["value"]) for row in rows] == [60 * hour for hour in range(1, 11)]
    assert {(row["stream"], row["key"]) for row in rows} == {("first", "all")}
    assert all(row["low"] == row["value"] == row["high"] for row in rows)
    assert not (folder / "user").exists()


def test_a_forgotten_name_is_asked_for(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "first.csv", *STORED, "--output", "one.csv"]) == 0
    capsys.readouterr()
    words = ["run", "second.csv", *KEYED, "--state", "state"]
    assert main(words) == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith(
        "fadecount: --name must name a stream of this store (pages), got 'second'; to begin"
        " 'second', give"
    )
    assert main([*words, "--name", "pages", "--output", "two.csv"]) == 0


def test_an_undeclared_key_suggests_other(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "first.csv", *KEYED[:-1], "--epsilon", "4"]) == 0
    assert (
        "200 rows left out: the key is not declared; the option other counts such rows together"
        in capsys.readouterr().err
    )


def test_newer_data_continue_and_released_ticks_are_left_alone(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", "first.csv", *STORED, "--output", "one.csv"]) == 0
    capsys.readouterr()
    with (folder / "first.csv").open("a") as file:
        file.write("no time,home\n")
    assert main(["run", "first.csv", *STORED, "--output", "again.csv"]) == 0
    said = capsys.readouterr().err
    assert "600 rows left out: the time is before the first tick that is counted" in said
    assert "nothing was released, and no published figure changes" in said
    assert "too low" not in said, "no figure of this run is"
    assert main(["run", "first.csv", *STORED, "--check"]) == 0
    assert "too low" not in capsys.readouterr().out
    assert not (folder / "again.csv").exists(), "nothing is released again"
    write_events(folder / "grown.csv", 0, 900)
    assert main(["run", "grown.csv", *STORED, "--output", "two.jsonl"]) == 0
    rows = [json.loads(line) for line in (folder / "two.jsonl").read_text().splitlines()]
    assert [row["end"] for row in rows[::3]] == [
        f"2026-03-01T{hour:02}:00:00Z" for hour in range(11, 16)
    ]
    assert [row["key"] for row in rows[:3]] == ["home", "help", "other"]
    assert abs(rows[-1]["value"] - 300) < 40


def test_a_file_of_releases_is_replaced_only_by_force_or_goes_on(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", "first.csv", *STORED, "--output", "one.csv"]) == 0
    before = (folder / "one.csv").read_text()
    assert main(["run", "second.csv", *STORED, "--output", "one.csv"]) == 1
    assert "--output must be a new file" in capsys.readouterr().err
    assert (folder / "one.csv").read_text() == before
    assert main(["run", "second.csv", *STORED, "--output", "one.csv", "--append"]) == 0
    assert (folder / "one.csv").read_text().startswith(before)
    assert main(["streams", "export", "pages", "--state", "state", "--output", "all.csv"]) == 0
    assert (folder / "all.csv").read_text() == (folder / "one.csv").read_text()
    assert main(["streams", "export", "pages", "--state", "state", "--output", "all.csv"]) == 1
    assert (
        main(["streams", "export", "pages", "--state", "state", "--output", "all.csv", "--force"])
        == 0
    )
    assert main(["run", "first.csv", *STORED, "--output", "one.parquet", "--append"]) == 1


def test_windows_of_half_ticks_are_refused_before_anything_is_released(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Released ticks cannot be taken back: the same file must still be countable in whole ticks."""
    assert main(["run", "first.csv", *STORED, "--per", "90m", "--output", "one.csv"]) == 1
    assert "--per must be made of whole ticks of 3600 s" in capsys.readouterr().err
    assert not (folder / "one.csv").exists()
    with Reader.of_file(folder / "state" / "streams.db") as reader:
        assert not reader.stream("pages").steps
    assert main(["run", "first.csv", *STORED, "--per", "2h", "--output", "one.csv"]) == 0
    assert len((folder / "one.csv").read_text().splitlines()) == 1 + 3 * 5


@pytest.mark.parametrize(
    "text",
    [
        "",
        ",".join(COLUMNS),
        "stream,start,key,value,low,high\n",
        "a,b\n",
        "\ufeff" + ",".join(COLUMNS) + "\n",
        "\n",
    ],
)
def test_only_a_file_of_releases_goes_on(folder: Path, text: str) -> None:
    (folder / "one.csv").write_text(text, encoding="utf-8")
    status = main(["run", "first.csv", *STORED, "--output", "one.csv", "--append"])
    assert status == (0 if text == "" else 1)
    assert text == "" or (
        (folder / "one.csv").read_text(encoding="utf-8") == text and not (folder / "state").exists()
    )


def test_bad_rows_are_left_out_one_by_one_and_check_names_the_first(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with (folder / "first.csv").open("a") as file:
        file.write("not a time,home\n")
    assert main(["run", "first.csv", *STORED, "--check"]) == 0
    said = capsys.readouterr().out
    assert "1 row left out: the time is missing or cannot be read\n" in said
    assert "first.csv, line 602: the time is missing" in said
    assert "601 rows; a run would release 10 ticks, from 2026-03-01T00:00:00Z to" in said
    assert not (folder / "state").exists()
    assert main(["run", "-", *STORED, "--check"]) == 1
    assert main(["run", "first.csv", *STORED, "--output", "one.csv"]) == 0
    assert "1 row left out: the time is missing or cannot be read" in capsys.readouterr().err


def test_a_run_ends_with_the_unit_and_its_losses(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--tick", "1h", "--time", "at", "--epsilon", "0.1"]
    assert main(["run", "first.csv", *words]) == 0
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith(
        "fadecount: the first and last tick show when the first and last events were"
    )
    assert lines[1].startswith("fadecount: a one-off run, nothing is kept: ") and lines[1].endswith(
        "--state DIR keeps it"
    )
    assert lines[2].startswith(
        "fadecount: privacy loss (ε) for one event: at most 0.10 when it is released, "
    )
    assert "after a year; in no group: losses of other streams" in lines[2] and len(lines) == 3
    assert (
        main(
            [
                "run",
                "first.csv",
                *words,
                "--start",
                "2026-03-01",
                "--until",
                "2026-03-02",
                "--state",
                "state",
            ]
        )
        == 0
    )
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1, "a range that was asked for shows nothing"


@pytest.mark.parametrize("option", ["--fence", "--key-file"])
def test_what_protects_a_store_is_refused_without_one(
    folder: Path, option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (
        main(
            [
                "run",
                "first.csv",
                "--tick",
                "1h",
                "--time",
                "at",
                "--epsilon",
                "0.1",
                option,
                "marks",
            ]
        )
        == 1
    )
    said = capsys.readouterr()
    assert (
        said.out == ""
        and f"--state or --database must be given with {option}; without them nothing is kept"
        in said.err
    )


def test_a_file_without_the_column_of_its_time_is_refused(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Not counted as it arrives: that would wait for the clock."""
    assert main(["run", "first.csv", "--tick", "1h", "--epsilon", "0.1"]) == 1
    assert (
        "--time must be given for everything but a pipe that is read live"
        in capsys.readouterr().err
    )


def test_a_run_never_uses_the_folder_of_the_service_unasked(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(folder / "data"))
    monkeypatch.setenv("FADECOUNT_FENCE", str(folder / "marks"))
    assert (
        main(
            [
                "run",
                "first.csv",
                "--tick",
                "1h",
                "--time",
                "at",
                "--epsilon",
                "0.1",
                "--output",
                "out.csv",
            ]
        )
        == 0
    )
    assert not (folder / "data").exists() and not (folder / "marks").exists()


@pytest.mark.parametrize("name", ["none.csv", "header.csv", "none.jsonl"])
def test_an_input_without_events_releases_its_empty_ticks(folder: Path, name: str) -> None:
    (folder / name).write_text("at,page\n" if name == "header.csv" else "")
    words = ["--start", "2026-03-01", "--until", "2026-03-01T05:00", "--output", "one.csv"]
    assert main(["run", name, *STORED, *words]) == 0
    assert len(read(folder / "one.csv")) == 5 * 3
    assert (
        main(
            [
                "run",
                name,
                *[word.replace("pages", "other") for word in STORED],
                "--output",
                "two.csv",
            ]
        )
        == 0
    )
    assert not (folder / "two.csv").exists(), (
        "without a range and without events there is nothing to release"
    )


def test_events_outside_the_range_change_nothing_and_are_reported(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [
        "--tick",
        "1h",
        "--time",
        "at",
        "--epsilon",
        "50",
        "--start",
        "2026-03-01T02:00",
        "--until",
        "2026-03-01T05:00",
    ]
    assert main(["run", "first.csv", *words]) == 0
    captured = capsys.readouterr()
    assert [row["value"] for row in csv.DictReader(captured.out.splitlines())] == [
        "60",
        "120",
        "180",
    ]
    assert "120 rows left out: the time is before the first tick that is counted" in captured.err
    assert "300 rows left out: the time is after the last tick that is counted" in captured.err


def test_a_stream_keeps_its_start(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    start = ["--start", "2026-03-01"]
    assert main(["run", "first.csv", *STORED, *start, "--output", "one.csv"]) == 0
    assert main(["run", "second.csv", *STORED, *start, "--output", "two.csv"]) == 0
    assert (
        main(["run", "second.csv", *STORED, "--start", "2026-03-01T01:00", "--output", "three.csv"])
        == 1
    )
    refusal = "start must be 2026-03-01T00:00:00Z, where the stream began"
    assert refusal in capsys.readouterr().err
    assert main(["run", "second.csv", *STORED, "--start", "2026-03-01T01:00", "--check"]) == 1
    assert refusal in capsys.readouterr().err


def test_a_range_of_too_many_ticks_is_taken_for_a_wrong_time(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "far.csv").write_text("at\n1990-01-01\n2026-03-01\n")
    assert (
        main(
            [
                "run",
                "far.csv",
                "--tick",
                "1s",
                "--time",
                "at",
                "--epsilon",
                "1",
                "--output",
                "one.csv",
            ]
        )
        == 1
    )
    assert "range must be at most 50,000,000 ticks" in capsys.readouterr().err


def test_new_keys_are_declared_and_others_are_refused(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", "first.csv", *STORED, "--output", "one.csv"]) == 0
    changed = [word.replace("home,help", "help,home") for word in STORED]
    assert main(["run", "second.csv", *changed]) == 1
    assert "must begin with those declared so far" in capsys.readouterr().err
    more = [word.replace("home,help", "home,help,other,new") for word in STORED]
    assert main(["run", "second.csv", *more, "--output", "two.csv"]) == 0
    assert {row["key"] for row in read(folder / "two.csv")} == {"home", "help", "other", "new"}


def test_check_refuses_what_a_run_refuses(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Before a run, a stream needs a start; after it, its tick and its unit are fixed."""
    words = ["first.csv", "--time", "at", "--state", "state", "--name", "visits"]
    hours = ["run", *words, "--tick", "1h", "--until", "2026-03-02"]
    for mode in (["--check"], ["--epsilon", "1"]):
        assert main([*hours, *mode]) == 1
        assert "--start must be given to create the stream 'visits'" in capsys.readouterr().err
    assert main([*hours, "--start", "2026-03-01", "--epsilon", "1"]) == 0
    capsys.readouterr()
    for changes, what in (
        (["--tick", "1d"], "tick"),
        (["--tick", "1h", "--person", "page"], "protected unit"),
    ):
        for mode in (["--check"], []):
            assert main(["run", *words, *changes, *mode]) == 1
            assert f"{what} of stream 'visits' is fixed" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--tick", "1d"], "is fixed (3600 s in UTC)"),
        (["--epsilon", "1"], "is fixed, got another one"),
        (["--amount", "n", "--max-amount", "3"], "is fixed (one event)"),
        (["--person", "who"], "is fixed (one event)"),
    ],
)
def test_a_stream_cannot_become_another(
    folder: Path, words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", "first.csv", *STORED, "--output", "one.csv"]) == 0
    (folder / "third.csv").write_text("at,page,n,who\n2026-03-01T12:00,home,1,ann\n")
    capsys.readouterr()
    assert main(["run", "third.csv", *STORED, *words]) == 1
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_amounts_and_persons_make_the_noise_wider_and_the_loss_hold(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [f"2026-03-01T0{hour}:00:00Z,{hour},anna" for hour in range(8)]
    (folder / "amounts.csv").write_text("\n".join(["at,n,who", *rows]))
    words = [
        "--tick",
        "1h",
        "--time",
        "at",
        "--amount",
        "n",
        "--max-amount",
        "10",
        "--person",
        "who",
        "--per-person",
        "2/tick",
    ]
    assert (
        main(
            [
                "run",
                "amounts.csv",
                *words,
                "--epsilon",
                "1",
                *BEGUN,
                "--output",
                "one.csv",
            ]
        )
        == 0
    )
    assert main(["streams", "show", "amounts", "--state", "state", "--json"]) == 0
    unit = json.loads(capsys.readouterr().out)["unit"]
    assert unit["events"] * unit["amount"] == 20
    assert main(["streams", "curve", "amounts", "--state", "state", "--json"]) == 0
    first = json.loads(capsys.readouterr().out)[0]
    assert first["loss"] == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize(
    ("noise", "rows"), [(["--epsilon", "200"], 1), (["--plan", "wide.json"], 2)]
)
def test_a_person_under_several_keys(
    folder: Path, noise: list[str], rows: int, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [f"2026-03-01T0{hour}:00:00Z,{key},anna" for hour in range(3) for key in "abcd" * rows]
    (folder / "touched.csv").write_text("\n".join(["at,door,who", *lines]))
    (folder / "wide.json").write_text(fc.Gradual(epsilon=0.5).to_json())
    words = [
        "--tick",
        "1h",
        "--time",
        "at",
        "--key",
        "door",
        "--keys",
        "a,b,c,d",
        "--person",
        "who",
        "--per-person",
        str(rows),
    ]
    words = ["run", "touched.csv", *words, *noise, *BEGUN]
    assert main([*words, "--keys-per-person", "2", "--output", "one.csv"]) == 0
    said = capsys.readouterr().err
    assert f"{'1 event' if rows == 1 else '2 events'} in each of at most 2 keys: at most" in said
    if rows == 1:
        assert [int(row["value"]) for row in read(folder / "one.csv")[-4:]] == [3, 3, 0, 0], (
            "there is next to no noise"
        )
    assert main([*words, "--keys-per-person", "3", "--output", "two.csv"]) == 1
    assert "is fixed (one person within a tick" in capsys.readouterr().err
    assert main(["streams", "show", "touched", "--state", "state", "--json"]) == 0
    unit = json.loads(capsys.readouterr().out)["unit"]
    assert unit["keys"] * unit["events"] == 2 * rows


def test_start_and_until_do_not_depend_on_the_events(folder: Path) -> None:
    words = [
        "--start",
        "2026-02-28T22:00",
        "--until",
        "2026-03-01T15:00+01:00",
        "--output",
        "one.csv",
    ]
    assert main(["run", "first.csv", *STORED, *words]) == 0
    ticks = [row["end"] for row in read(folder / "one.csv")[::3]]
    assert (ticks[0], ticks[-1], len(ticks)) == ("2026-02-28T23:00:00Z", "2026-03-01T14:00:00Z", 16)


def test_an_end_before_the_start_is_refused(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--start", "2026-03-02", "--until", "2026-03-01"]
    assert main(["run", "first.csv", *KEYED, "--epsilon", "4", *words]) == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err == (
        "fadecount: --until must be at or after start, 2026-03-02T00:00:00Z, got"
        " '2026-03-01T00:00:00Z'; it is when the last tick ends\n"
    )


def test_parquet_output(folder: Path) -> None:
    polars = pytest.importorskip("polars", reason="polars is not installed: Parquet is not tested")
    assert main(["run", "first.csv", *STORED, "--output", "one.parquet"]) == 0
    frame = polars.read_parquet("one.parquet")
    assert frame.columns == list(COLUMNS)
    assert len(frame) == 30
    about = polars.read_parquet_metadata("one.parquet")
    assert about["fadecount.unit"] == "one event"
    assert about["fadecount.tick_seconds"] == "3600"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["missing.csv"], "missing.csv"),
        (["packed.csv.gz"], "unpack the file first"),
        (["first.csv", "--output", "one.xls"], "--output must be"),
        (["first.csv", "--output", "no/such/folder/one.csv"], "a file that can be written"),
        (["first.csv", "--time", "when"], "when"),
        (["first.csv", "--person", "page", "--per-person", "many"], "--per-person must be"),
        (["first.csv", "--per-person", "3"], "--person must be given with --per-person"),
        (["first.csv", "--keys-per-person", "3"], "--person must be given with --keys-per-person"),
        (["first.csv", "--person", "who", "--keys-per-person", "0"], "--keys-per-person must be"),
        (["first.csv", "--output", "first.csv"], "another file than the input"),
        (["-"], "--format must be csv, jsonl or log for a pipe"),
        (["first.csv", "--start", "soon"], "--start must be"),
        (["first.csv", "--name", "a/b"], "stream name must be"),
        (["first.csv", "--zone", "Mars"], "must be"),
        (["first.csv", "--per", "60000y"], "--per must be at most 1000y"),
        (["first.csv", "--tick", "500y"], "--tick must be an integer from 1 to"),
    ],
)
def test_mistakes_are_one_line(
    folder: Path, words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "packed.csv.gz").touch()
    assert (
        main(["run", *words[:1], "--tick", "1h", "--time", "at", "--epsilon", "1", *words[1:]]) == 1
    )
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    "words",
    [
        "--until tomorrow",
        "--until 9999-12-31",
        "--per 60000y",
        "--output no/one.csv",
        "--output one.xls",
        "--output first.csv",
    ],
)
def test_nothing_is_released_under_a_wrong_option(
    folder: Path, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = (folder / "first.csv").read_text()
    option, value = words.split()
    assert main(["run", "first.csv", *STORED, option, value]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith((f"fadecount: {option} must be ", "fadecount: time must be "))
    assert captured.err.count("\n") == 1
    assert (folder / "first.csv").read_text() == before
    assert not (folder / "state").exists()


def test_a_file_that_is_missing_makes_no_stream(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
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
    """Years of short ticks with gaps, in many transactions: after the signal, the store and the
    file agree and it goes on."""
    rows = [f"{(BEGIN + timedelta(days=day)).isoformat()}" for day in range(2000)]
    (folder / "days.csv").write_text("\n".join(["at", *rows]))
    words = [
        "run",
        "days.csv",
        "--tick",
        "10s",
        "--time",
        "at",
        "--epsilon",
        "1",
        *BEGUN,
    ]
    process = subprocess.Popen(
        [sys.executable, "-m", "fadecount", *words, "--output", "one.csv"],
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ,
    )
    until = time.monotonic() + 60
    while time.monotonic() < until and not (
        (folder / "one.csv").exists() and (folder / "one.csv").stat().st_size > 1000
    ):
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
    rows = [
        json.dumps({"at": f"2026-03-01T0{at}:00:00Z", "page": key}) for at, key in enumerate(keys)
    ]
    (folder / "odd.jsonl").write_text("\n".join(rows) + "\n")
    words = [
        "--tick",
        "1h",
        "--time",
        "at",
        "--key",
        "page",
        "--keys-file",
        "odd.txt",
        "--epsilon",
        "50",
    ]
    assert main(["run", "odd.jsonl", *words, "--output", "odd.csv"]) == 0
    assert main(["run", "odd.jsonl", *words, "--output", "out.jsonl"]) == 0
    found = [json.loads(line) for line in (folder / "out.jsonl").read_text().splitlines()]
    assert (
        [row["key"] for row in read(folder / "odd.csv")]
        == [row["key"] for row in found]
        == keys * 4
    )
    assert [list(row) for row in found] == [list(COLUMNS)] * 16


def test_keys_are_no_formulas_in_csv_and_come_back(folder: Path) -> None:
    """Read back as the docs say; a spreadsheet takes what begins with an apostrophe as text."""
    keys = ["=1+1", "+1", "-1", "@SUM(A1)", "'=1", "''-x", "'tis", "a=1", '="a,b"']
    (folder / "odd.txt").write_text("\n".join(keys))
    (folder / "odd.jsonl").write_text('{"at": "2026-03-01T00:00:00Z", "page": "=1+1"}\n')
    words = ["--tick", "1h", "--time", "at", "--key", "page", "--keys-file", "odd.txt"]
    assert main(["run", "odd.jsonl", *words, "--epsilon", "50", "--output", "odd.csv"]) == 0
    written = [row["key"] for row in read(folder / "odd.csv")]
    assert not any(key.startswith(("=", "+", "-", "@")) for key in written)
    assert [key for key in written if key in keys] == ["'tis", "a=1"]
    assert [re.sub(r"^'(?='*[=+\-@\t\r])", "", key) for key in written] == keys
    assert main(["run", "odd.jsonl", *words, "--epsilon", "50", "--output", "odd.parquet"]) == 0
    pl = pytest.importorskip("polars")
    assert pl.read_parquet(folder / "odd.parquet")["key"].to_list() == keys


def test_a_plan_for_people_hands_its_assumption_on(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = [
        "plan",
        "--tick",
        "1h",
        "--horizon",
        "30d",
        "--loss",
        "30d=4",
        "--option",
        "4",
        "--save",
    ]
    for name, people in (("day", "2/day"), ("tick", "2/tick"), ("events", "1/tick")):
        assert main([*plan, f"{name}.json", "--per-person", people]) == 0
    assert main([*plan, "keys.json", "--per-person", "2/tick", "--keys-per-person", "4"]) == 0
    rows = [f"2026-03-01T0{hour}:00:00Z,ann" for hour in (1, 1, 1, 3)]
    (folder / "people.csv").write_text("\n".join(["at,who", *rows]))
    words = [
        "run",
        "people.csv",
        "--tick",
        "1h",
        "--time",
        "at",
        "--start",
        "2026-03-01",
        "--until",
        "2026-03-01T05:00",
    ]
    capsys.readouterr()
    for name, more, message in (
        ("day", [], "at most the plan's, one person's day, at most 2 events, got 'one event'"),
        ("day", ["--person", "who", "--per-person", "2"], "got 'one person within a tick, at most"),
        ("tick", ["--person", "who", "--per-person", "3"], "one person within a tick, at most 2"),
        (
            "keys",
            ["--person", "who", "--per-person", "3"],
            "at most 2 events in each of at most 4 keys, got",
        ),
    ):
        assert main([*words, "--plan", f"{name}.json", *more]) == 1
        error = capsys.readouterr().err
        assert message in error and error.count("\n") == 1
    stored = [*words, "--person", "who", "--per-person", "2", *BEGUN, "--output"]
    assert main([*stored, "one.csv", "--plan", "tick.json"]) == 0
    planned = json.loads((folder / "tick.json").read_text())
    assert main(["streams", "show", "people", "--state", "state", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    ran = shown["mechanism"]
    budgets = [name for name in ("epsilon", "budgets") if name in ran]
    assert budgets and all(ran[name] == planned[name] for name in budgets), (
        "the plan has counted the person's events already"
    )
    assert main([*stored, "two.csv", "--plan", "tick.json"]) == 0
    assert main([*stored, "three.csv", "--plan", "day.json"]) == 1
    day = ["--person", "who", "--per-person", "2/day", "--output", "four.csv"]
    assert main([*words, "--plan", "day.json", *day]) == 0
    several = [*stored, "five.csv", "--plan", "keys.json", "--name", "keys"]
    assert main(several) == 0
    capsys.readouterr()
    assert main(["streams", "curve", "keys", "--state", "state", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    month = next(row["loss"] for row in rows if row["seconds"] == 30 * 86_400)
    assert 0.9 < month <= 1.0, "planned to lose 4 under four keys; one counts"


def test_a_day_of_25_hours_is_one_tick_of_its_cap(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [
        f"{(datetime(2026, 10, 24, 22, tzinfo=UTC) + timedelta(hours=hour)).isoformat()},ann"
        for hour in range(26)
    ]
    (folder / "days.csv").write_text("\n".join(["at,who", *rows]))
    words = [
        "--tick",
        "1d",
        "--zone",
        "Europe/Berlin",
        "--time",
        "at",
        "--person",
        "who",
        "--per-person",
        "24",
        "--epsilon",
        "2000",
    ]
    assert main(["run", "days.csv", *words]) == 0
    values = [int(row["value"]) for row in csv.DictReader(capsys.readouterr().out.splitlines())]
    assert values == [24, 25], "of the 25 hours of that day 24 count, the next day has its own cap"


def test_a_file_that_cannot_be_read_releases_nothing(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The gate: a wrong column must not become noise around zero."""
    wrong = ["--tick", "1h", "--time", "page", "--epsilon", "4", "--state", "state"]
    limits = ["--start", "2026-03-01", "--until", "2026-03-02"]
    for words in (["--check"], []):
        assert main(["run", "first.csv", *wrong, *limits, *words, "--output", "one.csv"]) == 1
        said = capsys.readouterr().err
        assert "rows that cannot be read must be at most 50 % of all, got 100 %" in said
        assert "(mostly: the time is missing or cannot be read); nothing was released" in said
    assert not (folder / "one.csv").exists()
    with Reader.of_file(folder / "state" / "streams.db") as reader:
        assert reader.status("first").steps == 0
    assert main(["run", "first.csv", *wrong, *limits, "--max-left-out", "100%"]) == 0


def test_the_operator_says_how_many_rows_may_be_unreadable(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with (folder / "first.csv").open("a") as file:
        file.write("not a time,home\n" * 60)
    for part, status in (("5%", 1), ("0.09", 1), ("9.1%", 0)):
        words = ["--max-left-out", part, "--output", f"{part}.csv"]
        assert main(["run", "first.csv", *STORED, *words]) == status
    for part in ("some", "-5%", "101%", "nan"):
        assert main(["run", "first.csv", *STORED, f"--max-left-out={part}"]) == 1
        assert "max" in capsys.readouterr().err


def test_a_day_that_is_skipped_needs_a_word(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", "first.csv", *STORED, "--output", "one.csv"]) == 0  # to 10:00
    write_events(folder / "second.csv", 2 * 1440 - 60, 2 * 1440)  # late on the second of March
    assert main(["run", "second.csv", *STORED, "--output", "two.csv"]) == 0
    write_events(folder / "third.csv", 3 * 1440, 3 * 1440 + 60)  # the third has none
    capsys.readouterr()
    for words in (["--check"], ["--output", "three.csv"]):
        assert main(["run", "third.csv", *STORED, *words]) == 1
        said = capsys.readouterr().err
        assert "events must go on where the stream ends, 2026-03-03T00:00:00Z, got none" in said
        assert "before 2026-03-04T00:00:00Z; nothing was released" in said
    # a file that was counted before has no event of the time to release
    late = ["--until", "2026-03-05"]
    assert main(["run", "second.csv", *STORED, *late, "--output", "three.csv"]) == 1
    assert "got none before 2026-03-05T00:00:00Z" in capsys.readouterr().err
    assert main(["run", "third.csv", *STORED, "--allow-gap", "--check"]) == 0
    assert "would release 25 ticks" in capsys.readouterr().out
    assert main(["run", "third.csv", *STORED, "--allow-gap", "--output", "three.csv"]) == 0


def test_the_gate_is_for_histories(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["run", "first.csv", "--follow", *STORED]
    assert main([*words, "--allow-gap"]) == 1
    assert "must be left out for a live source" in capsys.readouterr().err
    assert main([*words, "--check"]) == 1


def test_several_files_at_once_and_late_rows(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    exact = [word if word != "4" else "10000" for word in STORED]
    assert main(["run", "first.csv", "second.csv", *exact, "--output", "one.csv"]) == 0
    assert capsys.readouterr().err.count("left out") == 0
    rows = [row for row in read(folder / "one.csv") if row["end"].endswith("T15:00:00Z")]
    assert sum(int(row["value"]) for row in rows) == 840
    # 60 events of a closed hour, and 60 new ones
    write_events(folder / "third.csv", 840, 960)
    for late in ("drop", "next"):
        words = ["--late", late, "--output", f"{late}.csv", "--check"]
        assert main(["run", "third.csv", *exact, *words]) == 0
        said = capsys.readouterr().out
        assert ("60 rows left out" in said) == (late == "drop")
    assert main(["run", "third.csv", *exact, "--late", "next", "--output", "two.csv"]) == 0
    rows = [row for row in read(folder / "two.csv") if row["end"].endswith("T16:00:00Z")]
    assert sum(int(row["value"]) for row in rows) == 840 + 120
    assert main(["run", "first.csv", "-", *exact]) == 1
    assert main(["run", "first.csv", "second.csv", *exact, "--follow"]) == 1
    assert (
        main(["run", "first.csv", "second.csv", *exact, "--output", "second.csv", "--force"]) == 1
    )
    assert "another file than the input" in capsys.readouterr().err


def test_a_run_tells_its_operator_what_the_figures_leave_out(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = ["0,a,1,x", "1,a,1,y", "1,a,1,y", "2,b,99,z", "3,c,bad,w"]
    moments = [f"2026-03-01T10:0{row}" for row in rows]
    (folder / "few.csv").write_text("\n".join(["at,who,n,id", *moments]) + "\n")
    words = ["--tick", "1h", "--time", "at", "--person", "who", "--amount", "n", "--unique", "id"]
    assert main(["run", "few.csv", *words, "--max-amount", "5", "--epsilon", "9"]) == 0
    said = capsys.readouterr()
    assert "left out" not in said.out
    lines = [line.removeprefix("fadecount: ") for line in said.err.splitlines()[:5]]
    assert lines == [
        "1 row left out: the amount is not a whole number",
        "1 row left out: the id (unique) is that of an earlier row of the same tick, key and"
        " person",
        "1 row left out: beyond the cap of their person",
        "1 row counted with the largest amount: sums are lower",
        "all in all 2 rows (50 % of those in the range) do not count: figures are that much too"
        " low, and intervals cover the noise only",
    ]


def test_the_unit_may_be_a_persons_day(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The cap holds over files, and the loss is stated for the day."""
    hours = [f"2026-03-01T{hour:02}:00,ann" for hour in range(24)]
    for name, rows in (("morning", hours[:12]), ("evening", hours[12:])):
        (folder / f"{name}.csv").write_text("\n".join(["at,who", *rows]) + "\n")
    words = ["--tick", "1h", "--time", "at", "--person", "who", "--per-person", "14/day"]
    words += ["--state", "state", "--name", "ann", "--per", "total"]
    first = ["--epsilon", "10000", "--start", "2026-03-01", "--until", "2026-03-01T12:00"]
    assert main(["run", "morning.csv", *words, *first, "--output", "one.csv"]) == 0
    said = capsys.readouterr().err
    assert "privacy loss (ε) for one person's day, at most 14 events: at most" in said
    assert "by its end" in said and "after a month from its start" in said
    assert main(["run", "evening.csv", *words, "--until", "2026-03-02", "--output", "two.csv"]) == 0
    assert "10 rows left out: beyond the cap of their person" in capsys.readouterr().err
    assert [int(row["value"]) for row in read(folder / "two.csv")] == [13, *[14] * 11]
    other = [word if word != "14/day" else "14/tick" for word in words]
    assert main(["run", "evening.csv", *other, "--output", "three.csv"]) == 1
    assert "is fixed (one person's day, at most 14 events)" in capsys.readouterr().err


def test_distinct_persons_of_each_day(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [
        f"2026-03-0{day}T{hour:02}:00,{who}" for day in (1, 2) for hour in (1, 5) for who in "abc"
    ]
    (folder / "few.csv").write_text("\n".join(["at,who", *rows, "2026-03-02T09:00,d"]) + "\n")
    words = ["--tick", "1h", "--time", "at", "--person", "who", "--count", "persons"]
    (folder / "plan.json").write_text(
        fc.Blocks(fc.Level(1, 9000.0), fc.Level(24, 9000.0)).to_json()
    )
    limits = ["--start", "2026-03-01", "--until", "2026-03-03", "--plan", "plan.json"]
    assert main(["run", "few.csv", *words, *limits, "--output", "days.csv"]) == 0
    assert [int(row["value"]) for row in read(folder / "days.csv")] == [3, 4]
    about = json.loads((folder / "days.csv-metadata.json").read_text())
    assert about["unit"] == "one person's day, at most 1 event"
    assert "sums over longer times count a person once for each day" in about["interval"]
    assert about["ages"] == "from the start of the day"
    assert main(["run", "few.csv", *words, "--per-person", "2", *limits]) == 1
    assert "--per-person must be left out with --count persons" in capsys.readouterr().err
    assert main(["run", "few.csv", "--tick", "1h", "--time", "at", "--count", "persons"]) == 1
