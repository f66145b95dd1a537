"""fadecount doctor: what is well, what is worth a note, and what fails; each in one line."""

from __future__ import annotations

import shutil
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
) -> dict[str, tuple[str, str]]:
    """The verdict and the text of every check, which is one line."""
    assert main(["doctor", *words]) == status
    lines = [line.split(maxsplit=2) for line in capsys.readouterr().out.splitlines()]
    assert any(verdict == "FAILED" for verdict, _, _ in lines) == (status == 1)
    return {name: (verdict, text) for verdict, name, text in lines}


def test_a_healthy_machine(stored: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = findings(capsys, *PLACES)
    assert {name: verdict for name, (verdict, _) in found.items()} == {
        "installation": "ok",
        "store": "ok",
    }
    assert found["store"][1].startswith("1 streams agree with the fence at ")


def test_a_new_machine_has_no_store_yet_and_gets_none(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = sorted(folder.rglob("*"))
    found = findings(capsys, "--state", "nowhere", "--fence", "no-fence")
    assert found["store"][0] == "note" and "there is none" in found["store"][1]
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
    verdict, text = findings(capsys, *PLACES, status=1)["store"]
    assert verdict == "FAILED" and "'pages' does not agree with the fence" in text


def test_a_damaged_store_fails(stored: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (stored / "state" / "streams.db").write_bytes(b"no database at all" * 100)
    assert findings(capsys, *PLACES, status=1)["store"][0] == "FAILED"


def test_a_folder_that_others_may_read_gets_a_note(
    stored: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (stored / "state").chmod(0o755)
    verdict, text = findings(capsys, *PLACES)["store"]
    assert verdict == "note" and "chmod 700" in text


def test_a_clock_behind_the_releases(
    stored: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fadecount.cli.doctor.time.time", lambda: 1_740_000_000.0)
    assert "'pages' is ahead of this clock" in findings(capsys, *PLACES)["store"][1]


def test_noise_that_cannot_be_drawn_fails(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise OSError("no entropy")

    monkeypatch.setattr("fadecount.counters.Counter.step", fails)
    assert findings(capsys, *PLACES, status=1)["installation"] == ("FAILED", "no entropy")


def test_a_missing_extra_is_a_note_with_its_command(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(EXTRAS, "a_package_that_nobody_has", "files")
    _, text = findings(capsys, *PLACES)["installation"]
    assert text.endswith(
        "not installed: files (in a checkout of fadecount: pip install '.[files]')"
    )


def test_a_postgresql_that_is_away_fails_in_one_line(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = findings(
        capsys, "--database", "postgresql://nobody@127.0.0.1:1/none", "--fence", "fence", status=1
    )
    assert found["store"][0] == "FAILED"
