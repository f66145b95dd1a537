"""Noise that is drawn ahead is in no backup. After a restore, or another history, it is gone: tied
blocks that were open have no figures, and views use their children."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import fadecount as fc
from fadecount.errors import FenceError
from fadecount.mechanisms import ANNOUNCED
from fadecount.streams import FileFence, PostgresStore, Reader, SQLiteStore, Store
from fadecount.streams.audit_log import AuditLog
from fadecount.streams.backup import make_backup, restore_backup
from tests.counters.test_figures import Name
from tests.streams.backends import Backend, PostgresBackend, SQLiteBackend
from tests.streams.block_streams import DESIGN, FIRST, create, public_names, stored
from tests.streams.test_backup import dump_and_restore

COUNTS = np.random.default_rng(3).integers(0, 50, (80, 2)).astype(np.int64)
PARTS = (0, 2, 8, 14, 20, 26, 32, 38, 44, 49, 55, 61, 67, 73, 79)
"""Where the parts of days end."""


def opened(path: Path, fence: FileFence) -> Store:
    return SQLiteStore(path / "streams.db", fence=fence)


def backed_up(backend: SQLiteBackend, name: str) -> Path:
    backup = backend.folder / name
    make_backup(backend.path, backup, audit_log=AuditLog(backend.folder / "log"))
    return backup


def restored(backend: SQLiteBackend, backup: Path, name: str) -> Path:
    folder = backend.folder / name
    restore_backup(backup, folder / "streams.db", audit_log=AuditLog(backend.folder / "log"))
    return folder


def so_far(store: Store) -> list[list[int]]:
    """The count of the part of a day that was open after 29 hours, as it was known then."""
    published = store.reader().stream("doors")
    assert published is not None
    window = published.window(FIRST + 26, FIRST + 29, as_of=FIRST + 29)
    return [*window.values.tolist(), *window.half_widths.tolist()]


def ties_that_hold(figures: dict[Name, list[int]]) -> set[int]:
    """The ends of the parts of days that are what they announced plus their hours."""
    held = set()
    for start, end in pairwise(PARTS):
        if (1, end, 0) in figures:
            total = np.array(figures[1, end, ANNOUNCED])
            for hour in range(start + 1, end + 1):
                total += figures[0, hour, 0]
            assert total.tolist() == figures[1, end, 0], end
            held.add(end)
    return held


def test_a_backup_holds_no_noise_that_is_drawn_ahead(tmp_path: Path) -> None:
    """Neither as rows nor as bytes; and everything else."""
    backend = SQLiteBackend(tmp_path)
    with backend.open() as store:
        list(create(store).release(FIRST, COUNTS[:29]))
        secrets = store._database.query("SELECT body FROM ratchets")
        figures = stored(store._database)
        backup = backed_up(backend, "backup.db")
    assert len(secrets) == 2
    content = backup.read_bytes()
    for (body,) in secrets:
        assert body[:24] not in content and body[24:56] not in content
        assert body in backend.path.read_bytes()
    with Reader.of_file(restored(backend, backup, "new") / "streams.db") as reader:
        assert stored(reader.database) == figures


def test_a_restored_stream_gives_up_its_open_ties_and_goes_on(tmp_path: Path) -> None:
    """Nothing was published after the backup: no history is added, and no figure is made twice."""
    backend = SQLiteBackend(tmp_path)
    with backend.open() as store:
        stream = create(store)
        list(stream.release(FIRST, COUNTS[:29]))
        stream.add({"a": 5})
        before = stored(store._database)
        shown = so_far(store)
        backup = backed_up(backend, "backup.db")
    folder = restored(backend, backup, "new")
    with opened(folder, backend.fence) as store:
        stream = store.open("doors")
        assert stream.status.forks == ()
        assert stream.status.voids.keys() == {(1, 32)}
        assert stored(store._database) == before
        list(stream.release(FIRST + 29, COUNTS[29:60]))
        figures = stored(store._database)
        assert ties_that_hold(figures) == set(PARTS[1:10]) - {32} | {55}
        missing = public_names(60) - figures.keys()
        assert missing == {(1, 32, 0)}, "the void figure alone"
        assert figures.keys() <= public_names(60)
        assert {name: figures[name] for name in before} == before
        assert so_far(store) == shown, "what was shown then, with the share of the difference"
    with opened(folder, backend.fence) as store:
        assert store.open("doors").status.voids.keys() == {(1, 32)}


def test_a_stream_that_is_restored_twice(tmp_path: Path) -> None:
    """The second time with a backup of the restored store, inside the same void part of a day and
    in a later one."""
    backend = SQLiteBackend(tmp_path)
    with backend.open() as store:
        list(create(store).release(FIRST, COUNTS[:28]))
        backup = backed_up(backend, "backup0.db")
    steps = 28
    for number, (more, voids) in enumerate(
        [(2, {32}), (1, {32}), (6, {32, 38}), (10, {32, 38, 49})]
    ):
        folder = restored(backend, backup, f"new{number}")
        with opened(folder, backend.fence) as store:
            stream = store.open("doors")
            list(stream.release(FIRST + steps, COUNTS[steps : steps + more]))
            steps += more
            backup = folder.parent / f"backup{number + 1}.db"
            make_backup(folder / "streams.db", backup, audit_log=AuditLog(tmp_path / "log"))
            assert {end for _, end in stream.status.voids} <= voids
    folder = restored(backend, backup, "last")
    with opened(folder, backend.fence) as store:
        stream = store.open("doors")
        list(stream.release(FIRST + steps, COUNTS[steps:60]))
        assert stream.status.voids.keys() == {(1, 32), (1, 38), (1, 49)}
        figures = stored(store._database)
    assert public_names(60) - figures.keys() == {(1, 32, 0), (1, 38, 0), (1, 49, 0)}
    assert ties_that_hold(figures) == {2, 8, 14, 20, 26, 44, 55}


def test_another_history_gets_other_noise_everywhere(tmp_path: Path) -> None:
    """An older store that is allowed to go on: what the two histories publish about one block has
    independent noise, and the open ties of the older one are void."""
    backend, keys = SQLiteBackend(tmp_path), [f"k{at}" for at in range(2000)]
    nothing = np.zeros((60, len(keys)), dtype=np.int64)
    with backend.open() as store:
        list(create(store, keys).release(FIRST, nothing[:29]))
    older = tmp_path / "older"
    older.mkdir()
    (older / "streams.db").write_bytes(backend.path.read_bytes())  # a whole copy, with the noise
    with backend.open() as store:
        list(store.open("doors").release(FIRST + 29, nothing[29:]))
        one = stored(store._database)
    with opened(older, backend.fence) as store:
        with pytest.raises(FenceError, match="another history"):
            store.open("doors")
        assert store._database.query("SELECT COUNT(*) FROM ratchets") == [(2,)]
        store.accept_histories("doors", 1)
        assert store._database.query("SELECT COUNT(*) FROM ratchets") == [(0,)]
        stream = store.open("doors")
        assert stream.status.forks == (60,) and stream.status.voids.keys() == {(1, 32)}
        list(stream.release(FIRST + 29, nothing[29:]))
        two = stored(store._database)
        loss = stream.status.loss.at_age(100).epsilon
    assert loss >= 2 * DESIGN.loss(100)
    assert one.keys() - two.keys() == {(1, 32, 0)}
    for level, end, stage in two:
        first, second = (np.array(each[level, end, stage], dtype=float) for each in (one, two))
        if end <= (32 if stage == ANNOUNCED else 29):
            assert np.array_equal(first, second), "made before the copy"
        else:
            spread = np.sqrt(np.mean(first**2) * np.mean(second**2))
            # a mean of 2,000 products: 7 deviations
            assert abs(np.mean(first * second)) < 7 * spread * np.sqrt(3 / len(keys))
            assert not np.array_equal(first, second)


def test_views_cover_a_void_block_by_its_children(backend: Backend) -> None:
    """Totals, days and windows across it are near the truth, with a band that holds it."""
    noiseless = fc.Blocks(
        fc.Level(1, 40),
        fc.Level(6, 40, tied=True),
        fc.Level(24, 40, lag=3, later=((30, 41),)),
        fc.Level(720, 40, lag=30, later=((50, 41),)),
    )
    with backend.open() as store:
        stream = create(store, mechanism=noiseless)
        list(stream.release(FIRST, COUNTS[:29]))
        store._database.change("DELETE FROM ratchets")
        stream = store.open("doors")
        assert stream.status.voids.keys() == {(1, 32)}
        list(stream.release(FIRST + 29, COUNTS[29:]))
    with backend.reader() as reader:
        published = reader.stream("doors")
        sums = np.concatenate([[[0, 0]], np.cumsum(COUNTS, axis=0)])
        parts = reader.stream("doors").figures("6h")
        edges = [0, *PARTS[1:], 80]
        truth = [sums[end] - sums[start] for start, end in pairwise(edges)]
        np.testing.assert_array_equal(parts.values, truth)
        assert parts.shown_status[:-1] == ["final"] * (len(parts) - 1)
        totals = published.totals(range(FIRST, FIRST + 81))
        np.testing.assert_array_equal(totals.values, sums)
        then = published.totals(range(FIRST + 33, FIRST + 81), as_published=True)
        np.testing.assert_array_equal(then.values, sums[33:])
        for first, end in ((27, 31), (28, 40), (30, 33), (20, 60)):
            window = published.window(FIRST + first, FIRST + end)
            np.testing.assert_array_equal(window.values[0], sums[end] - sums[first])


def test_a_dump_of_postgres_without_ratchets(postgres_url: str, tmp_path: Path) -> None:
    """As the documentation says: the dump leaves the data of one table out."""
    import psycopg

    old = PostgresBackend(tmp_path, postgres_url, "voided")
    with old.open() as store:
        list(create(store).release(FIRST, COUNTS[:29]))
        before = stored(store._database)
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("CREATE DATABASE voids")
    new = postgres_url.replace("/postgres?", "/voids?")
    dump = tmp_path / "counts.dump"
    dump_and_restore(postgres_url, new, "voided", dump, "--exclude-table-data=*.ratchets")
    fence = old.fence
    with PostgresStore(f"{new}&options=-csearch_path%3Dvoided", fence=fence) as store:
        assert store._database.query("SELECT COUNT(*) FROM ratchets") == [(0,)]
        stream = store.open("doors")
        assert stream.status.voids.keys() == {(1, 32)}
        list(stream.release(FIRST + 29, COUNTS[29:60]))
        figures = stored(store._database)
    assert {name: figures[name] for name in before} == before
    assert public_names(60) - figures.keys() == {(1, 32, 0)}
