"""One person's whole day added or removed where keys appear by themselves, through files (both
readers), pipes and a stream fed by hand; and what moves then.

The noise is so large that every key appears that anybody brought: the true counts of persons are
known then. They may move by 1 under each of as many keys as a person may have, in that person's
day; and nothing else that is published moves.
"""

from __future__ import annotations

import io
import json
import random
from pathlib import Path
from typing import Any
from unittest.mock import patch

import fadecount as fc
from fadecount.mechanisms import Unit
from fadecount.runs import run
from fadecount.sources import Gate, SourceOptions, files
from fadecount.streams import Batch, Description, Store, Ticks
from fadecount.streams.discovery import HiddenKeys
from tests.neighbours.days import EXACT, FIRST, HOUR, Row, csv_of, moment
from tests.streams.backends import BriefStore
from tests.streams.hidden_keys import ScriptedNoise
from tests.streams.rows import add_rows

LARGE = 10**6
KEYS = ("home", "other")
PAGES = ("home", "a", "b", "c", "é", "new")
STAGES = ((0, 1.0), (5, 2.0))


class Setting:
    """What is public about a pair: how many keys of a person count, whether hidden keys count in
    other too, how many persons of an address count under one, and where runs end."""

    def __init__(self, chance: random.Random) -> None:
        self.keys, self.events = chance.randint(1, 3), 1
        if self.keys > 1:
            self.events = chance.randint(1, 2)
        self.other = chance.choice((None, "other"))
        self.per_address = chance.choice((None, 1, 2))
        self.cuts = sorted(chance.sample(range(FIRST + 1, FIRST + 72), chance.randint(0, 3)))

    @property
    def hidden(self) -> HiddenKeys:
        discovery = fc.Discovery("1d", STAGES, 1e-6, self.keys)
        return HiddenKeys(discovery=discovery, other=self.other, per_address=self.per_address)

    def options(self, **changes: object) -> SourceOptions:
        return SourceOptions(
            **{  # type: ignore[arg-type]
                "tick": "1h",
                "time": "t",
                "key": "k",
                "keys": KEYS,
                "other": self.other,
                "person": "p",
                "person_per": "1d",
                "per_person": self.events,
                "keys_per_person": self.keys,
                "discover": True,
                **changes,
            }
        )


def new_store() -> Store:
    store = BriefStore()
    store._context.noise = ScriptedNoise([LARGE], [0])
    return store


def by_files(rows: list[Row], setting: Setting, folder: Path, *, plain: bool) -> Store:
    store, before = new_store(), FIRST
    for number, cut in enumerate([*setting.cuts, FIRST + 72]):
        path = folder / f"{plain}{number}.csv"
        path.write_bytes(csv_of([row for row in rows if before <= row[0] < cut]))
        new: dict[str, Any] = {}
        if number == 0:
            new = {"start": moment(FIRST), "mechanism": EXACT, "discovery": setting.hidden}
        gate = Gate(max_left_out=1, allow_gap=True)
        chosen = setting.options()
        list(run(path, chosen, store=store, name="s", until=moment(cut), gate=gate, **new))
        before = cut
    return store


def by_hand(rows: list[Row], setting: Setting) -> Store:
    store = new_store()
    unit = Unit(of="person", per="1d", keys=setting.keys, events=setting.events)
    described = Description(
        name="s",
        mechanism=unit.scaled(EXACT),
        ticks=Ticks(tick_seconds=HOUR),
        unit=unit,
        hidden=setting.hidden,
    )
    stream = store.create(described, keys=KEYS, start_tick=FIRST)
    for tick in range(FIRST, FIRST + 72):
        for number, (_, who, key) in enumerate(row for row in rows if row[0] == tick):
            if number % 3 == 0:
                stream.add({key: 1}, person=who)
            elif number % 3 == 1:
                store.intake("s").add_many([Batch(counts={key: 1}, person=who)])
            else:
                place = KEYS.index(key) if key in KEYS else key
                add_rows(stream, [place], [1], [who])
        stream.close_through(tick)
    return store


