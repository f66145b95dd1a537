"""Durable streams: ticks in, committed releases out, in a store that survives crashes."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fadecount.streams.clock import ClockReading, ClockState, read_clock
    from fadecount.streams.description import Description
    from fadecount.streams.fence import Fence, FileFence, ServerFence, fence_from
    from fadecount.streams.figures import Closed, FigureRows
    from fadecount.streams.forks import StreamLoss
    from fadecount.streams.groups import Group, GroupLoss
    from fadecount.streams.inputs import Batch, Intake, ReadPosition
    from fadecount.streams.published import Figures, Means, Published, means
    from fadecount.streams.reader import Reader
    from fadecount.streams.seal import Plain, Seal, Sealed, seal_from
    from fadecount.streams.store import PostgresStore, SQLiteStore, Store
    from fadecount.streams.stream import Stream
    from fadecount.streams.ticks import Ticks
    from fadecount.streams.unit import Unit
    from fadecount.streams.windows import WindowCalendar

_NAMES = {
    "figures": ("Closed", "FigureRows"),
    "clock": ("ClockReading", "ClockState", "read_clock"),
    "description": ("Description",),
    "fence": ("Fence", "FileFence", "ServerFence", "fence_from"),
    "forks": ("StreamLoss",),
    "groups": ("Group", "GroupLoss"),
    "inputs": ("Batch", "Intake", "ReadPosition"),
    "reader": ("Reader",),
    "seal": ("Plain", "Seal", "Sealed", "seal_from"),
    "store": ("PostgresStore", "SQLiteStore", "Store"),
    "stream": ("Stream",),
    "ticks": ("Ticks",),
    "unit": ("Unit",),
    "published": ("Figures", "Means", "Published", "means"),
    "windows": ("WindowCalendar",),
}
"""The public names of each module."""

__all__ = [
    "Batch",
    "ClockReading",
    "ClockState",
    "Closed",
    "Description",
    "Fence",
    "FigureRows",
    "Figures",
    "FileFence",
    "Group",
    "GroupLoss",
    "Intake",
    "Means",
    "Plain",
    "PostgresStore",
    "Published",
    "ReadPosition",
    "Reader",
    "SQLiteStore",
    "Seal",
    "Sealed",
    "ServerFence",
    "Store",
    "Stream",
    "StreamLoss",
    "Ticks",
    "Unit",
    "WindowCalendar",
    "fence_from",
    "means",
    "read_clock",
    "seal_from",
]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used: a run without a store needs few of them."""
    home = next((module for module, names in _NAMES.items() if name in names), None)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value = getattr(importlib.import_module(f"{__name__}.{home}"), name)
    return value
