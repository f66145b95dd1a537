"""Block counters: counts of nested blocks, each published a public lag after its block's end.

Level ``l`` cuts the steps into blocks of one length: block ``k`` holds the steps ``(k - 1) * length
+ 1 .. k * length``. Every step is in exactly one block of each level. A block's count is published
once, with a discrete Laplace noise of its own, ``lag`` steps after its end; *later stages* publish
it again with less noise. The noises of the stages of one block form a chain (see
:mod:`fadecount.noise.chain`): everything up to a stage reveals as much as that stage alone.

Loss. An event is in one block of each level, and the figures of other blocks do not depend on it.
So everything published up to age ``d`` loses at most the sum over the levels of the budget of the
last stage with a lag of at most ``d``. An event at the end of a block of every level attains it.

Proofs: docs/blocks.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fadecount.checks import LONGEST, require_beta, require_horizon, require_integer, shaped
from fadecount.errors import bad_parameter
from fadecount.mechanisms.base import require_step, require_window
from fadecount.mechanisms.levels import Level, NestedLevels, cover_weights
from fadecount.mechanisms.noise_distribution import quantile, variance_of
from fadecount.mechanisms.views import View, views_of


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Blocks(NestedLevels):
    """Nested blocks of several lengths, each published a lag after its end; the live total is a
    sum over the largest that are out.

    ``loss`` is exact, at every age and position, and for ever bounded by the sum of the last
    budgets. Lags need no order among levels, but for the live total (:meth:`require_ordered_lags`).
    Proof: docs/blocks.md. Test: tests/mechanisms/test_blocks.py.

    >>> import fadecount as fc
    >>> hours, days = fc.Level(60, 0.59, lag=61), fc.Level(1440, 0.91, lag=61)
    >>> blocks = fc.Blocks(fc.Level(1, 0.22), fc.Level(10, 0.28), hours, days)
    >>> blocks.loss(60), blocks.loss(61), blocks.loss(10**6)
    (0.5, 2.0, 2.0)
    """

    levels: tuple[Level, ...]
    planned_tick_seconds: int | None = field(compare=False)
    kind: ClassVar[str] = "blocks"

    def loss_steps(self, tick_seconds: int | None = None) -> list[tuple[int, str]]:
        """The ages at which the loss grows, each with what is published then; lengths are those of
        the calendar, or numbers of steps.

        >>> import fadecount as fc
        >>> days = fc.Level(1440, 0.91, lag=61, later=((43201, 2.9),))
        >>> blocks = fc.Blocks(fc.Level(1, 0.22), fc.Level(40, 0.59, lag=61), days)
        >>> blocks.loss_steps(tick_seconds=60)[1:]
        [(61, 'figures per 40m, 1d (provisional)'), (43201, 'figures per 1d (final)')]
        """
        causes: dict[int, list[str]] = {}
        for level in self.levels:
            for number, stage in enumerate(level.stages):
                status = f" ({level.status(number)})" if level.later else ""
                causes.setdefault(stage.lag, []).append(f"{level.name(tick_seconds)}{status}")
        return [(lag, f"figures per {', '.join(names)}") for lag, names in sorted(causes.items())]

    # Error
    # --------------------------------------------------------------------------------------------
    def figure_variance(self, level: int, stage: int = 0) -> float:
        """The variance of the noise in the figures of a level at one of its stages."""
        return variance_of(self.stage(level, stage).epsilon)

    def variance(self, step: ArrayLike) -> float | NDArray[np.float64]:
        """The variance of the noise in the live total after a step; scalar or array."""
        steps = require_step(step)
        at = np.ravel(steps)
        variances = views_of(self, 0, at, at, calendar=self.calendar).variances()
        return shaped(variances.reshape(np.shape(steps)), steps)

    def weights(self, horizon: int) -> list[list[float]]:
        """For each level and stage the weight of the variance of its figures in :meth:`mse`.

        It is how many of them the live total adds up on average over the steps ``1 .. horizon``.
        """
        self.require_ordered_lags()
        return cover_weights(self.levels, require_horizon(horizon))

    def mse(self, horizon: int, *, continuous: bool = False) -> float:
        """The mean squared error of the live total over the steps ``1 .. horizon``, in closed form
        (the bias of what is not published yet is not in it); see :meth:`Mechanism.mse`."""
        return math.fsum(
            weight * variance_of(stage.epsilon, continuous=continuous)
            for level, weights in zip(self.levels, self.weights(horizon), strict=True)
            for stage, weight in zip(level.stages, weights, strict=True)
        )

    # Views
    # --------------------------------------------------------------------------------------------
    def view(
        self,
        start: int,
        end: int,
        *,
        as_of: int | None = None,
    ) -> View:
        """How to count the steps ``start + 1 .. end`` from what is public after step ``as_of``
        (``end`` if left out): which figures to add, and the noise in the result. The live total
        after step ``t`` is ``view(0, t)``. Where figures of the last steps are not public yet, the
        view is ``partial``: it counts up to the step ``reached``.

        >>> import fadecount as fc
        >>> blocks = fc.Blocks(fc.Level(1, 0.5), fc.Level(4, 0.5, lag=2))
        >>> [(run.level, int(run.blocks[0])) for run in blocks.view(0, 9).views.runs]
        [(0, 5), (1, 1)]
        >>> [(run.level, int(run.blocks[0])) for run in blocks.view(0, 9, as_of=10).views.runs]
        [(0, 1), (1, 2)]
        """
        first, last = require_window(start, end)
        remedy = "it is the last step of which everything published is known"
        now = last if as_of is None else as_of
        now = require_integer("as_of", now, minimum=1, maximum=LONGEST, remedy=remedy)
        if (before := self.calendar.frontier(0, first)) != first:
            bound = "the end of a block of the smallest level"
            raise bad_parameter("start", start, bound, f"such as {before}")
        return View(views_of(self, first, last, now, calendar=self.calendar))

    def window_variance(self, start: int, end: int, *, as_of: int | None = None) -> float:
        """The variance of the noise in the count of the steps ``start + 1 .. end``, from what is
        public after step ``as_of`` (``end`` if left out). A window of which a part is not public is
        refused."""
        return self._whole(start, end, as_of).variance()

    def window_interval(
        self, start: int, end: int, beta: float = 0.05, *, as_of: int | None = None
    ) -> int:
        """How far the count of a window may be from the true one at most, except with probability
        ``beta``; see :meth:`view`. Exact, and it costs no privacy. A window of which a part is not
        public is refused."""
        return self._whole(start, end, as_of).half_width(require_beta(beta))

    def _whole(self, start: int, end: int, as_of: int | None) -> View:
        view = self.view(start, end, as_of=as_of)
        if view.partial:
            bound = f"at most {view.reached}, up to which figures are public"
            raise bad_parameter(
                "end", end, bound, "ask as_of a later step, or view() for that part"
            )
        return view

    def error_bound(self, step: int, beta: float) -> int:
        """A bound on the noise in the live total after a step, of all that is public by then; see
        :meth:`Mechanism.error_bound`."""
        return self.view(0, int(require_step(step))).half_width(require_beta(beta))

    def figure_interval(self, level: int, stage: int = 0, beta: float = 0.05) -> int:
        """How far a figure may be from the true count at most, except with probability
        ``beta``."""
        noise = ((Fraction(1), self.stage(level, stage).epsilon, 1),)
        return int(quantile(noise, require_beta(beta)))
