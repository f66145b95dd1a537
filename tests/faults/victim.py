"""``python -m tests.faults.victim FOLDER TICKS``: counts into a store and writes down what it was
told is done.

The mechanism's budget is so large that its noise is zero in practice, so that values can be
compared with the truth.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import fadecount as fc
from fadecount.errors import FadecountError
from fadecount.streams import Description, FileFence, Reader, SQLiteStore, Ticks
from tests.streams.backends import totals_of

STOPPED = 3
KEYS = [f"key{at}" for at in range(50)]
DESCRIPTION = Description(
    name="doors", mechanism=fc.Gradual(epsilon=2.0**14), ticks=Ticks(tick_seconds=60)
)


def main(folder: Path, ticks: int) -> int:
    try:
        with (folder / "done").open("a", buffering=1) as done, open_store(folder) as store:
            exists = DESCRIPTION.name in store.names()
            stream = (
                store.open("doors")
                if exists
                else store.create(DESCRIPTION, keys=KEYS, start_tick=0)
            )
            for tick in range(stream.open_tick or 0, ticks):
                stream.add({"key0": 1, "key1": tick}, id=str(tick))
                done.write(json.dumps({"added": tick}) + "\n")
                stream.close_through(tick)
                done.write(json.dumps({"closed": tick}) + "\n")
    except FadecountError as error:
        print(error, file=sys.stderr)
        return STOPPED
    return 0


def open_store(folder: Path) -> SQLiteStore:
    return SQLiteStore(folder / "state" / "streams.db", fence=FileFence(folder / "fence"))


def check(folder: Path, ticks: int) -> None:
    """After any fault: a new process goes on by itself, and then every tick counted what it was
    given, once."""
    assert main(folder, ticks) == 0
    with Reader.of_file(folder / "state" / "streams.db") as reader:
        rows = list(totals_of(reader).values())
    assert [row[:3] for row in rows] == [
        [tick + 1, tick * (tick + 1) // 2, 0] for tick in range(ticks)
    ]


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), int(sys.argv[2])))
