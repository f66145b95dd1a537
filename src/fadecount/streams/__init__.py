"""Durable streams: ticks in, committed releases out, in a store that survives crashes."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from fadecount.streams.chunks import Chunk
from fadecount.streams.clock import ClockGuard, ClockReading, ClockState
from fadecount.streams.description import Description
from fadecount.streams.fence import Fence, FileFence, ServerFence, fence_from
from fadecount.streams.forks import Fork, StreamLoss
from fadecount.streams.inputs import Batch, Intake, ReadPosition
from fadecount.streams.reader import Monotone, Reader, Releases
from fadecount.streams.seal import Plain, Seal, Sealed, seal_from
from fadecount.streams.store import PostgresStore, SQLiteStore, Store
from fadecount.streams.stream import Stream
from fadecount.streams.ticks import Ticks
from fadecount.streams.unit import Unit

if TYPE_CHECKING:
    from fadecount.streams.windows import WindowCalendar, Windows

__all__ = [
    "Batch",
    "Chunk",
    "ClockGuard",
    "ClockReading",
    "ClockState",
    "Description",
    "Fence",
    "FileFence",
    "Fork",
    "Intake",
    "Monotone",
    "Plain",
    "PostgresStore",
    "ReadPosition",
    "Reader",
    "Releases",
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
    "Windows",
    "fence_from",
    "seal_from",
]


def __getattr__(name: str) -> Any:
    """Load these names on first use: counting does not need them."""
    if name not in ("WindowCalendar", "Windows"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module("fadecount.streams.windows"), name)
