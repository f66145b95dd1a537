"""Python's share of the Spark job, without Spark: CPU time per event and per release in one shard.

    python -m benchmarks.spark_python [--keys 12500] [--ticks 100] [--repeats 5]

Each tick takes as many events as there are keys, then does what an executor does: resume, close,
make rows, save. Prints the median of the repeats, in microseconds of one core.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections import defaultdict

import numpy as np
import pandas as pd

from benchmarks.spark import _identity
from fadecount.spark.shard import Pending, Roster, accept, frames, new_shard, resumed_shard


class Stopwatch:
    """CPU seconds of this process, by what they went into."""

    def __init__(self) -> None:
        self.spent: dict[str, float] = defaultdict(float)
        self._since = time.process_time()

    def note(self, what: str) -> None:
        now = time.process_time()
        self.spent[what] += now - self._since
        self._since = time.process_time()


def measure(keys: int, ticks: int, seed: int) -> dict[str, float]:
    """Microseconds per event or release, by step."""
    source = np.random.default_rng(seed)
    stream_key, identity = bytes(32), _identity("python")
    names = pd.Series([f"page-{number:07}" for number in range(keys)])
    roster = Roster.of(names.tolist()).tagged(stream_key)
    saved, pending = new_shard(identity, roster, stream_key, beta=0.05).saved(), Pending.empty()
    watch = Stopwatch()
    for tick in range(ticks):
        happened, when = names.take(source.integers(0, keys, keys)), np.full(keys, tick)
        watch.note("making events")
        packed = accept(roster, pending, happened, when, open_tick=tick).to_bytes()
        watch.note("event")
        shard = resumed_shard(roster, stream_key, saved, packed, beta=0.05)
        watch.note("resume")
        blocks = list(shard.close(tick + 1))
        watch.note("noise and sum")
        rows = sum(len(frame) for frame in frames(identity, roster, iter(blocks)))
        watch.note("rows")
        saved, pending = shard.saved(), shard.pending
        watch.note("save")
        assert rows == keys
    steps = {
        name: 1e6 * seconds / (keys * ticks)
        for name, seconds in watch.spent.items()
        if name != "making events"
    }
    return {**steps, "release": sum(value for name, value in steps.items() if name != "event")}


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.spark_python", description=(__doc__ or "").partition("\n")[0]
    )
    for name, default in (("keys", 12_500), ("ticks", 100), ("repeats", 5)):
        parser.add_argument(f"--{name}", type=int, default=default)
    wanted = parser.parse_args(words)
    found = [measure(wanted.keys, wanted.ticks, seed) for seed in range(wanted.repeats)]
    print(
        json.dumps(
            {name: round(statistics.median(each[name] for each in found), 3) for name in found[0]},
            indent=2,
        )
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
