"""Interleaved measurements: every case once per round, so that a slow moment of the machine meets
all of them alike."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

FLOOR = "floor: 2 draws of numpy's PCG64 laplace"


@dataclass(frozen=True, slots=True)
class Case:
    """Some work, and how many items of it one call does."""

    name: str
    items: int
    work: Callable[[], object]
    ours: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What one case took, in nanoseconds of processor time per item."""

    name: str
    median: float
    fastest: float
    slowest: float
    ours: bool
    floors: float
    """The median in units of the floor's median in the same run."""


def interleaved(cases: Sequence[Case], *, repeats: int) -> list[Result]:
    """The results of some cases, the first of which is the floor. Each is warmed up once, then
    measured once per round."""
    for case in cases:
        case.work()
    times: dict[str, list[float]] = {case.name: [] for case in cases}
    for _ in range(repeats):
        for case in cases:
            started = time.process_time_ns()
            case.work()
            times[case.name].append((time.process_time_ns() - started) / case.items)
    floor = statistics.median(times[cases[0].name])
    return [_summed_up(case, times[case.name], floor) for case in cases]


def _summed_up(case: Case, times: list[float], floor: float) -> Result:
    median = statistics.median(times)
    return Result(
        name=case.name,
        median=median,
        fastest=min(times),
        slowest=max(times),
        ours=case.ours,
        floors=median / floor,
    )
