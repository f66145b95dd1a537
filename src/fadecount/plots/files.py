"""Figures to and from files, without pyplot."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from fadecount.errors import ParameterError, bad_parameter
from fadecount.plots.style import RC

SUFFIXES = (".png", ".svg", ".pdf")
_DPI = 160


def new_figure(width: float = 7.2, height: float = 4.8) -> Figure:
    """An empty figure in inches that lays itself out; it belongs to nobody but its caller."""
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def save_figure(figure: Figure, path: str | Path) -> Path:
    """Write the figure as PNG, SVG or PDF, by the end of its name. The same figure gives the same bytes."""
    target = Path(path)
    if target.suffix.lower() not in SUFFIXES:
        raise bad_parameter("plot", str(path), f"a file that ends with {', '.join(SUFFIXES)}", "the ending chooses the format")
    try:
        target.write_bytes(_rendered(figure, target.suffix.lower()[1:]))
    except OSError as error:
        raise ParameterError(
            f"plot must be a writable file, got {str(path)!r} ({error.strerror}); choose another place"
        ) from error
    return target


def svg_text(figure: Figure) -> str:
    """The figure as an ``<svg>`` element that can stand inside an HTML page."""
    text = _rendered(figure, "svg").decode("utf-8")
    return text[text.index("<svg") :]


def _rendered(figure: Figure, kind: str) -> bytes:
    undated: dict[str, Any] = {"png": {}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}[kind]
    buffer = io.BytesIO()
    with matplotlib.rc_context(RC):
        figure.savefig(buffer, format=kind, dpi=_DPI, metadata=undated)
    return buffer.getvalue()
