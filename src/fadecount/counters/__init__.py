"""The running counter, for any mechanism."""

from fadecount.counters.counter import Counter

__all__ = ["Counter"]
