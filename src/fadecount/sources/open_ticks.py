"""Ticks that are still open: counts waiting in memory, and the moment up to which ticks are complete."""

from __future__ import annotations

from collections.abc import Iterator

from fadecount.sources.batch import TickBatch, batches_of
from fadecount.sources.calendar import tick_reader
from fadecount.sources.options import SourceOptions
from fadecount.sources.plain import People
from fadecount.sources.report import Reason
from fadecount.sources.rows import Event


class OpenTicks:
    """Adds events to open ticks, never to complete ones. It has no clock of its own: moments are handed in."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._tick_of = tick_reader(options)
        self._people = People(options)
        self._counts: dict[tuple[int, int], int] = {}
        self._first_open: int | None = None
        self.rows = 0

    def pass_to(self, moment: float) -> None:
        """Complete every tick that ends by this moment. Time that goes back changes nothing."""
        tick = self._tick_of(int(moment // 1))
        if self._first_open is None or tick > self._first_open:
            self._first_open = tick
            self._people.forget_before(tick)
            self._counts.setdefault((tick, 0), 0)

    def add(self, event: Event, now: float) -> bool | Reason:
        """Count an event that arrived at ``now``: True, or False if it is beyond its person's limit, or why it is bad."""
        options = self._options
        if options.time is None:
            self.pass_to(now)
            tick = self._tick_of(int(now // 1))
        else:
            if event.seconds > now + options.grace_seconds + options.tick_seconds:
                return Reason.FUTURE  # else one wrong clock would complete the ticks of everybody
            self.pass_to(event.seconds - options.grace_seconds)
            tick = self._tick_of(event.seconds)
        assert self._first_open is not None
        place = (max(tick, self._first_open), event.key)
        if not self._people.accepts(place[0], event.person):
            return False
        self._counts[place] = self._counts.get(place, 0) + event.amount
        self.rows += 1
        return True

    def take(self, *, everything: bool = False) -> Iterator[TickBatch]:
        """What waits for complete ticks and for the first open one; ``everything`` at the end of the input."""
        first = self._first_open
        ready = {place: count for place, count in self._counts.items() if everything or (first is not None and place[0] <= first)}
        self._counts = {place: count for place, count in self._counts.items() if place not in ready}
        self.rows = 0
        yield from batches_of(ready)
