"""``python -m benchmarks.promise``: the same promise, kept by everybody who could keep it.

The promise: one event loses at most 0.5 in its first hour, 2 in its first 30 days and 4 within a
year. Minutes are counted for a year. For every construction the table has the standard error (root
mean square of the noise) of five numbers that people read: the live total, today so far, and the
figures of an hour, a day and 30 days, each as soon as it is there.

Every rival is scaled up until its exact loss meets the promise at one of the ages, with the best of
its parameters (arity, exponent, window, ratio). A rival that publishes an hour late says so, and a
number that it cannot give is a dash. Gaussian noise keeps the promise at delta = 1e-9 only.

- one draw a day: a histogram by day, with Laplace noise, an hour after midnight.
- trees (Dwork et al. 2010; Chan et al. 2011; Hay et al. 2010, as OpenDP has them): every node once,
  when it ends. *combined*: a node with its children (Honaker 2015, as TF Privacy has it). *totals
  only*: no node is published, so that an event loses its larger nodes later.
- negative digits (Andersson, Pagh, Torkamani 2024): noise of a node may be subtracted too.
- refresh: a new tree for every window, and the total of all earlier windows published again in each
  (the paper's baseline). *one draw*: instead, a tree with negative digits and one count of each day
  or month that is over, an hour later. No budget is spent twice, so that the loss ends.
- square root (Fichtenberger et al. 2022) and BLT (McMahan et al. 2024, optimised by jax-privacy
  where it is installed): Gaussian noise with memory.
- the paper (Andersson et al. 2024): Algorithm 3, with the exact loss rather than its bound.

A second table has 61 steps under one epsilon, where optimised matrices can be computed.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import fadecount as fc
from fadecount.mechanisms.noise_distribution import variance_of
from fadecount.planning.blocks import block_request_for, blocks_for
from fadecount.planning.request import read_request

HOUR, DAY, MONTH, YEAR = 60, 1440, 43_200, 525_600
PROMISE = {HOUR: 0.5, MONTH: 2.0, YEAR: 4.0}
LATE = 61
"""Steps after which the promise allows more than in the first hour."""
DELTA = 1e-9
FIGURES = {"hour": HOUR, "day": DAY, "month": MONTH}

Ints = NDArray[np.int64]
Reals = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One construction: standard errors of what people read; None where it has no such number."""

    name: str
    total: float | None
    so_far: float | None
    hour: float | None
    day: float | None
    month: float | None
    final_month: float | None
    """The same 30 days, once they are 30 days old."""


