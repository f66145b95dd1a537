"""The running counter of block counters: the live total beside the figures.

The figures come from a :class:`~fadecount.counters.figures.FigureMaker`. The live total is the
*cover*, the sum of the largest figures that are out, plus the shares of announced differences
(:mod:`fadecount.mechanisms.views`). It changes by *jumps*. A figure that comes out takes the place
of what the cover held for its block: its own stage before, or its children at their last stage. All
of them are known when the block ends, so the jump is too. Of a tied block it is the difference that
the block announced.

``extend`` gives its counts to the maker. ``step`` looks ahead: the maker takes the next steps
without events. Figures are linear in the counts, so what a block really counted is added to its
figure when it ends, and carried up into the open block above; the jumps of larger blocks are pure
noise already, since the count of a block is that of its children.

What a state holds, and what whoever reads it learns: the live total, which is public; counts of
open blocks; figures under embargo, and jumps, which are differences of such figures; and noise of
blocks that have not ended yet. No true count outlives its block. The noise of a figure that is out
is in no number on its own: sums of such noises are differences of figures, and sums over the
children of open blocks, which their counts tell anyway.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any

import numpy as np

from fadecount.counters.counter import Counter, Rows
from fadecount.counters.figures import FigureMaker, Made, OpenBlock
from fadecount.counters.inputs import LARGEST_SUM, farthest, running_sums, sum_too_large
from fadecount.counters.state import MOST_AHEAD, Parts, damaged
from fadecount.errors import ParameterError
from fadecount.mechanisms import ANNOUNCED, Blocks, Figure, scale_of
from fadecount.noise import NoiseSource, Ratchet

_AT_ONCE = 1 << 19
_UNLIKELY = 64
"""No noise is farther away than so many times its scale (probability exp(-64))."""
_MOST_KEPT = 1 << 22
"""How many published numbers wait for :meth:`BlockCounter.figures`."""


def _wide(mechanism: Blocks, group: range) -> bool:
    """Whether multiples of the differences of a tied group may leave int64."""
    levels = [mechanism.levels[number] for number in group]
    scale = sum(scale_of(level.epsilon) * (levels[-1].length // level.length) for level in levels)
    whole = levels[-1].length // levels[0].length
    return len(group) > 1 and _UNLIKELY * scale * whole > 2.0**55


class BlockCounter(Counter):
    """A counter of :class:`fadecount.Blocks`; ``Counter(mechanism)`` gives one."""

    __slots__ = (
        *("_below", "_counted", "_eventful", "_first", "_jumps", "_kept", "_levels", "_maker"),
        *("_many", "_larger", "_noises", "_numbers", "_room", "_smallest"),
        *("_smallest_noises", "_tied", "_ties", "_waiting", "_wide"),
    )
    _mechanism: Blocks

    def _start(self, source: NoiseSource) -> None:
        self._levels, calendar = self._mechanism.levels, self._mechanism.calendar
        self._maker = FigureMaker(self._mechanism, calendar, self._width, source)
        """After the steps of the look-ahead, less what was counted in them."""
        numbers = range(len(self._levels))
        smallest = self._levels[0].length, self._levels[0].lag, len(self._levels[0].stages)
        self._first = int(len(self._levels) > 1 and smallest == (1, 0, 1))
        """1 where each step publishes a figure of its own, and that alone; else 0."""
        self._tied: list[tuple[int, int]] = []
        """The tied levels, with their lengths."""
        self._larger: list[tuple[int, int, list[int]]] = []
        """The other levels, with their lengths and lags."""
        for number, level in enumerate(self._levels):
            if level.tied:
                self._tied.append((number, level.length))
            if number >= self._first:
                lags = [stage.lag for stage in level.stages]
                self._larger.append((number, level.length, lags))
        self._smallest: list[Any] = []
        """These figures of the last steps."""
        self._smallest_noises: list[Any] = []
        """Their noises in the look-ahead, the next one last."""
        self._noises: dict[tuple[int, int], list[Any]] = {}
        """For each other level and stage the noises of the blocks that end in the look-ahead, or
        the differences that they announce; the next one last."""
        self._eventful: list[int] = []
        """How many steps of the look-ahead follow each in which a larger block opens or ends, or is
        published; the next one last."""
        self._counted: list[Any] = []
        """For each level what ended in its open block since the look-ahead was made."""
        self._waiting: dict[int, list[tuple[int, int, int, Any]]] = {}
        """Figures under embargo, by the step that publishes them."""
        self._jumps: dict[int, Rows] = {}
        """Jumps after the look-ahead, but those of the smallest blocks at their first stage."""
        self._below = [self._zeros(1)[0] for _ in numbers]
        """What the children in the open block of an untied level add up to at their last stage."""
        self._ties = [self._zeros(0) for _ in numbers]
        """The differences of tied blocks that are open, or not out yet."""
        self._room = 0
        self._wide = any(_wide(self._mechanism, group) for group in self._mechanism.groups)
        self._forget_published()

    @property
    def time(self) -> int:
        """How many steps have been taken."""
        return self._maker.time - len(self._ahead)

    def _measured_room(self, added: int) -> int:
        """How much may be added after these inputs; refuses those that could take a count or a
        total out of the exact range."""
        counts = [*(block.count for block in self._maker.open.values()), *self._counted]
        held = sum(farthest(np.asarray(count)) for count in counts)
        room = LARGEST_SUM - added - max(held, farthest(np.asarray(self._total)))
        if room < 0:
            raise sum_too_large()
        return room

    def _step(self, counted: Any) -> Any:
        added = abs(counted) if self._scalar else farthest(counted)
        room = self._room - added
        if room < 0:
            room = self._measured_room(added)
        if not self._ahead:
            if self._width > MOST_AHEAD:  # a row is work enough
                return self._extend(counted[np.newaxis])[0]
            self._look_ahead()
        total, first = self._total + self._ahead.pop(), self._first
        if first:
            value = counted + self._smallest_noises.pop()
            total = total + value
            self._smallest.append(value)
        left = len(self._ahead)
        if left == self._eventful[-1]:
            step = self._maker.time - left
            self._eventful.pop()
            self._end_blocks(step, counted)
            total = total + self._publish(step)
        else:
            self._counted[first] = self._counted[first] + counted
        self._total, self._room = total, room
        return total if self._scalar else total.copy()

    def _end_blocks(self, step: int, count: Any) -> None:
        """Make the figures of the blocks that end in a step of the look-ahead."""
        noises, counts = self._noises, self._counted
        for number, length in self._tied:
            if (step - 1) % length:
                break
            difference = noises[number, ANNOUNCED].pop()
            self._kept.append((number, ANNOUNCED, step - 1 + length, difference))
        for number, length, lags in self._larger:
            if step % length:
                counts[number] = counts[number] + count
                break
            count, counts[number] = count + counts[number], 0 * count
            for stage, lag in enumerate(lags):
                figure = number, stage, step, count + noises[number, stage].pop()
                self._waiting.setdefault(step + lag, []).append(figure)

    def _publish(self, step: int) -> Any:
        """Publish what was kept back until a step. Returns by how much the live total grows with
        the smallest blocks."""
        total = 0
        for figure in self._waiting.pop(step, ()):
            self._kept.append(figure)
            if figure[0] == figure[1] == 0:
                total = total + figure[3]
        return total

    def _look_ahead(self) -> list[Any]:
        """Take the next steps without events."""
        self._catch_up()
        steps = self._steps_ahead()
        jumps = self._zeros(steps)
        made = self._run(self._zeros(steps), jumps)
        self._noises = {(each.level, each.stage): self._listed(each.values)[::-1] for each in made}
        self._counted = self._listed(self._zeros(len(self._levels)))
        self._line_up(self._listed(jumps))
        return self._ahead

    def _line_up(self, jumps: list[Any]) -> None:
        """Note what happens when in the look-ahead."""
        steps = len(jumps)
        eventful = np.zeros(steps, dtype=bool)
        for _, length, lags in self._larger:
            for phase in (0, 1, *lags):  # they end, open, and are published
                eventful[(phase - 1 - self._maker.time + steps) % length :: length] = True
        self._ahead, self._eventful = jumps[::-1], [-1, *np.flatnonzero(eventful[::-1]).tolist()]
        self._smallest_noises = self._noises.pop((0, 0)) if self._first else []

    def _catch_up(self) -> None:
        """Give the maker what was counted in the look-ahead, which is used up."""
        self._keep_smallest()
        for number, count in enumerate(self._counted):
            if number in self._maker.open:
                self._maker.open[number].count += count
                if number and not self._levels[number].tied:
                    self._below[number] = self._below[number] + count
        self._counted = []

    def _extend(self, rows: Rows) -> Rows:
        added = len(rows) * farthest(rows)
        room = self._room - added if self._room >= added else self._measured_room(added)
        released = self._zeros(len(rows))
        done = min(len(self._ahead), len(rows))
        for place, counted in enumerate(self._listed(rows[:done])):
            released[place] = self._step(counted)
        at_once = max(1, _AT_ONCE // self._width)
        for start in range(done, len(rows), at_once):
            part = slice(start, start + at_once)
            self._count(rows[part], released[part])
        self._room = room
        return released

    def _count(self, rows: Rows, released: Rows) -> None:
        """Count some steps, after the look-ahead, and write the live total after each."""
        self._catch_up()
        before, after = self.time, self.time + len(rows)
        made_now = self._run(rows, released)
        for step in [step for step in self._waiting if step <= after]:
            released[step - before - 1] += self._publish(step)
        for level, stage, _, ends, public, values in made_now:
            due = int(np.searchsorted(public, after, side="right"))
            self._keep_many(level, stage, int(ends[0]), values[:due])
            if level == stage == 0:
                self._jump(values[:due], int(public[0]), self._levels[0].length, released)
            later = ends[due:].tolist(), public[due:].tolist(), self._listed(values[due:])
            for end, step, value in zip(*later, strict=True):
                self._waiting.setdefault(step, []).append((level, stage, end, value))
        released[0] += self._total
        running_sums(released, out=released)
        (self._total,) = self._listed(released[-1:])

    # What changes the live total
    # --------------------------------------------------------------------------------------------
    def _run(self, counts: Rows, out: Rows) -> list[Made]:
        """Give the maker the counts of some steps. Returns what it made, and adds to ``out`` the
        jumps in these steps, but those of the smallest blocks at their first stage."""
        before, after = self._maker.time, self._maker.time + len(counts)
        made = self._maker.close(counts)
        values = {(each.level, each.stage): each.values for each in made}
        for step in [step for step in self._jumps if step <= after]:
            out[step - before - 1] += self._jumps.pop(step)
        jumps = {}
        for number, level in enumerate(self._levels):
            if level.tied:
                if (number, ANNOUNCED) in values:
                    both = self._ties[number], values[number, ANNOUNCED]
                    self._ties[number] = np.concatenate(both)
                ended = before // level.length - self._due(number, before)
                jumps[number] = self._ties[number][ended:]
            elif number:
                jumps[number] = self._less_children(number, values, before)
        for each in made:
            number, stage = each.level, each.stage
            first, length = int(each.public[0]), self._levels[number].length
            if stage > 0:
                self._jump(each.values - values[number, stage - 1], first, length, out)
            elif stage == 0 and number > 0:
                self._jump(jumps[number][: len(each.ends)], first, length, out)
        for group in self._mechanism.groups:
            if len(group) > 1:
                self._share(group, before, out)
        return made

    def _jump(self, jumps: Rows, first: int, length: int, out: Rows) -> None:
        """Add jumps to the steps that publish them, ``first`` and every ``length`` steps later, or
        keep them for later. ``out`` ends with the last step of the maker."""
        after = self._maker.time
        due = max(0, (after - first) // length + 1)
        if due:
            out[first - after - 1 + len(out) :: length][:due] += jumps[:due]
        for place, jump in enumerate(jumps[due:], start=due):
            step = first + place * length
            self._jumps[step] = self._jumps.get(step, 0) + jump

    def _due(self, number: int, step: int) -> int:
        """How many blocks of a level are out at their first stage after a step."""
        level = self._levels[number]
        return max(0, step - level.lag) // level.length

    def _less_children(self, number: int, values: dict[tuple[int, int], Rows], before: int) -> Rows:
        """The figures of the untied blocks that end, at their first stage, less those of their
        children at their last one."""
        below = self._levels[number - 1]
        children = values.get((number - 1, len(below.stages) - 1))
        if children is None:
            return self._zeros(0)
        figures = values.get((number, 0), self._zeros(0))
        sums = np.concatenate([self._below[number][np.newaxis], children])
        running_sums(sums, out=sums)
        ratio = self._levels[number].length // below.length
        at = slice(ratio - before // below.length % ratio, None, ratio)
        ends = sums[at]
        self._below[number] = sums[-1].copy()
        if not len(figures):
            return figures
        self._below[number] -= ends[-1]
        jumps: Rows = figures - ends
        jumps[1:] += ends[:-1]
        return jumps

    def _share(self, group: range, before: int, out: Rows) -> None:
        """Add by how much the shares of announced differences change, and forget those of blocks
        that come out. The part of a block that is covered gets the same part of its difference:
        numerators of the parts of all levels have the denominator ``whole``."""
        smallest, largest = self._levels[group[0]], self._levels[group[-1]]
        whole = largest.length // smallest.length
        done, reached = self._due(group[0], before), self._due(group[0], self._maker.time)
        if done == reached:
            return
        kind = object if self._wide else np.int64
        grown: Any = np.empty((reached - done + 1, self._width), dtype=kind)
        for number in group[1:]:
            per = self._levels[number].length // smallest.length
            begin, end, out_now = done // per, -(-reached // per), reached // per - done // per
            each: Any = self._ties[number][: end - begin].astype(kind, copy=False)
            each = each * (2 * whole // per)
            steps = each
            if len(each) > 1:
                times: Any = np.diff(np.clip(np.arange(begin, end + 1) * per, done, reached))
                steps = np.repeat(each, times, axis=0)
            if number == group[1]:
                grown[1:] = steps
                np.multiply(each[0], done % per, out=grown[0])
            else:
                grown[1:] += steps
                grown[0] += each[0] * (done % per)
            grown[per - done % per :: per] -= each[:out_now] * per
            self._ties[number] = self._ties[number][out_now:]
        grown[0] += whole  # numerators of twice the shares, and one more half to round
        running_sums(grown, out=grown)
        grown //= 2 * whole
        shares = grown.astype(np.int64, copy=False)
        first = (done + 1) * smallest.length + smallest.lag
        places = slice(first - before - 1, None, smallest.length)
        out[places] += shares[1:]
        out[places] -= shares[:-1]

    # What was published
    # --------------------------------------------------------------------------------------------
    def _keep_many(self, level: int, stage: int, end: int, values: Rows) -> None:
        """Keep the numbers of adjacent blocks, the first of which ends at ``end``."""
        self._numbers -= len(values)
        if self._numbers >= 0:
            self._many.append((level, stage, end, values))

    def _keep_smallest(self) -> None:
        if self._smallest:
            values = np.array(self._smallest, dtype=np.int64).reshape(-1, self._width)
            self._keep_many(0, 0, self.time + 1 - len(values), values)
            self._smallest = []

    def _forget_published(self) -> None:
        self._numbers = most = _MOST_KEPT // self._width
        self._kept: deque[tuple[int, int, int, Any]] = deque(maxlen=most + 1)
        self._many: list[tuple[int, int, int, Rows]] = []

    def figures(self) -> list[Figure]:
        """What was published since the last call, in the order of publication.

        A figure is ``(level, start, end, stage, value)`` for the steps ``start + 1 .. end``; the
        value is an array over the keys for a vector of counts. The stage ``-1`` is no count: it is
        the difference that a tied block announced when it opened. At most 2**22 numbers wait for a
        call; a saved state does not hold them.
        """
        with self._lock:
            self._keep_smallest()
            kept, many, left = list(self._kept), self._many, self._numbers
            self._forget_published()
        if len(kept) > left:
            raise ParameterError(
                f"figures must be asked for before {_MOST_KEPT} numbers wait, got more; call"
                " figures() more often"
            )
        lengths = [level.length for level in self._levels]
        for level, stage, first, values in many:
            ends = range(first, first + len(values) * lengths[level], lengths[level])
            listed = zip(ends, self._listed(values), strict=True)
            kept += [(level, stage, end, value) for end, value in listed]
        figures = [
            Figure(level, end - lengths[level], end, stage, value)
            for level, stage, end, value in kept
        ]
        return sorted(figures, key=self._place)

    def _place(self, figure: Figure) -> tuple[int, int, int, int]:
        """When a figure was published, and its place among those of the same step."""
        if figure.stage == ANNOUNCED:
            return figure.start + 1, 0, -figure.level, 0
        lag = self._levels[figure.level].stages[figure.stage].lag
        return figure.end + lag, 1, figure.level, figure.stage

    # Saved states
    # --------------------------------------------------------------------------------------------
    def _parts(self) -> Parts:
        if not self._ahead:
            self._catch_up()
        blocks = [block for _, block in sorted(self._maker.open.items())]
        rows: list[Any] = [*self._counted, *self._below]
        for _, noises in [((0, 0), self._smallest_noises), *sorted(self._noises.items())]:
            rows += noises[::-1]
        figures = sorted(
            (figure for waiting in self._waiting.values() for figure in waiting),
            key=lambda figure: figure[:3],
        )
        rows += [value for *_, value in figures]
        rows += [jump for _, jump in sorted(self._jumps.items())]
        for block in blocks:
            rows += [block.count, *(block.noise or ())]
        rows += [row for ties in self._ties for row in ties]
        total, *tails = (np.array(row, dtype=np.int64).reshape(-1) for row in (self._total, *rows))
        children = [block.children for block in blocks]
        return Parts(
            time=self.time,
            total=total,
            delayed=(),
            tails=tails,
            ahead=[np.array(jump).reshape(-1) for jump in self._ahead[::-1]],
            ratchets=tuple(each.state for each in children if isinstance(each, Ratchet)),
        )

    def _continue(self, parts: Parts) -> None:
        rows, ratchets = (row.copy() for row in parts.tails), iter(parts.ratchets)
        numbers = range(len(self._levels))

        def own() -> Any:
            return self._listed(next(rows)[np.newaxis])[0]

        now, after = parts.time, parts.time + len(parts.ahead)
        self._total = self._listed(parts.total[np.newaxis])[0]
        self._counted = [own() for _ in numbers] if parts.ahead else []
        self._below = [next(rows) for _ in numbers]
        for number, size in enumerate(self._levels):
            ended = after // size.length - now // size.length
            opened = -(-after // size.length) - -(-now // size.length)
            if size.tied:
                self._noises[number, ANNOUNCED] = [own() for _ in range(opened)][::-1]
            for stage in range(len(size.stages)):
                self._noises[number, stage] = [own() for _ in range(ended)][::-1]
        self._maker.time = after
        self._line_up([self._listed(row[np.newaxis])[0] for row in parts.ahead])
        for level, stage, end, public in self._under_embargo(now):
            self._waiting.setdefault(public, []).append((level, stage, end, own()))
        due = self._under_embargo(after)
        for step in sorted({public for level, stage, _, public in due if level or stage}):
            self._jumps[step] = next(rows)
        for number, size in enumerate(self._levels):
            if after % size.length:
                start = after // size.length * size.length
                block = OpenBlock(start=start, end=start + size.length, count=next(rows))
                self._maker.open[number] = block
                if any(number in group for group in self._mechanism.groups if len(group) > 1):
                    block.noise = [next(rows) for _ in size.stages]
                if size.tied:
                    block.children = self._maker.saved_children(number, next(ratchets, None))
        for number, size in enumerate(self._levels):
            if size.tied:
                count = -(-after // size.length) - self._due(number, after)
                ties = [next(rows) for _ in range(count)]
                self._ties[number] = np.array(ties, dtype=np.int64).reshape(-1, self._width)
        if parts.delayed or next(rows, None) is not None or next(ratchets, None) is not None:
            raise damaged()

    def _under_embargo(self, step: int) -> Iterator[tuple[int, int, int, int]]:
        """The figures of blocks that ended up to a step and are published after it: level, stage,
        end, and when."""
        for number, level in enumerate(self._levels):
            for stage, (lag, _) in enumerate(level.stages):
                first = max(0, step - lag) // level.length + 1
                for block in range(first, step // level.length + 1):
                    yield number, stage, block * level.length, block * level.length + lag
