"""Old releases are removed; what stays is as it was, and every loss too."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import fadecount as fc
from fadecount.cli.main import main
from fadecount.errors import ParameterError, RemovedError
from fadecount.streams import Description, Reader, Store, Ticks
from fadecount.streams.audit_log import Act
from tests.streams.backends import Backend, SQLiteBackend, entries_of, totals_of

HOUR = 60


def describe(name: str = "doors", mechanism: fc.Mechanism | None = None) -> Description:
    return Description(
        name=name, mechanism=mechanism or fc.Gradual(epsilon=0.5), ticks=Ticks(tick_seconds=60)
    )


def released(reader: Reader, since: int | None = None) -> dict[int, list[int]]:
    return totals_of(reader, since=since)


def keep_up(store: Store) -> int:
    turns = 0
    while store.upkeep("doors"):
        turns += 1
    return turns


def test_what_is_old_is_removed_and_losses_stay(backend: Backend) -> None:
    with backend.open() as store:
        stream = store.create(describe(), keys=["a", "b"], start_tick=1)
        for tick in range(1, 21):
            stream.close_through(tick)  # a row for each tick
        stream.close_through(600)  # and one row for many
        before, losses = released(store.reader()), store.reader().curve("doors", [0, 1, 500, 10**6])
        loss = store.reader().loss("doors", 3)
        assert keep_up(store) == 0, "everything is kept for ever"
        for bad in (59, 0, -1):
            with pytest.raises(ParameterError, match="retention must be"):
                store.retain("doors", bad)
        store.retain("doors", 100 * 60)
        assert keep_up(store) > 0
        reader = store.reader()
        assert reader.status("doors").shown_from == 501 and reader.status("doors").first_tick == 1
        assert released(reader) == {tick: row for tick, row in before.items() if tick >= 501}
        sql = "SELECT MIN(first_tick), MAX(end_tick), COUNT(*) FROM figures"
        assert store._database.query(sql) == [(21, 601, 1)], "a row goes when all of it may"
        assert (
            reader.curve("doors", [0, 1, 500, 10**6]) == losses and reader.loss("doors", 3) == loss
        )
        assert keep_up(store) == 0
        acts = [(entry.act, entry.details) for entry in entries_of(store._context.audit_log)]
        assert (Act.RETENTION_SET, {"seconds": 6000}) in acts
        assert (Act.RELEASES_REMOVED, {"level": 0, "before": "1970-01-01T08:21:00Z"}) in acts
        stream.close_through(601)
        assert sorted(released(reader))[-1] == 601
        store.retain("doors", None)
        stream.close_through(900)
        assert keep_up(store) == 0
    with backend.open() as store:
        assert store.open("doors").status.steps == 900, "the stream goes on"
        assert len(released(store.reader())) == 400


def test_readers_of_removed_ranges_get_a_clear_answer(backend: Backend) -> None:
    with backend.open() as store:
        stream = store.create(describe(mechanism=fc.Gradual(epsilon=2.0**14)), start_tick=0)
        for first in (0, 100, 200):
            list(stream.release(first, np.ones((100, 1), dtype=np.int64)))
        whole = store.reader().stream("doors").figures("1h")
        store.retain("doors", 90 * 60)
        keep_up(store)
        reader = store.reader()
        assert reader.status("doors").kept == (210,)
        for since in (0, 209):
            with pytest.raises(
                RemovedError, match=r"before 1970-01-01T03:30:00Z were removed"
            ) as refused:
                released(reader, since)
            assert "\n" not in str(refused.value)
        assert min(released(reader, since=210)) == 210
        found = reader.stream("doors").figures("1h")
        assert (found.partial.tolist(), found.values[:, 0].tolist()) == ([False], [60])
        assert np.array_equal(found.half_widths[-1:], whole.half_widths[-1:]), (
            "the interval of a whole window is the same"
        )
        with pytest.raises(RemovedError):
            reader.stream("doors").figures("1h", since=180)


def test_windows_with_a_delay_need_a_kept_release_before_them(tmp_path: Path) -> None:
    with SQLiteBackend(tmp_path).open() as store:
        stream = store.create(
            describe(mechanism=fc.Gradual(epsilon=2.0**14, delay=30)), start_tick=0
        )
        for first in (0, 100, 200):
            list(stream.release(first, np.ones((100, 1), dtype=np.int64)))
        store.retain("doors", 100 * 60)
        keep_up(store)
        found = store.reader().stream("doors").figures("1h")
        # releases 200 .. 299 show the counts up to tick 269
        assert found.partial.tolist() == [False, True]
        assert found.values[:, 0].tolist() == [60, 30]


def test_the_command_sets_and_applies_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    backend = SQLiteBackend(tmp_path)
    with backend.open() as store:
        store.create(describe(), start_tick=0).close_through(299)
        store.create(describe("gone"), start_tick=0).close_through(2)
    where = ["--state", str(tmp_path / "state"), "--fence", str(tmp_path / "fence")]
    assert main(["streams", "retain", "doors", "--for", "2h", *where]) == 0
    assert (
        "doors: figures are kept for 2 hours; those before 1970-01-01T03:00:00Z are removed"
        in capsys.readouterr().out
    )
    assert main(["streams", "retain", "doors", "--for", "soon", *where]) == 1
    assert main(["streams", "retain", "nothing", "--for", "2h", *where]) == 1
    assert main(["streams", "retain", "doors", "--for", "ever", *where]) == 0
    capsys.readouterr()
    assert main(["streams", "delete", "gone", "--yes", *where]) == 0
    assert "the losses of both add up" in capsys.readouterr().out
    assert main(["streams", "list", *where]) == 0
    said = capsys.readouterr().out
    assert "gone: deleted on " in said and ", after 3 ticks; its name stays taken" in said
