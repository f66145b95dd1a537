"""The report: one self-contained page with the figures and tables in the paper's order, each with
an explanation and its parameters."""

from __future__ import annotations

import base64
import html
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files

import fadecount as fc
from fadecount.paper.measured import CONFIDENCE, Measured
from fadecount.paper.table import TABLE, budgets_of, digits
from fadecount.rounding import short_loss

Table = Sequence[Sequence[object]]
"""Rows of cells, the first one of names. The page rounds numbers; the CSV file has them in full."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """One part of the report. ``text`` is HTML, ``picture`` SVG, ``files`` hold its numbers."""

    name: str
    heading: str
    text: Sequence[str]
    parameters: str
    files: Sequence[str]
    picture: str = ""
    table: Table = ()


def table_section() -> Section:
    """Table 1: every row as printed and as computed."""
    table: list[Sequence[object]] = [TABLE_COLUMNS]
    for row in TABLE:
        both = (row.printed_mechanism, row.computed)
        budgets = [value for each in both for value in (*budgets_of(each), "")[:2]]
        objectives = [short_loss(row.objective(each)) if row.is_optimal else "" for each in both]
        table.append([row.horizon, row.name, *budgets, *objectives])
    return Section(
        name="table1",
        heading="Table 1: budgets for a mean squared error of 1000",
        text=TABLE_TEXT,
        table=table,
        parameters="Continuous Laplace noise, B = 0.",
        files=["table1.csv"],
    )


def measured_section(results: Sequence[Measured]) -> Section:
    """What was measured: every trial, and the bounds around it."""
    table: list[Sequence[object]] = [MEASURED_COLUMNS]
    for each in results:
        trial = each.trial
        mse = [""] * 4 if trial.delay else [each.mse, *each.interval, each.forecast]
        corollary = each.corollary if trial.row.exponent is not None else ""
        bounds = [each.lower_bound, each.kept_by_two_thirds, each.upper_bound, corollary]
        table.append([trial.row.horizon, trial.row.name, trial.delay, trial.runs, *mse, *bounds])
    plain = [each for each in results if not each.trial.delay]
    inside = sum(each.interval[0] <= each.forecast <= each.interval[1] for each in plain)
    return Section(
        name="measured",
        heading="Measured with real noise",
        text=[
            text.format(inside=inside, count=len(plain), miss=f"{1 - CONFIDENCE:.0%}")
            for text in MEASURED_TEXT
        ],
        table=table,
        parameters=(
            "Integer noise from the operating system's entropy: every run of this command gives"
            " other numbers."
        ),
        files=["measured.csv"],
    )


def page(sections: Sequence[Section]) -> str:
    """The report as HTML. It loads no other files."""
    style = files("fadecount.paper").joinpath("report.css").read_text(encoding="utf-8")
    contents = "".join(
        f'<li><a href="#{each.name}">{html.escape(each.heading)}</a></li>' for each in sections
    )
    body = "\n".join(_section(each) for each in sections)
    introduction = "".join(f"<p>{each}</p>" for each in INTRODUCTION)
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
{introduction}
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


def _section(section: Section) -> str:
    parts = [
        f'<section id="{section.name}">',
        f"<h2>{_unbroken(html.escape(section.heading))}</h2>",
    ]
    texts = [f"<p>{_unbroken(each)}</p>" for each in section.text]
    if section.picture:
        address = base64.b64encode(section.picture.encode("utf-8")).decode("ascii")
        parts.append(
            f'<figure><img alt="{html.escape(section.heading)}" '
            f'src="data:image/svg+xml;base64,{address}">'
            f"<figcaption>{texts.pop(0)}</figcaption></figure>"
        )
    parts += [*texts, _table(section.table) if section.table else ""]
    names = ", ".join(f'<a href="{name}">{name}</a>' for name in section.files)
    parts.append(
        f'<p class="small">{_unbroken(html.escape(section.parameters))} Data: {names}.</p>'
    )
    return "\n".join([*parts, "</section>"])


def _unbroken(text: str) -> str:
    """An equation stays on one line."""
    return text.replace(" = ", "&nbsp;=&nbsp;")


def _table(table: Table) -> str:
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


# The text, as HTML. Numbers are filled in where they are known.
# ------------------------------------------------------------------------------------------------
def _flowing(text: str) -> str:
    return " ".join(text.split())


_BUDGETS = ("printed ε", "printed past ε", "computed ε", "computed past ε")
TABLE_COLUMNS = ("T", "mechanism", *_BUDGETS, "printed objective", "computed objective")
_ERRORS = ("measured MSE", "from", "to", "forecast", "lower bound", "largest error", "our bound")
MEASURED_COLUMNS = ("T", "mechanism", "B", "runs", *_ERRORS, "Corollary 1")

INTRODUCTION = tuple(
    _flowing(text)
    for text in (
        """Every figure and table of the evaluation in Andersson, Henzinger, Pagh, Steiner and
        Upadhyay, “Continual Counting with Gradual Privacy Expiration” (NeurIPS 2024), recomputed,
        and then measured with real noise.""",
        """How to read the curves. The <em>privacy loss</em> at an age is what all outputs so far
        reveal about an item that many steps old: no observation is more than e<sup>loss</sup> times
        likelier with the item than without it. The paper has a <em>theorem</em>, an upper bound for
        every position, and an <em>empirical</em> loss: for each age the costliest of all positions
        j with j + age ≤ T, where the cost of [j, j + age] is the sum of the budgets of the
        intervals that cover it exactly. Both come from one way to shift the noise.""",
        """The solid lines are the <em>exact loss</em>: the cheapest of all ways to shift the noise,
        with a matching lower bound. It is what an optimal observer can really learn, not a bound on
        it. The noise is the same; only the accounting is better: at most half of the theorem. For
        refreshing, the paper charges an item for all nodes of its round at once, the exact loss
        only for those published.""",
    )
)

TABLE_TEXT = tuple(
    _flowing(text)
    for text in (
        """The budgets at which each mechanism has a mean squared error of 1000 over the first T
        outputs, with continuous noise. With a fixed ratio they agree with the paper to the digits
        printed. “Past” is what refreshing spends on all earlier rounds.""",
        """For the optimal ratio the stated objective is ε<sub>cur</sub> + (N &minus;
        1)·ε<sub>past</sub>, with N = ⌈T/W⌉ rounds, at that error. The printed pairs meet the error
        but do not minimize this objective: the minimizer has ε<sub>past</sub>/ε<sub>cur</sub> =
        (V<sub>past</sub>/(V<sub>tree</sub>·(N &minus; 1)))<sup>1/3</sup>, where the error is
        V<sub>tree</sub>/ε<sub>cur</sub>² + V<sub>past</sub>/ε<sub>past</sub>². Both are shown with
        their values. The conclusions of the comparison are the same for either.""",
    )
)

MEASURED_TEXT = tuple(
    _flowing(text)
    for text in (
        """The budgets above are computed for a mean squared error of 1000; here it is measured.
        Every run is a counter of the library from the first step to step T, on fresh noise. The
        noise is on the integers, whose variance is slightly below that of the continuous noise of
        the calibration: “forecast” is the exact expectation for it. {inside} of {count} intervals
        (“from”, “to”) hold the forecast; each misses it by chance with probability about {miss}.
        “Largest error” is what two thirds of the runs kept at every one of the T steps, and “our
        bound” is proved to hold for at least as many.""",
        """The last rows are Algorithm 3 with the delay of Corollary 1, B =
        ⌈log<sub>2</sub>(T)/ε⌉, on a stream of ones, of which a delay misses the most. No mechanism
        with the same loss curve can keep an error below the lower bound (Theorem 4.1) at all T
        steps with probability 2/3. “Corollary 1” is the paper's bound with its constants, B +
        &nu;·√(8 ln(2T/β)); “our bound” takes the best exponent in Chernoff's inequality; both with
        β = 1/3. The measured errors lie between.""",
    )
)
