"""All lists of levels that a plan chooses from, as the paths of a graph, and the search for the one
with the least error under caps on spending.

A *chain* is a list of steps, smallest first. Each step is a longer level that the one before
divides, in the same or a later region; or the same level again in a later region: a later stage. A
region is a lag: figures of region ``r`` appear ``lags[r]`` steps after their block's end. For
totals (:class:`fadecount.Totals`) levels of one region are tied.

The mean squared error of a chain is the sum over its steps of a weight times the variance of the
step's noise. The weight depends on the step, on the next one, and on the finest level of its group
of ties. So where spending has a price in every region, each edge of the graph has a least cost, and
the cheapest chain is a shortest path. By weak duality *any* prices give a lower bound for the
errors of all chains with all budgets.

:class:`Search`. Prices of the caps turn the choice of a chain into a shortest path; the best
budgets of a chain give back prices. This is repeated; then the lower bound is raised by
supergradient steps, whose paths are tried too; then neighbours of the best chain; then all chains,
cheapest first, whose lower bound is below the best error. If that list ends, the result is the best
of all. All work is counted, so that a result never depends on the machine.
"""

from __future__ import annotations

import heapq
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fadecount.mechanisms.levels import mean_frontier
from fadecount.mechanisms.totals import MOST_CHILDREN, mean_square_part
from fadecount.planning.budgets import Vector, best_budgets, variance

Indices = NDArray[np.int64]

WIDEST = 64
"""A level is at most so many times as long as the one before, unless no length is in between."""

_OPENINGS = 3000
"""How many nodes of paths are opened for one list of paths."""

_BUDGET = np.geomspace(60.0, 1e-7, 4000)
_SLOPE = variance(_BUDGET) / np.tanh(0.5 * _BUDGET)
_LEAST = variance(_BUDGET) + _BUDGET * _SLOPE
"""For prices ``_SLOPE`` of a budget, the budget with the least sum of variance and cost, and that
sum. It is concave in the price, so that a straight line between two points stays below."""


@dataclass(frozen=True, slots=True, order=True)
class Step:
    """The first publication of a level, or a later stage of the level before."""

    length: int
    region: int
    later: bool = False


Chain = tuple[Step, ...]
Path = tuple[int, ...]
"""A chain as the edges of the graph: one per step, to the next step or the end."""


