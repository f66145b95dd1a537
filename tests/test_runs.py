"""Runs as library calls: files, pipes and growing files into a stream, with a clock that the test
sets."""

from __future__ import annotations

import io
import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fadecount as fc
from fadecount import runs
from fadecount.errors import (
    ClockError,
    InputError,
    MissingExtraError,
    ParameterError,
    SumOverflowError,
)
from fadecount.mechanisms import PlanFile
from fadecount.runs import Run, run
from fadecount.sources import Gate, SourceOptions, files, live
from fadecount.sources.live import GrowingFile
from fadecount.streams import Description, FileFence, SQLiteStore, Store, Ticks
from fadecount.streams.published import Figures
from fadecount.streams.store import MemoryStore
from tests.counters.block_reference import NamedNoise
from tests.streams.backends import BriefStore
from tests.streams.rows import add_rows

NOON = 1_772_366_400  # 2026-03-01T12:00:00Z
FIRST = NOON // 60
START = datetime.fromtimestamp(NOON, UTC)
EXACT = fc.Gradual(epsilon=2.0**14)
"""So little noise that none is ever seen: the chance that one of a thousand draws is not 0 is below
10**-22."""


def options(**changes: Any) -> SourceOptions:
    return SourceOptions(**{"tick": 60, "time": "t", "format": "jsonl", **changes})


def line(time: float, **more: Any) -> str:
    return json.dumps({"t": time, **more}) + "\n"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with SQLiteStore(tmp_path / "state" / "s.db", fence=FileFence(tmp_path / "fence")) as opened:
        yield opened


class Clock:
    """Unix seconds as the test sets them; rows are read when it stands where the test wants them to
    arrive."""

    def __init__(self, now: float = NOON) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def values(store: Store, name: str = "s") -> list[list[int]]:
    pieces = [piece.values for piece in store.reader().stream(name).running()]
    return np.concatenate(pieces).tolist() if pieces else []


class ScriptedFile(GrowingFile):
    """A file whose lines arrive at the moments that they say themselves; the process is killed at
    its end."""

    clock: Clock
    old = False
    """Whether its lines are taken to have been there before the process began."""

    def __init__(
        self,
        path: str | Path,
        options: SourceOptions,
        position: int = 0,
        inode: int | None = None,
    ) -> None:
        super().__init__(path, options, position, inode)
        self._end = self.size
        self.size = self.size if self.old else 0

    def readline(self, size: int = -1, /) -> bytes:
        if not self._header and self._file.tell() == self._end:
            return b""
        line = super().readline(size)
        self.clock.now = json.loads(line)["arrives"]
        return line


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(ScriptedFile, "clock", made, raising=False)
    monkeypatch.setattr(live, "GrowingFile", ScriptedFile)
    return made


def follow(path: Path, store: Store, clock: Clock, **changes: Any) -> Run:
    """Follow a file until its present end, then end as a killed process would: nothing is closed
    early."""
    start = datetime.fromtimestamp(NOON, UTC)
    under_way = run(
        path,
        options(**changes),
        store=store,
        name="s",
        mechanism=EXACT,
        follow=True,
        clock=clock,
        start=start,
    )
    list(under_way)
    return under_way


def rows(*moments: tuple[float, float], **more: Any) -> str:
    return "".join(
        json.dumps({"arrives": NOON + arrival, "t": NOON + time, **more}) + "\n"
        for arrival, time in moments
    )


def test_a_followed_file_is_counted_once_whatever_the_restarts(
    tmp_path: Path, store: Store, clock: Clock
) -> None:
    path = tmp_path / "log.jsonl"
    script = [(second, second - 30 * (second % 7 == 0)) for second in range(1, 400)]
    whole = rows(*script)
    path.write_text(whole)
    follow(path, store, clock, grace_seconds=20)
    expected = values(store)
    lines = whole.splitlines(keepends=True)
    for name, cuts in {
        "two": (150,),
        "five": (1, 100, 200, 201, 399),
        "all": tuple(range(1, 399, 7)),
    }.items():
        again, before, clock.now = tmp_path / f"{name}.jsonl", 0, NOON
        with SQLiteStore(
            tmp_path / name / "s.db", fence=FileFence(tmp_path / f"{name}-fence")
        ) as other:
            for cut in (*cuts, len(lines)):
                with again.open("a") as file:
                    file.write("".join(lines[before:cut]))
                follow(again, other, clock, grace_seconds=20)
                before = cut
            shown = values(other)
        assert [row[0] for row in shown][: len(expected)] == [row[0] for row in expected]


