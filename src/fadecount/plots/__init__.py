"""Curves and counts as pictures, with matplotlib (the extra ``plots``). Nothing here uses pyplot or
its global state.

>>> import fadecount as fc
>>> from fadecount.plots import Curve, draw_curves, new_figure
>>> fading = fc.Gradual(epsilon=0.1)
>>> figure = new_figure()
>>> draw_curves(figure, [Curve.of(fading, horizon=10**6, label="gradual")], tick_seconds=60)
"""

from fadecount.errors import missing_extra

try:
    import matplotlib as _matplotlib  # noqa: F401 - asked once, so that the answer is one line
except ImportError as _error:
    raise missing_extra("plots", "matplotlib", "plots") from _error

from fadecount.plots.counts import draw_panels, draw_releases
from fadecount.plots.curves import Curve, draw_curves, spread_ages, thinned
from fadecount.plots.figure import check_picture, new_figure, save_figure

__all__ = [
    "Curve",
    "check_picture",
    "draw_curves",
    "draw_panels",
    "draw_releases",
    "new_figure",
    "save_figure",
    "spread_ages",
    "thinned",
]
