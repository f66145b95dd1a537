"""Several measures in one store: they close together or not at all, count what the plain rule says,
and keep the promise of their publication."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import fadecount as fc
from fadecount.errors import (
    AlreadyReleasedError,
    ClockError,
    FenceError,
    InputError,
    ParameterError,
)
from fadecount.mechanisms.levels import MILLION
from fadecount.planning.promise import free_ages, plan_publication
from fadecount.planning.publication import Columns, Measure
from fadecount.sources.additions import EarlierNotes, MeasureTally
from fadecount.sources.grouping import rows_of as as_rows
from fadecount.streams import Reader
from fadecount.streams.audit_log import AuditLog
from fadecount.streams.backup import make_backup
from fadecount.streams.description import Description
from fadecount.streams.inputs import RowBatch
from fadecount.streams.seal import Seal
from tests.sources.messy import publication_of, rows_of
from tests.sources.plain_rule import Plain
from tests.streams.backends import Backend, SQLiteBackend
from tests.streams.publications import (
    EXACT,
    NoNoise,
    added_of,
    appeared,
    described,
    events_of,
    hidden_of,
    published,
    rides,
    rules_of,
)

ROWS = (
    # time, person, id, place, minutes
    ("2026-03-27T10:10", "ann", "1", "north", "50"),
    ("2026-03-27T10:20", "ann", "2", "south", "50"),
    ("2026-03-27T10:20", "bob", "1", "north", ""),
    ("2026-03-27T11:00", "ann", "2", "south", "50"),  # the same ride again
    ("2026-03-27T11:30", "ann", "3", "east", "5"),  # counts overall
    ("2026-03-27T12:00", "ann", "4", "north", "9"),  # the fourth
    ("2026-03-28T00:10", "ann", "4", "north", "9"),
)
COLUMNS = ("time", "who", "id", "place", "minutes")


def rows(given: Sequence[Sequence[str]] = ROWS) -> list[dict[str, str]]:
    return [dict(zip(COLUMNS, row, strict=True)) for row in given]


def messy(seed: int) -> Any:
    chance = random.Random(seed)
    while True:
        with suppress(ParameterError):
            return chance, publication_of(chance)


# What it promises
# ------------------------------------------------------------------------------------------------
EVENTS = {"unit": fc.Unit(), "measures": rides().measures[::2]}


@pytest.mark.parametrize("fields", [{}, {"reserve": 1}, EVENTS])
def test_the_stated_loss_is_the_sum_and_keeps_the_promise(
    backend: Backend, fields: dict[str, Any]
) -> None:
    publication = rides(**fields)
    with backend.open() as store:
        stream = store.create(publication)
        loss = stream.description.loss
        series = plan_publication(publication)
        assert stream.description.series == series, "it is stored as it was planned"
        for age in range(800):
            exact = sum(each.millionths(age) for each in series)
            assert loss.at_age(age).epsilon == exact / MILLION
        for free, (_, limit) in zip(free_ages(publication), publication.limits, strict=True):
            assert loss.at_age(free - 1 if free else 1 << 40).epsilon <= limit
        assert loss.delta == 0
    with backend.reader() as reader:
        status = reader.status("rides")
        assert status.description.publication == publication
        assert status.description.loss.at_age(24) == loss.at_age(24)
        for part in status.parts:
            assert part.description.loss == loss, "of everything, wherever a loss is shown"


def test_visits_lose_by_their_own_age() -> None:
    """The last tick of a day is a day younger than the day's start: nothing is taken off."""
    publication = rides()
    loss = Description.of(publication, plan_publication(publication)).loss
    visit = loss.of_person(1, every=1 << 30, during=3600, tick_seconds=3600)
    assert visit.epsilon >= loss.at_age(24).epsilon


def test_measures_that_follow_each_other_do_not_add_up() -> None:
    first = Measure(name="old", until="2026-04-01")
    both = rides(measures=(first, Measure(name="new", start="2026-04-01")), promise={"ever": 1})
    alone = rides(measures=(Measure(name="old"),), promise={"ever": 1})
    series = plan_publication(both)
    assert [each.mechanism for each in series] == [plan_publication(alone)[0].mechanism] * 2
    assert Description.of(both, series).loss.at_age(1 << 40).epsilon <= 1
    for written in ("20260401", "2026-04-01T00:00", "2026-04-01"):
        other = rides(
            measures=(Measure(name="old", until=written), Measure(name="new", start="2026-03-31"))
        )
        assert (0, 1) in other.together, "moments are compared, not texts"


