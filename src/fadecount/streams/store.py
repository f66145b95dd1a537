"""Stores: named streams in one database."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Self

from fadecount.calendar import Ticks
from fadecount.checks import require_integer
from fadecount.errors import ParameterError, StoreError, bad_parameter
from fadecount.mechanisms import ONE_EVENT, Mechanism, Totals, Unit
from fadecount.noise import unpredictable
from fadecount.planning.publication import Publication
from fadecount.streams.audit_log import Act, AuditLog
from fadecount.streams.database import (
    FORMAT,
    STREAM_TABLES,
    Context,
    Database,
    placeholders,
    require_format,
)
from fadecount.streams.description import ONLY_KEY, Description, checked_keys
from fadecount.streams.discovery import HiddenKeys
from fadecount.streams.embargo import new_machine
from fadecount.streams.fence import (
    Fence,
    FileFence,
    NullFence,
    claim,
    mark_of,
    user_state_folder,
)
from fadecount.streams.inputs import OF_THE_STREAM, Intake
from fadecount.streams.loss import Group, Member
from fadecount.streams.reader import Reader
from fadecount.streams.retention import NEEDS_UPKEEP, NO_UPKEEP_YET, keep_up
from fadecount.streams.seal import SECRET, Seal, SecretRows, insert_sealed
from fadecount.streams.sqlite import MemoryDatabase, SQLiteDatabase
from fadecount.streams.state import StoredState, write_state
from fadecount.streams.status import (
    lock_streams,
    read_group,
    read_status,
    stream_names,
    write_keys,
)
from fadecount.streams.stream import Stream

_CREATION_SECONDS = 5.0


class Store:
    """Named streams, each with its state, its accepted inputs and its figures. One process writes
    to a stream."""

    def __init__(
        self,
        database: Database,
        *,
        audit_log: AuditLog | None,
        fence: Fence | None = None,
        seal: Seal | None = None,
        lock_wait_seconds: float = 0.0,
    ) -> None:
        """The fence is by default in the user's state folder."""
        self._database, self._wait = database, lock_wait_seconds
        self._context = Context(
            database=database,
            seal=seal or Seal(),
            fence=fence or FileFence(),
            audit_log=audit_log,
        )
        try:
            self._context.fence.require_outside(database)
            self._uid = self._check_about()
        except BaseException:
            self.close()
            raise

    def _check_about(self) -> str:
        """Check the format and the key of the store, and return its uid."""
        database, fingerprint = self._database, self._context.seal.fingerprint
        defaults = {"format": str(FORMAT), "uid": unpredictable(16).hex(), "seal": fingerprint}
        require_format(database)
        with database.transaction():
            database.change_many(
                "INSERT INTO about (name, value) VALUES (?, ?) ON CONFLICT (name) DO NOTHING",
                list(defaults.items()),
            )
            about = dict(database.query("SELECT name, value FROM about"))
        if about["seal"] != fingerprint:
            wanted = "the key it was sealed with" if about["seal"] else "no key (it is not sealed)"
            raise StoreError(f"store must be opened with {wanted}; check the key or its file")
        return str(about["uid"])

    def record(self, act: Act, what: str, **details: str | int) -> None:
        """Record an administrative act on this store in its audit log: see
        :meth:`Context.record`."""
        self._context.record(act, what, **details)

    def names(self) -> list[str]:
        """The streams of this store, in alphabetical order."""
        return stream_names(self._database)

    def create(
        self,
        what: Description | Publication,
        *,
        keys: Iterable[str] = (ONLY_KEY,),
        start_tick: int | None = None,
    ) -> Stream:
        """A new stream that begins with ``start_tick``. This and the keys, in this order, are
        public, so neither may depend on events.

        Or a new publication, which says both itself. It is planned here and now: what is planned is
        stored, and checked against its promise, exactly.
        """
        description = planned(what) if isinstance(what, Publication) else what
        if description.publication is not None:
            start_tick = description.start_tick
            lists = tuple(each.keys for each in description.publication.parts)
        else:
            lists = (checked_keys(keys, none=not description.needs_keys),)
            hidden = description.hidden
            if hidden is not None and hidden.other not in (None, *lists[0]):
                raise bad_parameter("other", hidden.other, "one of the declared keys", "declare it")
            if start_tick is None:
                raise ParameterError(
                    f"start must be given to create the stream {description.name!r}: when it begins"
                    " is public, and must not depend on its first event"
                )
        name, group = description.name, description.group
        # another process may be creating the same one, or another one of the same group
        locks = [f"create {name}"] + ([] if group is None else [f"create in group {group.name}"])
        with self._database.locked(locks, _CREATION_SECONDS), self._database.transaction():
            uid = self._create(self.in_group(description), lists, start_tick)
        return self._open(name, uid)

    def in_group(self, description: Description) -> Description:
        """The description with the promise of its group: its own if it would be the first stream
        of the group, or else that of the others, from which its own must not differ. Refused if
        all streams of the group together would lose more than that."""
        wanted, name = description.group, description.name
        before = read_group(self._database, description)
        if wanted is None or before is None:
            return description
        if not before.members and not wanted.promise:
            raise ParameterError(
                f"group {wanted.name!r} has no stream yet; the first one states its promise, such"
                f" as {{'1y': 4}}"
            )
        for what, given, known in (
            ("loss of the group", (wanted.promise and wanted.text), before.group.text),
            ("protected unit", description.protects, before.unit),
        ):
            if given and given != known:
                bound = f"{known}, as for the other streams of group {wanted.name!r}"
                raise bad_parameter(what, given, bound, "or choose another group")
        new = Member(name=name, loss=description.loss, tick_seconds=description.ticks.tick_seconds)
        if all(member.name != name for member in before.members):
            replace(before, members=(*before.members, new)).require_promise()
        return replace(description, group=before.group)

    def _create(
        self, description: Description, keys: tuple[tuple[str, ...], ...], start_tick: int
    ) -> str:
        context, database, name = self._context, self._database, description.name
        # no noise of open blocks in a store
        if any(isinstance(each.mechanism, Totals) for each in description.series):
            remedy = "fc.plan gives block counters, which a store publishes"
            raise bad_parameter("mechanism", "Totals", "one that a store keeps", remedy)
        if name in self.names():
            remedy = "open the stream that exists, or choose another name"
            raise bad_parameter("stream name", name, "new in this store", remedy)
        if database.query("SELECT 1 FROM deleted WHERE name = ?", (name,)):
            remedy = "what was released under it cannot be taken back; choose another name"
            raise bad_parameter("stream name", name, "never used in this store", remedy)
        claim(context, self._uid, name)
        uid = f"{self._uid}-{unpredictable(8).hex()}"
        row = {
            "name": name,
            "uid": uid,
            "description": description.to_json(),
            "group_name": None if description.group is None else description.group.name,
            "first_tick": start_tick,
            "last_tick": start_tick - 1,
            "published_tick": start_tick - 1,
            "widths": json.dumps([*map(len, keys)]),
            "commit_id": unpredictable(16).hex(),
            "kept": "[]",
            "upkeep_tick": NO_UPKEEP_YET,
        }
        database.change(
            f"INSERT INTO streams ({', '.join(row)}) VALUES ({placeholders(list(row))})",  # noqa: S608
            list(row.values()),
        )
        status = read_status(database, name)
        for number, names in enumerate(keys):
            if names:
                write_keys(database, status.id, number, 0, names)
        secrets = [OF_THE_STREAM]
        if description.notes:
            secrets.append(description.slot_of(start_tick))
        rows = SecretRows(context, uid, status.id)
        rows.put("secrets", *((block, unpredictable(32)) for block in secrets))
        state = StoredState(context, status)
        parts = zip(description.series, keys, strict=True)
        state.machines = [new_machine(each.mechanism, len(names)) for each, names in parts]
        state.keys = keys
        write_state(database, [state.changes(status)])
        group = {} if description.group is None else {"group": description.group.name}
        context.record(Act.STREAM_CREATED, name, keys=sum(map(len, keys)), **group)
        # before the commit: a stream without a mark has lost it
        context.fence.move(uid, None, mark_of(status, database.locations))
        # again: of two new stores at one place, one sees the other's mark
        claim(context, self._uid, name)
        return uid

    def open(self, name: str) -> Stream:
        """A stream for writing. Refused while another process writes to it, and if its store is
        older than what was published, or has lost its fence."""
        return self._open(name, read_status(self._database, name).uid)

    def _open(self, name: str, uid: str) -> Stream:
        self._database.lock(uid, self._wait)
        try:
            return Stream(self._context, name)
        except BaseException:
            self._database.unlock(uid)
            raise

    def open_or_create(
        self,
        name: str,
        *,
        tick: Ticks,
        mechanism: Mechanism | None = None,
        keys: Iterable[str] = (ONLY_KEY,),
        unit: Unit = ONE_EVENT,
        group: Group | None = None,
        start_tick: int | None = None,
        hidden: HiddenKeys | None = None,
    ) -> Stream:
        """The stream of that name, for writing: the existing one, if it matches the arguments, or a
        new one.

        ``mechanism`` is that of a :class:`Description`. It may be left out for an existing stream,
        and so may its ``group`` and its ``hidden`` keys. What differs from the stream's own is
        refused.
        ``keys`` must begin with those declared so far; new ones are declared. ``start_tick`` is for
        a new stream.
        """
        names = tuple(keys)
        if name not in self.names():
            if mechanism is None:
                raise ParameterError(
                    f"mechanism must be given to create the stream {name!r}; such as"
                    " fadecount.Gradual(epsilon=0.1)"
                )
            description = Description(
                name=name, mechanism=mechanism, ticks=tick, unit=unit, group=group, hidden=hidden
            )
            return self.create(description, keys=names, start_tick=start_tick)
        described = read_status(self._database, name).description
        if described.publication is not None:
            bound = "of a stream, where a mechanism is given"
            raise bad_parameter("name", name, bound, "it is a publication; choose another name")
        described.require_same(
            ticks=tick, unit=unit, mechanism=mechanism, group=group, hidden=hidden
        )
        stream = self.open(name)
        known = stream.keys
        if names[: len(known)] != known:
            raise ParameterError(
                f"keys of stream {name!r} must begin with those declared so far; add new ones at"
                " the end"
            )
        if len(names) > len(known):
            stream.declare(names[len(known) :])
        return stream

    def intake(self, name: str) -> Intake:
        """Accepts events for a stream without closing its ticks; with PostgreSQL, beside the
        process that closes them."""
        return Intake(self._context, read_status(self._database, name))

    def reader(self) -> Reader:
        """The published figures, over the store's own connection."""
        return Reader(self._database)

    def delete(self, name: str) -> None:
        """Remove a stream with all its figures, in one transaction. If it had any, its name stays
        reserved: observers keep what they have seen."""
        database, before = self._database, read_status(self._database, name)
        with database.locked([before.uid], self._wait), database.transaction():
            # first: what another process is accepting now is then deleted too
            lock_streams(database, [before.id])
            status = read_status(database, name)  # it may have published until now
            if status.uid != before.uid:
                raise StoreError(f"stream {name!r} was made anew meanwhile; try again")
            for table in STREAM_TABLES:
                database.change(f"DELETE FROM {table} WHERE stream = ?", (status.id,))  # noqa: S608
            database.change("DELETE FROM streams WHERE id = ?", (status.id,))
            if status.steps:
                text = status.description.to_json()
                group = None if status.group is None else status.group.group.name
                ticks = (status.first_tick, status.last_tick)
                database.change(
                    "INSERT INTO deleted (name, uid, description, group_name, first_tick,"
                    " last_tick, deleted_at) VALUES (?, ?, ?, ?, ?, ?, ?)",
                    (name, status.uid, text, group, *ticks, int(time.time())),
                )
            self._context.record(Act.STREAM_DELETED, name)

    def retain(self, name: str, seconds: int | None) -> None:
        """Keep figures for so long after they were published (None: for ever); :meth:`upkeep`
        removes older ones.

        What was removed cannot be brought back, also not by a longer retention. Losses do not
        change: observers keep what they have seen.
        """
        status = read_status(self._database, name)
        check_retention(status.description, seconds)
        with self._database.transaction():
            self._database.change(
                "UPDATE streams SET retain_seconds = ?, upkeep_tick = ? WHERE id = ?",
                (seconds, NO_UPKEEP_YET, status.id),
            )
            self._context.record(Act.RETENTION_SET, name, seconds=seconds or "for ever")

    def upkeep(self, name: str) -> bool:
        """Remove some old figures of a stream, in one short transaction; whether there may
        be more to do."""
        return keep_up(self._context, read_status(self._database, name))

    def needing_upkeep(self) -> list[str]:
        """The streams for which :meth:`upkeep` may have something to do."""
        return [name for (name,) in self._database.query(NEEDS_UPKEEP)]

    def scrub(self) -> None:
        """Destroy what was deleted where the database keeps it for long: to be called often, since
        it does so once a minute."""
        self._database.scrub()

    def rotate(self, seal: Seal) -> None:
        """Seal all state and accepted inputs with another key (or none), in one transaction. No
        stream may be open."""
        context, database = self._context, self._database
        locks = [read_status(database, name).uid for name in self.names()]
        with database.locked(locks, self._wait), database.transaction():
            for status in [read_status(database, name) for name in self.names()]:
                StoredState(context, status).load(status)  # refuses one that is damaged
                old, new = (
                    SecretRows(each, status.uid, status.id)
                    for each in (context, replace(context, seal=seal))
                )
                for table in SECRET:
                    new.put(table, *old.take(table))
                state = StoredState(replace(context, seal=seal), status)
                state.read(len(status.widths))
                insert_sealed(database, "state", [state.whole(status)])
            database.change("UPDATE about SET value = ? WHERE name = 'seal'", (seal.fingerprint,))
            self._context.record(
                Act.SEAL_ROTATED, "store", sealed="yes" if seal.fingerprint else "no"
            )
        context.seal = seal

    def close(self) -> None:
        """Close the store. Its streams cannot be used any more."""
        self._database.close()
        self._context.fence.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def check_retention(description: Description, seconds: int | None) -> None:
    """Refuse to keep figures for less than a tick, or for tens of thousands of years."""
    if seconds is not None:
        remedy = "it is for how long figures are kept, in seconds, and at least a tick"
        require_integer(
            "retention",
            seconds,
            minimum=description.ticks.tick_seconds,
            maximum=1 << 40,
            remedy=remedy,
        )


