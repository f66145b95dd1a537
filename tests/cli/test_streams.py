"""fadecount streams: what is there, what is lost, and what is removed."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

import fadecount as fc
from fadecount.cli.main import main
from fadecount.streams import Description, FileFence, Reader, SQLiteStore, Ticks
from tests.cli.test_run import KEYED, STORED, folder

__all__ = ["folder"]


@pytest.fixture
def stored(folder: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    assert main(["run", "first.csv", *STORED, "--output", "one.csv"]) == 0
    capsys.readouterr()
    return folder


def test_list_and_show(stored: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["streams", "list", "--state", "state"]) == 0
    assert (
        capsys.readouterr().out
        == "pages: 10 ticks of 1 hour, released up to 2026-03-01T10:00:00Z\n"
    )
    assert main(["streams", "show", "pages", "--state", "state"]) == 0
    shown = capsys.readouterr().out
    assert "keys: home, help, other" in shown
    assert "unit: one event\n" in shown
    assert "rollback protection: fence at " in shown
    assert main(["streams", "list", "--state", "state", "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert found["published_through"] == "2026-03-01T10:00:00Z"


def test_the_folder_of_the_service_is_the_default(
    stored: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(stored / "data"))
    assert main(["streams", "list"]) == 1
    assert (
        f"store must exist to be read, got '{stored / 'data' / 'fadecount' / 'streams.db'}'"
        in capsys.readouterr().err
    )
    monkeypatch.setenv("FADECOUNT_STATE", str(stored / "state"))
    assert main(["streams", "list"]) == 0
    assert capsys.readouterr().out.startswith("pages: 10 ticks")
    assert (
        main(
            [
                "run",
                "second.csv",
                *STORED[: -len(STORED) + len(KEYED)],
                "--name",
                "pages",
                "--output",
                "two.csv",
            ]
        )
        == 0
    )
    assert "nothing is kept" not in capsys.readouterr().err


def test_the_curve_by_age(stored: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["streams", "curve", "pages", "--state", "state", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [(row["age"], row["loss"]) for row in rows] == [
        (row["age"], fc.Gradual(epsilon=4.0).loss(row["age"])) for row in rows
    ]
    assert main(["streams", "curve", "pages", "--state", "state"]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert "at most" in " ".join(lines[0]) and ["8,760", "1", "year", "56.0000", "totals"] in lines


def test_export_of_a_range(stored: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [
        "streams",
        "export",
        "pages",
        "--state",
        "state",
        "--since",
        "2026-03-01T03:00",
        "--until",
        "2026-03-01T04:59",
    ]
    assert main(words) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1:] == (stored / "one.csv").read_text().splitlines()[1 + 9 : 1 + 15]
    assert main([*words, "--output", "part.jsonl"]) == 0
    assert len((stored / "part.jsonl").read_text().splitlines()) == 6
    until = ["--until", "2026-03-01T05:00"]
    assert (
        main(
            [
                "run",
                "first.csv",
                *KEYED,
                "--epsilon",
                "1",
                "--start",
                "2026-03-01",
                *until,
                "--state",
                "other",
                "--output",
                "five.csv",
            ]
        )
        == 0
    )
    capsys.readouterr()
    assert main(["streams", "export", "first", "--state", "other", *until]) == 0, (
        "what run releases with the same --until"
    )
    assert capsys.readouterr().out == (stored / "five.csv").read_text()
    assert main([*words[:-1], "2026-03-01T05:00"]) == 0
    assert capsys.readouterr().out.splitlines() == lines


def test_delete_needs_a_word_and_is_final(stored: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["streams", "delete", "pages", "--state", "state"]) == 1
    assert main(["streams", "delete", "pages", "--state", "state", "--yes"]) == 0
    assert main(["run", "first.csv", *STORED]) == 1
    assert "never used in this store" in capsys.readouterr().err


def test_catching_up_needs_a_word(stored: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The stream ended long ago: with its word, the operator releases every tick since then."""
    assert main(["streams", "catch-up", "pages", "--state", "state"]) == 1
    assert "the clock of this machine is right" in capsys.readouterr().err
    assert main(["streams", "catch-up", "pages", "--state", "state", "--yes"]) == 0
    assert "ticks released" in capsys.readouterr().out
    with Reader.of_file(stored / "state" / "streams.db") as reader:
        status = reader.status("pages")
    assert status.published_tick is not None
    assert status.description.ticks.at(time.time()) - 1 - status.published_tick in (0, 1)


