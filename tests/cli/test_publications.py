"""``fadecount plan FILE.toml``: one table, the loss by age in sentences, JSON and a picture."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from fadecount.cli.main import main
from fadecount.planning import Publication

RIDES = """
title = "Bicycle rides"
zone = "Europe/Vienna"
start = 2026-03-01
unit = { of = "person", each = "1d", max_events = 2 }
delta = 1e-9
[loss]
7d = 2
ever = 4
[measures.rides]
key = "station"
keys = ["north", "south"]
overall = true
per = ["1h", "1d", "1mo"]
[measures.riders]
count = "persons"
per = ["1h", "1d"]
[measures.pages]
count = "persons"
key = "page"
discover = true
[measures.minutes]
sum = "minutes"
max = 120
share = 2
"""


@pytest.fixture
def rides(tmp_path: Path) -> Path:
    file = tmp_path / "rides.toml"
    file.write_text(RIDES)
    return file


def test_the_table_says_what_is_published_when_and_how_exact(
    rides: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plan", str(rides)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[0] == "rides: Bicycle rides"
    rows = [" ".join(line.split()) for line in lines]
    at = rows.index("measure figure after its end half width loss by then")
    assert rows[at + 1 : at + 6] == [
        "rides hour at once ± 83 0.32",
        "day, provisional at once ± 47 2.00",
        "day 6 days 1 hour ± 37 4.00",
        "month 6 days 1 hour ± 37 4.00",
        "so far today at worst ± 371 ± 269",
    ]
    assert rows[at + 6].startswith("rides, overall hour ")
    assert "riders hour, first visits at once ± 18 0.32" in rows
    assert "pages day, hidden keys at once from 59 2.00" in rows
    told = Publication.read(rides).plan().sentences
    assert " ".join(" ".join(told).split()) in " ".join(rows)


def test_running_totals_and_hints_are_in_the_table(
    rides: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    head = 'zone = "UTC"\nstart = 2026-03-01\ntick = "1m"\nunit = { of = "event" }\n'
    rides.write_text(head + "loss = { 1h = 0.5, ever = 4 }\n[measures.visits]\nper = ['1m', '1h']")
    assert main(["plan", str(rides)]) == 0
    assert "it would be ± " in capsys.readouterr().out.splitlines()[-2]
    rides.write_text(head + "loss = { ever = 4 }\n[measures.visits]\nmechanism = 'gradual'")
    assert main(["plan", str(rides)]) == 0
    assert "\nvisits   total   at once " in capsys.readouterr().out


def test_json_is_the_plan(rides: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", str(rides), "--json"]) == 0
    made = Publication.read(rides).plan()
    assert json.loads(capsys.readouterr().out) == json.loads(json.dumps(made.to_json()))


@pytest.mark.parametrize("ending", ["png", "svg"])
def test_a_plan_is_drawn(rides: Path, ending: str) -> None:
    picture = rides.with_suffix(f".{ending}")
    assert main(["plan", str(rides), "--plot", str(picture)]) == 0
    assert len(picture.read_bytes()) > 10_000


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--tick", "1h"], "--tick must be left out with"),
        (["--loss", "1d=1"], "--loss must be left out with"),
        (["--per-person", "1/day"], "--per-person must be left out with"),
        (["--sample", "x.csv"], "--sample must be left out with"),
        (["--save", "x.json"], "--save must be left out with"),
        (["--plot", "x.gif"], "--plot must be a file that ends with .png"),
    ],
)
def test_what_the_file_says_is_no_option(
    rides: Path, words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plan", str(rides), *words]) == 1
    assert capsys.readouterr().err.startswith(f"fadecount: {message}")


def test_a_file_that_is_none_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, message in (
        ("rides.csv", "FILE must be a TOML file, got"),
        ("none.toml", "publication must be a TOML file that can be read, got"),
    ):
        assert main(["plan", str(tmp_path / name)]) == 1
        assert capsys.readouterr().err.startswith(f"fadecount: {message}")


SAMPLES = {
    "rides-2026-03-01.csv": "ride id;card;started_at;stop;n\n17;ann;2026-03-01T10:00;north;250\n",
    "Visits.jsonl": '{"at": "2026-03-01T10:00", "page": "north", "n": 250}\n',
    "2026.csv": "when,station\n2026-03-01T10:00,north\n",
}


@pytest.mark.parametrize("sample", SAMPLES)
@pytest.mark.parametrize("packed", [False, True])
def test_new_writes_a_file_that_plans_and_holds_nothing_of_the_rows(
    sample: str,
    packed: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    given = SAMPLES[sample].encode()
    rows = tmp_path / (sample + ".gz" * packed)
    rows.write_bytes(gzip.compress(given) if packed else given)
    assert main(["new", str(rows)]) == 0
    made = capsys.readouterr().out.split(":")[0]
    assert made == {"rides-2026-03-01.csv": "rides.toml", "Visits.jsonl": "visits.toml"}.get(
        sample, "publication.toml"
    )
    text = Path(made).read_text()
    assert not any(each in text for each in ("ann", "north", "250", "2026-03-01", "17"))
    publication = Publication.read(made)
    assert publication.plan().figures
    if sample.startswith("rides"):
        columns = publication.columns
        assert (columns.time, columns.person, columns.id) == ("started_at", "card", "ride id")
        assert publication.input.separator == ";" and '# key = "stop"' in text
    assert main(["new", str(rows)]) == 1
    assert "--output must be a new file" in capsys.readouterr().err
    assert main(["new", str(rows), "--force", "--output", "other.toml"]) == 0


@pytest.mark.parametrize(
    "content", [b"2026-03-01T10:00,north\n", b"", b"a,a\n", b"{broken\n", b"\xff\xfe\n", b"a,,b\n"]
)
def test_new_needs_names_of_columns(
    content: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = tmp_path / "rides.csv"
    rows.write_bytes(content)
    assert main(["new", str(rows), "--output", str(tmp_path / "rides.toml")]) == 1
    assert capsys.readouterr().err.startswith("fadecount: sample must be")
    assert not (tmp_path / "rides.toml").exists()
