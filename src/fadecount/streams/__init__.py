"""Durable streams: ticks in, committed releases out, in a store that survives anything."""

from fadecount.streams.chunks import Chunk
from fadecount.streams.clock import ClockGuard, ClockReading, ClockState
from fadecount.streams.description import Description
from fadecount.streams.feeds import Feed, LiveFeed
from fadecount.streams.fence import Fence, FileFence, ServerFence, fence_from
from fadecount.streams.forks import Fork, StreamLoss
from fadecount.streams.inputs import Batch, Intake, ReadPosition
from fadecount.streams.reader import Monotone, Reader, Releases
from fadecount.streams.seal import Plain, Seal, Sealed, seal_from
from fadecount.streams.store import PostgresStore, SQLiteStore, Store
from fadecount.streams.stream import Stream
from fadecount.streams.ticks import Ticks
from fadecount.streams.unit import Unit

__all__ = [
    "Batch",
    "Chunk",
    "ClockGuard",
    "ClockReading",
    "ClockState",
    "Description",
    "Feed",
    "Fence",
    "FileFence",
    "Fork",
    "Intake",
    "LiveFeed",
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
    "fence_from",
    "seal_from",
]
