"""Draw the picture of the README again, days that sharpen and the loss that pays for it: ``make
readme-picture``.

The visits are those of ``examples/library``, through the children's door; they are made up.
"""

from __future__ import annotations

import sys
from datetime import datetime
from pathlib import Path
from typing import Any

import fadecount as fc
from fadecount.plots import Curve, draw_curves, draw_panels, new_figure, save_figure
from fadecount.runs import run
from fadecount.sources import SourceOptions
from fadecount.streams.export import published_tables
from fadecount.streams.published import joined_table

ROOT = Path(__file__).parent.parent
PICTURE = ROOT / "docs" / "pictures" / "fading.svg"
HOUR, YEAR, ZONE, DOOR = 3600, 8760, "Europe/Vienna", "children"


def main(out: Path = PICTURE) -> int:
    mechanism = fc.plan(tick="1h", loss={"1d": 0.5, "30d": 1, "1y": 2}).mechanism
    options = SourceOptions(
        tick=HOUR, zone=ZONE, time="time", key="door", keys=(DOOR,), separator=";"
    )
    visits = run(
        ROOT / "examples" / "library" / "doors.csv",
        options,
        mechanism=mechanism,
        start=datetime(2026, 3, 2),
        until=datetime(2026, 3, 14, 16),
    )
    for _ in visits:
        pass
    figure = new_figure(11.0, 3.8)
    panels: Any = figure.subfigures(1, 2, width_ratios=(3, 2))
    left, right = panels
    draw_panels(
        left,
        joined_table(published_tables(visits.published, per="1d")),
        (DOOR,),
        bars=True,
        zone=ZONE,
        title="What is published: visits a day, as known on 14 March",
        unit="visits",
    )
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
