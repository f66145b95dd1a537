"""Counts per tick and key from whole files and pipes of events.

The reader in this module uses the standard library alone. It is the reference for the faster reader
of ``frames``, which needs polars and reads large CSV files, Parquet and data frames by the same
rules.
"""

from __future__ import annotations

import gzip
import zlib
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, TypeVar, cast

import numpy as np
import numpy.typing as npt

from fadecount.errors import BadRowError, InputError, bad_parameter, missing_extra
from fadecount.noise import unpredictable
from fadecount.sources.options import Format, SourceOptions
from fadecount.sources.rows import (
    OUTSIDE,
    LineParser,
    Reason,
    RowJudge,
    column_places,
    csv_header,
    csv_parser,
    json_parser,
    numbered_lines,
)
from fadecount.sources.visits import log_parser
from fadecount.streams.discovery import Counts
from fadecount.streams.embargo import add_counts
from fadecount.streams.inputs import Key, Noted, person_digest
from fadecount.streams.unit import ONE_EVENT, Unit

if TYPE_CHECKING:
    import pandas
    import polars

Batch = TypeVar("Batch")
ROWS_PER_BATCH = 65_536
SMALL_BYTES = 1 << 18
"""CSV files up to this size are read without polars, whose import alone takes longer."""


@dataclass(frozen=True, slots=True, eq=False)
class TickBatch:
    """Three arrays of one length: row i says that ``counts[i]`` was counted in tick ``ticks[i]``
    under key ``keys[i]``.

    Guarantees: int64 throughout; ticks never decrease within a batch nor from one batch to the
    next; keys are indices into the declared keys (0 where none are declared); counts are >= 0. A
    pair of tick and key may occur more than once: its counts add up. A tick that appears says that
    every earlier tick is complete.
    """

    ticks: npt.NDArray[np.int64]
    keys: npt.NDArray[np.int64]
    counts: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.ticks)

    def __repr__(self) -> str:
        return f"TickBatch({len(self.ticks)} rows)"  # the counts are what is protected: never shown


def batches_of(counts: dict[tuple[int, int], int]) -> Iterator[TickBatch]:
    """The sums per (tick, key) as batches, sorted by tick and then by key."""
    order = sorted(counts)
    for start in range(0, len(order), ROWS_PER_BATCH):
        part = order[start : start + ROWS_PER_BATCH]
        pairs = np.array(part, dtype=np.int64).reshape(-1, 2)
        sums = np.fromiter((counts[pair] for pair in part), dtype=np.int64, count=len(part))
        yield TickBatch(pairs[:, 0].copy(), pairs[:, 1].copy(), sums)


@dataclass(slots=True)
class SourceReport:
    """Tallies of one input, for its owner. They are exact and therefore not for publication.

    ``rows_read`` counts every row, bad ones included; ``rows_dropped`` the good rows beyond
    ``per_person``; ``rows_cut`` those whose amount was cut to ``max_amount``; ``skipped`` says why
    rows were left out.
    """

    rows_read: int = 0
    rows_dropped: int = 0
    rows_cut: int = 0
    skipped: Counter[Reason] = field(default_factory=Counter)

    @property
    def rows_skipped(self) -> int:
        """How many rows were left out, for all reasons together."""
        return self.skipped.total()

    def lines(self) -> list[str]:
        """One line per reason, the most frequent first: ``3 rows left out: the key is not
        declared``."""
        order = sorted(self.skipped.items(), key=lambda each: (-each[1], each[0]))
        return [f"{_rows(count)} left out: {reason.text}" for reason, count in order]

    def consequences(self, unit: Unit = ONE_EVENT) -> list[str]:
        """What else does not count in full, and by how much the figures are too low for all that:
        intervals cover the noise only. Distinct persons lose less: a person may have other rows,
        and those beyond the cap are of persons who count already."""
        lines, persons = [], unit.distinct_per is not None
        if self.rows_dropped and persons:
            where = "" if unit.keys == 1 else f", or under {unit.keys} other keys"
            lines.append(f"{_rows(self.rows_dropped)} of persons who count already{where}")
        elif self.rows_dropped:
            lines.append(f"{_rows(self.rows_dropped)} left out: beyond the cap of their person")
        if self.rows_cut:
            lines.append(f"{_rows(self.rows_cut)} counted with the largest amount: sums are lower")
        elsewhere = sum(self.skipped[reason] for reason in OUTSIDE if reason != Reason.LATE)
        missing = self.rows_skipped - elsewhere + (0 if persons else self.rows_dropped)
        if missing:
            low = (
                "at most that many persons are missing"
                if persons
                else "figures are that much too low"
            )
            share = 100.0 * missing / (self.rows_read - elsewhere)
            lines.append(
                f"all in all {_rows(missing)} ({share:.3g} % of those in the range) do not count:"
                f" {low}, and intervals cover the noise only"
            )
        return lines


