"""Figures as a file: CSV, JSON lines or Parquet; ``-`` is standard output."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, TextIO

import numpy as np
from numpy.typing import NDArray

from fadecount.calendar import iso_times
from fadecount.errors import FadecountError, bad_parameter, missing_extra
from fadecount.streams.description import TOTAL, Description
from fadecount.streams.loss import NO_GROUP, GroupLoss
from fadecount.streams.published import COLUMNS as OF_FIGURES
from fadecount.streams.published import Published, Table, joined_table, no_figures

if TYPE_CHECKING:
    from fadecount.streams.reader import Reader

COLUMNS = ("stream", *OF_FIGURES)
APPEARED = "appeared"
"""The column of streams in which keys appear by themselves: when a key was shown first."""
TIMES = ("start", "end", "published", APPEARED)
NEVER = np.iinfo(np.int64).min
"""The time of what did not appear by itself: a declared key."""
_FORMULA = re.compile(r"'*[=+\-@\t\r]")
"""Where CSV has one more apostrophe. Those before such a character count too, so that taking away
the first apostrophe of every such text gives the text that was written."""
SUFFIXES = {".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".parquet": "parquet"}


def check_output(
    output: str | None,
    *,
    source: str | None = None,
    force: bool = False,
    append: bool = False,
    columns: Sequence[str] | None = None,
) -> str:
    """The output format. Raises, before anything is released, if the output cannot be written or is
    the input.

    An existing file is replaced only with ``force``: overwritten figures may have been the only
    copy. With ``append`` it must have the same ``columns`` (by default: those of any stream).
    """
    if output in (None, "-"):
        return "csv"
    path = Path(str(output))
    kind = SUFFIXES.get(path.suffix.lower(), "")
    is_there = path.exists()
    bound = remedy = ""
    if not kind:
        bound, remedy = "a .csv, .jsonl or .parquet file, or -", "the ending says the format"
    elif path.is_dir() or not os.access(path if is_there else path.parent, os.W_OK):
        bound, remedy = "a file that can be written", "check the folder and its permissions"
    elif source is not None and is_there and Path(source).exists() and path.samefile(source):
        bound, remedy = "another file than the input", "it would be overwritten"
    elif append and kind == "parquet":
        bound, remedy = "a .csv or .jsonl file to append to", "write another .parquet file"
    elif append and is_there and path.stat().st_size and not _begins_with(path, kind, columns):
        bound = f"a file that begins with the columns {', '.join(columns or COLUMNS)}"
        remedy = "append to a file of the same kind, or write a new one"
    elif is_there and not force and not append:
        bound, remedy = "a new file", "force=True replaces it, and run --append writes behind it"
    if bound:
        raise bad_parameter("output", output, bound, remedy)
    if kind == "parquet":
        _polars()
    return kind


def columns_of(description: Description) -> tuple[str, ...]:
    """The columns of the figures of a stream."""
    return COLUMNS if description.hidden is None else (*COLUMNS, APPEARED)


def _begins_with(path: Path, kind: str, columns: Sequence[str] | None) -> bool:
    """Whether the first line of a file is the header of figures, or a JSON object of them."""
    known = [list(columns)] if columns else [[*COLUMNS], [*COLUMNS, APPEARED]]
    with path.open("rb") as file:
        line = file.readline(1 << 20)
    if kind == "csv":
        return line in [(",".join(each) + "\n").encode() for each in known]
    try:
        return list(json.loads(line)) in known
    except (ValueError, TypeError):
        return False


class FigureWriter:
    """Writes figures piece by piece: stream, start and end (in the stream's zone), key, value, low
    and high (95 %), status, whether the slot is partial, and when it was published; where keys
    appear by themselves, when the key did.

    What the stream is (its protected unit, what a unit loses when, its tick) is in the metadata of
    a Parquet file, and for the other formats in a file beside it whose name ends with
    ``-metadata.json``. ``group`` is what the streams of its group lose together.
    """

    def __init__(
        self,
        output: str | None,
        description: Description,
        *,
        group: GroupLoss | None = None,
        force: bool = False,
        append: bool = False,
    ) -> None:
        self._description = description
        self._about = about_stream(description, group)
        self._columns = columns_of(description)
        self._kind = check_output(output, force=force, append=append, columns=self._columns)
        self._mode: Literal["a", "w"] = "a" if append else "w"
        self._path = None if output in (None, "-") else Path(str(output))
        self._tables: list[Table] = []
        self._file: TextIO | None = None

    def write(self, table: Table) -> None:
        """Write the rows of a table."""
        if self._kind == "parquet":
            self._tables.append(table)
            return
        rows = table_rows(self._description.name, table, self._description.ticks.zone)
        if self._kind == "csv":
            self._put(csv_text(rows))
        else:
            fields = (dict(zip(self._columns, row, strict=True)) for row in rows)
            self._put("".join(json.dumps(each, ensure_ascii=False) + "\n" for each in fields))

    def _put(self, text: str) -> None:
        """Write text. The file is opened at the first figure: a refused run leaves an older file
        unchanged."""
        try:
            if self._file is None:
                self._file = (
                    sys.stdout
                    if self._path is None
                    else self._path.open(self._mode, encoding="utf-8", newline="")
                )
                if self._kind == "csv" and (self._path is None or self._path.stat().st_size == 0):
                    text = ",".join(self._columns) + "\n" + text
            self._file.write(text)
            self._file.flush()
        except OSError as error:
            raise _failed(error, self._path) from error

    def close(self) -> None:
        """Finish the file."""
        try:
            if self._kind == "parquet":
                if self._tables:
                    about = {
                        f"fadecount.{name}": value if isinstance(value, str) else json.dumps(value)
                        for name, value in self._about.items()
                    }
                    stream = _polars().lit(self._description.name).alias("stream")
                    frame = _frame(joined_table(self._tables), self._description)
                    frame.select(stream, "*").write_parquet(self._path, metadata=about)
            elif self._file is not None and self._path is not None:
                self._file.close()
                beside = self._path.with_name(f"{self._path.name}-metadata.json")
                beside.write_text(json.dumps(self._about, ensure_ascii=False, indent=2) + "\n")
        except OSError as error:
            raise _failed(error, self._path) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def export_publication(reader: Reader, name: str, folder: str | Path) -> list[Path]:
    """Write all figures of a publication as CSV, one file for each measure, part and length:
    ``rides.1d.csv``, ``rides.overall.1d.csv``. A file is replaced as a whole: another process sees
    the old or the new one."""
    status, files = reader.status(name), dict[str, list[tuple[Published, str]]]()
    if status.description.publication is None:
        remedy = "fadecount streams export writes those of a stream"
        raise bad_parameter("name", name, "that of a publication", remedy)
    for each in status.parts:
        only, published = each.description.only, reader.published_of(each, *reader.declared(each))
        measure = only.measure + (".overall" if only.part == "overall" else "")
        lengths = dict.fromkeys(each.description.levels or (TOTAL,))
        if each.description.hidden is not None:
            lengths[each.description.hidden.discovery.per] = None
        for per in lengths:
            files.setdefault(f"{measure}.{per}.csv", []).append((published, per))
    folder, zone = Path(folder), status.description.ticks.zone
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for file, parts in files.items():
            partial = folder / f".{file}.partial"
            with partial.open("w", encoding="utf-8", newline="") as out:
                out.write(",".join(columns_of(parts[0][0].description)) + "\n")
                for published, per in parts:  # measures of one name follow each other
                    for table in published_tables(published, per=per):
                        out.write(csv_text(table_rows(name, table, zone)))
            partial.replace(folder / file)
    except OSError as error:
        raise _failed(error, folder) from error
    return [folder / file for file in files]


def about_stream(description: Description, group: GroupLoss | None = None) -> dict[str, Any]:
    """What a reader of figures must know of their stream: the protected unit, and by which age it
    has lost at most how much, with what causes each step; the same for its group."""
    unit, ticks, loss = description.unit, description.ticks, description.loss
    hidden = description.hidden
    appearing: dict[str, Any] = {}
    if hidden is not None:
        appearing = {"delta": loss.delta, "hidden": hidden.about}
    return {
        "stream": description.name,
        "unit": unit.text,
        "tick_seconds": ticks.tick_seconds,
        "zone": ticks.zone,
        "interval": f"95 %, {description.covers}",
        "ages": f"from the start of the {unit.slot}" if unit.per != "tick" else "from the event",
        "curve": [
            {
                "age_seconds": age * ticks.tick_seconds,
                "loss": loss.at_age(age).epsilon,
                "cause": cause,
            }
            for age, cause in description.loss_steps()
        ],
        **appearing,
        "group": NO_GROUP if group is None else group.about,
        "mechanism": description.mechanism.to_json(),
    }


def published_tables(
    published: Published,
    *,
    per: str | None = None,
    since: int | None = None,
    until: int | None = None,
    as_of: int | None = None,
    news_since: int | None = None,
    whole: bool = False,
) -> Iterator[Table]:
    """What a stream has published, as tables with the columns start, end, key, value, low, high,
    status, partial and published; at least one.

    ``per`` is the length of the slots (``1h``, ``1d``, ``1w``, ``1mo``), or ``total`` for the total
    after each tick as it was published then. By default figures of blocks come per day (or per
    their largest level, if that is shorter), and running totals as they are. The other options
    are those of :meth:`Published.figures`. Keys that appeared by themselves follow the declared
    ones, with the column ``appeared``.
    """
    keys, hidden = published.keys, published.description.hidden
    per = per or published.description.default_per
    query = {"since": since, "until": until, "as_of": as_of, "news_since": news_since}
    if per != TOTAL:
        yield _with_appeared(published.figures(per, whole=whole, **query).table(keys), hidden)
        if hidden is not None and per == hidden.discovery.per:
            yield published.discovered(**query)
        return
    yield _with_appeared(no_figures(len(keys)).table(keys), hidden)
    since = since if news_since is None else news_since
    for piece in published.running(since=since, until=until, as_of=as_of):
        yield _with_appeared(piece.table(keys), hidden)


def published_frame(published: Published, *, per: str | None = None) -> Any:
    """:func:`published_tables` as a data frame of polars, with timestamps in the stream's zone."""
    return _frame(joined_table(published_tables(published, per=per)), published.description)


def _with_appeared(table: Table, hidden: object) -> Table:
    """The table of declared keys with the column of those that appear, where there are such."""
    nothing = np.full(len(table["start"]), NEVER, dtype=np.int64)
    return table if hidden is None else {**table, APPEARED: nothing}


def table_rows(stream: str, table: Table, zone: str) -> Iterator[tuple[object, ...]]:
    """The rows of a table, each after the name of its stream, with times as text in a zone."""
    columns = [
        _shown_times(column, zone) if name in TIMES else column.tolist()
        for name, column in table.items()
    ]
    return ((stream, *row) for row in zip(*columns, strict=True))


def _shown_times(column: NDArray[Any], zone: str) -> list[str | None]:
    """Times as text; None for what did not appear by itself."""
    there = column != NEVER
    shown = iter(iso_times(column[there], zone))
    return [next(shown) if each else None for each in there.tolist()]


def csv_text(rows: Iterable[Sequence[object]]) -> str:
    """Rows as CSV, for files and over HTTP: quoted only where that is needed, true and false as in
    JSON. A spreadsheet must not run a text as a formula: one that begins like one has an
    apostrophe before it."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(map(_cell, row) for row in rows)
    return text.getvalue()


def _cell(value: object) -> object:
    if isinstance(value, bool):
        return str(value).lower()
    return f"'{value}" if isinstance(value, str) and _FORMULA.match(value) else value


def _frame(table: Table, description: Description) -> Any:
    polars = _polars()
    columns = {
        name: column.tolist() if column.dtype == object else column
        for name, column in table.items()
    }
    texts = dict.fromkeys(("key", "status"), polars.String)
    return polars.DataFrame(columns, schema_overrides=texts).with_columns(
        (polars.col(name).replace(NEVER, None) * 1_000_000)
        .cast(polars.Datetime("us", "UTC"))
        .dt.convert_time_zone(description.ticks.zone)
        for name in TIMES
        if name in table
    )


def _failed(error: OSError, path: Path | None) -> FadecountError:
    if path is None:  # the reader of the pipe has closed it: nothing more can be written
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    where = "standard output" if path is None else str(path)
    return FadecountError(
        f"output to {where} failed: {error.strerror}; what was published is in the store, if there"
        " is one"
    )


def _polars() -> Any:
    try:
        import polars
    except ImportError:
        raise missing_extra("a data frame or Parquet file", "polars", "files") from None
    return polars
