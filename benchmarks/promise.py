"""``python -m benchmarks.promise``: the error of several ways to count, at the same promise.

The promise: one event has lost at most epsilon 2 a year after it happened, with one count per hour. Gaussian ways may fail
with probability 10^-9. The errors are computed from the noise of each way, not drawn. The rows for other libraries are
the best that their parts give, by formula: a tree with known end from OpenDP's noise, the tree of Gaussian noise of TF Privacy,
and the square-root factorization that jax-privacy's streaming matrices approximate.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray

import fadecount as fc
from benchmarks.gaussian_errors import square_root, tree
from fadecount.mechanisms.gaussian_law import mu_at
from fadecount.rounding import rounded_up

YEAR, EPSILON, DELTA = 8760, 2.0, 1e-9
DAY, MONTH = 24, 730


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """A way to count: its typical error, and what one event has lost at once, after a day and after a year.

    Ways that state one loss for the whole year have nothing to say about younger events.
    """

    name: str
    error: float
    at_once: float | None = None
    day: float | None = None
    year: float = EPSILON


def of_mechanism(name: str, mechanism: fc.Mechanism) -> Way:
    at_once, day, year = (float(mechanism.loss(age)) for age in (0, DAY, YEAR - 1))
    return Way(name=name, error=mechanism.mse(YEAR) ** 0.5, at_once=at_once, day=day, year=year)


def refreshed(window: int) -> fc.Refresh:
    """The best split between the running round and the past, scaled to the promise: losses are linear in budgets."""
    best = fc.Refresh.for_mse(1000.0, horizon=YEAR, window=window)
    scale = EPSILON / best.loss(YEAR - 1)
    return fc.Refresh(window=window, epsilon_current=best.epsilon_current * scale, epsilon_past=best.epsilon_past * scale)


def gaussian(variances: NDArray[np.float64]) -> float:
    """The error of a counter with Gaussian noise that has these variances where one step's change is 1-Gaussian private."""
    return float(np.sqrt(np.mean(variances))) / mu_at(EPSILON, DELTA)


def ways() -> list[Way]:
    limits = {DAY: 0.5, 30 * DAY: 1.0, YEAR: EPSILON}
    return [
        of_mechanism("fadecount, limit after a year only", fc.design({YEAR: EPSILON}, horizon=YEAR)),
        of_mechanism("fadecount, 0.5 after a day, 1 after a month", fc.design(limits, horizon=YEAR)),
        of_mechanism("a tree with known end (OpenDP's noise, by hand)", fc.Binary(epsilon=EPSILON, horizon=YEAR)),
        of_mechanism("refresh by day", refreshed(DAY)),
        of_mechanism("refresh by month", refreshed(MONTH)),
        of_mechanism("fadecount, Gaussian, limit after a year only", fc.design({YEAR: EPSILON}, horizon=YEAR, delta=DELTA)),
        Way(name="square-root factorization (jax-privacy), Gaussian", error=gaussian(square_root(YEAR))),
        Way(name="tree of Gaussian noise (TF Privacy)", error=gaussian(tree(YEAR))),
    ]


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.promise", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    found = ways()
    if parser.parse_args(words).json:
        print(json.dumps([asdict(each) for each in found], indent=1))
        return 0
    print(f"{'error at a loss of 2 after a year of hours':52}{'error':>8}{'at once':>9}{'a day':>9}{'a year':>9}")
    for each in found:
        losses = "".join(f"{'-' if loss is None else rounded_up(loss, 3):>9}" for loss in (each.at_once, each.day, each.year))
        print(f"{each.name:52}{each.error:8.1f}{losses}")
    stated = fc.Refresh(window=DAY, epsilon_current=EPSILON, epsilon_past=EPSILON / 10)
    print(f'\nA daily refresh that states "epsilon 2" for each day has lost {rounded_up(stated.loss(YEAR - 1), 1)} after a year.')
    return 0


if __name__ == "__main__":
    sys.exit(main())
