"""Copies of an SQLite store that a process is writing to: whole ones go on, the fence refuses one
without its write-ahead log."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fadecount.errors import FenceError, StoreError
from fadecount.streams import FileFence, Reader, SQLiteStore, Store

NAME = "streams.db"
WRITER = """
import sys
from pathlib import Path
import fadecount as fc
from fadecount.streams import Description, FileFence, SQLiteStore, Ticks
folder = Path(sys.argv[1])
store = SQLiteStore(folder / "state" / "streams.db", fence=FileFence(folder / "fence"))
mechanism, ticks = fc.Gradual(epsilon=0.5), Ticks(tick_seconds=60)
stream = store.create(Description(name="doors", mechanism=mechanism, ticks=ticks), start_tick=1)
for tick in range(1, 10**9):
    stream.add({"all": 1})
    stream.close_through(tick)
    print(tick, flush=True)
    if sys.stdin.readline() == "":
        break
"""


def open_store(folder: Path, name: str = "state") -> Store:
    return SQLiteStore(folder / name / NAME, fence=FileFence(folder / "fence"))


class Writing:
    """A process that closes a tick whenever it is asked to, and keeps its store open."""

    def __init__(self, folder: Path) -> None:
        words = [sys.executable, "-c", WRITER, str(folder)]
        self.process = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None and self.process.stdin is not None
        self._out, self._in = self.process.stdout, self.process.stdin
        self.tick = int(self._out.readline())

    def close_tick(self) -> None:
        self._in.write("\n")
        self._in.flush()
        self.tick = int(self._out.readline())

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        self._out.close()
        self._in.close()


@pytest.fixture
def writing(tmp_path: Path) -> Iterator[Writing]:
    process = Writing(tmp_path)
    try:
        for _ in range(5):
            process.close_tick()
        yield process
    finally:
        process.kill()


def test_a_copy_without_its_log_is_refused_by_the_fence(writing: Writing, tmp_path: Path) -> None:
    writing.kill()
    open_store(tmp_path).close()  # merges the log
    with open_store(tmp_path) as store:
        store.open("doors").close_through(writing.tick + 3)
        for name in ("copy", "restored"):
            (tmp_path / name).mkdir()
            shutil.copy(tmp_path / "state" / NAME, tmp_path / name / NAME)
            if name == "restored":  # with an empty log, as a reader that is killed leaves it
                (tmp_path / name / f"{NAME}-wal").touch()
            with open_store(tmp_path, name) as copy, pytest.raises(FenceError) as error:
                copy.open("doors")
            assert "\n" not in str(error.value)


def test_a_copy_with_its_log_goes_on_or_is_refused_by_the_fence(
    writing: Writing, tmp_path: Path
) -> None:
    writing.kill()
    shutil.copytree(tmp_path / "state", tmp_path / "whole")
    with open_store(tmp_path, "whole") as store:
        assert store.open("doors").status.steps == writing.tick
        store.open("doors").close_through(writing.tick + 1)
    with open_store(tmp_path) as store, pytest.raises(FenceError):
        store.open("doors")


def test_the_original_goes_on_after_a_kill_also_when_a_reader_has_merged_its_log(
    writing: Writing, tmp_path: Path
) -> None:
    writing.kill()
    with Reader.of_file(tmp_path / "state" / NAME) as reader:
        assert reader.status("doors").steps == writing.tick
    assert not (tmp_path / "state" / f"{NAME}-wal").exists(), "the last one to close merges the log"
    with Reader.of_file(tmp_path / "state" / NAME) as reader:
        assert reader.status("doors").steps == writing.tick
    with open_store(tmp_path) as store:
        assert store.open("doors").status.steps == writing.tick
    shutil.copytree(tmp_path / "state", tmp_path / "later")
    (tmp_path / "later" / f"{NAME}.lock").unlink()
    with open_store(tmp_path, "later") as store:
        assert store.open("doors").status.steps == writing.tick, (
            "a store that was closed is one file"
        )


@pytest.mark.parametrize("size", [0, 50, 4096])
def test_a_file_without_tables_is_refused_instead_of_starting_empty(
    tmp_path: Path, size: int
) -> None:
    with open_store(tmp_path):
        pass
    content = (tmp_path / "state" / NAME).read_bytes()
    (tmp_path / "empty").mkdir()
    head = bytearray(content[:4096])
    head[28:32] = (1).to_bytes(4, "big")  # one page
    head[100:108] = bytes([13, 0, 0, 0, 0, 16, 0, 0])  # an empty table of contents
    (tmp_path / "empty" / NAME).write_bytes(bytes(head[:size]))
    for refused in (
        lambda: open_store(tmp_path, "empty"),
        lambda: Reader.of_file(tmp_path / "empty" / NAME),
    ):
        with pytest.raises(StoreError) as error:
            refused()
        assert "\n" not in str(error.value)
    assert (tmp_path / "empty" / NAME).read_bytes()[:size] == bytes(head[:size])


def test_a_new_store_appears_whole(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / f"{NAME}.new").write_bytes(b"what a killed process left")
    with open_store(tmp_path) as store:
        assert store.names() == []
    assert not (tmp_path / "state" / f"{NAME}.new").exists()
