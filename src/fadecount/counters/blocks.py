"""The running counter of block counters: the live total beside the figures.

The figures come from a :class:`~fadecount.counters.figures.FigureMaker`. The live total is the
*cover*, the sum of the largest figures that are out, plus the shares of announced differences
(:mod:`fadecount.mechanisms.views`). It changes by *jumps*. A figure that comes out takes the place
of what the cover held for its block: its own stage before, or its children at their last stage. All
of them are known when the block ends, so the jump is too. Of a tied block it is the difference that
the block announced.

``extend`` gives its counts to the maker. ``step`` looks ahead: the maker takes the next steps
without events. Figures are linear in the counts, and jumps are pure noise, but those of the
smallest blocks. So a step only makes the figure of its smallest block. What larger blocks need is
the sum of such figures: the noises of smallest blocks that are to come are taken off the larger
figures beforehand, and the smallest figures are added when they are there.

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
from fadecount.counters.figures import FigureMaker, OpenBlock
from fadecount.counters.inputs import LARGEST_SUM, farthest, running_sums, sum_too_large
from fadecount.counters.state import MOST_AHEAD, Parts, damaged
from fadecount.errors import ParameterError
from fadecount.mechanisms import ANNOUNCED, Blocks, Figure
from fadecount.noise import NoiseSource

_AT_ONCE = 1 << 19
_MOST_KEPT = 1 << 22
"""For how many steps, over all keys, figures wait for :meth:`BlockCounter.figures`."""
_Queues = dict[tuple[int, int], Rows]
"""Rows by level and stage: one for each of adjacent blocks."""


class BlockCounter(Counter):
    """A counter of :class:`fadecount.Blocks`; ``Counter(mechanism)`` gives one."""

    __slots__ = (
        *("_below", "_dropped", "_figures", "_jumps", "_kept", "_late", "_levels", "_maker"),
        *("_noises", "_nothing", "_open", "_room", "_settled", "_smallest", "_ties"),
    )
    _mechanism: Blocks

    def _start(self, source: NoiseSource) -> None:
        self._levels, calendar = self._mechanism.levels, self._mechanism.calendar
        self._maker = FigureMaker(self._mechanism, calendar, self._width, source)
        """After the steps of the look-ahead."""
        self._noises: list[Any] = []
        """Those of the smallest blocks that end in the look-ahead, the next one last."""
        self._nothing = self._open = self._total
        """What the open smallest block has counted in the look-ahead."""
        self._smallest: list[Any] = []
        """The figures of smallest blocks that are not yet in those of larger ones."""
        self._late: deque[Any] = deque()
        """The figures of smallest blocks that are not published yet."""
        self._settled = 0
        """Up to which step figures were published."""
        self._figures: _Queues = {}
        """Figures, and differences of tied blocks, that are not published yet. Those of larger
        blocks that end in the look-ahead lack what is counted until then, and hold the noises of
        smallest blocks until then with the other sign."""
        self._jumps: _Queues = {}
        """Jumps of blocks that ended, after the look-ahead."""
        self._ties: dict[int, Rows] = {}
        """The differences of tied blocks that are open after the look-ahead, or not out yet."""
        self._below: dict[int, Rows] = {}
        """What the children in the open block of an untied level add up to at their last stage."""
        for queue, key, rows in self._queues(0):
            queue[key] = self._zeros(rows)
        self._kept: deque[tuple[int, int, int, int, Rows]] = deque()
        """What was published: by which step, level, stage, where the first block ends, and a row
        for each."""
        self._dropped = 0
        """Up to which step figures were dropped that nobody asked for."""
        self._room = 0

    @property
    def time(self) -> int:
        """How many steps have been taken."""
        return self._maker.time - len(self._ahead)

    def _public(self, level: int, stage: int, step: int) -> int:
        """How many blocks of a level are out at a stage after a step."""
        size = self._levels[level]
        if stage == ANNOUNCED:
            return -(-step // size.length)
        return max(0, step - size.stages[stage].lag) // size.length

    def _queues(self, now: int) -> Iterator[tuple[dict[Any, Rows], Any, int]]:
        """All rows that this counter holds after a step, and how many there are."""
        after = self._maker.time
        for number, level in enumerate(self._levels):
            if level.tied:
                opened = self._public(number, ANNOUNCED, after)
                announced = number, ANNOUNCED
                yield self._figures, announced, opened - self._public(*announced, now)
                yield self._ties, number, opened - self._public(number, 0, after)
            elif number:
                yield self._below, number, 1
            for stage in range(len(level.stages)):
                ended = (after if number or stage else now) // level.length
                yield self._figures, (number, stage), ended - self._public(number, stage, now)
                if stage or (number and not level.tied):
                    ended = after // level.length
                    yield self._jumps, (number, stage), ended - self._public(number, stage, after)

    def _measured_room(self, added: int) -> int:
        """How much may be added after these inputs; refuses those that could take a count or a
        total out of the exact range."""
        self._settle()
        held = sum(farthest(block.count) for block in self._maker.open.values())
        for number, level in enumerate(self._levels[1:], start=1):
            ended = self.time // level.length - self._public(number, 0, self.time)
            held = max(held, farthest(self._figures[number, 0][ended : ended + 1]))
        held += farthest(np.asarray(self._open))
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
        total, level = self._total + self._ahead.pop(), self._levels[0]
        step, count = self.time, self._open + counted
        if step % level.length == 0:
            figure, count = count + self._noises.pop(), self._nothing
            self._smallest.append(figure)
            self._late.append(figure)
        if step > level.lag and (step - level.lag) % level.length == 0:
            total = total + self._late.popleft()
        self._total, self._open, self._room = total, count, room
        return total if self._scalar else total.copy()

    def _look_ahead(self) -> list[Any]:
        """Take the next steps without events."""
        self._catch_up()
        now, steps = self.time, self._steps_ahead()
        jumps = self._zeros(steps)
        made, smallest = len(self._figures[0, 0]), now // self._levels[0].length
        self._run(self._zeros(steps), jumps)
        figures, noises = np.split(self._figures[0, 0], [made])
        self._figures[0, 0], self._late = figures, deque(self._listed(figures))
        self._add(-noises, smallest)
        self._noises, self._ahead = self._listed(noises)[::-1], self._listed(jumps)[::-1]
        return self._ahead

    def _catch_up(self) -> None:
        """Give the maker what is left of the look-ahead, which is used up."""
        self._settle()
        if 0 in self._maker.open:
            self._maker.open[0].count += self._open
        self._open = self._nothing

    def _settle(self) -> None:
        """Bring the figures up to date, and publish those that are due."""
        now, level = self.time, self._levels[0]
        if now == self._settled:
            return
        if self._smallest:
            rows = np.array(self._smallest, dtype=np.int64).reshape(-1, self._width)
            self._smallest = []
            self._add(rows, now // level.length - len(rows))
            self._figures[0, 0] = _joined(self._figures[0, 0], rows)
        self._publish(now)

    def _add(self, rows: Rows, first: int) -> None:
        """Add the figures of adjacent smallest blocks, after the ``first`` ones, to those of the
        blocks in the look-ahead that hold them."""
        ended = len(rows)
        for number, level in enumerate(self._levels):
            per, below = level.length // self._levels[0].length, ended
            ended = max(0, self._maker.time // level.length * per - first)
            whole, left = rows[:ended], rows[ended:below]
            if len(whole):
                sums = np.add.reduceat(whole, np.arange(-(first % per), len(whole), per).clip(0))
                for stage in range(0 if number else 1, len(level.stages)):
                    place = first // per - self._public(number, stage, self._settled)
                    self._figures[number, stage][place : place + len(sums)] += sums
            if len(left):  # in blocks of the level below that end, of one that does not
                count = left.sum(axis=0)
                self._maker.open[number].count += count
                if number in self._below:
                    self._below[number] += count

    def _publish(self, now: int) -> None:
        """Keep what is public after a step for :meth:`figures`."""
        while self._kept and self._kept[0][0] < now - _MOST_KEPT // self._width:
            self._dropped = self._kept.popleft()[0]
        for (level, stage), rows in self._figures.items():
            done = self._public(level, stage, self._settled)
            due = self._public(level, stage, now) - done
            if due:
                end = (done + 1) * self._levels[level].length
                self._kept.append((now, level, stage, end, rows[:due]))
                self._figures[level, stage] = rows[due:].copy()
        self._settled = now

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
        before = self.time
        self._run(rows, released)
        self._place(0, 0, self._figures[0, 0], before, released)
        self._publish(self.time)
        released[0] += self._total
        running_sums(released, out=released)
        (self._total,) = self._listed(released[-1:])

    # What changes the live total
    # --------------------------------------------------------------------------------------------
    def _run(self, counts: Rows, out: Rows) -> None:
        """Give the maker the counts of some steps, and add to ``out`` the jumps in these steps, but
        those of the smallest blocks at their first stage."""
        before = self._maker.time
        made = {(each.level, each.stage): each.values for each in self._maker.close(counts)}
        for key, values in made.items():
            self._figures[key] = _joined(self._figures[key], values)
            if key[1] == ANNOUNCED:
                self._ties[key[0]] = _joined(self._ties[key[0]], values)
        for number, level in enumerate(self._levels):
            if level.tied:
                self._place(number, 0, self._ties[number], before, out)
            elif number:
                self._jump(number, 0, self._less_children(number, made, before), before, out)
            for stage in range(1, len(level.stages)):
                ended = (number, stage) in made
                jumps = made[number, stage] - made[number, stage - 1] if ended else self._zeros(0)
                self._jump(number, stage, jumps, before, out)
        for group in self._mechanism.groups:
            if len(group) > 1:
                self._share(group, before, out)

    def _jump(self, level: int, stage: int, jumps: Rows, before: int, out: Rows) -> None:
        """Add the jumps that are due, and keep the others with the new ones for later."""
        jumps = _joined(self._jumps[level, stage], jumps)
        due = self._place(level, stage, jumps, before, out)
        self._jumps[level, stage] = jumps[due:].copy()

    def _place(self, level: int, stage: int, rows: Rows, before: int, out: Rows) -> int:
        """Add rows, one for each block that was not public ``before``, to the steps that publish
        them, up to the last step of the maker. Returns how many these are."""
        done = self._public(level, stage, before)
        due = self._public(level, stage, self._maker.time) - done
        if due:
            size = self._levels[level]
            first = (done + 1) * size.length + size.stages[stage].lag
            out[first - before - 1 :: size.length][:due] += rows[:due]
        return due

    def _less_children(self, number: int, made: _Queues, before: int) -> Rows:
        """The figures of the untied blocks that end, at their first stage, less those of their
        children at their last one."""
        below = self._levels[number - 1]
        children = made.get((number - 1, len(below.stages) - 1))
        if children is None:
            return self._zeros(0)
        figures = made.get((number, 0), self._zeros(0))
        sums = np.concatenate([self._below[number], children])
        running_sums(sums, out=sums)
        ratio = self._levels[number].length // below.length
        ends = sums[ratio - before // below.length % ratio :: ratio]
        self._below[number] = sums[-1:].copy()
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
        done, reached = (self._public(group[0], 0, step) for step in (before, self._maker.time))
        if done == reached:
            return
        farthest_tie = max(farthest(self._ties[number]) for number in group[1:])
        kind = np.int64 if 4 * whole * len(group) * farthest_tie < LARGEST_SUM else object
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
    def figures(self) -> list[Figure]:
        """What was published since the last call, in the order of publication.

        A figure is ``(level, start, end, stage, value)`` for the steps ``start + 1 .. end``; the
        value is an array over the keys for a vector of counts. The stage ``-1`` is no count: it is
        the difference that a tied block announced when it opened. Figures wait for a call for 2**22
        steps, divided by the number of keys; a saved state does not hold them. A call after older
        ones were dropped is refused once; the next one returns those that are left.
        """
        with self._lock:
            self._settle()
            dropped, self._dropped = self._dropped, 0
            if dropped:
                raise ParameterError(
                    f"figures must be asked for at least every {_MOST_KEPT // self._width:,} steps;"
                    f" those up to step {dropped:,} are dropped, call figures() again for the"
                    " later ones"
                )
            kept, self._kept = self._kept, deque()
        figures = []
        for _, level, stage, first, values in kept:
            length = self._levels[level].length
            for end, value in enumerate(self._listed(values)):
                start = first + (end - 1) * length
                figures.append(Figure(level, start, start + length, stage, value))
        return sorted(figures, key=self._order)

    def _order(self, figure: Figure) -> tuple[int, int, int, int]:
        """When a figure was published, and its place among those of the same step."""
        if figure.stage == ANNOUNCED:
            return figure.start + 1, 0, -figure.level, 0
        lag = self._levels[figure.level].stages[figure.stage].lag
        return figure.end + lag, 1, figure.level, figure.stage

    # Saved states
    # --------------------------------------------------------------------------------------------
    def _parts(self) -> Parts:
        if self._ahead:
            self._settle()
        else:
            self._catch_up()
        blocks = [block for _, block in sorted(self._maker.open.items())]
        rows = [self._open, *self._noises[::-1]]
        for queue, key, _ in self._queues(self.time):
            rows += list(queue[key])
        for block in blocks:
            rows += [block.count, *(block.noise or ())]
        total, *tails = (np.array(row, dtype=np.int64).reshape(-1) for row in (self._total, *rows))
        return Parts(
            time=self.time,
            total=total,
            delayed=(),
            tails=tails,
            ahead=[np.array(jump).reshape(-1) for jump in self._ahead[::-1]],
            ratchets=tuple(block.children.state for block in blocks if block.children is not None),
        )

    def _continue(self, parts: Parts) -> None:
        rows, ratchets = iter(parts.tails), iter(parts.ratchets)

        def array(count: int) -> Rows:
            taken = [next(rows) for _ in range(count)]
            return np.array(taken, dtype=np.int64).reshape(-1, self._width)

        now, after = parts.time, parts.time + len(parts.ahead)
        self._maker.time, self._settled = after, now
        self._total, self._open = self._listed(np.stack([parts.total, next(rows)]))
        noises = after // self._levels[0].length - now // self._levels[0].length
        self._noises = self._listed(array(noises))[::-1]
        jumps = np.array(parts.ahead, dtype=np.int64).reshape(-1, self._width)
        self._ahead = self._listed(jumps)[::-1]
        for queue, key, count in self._queues(now):
            queue[key] = array(count)
        self._late = deque(self._listed(self._figures[0, 0]))
        for number, level in enumerate(self._levels):
            if after % level.length:
                start = after // level.length * level.length
                block = OpenBlock(start=start, end=start + level.length, count=array(1)[0])
                self._maker.open[number] = block
                if any(number in group for group in self._mechanism.groups if len(group) > 1):
                    block.noise = list(array(len(level.stages)))
                if level.tied:
                    block.children = self._maker.saved_children(number, next(ratchets))
        if parts.delayed or next(rows, None) is not None or next(ratchets, None) is not None:
            raise damaged()


def _joined(before: Rows, after: Rows) -> Rows:
    return np.concatenate([before, after]) if len(before) else after
