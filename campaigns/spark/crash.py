"""Kill a cluster job again and again: what it published must equal the local library, and every
repeated write the first.

    python -m campaigns.spark.crash [--events 200000] [--keys 10000] [--files 32] [--drivers 21]
    [--workers 5]

A stand-alone master and two workers run on loopback. The driver is killed (``kill -9``, with its
JVM) ``--drivers`` times, every other time between the write of a micro-batch and its commit,
otherwise at any moment; workers with their executors ``--workers`` times. Prints what it did as
JSON; the exit status is 1 if anything differs, is missing, or if no row was ever written twice, for
then nothing was tested.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import sys
import tempfile
import time
from collections import Counter as Tally
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow.dataset
from tests.spark.oracle import Place, expected

import fadecount as fc
from campaigns.spark.cluster import Cluster, Group
from campaigns.spark.events import SECRET, TICK, counts_of, make_events, micro_batches, ticks_closed

MECHANISM = fc.Blocks(
    fc.Level(1, 0.5), fc.Level(6, 0.8, later=((8, 2.0),)), fc.Level(12, 1.0, lag=9)
)


def torment(
    cluster: Cluster, root: Path, settings: str, *, drivers: int, workers: int
) -> dict[str, int]:
    """Start the driver and kill it until it was killed often enough, then let it finish."""
    chance = random.Random(7)
    done = {"driver kills": 0, "between write and commit": 0, "worker kills": 0}
    while not (root / "finished").exists():
        driver = cluster.start_driver(["-m", "campaigns.spark.driver", settings])
        seen, commits = _names(root / "markers"), _names(root / "state" / "checkpoint" / "commits")
        if done["driver kills"] >= drivers:
            _wait(driver, lambda: (root / "finished").exists())
            driver.kill()
            break
        aimed = done["driver kills"] % 2 == 0
        if aimed:
            fresh = _wait(driver, lambda seen=seen: _names(root / "markers") - seen)
            number = str(int(sorted(fresh)[-1].split("-")[0])) if fresh else ""
        else:
            _wait(
                driver,
                lambda commits=commits: _names(root / "state" / "checkpoint" / "commits") - commits,
            )
            if done["worker kills"] < workers:
                cluster.kill_worker(done["worker kills"] % 2)
                done["worker kills"] += 1
            time.sleep(chance.uniform(0.0, 4.0))
        if (root / "finished").exists():
            break
        driver.kill()
        done["driver kills"] += 1
        if aimed and number not in _names(root / "state" / "checkpoint" / "commits"):
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


def compare(
    root: Path, names: list[str], counts: Mapping[tuple[int, str], int], *, steps: int
) -> dict[str, int]:
    """Every write there ever was, against the local library; everything that is public after so
    many ticks must be there."""
    wanted = expected(root / "state", names, counts, steps)
    writes: Tally[Place] = Tally()
    first: dict[Place, Any] = {}
    wrong = changed = 0
    for place in sorted((root / "raw").iterdir()):
        files = [str(path) for path in place.glob("part-*.parquet")]
        for row in pyarrow.dataset.dataset(files).to_table().to_pylist() if files else ():
            where = row["per"], int(row["start"].timestamp()), row["stage"], row["key"]
            writes[where] += 1
            wrong += where not in wanted or wanted[where][2] != row["value"]
            changed += first.setdefault(where, row) != row
    return {
        "ticks": steps,
        "figures": len(wanted),
        "raw rows": writes.total(),
        "written more than once": sum(count > 1 for count in writes.values()),
        "written again with another value": changed,
        "different from the local library": wrong,
        "missing": len(wanted.keys() - writes.keys()),
    }


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m campaigns.spark.crash", description=(__doc__ or "").partition("\n")[0]
    )
    for name, default in (
        ("events", 200_000),
        ("keys", 10_000),
        ("files", 32),
        ("drivers", 21),
        ("workers", 5),
    ):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument(
        "--keep", metavar="DIRECTORY", help="work here, in a new directory, and leave everything"
    )
    wanted = parser.parse_args()
    began = time.monotonic()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that nothing is left running
    with tempfile.TemporaryDirectory(prefix="fadecount-crash-") as place:
        root = Path(wanted.keep or place)
        root.mkdir(parents=True, exist_ok=not wanted.keep)
        (root / "secret").write_text(SECRET)
        (root / "markers").mkdir()
        start = int(time.time()) // TICK * TICK
        names, parts = make_events(
            root, start=start, events=wanted.events, keys=wanted.keys, files=wanted.files
        )
        with Cluster(root) as cluster:
            settings = {
                "root": str(root),
                "master": cluster.master,
                "mechanism": MECHANISM.to_json(),
                "tick": TICK,
                "start": start,
                "files": wanted.files,
            }
            text = json.dumps({**settings, "stream": "crash", "pause": 0.5})
            done = torment(cluster, root, text, drivers=wanted.drivers, workers=wanted.workers)
        batches = micro_batches(root / "state" / "checkpoint")
        assert sorted(file for _, files in batches for file in files) == list(
            range(wanted.files)
        ), "a file was left out or read twice"
        committed = max(map(int, _names(root / "state" / "checkpoint" / "commits")))
        counts, late = counts_of(parts, batches, names, start=start)
        steps = ticks_closed(batches[committed][0], start)
        found = compare(root, names, counts, steps=steps)
    shared = sum(len(files) > 1 for _, files in batches)
    report = {
        "events": wanted.events,
        "keys": wanted.keys,
        "late events": late,
        "shared micro-batches": shared,
        **done,
        **found,
    }
    print(json.dumps({**report, "seconds": round(time.monotonic() - began)}, indent=2))
    enough = done["driver kills"] >= wanted.drivers and done["worker kills"] >= wanted.workers
    faults = ("written again with another value", "different from the local library", "missing")
    good = not any(found[each] for each in faults) and found["written more than once"] > 0
    return 0 if good and enough and done["between write and commit"] > 0 else 1


if __name__ == "__main__":
    sys.exit(main())
