"""Which ticks are over, by a clock that may be wrong.

One policy for every tick length: a closed tick cannot be opened again, so a wrong
clock must not close any. A clock that is ahead looks like downtime. The longer the gap, the less
likely it is downtime. So up to a limit, missed ticks are closed. Beyond the limit the stream stops
releasing until the clock is right again, or until the operator confirms the clock
(:meth:`Stream.catch_up`).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from fadecount.calendar import DAY, Ticks

LONGEST_DOWNTIME = 7 * DAY
"""Seconds after the end of the open tick up to which missed ticks are closed without asking."""

LARGEST_LAG = 3600
"""Seconds by which a clock may be behind the last release before that is reported."""


class ClockState(StrEnum):
    """Whether a clock agrees with a stream."""

    FINE = "fine"
    BEHIND = "behind"
    AHEAD = "ahead"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockReading:
    """What a clock says about a stream: its state, the last tick that may be closed (None: there is
    none), and why."""

    state: ClockState
    due: int | None
    text: str = ""


def read_clock(ticks: Ticks, open_tick: int, now: float) -> ClockReading:
    """What the clock (``now``, Unix seconds) says about a stream with this open tick.

    ``fine``: every tick that is over may be closed. ``behind``: the clock is more than
    ``LARGEST_LAG`` before the end of the last release; nothing is due until it is right. ``ahead``:
    the open tick seems to be over for more than ``LONGEST_DOWNTIME``; nothing is closed until the
    clock is right, or the operator says that it is.

    >>> minutes = Ticks(tick_seconds=60)
    >>> read_clock(minutes, 100, 6130.0)
    ClockReading(state=<ClockState.FINE: 'fine'>, due=101, text='')
    >>> read_clock(minutes, 100, 6130.0 + 10 * 365 * 86400).state
    <ClockState.AHEAD: 'ahead'>
    """
    overdue = now - ticks.start_seconds(open_tick + 1)
    if overdue > LONGEST_DOWNTIME:
        text = (
            f"the clock is {overdue:.0f} s past the end of the open tick (limit"
            f" {LONGEST_DOWNTIME} s): nothing is released until the clock is right; if it is"
            " right, say so: fadecount streams catch-up NAME --yes"
        )
        return ClockReading(state=ClockState.AHEAD, due=None, text=text)
    lag = ticks.start_seconds(open_tick) - now
    if lag > LARGEST_LAG:
        text = (
            f"the clock is {lag:.0f} s behind the last release: nothing is released until it is"
            " right"
        )
        return ClockReading(state=ClockState.BEHIND, due=None, text=text)
    due = ticks.at(now) - 1
    return ClockReading(state=ClockState.FINE, due=due if due >= open_tick else None)
