"""What an operator may set for a service: one definition of every setting, for the command line and
the environment (``FADECOUNT_MAX_BODY``); the bounds against strangers; where the streams and the
tokens are; and the clock.

The command line comes first, then the environment, then the default. Variables of the environment
that are no settings belong to somebody else and are not looked at: Kubernetes sets
``FADECOUNT_SERVICE_HOST`` and ``FADECOUNT_PORT=tcp://...`` for a service of the name fadecount.
"""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fadecount.errors import StoreError, bad_parameter

if TYPE_CHECKING:
    from fadecount.service.tokens import Tokens
    from fadecount.streams import Store
    from fadecount.streams.audit_log import AuditLog
    from fadecount.streams.database import Database
    from fadecount.streams.reader import Reader

STORE_NAME = "streams.db"
BACKLOG = 128
"""Connections that may wait in the system's queue before the first of them is accepted."""

_OTHER_FILES = 128
"""Open files that the store, the fence and the readers need at most."""

Value = str | Path | int | bool | tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting: its name (as an option without the hyphens before it), one line about it, its
    type and its default. ``shown_default`` says what happens without it."""

    name: str
    about: str
    type: type[str] | type[Path] | type[int] | type[bool] | type[tuple[str, ...]] = str
    default: Value | None = None
    metavar: str | None = None
    _: KW_ONLY
    minimum: int | None = None
    choices: tuple[str, ...] = ()
    shown_default: str | None = None

    @property
    def option(self) -> str:
        """Its name on the command line."""
        return f"--{self.name}"

    @property
    def variable(self) -> str:
        """Its name in the environment."""
        return "FADECOUNT_" + self.name.upper().replace("-", "_")

    @property
    def attribute(self) -> str:
        """Its name in Python."""
        return self.name.replace("-", "_")

    def parse(self, text: str, name: str) -> Value:
        """The value that a text gives; ``name`` is how a refusal calls it."""
        if self.type is tuple:
            return tuple(each.strip() for each in text.split(",") if each.strip())
        if self.type is bool:
            if text.lower() not in ("true", "false"):
                raise bad_parameter(name, text, "true or false", self.about)
            return text.lower() == "true"
        if self.choices and text not in self.choices:
            wanted = f"one of {', '.join(self.choices)}"
            raise bad_parameter(name, text, wanted, "leave it out for the default")
        if self.type is not int:
            return Path(text) if self.type is Path else text
        try:
            number = int(text)
        except ValueError:
            raise bad_parameter(name, text, "a whole number", self.about) from None
        if self.minimum is not None and number < self.minimum:
            remedy = "leave it out for the default"
            raise bad_parameter(name, number, f"at least {self.minimum}", remedy)
        return number


_DATA = "$XDG_DATA_HOME/fadecount, or ~/.local/share/fadecount"
_STATE = "$XDG_STATE_HOME/fadecount, or ~/.local/state/fadecount"
_FENCE = "folder or PostgreSQL URL of the rollback fence, apart from the store"
_DATABASE = "keep streams and tokens in PostgreSQL: postgresql://..."
_STORE = "folder of the embedded store and of the audit log"
_BODY = "largest body, unpacked, in bytes"
_MEBIBYTE = "1048576 (1 MiB)"
_KEY = "FADECOUNT_KEY, if set"
SETTINGS = (
    Setting("state", _STORE, Path, None, "DIR", shown_default=_DATA),
    Setting("database", _DATABASE, str, None, "URL"),
    Setting("fence", _FENCE, str, None, "WHERE", shown_default=_STATE),
    Setting("key-file", "key that seals the state", Path, None, "FILE", shown_default=_KEY),
    Setting("host", "address to listen on", str, "127.0.0.1", "HOST"),
    Setting("port", "port to listen on, 0 for any", int, 8000, "PORT", minimum=0),
    Setting("allow-host", "host name to answer to; repeatable", tuple, (), "NAME"),
    Setting("public", "let everyone read, without a token", bool, False),
    Setting("log-format", "lines of the log", str, "text", choices=("text", "json")),
    Setting("max-body", _BODY, int, 1 << 20, "BYTES", minimum=1, shown_default=_MEBIBYTE),
    Setting("max-connections", "open connections", int, 1024, "N", minimum=1),
)


def read_settings(
    given: Mapping[str, Any], environment: Mapping[str, str]
) -> dict[str, Value | None]:
    """The value of every setting, by its name in Python: ``given`` on the command line, or in the
    environment, or its default. A wrong value is refused in one line.

    >>> environment = {"FADECOUNT_PORT": "1", "FADECOUNT_PUBLIC": "true"}
    >>> chosen = read_settings({"port": "9000"}, environment)
    >>> chosen["port"], chosen["public"], chosen["max_body"]
    (9000, True, 1048576)
    """
    values: dict[str, Value | None] = {}
    for setting in SETTINGS:
        value = given.get(setting.attribute)
        if isinstance(value, str):
            value = setting.parse(value, setting.option)
        elif isinstance(value, list):
            value = tuple(value)
        elif value is None:
            text = environment.get(setting.variable)
            if text is not None and not text.startswith("tcp://"):  # Kubernetes' FADECOUNT_PORT
                value = setting.parse(text, setting.variable)
        values[setting.attribute] = setting.default if value is None else value
    return values


def default_folder() -> Path:
    """The folder that the environment names; else ``$XDG_DATA_HOME/fadecount``, by default
    ``~/.local/share/fadecount``."""
    if chosen := os.environ.get("FADECOUNT_STATE"):
        return Path(chosen)
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share") / "fadecount"


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds on requests. The defaults suit one machine on a network that is not trusted. Limits
    for single clients are for the proxy in front."""

    body_bytes: int = 1 << 20
    events_per_request: int = 50_000
    request_seconds: float = 10.0
    idle_seconds: float = 15.0
    send_seconds: float = 10.0
    connections: int = 1024
    waiting_batches: int = 4096
    waiting_bytes: int = 64 << 20
    """What the batches that wait to be committed may take in memory, about."""


