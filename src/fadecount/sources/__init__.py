"""Events from files and pipes, as counts per tick and key.

How the modules fit together: ``lines`` (bytes to texts) → ``rows`` (texts to an event, or the
reason why not) → ``files`` (a file, standard library), ``frames`` and ``columns`` (a file, polars)
or ``live`` (a pipe) → ``reading``. The rules about rows are stated once; which reader reads a line
never depends on another line.
"""

from fadecount.sources.files import check_file, read_file, read_frame, read_history, require_file
from fadecount.sources.live import GrowingFile, LiveBatch, LiveReading, read_live
from fadecount.sources.options import SourceOptions
from fadecount.sources.reading import Reading, Reason, SourceReport, TickBatch

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
    "read_live",
    "require_file",
]
