"""The search for the chain of levels with the least error under caps on spending.

Prices of the caps turn the choice of a chain into a shortest path; the best budgets of a chain give
back prices. This is repeated; then the lower bound is raised by supergradient steps, whose paths
are tried too; then neighbours of the best chain; then all chains, cheapest first, whose lower bound
is below the best error. If that list ends, the result is the best of all. All work is counted, so
that a result never depends on the machine.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from fadecount.planning.budgets import Vector, best_budgets
from fadecount.planning.chains import Chain, Graph, Path

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

    After :meth:`run`, ``best`` is the best chain, ``known`` all that were tried, ``bound`` a lower
    bound for the errors of all chains, and ``proved`` whether none of them is better than the best.
    """

    def __init__(self, graph: Graph, counts: Vector, caps: Vector) -> None:
        self._graph, self._counts, self._caps = graph, counts, caps
        self._prices = 1000.0 / caps**3
        self.known: dict[Path, Candidate] = {}
        self.best: Candidate | None = None
        self.bound, self.proved = 0.0, False

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
                self.proved = True
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