def room_for(connections: int) -> int:
    """The largest number of connections: each is an open file, and the store must always get the
    few that it needs.

    The limit on open files is raised where the system allows it; otherwise fewer connections are
    accepted.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = connections + BACKLOG + _OTHER_FILES
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return connections
    allowed = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    return max(1, allowed - BACKLOG - _OTHER_FILES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Storage:
    """Where the streams and the tokens are: in a database, or else in the embedded store of a
    folder (mode 0700), which holds the audit log in both cases."""

    folder: Path
    database: str | None = None
    fence: str | Path | None = None
    key_file: Path | None = None

    @property
    def store_path(self) -> Path:
        """The file of the embedded store."""
        return self.folder / STORE_NAME

    def prepare(self) -> None:
        """Create the folder if it does not exist."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            raise StoreError(
                f"--state {self.folder} cannot be made: {error.strerror}; choose another folder"
            ) from error

    def audit_log(self) -> AuditLog:
        """Where administrative acts are recorded."""
        from fadecount.streams.audit_log import AuditLog

        return AuditLog(self.folder)


@contextmanager
def open_tokens(storage: Storage) -> Iterator[Tokens]:
    """The tokens of a service that may run meanwhile, or of one that has not begun yet: a store
    that does not exist is made."""
    from fadecount.service.tokens import Tokens
    from fadecount.streams.sqlite import SQLiteDatabase

    if storage.database is not None:
        from fadecount.streams.postgres import PostgresDatabase

        database: Database = PostgresDatabase(storage.database, writes=True)
    else:
        storage.prepare()
        path = storage.store_path
        database = SQLiteDatabase(path, writes=True, beside=path.exists())
    try:
        yield Tokens(database, storage.audit_log().record)
    finally:
        database.close()


def open_store(storage: Storage) -> Store:
    """The store for writing; raises when another process writes to it."""
    from fadecount.streams import PostgresStore, SQLiteStore, fence_from, seal_from

    seal, fence = seal_from(storage.key_file), fence_from(storage.fence)
    if storage.database is not None:
        return PostgresStore(
            storage.database,
            fence=fence,
            seal=seal,
            lock_wait_seconds=0.0,
            audit_log=storage.audit_log(),
        )
    storage.prepare()
    return SQLiteStore(storage.store_path, fence=fence, seal=seal)


def open_reader(storage: Storage) -> Reader:
    """A connection that can only read."""
    from fadecount.streams.reader import Reader

    if storage.database is not None:
        return Reader.of_server(storage.database)
    return Reader.of_file(storage.store_path)


class Clock:
    """Wall-clock time. A demonstration may use one that runs faster."""

    def now(self) -> float:
        """Unix seconds."""
        return time.time()

    def until(self, moment: float) -> float:
        """Real seconds to wait for a moment; 0 if it has passed."""
        return max(0.0, moment - self.now())


class FastClock(Clock):
    """Time that began at ``start`` when this was made and runs ``speed`` times as fast as real
    time; ``skip`` jumps ahead."""

    def __init__(self, start: float, speed: float) -> None:
        self._start, self._speed = start, speed
        self._began = time.monotonic()

    def now(self) -> float:
        """Unix seconds of the faster time."""
        return self._start + (time.monotonic() - self._began) * self._speed

    def until(self, moment: float) -> float:
        """Real seconds to wait for a moment; 0 if it has passed."""
        return max(0.0, (moment - self.now()) / self._speed)

    def skip(self, seconds: float) -> None:
        """Jump ahead."""
        self._start += seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What the operator chooses."""

    storage: Storage
    hosts: frozenset[str] = frozenset()
    public: bool = False
    limits: Limits = field(default_factory=Limits)
    clock: Clock = field(default_factory=Clock)
