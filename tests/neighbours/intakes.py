"""Every intake by its name: from a seed to what is wrong with one pair. Another way in is one more
entry here."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from fadecount.mechanisms import ONE_EVENT, Unit
from tests.neighbours import days, files, hidden, library, live, messy, service, website
from tests.neighbours.harness import Published, differs, violations
from tests.neighbours.scenes import pair


@dataclass(frozen=True, slots=True)
class Verdict:
    """The pair of a seed: in which ways it differs by more than its unit, and whether the unit
    shows at all."""

    seed: int
    violations: list[str]
    counted: bool


Intake = Callable[[Iterable[int], Path], Iterator[Verdict]]
"""Takes seeds and an empty folder; yields a verdict on the pair of each seed. Noise must be silent
already."""

SERVICE_GROUP = 10


def _files(kind: str, seeds: Iterable[int], folder: Path) -> Iterator[Verdict]:
    for seed in seeds:
        made = pair(seed)
        left = files.publish(kind, made.without, folder / f"{seed}-without")
        right = files.publish(kind, made.with_unit, folder / f"{seed}-with")
        yield _verdict(seed, left, right, made.scene.unit)


def _messy(seeds: Iterable[int], folder: Path) -> Iterator[Verdict]:
    folder.mkdir(parents=True, exist_ok=True)
    for seed in seeds:
        found, counted = messy.violations(seed, folder / "events.csv")
        yield Verdict(seed, found, counted)


def _days(seeds: Iterable[int], folder: Path) -> Iterator[Verdict]:
    for seed in seeds:
        yield Verdict(seed, *days.violations(seed, folder / str(seed)))


def _hidden(seeds: Iterable[int], folder: Path) -> Iterator[Verdict]:
    for seed in seeds:
        yield Verdict(seed, *hidden.violations(seed, folder / str(seed)))


def _live(kind: str, seeds: Iterable[int], folder: Path) -> Iterator[Verdict]:
    for seed in seeds:
        made = pair(seed, live=True, timed=kind.startswith("follow"))
        left = live.publish(kind, made.without, folder / f"{seed}-without")
        right = live.publish(kind, made.with_unit, folder / f"{seed}-with")
        yield _verdict(seed, left, right, made.scene.unit)


def _library(seeds: Iterable[int], folder: Path) -> Iterator[Verdict]:
    for seed in seeds:
        made = library.program(seed)
        left = library.publish(made, made.without, folder / f"{seed}-without")
        right = library.publish(made, made.with_unit, folder / f"{seed}-with")
        yield _verdict(seed, left, right, made.unit)


def _service(seeds: Iterable[int], folder: Path) -> Iterator[Verdict]:
    waiting = list(seeds)
    for start in range(0, len(waiting), SERVICE_GROUP):
        plays = [service.play(seed) for seed in waiting[start : start + SERVICE_GROUP]]
        restart = (None, 2, 3)[plays[0].seed % 3]
        left = service.publish(
            plays, folder / f"{plays[0].seed}-without", with_unit=False, restart=restart
        )
        right = service.publish(
            plays, folder / f"{plays[0].seed}-with", with_unit=True, restart=restart
        )
        for play, one, other in zip(plays, left, right, strict=True):
            yield _verdict(play.seed, one, other, play.unit)


def _website(seeds: Iterable[int], folder: Path) -> Iterator[Verdict]:
    waiting = list(seeds)
    for start in range(0, len(waiting), SERVICE_GROUP):
        plays = [website.play(seed) for seed in waiting[start : start + SERVICE_GROUP]]
        left, right = (
            website.publish(plays, folder / f"{plays[0].seed}-{with_unit}", with_unit=with_unit)
            for with_unit in (False, True)
        )
        for play, one, other in zip(plays, left, right, strict=True):
            found = website.violations(play, one, other)
            yield Verdict(play.seed, found, website.differs(one, other))


def _verdict(seed: int, left: Published, right: Published, unit: Unit = ONE_EVENT) -> Verdict:
    return Verdict(seed, violations(left, right, unit=unit), differs(left, right))


INTAKES: Mapping[str, Intake] = {
    **{kind: partial(_files, kind) for kind in files.KINDS},
    "messy csv": _messy,
    **{kind: partial(_live, kind) for kind in live.KINDS},
    "days": _days,
    "hidden keys": _hidden,
    "library": _library,
    "service": _service,
    "website": _website,
}
