"""The definition of Gaussian noise, read literally: slow, one count, in Python's integers."""

from __future__ import annotations

from fadecount.mechanisms import Memories


class Remembered:
    """The memories of one count, step by step."""

    def __init__(self, memories: Memories) -> None:
        self._memories = memories
        self.state = [0] * memories.rows()
        self._shown = 0

    def step(self, drawn: int) -> int:
        """The noise of the next step, given its fresh noise."""
        plan, step = self._memories, self._shown
        kept, *state = self.state
        terms = plan.kept * (kept >> plan.kept_dropped) >> plan.kept_down
        self.state = [kept + drawn]
        for memory, number in zip(plan.memories, state, strict=True):
            grown, read = (int(each[0]) for each in memory.factors(step, 1))
            terms += read * (number >> memory.dropped) >> memory.down
            if step % memory.epoch == 0:
                number >>= memory.shift
            self.state.append(number + grown * drawn)
        self._shown += 1
        half = 1 << plan.unit_bits >> 1
        return (drawn + (terms >> 6) + half) >> plan.unit_bits
