"""The parts of the report: each has a heading, text, and tables as rows of text (the first row is
the header)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import fadecount as fc
from fadecount.paper.measured import CONFIDENCE, Measured
from fadecount.paper.table import TABLE, budgets_of, digits
from fadecount.paper.words import MEASURED_TEXT, TABLE_TEXT
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
    header = "T,mechanism,exponent,window,ratio,printed_epsilon,printed_epsilon_past,computed_epsilon,computed_epsilon_past"
    records: Records = [[*header.split(","), "printed_objective", "computed_objective"]]
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
    header = "T,mechanism,delay,epsilon,epsilon_past,runs,mse,mse_low,mse_high,mse_forecast,largest_error,error_bound"
    records: Records = [[*header.split(","), "corollary_bound", "lower_bound"]]
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
