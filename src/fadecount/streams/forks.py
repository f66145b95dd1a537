"""The privacy loss of a stream for one unit, over all of its histories.

An operator may open a store that is older than what was published. From then on the stream has two histories: the published
one, up to some step ``last``, and the one that continues from the store. They share the noise variables drawn before they
diverged; each later interval has one variable in each history.

The bound. Let an event be counted at step ``j``. To turn all that was published of both histories into what it would have been
without the event, take the shift of the noise that the exact loss is made of (docs/theory.md, section 4), for the later end,
and apply it to the variables of both histories. Shared variables are shifted once, others once in each history. So the loss
is at most twice the loss at the age that the later end gives. An event after ``last`` is in one history only and has its usual
loss. An event that the second history counts at a later step than the first has, in each history, at most the loss at its
greater age, and uses only variables drawn after it. With several other histories, each adds one such loss.

If the fence is lost, it is unknown how far the other history went: then ``last_step`` is None, and the loss is that of the
greatest possible age, in all histories. The number of histories is unknown too: the operator states it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from fadecount.checks import LONGEST
from fadecount.mechanisms import Loss, Mechanism


@dataclass(frozen=True, slots=True, kw_only=True)
class Fork:
    """Another history of the stream was published up to ``last_step`` (None: unknown)."""

    last_step: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamLoss:
    """The privacy loss of a stream for one protected unit, given everything published. Every output uses this class.

    A unit changes up to ``keys`` counts by up to ``sensitivity`` each. ``steps`` is the number of published steps of this
    history; ``forks`` are the other histories. Every figure is an upper bound, rounded up.

    >>> import fadecount as fc
    >>> loss = StreamLoss(mechanism=fc.Gradual(epsilon=0.125), forks=(Fork(last_step=20),), steps=15)
    >>> loss.of_step(5).epsilon == 2 * loss.mechanism.loss(15), loss.at_age(0).epsilon == 2 * loss.mechanism.loss(5)
    (True, True)
    """

    mechanism: Mechanism
    sensitivity: int = 1
    keys: int = 1
    forks: tuple[Fork, ...] = ()
    steps: int = 0

    @property
    def histories(self) -> int:
        """How many histories of the stream were published, this one included."""
        return 1 + len(self.forks)

    def of_step(self, step: int, *, through: int | None = None) -> Loss:
        """The loss of a unit counted at ``step``, from all that is published and all that will be through step ``through``."""
        last = max(self.steps, self.steps if through is None else through)
        others = [fork.last_step for fork in self.forks if fork.last_step is None or fork.last_step >= step]
        if step > last and not others:
            return Loss(0.0)
        ends = [last, *(step + LONGEST if end is None else end for end in others)]
        return self._total(max(ends) - step, len(ends))

    def at_age(self, age: int, *, due: int | None = None) -> Loss:
        """The loss of a unit of that age in ticks, at any position in the stream, over all histories.

        The age is counted up to step ``due``, the last one that is over by the clock (by default the last one published).
        Releases that are ahead of it, here or in another history, make the unit that much older.
        """
        return self._total(age + self.ahead(due), self.histories)

    def ahead(self, due: int | None = None) -> int:
        """How many ticks the releases are ahead of step ``due`` (the last one published), here or in another history."""
        clock = self.steps if due is None else due
        ends = [clock, self.steps, *(LONGEST + clock if fork.last_step is None else fork.last_step for fork in self.forks)]
        return max(ends) - clock

    def of_person(self, length: int, *, units: int, every: int, later: int = 0, due: int | None = None) -> Loss:
        """The loss of someone who caused up to ``units`` units in any ``every`` ticks in a row, during the last ``length`` ticks.

        With ``later``, so many ticks after that. An upper bound whenever the units came: a loss never falls with the age, so they
        weigh most if each period has all of its units at its beginning. The last period may be shorter, and is as full.
        """
        ages = np.arange(later + length - 1, later - 1, -every, dtype=np.int64) + self.ahead(due)
        return self._total(ages, self.histories, units)

    def _total(self, age: ArrayLike, histories: int, units: int = 1) -> Loss:
        return self.composed(self.mechanism, np.clip(age, 0, LONGEST), histories, units)

    def composed(self, mechanism: Mechanism, age: ArrayLike, histories: int, units: int = 1) -> Loss:
        """The loss at an age that the same unit would have under a mechanism, after that many histories."""
        return mechanism.composed_loss(age, units=units, sensitivity=self.sensitivity, keys=self.keys, histories=histories)
