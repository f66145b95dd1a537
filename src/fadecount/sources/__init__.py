"""Events from files and pipes, as counts per tick and key.

The way through this room: ``lines`` (bytes to texts) → ``rows`` and ``times`` (texts to an event, or the reason why not) →
``plain`` (a file, standard library), ``frames`` (a file, polars) or ``live`` (a pipe) → ``batch``. The rules about rows are
stated once; the fast reader is held to them by comparison with the plain one.
"""

from fadecount.sources.batch import TickBatch
from fadecount.sources.live import read_lines
from fadecount.sources.options import SourceOptions
from fadecount.sources.read import read_file
from fadecount.sources.report import Reading, Reason, SourceReport

__all__ = ["Reading", "Reason", "SourceOptions", "SourceReport", "TickBatch", "read_file", "read_lines"]
