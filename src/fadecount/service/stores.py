"""Opening the store that the settings name, for writing and for reading."""

from __future__ import annotations

from fadecount.service.place import StatePlace
from fadecount.streams import PostgresStore, SQLiteStore, Store, fence_from, seal_from
from fadecount.streams.reading import Reader


def open_store(place: StatePlace) -> Store:
    """The store for writing; raises when another process writes to it."""
    seal, fence = seal_from(place.key_file), fence_from(place.fence)
    if place.database is not None:
        return PostgresStore(place.database, fence=fence, seal=seal, lock_wait_seconds=0.0)
    place.prepare()
    return SQLiteStore(place.store_path, fence=fence, seal=seal)


def open_reader(place: StatePlace) -> Reader:
    """A connection that can only read."""
    return Reader.of_server(place.database) if place.database is not None else Reader.of_file(place.store_path)
