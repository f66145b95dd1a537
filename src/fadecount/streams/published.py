"""What a stream has published, and views of it: figures per hour or day, totals, so far today, any
window.

Everything here is computed from published figures, so it costs no privacy. It is the same for a
store and for a stream that is kept nowhere: both give rows of figures (:class:`FigureSource`).

``as_of`` is a tick: everything that was public when that tick began. By default it is the end of
what is published.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from fadecount.durations import UNITS, parse_duration
from fadecount.errors import RemovedError, StoreError, bad_parameter
from fadecount.mechanisms import ANNOUNCED, Blocks
from fadecount.mechanisms.noise_law import quantiles
from fadecount.mechanisms.views import Views, bounds_of_sums, half_widths_around, views_of
from fadecount.streams.calendar import BlockCalendar
from fadecount.streams.description import Description
from fadecount.streams.discovery import KeyFigures, public_tick
from fadecount.streams.figures import FigureRows
from fadecount.streams.status import earliest_step
from fadecount.streams.windows import WindowCalendar, window_ticks

Numbers = NDArray[np.int64]
BETA = 0.05
"""Intervals hold the true count with at least 95 %."""
PROVISIONAL, REVISED, FINAL = 0, 1, 2
STATUSES = ("provisional", "revised", "final")
TOTAL = "total"
"""The ``per`` of running totals: slots that all begin with the stream."""
AT_ONCE = 4096
"""How many windows are computed together."""


class FigureSource(Protocol):
    """Where figures come from."""

    def rows(self, level: int, stage: int, first_tick: int, end_tick: int) -> Iterator[FigureRows]:
        """The rows that hold blocks in these ticks, in order."""

    def key_figures(self, stage: int, first_tick: int, end_tick: int) -> Iterator[KeyFigures]:
        """The figures of hidden keys of the days that begin in these ticks, in order."""


class FiguresInMemory:
    """Figures that are kept nowhere else, in the order in which they were made."""

    def __init__(self) -> None:
        self._rows: dict[tuple[int, int], list[FigureRows]] = {}
        self._keys: list[KeyFigures] = []

    def add(self, rows: FigureRows | KeyFigures) -> None:
        """Keep rows; those of a level and stage come in order."""
        if isinstance(rows, KeyFigures):
            self._keys.append(rows)
        else:
            self._rows.setdefault((rows.level, rows.stage), []).append(rows)

    def key_figures(self, stage: int, first_tick: int, end_tick: int) -> Iterator[KeyFigures]:
        for row in self._keys:
            if row.stage == stage and first_tick <= row.first_tick < end_tick:
                yield row

    def rows(self, level: int, stage: int, first_tick: int, end_tick: int) -> Iterator[FigureRows]:
        rows = self._rows.get((level, stage), [])
        begin = bisect_right(rows, first_tick, key=lambda row: row.end_tick)
        for row in rows[begin:]:
            if row.first_tick >= end_tick:
                return
            yield row


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Figures:
    """Counts of slots of time, in the shape (slots, keys), with their 95 % intervals.

    ``starts`` and ``ends`` are Unix seconds. ``status`` is an index of ``STATUSES``: a value that
    nothing can change any more is final. ``published`` is when the last part of it became public. A
    ``partial`` slot is not covered from its beginning to its end. Where ``known`` is false, the
    key was not declared in time. Values may be negative, since noise is.
    """

    starts: Numbers
    ends: Numbers
    values: Numbers
    half_widths: Numbers
    known: NDArray[np.bool_]
    status: Numbers
    published: Numbers
    partial: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def low(self) -> Numbers:
        """The lower ends of the intervals."""
        return self.values - self.half_widths

    @property
    def high(self) -> Numbers:
        """The upper ends of the intervals."""
        return self.values + self.half_widths

    @property
    def shown_status(self) -> list[str]:
        """The status of each slot, in words."""
        return [STATUSES[each] for each in self.status.tolist()]

    def chosen(self, part: slice | NDArray[Any]) -> Figures:
        """Some of the slots."""
        return Figures(**{name: getattr(self, name)[part] for name in self.__slots__})

    @classmethod
    def joined(cls, parts: Sequence[Figures]) -> Figures:
        """The slots of several tables, one after the other."""
        names = cls.__slots__
        return cls(
            **{name: np.concatenate([getattr(part, name) for part in parts]) for name in names}
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class KeyTable:
    """Keys that appeared by themselves, one row for each day and key: noisy numbers of persons with
    their 95 % intervals. Times are Unix seconds; ``appeared`` is when the key of that day was shown
    first, ``published`` when this stage was.

    An interval is that of the noise, whether or not the key is shown. A key that was shown with a
    count near its threshold was helped by its noise: such counts lean high until the next stage.
    """

    starts: Numbers
    ends: Numbers
    keys: NDArray[np.object_]
    stages: Numbers
    values: Numbers
    half_widths: Numbers
    status: Numbers
    published: Numbers
    appeared: Numbers

    def __len__(self) -> int:
        return len(self.starts)

    @classmethod
    def joined(cls, parts: Sequence[KeyTable]) -> KeyTable:
        """The rows of several tables, one after the other."""
        nothing = np.zeros(0, dtype=np.int64)
        return cls(
            **{
                name: np.concatenate([nothing, *(getattr(part, name) for part in parts)])
                for name in cls.__slots__
            }
        )


@dataclass(slots=True, kw_only=True)
class Ranked:
    """A key in a top list. ``days`` is on how many days it appeared: its value is the sum of these
    (None: it is declared, and the value is of all days). ``close``: the intervals of this key and
    of the next one overlap, so the two may be the other way round."""

    key: str
    value: int
    around: int
    days: int | None = None
    close: bool = False

    @property
    def low(self) -> int:
        """The lower end of the 95 % interval."""
        return self.value - self.around

    @property
    def high(self) -> int:
        """The upper end of the 95 % interval."""
        return self.value + self.around


def _half_widths(laws: Sequence[Sequence[tuple[float, int]]]) -> list[int]:
    """Half widths of 95 % intervals of sums of figures of hidden keys: budgets, and how many."""
    noises = [tuple((Fraction(1), epsilon, count) for epsilon, count in law) for law in laws]
    return [int(each) for each in quantiles(noises, BETA)] if noises else []


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """What one stream has published: ``steps`` ticks from ``first_tick`` on.

    ``key_steps`` are (position, step) of the first of the keys that were declared together.
    """

    description: Description
    keys: tuple[str, ...]
    first_tick: int
    steps: int
    source: FigureSource
    calendar: BlockCalendar | None = None
    voids: Mapping[tuple[int, int], int] = field(default_factory=dict)
    """(level, end) of the blocks whose figures are never made, and after which step that was known:
    views of the time before it stay as they were."""
    key_steps: Sequence[tuple[int, int]] = ((0, 0),)
    kept: tuple[int, ...] = ()
    """For each level the first tick whose figures are still there; empty if all are."""
    summed: bool = False
    """Whether the keys are one column, their sum."""
    beta: float = BETA
    """The probability that an interval misses the true count."""

    def together(self) -> Published:
        """The same stream with one column: the sum over all keys that exist, with its own band.

        Noise partly cancels in a sum, so the band is narrower than the sum of the keys' bands.
        Shares of ties are rounded once for all keys declared together, not once for each key.
        """
        return replace(self, summed=True)

    @property
    def _width(self) -> int:
        """How many columns there are."""
        return 1 if self.summed else len(self.keys)

    # Questions
    # --------------------------------------------------------------------------------------------
    def figures(
        self,
        per: str,
        *,
        since: int | None = None,
        until: int | None = None,
        as_of: int | None = None,
        news_since: int | None = None,
        most: int | None = None,
    ) -> Figures:
        """The count of every slot of the length ``per`` (``1h``, ``1d``, ``1w``, ``1mo``) that
        begins in the ticks from ``since`` to before ``until``, or of the first ``most`` of them.
        With ``news_since``, only of those whose figures (or parts of them) became public with that
        tick or later.

        A slot that is a block of a level has the published figure, at its latest stage. Any other
        one is computed from the figures that cover it. The slot that is not over yet is partial.
        """
        require_sum(self.description, per)
        steps = self._steps(as_of)
        first = self._first_kept() if since is None else max(self.first_tick, since)
        end = self.first_tick + steps if until is None else min(until, self.first_tick + steps)
        if first >= end:
            return no_figures(self._width)
        level = self._level(per)
        if level is not None and self.kept:
            first = max(first, self.kept[level])
        begin = first - self.first_tick
        slots = (
            self._blocks(level, steps, begin, most)
            if level is not None
            else self._slots(per, steps, begin, most)
        )
        slots = slots.beginning_in(begin, end - self.first_tick).chosen(slice(most))
        if news_since is not None:
            slots = slots.chosen(slots.ends + self._settling > news_since - self.first_tick)
        figures = (
            self._windows(slots, steps) if level is None else self._of_level(level, slots, steps)
        )
        if news_since is None:
            return figures
        return figures.chosen(figures.published > self.description.ticks.start_seconds(news_since))

    @property
    def _settling(self) -> int:
        """So many steps after a slot nothing of it can become public any more: shares of ties
        change with the largest block, which may be a long month."""
        mechanism = self.description.mechanism
        if not isinstance(mechanism, Blocks):
            return self._delay
        return mechanism.levels[-1].stages[-1].lag + 2 * mechanism.levels[-1].length

    def check_per(self, per: str) -> None:
        """Refuse a length of slots that figures cannot give."""
        require_sum(self.description, per)
        if per != TOTAL and self._level(per) is None:
            self._slots(per, self.steps)

    def totals(
        self,
        ticks: Sequence[int] | Numbers,
        *,
        as_published: bool = False,
        as_of: int | None = None,
    ) -> Figures:
        """The total since the stream began up to before each of these ticks: as known now, or as it
        was published when that tick began."""
        require_sum(self.description, TOTAL)
        wanted = np.asarray(ticks, dtype=np.int64)
        steps = self._steps(as_of)
        ends = np.minimum(wanted - self.first_tick, steps)
        if len(wanted) and int(ends.min()) < 0:
            shown = self.description.ticks.shown
            raise bad_parameter(
                "time",
                shown(int(wanted.min())),
                f"at or after {shown(self.first_tick)}, where the stream began",
                "ask for a later time",
            )
        public = ends if as_published else steps
        reached = np.maximum(0, np.minimum(ends, public - self._delay))
        return self._windows(self._between(np.zeros_like(ends), reached), public)

    def total(self, *, as_of: int | None = None) -> Figures:
        """The total of everything that is published."""
        return self.totals([self.first_tick + self._steps(as_of)], as_of=as_of)

    def running(
        self, *, since: int | None = None, until: int | None = None, as_of: int | None = None
    ) -> Iterator[Figures]:
        """The total after each of the ticks from ``since`` to before ``until``, as it was published
        then, in pieces. A ``since`` before figures that were removed raises a ``RemovedError``."""
        kept = self.first_tick + self._earliest()
        if kept > self.first_tick and since is not None and since < kept:
            raise self.removed()
        first = kept if since is None else max(since, kept)
        end = self.first_tick + self._steps(as_of)
        end = end if until is None else min(until, end)
        for begin in range(first, end, AT_ONCE):
            ticks = np.arange(begin + 1, min(begin + AT_ONCE, end) + 1, dtype=np.int64)
            yield self.totals(ticks, as_published=True)

    def so_far(self, per: str, *, as_of: int | None = None) -> Figures:
        """The count of the slot of the length ``per`` that is not over yet: so far today for
        ``1d``."""
        require_sum(self.description, per)
        steps, level = self._steps(as_of), self._level(per)
        open_too = steps + 1  # the tick that is open is in the slot, and not counted
        if level is not None and self.calendar is not None:
            slots = self._blocks(level, open_too, self.calendar.frontier(level, steps))
        else:
            first = steps - self._delay - 8 * self._nominal(per)
            slots = self._slots(per, open_too, max(0, first))
        slots = slots.chosen(slice(-1, None))
        ends = np.minimum(slots.ends, steps - self._delay)
        return self._windows(replace(slots, ends=ends, partial=np.ones_like(slots.partial)), steps)

    def window(self, first: int, end: int, *, as_of: int | None = None) -> Figures:
        """The count of the ticks from ``first`` to before ``end``, of which what is published
        counts."""
        if self.description.block_of(first) != self.description.block_of(max(first, end - 1)):
            require_sum(self.description, TOTAL)
        return self._window(first, end, self._steps(as_of))

    def _window(self, first: int, end: int, steps: int) -> Figures:
        start, last = max(0, first - self.first_tick), min(end - self.first_tick, steps)
        if last < start:
            return no_figures(self._width)
        whole = first >= self.first_tick and end - self.first_tick <= steps
        slots = self._between(np.array([start]), np.array([last]))
        return self._windows(replace(slots, partial=np.array([not whole])), steps)

    def published_with(self, first: int, last: int, *, per: str | None = None) -> Iterator[Figures]:
        """What the ticks from ``first`` to ``last`` published: figures of the level ``per``, each
        at the stage that came out then, or totals."""
        per = per or self.default_per
        if per == TOTAL:
            yield from self.running(since=first, until=last + 1)
            return
        level = require_level(self.description, per)
        mechanism, calendar, begin = self.description.mechanism, self.calendar, self.first_tick
        assert isinstance(mechanism, Blocks)
        assert calendar is not None
        steps = last + 1 - begin
        slots = self._blocks(level, steps)
        for stage in mechanism.levels[level].stages:
            out = [
                calendar.frontier(level, max(0, each - stage.lag))
                for each in (first - begin, steps)
            ]
            part = slice(*np.searchsorted(slots.ends, out, side="right").tolist())
            yield self._of_level(level, slots.chosen(part), steps)

    def discovered(
        self,
        *,
        since: int | None = None,
        until: int | None = None,
        as_of: int | None = None,
        news_since: int | None = None,
    ) -> KeyTable:
        """The keys that appeared by themselves on the days that begin in the ticks from ``since``
        to before ``until``, each day at its latest stage. With ``news_since``, only what became
        public with that tick or later.

        Nothing tells a key that is still hidden from one that nobody brought.
        """
        days = [
            self._day(figures)
            for figures in self._key_figures(since, until, self._steps(as_of))
            if news_since is None or self._public(figures[-1]) > news_since
        ]
        return KeyTable.joined(days)

    def _key_figures(
        self, since: int | None, until: int | None, steps: int
    ) -> Iterator[list[KeyFigures]]:
        """For each day the public figures of hidden keys, by stage."""
        hidden, end = self.description.hidden, self.first_tick + steps
        if hidden is None:
            return
        per, first = hidden.discovery.per, self.first_tick
        if self.kept and per in self.description.levels:
            first = self.kept[self.description.levels.index(per)]
        span = max(first, since or first), end if until is None else min(end, until)
        days: dict[int, list[KeyFigures]] = {}
        for stage in range(len(hidden.discovery.stages)):
            for figures in self.source.key_figures(stage, *span):
                if self._public(figures) <= end:
                    days.setdefault(figures.first_tick, []).append(figures)
        yield from (days[day] for day in sorted(days))

    def _public(self, figures: KeyFigures) -> int:
        assert self.description.hidden is not None
        return public_tick(self.description.hidden, figures)

    def _day(self, figures: Sequence[KeyFigures]) -> KeyTable:
        """The keys of a day at its latest stage, and when each was shown first."""
        hidden, ticks, last = self.description.hidden, self.description.ticks, figures[-1]
        assert hidden is not None
        times = [ticks.start_seconds(self._public(each)) for each in figures]
        appeared: dict[str, int] = {}
        for each, time in zip(reversed(figures), reversed(times), strict=True):
            appeared.update(dict.fromkeys(each.keys, time))
        count, stages = len(last.keys), hidden.discovery.stages
        status = FINAL if last.stage == len(stages) - 1 else min(last.stage, REVISED)
        return KeyTable(
            starts=np.full(count, ticks.start_seconds(last.first_tick)),
            ends=np.full(count, ticks.start_seconds(last.end_tick)),
            keys=np.array(last.keys, dtype=object),
            stages=np.full(count, last.stage),
            values=last.values,
            half_widths=np.full(count, _half_widths([((stages[last.stage][1], 1),)])[0]),
            status=np.full(count, status),
            published=np.full(count, times[-1]),
            appeared=np.array([appeared[key] for key in last.keys], dtype=np.int64),
        )

    def top(
        self, *, since: int | None = None, until: int | None = None, as_of: int | None = None
    ) -> list[Ranked]:
        """The keys of the days that begin in the ticks from ``since`` to before ``until``, largest
        first: those that are declared, and those that appeared, with the days on which they did.
        Over several days, persons count once on each."""
        hidden, steps = self.description.hidden, self._steps(as_of)
        end = self.first_tick + steps if until is None else until
        ranked: list[Ranked] = []
        declared = self._window(self.first_tick if since is None else since, end, steps)
        for at, key in enumerate(self.keys if len(declared) else ()):
            if declared.known[0, at]:
                around = int(declared.half_widths[0, at])
                ranked.append(Ranked(key=key, value=int(declared.values[0, at]), around=around))
        sums: dict[str, tuple[int, Counter[float]]] = {}
        for *_, figures in self._key_figures(since, until, steps):
            assert hidden is not None
            epsilon = hidden.discovery.stages[figures.stage][1]
            for key, value in zip(figures.keys, figures.values.tolist(), strict=True):
                total, noises = sums.get(key, (0, Counter()))
                noises[epsilon] += 1
                sums[key] = total + value, noises
        laws = [tuple(sorted(noises.items())) for _, noises in sums.values()]
        for (key, (value, noises)), around in zip(sums.items(), _half_widths(laws), strict=True):
            ranked.append(Ranked(key=key, value=value, around=around, days=noises.total()))
        ranked.sort(key=lambda each: (-each.value, each.key))
        for above, below in pairwise(ranked):
            above.close = above.low <= below.high
        return ranked

    @property
    def default_per(self) -> str:
        """What people read first: see :func:`first_per`."""
        return first_per(self.description)

    # Slots
    # --------------------------------------------------------------------------------------------
    def _steps(self, as_of: int | None) -> int:
        """How many steps are public as of a tick. One that is not over, or before which figures
        were removed, is refused."""
        if as_of is None:
            return self.steps
        shown = self.description.ticks.shown
        earliest, end = self.first_tick + self._earliest(), self.first_tick + self.steps
        if not earliest <= as_of <= end:
            bound = f"from {shown(earliest)} to {shown(end)}"
            remedy = "later figures are not public yet"
            if as_of < earliest:
                removed = earliest > self.first_tick
                remedy = "earlier figures were removed" if removed else "the stream begins there"
            raise bad_parameter("as_of", shown(as_of), bound, remedy)
        return as_of - self.first_tick

    def _first_kept(self) -> int:
        """The first tick at which a slot can begin; before it figures were removed."""
        if not self.kept or isinstance(self.description.mechanism, Blocks):
            return self.first_tick
        # the total before it is needed, which a delay shows later
        return max(self.first_tick, self.kept[0] + 1 - self._delay)

    def _earliest(self) -> int:
        """The first step as of which nothing is missing that was public then."""
        if not self.kept:
            return 0
        return earliest_step(self.description.mechanism, self.first_tick, self.kept)

    def _nominal(self, per: str) -> int:
        """About how many ticks a slot of a length has."""
        return max(1, parse_duration(per, name="per") // self.description.ticks.tick_seconds)

    def _slots(self, per: str, steps: int, first: int = 0, most: int | None = None) -> _Slots:
        """The slots of a length that begin at a position or later, as far as they are public (of
        running totals with a delay, as far as they are shown); if that is enough, at least ``most``
        of them."""
        ticks, nothing = self.description.ticks, np.zeros(0, dtype=np.int64)
        calendar = WindowCalendar(per=per, zone=ticks.zone)
        begin, last = self.first_tick, self.first_tick + steps - self._delay - 1
        if first:
            moment = ticks.start_seconds(self.first_tick + first)
            begin = ticks.first_from(int(calendar.edges(moment - 1, moment)[1]))
        if most is not None:
            last = min(last, begin + 2 * (most + 1) * self._nominal(per))
        if begin > last:
            return self._between(nothing, nothing)
        edges, at, partial = window_ticks(ticks, calendar, begin, last)
        positions = at - self.first_tick
        inner, blocks = positions[1:-1], self.calendar
        if blocks is not None and np.any(blocks.frontier(0, inner) != inner):
            smallest = self.description.levels[0]
            remedy = f"the stream publishes {', '.join(self.description.levels)}"
            raise bad_parameter("per", per, f"made of whole blocks of {smallest}", remedy)
        return _Slots(
            begins=positions[:-1],
            ends=positions[1:],
            starts_at=edges[:-1],
            ends_at=edges[1:],
            partial=partial,
        )

    def _blocks(self, level: int, steps: int, first: int = 0, most: int | None = None) -> _Slots:
        """The blocks of a level that begin at a position or later, as far as they are public; if
        that is enough, at least ``most`` of them."""
        calendar, mechanism = self.calendar, self.description.mechanism
        assert calendar is not None
        assert isinstance(mechanism, Blocks)
        begin, stop = calendar.end(level, first), steps
        if most is not None:
            stop = min(steps, begin + 2 * (most + 1) * mechanism.levels[level].length)
        if begin >= stop:
            return self._between(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))
        ends = calendar.edges(level, begin, stop)
        if calendar.end(level, stop) > stop:  # a block is open
            ends = np.append(ends, calendar.end(level, stop))
        slots = self._between(np.append(begin, ends[:-1]), ends)
        return replace(slots, ends=np.minimum(ends, steps), partial=ends > steps)

    def _between(self, begins: Numbers, ends: Numbers) -> _Slots:
        starts_at, ends_at = (
            self.description.ticks.starts_of(self.first_tick + each) for each in (begins, ends)
        )
        partial = np.zeros(len(begins), dtype=np.bool_)
        return _Slots(
            begins=begins, ends=ends, starts_at=starts_at, ends_at=ends_at, partial=partial
        )

    @property
    def _delay(self) -> int:
        mechanism = self.description.mechanism
        return 0 if isinstance(mechanism, Blocks) else mechanism.schedule.delay

    def _level(self, per: str) -> int | None:
        """The level whose blocks are the slots of a length, if there is one."""
        levels = self.description.levels
        return levels.index(per) if per in levels else None

    # Figures of a level
    # --------------------------------------------------------------------------------------------
    def _of_level(self, level: int, slots: _Slots, steps: int) -> Figures:
        """The published figures of these blocks, each at its latest stage; of those that are not
        out, and of void ones, what can be computed."""
        mechanism, calendar = self.description.mechanism, self.calendar
        assert isinstance(mechanism, Blocks)
        assert calendar is not None
        stages = mechanism.levels[level].stages
        if self.kept and len(slots.begins) and slots.begins[0] + self.first_tick < self.kept[level]:
            slots = slots.beginning_in(self.kept[level] - self.first_tick, steps)
        ends, width = slots.ends, self._width
        values = np.zeros((len(ends), width), dtype=np.int64)
        known = np.zeros((len(ends), width), dtype=np.bool_)
        around, status, published, copies = (np.zeros(len(ends), dtype=np.int64) for _ in range(4))
        out = np.zeros(len(ends), dtype=np.bool_)
        until = 0
        for stage in reversed(range(len(stages))):
            reached = calendar.frontier(level, max(0, steps - stages[stage].lag))
            low, high = np.searchsorted(ends, [until, reached], side="right").tolist()
            if low < high:
                part = slice(low, high)
                for some, rows in self._read(
                    level, stage, int(slots.begins[low]), int(ends[high - 1])
                ):
                    places, columns = np.searchsorted(ends, some), self._columns(rows)
                    copies[places] = rows.shape[1] if self.summed else 1
                    values[places, : columns.shape[1]] = columns
                    known[places, : columns.shape[1]], out[places] = True, True
                for count in np.unique(copies[part][out[part]]).tolist():
                    width_of_sum = mechanism.figure_interval(level, stage, self.beta, copies=count)
                    around[part][copies[part] == count] = width_of_sum
                status[part] = STATUSES.index(mechanism.levels[level].status(stage))
                at = self.first_tick + ends[part] + stages[stage].lag
                published[part] = self.description.ticks.starts_of(at)
            until = max(until, reached)
        half_widths = np.where(known, around[:, np.newaxis], 0)
        whole = slots.figures(values, half_widths, known, status, published)
        if out.all():
            return whole
        others = np.flatnonzero(~out)
        computed = self._windows(slots.chosen(others), steps)
        for name in Figures.__slots__:
            getattr(whole, name)[others] = getattr(computed, name)
        return whole

    def _columns(self, rows: Numbers) -> Numbers:
        """Values of keys as columns: theirs, or their sum."""
        return rows.sum(axis=1, keepdims=True) if self.summed else rows

    def _read(
        self, level: int, stage: int, first: int, end: int
    ) -> Iterator[tuple[Numbers, Numbers]]:
        """The figures of the blocks in the positions ``first + 1 .. end``: ends and values. All of
        them must be there, but for those of void blocks; announced differences are looked up one by
        one (:meth:`_Fetched.at`)."""
        calendar = self.calendar
        assert calendar is not None
        begin = self.first_tick
        void = sum(number == level and first < at <= end for number, at in self.voids)
        lacking = calendar.count(level, first, end) - void
        for row in self.source.rows(level, stage, begin + first, begin + end):
            ends = calendar.edges(level, row.first_tick - begin, row.end_tick - begin)
            if len(ends) != len(row.values):
                raise _incomplete()
            part = slice(*np.searchsorted(ends, [first, end], side="right").tolist())
            if part.start < part.stop:
                lacking -= part.stop - part.start
                yield ends[part], row.values[part]
        if lacking > 0 and stage != ANNOUNCED:
            raise _incomplete()

    # Views
    # --------------------------------------------------------------------------------------------
    def _windows(self, slots: _Slots, steps: int | Numbers) -> Figures:
        """The counts of any slots, from what was public after so many steps."""
        if not len(slots.ends):
            return no_figures(self._width)
        if isinstance(self.description.mechanism, Blocks):
            public = np.broadcast_to(steps, slots.ends.shape)
            lost = np.searchsorted(sorted(set(self.voids.values())), public)
            order = np.argsort(lost, kind="stable")  # by what was void then
            cuts = np.flatnonzero(np.diff(lost[order])) + 1
            parts = [
                self._from_blocks(slots.chosen(some), public[some])
                for part in np.split(order, cuts)
                for some in np.split(part, range(AT_ONCE, len(part), AT_ONCE))
            ]
            return Figures.joined(parts).chosen(np.argsort(order, kind="stable"))
        return self._from_totals(slots)

    def _from_blocks(self, slots: _Slots, steps: Numbers) -> Figures:
        mechanism, calendar = self.description.mechanism, self.calendar
        assert isinstance(mechanism, Blocks)
        assert calendar is not None
        shape = len(slots.ends), self._width
        values, bounds, moved = np.zeros(shape, dtype=np.int64), np.zeros(shape), np.zeros(shape)
        known, final = np.zeros(shape, dtype=np.bool_), np.ones(len(slots.ends), dtype=np.bool_)
        partial, published = slots.partial.copy(), np.zeros_like(slots.ends)
        latest = steps.max(initial=0)
        missing = frozenset(void for void, step in self.voids.items() if step < latest)
        groups = [*self.key_steps, (len(self.keys), 0)]
        parts: list[tuple[Views, int]] = []
        for (position, step), (after, _) in pairwise(groups):
            since = calendar.end(0, step) if step else 0
            begins = np.maximum(slots.begins, since)
            views = views_of(
                mechanism,
                np.minimum(begins, slots.ends),
                slots.ends,
                steps,
                calendar=calendar,
                since=since,
                missing=missing,
            )
            keys = slice(position, after)
            columns = slice(0, 1) if self.summed else keys
            counts, added = views.rounded(_Fetched(self, views, keys))
            values[:, columns] += counts
            moved[:, columns] += added
            there = since < np.maximum(slots.ends, 1)
            known[:, columns] |= there[:, np.newaxis]
            parts = [*parts, (views, after - position)] if self.summed else [(views, 1)]
            if not self.summed or after == len(self.keys):
                bounds[:, columns] = bounds_of_sums(parts, self.beta)[:, np.newaxis]
            final &= views.final
            published = np.maximum(published, views.published)
            if not position:
                partial |= (views.reached < slots.ends) | (views.begun > slots.begins)
        status = np.where(final & ~partial, FINAL, PROVISIONAL)
        public = self.description.ticks.starts_of(self.first_tick + published)
        around = half_widths_around(bounds, moved)
        return replace(slots, partial=partial).figures(values, around, known, status, public)

    def _from_totals(self, slots: _Slots) -> Figures:
        """Differences of two running totals; noise that is in both cancels."""
        mechanism, delay = self.description.mechanism, self._delay
        begins, ends = (np.where(each > 0, each + delay, 0) for each in (slots.begins, slots.ends))
        steps, places = np.unique(np.concatenate([begins, ends]), return_inverse=True)
        totals, widths = self._totals_after(steps)
        low, high = places[: len(begins)], places[len(begins) :]
        values, keys = totals[high] - totals[low], np.arange(len(self.keys))
        known = (keys < widths[high][:, np.newaxis]) & (ends > 0)[:, np.newaxis]
        late = known & (keys >= widths[low][:, np.newaxis]) & (begins > 0)[:, np.newaxis]
        starts = begins, np.zeros_like(begins)  # declared inside of a slot: nothing cancels
        if self.summed:
            values = np.where(known, values, 0).sum(axis=1, keepdims=True)
            copies = np.stack([(known & ~late).sum(axis=1), late.sum(axis=1)], axis=1)
            pairs = np.stack(starts, axis=1), np.stack((ends, ends), axis=1)
            around = mechanism.half_widths(*pairs, beta=self.beta, copies=copies)[:, np.newaxis]
            known = copies.sum(axis=1, keepdims=True) > 0
        else:
            each, whole = (mechanism.half_widths(start, ends, beta=self.beta) for start in starts)
            around = np.where(late, whole[:, np.newaxis], each[:, np.newaxis])
        around[~known], values[~known] = 0, 0
        status = np.where(slots.partial, PROVISIONAL, FINAL)
        public = self.description.ticks.starts_of(self.first_tick + ends)
        return slots.figures(values, around, known, status, public)

    def _totals_after(self, steps: Numbers) -> tuple[Numbers, Numbers]:
        """The running totals after some steps (rising), and how many keys each has; 0 after step
        0."""
        totals = np.zeros((len(steps), len(self.keys)), dtype=np.int64)
        widths = np.zeros(len(steps), dtype=np.int64)
        wanted = steps[steps > 0]
        if not len(wanted):
            return totals, widths
        if self.kept and wanted[0] + self.first_tick - 1 < self.kept[0]:
            raise self.removed()
        found, skip = 0, len(steps) - len(wanted)
        first, last = (int(each) + self.first_tick for each in (wanted[0] - 1, wanted[-1]))
        for row in self.source.rows(0, 0, first, last):
            begin = row.first_tick - self.first_tick + 1
            low, high = np.searchsorted(wanted, [begin, begin + len(row.values)]).tolist()
            some = row.values[wanted[low:high] - begin]
            totals[skip + low : skip + high, : some.shape[1]] = some
            widths[skip + low : skip + high] = some.shape[1]
            found += high - low
        if found < len(wanted):
            raise _incomplete()
        return totals, widths

    def removed(self) -> RemovedError:
        """The error for a question about what was removed."""
        shown = self.description.ticks.shown(self.first_tick + self._earliest())
        return RemovedError(
            f"figures of stream {self.description.name!r} before {shown} were removed, got an"
            " earlier time; ask from then on"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Slots:
    """Slots of time: positions where they begin and end (as far as they are public), when they
    begin and end in Unix seconds, and which of them are not over or were cut."""

    begins: Numbers
    ends: Numbers
    starts_at: Numbers
    ends_at: Numbers
    partial: NDArray[np.bool_]

    def chosen(self, part: slice | NDArray[Any]) -> _Slots:
        """Some of them."""
        return _Slots(**{name: getattr(self, name)[part] for name in self.__slots__})

    def figures(
        self,
        values: Numbers,
        half_widths: Numbers,
        known: NDArray[np.bool_],
        status: Numbers,
        published: Numbers,
    ) -> Figures:
        """The figures of these slots."""
        return Figures(
            starts=self.starts_at,
            ends=self.ends_at,
            values=values,
            half_widths=half_widths,
            known=known,
            status=status,
            published=published,
            partial=self.partial,
        )

    def beginning_in(self, first: int, end: int) -> _Slots:
        """Those that begin in the positions from ``first`` to before ``end``."""
        return self.chosen(slice(*np.searchsorted(self.begins, [first, end]).tolist()))


class _Fetched:
    """The figures that some views need, for some keys."""

    def __init__(self, published: Published, views: Views, columns: slice) -> None:
        self.keys = 1 if published.summed else columns.stop - columns.start
        self._columns: dict[tuple[int, int], tuple[Numbers, Numbers, Numbers]] = {}
        for (level, stage), ranges in views.needs().items():
            below = level - (stage == ANNOUNCED)  # differences go with the children
            kept = published.kept[below] - published.first_tick if published.kept else 0
            if len(ranges) and ranges[0, 0] < kept:
                raise published.removed()
            pieces = [
                piece
                for first, end in ranges
                for piece in published._read(level, stage, int(first), int(end))
            ]
            ends = np.concatenate([ends for ends, _ in pieces]) if pieces else np.zeros(0, np.int64)
            values = np.zeros((len(ends), self.keys), dtype=np.int64)
            at = 0
            for some, rows in pieces:
                chosen = published._columns(rows[:, columns])
                values[at : at + len(some), : chosen.shape[1]] = chosen
                at += len(some)
            sums = np.zeros((len(ends) + 1, self.keys), dtype=np.int64)
            np.cumsum(values, axis=0, out=sums[1:])
            self._columns[level, stage] = ends, values, sums

    def sums(self, level: int, stage: int, ends: Numbers) -> Numbers:
        known, _, sums = self._columns[level, stage]
        return sums[np.searchsorted(known, ends, side="right")]

    def at(self, level: int, stage: int, ends: Numbers) -> Numbers:
        known, values, _ = self._columns[level, stage]
        places = np.searchsorted(known, ends)
        if len(ends) and (
            not len(known) or np.any(known[np.minimum(places, len(known) - 1)] != ends)
        ):
            raise _incomplete()
        return values[places]


def first_per(description: Description) -> str:
    """What people read first of a stream: the slots in which keys appear, or in which each person
    counts once; else days, or the largest blocks below a day; else running totals."""
    if description.hidden is not None:
        return description.hidden.discovery.per
    levels = description.levels
    if description.unit.distinct_per or not levels:
        return description.unit.distinct_per or TOTAL
    below = [level for level in levels if not level.endswith(("mo", "y"))]
    return "1d" if "1d" in levels else (below or levels)[-1]


def require_sum(description: Description, per: str) -> None:
    """Refuse slots in which distinct persons do not add up: the same people come every day."""
    slot = description.unit.distinct_per
    if slot is None:
        return
    if per == TOTAL or parse_duration(per, name="per") > parse_duration(slot):
        raise bad_parameter(
            "per",
            per,
            f"at most {slot}: each person counts once per {description.unit.slot}, and distinct"
            " persons do not add up",
            "a stream with one person per that time counts them",
        )


def require_level(description: Description, per: str) -> int:
    """The level of a length, or a refusal that names those that the stream publishes."""
    if per in description.levels:
        return description.levels.index(per)
    names = ", ".join(description.levels) or TOTAL
    remedy = "other slots are computed from them: ask when the run is over"
    raise bad_parameter("per", per, f"{names}, which the stream publishes", remedy)


def loss_steps(description: Description) -> list[tuple[int, str]]:
    """The ages in ticks at which the loss of a stream grows, with what causes it; of a smooth curve
    some ages."""
    mechanism, hidden = description.mechanism, description.hidden
    if hidden is not None:
        causes = dict(loss_steps(replace(description, hidden=None)))
        for number, (lag, _) in enumerate(hidden.discovery.stages, start=1):
            text, age = f"keys that appear, stage {number}", lag + description.open_ticks
            causes[age] = f"{causes[age]}; {text}" if age in causes else text
        return sorted(causes.items())
    if not isinstance(mechanism, Blocks):
        seconds = description.ticks.tick_seconds
        lengths = [UNITS[unit] for unit in ("h", "d", "w", "mo", "y")] + [10 * UNITS["y"]]
        ages = sorted({0, *(max(1, length // seconds) for length in lengths)})
        return [(age, "totals") for age in ages]
    return mechanism.loss_steps(description.ticks.tick_seconds)


def no_figures(width: int) -> Figures:
    """No slots, of so many keys."""
    times, numbers = np.zeros(0, dtype=np.int64), np.zeros((0, width), dtype=np.int64)
    flags = np.zeros((0, width), dtype=np.bool_)
    return Figures(
        starts=times,
        ends=times,
        values=numbers,
        half_widths=numbers,
        known=flags,
        status=times,
        published=times,
        partial=np.zeros(0, dtype=np.bool_),
    )


def _incomplete() -> StoreError:
    return StoreError("stored figures are incomplete; take an intact copy of the store")