def remainder_sum(length: int, lag: int, horizon: int) -> int:
    """The number of steps of the open block that are past the lag, summed over all steps of the
    horizon."""
    blocks, rest = divmod(max(0, horizon - lag), length)
    return blocks * (length * (length - 1) // 2) + rest * (rest + 1) // 2


class Graph:
    """The chains over the allowed lengths and lags, and the weights of their steps.

    Every chain begins with the smallest length in the first region. ``figures`` gives extra weight
    to the noise of a figure of some length: of its own level, or else of the sum of the blocks of
    the largest level that make it up. Lengths ``kept`` must be levels.

    A node is a step with what its ties depend on: ``(region, finest, length)``, finest < length in
    a group of ties, or 0 for a later stage, which nothing is tied to. Edges are sorted by tail.
    """

    def __init__(
        self,
        lengths: Iterable[int],
        lags: Sequence[int],
        horizon: int,
        *,
        tied: bool = False,
        figures: Mapping[int, float] | None = None,
        kept: Iterable[int] = (),
    ) -> None:
        self.lags, self.horizon, self._tied = tuple(lags), horizon, tied
        first, *longer = sorted(lengths)
        self.lengths = [first, *(each for each in longer if each <= horizon - lags[0])]
        self.multiples = {each: self._multiples(each) for each in self.lengths}
        forms = [(each, each) for each in self.lengths]
        if tied:
            forms += [(a, b) for b in self.lengths for a in self.lengths if a < b and not b % a]
        forms += [(0, each) for each in self.lengths]
        regions = range(len(self.lags))
        self._steps = [(region, *form) for region in regions for form in forms]
        self._number = {step: number for number, step in enumerate(self._steps)}
        self.end = len(self._steps)
        self.region, finest, self.length = np.array(self._steps, dtype=np.int64).T
        self.tied, self.later = (finest > 0) & (finest < self.length), finest == 0
        tail, head = self._edges(forms, tied)
        self._weigh(tail, head, figures or {}, sorted(kept))

    def _multiples(self, length: int) -> list[int]:
        every = [each for each in self.lengths if each > length and not each % length]
        return [each for each in every if each <= WIDEST * length] or every[:1]

    def _edges(self, forms: list[tuple[int, int]], tied: bool) -> tuple[Indices, Indices]:
        """All edges between nodes as tails and heads, not yet sorted."""
        index = {form: number for number, form in enumerate(forms)}
        ups, within, again = [], [], []
        for number, (finest, length) in enumerate(forms):
            ups += [(number, index[each, each]) for each in self.multiples[length]]
            if not (tied and finest):
                within += [(number, index[each, each]) for each in self.multiples[length]]
            else:
                longer = (each for each in self.multiples[length] if each <= MOST_CHILDREN * length)
                within += [(number, index[finest, each]) for each in longer]
            again.append((number, index[0, length]))
        up, same, stage = (
            np.array(each, dtype=np.int64).reshape(-1, 2) for each in (ups, within, again)
        )
        every = [np.stack([np.arange(self.end), np.full(self.end, self.end)], axis=1)]
        for region in range(len(self.lags)):
            every.append(same + region * len(forms))
            for after in range(region + 1, len(self.lags)):
                shift = np.array([region, after]) * len(forms)
                every += [up + shift, stage + shift]
        tail, head = np.concatenate(every).T
        return tail, head

    def _weigh(
        self, tail: Indices, head: Indices, figures: Mapping[int, float], kept: list[int]
    ) -> None:
        """Keep the edges that the horizon shows, sorted, and compute their weights."""
        horizon, lags = self.horizon, self.lags
        nodes = [(length, lags[region]) for region, _, length in self._steps]
        sums = [float(mean_frontier(*each, horizon)) for each in nodes]
        shown = np.array([*sums, 1.0])
        # How far frontiers are behind, by their lag and by the length of their blocks: apart,
        # because for long lags the difference of two sums would lose all digits.
        late = [lag * (2 * horizon - lag + 1) / (2 * horizon) for lag in lags]
        by_lag = np.append(np.array(late)[self.region], 0.0)
        by_length = np.array([*(remainder_sum(*each, horizon) / horizon for each in nodes), 0.0])
        square = np.zeros(self.end + 1)
        for number in np.flatnonzero(self.tied):
            region, finest, length = self._steps[number]
            square[number] = mean_square_part(length, finest, lags[region], horizon)
        lengths = np.append(self.length, np.iinfo(np.int64).max)
        keep = (shown[tail] > 0.0) & (shown[head] > 0.0)
        for length in kept:
            keep &= (lengths[tail] >= length) | (lengths[head] <= length)
        key = (tail * (self.end + 1) + head)[keep]
        self._key = np.sort(key)
        self.tail, self.head = tail, head = np.divmod(self._key, self.end + 1)
        below, above, ends = lengths[tail], lengths[head], head == self.end
        behind = by_lag[head] - by_lag[tail] + (by_length[head] - by_length[tail])
        weight = np.where(ends, shown[tail], behind) / below + square[tail]
        tied = np.append(self.tied, False)[head]
        weight -= np.where(tied, above / below * square[head], 0.0)
        for length, extra in figures.items():
            last = (length % below == 0) & ((length % above != 0) | ends) & (above != below)
            weight += np.where(last, extra * (length / below), 0.0)
        self.weight = np.maximum(weight, 1e-12)
        self._first = np.searchsorted(tail, np.arange(self.end + 1))
        self._alive = np.flatnonzero(np.diff(self._first))
        stage = np.append(self.later, False)[head]
        self._next_stage = np.where(stage, np.append(self.region, 0)[head], len(self.lags))

    def costs(self, prices: Vector) -> Vector:
        """The least cost of every edge: its step's weighted variance and spending, at prices of
        spending in every region (they do not rise)."""
        return np.asarray(self.weight * np.interp(self._ratio(prices), _SLOPE, _LEAST, left=0.0))

    def spending(self, path: Path, prices: Vector) -> Vector:
        """The increments of a path's budgets that cost least at the prices."""
        edges = list(path)
        whole = np.interp(self._ratio(prices, edges), _SLOPE, _BUDGET)
        return np.asarray(whole - np.where(self.later[self.tail[edges]], np.roll(whole, 1), 0.0))

    def _ratio(self, prices: Vector, edges: list[int] | slice = slice(None)) -> Vector:
        """The price of a unit of variance: a stage's budget is paid until the next stage."""
        own = prices[self.region[self.tail[edges]]]
        paid = own - np.append(prices, 0.0)[self._next_stage[edges]]
        return np.asarray(np.maximum(paid, 0.0) / self.weight[edges])

    def paths(
        self, costs: Vector, *, below: float = np.inf, most: int = 1, skip: Container[Path] = ()
    ) -> tuple[list[Path], bool]:
        """The cheapest paths at the costs of the edges that are not to be skipped, at most so many,
        and whether there are no others that cost less than ``below``."""
        rest = self._to_end(costs)
        heap: list[tuple[float, int, float, int, Path]] = [(float(rest[0]), 0, 0.0, 0, ())]
        paths: list[Path] = []
        for opened in range(_OPENINGS):
            while heap and heap[0][3] == self.end and len(paths) < most:
                path = heapq.heappop(heap)[4]
                if path not in skip:
                    paths.append(path)
            if len(paths) == most or not heap or heap[0][0] >= below:
                break
            _, _, spent, node, path = heapq.heappop(heap)
            first, last = int(self._first[node]), int(self._first[node + 1])
            values = spent + costs[first:last]
            bounds = values + rest[self.head[first:last]]
            for at in np.flatnonzero(bounds < below).tolist():
                after = (float(values[at]), int(self.head[first + at]), (*path, first + at))
                # Of equal bounds the one opened last comes first.
                heapq.heappush(heap, (float(bounds[at]), -opened, *after))
        return paths, not heap or heap[0][0] >= below

    def _to_end(self, costs: Vector) -> Vector:
        """The least cost from every node to the end."""
        rest = np.full(self.end + 1, np.inf)
        rest[-1] = 0.0
        while True:
            now = np.minimum.reduceat(costs + rest[self.head], self._first[self._alive])
            if np.array_equal(now, rest[self._alive]):
                return rest
            rest[self._alive] = now

    def chain(self, path: Path) -> Chain:
        """The steps of a path."""
        nodes = self.tail[list(path)].tolist()
        return tuple(
            Step(length, region, finest == 0)
            for region, finest, length in (self._steps[node] for node in nodes)
        )

    def path(self, chain: Chain) -> Path | None:
        """The path of a chain, or None if the chain is none of this graph's."""
        nodes, finest, region = [], 0, -1
        for step in chain:
            together = self._tied and finest and step.region == region
            finest = 0 if step.later else finest if together else step.length
            region = step.region
            nodes.append(self._number.get((region, finest, step.length), -1))
        if not nodes or nodes[0] != 0 or min(nodes) < 0:
            return None
        keys = np.array(nodes) * (self.end + 1) + np.array([*nodes[1:], self.end])
        edges = np.minimum(np.searchsorted(self._key, keys), len(self._key) - 1)
        return tuple(edges.tolist()) if np.array_equal(self._key[edges], keys) else None

    def neighbours(self, path: Path) -> list[Path]:
        """The paths whose chains differ in one level, one step, or where a region begins."""
        chain, changed = self.chain(path), dict[Chain, None]()
        for at, step in enumerate(chain):
            before, after = chain[:at], chain[at + 1 :]
            above = next((each.length for each in after if each.length > step.length), 0)
            last = after[0].region if after else len(self.lags) - 1
            other = [
                (*before, *after),
                tuple(each for each in chain if each.length != step.length),
            ]
            for region in range(len(self.lags)):
                other.append((*before, replace(step, region=region), *after))
                other.append((*before, *(replace(each, region=region) for each in chain[at:])))
            for region in range(step.region, last + 1):
                other.append((*before, step, Step(step.length, region, later=True), *after))
                other += [
                    (*before, step, Step(length, region), *after)
                    for length in self.multiples[step.length]
                    if above % length == 0 and length != above
                ]
            if before and not step.later:
                other += [
                    tuple(
                        replace(each, length=length) if each.length == step.length else each
                        for each in chain
                    )
                    for length in self.multiples[before[-1].length]
                ]
            changed.update(dict.fromkeys(other))
        paths = map(self.path, changed)
        return [each for each in paths if each is not None and each != path]


# The search
# ------------------------------------------------------------------------------------------------
_ALTERNATIONS = 8
_ASCENTS, _EDGES = 24, 1_500_000
_STALLED = 3
_CLIMBS = 12
_LISTS = 4
_LISTED = 64
"""How much work each part of the search may do; ascents also stop after so many edges."""

_BETTER = 1.0 - 1e-9


@dataclass(frozen=True, slots=True)
class Candidate:
    """A path, the increments of its budgets, and its error."""

    path: Path
    increments: Vector
    error: float


class Search:
    """A search of the chains of a graph under caps; ``counts[i, r]`` says how often spending in
    region ``r`` counts against ``caps[i]``.

    After :meth:`run`, ``best`` is the best chain, ``known`` all that were tried, and ``bound`` a
    lower bound for the errors of all chains.
    """

    def __init__(self, graph: Graph, counts: Vector, caps: Vector) -> None:
        self._graph, self._counts, self._caps = graph, counts, caps
        self._prices = 1000.0 / caps**3
        self.known: dict[Path, Candidate] = {}
        self.best: Candidate | None = None
        self.bound = 0.0

    def run(self, seeds: Iterable[Chain] = ()) -> Candidate:
        """Search, with some chains to begin with, and return the best one."""
        for _ in range(_ALTERNATIONS):
            _, _, path = self._bound_at(self._prices)
            if not self._try([path]):
                break
        self._try([each for each in map(self._graph.path, seeds) if each is not None])
        highest = self._ascend()
        self._climb()
        for turn in range(_LISTS):
            prices = self._prices if turn % 2 == 0 and turn + 1 < _LISTS else highest
            better, ended = self._list(prices)
            if ended:
                break
            if better:
                self._climb()
        assert self.best is not None
        return self.best

    def _try(self, paths: Sequence[Path]) -> bool:
        """Solve the budgets of paths that are new; whether one is better than all before."""
        new = [each for each in dict.fromkeys(paths) if each not in self.known]
        if not new:
            return False
        shape = len(new), max(map(len, new))
        weights, regions = np.zeros(shape), np.zeros(shape, dtype=np.int64)
        later = np.zeros(shape, dtype=bool)
        for row, path in enumerate(new):
            edges, width = list(path), len(path)
            nodes = self._graph.tail[edges]
            weights[row, :width] = self._graph.weight[edges]
            regions[row, :width] = self._graph.region[nodes]
            later[row, :width] = self._graph.later[nodes]
        solved = best_budgets(weights, regions, later, self._counts, self._caps)
        for row, path in enumerate(new):
            increments = solved.increments[row, : len(path)]
            self.known[path] = Candidate(path, increments, float(solved.errors[row]))
        at = int(np.argmin(solved.errors))
        if self.best is not None and solved.errors[at] >= self.best.error * _BETTER:
            return False
        self.best, self._prices = self.known[new[at]], solved.prices[at]
        return True

    def _bound_at(self, prices: Vector) -> tuple[float, Vector, Path]:
        """The lower bound that prices of the caps give, its gradient, and the path it is from."""
        in_regions = prices @ self._counts
        costs = self._graph.costs(in_regions)
        (path,), _ = self._graph.paths(costs)
        spent = self._graph.spending(path, in_regions)
        region = self._graph.region[self._graph.tail[list(path)]]
        gradient = self._counts[:, region] @ spent - self._caps
        return float(costs[list(path)].sum() - prices @ self._caps), gradient, path

    def _ascend(self) -> Vector:
        """The prices with the highest lower bound that supergradient steps find; tries the chains
        on the way."""
        assert self.best is not None
        prices = highest = self._prices
        length, stalled, paths = 1.0, 0, []
        for _ in range(min(_ASCENTS, _EDGES // len(self._graph.tail))):
            bound, gradient, path = self._bound_at(prices)
            paths.append(path)
            stalled = 0 if bound > 1.0005 * self.bound else stalled + 1
            if bound > self.bound:
                self.bound, highest = bound, prices
            if stalled == _STALLED:
                length, stalled = 0.6 * length, 0
            direction = np.where((prices > 0.0) | (gradient > 0.0), gradient / self._caps, 0.0)
            square = float(direction @ direction)
            if square == 0.0:
                break
            move = length * max(0.0, self.best.error - bound) / square * direction
            prices = np.maximum(prices + move / self._caps, 0.0)
        self._try(paths)
        return highest

    def _climb(self) -> None:
        """Move to better neighbours while there are some."""
        for _ in range(_CLIMBS):
            assert self.best is not None
            costs = self._graph.costs(self._prices @ self._counts)
            below = self.best.error + float(self._prices @ self._caps)
            paths = self._graph.neighbours(self.best.path)
            if not self._try([each for each in paths if costs[list(each)].sum() < below]):
                return

    def _list(self, prices: Vector) -> tuple[bool, bool]:
        """Try the chains with the least lower bounds at the prices; whether one is better than all
        before, and whether no chain is left that could be."""
        assert self.best is not None
        costs = self._graph.costs(prices @ self._counts)
        below = self.best.error * _BETTER + float(prices @ self._caps)
        paths, ended = self._graph.paths(costs, below=below, most=_LISTED, skip=self.known)
        return self._try(paths), ended
