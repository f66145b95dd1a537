"""What a stream has published, and views of it: figures per hour or day, totals, so far today, any
window; means of two streams.

Everything here is computed from published figures, so it costs no privacy. It is the same for a
store and for a stream that is kept nowhere: both give rows of figures (``FigureSource``).

``as_of`` is a tick: everything that was public when that tick began. By default it is the end of
what is published.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from fadecount.calendar import Calendar, Length
from fadecount.durations import parse_duration
from fadecount.errors import RemovedError, StoreError, bad_parameter
from fadecount.mechanisms import Blocks, RunningTotal
from fadecount.mechanisms.noise_distribution import quantiles
from fadecount.mechanisms.views import Views, half_widths_of_sums, views_of
from fadecount.streams.description import TOTAL, Description
from fadecount.streams.discovery import DISCOVERED
from fadecount.streams.figures import FigureRows, FigureSource, earliest_step

BETA = 0.05
"""Intervals hold the true count with at least 95 %."""
AT_ONCE = 4096
"""How many windows are computed together."""
_GAP = 16
"""Running totals that are farther apart than this are read one by one."""
Table = dict[str, NDArray[Any]]
"""Columns of one length: start, end, key, value, low, high, status, partial, published, and for
keys that appeared by themselves ``appeared``. Times are Unix seconds."""
COLUMNS = ("start", "end", "key", "value", "low", "high", "status", "partial", "published")
PROVISIONAL, REVISED, FINAL = 0, 1, 2
STATUSES = ("provisional", "revised", "final")
Numbers = NDArray[np.int64]
NO_TIMES: Numbers = np.zeros(0, dtype=np.int64)


# Figures of slots of time
# ------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Slots:
    """Slots of time: where they begin and end in Unix seconds, and as positions (steps after the
    stream began) as far as they are public. A ``partial`` slot is not covered from its beginning to
    its end."""

    starts: Numbers
    ends: Numbers
    begins: Numbers
    reached: Numbers
    partial: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.starts)

    def chosen(self, part: slice | NDArray[Any]) -> Self:
        """Some of the slots."""
        return type(self)(**{each.name: getattr(self, each.name)[part] for each in fields(self)})

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        """The slots of several tables, one after the other."""
        names = [each.name for each in fields(cls)]
        return cls(**{name: np.concatenate([getattr(e, name) for e in parts]) for name in names})

    def figures(self, **columns: NDArray[Any]) -> Figures:
        """The figures of these slots."""
        return Figures(**{each.name: getattr(self, each.name) for each in fields(Slots)}, **columns)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Figures(Slots):
    """Counts of slots of time, in the shape (slots, keys), with their 95 % intervals.

    ``status`` is an index of ``STATUSES``: a value that nothing can change any more is final.
    ``published`` is when the last part of it became public. Where ``known`` is false, the key was
    not declared in time. Values may be negative, since noise is.
    """

    values: Numbers
    half_widths: Numbers
    known: NDArray[np.bool_]
    status: Numbers
    published: Numbers

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

    def table(self, keys: Sequence[str | None], positions: Sequence[int] | None = None) -> Table:
        """The figures as columns, without keys that were not declared in time. The key None is the
        sum over all of them. ``positions`` chooses the keys (default: all of them)."""
        wanted = range(len(keys)) if positions is None else positions
        chosen = [at for at in wanted if at < self.values.shape[1]]
        width, known = len(chosen), self.known[:, chosen].ravel()
        columns = (
            np.repeat(self.starts, width),
            np.repeat(self.ends, width),
            np.tile(np.array(keys, dtype=object)[chosen], len(self)),
            self.values[:, chosen].ravel(),
            self.low[:, chosen].ravel(),
            self.high[:, chosen].ravel(),
            np.repeat(np.array(self.shown_status, dtype=object), width),
            np.repeat(self.partial, width),
            np.repeat(self.published, width),
        )
        return {name: column[known] for name, column in zip(COLUMNS, columns, strict=True)}


def no_figures(width: int) -> Figures:
    """No slots, of so many keys."""
    numbers, none = np.zeros((0, width), dtype=np.int64), np.zeros(0, dtype=np.bool_)
    times = {"starts": NO_TIMES, "ends": NO_TIMES, "begins": NO_TIMES, "reached": NO_TIMES}
    return Slots(**times, partial=none).figures(
        values=numbers,
        half_widths=numbers,
        known=numbers.astype(np.bool_),
        status=NO_TIMES,
        published=NO_TIMES,
    )


def joined_table(tables: Iterable[Table]) -> Table:
    """The rows of some tables with the same columns, of which there is at least one."""
    parts = list(tables)
    return {name: np.concatenate([each[name] for each in parts]) for name in parts[0]}


# What a stream has published
# ------------------------------------------------------------------------------------------------
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


def _half_widths(distributions: Sequence[Sequence[tuple[float, int]]]) -> list[int]:
    """Half widths of 95 % intervals of sums of figures of hidden keys: budgets, and how many."""
    noises = [
        tuple((Fraction(1), epsilon, count) for epsilon, count in distribution)
        for distribution in distributions
    ]
    return [int(each) for each in quantiles(noises, BETA)] if noises else []


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """What one series has published: ``steps`` ticks from ``first_tick`` on, and before
    ``end_tick``, if its measure ends.

    ``key_steps`` are (position, step) of the first of the keys that were declared together.
    """

    description: Description
    keys: tuple[str, ...]
    first_tick: int
    steps: int
    source: FigureSource
    calendar: Calendar | None = None
    end_tick: int | None = None
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
        whole: bool = False,
        most: int | None = None,
    ) -> Figures:
        """The count of every slot of the length ``per`` (``1h``, ``1d``, ``1w``, ``1mo``) that
        begins in the ticks from ``since`` to before ``until``, or of the first ``most`` of them.
        With ``news_since``, only of those whose figures (or parts of them) became public with that
        tick or later; with ``whole``, of those that are over and, if they are blocks of a level,
        have a figure of their own.

        A slot that is a block of a level has the published figure, at its latest stage. Any other
        one is computed from the figures that cover it. The slot that is not over yet is partial.
        """
        self.description.require_sum(per)
        steps = self._steps(as_of)
        first = self._first_kept() if since is None else max(self.first_tick, since)
        end = self.first_tick + steps if until is None else min(until, self.first_tick + steps)
        if first >= end:
            return no_figures(self._width)
        level = self.description.level(per)
        if level is not None and self.kept:
            first = max(first, self.kept[level])
        begin, stop = first - self.first_tick, min(end - self.first_tick, self._shown(steps))
        if most is not None:
            stop = min(stop, begin + 2 * (most + 1) * self._nominal(per))
        slots = self._slots(per, begin, stop, steps)
        slots = slots.chosen(slots.begins >= begin).chosen(slice(most))
        if news_since is not None:
            slots = slots.chosen(
                slots.reached + self._settling(level) > news_since - self.first_tick
            )
        if whole:
            slots = slots.chosen(
                ~slots.partial
                if level is None
                else self._is_out(level, slots, np.full(len(slots), steps))
            )
        figures = self._windows(slots, steps, level)
        if news_since is None:
            return figures
        return figures.chosen(figures.published > self.description.ticks.start_seconds(news_since))

    def _settling(self, level: int | None) -> int:
        """So many steps after a slot nothing of it can become public any more."""
        mechanism = self.description.mechanism
        if not isinstance(mechanism, Blocks):
            return self._delay
        return mechanism.levels[-1 if level is None else level].stages[-1].lag

    def check_per(self, per: str) -> None:
        """Refuse a length of slots that figures cannot give."""
        self.description.require_sum(per)
        if per != TOTAL and self.description.level(per) is None:
            self._slots(per, 0, self.steps, self.steps)

    def totals(
        self,
        ticks: Sequence[int] | Numbers,
        *,
        as_published: bool = False,
        as_of: int | None = None,
    ) -> Figures:
        """The total since the stream began up to before each of these ticks: as known now, or as it
        was published when that tick began."""
        self.description.require_sum(TOTAL)
        wanted = np.asarray(ticks, dtype=np.int64)
        steps = self._steps(as_of)
        ends = np.minimum(wanted - self.first_tick, steps)
        if len(wanted) and int(ends.min()) < 0:
            shown = self.description.ticks.local
            raise bad_parameter(
                "time",
                shown(int(wanted.min())),
                f"at or after {shown(self.first_tick)}, where the stream began",
                "ask for a later time",
            )
        public = ends if as_published else steps
        reached = np.maximum(0, np.minimum(ends, self._shown(public)))
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
        self.description.require_sum(per)
        steps = self._steps(as_of)
        shown = self._shown(steps)
        if shown < steps - self._delay:  # the measure has ended
            return no_figures(self._width)
        # the tick that is open is in the slot, and not counted
        slots = self._slots(per, shown, shown + 1, steps)
        return self._windows(replace(slots, partial=np.ones_like(slots.partial)), steps)

    def window(self, first: int, end: int, *, as_of: int | None = None) -> Figures:
        """The count of the ticks from ``first`` to before ``end``, of which what is published
        counts."""
        if self.description.block_of(first) != self.description.block_of(max(first, end - 1)):
            self.description.require_sum(TOTAL)
        return self._window(first, end, self._steps(as_of))

    def _window(self, first: int, end: int, steps: int) -> Figures:
        shown = self._shown(steps)
        start, last = max(0, first - self.first_tick), min(end - self.first_tick, shown)
        if last < start:
            return no_figures(self._width)
        whole = first >= self.first_tick and end - self.first_tick <= shown
        slots = self._between(np.array([start]), np.array([last]))
        return self._windows(replace(slots, partial=np.array([not whole])), steps)

    def discovered(
        self,
        *,
        since: int | None = None,
        until: int | None = None,
        as_of: int | None = None,
        news_since: int | None = None,
    ) -> Table:
        """The keys that appeared by themselves on the days that begin in the ticks from ``since``
        to before ``until``, one row for each day and key, at its latest stage: noisy numbers of
        persons. ``appeared`` is when the key of that day was shown first. With ``news_since``, only
        what became public with that tick or later.

        Nothing tells a key that is still hidden from one that nobody brought. An interval is that
        of the noise, whether or not the key is shown. A key that was shown with a count near its
        threshold was helped by its noise: such counts lean high until the next stage.
        """
        tables = [
            self._day(rows)
            for rows in self._key_figures(since, until, self._steps(as_of))
            if news_since is None or self._public(rows[-1]) > news_since
        ]
        return joined_table([no_figures(0).table(()) | {"appeared": NO_TIMES}, *tables])

    def _key_figures(
        self, since: int | None, until: int | None, steps: int
    ) -> Iterator[list[FigureRows]]:
        """For each day the public figures of hidden keys, by stage."""
        hidden, end = self.description.hidden, self.first_tick + steps
        if hidden is None:
            return
        level, first = self.description.level(hidden.discovery.per), self.first_tick
        if self.kept and level is not None:
            first = self.kept[level]
        begin = first if since is None else max(first, since)
        stop = end if until is None else min(end, until)
        days: dict[int, list[FigureRows]] = {}
        for stage in range(len(hidden.discovery.stages)):
            for rows in self.source(DISCOVERED, stage, begin, stop):
                if rows.first_tick >= begin and self._public(rows) <= end:
                    days.setdefault(rows.first_tick, []).append(rows)
        yield from (days[day] for day in sorted(days))

    def _public(self, rows: FigureRows) -> int:
        return self.description.public_tick(rows.stage, rows.end_tick)

    def _day(self, figures: Sequence[FigureRows]) -> Table:
        """The keys of a day at its latest stage, and when each was shown first."""
        hidden, ticks, last = self.description.hidden, self.description.ticks, figures[-1]
        assert hidden is not None
        times = [ticks.start_seconds(self._public(each)) for each in figures]
        appeared: dict[str, int] = {}
        for each, time in zip(reversed(figures), reversed(times), strict=True):
            appeared.update(dict.fromkeys(each.keys, time))
        stages = hidden.discovery.stages
        status = FINAL if last.stage == len(stages) - 1 else min(last.stage, REVISED)
        span = np.array([last.first_tick, last.end_tick]) - self.first_tick
        slot = self._between(span[:1], span[1:])
        around = _half_widths([((stages[last.stage][1], 1),)])[0]
        table = slot.figures(
            values=last.values,
            half_widths=np.full_like(last.values, around),
            known=np.ones(last.values.shape, dtype=np.bool_),
            status=np.array([status]),
            published=np.array([times[-1]]),
        ).table(last.keys)
        return table | {"appeared": np.array([appeared[key] for key in last.keys], dtype=np.int64)}

    def top(self, *, since: int | None = None, until: int | None = None) -> list[Ranked]:
        """The keys of the days that begin in the ticks from ``since`` to before ``until``, largest
        first: those that are declared, and those that appeared, with the days on which they did.
        Over several days, persons count once on each."""
        hidden, steps = self.description.hidden, self.steps
        end = self.first_tick + steps if until is None else until
        ranked: list[Ranked] = []
        declared = self._window(self.first_tick if since is None else since, end, steps)
        for at, key in enumerate(self.keys if len(declared) else ()):
            if declared.known[0, at]:
                around = int(declared.half_widths[0, at])
                ranked.append(Ranked(key=key, value=int(declared.values[0, at]), around=around))
        sums: dict[str, tuple[int, Counter[float]]] = {}
        for *_, rows in self._key_figures(since, until, steps):
            assert hidden is not None
            epsilon = hidden.discovery.stages[rows.stage][1]
            for key, value in zip(rows.keys, rows.values[0].tolist(), strict=True):
                total, noises = sums.get(key, (0, Counter()))
                noises[epsilon] += 1
                sums[key] = total + value, noises
        distributions = [tuple(sorted(noises.items())) for _, noises in sums.values()]
        for (key, (value, noises)), around in zip(
            sums.items(), _half_widths(distributions), strict=True
        ):
            ranked.append(Ranked(key=key, value=value, around=around, days=noises.total()))
        ranked.sort(key=lambda each: (-each.value, each.key))
        for above, below in pairwise(ranked):
            above.close = above.low <= below.high
        return ranked

    # Slots
    # --------------------------------------------------------------------------------------------
    def _steps(self, as_of: int | None) -> int:
        """How many steps are public as of a tick. One that is not over, or before which figures
        were removed, is refused."""
        if as_of is None:
            return self.steps
        shown = self.description.ticks.local
        earliest, end = self.first_tick + self._earliest(), self.first_tick + self.steps
        if self.first_tick <= as_of < earliest:
            raise self.removed()
        if not earliest <= as_of <= end:
            bound = f"from {shown(earliest)} to {shown(end)}"
            late = "later figures are not public yet"
            remedy = late if as_of > end else "the stream begins there"
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
        return earliest_step(self.description.mechanism, self.first_tick, self.kept)

    def _nominal(self, per: str) -> int:
        """About how many ticks a slot of a length has."""
        return max(1, parse_duration(per, name="per") // self.description.ticks.tick_seconds)

    def _slots(self, per: str, first: int, stop: int, steps: int) -> Slots:
        """The slots of a length that hold positions from ``first`` to before ``stop``, as far as
        they are public after so many steps (running totals with a delay: as far as they are
        shown)."""
        ticks, level, calendar = self.description.ticks, self.description.level(per), self.calendar
        shown = self._shown(steps)
        if not 0 <= first < stop:
            return self._between(NO_TIMES, NO_TIMES)
        if level is None:
            known = None if calendar is None else calendar.midnights
            windows = Calendar((length := Length.of(per),), ticks, self.first_tick, known)
            fits = length.can_hold(ticks)
            positions = windows.around(0, first, stop) if fits else NO_TIMES
            inside = positions[(positions >= 0) & (positions < max(stop, shown))]
            self._require_whole(per, inside, fits=fits and windows.is_whole(0, inside))
        else:
            assert calendar is not None
            positions = np.maximum(calendar.around(level, first, stop), 0)
        edges = ticks.starts_of(self.first_tick + positions)
        return Slots(
            starts=edges[:-1],
            ends=edges[1:],
            begins=np.maximum(positions[:-1], 0),
            reached=np.minimum(positions[1:], shown),
            partial=(edges[:-1] < ticks.start_seconds(self.first_tick)) | (positions[1:] > shown),
        )

    def _require_whole(self, per: str, positions: Numbers, *, fits: bool) -> None:
        """Refuse slots with an edge inside a tick, or inside a block of the smallest level."""
        ticks, calendar = self.description.ticks, self.calendar
        if not fits:
            bound = f"made of whole ticks of {ticks.tick_seconds} s"
            remedy = "give a multiple of the tick, in a zone whose days begin where a tick begins"
            raise bad_parameter("per", per, bound, remedy)
        if calendar is not None and np.any(calendar.frontier(0, positions) != positions):
            levels = self.description.levels
            remedy = f"the stream publishes {', '.join(levels)}"
            raise bad_parameter("per", per, f"made of whole blocks of {levels[0]}", remedy)

    def _between(self, begins: Numbers, ends: Numbers) -> Slots:
        starts_of, first = self.description.ticks.starts_of, self.first_tick
        return Slots(
            starts=starts_of(first + begins),
            ends=starts_of(first + ends),
            begins=begins,
            reached=ends,
            partial=np.zeros(len(begins), dtype=np.bool_),
        )

    def _shown(self, steps: Any) -> Any:
        """Up to which position slots are shown after so many steps."""
        shown = steps - self._delay
        if self.end_tick is None:
            return shown
        last = self.end_tick - self.first_tick
        return np.minimum(shown, last) if isinstance(shown, np.ndarray) else min(shown, last)

    @property
    def _delay(self) -> int:
        mechanism = self.description.mechanism
        return 0 if isinstance(mechanism, Blocks) else mechanism.delay

    # Views
    # --------------------------------------------------------------------------------------------
    def _windows(self, slots: Slots, steps: int | Numbers, level: int | None = None) -> Figures:
        """The counts of any slots, from what was public after so many steps. Slots that are blocks
        of a ``level`` have its figures, at their latest stages, as soon as these are out."""
        if not len(slots):
            return no_figures(self._width)
        if self.calendar is None:
            return self._from_totals(slots)
        public = np.broadcast_to(steps, slots.reached.shape)
        own = np.zeros(len(slots), dtype=np.bool_)
        if level is not None:
            own = self._is_out(level, slots, public)
        order = np.argsort(own, kind="stable")
        cuts = np.flatnonzero(np.diff(own[order])) + 1
        parts = [
            self._from_blocks(slots.chosen(some), public[some], level if own[some[0]] else None)
            for part in np.split(order, cuts)
            for some in np.split(part, range(AT_ONCE, len(part), AT_ONCE))
        ]
        return Figures.joined(parts).chosen(np.argsort(order, kind="stable"))

    def _is_out(self, level: int, slots: Slots, steps: Numbers) -> NDArray[np.bool_]:
        """Which of these blocks of a level have a figure."""
        mechanism, calendar = self.description.mechanism, self.calendar
        assert isinstance(mechanism, Blocks)
        assert calendar is not None
        reached = calendar.out(level, np.maximum(0, steps - mechanism.levels[level].lag))
        out: NDArray[np.bool_] = ~slots.partial & (slots.reached <= reached)
        return out

    def _from_blocks(self, slots: Slots, steps: Numbers, level: int | None) -> Figures:
        mechanism, calendar, ends = self.description.mechanism, self.calendar, slots.reached
        assert isinstance(mechanism, Blocks)
        assert calendar is not None
        if level is not None:
            mechanism = _up_to(mechanism, level)
        shape = len(slots), self._width
        values, half_widths = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.int64)
        known, final = np.zeros(shape, dtype=np.bool_), np.ones(len(slots), dtype=np.bool_)
        partial, published = slots.partial.copy(), np.zeros_like(ends)
        revised = np.zeros(len(slots), dtype=np.bool_)
        groups = [*self.key_steps, (len(self.keys), 0)]
        parts: list[tuple[Views, int]] = []
        for (position, step), (after, _) in pairwise(groups):
            since = calendar.end(level or 0, step) if step else 0
            begins = np.minimum(np.maximum(slots.begins, since), ends)
            views = views_of(mechanism, begins, ends, steps, calendar=calendar, since=since)
            keys = slice(position, after)
            columns = slice(0, 1) if self.summed else keys
            values[:, columns] += views.values(_Fetched(self, views, keys))
            exist = since < np.maximum(ends, 1)
            known[:, columns] |= exist[:, np.newaxis]
            parts = [*parts, (views, after - position)] if self.summed else [(views, 1)]
            if not self.summed or after == len(self.keys):
                widths = half_widths_of_sums(parts, self.beta)
                half_widths[:, columns] = widths[:, np.newaxis]
            final &= views.final
            published = np.where(exist, np.maximum(published, views.published), published)
            if not position:
                partial |= (views.reached < ends) | (views.begun > slots.begins)
                for run in views.runs if level is not None else ():
                    revised[run.windows] |= run.level == level and run.stage > 0
        return replace(slots, partial=partial).figures(
            values=values,
            half_widths=half_widths,
            known=known,
            status=np.where(final & ~partial, FINAL, np.where(revised, REVISED, PROVISIONAL)),
            published=self.description.ticks.starts_of(self.first_tick + published),
        )

    def _from_totals(self, slots: Slots) -> Figures:
        """Differences of two running totals; noise that is in both cancels."""
        mechanism, delay = self.description.mechanism, self._delay
        assert isinstance(mechanism, RunningTotal)
        begins, ends = (
            np.where(each > 0, each + delay, 0) for each in (slots.begins, slots.reached)
        )
        wanted = np.sort(np.concatenate([begins[begins > 0], ends[ends > 0]]))
        parts = np.split(wanted, np.flatnonzero(np.diff(wanted) > _GAP) + 1)
        spans = [(int(part[0]) - 1, int(part[-1])) for part in parts if len(part)]
        steps, totals = self._read(0, 0, spans)
        totals = np.concatenate([np.zeros((1, self._width), dtype=np.int64), totals])
        low, high = (np.searchsorted(np.append(0, steps), each) for each in (begins, ends))
        positions, declared = np.array([*self.key_steps, (len(self.keys), 0)]).T
        before, width = (positions[np.searchsorted(declared[:-1], each)] for each in (begins, ends))
        # of keys declared inside of a slot nothing cancels
        late = np.where(begins > 0, width - before, 0)
        starts = begins, np.zeros_like(begins)
        if self.summed:
            copies = np.stack([width - late, late], axis=1)
            pairs = np.stack(starts, axis=1), np.stack((ends, ends), axis=1)
            around = mechanism.half_widths(*pairs, beta=self.beta, copies=copies)[:, np.newaxis]
            known = width[:, np.newaxis] > 0
        else:
            keys = np.arange(self._width)
            known = keys < width[:, np.newaxis]
            each, whole = (mechanism.half_widths(start, ends, beta=self.beta) for start in starts)
            is_late = keys >= (width - late)[:, np.newaxis]
            around = np.where(is_late, whole[:, np.newaxis], each[:, np.newaxis])
        return slots.figures(
            values=np.where(known, totals[high] - totals[low], 0),
            half_widths=np.where(known, around, 0),
            known=known,
            status=np.where(slots.partial, PROVISIONAL, FINAL),
            published=self.description.ticks.starts_of(self.first_tick + ends),
        )

    def _read(
        self, level: int, stage: int, ranges: Sequence[tuple[int, int]], keys: slice = slice(None)
    ) -> tuple[Numbers, Numbers]:
        """The figures of the blocks in the positions ``first + 1 .. end`` of some ranges: their
        ends, and their values for some keys (or the sum of these). All of them must be there."""
        begin = self.first_tick
        kept = self.kept[level] if self.kept else begin
        pieces, row = [], None
        for first, end in ranges:
            if first + begin < kept:
                raise self.removed()
            lacking = len(self._edges(level, first, end))
            if row is None or not row.first_tick <= begin + first < begin + end <= row.end_tick:
                rows = self.source(level, stage, begin + first, begin + end)
            else:
                rows = [row]
            for row in rows:
                ends = self._edges(level, row.first_tick - begin, row.end_tick - begin)
                if len(ends) != len(row.values):
                    raise _incomplete()
                part = slice(*np.searchsorted(ends, [first, end], side="right").tolist())
                lacking -= len(ends[part])
                pieces.append((ends[part], row.values[part, keys]))
            if lacking > 0:
                raise _incomplete()
        width = 1 if self.summed else len(range(len(self.keys))[keys])
        ends = np.concatenate([NO_TIMES, *(some for some, _ in pieces)])
        values, at = np.zeros((len(ends), width), dtype=np.int64), 0
        for some, piece in pieces:
            part = slice(at, at := at + len(some))
            chosen = piece.sum(axis=1, keepdims=True) if self.summed else piece
            values[part, : chosen.shape[1]] = chosen
        return ends, values

    def _edges(self, level: int, first: int, end: int) -> Numbers:
        """The ends of blocks in the positions ``first + 1 .. end``; of totals, all positions."""
        if self.calendar is None:
            return np.arange(first + 1, end + 1, dtype=np.int64)
        return self.calendar.edges(level, first, end)

    def removed(self) -> RemovedError:
        """The error for a question about what was removed."""
        shown = self.description.ticks.local(self.first_tick + self._earliest())
        return RemovedError(
            f"figures of stream {self.description.name!r} before {shown} were removed, got an"
            " earlier time; ask from then on"
        )


class _Fetched:
    """The figures that some views need, for some keys."""

    def __init__(self, published: Published, views: Views, keys: slice) -> None:
        self.keys = 1 if published.summed else keys.stop - keys.start
        self._columns: dict[tuple[int, int], tuple[Numbers, Numbers]] = {}
        for (level, stage), ranges in views.needs().items():
            ends, values = published._read(level, stage, ranges.tolist(), keys)
            sums = np.zeros((len(ends) + 1, self.keys), dtype=np.int64)
            np.cumsum(values, axis=0, out=sums[1:])
            self._columns[level, stage] = ends, sums

    def sums(self, level: int, stage: int, ends: Numbers) -> Numbers:
        known, sums = self._columns[level, stage]
        return sums[np.searchsorted(known, ends, side="right")]


@lru_cache(maxsize=256)
def _up_to(mechanism: Blocks, level: int) -> Blocks:
    """The same without larger levels."""
    return Blocks(*mechanism.levels[: level + 1])


def _incomplete() -> StoreError:
    return StoreError("stored figures are incomplete; take an intact copy of the store")
