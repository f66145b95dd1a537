"""fadecount run on pipes and growing files."""

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
from fadecount.runs import run
from tests.cli.test_run import folder

__all__ = ["folder"]

WORDS = ["--tick", "1h", "--time", "at", "--epsilon", "50"]


def start(words: list[str], **options: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "fadecount", "run", *words]
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ
    )


def wait_for(path: Path, lines: int) -> list[str]:
    until = time.monotonic() + 120
    while time.monotonic() < until:
        found = path.read_text().splitlines() if path.exists() else []
        if len(found) >= lines:
            return found
        time.sleep(0.02)
    raise AssertionError(f"{path.name} did not grow")


def test_a_pipe_of_history_is_read_to_its_end_like_a_file(folder: Path) -> None:
    words = [*WORDS, "--state", "state", "--start", "2026-03-01", "--format", "csv"]
    for name, rows, first in (("first.csv", 10, 0), ("second.csv", 5, 600)):
        process = start(["-", *words, "--output", f"{rows}.csv"])
        _, error = process.communicate((folder / name).read_text(), timeout=120)
        assert process.returncode == 0, error
        with (folder / f"{rows}.csv").open() as file:
            found = [int(row["value"]) for row in csv.DictReader(file)]
        assert len(found) == rows
        assert found[-1] == first + {10: 600, 5: 240}[rows]


def events(seconds: float, count: int) -> str:
    """So many events of about now."""
    return "".join(f"{seconds + at / 1000:.3f},x\n" for at in range(count))


def test_a_growing_file_is_followed_by_the_clock_and_counted_once_over_restarts(
    folder: Path,
) -> None:
    grown = folder / "grown.csv"
    grown.write_text("at,page\n" + events(time.time() + 1, 130))
    words = [
        "grown.csv",
        "--tick",
        "1s",
        "--time",
        "at",
        "--epsilon",
        "50",
        "--state",
        "state",
        "--follow",
        "--grace",
        "1s",
    ]
    words += [
        "--start",
        datetime.now(UTC).isoformat(timespec="seconds"),
        "--append",
        "--output",
        "one.jsonl",
    ]
    total = 0
    for number in (130, 70, 1):
        if number == 1:  # rotated while nobody follows it
            grown.rename("grown.csv.2")
            grown.write_text("at,page\n")
        process = start(words)
        if number == 70:  # rotated while it is followed; the writer goes on for a while
            old = grown.rename("grown.csv.1")
            with old.open("a") as file:
                file.write(events(time.time(), 20))
            grown.write_text("at,page\n" + events(time.time() + 1, 50))
        elif number == 1:
            with grown.open("a") as file:
                file.write(events(time.time() + 1, 1))
        total += number
        until = time.monotonic() + 60
        while time.monotonic() < until:
            lines = (
                (folder / "one.jsonl").read_text().splitlines()
                if (folder / "one.jsonl").exists()
                else []
            )
            if lines and json.loads(lines[-1])["value"] >= total:
                break
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        _, error = process.communicate(timeout=120)
        assert process.returncode == 130, error
        assert "stopped; released up to 2" in error
    rows = [json.loads(line) for line in (folder / "one.jsonl").read_text().splitlines()]
    assert rows[-1]["value"] == total
    assert [row["end"] for row in rows] == sorted({row["end"] for row in rows})


def test_a_silent_pipe_releases_its_ticks_and_is_interrupted(folder: Path) -> None:
    words = [
        "-",
        "--format",
        "csv",
        "--tick",
        "1s",
        "--epsilon",
        "1",
        "--state",
        "state",
        "--output",
        "one.csv",
    ]
    process = start(words)
    wait_for(folder / "one.csv", 2)
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=60) == 130  # its input is still open
    assert process.stdin is not None and process.stderr is not None
    error = process.stderr.read().splitlines()
    process.stdin.close()
    process.stderr.close()
    assert error[0].startswith("fadecount: stopped; released up to ") and len(error) == 2


def test_following_needs_times(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "first.csv", "--tick", "1h", "--epsilon", "1", "--follow"]) == 1
    assert "--time must be given for everything but a pipe" in capsys.readouterr().err


def test_a_live_source_needs_a_store(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["-", "--format", "csv"], ["first.csv", "--time", "at", "--follow"]):
        assert main(["run", *words, "--tick", "1h", "--epsilon", "1"]) == 1
        assert "--state must be given for a live source" in capsys.readouterr().err


def test_people_of_an_earlier_run_are_known_to_a_later_one(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    stored = [
        "--tick",
        "365d",
        "--name",
        "p",
        "--state",
        "state",
        "--person",
        "who",
        "--per-person",
        "2",
        "--format",
        "jsonl",
    ]
    for _ in range(2):
        process = start(["-", *stored, "--epsilon", "50", "--output", "one.csv"])
        _, error = process.communicate('{"who": "ann"}\n{"who": "bob"}\n', timeout=120)
        assert process.returncode == 0, error
    (folder / "more.jsonl").write_text(
        "".join(f'{{"who": "ann", "at": {time.time():.0f}}}\n' for _ in range(3))
    )
    later = datetime.now(UTC) + timedelta(days=365)
    until = ["--time", "at", "--until", later.isoformat()]
    assert main(["run", "more.jsonl", *stored, *until]) == 1, "that tick is not over"
    assert "figures of later ticks would be public before their time" in capsys.readouterr().err
    monkeypatch.setitem(run.__kwdefaults__ or {}, "clock", later.timestamp)
    assert main(["run", "more.jsonl", *stored, *until]) == 0
    assert capsys.readouterr().out.splitlines()[-1].split(",")[4] == "4", (
        "two of each, over three runs"
    )
