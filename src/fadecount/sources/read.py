"""Reading a whole file of events into counts per tick and key."""

from __future__ import annotations

from pathlib import Path

from fadecount.errors import bad_parameter
from fadecount.sources.options import SourceOptions
from fadecount.sources.plain import read_plain, require_content
from fadecount.sources.report import Reading, SourceReport


def read_file(path: str | Path, options: SourceOptions) -> Reading:
    """The counts of the events in a file, as batches in the order of time; rows may stand in the file in any order.

    Guarantees: with ``on_bad="stop"``, a bad row raises :class:`~fadecount.errors.BadRowError` before any batch is yielded, so
    nothing of a bad file is counted; no message holds a value of a row. Memory grows with the number of distinct pairs of tick
    and key (and of tick and person, where persons are bounded), not with the number of rows.
    """
    path = Path(path)
    if options.time is None:
        raise bad_parameter("time", None, "the name of a column", "the rows of a file are placed by their time")
    kind = options.format_of(path)
    require_content(path)
    report = SourceReport()
    return Reading(read_plain(path, kind, options, report), report)
