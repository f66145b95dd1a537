"""Simulate windows of every alignment with real noise, and count how often their intervals hold the
truth.

``python -m campaigns.windows --windows 100000`` prints one line per mechanism: the share of windows
within the 95 % interval, and the variance of the noise against the formula. It fails if a share is
not 95 ± 0.5 %.
"""

from __future__ import annotations

import argparse
import sys

import numpy as np
from tests.mechanisms.any_levels import AnyLevels

import fadecount as fc
from fadecount.mechanisms import RunningTotal

CASES: dict[str, RunningTotal] = {
    "gradual": fc.Gradual(epsilon=0.02),
    "gradual, exponent 2, delay 7": fc.Gradual(epsilon=0.02, exponent=2.0, delay=7),
    "any levels": AnyLevels(budgets=(0.05, 0.02, 0.04, 0.01)),
    "totals": fc.Totals(fc.Level(1, 0.05), fc.Level(6, 0.04), fc.Level(24, 0.05, lag=9)),
    "linear": fc.Linear(epsilon=0.02),
    "refresh": fc.Refresh(window=12, epsilon_current=0.2, epsilon_past=0.02),
    "binary": fc.Binary(epsilon=0.2, horizon=127),
}
STEPS = 100


def coverage(mechanism: RunningTotal, keys: int, seed: int) -> tuple[float, float]:
    """The share of windows within their interval, over one window of random ends per key, and the
    ratio of the variances."""
    outputs = np.asarray(
        fc.Counter(mechanism, shape=(keys,)).extend(np.zeros((STEPS, keys), dtype=np.int64))
    )
    totals = np.concatenate([np.zeros((1, keys), dtype=np.int64), outputs])
    chance = np.random.default_rng(seed)
    first = mechanism.delay
    ends = np.sort(
        np.stack([chance.permutation(STEPS + 1 - first)[:2] for _ in range(keys)]) + first, axis=1
    )
    noise = totals[ends[:, 1], np.arange(keys)] - totals[ends[:, 0], np.arange(keys)]
    widths = mechanism.half_widths(ends[:, 0], ends[:, 1])
    windows, which = np.unique(ends, axis=0, return_inverse=True)
    expected = np.array(
        [mechanism.window_variance(int(start), int(end)) for start, end in windows.tolist()]
    )[which.ravel()]
    return float(np.mean(np.abs(noise) <= widths)), float(
        np.mean(noise.astype(float) ** 2 / expected)
    )


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--windows", type=int, default=100_000)
    chosen = parser.parse_args(words)
    wrong = 0
    for name, mechanism in CASES.items():
        share, ratio = coverage(mechanism, chosen.windows, seed=7)
        wrong += not 0.945 <= share <= 0.955
        print(
            f"{name:32} {100 * share:6.2f} % within the 95 % interval; variance {ratio:.3f} of the"
            " formula",
            flush=True,
        )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
