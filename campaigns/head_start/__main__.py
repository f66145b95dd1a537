"""``python -m campaigns.head_start``: thousands of random cases, each against all items; hundreds against linear programs.

The exit status is 1 if a loss is below that of some item, more than 10^-13 of it above the largest, or differs from a program.
"""

from __future__ import annotations

import argparse
import sys
import time

import numpy as np
from tests.mechanisms.shift_program import losses_by_program

from campaigns.head_start.cases import brute_force, random_case


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m campaigns.head_start", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--cases", type=int, default=6000, metavar="N", help="cases against all items (%(default)s)")
    parser.add_argument("--programs", type=int, default=600, metavar="N", help="items against linear programs (%(default)s)")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="another one gives other cases (%(default)s)")
    arguments = parser.parse_args(words)
    generator, started = np.random.default_rng(arguments.seed), time.monotonic()
    wrong, largest = 0, 0.0
    for _ in range(arguments.cases):
        case = random_case(generator)
        exact, found = brute_force(case), case.mechanism.loss(case.age)
        excess = found / exact - 1.0 if exact else found
        wrong, largest = wrong + (found < exact or excess > 1e-13), max(largest, excess)
    spent = time.monotonic() - started
    print(f"{arguments.cases:,} cases against all items: {wrong} wrong, largest excess {largest:.1e}  ({spent:.0f} s)")
    differing = 0
    for _ in range(arguments.programs):
        mechanism = random_case(generator).mechanism
        now = int(generator.integers(1, 64))
        position = int(generator.integers(1, now + 1))
        (wanted,) = losses_by_program(mechanism, [(position, now)]).tolist()
        found = mechanism.loss(now - position, position=position)
        differing += not np.isclose(found, wanted, rtol=1e-7, atol=1e-9)
        differing += found > mechanism.loss(now - position)
    print(f"{arguments.programs:,} items against linear programs: {differing} differ  ({time.monotonic() - started:.0f} s)")
    return 1 if wrong or differing else 0


if __name__ == "__main__":
    sys.exit(main())
