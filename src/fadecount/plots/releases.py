"""Released counts, with the band in which the truth lies; with the true counts where their owner
draws them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from zoneinfo import ZoneInfo

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
from matplotlib.figure import Figure, SubFigure
from numpy.typing import NDArray

from fadecount.errors import ParameterError
from fadecount.plots.figure import BAND_COLOUR, RC, RELEASED_COLOUR, TRUE_COLOUR, count_axis


def draw_releases(
    figure: Figure | SubFigure,
    times: Sequence[Any] | NDArray[Any],
    released: NDArray[Any],
    *,
    error: NDArray[np.float64] | float,
    confidence: float,
    true: NDArray[Any] | None = None,
    title: str = "",
    unit: str = "events",
    label: str = "running count",
) -> None:
    """Draw released counts with their error band, and below them how far they are from the true
    counts, if given.

    ``error`` bounds the distance at each time with probability ``confidence``. True counts are
    secret: only their owner may see a picture with them.
    """
    count = len(released)
    if len(times) != count or (true is not None and len(true) != count):
        raise ParameterError(
            f"times and true must have one entry per release, {count}; cut them to one length"
        )
    margin = np.broadcast_to(np.asarray(error, dtype=np.float64), (count,))
    band: dict[str, Any] = {
        "color": BAND_COLOUR,
        "label": f"{100 * confidence:g} % band",
        "zorder": 1,
    }
    with matplotlib.rc_context(RC):
        if true is None:
            upper = figure.subplots()
            look: dict[str, Any] = {"color": RELEASED_COLOUR}
            upper.fill_between(times, released - margin, released + margin, **band)
        else:
            upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(3, 2))
            look = {"color": "#E69F00"}
            upper.plot(times, true, color=TRUE_COLOUR, linewidth=3.2, label="true", zorder=2)
            lower.fill_between(times, -margin, margin, alpha=0.6, linewidth=0, **band)
            off = {"color": RELEASED_COLOUR, "label": "released minus true"}
            lower.plot(times, released - true, linewidth=0.6, zorder=3, **off)
            lower.axhline(0.0, color=TRUE_COLOUR, linewidth=1.0, zorder=2)
            count_axis(lower, f"error ({unit})")
        upper.plot(times, released, linewidth=1.3, label="released", zorder=3, **look)
        count_axis(upper, f"{label} ({unit})")
        upper.set_title(title)
        figure.legend(loc="outside lower center", ncols=4)


MOST_BARS = 400
MOST_POINTS = 4000


def draw_panels(
    figure: Figure | SubFigure,
    table: Mapping[str, NDArray[Any]],
    keys: Sequence[str],
    *,
    bars: bool,
    zone: str = "UTC",
    title: str = "",
    unit: str = "events",
) -> None:
    """Draw one small picture per key, on one axis of time: running totals with a band, or figures
    as ``bars`` with whiskers.

    ``table`` has the columns of :func:`fadecount.streams.export.figures_table`. Figures that are
    not final are hatched, and slots that are not over are pale. If there are more points than can
    be seen, an even selection is drawn. More than a few hundred figures become a line with a band.
    """
    columns = 1 if len(keys) < 4 else 2
    rows = -(-len(keys) // columns)
    panels = [{name: each[table["key"] == key] for name, each in table.items()} for key in keys]
    totals, bars = not bars, bars and len(panels[0]["start"]) <= MOST_BARS
    with matplotlib.rc_context(RC):
        grid = figure.subplots(rows, columns, sharex=True, squeeze=False)
        for axes, key, panel in zip(grid.flat, keys, panels, strict=False):
            _draw_panel(axes, panel, totals=totals, bars=bars)
            # Two marks are enough: with five, three days would need marks between hours and days,
            # and there are none.
            most = 6 if columns > 1 else 9
            locator = AutoDateLocator(minticks=2, maxticks=most, tz=ZoneInfo(zone))  # type: ignore[no-untyped-call]
            axes.xaxis.set_major_locator(locator)
            formatter = ConciseDateFormatter(locator, tz=ZoneInfo(zone))  # type: ignore[no-untyped-call]
            axes.xaxis.set_major_formatter(formatter)
            count_axis(axes, "")
            if len(keys) > 1:
                axes.set_title(key, fontsize=9)
        for axes in list(grid.flat)[len(keys) :]:
            axes.set_visible(False)
        if len(keys) % columns:  # the panel above a hidden one is the last of its column
            lowest = grid[-2, -1]
            lowest.tick_params(labelbottom=True)
            lowest.xaxis.offsetText.set_visible(True)
        figure.supylabel(unit, fontsize=10)
        if title:
            figure.suptitle(title, fontsize=11, fontweight="bold", x=0.01, ha="left")
        handles, labels = grid.flat[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=4)


def _draw_panel(axes: Axes, panel: dict[str, NDArray[Any]], *, totals: bool, bars: bool) -> None:
    stride = max(1, -(-len(panel["start"]) // MOST_POINTS))
    panel = {name: column[::stride] for name, column in panel.items()}
    values, low, high = (panel[name] for name in ("value", "low", "high"))
    # days since 1970, as matplotlib counts them
    times = panel["end" if totals else "start"] / 86_400
    axes.xaxis_date()
    if not bars:
        axes.fill_between(
            times, low, high, color=BAND_COLOUR, linewidth=0, label="95 % interval", zorder=1
        )
        axes.plot(times, values, color=RELEASED_COLOUR, linewidth=1.3, label="published", zorder=3)
        return
    widths = 0.8 * (panel["end"] - panel["start"]) / 86_400
    cut, final = panel["partial"], panel["status"] == "final"
    for chosen, label, look in (
        (~cut & final, "final", {}),
        (~cut & ~final, "provisional or revised", {"hatch": "////", "edgecolor": "white"}),
        (cut, "so far, or not from its beginning", {"alpha": 0.45}),
    ):
        if chosen.any():
            axes.bar(
                *(times[chosen], values[chosen], widths[chosen]),
                align="edge",
                color=RELEASED_COLOUR,
                label=label,
                zorder=2,
                **look,
            )
    whiskers: dict[str, Any] = {"color": TRUE_COLOUR, "linewidth": 1.0, "zorder": 3}
    axes.vlines(times + widths / 2, low, high, label="95 % interval", **whiskers)
    axes.axhline(0.0, color=TRUE_COLOUR, linewidth=0.7, zorder=1)
