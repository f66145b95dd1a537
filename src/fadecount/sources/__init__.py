"""Events from files and pipes, as counts per tick and key.

How the modules fit together: ``rows`` (a line of bytes to an event, or the reason why there is
none) → ``files`` (a file or pipe, standard library), ``frames`` (a file or data frame, polars) or
``live`` (a pipe as it comes). The rules about rows are stated once; which reader reads a line
never changes what is read.
"""

from __future__ import annotations

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
from fadecount.sources.gate import Gate
from fadecount.sources.live import GrowingFile, LiveBatch, LiveReading
from fadecount.sources.options import SourceOptions
from fadecount.sources.rows import Reason

__all__ = [
    "Gate",
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
