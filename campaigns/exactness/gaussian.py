"""``python -m campaigns.exactness.gaussian``: a million words at 10 deviations, against mpmath.
Exit status 1 if any differs."""

from __future__ import annotations

import argparse
import sys
import time

import mpmath
from tests.noise.rounded import DIGITS, boundary, differing, width_of

from fadecount.noise import RoundedGaussian

DEVIATIONS = [256.0, 300.0, 511.0, 4096.0, 65537.0, 1.7e7, 2.0**30, 1e11, 2.0**39 * 1.1, 2.0**40]
_ALL = (1 << 64) - 1


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m campaigns.exactness.gaussian",
        description=(__doc__ or "").partition("\n")[0],
    )
    parser.add_argument(
        "--words",
        type=int,
        default=100_000,
        metavar="N",
        help="random words per deviation (%(default)s)",
    )
    arguments = parser.parse_args(words)
    started, total, wrong = time.monotonic(), 0, 0
    for scale in DEVIATIONS:
        chosen = _adversarial(scale)
        count = arguments.words + len(chosen)
        differing_draws = differing(RoundedGaussian(scale), count, chosen, int(scale * 1000))
        total, wrong = total + count, wrong + differing_draws
        print(f"deviation {scale:<14.6g} {count:>7,} words, {differing_draws} wrong", flush=True)
    print(f"{total:,} words: {wrong} wrong  ({time.monotonic() - started:.0f} s)")
    return 1 if wrong else 0


def _adversarial(scale: float) -> list[int]:
    """The first and last words, and those on both sides of boundaries between cells."""
    chosen = [*range(8), *(_ALL - at for at in range(8))]
    for part in (
        -9,
        -8,
        -7,
        -6,
        -5,
        -4,
        -3,
        -2,
        -1,
        -0.5,
        -0.1,
        0,
        0.1,
        0.5,
        1,
        2,
        3,
        4,
        5,
        6,
        7,
        8,
        9,
    ):
        with mpmath.workdps(DIGITS):
            edge = int(mpmath.floor(boundary(scale, round(part * scale / width_of(scale))) * 2**64))
        chosen.extend(each for each in range(edge - 5, edge + 6) if 0 <= each <= _ALL)
    return chosen


if __name__ == "__main__":
    sys.exit(main())
