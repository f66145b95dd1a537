"""``python -m campaigns.blocks``: the loss of thousands of random designs, and a million steps
taken in every way.

Each design (lags, delays, stages, ties) is compared with the cheapest shift of noises at every
position and time, and some with a linear program that scipy solves. Counters then take the same
steps one by one, many at once and across saved states, with scripted noise: outputs and figures
must be equal. The exit status is 1 if anything differs.
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


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m campaigns.blocks", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--designs", type=int, default=5000, help="random designs (%(default)s)")
    parser.add_argument("--programs", type=int, default=1000, help="by scipy (%(default)s)")
    parser.add_argument("--steps", type=int, default=1_000_000, help="of counters (%(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of the sample (%(default)s)")
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
    print(f"{steps} steps, {wrong} wrong, {time.monotonic() - started:.0f} s")
    return 1 if wrong else 0


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
