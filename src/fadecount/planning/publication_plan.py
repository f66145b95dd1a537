"""The plan of a publication: what is published when, how exact it is, and what one unit loses by
then, by everything that the publication shows. Known before the first row.

>>> from fadecount.planning.publication import Measure, Publication
>>> from fadecount.mechanisms import Unit
>>> visits = Publication(
...     name="visits",
...     zone="UTC",
...     start="2026-03-01",
...     unit=Unit(of="person", per="1d"),
...     promise={"30d": 1, "ever": 2},
...     measures=(Measure(name="visits"), Measure(name="visitors", count="persons")),
... )
>>> plan = visits.plan()
>>> for each in plan.figures:
...     print(each.measure, each.per, each.status, each.lag_seconds, each.half_width, each.loss)
visits 1d provisional 0 6 1.0
visits 1d final 2505600 3 2.0
visitors 1d provisional 0 6 1.0
visitors 1d final 2505600 3 2.0
>>> plan.loss("1d"), plan.loss("2d"), plan.loss("ever")
(0.0, 1.0, 2.0)
>>> plan.sentences[0]
"One person's day, at most 1 event, loses by all measures together, by its age, at most:"
>>> plan.sentence
"one person's day, at most 1 event, loses at most ε = 1.00 from 1 day on, 2.00 from 1 month on"
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, Self

import numpy as np

from fadecount.calendar import Length
from fadecount.checks import LONGEST
from fadecount.durations import UNITS, format_duration, parse_duration
from fadecount.errors import ParameterError
from fadecount.mechanisms import Blocks, Gradual, Loss, views_of
from fadecount.mechanisms.levels import MILLION
from fadecount.mechanisms.loss import round_up
from fadecount.planning.discovery import appearances
from fadecount.planning.promise import age_bound, delta_of, millionths, plan_publication
from fadecount.planning.publication import EVER, Measure, Part, Publication, Series
from fadecount.rounding import shown_chance, shown_loss

BETA = 0.05
"""Half widths hold with 95 %."""
_YEAR = 360
"""Days before the day of which the count so far is looked at: whole months and years."""
_MOMENTS = 288
_MOST_STEPS = 12
_BETTER = 0.8
_AGES = {"1h": "1 hour", "1d": "1 day", "1mo": "1 month", "1y": "1 year"}


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedFigure:
    """A figure of a length, ``lag_seconds`` after its end: the true count is within ``half_width``
    of it with at least 95 %. ``loss`` is what everything published by then reveals at most about
    one unit."""

    measure: str
    per: str
    part: Part
    status: str
    lag_seconds: int
    half_width: int
    loss: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedKeys:
    """A hidden key appears ``lag_seconds`` after the end of its day or month from the noisy count
    ``threshold`` on: half of the keys that ``persons_50`` persons bring, 95 % of those with
    ``persons_95``."""

    measure: str
    per: str
    lag_seconds: int
    threshold: int
    persons_50: int
    persons_95: int
    loss: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SoFarToday:
    """How far the sum of what is out today is from the true count up to there, with 95 %: at half
    of all times of the day, and at the worst one."""

    measure: str
    part: Part
    half_width: int
    at_worst: int


@dataclass(frozen=True)
class PublicationPlan:
    """A publication, and what publishes each of its parts: stored with it, and never planned
    again."""

    publication: Publication
    series: tuple[Series, ...]

    @classmethod
    def of(cls, publication: Publication) -> Self:
        """The plan of a publication, the same on every machine."""
        return cls(publication, plan_publication(publication))

    # What is lost
    # --------------------------------------------------------------------------------------------
    def loss(self, age: str) -> float:
        """What is lost at most about one unit before an age, a duration or ``ever``; rounded up.

        >>> import fadecount as fc
        >>> measures = (fc.Measure(name="visits"),)
        >>> about = {"zone": "UTC", "start": "2026-03-01", "unit": fc.Unit()}
        >>> loss = {"7d": 1, "ever": 2}
        >>> visits = fc.Publication(name="visits", promise=loss, measures=measures, **about)
        >>> visits.loss("7d"), visits.loss("ever")
        (1.0, 2.0)
        """
        if age == EVER:
            return self._loss_at(LONGEST)
        return self._loss_at(age_bound(self.publication, parse_duration(age, name="age")))

    def _loss_at(self, age: int) -> float:
        lost = millionths(self.publication, self.series, age)
        return round_up(Fraction(lost, MILLION))

    @cached_property
    def delta(self) -> float | None:
        """The chance with which one unit may lose more, if keys appear by themselves."""
        return round_up(delta_of(self.publication, self.series)) or None

    @cached_property
    def losses(self) -> list[tuple[int, float]]:
        """From which age in seconds on how much is lost at most, wherever it grows. The age of an
        event counts from the end of its tick, that of a person's day from its start."""
        more = 0 if self.publication.unit.of == "event" else 1
        steps: list[tuple[int, float]] = []
        ages = {age for each in self.series for age in each.ages}
        for age in sorted(ages):
            loss = self._loss_at(age)
            if loss > (steps[-1][1] if steps else 0.0):
                steps.append(((age + more) * self.publication.tick_seconds, loss))
        return steps

    @property
    def sentences(self) -> list[str]:
        """What one unit loses, each step at its own age, and what is not in it."""
        unit, steps = self.publication.unit, self.losses
        subject = unit.text[0].upper() + unit.text[1:] + ("," if "," in unit.text else "")
        lines = [f"{subject} loses by all measures together, by its age, at most:"]
        if len(steps) <= _MOST_STEPS and steps[0][0]:
            lines.append(f"  nothing before {format_duration(steps[0][0])}")
        for when, loss in self._told:
            chance = shown_chance(Loss(loss).certainty)
            lines.append(f"  ε = {shown_loss(loss)} {when}: a guess is right in at most {chance}")
        if self.delta is not None:
            lines.append(self._exception)
        lines.append("Other publications about the same people are not added up.")
        return lines

    @property
    def sentence(self) -> str:
        """:attr:`sentences` in one, as it stands behind every run."""
        unit = self.publication.unit
        steps = ", ".join(f"{shown_loss(loss)} {when}" for when, loss in self._told)
        besides = "" if self.delta is None else f", {self._exception}"
        comma = "," if "," in unit.text else ""
        return f"{unit.text}{comma} loses at most ε = {steps}{besides}"

    @property
    def _told(self) -> list[tuple[str, float]]:
        """The losses in words: when, and how much."""
        steps = self.losses
        if len(steps) > _MOST_STEPS:  # a running total loses more at every doubling of the age
            told = [(f"before {name}", self.loss(age)) for age, name in _AGES.items()]
            return [*told, ("ever", self.loss(EVER))]
        return [
            (f"from {format_duration(age)} on" if age else "at once", loss) for age, loss in steps
        ]

    @property
    def _exception(self) -> str:
        slot = self.publication.unit.slot
        return (
            f"except with a chance of {self.delta:g} a {slot}, with which a key appears that nobody"
            f" else brought that {slot}"
        )

    # What is published
    # --------------------------------------------------------------------------------------------
    @cached_property
    def figures(self) -> list[PlannedFigure]:
        """What is published, in the order of measures, parts, lengths and lags."""
        return [figure for each in self.series for figure in self.figures_of(each)]

    @cached_property
    def hidden(self) -> list[PlannedKeys]:
        """What keys that appear by themselves need for it."""
        return [stage for each in self.series for stage in self.hidden_of(each)]

    @cached_property
    def so_far(self) -> list[SoFarToday]:
        """How exact the count so far today is, of each part that has figures of less than a day."""
        widths = (self.so_far_of(each) for each in self.series)
        return [each for each in widths if each is not None]

    def figures_of(self, series: Series) -> Iterator[PlannedFigure]:
        """The figures of one series."""
        tick, blocks = self.publication.tick_seconds, series.mechanism
        if isinstance(blocks, Gradual):
            end = 365 * UNITS["d"] // tick + blocks.delay
            yield PlannedFigure(
                measure=series.measure,
                per="total",
                part=series.part,
                status="final",
                lag_seconds=blocks.delay * tick,
                half_width=int(blocks.error_bound(end, BETA)),
                loss=self._loss_at(blocks.delay),
            )
        if not isinstance(blocks, Blocks) or not self.measure(series).declared:
            return
        for number, (level, shift) in enumerate(zip(blocks.levels, series.shifts, strict=True)):
            for place, stage in enumerate(level.stages):
                yield PlannedFigure(
                    measure=series.measure,
                    per=level.name(tick),
                    part=series.part,
                    status=level.status(place),
                    lag_seconds=stage.lag * tick,
                    half_width=blocks.figure_interval(number, place, BETA),
                    loss=self._loss_at(shift + stage.lag),
                )

    def hidden_of(self, series: Series) -> Iterator[PlannedKeys]:
        """What hidden keys of one series need."""
        if series.selection is None:
            return
        for stage in appearances(series.selection):
            yield PlannedKeys(
                measure=series.measure,
                per=series.selection.per,
                lag_seconds=stage.lag * self.publication.tick_seconds,
                threshold=stage.threshold,
                persons_50=stage.persons_50,
                persons_95=stage.persons_95,
                loss=self._loss_at(series.open_ticks + stage.lag),
            )

    def so_far_of(self, series: Series) -> SoFarToday | None:
        """How exact the count so far today is in one series, if anything of today is out today."""
        day, blocks = UNITS["d"] // self.publication.tick_seconds, series.mechanism
        if not isinstance(blocks, Blocks) or blocks.levels[0].length >= day:
            return None
        if not self.measure(series).declared:
            return None
        start, moments = _YEAR * day, min(day, _MOMENTS)
        ends = start + np.unique(np.linspace(1, day - 1, moments).astype(np.int64))
        views = views_of(blocks, start, ends, ends, calendar=blocks.calendar)
        some = np.flatnonzero(views.reached > start)
        if not len(some):
            return None
        ends = ends[some[np.argsort(views.variances()[some], kind="stable")]]
        two = ends[[(len(ends) - 1) // 2, -1]]
        views = views_of(blocks, start, two, two, calendar=blocks.calendar)
        half, worst = views.half_widths(BETA).tolist()
        return SoFarToday(measure=series.measure, part=series.part, half_width=half, at_worst=worst)

    def measure(self, series: Series) -> Measure:
        """The measure of a series."""
        pairs = zip(self.publication.parts, self.series, strict=True)
        return next(part.measure for part, each in pairs if each is series)

    def to_json(self) -> dict[str, Any]:
        """The plan, for JSON."""
        return {
            "name": self.publication.name,
            "unit": self.publication.unit.text,
            "figures": [asdict(each) for each in self.figures],
            "so_far_today": [asdict(each) for each in self.so_far],
            "hidden_keys": [asdict(each) for each in self.hidden],
            "loss": [{"age_seconds": age, "loss": loss} for age, loss in self.losses],
            "delta": self.delta,
        }

    # What else could be asked for
    # --------------------------------------------------------------------------------------------
    @cached_property
    def hints(self) -> list[str]:
        """What would make the count so far today at least a fifth better: figures every five
        minutes, or none before the first limit."""
        if not self.so_far:
            return []
        now, options = self.so_far[0], []
        for words, changes in _options(self.publication):
            try:
                widths = type(self).of(replace(self.publication, **changes)).so_far
            except ParameterError:  # such as a start between two of the longer ticks
                continue
            for each in widths:
                same = (each.measure, each.part) == (now.measure, now.part)
                if same and each.half_width <= _BETTER * now.half_width:
                    options.append(f"± {each.half_width:,} {words}")
        text = f"{now.measure} so far today is ± {now.half_width:,}; it would be "
        return [text + ", or ".join(options)] if options else []


def _options(publication: Publication) -> Iterator[tuple[str, dict[str, Any]]]:
    """Other ways to publish the same measures: words, and which fields are other."""
    tick, five = publication.tick_seconds, 5 * UNITS["m"]
    if tick < five and not five % tick:
        measures = []
        for measure in publication.measures:
            lengths = [Length.named(per) for per in measure.per]
            long = [each.name for each in lengths if each and not 0 < each.seconds <= five]
            short = len(long) < len(lengths)
            measures.append(replace(measure, per=("5m", *long)) if short else measure)
        yield "every five minutes", {"tick": "5m", "measures": tuple(measures)}
    ages = sorted((age for age in publication.promise if age != EVER), key=parse_duration)
    first = next((age for age in ages if publication.promise[age]), None)
    if first is not None and publication.promise[first] < max(publication.promise.values()):
        words = f"with nothing before {format_duration(parse_duration(first))} ({first} = 0)"
        yield words, {"promise": {**publication.promise, first: 0}}
