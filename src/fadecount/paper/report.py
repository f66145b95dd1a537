"""The report: figures as PNG, SVG and CSV, tables as CSV, and one self-contained page that shows
them, each with an explanation and its parameters."""

from __future__ import annotations

import base64
import csv
import html
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from matplotlib.figure import Figure

import fadecount as fc
from fadecount.plots import Curve, draw_curves, new_figure, save_figure


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Section:
    """One part of the report. ``text`` is HTML. ``curves`` make a picture; they have the same ages.
    ``table`` is rows of cells, the first one of names; the page rounds numbers."""

    name: str
    heading: str
    text: Sequence[str]
    parameters: str
    table: Sequence[Sequence[object]] = ()
    curves: Sequence[Curve] = ()
    logarithmic: bool = False

    @property
    def files(self) -> list[str]:
        """The files beside the page."""
        suffixes = ("png", "svg", "csv") if self.curves else ("csv",)
        return [f"{self.name}.{suffix}" for suffix in suffixes]

    def drawn(self) -> Figure:
        """The picture; larger for a million steps."""
        figure = new_figure(*((9.6, 5.4) if self.curves[0].ages[-1] > 1000 else (8.0, 4.8)))
        draw_curves(figure, self.curves, logarithmic=self.logarithmic, subject="item")
        return figure

    def write(self, folder: Path) -> None:
        """Write the files: the numbers in full, and the picture."""
        numbers: Iterable[Sequence[object]] = self.table
        if self.curves:
            columns = [self.curves[0].ages, *(curve.losses for curve in self.curves)]
            points = zip(*(column.tolist() for column in columns), strict=True)
            numbers = [["age", *(curve.label for curve in self.curves)], *points]
            figure = self.drawn()
            for name in self.files[:2]:
                save_figure(figure, folder / name)
        with (folder / f"{self.name}.csv").open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows(numbers)


def page(sections: Sequence[Section], folder: Path) -> str:
    """The report as HTML, with the pictures that the sections wrote. It loads no other files."""
    style = files("fadecount.paper").joinpath("report.css").read_text(encoding="utf-8")
    contents = "".join(
        f'<li><a href="#{each.name}">{html.escape(each.heading)}</a></li>' for each in sections
    )
    body = "\n".join(_section(each, folder) for each in sections)
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Continual counting with gradual privacy expiration, reproduced</title>
<style>
{style}</style>
</head>
<body>
<header>
<h1>Continual counting with gradual privacy expiration, reproduced</h1>
{_INTRODUCTION}
<nav aria-label="Contents"><ol>{contents}</ol></nav>
</header>
<main>
{body}
</main>
<footer><p>Made by <code>fadecount paper</code>, version {html.escape(fc.__version__)}.
The CSV files beside this page hold the numbers.</p></footer>
</body>
</html>
"""


def _section(section: Section, folder: Path) -> str:
    picture, heading = "", html.escape(section.heading)
    if section.curves:
        svg = base64.b64encode((folder / f"{section.name}.svg").read_bytes()).decode("ascii")
        picture = f'<img alt="{heading}" src="data:image/svg+xml;base64,{svg}">'
    texts = "".join(f"<p>{each}</p>" for each in section.text)
    names = ", ".join(f'<a href="{name}">{name}</a>' for name in section.files)
    text = f"<h2>{heading}</h2>{picture}{texts}{_table(section.table) if section.table else ''}"
    small = f'<p class="small">{html.escape(section.parameters)} Data: {names}.</p>'
    # an equation stays on one line
    shown = f"{text}{small}".replace(" = ", "&nbsp;=&nbsp;")
    return f'<section id="{section.name}">\n{shown}\n</section>'


def _table(table: Sequence[Sequence[object]]) -> str:
    """Columns of numbers are aligned to the right, those of words to the left."""
    header, *rows = [[_shown(cell) for cell in row] for row in table]
    words = [any(row[at][:1].isalpha() for row in rows) for at in range(len(header))]

    def line(cells: Sequence[str], tag: str) -> str:
        each = (
            f'<{tag} class="{"words" if is_words else "number"}">{html.escape(cell)}</{tag}>'
            for cell, is_words in zip(cells, words, strict=True)
        )
        return f"<tr>{''.join(each)}</tr>"

    head, body = line(header, "th"), "\n".join(line(row, "td") for row in rows)
    table_body = f"<thead>{head}</thead><tbody>\n{body}\n</tbody>"
    return f'<div class="scroll"><table>{table_body}</table></div>'


def _shown(cell: object) -> str:
    if isinstance(cell, float):
        return digits(cell) if cell < 100.0 else f"{cell:,.1f}"
    return f"{cell:,}" if isinstance(cell, int) else str(cell)


def digits(value: float) -> str:
    """A number with the four significant digits of the paper's table.

    >>> digits(0.05644805), digits(1.0961), digits(6.973)
    ('0.05645', '1.096', '6.973')
    """
    return f"{value:#.4g}"


_INTRODUCTION = """<p>Every figure and table of the evaluation in Andersson, Henzinger, Pagh,
Steiner and Upadhyay, “Continual Counting with Gradual Privacy Expiration” (NeurIPS 2024),
recomputed, and then measured with real noise.</p>
<p>How to read the curves. The <em>privacy loss</em> at an age is what all outputs so far reveal
about an item that many steps old: no observation is more than e<sup>loss</sup> times likelier with
the item than without it. The paper has a <em>theorem</em>, an upper bound for every position, and
an <em>empirical</em> loss: for each age the costliest of all positions j with j + age ≤ T, where
the cost of [j, j + age] is the sum of the budgets of the intervals that cover it exactly. Both come
from one way to shift the noise.</p>
<p>The solid lines are the <em>exact loss</em>: the cheapest of all ways to shift the noise, with a
matching lower bound. It is what an optimal observer can really learn, not a bound on it. The noise
is the same; only the accounting is better: at most half of the theorem. For refreshing, the paper
charges an item for all nodes of its round at once, the exact loss only for those published.</p>"""
