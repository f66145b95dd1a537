"""What an organisation publishes about one crowd of people: several things to count (measures), one
protected unit, and one promise for all of them together. Public, and fixed from its start.

>>> rides = Publication(
...     name="rides",
...     zone="Europe/Vienna",
...     start="2026-03-01",
...     unit=Unit(of="person", events=2, per="1d"),
...     promise={"7d": 2, "ever": 4},
...     measures=(
...         Measure(name="rides", key=("station",), keys=("north", "south"), overall=True),
...         Measure(name="riders", count="persons"),
...     ),
... )
>>> rides.limits
((604800, Fraction(2, 1)), (None, Fraction(4, 1)))
>>> [(each.measure.name, each.part, each.weight) for each in rides.parts]
[('rides', 'keys', 2), ('rides', 'overall', 2), ('riders', 'keys', 1)]
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray

from fadecount.calendar import Length, Midnights, first_days, zone_of
from fadecount.checks import LONGEST, require_delta, require_integer, require_real, set_fields
from fadecount.durations import UNITS, format_duration, parse_duration
from fadecount.errors import ParameterError, bad_parameter
from fadecount.mechanisms import Blocks, Discovery, Mechanism, Unit
from fadecount.mechanisms.levels import MILLION

if TYPE_CHECKING:
    from fadecount.planning.publication_plan import PublicationPlan

EVER = "ever"
"""The age of the limit that holds for ever."""
ONLY_KEY = "all"
"""The key of a measure without a key column."""
LONGEST_KEY = 200
BETWEEN = "\t"
"""Between the values of a key that is made of several columns."""
LARGEST_MAX = 1 << 31
LARGEST_LOSS = 1e6
_NAME = re.compile(r"[a-z][a-z0-9_-]{0,63}")
_FORMATS = ("csv", "jsonl", "log", "parquet")
YEARS = 30
"""So many years of a calendar are looked at."""
_LAST_YEAR, _MOST_MONTHS = 9900, 120

Numbers = NDArray[np.int64]

Part = Literal["keys", "overall"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """One thing that is counted: events, distinct persons (``count``), or the ``sum`` of a column.

    ``max`` is what one *unit* adds to a sum at most, in all its rows. ``key`` names the columns
    whose values together are a row's key, ``keys`` the public list of keys; ``other`` is the one
    that takes keys of no list, and with ``discover`` keys appear by themselves. A person counts
    under at most ``max_keys`` keys of distinct persons. ``per`` are the lengths of its figures.
    ``share`` is its part of the promise beside those of the other measures. ``overall`` gives all
    keys together figures of their own, with that part of the measure's budget (True: one half).
    ``start`` and ``until`` are boundaries of the unit's slot.

    >>> Measure(name="visits", key="page", keys=["home", "news"], per=["1h", "1d"]).declared
    ('home', 'news')
    """

    name: str
    count: Literal["events", "persons"] = "events"
    sum: str | None = None
    max: int | None = None
    key: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    other: str | None = None
    discover: bool = False
    max_keys: int = 1
    per: tuple[str, ...] = ("1d",)
    share: float = 1
    overall: bool | float = False
    mechanism: Literal["blocks", "gradual"] = "blocks"
    start: str | None = None
    until: str | None = None

    def __post_init__(self) -> None:
        place = f"measures.{self.name}"
        require_name("name of a measure", self.name)
        set_fields(
            self,
            key=_texts(f"{place}.key", self.key),
            per=_texts(f"{place}.per", self.per),
            keys=tuple(self.keys) if isinstance(self.keys, list) else self.keys,
        )
        for name in ("start", "until"):
            if (text := getattr(self, name)) is not None:
                set_fields(self, **{name: _written(f"{place}.{name}", text)})
        _one_of(f"{place}.count", self.count, ("events", "persons"))
        _one_of(f"{place}.mechanism", self.mechanism, ("blocks", "gradual"))
        self._check_sum(place)
        self._check_keys(place)
        share = f"{place}.share"
        remedy = "a measure without a share publishes nothing; leave the measure out"
        most = require_real(share, self.share, low=0, high=1e6, open_ends=True, remedy=remedy)
        set_fields(self, share=most)
        if self.overall is not False:
            remedy = "it is the part of the measure's budget for all keys together"
            part = 0.5 if self.overall is True else self.overall
            part = require_real(
                f"{place}.overall", part, low=0, high=1, open_ends=True, remedy=remedy
            )
            set_fields(self, overall=part)
            if not self.key:
                bound = "left out where there is no key"
                raise bad_parameter(f"{place}.overall", part, bound, "its figures are overall")
        if not self.per:
            raise bad_parameter(f"{place}.per", [], "a list of lengths", "such as ['1h', '1d']")
        for name in ("key", "per"):
            given = getattr(self, name)
            if len({*given}) < len(given):
                raise bad_parameter(f"{place}.{name}", [*given], "different ones", "say each once")

    def _check_sum(self, place: str) -> None:
        if (self.sum is None) != (self.max is None):
            name, other = ("max", "sum") if self.max is None else ("sum", "max")
            raise ParameterError(
                f"{place}.{name} must be given with {other}; a sum needs a column, and what one"
                " unit adds at most"
            )
        if self.sum is not None:
            if not isinstance(self.sum, str) or not self.sum:
                raise bad_parameter(f"{place}.sum", self.sum, "a column", "write it in quotes")
            if self.count != "events":
                bound = "left out where a sum is counted"
                raise bad_parameter(f"{place}.count", self.count, bound, "make two measures")
            remedy = "it is what one unit adds at most; noise grows with it"
            require_integer(f"{place}.max", self.max, minimum=1, maximum=LARGEST_MAX, remedy=remedy)

    def _check_keys(self, place: str) -> None:
        if not isinstance(self.keys, tuple):
            bound = "a list of texts, or the path of a file"
            raise bad_parameter(f"{place}.keys", self.keys, bound, "such as ['north', 'south']")
        _one_of(f"{place}.discover", self.discover, (True, False))
        if not isinstance(self.labels, Mapping) or not all(
            isinstance(each, str) for each in self.labels.values()
        ):
            bound, remedy = "a table of texts by key", "such as { north = 'North gate' }"
            raise bad_parameter(f"{place}.labels", self.labels, bound, remedy)
        seen = set[str]()
        for key in self.keys:
            if not can_be_key(key, max(1, len(self.key))):
                bound = f"1 to {LONGEST_KEY} printable characters in each of its columns"
                raise bad_parameter(f"{place}.keys", key, bound, "correct the list")
            if key in seen:
                raise bad_parameter(f"{place}.keys", key, "there once", "remove the second one")
            seen.add(key)
        if not self.key:
            for name in ("keys", "labels", "other", "discover"):
                if getattr(self, name):
                    raise ParameterError(
                        f"{place}.{name} must be given with key; it names the column of the keys"
                    )
        elif not self.keys and not self.discover:
            raise ParameterError(
                f"{place}.keys must be given with key: a public list of keys, a file with one key a"
                " line, or discover = true"
            )
        if self.other is not None and self.other not in self.keys:
            raise bad_parameter(f"{place}.other", self.other, "one of keys", "add it to the list")
        if unknown := sorted({*self.labels} - seen):
            raise bad_parameter(f"{place}.labels", unknown[0], "one of keys", "correct the key")
        remedy = "a person counts under so many keys; noise grows with it"
        require_integer(f"{place}.max_keys", self.max_keys, minimum=1, maximum=1000, remedy=remedy)
        distinct = self.count == "persons"
        if self.max_keys > 1 and not (distinct and self.key):
            bound = "left out where distinct persons are not counted by key"
            remedy = "unit.max_events and max limit the others"
            raise bad_parameter(f"{place}.max_keys", self.max_keys, bound, remedy)
        if self.discover and not distinct:
            bound = "left out unless count = 'persons'"
            remedy = "one person who repeats a private key would publish it"
            raise bad_parameter(f"{place}.discover", True, bound, remedy)

    @property
    def distinct(self) -> bool:
        """Whether distinct persons are counted: each counts once per slot of the unit, and key."""
        return self.count == "persons"

    @property
    def declared(self) -> tuple[str, ...]:
        """The keys of its figures, in order."""
        return self.keys if self.key else (ONLY_KEY,)

    def weight(self, unit: Unit, part: Part = "keys") -> int:
        """By how much one unit changes the counts of a part at most, all its keys together."""
        if self.max is not None:
            return self.max
        if self.distinct:
            return self.max_keys if part == "keys" else 1
        return unit.events


class MeasurePart(NamedTuple):
    """What has figures of its own: the ``keys`` of a measure, or all keys together (``overall``).
    One unit changes its counts by at most ``weight``."""

    measure: Measure
    part: Part
    weight: int

    @property
    def keys(self) -> tuple[str, ...]:
        """Its columns, as they are declared."""
        return self.measure.declared if self.part == "keys" else (ONLY_KEY,)


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """A part of a measure with the mechanism that publishes it. One unit changes its counts by at
    most ``weight``, all its keys together.

    ``shifts`` say of each level of blocks how many ticks after the start of the unit's slot a block
    can end at the earliest. They are fixed: what ends earlier waits
    (:meth:`fadecount.calendar.Calendar.due`). ``selection`` says how hidden keys
    appear, if they do: ``open_ticks`` ticks after the start of the unit's slot at the earliest.
    With ``other``, a hidden key counts in that declared one too.
    """

    measure: str
    part: Part
    mechanism: Mechanism
    weight: int
    shifts: tuple[int, ...] = ()
    selection: Discovery | None = None
    open_ticks: int = 0
    other: str | None = None

    def millionths(self, age: int, *, shifted: bool = True) -> int:
        """What a unit loses through it until it is ``age`` ticks old. Each of its keys is declared
        or hidden, so that it loses the larger of both under it; with ``other`` their sum. If it is
        not ``shifted``, blocks may end at once: then it is what somebody loses of whom everything
        happened in one tick, by the age of that tick.

        Exact for blocks. For running totals it is rounded up, as if all of the unit were so old.
        """
        if not isinstance(self.mechanism, Blocks):
            loss = self.mechanism.composed_loss(min(max(age, 0), LONGEST), times=self.weight)
            return math.ceil(Fraction(loss.epsilon) * MILLION) if age >= 0 else 0
        shifts = self.shifts if shifted else (0,) * len(self.shifts)
        declared, hidden = spent(self.mechanism, shifts, age), 0
        if self.selection is not None:
            hidden = self.selection.spent(age - self.open_ticks * shifted)
        together = declared + hidden if self.other is not None else max(declared, hidden)
        return self.weight * together

    @property
    def ages(self) -> list[int]:
        """The ages of a unit, in ticks, at which it may lose more."""
        if not isinstance(self.mechanism, Blocks):
            delay = self.mechanism.delay
            return [delay + (1 << power) - 1 for power in range(60)]
        pairs = zip(self.mechanism.levels, self.shifts, strict=True)
        ages = {shift + stage.lag for level, shift in pairs for stage in level.stages}
        stages = () if self.selection is None else self.selection.stages
        return sorted(ages | {self.open_ticks + lag for lag, _ in stages})

    def to_json(self) -> dict[str, Any]:
        """The fields, for JSON."""
        return {
            "measure": self.measure,
            "part": self.part,
            "mechanism": self.mechanism.to_json(),
            "weight": self.weight,
            "shifts": self.shifts,
            "selection": None if self.selection is None else self.selection.to_json(),
            "open_ticks": self.open_ticks,
            "other": self.other,
        }

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> Series:
        """The series with these fields."""
        selection = fields["selection"]
        return cls(
            **{
                **fields,
                "mechanism": Mechanism.from_json(fields["mechanism"]),
                "shifts": tuple(fields["shifts"]),
                "selection": None if selection is None else Discovery.from_json(selection),
            }
        )


def spent(blocks: Blocks, shifts: Sequence[int], age: int) -> int:
    """The loss in millionths for a change of one count by 1, of a unit that is ``age`` ticks
    old."""
    pairs = zip(blocks.levels, shifts, strict=True)
    return sum(level.spent(age - shift) for level, shift in pairs)


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """Which column of a row means what. ``count`` says how many events a row stands for."""

    time: str = "time"
    person: str = "person"
    id: str | None = None
    count: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Input:
    """How rows are written. Free to change: figures do not depend on it."""

    format: str | None = None
    separator: str = ","
    time_unit: str = "auto"

    def __post_init__(self) -> None:
        _one_of("input.format", self.format, (None, *_FORMATS))
        _one_of("input.separator", self.separator, (",", ";", "\t", "|"))
        _one_of("input.time_unit", self.time_unit, ("auto", "iso", "s", "ms", "us"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Publication:
    """Measures of one crowd of people, the protected ``unit``, and one ``promise``: it maps ages to
    what everything below may reveal about one unit before it is so old (``ever``: at any age). In a
    file it is the table ``[loss]``.

    ``reserve`` keeps shares of the promise back for measures that begin later. ``delta`` is the
    chance that a key appears that one person alone brought; it is needed where keys appear by
    themselves. ``feed`` says who closes ticks: ``run`` (``files``) or the clock (``live``).
    """

    name: str
    zone: str
    start: str
    unit: Unit
    promise: Mapping[str, float]
    measures: tuple[Measure, ...]
    tick: str = "1h"
    title: str = ""
    description: str = ""
    licence: str = ""
    contact: str = ""
    reserve: float = 0
    delta: float | None = None
    columns: Columns = field(default_factory=Columns)
    input: Input = field(default_factory=Input)
    feed: Literal["files", "live"] = "files"

    def __post_init__(self) -> None:
        require_name("name", self.name)
        for name in ("title", "description", "licence", "contact", "tick", "zone"):
            if not isinstance(getattr(self, name), str):
                raise bad_parameter(name, getattr(self, name), "a text", "write it in quotes")
        set_fields(self, start=_written("start", self.start))
        if self.delta is not None:
            set_fields(self, delta=require_delta(self.delta))
        _one_of("feed", self.feed, ("files", "live"))
        zone_of(self.zone)
        self._check_tick()
        self._check_unit()
        self._check_loss()
        remedy = "it is kept back for later measures, beside the shares of those that there are"
        set_fields(
            self, reserve=require_real("reserve", self.reserve, low=0, high=1e6, remedy=remedy)
        )
        self._check_measures()
        self._check_moments()

    # Checks
    # --------------------------------------------------------------------------------------------
    def _check_tick(self) -> None:
        seconds = self.tick_seconds
        if UNITS["d"] % seconds:
            remedy = "such as 5m, 1h or 1d"
            raise bad_parameter("tick", self.tick, "a part of a day, or a day", remedy)
        if np.any(np.diff(self.midnights) < UNITS["d"] // 2):
            raise bad_parameter("zone", self.zone, "one that leaves out no day", "choose UTC")
        if seconds < UNITS["d"] and np.any(self.midnights % seconds):
            bound = f"one whose days begin with a tick of {self.tick}"
            raise bad_parameter("zone", self.zone, bound, "choose a shorter tick, such as 15m")

    def _check_unit(self) -> None:
        if not isinstance(self.unit, Unit):
            raise bad_parameter("unit", self.unit, "a fadecount.Unit", "such as Unit(of='event')")
        for name in ("amount", "keys"):
            if getattr(self.unit, name) != 1:
                remedy = "a measure says it: max, or max_keys"
                raise bad_parameter(f"{name} of the unit", getattr(self.unit, name), "1", remedy)
        if self.unit.of == "event":
            return
        length = self.unit.length
        if length is None:
            bound = "a length such as 1d where the unit is a person"
            raise bad_parameter("unit.each", self.unit.per, bound, "a person's day, hour or month")
        if length.seconds % self.tick_seconds or length.months > _MOST_MONTHS:
            bound = f"ticks of {self.tick}, a day or months, up to 10y"
            remedy = "choose another slot, or a shorter tick"
            raise bad_parameter("unit.each", self.unit.per, bound, remedy)

    def _check_loss(self) -> None:
        if not isinstance(self.promise, Mapping) or not self.promise:
            remedy = "such as {'7d': 2, 'ever': 4}"
            raise bad_parameter("loss", self.promise, "a mapping from ages to losses", remedy)
        promise = {}
        for written, most in self.promise.items():
            if written != EVER:
                parse_duration(written, name="age in loss")
            remedy = "it is what may be revealed about one unit before that age"
            promise[written] = require_real(
                f"loss.{written}", most, low=0, high=LARGEST_LOSS, remedy=remedy
            )
        set_fields(self, promise=promise)
        limits = self.limits
        ages = [age for age, _ in limits]
        if len({*ages}) < len(ages):
            raise ParameterError("loss must name each age once; remove the second one")
        for (_, limit), (age, later) in pairwise(limits):
            if later < limit:
                shown = EVER if age is None else format_duration(age)
                bound = f"at least {float(limit):g}, as before"
                remedy = "what is lost stays lost"
                raise bad_parameter(f"loss at {shown}", float(later), bound, remedy)
        if not limits[-1][1]:
            raise bad_parameter("loss", promise, "above 0 at last", "allow some loss")

    def _check_measures(self) -> None:
        if not self.measures or not all(isinstance(each, Measure) for each in self.measures):
            raise ParameterError("measures must hold at least one; such as [measures.visits]")
        names = [each.name for each in self.measures]
        for name in names:
            if names.count(name) > 1 and not self._follow(name):
                remedy = "choose another name, or end the first before the second begins"
                raise bad_parameter("measures", name, "named once at a time", remedy)
        lists: dict[tuple[str, ...], Measure] = {}
        for measure in self.measures:
            place = f"measures.{measure.name}"
            if measure.mechanism == "gradual" and len(self.measures) > 1:
                remedy = "running totals keep no promise together with others"
                raise bad_parameter(f"{place}.mechanism", "gradual", "alone", remedy)
            self._check_measure(measure, place)
            if measure.key and lists.setdefault(measure.key, measure).keys != measure.keys:
                other = lists[measure.key].name
                raise ParameterError(
                    f"{place}.keys must be those of measures.{other}: one list for the column"
                    f" {', '.join(measure.key)}"
                )

    def _follow(self, name: str) -> bool:
        """Whether the measures of a name follow each other in time."""
        spans = [self.span(each) for each in self.measures if each.name == name]
        return all(end <= begin for (_, end), (begin, _) in pairwise(spans))

    def span(self, measure: Measure) -> tuple[float, float]:
        """When a measure begins and ends, in Unix seconds."""
        zone, place = zone_of(self.zone), f"measures.{measure.name}"
        begin = local_time(f"{place}.start", measure.start or self.start, zone).timestamp()
        if measure.until is None:
            return begin, math.inf
        return begin, local_time(f"{place}.until", measure.until, zone).timestamp()

    @property
    def together(self) -> tuple[tuple[int, ...], ...]:
        """The numbers of the parts that are open at the same time, for each time at which one
        begins."""
        spans = [self.span(each.measure) for each in self.parts]
        moments = sorted({begin for begin, _ in spans})
        return tuple(
            tuple(at for at, (begin, end) in enumerate(spans) if begin <= moment < end)
            for moment in moments
        )

    def _check_measure(self, measure: Measure, place: str) -> None:
        unit, columns = self.unit, self.columns
        if unit.of == "event":
            if measure.distinct:
                remedy = "say unit = { of = 'person', each = '1d', max_events = 1 }"
                bound = "events where the unit is one event"
                raise bad_parameter(f"{place}.count", "persons", bound, remedy)
            if columns.count is not None and measure.sum is not None:
                bound = "left out where measures sum a column"
                raise bad_parameter("columns.count", columns.count, bound, "count single events")
        elif columns.count is not None:
            bound = "left out where the unit is a person"
            raise bad_parameter("columns.count", columns.count, bound, "a row is one event")
        if measure.discover and self.delta is None:
            raise ParameterError(
                f"delta must be given where keys appear by themselves ({place}.discover); such as"
                " 1e-9"
            )
        if measure.discover and unit.per not in ("1d", "1mo"):
            remedy = "keys appear by the day or by the month"
            raise bad_parameter("unit.each", unit.per, "1d or 1mo", remedy)
        lengths = [(self._length(per, f"{place}.per"), per) for per in measure.per]
        for shorter, longer in pairwise(sorted(lengths)):
            if longer[0] % shorter[0]:
                bound = f"a multiple of {shorter[1]}"
                remedy = "each length must be made of whole shorter ones"
                raise bad_parameter(f"{place}.per", longer[1], bound, remedy)
        if measure.distinct and unit.length is not None:
            most = unit.length.nominal_seconds
            for length, per in lengths:
                if length * self.tick_seconds > most:
                    remedy = "distinct persons of longer times need a publication with that unit"
                    raise bad_parameter(f"{place}.per", per, f"at most {unit.per}", remedy)
                if length * self.tick_seconds < most and unit.per != "1d":
                    remedy = f"they would be first visits of the {unit.slot}"
                    raise bad_parameter(f"{place}.per", per, unit.per, remedy)

    def _length(self, per: str, place: str) -> int:
        """The ticks of a length, with months of 30 days."""
        length, tick = Length.named(per), self.tick_seconds
        seconds = 0 if length is None else length.nominal_seconds
        if not 0 < seconds <= _MOST_MONTHS * UNITS["mo"] or seconds % tick:
            bound = f"ticks of {self.tick}, parts of a day, days or months, up to 10y"
            raise bad_parameter(place, per, bound, "such as 1h, 1d or 1mo")
        return seconds // tick

    def _check_moments(self) -> None:
        tick = self.tick_seconds
        begin = datetime.fromisoformat(self.start)
        if (begin - datetime(1970, 1, 1)).seconds % tick:
            raise bad_parameter(
                "start", self.start, f"when a tick of {self.tick} begins", "move it"
            )
        for measure in self.measures:
            place, last = f"measures.{measure.name}", None
            for name in ("start", "until"):
                text = getattr(measure, name)
                if text is None:
                    continue
                moment = datetime.fromisoformat(text)
                if not self._begins_slot(moment):
                    bound = f"when a {'tick' if self.unit.of == 'event' else self.unit.slot} begins"
                    remedy = "each unit keeps one promise"
                    raise bad_parameter(f"{place}.{name}", text, bound, remedy)
                if moment < begin or (name == "until" and moment <= (last or begin)):
                    bound = "after its start, and not before that of the publication"
                    raise bad_parameter(f"{place}.{name}", text, bound, "correct the times")
                last = moment

    def _begins_slot(self, moment: datetime) -> bool:
        length = self.unit.length
        seconds = moment.hour * 3600 + moment.minute * 60 + moment.second
        if length is None or not length.months:
            return seconds % (self.tick_seconds if length is None else length.seconds) == 0
        months = (moment.year - 1970) * 12 + moment.month - 1
        return not seconds and moment.day == 1 and months % length.months == 0

    # What follows from it
    # --------------------------------------------------------------------------------------------
    @property
    def tick_seconds(self) -> int:
        """The length of a tick."""
        return parse_duration(self.tick, name="tick")

    @property
    def limits(self) -> tuple[tuple[int | None, Fraction], ...]:
        """The promise: before each age in seconds (None: for ever) at most so much is lost. The
        decimals are those that were written."""
        ages = [
            (None if age == EVER else parse_duration(age, name="age"), age) for age in self.promise
        ]
        ages.sort(key=lambda pair: (pair[0] is None, pair[0]))
        limits = [(seconds, Fraction(repr(self.promise[age]))) for seconds, age in ages]
        if limits[-1][0] is not None:  # past the last age its limit holds
            limits[-1] = (None, limits[-1][1])
        return tuple(limits)

    @property
    def parts(self) -> tuple[MeasurePart, ...]:
        """What has figures of its own, in the order of the measures."""
        return tuple(
            MeasurePart(measure, part, measure.weight(self.unit, part))
            for measure in self.measures
            for part in (("keys", "overall") if measure.overall else ("keys",))
        )

    @property
    def midnights(self) -> Numbers:
        """When the days of the zone begin, by its rules of today: 30 years from that of the
        start."""
        return _midnights(self.zone, int(self.start[:4]))

    @classmethod
    def read(cls, path: str | Path) -> Publication:
        """The publication that a TOML file describes; its name is by default that of the file.
        Paths in it are relative to it."""
        from fadecount.planning.publication_file import read_publication

        return read_publication(path)

    def plan(self) -> PublicationPlan:
        """What will be published when, how exact it is, and what is lost by then."""
        from fadecount.planning.publication_plan import PublicationPlan

        return PublicationPlan.of(self)

    def loss(self, age: str) -> float:
        """What everything below reveals at most about one unit before that age, rounded up: a
        duration, or ``ever``."""
        return self.plan().loss(age)

    def lengths(self, measure: Measure) -> tuple[int, ...]:
        """The lengths of a measure's figures in ticks, shortest first; months have 30 days."""
        return tuple(sorted(self._length(per, "per") for per in measure.per))