def _rows(count: int) -> str:
    return f"{count:,} row{'s' * (count != 1)}"


class Reading(Iterator[Batch]):
    """Batches to iterate over, and the report, which is complete once the batches are."""

    def __init__(
        self, batches: Iterator[Batch], report: SourceReport, people: People | None = None
    ) -> None:
        self._batches = batches
        self.report, self.people = report, people

    def __next__(self) -> Batch:
        return next(self._batches)


Counted = Callable[[Sequence[bytes], Sequence[Key] | None], "npt.NDArray[np.int64]"]
"""What of each person (by digest) already counts in the first wanted tick; see
:meth:`Stream.persons_counted`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Earlier:
    """What of persons earlier runs counted in the first wanted tick, which is still open (``any``:
    whether there is something). Digests use this key."""

    key: bytes
    counted: Counted
    any: bool = True


class People:
    """What of each person was counted in each tick or day, which hidden keys persons brought, and
    which ids of rows there were: in memory only. Files that are read together share it
    (``shared``)."""

    def __init__(
        self, options: SourceOptions, earlier: Earlier | None = None, *, shared: bool = False
    ) -> None:
        self._unit = options.unit
        self._hidden: dict[int, dict[str, int]] = {}
        self.hidden_ticks: tuple[int, ...] = ()
        """The first and the last tick with a hidden key."""
        self.counted_in_bulk: Callable[[int], dict[Noted, int]] | None = None
        first = options.first_tick
        self._first = None if first is None else options.block_of(first)
        self._earlier = earlier
        self.counted_before = earlier is not None and earlier.any
        """Whether earlier runs may have counted persons in the first block."""
        alone = not shared and options.unique is None
        self.in_bulk = alone and (options.unit.keys == 1 or not self.counted_before)
        """Whether all rows come from one file, and may be capped at once."""
        self.block_of = lru_cache(maxsize=1 << 16)(options.block_of)
        self._counted: dict[int, dict[Hashable, int]] = {}
        self._before: dict[Hashable, int] = {}
        self._ids: set[tuple[int, Key, bytes, bytes]] = set()

    @cached_property
    def key(self) -> bytes:
        """The key of the digests."""
        return unpredictable(32) if self._earlier is None else self._earlier.key

    def repeats(self, tick: int, key: Key, person: bytes, row_id: str) -> bool:
        """Whether an earlier row of this tick, key and person has this id. Rows of other keys and
        persons must not decide: one of them could push out what somebody else did."""
        before = len(self._ids)
        self._ids.add((tick, key, person, person_digest(row_id, self.key)))
        return len(self._ids) == before

    def accepts(self, tick: int, person: bytes, key: Key) -> bool:
        """Whether one more row of this person counts in this tick under this key; if so, the row is
        counted."""
        if self._unit.of == "event":
            return True
        block = self.block_of(tick)
        counted = self._counted.setdefault(block, {})
        if self._earlier is not None and self.counted_before and block == self._first:
            if person not in counted:
                counted[person] = int(self._earlier.counted([person], None)[0])
                self._before[person] = counted[person]
            if self._unit.keys > 1 and (person, key) not in counted:
                counted[person, key] = int(self._earlier.counted([person], [key])[0])
                self._before[person, key] = counted[person, key]
        return self._unit.takes(counted, person, key) > 0

    def hide(
        self, first_tick: int, last_tick: int, keys: Sequence[str], persons: Sequence[int]
    ) -> None:
        """Note how many more persons brought hidden keys, in ticks of one day."""
        counts = self._hidden.setdefault(self.block_of(first_tick), {})
        add_counts(counts, zip(keys, persons, strict=True))
        ticks = [*self.hidden_ticks, first_tick, last_tick]
        self.hidden_ticks = min(ticks), max(ticks)

    def hidden_in(self, tick: int) -> Counts:
        """The hidden keys that were counted here in the day of a tick."""
        return self._hidden.get(self.block_of(tick), {})

    def before(self, persons: Sequence[bytes]) -> list[int]:
        """How many events of each of these persons earlier runs counted in the first block."""
        assert self._earlier is not None
        return [int(each) for each in self._earlier.counted(persons, None)]

    def in_day(self, tick: int) -> dict[Noted, int]:
        """What of each person was counted here in the day of a tick, as :meth:`Unit.takes` notes
        it."""
        block = self.block_of(tick)
        if self.counted_in_bulk is not None:
            return self.counted_in_bulk(block)
        before = self._before if block == self._first else {}
        counted = {
            person: count - before.get(person, 0)
            for person, count in self._counted.get(block, {}).items()
            if count > before.get(person, 0)
        }
        return cast("dict[Noted, int]", counted)


def read_plain(
    path: Path, kind: Format, options: SourceOptions, report: SourceReport, people: People
) -> Iterator[TickBatch]:
    """The counts of a CSV or JSON lines file. The whole file is judged before the first batch is
    yielded.

    Memory grows with the number of distinct pairs of tick and key (and of tick and person or id),
    not with the number of rows.
    """
    with _opened(path) as stream:
        counts = count_stream(stream, path.name, kind, options, report, people)
    yield from batches_of(counts)


@contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    """The bytes of a file; those of an access log may be packed."""
    try:
        with gzip.open(path) if path.suffix.lower() == ".gz" else path.open("rb") as stream:
            yield cast("BinaryIO", stream)
    except (EOFError, gzip.BadGzipFile, zlib.error):
        raise InputError(
            f"{path.name} is damaged: it cannot be unpacked; take a whole copy"
        ) from None


def count_stream(
    stream: BinaryIO,
    source: str,
    kind: Format,
    options: SourceOptions,
    report: SourceReport,
    people: People,
    *,
    stop: bool = False,
) -> dict[tuple[int, int], int]:
    """The sums per (tick, key) of everything that a stream of bytes holds; ``source`` is its name
    in messages.

    With ``stop``, the first bad row is raised as an error.
    """
    lines = numbered_lines(stream, options.max_line_bytes)
    parse = parser_for(kind, lines, options, source)
    judge = RowJudge(options, None if options.person is None else people.key)
    tick_of = options.ticks.at
    counts: dict[tuple[int, int], int] = {}
    for number, line in lines:
        report.rows_read += 1
        texts = line if isinstance(line, Reason) else parse(line)
        event = texts if isinstance(texts, Reason) else judge(texts)
        tick = event if isinstance(event, Reason) else placed(tick_of(event.seconds), options)
        if not isinstance(tick, Reason) and not isinstance(event, Reason):
            count_row(
                counts,
                tick,
                event.key,
                event.amount,
                (event.person, event.id),
                people,
                report,
                options,
            )
            continue
        assert isinstance(tick, Reason)
        if stop and tick not in OUTSIDE:
            raise BadRowError(
                f"{source}, line {number}: {tick.text}; a run leaves this row out", number=number
            )
        report.skipped[tick] += 1
    return counts


def count_row(
    counts: dict[tuple[int, int], int],
    tick: int,
    key: Key,
    amount: int,
    whose: tuple[bytes, str],
    people: People,
    report: SourceReport,
    options: SourceOptions,
) -> None:
    """Count a good row of a tick and key, unless its id is repeated or its person has reached the
    cap."""
    person, row_id = whose
    if options.unique is not None and people.repeats(tick, key, person, row_id):
        report.skipped[Reason.REPEATED] += 1
        return
    if not people.accepts(tick, person, key):
        report.rows_dropped += 1
        return
    if isinstance(key, str):
        people.hide(tick, tick, (key,), (1,))
        if options.other is None:
            return
        key = options.keys.index(options.other)
    counts[tick, key] = counts.get((tick, key), 0) + min(amount, options.max_amount)
    report.rows_cut += amount > options.max_amount


def placed(tick: int, options: SourceOptions) -> int | Reason:
    """The tick in which an event of this tick counts, or why it does not."""
    first, since = options.first_tick, options.late_from
    if first is not None and tick < first:
        if options.late != "next" or since is None or tick < since:
            return Reason.BEFORE
        tick = first
    after = options.end_tick is not None and tick >= options.end_tick
    return Reason.AFTER if after else tick


def parser_for(
    kind: Format, lines: Iterator[tuple[int, bytes | Reason]], options: SourceOptions, source: str
) -> LineParser:
    """The parser of the lines that follow; for CSV this takes the header from ``lines``."""
    if kind == "csv":
        _, header = next(lines, (0, None))
        if header is None:
            return json_parser(())  # there are no lines to parse
        return csv_parser(*csv_header(header, options, source), options.separator)
    return log_parser(options.columns) if kind == "log" else json_parser(options.columns)


def require_file(path: Path) -> None:
    """Refuse a path that is not a readable file. A pipe is not opened: a byte read from it would be
    lost."""
    if path.exists() and not path.is_file():
        raise InputError(f"{path} is not a file; a pipe is read as standard input")
    try:
        path.open("rb").close()
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from None


def read_file(
    path: str | Path | Sequence[str | Path],
    options: SourceOptions,
    *,
    earlier: Earlier | None = None,
) -> Reading[TickBatch]:
    """The counts of the events in a file, as batches in the order of time; rows may stand in the
    file in any order. With several files, as if they were one.

    Guarantees: a row that cannot be read is left out and changes nothing else; an empty file has no
    events; no message holds a value of a row. Memory grows with the number of distinct pairs of
    tick and key (and of tick and person, where persons are bounded), not with the number of rows.
    With and without polars, the batches and the report are the same.
    """
    paths = [path] if isinstance(path, str | Path) else path
    files = [_checked(each, options) for each in paths]
    report, people = SourceReport(), People(options, earlier, shared=len(files) > 1)

    def batches() -> Iterator[TickBatch]:
        read = [
            batch for file, kind in files for batch in _batches(file, kind, options, report, people)
        ]
        if len(files) > 1 and read:
            order = np.argsort(np.concatenate([batch.ticks for batch in read]), kind="stable")
            yield TickBatch(
                *(
                    np.concatenate([getattr(batch, name) for batch in read])[order]
                    for name in ("ticks", "keys", "counts")
                )
            )
        else:
            yield from read

    return Reading(batches(), report, people)


def check_file(path: str | Path, options: SourceOptions) -> SourceReport:
    """Check a file for its owner only: raises :class:`~fadecount.errors.BadRowError` at the first
    bad row, or an ``InputError`` that counts them for Parquet, which has no lines.

    The result depends on single rows, so it must not affect what is released, and only the owner
    may see it.
    """
    path, kind = _checked(path, options)
    report = SourceReport()
    if kind == "parquet":
        for _ in _batches(path, kind, options, report, People(options)):
            pass
        if any(reason not in OUTSIDE for reason in report.skipped):
            raise InputError(f"{path.name}: {'; '.join(report.lines())}")
        return report
    with _opened(path) as stream:
        count_stream(stream, path.name, kind, options, report, People(options), stop=True)
    return report


def _require_time(options: SourceOptions) -> None:
    if options.time is None:
        raise bad_parameter(
            "time", None, "the name of a column", "the rows of a history are placed by their time"
        )


def _checked(path: str | Path, options: SourceOptions) -> tuple[Path, Format]:
    path = Path(path)
    _require_time(options)
    kind = options.format_of(path)
    require_file(path)
    if kind == "parquet" and not has_polars():
        raise missing_extra(f"{path.name}: reading Parquet", "polars", "files")
    if kind == "csv":
        with path.open("rb") as stream:
            parser_for(kind, numbered_lines(stream, options.max_line_bytes), options, path.name)
    return path, kind


def read_history(
    stream: BinaryIO,
    options: SourceOptions,
    *,
    earlier: Earlier | None = None,
    source: str = "standard input",
) -> Reading[TickBatch]:
    """The counts of a pipe that is read to its end, as :func:`read_file` does with a file.
    ``options.format`` must be given."""
    _require_time(options)
    kind = line_format(options)
    report, people = SourceReport(), People(options, earlier)

    def batches() -> Iterator[TickBatch]:
        try:
            counts = count_stream(stream, source, kind, options, report, people)
        except OSError as error:
            raise InputError(f"{source} cannot be read: {error.strerror}") from None
        yield from batches_of(counts)

    return Reading(batches(), report, people)


def read_frame(
    frame: polars.DataFrame | pandas.DataFrame,
    options: SourceOptions,
    *,
    earlier: Earlier | None = None,
) -> Reading[TickBatch]:
    """The counts of the events in a data frame, as :func:`read_file` does with a Parquet file:
    columns keep their types."""
    _require_time(options)
    if not has_polars():
        raise missing_extra("counting a data frame", "polars", "files")
    column_places(list(frame.columns), options, "the data frame")
    report, people = SourceReport(), People(options, earlier)

    def batches() -> Iterator[TickBatch]:
        from fadecount.sources import frames

        yield from frames.read_frame(frame, options, report, people)

    return Reading(batches(), report, people)


def line_format(options: SourceOptions) -> Format:
    """The format of a pipe. It is never guessed from the first row: one bad row would affect all
    others."""
    if options.format not in ("csv", "jsonl", "log"):
        raise bad_parameter(
            "format",
            options.format,
            "csv, jsonl or log for a pipe",
            "name it; Parquet is read by path",
        )
    return options.format


def has_polars() -> bool:
    """Whether the extra ``files`` is installed."""
    return find_spec("polars") is not None


def _batches(
    path: Path, kind: Format, options: SourceOptions, report: SourceReport, people: People
) -> Iterator[TickBatch]:
    """The batches of a file. Both readers of CSV give the same; the choice is about time alone."""
    try:
        small = kind == "csv" and path.stat().st_size <= SMALL_BYTES
        if kind in ("jsonl", "log") or small or not has_polars():
            yield from read_plain(path, kind, options, report, people)
            return
        from fadecount.sources import frames

        read = frames.read_parquet if kind == "parquet" else frames.read_csv
        yield from read(path, options, report, people)
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from None
