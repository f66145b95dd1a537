"""What a run is while it is in progress, and what it asks of its stream."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fadecount.durations import UNITS
from fadecount.rounding import shown_loss
from fadecount.sources import Earlier, SourceOptions, SourceReport
from fadecount.streams.discovery import Counts
from fadecount.streams.figures import Closed
from fadecount.streams.loss import NO_GROUP, GroupLoss, StreamLoss
from fadecount.streams.memory import MemoryStream
from fadecount.streams.published import Published

if TYPE_CHECKING:
    from fadecount.mechanisms.unit import CapKey
    from fadecount.streams import Reader, Stream


class StoredStream:
    """A stream of a store: what it releases is committed, then published, then read back."""

    def __init__(self, writer: Stream, reader: Reader) -> None:
        self.description, self.keys = writer.description, writer.keys
        self.writer, self._reader = writer, reader
        self._noted: int | None = None

    @property
    def first_tick(self) -> int:
        """The tick in which the stream began."""
        return self.writer.status.first_tick

    @property
    def open_tick(self) -> int:
        """The tick that is released next."""
        return self.writer.open_tick

    @property
    def loss(self) -> StreamLoss:
        """What has been lost by all that was released."""
        return self.writer.status.loss

    @property
    def group(self) -> GroupLoss | None:
        """What all streams of the stream's group together lose; None if it is in no group."""
        return self._reader.status(self.description.name).group

    @property
    def published(self) -> Published:
        """What was published, for questions about it."""
        return self._reader.stream(self.description.name)

    def earlier(self) -> Earlier | None:
        """What of persons counts in the open tick already. If that grows until the next release,
        the release is refused: the cap would not hold."""
        if self.description.unit.of == "event":
            return None
        self._noted = self.writer.persons_noted
        counted = self.writer.persons_counted if self._noted else None
        return Earlier(key=self.writer.person_key, counted=counted)

    def release(
        self,
        first_tick: int,
        inputs: NDArray[np.int64],
        persons: Mapping[CapKey, int] | None = None,
        hidden: Counts | None = None,
    ) -> Iterator[Closed]:
        """Close a tick for each row of ``inputs``, from the open one on. ``persons`` says what of
        each is in the day that stays open; ``hidden`` keys are those of the day of these ticks."""
        yield from self.writer.release(
            first_tick, inputs, noted=self._noted, persons=persons, hidden=hidden
        )
        self._noted = None if self._noted is None else 0


class Run(Iterator[Closed]):
    """A run in progress: iterate over it. What it yields is published and, with a store,
    committed."""

    live = False
    """Whether ticks are released by the clock."""
    shows_range = False
    """Whether the first or last released tick reveals when the first or last event happened."""

    def __init__(self, options: SourceOptions, stream: MemoryStream | StoredStream) -> None:
        self.options, self.stream = options, stream
        self._releases = self._published()
        self.stopped = False
        """Whether the run ends between two ticks."""

    @property
    @abstractmethod
    def report(self) -> SourceReport:
        """How many rows were read and left out so far. It is exact, so it is for the owner of the
        events only."""

    @property
    def ticks_expected(self) -> int | None:
        """How many ticks will be released, if that is known."""
        return None

    @property
    def published(self) -> Published:
        """What the stream has published, by this run and before."""
        return self.stream.published

    def check_per(self, per: str | None) -> None:
        """Refuse a length of slots that the figures of this run cannot give, before anything is
        published, if that is known."""

    def stop(self) -> None:
        """End the run between two ticks; everything up to there is published."""
        self.stopped = True

    def close(self) -> None:
        """Close the source, also if nothing was read of it."""

    def summary(self) -> str:
        """One line for the reader of the releases: the protected unit, and its loss now, after a
        month and after a year."""
        description, loss = self.stream.description, self.stream.loss
        seconds = description.ticks.tick_seconds
        by_day, span = description.unit.per != "tick", description.span_seconds
        ages = [
            -(-span // seconds),
            *(max(1, -(-UNITS[unit] // seconds)) for unit in ("mo", "y")),
        ]
        now, month, year = (shown_loss(loss.at_age(age).epsilon) for age in ages)
        first = f"{now} by its end" if by_day else f"{now} when it is released"
        since = " from its start" if by_day else ""
        return (
            f"privacy loss (ε) for {description.unit.text}: at most {first}, "
            f"{month} after a month{since}, {year} after a year{loss.exception}; "
            + (NO_GROUP if self.stream.group is None else f"group {self.stream.group.text}")
        )

    def __next__(self) -> Closed:
        return next(self._releases)

    @abstractmethod
    def _published(self) -> Iterator[Closed]:
        """Release the ticks one chunk after the other; between two chunks the run may be
        stopped."""