# One transaction
# ------------------------------------------------------------------------------------------------
def test_all_measures_close_with_one_commit_and_one_mark(backend: Backend) -> None:
    with backend.open(noise=NoNoise()) as store:  # type: ignore[arg-type]
        stream = store.create(described(rides()))
        moves, commits = list[str](), list[str]()
        fence = store._context.fence
        fence.checkpoint = lambda step: moves.append(step)  # type: ignore[assignment]
        store._context.checkpoint = lambda step: commits.append(step)  # type: ignore[assignment]
        begin = stream.open_tick
        stream.close_through(begin + 30)
        assert commits.count("committed") == moves.count("fence synced") == 1
        status = store.reader().status("rides")
        assert (status.last_tick, status.published_tick) == (begin + 30, begin + 30)
        for part in status.parts:
            assert part.published_tick == status.published_tick
        ids = store._database.query("SELECT COUNT(DISTINCT commit_id) FROM streams")
        assert ids == [(1,)]
    with backend.open() as store:
        assert [len(each) for each in store.open("rides")._loaded.keys] == [2, 1, 2, 1, 1]  # type: ignore[union-attr]


def test_a_store_behind_its_fence_is_refused(tmp_path: Any) -> None:
    backend = SQLiteBackend(tmp_path)
    with backend.open() as store:
        stream = store.create(described(rides()))
        stream.close_through(stream.open_tick + 30)
    copy = backend.path.read_bytes()
    with backend.open() as store:
        stream = store.open("rides")
        stream.close_through(stream.open_tick + 10)
    for each in backend.path.parent.glob(backend.path.name + "*"):
        each.unlink()
    backend.path.write_bytes(copy)
    with backend.open() as store, pytest.raises(FenceError, match="from another copy"):
        store.open("rides")


def test_retention_and_deletion_are_of_all_measures(backend: Backend) -> None:
    with backend.open() as store:
        stream = store.create(described(rides()))
        begin = stream.open_tick
        stream.close_through(begin + 24 * 40)
        before = store._database.query("SELECT COUNT(*) FROM figures WHERE level = 0")
        store.retain("rides", 86400)
        while store.upkeep("rides"):
            pass
        status = store.reader().status("rides")
        kept = {part.kept for part in status.parts}
        assert len(kept) == 1
        assert all(each > begin for each in next(iter(kept))[:1])
        with pytest.raises(ParameterError, match="measure must be a measure of 'rides'"):
            store.reader().series("rides", "rider")
        days = store.reader().series("rides", "minutes").figures("1d")
        assert len(days) > 39, "days stay"
        assert store._database.query("SELECT COUNT(*) FROM figures WHERE level = 0") <= before
        stream.close_through(begin + 24 * 41)
        store.delete("rides")
        for table in ("key_blocks", "state", "embargo", "figures", "hidden", "secrets"):
            assert store._database.query(f"SELECT COUNT(*) FROM {table}") == [(0,)]  # noqa: S608


def test_a_key_is_changed_and_a_backup_is_made_of_all_measures(backend: Backend) -> None:
    seal = Seal(b"k" * 32)
    with backend.open(noise=NoNoise()) as store:  # type: ignore[arg-type]
        stream = store.create(described(rides()))
        begin, rules = stream.open_tick, rules_of(rides())
        stream.close_through(begin + 24)  # days wait under embargo, and others are open
        stream.take([RowBatch(events_of(rules, rows())[-1:])], rules)
    with backend.open() as store:
        store.rotate(seal)
    with backend.open(noise=NoNoise(), seal=seal) as store:  # type: ignore[arg-type]
        stream = store.open("rides")
        stream.close_through(begin + 24 * 3)
        found = published(store.reader(), stream.description)
        assert [found[number, begin + 25, 0] for number in range(4)] == [1, 1, 1, 1]
    if isinstance(backend, SQLiteBackend):
        log = AuditLog(backend.folder)
        copy = backend.folder / "copy.db"
        assert make_backup(backend.path, copy, audit_log=log) == ["rides"]
        with Reader.of_file(copy) as reader:
            assert published(reader, stream.description) == found


