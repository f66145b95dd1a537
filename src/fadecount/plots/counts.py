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
from fadecount.plots.figure import COLOURS, RC, plain_numbers

MOST_BARS = 400
MOST_POINTS = 4000
_TRUE, _RELEASED, _BAND = "#000000", COLOURS[0], "#9BC4DF"


def _band(axes: Axes, times: Any, low: Any, high: Any) -> None:
    axes.fill_between(times, low, high, color=_BAND, linewidth=0, label="95 % interval", zorder=1)


def draw_releases(
    figure: Figure | SubFigure,
    times: Sequence[Any] | NDArray[Any],
    released: NDArray[Any],
    true: NDArray[Any],
    *,
    error: NDArray[np.float64] | float,
    title: str = "",
    unit: str = "events",
    label: str = "running count",
) -> None:
    """Draw released and true counts, and below them how far they are apart, in the band that
    ``error`` bounds at each time with probability 95 %. True counts are secret: only their owner
    may see this picture; for others see :func:`draw_panels`."""
    if not len(times) == len(released) == len(true):
        raise ParameterError(
            f"times and true must have one entry per release, {len(released)}; cut them to one"
            " length"
        )
    margin = np.broadcast_to(np.asarray(error, dtype=np.float64), (len(released),))
    with matplotlib.rc_context(RC):
        upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(3, 2))
        upper.plot(times, true, color=_TRUE, linewidth=3.2, label="true", zorder=2)
        look: dict[str, Any] = {"color": COLOURS[4], "linewidth": 1.3, "zorder": 3}
        upper.plot(times, released, label="released", **look)
        _band(lower, times, -margin, margin)
        look = {"color": _RELEASED, "linewidth": 0.6, "zorder": 3}
        lower.plot(times, released - true, label="released minus true", **look)
        lower.axhline(0.0, color=_TRUE, linewidth=1.0, zorder=2)
        for axes, name in ((upper, label), (lower, "error")):
            plain_numbers(axes)
            axes.set_ylabel(f"{name} ({unit})")
        upper.set_title(title)
        figure.legend(loc="outside lower center", ncols=4)


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
    panels = [{name: each[table["key"] == key] for name, each in table.items()} for key in keys]
    few = len(panels[0]["start"]) <= MOST_BARS
    with matplotlib.rc_context(RC):
        grid = figure.subplots(-(-len(keys) // columns), columns, sharex=True, squeeze=False)
        for axes, key, panel in zip(grid.flat, keys, panels, strict=False):
            # days since 1970, as matplotlib counts them
            starts, ends = (panel[name] / 86_400 for name in ("start", "end"))
            if bars and few:
                _draw_bars(axes, panel, starts, ends)
            else:
                some = slice(None, None, max(1, -(-len(starts) // MOST_POINTS)))
                times = (starts if bars else ends)[some]
                _band(axes, times, panel["low"][some], panel["high"][some])
                look: dict[str, Any] = {"color": _RELEASED, "linewidth": 1.3, "zorder": 3}
                axes.plot(times, panel["value"][some], label="published", **look)
            axes.xaxis_date()
            # Two marks are enough: with five, three days would need marks between hours and days,
            # and there are none.
            most = 6 if columns > 1 else 9
            locator = AutoDateLocator(minticks=2, maxticks=most, tz=ZoneInfo(zone))  # type: ignore[no-untyped-call]
            axes.xaxis.set_major_locator(locator)
            formatter = ConciseDateFormatter(locator, tz=ZoneInfo(zone))  # type: ignore[no-untyped-call]
            axes.xaxis.set_major_formatter(formatter)
            plain_numbers(axes)
            if len(keys) > 1:
                axes.set_title(key, fontsize=9)
        if len(keys) % columns:  # the panel above a hidden one is the last of its column
            grid[-1, -1].set_visible(False)
            grid[-2, -1].tick_params(labelbottom=True)
            grid[-2, -1].xaxis.offsetText.set_visible(True)
        figure.supylabel(unit, fontsize=10)
        if title:
            figure.suptitle(title, fontsize=11, fontweight="bold", x=0.01, ha="left")
        handles, labels = grid.flat[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=4)


def _draw_bars(axes: Axes, panel: Mapping[str, NDArray[Any]], starts: Any, ends: Any) -> None:
    widths, cut, final = 0.8 * (ends - starts), panel["partial"], panel["status"] == "final"
    for chosen, label, look in (
        (~cut & final, "final", {}),
        (~cut & ~final, "provisional or revised", {"hatch": "////", "edgecolor": "white"}),
        (cut, "so far, or not from its beginning", {"alpha": 0.45}),
    ):
        if chosen.any():
            columns = starts[chosen], panel["value"][chosen], widths[chosen]
            axes.bar(*columns, align="edge", color=_RELEASED, label=label, zorder=2, **look)
    whiskers: dict[str, Any] = {"color": _TRUE, "linewidth": 1.0, "zorder": 3}
    middle = starts + widths / 2
    axes.vlines(middle, panel["low"], panel["high"], label="95 % interval", **whiskers)
    axes.axhline(0.0, color=_TRUE, linewidth=0.7, zorder=1)
