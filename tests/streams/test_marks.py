"""The marks of the fence, in a file or on a server: they move together, durably or not at all, and
only from where they are."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from fadecount.errors import FenceError, StoreError
from fadecount.streams import FileFence, ServerFence
from fadecount.streams.database import Checkpoints
from fadecount.streams.fence import Fence, Mark, Move

STORE = "5" * 32


def uid(number: int) -> str:
    return f"{STORE}-{number:016x}"


def mark(commit_id: str, steps: int = 1, name: str = "s0") -> Mark:
    return Mark(commit_id=commit_id, steps=steps, name=name)


def moves(numbers: range, before: str | None, after: str, steps: int = 1) -> list[Move]:
    return [
        Move(uid=uid(each), expected=before, mark=mark(after, steps, f"s{each}"))
        for each in numbers
    ]


@pytest.fixture(params=["file", "server"])
def fence(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Fence]:
    if request.param == "file":
        made: Fence = FileFence(tmp_path / "fence")
    else:
        url = request.getfixturevalue("postgres_url")
        made = ServerFence(url)
        made.database.change("DELETE FROM fadecount_fence")
    yield made
    made.close()


def test_a_refused_mark_does_not_stop_the_others(fence: Fence) -> None:
    assert fence.read(uid(0)) is None and fence.marks(STORE, frozenset()) == {}
    assert fence.move_together(moves(range(3), None, "a")) == {}
    fence.move_together(moves(range(1, 2), "a", "elsewhere", 5))
    refused = fence.move_together(moves(range(3), "a", "b"))
    assert list(refused) == [uid(1)] and "another copy" in str(refused[uid(1)])
    marks = fence.marks(STORE, frozenset())
    assert [marks[uid(each)].commit_id for each in range(3)] == ["b", "elsewhere", "b"]
    assert list(fence.move_together(moves(range(2, 4), None, "new"))) == [uid(2)]
    assert fence.read(uid(3)) == mark("new", 1, "s3")
    with pytest.raises(FenceError, match="another copy"):
        fence.move(uid(3), None, mark("again"))


def test_a_mark_keeps_every_place_of_the_one_before(fence: Fence) -> None:
    for before, after, place in ((None, "a", "x"), ("a", "b", "y"), ("b", "c", "x")):
        fence.move(
            uid(0), before, Mark(commit_id=after, steps=1, name="n", locations=frozenset([place]))
        )
    assert fence.read(uid(0)) == Mark(
        commit_id="c", steps=1, name="n", locations=frozenset(["x", "y"])
    )
    assert list(fence.marks("another", frozenset(["y", "z"]))) == [uid(0)]
    assert list(fence.marks("another", frozenset(["y"]), "n")) == [uid(0)]
    assert fence.marks("another", frozenset(["y"]), "m") == {}
    assert fence.marks("another", frozenset(["z"])) == {}


@pytest.mark.parametrize("step", ["fence written", "fence synced"])
def test_an_error_in_between_moves_all_or_none(tmp_path: Path, step: str) -> None:
    class Stop(Checkpoints):
        def __call__(self, at: str) -> None:
            if at == step and armed:
                raise RuntimeError(at)

    armed: list[bool] = []
    fence = FileFence(tmp_path)
    fence.checkpoint = Stop()
    fence.move_together(moves(range(3), None, "a"))
    armed.append(True)
    with pytest.raises(RuntimeError):
        fence.move_together(moves(range(3), "a", "b"))
    now = {each.commit_id for each in FileFence(tmp_path).marks(STORE, frozenset()).values()}
    assert now == {"a" if step == "fence written" else "b"}


def winners(fences: list[Fence], number: int, before: str | None) -> list[str]:
    """Those of several threads that could move a mark at the same time."""
    begin, won = threading.Barrier(len(fences)), []

    def move(fence: Fence, name: str) -> None:
        begin.wait()
        if not fence.move_together([Move(uid=uid(number), expected=before, mark=mark(name))]):
            won.append(name)

    threads = [
        threading.Thread(target=move, args=(each, f"{before}{at}"))
        for at, each in enumerate(fences)
    ]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    return won


def test_of_many_threads_that_move_a_mark_one_does(fence: Fence, postgres_url: str) -> None:
    fences: list[Fence] = [
        FileFence(fence.folder) if isinstance(fence, FileFence) else ServerFence(postgres_url)
        for _ in range(4)
    ]
    before = None
    for turn in range(20):
        (first,) = winners(fences, 9 + turn, None)
        assert fence.read(uid(9 + turn)) == mark(first)
        (before,) = winners(fences, 0, before)
        assert fence.read(uid(0)) == mark(before)
    for each in fences:
        each.close()


BUSY = """
import sys
from fadecount.streams.fence import FileFence, Mark
fence, uid = FileFence(sys.argv[1]), f"{'5' * 32}-{int(sys.argv[2]):016x}"
before = None
for step in range(40):
    fence.move(uid, before, Mark(commit_id=str(step), steps=step, name="n"))
    before = str(step)
    if step % 10 == 9:
        fence.close()
