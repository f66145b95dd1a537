"""One unit moves nothing else in tables on Spark: pairs of tables that differ by one event, or by
one person's day, with hardly any noise.

    python -m campaigns.spark.neighbours [--pairs 200] [--first SEED]

Ten units are compared with one table without them. Every other table protects persons, with a cap
of two events a day. Prints one line for each violation, with its seed, and a summary; exits 1 if
there is any, or if no unit counted.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.spark.oracle import SECRET, START
from tests.spark.session import build_session
from tests.spark.test_neighbours import DAY, HOUR, KEYS, table_figures, violations

CAP = {"person": "who", "per_person": 2, "person_per": "1d"}
UNITS = 10


def some_events(chance: random.Random, who: list[str], number: int) -> list[Any]:
    """Events in and around the three days, also those that count nowhere."""
    keys = [*KEYS, *KEYS, "undeclared", None]
    moments = [START + chance.randrange(-HOUR, 3 * DAY + HOUR) for _ in range(number)]
    return [(moment, chance.choice(keys), chance.choice(who)) for moment in moments]


def day_of(chance: random.Random, number: int) -> list[Any]:
    """What one person does in one day, sometimes at one moment."""
    begin = START + DAY * chance.randrange(3)
    moments = [begin + chance.choice((0, HOUR, chance.randrange(DAY))) for _ in range(number)]
    return [(moment, chance.choice(KEYS), "ann") for moment in moments]


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m campaigns.spark.neighbours", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--pairs", type=int, default=200)
    parser.add_argument("--first", type=int, default=0)
    wanted = parser.parse_args()
    begun, violating, counted = time.monotonic(), 0, 0
    with tempfile.TemporaryDirectory(prefix="fadecount-neighbours-") as place:
        root = Path(place)
        (root / "secret").write_text(SECRET)
        session = build_session(root / "log", **{"spark.sql.shuffle.partitions": "1"})
        session.fadecount_test_root = root
        for seed in range(wanted.first, wanted.first + wanted.pairs):
            chance = random.Random(seed // UNITS)
            persons = seed // UNITS % 2 == 1
            cap: dict[str, Any] = CAP if persons else {}
            others = ["bob", "cy"] if persons else ["ann", "bob"]
            events = some_events(chance, others, chance.choice((0, 5, 30)))
            if seed % UNITS == 0 or seed == wanted.first:
                without = table_figures(session, root / f"{seed}-without", events, **cap)
            chance = random.Random(f"unit {seed}")
            unit = day_of(chance, 5) if persons else some_events(chance, ["ann"], 1)
            found = table_figures(session, root / str(seed), [*unit, *events], **cap)
            wrong = violations(without, found, 2 if persons else 1)
            counted, violating = counted + (found != without), violating + bool(wrong)
            for each in wrong:
                print(f"seed {seed}: {each}", flush=True)
        session.stop()
    seconds = time.monotonic() - begun
    print(
        f"{wanted.pairs} pairs, {counted} with a unit that counts, {violating} violations,", end=""
    )
    print(f" {seconds:.0f} s")
    return int(violating > 0 or counted == 0)


if __name__ == "__main__":
    sys.exit(main())
