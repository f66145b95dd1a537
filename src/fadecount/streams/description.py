"""What a stream is: fixed when it is created, and public."""

from __future__ import annotations

import json
from collections.abc import Container, Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from fadecount.durations import format_duration
from fadecount.errors import ParameterError, StoreError, bad_parameter
from fadecount.mechanisms import ONE_EVENT, Blocks, Mechanism, Unit, require_planned_tick
from fadecount.streams.calendar import block_lengths
from fadecount.streams.discovery import LONGEST_KEY, HiddenKeys, can_be_key
from fadecount.streams.loss import NAME, Forks, Group, StreamLoss
from fadecount.streams.ticks import DAY, Ticks

ONLY_KEY = "all"


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
        if not isinstance(self.name, str) or not NAME.fullmatch(self.name):
            bound = (
                "1 to 100 letters, digits, dots, hyphens or underscores, beginning with a letter or"
                " digit"
            )
            raise bad_parameter("stream name", self.name, bound, "such as visits or door-3")
        if not isinstance(self.mechanism, Mechanism):
            raise bad_parameter(
                "mechanism",
                self.mechanism,
                "a fadecount mechanism",
                "such as fadecount.Gradual(epsilon=0.1)",
            )
        require_planned_tick(self.mechanism, self.ticks.tick_seconds)
        if isinstance(self.mechanism, Blocks):
            block_lengths(self.mechanism, self.ticks)
        if not isinstance(self.unit, Unit):
            raise bad_parameter(
                "unit", self.unit, "a fadecount.Unit", "such as Unit(of='person', events=3)"
            )
        length = self.unit.length
        if length and self.ticks.tick_seconds > (length.seconds or 28 * DAY * length.months):
            remedy = "one person within a tick is the unit for longer ticks"
            raise bad_parameter("per of the unit", self.unit.per, "at least a tick", remedy)
        if not isinstance(self.group, Group | None):
            remedy = "such as Group.of('riders', {'1y': 4})"
            raise bad_parameter("group", self.group, "a fadecount.streams.Group", remedy)
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
        if self.mechanism.composed_loss(0).delta is not None:
            remedy = "Gaussian noise cannot be combined with it; such as fadecount.Blocks"
            bound = "one of pure loss where keys appear by themselves"
            raise bad_parameter("mechanism", type(self.mechanism).__name__, bound, remedy)

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
    def levels(self) -> tuple[str, ...]:
        """The lengths of the levels as people say them, smallest first: ``1m``, ``1h``, ``1d``.
        None for running totals."""
        if not isinstance(self.mechanism, Blocks):
            return ()
        return tuple(length.name for length in block_lengths(self.mechanism, self.ticks))

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
        """:meth:`Unit.block_of` for the ticks of the stream."""
        return self.ticks.block_of(self.unit.per, tick)

    def ticks_of(self, block: int) -> range:
        """:meth:`Unit.ticks_of` for the ticks of the stream."""
        return self.ticks.ticks_of(self.unit.per, block)

    def loss(self, forks: Forks = (), steps: int = 0) -> StreamLoss:
        """What the stream loses about one unit, after so many steps and with other histories."""
        return StreamLoss(
            mechanism=self.mechanism,
            sensitivity=self.unit.per_key,
            keys=self.unit.keys,
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
        length = self.unit.length
        seconds = 0 if length is None else length.seconds or 28 * DAY * length.months
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
            raise StoreError("description of a stream is damaged; take an intact copy") from error


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
