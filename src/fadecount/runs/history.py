"""A run on a history: files, a data frame, or a pipe with times, read to its end, then released."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from fadecount.counters.inputs import add_up
from fadecount.errors import ClockError, ParameterError
from fadecount.runs.base import Run, StoredStream
from fadecount.sources import Gate, History, SourceOptions, SourceReport, read
from fadecount.streams.figures import CELLS, Closed, FiguresInMemory
from fadecount.streams.memory import MemoryStream, published_by

if TYPE_CHECKING:
    from fadecount.mechanisms.unit import CapKey
    from fadecount.sources.files import Source

LARGEST_DAY = 1 << 24
"""Counts (ticks times keys) of a day that are released at once, where the unit is a day."""
LARGEST_RANGE = 50_000_000
"""The most ticks of a history; more are taken for wrong times."""


class HistoryRun(Run):
    """Everything is read before anything is released: a source that fails in the middle releases
    nothing."""

    def __init__(
        self,
        source: Source,
        options: SourceOptions,
        stream: MemoryStream | StoredStream,
        gate: Gate,
        *,
        last_event_ends: bool,
    ) -> None:
        super().__init__(options, stream)
        self._source, self._gate, self._last_event_ends = source, gate, last_event_ends
        self._earlier = stream.earlier()
        self.shows_range = options.first_tick is None or last_event_ends

    @cached_property
    def _history(self) -> History:
        return read(self._source, self.options, earlier=self._earlier)

    @property
    def report(self) -> SourceReport:
        return self._history.report

    @cached_property
    def _range(self) -> range:
        return released_ticks(
            self._history,
            self.options,
            self._gate,
            last_event_ends=self._last_event_ends,
            continues=self.stream.loss.steps > 0,
        )

    @property
    def ticks_expected(self) -> int:
        return len(self._range)

    def check_per(self, per: str | None) -> None:
        stream, wanted = self.stream, self._range
        if per is None or not wanted:
            return
        first = wanted.start if stream.first_tick is None else stream.first_tick
        steps, nothing = wanted.stop - first, FiguresInMemory()
        published_by(stream.description, stream.keys, first, steps, nothing).check_per(per)

    def _published(self) -> Iterator[Closed]:
        """The ticks in transactions that do not depend on where the events are."""
        history, width = self._history, len(self.stream.keys)
        for part in self._parts(self._range, width):
            begin, end = part.start, part.stop
            rows = np.zeros((len(part), width), dtype=np.int64)
            low, high = np.searchsorted(history.ticks, [begin, end])
            place = (history.ticks[low:high] - begin, history.keys[low:high])
            add_up(rows, place, history.counts[low:high])
            hidden = history.hidden(begin)
            yield from self.stream.release(begin, rows, self._persons_of(part), hidden)
            if self.stopped:
                return

    def _parts(self, wanted: range, width: int) -> Iterator[range]:
        """Ranges of one size or, where the unit is a person's day (hour, month), single days: what
        of persons is in a day that stays open must be noted with its ticks."""
        size = max(1, CELLS // max(1, width))
        if self.options.person_per == "tick":
            yield from (wanted[at : at + size] for at in range(0, len(wanted), size))
            return
        description, at = self.stream.description, wanted.start
        unit = description.unit
        if description.span_seconds // self.options.ticks.tick_seconds * width > LARGEST_DAY:
            raise ParameterError(
                f"ticks of a {unit.slot} times keys must be at most {LARGEST_DAY:,} where the unit"
                f" is a person's {unit.slot}; choose longer ticks or fewer keys"
            )
        while at < wanted.stop:
            following = description.ticks_of(description.block_of(at)).stop
            yield range(at, min(following, wanted.stop))
            at = following

    def _persons_of(self, part: range) -> Mapping[CapKey, int] | None:
        """What of persons the part of a day holds, if the day stays open; None where the unit is no
        day, or nothing is kept. With it, the part is one transaction."""
        block_of = self.stream.description.block_of
        if self.options.person_per == "tick" or self._earlier is None:
            return None
        if block_of(part[-1]) != block_of(part.stop):
            return {}
        return self._history.persons(part[-1])


def released_ticks(
    history: History, options: SourceOptions, gate: Gate, *, last_event_ends: bool, continues: bool
) -> range:
    """The ticks to release: from the first wanted one or, if there is none, that of the first
    event. A history that the gate refuses releases nothing."""
    gate.check_rows(history.report)
    first, end, last = options.first_tick, options.end_tick, history.last_tick
    if last_event_ends:
        end = None if last is None else last + 1
    if first is None:
        first = history.first_tick
    if first is None or end is None:
        return range(0)
    if end - first > LARGEST_RANGE:
        raise ClockError(
            f"range must be at most {LARGEST_RANGE:,} ticks, got {end - first:,}; check the"
            " times, or say where it ends"
        )
    if continues and end > first:
        event = end if history.first_tick is None else history.first_tick
        gate.check_gap(options.ticks, first, event)
    return range(first, end)
