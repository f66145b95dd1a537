"""The format of a store: what it must be, and how an older one becomes the current one.

A store has one format number. Opening it for writing migrates an older format in one transaction:
all of it, or nothing. A newer format is refused, since an older version would not keep its
promises. Readers change nothing: they refuse any other format.

From 1 to 2: streams have a retention and may have removed releases; deleted streams leave more than
their name; operators can send requests to the process that leads a stream. Persons are hashed in
another way since then, so the caps of persons cannot be carried over within a tick: what was
accepted for the open tick of a stream that protects persons is left out.

From 2 to 3: the keys of a stream are in blocks, each a list of names, instead of one row for each.
What is noted of persons begins with the tick that it was noted in, so that the caps of persons hold
in the tick of the migration too.
"""

from __future__ import annotations

import json
from collections.abc import Callable

from fadecount.errors import StoreError, bad_parameter
from fadecount.streams.audit_log import Act, AuditLog
from fadecount.streams.database import FORMAT, NEW_IN_FORMAT_2, NEW_IN_FORMAT_3, Database, noted_as
from fadecount.streams.status import write_keys

_LOCK = "migrate the store"
_LOCK_SECONDS = 10.0


def stored_format(database: Database) -> int | None:
    """The format number of a store; None if the store is new."""
    rows = database.query("SELECT value FROM about WHERE name = 'format'")
    if not rows:
        return None
    if not str(rows[0][0]).isdecimal():
        raise StoreError("format of the store is damaged; take an intact copy of the store")
    return int(rows[0][0])


def require_current(database: Database) -> None:
    """Refuse to read a store of another format."""
    found = stored_format(database)
    if found is not None and found < FORMAT:
        remedy = "fadecount streams migrate brings it up to date"
        raise bad_parameter("store format", found, f"{FORMAT}", remedy)
    _refuse_newer(found)


def migrate(database: Database, audit_log: AuditLog) -> None:
    """Bring a store to the current format, in one transaction."""
    if stored_format(database) in (None, FORMAT):
        return
    database.lock(_LOCK, _LOCK_SECONDS)  # another process may be doing the same
    try:
        with database.transaction():
            found = stored_format(database)
            _refuse_newer(found)
            if found is not None and found < FORMAT:
                for step in range(found, FORMAT):
                    _STEPS[step](database)
                database.change("UPDATE about SET value = ? WHERE name = 'format'", (str(FORMAT),))
                audit_log.record(Act.STORE_MIGRATED, "store", from_format=found, to_format=FORMAT)
    finally:
        database.unlock(_LOCK)


def _refuse_newer(found: int | None) -> None:
    if found is not None and not 1 <= found <= FORMAT:
        remedy = "it was written by a newer fadecount; upgrade fadecount to use it"
        raise bad_parameter("store format", found, f"at most {FORMAT}", remedy)


def _from_1(database: Database) -> None:
    database.query(
        "SELECT commit_id, secret FROM streams"
    )  # a format that was never released has others
    for words in NEW_IN_FORMAT_2:
        database.change(database.in_dialect(words))
    for stream, last, text in database.query("SELECT id, last_tick, description FROM streams"):
        if json.loads(text)["unit"]["of"] == "person":
            for table in ("inputs", "persons"):
                database.change(f"DELETE FROM {table} WHERE stream = ?", (stream,))  # noqa: S608 - constants
            database.change("DELETE FROM seen WHERE stream = ? AND tick > ?", (stream, last))


def _from_2(database: Database) -> None:
    for words in NEW_IN_FORMAT_3:
        database.change(database.in_dialect(words))
    for stream, width, last in database.query("SELECT id, width, last_tick FROM streams"):
        rows = database.query(
            "SELECT name FROM keys WHERE stream = ? AND position < ? ORDER BY position",
            (stream, width),
        )
        write_keys(database, stream, 0, [name for (name,) in rows])
        noted = database.query(
            "DELETE FROM persons WHERE stream = ? RETURNING person, events", (stream,)
        )
        renamed = [(stream, noted_as(last + 1) + bytes(person), events) for person, events in noted]
        database.change_many(
            "INSERT INTO persons (stream, person, events) VALUES (?, ?, ?)", renamed
        )
    database.change("DROP TABLE keys")


_STEPS: dict[int, Callable[[Database], None]] = {1: _from_1, 2: _from_2}
