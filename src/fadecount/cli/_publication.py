"""What commands say about a publication."""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from fadecount.calendar import Length
from fadecount.cli._output import aligned
from fadecount.durations import format_duration
from fadecount.errors import ParameterError, StoreError, bad_parameter
from fadecount.rounding import shown_loss

if TYPE_CHECKING:
    from fadecount.planning import Measure, Publication, PublicationPlan
    from fadecount.planning.publication_plan import PlannedFigure, PlannedKeys
    from fadecount.streams.description import Description
    from fadecount.streams.storage import Storage

WIDTH = 80


def read_file(path: str, arguments: argparse.Namespace, own: Collection[str]) -> Publication:
    """Return the publication of a file. It says all that options could, apart from the command's
    ``own`` ones."""
    from fadecount.planning import Publication

    if not path.lower().endswith(".toml"):
        raise bad_parameter("FILE", path, "a TOML file", "such as rides.toml")
    for name, value in vars(arguments).items():
        always = name in own or name in ("command", "run", "parser")
        if not always and value != arguments.parser.get_default(name):
            option = f"--{name.replace('_', '-')}"
            raise ParameterError(f"{option} must be left out with {path}; write it there")
    return Publication.read(path)


def require_created(storage: Storage, name: str, path: str) -> None:
    """Refuse a publication that its store lacks. The store is only read: what is not there is not
    made by asking for it."""
    from fadecount.streams.storage import open_reader

    if storage.database is not None or storage.store_path.exists():
        with open_reader(storage) as reader:
            if reader.has(name):
                return
    raise StoreError(
        f"publication {name!r} must be in the store, {where(storage)}, got none of that name;"
        f" create it there with: fadecount create {path}"
    )


def where(storage: Storage) -> str:
    """Return where a store is, without the address of a database: it may hold a password."""
    named = "the database of --database or FADECOUNT_DATABASE"
    return str(storage.store_path) if storage.database is None else named


def promise_of(description: Description) -> str:
    """Return the sentence on what a stored publication loses."""
    from fadecount.planning.publication_plan import PublicationPlan

    assert description.publication is not None
    return PublicationPlan(description.publication, description.series).sentence


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
