"""A publication from its file to its figures: created once, and fed by runs."""

from __future__ import annotations

import csv
import shutil
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

import fadecount as fc
from fadecount.cli.main import main
from fadecount.errors import ParameterError
from fadecount.planning import Publication
from fadecount.publication_runs import require_same, run
from fadecount.service.writer import Leader
from fadecount.sources import Gate
from fadecount.streams import Reader, Store
from fadecount.streams.storage import Storage, open_reader, open_store
from tests.service.harness import StillClock
from tests.sources.messy import rows_of
from tests.sources.plain_rule import Plain
from tests.streams.backends import SQLiteBackend
from tests.streams.publications import (
    NoNoise,
    added_of,
    appeared,
    described,
    hidden_of,
    published,
)
from tests.streams.test_publications import messy

EXACT = fc.Blocks(fc.Level(1, 50.0))
VIENNA = ZoneInfo("Europe/Vienna")
RIDES = """
title = "Bicycle rides"
zone = "Europe/Vienna"
start = 2026-03-28
unit = { of = "person", each = "1d", max_events = 2 }
columns = { time = "at", person = "card", id = "ride" }
[loss]
ever = 1e5
[measures.rides]
key = "station"
keys = ["north", "south"]
overall = true
per = ["1h", "1d"]
[measures.riders]
count = "persons"
[measures.minutes]
sum = "minutes"
max = 60
"""
"""With so large a loss, figures are the true counts."""
HEAD = "at,card,ride,station,minutes"
FIRST = [
    "2026-03-28T08:10,ann,1,north,10",
    "2026-03-28T08:10,ann,1,north,10",  # the same row again
    "2026-03-28T09:10,bob,2,south,50",
    "2026-03-28T10:10,ann,3,zoo,55",  # a key of no list; 50 of its minutes are left
    "2026-03-28T11:10,ann,4,north,1",  # beyond the cap
]
SECOND = [
    "2026-03-29T01:10,bob,5,north,5",  # the clock is put forward that night
    "2026-03-29T23:50,bob,6,north,7",
    "2026-03-29T12:00,cid,7,south,",  # no amount
]
OVERALL = {"rides": [3, 3], "riders": [2, 2], "minutes": [110, 12]}
"""What is published of both days, all keys together."""


def at(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=VIENNA).timestamp()


NOW = at("2026-03-30T08:00")


@pytest.fixture
def rides(tmp_path: Path) -> Path:
    path = tmp_path / "rides.toml"
    path.write_text(RIDES)
    return path


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Storage:
    folder = tmp_path / "state"
    monkeypatch.setenv("FADECOUNT_STATE", str(folder))
    monkeypatch.setenv("FADECOUNT_FENCE", str(tmp_path / "fence"))
    return Storage(folder=folder, fence=tmp_path / "fence")


def rows(path: Path, given: Sequence[str]) -> Path:
    path.write_text("\n".join([HEAD, *given]) + "\n")
    return path


def daily(reader: Reader) -> dict[str, list[int]]:
    found = {}
    for name in OVERALL:
        part = reader.series("rides", name, "overall" if name == "rides" else "keys")
        found[name] = part.figures("1d", whole=True).values[:, 0].tolist()
    return found


def released(reader: Reader) -> str:
    status = reader.status("rides")
    return status.description.ticks.local(status.published_tick + 1)


