"""Draw the picture of the README again, a count and its fading curve: ``make readme-picture``.

The visits are those of ``examples/library``; they are made up, so the true count may be shown
beside the released one.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.dates import DateFormatter

import fadecount as fc
from fadecount.plots import Curve, draw_curves, draw_releases, new_figure, save_figure
from fadecount.sources import SourceOptions, read_file
from fadecount.streams import Ticks

ROOT = Path(__file__).parent.parent
PICTURE = ROOT / "docs" / "pictures" / "fading.svg"
HOUR, YEAR, ZONE = 3600, 8760, "Europe/Vienna"


def main(out: Path = PICTURE) -> int:
    ticks = Ticks(tick_seconds=HOUR, zone=ZONE)
    first = ticks.at(1_772_406_000)  # 2026-03-02 in Vienna
    options = SourceOptions(
        tick=HOUR, zone=ZONE, time="time", key="door", keys=("main",), separator=";"
    )
    visits = np.zeros(7 * 24, dtype=np.int64)
    for batch in read_file(ROOT / "examples" / "library" / "doors.csv", options):
        inside = (batch.ticks >= first) & (batch.ticks < first + len(visits))
        np.add.at(visits, batch.ticks[inside] - first, batch.counts[inside])

    mechanism = fc.Gradual(epsilon=0.1)  # what the plan of the README saves, up to rounding
    released = fc.Counter(mechanism).extend(visits)
    half_width = np.array(
        [mechanism.window_interval(0, step) for step in range(1, len(visits) + 1)]
    )

    figure = new_figure(11.0, 3.8)
    panels: Any = figure.subfigures(1, 2, width_ratios=(3, 2))
    left, right = panels
    hours = np.datetime64("2026-03-02T01:00") + np.arange(len(visits)).astype("timedelta64[h]")
    draw_releases(
        left,
        hours,
        released,
        error=half_width,
        confidence=0.95,
        title="What is published: visits to a library, in March",
        unit="visits",
    )
    left.axes[0].xaxis.set_major_formatter(DateFormatter("%a %-d"))  # type: ignore[no-untyped-call]
    curve = Curve.of(mechanism, horizon=YEAR, label="privacy loss (ε) of one visit, exact")
    draw_curves(
        right,
        [curve],
        tick_seconds=HOUR,
        logarithmic=False,
        subject="visit",
        title="What it costs: the loss by the age of a visit",
    )
    out.parent.mkdir(parents=True, exist_ok=True)
    print(f"{save_figure(figure, out)} written")
    return 0


if __name__ == "__main__":
    sys.exit(main(*map(Path, sys.argv[1:])))
