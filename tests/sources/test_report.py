"""What a history must meet before it is released."""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from fadecount.errors import InputError, ParameterError
from fadecount.sources import Gate, Reason, SourceReport
from fadecount.streams import Ticks


def report(rows: int, **skipped: int) -> SourceReport:
    counts = Counter({Reason[name.upper()]: number for name, number in skipped.items()})
    return SourceReport(rows_read=rows, skipped=counts)


@pytest.mark.parametrize(
    ("part", "given", "passes"),
    [
        (0.5, report(0), True),
        (0.5, report(10, time=5), True),
        (0.5, report(10, time=3, fields=3), False),
        (0.5, report(10, before=9), True),
        (0.5, report(10, before=9, time=1), True),
        (0.5, report(10, after=10), True),
        (0.5, report(10, key=9), True),
        (0.5, report(10, key=10), False),
        (0.5, report(10, key=4, before=6), False),
        (0.5, report(10, key=4, time=2, before=4), False),
        (0.5, report(10, key=4, time=2, before=3), True),
        (0.0, report(10, person=1), False),
        (0.0, report(10), True),
        (0.05, report(100, time=5), True),
        (0.05, report(100, time=6), False),
        (1.0, report(10, time=10), True),
        (1.0, report(10, key=10), True),
    ],
)
def test_rows_that_cannot_be_read(part: float, given: SourceReport, passes: bool) -> None:
    gate = Gate(max_left_out=part)
    if passes:
        gate.check_rows(given)
    else:
        with pytest.raises(InputError, match="nothing was released"):
            gate.check_rows(given)


@pytest.mark.parametrize("part", [-0.1, 1.1, float("nan"), "5%"])
def test_a_part_is_a_part(part: float) -> None:
    with pytest.raises(ParameterError, match="max_left_out must be between 0 and 1"):
        Gate(max_left_out=part)


@pytest.mark.parametrize(
    ("zone", "tick", "begin", "latest"),
    [
        # from the middle of a day: the rest of it may be empty, and no whole day
        ("UTC", 3600, "2026-03-01T10:00", "2026-03-02T23:00"),
        ("UTC", 3600, "2026-03-02T00:00", "2026-03-02T23:00"),
        ("Europe/Vienna", 3600, "2026-03-29T00:00", "2026-03-29T23:00"),
        ("Europe/Vienna", 3600, "2026-03-28T05:00", "2026-03-29T23:00"),
        ("Europe/Vienna", 900, "2026-10-25T00:00", "2026-10-25T23:45"),
        ("Asia/Kathmandu", 3600, "2026-03-02T00:00", "2026-03-02T23:59"),
        ("Europe/Vienna", 86400, "2026-03-29", "2026-03-29"),
        ("UTC", 7 * 86400, "2026-03-05", "2026-03-05"),
    ],
)
def test_a_whole_day_without_events_is_a_gap(zone: str, tick: int, begin: str, latest: str) -> None:
    ticks = Ticks(tick_seconds=tick, zone=zone)
    first, last = (
        ticks.at(datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).timestamp())
        for text in (begin, latest)
    )
    for event in range(first, last + 1):
        Gate().check_gap(ticks, first, event)
    with pytest.raises(InputError, match=r"nothing was released.*\(allow_gap, --allow-gap\)"):
        Gate().check_gap(ticks, first, last + 1)
    Gate(allow_gap=True).check_gap(ticks, first, last + 1000)
