"""Events from files and pipes, as counts per tick and key.

How the modules fit together: ``rows`` (a line of bytes to an event, or the reason why there is
none; the rules about cells) → ``files`` (files and pipes row by row; standard library) or
``columns`` (files and data frames; polars) → ``grouping`` (columns of numbers) → ``tally`` (which
rows count, and their sums). ``live`` reads a pipe as it comes. The rules are stated once; which
reader reads a line never changes what is read.

Of a publication, ``measures`` says what one row adds to each measure, and ``additions`` what a
whole input adds.
"""

from __future__ import annotations

from fadecount.sources.additions import EarlierNotes, InputAdditions
from fadecount.sources.files import check_source, count_rows, first_bad_row, read
from fadecount.sources.measures import MeasureRules, PublicationRows
from fadecount.sources.options import SourceOptions
from fadecount.sources.report import Gate, SourceReport
from fadecount.sources.rows import Reason
from fadecount.sources.tally import Earlier, History

__all__ = [
    "Earlier",
    "EarlierNotes",
    "Gate",
    "History",
    "InputAdditions",
    "MeasureRules",
    "PublicationRows",
    "Reason",
    "SourceOptions",
    "SourceReport",
    "check_source",
    "count_rows",
    "first_bad_row",
    "read",
]