def by_pipe(rows: list[Row], setting: Setting) -> Store:
    store = new_store()

    class Pipe(io.RawIOBase):
        def __init__(self) -> None:
            self.left, self.now = iter(sorted(rows, key=lambda row: row[0])), float(FIRST * HOUR)

        def readline(self, _size: int | None = -1, /) -> bytes:
            row = next(self.left, None)
            if row is None:
                return b""
            self.now = row[0] * HOUR + 1.0
            return json.dumps({"p": row[1], "k": row[2]}).encode() + b"\n"

    pipe, chosen = Pipe(), setting.options(time=None, format="jsonl")
    list(
        run(
            pipe,
            chosen,
            store=store,
            name="s",
            mechanism=EXACT,
            discovery=setting.hidden,
            clock=lambda: pipe.now,
        )
    )
    store._database.unlock(store.reader().status("s").uid)
    stream = store.open("s")
    for tick in range(stream.open_tick, FIRST + 72):  # the pipe ended with the last row
        stream.close_through(tick)
    return store


def read(store: Store) -> tuple[dict[tuple[int, str], int], list[object]]:
    """The true counts by day and key, of hidden keys and of declared ones; and all else that is
    published or stored that must not depend on events."""
    published = store.reader().stream("s")
    table = published.discovered()
    days = ((table["start"] // HOUR - FIRST) // 24).tolist()
    counts = {
        (day, f"hidden {key}"): value - (LARGE if status == "provisional" else 0)
        for day, key, status, value in zip(
            days,
            table["key"].tolist(),
            table["status"].tolist(),
            table["value"].tolist(),
            strict=True,
        )
    }
    figures = published.figures("1d").values
    counts |= {
        (day, key): int(figures[day, at])
        for day in range(len(figures))
        for at, key in enumerate(KEYS)
    }
    sql = "SELECT level, stage, first_tick, end_tick FROM figures ORDER BY 1, 2, 3"
    held = (
        "SELECT level, stage, first_tick, public_tick, LENGTH(body) FROM embargo ORDER BY 1, 2, 3"
    )
    database = store._database
    rest: list[object] = [
        *(database.query(each) for each in (sql, held, "SELECT * FROM hidden")),
        store.reader().keys("s"),
        published.steps,
    ]
    return counts, rest


def violations(seed: int, folder: Path) -> tuple[list[str], bool]:
    """What is wrong with the pair of a seed, and whether the person's day shows at all."""
    chance = random.Random(seed)
    setting = Setting(chance)
    names = [f"house{at % 2} {at}" for at in range(chance.randint(1, 6))]
    rows = [
        (FIRST + chance.randrange(72), chance.choice(names), chance.choice(PAGES))
        for _ in range(chance.randint(1, 40))
    ]
    rows.sort(key=lambda row: row[0])
    gone, day = chance.choice(names), chance.randrange(3)
    left = [row for row in rows if row[1] != gone or (row[0] - FIRST) // 24 != day]
    both: list[dict[str, tuple[dict[tuple[int, str], int], list[object]]]] = []
    for number, some in enumerate((rows, left)):
        place = folder / str(number)
        place.mkdir(parents=True)
        with patch.object(files, "SMALL_BYTES", -1):
            made = {"polars": by_files(some, setting, place, plain=False)}
        made["plain"] = by_files(some, setting, place, plain=True)
        made["by hand"], made["pipe"] = by_hand(some, setting), by_pipe(some, setting)
        both.append({door: read(store) for door, store in made.items()})
        for store in made.values():
            store.close()
    wrong, shows = [], False
    for door, (counts, rest) in both[0].items():
        other, its_rest = both[1][door]
        places = sorted({*counts, *other})
        moved = {each: counts.get(each, 0) - other.get(each, 0) for each in places}
        moved = {each: change for each, change in moved.items() if change}
        shows |= bool(moved)
        hidden = [change for (_, key), change in moved.items() if key.startswith("hidden")]
        if any(each != 1 for each in hidden) or len(hidden) > setting.keys:
            wrong.append(f"{door}: hidden keys move by {moved}")
        own = {key for _, key in moved if key == "home" or key.startswith("hidden")}
        if len(own) > setting.keys or any(at != day for at, _ in moved):
            wrong.append(f"{door}: other keys or days move: {moved}")
        if rest != its_rest:
            wrong.append(f"{door}: something else that is published moves")
    same = (each[0] == made_of["plain"][0] for made_of in both for each in made_of.values())
    return [*wrong, *([] if all(same) else ["doors differ"])], shows
