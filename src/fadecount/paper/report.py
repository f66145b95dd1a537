"""The report: one self-contained page with the figures and tables in the paper's order, each with
an explanation and its parameters."""

from __future__ import annotations

import base64
import html
import math
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files

import fadecount as fc
from fadecount.paper.measured import CONFIDENCE, Measured
from fadecount.paper.table import TABLE, budgets_of, digits
from fadecount.rounding import short_loss

Table = list[list[str]]
Records = list[list[object]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """One part of the report. ``text`` is HTML, ``pictures`` SVG for a wide screen and for a
    phone."""

    name: str
    heading: str
    text: Sequence[str]
    tables: Sequence[Table] = ()
    pictures: tuple[str, str] | None = None
    parameters: str = ""
    files: Sequence[str] = ()
    records: Sequence[Records] = ()


def fixed_rows() -> Table:
    """The rows of Table 1 that need no choice of a ratio: printed, computed, difference."""
    rows = [["T", "mechanism", "printed ε", "computed ε", "difference"]]
    for row in TABLE:
        if not row.is_optimal:
            computed = budgets_of(row.computed)
            gaps = [
                float(digits(ours)) - printed
                for ours, printed in zip(computed, row.printed, strict=True)
            ]
            rows.append(
                [
                    f"{row.horizon:,}",
                    row.name,
                    _pair(row.printed),
                    _pair(computed),
                    _pair(gaps, "{:.4g}"),
                ]
            )
    return rows


def optimal_rows() -> Table:
    """The rows of Table 1 with an optimal ratio: the printed pair and the true minimizer, each with
    its objective."""
    rows = [
        [
            "T",
            "W",
            "printed ε",
            "its MSE",
            "its objective",
            "minimizer",
            "its MSE",
            "its objective",
            "printed is higher by",
        ]
    ]
    for row in TABLE:
        if row.is_optimal:
            printed, best = row.printed_mechanism, row.computed
            cells = [f"{row.horizon:,}", str(row.window)]
            for each in (printed, best):
                error = each.mse(row.horizon, resolution_bits=math.inf)
                cells += [_pair(budgets_of(each)), f"{error:.1f}", short_loss(row.objective(each))]
            rows.append([*cells, f"{row.objective(printed) / row.objective(best) - 1.0:.2%}"])
    return rows


def table_records() -> Records:
    """Table 1 for machines: every row, every figure in full."""
    names = "T,mechanism,exponent,window,ratio,printed_epsilon,printed_epsilon_past"
    more = "computed_epsilon,computed_epsilon_past,printed_objective,computed_objective"
    records: Records = [[*names.split(","), *more.split(",")]]
    for row in TABLE:
        printed, computed = (row.printed_mechanism, row.computed)
        budgets = [
            value for each in (row.printed, budgets_of(computed)) for value in (*each, "")[:2]
        ]
        objectives = (
            [row.objective(each) for each in (printed, computed)] if row.is_optimal else ["", ""]
        )
        ratio = "optimal" if row.is_optimal else row.ratio
        records.append(
            [row.horizon, row.name, row.exponent, row.window or "", ratio, *budgets, *objectives]
        )
    return records


def measured_records(results: Sequence[Measured]) -> Records:
    """What was measured, for machines: every trial, every figure in full."""
    names = "T,mechanism,delay,epsilon,epsilon_past,runs,mse,mse_low,mse_high,mse_forecast"
    more = "largest_error,error_bound,corollary_bound,lower_bound"
    records: Records = [[*names.split(","), *more.split(",")]]
    for each in results:
        trial = each.trial
        budgets = (*budgets_of(trial.mechanism), "")[:2]
        mse = ["", "", "", ""] if trial.delay else [each.mse, *each.interval, each.forecast]
        corollary = each.corollary if trial.row.exponent is not None else ""
        bounds = [each.kept_by_two_thirds, each.upper_bound, corollary, each.lower_bound]
        records.append(
            [trial.row.horizon, trial.row.name, trial.delay, *budgets, trial.runs, *mse, *bounds]
        )
    return records


def table_section() -> Section:
    return Section(
        name="table1",
        heading="Table 1: budgets for a mean squared error of 1000",
        text=TABLE_TEXT,
        tables=[fixed_rows(), optimal_rows()],
        parameters="Continuous Laplace noise, B = 0.",
        files=["table1.csv"],
        records=[table_records()],
    )


def measured_rows(results: Sequence[Measured]) -> Table:
    """The mean squared errors of the table's mechanisms, as measured."""
    rows = [
        [
            "T",
            "mechanism",
            "runs",
            "measured MSE",
            f"{CONFIDENCE:.0%} interval",
            "forecast",
            "largest error",
            "bound on it",
        ]
    ]
    for each in results:
        if not each.trial.delay:
            low, high = each.interval
            row = each.trial.row
            cells = [
                f"{row.horizon:,}",
                row.name,
                f"{each.trial.runs:,}",
                f"{each.mse:.1f}",
                f"{low:.1f} to {high:.1f}",
            ]
            rows.append(
                [
                    *cells,
                    f"{each.forecast:.1f}",
                    f"{each.kept_by_two_thirds:.0f}",
                    f"{each.upper_bound:.0f}",
                ]
            )
    return rows


def corollary_rows(results: Sequence[Measured]) -> Table:
    """The largest errors with the delay of Corollary 1, between the lower bound and the upper
    bounds."""
    rows = [
        ["T", "λ", "ε", "B", "runs", "lower bound", "largest error", "our bound", "Corollary 1"]
    ]
    for each in results:
        mechanism = each.trial.mechanism
        if isinstance(mechanism, fc.Gradual) and each.trial.delay:
            cells = [
                f"{each.trial.row.horizon:,}",
                f"{mechanism.exponent:g}",
                digits(mechanism.epsilon),
                str(mechanism.delay),
            ]
            cells += [
                f"{each.trial.runs:,}",
                str(each.lower_bound),
                f"{each.kept_by_two_thirds:.0f}",
            ]
            rows.append([*cells, f"{each.upper_bound:.0f}", f"{each.corollary:.0f}"])
    return rows


def measured_section(results: Sequence[Measured]) -> Section:
    plain = [each for each in results if not each.trial.delay]
    inside = sum(each.interval[0] <= each.forecast <= each.interval[1] for each in plain)
    return Section(
        name="measured",
        heading="Measured with real noise",
        text=[
            text.format(inside=inside, count=len(plain), miss=f"{1 - CONFIDENCE:.0%}")
            for text in MEASURED_TEXT
        ],
        tables=[measured_rows(results), corollary_rows(results)],
        parameters=(
            "Integer noise from the operating system's entropy: every run of this command gives"
            " other numbers."
        ),
        files=["measured.csv"],
        records=[measured_records(results)],
    )


def _pair(values: Sequence[float], form: str = "{:#.4g}") -> str:
    return " / ".join(form.format(value) for value in values)


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
    if section.pictures:
        wide, narrow = (_as_address(each) for each in section.pictures)
        parts.append(
            f'<figure><picture><source media="(max-width: 40rem)" srcset="{narrow}">'
            f'<img alt="{html.escape(section.heading)}" src="{wide}"></picture>'
            f"<figcaption>{texts.pop(0)}</figcaption></figure>"
        )
    tables = [_table(each) for each in section.tables]
    parts += [part for pair in zip(texts, tables, strict=True) for part in pair]
    names = ", ".join(f'<a href="{name}">{name}</a>' for name in section.files)
    parts.append(
        f'<p class="small">{_unbroken(html.escape(section.parameters))} Data: {names}.</p>'
    )
    return "\n".join([*parts, "</section>"])


def _as_address(picture: str) -> str:
    return "data:image/svg+xml;base64," + base64.b64encode(picture.encode("utf-8")).decode("ascii")


def _unbroken(text: str) -> str:
    """An equation stays on one line."""
    return text.replace(" = ", "&nbsp;=&nbsp;")


def _table(table: Table) -> str:
    """Columns of numbers are aligned to the right, those of words to the left."""
    header, *rows = table
    words = [any(not _is_number(row[at]) for row in rows) for at in range(len(header))]

    def line(cells: Sequence[str], tag: str) -> str:
        classes = ["words" if is_words else "number" for is_words in words]
        each = (
            f'<{tag} class="{kind}">{html.escape(cell)}</{tag}>'
            for cell, kind in zip(cells, classes, strict=True)
        )
        return f"<tr>{''.join(each)}</tr>"

    head, body = line(header, "th"), "\n".join(line(row, "td") for row in rows)
    table_body = f"<thead>{head}</thead><tbody>\n{body}\n</tbody>"
    return f'<div class="scroll"><table>{table_body}</table></div>'


def _is_number(cell: str) -> bool:
    return cell[:1].isdigit() or cell[:1] == "-"


# The text, as HTML. Numbers are filled in where they are known.
# ------------------------------------------------------------------------------------------------
def _flowing(text: str) -> str:
    return " ".join(text.split())


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
        printed.""",
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
        hold the forecast; each misses it by chance with probability about {miss}. “Largest error”
        is what two thirds of the runs kept at every one of the T steps, and the bound beside it is
        proved to hold for at least as many.""",
        """Below, Algorithm 3 with the delay of Corollary 1, B = ⌈log<sub>2</sub>(T)/ε⌉, on a stream
        of ones, of which a delay misses the most. No mechanism with the same loss curve can keep an
        error below the lower bound (Theorem 4.1) at all T steps with probability 2/3. “Corollary 1”
        is the paper's bound with its constants, B + &nu;·√(8 ln(2T/β)); “our bound” takes the best
        exponent in Chernoff's inequality; both with β = 1/3. The measured errors lie between.""",
    )
)
