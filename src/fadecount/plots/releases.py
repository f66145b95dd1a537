"""Released counts, with the band in which the truth lies; with the true counts where their owner draws them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import matplotlib
import numpy as np
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
) -> None:
    """Draw released running counts with their error band, and below them how far they are from the true counts, if given.

    ``error`` bounds the distance at each time with probability ``confidence``. True counts are the owner's secret: a picture
    with them is for the owner's eyes only.
    """
    count = len(released)
    if len(times) != count or (true is not None and len(true) != count):
        raise ParameterError(f"times and true must have one entry per release, {count}; cut them to one length")
    margin = np.broadcast_to(np.asarray(error, dtype=np.float64), (count,))
    share = f"{100 * confidence:g} %"
    with matplotlib.rc_context(RC):
        if true is None:
            upper, lower = figure.subplots(), None
        else:
            upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(3, 2))
        if true is not None:
            upper.plot(times, true, color=TRUE_COLOUR, linewidth=3.2, label="true", zorder=2)
        upper.plot(
            times, released, color=RELEASED_COLOUR if true is None else "#E69F00", linewidth=1.3, label="released", zorder=3
        )
        if lower is None:
            upper.fill_between(times, released - margin, released + margin, color=BAND_COLOUR, label=f"{share} band", zorder=1)
        else:
            assert true is not None
            lower.fill_between(times, -margin, margin, color=BAND_COLOUR, alpha=0.6, linewidth=0, label=f"{share} band", zorder=1)
            lower.plot(times, released - true, color=RELEASED_COLOUR, linewidth=0.6, label="released minus true", zorder=3)
            lower.axhline(0.0, color=TRUE_COLOUR, linewidth=1.0, zorder=2)
            count_axis(lower, f"error ({unit})")
        count_axis(upper, f"running count ({unit})")
        upper.set_title(title)
        figure.legend(loc="outside lower center", ncols=4)
