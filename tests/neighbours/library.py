"""Events added by a program through ``Stream.add``, ticks closed by a timer, with restarts and a clock that may be wrong."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from pathlib import Path

import fadecount as fc
from fadecount.errors import FadecountError
from fadecount.streams import Description, FileFence, SQLiteStore, Store, Stream, Ticks, close_due
from tests.neighbours.harness import Published

TICK = 60
BEGIN = 1_772_323_200
MECHANISMS: dict[str, fc.Mechanism] = {
    "gradual": fc.Gradual(epsilon=1.0, exponent=2.0),
    "delayed": fc.Gradual(epsilon=1.0, delay=2),
    "linear": fc.Linear(epsilon=1.0),
    "refresh": fc.Refresh(window=3, epsilon_current=1.0, epsilon_past=1.0),
    "binary": fc.Binary(epsilon=1.0, horizon=4),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Act:
    """What the program does at a moment: add an event (``key``), look at the clock, declare a key, or start again."""

    at: float
    what: str
    key: str = "a"
    id: str | None = None
    own: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    seed: int
    mechanism: str
    without: tuple[Act, ...]
    unit: Act

    @property
    def with_unit(self) -> tuple[Act, ...]:
        return tuple(sorted((*self.without, self.unit), key=lambda act: act.at))


def program(seed: int) -> Program:
    chance = random.Random(seed)
    span = chance.randint(1, 6) * TICK
    acts = [_add(chance, span, number) for number in range(chance.choice((0, 1, 6, 12)))]
    acts += [Act(at=tick * TICK + chance.choice((0, 0.1, 59)), what="clock") for tick in range(1, span // TICK + 1)]
    acts += [
        Act(at=round(chance.uniform(0, span), 2), what=what)
        for what in chance.sample(("restart", "restart", "declare", "jump"), 2)
    ]
    unit = replace(_add(chance, span, 99), own=True)
    return Program(
        seed=seed,
        mechanism=chance.choice(sorted(MECHANISMS)),
        without=tuple(sorted([*acts, Act(at=span + 1, what="clock")], key=lambda act: act.at)),
        unit=unit,
    )


def _add(chance: random.Random, span: int, number: int) -> Act:
    key = chance.choice(("a", "a", "b", "late", "nobody", ""))
    return Act(at=round(chance.uniform(0, span), 2), what="add", key=key, id=chance.choice((None, f"id {number}")))


def publish(mechanism: str, acts: tuple[Act, ...], folder: Path) -> Published:
    folder.mkdir(parents=True)
    ticks = Ticks(tick_seconds=TICK)
    moments: list[object] = []
    messages: list[object] = []
    store = _open(folder)
    stream = store.create(
        Description(name="s", mechanism=MECHANISMS[mechanism], ticks=ticks), keys=("a", "b"), start_tick=BEGIN // TICK
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
    reader = store.reader()
    pieces = list(reader.releases("s"))
    keys = tuple(reader.keys("s"))
    values = {piece.first_tick + at: tuple(row) for piece in pieces for at, row in enumerate(piece.values.tolist())}
    widths: dict[int, tuple[tuple[int, int], ...]] = {
        piece.first_tick + at: ((width, width),) for piece in pieces for at, width in enumerate(piece.half_widths.tolist())
    }
    store.close()
    return Published(keys=keys, values=values, widths=widths, moments=tuple(moments), messages=tuple(messages))


def _open(folder: Path) -> Store:
    return SQLiteStore(folder / "state" / "streams.db", fence=FileFence(folder / "fence"))


def _do(stream: Stream, act: Act) -> str:
    """What the program is told, without the values of a release."""
    now = BEGIN + act.at
    try:
        if act.what == "add":
            return str(stream.add({act.key: 1}, id=act.id))
        if act.what == "declare":
            stream.declare(["late"])
            return "declared"
        chunks = close_due(stream, now + 10**9 if act.what == "jump" else now)
        return f"closed {[(chunk.first_tick, len(chunk.values)) for chunk in chunks]}"
    except FadecountError as error:
        return f"{type(error).__name__}: {error}"
