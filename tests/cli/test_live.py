"""fadecount run on pipes and growing files."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fadecount.cli.main import main
from tests.cli.test_run import BEGIN, folder, write_events

__all__ = ["folder"]

WORDS = ["--tick", "1h", "--time", "at", "--epsilon", "50"]


def start(words: list[str], **options: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "fadecount", "run", *words]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ)


def wait_for(path: Path, lines: int) -> list[str]:
    until = time.monotonic() + 120
    while time.monotonic() < until:
        found = path.read_text().splitlines() if path.exists() else []
        if len(found) >= lines:
            return found
        time.sleep(0.02)
    raise AssertionError(f"{path.name} did not grow")


def test_a_pipe_is_released_to_its_end(folder: Path) -> None:
    process = start(["-", *WORDS, "--output", "one.csv"])
    _, error = process.communicate((folder / "first.csv").read_text(), timeout=120)
    assert process.returncode == 0, error
    with (folder / "one.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [int(row["value"]) for row in rows] == [60 * hour for hour in range(1, 11)]
    assert rows[0]["stream"] == "stream"


def test_a_stored_pipe_keeps_its_open_tick(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stored = ["-", *WORDS, "--state", "state"]
    lines = (folder / "first.csv").read_text().splitlines()
    for part, rows in ((lines[:571], 9), (["at,page", *lines[571:], f"{BEGIN.replace(hour=12).isoformat()},x"], 3)):
        process = start([*stored, "--output", "one.csv"])
        _, error = process.communicate("\n".join(part) + "\n", timeout=120)
        assert process.returncode == 0, error
        assert len((folder / "one.csv").read_text().splitlines()) == 1 + rows
    assert main(["streams", "export", "stream", "--state", "state"]) == 0
    exported = list(csv.DictReader(capsys.readouterr().out.splitlines()))
    assert [int(row["value"]) for row in exported] == [*(60 * hour for hour in range(1, 11)), 600, 600]


def test_a_growing_file_is_followed_and_read_again_without_counting_twice(folder: Path) -> None:
    grown = write_events(folder / "grown.csv", 0, 130)
    words = ["grown.csv", *WORDS, "--state", "state", "--follow", "--output", "one.jsonl"]
    process = start(words)
    wait_for(folder / "one.jsonl", 2)
    more = write_events(folder / "more.csv", 130, 310).read_text().split("\n", 1)[1]
    with grown.open("a") as file:
        file.write(more)
    wait_for(folder / "one.jsonl", 5)
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=120)
    assert process.returncode == 130, error
    assert "stopped; released up to 2026-03-01T05:00:00Z" in error
    with grown.open("a") as file:
        file.write(write_events(folder / "more.csv", 310, 430).read_text().split("\n", 1)[1])
    process = start([*words[:-1], "two.jsonl"])
    rows = [json.loads(line) for line in wait_for(folder / "two.jsonl", 2)]
    process.kill()
    process.communicate()
    assert [row["value"] for row in rows[:2]] == [360, 420]


def test_a_silent_pipe_is_interrupted_in_one_line(folder: Path) -> None:
    process = start(["-", "--tick", "1s", "--epsilon", "1", "--state", "state", "--output", "one.csv"])
    wait_for(folder / "one.csv", 2)
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=60) == 130  # its input is still open
    assert process.stdin is not None and process.stderr is not None
    error = process.stderr.read()
    process.stdin.close()
    process.stderr.close()
    assert error.startswith("fadecount: stopped; released up to ") and error.count("\n") == 1


def test_following_needs_times(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "first.csv", "--tick", "1h", "--epsilon", "1", "--follow"]) == 1
    assert "--time must be given with --follow" in capsys.readouterr().err


def test_people_of_an_open_tick_are_not_counted_again_by_a_later_run(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    people = "at,who\n" + "".join(f"2026-03-01T10:00:0{second}Z,ann\n" for second in (1, 2))
    stored = ["--tick", "1h", "--time", "at", "--name", "p", "--state", "state"]
    words = ["-", *stored, "--person", "who", "--epsilon", "50", "--start", "2026-03-01T10:00"]
    for status in (0, 1):
        process = start(words)
        _, error = process.communicate(people, timeout=120)
        assert process.returncode == status, error
    assert error.startswith("fadecount: open tick of stream 'p' holds events of an earlier run") and error.count("\n") == 1
    (folder / "none.csv").write_text("at\n")
    assert main(["run", "none.csv", *stored, "--until", "2026-03-01T11:00"]) == 0
    assert capsys.readouterr().out.splitlines()[-1].split(",")[3] == "1"