def planned(publication: Publication) -> Description:
    """The description of a new publication, with the plan of each of its parts."""
    from fadecount.planning.promise import plan_publication

    return Description.of(publication, plan_publication(publication))


class SQLiteStore(Store):
    """A store in one SQLite file (the default), beside its audit log. See
    :class:`~fadecount.streams.sqlite.SQLiteDatabase` for what it guarantees."""

    def __init__(
        self, path: str | Path, *, fence: Fence | None = None, seal: Seal | None = None
    ) -> None:
        log = AuditLog(Path(path).resolve().parent)
        super().__init__(SQLiteDatabase(path, writes=True), audit_log=log, fence=fence, seal=seal)


class MemoryStore(Store):
    """A store that ends with its process, for a one-off run. Nobody can copy it or restore it, so
    it has no fence, and nobody administers it, so it has no audit log."""

    def __init__(self) -> None:
        super().__init__(MemoryDatabase(), audit_log=None, fence=NullFence())


class PostgresStore(Store):
    """A store in a PostgreSQL database; several processes may use it, each stream has one writer at
    a time.

    The audit log is a file in the user's state folder, unless another one is given.
    """

    def __init__(
        self,
        url: str,
        *,
        fence: Fence | None = None,
        seal: Seal | None = None,
        lock_wait_seconds: float = 5.0,
        audit_log: AuditLog | None = None,
    ) -> None:
        from fadecount.streams.postgres import PostgresDatabase

        super().__init__(
            PostgresDatabase(url, writes=True),
            audit_log=audit_log or AuditLog(user_state_folder()),
            fence=fence,
            seal=seal,
            lock_wait_seconds=lock_wait_seconds,
        )
