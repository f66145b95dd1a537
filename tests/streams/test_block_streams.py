"""Streams of blocks on both databases: figures by the definition, the embargo, later keys, several
streams at once, sealing and deletion."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import fields
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import fadecount as fc
from fadecount.errors import ClockError, StoreError
from fadecount.noise import DiscreteLaplace
from fadecount.streams import Seal, Store, Ticks
from fadecount.streams import stream as stream_module
from fadecount.streams.database import STREAM_TABLES
from fadecount.streams.embargo import largest_count
from fadecount.streams.figures import Closed
from fadecount.streams.state import OPEN, WHOLE
from fadecount.streams.stream import close_together
from tests.counters.block_reference import NamedNoise
from tests.counters.test_figures import Name
from tests.streams.backends import Backend, SQLiteBackend, totals_of
from tests.streams.block_streams import (
    DESIGN,
    FIRST,
    HOURS,
    create,
    describe,
    expected,
    public,
    published,
    stored,
    waiting,
)

STEPS = 120


def some_counts(steps: int = STEPS, keys: int = 2, seed: int = 5) -> NDArray[np.int64]:
    return np.random.default_rng(seed).integers(0, 9, (steps, keys)).astype(np.int64)


def test_figures_follow_the_definition_in_any_pieces_and_across_restarts(backend: Backend) -> None:
    chance, counts, noise = random.Random(1), some_counts(), NamedNoise(3)
    want = expected(counts, noise)
    store = backend.open(noise=noise)  # type: ignore[arg-type]
    stream, at = create(store), 0
    got: dict[Name, list[int]] = {}
    while at < STEPS:
        count = min(chance.choice((1, 1, 2, 7, 20)), STEPS - at)
        if count == 1:
            stream.add({"a": int(counts[at, 0]), "b": int(counts[at, 1])})
            closed = stream.close_through(FIRST + at)
        else:
            closed = list(stream.release(FIRST + at, counts[at : at + count]))
        at += count
        new = published(closed)
        assert not got.keys() & new.keys(), "published once"
        got.update(new)
        assert stored(store._database) == got == public(want, at)
        assert waiting(store._database) == {
            (level, end, stage)
            for (level, end, stage), (_, due, _) in want.items()
            if end <= at < due
        }
        if chance.random() < 0.3:
            store.close()
            store = backend.open(noise=noise)  # type: ignore[arg-type]
            stream = store.open("doors")
    store.close()


def test_keys_declared_later_begin_with_the_next_block_of_each_level(backend: Backend) -> None:
    counts, noise, declared = some_counts(keys=4), NamedNoise(2), (0, 0, 4, 33)
    want = expected(counts, noise, declared=declared)
    with backend.open(noise=noise) as store:  # type: ignore[arg-type]
        stream = create(store)
        list(stream.release(FIRST, counts[:4, :2]))
        stream.declare(["c"])
        list(stream.release(FIRST + 4, counts[4:33, :3]))
        stream = store.open("doors")
        stream.declare(["d"])
        list(stream.release(FIRST + 33, counts[33:]))
        assert stored(store._database) == public(want, STEPS)
    with backend.reader() as reader:
        days = reader.stream("doors").figures("1d")
        assert (
            days.known[:3].tolist()
            == [
                [True, True, False, False],  # it began two hours before midnight
                [True, True, True, True],
                [True, True, True, True],
            ]
            or days.known[0].tolist()[:2] == [True, True]
        )


def test_one_unit_moves_one_figure_of_each_level_and_stage_by_its_amount(backend: Backend) -> None:
    """Everything else that is published is the same, with the same noise."""
    counts, noise = some_counts(), NamedNoise(7)
    chance = random.Random(3)
    with backend.open(noise=noise) as store:  # type: ignore[arg-type]
        list(create(store, name="without").release(FIRST, counts))
        one = stored(store._database, 1)
        for number in range(2, 8):
            at, amount = chance.randrange(STEPS - 51), chance.randint(1, 3)
            other = counts.copy()
            other[at, 1] += amount
            stream = create(store, name=f"with{number}")
            list(stream.release(FIRST, other))
            two = stored(store._database, stream.status.id)
            assert one.keys() == two.keys()
            moved = {name for name in one if one[name] != two[name]}
            ended = [(level, stage) for level, _, stage in moved]
            assert len(ended) == len(set(ended)) and {0, 1} <= {level for level, _ in ended}
            for level, end, stage in moved:
                assert end > at
                a, b = one[level, end, stage], two[level, end, stage]
                assert (b[0] - a[0], b[1] - a[1]) == (0, amount)


def test_a_tick_saturates_in_all_levels_alike(backend: Backend) -> None:
    """A count above the largest is cut before any level sees it: no part is outside the
    children."""
    most = largest_count(HOURS)
    counts = np.full((30, 1), 3 * most, dtype=np.int64)
    want = expected(np.full_like(counts, most), NamedNoise(1))
    with backend.open(noise=NamedNoise(1)) as store:  # type: ignore[arg-type]
        stream = create(store, keys=["a"])
        list(stream.release(FIRST, counts))
        figures = stored(store._database)
    assert figures == public(want, 30)
    assert most * 200 * 366 * 24 < 1 << 61


@pytest.mark.parametrize("spread", [100, 10**10])
def test_the_largest_counts_and_noises_survive_a_restart(backend: Backend, spread: int) -> None:
    minutes = Ticks(tick_seconds=60)
    mechanism = fc.Blocks(fc.Level(1, 0.5), fc.Level(20, 0.5), fc.Level(60, 0.5))
    most, noise = largest_count(minutes), NamedNoise(spread=spread)
    counts = np.random.default_rng(8).integers(0, most + 1, (61, 3)).astype(np.int64)
    for name, pieces in (("whole", [0, 61]), ("pieces", [0, 3, 19, 20, 21, 40, 59, 61])):
        with backend.open(noise=noise) as store:  # type: ignore[arg-type]
            store.create(describe(name, mechanism, minutes), keys="abc", start_tick=0)
        for begin, end in pairwise(pieces):
            with backend.open(noise=noise) as store:  # type: ignore[arg-type]
                list(store.open(name).release(begin, counts[begin:end]))
    with backend.reader() as reader:
        for per in ("1m", "20m", "1h"):
            one, two = (reader.stream(name).figures(per).values for name in ("whole", "pieces"))
            assert np.array_equal(one, two) and len(one)


# The embargo
# ------------------------------------------------------------------------------------------------
class LaterOnly(NamedNoise):
    """Noise with other later stages, and the same first stages."""

    def __init__(self, more: int) -> None:
        super().__init__(9)
        self._more = more

    def value(self, level: int, stage: int, block: int, key: int = 0) -> int:
        value = super().value(level, stage, block, key)
        stages = len(DESIGN.levels[level].stages)
        if stages == 1:
            return value
        return value + (self._more if stage == stages - 1 else -self._more)


def everything(backend: Backend, store: Store) -> list[Any]:
    """All that a reader can be told."""
    with backend.reader() as reader:
        published = reader.stream("doors")
        end = published.first_tick + published.steps
        answers = [
            *(reader.stream("doors").figures(per) for per in ("1h", "6h", "1d", "1w", "1mo")),
            published.total(),
            published.so_far("1d"),
            published.totals(range(FIRST, end + 1)),
            published.totals(range(FIRST, end + 1), as_published=True),
            *published.running(),
        ]
        rows = [
            [getattr(answer, each.name).tolist() for each in fields(answer)] for answer in answers
        ]
        frame = reader.frame("doors", per="1d").rows()
        others = reader.published(), reader.status("doors").published_tick, reader.names()
    return [rows, frame, others]


def test_no_figure_leaves_the_embargo_before_its_time(backend: Backend) -> None:
    """Stages that are due one tick after the other, looked for in the table itself."""
    design = fc.Blocks(fc.Level(1, 0.5), fc.Level(6, 0.5, lag=3, later=((4, 1.0), (5, 2.0))))
    with backend.open() as store:
        stream = create(store, mechanism=design)
        for _ in range(40):
            stream.close_through(stream.open_tick or 0)
            end = stream.open_tick or 0
            rows = store._database.query("SELECT level, stage, end_tick FROM figures")
            late = [row for row in rows if row[2] + design.levels[row[0]].stages[row[1]].lag > end]
            assert late == []


def test_what_readers_see_does_not_depend_on_what_is_under_embargo(
    backend: Backend, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Two stores whose later stages differ give the same answers in every tick, until the stage is
    out: then they differ."""
    other = SQLiteBackend(tmp_path_factory.mktemp("other"))
    with (
        backend.open(noise=LaterOnly(0)) as one,  # type: ignore[arg-type]
        other.open(noise=LaterOnly(1000)) as two,  # type: ignore[arg-type]
    ):
        streams = create(one), create(two)
        first_day = 2  # two hours before midnight: its later stage is out after 32 steps
        for at in range(first_day + 32):
            for stream in streams:
                stream.add({"a": at})
                stream.close_through(FIRST + at)
            same = everything(backend, one) == everything(other, two)
            assert same is (at + 1 < first_day + 30), at + 1


