"""fadecount doctor: what is well, what is worth a note, and what fails; each in one line."""

from __future__ import annotations

import json
import shutil
import time
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

from fadecount.cli.main import EXTRAS, main
from tests.cli.test_run import KEYED, STORED, folder, write_events

__all__ = ["folder"]
PLACES = ["--state", "state", "--fence", "fence"]


@pytest.fixture
def stored(folder: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    assert main(["run", "first.csv", *STORED, "--fence", "fence", "--output", "one.csv"]) == 0
    capsys.readouterr()
    return folder


def findings(
    capsys: pytest.CaptureFixture[str], *words: str, status: int = 0
) -> dict[str, dict[str, str]]:
    assert main(["doctor", *words, "--json"]) == status
    answer = json.loads(capsys.readouterr().out)
    assert answer["ok"] is (status == 0)
    return {each["name"]: each for each in answer["checks"]}


def test_a_healthy_machine(stored: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = findings(capsys, *PLACES)
    assert {name for name, each in found.items() if each["verdict"] == "failed"} == set()
    assert {
        "installation",
        "randomness",
        "clock",
        "settings",
        "disk of the store",
        "store",
        "disk of the fence",
        "fence",
    } <= set(found)
    assert found["store"]["text"].endswith("opens; streams: 1")
    assert "agrees with the store" in found["fence"]["text"]
    assert {f"extra {extra}" for extra in EXTRAS.values()} <= set(found)
    assert sorted(path.name for path in stored.rglob(".doctor-*")) == []


def test_one_line_each(stored: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", *PLACES]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert all(line.split()[0] in ("ok", "note") for line in lines)


def test_a_new_machine_has_no_store_yet_and_gets_none(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = sorted(folder.rglob("*"))
    found = findings(capsys, "--state", "nowhere", "--fence", "no-fence")
    assert {
        found[name]["verdict"] for name in ("disk of the store", "store", "disk of the fence")
    } == {"note"}
    assert "fence" not in found
    assert sorted(folder.rglob("*")) == before


def test_an_old_backup_is_found(stored: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree("state", "old")
    write_events(stored / "more.csv", 600, 700)
    assert main(["run", "more.csv", *KEYED, *PLACES, "--name", "pages", "--output", "two.csv"]) == 0
    write_events(stored / "more.csv", 700, 900)
    assert (
        main(["run", "more.csv", *KEYED, *PLACES, "--name", "pages", "--output", "three.csv"]) == 0
    )
    shutil.rmtree("state")
    shutil.move("old", "state")
    capsys.readouterr()
    found = findings(capsys, *PLACES, status=1)
    assert found["fence"]["verdict"] == "failed"
    assert "'pages' does not agree with the fence" in found["fence"]["text"]
    assert main(["doctor", *PLACES]) == 1
    assert "FAILED  fence" in capsys.readouterr().out


def test_a_damaged_store_fails(stored: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (stored / "state" / "streams.db").write_bytes(b"no database at all" * 100)
    assert findings(capsys, *PLACES, status=1)["store"]["verdict"] == "failed"


def test_wrong_settings_fail(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FADECOUNT_PORT", "http")
    found = findings(capsys, *PLACES, status=1)
    assert "FADECOUNT_PORT must be a whole number" in found["settings"]["text"]
    assert "store" not in found


def test_a_folder_that_others_may_read_gets_a_note(
    stored: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (stored / "state").chmod(0o755)
    found = findings(capsys, *PLACES)
    assert found["disk of the store"]["verdict"] == "note"
    assert "chmod 700" in found["disk of the store"]["text"]


def test_a_full_disk(
    stored: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Usage:
        free = 1 << 20

    monkeypatch.setattr("fadecount.cli.doctor.shutil.disk_usage", lambda _place: Usage)
    assert findings(capsys, *PLACES, status=1)["disk of the store"]["verdict"] == "failed"


@pytest.mark.parametrize("moment", [0.0, 5e9, 4e11])
def test_a_clock_that_cannot_be_right(
    moment: float, folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fadecount.cli.doctor.time.time", lambda: moment)
    assert findings(capsys, *PLACES, status=1)["clock"]["verdict"] == "failed"


def test_a_clock_that_jumps(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    real, asked = time.time, []

    def jumping() -> float:
        asked.append(1)
        return real() + 100.0 * len(asked)

    monkeypatch.setattr("fadecount.cli.doctor.time.time", jumping)
    assert "jumped" in findings(capsys, *PLACES, status=1)["clock"]["text"]


def test_a_clock_behind_the_releases(
    stored: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fadecount.cli.doctor.time.time", lambda: 1_740_000_000.0)
    found = findings(capsys, *PLACES)
    assert "'pages' has released" in found["ticks and clock"]["text"]


def test_repeated_random_bytes_fail(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fadecount.noise.unpredictable", lambda count: bytes(range(count)))
    assert findings(capsys, *PLACES, status=1)["randomness"]["verdict"] == "failed"


def test_a_missing_extra_is_a_note_with_its_command(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from importlib.metadata import version as real

    def version(package: str) -> str:
        if package == "polars":
            raise PackageNotFoundError(package)
        return str(real(package))

    monkeypatch.setattr("fadecount.cli.doctor.version", version)
    found = findings(capsys, *PLACES)["extra files"]
    assert (found["verdict"], found["text"]) == (
        "note",
        "not installed: polars; in a checkout of fadecount: pip install '.[files]'",
    )


def test_a_postgresql_that_is_away_fails_in_one_line(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = findings(
        capsys, "--database", "postgresql://nobody@127.0.0.1:1/none", "--fence", "fence", status=1
    )
    assert found["store"]["verdict"] == "failed"
    assert "\n" not in found["store"]["text"]
