"""A stream that is kept nowhere: it counts a history, and forgets everything with the process."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fadecount.calendar import Calendar
from fadecount.noise import unpredictable
from fadecount.streams.description import Description
from fadecount.streams.discovery import Counts
from fadecount.streams.embargo import count_ticks, drawn, new_machine
from fadecount.streams.figures import Closed, FiguresInMemory
from fadecount.streams.loss import GroupLoss, StreamLoss
from fadecount.streams.published import Published

if TYPE_CHECKING:
    from fadecount.mechanisms.unit import Noted


class MemoryStream:
    """What a history is counted with, without a store, and the figures that it published.

    Nothing that it publishes can be read again, so nothing has to be committed before. It has no
    earlier runs and no group.
    """

    group: GroupLoss | None = None

    def __init__(
        self, description: Description, keys: tuple[str, ...], first_tick: int | None
    ) -> None:
        self.description, self.keys = description, keys
        self.first_tick = self.open_tick = first_tick
        """The tick in which the stream begins, and the one that is released next; None: the first
        one that is released."""
        self.steps = 0
        """How many ticks were closed."""
        self._machine = new_machine(description.mechanism, len(keys))
        self._figures = FiguresInMemory()

    @property
    def loss(self) -> StreamLoss:
        """What has been lost by all that was published."""
        return self.description.loss(steps=self.steps)

    @property
    def published(self) -> Published:
        """What was published, for questions about it."""
        figures = self._figures
        return published_by(self.description, self.keys, self.first_tick or 0, self.steps, figures)

    def earlier(self) -> None:
        """What earlier runs counted in the open tick: nothing."""

    def release(
        self,
        first_tick: int,
        inputs: NDArray[np.int64],
        _persons: Mapping[Noted, int] | None = None,
        hidden: Counts | None = None,
    ) -> Iterator[Closed]:
        """Close a tick for each row of ``inputs``, from the open one on. ``hidden`` keys are those
        of the day of these ticks."""
        description, end = self.description, first_tick + len(inputs)
        begin = first_tick if self.first_tick is None else self.first_tick
        steps = self.steps + len(inputs)
        calendar = _calendar(description, begin, steps)
        made = count_ticks(self._machine, inputs, first_tick, description.ticks, calendar)
        day = description.block_of(first_tick)
        if description.hidden is not None and description.block_of(end) != day:
            persons = description.hidden.sampled(hidden or {}, unpredictable(32))
            made += drawn(description, begin, day, persons)
        self.first_tick, self.steps, self.open_tick = begin, steps, end
        for _, rows in made:
            self._figures.add(rows)
        public = tuple(rows for tick, rows in made if tick <= end)
        yield Closed(first_tick=first_tick, last_tick=end - 1, figures=public)


def published_by(
    description: Description,
    keys: tuple[str, ...],
    first_tick: int,
    steps: int,
    figures: FiguresInMemory,
) -> Published:
    """What a stream that began with a tick has published, once so many ticks are closed."""
    return Published(
        description=description,
        keys=keys,
        first_tick=first_tick,
        steps=steps,
        source=figures.rows,
        calendar=_calendar(description, first_tick, steps),
    )


def _calendar(description: Description, first_tick: int, steps: int) -> Calendar | None:
    calendar = description.calendar(first_tick)
    return calendar and calendar.reaching(steps)
