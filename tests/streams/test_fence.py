"""The fence: an old backup and a second copy are refused, a stopped process is not."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

import fadecount as fc
from fadecount.errors import FenceError, ParameterError, StoreError
from fadecount.streams import (
    Description,
    FileFence,
    PostgresStore,
    Reader,
    ServerFence,
    SQLiteStore,
    Store,
    Ticks,
    fence_from,
)
from fadecount.streams.database import Checkpoints
from fadecount.streams.fence import Mark, default_folder
from fadecount.streams.postgres import PostgresDatabase
from tests.streams.backends import Backend, totals_of

MECHANISM = fc.Gradual(epsilon=0.5)


def describe(name: str = "doors", mechanism: fc.Mechanism = MECHANISM) -> Description:
    return Description(name=name, mechanism=mechanism, ticks=Ticks(tick_seconds=60))


def open_copy(folder: Path, copy: str = "state") -> Store:
    return SQLiteStore(folder / copy / "streams.db", fence=FileFence(folder / "fence"))


@pytest.fixture
def behind(tmp_path: Path) -> Path:
    """A store at step 20, and ``old``, a copy of it from step 10."""
    with open_copy(tmp_path) as store:
        store.create(describe(), start_tick=1).close_through(10)
    shutil.copytree(tmp_path / "state", tmp_path / "old")
    with open_copy(tmp_path) as store:
        store.open("doors").close_through(20)
    return tmp_path


def test_an_old_backup_is_refused_in_one_line(behind: Path) -> None:
    with (
        open_copy(behind, "old") as store,
        pytest.raises(FenceError, match=r"step 10, but .* published up to step 20") as refused,
    ):
        store.open("doors")
    assert "\n" not in str(refused.value)
    with open_copy(behind) as store:
        assert store.open("doors").status.steps == 20


def test_copies_that_run_side_by_side_are_stopped_before_the_second_publishes(
    tmp_path: Path,
) -> None:
    with open_copy(tmp_path) as store:
        store.create(describe(), start_tick=1).close_through(10)
    shutil.copytree(tmp_path / "state", tmp_path / "copy")
    with open_copy(tmp_path) as one, open_copy(tmp_path, "copy") as two:
        first, second = one.open("doors"), two.open("doors")
        first.close_through(11)
        with pytest.raises(FenceError, match="another copy"):
            second.close_through(11)
        with pytest.raises(FenceError, match="from another copy"):
            second.close_through(11)
        first.close_through(12)
    with Reader.of_file(tmp_path / "copy" / "streams.db") as reader:
        assert reader.status("doors").published_tick == 10
        assert max(totals_of(reader)) == 10


def test_a_lost_fence_is_refused(behind: Path) -> None:
    shutil.rmtree(behind / "fence")
    with open_copy(behind) as store, pytest.raises(FenceError, match="has no mark in the fence"):
        store.open("doors")


def test_a_stream_created_after_the_backup_is_not_created_again(tmp_path: Path) -> None:
    with open_copy(tmp_path) as store:
        store.create(describe("first"), start_tick=1)
    shutil.copytree(tmp_path / "state", tmp_path / "old")
    with open_copy(tmp_path) as store:
        store.create(describe("second"), start_tick=1).close_through(5)
        store.create(describe("unused"), start_tick=1)
    with open_copy(tmp_path, "old") as store:
        with pytest.raises(FenceError, match="was used at this place"):
            store.create(describe("second"), start_tick=1)
        assert store.names() == ["first"]
        store.create(describe("unused"), start_tick=1)  # nothing of it was released


def test_a_missing_mark_is_explained_before_the_remedy(behind: Path) -> None:
    shutil.rmtree(behind / "fence")
    with open_copy(behind) as store, pytest.raises(FenceError) as raised:
        store.open("doors")
    said = str(raised.value)
    assert str(behind / "fence") in said
    assert said.index("another user or HOME") < said.index("begin new streams under new names")
    assert "\n" not in said


def test_a_stream_that_has_lost_its_mark_is_refused_also_before_its_first_step(
    tmp_path: Path,
) -> None:
    with open_copy(tmp_path) as store:
        store.create(describe(), start_tick=1)
    shutil.copytree(tmp_path / "state", tmp_path / "old")
    with open_copy(tmp_path) as store:
        store.open("doors").close_through(5)
    shutil.rmtree(tmp_path / "fence")
    with (
        open_copy(tmp_path, "old") as store,
        pytest.raises(FenceError, match="has no mark in the fence"),
    ):
        store.open("doors")


class _Stop(Checkpoints):
    def __init__(self, at: str) -> None:
        self.at = at

    def __call__(self, step: str) -> None:
        if step == self.at:
            raise RuntimeError(step)


@pytest.mark.parametrize("step", ["before commit", "committed", "fenced", "published"])
def test_stopping_at_any_step_leaves_a_store_that_opens(backend: Backend, step: str) -> None:
    with backend.open() as store:
        store.create(describe(), start_tick=1).close_through(3)
        store._context.checkpoint = _Stop(step)
        with pytest.raises(RuntimeError, match=step):
            store.open("doors").close_through(4)
        with backend.reader() as reader:
            assert reader.status("doors").published_tick == (4 if step == "published" else 3)
        store.close()
    with backend.open() as store:
        stream = store.open("doors")
        assert (
            stream.status.published_tick
            == stream.status.last_tick
            == (3 if step == "before commit" else 4)
        )
        stream.close_through(5)


@pytest.mark.parametrize("mark", ["of another commit", "lost"])
@pytest.mark.parametrize("killed", [True, False])
def test_ticks_that_are_not_published_never_are_once_another_copy_went_on(
    tmp_path: Path, mark: str, *, killed: bool
) -> None:
    """Where both copies have the same noise, two figures would tell how their counts differ."""
    with open_copy(tmp_path) as store:
        store.create(describe(), start_tick=0).close_through(58)
    shutil.copytree(tmp_path / "state", tmp_path / "copy")
    with open_copy(tmp_path, "copy") as copy:
        if killed:
            stream = copy.open("doors")
            copy._context.checkpoint = _Stop("committed")
            with pytest.raises(RuntimeError):
                stream.close_through(59)
    with open_copy(tmp_path) as store, open_copy(tmp_path, "copy") as copy:
        if not killed:
            stream = copy.open("doors")
        original = store.open("doors")
        original.add({"all": 1})
        original.close_through(59)
        if not killed:
            with pytest.raises(FenceError, match="another copy"):
                stream.close_through(59)
        if mark == "lost":
            shutil.rmtree(tmp_path / "fence")
        said = "has no mark in the fence" if mark == "lost" else "from another copy"
        with pytest.raises(FenceError, match=said):
            copy.open("doors")
        assert copy.reader().status("doors").published_steps == 59


def test_a_stream_recovers_in_the_same_process_once_the_fence_can_be_used(tmp_path: Path) -> None:
    with open_copy(tmp_path) as store:
        stream = store.create(describe(), start_tick=1)
        first = stream.close_through(1)[0].values
        shutil.move(tmp_path / "fence", tmp_path / "away")
        (tmp_path / "fence").write_text("not a folder")
        with pytest.raises(StoreError, match=r"fence at .* cannot be used"):
            stream.close_through(2)
        (tmp_path / "fence").unlink()
        shutil.move(tmp_path / "away", tmp_path / "fence")
        assert stream.close_through(2) == []
        assert stream.status.published_tick == 2
        stream.close_through(3)
    with Reader.of_file(tmp_path / "state" / "streams.db") as reader:
        values = np.array(list(totals_of(reader).values()))
    assert len(values) == 3
    assert values[0] == first[0]


def test_the_fence_lies_outside_the_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder in (tmp_path, tmp_path / "fence", tmp_path / "state" / ".." / "fence"):
        with pytest.raises(ParameterError, match="outside the store's own folder"):
            SQLiteStore(tmp_path / "streams.db", fence=FileFence(folder))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "user"))
    assert default_folder() == tmp_path / "user" / "fadecount"
    with SQLiteStore(tmp_path / "state" / "streams.db") as store:
        store.create(describe(), start_tick=0)
    assert (tmp_path / "user" / "fadecount" / "fence.db").exists()
    monkeypatch.delenv("XDG_STATE_HOME")
    assert default_folder() == Path.home() / ".local" / "state" / "fadecount"


def test_a_fence_in_the_database_of_the_store_is_refused(postgres_url: str) -> None:
    fence = ServerFence(postgres_url)
    for url in (postgres_url, f"{postgres_url}&options=-csearch_path%3Dpublic"):
        with pytest.raises(ParameterError, match="outside the store's own folder or database"):
            PostgresStore(url, fence=fence)
    other = PostgresDatabase(postgres_url, writes=True)
    other.change("CREATE DATABASE beside")
    other.close()
    beside = postgres_url.replace("/postgres?", "/beside?")
    assert beside != postgres_url
    with PostgresStore(beside, fence=fence) as store:
        assert store.names() == []
    fence.close()


def test_the_fence_in_a_second_database(postgres_url: str, tmp_path: Path) -> None:
    fence = fence_from(postgres_url)
    assert isinstance(fence, ServerFence)
    with SQLiteStore(tmp_path / "state" / "streams.db", fence=fence) as store:
        store.create(describe(), start_tick=1).close_through(10)
    shutil.copytree(tmp_path / "state", tmp_path / "old")
    with SQLiteStore(tmp_path / "state" / "streams.db", fence=fence) as store:
        store.open("doors").close_through(11)
    with (
        SQLiteStore(tmp_path / "old" / "streams.db", fence=fence) as store,
        pytest.raises(FenceError, match="step 11"),
    ):
        store.open("doors")
    with pytest.raises(FenceError, match="another copy"):
        fence.move("nobody", "other", Mark(commit_id="t", steps=1, name="doors"))
    fence.close()