def test_readers_select_from_no_secret_table(
    backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []
    with backend.open() as store:
        list(create(store).release(FIRST, some_counts()))
        with backend.reader() as reader:
            kind = type(reader.database)
        query = kind.query

        def noted(self: Any, sql: str, values: Sequence[Any] = ()) -> Any:
            seen.append(sql)
            return query(self, sql, values)

        monkeypatch.setattr(kind, "query", noted)
        everything(backend, store)
    assert any("FROM figures" in sql for sql in seen)
    for table in ("embargo", "state", "inputs", "persons", "seen", "positions"):
        assert not any(f" {table} " in f"{sql} " for sql in seen), table


def test_a_connection_for_readers_cannot_select_secrets(tmp_path: Path) -> None:
    """Where the database can forbid it: on PostgreSQL it is a matter of roles."""
    backend = SQLiteBackend(tmp_path)
    with backend.open() as store:
        list(create(store).release(FIRST, some_counts()))
    secret = ("embargo", "state", "inputs", "persons", "seen", "positions", "tokens")
    for sql in (f"SELECT * FROM {table}" for table in (*secret, "secrets", "hidden")):  # noqa: S608
        with backend.reader() as reader, pytest.raises(StoreError, match="prohibited"):
            reader.database.query(sql)
    with backend.reader() as reader:
        assert reader.database.query("SELECT COUNT(*) FROM figures") > [(0,)]


def test_after_a_downtime_ticks_close_in_order_and_stages_have_their_nominal_times(
    backend: Backend,
) -> None:
    counts, noise = some_counts(40), NamedNoise(3)
    want = expected(np.concatenate([counts, np.zeros((80, 2), dtype=np.int64)]), noise)
    with backend.open(noise=noise) as store:  # type: ignore[arg-type]
        stream = create(store)
        list(stream.release(FIRST, counts))
        closed = stream.close_through(FIRST + STEPS - 1)
        rows = [(row.end_tick, row.level, row.stage) for each in closed for row in each.figures]
        assert len(rows) == len(set(rows))
        assert stored(store._database) == public(want, STEPS)
    with backend.reader() as reader:
        days = reader.stream("doors").figures("1d")
    ends = [2, 26, 49, 73, 97]  # the second whole day has 23 hours
    due = [end + (30 if end + 30 <= STEPS else 3) for end in ends]
    assert days.published[:5].tolist() == [HOURS.start_seconds(FIRST + each) for each in due]
    assert days.shown_status == ["final"] * 4 + ["provisional"] * 2


def test_a_wrong_clock_publishes_no_stage(backend: Backend) -> None:
    with backend.open() as store:
        stream = create(store)
        list(stream.release(FIRST, some_counts(40)))
        before = stored(store._database), waiting(store._database)
        now = HOURS.start_seconds(FIRST + 40)
        assert len(before[1]) == 1
        assert stream.close_due(now) == []
        assert stream.close_due(now - 1800) == [], "a little behind"
        for wrong in (now - 50 * 3600, now + 30 * 86_400, now + 3650 * 86_400):
            with pytest.raises(ClockError):
                stream.close_due(wrong)
        assert (stored(store._database), waiting(store._database)) == before
        # a jump of a day looks like a downtime: ticks close one by one, and stages with theirs
        (closed,) = stream.close_due(now + 15 * 3600)
        assert (closed.first_tick, closed.last_tick) == (FIRST + 40, FIRST + 54)
        assert waiting(store._database) == {(2, 26, 1), (2, 49, 1)}


def test_a_commit_that_is_not_published_shows_no_stage(
    backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the commit and the publication, readers are where they were."""
    with backend.open(noise=NamedNoise(4)) as store:  # type: ignore[arg-type]
        stream = create(store)
        list(stream.release(FIRST, some_counts(31)))
        before = everything(backend, store)

        def stop(*_: object) -> None:
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(stream_module, "publish", stop)
            with pytest.raises(KeyboardInterrupt):
                stream.close_through(FIRST + 31)
        assert (2, 2, 1) in stored(store._database), "committed"
        assert everything(backend, store) == before, "not published"
        assert stream.close_through(FIRST + 31) == [], "published by the next call"
        assert everything(backend, store) != before


# Several streams, sealing, damage, deletion
# ------------------------------------------------------------------------------------------------
def test_streams_of_all_kinds_close_together(backend: Backend) -> None:
    counts, noise = some_counts(), NamedNoise(3)
    want = expected(counts, noise)
    with backend.open(noise=noise) as store:  # type: ignore[arg-type]
        streams = [create(store, name=name) for name in ("x", "y")]
        gradual = create(store, name="z", mechanism=fc.Gradual(epsilon=0.5))
        for at, row in enumerate(counts):
            for stream in (*streams, gradual):
                stream.add({"a": int(row[0]), "b": int(row[1])})
            results = close_together([(each, FIRST + at) for each in (*streams, gradual)])
            assert all(isinstance(each, Closed) for each in results)
        for stream in streams:
            assert stored(store._database, stream.status.id) == public(want, STEPS)
        sums = np.cumsum(counts, axis=0)
        assert np.array(list(totals_of(store.reader(), "z").values())).shape == sums.shape


def test_a_key_can_be_changed_while_blocks_are_open_and_stages_wait(backend: Backend) -> None:
    old, new = Seal(b"o" * 32), Seal(b"n" * 32)
    counts, noise = some_counts(60), NamedNoise(5)
    with backend.open(seal=old, noise=noise) as store:  # type: ignore[arg-type]
        create(store)
        list(store.open("doors").release(FIRST, counts[:29]))
        assert waiting(store._database) == {(2, 2, 1), (2, 26, 1)}
    with backend.open(seal=old) as store:
        store.rotate(new)
    with pytest.raises(StoreError, match="opened with the key it was sealed with"):
        backend.open(seal=old)
    with backend.open(seal=new, noise=noise) as store:  # type: ignore[arg-type]
        list(store.open("doors").release(FIRST + 29, counts[29:45]))
    with backend.open(seal=new) as store:
        store.rotate(Seal())
    with backend.open(noise=noise) as store:  # type: ignore[arg-type]
        list(store.open("doors").release(FIRST + 45, counts[45:]))
        assert stored(store._database) == public(expected(counts, noise), 60)


@pytest.mark.parametrize("table", ["state", "embargo"])
@pytest.mark.parametrize("sealed", [False, True])
def test_a_damaged_row_is_refused(backend: Backend, table: str, sealed: bool) -> None:
    seal = Seal(b"k" * 32) if sealed else None
    with backend.open(seal=seal) as store:
        list(create(store).release(FIRST, some_counts(31)))
        database = store._database
        change = f"UPDATE {table} SET body = ? WHERE body = ?"  # noqa: S608
        rows = database.query(f"SELECT body FROM {table}")  # noqa: S608
        assert rows
        for (body,) in rows:
            damaged = body[:-1] + bytes([body[-1] ^ 1])
            database.change(change, (damaged, body))
            with pytest.raises(StoreError, match=r"take an intact copy"):
                store.open("doors").close_through(FIRST + 59)
            database.change(change, (body, damaged))
        store.open("doors").close_through(FIRST + 59)


def test_a_figure_whose_public_time_was_changed_is_refused(backend: Backend) -> None:
    with backend.open() as store:
        list(create(store).release(FIRST, some_counts(29)))
        store._database.change("UPDATE embargo SET public_tick = public_tick - 2")
        with pytest.raises(StoreError, match=r"take an intact copy"):
            store.open("doors").close_through(FIRST + 29)
        assert (2, 2, 1) not in stored(store._database)


def test_nothing_is_left_of_a_deleted_stream(backend: Backend) -> None:
    with backend.open() as store:
        for name in ("x", "y"):
            stream = create(store, name=name)
            list(stream.release(FIRST, some_counts(40)))
            stream.add({"a": 1}, id="b")
        for table in ("embargo", "figures"):
            rows = store._database.query(f"SELECT DISTINCT stream FROM {table}")  # noqa: S608
            assert sorted(rows) == [(1,), (2,)]
        store.delete("x")
        for table in STREAM_TABLES:
            left = store._database.query(f"SELECT DISTINCT stream FROM {table}")  # noqa: S608
            assert left in ([], [(2,)])
        list(store.open("y").release(FIRST + 40, some_counts(20)))
        assert len(stored(store._database, 2)) > 60


def test_between_two_blocks_nothing_is_kept_and_in_one_a_count(backend: Backend) -> None:
    """No noise of a block that has not ended is in the store."""
    with backend.open() as store:
        stream = create(store)
        for at in range(40):
            stream.close_through(FIRST + at)
            rows = store._database.query("SELECT kind, number FROM state")
            ended = (FIRST + at + 1) in [FIRST + each for each in (2, 8, 14, 20, 26, 32, 38)]
            assert ((OPEN, 1) in rows) is not ended
            assert {kind for kind, _ in rows} == {OPEN, WHOLE}


def test_laws_are_those_of_the_design(backend: Backend) -> None:
    """The source sees the scales of the levels."""
    scales: dict[tuple[int, int], set[float]] = {}

    class Scales(NamedNoise):
        def many(
            self, distribution: DiscreteLaplace, level: int, rounds: range, nodes: range, width: int
        ) -> NDArray[np.int64]:
            for each in rounds:
                scales.setdefault((level, each), set()).add(distribution.scale)
            return super().many(distribution, level, rounds, nodes, width)

    with backend.open(noise=Scales()) as store:  # type: ignore[arg-type]
        list(create(store).release(FIRST, some_counts()))
    assert {name: len(found) for name, found in scales.items()} == dict.fromkeys(scales, 1)
    for (level, stage), (scale,) in scales.items():
        assert scale == pytest.approx(1 / DESIGN.levels[level].stages[stage].epsilon)
