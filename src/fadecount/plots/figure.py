"""The style of pictures, their axes, and saving them to files; without pyplot.

Curves differ in colour, and also in their marks and dashes. The colours are those of Okabe and Ito
(2008), chosen to stay distinct for every common kind of colour blindness. A *kind* of curve (exact,
paper, ...) has its dashes, a *group* (one mechanism) its colour and mark. Ages are shown in human
time, losses in plain numbers.
"""

from __future__ import annotations

import io
import math
from pathlib import Path
from typing import Any, Final

import matplotlib
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from fadecount.errors import ParameterError, bad_parameter

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


_HUMAN = (
    (1, "1 s"),
    (60, "1 min"),
    (3600, "1 hour"),
    (86400, "1 day"),
    (30 * 86400, "1 month"),
    (365 * 86400, "1 year"),
    (10 * 365 * 86400, "10 years"),
    (100 * 365 * 86400, "100 years"),
    (10**4 * 365 * 86400, "$10^4$ years"),
    (10**7 * 365 * 86400, "$10^7$ years"),
    (10**10 * 365 * 86400, "$10^{10}$ years"),
    (10**13 * 365 * 86400, "$10^{13}$ years"),
)
_LINEAR = 0.6  # decades of room for the step from age 0 to age 1
_APART = 0.12  # of the axis: nearer marks would run into each other


def age_axis(axes: Axes, oldest: int, tick_seconds: float | None, subject: str = "event") -> None:
    """A logarithmic axis that has room for age 0; with a tick length its marks are minutes, days
    and years."""
    axes.set_xscale("symlog", linthresh=1.0, linscale=_LINEAR)
    axes.set_xlim(-0.02, max(2.0, oldest * 1.15))
    marks = _human_marks(oldest, tick_seconds) if tick_seconds else _plain_marks(oldest)
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xticks([place for place, _ in marks], [name for _, name in marks])
    axes.set_xlabel(f"age of the {subject}" if tick_seconds else f"age of the {subject} (steps)")


def loss_axis(axes: Axes, *, logarithmic: bool) -> None:
    """The axis of the privacy loss, in plain numbers."""
    if logarithmic:
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.12g}"))
        axes.yaxis.set_minor_locator(NullLocator())
        low, high = axes.get_ylim()
        if high < 200.0 * low:
            axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    else:
        axes.set_ylim(bottom=0.0)
    axes.set_ylabel("privacy loss (epsilon)")


def count_axis(axes: Axes, label: str) -> None:
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes.set_ylabel(label)


def _plain_marks(oldest: int) -> list[tuple[float, str]]:
    powers = range(len(str(oldest * 115 // 100)))
    step = 1 + len(powers) // 10
    return [(0.0, "0"), *((10.0**power, _power(power)) for power in powers if power % step == 0)]


def _power(power: int) -> str:
    return f"{10**power:,}" if power <= 3 else f"$10^{{{power}}}$"


def _human_marks(oldest: int, tick_seconds: float) -> list[tuple[float, str]]:
    """The marks of human time within the axis, leaving out those too close to the one before."""
    width = math.log10(oldest + 1.0) + _LINEAR
    kept, last = [(0.0, "0")], 0.0
    for seconds, name in _HUMAN:
        age = seconds / tick_seconds
        if (
            1.0 <= age <= oldest * 1.15
            and (place := math.log10(age) + _LINEAR) - last >= _APART * width
        ):
            kept.append((age, name))
            last = place
    return kept


SUFFIXES = (".png", ".svg", ".pdf", ".html")
_DPI = 160


def new_figure(width: float = 7.2, height: float = 4.8) -> Figure:
    """An empty figure with its size in inches and automatic layout; no global state refers to
    it."""
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def check_picture(path: str | Path) -> Path:
    """The file of a picture; refused if its ending names no format or its folder does not exist.
    Writes nothing."""
    target = Path(path)
    if target.suffix.lower() not in SUFFIXES:
        bound = f"a file that ends with {', '.join(SUFFIXES)}"
        raise bad_parameter("plot", str(path), bound, "the ending chooses the format")
    if not target.parent.is_dir():
        bound = "a file in a folder that exists"
        raise bad_parameter("plot", str(path), bound, "make the folder first")
    return target


def save_figure(figure: Figure, path: str | Path) -> Path:
    """Write the figure as PNG, SVG, PDF or an HTML page, by the end of its name. The same figure
    gives the same bytes."""
    target = check_picture(path)
    try:
        kind = target.suffix.lower()[1:]
        target.write_bytes(_page(figure) if kind == "html" else _rendered(figure, kind))
    except OSError as error:
        raise ParameterError(
            f"plot must be a writable file, got {str(path)!r} ({error.strerror}); choose another"
            " place"
        ) from error
    return target


def svg_text(figure: Figure) -> str:
    """The figure as an ``<svg>`` element for use inside an HTML page."""
    text = _rendered(figure, "svg").decode("utf-8")
    return text[text.index("<svg") :]


def _page(figure: Figure) -> bytes:
    style = "<style>svg{max-width:100%;height:auto}</style>"
    head = f'<!doctype html><html lang="en"><meta charset="utf-8"><title>fadecount</title>{style}'
    return f"{head}<body>{svg_text(figure)}</body></html>\n".encode()


def _rendered(figure: Figure, kind: str) -> bytes:
    undated: dict[str, Any] = {"png": {}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}[
        kind
    ]
    buffer = io.BytesIO()
    with matplotlib.rc_context(RC):
        figure.savefig(buffer, format=kind, dpi=_DPI, metadata=undated)
    return buffer.getvalue()
