"""Events from files and pipes, as counts per tick and key.

How the modules fit together: ``rows`` (a line of bytes to an event, or the reason why there is
none) → ``files`` (a file or pipe, standard library), ``frames`` (a file or data frame, polars) or
``live`` (a pipe as it comes). The rules about rows are stated once; which reader reads a line
never changes what is read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fadecount.sources.files import (
    Reading,
    SourceReport,
    TickBatch,
    check_file,
    read_file,
    read_frame,
    read_history,
    require_file,
)
from fadecount.sources.options import SourceOptions
from fadecount.sources.rows import Reason

if TYPE_CHECKING:
    from fadecount.sources.live import GrowingFile, LiveBatch, LiveReading

__all__ = [
    "GrowingFile",
    "LiveBatch",
    "LiveReading",
    "Reading",
    "Reason",
    "SourceOptions",
    "SourceReport",
    "TickBatch",
    "check_file",
    "read_file",
    "read_frame",
    "read_history",
    "require_file",
]


def __getattr__(name: str) -> Any:
    """Import a name of ``live`` when it is first used: a file needs none of them."""
    if name not in ("GrowingFile", "LiveBatch", "LiveReading"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from fadecount.sources import live

    return getattr(live, name)