# What rows add
# ------------------------------------------------------------------------------------------------
def test_one_row_counts_in_all_measures(backend: Backend) -> None:
    publication = rides()
    rules = rules_of(publication)
    with backend.open(noise=NoNoise()) as store:  # type: ignore[arg-type]
        stream = store.create(described(publication))
        ticks = stream.description.ticks
        for row, event in zip(rows(), events_of(rules, rows()), strict=True):
            stream.close_due(event.seconds)
            accepted = stream.take([RowBatch([event])], rules, at=event.seconds)
            assert accepted.fresh == [True], row
        stream.close_through(stream.open_tick + 48)
        found = published(store.reader(), stream.description)
        plain = Plain(publication, first=0, end=1 << 40)
        assert found == added_of(plain.count(rows(), by_time=False))
        tick = ticks.at(events_of(rules, rows())[0].seconds)
        assert found[4, tick, 0] == 60, "minutes of one person's day"


@pytest.mark.parametrize("seed", range(12))
def test_live_rows_count_as_the_plain_rule_says(backend: Backend, seed: int) -> None:
    """In batches, by several intakes, across restarts."""
    chance, publication = messy(seed)
    plain = Plain(publication, first=0, end=1 << 40)
    rules = rules_of(publication)
    arriving = sorted(
        ((event.seconds, row) for row in rows_of(chance, 80) for event in events_of(rules, [row])
         if event.seconds > 0),
        key=lambda each: each[0],
    )  # fmt: skip
    description = described(publication, _exact_for(publication))
    with backend.open(noise=NoNoise()) as store:  # type: ignore[arg-type]
        store.create(description)
    while arriving:
        some, arriving = arriving[: chance.randint(1, 30)], arriving[30:]
        with backend.open(noise=NoNoise()) as store:  # type: ignore[arg-type]
            stream = store.open("p")
            intake = chance.choice((stream, store.intake("p")))
            for seconds, row in some:
                tick = description.ticks.at(seconds)
                if stream.open_tick < tick:
                    stream.close_through(tick - 1)
                intake.take([RowBatch(events_of(rules, [row]))], rules, at=seconds)
                plain.count([row], by_time=False)
    with backend.open(noise=NoNoise()) as store:  # type: ignore[arg-type]
        stream = store.open("p")
        stream.close_through(stream.open_tick + 24 * 40)
        assert published(store.reader(), description) == added_of(plain.counts)
        assert appeared(store.reader(), description, plain) == hidden_of(plain.counts)


def _exact_for(publication: Any) -> fc.Blocks:
    return fc.Blocks(fc.Level(1, 50.0))


@pytest.mark.parametrize("seed", range(12))
def test_histories_count_as_the_plain_rule_says(backend: Backend, seed: int) -> None:
    """Also where a slot is released in two runs."""
    chance, publication = messy(100 + seed)
    description = described(publication, _exact_for(publication))
    given = list(rows_of(chance, 120))
    with backend.open(noise=NoNoise()) as store:  # type: ignore[arg-type]
        stream = store.create(description)
        end = stream.open_tick + (40 if publication.tick == "1d" else 24 * 40)
        plain = Plain(publication, first=stream.open_tick, end=end)
        times = [plain.seconds(row["time"]) for row in given]
        ticks = {plain.tick(each) for each in times if each is not None}
        inside = sorted(each for each in ticks if stream.open_tick < each < end)
        cuts = sorted(chance.sample(inside, min(4, len(inside))))
        wanted = plain.count(given, by_time=True)
        for until in (*cuts, end):
            rules = rules_of(publication, first_tick=stream.open_tick, end_tick=until)
            noted = stream.persons_noted
            earlier = EarlierNotes(key=stream.person_key, counted=stream.noted)
            tally = MeasureTally(rules, earlier)
            tally.add(as_rows(events_of_all(rules, given), rules))
            for _ in stream.release_rows(until, tally.done(), noted=noted):
                pass
            assert stream.open_tick == until
        assert published(store.reader(), description) == added_of(wanted)
        assert appeared(store.reader(), description, plain) == hidden_of(wanted)


def events_of_all(rules: Any, given: Sequence[Mapping[str, str]]) -> list[Any]:
    return [rules.event([row[name] for name in rules.wanted.columns]) for row in given]


