"""The rollback fence: a high-water mark, kept apart from the store, of what has been published.

Every commit of a stream gives it a new random token and remembers the one before. The order is: commit, move the fence from the
old token to the new one (durably), publish. So when a store is opened, the fence shows

* its token: all is well;
* its previous token: the process ended between commit and fence; nothing of the last commit was published, and moving the
  fence now completes it;
* anything else: releases were published that this store does not know of. It is an old backup, or a copy of it ran elsewhere.

A copy that runs beside the original is stopped the same way: the fence moves from the token that both know to one of the two.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from fadecount.errors import FenceError, StoreError
from fadecount.streams.database import Checkpoints
from fadecount.streams.forks import Fork


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """What the fence knows of a stream: the token of its last published commit, its steps and its forks."""

    token: str
    steps: int
    forks: tuple[Fork, ...] = ()

    def to_json(self) -> str:
        return json.dumps({"token": self.token, "steps": self.steps, "forks": [fork.last_step for fork in self.forks]})

    @classmethod
    def from_json(cls, text: str) -> Mark:
        try:
            found = json.loads(text)
            forks = tuple(Fork(last_step=None if each is None else int(each)) for each in found["forks"])
            return cls(token=str(found["token"]), steps=int(found["steps"]), forks=forks)
        except (ValueError, KeyError, TypeError) as error:
            raise FenceError("fence is damaged; restore it, or open the store with --accept-extra-loss") from error


class Fence(Protocol):
    """Keeps one mark per stream, durably, apart from the store."""

    def read(self, uid: str) -> Mark | None: ...

    def move(self, uid: str, expected: str | None, mark: Mark) -> None:
        """Replace the mark whose token is ``expected`` (None: there is none), or raise a :class:`FenceError`."""


def default_folder() -> Path:
    """``$XDG_STATE_HOME/fadecount``, by default ``~/.local/state/fadecount``."""
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "fadecount"


class FileFence:
    """One small file per stream in a folder; each move is a new file, synced and renamed over the old one."""

    def __init__(self, folder: str | Path | None = None, *, checkpoints: Checkpoints | None = None) -> None:
        self._folder = Path(folder) if folder is not None else default_folder()
        self._checkpoint = checkpoints or Checkpoints()

    @property
    def folder(self) -> Path:
        return self._folder

    def read(self, uid: str) -> Mark | None:
        try:
            return Mark.from_json((self._folder / f"{uid}.mark").read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except (OSError, UnicodeDecodeError) as error:
            raise _unusable(error, self._folder) from error

    def move(self, uid: str, expected: str | None, mark: Mark) -> None:
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with self._locked(uid):
                check(self.read(uid), expected)
                self._replace(self._folder / f"{uid}.mark", mark.to_json().encode())
        except OSError as error:
            raise _unusable(error, self._folder) from error

    def _replace(self, path: Path, content: bytes) -> None:
        temporary = path.with_suffix(".new")
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            if os.write(descriptor, content) != len(content):
                raise OSError(0, "short write")
            self._checkpoint("fence written")
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        self._checkpoint("fence synced")
        temporary.replace(path)
        self._checkpoint("fence renamed")
        folder = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    @contextmanager
    def _locked(self, uid: str) -> Iterator[None]:
        descriptor = os.open(self._folder / f"{uid}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)


def check(found: Mark | None, expected: str | None) -> None:
    """Refuse to move a fence that another history has moved."""
    if (found.token if found else None) != expected:
        raise FenceError("another copy of this store has published releases; only the one that did may go on")


def _unusable(error: Exception, folder: Path) -> StoreError:
    reason = getattr(error, "strerror", None) or "not readable"
    return StoreError(f"fence folder {str(folder)!r} cannot be used: {reason}; choose another with --fence")