def test_a_restart_with_another_grace_decides_nothing_anew(
    tmp_path: Path, store: Store, clock: Clock
) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text(rows((10, 10), (70, 50), (75, 75)))
    follow(path, store, clock, grace_seconds=30)  # the first tick is open until 12:01:30
    assert values(store) == []
    with path.open("a") as file:
        file.write(rows((80, 55), (130, 130), (200, 190)))
    follow(path, store, clock, grace_seconds=0)
    assert values(store) == [[2], [4], [5]], (
        "the late row of the second run counts in the second tick; none counts twice"
    )
    with path.open("a") as file:
        file.write(rows((245, 100), (310, 310)))
    follow(path, store, clock, grace_seconds=59)
    assert values(store) == [[2], [4], [5], [7]], (
        "released ticks stay; a late row counts in the oldest open one"
    )


def test_rows_already_there_find_their_ticks_after_a_downtime(
    tmp_path: Path, store: Store, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text(rows((1, 1)))
    follow(path, store, clock)
    with path.open("a") as file:
        file.write(rows((7200, 70), (7200, 130), (7200, 131), (7200, 7200)))
    clock.now = NOON + 7200
    monkeypatch.setattr(ScriptedFile, "old", True)
    under_way = follow(path, store, clock)
    assert [row[0] for row in values(store)[:4]] == [1, 2, 4, 4]
    assert not under_way.report.skipped


def test_a_cap_holds_per_released_tick_over_restarts_and_late_rows(
    tmp_path: Path, store: Store, clock: Clock
) -> None:
    path = tmp_path / "log.jsonl"
    changes: dict[str, Any] = {"person": "who", "per_person": 3}
    path.write_text(rows(*((1 + at, 0) for at in range(5)), who="ann"))
    follow(path, store, clock, **changes)
    with path.open("a") as file:
        file.write(rows((30, 0), (31, 31), who="ann") + rows((32, 0), who="bob"))
        file.write(rows(*((61 + at, at) for at in range(12)), who="ann"))
        file.write(rows((130, 130), who="bob"))
    follow(path, store, clock, **changes)
    assert values(store) == [[4], [7]], "three of ann and one of bob; then three late ones of ann"
    assert (
        store.reader().status("s").description.unit.text
        == "one person within a tick, at most 3 events"
    )
    with pytest.raises(ParameterError, match=r"protected unit of stream .* is fixed"):
        follow(path, store, clock)


class Pipe(io.RawIOBase):
    """Lines that arrive at given moments."""

    def __init__(self, lines: Sequence[tuple[float, str]], clock: Clock) -> None:
        self._lines, self._clock = iter(lines), clock

    def readline(self, size: int | None = -1, /) -> bytes:
        self._clock.now, text = next(self._lines, (self._clock.now, ""))
        return text.encode()


def piped(lines: Sequence[tuple[float, str]], store: Store, **more: Any) -> Run:
    clock = Clock()
    chosen = options(**more.pop("changes", {}))
    made = run(
        Pipe(lines, clock),
        chosen,
        store=store,
        name="s",
        mechanism=EXACT,
        clock=clock,
        **more,
    )
    list(made)
    return made


def test_a_pipe_by_the_clock_and_its_end(store: Store) -> None:
    lines = [(NOON + 1, "{}\n"), (NOON + 59, "{}\n"), (NOON + 61, "{}\n"), (NOON + 190, "{}\n")]
    piped(lines, store, changes={"time": None})
    assert values(store) == [[2], [3], [3]], "a stored stream keeps its open tick"
    until = datetime.fromtimestamp(NOON + 120, UTC)
    with BriefStore() as other:
        piped(lines, other, changes={"time": None}, until=until)
        assert values(other) == [[2], [3]]


def test_a_scrub_that_is_owed_does_not_wait_for_the_next_tick(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What a closed tick destroys is gone from the log of the database within about a minute."""
    now, clock = [1000.0], Clock()
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    lines = [(NOON + at, "{}\n") for at in (1, 125)]
    with BriefStore() as store:
        log = Path(f"{store._database._path}-wal")  # type: ignore[attr-defined]
        chosen, pipe = options(time=None), Pipe(lines, clock)
        closed = run(pipe, chosen, store=store, name="s", mechanism=EXACT, clock=clock)
        for each in closed:
            before = log.stat().st_size
            if each.last_tick == FIRST + 1:
                now[0] += 60
        assert 0 < log.stat().st_size < before, "how far the pipe was read was written after it"


@pytest.mark.parametrize("changes", [{}, {"person": "who", "per_person": 3}])
def test_amounts_of_a_pipe_add_up_and_each_is_held_to_the_largest(
    store: Store, changes: dict[str, Any]
) -> None:
    lines = [
        (NOON + at, json.dumps({"n": n, "who": at}) + "\n")
        for at, n in enumerate((5, 5, 6, 1000, 4, 5), start=1)
    ]
    made = piped(lines, store, changes={"time": None, "amount": "n", "max_amount": 5, **changes})
    store.open("s").close_through(FIRST)
    assert values(store) == [[29]]
    assert (made.report.rows_skipped, made.report.rows_cut) == (0, 2)


def test_no_sum_of_amounts_of_a_pipe_is_too_large(store: Store) -> None:
    """One event more must not end the run: that would show that it was there."""
    lines, changes = (
        [(NOON + 1, '{"n": 2147483648}\n')] * 600,
        {"amount": "n", "max_amount": 1 << 31},
    )
    piped(lines, store, changes={"time": None, **changes})
    store.open("s").close_through(FIRST)
    assert values(store) == [[pytest.approx(600 << 31, rel=1e-3)]]


@pytest.mark.parametrize("early", [NOON - 3600, NOON + 30, NOON + 80, NOON + 10**6])
def test_one_row_moves_no_other_into_another_tick(store: Store, early: int) -> None:
    others = [(NOON + at, line(NOON + at)) for at in range(10, 130)]
    with BriefStore() as with_it:
        for each, lines in ((store, others), (with_it, [(NOON + 5.0, line(early)), *others])):
            piped(lines, each, follow=True)
        difference = np.array(values(with_it)) - np.array(values(store))
    assert difference.ravel().tolist() in ([0, 0], [1, 1], [0, 1])


def test_a_new_stream_of_a_store_begins_at_a_public_time(store: Store) -> None:
    with pytest.raises(ParameterError, match="start must be given to create the stream 's'"):
        run(io.BytesIO(line(NOON).encode()), options(), store=store, name="s", mechanism=EXACT)
    assert store.names() == []


def test_a_promise_is_one_for_the_unit_of_the_run_with_and_without_a_store(store: Store) -> None:
    promise, chosen = fc.Gradual(epsilon=0.5), options(person="who", per_person=3)
    span: dict[str, Any] = {"start": START, "until": START + timedelta(minutes=1)}
    for place in (store, None):
        source = io.BytesIO(line(NOON, who="ann").encode())
        loss = run(
            source, chosen, mechanism=promise, store=place, name="s", **span
        ).description.loss
        assert 0.99 * promise.loss(9) < loss.at_age(9).epsilon <= promise.loss(9)


def test_a_plan_runs_as_it_is_for_its_unit_and_its_tick_alone(store: Store) -> None:
    """A mechanism for minutes in a stream of hours would lose in an hour what it promised for a
    minute; the stream may be there already."""
    day = fc.Unit(of="person", per="1d", events=3)
    minutes = fc.Gradual(epsilon=0.5, planned_tick_seconds=60)
    plan = PlanFile(minutes, unit=day)
    chosen = options(person="who", per_person=2, person_per="1d")
    for place in (store, None):
        for name, mechanism in (("first", plan), ("again", minutes)):
            given = io.BytesIO(line(NOON, who="ann").encode())
            about: dict[str, Any] = {"store": place, "name": name, "start": START}
            under_way = run(given, chosen, mechanism=mechanism, **about)
            own = under_way.description.mechanism
            assert own == (minutes if mechanism is plan else minutes.for_sensitivity(2))
            under_way.close()
            with pytest.raises(ParameterError, match="tick must be 1 minute, for which"):
                run(given, replace(chosen, tick="1h"), mechanism=mechanism, **about)
            with pytest.raises(ParameterError, match="unit must be at most the plan's"):
                run(given, replace(chosen, per_person=4), mechanism=plan, **about)
    hours: dict[str, Any] = {"store": store, "name": "hours", "start": "2026-03-01"}
    run(io.BytesIO(), options(tick="1h"), mechanism=fc.Gradual(epsilon=0.5), **hours).close()
    with pytest.raises(ParameterError, match="tick must be 1 minute, for which"):
        run(io.BytesIO(), options(tick="1h"), mechanism=minutes, **hours)


def test_history_asks_for_a_time(store: Store) -> None:
    with pytest.raises(ParameterError, match="time must be given for everything but a pipe"):
        run("x.csv", options(time=None), store=store, name="s", mechanism=EXACT, follow=True)
    with pytest.raises(InputError, match="No such file"):
        run("x.jsonl", options(), store=store, name="s", mechanism=EXACT, follow=True)
    assert store.names() == []


def test_a_capped_history_goes_on_where_a_live_run_left_its_open_tick(
    tmp_path: Path, store: Store, clock: Clock
) -> None:
    path = tmp_path / "log.jsonl"
    changes: dict[str, Any] = {"person": "who", "per_person": 3}
    path.write_text(rows((1, 0), (2, 0), who="ann"))
    follow(path, store, clock, **changes)
    more = io.BytesIO(rows((0, 5), (0, 6), (0, 70), who="ann").encode())
    list(run(more, options(**changes), store=store, name="s"))
    assert values(store) == [[3], [4]]


def test_a_history_that_others_feed_meanwhile_is_refused_whole_and_may_be_run_again(
    store: Store,
) -> None:
    """What a person already counts is read before the file; if that grows until the release, the
    cap would not hold."""
    changes: dict[str, Any] = {"person": "who", "per_person": 3}
    given = rows((0, 0), (0, 1), who="ann").encode()
    start = datetime.fromtimestamp(NOON, UTC)
    begun = run(
        io.BytesIO(given), options(**changes), store=store, name="s", mechanism=EXACT, start=start
    )
    add_rows(store.intake("s"), [0, 0], [1, 1], ["ann", "ann"])
    with pytest.raises(InputError, match="run it again"):
        list(begun)
    assert values(store) == []
    list(run(io.BytesIO(given), options(**changes), store=store, name="s"))
    assert values(store) == [[3]], "two accepted before, and one of the file"


def test_a_clock_that_jumps_ahead_ends_the_run_before_it_counts(
    tmp_path: Path, store: Store, clock: Clock
) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text(rows((1, 1), (70, 70)))
    follow(path, store, clock)
    wrong = 10 * 365 * 86_400
    with path.open("a") as file:
        file.write(rows((80, 80), (wrong, 90)))
    with pytest.raises(ClockError, match="fadecount streams catch-up NAME --yes"):
        follow(path, store, clock)
    path.write_text(path.read_text().replace(str(NOON + wrong), str(NOON + 130)))
    clock.now = NOON + 75
    follow(path, store, clock)
    assert values(store) == [[1], [3]]


def test_frames_of_events_become_frames_of_releases(store: Store) -> None:
    polars, pandas = pytest.importorskip("polars"), pytest.importorskip("pandas")
    moments = [datetime.fromtimestamp(NOON + second, UTC) for second in (1, 2, 61, 200)]
    chosen = options(time="at", format=None)
    for frame in (polars.DataFrame({"at": moments}), pandas.DataFrame({"at": moments})):
        assert fc.count(frame, chosen, mechanism=EXACT)["value"].to_list() == [2, 3, 3, 4]
    assert fc.count(
        polars.DataFrame({"at": moments[:2]}), chosen, mechanism=EXACT, store=store, start=START
    )["value"].to_list() == [2]
    assert fc.count(polars.DataFrame({"at": moments}), chosen, store=store)["value"].to_list() == [
        2,
        3,
        3,
        4,
    ]


def test_frames_keep_their_types_and_agree_with_text(tmp_path: Path) -> None:
    """Columns go in as they are: local times, categories, amounts, persons; the counts are those of
    the same rows as CSV."""
    polars, pandas = pytest.importorskip("polars"), pytest.importorskip("pandas")
    frame = polars.DataFrame(
        {
            "at": [
                datetime(2026, 3, 1, 10, 10),
                datetime(2026, 3, 1, 10, 20),
                datetime(2026, 3, 1, 12),
                None,
            ],
            "page": polars.Series(["home", "docs", "home", "home"], dtype=polars.Categorical),
            "n": [2, 3, 1, 1],
            "who": [7, 7, 8, 9],
        }
    )
    columns: dict[str, Any] = {
        "tick": 3600,
        "time": "at",
        "key": "page",
        "keys": ("home", "docs"),
        "zone": "Europe/Vienna",
    }
    counted = SourceOptions(**columns, amount="n", max_amount=5)
    bounded = SourceOptions(**columns, person="who", per_person=1)
    frame.write_csv(tmp_path / "rows.csv")
    for chosen in (counted, bounded):
        with BriefStore() as store:
            for _ in run(
                tmp_path / "rows.csv",
                chosen,
                store=store,
                name="counts",
                mechanism=EXACT,
                start=frame["at"][0],
            ):
                pass
            expected = store.reader().frame("counts")
        for given in (frame, frame.to_pandas(), frame.to_pandas().astype({"page": object})):
            assert fc.count(given, chosen, mechanism=EXACT).equals(expected)
    mixed = pandas.DataFrame({"at": ["2026-03-01T10:10", 1_772_359_800], "page": ["home", "docs"]})
    assert fc.count(mixed, SourceOptions(**columns), mechanism=EXACT)["value"].to_list() == [
        1,
        0,
        1,
        1,
    ]
    with pytest.raises(InputError, match="the column 'page' is not among its 3 columns"):
        fc.count(frame.drop("page"), SourceOptions(**columns), mechanism=EXACT)
    with pytest.raises(ParameterError, match="time must be given for everything but a pipe"):
        fc.count(frame, SourceOptions(tick=60), mechanism=EXACT)


ODD_CELLS = [1, 2.5, None, float("nan"), "NA", "NaT", b"x", ["x"], "a\nb", ""]


@pytest.mark.parametrize("column", ["page", "who"])
@pytest.mark.parametrize("odd", ODD_CELLS, ids=repr)
def test_one_cell_of_a_pandas_frame_decides_nothing_about_other_rows(
    odd: object, column: str
) -> None:
    """One value of another type makes it a column of objects, and a missing one makes whole numbers
    floats."""
    pandas = pytest.importorskip("pandas")
    odd = getattr(pandas, odd) if odd in ("NA", "NaT") else odd
    moments = [datetime.fromtimestamp(NOON + second, UTC) for second in (1, 2, 3, 4)]
    for pages, people in (
        (["7", "8", "7"], ["a", "b", "c"]),
        ([7, 8, 7], [1, 2, 3]),
        ([True, False, True], [1.5, 2, 3]),
        ([1e-5, 2e22, 1e-5], [0.1 + 0.2, 1e-9, 2]),
    ):
        rows = {"at": moments[:3], "page": pages, "who": people}
        chosen = options(
            time="at",
            key="page",
            keys=("7", "8", "true", "false", "0.00001", "2" + 22 * "0"),
            person="who",
            format=None,
        )
        for frame in (pandas.DataFrame(rows), pandas.DataFrame(rows).astype({"page": object})):
            alone = fc.count(frame, chosen, mechanism=EXACT)["value"].to_list()
            assert sum(alone) == 3
            more = pandas.DataFrame(
                {"at": moments, "page": [*pages, pages[0]], "who": [*people, "another"]}
            )
            more[column] = pandas.Series([*frame[column].tolist(), odd])
            after = fc.count(more, chosen, mechanism=EXACT)["value"].to_list()
            change = sum(after) - sum(alone)
            assert (
                0 <= change <= 1
                and sum(abs(a - b) for a, b in zip(after, alone, strict=True)) == change
            )


def test_times_of_a_pandas_frame_are_read_alike_as_numbers_and_as_texts() -> None:
    pandas = pytest.importorskip("pandas")
    times = [0.00001, 0.1 + 0.2, 5.5, 7.0]
    chosen = options(time="at", time_unit="s", format=None, first_tick=0, end_tick=1)
    for frame in (pandas.DataFrame({"at": times}), pandas.DataFrame({"at": [*times, "never"]})):
        assert fc.count(frame, chosen, mechanism=EXACT)["value"].to_list() == [4]


def test_persons_that_are_missing_in_a_pandas_frame_are_not_one_person() -> None:
    pandas = pytest.importorskip("pandas")
    moment = datetime.fromtimestamp(NOON, UTC)
    for people in (
        [None, None, "x"],
        [float("nan")] * 2 + [1.0],
        [pandas.NA, pandas.NaT, "x"],
        ["", None, 7],
        [1, pandas.NA, None],
    ):
        for kind in (None, object, "category"):
            frame = pandas.DataFrame({"at": [moment] * 3, "who": pandas.Series(people, dtype=kind)})
            chosen = options(time="at", person="who", format=None)
            with pytest.raises(InputError, match=r"66.7 % .mostly: the person is missing"):
                fc.count(frame, chosen, mechanism=EXACT)
            found = fc.count(frame, chosen, mechanism=EXACT, gate=Gate(max_left_out=0.7))
            assert found["value"].to_list() == [1], (people, kind)


def assert_alike(one: Run, other: Run, per: str) -> None:
    """The figures of two runs are the same in everything."""
    here, there = one.published.figures(per), other.published.figures(per)
    for name in (each.name for each in fields(Figures)):
        assert getattr(here, name).tolist() == getattr(there, name).tolist(), name


def pieces_of(made: Run) -> list[list[int]]:
    return [row for piece in made for row in piece.values.tolist()]


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"key": "key", "keys": ("a", "b", "c")},
        {"key": "key", "keys": ("a", "b", "c"), "person": "who", "per_person": 2},
        {
            "key": "key",
            "keys": ("a", "b", "c"),
            "person": "who",
            "per_person": 1,
            "keys_per_person": 2,
        },
    ],
)
@pytest.mark.parametrize("delay", [0, 2])
def test_a_run_without_a_store_releases_the_same(
    store: Store, changes: dict[str, Any], delay: int
) -> None:
    events = "".join(
        line(NOON + 7 * at, key="abc"[at % 3], who=f"p{at % 4}") for at in range(100)
    ).encode()
    chosen, mechanism = options(**changes), fc.Gradual(epsilon=2.0**14, delay=delay)
    kept = run(io.BytesIO(events), chosen, store=store, name="s", mechanism=mechanism, start=START)
    once = run(io.BytesIO(events), chosen, name="s", mechanism=mechanism)
    assert pieces_of(once) == pieces_of(kept)
    assert once.summary() == kept.summary()
    assert once.report == kept.report
    assert_alike(once, kept, "2m")


@pytest.mark.parametrize("per", ["90s", "1s", "soon"])
def test_windows_that_are_not_whole_ticks_are_refused_before_a_release(
    store: Store, per: str
) -> None:
    events = "".join(line(NOON + 7 * at) for at in range(100)).encode()
    for kept in (store, None):
        begun = run(
            io.BytesIO(events), options(), store=kept, name="s", mechanism=EXACT, start=START
        )
        with pytest.raises(ParameterError, match="per must be"):
            begun.check_per(per)
        for possible in ("2m", "total", None):
            begun.check_per(possible)
    assert values(store) == []


@pytest.mark.parametrize("mechanism", [fc.Gradual(epsilon=50.0), fc.Blocks(fc.Level(1, 50.0))])
def test_a_history_releases_no_tick_that_is_not_over(store: Store, mechanism: fc.Mechanism) -> None:
    moments = (NOON + 3600 * hour for hour in (0, 1, 2, 2.5, 99))
    rows = "at\n" + "".join(f"{datetime.fromtimestamp(each, UTC)}\n" for each in moments)

    def begin(hours: float, **changes: Any) -> Run:
        source, chosen = io.BytesIO(rows.encode()), options(format="csv", tick="1h", time="at")
        now = NOON + 3600 * hours
        return run(
            source,
            chosen,
            store=store,
            mechanism=mechanism,
            start=START,
            clock=lambda: now,
            **changes,
        )

    noon = NOON // 3600
    for until in (3, 200):
        with pytest.raises(ParameterError, match="public before their time"):
            begin(2.9, until=datetime.fromtimestamp(NOON + 3600 * until, UTC))
    assert not store.reader().names(), "nothing was created"
    under_way = begin(2.9)
    assert [piece.last_tick - noon for piece in under_way] == [1]
    assert under_way.report.rows_skipped == 3, "what is not over yet, and what is to come"
    assert [piece.last_tick - noon for piece in begin(3)] == [2]
    with pytest.raises(InputError, match="got none before"):
        begin(200).ticks_expected  # noqa: B018 - it reads the source
    assert [piece.last_tick - noon for piece in begin(200, gate=Gate(allow_gap=True))] == [99]


def test_a_frame_without_the_column_creates_no_stream(store: Store) -> None:
    polars, pandas = pytest.importorskip("polars"), pytest.importorskip("pandas")
    for frame in (polars.DataFrame({"at": [NOON]}), pandas.DataFrame({"at": [NOON]})):
        with pytest.raises(InputError, match="the column 't' is not among its 1 columns"):
            fc.count(frame, options(), mechanism=EXACT, store=store)
    assert store.names() == []


def test_a_data_frame_needs_polars(monkeypatch: pytest.MonkeyPatch) -> None:
    pandas = pytest.importorskip("pandas")
    monkeypatch.setattr(files, "has_polars", lambda: False)
    with pytest.raises(MissingExtraError, match="counting a data frame needs the package polars"):
        fc.count(pandas.DataFrame({"t": [NOON]}), options(), mechanism=EXACT)


def test_a_live_run_needs_a_store() -> None:
    """Without one, a restart would count what was counted, with other noise."""
    for changes in ({"time": None}, {}):
        with pytest.raises(ParameterError, match="store must be given for a live source"):
            run(io.BytesIO(b""), options(**changes), mechanism=EXACT, follow=bool(not changes))


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        (None, {"format": "parquet"}, "format must be csv, jsonl or log for a pipe"),
        (None, {"format": None}, "format must be csv, jsonl or log for a pipe"),
        (None, {"unique": "id"}, "unique must be left out for a live source"),
        ("log.parquet", {"format": None}, "format must be csv, jsonl or log for a pipe"),
        ("access.log.gz", {"format": "log", "time": "time"}, "input must be an unpacked file"),
    ],
)
def test_what_cannot_be_read_live_makes_no_stream(
    tmp_path: Path, store: Store, name: str | None, changes: dict[str, Any], message: str
) -> None:
    """The format of a pipe is said, not guessed: a guess would depend on the first row."""
    source: Path | io.BytesIO = io.BytesIO()
    if name is not None:
        source = tmp_path / name
        source.touch()
    with pytest.raises(ParameterError, match=message):
        run(source, options(**changes), store=store, mechanism=EXACT, follow=True)
    assert store.names() == []


def test_a_run_without_a_store_needs_a_mechanism() -> None:
    with pytest.raises(ParameterError, match="mechanism must be given"):
        run(io.BytesIO(b""), options())


def test_sums_without_a_store_never_wrap() -> None:
    """A sum that wrapped would differ by 2**64 with one event more or less, and no noise hides
    that: the run is refused, as with a store."""
    description = Description(name="s", mechanism=EXACT, ticks=Ticks(tick_seconds=60))
    half = 1 << 62
    with MemoryStore() as kept_nowhere:
        stream = kept_nowhere.create(description, start_tick=FIRST)
        with pytest.raises(SumOverflowError, match="2\\*\\*62"):
            list(stream.release(FIRST, np.array([[half], [1]], dtype=np.int64)))
        assert stream.status.steps == 0
        (piece,) = stream.release(FIRST, np.array([[half - 8], [8]], dtype=np.int64))
    assert piece.values.tolist() == [[half - 8], [half]]


BLOCKS = fc.Blocks(
    fc.Level(1, 0.5),
    fc.Level(20, 0.5),
    fc.Level(60, 0.8, lag=61),
    fc.Level(1440, 0.8, lag=61, later=((1500, 1.5),)),
)
"""Minutes, twenty minutes, hours and days, with lags and a later stage."""


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch, store: Store) -> Store:
    """Runs with and without this store draw the same noise."""
    store._context.noise = NamedNoise(seed=26)

    def memory() -> MemoryStore:
        made = MemoryStore()
        made._context.noise = NamedNoise(seed=26)
        return made

    monkeypatch.setattr(runs, "MemoryStore", memory)
    return store


@pytest.mark.parametrize("zone", ["UTC", "Europe/Vienna"])
def test_a_run_of_blocks_gives_the_figures_of_a_stream_that_is_fed_by_hand(
    scripted: Store, zone: str
) -> None:
    """From a file or frame, kept or not, and tick by tick: the same numbers in every view, from
    before a change of the clocks on."""
    chance = np.random.default_rng(7)
    first = int(datetime(2026, 3, 28, 10, 17, tzinfo=UTC).timestamp())
    seconds, steps = np.sort(chance.integers(0, 3 * 86_400, 500)), 3 * 1440
    keys = chance.integers(0, 2, 500)
    chosen = options(key="key", keys=("a", "b"), zone=zone)
    events = "".join(
        line(int(first + second), key="ab"[key]) for second, key in zip(seconds, keys, strict=True)
    ).encode()
    span: dict[str, Any] = {
        "start": datetime.fromtimestamp(first, UTC),
        "until": datetime.fromtimestamp(first + 60 * steps, UTC),
        "mechanism": BLOCKS,
    }
    kept = run(io.BytesIO(events), chosen, store=scripted, name="kept", **span)
    once = run(io.BytesIO(events), chosen, **span)
    for made in (kept, once):
        for _ in made:
            pass
    description = Description(
        name="hand", mechanism=BLOCKS, ticks=Ticks(tick_seconds=60, zone=zone)
    )
    stream = scripted.create(description, keys=["a", "b"], start_tick=first // 60)
    for second, key in zip(seconds.tolist(), keys.tolist(), strict=True):
        if (tick := (first + second) // 60) != stream.open_tick:
            stream.close_through(tick - 1)
        stream.add({"ab"[key]: 1})
    stream.close_through(first // 60 + steps - 1)
    by_hand = scripted.reader().stream("hand")
    for per in ("1m", "20m", "1h", "1d", "2h", "1w"):
        assert_alike(once, kept, per)
        here, there = once.published.figures(per), by_hand.figures(per)
        for name in (each.name for each in fields(Figures)):
            assert getattr(here, name).tolist() == getattr(there, name).tolist(), (per, name)
    assert once.published.total().values.tolist() == by_hand.total().values.tolist()
    assert once.summary() == kept.summary()


def test_frames_of_figures_per_day(store: Store) -> None:
    polars, pandas = pytest.importorskip("polars"), pytest.importorskip("pandas")
    exact = fc.Blocks(fc.Level(1, 20.0), fc.Level(60, 20.0), fc.Level(1440, 20.0, lag=61))
    moments = [datetime.fromtimestamp(NOON + 3600 * hour, UTC) for hour in range(60)]
    chosen, days = options(time="at", format=None), [12, 24, 24]
    for kind in (polars, pandas):
        frame = kind.DataFrame({"at": moments})
        made = fc.count(frame, chosen, per="1d", mechanism=exact)
        assert made["value"].to_list() == days
        assert made["status"].to_list() == ["final", "final", "provisional"]
        assert fc.count(frame, chosen, mechanism=exact)["value"].to_list() == days
    with pytest.raises(ParameterError, match="per must be made of whole ticks"):
        fc.count(frame, chosen, per="90s", mechanism=exact, store=store, start=START)
    assert not store.reader().stream("counts").steps
    weeks = fc.count(frame, chosen, per="1w", store=store)
    assert weeks["value"].to_list() == [12, 48]
    assert fc.count(frame, chosen, per="12h", store=store)["value"].to_list() == [12] * 5


def test_a_count_takes_written_times_and_a_mechanism_only() -> None:
    polars = pytest.importorskip("polars", reason="polars is not installed")
    frame = polars.DataFrame({"at": ["2026-03-01T10:10", "2026-03-01T12:30"]})
    options = SourceOptions(tick="1h", time="at", zone="Europe/Vienna")
    mechanism = fc.Blocks(fc.Level(1, 20.0), fc.Level(24, 20.0))
    start, until = "2026-03-01T09:00", "2026-03-01T11:00"
    counts = fc.count(frame, options, per="1h", mechanism=mechanism, start=start, until=until)
    assert counts["value"].to_list() == [0, 1]
    with pytest.raises(ParameterError, match=r"start must be a time in ISO 8601, .* got 'soon'"):
        fc.count(frame, options, mechanism=mechanism, start="soon")
    made = fc.plan(tick="1h", loss={"1d": 1.0})
    with pytest.raises(ParameterError, match=r"mechanism must be a .* or the mechanism of a plan"):
        fc.count(frame, options, mechanism=made)  # type: ignore[arg-type] # a likely mistake
