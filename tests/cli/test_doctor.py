"""fadecount doctor: what is well, what is worth a note, and what fails; each in one line."""

from __future__ import annotations

import json
import shutil
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

from fadecount.cli.main import main
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
    assert set(found) == {"installation", "clock", "disk", "store"}
    assert found["store"]["text"].startswith("1 streams agree with the fence at ")


def test_one_line_each(stored: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", *PLACES]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert all(line.split()[0] in ("ok", "note") for line in lines)


def test_a_new_machine_has_no_store_yet_and_gets_none(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = sorted(folder.rglob("*"))
    found = findings(capsys, "--state", "nowhere", "--fence", "no-fence")
    assert found["store"]["verdict"] == "note" and "there is none" in found["store"]["text"]
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
    assert found["store"]["verdict"] == "failed"
    assert "'pages' does not agree with the fence" in found["store"]["text"]
    assert main(["doctor", *PLACES]) == 1
    assert "FAILED  store" in capsys.readouterr().out


def test_a_damaged_store_fails(stored: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (stored / "state" / "streams.db").write_bytes(b"no database at all" * 100)
    assert findings(capsys, *PLACES, status=1)["store"]["verdict"] == "failed"


def test_a_folder_that_others_may_read_gets_a_note(
    stored: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (stored / "state").chmod(0o755)
    found = findings(capsys, *PLACES)
    assert found["disk"]["verdict"] == "note"
    assert "chmod 700" in found["disk"]["text"]


def test_a_full_disk(
    stored: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Usage:
        free = 1 << 20

    monkeypatch.setattr("fadecount.cli.doctor.shutil.disk_usage", lambda _place: Usage)
    assert findings(capsys, *PLACES, status=1)["disk"]["verdict"] == "failed"


@pytest.mark.parametrize("moment", [0.0, 5e9])
def test_a_clock_that_cannot_be_right(
    moment: float, folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fadecount.cli.doctor.time.time", lambda: moment)
    assert findings(capsys, *PLACES, status=1)["clock"]["verdict"] == "failed"


def test_a_clock_behind_the_releases(
    stored: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fadecount.cli.doctor.time.time", lambda: 1_740_000_000.0)
    assert "'pages' is ahead of this clock" in findings(capsys, *PLACES)["store"]["text"]


def test_noise_that_cannot_be_drawn_fails(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise OSError("no entropy")

    monkeypatch.setattr("fadecount.counters.Counter.step", fails)
    assert findings(capsys, *PLACES, status=1)["installation"]["text"] == "no entropy"


def test_a_missing_extra_is_a_note_with_its_command(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from importlib.metadata import version as real

    def version(package: str) -> str:
        if package == "polars":
            raise PackageNotFoundError(package)
        return str(real(package))

    monkeypatch.setattr("fadecount.cli.doctor.version", version)
    found = findings(capsys, *PLACES)["installation"]
    assert found["text"].endswith(
        "not installed: files (in a checkout of fadecount: pip install '.[files]')"
    )


def test_a_postgresql_that_is_away_fails_in_one_line(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = findings(
        capsys, "--database", "postgresql://nobody@127.0.0.1:1/none", "--fence", "fence", status=1
    )
    assert found["store"]["verdict"] == "failed"
    assert "\n" not in found["store"]["text"]
