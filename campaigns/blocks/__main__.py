"""``python -m campaigns.blocks``: the loss of thousands of random designs, a million steps taken in
every way, and how often bands hold the truth.

Each design (lags, delays, stages) is compared with the cheapest shift of noises at every position
and time, and some with a linear program that scipy solves. Counters then take the same
steps one by one, many at once and across saved states, with scripted noise: outputs and figures
must be equal. Counters with real noise then publish 100,000 live totals, at random steps, of which
95 ± 0.5 % must be within their bands. The exit status is 1 if anything differs.
"""

from __future__ import annotations

import argparse
import random
import sys
import time

import numpy as np
from tests.counters.block_reference import NamedNoise
from tests.mechanisms.block_oracles import pairs, program_loss, random_design
from tests.mechanisms.test_blocks import check_design

import fadecount as fc

YEAR = fc.Blocks(
    fc.Level(1, 0.246),
    fc.Level(12, 0.254, later=((61, 0.320),)),
    fc.Level(60, 0.618, lag=61),
    fc.Level(1440, 0.816, lag=61, later=((43201, 1.577),)),
    fc.Level(43200, 1.239, lag=43201),
)
PLAIN = fc.Blocks(
    fc.Level(1, 0.0223),
    fc.Level(10, 0.0277),
    fc.Level(60, 0.0591, lag=61),
    fc.Level(1440, 0.0909, lag=61),
)
STAGES = fc.Blocks(
    fc.Level(1, 0.03),
    fc.Level(5, 0.04),
    fc.Level(10, 0.05, lag=3, later=((6, 0.09),)),
    fc.Level(30, 0.025, lag=7),
    fc.Level(60, 0.05, lag=7, later=((20, 0.15),)),
)
BANDS = {
    "a year of minutes": (YEAR, 100_000, 0.957),
    "a year, noise ten times as wide": (YEAR.for_sensitivity(10), 100_000, 0.955),
    "plain": (PLAIN, 10_000, 0.955),
    "stages": (STAGES, 1_000, 0.955),
}
"""Mechanisms, up to which step their totals are looked at, and the largest share in the band."""


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m campaigns.blocks", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--designs", type=int, default=5000, help="random designs (%(default)s)")
    parser.add_argument("--programs", type=int, default=1000, help="by scipy (%(default)s)")
    parser.add_argument("--steps", type=int, default=1_000_000, help="of counters (%(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of the sample (%(default)s)")
    parser.add_argument("--keys", type=int, default=1000, help="100 totals each (%(default)s)")
    options = parser.parse_args(words)
    started, chance, wrong = time.monotonic(), random.Random(options.seed), 0
    events = 0
    for _ in range(options.designs):
        mechanism = random_design(chance)
        try:
            check_design(mechanism)
        except AssertionError:
            wrong += 1
            print(f"loss differs: {mechanism!r}")
        events += sum(1 for _ in pairs(mechanism))
    print(f"{options.designs} designs, {events} positions and times, {wrong} wrong")
    programs = 0
    for _ in range(options.programs):
        mechanism = random_design(chance)
        for position, now in chance.choices(list(pairs(mechanism)), k=4):
            solved, ours = (
                program_loss(mechanism, position, now),
                1e6 * mechanism.loss(now - position, position=position),
            )
            programs += 1
            if abs(solved - ours) > 1e-3:
                wrong += 1
                print(f"program differs: {mechanism!r}, {position}, {now}: {solved}, {ours}")
    print(f"{programs} linear programs on {options.programs} designs, {wrong} wrong")
    steps = 0
    while steps < options.steps:
        mechanism, count = random_design(chance, longest=600, most_levels=5), 20_000
        wrong += not same_every_way(mechanism, count, chance)
        steps += count
    print(f"{steps} steps, {wrong} wrong")
    for name, (mechanism, last, most) in BANDS.items():
        share, ratio = coverage(mechanism, last, options.keys, seed=options.seed)
        wrong += not 0.945 <= share <= most
        print(f"{100 * share:.2f} % within the band, variance {ratio:.3f} of the formula: {name}")
    print(f"{wrong} wrong, {time.monotonic() - started:.0f} s")
    return 1 if wrong else 0


def coverage(
    mechanism: fc.Blocks, last: int, keys: int, *, seed: int, totals: int = 100
) -> tuple[float, float]:
    """The share of live totals within their 95 % bands, after so many random steps up to the
    ``last`` and for each key, and the ratio of the variance of their noise to the formula's."""
    counter = fc.Counter(mechanism, shape=(keys,))
    steps = np.sort(np.random.default_rng(seed).permutation(last)[:totals] + 1)
    within, squares = [], []
    for step in steps.tolist():
        while counter.time < step:
            part = min(step - counter.time, 10_000)
            noise = counter.extend(np.zeros((part, keys), dtype=np.int64))[-1]
        within.append(np.mean(np.abs(noise) <= mechanism.error_bound(step, 0.05)))
        squares.append(np.mean(noise.astype(float) ** 2) / mechanism.variance(step))
    return float(np.mean(within)), float(np.mean(squares))


def same_every_way(mechanism: fc.Blocks, count: int, chance: random.Random) -> bool:
    """Whether steps, many at once, and any mixture with saved states give the same."""
    seed = chance.randrange(1 << 30)
    items = np.random.default_rng(seed).integers(0, 9, count)
    single = fc.Counter._with_noise(mechanism, NamedNoise(seed))
    outputs = [single.step(item) for item in items.tolist()]
    bulk = fc.Counter._with_noise(mechanism, NamedNoise(seed))
    mixed, seen, figures, at = fc.Counter._with_noise(mechanism, NamedNoise(seed)), [], [], 0
    while at < count:
        part = items[at : at + chance.choice([1, 3, 17, 400, 3000])]
        at += len(part)
        if chance.random() < 0.5:
            seen += mixed.extend(part).tolist()
        else:
            seen += [mixed.step(item) for item in part.tolist()]
        if chance.random() < 0.5:
            figures += mixed.figures()
            mixed = fc.Counter._resume_with_noise(mixed.save(), NamedNoise(seed))
    equal: bool = bulk.extend(items).tolist() == outputs == seen
    equal &= single.figures() == bulk.figures() == [*figures, *mixed.figures()]
    if not equal:
        print(f"outputs differ: {mechanism!r}, seed {seed}")
    return equal


if __name__ == "__main__":
    sys.exit(main())
