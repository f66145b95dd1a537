"""Whether the time of a draw tells its value: the correlation of |noise| with the time that drawing
it took."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks.cases import SCALE
from fadecount.noise import DiscreteLaplace, SystemNoise
from fadecount.noise.generator import words

BATCH = 1 << 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Correlation:
    """Of the ranks of both, because times have long tails; unrelated quantities stay within
    ``chance`` 99 times in 100."""

    name: str
    samples: int
    correlation: float
    chance: float


def correlations(*, singles: int, batches: int) -> list[Correlation]:
    distribution = DiscreteLaplace(SCALE)
    return [_singles(distribution, singles), _batches(distribution, batches)]


def _singles(distribution: DiscreteLaplace, count: int) -> Correlation:
    source = SystemNoise()
    times, sizes = np.empty(count), np.empty(count)
    for at in range(count):
        started = time.perf_counter_ns()
        (((value,),),) = source.many(distribution, 0, range(1), range(1), 1)
        times[at] = time.perf_counter_ns() - started
        sizes[at] = abs(value)
    return _correlated("single draws, from a prefetched block", times, sizes)


def _batches(distribution: DiscreteLaplace, count: int) -> Correlation:
    room = np.empty(BATCH, dtype=np.int64)
    times, sizes = np.empty(count), np.empty(count)
    for at in range(count):
        started = time.perf_counter_ns()
        distribution.fill(room, words)
        times[at] = time.perf_counter_ns() - started
        sizes[at] = np.abs(room).mean()
    return _correlated(f"batches of {BATCH:,} draws, mean |noise|", times, sizes)


def _correlated(name: str, times: NDArray[np.float64], sizes: NDArray[np.float64]) -> Correlation:
    correlation = float(np.corrcoef(_ranks(times), _ranks(sizes))[0, 1])
    return Correlation(
        name=name, samples=len(times), correlation=correlation, chance=2.576 / math.sqrt(len(times))
    )


def _ranks(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Ranks from 0 on; equal values share the mean of theirs."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    middles: NDArray[np.float64] = (ends - 0.5 * (counts + 1))[inverse]
    return middles
