"""Table 1 of the paper: which budgets give a mean squared error of 1000, as printed and as computed
here."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import fadecount as fc
from fadecount.paper.report import Section
from fadecount.rounding import short_loss

MSE = 1000.0
SHORT, LONG = 10**3, 10**6
RATIO = 0.1


@dataclass(frozen=True)
class TableRow:
    """One row: the fading mechanism of an exponent, or a refresh of a window with a fixed ratio or
    the one printed as optimal."""

    horizon: int
    printed: tuple[float, ...]
    exponent: float | None = None
    window: int = 0
    ratio: float | None = None

    @property
    def short(self) -> str:
        return f"W = {self.window}" if self.exponent is None else f"λ = {self.exponent:g}"

    @property
    def name(self) -> str:
        if self.exponent is not None:
            return f"Algorithm 3, {self.short}"
        return f"refresh, {self.short}, {'ratio 0.1' if self.ratio else 'optimal ratio'}"

    @property
    def is_optimal(self) -> bool:
        return self.exponent is None and self.ratio is None

    @cached_property
    def computed(self) -> fc.Gradual | fc.Refresh:
        """The mechanism whose error is 1000 with continuous noise, as the paper calibrates; the
        optimal ratio is the true one."""
        shape: fc.Gradual | fc.Refresh
        if self.exponent is not None:
            shape = fc.Gradual(1.0, self.exponent)
        else:
            best = fc.Refresh.best_ratio
            ratio = self.ratio or best(window=self.window, horizon=self.horizon)
            shape = fc.Refresh(self.window, 1.0, ratio)
        return shape.for_mse(MSE, horizon=self.horizon, continuous=True)

    @property
    def printed_mechanism(self) -> fc.Gradual | fc.Refresh:
        if self.exponent is not None:
            return fc.Gradual(epsilon=self.printed[0], exponent=self.exponent)
        return fc.Refresh(self.window, *self.printed)

    @property
    def measured(self) -> fc.Gradual | fc.Refresh:
        """The mechanism of the table: as computed where that agrees with the print, else the
        printed pair itself."""
        return self.printed_mechanism if self.is_optimal else self.computed

    def objective(self, mechanism: fc.Mechanism) -> float:
        """What the optimal ratio minimizes: the loss of the first round by the horizon, one past
        budget for each later round."""
        current, past = budgets_of(mechanism)
        return current + (math.ceil(self.horizon / self.window) - 1) * past


def budgets_of(mechanism: fc.Mechanism) -> tuple[float, ...]:
    """The budgets as the table prints them: one, or the current and the past one."""
    if isinstance(mechanism, fc.Refresh):
        return mechanism.epsilon_current, mechanism.epsilon_past
    assert isinstance(mechanism, fc.Gradual)
    return (mechanism.epsilon,)


TABLE: tuple[TableRow, ...] = (
    TableRow(SHORT, (0.1341,), exponent=1.0),
    TableRow(SHORT, (0.05542,), exponent=2.0),
    TableRow(SHORT, (0.04651,), exponent=3.0),
    TableRow(SHORT, (0.5678, 0.05678), window=31, ratio=RATIO),
    TableRow(SHORT, (0.6372, 0.06372), window=63, ratio=RATIO),
    TableRow(SHORT, (0.7197, 0.07197), window=127, ratio=RATIO),
    TableRow(SHORT, (0.7328, 0.05048), window=31),
    TableRow(SHORT, (0.7031, 0.05796), window=63),
    TableRow(SHORT, (0.7170, 0.07252), window=127),
    TableRow(LONG, (0.1947,), exponent=1.0),
    TableRow(LONG, (0.05645,), exponent=2.0),
    TableRow(LONG, (0.04652,), exponent=3.0),
    TableRow(LONG, (0.7387, 0.07387), window=127, ratio=RATIO),
    TableRow(LONG, (1.096, 0.1096), window=1023, ratio=RATIO),
    TableRow(LONG, (6.973, 0.04488), window=127),
    TableRow(LONG, (4.413, 0.04589), window=1023),
)


def rows(horizon: int, *, fading: bool = False, optimal: bool = False) -> list[TableRow]:
    """The rows of one horizon: the fading ones, or the refreshing ones with the fixed or the
    optimal ratio."""
    kind = fading, optimal
    some = (row for row in TABLE if row.horizon == horizon)
    return [row for row in some if (row.exponent is not None, row.is_optimal) == kind]


_BUDGETS = ("printed ε", "printed past ε", "computed ε", "computed past ε")
_TEXT = (
    """The budgets at which each mechanism has a mean squared error of 1000 over the first T
    outputs, with continuous noise. With a fixed ratio they agree with the paper to the digits
    printed. “Past” is what refreshing spends on all earlier rounds.""",
    """For the optimal ratio the stated objective is ε<sub>cur</sub> + (N &minus;
    1)·ε<sub>past</sub>, with N = ⌈T/W⌉ rounds, at that error. The printed pairs meet the error but
    do not minimize this objective: the minimizer has ε<sub>past</sub>/ε<sub>cur</sub> =
    (V<sub>past</sub>/(V<sub>tree</sub>·(N &minus; 1)))<sup>1/3</sup>, where the error is
    V<sub>tree</sub>/ε<sub>cur</sub>² + V<sub>past</sub>/ε<sub>past</sub>². Both are shown with
    their values. The conclusions of the comparison are the same for either.""",
)


def table_section() -> Section:
    """Every row as printed and as computed."""
    table: list[list[object]] = [
        ["T", "mechanism", *_BUDGETS, "printed objective", "computed objective"]
    ]
    for row in TABLE:
        both = (row.printed_mechanism, row.computed)
        budgets = [value for each in both for value in (*budgets_of(each), "")[:2]]
        objectives = [short_loss(row.objective(each)) if row.is_optimal else "" for each in both]
        table.append([row.horizon, row.name, *budgets, *objectives])
    return Section(
        name="table1",
        heading="Table 1: budgets for a mean squared error of 1000",
        text=_TEXT,
        table=table,
        parameters="Continuous Laplace noise, B = 0.",
    )