def test_a_batch_counts_once_and_not_before_its_time(backend: Backend) -> None:
    rules = rules_of(rides())
    events = events_of(rules, rows())[:1]
    with backend.open(noise=NoNoise()) as store:  # type: ignore[arg-type]
        stream = store.create(described(rides()))
        with pytest.raises(ClockError):
            stream.take([RowBatch(events)], rules, at=events[0].seconds)
        stream.close_through(stream.description.ticks.at(events[0].seconds) - 1)
        assert stream.take([RowBatch(events, "a")], rules).fresh == [True]
        again = stream.take([RowBatch(events, "a"), RowBatch(events, "b")], rules)
        assert again.fresh == [False, True]
        assert again.counted == 0, "the row has an id, too"
        assert again.reasons != [[None]]


def test_an_event_that_is_sent_again_on_another_day_counts_once(backend: Backend) -> None:
    """Nothing is noted of a day that is over: its rows are late."""
    publication = rides(unit=fc.Unit(), measures=rides().measures[:1])
    rules = rules_of(publication)
    (event,) = events_of(rules, rows()[:1])
    with backend.open(noise=NoNoise()) as store:  # type: ignore[arg-type]
        stream = store.create(described(publication))
        begin = stream.open_tick
        stream.close_through(stream.description.ticks.at(event.seconds) - 1)
        for days, counted in enumerate((1, 0, 0)):
            stream.close_through(max(stream.open_tick - 1, begin + 24 * days))
            for _ in range(2):
                accepted = stream.take([RowBatch([event])], rules, at=event.seconds)
                assert accepted.counted == counted
                counted = 0
        stream.close_through(begin + 24 * 5)
        assert sum(published(store.reader(), stream.description).values()) == 2  # and overall


def test_a_publication_takes_rows_only(backend: Backend) -> None:
    """Its caps hold over everything that counts: no other way leads into it."""
    publication = rides(measures=rides().measures[2:])
    with backend.open(noise=NoNoise()) as store:  # type: ignore[arg-type]
        stream = store.create(described(publication))
        with pytest.raises(InputError, match="takes rows"):
            stream.add({"all": 1}, person="ann")
        with pytest.raises(InputError, match="takes rows"):
            list(stream.release(stream.open_tick, np.ones((1, 1), dtype=np.int64)))
        with pytest.raises(ParameterError, match="it is a publication"):
            store.open_or_create("rides", tick=stream.description.ticks)
        with pytest.raises(ParameterError, match="keys of a publication"):
            stream.declare(["more"])
        other = store.create(
            Description(name="doors", mechanism=EXACT, ticks=stream.description.ticks),
            start_tick=0,
        )
        with pytest.raises(InputError, match="any other stream events"):
            other.take([RowBatch([])], rules_of(publication))
        assert store._database.query("SELECT 1 FROM inputs UNION SELECT 1 FROM persons") == []


def test_what_cannot_be_released_is_refused(backend: Backend) -> None:
    publication = rides()
    with backend.open(noise=NoNoise()) as store:  # type: ignore[arg-type]
        stream = store.create(described(publication))
        begin = stream.open_tick
        stream.close_through(begin + 23)

        def tally(first: int, end: int) -> Any:
            rules = rules_of(publication, first_tick=first, end_tick=end)
            made = MeasureTally(rules)
            made.add(as_rows(events_of_all(rules, rows()), rules))
            return made.done()

        with pytest.raises(AlreadyReleasedError, match="give newer rows only"):
            list(stream.release_rows(begin + 48, tally(begin, begin + 48)))
        with pytest.raises(InputError, match="give older rows only"):
            list(stream.release_rows(begin + 24, tally(begin + 24, begin + 48)))
        noted = stream.persons_noted
        rules = rules_of(publication)
        stream.take([RowBatch(events_of(rules, rows())[-1:])], rules)
        with pytest.raises(InputError, match="source must be alone"):
            list(stream.release_rows(begin + 30, tally(begin + 24, begin + 30), noted=noted))
        assert stream.open_tick == begin + 24


