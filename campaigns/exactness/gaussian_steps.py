"""``python -m campaigns.exactness.gaussian_steps``: a million steps of Gaussian counters one by
one, against blocks with saves.

Exit status 1 if one output or the saved state differs in one bit.
"""

from __future__ import annotations

import argparse
import sys
import time

import numpy as np
from tests.counters.test_memories import MECHANISMS, Waves

from fadecount.counters.counter import Counter
from fadecount.counters.state import MOST_AHEAD


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m campaigns.exactness.gaussian_steps",
        description=(__doc__ or "").partition("\n")[0],
    )
    parser.add_argument(
        "--steps",
        type=int,
        default=1_000_000,
        metavar="N",
        help="steps per mechanism (%(default)s)",
    )
    arguments = parser.parse_args(words)
    sizes = np.random.default_rng(3)
    wrong = 0
    for mechanism in MECHANISMS:
        started = time.monotonic()
        inputs = sizes.integers(0, 9, arguments.steps)
        one, many = (Counter._with_noise(mechanism, Waves(), width=None) for _ in range(2))
        at, saves, differing = 0, 0, 0
        while at < arguments.steps:
            size = int(min(2.0 ** (17 * sizes.random()), arguments.steps - at))
            block = many.extend(inputs[at : at + size])
            singles = np.array([one.step(each) for each in inputs[at : at + size].tolist()])
            differing += int((block != singles).sum())
            at, saves = at + size, saves + 1
            many = Counter._resume_with_noise(many.save(), Waves())
        for counter in (one, many):
            counter.extend(np.zeros(MOST_AHEAD, dtype=np.int64))  # uses up what was made ahead
        differing += many.save() != one.save()
        wrong += differing
        print(
            f"{len(mechanism.half_lives)} half-lives: {at:,} steps, {saves} saves, {differing}"
            f" differ  ({time.monotonic() - started:.0f} s)",
            flush=True,
        )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
