"""The file of the fence: marks move together, durably or not at all, and what a crash leaves behind
is passed over."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fadecount.errors import FenceError, StoreError
from fadecount.streams import FileFence, mark_file
from fadecount.streams.fence import Mark, Move

STORE = "5" * 32


def uid(number: int) -> str:
    return f"{STORE}-{number:016x}"


def moves(numbers: range, before: str | None, after: str, steps: int = 1) -> list[Move]:
    return [
        Move(
            uid=uid(each), expected=before, mark=Mark(commit_id=after, steps=steps, name=f"s{each}")
        )
        for each in numbers
    ]


def file_of(folder: Path) -> Path:
    return folder / f"{STORE}.marks"


def test_many_marks_are_made_durable_by_one_sync(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fence = FileFence(tmp_path)
    assert fence.move_together(moves(range(200), None, "a")) == {}
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", synced.append)
    assert fence.move_together(moves(range(200), "a", "b", 2)) == {}
    assert len(synced) == 1
    marks = FileFence(tmp_path).marks(STORE, frozenset())
    assert len(marks) == 200 and marks[uid(7)] == Mark(commit_id="b", steps=2, name="s7")


def test_a_refused_mark_does_not_stop_the_others(tmp_path: Path) -> None:
    fence = FileFence(tmp_path)
    fence.move_together(moves(range(3), None, "a"))
    fence.move_together(moves(range(1, 2), "a", "elsewhere", 5))
    refused = fence.move_together(moves(range(3), "a", "b"))
    assert list(refused) == [uid(1)] and isinstance(refused[uid(1)], FenceError)
    assert [fence.read(uid(each)).commit_id for each in range(3)] == ["b", "elsewhere", "b"]  # type: ignore[union-attr]


def test_objects_and_processes_that_share_a_folder_see_each_others_marks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mark_file, "SMALL_BYTES", 700)  # the file is replaced again and again
    one, two = FileFence(tmp_path), FileFence(tmp_path)
    one.move_together(moves(range(3), None, "0"))
    for number in range(40):
        mover, other = (one, two) if number % 3 else (two, one)
        assert mover.move_together(moves(range(3), str(number), str(number + 1), number + 1)) == {}
        assert len(other.move_together(moves(range(3), str(number), "x"))) == 3
        assert other.read(uid(2)) == Mark(commit_id=str(number + 1), steps=number + 1, name="s2")
    assert file_of(tmp_path).stat().st_size < 4 * 700


def test_a_file_that_gets_the_number_of_an_earlier_one_is_read_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """File systems give the number of a removed file to the next one; the last record of the two
    may be the same."""
    monkeypatch.setattr(mark_file, "SMALL_BYTES", 0)
    monkeypatch.setattr(mark_file, "_GROWTH", 1)  # written anew at every move
    one, two = FileFence(tmp_path), FileFence(tmp_path)
    one.move_together(moves(range(300), None, "0"))
    assert two.read(uid(0)) == Mark(commit_id="0", steps=1, name="s0")
    for number in range(6):
        assert one.move_together(moves(range(1), str(number), str(number + 1))) == {}
        if number % 2:
            assert list(two.move_together(moves(range(1), "0", "a copy"))) == [uid(0)]
            two = FileFence(tmp_path)
            two.read(uid(0))


def test_two_processes_do_not_write_a_large_file_anew_in_turns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mark_file, "SMALL_BYTES", 700)
    users = FileFence(tmp_path), FileFence(tmp_path)
    users[0].move_together(moves(range(30), None, "0"))
    files = set()
    for number in range(20):
        assert users[number % 2].move_together(moves(range(1), str(number), str(number + 1))) == {}
        files.add(file_of(tmp_path).stat().st_ino)
    assert len(files) == 1


def test_a_file_that_cannot_be_written_anew_goes_on_growing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mark_file, "SMALL_BYTES", 700)
    fence = FileFence(tmp_path)
    fence.move_together(moves(range(3), None, "0"))

    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as disk:
        disk.setattr(os, "write", full)
        for number in range(20):
            assert fence.move_together(moves(range(3), str(number), str(number + 1))) == {}
    assert FileFence(tmp_path).read(uid(2)) == Mark(commit_id="20", steps=1, name="s2")
    assert not list(tmp_path.glob("*.new"))
    large = file_of(tmp_path).stat().st_size
    for number in range(20, 60):
        assert fence.move_together(moves(range(3), str(number), str(number + 1))) == {}
    assert file_of(tmp_path).stat().st_size < large


def test_a_file_that_was_removed_or_replaced_is_noticed(tmp_path: Path) -> None:
    fence = FileFence(tmp_path)
    fence.move_together(moves(range(2), None, "a"))
    before = file_of(tmp_path).read_bytes()
    fence.move_together(moves(range(2), "a", "b"))
    file_of(tmp_path).write_bytes(before)  # an older copy, of the same inode
    assert fence.read(uid(0)) == Mark(commit_id="a", steps=1, name="s0")
    file_of(tmp_path).unlink()
    assert fence.read(uid(0)) is None
    assert fence.marks(STORE, frozenset()) == {}


def test_a_record_that_was_cut_short_is_passed_over(tmp_path: Path) -> None:
    fence = FileFence(tmp_path)
    fence.move_together(moves(range(2), None, "a"))
    whole = len(file_of(tmp_path).read_bytes())
    fence.move_together(moves(range(2), "a", "b"))
    content = file_of(tmp_path).read_bytes()
    torn = [content[:at] for at in range(whole, len(content))]
    torn += [
        content[: whole + 10] + bytes(30) + content[whole + 40 :],
        content[:whole] + bytes(len(content) - whole),
    ]
    for left in torn:
        file_of(tmp_path).write_bytes(left)
        fence = FileFence(tmp_path)
        assert fence.read(uid(1)) == Mark(commit_id="a", steps=1, name="s1")
        assert fence.move_together(moves(range(2), "a", "c")) == {}
        assert FileFence(tmp_path).read(uid(0)) == Mark(commit_id="c", steps=1, name="s0")


def test_a_damaged_record_is_refused(tmp_path: Path) -> None:
    fence = FileFence(tmp_path)
    fence.move_together(moves(range(2), None, "a"))
    fence.move_together(moves(range(2), "a", "b"))
    content = file_of(tmp_path).read_bytes()
    for at in (0, 20, 60, content.index(b"\n") - 1):
        file_of(tmp_path).write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
        fence = FileFence(tmp_path)
        for _ in range(2):
            with pytest.raises(FenceError, match="fence is damaged"):
                fence.read(uid(0))
            with pytest.raises(FenceError, match="fence is damaged"):
                fence.move_together(moves(range(2), "b", "c"))


def test_what_could_not_be_synced_does_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fence = FileFence(tmp_path)
    fence.move_together(moves(range(2), None, "a"))
    real = os.fsync

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StoreError, match="No space left"):
        fence.move_together(moves(range(2), "a", "b"))
    monkeypatch.setattr(os, "fsync", real)
    for use in (fence, FileFence(tmp_path)):
        assert use.read(uid(1)) == Mark(commit_id="a", steps=1, name="s1")
    fence.move_together(moves(range(2), "a", "c"))
    assert FileFence(tmp_path).read(uid(1)) == Mark(commit_id="c", steps=1, name="s1")


def test_a_mark_in_a_file_of_its_own_counts_until_it_moves(tmp_path: Path) -> None:
    """Versions before this one had a file for each stream."""
    for number in range(2):
        (tmp_path / f"{uid(number)}.mark").write_text(
            Mark(commit_id="a", steps=3).to_json(), encoding="utf-8"
        )
        (tmp_path / f"{uid(number)}.lock").touch()
    fence = FileFence(tmp_path)
    assert fence.read(uid(0)) == Mark(commit_id="a", steps=3)
    assert len(fence.move_together(moves(range(2), "old", "b"))) == 2
    assert fence.move_together(moves(range(1), "a", "b", 4)) == {}
    assert [path.name for path in tmp_path.glob("*.mark")] == [f"{uid(1)}.mark"]
    assert not (tmp_path / f"{uid(0)}.lock").exists()
    assert {
        key: mark.steps for key, mark in FileFence(tmp_path).marks(STORE, frozenset()).items()
    } == {uid(0): 4, uid(1): 3}
    (tmp_path / f"{uid(1)}.mark").write_text("{}", encoding="utf-8")
    with pytest.raises(FenceError, match="fence is damaged"):
        fence.read(uid(1))
