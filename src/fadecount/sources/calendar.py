"""Zones and ticks: from Unix seconds to the number of a tick, one moment at a time.

A tick begins at a multiple of its length in UTC; ticks of whole days begin at midnight in the zone, so that a day on which the
clock is set is one tick of 23 or 25 hours.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import lru_cache

from fadecount.sources.options import SourceOptions, zone_of

DAY = 86_400
ZONE_STEP = 900  # the rules of every zone since 1972 change at a quarter of an hour
_EPOCH = datetime(1970, 1, 1)


@lru_cache(maxsize=65_536)
def offset_at_local(local_step: int, zone: str) -> int:
    """Seconds by which ``zone`` is ahead of UTC, at a local time in quarters of an hour since 1970.

    Where the clock is set back, the hour that happens twice is taken the first time; an hour that is left out is taken as if
    the clock had not been set forward yet.
    """
    return 0 if zone == "UTC" else _offset((_EPOCH + timedelta(seconds=local_step * ZONE_STEP)).replace(tzinfo=zone_of(zone)))


@lru_cache(maxsize=65_536)
def offset_at_instant(step: int, zone: str) -> int:
    """Seconds by which ``zone`` is ahead of UTC, at a moment in quarters of an hour since 1970."""
    return (
        0
        if zone == "UTC"
        else _offset((_EPOCH + timedelta(seconds=step * ZONE_STEP)).replace(tzinfo=UTC).astimezone(zone_of(zone)))
    )


def tick_reader(options: SourceOptions) -> Callable[[int], int]:
    """A function from Unix seconds to the number of the tick."""
    length, zone = options.tick_seconds, options.time_zone
    if follows_zone(options):
        return lambda seconds: (seconds + offset_at_instant(seconds // ZONE_STEP, zone)) // length
    return lambda seconds: seconds // length


def follows_zone(options: SourceOptions) -> bool:
    """Whether ticks begin at local midnight."""
    return options.tick_seconds % DAY == 0 and options.time_zone != "UTC"


def _offset(moment: datetime) -> int:
    offset = moment.utcoffset()
    assert offset is not None
    return round(offset.total_seconds())
