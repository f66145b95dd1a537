"""Kill a cluster job again and again: what it published must equal one local counter, and every repeated write the first.

    python -m tests.spark.crash [--events 1000000] [--keys 100000] [--files 32] [--drivers 21] [--workers 5]

A stand-alone master and two workers run on loopback. The driver is killed (``kill -9``, with its JVM) ``--drivers``
times, every other time between the write of a micro-batch and its commit, otherwise at any moment; workers with their
executors ``--workers`` times. Prints what it did as JSON; the exit status is 1 if anything differs, is missing, or if no
row was ever written twice, for then nothing was tested.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow
import pyarrow.dataset

import fadecount as fc
from fadecount.noise import KeyedNoise
from tests.spark.crash_cluster import Cluster, Group
from tests.spark.oracle import SECRET, START

TICK = 60
SHARDS = 8
MECHANISM = fc.Gradual(epsilon=0.5, exponent=2.0)


def make_events(root: Path, *, events: int, keys: int, files: int) -> tuple[list[str], np.ndarray[Any, Any], int]:
    """Writes the input, and returns the keys, the counts (tick, key) that a correct job releases, and how many came late."""
    source = np.random.default_rng(20260101)
    names = [f"page-{number:07}" for number in range(keys)]
    pd.DataFrame({"page": names}).to_parquet(root / "keys.parquet")
    (root / "in").mkdir()
    counts = np.zeros((files + 2, keys), dtype=np.int64)
    watermark, closed, late = 0, 0, 0
    for number in range(files):
        part = events // files + (number < events % files)
        seconds = number * TICK + source.integers(0, TICK, part)
        old = source.random(part) < 0.1
        seconds = np.maximum(seconds - np.where(old, source.integers(0, 3 * TICK, part), 0), 0)
        chosen = np.minimum(source.zipf(1.3, part) - 1, source.integers(0, keys, part))
        frame = pd.DataFrame({"at": pd.to_datetime(START + seconds, unit="s", utc=True), "page": np.array(names)[chosen]})
        path = root / "in" / f"{number:04}.parquet"
        frame.to_parquet(path, coerce_timestamps="us")
        os.utime(path, (START + number, START + number))  # Spark reads the oldest file first
        closed = max(closed, watermark // TICK)
        late += int(np.count_nonzero(seconds // TICK < closed))
        np.add.at(counts, (np.maximum(seconds // TICK, closed), chosen), 1)
        watermark = max(watermark, int(seconds.max()))
    return names, counts[: watermark // TICK], late


def torment(cluster: Cluster, root: Path, settings: str, *, drivers: int, workers: int) -> dict[str, int]:
    """Start the driver and kill it until it was killed often enough, then let it finish."""
    chance = random.Random(7)
    done = {"driver kills": 0, "between write and commit": 0, "worker kills": 0}
    while not (root / "finished").exists():
        driver = cluster.start_driver(["-m", "tests.spark.crash_driver", settings])
        seen, commits = _names(root / "markers"), _names(root / "checkpoint" / "commits")
        if done["driver kills"] >= drivers:
            _wait(driver, lambda: (root / "finished").exists())
            driver.kill()
            break
        aimed = done["driver kills"] % 2 == 0
        if aimed:
            fresh = _wait(driver, lambda seen=seen: _names(root / "markers") - seen)
            number = str(int(sorted(fresh)[-1].split("-")[0])) if fresh else ""
        else:
            _wait(driver, lambda commits=commits: _names(root / "checkpoint" / "commits") - commits)
            if done["worker kills"] < workers:
                cluster.kill_worker(done["worker kills"] % 2)
                done["worker kills"] += 1
            time.sleep(chance.uniform(0.0, 4.0))
        if (root / "finished").exists():
            break
        driver.kill()
        done["driver kills"] += 1
        if aimed and number not in _names(root / "checkpoint" / "commits"):
            done["between write and commit"] += 1
        print(json.dumps(done), file=sys.stderr, flush=True)
    return done


def _names(place: Path) -> set[str]:
    return {path.name for path in place.glob("[0-9]*")} if place.exists() else set()


def _wait(driver: Group, condition: Any, *, seconds: float = 900.0) -> Any:
    deadline = time.monotonic() + seconds
    while True:
        result = condition()
        if result:
            return result
        if not driver.running or time.monotonic() > deadline:
            raise RuntimeError("the driver stopped by itself; see driver.log")
        time.sleep(0.02)


def compare(root: Path, names: list[str], counts: np.ndarray[Any, Any]) -> dict[str, int]:
    """Every write there ever was, against the releases of one local vector counter."""
    identity = json.loads((root / "checkpoint" / "fadecount.json").read_text())
    noise = KeyedNoise.derive(SECRET.encode(), epoch=identity["epoch"], stream="crash", mechanism=MECHANISM.to_json(), keys=names)
    wanted = fc.Counter._with_noise(MECHANISM, noise, width=len(names)).extend(counts)
    writes = np.zeros(wanted.shape, dtype=np.int64)
    wrong = 0
    for place in sorted((root / "raw").iterdir()):
        files = [str(path) for path in place.glob("part-*.parquet")]
        if not files:
            continue
        rows = pyarrow.dataset.dataset(files).to_table(columns=["tick", "key", "value"])
        seconds = rows["tick"].cast(pyarrow.timestamp("s", tz="UTC")).cast(pyarrow.int64()).to_numpy()
        ticks, keys = (seconds - START) // TICK, np.array([int(name[5:]) for name in rows["key"].to_pylist()], dtype=np.int64)
        wrong += int(np.count_nonzero(wanted[ticks, keys] != rows["value"].to_numpy()))
        np.add.at(writes, (ticks, keys), 1)
    return {
        "ticks": len(wanted),
        "releases": int(wanted.size),
        "raw rows": int(writes.sum()),
        "written more than once": int(np.count_nonzero(writes > 1)),
        "different from the oracle": wrong,
        "missing": int(np.count_nonzero(writes == 0)),
    }


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.spark.crash", description=(__doc__ or "").partition("\n")[0])
    for name, default in (("events", 10**6), ("keys", 10**5), ("files", 32), ("drivers", 21), ("workers", 5)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--keep", metavar="DIRECTORY", help="work here, in a new directory, and leave everything")
    wanted = parser.parse_args()
    began = time.monotonic()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that nothing is left running
    with tempfile.TemporaryDirectory(prefix="fadecount-crash-") as place:
        root = Path(wanted.keep or place)
        root.mkdir(parents=True, exist_ok=not wanted.keep)
        (root / "secret").write_text(SECRET)
        (root / "markers").mkdir()
        names, counts, late = make_events(root, events=wanted.events, keys=wanted.keys, files=wanted.files)
        with Cluster(root) as cluster:
            settings = {
                "root": str(root),
                "master": cluster.master,
                "mechanism": MECHANISM.to_json(),
                "tick": TICK,
                "start": START,
            }
            text = json.dumps({**settings, "shards": SHARDS, "stream": "crash", "pause": 0.5})
            done = torment(cluster, root, text, drivers=wanted.drivers, workers=wanted.workers)
        found = compare(root, names, counts)
    report = {"events": wanted.events, "keys": wanted.keys, "late events": late, **done, **found}
    print(json.dumps({**report, "seconds": round(time.monotonic() - began)}, indent=2))
    enough = done["driver kills"] >= wanted.drivers and done["worker kills"] >= wanted.workers
    good = not found["different from the oracle"] and not found["missing"] and found["written more than once"] > 0
    return 0 if good and enough and done["between write and commit"] > 0 else 1


if __name__ == "__main__":
    sys.exit(main())
