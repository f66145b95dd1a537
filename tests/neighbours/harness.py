"""Two inputs that differ by one protected unit, and what may differ in what is published of them.
Pure: no input, no output.

Rule: take any two inputs that differ by one unit. Then everything published (which ticks, when,
which keys, which values without their noise, every message to others) differs at most by the unit's
own amount, on one key, from one tick on. Of figures of blocks, those of one block of each level
differ, by the same amounts at all stages; and without their noise, children add up to their parent.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise, zip_longest

from fadecount.mechanisms import ONE_EVENT, Unit


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One event as its sender writes it (texts may be nonsense), and the moment (Unix seconds) at
    which it arrives."""

    time: str
    key: str = ""
    amount: str = "1"
    person: str = ""
    arrival: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """Everything that is public about an input, and its rows in the order of arrival.

    ``first`` and ``end`` are the ticks from and before which releases are asked for. ``cuts`` says
    where the rows are divided: into files that are counted one after another, or where a live
    process is killed and, after a downtime, started again.
    """

    seed: int
    tick_seconds: int = 60
    first: int = 0
    end: int = 8
    keys: tuple[str, ...] = ()
    other: str | None = None
    max_amount: int | None = None
    per_person: int | None = None
    keys_per_person: int = 1
    mechanism: str = "gradual"
    graces: tuple[int, ...] = (0,)
    cuts: tuple[int, ...] = ()
    downtimes: tuple[float, ...] = ()
    rows: tuple[Row, ...] = ()

    @property
    def unit(self) -> Unit:
        """Who is protected."""
        if self.per_person is None:
            return Unit(amount=self.max_amount or 1)
        return Unit(
            of="person",
            amount=self.max_amount or 1,
            events=self.per_person,
            keys=self.keys_per_person,
        )

    def start_of(self, tick: int) -> int:
        return tick * self.tick_seconds

    def parts(self) -> list[tuple[Row, ...]]:
        """The rows between the cuts, which are ticks: a row belongs to the part in which it
        arrives."""
        edges = [float("-inf"), *(float(self.start_of(tick)) for tick in self.cuts), float("inf")]
        return [
            tuple(row for row in self.rows if low <= row.arrival < high)
            for low, high in pairwise(edges)
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """A scene, and the rows of one protected unit with the position in the scene's rows at which
    each comes in."""

    scene: Scene
    unit: tuple[tuple[int, Row], ...]

    @property
    def without(self) -> Scene:
        return self.scene

    @property
    def with_unit(self) -> Scene:
        rows = list(self.scene.rows)
        for position, row in sorted(self.unit, key=lambda each: -each[0]):
            rows.insert(position, row)
        return replace(self.scene, rows=tuple(rows))


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """What others can see of one input.

    ``values`` holds the totals by tick, then by key, ``widths`` how far the stated error interval
    reaches below and above each. ``figures`` are those of blocks, by level, stage, start and end.
    ``moments`` lists what was published when, in the order
    of publication. ``messages`` is everything else that others can see: exit statuses, answers,
    headers, metrics.
    """

    keys: tuple[str, ...]
    values: dict[int, tuple[int, ...]]
    widths: dict[int, tuple[tuple[int, int], ...]] = field(default_factory=dict)
    figures: dict[tuple[int, int, int, int], tuple[int, ...]] = field(default_factory=dict)
    moments: tuple[object, ...] = ()
    messages: tuple[object, ...] = ()


def violations(left: Published, right: Published, *, unit: Unit = ONE_EVENT) -> list[str]:
    """Every way in which two published results differ by more than one unit.

    >>> before = Published(keys=("a", "b"), values={1: (0, 0), 2: (1, 0), 3: (1, 2)})
    >>> after = Published(keys=("a", "b"), values={1: (0, 0), 2: (1, 1), 3: (1, 3)})
    >>> violations(before, after)
    []
    >>> after = Published(keys=("a", "b"), values={1: (0, 0), 2: (1, 1), 3: (2, 2), 4: (2, 2)})
    >>> violations(before, after)
    ['range: 1..3 became 1..4', 'the difference moves: tick 2 (0, 1), tick 3 (1, 0)']
    """
    return [
        *_public(left, right),
        *_values(left, right, unit),
        *_figures(left, right, unit),
        *_sums(left),
        *_sums(right),
    ]


def differs(left: Published, right: Published) -> bool:
    """Whether the unit shows at all: a harness whose units never count would find nothing."""
    return left.values != right.values or left.figures != right.figures


def _public(left: Published, right: Published) -> Iterator[str]:
    if left.keys != right.keys:
        yield f"keys: {left.keys} became {right.keys}"
    if list(left.values) != list(right.values):
        yield f"range: {_span(left)} became {_span(right)}"
    if list(left.figures) != list(right.figures):
        yield f"blocks: {_first_difference(list(left.figures), list(right.figures))}"
    for name in ("widths", "moments", "messages"):
        one, other = getattr(left, name), getattr(right, name)
        if one != other:
            yield f"{name}: {_first_difference(one, other)}"


def _values(left: Published, right: Published, unit: Unit) -> Iterator[str]:
    before: tuple[int, ...] | None = None
    seen: tuple[int, tuple[int, ...]] | None = None
    for tick in sorted(left.values.keys() & right.values.keys()):
        pairs = zip_longest(
            left.values[tick], right.values[tick], fillvalue=0
        )  # keys may be declared later
        now = tuple(new - old for old, new in pairs)
        now = (*now, *(0 for _ in range(len(left.keys) - len(now))))
        if seen is not None and now != before:
            yield f"the difference moves: tick {seen[0]} {seen[1]}, tick {tick} {now}"
            return
        if any(now) and seen is None:
            seen, before = (tick, now), now
    if seen is None or before is None:
        return
    if sum(map(abs, before)) > unit.sensitivity or max(map(abs, before)) > unit.per_key:
        yield f"the difference is {before} from tick {seen[0]} on, above {unit.text}"
    if sum(1 for each in before if each) > (unit.keys if unit.keys > 1 else unit.events):
        yield f"the difference {before} from tick {seen[0]} on is spread over keys"


def _figures(left: Published, right: Published, unit: Unit) -> Iterator[str]:
    """One block of each level moves, at every stage by what the unit adds to it."""
    moved: dict[int, tuple[tuple[int, int], tuple[int, ...]]] = {}
    for name in left.figures.keys() & right.figures.keys():
        level, _, *block = name
        change = tuple(
            new - old for old, new in zip(left.figures[name], right.figures[name], strict=True)
        )
        if not any(change):
            continue
        now = (block[0], block[1]), change
        if moved.setdefault(level, now) != now:
            yield f"level {level} moves by {moved[level]} and by {now}"
        if sum(map(abs, change)) > unit.sensitivity or max(map(abs, change)) > unit.per_key:
            yield f"level {level} moves by {now}, above {unit.text}"


def _sums(result: Published) -> Iterator[str]:
    """Without noise, a block is the sum of its children."""
    for (level, _, start, end), values in result.figures.items():
        children = [
            row
            for (below, first, begin, until), row in result.figures.items()
            if below == level - 1 and first == 0 and start <= begin and until <= end
        ]
        if level and values != tuple(map(sum, zip(*children, strict=False)))[: len(values)]:
            yield f"the children of {start}..{end} of level {level} do not add up to it"


def _span(result: Published) -> str:
    ticks = list(result.values)
    return f"{ticks[0]}..{ticks[-1]}" if ticks else "nothing"


def _first_difference(one: object, other: object) -> str:
    if isinstance(one, dict) and isinstance(other, dict):
        one, other = list(one.items()), list(other.items())
    if (
        isinstance(one, Sequence)
        and isinstance(other, Sequence)
        and not isinstance(one, str | bytes)
    ):
        for at, (old, new) in enumerate(zip(one, other, strict=False)):
            if old != new:
                return f"at {at}: {_first_difference(old, new)}"
        return (
            f"{len(one)} became {len(other)}:"
            f" {(list(one) + list(other))[min(len(one), len(other))]!r}"
        )
    return f"{one!r} became {other!r}"
