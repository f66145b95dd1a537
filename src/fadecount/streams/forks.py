"""The privacy loss of a stream for one unit, over all of its histories.

An operator may open a store that is older than what was published. From then on the stream has two
histories: the published one, up to some step ``last``, and the one that continues from the store.
They share the noise variables drawn before they diverged; each later interval has one variable in
each history.

The rule. Take the earliest step in which one of the histories counted the event, and the ``k``
histories that were published up to that step or further. The loss is at most ``k`` times the loss
at the age from that step to the latest end. (For Gaussian noise ``mu`` grows with the square root
of ``k``.)

The proof. What turns the outputs of one history into those without the event is a shift of its
noise. The stated loss is the cost of one that uses only variables drawn at or after the step of the
event (docs/theory.md, section 4, claim 3). An event from before the histories parted is in the same
step of each: take the shift for the latest end, and apply it in all of them. Shared variables are
shifted once, others once in each history. An event from after that point may be in different steps
of different histories: each history has its own shift, of variables that are its own. Either way
each history costs at most the loss at the greatest age; one that ended before the event costs
nothing. For Gaussian noise the squares of the shifts add up instead. Events are never counted
before their time, so the step of an event's own time is at most the earliest one.

tests/streams/test_forks.py compares the rule with linear programs and, for Gaussian noise, with
covariances.

If the fence is lost, it is unknown how far the other history went: then its last step is None, and
the loss is that of the greatest possible age, in all histories. The number of histories is unknown
too: the operator states it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike

from fadecount.checks import LONGEST
from fadecount.mechanisms import Loss, Mechanism
from fadecount.streams.discovery import HiddenKeys
from fadecount.streams.unit import ONE_EVENT, Unit

Forks = tuple[int | None, ...]
"""The other published histories of a stream: the last step of each (None: unknown)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamLoss:
    """The privacy loss of a stream for one protected unit, given everything published. Every output
    uses this class.

    A unit changes up to ``keys`` counts by up to ``sensitivity`` each. ``steps`` is the number of
    published steps of this history; ``forks`` are the other histories. Every figure is an upper
    bound, rounded up.

    Under each of its keys a unit is counted as declared or as ``hidden``, so it loses the larger of
    both; under a hidden key that also counts in ``other``, their sum. With hidden keys the loss may
    be larger with the chance :attr:`delta`. Nothing is shown of a hidden key before its slot ends,
    which is ``open_ticks`` ticks or more after its first.

    >>> import fadecount as fc
    >>> fading = fc.Gradual(epsilon=0.125)
    >>> loss = StreamLoss(mechanism=fading, forks=(20,), steps=15)
    >>> loss.of_step(5).epsilon == 2 * fading.loss(15), loss.at_age(0).epsilon == 2 * fading.loss(5)
    (True, True)
    """

    mechanism: Mechanism
    sensitivity: int = 1
    keys: int = 1
    forks: Forks = ()
    steps: int = 0
    hidden: HiddenKeys | None = None
    open_ticks: int = 0

    @property
    def delta(self) -> float | None:
        """The chance with which one unit may lose more, because of hidden keys; None without
        them."""
        return None if self.hidden is None else self.hidden.discovery.delta * self.histories

    @property
    def exception(self) -> str:
        """The end of a sentence about a loss: the chance with which it may be larger, if any."""
        if self.hidden is not None:
            return f", {self.hidden.exception(self.histories)}"
        delta = getattr(self.mechanism, "delta", None)
        return "" if delta is None else f", except with a chance of {delta:g}"

    @property
    def histories(self) -> int:
        """How many histories of the stream were published, this one included."""
        return 1 + len(self.forks)

    def of_step(self, step: int, *, through: int | None = None) -> Loss:
        """The loss of a unit at ``step``, from all that is published and all that will be through
        step ``through``.

        The step is that of the unit's own time, or the earliest in which any history counted it: a
        late unit may be in different steps of different histories.
        """
        last = max(self.steps, self.steps if through is None else through)
        others = [end for end in self.forks if end is None or end >= step]
        if step > last and not others:
            return Loss(0.0)
        ends = [last, *(step + LONGEST if end is None else end for end in others)]
        return self._total(max(ends) - step, len(ends))

    def at_age(self, age: int, *, due: int | None = None) -> Loss:
        """The loss of a unit of that age in ticks (since the first tick of its slot), at any
        position in the stream, over all histories.

        The age is counted up to step ``due``, the last one that is over by the clock (by default
        the last one published). Releases that are ahead of it, here or in another history, make the
        unit that much older.
        """
        oldest = min(age + self.ahead(due), LONGEST)
        if self.hidden is not None:
            return self._total(np.array([oldest]), self.histories, open_ticks=self.open_ticks)
        return _loss_at(self.mechanism, oldest, self.sensitivity, self.keys, self.histories)

    def ahead(self, due: int | None = None) -> int:
        """How many ticks the releases are ahead of step ``due`` (the last one published), here or
        in another history."""
        clock = self.steps if due is None else due
        ends = [
            clock,
            self.steps,
            *(LONGEST + clock if end is None else end for end in self.forks),
        ]
        return max(ends) - clock

    def of_person(
        self,
        visits: int,
        *,
        every: int,
        during: int,
        tick_seconds: int,
        due: int | None = None,
        unit: Unit = ONE_EVENT,
    ) -> Loss:
        """The loss of someone who came up to ``visits`` times in any ``every`` seconds, during the
        last ``during`` seconds.

        An upper bound whenever the visits were. Losses never fall with the age, so they weigh most
        if each period has all of its visits at its beginning; the last period may be shorter, and
        is as full. Where the unit is a person within a tick, no tick holds more than one of them:
        the smaller of both bounds holds. (Each visit costs at most a unit of its own age, also
        where the unit is a day.)
        """
        ahead = self.ahead(due)
        ages = -(-np.arange(during, 0, -every, dtype=np.int64) // tick_seconds)
        loss = self._total(ages + ahead, self.histories, visits)
        if unit.of == "event" or unit.per != "tick":
            return loss
        newest = -1 if ahead else 0  # releases ahead of the clock hold the present tick
        each_tick = np.arange(newest, -(-during // tick_seconds) + 1, dtype=np.int64)
        return min(loss, self._total(each_tick + ahead, self.histories), key=lambda one: one.amount)

    def _total(self, age: ArrayLike, histories: int, units: int = 1, open_ticks: int = 0) -> Loss:
        ages = np.clip(age, 0, LONGEST)
        declared = {
            "units": units,
            "sensitivity": self.sensitivity,
            "keys": self.keys,
            "histories": histories,
        }
        if self.hidden is None:
            return self.mechanism.composed_loss(ages, **declared)
        parts: list[tuple[Loss, int]] = []
        for each in np.atleast_1d(ages).tolist():
            shown = self.mechanism.composed_loss(each, **declared)
            since_end = each - open_ticks
            epsilon = float(self.hidden.discovery.loss(since_end)) if since_end >= 0 else 0.0
            found = Loss.together([(Loss(epsilon), units * histories)])
            both = self.hidden.other is not None
            parts += [(shown, 1), (found, 1)] if both else [(max(shown, found, key=_amount), 1)]
        return Loss.together(parts)


def _amount(loss: Loss) -> float:
    return loss.amount


@lru_cache(maxsize=4096)
def _loss_at(mechanism: Mechanism, age: int, sensitivity: int, keys: int, histories: int) -> Loss:
    """Groups add up the same losses of many streams; some take 15 ms each."""
    return mechanism.composed_loss(
        np.array([age]), sensitivity=sensitivity, keys=keys, histories=histories
    )
