"""Which ticks are over, by a clock that may be wrong."""

from __future__ import annotations

from fadecount.errors import ClockError
from fadecount.streams.chunks import Chunk
from fadecount.streams.stream import Stream

LARGEST_CATCH_UP = 30 * 86400
"""Seconds of downtime that are made up for without asking."""

LARGEST_LAG = 3600
"""Seconds by which a clock may be set back without an error."""


def close_due(stream: Stream, now: float, *, largest_gap_seconds: int = LARGEST_CATCH_UP) -> list[Chunk]:
    """Close the ticks that are over at ``now`` (Unix seconds), also those missed in a downtime, and return their releases.

    A clock that is far off closes nothing: one that lags behind what is released, or one so far ahead that the gap is longer than
    any downtime should be, raises a :class:`ClockError`. A stream that has not begun begins with the tick before ``now``.
    """
    ticks, begin = stream.description.ticks, stream.open_tick
    last = ticks.at(now) - 1
    if begin is None:
        return stream.close_through(last)
    ahead = now - ticks.start_seconds(begin)
    if -ahead > max(LARGEST_LAG, 2 * ticks.tick_seconds):
        raise ClockError(f"clock must not be behind the last release, got {-ahead:.0f} s; nothing closes until it is set right")
    if ahead > max(largest_gap_seconds, 2 * ticks.tick_seconds):
        bound = f"within {largest_gap_seconds} s of the open tick"
        raise ClockError(f"clock must be {bound}, got {ahead:.0f} s; set it right, or allow the gap")
    return stream.close_through(last) if last >= begin else []
