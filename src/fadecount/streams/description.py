"""What a stream is: fixed when it is created, and public."""

from __future__ import annotations

import json
from collections.abc import Container, Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from fadecount.calendar import DAY, Calendar, Midnights, Ticks, level_calendar, level_lengths
from fadecount.durations import UNITS, format_duration, parse_duration
from fadecount.errors import ParameterError, StoreError, bad_parameter
from fadecount.mechanisms import ONE_EVENT, Blocks, Mechanism, Unit, require_planned_tick
from fadecount.streams.discovery import LONGEST_KEY, HiddenKeys, can_be_key
from fadecount.streams.loss import Forks, Group, StreamLoss, require_name

ONLY_KEY = "all"
TOTAL = "total"
"""The ``per`` of running totals: slots that all begin with the stream."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """A mechanism, a calendar, the protected unit, the group of streams that count the same
    people, if there is one, and whether keys appear by themselves (``hidden``). All are fixed when
    a stream is created.

    ``mechanism`` states its loss for a change of one count by 1. The losses of the stream are for
    its unit, so they are larger; give ``unit.scaled(mechanism)`` where the mechanism's own promise
    is meant for the unit.
    """

    name: str
    mechanism: Mechanism
    ticks: Ticks
    unit: Unit = ONE_EVENT
    group: Group | None = None
    hidden: HiddenKeys | None = None

    def __post_init__(self) -> None:
        require_name("stream name", self.name, "such as visits or door-3")
        riders = "Group.of('riders', {'1y': 4})"
        for what, value, kind, known, example in (
            ("mechanism", self.mechanism, Mechanism, "fadecount mechanism", "Gradual(epsilon=0.1)"),
            ("ticks", self.ticks, Ticks, "fadecount.streams.Ticks", "Ticks(tick_seconds=3600)"),
            ("unit", self.unit, Unit, "fadecount.Unit", "Unit(of='person', events=3)"),
            ("group", self.group, Group | None, "fadecount.streams.Group", riders),
        ):
            if not isinstance(value, kind):
                raise bad_parameter(what, value, f"a {known}", f"such as {example}")
        require_planned_tick(self.mechanism, self.ticks.tick_seconds)
        if isinstance(self.mechanism, Blocks):
            level_lengths(self.mechanism.lengths, self.ticks)
        if 0 < self._slot_seconds < self.ticks.tick_seconds:
            remedy = "one person within a tick is the unit for longer ticks"
            raise bad_parameter("per of the unit", self.unit.per, "at least a tick", remedy)
        if self.hidden is not None:
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
    def covers(self) -> str:
        """What an interval of figures does not cover, in words."""
        return self.unit.covers + ("" if self.hidden is None else self.hidden.covers)

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
        return level_calendar(self.mechanism.lengths, self.ticks, first_tick, midnights)

    @property
    def default_per(self) -> str:
        """What people read first: the slots in which keys appear, or in which each person counts
        once; else days, or the largest blocks below a day; else running totals."""
        if self.hidden is not None:
            return self.hidden.discovery.per
        levels = self.levels
        if self.unit.distinct_per or not levels:
            return self.unit.distinct_per or TOTAL
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
        slot = self.unit.distinct_per
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

    @property
    def protects(self) -> str:
        """Who is protected, whatever counts of them: streams of one group protect the same."""
        if self.unit.of == "event":
            return "one event"
        if self.unit.per != "tick":
            return f"one person's {self.unit.slot}, from its start ({self.ticks.zone})"
        tick = format_duration(self.ticks.tick_seconds)
        return f"one person within a tick of {tick} ({self.ticks.zone})"

    def block_of(self, tick: int) -> int:
        """The number of the slot in which a tick shares the caps of the stream's unit."""
        return self.ticks.block_of(self.unit.per, tick)

    def ticks_of(self, block: int) -> range:
        """The ticks that share the caps of the stream's unit. Ages of the unit count from the
        first."""
        return self.ticks.ticks_of(self.unit.per, block)

    def loss(self, forks: Forks = (), steps: int = 0) -> StreamLoss:
        """What the stream loses about one unit, after so many steps and with other histories."""
        return StreamLoss(
            mechanism=self.mechanism,
            sensitivity=self.unit.sensitivity,
            forks=forks,
            steps=steps,
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
        fields = {
            "tick_seconds": self.ticks.tick_seconds,
            "zone": self.ticks.zone,
            "unit": self.unit.to_json(),
            **({} if self.group is None else {"group": self.group.to_json()}),
            **({} if self.hidden is None else {"hidden": self.hidden.to_json()}),
        }
        return json.dumps({"version": 1, "mechanism": self.mechanism.to_json(), **fields})

    @classmethod
    def from_json(cls, name: str, text: str) -> Description:
        """A description from JSON text, checked."""
        try:
            return cls(name=name, **_described(text))
        except (ValueError, KeyError, TypeError, ParameterError) as error:
            raise StoreError(
                f"description of stream {name!r} is damaged; take an intact copy"
            ) from error


@lru_cache(maxsize=1024)
def _described(text: str) -> dict[str, Any]:
    """What a description says, apart from the name. Streams are read often, and many are alike."""
    fields: dict[str, Any] = json.loads(text)
    if fields["version"] != 1:
        raise StoreError("stream was made by another version of fadecount; use that version")
    ticks = Ticks(tick_seconds=fields["tick_seconds"], zone=fields["zone"])
    return {
        "mechanism": Mechanism.from_json(fields["mechanism"]),
        "ticks": ticks,
        "unit": Unit.from_json(fields["unit"]),
        "group": None if "group" not in fields else Group.from_json(fields["group"]),
        "hidden": None if "hidden" not in fields else HiddenKeys.from_json(fields["hidden"]),
    }


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
