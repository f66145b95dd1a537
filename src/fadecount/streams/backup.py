"""Backups of an SQLite store: everything in it, as it is at one moment, in one file; and restoring
one, of whichever database.

The file is itself a store, complete without a write-ahead log, copied in one transaction beside a
running service: nobody waits. (``pg_dump`` and ``pg_restore`` do the same for PostgreSQL.)
A backup holds true counts of open blocks (or true sums), figures under embargo and accepted inputs.
It is as secret as the store, and sealed where the store is.

Restoring never changes the fence. So a backup that is older than what was published is refused when
its streams are opened: drawing noise again for published ticks is what rollback protection
prevents.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
from contextlib import closing, suppress
from pathlib import Path
from typing import IO

from fadecount.errors import FenceError, StoreError, bad_parameter
from fadecount.noise import unpredictable
from fadecount.streams.audit_log import Act, AuditLog
from fadecount.streams.database import TABLES, Checkpoints, Database, require_format
from fadecount.streams.fence import Fence, read_current
from fadecount.streams.sqlite import SQLiteDatabase, new_tables, private_file, sync_folder
from fadecount.streams.status import read_status, stream_names

_PARTIAL = re.compile(r"\..+\.[0-9a-f]{12}\.partial(-wal|-shm|-journal)?")
"""Names of backups and stores that are not whole."""


def make_backup(
    store: str | Path,
    path: str | Path,
    *,
    audit_log: AuditLog,
    checkpoint: Checkpoints | None = None,
) -> list[str]:
    """Write a backup of the SQLite store in the file ``store``, and return the names of its
    streams. The file appears whole, with mode 0600, and only if there is none of that name."""
    return _appear(Path(path), store, Act.BACKUP_MADE, audit_log, checkpoint)


def restore_backup(
    path: str | Path,
    store: str | Path,
    *,
    audit_log: AuditLog,
    checkpoint: Checkpoints | None = None,
) -> list[str]:
    """Make a backup the SQLite store in the file ``store``, which must not exist, and return the
    names of its streams. The store appears whole or not at all."""
    _require_sqlite(path)
    store = Path(store)
    log = store.with_name(store.name + "-wal")
    if log.exists():
        raise _exists(log)
    store.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    return _appear(store, path, Act.BACKUP_RESTORED, audit_log, checkpoint)


def check_backup(path: str | Path) -> list[str]:
    """Read a backup whole, refuse one that is damaged or of another format, and return the names of
    its streams."""
    _require_sqlite(path)
    with closing(SQLiteDatabase(path, writes=False)) as database:
        return _checked(database)


def _checked(database: Database) -> list[str]:
    if database.query("PRAGMA integrity_check(1)") != [("ok",)]:
        raise StoreError("backup is damaged (integrity_check); take another one")
    require_format(database)
    return stream_names(database)


def _require_sqlite(path: str | Path) -> None:
    """Refuse a file that is not there or of another kind, by its name."""
    try:
        with Path(path).open("rb") as file:
            if file.read(16) != b"SQLite format 3\0":
                raise StoreError(f"{path} is not a backup; fadecount backup makes one")
    except OSError as error:
        raise StoreError(f"backup {str(path)!r} cannot be read: {error.strerror}") from None


def protection_of(database: Database, fence: Fence) -> list[str]:
    """What rollback protection says about each stream of a store that was restored, and about those
    that were published here and are not in the store, neither as deleted ones: a line for each.
    Nothing is changed."""
    lines = []
    for name in stream_names(database):
        status = read_status(database, name)
        try:
            read_current(fence, status)
        except FenceError as error:
            lines.append(str(error))
        else:
            lines.append(
                f"stream {name!r} goes on at step {status.steps}; nothing of it was published after"
                " the backup"
            )
    ((store,),) = database.query("SELECT value FROM about WHERE name = 'uid'")
    known = {
        uid for (uid,) in database.query("SELECT uid FROM streams UNION SELECT uid FROM deleted")
    }
    marks = fence.marks(str(store), database.places).items()
    lost = sorted(mark.name for uid, mark in marks if uid not in known and mark.steps)
    return lines + [
        f"stream {name!r} was published here, and is not in the backup; its name cannot be used"
        " again at this place"
        for name in lost
    ]


def _appear(
    path: Path,
    store: str | Path,
    act: Act,
    audit_log: AuditLog,
    checkpoint: Checkpoints | None,
) -> list[str]:
    """Copy a store into a new private file, check it, make it durable, and then give it its name,
    unless there is a file of that name. Return the names of its streams."""
    if path.exists():
        raise _exists(path)
    checkpoint = checkpoint or Checkpoints()
    new = _partial(path)
    try:
        _remove_abandoned(path.parent)
        with _new_file(new) as file:
            names = _copy(store, file, _partial(path), checkpoint)
            os.fsync(file.fileno())
            checkpoint("backup written")
            audit_log.record(act, path.name)
            checkpoint("before backup appears")
            try:
                if new.exists():
                    os.link(new, path)
                else:  # what the descriptor stands for, whatever the folder is
                    os.link(f"/proc/self/fd/{file.fileno()}", path, src_dir_fd=file.fileno())
            except FileExistsError:
                raise _exists(path) from None
            except OSError:  # a file system without links
                new.rename(path)
        sync_folder(path.parent)
        checkpoint("backup appeared")
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise StoreError(f"backup or store {str(path)!r} cannot be made: {reason}") from error
    finally:
        new.unlink(missing_ok=True)
    return names


def _copy(store: str | Path, file: IO[bytes], new: Path, checkpoint: Checkpoints) -> list[str]:
    """Copy a store, as it is at one moment, into an open file, table by table. SQLite opens files
    by their names, so it writes one that loses its name while no row is in it: nothing of it is
    left if this process is killed."""
    with closing(SQLiteDatabase(store, writes=False)) as source:
        names = _checked(source)
    try:
        with (
            _locked_file(new, "rb") as content,
            closing(new_tables(new)) as target,
        ):
            new.unlink(missing_ok=True)
            target.change("ATTACH ? AS store", (str(store),))
            target.change("BEGIN")
            for table in (*TABLES, "sqlite_sequence"):  # numbers are not given again
                target.change(f"DELETE FROM main.{table}")  # noqa: S608 - constants
                target.change(f"INSERT INTO main.{table} SELECT * FROM store.{table}")  # noqa: S608
            target.change("COMMIT")
            checkpoint("backup copied")
            shutil.copyfileobj(content, file)
            file.flush()
            assert file.tell(), "SQLite wrote another file"
    finally:
        new.unlink(missing_ok=True)
    return names


def _partial(path: Path) -> Path:
    return path.with_name(f".{path.name}.{unpredictable(6).hex()}.partial")


def _new_file(new: Path) -> IO[bytes]:
    """Open an empty private file. It has no name, so that nothing of it is left if this process is
    killed; but where the file system has no such files, it has this one."""
    try:
        descriptor = os.open(new.parent, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600)
    except (AttributeError, OSError):
        return _locked_file(new, "wb")
    return os.fdopen(descriptor, "wb")


def _locked_file(new: Path, mode: str) -> IO[bytes]:
    file = os.fdopen(private_file(new), mode)
    fcntl.flock(file, fcntl.LOCK_EX)  # it is not abandoned
    return file


def _remove_abandoned(folder: Path) -> None:
    """Remove what a process that was killed has left of a backup or a store, not what another one
    is writing."""
    for path in folder.glob(".*.partial*"):
        if _PARTIAL.fullmatch(path.name):
            with path.open("rb") as file, suppress(BlockingIOError):
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                path.unlink()


def _exists(path: Path) -> Exception:
    remedy = "neither a backup nor a store is ever replaced; choose another, or move it away first"
    return bad_parameter("file", str(path), "new", remedy)
