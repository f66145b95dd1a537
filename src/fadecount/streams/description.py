"""What a stream is: fixed when it is created, and public."""

from __future__ import annotations

import json
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from fadecount.calendar import (
    DAY,
    Calendar,
    Midnights,
    Ticks,
    level_calendar,
    level_lengths,
    zone_of,
)
from fadecount.checks import set_fields
from fadecount.durations import UNITS, format_duration, parse_duration
from fadecount.errors import ParameterError, StoreError, bad_parameter
from fadecount.mechanisms import ONE_EVENT, Blocks, Mechanism, Unit, require_planned_tick
from fadecount.planning.publication import Measure, Publication, Series, local_time
from fadecount.streams.discovery import HiddenKeys
from fadecount.streams.loss import Group, PublicationLoss, StreamLoss, UnitLoss, require_name

ONLY_KEY = "all"
LONGEST_KEY = 200
"""Characters."""
TOTAL = "total"
"""The ``per`` of running totals: slots that all begin with the stream."""


@dataclass(frozen=True, slots=True, kw_only=True, init=False)
class Description:
    """What is counted (``series``), a calendar, the protected unit, the group of streams that count
    the same people, if there is one, and whether keys appear by themselves (``hidden``). All are
    fixed when a stream is created.

    A stream with a ``mechanism`` has one series. The mechanism states its loss for a change of one
    count by 1. The losses of the stream are for its unit, so they are larger; give
    ``unit.scaled(mechanism)`` where the mechanism's own promise is meant for the unit.

    A ``publication`` has a series for each of its parts. Its description is about all of them; each
    of its :attr:`parts` is about the one with its ``number``.
    """

    name: str
    ticks: Ticks
    unit: Unit
    series: tuple[Series, ...]
    group: Group | None
    hidden: HiddenKeys | None
    publication: Publication | None
    number: int | None
    parts: tuple[Description, ...] = field(init=False, compare=False, repr=False)
    """The same about one series each."""

    def __init__(
        self,
        *,
        name: str,
        ticks: Ticks,
        mechanism: Mechanism | None = None,
        unit: Unit = ONE_EVENT,
        series: tuple[Series, ...] = (),
        group: Group | None = None,
        hidden: HiddenKeys | None = None,
        publication: Publication | None = None,
        number: int | None = None,
    ) -> None:
        if mechanism is not None:
            weight = unit.sensitivity if isinstance(unit, Unit) else 1
            series = (Series(measure=name, part="keys", mechanism=mechanism, weight=weight),)
        if publication is not None and number is not None and series[number].selection:
            each = series[number]
            assert each.selection is not None
            hidden = HiddenKeys(discovery=each.selection, other=each.other)
        set_fields(
            self,
            name=name,
            ticks=ticks,
            unit=unit,
            series=series,
            group=group,
            hidden=hidden,
            publication=publication,
            number=number,
        )
        self._check()
        numbers = range(len(series)) if number is None and publication is not None else ()
        parts = tuple(replace(self, number=each) for each in numbers)
        set_fields(self, parts=parts or (self,))

    def _check(self) -> None:
        require_name("stream name", self.name, "such as visits or door-3")
        riders = "Group.of('riders', {'1y': 4})"
        of_mechanism = Mechanism, "fadecount mechanism", "Gradual(epsilon=0.1)"
        mechanisms: list[object] = [each.mechanism for each in self.series] or [None]
        for what, value, kind, known, example in (
            *(("mechanism", each, *of_mechanism) for each in mechanisms),
            ("ticks", self.ticks, Ticks, "fadecount.streams.Ticks", "Ticks(tick_seconds=3600)"),
            ("unit", self.unit, Unit, "fadecount.Unit", "Unit(of='person', events=3)"),
            ("group", self.group, Group | None, "fadecount.streams.Group", riders),
        ):
            if not isinstance(value, kind):
                raise bad_parameter(what, value, f"a {known}", f"such as {example}")
        for each in self.series:
            require_planned_tick(each.mechanism, self.ticks.tick_seconds)
            if isinstance(each.mechanism, Blocks):
                level_lengths(each.mechanism.lengths, self.ticks)
        if 0 < self._slot_seconds < self.ticks.tick_seconds:
            remedy = "one person within a tick is the unit for longer ticks"
            raise bad_parameter("per of the unit", self.unit.per, "at least a tick", remedy)
        if self.hidden is not None and self.publication is None:
            self._check_hidden(self.hidden)

    def _check_hidden(self, hidden: HiddenKeys) -> None:
        """Refuse keys that appear by themselves where the promise would not hold."""
        unit, keys = self.unit, hidden.discovery.keys
        if unit.of != "person" or unit.per != hidden.discovery.per:
            remedy = "one person who repeats a private search term would publish it"
            bound = f"one person's {hidden.slot} where keys appear by themselves"
            raise bad_parameter("unit", unit.text, bound, remedy)
        if unit.amount != 1 or (unit.keys == 1 and unit.events != 1):
            bound = "1 where keys appear by themselves"
            remedy = "distinct persons are counted; allow several keys to count several events"
            raise bad_parameter("events and amount of the unit", unit.per_key, bound, remedy)
        if unit.keys != keys:
            bound = f"{keys}, as in the discovery"
            raise bad_parameter("keys of the unit", unit.keys, bound, "both are one cap")

    def require_same(
        self,
        *,
        ticks: Ticks,
        unit: Unit,
        mechanism: Mechanism | None = None,
        group: Group | None = None,
        hidden: HiddenKeys | None = None,
    ) -> None:
        """Refuse what differs from the stream's own: its losses would not be the stated ones. None,
        and a group without a promise, leave it as it is."""
        if group is not None and not group.promise and self.group is not None:
            group = replace(group, promise=self.group.promise)
        for what, given, own, text in (
            ("tick", ticks, self.ticks, f" ({self.ticks.text})"),
            ("protected unit", unit, self.unit, f" ({self.unit.text})"),
            ("mechanism", mechanism or self.mechanism, self.mechanism, ""),
            ("group", group or self.group, self.group, ""),
            ("discovery", hidden or self.hidden, self.hidden, ""),
        ):
            if given != own:
                raise ParameterError(
                    f"{what} of stream {self.name!r} is fixed{text}, got another one; leave it out,"
                    " or choose another name"
                )

    @property
    def only(self) -> Series:
        """The series that it is about, if that is one."""
        assert len(self.parts) == 1, "one of its parts is meant"
        return self.series[self.number or 0]

    @property
    def label(self) -> str:
        """Its name; of a part of a publication with several, also that of the part."""
        if self.number is None:
            return self.name
        each = self.only
        return f"{self.name} {each.measure}" + (" overall" if each.part == "overall" else "")

    def number_of(self, measure: str, part: str = "keys") -> int:
        """The number of the series that is a part of a measure."""
        for number, each in enumerate(self.series):
            if (each.measure, each.part) == (measure, part):
                return number
        names = ", ".join(dict.fromkeys(each.measure for each in self.series))
        shown = measure if part == "keys" else f"{measure} {part}"
        bound = f"a measure of {self.name!r} ({names}), keys or overall"
        raise bad_parameter("measure", shown, bound, "choose another one")

    @property
    def mechanism(self) -> Mechanism:
        """The mechanism of the series that it is about."""
        return self.only.mechanism

    @classmethod
    def of(cls, publication: Publication, series: tuple[Series, ...]) -> Description:
        """The description of a publication with its planned series."""
        ticks = Ticks(tick_seconds=publication.tick_seconds, zone=publication.zone)
        return cls(
            name=publication.name,
            ticks=ticks,
            unit=publication.unit,
            series=series,
            publication=publication,
        )

    @property
    def measure(self) -> Measure | None:
        """The measure whose part it is about; None if that is not of a publication."""
        if self.publication is None:
            return None
        assert len(self.parts) == 1, "one of its parts is meant"
        return self.publication.parts[self.number or 0].measure

    @property
    def begins(self) -> int | None:
        """The tick with which its measure begins; None if it begins with the stream."""
        measure = self.measure
        return None if measure is None or measure.start is None else self._tick_of(measure.start)

    @property
    def ends(self) -> int | None:
        """The tick before which its measure ends; None if it does not."""
        measure = self.measure
        return None if measure is None or measure.until is None else self._tick_of(measure.until)

    @property
    def start_tick(self) -> int:
        """The tick with which the publication begins."""
        assert self.publication is not None
        return self._tick_of(self.publication.start)

    def _tick_of(self, written: str) -> int:
        zone = zone_of(self.ticks.zone)
        return self.ticks.first_from(local_time("start", written, zone).timestamp())

    @property
    def distinct_per(self) -> str | None:
        """The slot in which each person counts once, if persons are what is counted."""
        if self.measure is None:
            return self.unit.distinct_per
        return self.unit.per if self.measure.distinct else None

    @property
    def covers(self) -> str:
        """What an interval of figures does not cover, in words."""
        return self._caps.covers + ("" if self.hidden is None else self.hidden.covers)

    @property
    def _caps(self) -> Unit:
        """The unit with what it adds to the counts of this part at most."""
        measure = self.measure
        if measure is None:
            return self.unit
        if measure.max is not None:
            return replace(self.unit, events=1, amount=measure.max)
        if measure.distinct:
            return replace(self.unit, events=1, keys=self.only.weight)
        return self.unit

    @property
    def _slot_seconds(self) -> int:
        """The shortest slot in which the events of a unit share its caps; 0 if that is a tick."""
        length = self.unit.length
        return 0 if length is None else length.seconds or 28 * DAY * length.months

    @property
    def needs_keys(self) -> bool:
        """Whether a key must be declared: none need be where keys appear by themselves beside
        figures of blocks."""
        return self.hidden is None or not isinstance(self.mechanism, Blocks)

    @property
    def levels(self) -> tuple[str, ...]:
        """The lengths of the levels as people say them, smallest first: ``1m``, ``1h``, ``1d``.
        None for running totals."""
        if not isinstance(self.mechanism, Blocks):
            return ()
        return tuple(each.name for each in level_lengths(self.mechanism.lengths, self.ticks))

    def calendar(self, first_tick: int, midnights: Midnights | None = None) -> Calendar | None:
        """The blocks of the levels of a stream that begins with a tick, with the midnights stored
        for it, or for a new one; None for running totals."""
        if not isinstance(self.mechanism, Blocks):
            return None
        place = self.mechanism.lengths, self.ticks, first_tick, midnights
        if not any(self.only.shifts):
            return level_calendar(*place)
        return level_calendar(*place, self.unit.length, self.only.shifts)

    def public_tick(self, stage: int, end_tick: int) -> int:
        """The end of the tick with which hidden keys of a slot that ends with a tick appear at a
        stage."""
        assert self.hidden is not None
        slot = self.ticks_of(self.block_of(end_tick - 1))
        promised = 0 if self.publication is None else slot.start + self.only.open_ticks + 1
        return max(end_tick, promised) + self.hidden.discovery.stages[stage][0]

    @property
    def default_per(self) -> str:
        """What people read first: the slots in which keys appear, or in which each person counts
        once; else days, or the largest blocks below a day; else running totals."""
        if self.hidden is not None:
            return self.hidden.discovery.per
        levels = self.levels
        if self.distinct_per or not levels:
            return self.distinct_per or TOTAL
        below = [level for level in levels if not level.endswith(("mo", "y"))]
        return "1d" if "1d" in levels else (below or levels)[-1]

    def level(self, per: str) -> int | None:
        """The level whose blocks are the slots of a length, if there is one."""
        levels = self.levels
        return levels.index(per) if per in levels else None

    def require_level(self, per: str) -> None:
        """Refuse a length that is no level, and name those that are."""
        if per not in self.levels:
            names = ", ".join(self.levels) or TOTAL
            remedy = "other slots are computed from them: ask when the run is over"
            raise bad_parameter("per", per, f"{names}, which the stream publishes", remedy)

    def require_sum(self, per: str) -> None:
        """Refuse slots in which distinct persons do not add up: the same people come every day."""
        slot = self.distinct_per
        if slot is None:
            return
        if per == TOTAL or parse_duration(per, name="per") > parse_duration(slot):
            raise bad_parameter(
                "per",
                per,
                f"at most {slot}: each person counts once per {self.unit.slot}, and distinct"
                " persons do not add up",
                "a stream with one person per that time counts them",
            )

    def loss_steps(self) -> list[tuple[int, str]]:
        """The ages in ticks at which the loss grows, with what causes it; of a smooth curve some
        ages."""
        seconds = self.ticks.tick_seconds
        if self.publication is not None and self.loss.grows_at:
            return self._causes()
        if isinstance(self.mechanism, Blocks):
            causes = dict(self.mechanism.loss_steps(seconds))
        else:
            lengths = [UNITS[unit] for unit in ("h", "d", "w", "mo", "y")] + [10 * UNITS["y"]]
            ages = sorted({0, *(max(1, length // seconds) for length in lengths)})
            causes = dict.fromkeys(ages, "totals")
        stages = () if self.hidden is None else self.hidden.discovery.stages
        for number, (lag, _) in enumerate(stages, start=1):
            text, age = f"keys that appear, stage {number}", lag + self.open_ticks
            causes[age] = f"{causes[age]}; {text}" if age in causes else text
        return sorted(causes.items())

    def _causes(self) -> list[tuple[int, str]]:
        causes: dict[int, list[str]] = {}
        for each in self.series:
            what = each.measure + (" overall" if each.part == "overall" else "")
            assert isinstance(each.mechanism, Blocks)
            for level, shift in zip(each.mechanism.levels, each.shifts, strict=True):
                for number, stage in enumerate(level.stages):
                    status = f" ({level.status(number)})" if level.later else ""
                    text = f"{what} per {level.name(self.ticks.tick_seconds)}{status}"
                    causes.setdefault(shift + stage.lag, []).append(text)
            for number, (lag, _) in enumerate(each.selection.stages if each.selection else ()):
                text = f"{what}: keys that appear, stage {number + 1}"
                causes.setdefault(each.open_ticks + lag, []).append(text)
        return [(age, ", ".join(names)) for age, names in sorted(causes.items())]

    @property
    def protects(self) -> str:
        """Who is protected, whatever counts of them: streams of one group protect the same."""
        if self.unit.of == "event":
            return "one event"
        if self.unit.per != "tick":
            return f"one person's {self.unit.slot}, from its start ({self.ticks.zone})"
        tick = format_duration(self.ticks.tick_seconds)
        return f"one person within a tick of {tick} ({self.ticks.zone})"

    @property
    def notes(self) -> bool:
        """Whether something is noted of the units of a slot while it is open: of persons, or the
        ids of single events."""
        return self.unit.of == "person" or (
            self.publication is not None and self.publication.columns.id is not None
        )

    def slot_of(self, tick: int) -> int:
        """The number of the slot of a tick in which notes hold: that of the unit, or the day of
        single events with ids."""
        if self.unit.of == "person" or not self.notes:
            return self.block_of(tick)
        return self.ticks.block_of("1d", tick)

    def slot_ticks(self, slot: int) -> range:
        """The ticks of a slot in which notes hold."""
        if self.unit.of == "person" or not self.notes:
            return self.ticks_of(slot)
        return self.ticks.ticks_of("1d", slot)

    def block_of(self, tick: int) -> int:
        """The number of the slot in which a tick shares the caps of the stream's unit."""
        return self.ticks.block_of(self.unit.per, tick)

    def ticks_of(self, block: int) -> range:
        """The ticks that share the caps of the stream's unit. Ages of the unit count from the
        first."""
        return self.ticks.ticks_of(self.unit.per, block)

    @property
    def loss(self) -> UnitLoss:
        """What everything that is published loses about one unit: of a publication, all its parts
        together."""
        if self.publication is not None:
            together = self.publication.together
            return PublicationLoss(
                together=tuple(tuple(self.series[at] for at in each) for each in together)
            )
        return StreamLoss(
            mechanism=self.mechanism,
            sensitivity=self.unit.sensitivity,
            hidden=self.hidden,
            open_ticks=self.open_ticks,
        )

    @property
    def span_seconds(self) -> int:
        """By how much a unit may be older than its latest event."""
        return self.unit.span_seconds(self.ticks.zone)

    @property
    def open_ticks(self) -> int:
        """So many ticks or more after the first tick of a unit's slot the last one ends the slot,
        whatever the rules of the zone will be: two offsets are less than two days apart."""
        seconds = self._slot_seconds
        if self.ticks.zone != "UTC":
            seconds -= 2 * DAY
        return max(0, seconds // self.ticks.tick_seconds - 1)

    def to_json(self) -> str:
        """The description as JSON text."""
        if self.publication is not None:
            from fadecount.planning.publication_file import fields_of

            series = [each.to_json() for each in self.series]
            described = {"publication": fields_of(self.publication), "series": series}
            return json.dumps({"version": 1, **described})
        fields: dict[str, Any] = {
            "tick_seconds": self.ticks.tick_seconds,
            "zone": self.ticks.zone,
            "unit": self.unit.to_json(),
            **({} if self.group is None else {"group": self.group.to_json()}),
            **({} if self.hidden is None else {"hidden": self.hidden.to_json()}),
        }
        return json.dumps({"version": 1, "mechanism": self.mechanism.to_json(), **fields})

    @classmethod
    @lru_cache(maxsize=1024)
    def from_json(cls, name: str, text: str) -> Description:
        """A description from JSON text, checked. Streams are read often."""
        try:
            return cls(name=name, **_described(text))
        except (ValueError, KeyError, TypeError, ParameterError) as error:
            raise StoreError(
                f"description of stream {name!r} is damaged; take an intact copy"
            ) from error


@lru_cache(maxsize=1024)
def _described(text: str) -> dict[str, Any]:
    """What a description says, apart from the name. Many are alike."""
    fields: dict[str, Any] = json.loads(text)
    if fields["version"] != 1:
        raise StoreError("stream was made by another version of fadecount; use that version")
    if "publication" in fields:
        return _of_publication(fields)
    ticks = Ticks(tick_seconds=fields["tick_seconds"], zone=fields["zone"])
    return {
        "mechanism": Mechanism.from_json(fields["mechanism"]),
        "ticks": ticks,
        "unit": Unit.from_json(fields["unit"]),
        "group": None if "group" not in fields else Group.from_json(fields["group"]),
        "hidden": None if "hidden" not in fields else HiddenKeys.from_json(fields["hidden"]),
    }


def _of_publication(fields: Mapping[str, Any]) -> dict[str, Any]:
    from fadecount.planning.publication_file import publication_of

    publication = publication_of(fields["publication"])
    series = tuple(map(Series.from_json, fields["series"]))
    described = Description.of(publication, series)
    return {
        "ticks": described.ticks,
        "unit": described.unit,
        "series": series,
        "publication": publication,
    }


def can_be_key(text: object) -> bool:
    """Whether a key may have this name. It is judged by itself."""
    return isinstance(text, str) and 1 <= len(text) <= LONGEST_KEY and text.isprintable()


def checked_keys(
    names: Iterable[str], taken: Container[str] = (), *, none: bool = False
) -> tuple[str, ...]:
    """The keys, checked: public text, each declared once; at least one, unless ``none`` is fine."""
    keys = tuple(names)
    known: set[str] = set()
    for key in keys:
        if not can_be_key(key):
            raise bad_parameter(
                "key",
                key,
                f"1 to {LONGEST_KEY} printable characters",
                "declare keys by their names",
            )
        if key in known or key in taken:
            raise bad_parameter("key", key, "declared once", "leave the second one out")
        known.add(key)
    if not keys and not none:
        raise ParameterError(
            "keys must hold at least one name, got none; a stream without keys counts under 'all'"
        )
    return keys
