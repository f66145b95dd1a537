"""What a second history costs.

An operator may open a store that is older than what was published (``--accept-extra-loss``). From then on there are two
histories of the stream: the published one, up to some step ``last``, and the one that goes on from the store. They share
the noise variables drawn before they parted; later intervals have one variable in each.

The bound. Let an event be counted at step ``j``. To turn all that was published of both histories into what it would have
been without the event, take the shift of the noise that the exact loss is made of (docs/theory.md, section 4), for the
later of the two ends, and apply it to the variables of both histories. Shared variables are shifted once, others once in
each history. So the loss is at most twice the loss at the age that the later end gives. An event after ``last`` is in one
history only and costs what it always costs. An event that the second history counts at a later step than the first has, in
each history, at most the loss at its greater age, and uses only variables drawn after it. With several forks, each adds one
such loss.

If the fence is lost, nobody knows how far the other history went: then ``last_step`` is None, and the loss is that of the
greatest age there can be, in both histories.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from fadecount.checks import LONGEST
from fadecount.mechanisms import Mechanism


@dataclass(frozen=True, slots=True, kw_only=True)
class Fork:
    """Another history of the stream was published up to ``last_step`` (None: nobody knows how far)."""

    last_step: int | None


def ticks_ahead(forks: Sequence[Fork], last_step: int) -> int:
    """By how many ticks the longest other history is ahead of this one; if nobody knows, as many as there can be."""
    return max([0, *(LONGEST if fork.last_step is None else fork.last_step - last_step for fork in forks)])


def loss_with_forks(mechanism: Mechanism, sensitivity: int, forks: Sequence[Fork], step: int, last_step: int) -> float:
    """What is lost about an event counted at ``step``, given all releases up to ``last_step`` and all forks; rounded up."""
    if step > last_step and not any(fork.last_step is None or fork.last_step >= step for fork in forks):
        return 0.0
    others = [fork.last_step for fork in forks if fork.last_step is None or fork.last_step >= step]
    ends = [last_step, *(step + LONGEST if end is None else end for end in others)]
    total = len(ends) * Fraction(mechanism.loss(max(0, max(ends) - step))) * sensitivity
    shown = float(total)
    return shown if Fraction(shown) >= total else math.nextafter(shown, math.inf)