def require_name(what: str, name: object) -> None:
    """Refuse what publications and measures may not be called."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        bound = "1 to 64 small letters, digits, hyphens or underscores, beginning with a letter"
        raise bad_parameter(what, name, bound, "such as rides")


def _texts(place: str, value: object) -> tuple[str, ...]:
    """A list of texts; a text is a list of one."""
    given = (value,) if isinstance(value, str) else value
    if not isinstance(given, list | tuple) or not all(
        isinstance(each, str) and each for each in given
    ):
        raise bad_parameter(place, value, "a text, or a list of texts", "write them in quotes")
    return tuple(given)


def can_be_key(text: object, columns: int = 1) -> bool:
    """Whether a key of so many columns may have this text. It is judged by itself."""
    if not isinstance(text, str):
        return False
    parts = text.split(BETWEEN)
    return len(parts) == columns and all(
        1 <= len(part) <= LONGEST_KEY and part.isprintable() for part in parts
    )


def _written(name: str, text: str) -> str:
    """A date or a local time, written in the one way in which texts compare as times do."""
    try:
        moment = datetime.fromisoformat(text)
    except (TypeError, ValueError):
        moment = datetime.min
    if not 1970 <= moment.year <= _LAST_YEAR:
        bound = f"a date, or a local time in ISO 8601, in the years 1970 to {_LAST_YEAR}"
        raise bad_parameter(name, text, bound, "such as 2026-03-01")
    if moment.tzinfo is not None:
        raise bad_parameter(name, text, "a local time without an offset", "leave the offset out")
    at_midnight = moment.time() == datetime.min.time()
    return moment.date().isoformat() if at_midnight else moment.isoformat(timespec="seconds")


def local_time(name: str, text: str, zone: ZoneInfo) -> datetime:
    """A written date or time, in the zone."""
    return datetime.fromisoformat(_written(name, text)).replace(tzinfo=zone)


@lru_cache(maxsize=64)
def _midnights(zone: str, year: int) -> Numbers:
    first, end = (int(first_days(12 * (each - 1970))) for each in (year, year + YEARS))
    return Midnights(zone=zone).of(np.arange(first, end + 1))


def _one_of(name: str, value: object, allowed: Sequence[object]) -> None:
    if value not in allowed:
        shown = ", ".join(repr(each) for each in allowed if each is not None)
        first = next(each for each in allowed if each is not None)
        raise bad_parameter(name, value, f"one of {shown}", f"such as {first!r}")
