"""Measurements with real noise at the parameters of the table: mean squared error, and the largest
error over all steps.

Every run is a counter of the library on its own noise, from the first step to the last; nothing is
sampled or extrapolated. Runs are independent, so each gives one value of the mean squared error
over its steps, and their spread gives a confidence interval. A vector counter does many runs at
once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

import fadecount as fc
from fadecount.paper.report import Section
from fadecount.paper.table import LONG, SHORT, TABLE, TableRow, rows

CONFIDENCE = 0.99
BETA = 1.0 / 3.0
"""The lower bound is about errors kept with probability 2/3, so the upper bounds and the measured
quantile use it too."""
_BLOCK_ITEMS = 1 << 19
_ITEMS_AT_ONCE = 50 * LONG
_SHORT_RUNS_FACTOR = 10


class Trial(NamedTuple):
    """A mechanism to run for the steps of a row, on a stream of zeros or (for a delay, which then
    misses most) of ones."""

    row: TableRow
    mechanism: fc.Gradual | fc.Refresh
    runs: int


@dataclass(frozen=True, slots=True)
class Measured:
    """The outcome of a trial: one value per run."""

    trial: Trial
    squared: NDArray[np.float64]
    largest: NDArray[np.float64]

    @property
    def mse(self) -> float:
        return float(self.squared.mean())

    @property
    def interval(self) -> tuple[float, float]:
        """A confidence interval for the mean squared error: normal, from the spread of the runs."""
        spread = float(self.squared.std(ddof=1)) / math.sqrt(len(self.squared))
        reach = NormalDist().inv_cdf(0.5 + CONFIDENCE / 2) * spread
        return self.mse - reach, self.mse + reach

    @property
    def forecast(self) -> float:
        """The mean squared error of the noise actually used, which is integer noise: a little below
        1000."""
        return self.trial.mechanism.mse(self.trial.row.horizon)

    @property
    def kept_by_two_thirds(self) -> float:
        """The error that two thirds of the runs kept at every step."""
        return float(np.quantile(self.largest, 1.0 - BETA, method="higher"))

    @property
    def upper_bound(self) -> float:
        """The library's bound for the same probability: what the delay can miss, and the largest
        bound on the noise of a step that fails with a T-th of it."""
        row, mechanism, _ = self.trial
        steps = np.arange(1, row.horizon + 1)
        widths = mechanism.half_widths(np.zeros_like(steps), steps, beta=BETA / row.horizon)
        return float(mechanism.delay + widths.max())

    @property
    def corollary(self) -> float:
        """The bound behind Corollary 1, with its constants: the delay, and for each of T steps the
        tail bound nu * sqrt(8 ln(2 T / beta)), with nu = max(sqrt(sum of b**2), b_max * sqrt(ln(2 T
        / beta))) over the scales b in use."""
        (row, mechanism, _), schedule = self.trial, self.trial.mechanism.noise
        clock = int(mechanism.last_input_included(row.horizon))
        scales = 1.0 / np.array(schedule.budgets[: clock.bit_length()])
        needed = math.log(2.0 * row.horizon / BETA)
        nu = max(math.sqrt(float(np.sum(scales**2))), float(scales.max()) * math.sqrt(needed))
        return mechanism.delay + nu * math.sqrt(8.0 * needed)

    @property
    def lower_bound(self) -> int:
        return fc.minimum_error(self.trial.mechanism, self.trial.row.horizon)


def trials(runs: int) -> list[Trial]:
    """The table's mechanisms, then Algorithm 3 with the delay of Corollary 1; short streams get ten
    times the runs."""
    late = [row for horizon in (SHORT, LONG) for row in rows(horizon, fading=True)]
    pairs = [*((row, row.measured) for row in TABLE), *((row, delayed(row)) for row in late)]
    often = {SHORT: runs * _SHORT_RUNS_FACTOR, LONG: runs}
    return [Trial(row, mechanism, often[row.horizon]) for row, mechanism in pairs]


def delayed(row: TableRow) -> fc.Gradual:
    """Algorithm 3 at the table's budget with the delay of Corollary 1: log2(T) / epsilon, rounded
    up."""
    mechanism = row.computed
    assert isinstance(mechanism, fc.Gradual)
    delay = math.ceil(math.log2(row.horizon) / mechanism.epsilon)
    return fc.Gradual(epsilon=mechanism.epsilon, exponent=mechanism.exponent, delay=delay)


def measure(trial: Trial, advance: Callable[[float], None]) -> Measured:
    """Run a trial, some runs at a time, calling ``advance`` with the items done."""
    horizon, parts = trial.row.horizon, []
    for begun in range(0, trial.runs, _ITEMS_AT_ONCE // horizon):
        count = min(trial.runs - begun, _ITEMS_AT_ONCE // horizon)
        parts.append(run(trial.mechanism, horizon, count))
        advance(count * horizon)
    squared, largest = map(np.concatenate, zip(*parts, strict=True))
    return Measured(trial, squared, largest)


def run(
    mechanism: fc.Mechanism, horizon: int, runs: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The mean squared error and the largest error of some runs at once."""
    one = 1 if mechanism.delay else 0
    counter = fc.Counter(mechanism, shape=(runs,))
    squares, largest = np.zeros(runs, dtype=np.float64), np.zeros(runs, dtype=np.int64)
    block = max(1, _BLOCK_ITEMS // runs)
    for begun in range(0, horizon, block):
        count = min(block, horizon - begun)
        errors = counter.extend(np.full((count, runs), one, dtype=np.int64))
        if one:
            errors -= np.arange(begun + 1, begun + count + 1)[:, np.newaxis]
        squares += np.einsum("ij,ij->j", errors, errors)
        np.abs(errors, out=errors)
        np.maximum(largest, errors.max(axis=0), out=largest)
    return squares / horizon, largest.astype(np.float64)


_ERRORS = ("measured MSE", "from", "to", "forecast", "lower bound", "largest error", "our bound")
_TEXT = (
    """The budgets above are computed for a mean squared error of 1000; here it is measured. Every
    run is a counter of the library from the first step to step T, on fresh noise. The noise is on
    the integers, whose variance is slightly below that of the continuous noise of the calibration:
    “forecast” is the exact expectation for it. {inside} of {count} intervals (“from”, “to”) hold
    the forecast; each misses it by chance with probability about {miss:.0%}. “Largest error” is
    what two thirds of the runs kept at every one of the T steps, and “our bound” is proved to hold
    for at least as many.""",
    """The last rows are Algorithm 3 with the delay of Corollary 1, B = ⌈log<sub>2</sub>(T)/ε⌉, on a
    stream of ones, of which a delay misses the most. No mechanism with the same loss curve can keep
    an error below the lower bound (Theorem 4.1) at all T steps with probability 2/3. “Corollary 1”
    is the paper's bound with its constants, B + &nu;·√(8 ln(2T/β)); “our bound” takes B + the
    exact quantile of each step's noise (Chernoff's inequality where a step has less than
    10<sup>-6</sup>); both with β = 1/3. The measured errors lie between.""",
)


def measured_section(results: Sequence[Measured]) -> Section:
    """What was measured: every trial, and the bounds around it."""
    table: list[list[object]] = [["T", "mechanism", "B", "runs", *_ERRORS, "Corollary 1"]]
    held = []
    for each in results:
        row, mechanism, runs = each.trial
        mse: list[object] = [""] * 4
        if not (delay := mechanism.delay):
            mse = [each.mse, *each.interval, each.forecast]
            held.append(each.interval[0] <= each.forecast <= each.interval[1])
        bounds = [each.lower_bound, each.kept_by_two_thirds, each.upper_bound]
        corollary = each.corollary if row.exponent is not None else ""
        table.append([row.horizon, row.name, delay, runs, *mse, *bounds, corollary])
    about = {"inside": sum(held), "count": len(held), "miss": 1 - CONFIDENCE}
    return Section(
        name="measured",
        heading="Measured with real noise",
        text=[text.format(**about) for text in _TEXT],
        table=table,
        parameters=(
            "Integer noise from the operating system's entropy: every run of this command gives"
            " other numbers."
        ),
    )
