"""``python -m tests.planning.measure``: how much better designs are than simpler ways, and how long
one takes."""

from __future__ import annotations

import random
import time

import numpy as np

import fadecount as fc
from tests.planning.oracles import convex_mse, gradual_mse, random_targets

SETS = 200


def main() -> None:
    convex, gradual, seconds = [], [], []
    for seed in range(SETS):
        targets, horizon = random_targets(random.Random(seed))
        error = fc.design(targets=targets, horizon=horizon).mse(horizon)
        convex.append(error / convex_mse(targets, horizon))
        gradual.append(error / gradual_mse(targets, horizon))
    for seed in range(SETS):
        targets = {
            min(age, 10**9): loss for age, loss in random_targets(random.Random(seed))[0].items()
        }
        started = time.thread_time()
        fc.design(targets=targets, horizon=10**9)
        seconds.append(time.thread_time() - started)
    for name, values in (("convex", convex), ("gradual", gradual)):
        low, middle, high = np.quantile(values, (0.1, 0.5, 0.9))
        print(
            f"mse / {name} mse: mean {np.mean(values):.4f}, least {min(values):.4f}, greatest"
            f" {max(values):.6f},",
            end=" ",
        )
        print(f"deciles {low:.4f} {middle:.4f} {high:.4f}")
    times = 1e3 * np.array(seconds)
    middle, late = np.quantile(times, (0.5, 0.9))
    print(
        f"ms per design at horizon 10**9: mean {times.mean():.1f}, median {middle:.1f}, 90 % below"
        f" {late:.1f}"
    )


if __name__ == "__main__":
    main()