"""


def test_many_processes_share_a_new_fence(tmp_path: Path) -> None:
    """They make the file, open it and close it at the same time."""
    words = [sys.executable, "-c", BUSY, str(tmp_path / "fence")]
    processes = [subprocess.Popen([*words, str(number)]) for number in range(8)]
    assert [each.wait(timeout=120) for each in processes] == [0] * 8
    marks = FileFence(tmp_path / "fence").marks(STORE, frozenset())
    assert {key: each.steps for key, each in marks.items()} == {uid(at): 39 for at in range(8)}
    assert (tmp_path / "fence" / "fence.db").stat().st_mode & 0o777 == 0o600


def test_a_file_that_was_removed_or_replaced_is_noticed(tmp_path: Path) -> None:
    fence = FileFence(tmp_path / "fence")
    fence.move_together(moves(range(2), None, "a"))
    (tmp_path / "fence").rename(tmp_path / "away")
    assert fence.read(uid(0)) is None and not (tmp_path / "fence").exists()
    assert len(fence.move_together(moves(range(2), "a", "b"))) == 2, "a new fence knows nothing"
    fence.close()
    for name in ("fence.db", "fence.db-wal", "fence.db-shm"):
        (tmp_path / "fence" / name).unlink(missing_ok=True)
    (tmp_path / "fence").rmdir()
    (tmp_path / "away").rename(tmp_path / "fence")
    assert fence.read(uid(0)) == mark("a")
    assert fence.move_together(moves(range(2), "a", "b")) == {}


def test_a_damaged_mark_is_refused(tmp_path: Path) -> None:
    FileFence(tmp_path).move_together(moves(range(2), None, "a", 7))
    changes = ("mark = replace(mark, '7', '3')", f"uid = '{uid(9)}'", "digest = x'00'")
    for change in changes:
        with sqlite3.connect(tmp_path / "fence.db") as connection:
            connection.execute(f"UPDATE fadecount_fence SET {change} WHERE name = 's0'")  # noqa: S608
        connection.close()
        fence = FileFence(tmp_path)
        with pytest.raises(FenceError, match="fence is damaged"):
            fence.marks(STORE, frozenset())
        where = uid(9) if "uid" in change else uid(0)
        with pytest.raises(FenceError, match="fence is damaged"):
            fence.move(where, "a", mark("b"))
        assert fence.read(uid(1)) == mark("a", 7, "s1")
        with sqlite3.connect(tmp_path / "fence.db") as connection:
            connection.execute("DELETE FROM fadecount_fence WHERE name = 's0'")
        connection.close()
        fence.move_together(moves(range(1), None, "a", 7))


@pytest.mark.parametrize("content", [b"not a database" * 500, bytes(range(256)) * 32])
def test_a_file_that_is_no_fence_is_refused_in_one_line(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "fence.db").write_bytes(content)
    fence = FileFence(tmp_path)
    for write in (False, True):
        with pytest.raises(StoreError, match="cannot be used") as refused:
            fence.move(uid(0), None, mark("a")) if write else fence.read(uid(0))
        assert "\n" not in str(refused.value) and str(tmp_path) in str(refused.value)


def test_a_folder_that_cannot_be_used_is_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for folder in (tmp_path / "file", tmp_path / "file" / "below"):
        fence = FileFence(folder)
        assert not folder.is_dir()
        with pytest.raises(StoreError, match="cannot be used") as refused:
            fence.move(uid(0), None, mark("a"))
        assert "\n" not in str(refused.value)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_a_fence_of_another_user_is_refused_in_one_line(tmp_path: Path) -> None:
    FileFence(tmp_path / "fence").move(uid(0), None, mark("a"))
    for folder in (tmp_path, *tmp_path.parents[:3]):
        folder.chmod(0o755)
    (tmp_path / "fence").chmod(0o755)
    code = (
        "import os\n"
        "from fadecount.streams.fence import FileFence, Mark\n"
        "os.setuid(65534)\n"
        f"FileFence({str(tmp_path / 'fence')!r}).move('x', None, Mark(commit_id='', steps=0,"
        " name='n'))"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 1
    last = ended.stderr.splitlines()[-1]
    assert "DatabaseError: fence at" in last and "Permission denied" in last
