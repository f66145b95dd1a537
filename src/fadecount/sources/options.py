"""What a source is: which columns mean what, how time becomes ticks, and which ticks are wanted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NoReturn, Protocol

from fadecount.calendar import Ticks
from fadecount.checks import require_integer
from fadecount.durations import parse_duration
from fadecount.errors import bad_parameter
from fadecount.mechanisms import Unit

Format = Literal["csv", "jsonl", "log", "parquet"]
TimeUnit = Literal["auto", "iso", "s", "ms", "us"]

SUFFIXES: dict[str, Format] = {
    ".csv": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
    ".pq": "parquet",
}
PACKED = (".gz", ".bz2", ".xz", ".zst", ".zip")
LOG_COLUMNS = ("time", "page", "visitor")
LARGEST_TICK = 366 * 86_400
LARGEST_AMOUNT = 1 << 31
LARGEST_KEYS = 1 << 24
"""A tick of a second, times so many keys, plus a key is a number of 63 bits."""


class Layout(Protocol):
    """How rows are written, and which of their columns are read."""

    @property
    def format(self) -> Format | None:
        """That of a pipe; a file's name can say it."""

    @property
    def separator(self) -> str:
        """Between the fields of CSV."""

    @property
    def time_unit(self) -> TimeUnit:
        """How times are written."""

    @property
    def zone(self) -> str:
        """That of times without an offset."""

    @property
    def max_line_bytes(self) -> int:
        """A longer line is left out."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that are read, each once."""


