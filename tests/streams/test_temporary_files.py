"""SQLite writes nothing outside of the store: what it needs for a while stays in memory.

Its temporary files have no names, so they are noticed by the folder of them, whose time changes
when a file is made in it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

CONTROL = """
import sqlite3
connection = sqlite3.connect(folder / "other.db")
connection.execute("CREATE TABLE numbers (number)")
connection.execute("PRAGMA cache_size = 10")
connection.executemany("INSERT INTO numbers VALUES (?)", [(n,) for n in range(100_000)])
connection.execute("CREATE INDEX by_number ON numbers (-number)")
"""
STORE = """
from fadecount.streams import Batch, FileFence, SQLiteStore
from fadecount.streams.audit_log import AuditLog
from fadecount.streams.backup import make_backup, restore_backup
from fadecount.streams.fence import Move
from tests.streams.hidden_keys import FIRST, create, describe

path, marks = folder / "state" / "streams.db", FileFence(folder / "marks")
with SQLiteStore(path, fence=marks) as store:
    stream = create(store, describe(keys=3, events=3, discovery=DISCOVERY))
    for part in range(20):
        stream.add_many(
            [
                Batch(counts={f"key {part} {n} {'x' * 150}": 1}, person=f"{n}", id=f"{part} {n}")
                for n in range(1000)
            ]
        )
    if sys.argv[2] != "close":
        make_backup(path, folder / "copy.db", audit_log=AuditLog(folder))
        restore_backup(folder / "copy.db", folder / "new" / "new.db", audit_log=AuditLog(folder))
    stream.close_through(FIRST + 47)
    mark = marks.read(stream.status.uid)
    marks.move_together([Move(f"other {n}", None, mark) for n in range(3000)])
    store.reader().stream("pages").discovered()
    store.delete("pages")
"""
BEGIN = """
import sys
from pathlib import Path
import fadecount as fc
DISCOVERY = fc.Discovery("1d", ((0, 1.0), (30, 3.0)), 1e-9, keys=3)
folder = Path(sys.argv[1])
"""


def wrote_temporary_files(folder: Path, script: str, action: str = "") -> bool:
    temporary = folder / "temporary"
    temporary.mkdir()
    os.utime(temporary, (1, 1))
    environment = {**os.environ, "SQLITE_TMPDIR": str(temporary)}
    command = [sys.executable, "-c", BEGIN + script, str(folder), action]
    subprocess.run(command, env=environment, check=True, timeout=120)
    assert not list(temporary.iterdir())
    return temporary.stat().st_mtime != 1


def test_temporary_files_are_noticed(tmp_path: Path) -> None:
    assert wrote_temporary_files(tmp_path, CONTROL)


@pytest.mark.parametrize("action", ["close", "back up"])
def test_nothing_is_written_outside_of_the_store(tmp_path: Path, action: str) -> None:
    assert not wrote_temporary_files(tmp_path, STORE, action)
