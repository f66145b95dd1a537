"""``python -m campaigns.exactness``: more than a million words at 24 scales, against mpmath, the
slow path forced as well.

Each word is drawn from on the fast path, whose result must be the integer that arithmetic of many
digits gives; if the table of the scale knows the word's prefix, it must say the same. Words beside
the boundaries between two magnitudes force exact settling; so do the smallest words. The exit
status is 1 if any draw differs.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable

import mpmath
import numpy as np
from numpy.typing import NDArray
from tests.noise.discrete import DIGITS, boundary, exact_draw

from fadecount.noise import DiscreteLaplace
from fadecount.noise.laplace import LARGEST_TABLED_SCALE, UNDETERMINED, prefix_table

SCALES = [
    2.0**-14,
    0.01,
    0.07,
    0.13,
    0.3,
    0.5,
    0.9,
    1.0,
    1.7,
    2.0,
    5.0,
    10.0,
    12.5,
    1 / 0.03,
    100.0,
    999.0,
    1024.0,
]
LARGE = [1e4, 65536.0, 1e6, 1e8, 2.0**30, 1e11, 2.0**40]
FURTHER = [0x9E3779B97F4A7C15 * at & (1 << 64) - 1 for at in range(1, 9)]


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m campaigns.exactness", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument(
        "--words",
        type=int,
        default=42_000,
        metavar="N",
        help="random words per scale (%(default)s)",
    )
    arguments = parser.parse_args(words)
    started, total, slow, tabled, wrong = time.monotonic(), 0, 0, 0, 0
    for scale in [*SCALES, *LARGE]:
        random = np.random.default_rng(int(scale * 1000)).integers(
            0, 1 << 64, arguments.words, dtype=np.uint64
        )
        chosen = np.concatenate([random, _adversarial(scale)])
        draws, settled = _drawn(scale, chosen)
        exact = np.array([exact_draw(scale, word, FURTHER) for word in chosen.tolist()])
        known, differing = _by_table(scale, chosen, exact)
        wrong += int(np.count_nonzero(draws != exact)) + differing
        total, slow, tabled = total + len(chosen), slow + settled, tabled + known
        print(
            f"scale {scale:<12.6g} {len(chosen):>7,} words, {settled:>5,} settled exactly,"
            f" {known:>7,} by table",
            flush=True,
        )
    spent = time.monotonic() - started
    print(
        f"{total:,} words, {slow:,} on the slow path, {tabled:,} checked in tables: {wrong} wrong "
        f" ({spent:.0f} s)"
    )
    return 1 if wrong else 0


def _adversarial(scale: float) -> NDArray[np.uint64]:
    """The smallest and largest words, and those on both sides of boundaries between two
    magnitudes."""
    bits = [*range(40), *((1 << 63) - 1 - at for at in range(5)), *(1 << at for at in range(6, 63))]
    for magnitude in {
        1,
        2,
        3,
        5,
        7,
        11,
        20,
        50,
        100,
        *(max(1, int(scale * part)) for part in (0.1, 0.3, 0.5, 1, 2, 3, 5, 8, 13, 20)),
    }:
        with mpmath.workdps(DIGITS):
            edge = int(mpmath.floor(boundary(scale, magnitude) * 2**63))
        bits.extend(each for each in range(edge - 8, edge + 9) if 0 <= each < 1 << 63)
    return np.array([each << 1 | at & 1 for at, each in enumerate(bits)], dtype=np.uint64)


def _drawn(scale: float, words: NDArray[np.uint64]) -> tuple[NDArray[np.int64], int]:
    """The draws, and how many of them were settled in exact arithmetic."""
    settled = 0

    class Counted(DiscreteLaplace):
        def settle(self, bits: int, more: Callable[[int], int]) -> int:
            nonlocal settled
            settled += 1
            return DiscreteLaplace.settle(self, bits, more)

    draws = Counted(scale).from_words(words, lambda _position, asked: FURTHER[asked])
    return draws, settled


def _by_table(scale: float, words: NDArray[np.uint64], exact: NDArray[np.int64]) -> tuple[int, int]:
    """How many words the table of prefixes determines, and for how many of them it is wrong."""
    if scale > LARGEST_TABLED_SCALE:
        return 0, 0
    prefixes = (words >> np.uint64(49) << np.uint64(1) | words & np.uint64(1)).astype(np.uint16)
    entries = prefix_table(scale)[prefixes]
    known = entries != UNDETERMINED
    return int(np.count_nonzero(known)), int(np.count_nonzero(entries[known] != exact[known]))


if __name__ == "__main__":
    sys.exit(main())
