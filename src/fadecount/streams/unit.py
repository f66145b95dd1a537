"""Who is protected: one event, or one person within a tick. The unit is public and fixed when a stream is created."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Literal

from fadecount.checks import require_integer
from fadecount.errors import bad_parameter

LARGEST_SENSITIVITY = 1 << 51
LARGEST_EVENTS = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """The protected unit: every loss of a stream is stated for one such unit.

    ``of="event"``: one event, which adds at most ``amount`` to one count.
    ``of="person"``: everything that one person did in one released tick. At most ``events`` of the person's events are counted in
    that tick, each with at most ``amount``; the stream enforces it over all runs and restarts. The first ``events`` that arrive
    count. So the presence or absence of *all* that the person did changes the counts of the tick by at most :attr:`sensitivity`
    in total. Removing a *single* event of a capped person is a smaller change of the input, but not of the output: the next
    event of the person moves up, so that one count can fall and another rise, by up to ``amount`` each.
    ``keys`` is the number of counts that include one event: currently 1.

    >>> Unit(amount=5).text, Unit(amount=5).sensitivity
    ('one event with an amount up to 5', 5)
    >>> Unit(of="person", events=3).text, Unit(of="person", events=3).sensitivity
    ('one person within a tick, at most 3 events', 3)
    """

    of: Literal["event", "person"] = "event"
    amount: int = 1
    events: int = 1
    keys: int = 1

    def __post_init__(self) -> None:
        if self.of not in ("event", "person"):
            raise bad_parameter("unit", self.of, "event or person", "it is what every loss is stated for")
        remedy = "it is the largest amount of one event; noise grows in proportion"
        require_integer("amount of the unit", self.amount, minimum=1, maximum=LARGEST_SENSITIVITY, remedy=remedy)
        remedy = "it is how many events of one person count in a tick; noise grows in proportion"
        require_integer("events of the unit", self.events, minimum=1, maximum=LARGEST_EVENTS, remedy=remedy)
        if self.of == "event" and self.events != 1:
            raise bad_parameter(
                "events of the unit", self.events, "1 where the unit is one event", "say of='person' to cap persons"
            )
        require_integer("keys of the unit", self.keys, minimum=1, maximum=1, remedy="an event counts under one key")
        if self.sensitivity > LARGEST_SENSITIVITY:
            raise bad_parameter("amount times events of the unit", self.sensitivity, "at most 2**51", "choose smaller ones")

    @property
    def sensitivity(self) -> int:
        """By how much one unit can change the counts of its tick, all keys together."""
        return self.amount * self.events * self.keys

    @property
    def text(self) -> str:
        """The unit in words, as shown beside every loss."""
        if self.of == "event":
            return "one event" if self.amount == 1 else f"one event with an amount up to {self.amount}"
        events = "1 event" if self.events == 1 else f"{self.events} events"
        return (
            f"one person within a tick, at most {events}{f' with an amount up to {self.amount} each' if self.amount > 1 else ''}"
        )

    def to_json(self) -> dict[str, str | int]:
        """The fields, for JSON."""
        return asdict(self)

    @classmethod
    def from_json(cls, found: Mapping[str, object]) -> Unit:
        """The unit with these fields. Missing fields have their defaults; unknown ones are refused."""
        unknown = sorted(set(found) - {"of", "amount", "events", "keys"})
        if unknown:
            raise bad_parameter("unit", unknown[0], "made of of, amount, events and keys", "leave it out")
        return cls(**found)  # type: ignore[arg-type] # each field is checked by the class itself


ONE_EVENT = Unit()