# The nightly job
# ------------------------------------------------------------------------------------------------
def test_two_nights_are_one_command_each(
    rides: Path, state: Storage, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["create", str(rides)]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith(f"rides: created in {state.store_path}, begins 2026-03-28T00:00")
    assert "one person's day, at most 2 events, loses at most ε = 1" in line
    nights = (("2026-03-29", FIRST, "2 of 5 rows"), ("2026-03-30", SECOND, "0 of 3 rows"))
    for until, given, left_out in nights:
        file = rows(tmp_path / f"{until}.csv", given)
        assert main(["run", str(rides), str(file), "--until", until]) == 0
        (line,) = capsys.readouterr().out.splitlines()
        assert line.startswith(f"rides: published up to {until}T00:00")
        assert f"; {left_out} left out; one person's day" in line
        assert main(["run", str(rides), str(file), "--until", until]) == 0
        (line,) = capsys.readouterr().out.splitlines()
        assert line.startswith("rides: nothing to do, everything is published up to ")
    with open_reader(state) as reader:
        assert daily(reader) == OVERALL
        keys = reader.series("rides", "rides").figures("1d", whole=True).values.tolist()
        assert keys == [[1, 1], [2, 1]], "zoo counts overall only"
        hours = reader.series("rides", "rides").figures("1h", whole=True)
        assert len(hours) == 24 + 23
        assert int(hours.values.sum()) == 5


def test_what_is_said_is_chosen(
    rides: Path, state: Storage, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = str(rows(tmp_path / "a.csv", FIRST))
    assert main(["create", str(rides)]) == 0
    capsys.readouterr()
    run_ = ["run", str(rides), file, "--until"]
    assert main([*run_, "2026-03-28T10:00", "--quiet"]) == 0
    assert capsys.readouterr() == ("", "")
    assert main([*run_, "2026-03-29", "--verbose"]) == 0
    assert capsys.readouterr().err.startswith("fadecount: 5 rows read\nfadecount: 3 rows left out:")


def test_the_last_midnight_is_the_default(rides: Path, state: Storage, tmp_path: Path) -> None:
    """Of the zone; several files in any order are one input."""
    files = [rows(tmp_path / "b.csv", SECOND), rows(tmp_path / "a.csv", FIRST)]
    publication = Publication.read(rides)
    with open_store(state) as store:
        store.create(publication)
    with open_store(state) as store:
        done = run(files, publication, store, clock=lambda: NOW)
        assert len(done.released) == 24 + 23
        assert daily(store.reader()) == OVERALL
        assert released(store.reader()).startswith("2026-03-30T00:00")
        assert done.report.rows_read == 8


@pytest.mark.parametrize("hour", ["09:00", "10:00", "11:00"])
def test_caps_hold_over_runs_of_one_day(
    hour: str, rides: Path, state: Storage, tmp_path: Path
) -> None:
    """What was counted of a person before is passed on, wherever the day is cut."""
    publication = Publication.read(rides)
    file = rows(tmp_path / "a.csv", FIRST)
    with open_store(state) as store:
        store.create(publication)
    for until in (f"2026-03-28T{hour}", "2026-03-29T00:00"):
        with open_store(state) as store:
            run(file, publication, store, until=until, clock=lambda: NOW)
    with open_reader(state) as reader:
        assert daily(reader) == {name: each[:1] for name, each in OVERALL.items()}


def test_a_stopped_run_is_repeated(
    rides: Path, state: Storage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It goes on with the first day that is not closed."""
    publication = Publication.read(rides)
    files = [rows(tmp_path / "a.csv", FIRST), rows(tmp_path / "b.csv", SECOND)]

    def stopping(store: Store) -> None:
        run(files, publication, store, clock=lambda: NOW)

    with open_store(state) as store:
        store.create(publication)
    with open_store(state) as store:
        points: list[str] = []

        def checkpoint(name: str) -> None:
            points.append(name)
            if points.count("before commit") == 2:
                raise KeyboardInterrupt

        monkeypatch.setattr(store._context, "checkpoint", checkpoint)
        with pytest.raises(KeyboardInterrupt):
            stopping(store)
    with open_store(state) as store:
        assert released(store.reader()).startswith("2026-03-29T00:00")
        stopping(store)
        assert daily(store.reader()) == OVERALL


def test_single_events_have_ids(tmp_path: Path, state: Storage) -> None:
    """Rows of one id on a day are one event, over two runs too; and a row may stand for several."""
    path = tmp_path / "rides.toml"
    head = 'zone = "Europe/Vienna"\nstart = 2026-03-28\nunit = { of = "event" }\n'
    body = "[loss]\never = 1e5\n[measures.rides]\n"
    file = rows(tmp_path / "a.csv", [*FIRST, "2026-03-28T12:10,dan,1,north,1"])
    for name, column in (("ids", 'id = "ride"'), ("counts", 'count = "minutes"')):
        path.write_text(f'name = "{name}"\n{head}columns = {{ time = "at", {column} }}\n{body}')
        assert main(["create", str(path)]) == 0
        for until in ("2026-03-28T09:00", "2026-03-29"):
            assert main(["run", str(path), str(file), "--until", until]) == 0
    with open_reader(state) as reader:
        for name, truth in (("ids", 4), ("counts", 127)):
            days = reader.series(name, "rides").figures("1d", whole=True)
            assert days.values.tolist() == [[truth]]


@pytest.mark.parametrize("seed", range(12))
def test_messy_files_of_some_nights_count_as_the_plain_rule_says(tmp_path: Path, seed: int) -> None:
    """Every night has all rows so far, in several files in any order; wherever nights end."""
    chance, publication = messy(700 + seed)
    description = described(publication, EXACT)
    given = list(rows_of(chance, 150))
    files = [tmp_path / f"{number}.csv" for number in range(3)]
    for number, file in enumerate(files):
        with file.open("w", encoding="utf-8", newline="") as out:
            writer = csv.DictWriter(out, [*given[0]])
            writer.writeheader()
            writer.writerows(given[number::3])
    backend, shown = SQLiteBackend(tmp_path), description.ticks
    with backend.open(noise=NoNoise()) as store:  # type: ignore[arg-type]
        begin = store.create(description).open_tick
    end = begin + (40 if publication.tick == "1d" else 24 * 40)
    for until in (*sorted(chance.sample(range(begin + 1, end), 3)), end):
        chance.shuffle(files)
        with backend.open(noise=NoNoise()) as store:  # type: ignore[arg-type]
            at_ = datetime.fromtimestamp(shown.start_seconds(until), ZoneInfo(publication.zone))
            loose = Gate(max_left_out=1, allow_gap=True)
            done = run(files, publication, store, until=at_, gate=loose)
            assert done.released.stop == until
    wanted = Plain(publication, first=begin, end=end)
    counts = wanted.count(given, by_time=True)
    with backend.reader() as reader:
        assert published(reader, description) == added_of(counts)
        assert appeared(reader, description, wanted) == hidden_of(counts)


# Refused, and nothing changes
# ------------------------------------------------------------------------------------------------
def test_a_store_without_the_publication_is_not_made(
    rides: Path,
    state: Storage,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Another HOME, and a store that has others."""
    file = str(rows(tmp_path / "a.csv", FIRST))
    monkeypatch.delenv("FADECOUNT_STATE")
    monkeypatch.setenv("HOME", str(tmp_path / "one"))
    assert main(["create", str(rides)]) == 0
    monkeypatch.setenv("HOME", str(tmp_path / "two"))
    capsys.readouterr()
    assert main(["run", str(rides), file, "--until", "2026-03-29"]) == 1
    store = tmp_path / "two" / ".local/share/fadecount/streams.db"
    assert capsys.readouterr().err == (
        f"fadecount: publication 'rides' must be in the store, {store}, got none of that name;"
        f" create it there with: fadecount create {rides}\n"
    )
    assert not (tmp_path / "two").exists()
    other = tmp_path / "other.toml"
    shutil.copy(rides, other)
    monkeypatch.setenv("HOME", str(tmp_path / "one"))
    assert main(["run", str(other), file, "--until", "2026-03-29"]) == 1
    assert "publication 'other' must be in the store" in capsys.readouterr().err
    assert main(["create", str(rides)]) == 1
    assert "must be new in this store" in capsys.readouterr().err
    assert main(["run", str(rides), file, "--until", "2026-03-29"]) == 0


EDITS = [
    ('zone = "Europe/Vienna"', 'zone = "UTC"', "zone is fixed: 'rides' was created with 'Europe/V"),
    (
        "max_events = 2",
        "max_events = 3",
        "unit.max_events is fixed: 'rides' was created with 2, go",
    ),
    (
        "ever = 1e5",
        "ever = 1e5\n7d = 1e4",
        "loss.7d is fixed: 'rides' was created with nothing, go",
    ),
    (
        '"north", "south"',
        '"south", "north"',
        "measures.rides.keys[0] is fixed: 'rides' was created",
    ),
    (
        '"south"]',
        '"south", "zoo"]',
        "measures.rides.keys[2] is fixed: 'rides' was created with not",
    ),
    ("max = 60", "max = 90", "measures.minutes.max is fixed: 'rides' was created with 60, got 90;"),
    ('[measures.riders]\ncount = "persons"', "", "measures.riders is fixed: 'rides' was created"),
    ("[loss]", 'feed = "live"\n[loss]', "feed is fixed: 'rides' was created with nothing, got 'l"),
]


@pytest.mark.parametrize(("old", "new", "message"), EDITS)
def test_what_is_fixed_and_was_edited_is_refused(
    old: str,
    new: str,
    message: str,
    rides: Path,
    state: Storage,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = str(rows(tmp_path / "a.csv", FIRST))
    assert main(["create", str(rides)]) == 0
    assert old in RIDES
    rides.write_text(RIDES.replace(old, new))
    capsys.readouterr()
    assert main(["run", str(rides), file, "--until", "2026-03-29"]) == 1
    error = capsys.readouterr().err
    assert error.startswith(f"fadecount: {message}")
    assert error.count("\n") == 1
    with open_reader(state) as reader:
        assert reader.status("rides").published_steps == 0


def test_what_is_free_may_be_edited(rides: Path, state: Storage, tmp_path: Path) -> None:
    """Rows are then read as the file says now."""
    assert main(["create", str(rides)]) == 0
    file = rows(tmp_path / "a.csv", FIRST)
    file.write_text(file.read_text().replace(",", ";"))
    edited = RIDES.replace("Bicycle rides", "Bikes").replace(
        "[measures.riders]", '[measures.rides.labels]\nnorth = "North gate"\n[measures.riders]'
    )
    rides.write_text(edited + '[input]\nseparator = ";"\n')
    assert main(["run", str(rides), str(file), "--until", "2026-03-29"]) == 0
    with open_reader(state) as reader:
        assert daily(reader) == {name: each[:1] for name, each in OVERALL.items()}


def test_measures_may_stand_in_another_order(rides: Path) -> None:
    publication = Publication.read(rides)
    head, *measures = RIDES.split("[measures.")
    rides.write_text("[measures.".join([head, *reversed(measures)]))
    other = Publication.read(rides)
    assert [each.name for each in other.measures] == ["minutes", "riders", "rides"]
    require_same(other, publication)
    with pytest.raises(ParameterError, match=r"^measures.rides is fixed: .* got nothing"):
        rides.write_text("[measures.".join([head, measures[1]]))
        require_same(Publication.read(rides), publication)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--until", "9000-01-01"], "--until must be at most "),
        (["--until", "yesterday"], "--until must be a time in ISO 8601"),
        (["--until", "2026-03-29", "--tick", "1h"], "--tick must be left out with "),
        (["--until", "2026-03-29", "--follow"], "--follow must be left out with "),
        (["--until", "2026-04-30"], "events must go on where the stream ends, 2026-03-29T00:00"),
        (["none.csv", "--until", "2026-03-30"], "none.csv cannot be read"),
        (["bad.csv", "--until", "2026-03-30"], "bad.csv: the column 'minutes' is not among"),
    ],
)
def test_what_cannot_be_run_changes_nothing(
    words: list[str],
    message: str,
    rides: Path,
    state: Storage,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("bad.csv").write_text("at,card,station\n")
    file = rows(tmp_path / "a.csv", FIRST)
    assert main(["create", str(rides)]) == 0
    assert main(["run", str(rides), str(file), "--until", "2026-03-29"]) == 0
    capsys.readouterr()
    assert main(["run", str(rides), str(file), *words]) == 1
    error = capsys.readouterr().err
    assert error.startswith(f"fadecount: {message}"), error
    with open_reader(state) as reader:
        assert released(reader).startswith("2026-03-29T00:00")


def test_rows_must_be_given(
    rides: Path, state: Storage, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", str(rides)]) == 1
    assert "INPUT must be files of rows behind" in capsys.readouterr().err
    assert main(["create", "rides.csv"]) == 1
    assert capsys.readouterr().err.startswith("fadecount: FILE must be a TOML file")


def test_what_cannot_be_planned_makes_no_store(
    rides: Path, state: Storage, capsys: pytest.CaptureFixture[str]
) -> None:
    rides.write_text(RIDES.replace("ever = 1e5", "ever = 1e-5"))
    assert main(["create", str(rides)]) == 1
    assert capsys.readouterr().err.count("\n") == 1
    assert not state.folder.exists()


def test_a_stream_is_no_publication(
    rides: Path, state: Storage, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = str(rows(tmp_path / "rides.csv", FIRST))
    made = ["--tick", "1h", "--time", "at", "--epsilon", "1", "--start", "2026-03-28"]
    until = ["--until", "2026-03-29"]
    assert main(["run", file, *made, *until, "--output", str(tmp_path / "out.csv")]) == 0
    capsys.readouterr()
    assert main(["run", str(rides), file, *until]) == 1
    assert "'rides' must be a publication, got a stream" in capsys.readouterr().err


def test_a_live_publication_is_not_fed_by_files(
    rides: Path, state: Storage, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rides.write_text(RIDES.replace("[loss]", 'feed = "live"\n[loss]'))
    assert main(["create", str(rides)]) == 0
    file = str(rows(tmp_path / "a.csv", FIRST))
    assert main(["run", str(rides), file, "--until", "2026-03-29"]) == 1
    assert "feed must be 'files' for a run, got 'live'" in capsys.readouterr().err


def test_the_service_leaves_files_to_runs(rides: Path, state: Storage, tmp_path: Path) -> None:
    """It does not close nights that are not counted yet."""
    assert main(["create", str(rides)]) == 0
    leader = Leader(open_store(state), StillClock(NOW))
    leader.take_over()
    leader.close_due(NOW)
    leader.close()
    file = str(rows(tmp_path / "a.csv", FIRST))
    assert main(["run", str(rides), file, "--until", "2026-03-29"]) == 0
    with open_reader(state) as reader:
        assert daily(reader) == {name: each[:1] for name, each in OVERALL.items()}


# Export
# ------------------------------------------------------------------------------------------------
FILES = ["minutes.1d.csv", "riders.1d.csv", "rides.1d.csv", "rides.1h.csv"]
FILES += ["rides.overall.1d.csv", "rides.overall.1h.csv"]


def test_every_measure_part_and_length_has_a_file(
    rides: Path, state: Storage, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "public" / "rides"
    assert main(["create", str(rides)]) == 0
    assert main(["export", "rides", str(out)]) == 0
    header = "stream,start,end,key,value,low,high,status,partial,published\n"
    assert sorted(each.name for each in out.iterdir()) == FILES
    assert {each.read_text() for each in out.iterdir()} == {header}, "nothing is published yet"
    files = [str(rows(tmp_path / "a.csv", FIRST)), str(rows(tmp_path / "b.csv", SECOND))]
    assert main(["run", str(rides), *files, "--until", "2026-03-30", "--export", str(out)]) == 0
    assert sorted(each.name for each in out.iterdir()) == FILES
    first, *days = (out / "rides.1d.csv").read_text().splitlines()
    assert first + "\n" == header
    assert [line.split(",")[3:5] for line in days] == [
        ["north", "1"],
        ["south", "1"],
        ["north", "2"],
        ["south", "1"],
    ]
    assert days[2].startswith("rides,2026-03-29T00:00:00+01:00,2026-03-30T00:00:00+02:00,north,2,")
    (out / "rides.1d.csv").unlink()  # as after an interruption
    assert main(["run", str(rides), *files, "--until", "2026-03-30", "--export", str(out)]) == 0
    assert (out / "rides.1d.csv").read_text().splitlines() == [first, *days]
    capsys.readouterr()
    assert main(["export", "rides", str(tmp_path / "a.csv")]) == 1
    assert capsys.readouterr().err.startswith(f"fadecount: output to {tmp_path / 'a.csv'} failed:")
    assert main(["export", "other", str(out)]) == 1
    assert capsys.readouterr().err.count("\n") == 1


def test_measures_of_one_name_are_one_series(tmp_path: Path, state: Storage) -> None:
    path = tmp_path / "rides.toml"
    path.write_text(
        'zone = "Europe/Vienna"\nstart = 2026-03-28\nunit = { of = "event" }\n'
        'columns = { time = "at" }\n[loss]\never = 1e5\n'
        "[[measures.all]]\nuntil = 2026-03-29\n"
        '[[measures.all]]\nstart = 2026-03-29\nsum = "minutes"\nmax = 90\n'
    )
    files = [str(rows(tmp_path / "a.csv", FIRST)), str(rows(tmp_path / "b.csv", SECOND))]
    assert main(["create", str(path)]) == 0
    out = tmp_path / "out"
    assert main(["run", str(path), *files, "--until", "2026-03-30", "--export", str(out)]) == 0
    (file,) = out.iterdir()
    assert file.name == "all.1d.csv"
    _, *days = file.read_text().splitlines()
    assert [line.split(",")[4] for line in days] == ["5", "12"]


def test_a_running_total_is_exported(tmp_path: Path, state: Storage) -> None:
    path = tmp_path / "rides.toml"
    path.write_text(
        'zone = "Europe/Vienna"\nstart = 2026-03-28\nunit = { of = "event" }\n'
        'columns = { time = "at" }\n[loss]\never = 1e5\n[measures.all]\nmechanism = "gradual"\n'
    )
    file = rows(tmp_path / "a.csv", FIRST)
    assert main(["create", str(path)]) == 0
    assert main(["run", str(path), str(file), "--until", "2026-03-29"]) == 0
    assert main(["export", "rides", str(tmp_path / "out")]) == 0
    lines = (tmp_path / "out" / "all.total.csv").read_text().splitlines()
    assert len(lines) == 1 + 24
    assert lines[-1].split(",")[3:5] == ["all", "5"]
