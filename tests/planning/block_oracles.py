"""Independent answers to compare planned blocks with: all designs of a small class one by one, and
scipy's solver for budgets."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

import fadecount as fc
from fadecount.mechanisms.levels import cover_weights
from fadecount.mechanisms.totals import mean_square_part
from fadecount.planning.blocks import BlockRequest, Regions
from fadecount.planning.budgets import best_budgets
from fadecount.planning.request import Request, read_request

Vector = NDArray[np.float64]
Form = tuple[tuple[int, tuple[int, ...]], ...]
"""Levels as their length and the regions of their stages."""
Kind = type[fc.Blocks] | type[fc.Totals]

_LENGTHS = ((1, 2, 4, 8, 16), (1, 3, 6, 12), (1, 2, 6, 12, 24), (1, 5, 10, 30), (1, 2, 3, 4, 6, 12))


def small_case(chance: random.Random) -> tuple[Request, BlockRequest]:
    """One to three targets over a short horizon, a few lengths, sometimes with weights on
    figures."""
    horizon = chance.randint(8, 120)
    ages = {chance.randrange(horizon) for _ in range(chance.randint(0, 2))} | {horizon}
    losses = sorted(round(10 ** chance.uniform(-1, 0.7), 3) for _ in ages)
    lengths = chance.choice(_LENGTHS)
    figures = {chance.choice(lengths): 2.0} if chance.random() < 0.5 else {}
    block_request = BlockRequest(lengths=lengths, figures=figures)
    return read_request(loss=dict(zip(sorted(ages), losses, strict=True))), block_request


def all_forms(lengths: Sequence[int], regions: int) -> Iterator[Form]:
    """All lists of levels that begin with length 1 in the first region, nest, and whose stages do
    not overlap."""

    def stages(first: int) -> Iterator[tuple[int, ...]]:
        yield (first,)
        for last in range(first + 1, regions):
            yield from ((first, *rest) for rest in stages(last))

    def extended(form: Form) -> Iterator[Form]:
        yield form
        length, before = form[-1]
        for longer in lengths:
            if longer <= length or longer % length:
                continue
            for first in range(before[-1], regions):
                for own in stages(first):
                    yield from extended((*form, (longer, own)))

    for own in stages(0):
        yield from extended(((1, own),))


def form_weights(
    form: Form, lags: Sequence[int], horizon: int, block_request: BlockRequest, kind: Kind
) -> list[float]:
    """The weights of all steps, by the mechanism's own closed form, and those of the figures."""
    levels = [
        fc.Level.of_stages(
            length,
            [(lags[region], 1_000_000 + number) for number, region in enumerate(regions)],
        )
        for length, regions in form
    ]
    weights = cover_weights(levels, horizon)
    for group in fc.Totals(*levels).noise.groups if kind is fc.Totals else ():
        for number in group[1:]:
            own, below, finest = levels[number], levels[number - 1], levels[group[0]]
            part = float(mean_square_part(own.length, finest.length, finest.lag, horizon))
            weights[number][0] += part
            weights[number - 1][0] -= own.length // below.length * part
    for length, extra in block_request.figures.items():
        last = max(at for at, level in enumerate(levels) if length % level.length == 0)
        weights[last][-1] += extra * length / levels[last].length
    return [each for level in weights for each in level]


def least_error(
    request: Request, block_request: BlockRequest, kind: Kind = fc.Blocks
) -> tuple[float, int]:
    """The least weighted error of all designs of a class, and how many there are."""
    regions = Regions.of(request)
    counts, caps = regions.counts, np.array(regions.caps) / 1e6
    rows = []
    for form in all_forms(block_request.lengths, len(regions.lags)):
        shown = all(
            length + regions.lags[own[-1]] <= request.horizon for length, own in form
        )  # else the horizon ends before the figure appears
        if shown:
            rows.append(
                (
                    form_weights(form, regions.lags, request.horizon, block_request, kind),
                    [region for _, own in form for region in own],
                    [number > 0 for _, own in form for number in range(len(own))],
                )
            )
    width, least = max(len(row[0]) for row in rows), np.inf
    for first in range(0, len(rows), 512):
        part = rows[first : first + 512]
        weights, at, later = (
            np.array([[*row[kind], *[0] * (width - len(row[kind]))] for row in part])
            for kind in range(3)
        )
        solved = best_budgets(weights, at, later.astype(bool), counts, caps)
        least = min(least, float(solved.errors.min()))
    return least, len(rows)


def weighted_error(blocks: fc.Blocks, horizon: int, block_request: BlockRequest) -> float:
    """The mean squared error with the weights of figures."""
    error = blocks.mse(horizon)
    for length, extra in block_request.figures.items():
        last = max(at for at, level in enumerate(blocks.levels) if length % level.length == 0)
        stage = len(blocks.levels[last].stages) - 1
        parts = length // blocks.levels[last].length
        error += extra * parts * blocks.figure_variance(last, stage)
    return error


def scipy_error(
    weights: Vector, regions: Sequence[int], later: Sequence[bool], counts: Vector, caps: Vector
) -> float:
    """The least error of one list of levels, by scipy's SLSQP on the logarithms of increments."""
    level = np.cumsum(~np.array(later))
    sums = (level[:, None] == level[None, :]) & np.tri(len(weights), dtype=bool)
    charge = counts[:, list(regions)]
    start = (caps[:, None] / np.maximum(charge, 1e-9)).min(axis=0) / len(weights)

    def error(logs: Vector) -> float:
        whole = sums @ (start * np.exp(np.clip(logs, -50.0, 5.0)))  # the solver tries far points
        return float(np.log(weights @ (0.5 / np.sinh(0.5 * whole) ** 2)))

    room = {
        "type": "ineq",
        "fun": lambda logs: 1.0 - charge @ (start * np.exp(np.clip(logs, -50.0, 5.0))) / caps,
    }
    solve: Any = minimize
    options = {"maxiter": 1000, "ftol": 1e-13}
    first = np.full(len(weights), -0.1)
    answer = solve(error, first, method="SLSQP", constraints=[room], options=options)
    return float(np.exp(error(answer.x)))
