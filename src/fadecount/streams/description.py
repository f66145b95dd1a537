"""What a stream is: fixed when it is created, and public."""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from fadecount.errors import ParameterError, StoreError, bad_parameter, require_integer
from fadecount.mechanisms import Mechanism
from fadecount.streams.database import Database
from fadecount.streams.forks import Fork
from fadecount.streams.ticks import Ticks

ONLY_KEY = "all"
LARGEST_SENSITIVITY = 1 << 51
LONGEST_KEY = 200
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """A mechanism, a calendar, and by how much one protected unit (an event, or a person in a tick) can change a tick."""

    name: str
    mechanism: Mechanism
    ticks: Ticks
    sensitivity: int = 1

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not _NAME.fullmatch(self.name):
            bound = "1 to 100 letters, digits, dots, hyphens or underscores, beginning with a letter or digit"
            raise bad_parameter("stream name", self.name, bound, "such as visits or door-3")
        if not isinstance(self.mechanism, Mechanism):
            raise bad_parameter("mechanism", self.mechanism, "a fadecount mechanism", "such as fadecount.Gradual(epsilon=0.1)")
        remedy = "it is the largest change that one event (or person) makes to the counts of one tick"
        require_integer("sensitivity", self.sensitivity, minimum=1, maximum=LARGEST_SENSITIVITY, remedy=remedy)

    def to_json(self) -> str:
        fields = {"tick_seconds": self.ticks.tick_seconds, "zone": self.ticks.zone, "sensitivity": self.sensitivity}
        return json.dumps({"version": 1, "mechanism": self.mechanism.to_json(), **fields})

    @classmethod
    def from_json(cls, name: str, text: str) -> Description:
        try:
            found: dict[str, Any] = json.loads(text)
            if found["version"] != 1:
                raise StoreError("stream was made by a newer fadecount; upgrade to read it")
            ticks = Ticks(tick_seconds=found["tick_seconds"], zone=found["zone"])
            mechanism = Mechanism.from_json(found["mechanism"])
            return cls(name=name, mechanism=mechanism, ticks=ticks, sensitivity=found["sensitivity"])
        except (ValueError, KeyError, TypeError, ParameterError) as error:
            raise StoreError("description of a stream is damaged; take an intact copy") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A stream's row: where it is in time. Nothing here depends on true counts."""

    id: int
    uid: str
    description: Description
    first_tick: int | None
    last_tick: int | None
    published_tick: int | None
    steps: int
    width: int
    token: str
    previous_token: str | None
    forks: tuple[Fork, ...]
    digest: bytes

    @property
    def published_steps(self) -> int:
        """How many steps readers can see."""
        return 0 if self.published_tick is None or self.first_tick is None else self.published_tick - self.first_tick + 1

    def step_of(self, tick: int) -> int:
        """The step (from 1) that a tick is; below 1 for ticks before the stream."""
        return tick - (self.first_tick or 0) + 1


_COLUMNS = "id, name, uid, description, first_tick, last_tick, published_tick, steps, width, token, previous_token, forks, digest"


def read_place(database: Database, name: str) -> Place:
    """The row of one stream, or a :class:`StoreError` that names those there are."""
    rows = database.query(f"SELECT {_COLUMNS} FROM streams WHERE name = ?", (name,))  # noqa: S608 - a constant
    if not rows:
        names = ", ".join(stream_names(database)) or "none"
        raise StoreError(f"stream must exist, got {name!r}; streams of this store: {names}")
    try:
        return _place(rows[0])
    except (ValueError, TypeError) as error:
        raise StoreError("place of a stream is damaged; take an intact copy of the store") from error


def _place(row: tuple[Any, ...]) -> Place:
    id_, name, uid, text, first, last, published, steps, width, token, previous, forks, digest = row
    return Place(
        id=id_,
        uid=uid,
        description=Description.from_json(name, text),
        first_tick=_tick(first),
        last_tick=_tick(last),
        published_tick=_tick(published),
        steps=operator.index(steps),
        width=operator.index(width),
        token=token,
        previous_token=previous,
        forks=tuple(Fork(last_step=_tick(each)) for each in json.loads(forks)),
        digest=bytes(digest),
    )


def _tick(value: Any) -> int | None:
    return None if value is None else operator.index(value)


def stream_names(database: Database) -> list[str]:
    return [name for (name,) in database.query("SELECT name FROM streams ORDER BY name")]


def read_keys(database: Database, stream: int) -> tuple[str, ...]:
    """The declared keys, in the order of their declaration, which is the order of every array."""
    return tuple(name for (name,) in database.query("SELECT name FROM keys WHERE stream = ? ORDER BY position", (stream,)))


def write_keys(database: Database, stream: int, first: int, names: Sequence[str]) -> None:
    rows = [(stream, first + at, name) for at, name in enumerate(names)]
    database.change_many("INSERT INTO keys (stream, position, name) VALUES (?, ?, ?)", rows)


def checked_keys(names: Iterable[str], taken: Iterable[str] = ()) -> tuple[str, ...]:
    """Keys as they may be declared: public text, each once."""
    keys = tuple(names)
    known = set(taken)
    for key in keys:
        if not isinstance(key, str) or not 1 <= len(key) <= LONGEST_KEY or not key.isprintable():
            raise bad_parameter("key", key, f"1 to {LONGEST_KEY} printable characters", "declare keys by their names")
        if key in known:
            raise bad_parameter("key", key, "declared once", "leave the second one out")
        known.add(key)
    if not keys:
        raise ParameterError("keys must hold at least one name, got none; a stream without keys counts under 'all'")
    return keys
