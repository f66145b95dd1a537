"""Where the service keeps its streams: a folder of its own, or a PostgreSQL database; and where its tokens are."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from fadecount.errors import StoreError
from fadecount.service.tokens import FILE_NAME, TokenFile

STORE_NAME = "streams.db"


@dataclass(frozen=True, slots=True, kw_only=True)
class StatePlace:
    """A folder (mode 0700) with the tokens and, unless a database is named, the embedded store."""

    folder: Path
    database: str | None = None
    fence: str | Path | None = None
    key_file: Path | None = None

    @property
    def store_path(self) -> Path:
        return self.folder / STORE_NAME

    def prepare(self) -> None:
        try:
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            raise StoreError(f"--state {self.folder} cannot be made: {error.strerror}; choose another folder") from error

    def tokens(self) -> TokenFile:
        return TokenFile(self.folder / FILE_NAME)


def default_folder() -> Path:
    """``$XDG_DATA_HOME/fadecount``, by default ``~/.local/share/fadecount``."""
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share") / "fadecount"