def test_what_is_written_does_not_say_what_counts(backend: Backend) -> None:
    """A row beyond the cap, and one that repeats another, write what a row does that counts."""
    publication = rides(unit=fc.Unit(of="person", events=1, per="1d"))
    rules = rules_of(publication)

    def written(given: Sequence[Sequence[str]], name: str) -> list[Any]:
        with backend.open(noise=NoNoise()) as store:  # type: ignore[arg-type]
            publication_ = replace(publication, name=name)
            stream = store.create(described(publication_))
            stream.close_through(stream.description.ticks.at(0) + 492_891)
            stream.take([RowBatch(events_of(rules, rows(given)))], rules)
            place = (stream.status.id,)
            persons = store._database.query("SELECT COUNT(*) FROM persons WHERE stream = ?", place)
            inputs = store._database.query("SELECT COUNT(*) FROM inputs WHERE stream = ?", place)
            return [persons, inputs]

    one = ("2026-03-27T10:10", "ann", "1", "north", "50")
    two = ("2026-03-27T10:10", "ann", "2", "north", "50")
    assert written([one, two], "a") == written([two, one], "b")


def test_measures_begin_and_end_at_their_times(backend: Backend) -> None:
    blocks = fc.Blocks(fc.Level(1, 50.0), fc.Level(24, 50.0, lag=2), fc.Level(720, 50.0))
    late = Measure(name="late", start="2026-03-29", per=("1h", "1d"))
    early = Measure(name="early", until="2026-03-29", per=("1h", "1d"))
    publication = rides(measures=(early, late), columns=Columns(person="who"))
    rules = rules_of(publication)
    given = rows([(f"2026-03-{day}T{hour:02}:10", "ann", "", "", "")
                  for day in (28, 29, 30) for hour in (3, 22)])  # fmt: skip
    with backend.open(noise=NoNoise()) as store:  # type: ignore[arg-type]
        stream = store.create(described(publication, blocks))
        for event in events_of(rules, given):
            stream.close_through(stream.description.ticks.at(event.seconds) - 1)
            stream.take([RowBatch([event])], rules, at=event.seconds)
    with backend.open(noise=NoNoise()) as store:  # type: ignore[arg-type]
        stream = store.open("rides")
        stream.close_through(stream.open_tick + 48)
        state = store._database.query("SELECT DISTINCT series FROM state WHERE kind = 3")
        assert state == [(1,)], "what is open of a measure that ended is destroyed"
        days = {
            name: store.reader().series("rides", name).figures("1d") for name in ("early", "late")
        }
        shown = stream.description.ticks
        stream.close_through(stream.open_tick + 24 * 60)
        months = store.reader().series("rides", "early").figures("1mo", whole=True)
        assert not len(months), "the end of the measure cut it short"
        (month,) = store.reader().series("rides", "early").figures("1mo").values.ravel().tolist()
        assert month == 2, "so far, of its days"
        so_far = store.reader().series("rides", "early").so_far("1d")
        assert not len(so_far)
        assert days["early"].values.ravel().tolist() == [0, 2]
        assert days["late"].values.ravel().tolist()[:2] == [2, 2]
        assert days["late"].starts[0] == shown.start_seconds(
            shown.at(events_of(rules, given)[0].seconds) - 3 + 24
        )


