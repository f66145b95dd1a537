"""Keys that appear by themselves through runs: files with and without polars, frames, pipes, runs
that end inside a day, and what is exported."""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import fadecount as fc
from fadecount.cli.main import main
from fadecount.errors import ParameterError
from fadecount.runs import Run, run
from fadecount.sources import SourceOptions, files
from fadecount.sources.visits import PER_ADDRESS, visitor_of
from fadecount.streams import FileFence, SQLiteStore, Store
from fadecount.streams.discovery import HiddenKeys

BEGIN = datetime(2026, 3, 1, tzinfo=UTC)
SHARP = fc.Discovery("1d", ((0, 30.0), (30, 60.0)), 1e-9)
"""So little noise that none is ever seen; every key appears that two persons brought."""
EXACT = fc.Blocks(fc.Level(1, 30.0), fc.Level(24, 30.0))


def options(**changes: Any) -> SourceOptions:
    given = {"tick": "1h", "time": "at", "key": "page", "person": "who", "person_per": "1d"}
    discover = "keys" not in changes
    return SourceOptions(**{**given, "discover": discover, "format": "csv", **changes})


def rows(days: int = 3) -> list[tuple[str, str, str]]:
    """Persons in any order, some of them with many pages: the first ones of a day count."""
    found = []
    for number in range(days * 120):
        at = BEGIN + timedelta(minutes=12 * number)
        page = ("/a", "/b é", "home", "/lone" if number % 120 == 7 else "/c", "/a")[number % 5]
        found.append((at.isoformat(), page, f"person {number * 7 % 31}"))
    return [*found, (BEGIN.isoformat(), "", "x"), (BEGIN.isoformat(), "y" * 201, "x")]


def written(path: Path, days: int = 3) -> Path:
    with path.open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([("at", "page", "who"), *rows(days)])
    return path


def expected(keys: int, declared: tuple[str, ...] = ()) -> Counter[tuple[str, str]]:
    """By the definition: persons of a day under each hidden page, of the first so many pages."""
    pages: dict[tuple[str, str], list[str]] = {}
    for at, page, person in rows():
        own = pages.setdefault((at[:10], person), [])
        if page not in own and len(own) < keys and 0 < len(page) <= 200:
            own.append(page)
    found = Counter((day, page) for (day, _), own in pages.items() for page in own)
    return Counter(
        {place: count for place, count in found.items() if place[1] not in declared and count > 1}
    )


def shown(under_way: Run) -> Counter[tuple[str, str]]:
    for _ in under_way:
        pass
    table = under_way.published.discovered()
    days = [f"{datetime.fromtimestamp(start, UTC):%Y-%m-%d}" for start in table["start"].tolist()]
    return Counter(
        dict(zip(zip(days, table["key"], strict=True), table["value"].tolist(), strict=True))
    )


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with SQLiteStore(tmp_path / "state" / "s.db", fence=FileFence(tmp_path / "fence")) as opened:
        yield opened


SPAN: dict[str, Any] = {"start": BEGIN, "until": BEGIN + timedelta(days=3)}


@pytest.mark.parametrize("keys", [1, 3])
@pytest.mark.parametrize("polars", [True, False])
def test_a_file_by_either_reader(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keys: int, polars: bool
) -> None:
    monkeypatch.setattr(files, "SMALL_BYTES", 0 if polars else 1 << 30)
    discovery = fc.Discovery("1d", SHARP.stages, 1e-9, keys)
    under_way = run(
        written(tmp_path / "visits.csv"),
        options(keys_per_person=keys),
        mechanism=EXACT,
        discovery=discovery,
        **SPAN,
    )
    assert shown(under_way) == expected(keys)
    assert under_way.report.rows_skipped == 2, "an empty key and one that is too long"


def test_declared_keys_and_other_beside_them(tmp_path: Path, store: Store) -> None:
    chosen = options(keys=("home", "other"), other="other", discover=True)
    kept, once = (
        run(
            written(tmp_path / "visits.csv"),
            chosen,
            mechanism=EXACT,
            discovery=SHARP,
            store=place,
            **SPAN,
        )
        for place in (store, None)
    )
    found = expected(1, ("home",))
    assert shown(kept) == shown(once) == found
    for each in (kept, once):
        days = each.published.figures("1d").values
        assert days[:, 1].sum() >= sum(found.values()), "hidden keys count there too"
        assert days.sum() == 3 * 31


