"""Durable streams: ticks in, published figures out, in a store that survives crashes."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fadecount.calendar import Ticks as Ticks
    from fadecount.streams.averages import means as means
    from fadecount.streams.description import Description as Description
    from fadecount.streams.fence import FileFence as FileFence
    from fadecount.streams.fence import ServerFence as ServerFence
    from fadecount.streams.fence import fence_from as fence_from
    from fadecount.streams.inputs import Batch as Batch
    from fadecount.streams.loss import Group as Group
    from fadecount.streams.reader import Reader as Reader
    from fadecount.streams.seal import Seal as Seal
    from fadecount.streams.seal import seal_from as seal_from
    from fadecount.streams.storage import Storage as Storage
    from fadecount.streams.storage import open_store as open_store
    from fadecount.streams.store import PostgresStore as PostgresStore
    from fadecount.streams.store import SQLiteStore as SQLiteStore
    from fadecount.streams.store import Store as Store
    from fadecount.streams.stream import Stream as Stream

_HOMES = {
    **dict.fromkeys(("FileFence", "ServerFence", "fence_from"), "fence"),
    **dict.fromkeys(("Seal", "seal_from"), "seal"),
    **dict.fromkeys(("Storage", "open_store"), "storage"),
    **dict.fromkeys(("PostgresStore", "SQLiteStore", "Store"), "store"),
    "Description": "description",
    "Group": "loss",
    "Batch": "inputs",
    "means": "averages",
    "Reader": "reader",
    "Stream": "stream",
    "Ticks": ".calendar",
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used: a run without a store needs few of them."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f".{_HOMES[name]}", __name__), name)
