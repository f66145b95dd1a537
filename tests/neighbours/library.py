"""Events added by a program through ``Stream.add``, ticks closed by a timer, with restarts and a
clock that may be wrong."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import fadecount as fc
from fadecount.errors import FadecountError
from fadecount.mechanisms import Unit
from fadecount.streams import (
    Description,
    FileFence,
    SQLiteStore,
    Store,
    Stream,
    Ticks,
)
from tests.neighbours.figures import BLOCKS, seen, shape_of
from tests.neighbours.harness import Published

TICK = 60
BEGIN = 1_772_323_200
MECHANISMS: dict[str, fc.Mechanism] = {
    "gradual": fc.Gradual(epsilon=1.0, exponent=2.0),
    "delayed": fc.Gradual(epsilon=1.0, delay=2),
    "linear": fc.Linear(epsilon=1.0),
    "refresh": fc.Refresh(window=3, epsilon_current=1.0, epsilon_past=1.0),
    "binary": fc.Binary(epsilon=1.0, horizon=4),
    "blocks": BLOCKS,
}


UNITS = (
    Unit(),
    Unit(),
    Unit(amount=5),
    Unit(of="person", events=1),
    Unit(of="person", events=2, amount=3),
    Unit(of="person", events=2, keys=2),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Act:
    """What the program does at a moment: add an event (``key``), look at the clock, declare a key,
    or start again."""

    at: float
    what: str
    key: str = "a"
    amount: int = 1
    id: str | None = None
    person: str | None = None
    own: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """What a program does, and what it does more for one protected unit."""

    seed: int
    mechanism: str
    unit: Unit
    without: tuple[Act, ...]
    more: tuple[Act, ...]

    @property
    def with_unit(self) -> tuple[Act, ...]:
        return tuple(sorted((*self.without, *self.more), key=lambda act: act.at))


def program(seed: int) -> Program:
    chance = random.Random(seed)
    unit = chance.choice(UNITS)
    span = chance.randint(1, 6) * TICK
    acts = [
        Act(at=tick * TICK + chance.choice((0, 0.1, 59)), what="clock")
        for tick in range(1, span // TICK + 1)
    ]
    chosen = chance.sample(("restart", "restart", "declare", "jump"), 2)
    acts += [Act(at=round(chance.uniform(0, span), 2), what=what) for what in chosen]
    looks = sorted(
        act.at for act in acts if act.what == "clock"
    )  # each closes a tick at least; a clock that jumps closes none
    adds = [_add(chance, unit, 0, span, number) for number in range(chance.choice((0, 1, 6, 12)))]
    low, high = chance.choice([*pairwise((0.0, *looks))])
    more = [
        replace(_add(chance, unit, low, high, 90 + number), own=True)
        for number in range(4 if unit.of == "person" else 1)
    ]
    if (
        unit.of == "person"
    ):  # all that one person did between two looks at the clock, which is within one tick
        more = [replace(act, person="ann") for act in more]
        adds = [act for act in adds if act.person != "ann" or not low <= act.at <= high]
    return Program(
        seed=seed,
        mechanism=chance.choice(sorted(MECHANISMS)),
        unit=unit,
        without=tuple(
            sorted([*acts, *adds, Act(at=span + 1, what="clock")], key=lambda act: act.at)
        ),
        more=tuple(more),
    )


def _add(chance: random.Random, unit: Unit, low: float, high: float, number: int) -> Act:
    return Act(
        at=round(chance.uniform(low, high), 3),
        what="add",
        key=chance.choice(("a", "a", "b", "late", "nobody", "")),
        amount=chance.choice((1, unit.amount)),
        id=chance.choice((None, f"id {number}")),
        person=chance.choice(("ann", "bob")) if unit.of == "person" else None,
    )


def publish(program: Program, acts: tuple[Act, ...], folder: Path) -> Published:
    """What readers see, and what the program is told where it does not act for the unit."""
    folder.mkdir(parents=True)
    ticks, mechanism = Ticks(tick_seconds=TICK), MECHANISMS[program.mechanism]
    moments: list[object] = []
    messages: list[object] = []
    store = _open(folder)
    stream = store.create(
        Description(name="s", mechanism=mechanism, ticks=ticks, unit=program.unit),
        keys=("a", "b"),
        start_tick=BEGIN // TICK,
    )
    for act in acts:
        if act.what == "restart":
            store.close()
            store = _open(folder)
            stream = store.open("s")
        else:
            answer = _do(stream, act)
            if not act.own:
                messages.append(answer)
        if not act.own:
            moments.append((act.at, stream.status.published_tick, stream.keys))
    found = seen(store.reader(), "s", moments=tuple(moments), messages=tuple(messages))
    store.close()
    return found


def _open(folder: Path) -> Store:
    return SQLiteStore(folder / "state" / "streams.db", fence=FileFence(folder / "fence"))


def _do(stream: Stream, act: Act) -> str:
    """What the program is told, without the values of a release."""
    now = BEGIN + act.at
    try:
        if act.what == "add":
            return str(stream.add({act.key: act.amount}, id=act.id, person=act.person))
        if act.what == "declare":
            stream.declare(["late"])
            return "declared"
        chunks = stream.close_due(now + 10**9 if act.what == "jump" else now)
        return f"closed {[shape_of(chunk) for chunk in chunks]}"
    except FadecountError as error:
        return f"{type(error).__name__}: {error}"
