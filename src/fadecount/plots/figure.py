"""The style of pictures, and saving them to files; without pyplot.

Curves differ in colour, and also in their marks and dashes. The colours are those of Okabe and Ito
(2008), chosen to stay distinct for every common kind of colour blindness.
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any, Final

import matplotlib
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from fadecount.errors import ParameterError, bad_parameter

COLOURS: Final = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#000000", "#56B4E9")
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
SUFFIXES = (".png", ".svg", ".pdf", ".html")
_DPI = 160


def plain_numbers(axes: Axes) -> None:
    """Write the numbers of the vertical axis out, with commas."""
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.12g}"))


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
    kind = target.suffix.lower()[1:]
    undated: dict[str, Any] = {"png": {}, "pdf": {"CreationDate": None}}.get(kind, {"Date": None})
    buffer = io.BytesIO()
    with matplotlib.rc_context(RC):
        drawn = "svg" if kind == "html" else kind
        figure.savefig(buffer, format=drawn, dpi=_DPI, metadata=undated)
    content = buffer.getvalue()
    if kind == "html":
        head = '<!doctype html><html lang="en"><meta charset="utf-8"><title>fadecount</title>'
        style = "<style>svg{max-width:100%;height:auto}</style>"
        svg = content[content.index(b"<svg") :]
        content = f"{head}{style}<body>".encode() + svg + b"</body></html>\n"
    try:
        target.write_bytes(content)
    except OSError as error:
        raise ParameterError(
            f"plot must be a writable file, got {str(path)!r} ({error.strerror}); choose another"
            " place"
        ) from error
    return target
