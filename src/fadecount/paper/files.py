"""The output folder, CSV files and pictures."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from pathlib import Path

from matplotlib.figure import Figure

from fadecount.errors import ParameterError
from fadecount.paper.figures import PaperFigure
from fadecount.paper.table import SHORT
from fadecount.plots import draw_curves, new_figure, save_figure, svg_text


def prepare_folder(path: Path, *, force: bool) -> None:
    """Make the folder, or refuse: one that cannot be written to, or one with something in it,
    unless forced."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        probe = path / ".fadecount-probe"
        probe.touch()
        probe.unlink()
        occupied = any(path.iterdir())
    except OSError as error:
        raise ParameterError(
            f"--out must be a writable folder, got {str(path)!r} ({error.strerror}); choose another"
        ) from error
    if occupied and not force:
        raise ParameterError(
            f"--out must be an empty folder, got {str(path)!r}; choose another, or give --force to"
            " write into it"
        )


def write_csv(path: Path, header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(header)
        writer.writerows(rows)


def write_figure(folder: Path, figure: PaperFigure) -> None:
    """The figure as PNG and SVG, and the points behind it as CSV."""
    picture = _drawn(figure, figure.title)
    save_figure(picture, folder / f"{figure.name}.png")
    save_figure(picture, folder / f"{figure.name}.svg")
    columns = [curve.losses.tolist() for curve in figure.curves]
    write_csv(
        folder / f"{figure.name}.csv",
        ["age", *(curve.label for curve in figure.curves)],
        zip(figure.ages.tolist(), *columns, strict=True),
    )


def page_pictures(figure: PaperFigure) -> tuple[str, str]:
    """The figure as SVG for a page that has a heading over it: for a wide screen and for a
    phone."""
    return svg_text(_drawn(figure)), svg_text(_drawn(figure, narrow=True))


def _drawn(figure: PaperFigure, title: str = "", *, narrow: bool = False) -> Figure:
    width = 4.4 if narrow else 9.6 if figure.horizon > SHORT else 8.0
    picture = new_figure(width, 5.4 if narrow or figure.horizon > SHORT else 4.8)
    columns = 2 if narrow and len(figure.curves) > 4 else 1 if narrow else figure.columns
    draw_curves(
        picture,
        figure.curves,
        title=title,
        logarithmic=figure.logarithmic,
        columns=columns,
        subject="item",
    )
    return picture
