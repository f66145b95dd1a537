"""The marks of one store in one file: those that move together are appended in one record, and
synced once.

A record is a line: a checksum, and a JSON object with a mark for each stream. The last record that
names a stream counts. A kill or a power cut may leave an incomplete last record. Nobody has relied
on it: it is passed over, and the next one takes its place. A damaged record anywhere else is
refused. When the file has grown to several times what it needs, it is written anew.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from fadecount.errors import FenceError
from fadecount.streams.database import Checkpoints
from fadecount.streams.sqlite import sync_folder

SMALL_BYTES = 1 << 20
"""A file up to this size is not written anew."""

_GROWTH = 4
"""It is written anew when it is so many times as large as it was."""

_MARKS_PER_RECORD = 256
_CHECKSUM = 16


class MarkFile:
    """The marks of one store, by the uids of its streams. What was read is kept, so each use reads
    only what is new.

    Guarantees: what :meth:`append` wrote is durable when it returns, all of it; if it raises, none
    of it counts.
    """

    def __init__(self, path: Path, checkpoints: Checkpoints) -> None:
        self._path, self._checkpoint = path, checkpoints
        self._held: Callable[[], object] = lambda: None
        self._forget()

    def _forget(self) -> None:
        self._held()
        self._marks: dict[str, Any] = {}
        self._identity: tuple[int, int] | None = None
        self._end, self._last, self._limit = 0, b"", SMALL_BYTES

    def _hold(self, descriptor: int) -> None:
        """This is the file that was read. It stays open: otherwise one that replaces it later could
        get the same number."""
        self._held()
        self._held = weakref.finalize(self, os.close, os.dup(descriptor))
        self._identity = _identity(descriptor)

    def read(self) -> Mapping[str, Any]:
        """The marks as they are now."""
        try:
            descriptor = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            self._forget()
            return self._marks
        try:
            self._refresh(descriptor)
        finally:
            os.close(descriptor)
        return self._marks

    @contextmanager
    def changing(self) -> Iterator[Mapping[str, Any]]:
        """The marks as they are now; nobody else changes them meanwhile. Only inside may
        :meth:`append` be called."""
        lock = os.open(
            self._path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600
        )
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield self.read()
        finally:
            os.close(lock)

    def append(self, changed: Mapping[str, Any]) -> None:
        """Write these marks, durably."""
        record, new = _record(changed), self._identity is None
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            try:
                os.ftruncate(descriptor, self._end)  # removes a record that was cut short
                if os.pwrite(descriptor, record, self._end) != len(record):
                    raise OSError(0, "short write")
                self._checkpoint("fence written")
                os.fsync(descriptor)
            except OSError:  # what may not be durable must not be read as if it were
                with suppress(OSError):
                    os.ftruncate(descriptor, self._end)
                raise
            self._checkpoint("fence synced")
            if new:
                self._hold(descriptor)
        finally:
            os.close(descriptor)
        if new:
            sync_folder(self._path.parent)
        self._marks.update(changed)
        self._end, self._last = self._end + len(record), record
        if self._end > self._limit:
            self._write_anew()

    def _write_anew(self) -> None:
        """Replace the file by one with a single mark for each stream. Without room for that, this
        one goes on growing."""
        uids, new = sorted(self._marks), self._path.with_suffix(".new")
        records = [
            _record({uid: self._marks[uid] for uid in uids[start : start + _MARKS_PER_RECORD]})
            for start in range(0, len(uids), _MARKS_PER_RECORD)
        ]
        content = b"".join(records)
        try:
            descriptor = _written(new, content)
        except OSError:  # what was appended is durable: it counts
            new.unlink(missing_ok=True)
            self._limit = 2 * self._end
            return
        try:
            self._checkpoint("fence written anew")
            new.replace(self._path)
            self._hold(descriptor)
        finally:
            os.close(descriptor)
        self._end, self._last, self._limit = len(content), records[-1], _limit(len(content))
        sync_folder(self._path.parent)

    def _refresh(self, descriptor: int) -> None:
        """Read what was appended since the last time; everything, if it is another file or a
        changed one."""
        known = os.pread(descriptor, len(self._last), self._end - len(self._last))
        if changed := _identity(descriptor) != self._identity or known != self._last:
            self._forget()
            self._hold(descriptor)
        lines = _content(descriptor, self._end).split(b"\n")
        unfinished = lines.pop()
        for number, line in enumerate(lines, 1):
            found = _marks(line)
            if found is None:
                if number == len(lines) and not unfinished:
                    break
                raise damaged()
            self._marks.update(found)
            self._end, self._last = self._end + len(line) + 1, line + b"\n"
        if changed:  # otherwise two processes would write a large file anew in turns
            self._limit = _limit(len(json.dumps(self._marks)))


def damaged() -> FenceError:
    return FenceError(
        "fence is damaged; restore it, or remove it and see fadecount streams accept-history"
    )


def _limit(needed: int) -> int:
    """The size from which on a file is written anew, if it needs so many bytes."""
    return max(SMALL_BYTES, _GROWTH * needed)


def _written(path: Path, content: bytes) -> int:
    """Write a file, durably; its descriptor."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        if os.write(descriptor, content) != len(content):
            raise OSError(0, "short write")
        os.fsync(descriptor)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _identity(descriptor: int) -> tuple[int, int]:
    found = os.fstat(descriptor)
    return found.st_dev, found.st_ino


def _content(descriptor: int, start: int) -> bytes:
    """The bytes of a file from a place on."""
    blocks = []
    while block := os.pread(descriptor, 1 << 20, start):
        blocks.append(block)
        start += len(block)
    return b"".join(blocks)


def _record(marks: Mapping[str, Any]) -> bytes:
    text = json.dumps(marks).encode()
    return _checksum(text) + b" " + text + b"\n"


def _marks(line: bytes) -> dict[str, Any] | None:
    """The marks of a record; None if it is damaged."""
    checksum, _, text = line.partition(b" ")
    if checksum != _checksum(text):
        return None
    found: dict[str, Any] = json.loads(text)
    return found


def _checksum(text: bytes) -> bytes:
    return hashlib.blake2b(text, digest_size=_CHECKSUM).hexdigest().encode()
