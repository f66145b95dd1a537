"""Make the example data again: three doors of a made-up library, as its sensors might have written
them.

    python examples/library/doors.py

The rows are invented, by a fixed seed. A few are as bad as in real files: a clock that fell back to
1970, a door that nobody declared, a line cut short, a time that is no time, an empty line.
"""

from __future__ import annotations

import random
from datetime import date, datetime, timedelta
from pathlib import Path

HERE = Path(__file__).parent
FIRST = date(2026, 3, 2)
DOORS = ("main", "garden", "children")
VISITS = {"main": 22.0, "garden": 7.0, "children": 5.0}
"""Visits in a usual hour of each door."""
OPEN = range(9, 19)
HEAD = "sensor;door;time\n"


def rows(day: date, chance: random.Random) -> list[str]:
    """The visits of a day, in the order in which the sensors reported them. The library is closed
    on Sundays."""
    if day.weekday() == 6:
        return []
    found = []
    for door in DOORS:
        for hour in OPEN:
            busy = (1.6 if hour in (15, 16, 17) else 0.8) * (1.5 if day.weekday() == 5 else 1.0)
            for _ in range(round(VISITS[door] * busy * chance.uniform(0.6, 1.4))):
                at = datetime(day.year, day.month, day.day, hour) + timedelta(
                    seconds=chance.randrange(3600)
                )
                found.append(f"S{DOORS.index(door) + 1};{door};{at:%Y-%m-%d %H:%M:%S}\n")
    chance.shuffle(found)
    return found


def main() -> None:
    chance = random.Random("the library's doors")  # noqa: S311 - example data, not noise
    days = [FIRST + timedelta(days=passed) for passed in range(15)]
    history = [row for day in days[:14] for row in rows(day, chance)]
    for place, row in (
        (40, "S1;main;1970-01-01 00:00:07\n"),
        (200, "S2;gardn;2026-03-02 11:20:04\n"),
        (311, "S2;garden\n"),
        (312, "\n"),
        (900, "S3;children;03/05/2026 2:15 PM\n"),
        (1500, "S4;staff entrance;2026-03-07 08:01:44\n"),
    ):
        history.insert(place, row)
    (HERE / "doors.csv").write_text(HEAD + "".join(history), encoding="utf-8")
    (HERE / f"doors-{days[14]}.csv").write_text(
        HEAD + "".join(rows(days[14], chance)), encoding="utf-8"
    )


if __name__ == "__main__":
    main()
