"""Pairs made from a seed: rows out of order, late, early, outside the range, unreadable, with caps,
in several files."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial

from tests.neighbours.harness import Pair, Row, Scene

BEGIN = 1_772_323_200  # 2026-03-01T00:00:00Z, a multiple of every tick length used here
BAD_TIMES = ("", "yesterday", "2026-02-30T00:00:00Z", "17", "2026-03-01T25:00", "nan")
BAD_AMOUNTS = ("", "x", "-1", "1.5", "1e3", "99999", "9" * 30)
UNKNOWN_KEYS = ("", "z", "A", " a", "other ")


def pair(
    seed: int,
    *,
    people: bool = True,
    amounts: bool = True,
    live: bool = False,
    timed: bool = True,
    blocks: bool = True,
) -> Pair:
    """The pair of this seed; without ``people`` or ``amounts`` no scene has them.

    ``live`` rows arrive near their time; where they are not ``timed``, their arrival is their time.
    """
    chance = random.Random(seed)
    scene = _settings(chance, seed, people=people, amounts=amounts, live=live)
    rows = (
        []
        if chance.random() < 0.12
        else [_row(chance, scene, live) for _ in range(chance.randint(1, 14))]
    )
    place = partial(_place, scene, live=live, timed=timed)
    unit = _unit(chance, scene, live, place)
    if scene.per_person is not None:
        ticks = {place(row) for row in unit}
        rows = [row for row in rows if row.person != unit[0].person or place(row) not in ticks]
    if live:
        rows.sort(key=lambda row: row.arrival)
    scene = replace(scene, rows=tuple(rows))
    if blocks and random.Random(f"blocks {seed}").random() < 0.5:
        scene = replace(scene, mechanism="blocks")
    return Pair(scene=scene, unit=tuple((_position(chance, scene, row, live), row) for row in unit))


def _settings(
    chance: random.Random, seed: int, *, people: bool, amounts: bool, live: bool
) -> Scene:
    tick_seconds = chance.choice((5, 20, 60) if live else (60, 3600, 86_400))
    first = BEGIN // tick_seconds
    ticks = chance.randint(1, 6)
    keys = chance.choice(((), (), ("a",), ("a", "b"), ("a", "b", "c")))
    per_person = chance.choice((None, None, 1, 2)) if people else None
    return Scene(
        seed=seed,
        tick_seconds=tick_seconds,
        first=first,
        end=first + ticks,
        keys=keys,
        other=chance.choice((None, keys[-1])) if keys else None,
        max_amount=chance.choice((None, None, 1, 5)) if amounts else None,
        per_person=per_person,
        keys_per_person=chance.choice((1, 2, 2)) if keys and per_person else 1,
        mechanism=chance.choice(("gradual", "gradual", "delayed", "linear", "refresh", "binary")),
        downtimes=tuple(round(chance.choice((0, 0.3, 1, 3.5)) * tick_seconds, 2) for _ in range(2)),
        graces=tuple(chance.choice((0, 7, tick_seconds // 2, 3 * tick_seconds)) for _ in range(3)),
        cuts=tuple(
            sorted(
                chance.sample(
                    range(first + 1, first + ticks + 1), min(ticks, chance.choice((0, 0, 1, 2)))
                )
            )
        ),
    )


def _row(chance: random.Random, scene: Scene, live: bool) -> Row:
    span = (scene.end - scene.first) * scene.tick_seconds
    edge = chance.choice((scene.first, scene.first + 1, scene.end)) * scene.tick_seconds
    seconds = chance.choice(
        (
            *(scene.first * scene.tick_seconds + chance.randrange(span) for _ in range(5)),
            edge - 1,
            edge,
            scene.first * scene.tick_seconds - chance.randint(1, 3 * scene.tick_seconds),
            scene.end * scene.tick_seconds + chance.randint(0, 3 * scene.tick_seconds),
            chance.choice((BEGIN - 10**9, BEGIN + 10**9)),
        )
    )
    late = (
        chance.choice((0, 0, 0, 1, 2)) * chance.random() * scene.tick_seconds
        - (chance.random() < 0.1) * scene.tick_seconds * 0.7
    )
    arrival = (
        min(max(seconds + late, scene.start_of(scene.first)), scene.start_of(scene.end) - 0.5)
        if live
        else seconds + late
    )
    bad = chance.random() < 0.2
    amount = (
        str(chance.choice((0, *range(1, scene.max_amount + 1), scene.max_amount)))
        if scene.max_amount
        else "1"
    )
    return Row(
        time=chance.choice(BAD_TIMES) if bad and chance.random() < 0.4 else _text(chance, seconds),
        key=chance.choice(UNKNOWN_KEYS)
        if scene.keys and chance.random() < 0.15
        else chance.choice(scene.keys or ("a",)),
        amount=chance.choice(BAD_AMOUNTS) if bad and chance.random() < 0.5 else amount,
        person=""
        if bad and chance.random() < 0.2
        else chance.choice(("ann", "bob", "eve", "joe", "Zoë")),
        arrival=round(arrival, 3),
    )


def _unit(
    chance: random.Random, scene: Scene, live: bool, place: Callable[[Row], int | None]
) -> list[Row]:
    """One event; or, where people are capped, all that one person did in one tick."""
    first = _row(chance, scene, live)
    if scene.per_person is None:
        return [first]
    first = replace(first, person=chance.choice(("ann", "bob", "new")))
    # the same time and the same arrival are the same tick, also after a downtime; the others are of
    # other people
    if live:
        return [
            replace(_row(chance, scene, live), person="new", time=first.time, arrival=first.arrival)
            for _ in range(4)
        ]
    wanted = place(first)
    rows = [first]
    for _ in range(20):
        row = replace(_row(chance, scene, live), person=first.person)
        if chance.random() < 0.5:
            row = replace(row, time=first.time, arrival=first.arrival)
        if place(row) == wanted and len(rows) < 5:
            rows.append(row)
    return rows


def _place(scene: Scene, row: Row, *, live: bool, timed: bool) -> int | None:
    """The tick in which a row counts if it counts: its own; of a live intake, never one that was
    closed when it arrived."""
    if not timed:
        return int(row.arrival) // scene.tick_seconds
    try:
        seconds = (
            int(row.time)
            if row.time.isdigit()
            else int(datetime.fromisoformat(row.time).timestamp())
        )
    except ValueError:
        return None
    tick = seconds // scene.tick_seconds
    return max(tick, open_at(scene, row.arrival)) if live else tick


def open_at(scene: Scene, moment: float) -> int:
    """The first tick that is open at a moment, by the clock and the graces of the processes that
    ran until then."""
    found = scene.first
    begins = (scene.first, *scene.cuts)
    for number, begin in enumerate(begins):
        if scene.start_of(begin) <= moment:
            ends = scene.start_of(begins[number + 1]) if number + 1 < len(begins) else moment
            found = max(found, int(min(moment, ends) - scene.graces[number]) // scene.tick_seconds)
    return found


def _position(chance: random.Random, scene: Scene, row: Row, live: bool) -> int:
    if not live:
        return chance.randint(0, len(scene.rows))
    return sum(1 for each in scene.rows if each.arrival <= row.arrival)


def _text(chance: random.Random, seconds: int) -> str:
    if chance.random() < 0.3 and 10**8 <= seconds < 4 * 10**9:
        return str(seconds)
    return datetime.fromtimestamp(seconds, UTC).isoformat()