def test_figures_of_a_slot_that_is_shorter_than_promised_wait(backend: Backend) -> None:
    """Days of 24 hours were promised, and one has 23: its figures wait until the unit is as old as
    was said; hidden keys too."""
    hidden = Measure(
        name="pages", count="persons", key=("place",), keys=("north",), discover=True, overall=True
    )
    publication = rides(measures=(hidden,), start="2026-03-28", delta=1e-9)
    levels = fc.Blocks(fc.Level(24, 50.0, later=((2, 60.0),)))
    description = described(publication, levels, shifts=(23,), open_ticks=23)
    rules = rules_of(publication)
    given = [
        {"time": f"2026-03-{day}T12:00", "who": who, "id": "1", "place": "zoo", "minutes": ""}
        for day in (28, 29, 30)
        for who in ("ann", "bob")
    ]
    seen: dict[int, list[tuple[int, str]]] = {}
    keys: dict[int, int] = {}
    with backend.open(noise=NoNoise()) as store:  # type: ignore[arg-type]
        stream = store.create(description)
        first = stream.open_tick
        for tick in range(first, first + 75):
            now = [
                event
                for event in events_of(rules, given)
                if description.ticks.at(event.seconds) == tick
            ]
            stream.take([RowBatch(now)], rules)
            stream.close_through(tick)
            shown = store.reader().series("rides", "pages", "overall")
            figures = shown.figures("1d", whole=True)
            values = figures.values.ravel().tolist()
            seen[tick + 1 - first] = [*zip(values, figures.shown_status, strict=True)]
            table = store.reader().series("rides", "pages").discovered()
            keys[tick + 1 - first] = len(table["key"])
            late = store._database.query(
                "SELECT COUNT(*) FROM embargo WHERE public_tick <= ?", (tick + 1,)
            )
            assert late == [(0,)], "it leaves the embargo with its public time"
    assert [len(seen[at]) for at in (23, 24, 46, 47, 48, 70, 71, 72)] == [0, 1, 1, 1, 2, 2, 3, 3]
    assert [keys[at] for at in (23, 24, 46, 47, 48, 70, 71)] == [0, 1, 1, 1, 2, 2, 3]
    assert seen[48][1] == (2, "provisional")
    assert (seen[49][1], seen[50][1]) == ((2, "provisional"), (2, "final")), "stages wait too"
    with backend.reader() as reader:
        figures = reader.series("rides", "pages", "overall").figures("1d", as_of=first + 48)
        shown_at = [int(each - figures.starts[0]) // 3600 for each in figures.published]
        assert shown_at[:2] == [26, 48]


# Bad input
# ------------------------------------------------------------------------------------------------
def test_what_cannot_be_created_changes_nothing(backend: Backend) -> None:
    with backend.open() as store:
        tight = Measure(name="all", per=("1h", "1d"), max=1 << 31, sum="cents")
        with pytest.raises(ParameterError, match="loss must be at least"):
            store.create(rides(measures=(tight,)))
        store.create(rides())
        with pytest.raises(ParameterError, match="new in this store"):
            store.create(rides())
        assert store.names() == ["rides"]


# One unit
# ------------------------------------------------------------------------------------------------
DAYS, HOURS = (28, 29, 30), (1, 9, 23)


@pytest.mark.parametrize("seed", range(25))
def test_one_unit_moves_its_own_amounts_only(tmp_path: Any, seed: int) -> None:
    """A person's slot is added or removed: each part moves by at most its weight, in the blocks of
    that slot, and nothing else changes."""
    chance, publication = messy(500 + seed)
    if publication.unit.of == "event":
        publication = replace(publication, columns=replace(publication.columns, id=None))
    given = [
        {**row, "time": f"2026-03-{chance.choice(DAYS)}T{chance.choice(HOURS):02}:10"}
        for row in rows_of(chance, 40)
    ]
    plain = Plain(publication, first=0, end=1 << 40)

    def unit_of(row: Mapping[str, str]) -> Any:
        if publication.unit.of == "event":
            return id(row)
        tick = plain.tick(plain.seconds(row["time"]) or 0)
        return row["who"], plain.slot(tick)

    gone = unit_of(chance.choice(given))
    fewer = [row for row in given if unit_of(row) != gone]
    description = described(publication, _exact_for(publication))
    both, keys = [], []
    for number, some in enumerate((given, fewer)):
        backend = SQLiteBackend(tmp_path / str(number))
        with backend.open(noise=NoNoise()) as store:  # type: ignore[arg-type]
            stream = store.create(description)
            rules = rules_of(publication)
            for text in (f"2026-03-{day}T{hour:02}:10" for day in DAYS for hour in HOURS):
                seconds = plain.seconds(text) or 0
                stream.close_through(description.ticks.at(seconds) - 1)
                now = [row for row in some if row["time"] == text]
                stream.take([RowBatch(events_of(rules, now))], rules, at=seconds)
            end = description.ticks.at(plain.seconds("2026-04-02T00:00") or 0)
            stream.close_through(end)
            public = store._database.query(
                "SELECT series, level, stage, first_tick, end_tick FROM figures ORDER BY 1, 2, 3, 4"
            )
        with backend.reader() as reader:
            both.append((published(reader, description), public))
            keys.append(appeared(reader, description, plain))
    (counts, shape), (others, same) = both
    assert shape == same
    moved = Counter[int]()
    for place in {*counts} | {*others}:
        if change := abs(counts[place] - others[place]):
            moved[place[0]] += change
            if publication.unit.of == "person":
                assert plain.slot(place[1]) == gone[1]
    for shown_key in {*keys[0]} | {*keys[1]}:
        values = [each.get(shown_key, 0) for each in keys]
        if values[0] != values[1]:  # a key of two persons, of whom one is gone, is hidden
            assert shown_key[1] == gone[1]
            moved[shown_key[0]] += 1
    for series, change in moved.items():
        weight = description.series[series].weight
        if publication.columns.count is None:
            assert change <= weight
