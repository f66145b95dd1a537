"""Retention by level: figures of small blocks go, what larger ones and totals need stays."""

from __future__ import annotations

import itertools
from dataclasses import fields
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from fadecount.errors import ParameterError, RemovedError
from fadecount.streams import Store
from fadecount.streams import retention as module
from fadecount.streams.audit_log import Act
from tests.counters.test_figures import Name
from tests.streams.backends import Backend, SQLiteBackend, entries_of
from tests.streams.block_streams import (
    DESIGN,
    FIRST,
    HOURS,
    create,
    stored,
    tick_at,
)

STEPS = 24 * 80
COUNTS = np.random.default_rng(3).integers(0, 50, (STEPS, 2)).astype(np.int64)
DAY = 86_400


def keep_up(store: Store, name: str = "doors") -> int:
    turns = 0
    while store.upkeep(name):
        turns += 1
    return turns


def answers(store: Store) -> dict[str, Any]:
    """What does not need small figures of long ago."""
    published = store.reader().stream("doors")
    parts: dict[str, Any] = {
        "total": published.total(),
        "so far": published.so_far("1d"),
        "months": published.figures("1mo"),
        "days": published.figures("1d", since=tick_at("2026-06-01T00:00")),
        "week": published.figures("1w", since=tick_at("2026-06-01T00:00")),
    }
    return {
        name: [getattr(each, column.name).tolist() for column in fields(each)]
        for name, each in parts.items()
    }


def ends_of(figures: dict[Name, list[int]], level: int, stage: int) -> list[int]:
    return sorted(end for at, end, which in figures if (at, which) == (level, stage))


def test_levels_are_removed_when_nothing_needs_them(
    backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "ROWS_AT_ONCE", 10)
    with backend.open() as store:
        stream = create(store)
        for at in range(0, STEPS, 50):
            list(stream.release(FIRST + at, COUNTS[at : at + 50]))
        before, said = stored(store._database), answers(store)
        assert keep_up(store) == 0
        store.retain("doors", 5 * DAY)
        assert keep_up(store) >= 3
        after, status = stored(store._database), store.open("doors").status
        assert answers(store) == said, "totals, months and what is recent are as they were"
        assert after.items() <= before.items(), "nothing changed"
        rows = store._database.query("SELECT level, stage, end_tick FROM figures")
        dates = status.calendar
        assert dates is not None
        kept = [each - FIRST for each in status.kept]
        # hours and parts of days stay from the first day on that is kept; days of the open month,
        # and of one whose last stage is not out
        limit = STEPS - 5 * 24
        assert kept[0] == dates.frontier(1, limit) and kept[1] == dates.frontier(2, limit)
        assert kept[2] == dates.frontier(3, min(limit, STEPS - 50))
        assert kept[3] == 0, "the largest blocks stay for ever"
        for level, first in enumerate(kept):
            for stage in range(len(DESIGN.levels[level].stages)):
                wanted = [end for end in ends_of(before, level, stage) if end > first]
                assert [end for end in ends_of(after, level, stage) if end > first] == wanted
                assert all(
                    end > FIRST + first for at, of, end in rows if (at, of) == (level, stage)
                )
        assert len(after) < len(before) / 4
        acts = [
            e.details for e in entries_of(store._context.audit_log) if e.act == Act.RELEASES_REMOVED
        ]
        assert {act["level"] for act in acts} == {0, 1, 2}
        assert keep_up(store) == 0


def test_questions_about_what_was_removed_are_refused(backend: Backend) -> None:
    with backend.open() as store:
        stream = create(store)
        list(stream.release(FIRST, COUNTS))
        store.retain("doors", 5 * DAY)
        keep_up(store)
        published = store.reader().stream("doors")
        old = FIRST + 400
        with pytest.raises((ParameterError, RemovedError)) as refused:
            published.total(as_of=old)
        assert "\n" not in str(refused.value)
        with pytest.raises((ParameterError, RemovedError)):
            published.window(old, old + 5)
        with pytest.raises((ParameterError, RemovedError)):
            published.totals([old])
        with pytest.raises((ParameterError, RemovedError)):
            list(published.running(since=old))


def test_upkeep_names_only_streams_that_may_have_something_to_do(backend: Backend) -> None:
    with backend.open() as store:
        for name in ("s1", "s2", "s9"):
            stream = create(store, ["a"], name=name)
            list(stream.release(FIRST, COUNTS[:100, :1]))
        assert store.needing_upkeep() == [], "everything is kept for ever"
        store.retain("s9", 50 * DAY)
        assert store.needing_upkeep() == ["s9"]
        keep_up(store, "s9")
        assert store.needing_upkeep() == []
        pace = 50 * 24 // 64
        store.open("s9").close_through(FIRST + 98 + pace)
        assert store.needing_upkeep() == []
        store.open("s9").close_through(FIRST + 99 + pace)
        assert store.needing_upkeep() == ["s9"]


def test_upkeep_of_ten_thousand_streams_is_one_quick_question(tmp_path: Any) -> None:
    """The rows of streams are copied: only the question is of interest."""
    with SQLiteBackend(tmp_path).open() as store:
        stream = create(store, ["a"], name="s")
        list(stream.release(FIRST, COUNTS[:, :1]))
        store.retain("s", 50 * DAY)
        keep_up(store, "s")
        columns = [
            name
            for _, name, *_ in store._database.query("PRAGMA table_info(streams)")
            if name not in ("id", "name")
        ]
        listed = ", ".join(columns)
        with store._database.transaction():
            store._database.change_many(
                f"INSERT INTO streams (name, {listed}) SELECT ?, {listed} FROM streams WHERE"  # noqa: S608
                " name = 's'",
                [(f"s{number}",) for number in range(10_000)],
            )
        hundreds = itertools.count()  # of steps of SQLite's machine
        store._database._connection.set_progress_handler(lambda: next(hundreds) < 0, 100)
        assert store.needing_upkeep() == []
        assert next(hundreds) < 2000, "more than 20 steps a stream"


def test_no_figure_is_removed_before_its_parent_is_out() -> None:
    """At every tick and for every retention the kept ticks follow the rule."""
    from tests.streams.backends import BriefStore

    with BriefStore() as store:
        stream = create(store, ["a"])
        store.retain("doors", 3600)
        for at in range(0, 24 * 75, 5):
            list(stream.release(FIRST + at, COUNTS[at : at + 5, :1]))
            status = stream.status
            cuts = module.first_ticks_to_keep(store.reader().status("doors"))
            dates = status.calendar
            assert dates is not None
            for level, (below, above) in enumerate(pairwise(DESIGN.levels)):
                del below
                out = dates.frontier(level + 1, max(0, at + 5 - above.stages[-1].lag))
                assert cuts[level] - FIRST <= out
            assert HOURS.tick_seconds == 3600