def test_keys_are_rotated(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("old", "new"):
        (folder / name).write_text(os.urandom(32).hex())
    assert main(["run", "first.csv", *STORED, "--key-file", "old", "--output", "one.csv"]) == 0
    assert (
        main(
            ["streams", "rotate", "--state", "state", "--key-file", "old", "--new-key-file", "new"]
        )
        == 0
    )
    assert main(["run", "second.csv", *STORED, "--key-file", "old", "--output", "two.csv"]) == 1
    assert "the key it was sealed with" in capsys.readouterr().err
    assert main(["run", "second.csv", *STORED, "--key-file", "new", "--output", "two.csv"]) == 0


def test_an_old_backup_is_refused_until_its_loss_is_accepted(
    stored: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    backup = (stored / "state" / "streams.db").read_bytes()
    assert main(["run", "second.csv", *STORED, "--output", "two.csv"]) == 0
    for path in (stored / "state").iterdir():
        path.unlink()
    (stored / "state" / "streams.db").write_bytes(backup)
    capsys.readouterr()
    assert main(["run", "second.csv", *STORED, "--output", "three.csv"]) == 1
    error = capsys.readouterr().err
    assert "published up to step 15" in error
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["list", "--state", "nowhere"], "store must exist"),
        (["show", "doors", "--state", "state"], "streams of this store: pages"),
        (
            ["export", "pages", "--state", "state", "--since", "noon"],
            "--since must be a time in ISO 8601",
        ),
        (
            ["list", "--database", "postgresql://nobody@localhost:1/none"],
            "store failed: PostgreSQL",
        ),
    ],
)
def test_mistakes_are_one_line(
    stored: Path, words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["streams", *words]) == 1
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


