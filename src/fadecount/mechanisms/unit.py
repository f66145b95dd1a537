"""Who is protected: one event, or one person within a tick, an hour, a day, a month. The unit is
public and fixed when a stream is created."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Mapping, MutableMapping
from dataclasses import asdict, dataclass
from typing import Literal

from fadecount.calendar import Length
from fadecount.checks import require_integer
from fadecount.errors import ParameterError, bad_parameter
from fadecount.mechanisms.base import LARGEST_KEYS, LARGEST_SENSITIVITY, Mechanism
from fadecount.mechanisms.loss import Loss

LARGEST_EVENTS = 1_000_000
Key = int | str
"""The position of a declared key, or the text of a hidden one."""
CapKey = bytes | tuple[bytes, Key]
"""The digest of a person, or that of a person and a key, or that of an address and a key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """The protected unit: every loss of a stream is stated for one such unit.

    ``of="event"``: one event, which adds at most ``amount`` to one count. A larger amount counts as
    that. ``of="person"``: everything that one person did in one released tick.
    Each event has at most ``amount``. With ``keys=1``, at most ``events`` of the person's events
    are counted in that tick, under any keys. With more ``keys``, at most ``events`` are counted in
    each of at most ``keys`` keys. The stream enforces it over all runs and restarts: the first
    events that arrive count, under the person's first keys (:meth:`takes`).

    With ``per="1d"`` the unit is one person's day: the same caps hold for all ticks that begin on
    one local day; any other length of the calendar (``1h``, ``1mo``) works alike. With ``events=1``
    each person counts once a day (and key). Each of the events costs its own loss, so they lose at
    most ``events`` times that of one event, **at the age from the day's start**
    (docs/planning.md). Late events belong to the day that counts them.

    So the presence or absence of *all* that the person did changes at most ``keys`` counts of the
    tick by at most :attr:`per_key` each (with ``keys=1``: any counts, by at most :attr:`per_key` in
    total). Removing a *single* event of a capped person is a smaller change of the input, but not
    of the output: the next event of the person moves up, so that one count can fall and another
    rise.

    >>> Unit(amount=5).text, Unit(amount=5).sensitivity
    ('one event with an amount up to 5', 5)
    >>> Unit(of="person", events=3).text, Unit(of="person", events=3).sensitivity
    ('one person within a tick, at most 3 events', 3)
    >>> Unit(of="person", events=3, keys=4).text, Unit(of="person", events=3, keys=4).sensitivity
    ('one person within a tick, at most 3 events in each of at most 4 keys', 12)
    >>> Unit(of="person", events=4, per="1d").text
    "one person's day, at most 4 events"
    >>> Unit(of="person", events=20, per="1mo").text
    "one person's month, at most 20 events"
    """

    of: Literal["event", "person"] = "event"
    amount: int = 1
    events: int = 1
    keys: int = 1
    per: str = "tick"

    def __post_init__(self) -> None:
        if self.of not in ("event", "person"):
            raise bad_parameter(
                "unit", self.of, "event or person", "it is what every loss is stated for"
            )
        for name, largest, meaning in (
            ("amount", LARGEST_SENSITIVITY, "the largest amount of one event"),
            ("events", LARGEST_EVENTS, "how many events of one person count in a tick"),
            ("keys", LARGEST_KEYS, "under how many keys one person counts in a tick"),
        ):
            value, what = getattr(self, name), f"{name} of the unit"
            remedy = f"it is {meaning}; noise grows with it"
            require_integer(what, value, minimum=1, maximum=largest, remedy=remedy)
            if self.of == "event" and name != "amount" and value != 1:
                bound = "1 where the unit is one event"
                raise bad_parameter(what, value, bound, "say of='person' to cap persons")
        if self.per != "tick" and self.of == "event":
            bound = "tick where the unit is one event"
            raise bad_parameter("per of the unit", self.per, bound, "say of='person'")
        if not isinstance(self.per, str) or (self.per != "tick" and self.length is None):
            bound = "tick, or a length such as 1h, 1d or 1mo"
            raise bad_parameter("per of the unit", self.per, bound, "a person's cap holds so long")
        if self.sensitivity > LARGEST_SENSITIVITY:
            name = "amount times events times keys of the unit"
            raise bad_parameter(name, self.sensitivity, "at most 2**51", "choose smaller ones")

    @property
    def length(self) -> Length | None:
        """The calendar slot in which the caps of a person hold; None for a tick."""
        return None if self.per == "tick" else Length.named(self.per)

    @property
    def subject(self) -> str:
        """Whose age a loss is about: event, person's day."""
        return "event" if self.of == "event" else f"person's {self.slot}"

    @property
    def slot(self) -> str:
        """In words, how long the caps of a person hold: tick, hour, day, month."""
        return "tick" if self.length is None else self.length.words

    @property
    def per_key(self) -> int:
        """By how much one unit can change one count of its tick."""
        return self.amount * self.events

    @property
    def sensitivity(self) -> int:
        """By how much one unit can change the counts of its tick, all keys together."""
        return self.per_key * self.keys

    def loss(self, mechanism: Mechanism, age: int) -> Loss:
        """What everything that a mechanism published by an age can reveal about a unit together."""
        return mechanism.composed_loss(age, times=self.sensitivity)

    def scaled(self, promise: Mechanism, planned: Unit | None = None) -> Mechanism:
        """The mechanism with which the promise of another one, made for a change of one count by 1,
        holds for this unit. What was ``planned`` for a unit counts its events itself: it is used as
        it is, and refused if this unit is another, or larger."""
        if planned is None:
            try:
                return promise.for_sensitivity(self.sensitivity)
            except ParameterError as error:
                remedy = "no noise is wide enough for its share of the loss; allow more"
                raise bad_parameter("unit", self.text, "a smaller one", remedy) from error
        caps = ((each.events, each.keys, each.amount) for each in (self, planned))
        larger = any(own > most for own, most in zip(*caps, strict=True))
        if larger or (self.of, self.per) != (planned.of, planned.per):
            raise bad_parameter(
                "unit", self.text, f"at most the plan's, {planned.text}", "plan again for this one"
            )
        return promise

    def takes(
        self,
        counted: MutableMapping[Hashable, int],
        person: Hashable,
        key: Hashable,
        events: int = 1,
    ) -> int:
        """How many of so many more ``events`` of a person under a key count in a tick: as many as
        if they came one by one.

        They are noted in ``counted``, which holds that tick only: it maps a person to a number of
        events or, where the unit has several keys, to a number of keys, and ``(person, key)`` to a
        number of events. Under a hidden key, which is given as text, a person counts once. The
        decision depends on earlier events of the same person only. It takes as long for a million
        events as for one.
        """
        place = person if self.keys == 1 else (person, key)
        before = counted.get(place, 0)
        taken = min(events, (1 if isinstance(key, str) else self.events) - before)
        if taken <= 0:
            return 0
        if self.keys > 1 and not before:
            keys = counted.get(person, 0)
            if keys >= self.keys:
                return 0
            counted[person] = keys + 1
        counted[place] = before + taken
        return taken

    @property
    def text(self) -> str:
        """The unit in words, as shown beside every loss."""
        if self.of == "event":
            return (
                "one event" if self.amount == 1 else f"one event with an amount up to {self.amount}"
            )
        events = "1 event" if self.events == 1 else f"{self.events} events"
        keys = f" in each of at most {self.keys} keys" if self.keys > 1 else ""
        amount = f" with an amount up to {self.amount} each" if self.amount > 1 else ""
        whose = "one person within a tick" if self.per == "tick" else f"one person's {self.slot}"
        return f"{whose}, at most {events}{keys}{',' if keys and amount else ''}{amount}"

    def ago(self, age: str) -> str:
        """The unit of an age, as the beginning of a sentence. The age of a person's day counts from
        its start: counted from an event of the day, its loss would be stated too low.

        >>> ONE_EVENT.ago("1 hour"), Unit(of="person", per="1d").ago("1 hour")
        ('An event from 1 hour ago', "One person's day that began 1 hour ago")
        """
        if self.of == "event":
            return f"An event from {age} ago"
        if self.per == "tick":
            return f"All that one person did within a tick, {age} ago"
        return f"One person's {self.slot} that began {age} ago"

    def span_seconds(self, zone: str) -> int:
        """By how much a unit may be older than its latest event: ages count from its start."""
        return 0 if self.length is None else self.length.longest_seconds(zone)

    @property
    def covers(self) -> str:
        """What an interval of figures does not cover, in words."""
        text = "noise only; events that were left out are not in it"
        if self.of == "event":
            return text
        times = "once" if self.events == 1 else f"at most {self.events} times"
        under = "" if self.keys == 1 else f" and key, under at most {self.keys} keys"
        text += f"; each person counts {times} per {self.slot}{under}"
        longer = f"; sums over longer times count a person once for each {self.slot}"
        return text + (longer if self.per != "tick" else "")

    @property
    def distinct_per(self) -> str | None:
        """The slot in which each person counts once, if persons are what is counted: counts of
        longer times would hold some of them several times. None where counts add up."""
        once = self.of == "person" and self.events == self.amount == 1 and self.per != "tick"
        return self.per if once else None

    def to_json(self) -> dict[str, str | int]:
        """The fields, for JSON."""
        fields = asdict(self)
        if self.per == "tick":
            del fields["per"]
        return fields

    @classmethod
    def from_json(cls, fields: Mapping[str, object]) -> Unit:
        """The unit with these fields. Missing fields have their defaults; unknown ones are
        refused."""
        unknown = sorted(set(fields) - {"of", "amount", "events", "keys", "per"})
        if unknown:
            raise bad_parameter(
                "unit", unknown[0], "made of of, amount, events, keys and per", "leave it out"
            )
        return cls(**fields)  # type: ignore[arg-type] # each field is checked by the class itself


ONE_EVENT = Unit()


ADDRESS_BYTES = 16
"""So many bytes of a person's digest are that of the address."""


def address_part(person: str) -> str:
    """The address of a person: the name up to the first space. A visitor of a website is named by
    an address and a number.

    >>> address_part("192.0.2.1 17"), address_part("ann")
    ('192.0.2.1', 'ann')
    """
    return person.partition(" ")[0]


def address_digest(person: str, key: bytes) -> bytes:
    """The part of :func:`person_digest` that persons of one address share."""
    return _digest(address_part(person), key, b"address")


def person_digest(person: str, key: bytes) -> bytes:
    """A digest of fixed size that stands for a person while a tick is open; the text itself is not
    kept. It is keyed, so nobody outside can find two people with the same digest. It begins with
    that of the address."""
    return address_digest(person, key) + _digest(person, key)


def _digest(text: str, key: bytes, kind: bytes = b"") -> bytes:
    name = text.encode("utf-8", "surrogatepass")
    return hashlib.blake2b(name, digest_size=ADDRESS_BYTES, key=key, person=kind).digest()