def test_a_sample_bounds_what_can_appear_with_and_without_a_store(
    tmp_path: Path, store: Store
) -> None:
    path, hidden = written(tmp_path / "visits.csv"), HiddenKeys(discovery=SHARP, sample=1e-9)
    for place in (store, None):
        assert not shown(
            run(path, options(), mechanism=EXACT, discovery=hidden, store=place, **SPAN)
        )


@pytest.mark.parametrize("keys", [1, 3])
def test_runs_that_end_inside_a_day(tmp_path: Path, store: Store, keys: int) -> None:
    """What of persons and keys counted so far is noted: the day is as if it were one file."""
    lines = written(tmp_path / "visits.csv").read_text().splitlines(keepends=True)
    chosen, discovery = options(keys_per_person=keys), fc.Discovery("1d", SHARP.stages, 1e-9, keys)
    for part, end in ((slice(1, 51), 10), (slice(51, 151), 30), (slice(151, None), 72)):
        text = "".join([lines[0], *lines[part]]).encode()
        given: dict[str, Any] = {"mechanism": EXACT, "discovery": discovery} if end == 10 else {}
        under_way = run(
            io.BytesIO(text),
            chosen,
            store=store,
            start=BEGIN if end == 10 else None,
            until=BEGIN + timedelta(hours=end),
            **given,
        )
        found = shown(under_way)
    assert found == expected(keys)


@pytest.mark.parametrize("live", [False, True])
def test_visitors_of_an_address_in_several_runs_on_a_log(store: Store, live: bool) -> None:
    """Few of them count under a page: as many as by the definition."""
    line = '192.0.2.{} - - [01/Mar/2026:{:02}:30:00 +0000] "GET {} HTTP/1.1" 200 7 "-" "A/{}"\n'
    sent = [(at // 8, at % 3, ("/a", "/b", "/c")[at % 5 % 3], at % 16) for at in range(190)]
    seen: dict[str | None, list[str]] = {}
    crowds: Counter[tuple[int, str]] = Counter()
    for _, address, page, agent in sent:
        own = seen.setdefault(visitor_of(f"192.0.2.{address}", f"A/{agent}"), [])
        if page not in own and len(own) < 2:
            own.append(page)
            crowds[address, page] += 1
    assert max(crowds.values()) > PER_ADDRESS
    wanted: Counter[tuple[str, str]] = Counter()
    for (_, page), visitors in crowds.items():
        wanted["2026-03-01", page] += min(visitors, PER_ADDRESS)

    time = None if live else "time"
    chosen = options(format="log", time=time, person="visitor", keys_per_person=2)
    discovery = fc.Discovery("1d", SHARP.stages, 1e-9, 2)
    given: dict[str, Any] = {"mechanism": EXACT, "discovery": discovery}
    for begin, end in ((0, 4), (4, 11), (11, 24)):
        some = [each for each in sent if begin <= each[0] < end]
        log = "".join(line.format(who, hour, page, agent) for hour, who, page, agent in some)
        now = BEGIN.timestamp() + end * 3600 - 1
        where: dict[str, Any] = {"clock": lambda now=now: now}
        if not live:
            where = {"start": BEGIN, "until": BEGIN + timedelta(hours=end)}
        under_way = run(io.BytesIO(log.encode()), chosen, store=store, **where, **given)
        list(under_way)
    if live:
        store.open("counts").close_due(BEGIN.timestamp() + 24 * 3600)
    assert shown(under_way) == wanted


def test_a_frame_in_and_a_frame_out() -> None:
    frame = pl.DataFrame(rows(), schema=["at", "page", "who"], orient="row")
    days = fc.count(frame, options(), mechanism=EXACT, discovery=SHARP, **SPAN)
    assert isinstance(days, pl.DataFrame)
    found = expected(1)
    assert len(days) == len(found) and days["value"].sum() == found.total()
    assert days["key"].to_list()[:3] == ["/a", "/b é", "/c"]
    lag = (days["appeared"] - days["start"]).dt.total_hours().unique()
    assert lag.to_list() == [24]


def test_without_a_range_it_is_that_of_the_events(tmp_path: Path) -> None:
    """All of them hidden."""
    under_way = run(written(tmp_path / "visits.csv"), options(), mechanism=EXACT, discovery=SHARP)
    assert under_way.ticks_expected == 55, "the last row that counts is in the last hour"
    days = {place: count for place, count in expected(1).items() if place[0] < "2026-03-03"}
    assert shown(under_way) == days, "the third day is not over"


def test_a_live_pipe_of_persons(store: Store) -> None:
    """Its keys appear with the end of the day, which comes after the end of the pipe."""
    lines = "".join(["page,who\n", *(f"/p{at % 2},w{at % 10}\n" for at in range(30))])
    under_way = run(
        io.BytesIO(lines.encode()),
        options(time=None),
        store=store,
        mechanism=EXACT,
        discovery=SHARP,
        clock=lambda: BEGIN.timestamp() + 23.5 * 3600,
    )
    assert not list(under_way), "the last hour of a day is open"
    store.open("counts").close_due(BEGIN.timestamp() + 24 * 3600)
    table = under_way.published.discovered()
    assert (table["key"].tolist(), table["value"].tolist()) == (["/p0", "/p1"], [5, 5])


class TestRefusals:
    def test_options_and_stream_must_agree(self, tmp_path: Path, store: Store) -> None:
        path = written(tmp_path / "visits.csv")
        with pytest.raises(ParameterError, match="discover must be given, as for the stream"):
            run(path, options(keys=("a",)), mechanism=EXACT, discovery=SHARP, **SPAN)
        with pytest.raises(ParameterError, match="discover must be left out"):
            run(path, options(), mechanism=EXACT, **SPAN)
        with pytest.raises(ParameterError, match="discover must be left out"):
            run(path, options(), store=store, mechanism=EXACT, **SPAN)
        assert not store.names(), "nothing was created"
        with pytest.raises(ParameterError, match="would publish it"):
            run(path, options(person=None), mechanism=EXACT, discovery=SHARP, **SPAN)
        hidden = HiddenKeys(discovery=SHARP, other="home")
        declared = options(keys=("home",), other="home", discover=True)
        run(path, declared, store=store, name="s", mechanism=EXACT, discovery=hidden, **SPAN)
        with pytest.raises(ParameterError, match="other must be home"):
            run(path, options(keys=("home", "new"), discover=True), store=store, name="s")
        assert store.reader().keys("s") == ("home",), "no key was declared"
        with pytest.raises(ParameterError, match="discover must be given, as for the stream"):
            run(path, options(keys=("home",)), store=store, name="s")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "user"))
    monkeypatch.chdir(tmp_path)
    written(tmp_path / "visits.csv")
    plan = json.loads(EXACT.to_json()) | {"discovery": json.loads(SHARP.to_json())}
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    return tmp_path