@pytest.mark.parametrize("name", ["total.svg", "days.png", "hours.html"])
def test_releases_become_pictures(stored: Path, name: str) -> None:
    pytest.importorskip("matplotlib")
    per = {
        "days.png": ["--per", "1d"],
        "hours.html": ["--per", "2h", "--key", "home"],
    }.get(name, [])
    assert main(["streams", "plot", "pages", "--state", "state", "-o", name, *per]) == 0
    body = (stored / name).read_bytes()
    assert body.startswith(
        {"svg": b"<?xml", "png": b"\x89PNG", "html": b"<!doctype html>"}[name.rpartition(".")[2]]
    )
    assert b"<svg" in body or name == "days.png"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--key", "none"], "--key must be a key of stream 'pages'"),
        (["--since", "2030-01-01"], "has released nothing in that time"),
        (["--per", "30m"], "per must be made of whole ticks"),
    ],
)
def test_pictures_of_nothing_are_refused(
    stored: Path, words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("matplotlib")
    capsys.readouterr()
    assert main(["streams", "plot", "pages", "--state", "state", "-o", "x.svg", *words]) == 1
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1


def test_releases_ahead_of_the_clock_make_events_older(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Five hours were released before their time: a visit an hour ago has lost what one six hours
    ago would have."""
    hours, mechanism = Ticks(tick_seconds=3600), fc.Gradual(epsilon=0.5)
    place = ["--state", str(tmp_path / "state"), "--fence", str(tmp_path / "fence"), "--json"]
    present = hours.at(time.time())
    with SQLiteStore(
        tmp_path / "state" / "streams.db", fence=FileFence(tmp_path / "fence")
    ) as store:
        stream = store.create(
            Description(name="doors", mechanism=mechanism, ticks=hours), start_tick=present - 100
        )
        stream.close_through(present + 4)
    assert main(["streams", "curve", "doors", *place]) == 0
    losses = {row["age"]: row["loss"] for row in json.loads(capsys.readouterr().out)}
    assert losses[0] >= mechanism.loss(4) > mechanism.loss(0) and losses[24] >= mechanism.loss(28)


def test_streams_of_a_group_state_what_they_lose_together(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The second stream joins by name, and the third would break the promise."""
    common = [*STORED, "--group", "readers"]
    limits = ["--group-loss", "1h=20", "--group-loss", "ever=2000"]
    assert main(["run", "first.csv", *common, *limits, "--output", "one.csv"]) == 0
    words = "group readers: at most 20 up to 1 hour, 2000 later for one event, by all streams of"
    assert words in capsys.readouterr().err
    about = json.loads(Path("one.csv-metadata.json").read_text())["group"]
    assert about["name"] == "readers" and about["unit"] == "one event"
    assert about["curve"] == [
        {"age_seconds": 3600, "loss": 20.0},
        {"age_seconds": None, "loss": 2000.0},
    ]
    named = [*common, "--output", "-"]
    at = named.index("--name") + 1
    named[at] = "again"
    assert main(["run", "first.csv", *named]) == 0
    capsys.readouterr()
    assert main(["streams", "show", "pages", "--state", "state"]) == 0
    shown = capsys.readouterr().out
    assert "\ngroup: readers: at most 20 up to 1 hour, 2000 later" in shown
    assert "(again, pages)" in shown
    assert main(["streams", "show", "pages", "--state", "state", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["group"]["name"] == "readers"
    named[at] = "third"
    assert main(["run", "first.csv", *named]) == 1
    said = capsys.readouterr()
    assert said.out == "" and "must lose at most 20 up to 1 hour, all together" in said.err
    assert "(the others: again, pages)" in said.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--group-loss", "1y=4"], "--group must be given with --group-loss"),
        (["--group", "x", "--group-loss", "1y"], "--group-loss must be AGE=LOSS"),
        (["--group", "x", "--group-loss", "1y=4", "--group-loss", "1y=5"], "each age once"),
        (["--group", "x"], "group 'x' has no stream yet"),
    ],
)
def test_groups_that_make_no_sense_are_refused(
    folder: Path, capsys: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    assert main(["run", "first.csv", *STORED, *words]) in (1, 2)
    assert said in capsys.readouterr().err


def test_a_run_that_keeps_nothing_has_no_group(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    once = [*KEYED, "--epsilon", "0.1", "--group", "x", "--group-loss", "1y=4"]
    assert main(["run", "first.csv", *once]) in (1, 2)
    assert (
        "--state must be given with a group; without one nothing is kept" in capsys.readouterr().err
    )


@pytest.mark.parametrize(
    ("per", "subject"),
    [
        ("tick", "one person within a tick, at most 2 events"),
        ("day", "one person's day, at most 2 events; ages count from the day's start"),
    ],
)
def test_what_is_lost_names_the_unit(
    folder: Path, capsys: pytest.CaptureFixture[str], per: str, subject: str
) -> None:
    (folder / "few.csv").write_text("at,who\n2026-03-01T10:00,a\n2026-03-01T11:00,a\n")
    words = ["--tick", "1h", "--time", "at", "--person", "who", "--per-person", f"2/{per}"]
    words += [
        "--epsilon",
        "0.1",
        "--state",
        "state",
        "--output",
        "out.csv",
        "--start",
        "2026-03-01",
    ]
    assert main(["run", "few.csv", *words]) == 0
    capsys.readouterr()
    assert main(["streams", "curve", "few", "--state", "state"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == f"for {subject}"
