"""What commands say about a publication."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from typing import TYPE_CHECKING

from fadecount.calendar import Length
from fadecount.cli._output import aligned
from fadecount.durations import format_duration
from fadecount.rounding import shown_loss

if TYPE_CHECKING:
    from fadecount.planning import Measure, Publication, PublicationPlan
    from fadecount.planning.publication_plan import PlannedFigure, PlannedKeys

WIDTH = 80


def plan_lines(plan: PublicationPlan) -> Iterator[str]:
    """What a publication shows when, how exact that is, and what is lost by then; then the loss of
    one unit by its age, and what would be better."""
    publication = plan.publication
    yield publication.name + (f": {publication.title}" if publication.title else "")
    yield ""
    heads = ("measure", "figure", "after its end", "half width", "loss by then")
    yield from aligned([heads, *_rows(plan)], "<<<>>")
    yield from _wrapped(
        "half width: the true count is that close with at least 95 %; loss by then (ε): about"
        f" {publication.unit.text}, by everything that is published by then"
    )
    yield ""
    for line in plan.sentences:
        yield from _wrapped(line)
    for line in plan.hints:
        yield from ("", *_wrapped(line))


def _rows(plan: PublicationPlan) -> Iterator[tuple[str, ...]]:
    """The rows of the table, each measure and part with its name once."""
    publication = plan.publication
    for part, series in zip(publication.parts, plan.series, strict=True):
        measure, name = part.measure, part.measure.name
        rows: list[tuple[str, str, str, float | None]] = [
            (_figure(publication, measure, each), _after(each), f"± {each.half_width:,}", each.loss)
            for each in plan.figures_of(series)
        ]
        if (today := plan.so_far_of(series)) is not None:
            worst = f"at worst ± {today.at_worst:,}"
            rows.append(("so far today", worst, f"± {today.half_width:,}", None))
        rows += [
            (
                f"{_words(each.per)}, hidden keys",
                _after(each),
                f"from {each.persons_95:,}",
                each.loss,
            )
            for each in plan.hidden_of(series)
        ]
        name += ", overall" if part.part == "overall" else ""
        name += f" from {measure.start}" if measure.start else ""
        for number, (figure, when, width, loss) in enumerate(rows):
            shown = "" if loss is None else shown_loss(loss)
            yield ("" if number else name, figure, when, width, shown)


def _figure(publication: Publication, measure: Measure, figure: PlannedFigure) -> str:
    """A figure in words: its length, what else it counts, and its stage if it has several."""
    words = _words(figure.per)
    if measure.distinct and figure.per != publication.unit.per:
        words += ", first visits"  # a person counts in the first hour of the day only
    return words if figure.status == "final" else f"{words}, {figure.status}"


def _words(per: str) -> str:
    length = Length.named(per)
    return per if length is None else length.words


def _after(figure: PlannedFigure | PlannedKeys) -> str:
    lag = figure.lag_seconds
    return format_duration(lag) if lag else "at once"


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, subsequent_indent="    " if text[0] == " " else "")