WORDS = ["run", "visits.csv", "--tick", "1h", "--time", "at", "--key", "page", "--discover"]
WHO = ["--person", "who", "--count", "persons"]
STORED = ["--start", "2026-03-01", "--until", "2026-03-04", "--state", "state", "--name", "pages"]


class TestCommands:
    def test_run_show_and_export(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        words = [*WORDS, *WHO, "--keys", "home", "--plan", "plan.json", *STORED]
        assert main([*words, "--output", "days.csv"]) == 0
        said = capsys.readouterr().err
        assert "except with a chance of 1e-09 a day, with which a key appears that nobody" in said
        with (folder / "days.csv").open() as file:
            table = list(csv.DictReader(file))
        assert {row["key"] for row in table if not row["appeared"]} == {"home"}
        found = {row["key"]: row for row in table if row["appeared"]}
        assert set(found) == {"/a", "/b é", "/c"}
        assert found["/c"]["appeared"] == found["/c"]["end"]
        about = json.loads((folder / "days.csv-metadata.json").read_text())
        hidden = about["hidden"]
        assert about["delta"] == 1e-9 and hidden["delta"].startswith("except with a chance")
        assert hidden["discovery"]["thresholds"] == list(SHARP.thresholds)
        causes = [step["cause"] for step in about["curve"]]
        assert "keys that appear, stage 2" in causes
        assert max(step["loss"] for step in about["curve"]) == 60.0
        for name in ("days.jsonl", "days.parquet"):
            words = ["streams", "export", "pages", "--state", "state", "--output", name]
            assert main(words) == 0
        lines = [json.loads(line) for line in (folder / "days.jsonl").read_text().splitlines()]
        assert [{**row, "appeared": row["appeared"] or ""} for row in lines] == [
            {**row, "partial": False, **{each: int(row[each]) for each in ("value", "low", "high")}}
            for row in table
        ]
        frame = pl.read_parquet(folder / "days.parquet")
        assert frame["value"].to_list() == [row["value"] for row in lines]
        assert frame["appeared"].null_count() == 3
        capsys.readouterr()
        assert main(["streams", "show", "pages", "--state", "state"]) == 0
        assert "appear by themselves: from a noisy 2 persons on at once" in capsys.readouterr().out
        assert main(["streams", "show", "pages", "--state", "state", "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["hidden"]["discovery"]["delta"] == 1e-9
        assert main(["streams", "curve", "pages", "--state", "state"]) == 0
        assert "except with a chance of 1e-09 a day" in capsys.readouterr().out

    def test_a_top_list(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        words = [*WORDS, *WHO, "--keys", "home", "--plan", "plan.json", *STORED]
        assert main([*words, "--output", "days.csv"]) == 0
        capsys.readouterr()
        words = ["streams", "top", "pages", "--state", "state", "--until", "2026-03-02"]
        assert main([*words, "--json"]) == 0
        ranked = json.loads(capsys.readouterr().out)
        values = [each["value"] for each in ranked]
        assert values == sorted(values, reverse=True) and len(ranked) == 4
        assert {each["key"]: each["days"] for each in ranked}["home"] is None
        assert main(words) == 0
        assert len(capsys.readouterr().out.splitlines()) == 4

    def test_a_picture(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """Of declared keys and those that appeared; a hidden one is refused like any other."""
        pytest.importorskip("matplotlib")
        words = [*WORDS, *WHO, "--keys", "home", "--plan", "plan.json", *STORED]
        assert main([*words, "--output", "days.csv"]) == 0
        words = ["streams", "plot", "pages", "--state", "state", "--output"]
        assert main([*words, "all.svg"]) == 0 and main([*words, "one.svg", "--key", "/c"]) == 0
        texts = [(folder / name).read_text() for name in ("all.svg", "one.svg")]
        assert all(f"<!-- {key} -->" in texts[0] for key in ("home", "/a", "/b é", "/c"))
        assert "/lone" not in texts[0] and "per 1d in which a key appeared" in texts[1]
        capsys.readouterr()
        refusals = []
        for key in ("/lone", "/never"):
            assert main([*words, "x.svg", "--key", key]) == 1
            refusals.append(capsys.readouterr().err.replace(key, "…"))
        assert refusals[0] == refusals[1] and "that was shown then" in refusals[0]

    def test_other_needs_its_part_of_the_plan(
        self, folder: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """Hidden events count under ``other`` too: both losses together are what was planned."""
        plan = ["plan", "--tick", "1h", "--loss", "1d=0.5", "--loss", "1y=4", "--delta", "1e-9"]
        plan += ["--per-person", "1/day", "--force", "--save", "plan.json", "--discover"]
        words = [*WORDS, *WHO, *STORED, "--plan", "plan.json", "--output", "x.csv"]
        assert main([*plan, "1d"]) == 0
        assert main([*words, "--other"]) == 1
        refusal = "other must be left out, as the plan's keys that appear use all of its loss"
        assert refusal in capsys.readouterr().err and not (folder / "x.csv").exists()
        assert main([*plan, "1d=0.5"]) == 0
        assert main([*words, "--other"]) == 0
        curve = json.loads((folder / "x.csv-metadata.json").read_text())["curve"]
        day = [step["loss"] for step in curve if step["age_seconds"] <= 86_400]
        assert 0.49 < max(day) <= 0.5 and 3.9 < max(step["loss"] for step in curve) <= 4

    def test_refusals(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        (folder / "plain.json").write_text(EXACT.to_json())
        for words in (["--plan", "plain.json"], ["--epsilon", "1"]):
            assert main([*WORDS, *WHO, *words]) == 1
            assert "--plan must say how keys appear with --discover" in capsys.readouterr().err
        assert main([*WORDS, "--plan", "plan.json"]) == 1
        assert "one person's day where keys appear by themselves" in capsys.readouterr().err
