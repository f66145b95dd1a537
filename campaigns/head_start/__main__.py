"""``python -m campaigns.head_start``: thousands of random cases, each against all items; hundreds
against linear programs.

Then designs: hundreds of random sets of targets against the design without a head start, and small
ones against a global search by scipy.

The exit status is 1 if a loss is below that of some item, more than 10^-13 of it above the largest,
or differs from a program; if a design is worse than the one without a head start, gains less than
20 % in the mean over long horizons, or is more than 1 % above the least error found.
"""

from __future__ import annotations

import argparse
import math
import sys
import time

import numpy as np
from tests.mechanisms.shift_program import losses_by_program

import fadecount as fc
from campaigns.head_start.cases import brute_force, random_case
from campaigns.head_start.designs import LONG, gain, least_error, small_case

QUANTILES = (0.0, 0.1, 0.5, 0.9, 1.0)


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m campaigns.head_start", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument(
        "--cases", type=int, default=6000, metavar="N", help="cases against all items (%(default)s)"
    )
    parser.add_argument(
        "--programs",
        type=int,
        default=600,
        metavar="N",
        help="items against linear programs (%(default)s)",
    )
    parser.add_argument(
        "--designs", type=int, default=200, metavar="N", help="sets of targets (%(default)s)"
    )
    parser.add_argument(
        "--small",
        type=int,
        default=60,
        metavar="N",
        help="small sets against a global search (%(default)s)",
    )
    parser.add_argument(
        "--seed",
        type=int,
        default=1,
        metavar="N",
        help="another one gives other cases (%(default)s)",
    )
    arguments = parser.parse_args(words)
    generator, started = np.random.default_rng(arguments.seed), time.monotonic()
    wrong, largest = 0, 0.0
    for _ in range(arguments.cases):
        case = random_case(generator)
        exact, found = brute_force(case), case.mechanism.loss(case.age)
        excess = found / exact - 1.0 if exact else found
        wrong, largest = wrong + (found < exact or excess > 1e-13), max(largest, excess)
    spent = time.monotonic() - started
    print(
        f"{arguments.cases:,} cases against all items: {wrong} wrong, largest excess {largest:.1e} "
        f" ({spent:.0f} s)"
    )
    differing = 0
    for _ in range(arguments.programs):
        mechanism = random_case(generator).mechanism
        now = int(generator.integers(1, 64))
        position = int(generator.integers(1, now + 1))
        (wanted,) = losses_by_program(mechanism, [(position, now)]).tolist()
        found = mechanism.loss(now - position, position=position)
        differing += not np.isclose(found, wanted, rtol=1e-7, atol=1e-9)
        differing += found > mechanism.loss(now - position)
    print(
        f"{arguments.programs:,} items against linear programs: {differing} differ "
        f" ({time.monotonic() - started:.0f} s)"
    )
    missed = _designs(arguments.designs, arguments.seed) + _small(arguments.small, arguments.seed)
    return 1 if wrong or differing or missed else 0


def _designs(count: int, seed: int) -> int:
    """How many requirements are missed, over random sets of targets."""
    gains = [gain(1000 * seed + each) for each in range(count)]
    worse = sum(each.ratio > 1.0 for each in gains)
    for name, some in (
        ("all horizons", gains),
        (f"horizons from {LONG:,}", [each for each in gains if each.horizon >= LONG]),
    ):
        ratios = np.array([each.ratio for each in some] or [1.0])
        deciles = ", ".join(f"{value:.3f}" for value in np.quantile(ratios, QUANTILES))
        print(
            f"{len(some)} designs, {name}: error {ratios.mean():.3f} of that without a head start"
            " in the mean"
        )
        print(f"    least, 10 %, 50 %, 90 %, most: {deciles}", flush=True)
    return worse + bool(count and ratios.mean() > 0.8)


def _small(count: int, seed: int) -> int:
    """How many small designs are more than 1 % above the least error that a global search finds."""
    above = []
    for each in range(count):
        targets, horizon = small_case(1000 * seed + each)
        found = fc.design(targets=targets, horizon=horizon).mse(horizon)
        above.append(math.sqrt(found / least_error(targets, horizon, starts=2, seed=each)) - 1.0)
    missed = sum(each > 0.01 for each in above)
    print(f"{count} small designs against a global search: {missed} more than 1 % above")
    print(
        "    least, 10 %, 50 %, 90 %, most:",
        ", ".join(f"{value:+.2%}" for value in np.quantile(above or [0.0], QUANTILES)),
    )
    return missed


if __name__ == "__main__":
    sys.exit(main())
