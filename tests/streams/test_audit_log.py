"""The audit log: a line for every act, and no act without its line."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

import fadecount as fc
from fadecount.streams import Description, FileFence, Seal, SQLiteStore, Ticks
from fadecount.streams.audit_log import (
    Act,
    AuditLog,
    AuditLogError,
    acting_as,
)
from tests.streams.backends import Backend, entries_of

DOORS = Description(name="doors", mechanism=fc.Gradual(epsilon=0.5), ticks=Ticks(tick_seconds=60))


def acts(log: AuditLog) -> list[tuple[str, str]]:
    return [(each.act, each.object) for each in entries_of(log)]


def test_a_stores_acts_are_recorded_with_either_database(
    backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(backend.folder / "home"))
    with backend.open() as store:
        log = store._context.audit_log
        assert log is not None and log.path.is_relative_to(backend.folder)
        stream = store.create(DOORS, keys=("a", "b"), start_tick=1)
        stream.declare(["c"])
        stream.add({"a": 7})
        stream.close_through(3)
        stream.catch_up(60 * 10)
    with backend.open() as store:
        store.rotate(Seal())
        with acting_as("token 12 (deputy)"):
            store.delete("doors")
    found = entries_of(log)
    assert [each.act for each in found] == [
        Act.STREAM_CREATED,
        Act.KEYS_DECLARED,
        Act.STREAM_CAUGHT_UP,
        Act.SEAL_ROTATED,
        Act.STREAM_DELETED,
    ]
    assert found[0].details == {"keys": 2} and found[1].details == {"new_keys": 1, "keys": 3}
    assert found[0].actor.startswith("user ") and found[-1].actor == "token 12 (deputy)"
    assert log.path.stat().st_mode & 0o777 == 0o600


def test_a_log_that_cannot_be_written_prevents_the_act(tmp_path: Path) -> None:
    with SQLiteStore(
        tmp_path / "state" / "streams.db", fence=FileFence(tmp_path / "fence")
    ) as store:
        store.create(DOORS, keys=("a",), start_tick=1)
        log = store._context.audit_log
        assert log is not None
        path = log.path
        path.unlink()
        path.mkdir()  # root may write everything, but not into a folder
        for act in (
            lambda: store.open("doors").declare(["b"]),
            lambda: store.delete("doors"),
            lambda: store.create(
                Description(name="more", mechanism=DOORS.mechanism, ticks=DOORS.ticks),
                start_tick=0,
            ),
            lambda: store.rotate(Seal(b"k" * 32)),
        ):
            with pytest.raises(AuditLogError, match=r"cannot be written: .*; nothing was changed"):
                act()
        path.rmdir()
        assert store.names() == ["doors"] and store.open("doors").keys == ("a",)
        store.open("doors").declare(["b"])
        assert acts(log) == [("keys declared", "doors")]


@pytest.fixture
def log(tmp_path: Path) -> AuditLog:
    log = AuditLog(tmp_path)
    for name in ("one", "two", "three"):
        log.record(Act.STREAM_CREATED, name, keys=1)
    return log


def test_a_line_that_a_crash_cut_short_is_passed_over(log: AuditLog) -> None:
    log.path.write_bytes(log.path.read_bytes()[:-9])
    assert [name for _, name in acts(log)] == ["one", "two"]
    log.record(Act.STREAM_DELETED, "one")
    assert acts(log) == [
        ("stream created", "one"),
        ("stream created", "two"),
        ("stream deleted", "one"),
    ]


def test_lines_of_any_length_and_text_are_lines(log: AuditLog) -> None:
    log.record(Act.TOKEN_CREATED, "ü\n\r\u2028" * 5000)
    log.record(Act.TOKEN_REVOKED, "after it")
    assert [name for _, name in acts(log)][-2:] == ["ü\n\r\u2028" * 5000, "after it"]


def test_several_writers_write_whole_lines(tmp_path: Path) -> None:
    def write(number: int) -> None:
        for at in range(10):
            AuditLog(tmp_path).record(Act.KEYS_DECLARED, f"{number}-{at}")

    threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert sorted(name for _, name in acts(AuditLog(tmp_path))) == sorted(
        f"{n}-{at}" for n in range(4) for at in range(10)
    )


def test_a_user_without_a_name_is_a_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 987_654_321)
    log = AuditLog(tmp_path)
    log.record(Act.BACKUP_MADE, "store")
    assert entries_of(log)[0].actor == "user 987654321"
