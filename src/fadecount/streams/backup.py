"""Backups: everything in a store, as it is at one moment, in one file; and restoring one.

The file is an SQLite database with all tables, whichever database the store is in, and a last line
with its length and SHA-256. PostgreSQL is read through the client in one repeatable-read
transaction: no program of the server's version is needed, and one format fits both stores. A backup
is made beside a running service and keeps nobody waiting.

A backup holds true sums, noise and accepted inputs. It is as secret as the store, and sealed where
the store is.

Restoring never changes the fence. So a backup that is older than what was published is refused when
its streams are opened, until the operator accepts the other history: drawing noise again for
published ticks is what rollback protection prevents.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from fadecount.errors import StoreError, bad_parameter
from fadecount.noise import unpredictable
from fadecount.streams.audit_log import Act, AuditLog
from fadecount.streams.database import FORMAT, TABLE_NAMES, Checkpoints, Database
from fadecount.streams.fence import Fence, in_order
from fadecount.streams.migration import migrate, stored_format
from fadecount.streams.sqlite import SQLiteDatabase, private_file, sync_folder
from fadecount.streams.status import read_status, stream_names

if TYPE_CHECKING:
    from fadecount.streams.postgres import PostgresDatabase

_LAST_LINE = re.compile(rb"\nfadecount backup 1 sha256 ([0-9a-f]{64}) bytes (\d{20})\n")
_LAST_BYTES = len("\nfadecount backup 1 sha256 ") + 64 + len(" bytes ") + 20 + 1
_BLOCK = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Backup:
    """A backup that was made or checked: its file, the size and SHA-256 of its content, its format,
    and its streams."""

    path: Path
    content_bytes: int
    sha256: str
    store_format: int
    streams: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoredStream:
    """What rollback protection says about a stream of a restored store.

    ``published_steps`` is how far the fence shows that the stream was published; None if the fence
    has no mark of it.
    """

    name: str
    steps: int
    published_steps: int | None
    may_go_on: bool

    @property
    def text(self) -> str:
        """One line in plain words."""
        if self.may_go_on:
            return (
                f"{self.name}: goes on at step {self.steps}; nothing of it was published after the"
                " backup"
            )
        command = f"fadecount streams accept-history {self.name}"
        if self.published_steps is None:
            return (
                f"{self.name}: is refused, since the fence has no mark of it. Use the fence that"
                f" the store had. If it is lost, {command} lets the stream go on, with the loss of"
                " every event at the greatest age, in two histories or more"
            )
        return (
            f"{self.name}: is refused. The backup is at step {self.steps}, but step"
            f" {self.published_steps} was published. {command} lets it go on as another history:"
            " the loss of events up to then about doubles, for ever"
        )


def make_backup(
    source: Database,
    path: str | Path,
    *,
    audit_log: AuditLog,
    checkpoints: Checkpoints | None = None,
) -> Backup:
    """Write a backup of a store. The file appears whole, with mode 0600, and only if there is none
    of that name.

    ``source`` may be a connection that can only read; other processes go on reading and writing.
    """
    path, checkpoint = Path(path), checkpoints or Checkpoints()
    if path.exists():
        raise bad_parameter(
            "backup file", str(path), "new", "choose another name; a backup is never replaced"
        )
    with _partial(path) as partial:
        source.copy_into(partial)
        checkpoint("backup copied")
        store_format, names = _checked_content(partial)
        with partial.open("r+b") as file:
            sha256, size = _sha256(file)
            file.write(f"\nfadecount backup 1 sha256 {sha256} bytes {size:020d}\n".encode())
            file.flush()
            checkpoint("backup written")
            os.fsync(file.fileno())
        audit_log.record(Act.BACKUP_MADE, path.name, sha256=sha256)
        checkpoint("before backup appears")
        _appear(partial, path)
        checkpoint("backup appeared")
    return Backup(
        path=path, content_bytes=size, sha256=sha256, store_format=store_format, streams=names
    )


def check_backup(path: str | Path) -> Backup:
    """Read a backup whole, and refuse one that is incomplete, damaged or newer than this version.
    Writes nothing but a temporary copy beside it."""
    path = Path(path)
    with _unpacked(path, path.parent, Checkpoints()) as (_, backup):
        return backup


def restore_file(
    path: str | Path,
    target: str | Path,
    *,
    audit_log: AuditLog,
    checkpoints: Checkpoints | None = None,
) -> Backup:
    """Make a backup the SQLite store ``target``, which must not exist. The store appears whole or
    not at all."""
    target, checkpoint = Path(target), checkpoints or Checkpoints()
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    for place in (target, target.with_name(target.name + "-wal")):
        if place.exists():
            raise bad_parameter(
                "store",
                str(place),
                "new",
                "restoring never replaces a store; move the old one away first",
            )
    with _unpacked(Path(path), target.parent, checkpoint) as (partial, backup):
        audit_log.record(Act.BACKUP_RESTORED, Path(path).name, sha256=backup.sha256)
        checkpoint("before restore appears")
        _appear(partial, target)
        checkpoint("restore appeared")
    return backup


def restore_server(
    path: str | Path,
    target: PostgresDatabase,
    *,
    folder: Path,
    audit_log: AuditLog,
    checkpoints: Checkpoints | None = None,
) -> Backup:
    """Make a backup the store of an empty PostgreSQL database (or schema), in one transaction. A
    temporary copy is put in ``folder``."""
    checkpoint = checkpoints or Checkpoints()
    with (
        _unpacked(Path(path), folder, checkpoint) as (partial, backup),
        closing(SQLiteDatabase(partial, writes=True)) as source,
    ):
        migrate(source, AuditLog(None))
        with target.transaction():
            target.change("LOCK TABLE about")
            if target.query("SELECT 1 FROM about LIMIT 1"):
                raise bad_parameter(
                    "store",
                    target.name,
                    "empty",
                    "restoring never replaces a store; name another database",
                )
            for table in TABLE_NAMES:
                target.take_rows(table, source)
                checkpoint("restore table written")
            audit_log.record(Act.BACKUP_RESTORED, Path(path).name, sha256=backup.sha256)
            checkpoint("before restore appears")
        checkpoint("restore appeared")
    return backup


def restored_streams(database: Database, fence: Fence) -> list[RestoredStream]:
    """What rollback protection says about each stream of a store that was restored; nothing is
    changed."""
    found = []
    for name in stream_names(database):
        status = read_status(database, name)
        mark = fence.read(status.uid)
        found.append(
            RestoredStream(
                name=name,
                steps=status.steps,
                published_steps=None if mark is None else mark.steps,
                may_go_on=in_order(status, mark),
            )
        )
    return found


def lost_streams(database: Database, fence: Fence) -> list[str]:
    """Streams that published something here, as the fence knows, and that the store does not have,
    neither as a deleted one."""
    ((store,),) = database.query("SELECT value FROM about WHERE name = 'uid'")
    known = {
        uid for (uid,) in database.query("SELECT uid FROM streams UNION SELECT uid FROM deleted")
    }
    marks = fence.marks(str(store), database.places).items()
    return sorted(
        mark.name or "a stream without a name"
        for uid, mark in marks
        if uid not in known and mark.steps
    )


@contextmanager
def _unpacked(path: Path, folder: Path, checkpoint: Checkpoints) -> Iterator[tuple[Path, Backup]]:
    """The content of a backup as an SQLite file in ``folder``, checked and durable."""
    try:
        with path.open("rb") as file, _partial(folder / path.name) as partial:
            size = path.stat().st_size - _LAST_BYTES
            file.seek(max(0, size))
            found = _LAST_LINE.fullmatch(file.read())
            if found is None or int(found[2]) != size:
                raise StoreError(
                    f"backup {str(path)!r} is incomplete or no backup; take another one"
                )
            file.seek(0)
            with partial.open("r+b") as copy:
                sha256 = _copied(file, copy, size)
                if sha256 != found[1].decode():
                    raise StoreError(
                        f"backup {str(path)!r} is damaged (its SHA-256 is another one); take"
                        " another one"
                    )
                copy.flush()
                os.fsync(copy.fileno())
            checkpoint("restore copied")
            store_format, names = _checked_content(partial)
            checkpoint("restore checked")
            yield (
                partial,
                Backup(
                    path=path,
                    content_bytes=size,
                    sha256=sha256,
                    store_format=store_format,
                    streams=names,
                ),
            )
    except OSError as error:
        raise StoreError(
            f"backup {str(path)!r} cannot be read or written:"
            f" {error.strerror or type(error).__name__}"
        ) from error


def _checked_content(path: Path) -> tuple[int, tuple[str, ...]]:
    """The format and the streams of an unpacked backup; its pages are checked."""
    with closing(SQLiteDatabase(path, writes=False)) as database:
        if database.query("PRAGMA integrity_check(1)") != [("ok",)]:
            raise StoreError("backup is damaged (integrity_check); take another one")
        found = stored_format(database)
        if found is None or not 1 <= found <= FORMAT:
            raise bad_parameter(
                "format of the backup", found, f"at most {FORMAT}", "upgrade fadecount to use it"
            )
        return found, tuple(stream_names(database))


@contextmanager
def _partial(path: Path) -> Iterator[Path]:
    """A new private file in the folder of ``path``; removed at the end, with what SQLite puts
    beside it."""
    partial = path.with_name(f".{path.name}.{unpredictable(6).hex()}.partial")
    try:
        os.close(private_file(partial))
    except OSError as error:
        raise StoreError(
            f"folder {str(path.parent)!r} cannot be used: {error.strerror}; choose another one"
        ) from error
    try:
        yield partial
    finally:
        for ending in ("", "-wal", "-shm", "-journal", ".lock"):
            partial.with_name(partial.name + ending).unlink(missing_ok=True)


def _appear(partial: Path, path: Path) -> None:
    """Give a finished file its name, unless there is one of that name."""
    try:
        os.link(partial, path)
    except FileExistsError:
        raise bad_parameter(
            "file", str(path), "new", "it appeared meanwhile; nothing was replaced"
        ) from None
    except OSError as error:  # a file system without links
        if path.exists():
            raise bad_parameter(
                "file", str(path), "new", "it appeared meanwhile; nothing was replaced"
            ) from error
        partial.rename(path)
    sync_folder(path.parent)


def _sha256(file: BinaryIO) -> tuple[str, int]:
    """The SHA-256 of a file and its size; the file is then at its end."""
    digest, size = hashlib.sha256(), 0
    while block := file.read(_BLOCK):
        digest.update(block)
        size += len(block)
    return digest.hexdigest(), size


def _copied(source: BinaryIO, target: BinaryIO, size: int) -> str:
    digest = hashlib.sha256()
    while size:
        block = source.read(min(_BLOCK, size))
        if not block:
            break
        digest.update(block)
        target.write(block)
        size -= len(block)
    return digest.hexdigest()
