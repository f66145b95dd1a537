"""Table 1 of the paper: which budgets give a mean squared error of 1000, as printed and as computed
here."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import fadecount as fc

MSE = 1000.0
SHORT, LONG = 10**3, 10**6
RATIO = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRow:
    """One row: the fading mechanism of an exponent, or a refresh of a window with a fixed ratio or
    the one printed as optimal."""

    horizon: int
    printed: tuple[float, ...]
    exponent: float | None = None
    window: int = 0
    ratio: float | None = None

    @property
    def name(self) -> str:
        if self.exponent is not None:
            return f"Algorithm 3, λ = {self.exponent:g}"
        return f"refresh, W = {self.window}, " + ("ratio 0.1" if self.ratio else "optimal ratio")

    @property
    def computed(self) -> fc.Mechanism:
        """The mechanism whose error is 1000 with continuous noise, as the paper calibrates; the
        optimal ratio is the true one."""
        return _computed(self)

    @property
    def measured(self) -> fc.Mechanism:
        """The mechanism of the table: as computed where that agrees with the print, else the
        printed pair itself."""
        return self.computed if not self.is_optimal else self.printed_mechanism

    @property
    def is_optimal(self) -> bool:
        return self.exponent is None and self.ratio is None

    @property
    def printed_mechanism(self) -> fc.Mechanism:
        if self.exponent is not None:
            return fc.Gradual(epsilon=self.printed[0], exponent=self.exponent)
        return fc.Refresh(
            window=self.window, epsilon_current=self.printed[0], epsilon_past=self.printed[1]
        )

    def objective(self, mechanism: fc.Mechanism) -> float:
        """What the optimal ratio minimizes: the loss of the first round by the horizon, one past
        budget for each later round."""
        assert isinstance(mechanism, fc.Refresh)
        rounds = math.ceil(self.horizon / self.window)
        return mechanism.epsilon_current + (rounds - 1) * mechanism.epsilon_past


def budgets_of(mechanism: fc.Mechanism) -> tuple[float, ...]:
    """The budgets as the table prints them: one, or the current and the past one."""
    if isinstance(mechanism, fc.Refresh):
        return mechanism.epsilon_current, mechanism.epsilon_past
    assert isinstance(mechanism, fc.Gradual)
    return (mechanism.epsilon,)


def digits(value: float) -> str:
    """A number with the four significant digits of the table.

    >>> digits(0.05644805), digits(1.0961), digits(6.973)
    ('0.05645', '1.096', '6.973')
    """
    return f"{value:#.4g}"


def _row(horizon: int, printed: tuple[float, ...], **more: float) -> TableRow:
    return TableRow(horizon=horizon, printed=printed, **more)  # type: ignore[arg-type]


TABLE: tuple[TableRow, ...] = (
    _row(SHORT, (0.1341,), exponent=1.0),
    _row(SHORT, (0.05542,), exponent=2.0),
    _row(SHORT, (0.04651,), exponent=3.0),
    _row(SHORT, (0.5678, 0.05678), window=31, ratio=RATIO),
    _row(SHORT, (0.6372, 0.06372), window=63, ratio=RATIO),
    _row(SHORT, (0.7197, 0.07197), window=127, ratio=RATIO),
    _row(SHORT, (0.7328, 0.05048), window=31),
    _row(SHORT, (0.7031, 0.05796), window=63),
    _row(SHORT, (0.7170, 0.07252), window=127),
    _row(LONG, (0.1947,), exponent=1.0),
    _row(LONG, (0.05645,), exponent=2.0),
    _row(LONG, (0.04652,), exponent=3.0),
    _row(LONG, (0.7387, 0.07387), window=127, ratio=RATIO),
    _row(LONG, (1.096, 0.1096), window=1023, ratio=RATIO),
    _row(LONG, (6.973, 0.04488), window=127),
    _row(LONG, (4.413, 0.04589), window=1023),
)


def rows(horizon: int, *, fading: bool = False, optimal: bool = False) -> list[TableRow]:
    """The rows of one horizon: the fading ones, or the refreshing ones with the fixed or the
    optimal ratio."""
    return [
        row
        for row in TABLE
        if row.horizon == horizon
        and (row.exponent is not None) == fading
        and row.is_optimal == optimal
    ]


@lru_cache(maxsize=64)
def _computed(row: TableRow) -> fc.Mechanism:
    shape: fc.Mechanism
    if row.exponent is not None:
        shape = fc.Gradual(1.0, row.exponent)
    else:
        ratio = row.ratio or fc.Refresh.best_ratio(window=row.window, horizon=row.horizon)
        shape = fc.Refresh(row.window, 1.0, ratio)
    return shape.for_mse(MSE, horizon=row.horizon, continuous=True)
