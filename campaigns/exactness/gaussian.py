"""``python -m campaigns.exactness.gaussian``: a million words at 10 deviations, against mpmath.
Exit status 1 if any differs."""

from __future__ import annotations

import argparse
import sys
import time

import mpmath
import numpy as np
from numpy.typing import NDArray
from tests.noise.rounded import DIGITS, boundary, exact_draw, width_of

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
        random = np.random.default_rng(int(scale * 1000)).integers(
            0, 1 << 64, arguments.words, dtype=np.uint64
        )
        chosen = np.concatenate([random, _adversarial(scale)])
        draws = RoundedGaussian(scale).from_words(chosen, _further)
        differing = sum(
            draw != exact_draw(scale, word, lambda asked, at=at: _word(at, asked))  # type: ignore[misc]
            for at, (word, draw) in enumerate(zip(chosen.tolist(), draws.tolist(), strict=True))
        )
        total, wrong = total + len(chosen), wrong + differing
        print(f"deviation {scale:<14.6g} {len(chosen):>7,} words, {differing} wrong", flush=True)
    print(f"{total:,} words: {wrong} wrong  ({time.monotonic() - started:.0f} s)")
    return 1 if wrong else 0


def _word(position: int, asked: int) -> int:
    mixed = (
        position * 0x9E3779B97F4A7C15 + (asked + 1) * 0xD1B54A32D192ED03 & _ALL
    ) * 0xBF58476D1CE4E5B9 & _ALL
    return (mixed ^ mixed >> 31) * 0x94D049BB133111EB & _ALL


def _further(positions: NDArray[np.int64], asked: int) -> NDArray[np.uint64]:
    return np.array([_word(each, asked) for each in positions.tolist()], dtype=np.uint64)


def _adversarial(scale: float) -> NDArray[np.uint64]:
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
    return np.array(chosen, dtype=np.uint64)


if __name__ == "__main__":
    sys.exit(main())
