"""``python -m benchmarks.gaussian_errors``: errors at an equal promise, beside every other Gaussian counter.

The others promise one epsilon for every age. Where the promise is a curve that grows with age, they must keep its first
value for ever. Their noise is taken as ideal: real numbers, no rounding. Ours is what runs: integers, rounding included.

- the binary tree: one Gaussian value per node, the noise of a prefix is the sum over its dyadic intervals;
- the square root of the Toeplitz matrix: the best factorization for the largest error, O(t) memory;
- jax-privacy's buffered linear Toeplitz matrix (BLT), optimised by that library for this horizon (if it is installed).
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import fadecount as fc
from fadecount.mechanisms.gaussian_law import mu_at

DELTA = 1e-9
YEAR = 525_600
PROMISES: list[tuple[str, int, Mapping[int, float]]] = [
    ("1 at every age, 4,096 steps", 4096, {4096: 1.0}),
    ("1 at every age, 65,536 steps", 65_536, {65_536: 1.0}),
    ("1 at every age, a year of minutes", YEAR, {YEAR: 1.0}),
    ("0.5 at 1 h, 2 at 30 d, 4 at 1 y, a year of minutes", YEAR, {60: 0.5, 43_200: 2.0, YEAR: 4.0}),
    ("1 at 1 day, 3 at 1 year, a year of hours", 8760, {24: 1.0, 8760: 3.0}),
]


@dataclass(frozen=True, slots=True)
class Error:
    """The standard deviation of the noise: over all steps of a promise, and at the worst step."""

    promise: str
    counter: str
    mean: float
    worst: float


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gaussian_errors", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("out/bench"), metavar="FOLDER", help="where results go (%(default)s)")
    parser.add_argument("--steps", type=int, default=YEAR, metavar="N", help="leave out promises of more steps (%(default)s)")
    arguments = parser.parse_args(words)
    found: list[Error] = []
    for promise, horizon, targets in PROMISES:
        if horizon <= arguments.steps:
            print(f"benchmarks: {promise}", file=sys.stderr, flush=True)
            found += errors(promise, horizon, targets)
    arguments.out.mkdir(parents=True, exist_ok=True)
    (arguments.out / "gaussian_errors.json").write_text(json.dumps([asdict(each) for each in found], indent=1) + "\n")
    print(table(found))
    return 0


def errors(promise: str, horizon: int, targets: Mapping[int, float]) -> list[Error]:
    """The errors of all counters that keep a promise: a loss at some ages, at ``DELTA``."""
    sigma = 1.0 / mu_at(min(targets.values()), DELTA)
    rivals: list[tuple[str, Callable[[int], NDArray[np.float64]]]] = [
        ("binary tree", tree),
        ("square root of Toeplitz", square_root),
        ("BLT of jax-privacy", _blt),
    ]
    found = []
    for name, variances in rivals:
        try:
            found.append(_error(promise, name, sigma * sigma * variances(horizon)))
        except ImportError:
            print(f"left out: {name} is not installed; make bench-peers installs it", file=sys.stderr)
    pure = fc.design(targets, horizon=horizon)
    ours = fc.design(targets, horizon=horizon, delta=DELTA)
    steps = np.unique(np.geomspace(1, horizon, 4000).round().astype(np.int64))
    for title, mechanism in (("fadecount, no delta", pure), ("fadecount, Gaussian", ours)):
        worst = float(np.sqrt(np.max(mechanism.variance(steps))))
        found.append(Error(promise, title, math.sqrt(mechanism.mse(horizon)), worst))
    return found


def table(found: list[Error]) -> str:
    """The errors as a table in Markdown; the last column is the mean error over that of our Gaussian counter."""
    ours = {each.promise: each.mean for each in found if each.counter == "fadecount, Gaussian"}
    lines = [f"| promise (delta = {DELTA:g}) | counter | mean | worst | mean, ours = 1 |", "|---|---|---:|---:|---:|"]
    lines += [
        f"| {each.promise} | {each.counter} | {each.mean:.2f} | {each.worst:.2f} | {each.mean / ours[each.promise]:.2f} |"
        for each in found
    ]
    return "\n".join(lines)


def _error(promise: str, name: str, variances: NDArray[np.float64]) -> Error:
    return Error(promise, name, math.sqrt(float(variances.mean())), math.sqrt(float(variances.max())))


def tree(horizon: int) -> NDArray[np.float64]:
    """Variances for a unit change: an item is in one node per level, a prefix takes one node per bit."""
    levels = horizon.bit_length()  # the last one that ends within the horizon
    return levels * np.bitwise_count(np.arange(1, horizon + 1, dtype=np.uint64)).astype(np.float64)


def square_root(horizon: int) -> NDArray[np.float64]:
    """Both factors have the coefficients ``binom(2 k, k) / 4**k``."""
    k = np.arange(1, horizon)
    squares = np.cumsum(np.concatenate([[1.0], np.cumprod((2 * k - 1) / (2 * k))]) ** 2)
    return np.asarray(squares * squares[-1])


def _blt(horizon: int) -> NDArray[np.float64]:
    import jax
    from jax_privacy.matrix_factorization import buffered_toeplitz

    jax.config.update("jax_enable_x64", True)
    strategy: Any = buffered_toeplitz.optimize(n=horizon, error="max")
    coefficients = np.asarray(strategy.toeplitz_coefs(horizon), dtype=np.float64)
    inverse = np.asarray(strategy.inverse().toeplitz_coefs(horizon), dtype=np.float64)
    return np.asarray(np.cumsum(np.cumsum(inverse) ** 2) * np.sum(coefficients**2))


if __name__ == "__main__":
    sys.exit(main())