def _row(
    name: str,
    total: float | None,
    window: Callable[[int, int], float | None],
    final_month: float | None = None,
) -> Row:
    """A row from the variance of the live total and that of windows ``start + 1 .. end``; only
    what sharpens has another one for the final month."""
    means: dict[str, float | None] = {"total": total}
    for figure, length in FIGURES.items():
        starts = np.linspace(0, (YEAR - 2 * MONTH) // length, 25).astype(int) * length
        means[figure] = _mean([window(start, start + length) for start in map(int, starts)])
    minutes = range(7, DAY, 97)
    days = np.linspace(0, YEAR // DAY - 1, 12).astype(int) * DAY
    means["so_far"] = _mean([window(day, day + each) for day in map(int, days) for each in minutes])
    means["final_month"] = means["month"] if final_month is None else final_month
    return Row(name=name, **{key: None if x is None else math.sqrt(x) for key, x in means.items()})


def _mean(values: list[float | None]) -> float | None:
    known = [each for each in values if each is not None]
    return float(np.mean(known)) if len(known) == len(values) else None


# Block counters
# ------------------------------------------------------------------------------------------------
def blocks() -> Iterator[Row]:
    """Ours: for the total alone, for hours, days and months too, and mostly for days; and the
    running total, which has no figures."""
    made = fc.plan(PROMISE, horizon=YEAR, tick=60)
    options = {"the total": "blocks for the total", "all": "blocks", "days": "blocks for days"}
    for name, option in options.items():
        mechanism = next(each.mechanism for each in made.options if each.name == option)
        assert isinstance(mechanism, fc.Blocks)
        yield _blocks_row(f"blocks, for {name}", mechanism)
    total = fc.design(PROMISE, horizon=YEAR)
    yield _row("totals from tied blocks", total.mse(YEAR), total.window_variance)


def _blocks_row(name: str, mechanism: fc.Blocks) -> Row:
    def window(start: int, end: int) -> float | None:
        lags = [level.lag for level in mechanism.levels if (end - start) % level.length == 0]
        whole = end - start in FIGURES.values()  # read when its figure is out, not before
        late = min(max(lags), LATE) if whole else 0
        return mechanism.window_variance(start, end, as_of=end + late)

    final = mechanism.window_variance(MONTH, 2 * MONTH, as_of=3 * MONTH + 1)
    return _row(name, mechanism.mse(YEAR), window, final)


def one_draw() -> Row:
    """A day's count with one draw, an hour after midnight: no hours, nothing about today."""
    mechanism = fc.Blocks(fc.Level(DAY, PROMISE[MONTH], lag=LATE))
    each = mechanism.figure_variance(0)

    def window(start: int, end: int) -> float | None:
        return None if start % DAY or end % DAY else (end - start) / DAY * each

    return _row("one draw a day (an hour late; total of whole days)", mechanism.mse(YEAR), window)


# Trees
# ------------------------------------------------------------------------------------------------
def trees() -> Iterator[Row]:
    """The best arity of each kind of tree. Where nodes are published, those of all levels may end
    at once, so one budget is split."""
    kinds = {
        "tree": (False, False),
        "tree, combined with children": (True, False),
        "tree, negative digits": (False, True),
    }
    for late in (False, True):
        epsilon = PROMISE[MONTH] if late else PROMISE[HOUR]
        for kind, (combined, signed) in kinds.items():
            best = min(
                (Tree.of(arity, epsilon, combined=combined, signed=signed) for arity in ARITIES),
                key=lambda tree: tree.total(),
            )
            name = f"{kind} (arity {best.sizes[1]}{', an hour late' if late else ''})"
            yield _row(name, best.total(), best.window)
    totals = min(map(Totals.of, ARITIES), key=lambda each: each.total())
    yield _row(f"tree, totals only (arity {totals.arity})", totals.total(), totals.window)


ARITIES = range(2, 33)


@dataclass(frozen=True, slots=True)
class Tree:
    """Nodes of these sizes, each with the variance of the best estimate of a whole node."""

    sizes: tuple[int, ...]
    variances: tuple[float, ...]
    signed: bool

    @classmethod
    def of(
        cls, arity: int, epsilon: float, *, combined: bool, signed: bool, steps: int = YEAR
    ) -> Tree:
        height = int(math.log(steps, arity) + 1e-9) + 1
        variance = variance_of(epsilon / height)
        variances = [variance]
        for _ in range(height - 1):
            children = arity * variances[-1]
            variances.append(1 / (1 / variance + 1 / children) if combined else variance)
        return cls(tuple(arity**level for level in range(height)), tuple(variances), signed)

    def _costs(self, steps: Ints) -> Iterator[tuple[int, float, Reals, Reals]]:
        """For each level: the least variance of the part of a node before each step, and of the
        part after it, from nodes below. With negative digits either may be the other, subtracted
        from the whole."""
        before: Reals = np.zeros(len(steps))
        after: Reals = np.full(len(steps), np.inf)
        for level, (size, variance) in enumerate(zip(self.sizes, self.variances, strict=True)):
            yield size, variance, before, after
            if level + 1 < len(self.sizes):
                arity = self.sizes[level + 1] // size
                digit, whole = steps // size % arity, steps % size == 0
                ahead = arity - digit
                if self.signed:
                    before, after = (
                        np.minimum(before + digit * variance, after + (digit + 1) * variance),
                        np.minimum(before + ahead * variance, after + (ahead - 1) * variance),
                    )
                else:
                    before = before + digit * variance
                    after = np.where(whole, ahead * variance, after + (ahead - 1) * variance)

    def total(self) -> float:
        """The mean variance of the live total over the year."""
        return float(self.totals(np.arange(1, YEAR + 1, 13, dtype=np.int64)).mean())

    def totals(self, steps: Ints) -> Reals:
        """The least variance of the count of the first steps."""
        least: Reals = np.full(len(steps), np.inf)
        for size, variance, before, after in self._costs(steps):
            nodes = steps // size
            least = np.minimum(least, before + nodes * variance)
            if self.signed:
                least = np.minimum(least, after + (nodes + 1) * variance)
        return least

    def window(self, start: int, end: int) -> float:
        """The least variance of a window: both ends to the level where they meet."""
        ends, least = np.array([start, end], dtype=np.int64), math.inf
        for size, variance, before, after in self._costs(ends):
            first, last = (ends // size).tolist()
            rounded_up = [(before[0], first)] if self.signed or start % size == 0 else []
            rounded_down = [(before[1], last)]
            rounded_up += [(after[0], first + 1)]
            rounded_down += [(after[1], last + 1)] if self.signed else []
            for one, begin in rounded_up:
                for other, stop in rounded_down:
                    if self.signed or stop >= begin:
                        least = min(least, one + other + abs(stop - begin) * variance)
        return float(least)


@dataclass(frozen=True, slots=True)
class Totals:
    """Running totals of a tree, and nothing else: windows are differences of two totals."""

    arity: int
    height: int
    variance: float

    @classmethod
    def of(cls, arity: int) -> Totals:
        height = int(math.log(YEAR, arity) + 1e-9) + 1
        budget = min(loss / nodes_lost(arity, age, height) for age, loss in PROMISE.items())
        return cls(arity, height, variance_of(budget))

    def total(self) -> float:
        """The mean variance of the live total over the year."""
        steps = np.arange(1, YEAR + 1, 13, dtype=np.int64)
        parts = [each - self.arity * parent for each, parent in self._counts(steps)]
        return float(np.sum(parts, axis=0).mean()) * self.variance

    def window(self, start: int, end: int) -> float:
        """The variance of the difference: nodes in both totals cancel."""
        nodes = 0
        for each, parent in self._counts(np.array([start, end], dtype=np.int64)):
            digits = each - self.arity * parent
            nodes += int(abs(digits[1] - digits[0]) if parent[0] == parent[1] else digits.sum())
        return nodes * self.variance

    def _counts(self, steps: Ints) -> Iterator[tuple[Ints, Ints]]:
        """For each level, how many whole nodes, and whole nodes above them, the steps hold."""
        for level in range(self.height):
            above = steps // self.arity ** (level + 1)
            yield steps // self.arity**level, above * (level + 1 < self.height)


def nodes_lost(arity: int, age: int, height: int) -> int:
    """The most nodes about an event that totals up to its age hold, which is the exact loss in
    budgets of a node.

    Each total brings one new node, the largest that ends there (theory, section 3). So a node that
    is the last child is in no total. Of the others that hold an event, each ends at least one
    smaller sibling later than the one below: the m-th ends 1 + arity + ... + arity**(m - 2) steps
    after the event, at the earliest.
    """
    ends = [sum(arity**level for level in range(nodes)) for nodes in range(height)]
    return sum(end <= age for end in ends)


def renewed() -> Iterator[Row]:
    """A new tree for each day or month, and one draw for each that is over: the best arity and
    ratio of the two budgets."""
    shares = [PROMISE[HOUR] * share / 20 for share in (18, 19, 20)]
    for name, period in (("day", DAY), ("month", MONTH)):
        candidates = [(arity, epsilon) for arity in ARITIES for epsilon in shares]
        best = min(
            (Renewed.of(period, *each) for each in candidates), key=lambda each: each.total()
        )
        label = f"refresh by {name}, one draw each (arity {best.tree.sizes[1]})"
        yield _row(label, best.total(), best.window)


@dataclass(frozen=True, slots=True)
class Renewed:
    """A tree with negative digits in every period, and one draw for each that is over."""

    period: int
    tree: Tree
    draw: float

    @classmethod
    def of(cls, period: int, arity: int, epsilon: float) -> Renewed:
        tree = Tree.of(arity, epsilon, combined=False, signed=True, steps=period)
        return cls(period, tree, variance_of(PROMISE[MONTH] - epsilon))

    def total(self) -> float:
        """The mean variance of the live total; a period is drawn an hour after its end."""
        steps = np.arange(1, YEAR + 1, 13, dtype=np.int64)
        over, now = steps // self.period, steps % self.period
        waiting = (now < LATE) & (over > 0)
        whole = self.tree.window(0, self.period) - self.draw
        running = np.where(now > 0, self.tree.totals(now), 0.0)
        return float((over * self.draw + waiting * whole + running).mean())

    def window(self, start: int, end: int) -> float:
        """The variance of a window: its periods, and parts of one from that one's tree."""
        first, last = -(-start // self.period), end // self.period
        if first > last:
            at = last * self.period
            return self.tree.window(start - at, end - at)
        ends = 0.0
        if start % self.period:
            ends += self.tree.window(start % self.period, self.period)
        if end % self.period:
            ends += self.tree.window(0, end % self.period)
        return (last - first) * self.draw + ends


# Running totals
# ------------------------------------------------------------------------------------------------
def running_totals() -> Iterator[Row]:
    """The paper's algorithm, and refreshing, each with the best of its parameters."""
    graduals = [fc.Gradual(epsilon=1.0, exponent=power / 20) for power in range(61)]
    paper = min(map(_kept, graduals), key=lambda each: each.mse(YEAR))
    yield _row(f"the paper (exponent {paper.exponent:g})", paper.mse(YEAR), paper.window_variance)
    refreshes = [
        fc.Refresh(window=2**power - 1, epsilon_current=ratio, epsilon_past=1.0)
        for power in range(6, 19)
        for ratio in (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)
    ]
    best = min(map(_kept, refreshes), key=lambda each: each.mse(YEAR))
    ratio = best.epsilon_current / best.epsilon_past
    name = f"refresh (every {best.window:,} minutes, ratio {ratio:g})"
    yield _row(name, best.mse(YEAR), best.window_variance)


def _kept(mechanism: Any) -> Any:
    """The mechanism with all budgets times the factor that just keeps the promise."""
    factor = min(loss / mechanism.loss(age) for age, loss in PROMISE.items())
    if isinstance(mechanism, fc.Gradual):
        return fc.Gradual(epsilon=factor, exponent=mechanism.exponent)
    return fc.Refresh(
        window=mechanism.window,
        epsilon_current=factor * mechanism.epsilon_current,
        epsilon_past=factor,
    )


# Gaussian noise
# ------------------------------------------------------------------------------------------------
def gaussians(say: Callable[[str], object]) -> Iterator[Row]:
    """Noise with memory, at a delta: square root and BLT."""
    powers = np.arange(1, YEAR + 1)
    root = np.concatenate([[1.0], np.cumprod((powers - 0.5) / powers)])
    yield _memory_row("Gaussian, square root (delta)", root, root)
    try:
        yield _memory_row("Gaussian, BLT of jax-privacy (delta)", *_blt())
    except ImportError as error:
        say(f"left out jax-privacy: {error}")


def _memory_row(name: str, strategy: Reals, totals: Reals) -> Row:
    """A Toeplitz factorisation: the first columns of the strategy (what is measured) and of the
    totals as sums of the measured noise. What an event loses at an age follows from the first so
    many entries of its column."""
    seen = np.cumsum(strategy**2)
    sigma = max(math.sqrt(seen[age]) / mu_at(loss, DELTA) for age, loss in PROMISE.items())
    squares = np.concatenate([[0.0], np.cumsum(totals**2)])

    def window(start: int, end: int) -> float:
        length = end - start
        shared = totals[length : length + start] - totals[:start]
        return float(sigma**2 * (squares[length] + np.dot(shared, shared)))

    return _row(name, float(sigma**2 * squares[1 : YEAR + 1].mean()), window)


def mu_at(epsilon: float, delta: float) -> float:
    """The largest shift, in standard deviations, of Gaussian noise that keeps a loss at a delta
    (Dong, Roth and Su 2022)."""

    def above(x: float) -> float:
        return 0.5 * math.erfc(x / math.sqrt(2.0))

    low, high = 0.0, 10.0
    while low < (mu := 0.5 * (low + high)) < high:
        ends = epsilon / mu - 0.5 * mu, epsilon / mu + 0.5 * mu
        kept = above(ends[0]) - math.exp(epsilon) * above(ends[1]) <= delta
        low, high = (mu, high) if kept else (low, mu)
    return low


def _blt() -> tuple[Reals, Reals]:
    """The buffered linear Toeplitz strategy that jax-privacy finds for a year of minutes."""
    import jax
    from jax_privacy.matrix_factorization import buffered_toeplitz

    jax.config.update("jax_enable_x64", True)  # type: ignore[no-untyped-call, unused-ignore]
    found = buffered_toeplitz.optimize(n=YEAR)
    inverse = found.inverse()
    steps = np.arange(YEAR)

    def column(blt: Any) -> Reals:
        scales, decays = np.asarray(blt.output_scale), np.asarray(blt.buf_decay)
        tail = sum(
            float(scale) * float(decay) ** steps
            for scale, decay in zip(scales, decays, strict=True)
        )
        return np.concatenate([[1.0], tail])

    return column(found), np.cumsum(column(inverse))


# A known short horizon
# ------------------------------------------------------------------------------------------------
def short(steps: int = 61, epsilon: float = 0.5) -> dict[str, float]:
    """Running totals of so few steps under one epsilon: the root of the mean squared error, with
    continuous noise, in units where one draw has the variance 2 / epsilon**2."""
    totals = np.tril(np.ones((steps, steps)))
    scale = math.sqrt(2.0) / epsilon
    found = {"optimised matrix (p-identity, HDMM; all steps known ahead)": _p_identity(totals)}
    request = read_request(loss={steps: epsilon})
    block_request = replace(block_request_for(request), lengths=tuple(range(1, steps + 1)))
    mechanism = blocks_for(request, block_request)
    assert mechanism is not None
    found[f"blocks ({', '.join(str(level.length) for level in mechanism.levels)})"] = (
        math.sqrt(mechanism.mse(steps)) / scale
    )
    ones = np.mean([step.bit_count() for step in range(1, steps + 1)])
    found["binary tree"] = math.sqrt(ones) * steps.bit_length()
    return {name: value * scale for name, value in found.items()}


def _p_identity(queries: Reals, rows: int = 12) -> float:
    """The root mean squared error of the best strategy found of the form ``[I; theta]`` with
    columns scaled to an absolute sum of 1 (McKenna et al. 2018), for one unit of noise."""
    from scipy.optimize import minimize

    count = queries.shape[1]
    gram = queries.T @ queries

    def error(flat: Reals) -> tuple[float, Reals]:
        theta = flat.reshape(rows, count)
        scale = 1.0 / (1.0 + theta.sum(axis=0))
        strategy = np.vstack([np.eye(count), theta]) * scale
        inverse = np.linalg.inv(strategy.T @ strategy)
        inner = inverse @ gram @ inverse
        slope = -2.0 * strategy @ inner
        own = np.vstack([np.eye(count), theta])
        by_scale = (slope * own).sum(axis=0)
        gradient = slope[count:] * scale - by_scale * scale**2
        return float(np.sum(inverse * gram)), gradient.ravel()

    source = np.random.default_rng(61)  # only for where the search begins
    results = [
        minimize(
            error,
            source.random(rows * count),
            jac=True,
            method="L-BFGS-B",
            bounds=[(0.0, None)] * (rows * count),
            options={"maxiter": 3000},
        ).fun
        for _ in range(3)
    ]
    return math.sqrt(min(results) / len(queries))


# ------------------------------------------------------------------------------------------------
def main(words: list[str] | None = None) -> int:
    """Print the tables and write them as JSON."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.promise", description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("out/bench"), metavar="FOLDER")
    arguments = parser.parse_args(words)

    def say(text: str) -> None:
        print(text, file=sys.stderr)

    rows = [*blocks(), one_draw(), *trees(), *renewed(), *running_totals(), *gaussians(say)]
    columns = ("total", "so_far", "hour", "day", "month", "final_month")
    print(
        f"{'standard error of':52}" + "".join(f"{each.replace('_', ' '):>12}" for each in columns)
    )
    for row in rows:
        cells = [getattr(row, each) for each in columns]
        shown = "".join(f"{'-':>12}" if cell is None else f"{cell:12.2f}" for cell in cells)
        print(f"{row.name:52}{shown}")
    few = {}
    try:
        few = short()
        print("\nroot mean squared error of 61 running totals, epsilon 0.5")
    except ImportError as error:  # scipy comes with the tests
        say(f"left out the second table: {error}")
    for name, value in sorted(few.items(), key=lambda each: each[1]):
        print(f"{name:70}{value:9.2f}")
    arguments.out.mkdir(parents=True, exist_ok=True)
    content = {"rows": [asdict(row) for row in rows], "short": few}
    (arguments.out / "promise.json").write_text(json.dumps(content, indent=1), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
