"""How curves look: told apart by colour, and without colour by their marks and dashes.

The colours are those of Okabe and Ito (2008), chosen to stay distinct for every common kind of colour blindness. A *kind* of
curve (exact, paper, ...) has its dashes, a *group* (one mechanism) its colour and mark.
"""

from __future__ import annotations

from typing import Any, Final

COLOURS: Final = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#000000", "#56B4E9")
MARKS: Final = ("o", "s", "^", "D", "v", "P", "X")

KINDS: Final[dict[str, dict[str, Any]]] = {
    "exact": {"linestyle": "-", "linewidth": 2.0},
    "paper": {"linestyle": (0, (5, 2)), "linewidth": 1.3},
    "bound": {"linestyle": (0, (1, 1.4)), "linewidth": 1.4},
    "empirical": {"linestyle": "-", "linewidth": 0.7, "alpha": 0.75},
    "baseline": {"linestyle": (0, (7, 2, 1.5, 2)), "linewidth": 1.8},
}
MARKED: Final = ("exact", "baseline")
"""Kinds that carry the mark of their group; the others have the same colour and run close by."""

TRUE_COLOUR: Final = "#000000"
RELEASED_COLOUR: Final = "#0072B2"
BAND_COLOUR: Final = "#9BC4DF"

RC: Final[Any] = {
    "font.size": 10,
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.labelsize": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#DDDDDD",
    "grid.linewidth": 0.7,
    "legend.fontsize": 9,
    "legend.frameon": False,
    "svg.hashsalt": "fadecount",
    "svg.fonttype": "path",
}