def format_of(layout: Layout, path: Path) -> Format:
    """The given format, or else the one that the file name implies."""
    suffix = path.suffix.lower()
    packed = suffix in PACKED and (layout.format, suffix) != ("log", ".gz")
    kind = None if packed else layout.format or SUFFIXES.get(suffix)
    if kind is None:
        remedy = "unpack the file first" if suffix in PACKED else "or name the format"
        raise bad_parameter("format", suffix, f"one of {', '.join(SUFFIXES)}", remedy)
    return kind


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """How to read events. Every field is public knowledge, so messages may show it; the rows are
    not.

    ``time``, ``key``, ``amount``, ``person`` and ``unique`` name columns. Without ``time`` only a
    live pipe can be read, by the clock; without ``amount`` every row counts 1. ``keys`` is the
    public list of keys; ``other`` names the one of them that takes every undeclared key. With
    ``discover`` undeclared keys are hidden until enough persons bring them
    (:class:`~fadecount.Discovery`). The first ``per_person`` rows of a ``person`` in each tick
    count; the others are dropped. With ``keys_per_person`` above 1, the first ``per_person`` rows
    under each of the person's first so many keys count. An amount above ``max_amount`` counts as
    ``max_amount``. Of the rows with one id in the column ``unique``, the first one in each tick
    counts; a live source refuses this.

    With ``format="log"``, the source is an access log of a web server (common or combined), and
    the columns are ``time``, ``page`` and ``visitor`` (:mod:`fadecount.sources.visits`).

    ``tick`` is a duration such as ``1h``, or a number of seconds. A time without an offset is taken
    in ``zone``. The tick of a time is its Unix seconds divided by the length of a tick, rounded
    down; ticks of whole days use local seconds instead, so that they begin at midnight in ``zone``.
    In a live source, a tick stays open until ``grace_seconds`` past its end by the clock.

    A row whose tick is closed is late. ``late="drop"`` leaves it out (the default of a history),
    ``late="next"`` counts it in the oldest open tick (the default of a live source); of a history,
    if it is of the tick ``late_from`` or later. Then no row may be given in two runs: it would
    count twice.

    A row that cannot be read is left out alone, and so is one before ``first_tick`` or from
    ``end_tick`` on; the report says how many. This changes no other row.
    """

    tick: str | int
    time: str | None = None
    time_unit: TimeUnit = "auto"
    zone: str = "UTC"
    key: str | None = None
    keys: Sequence[str] = ()
    other: str | None = None
    discover: bool = False
    amount: str | None = None
    max_amount: int = 1
    person: str | None = None
    per_person: int = 1
    keys_per_person: int = 1
    person_per: str = "tick"
    unique: str | None = None
    late: Literal["next", "drop"] | None = None
    format: Format | None = None
    separator: str = ","
    grace_seconds: int = 0
    first_tick: int | None = None
    end_tick: int | None = None
    late_from: int | None = None
    max_line_bytes: int = 65_536
    ticks: Ticks = field(init=False, repr=False, compare=False)
    """The calendar of the ticks."""
    unit: Unit = field(init=False, repr=False, compare=False)
    """Who is protected by counts that are read this way."""

    def __post_init__(self) -> None:
        for name, least, most, remedy in (
            ("max_amount", 1, LARGEST_AMOUNT, "noise grows in proportion"),
            ("per_person", 1, 1_000_000, "rows of one person in one tick"),
            ("keys_per_person", 1, 1_000_000, "keys of a person in a tick"),
            ("grace_seconds", 0, LARGEST_TICK, "0 waits for nobody"),
            ("max_line_bytes", 64, 1 << 24, "65536 suits most files"),
        ):
            require_integer(name, getattr(self, name), minimum=least, maximum=most, remedy=remedy)
        for name, choices in (
            ("time_unit", ("auto", "iso", "s", "ms", "us")),
            ("format", ("csv", "jsonl", "log", "parquet", None)),
            ("separator", (",", ";", "\t", "|")),
            ("late", ("next", "drop", None)),
        ):
            if getattr(self, name) not in choices:
                shown = ", ".join(repr(choice) for choice in choices if choice is not None)
                self._refuse(name, f"one of {shown}", f"such as {choices[0]!r}")
        self._check_columns()
        seconds = require_integer(
            "tick",
            parse_duration(self.tick, name="tick") if isinstance(self.tick, str) else self.tick,
            minimum=1,
            maximum=LARGEST_TICK,
            remedy="it is a duration such as 1h, or a number of seconds",
        )
        object.__setattr__(self, "ticks", Ticks(tick_seconds=seconds, zone=self.zone))
        caps = {"events": self.per_person, "keys": self.keys_per_person, "per": self.person_per}
        unit = Unit(amount=self.max_amount)
        if self.person is not None:
            unit = Unit(of="person", amount=self.max_amount, **caps)  # type: ignore[arg-type] # checked there
        object.__setattr__(self, "unit", unit)

    def _check_columns(self) -> None:
        columns, keys, alone = self.columns, self.keys, self.key is None
        if "" in columns or len(set(columns)) != len(columns):
            self._refuse("columns", "non-empty and different", "each column means one thing")
        if self.format == "log" and not set(columns) <= set(LOG_COLUMNS):
            self._refuse("columns", f"{', '.join(LOG_COLUMNS)} for an access log", "name these")
        if isinstance(keys, str):  # each of its letters would be a key
            self._refuse("keys", "a list of names", "such as keys=['home', 'help']")
        if len(keys) > LARGEST_KEYS:
            self._refuse("keys", f"at most {LARGEST_KEYS} keys", "or use other")
        if len(set(keys)) != len(keys):
            self._refuse("keys", "different from one another", "remove the repeated key")
        if alone == (bool(keys) or self.discover):
            self._refuse("keys", "given together with a key column", "such as key='page'")
        if self.other is not None and self.other not in keys:
            self._refuse("other", "one of keys", "add it to keys")
        if alone and self.keys_per_person != 1:
            self._refuse("keys_per_person", "1 without a key column", "name the key column")
        if self.amount is None and self.max_amount != 1:
            self._refuse("max_amount", "1 without an amount column", "name the amount column")

    def _refuse(self, name: str, bound: str, remedy: str) -> NoReturn:
        raise bad_parameter(name, getattr(self, name), bound, remedy)

    @property
    def width(self) -> int:
        """How many places a tick has: one for each declared key, and one for all hidden ones."""
        return max(1, len(self.keys) + self.discover)

    @property
    def columns(self) -> tuple[str, ...]:
        """The named columns, in the order time, key, amount, person, unique."""
        names = (self.time, self.key, self.amount, self.person, self.unique)
        return tuple(name for name in names if name is not None)

    def block_of(self, tick: int) -> int:
        """:meth:`Unit.block_of` for these ticks."""
        return self.ticks.block_of(self.unit.per, tick)
