"""What the tests of publications share: three measures, rows for them, figures without
noise."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

import fadecount as fc
from fadecount.planning.publication import Columns, Measure, Publication, Series
from fadecount.sources.measures import MeasureRules, PublicationRows
from fadecount.streams import Reader
from fadecount.streams.description import Description
from tests.sources.plain_rule import Counts, Plain

ZONE = "Europe/Vienna"
EXACT = fc.Blocks(fc.Level(1, 50.0), fc.Level(24, 50.0, lag=2))
"""Budgets so large that hardly any figure has noise, and it is drawn all the same."""
SHOWN_FROM = 2
"""So many persons must bring a hidden key for it to appear, in publications that are exact."""


class NoNoise:
    """Every variable is zero."""

    def many(self, _law: object, _level: int, rounds: range, nodes: range, width: int) -> Any:
        return np.zeros((len(rounds), len(nodes), width), dtype=np.int64)


def rides(**fields: Any) -> Publication:
    """Three measures by the day of a person: events by key and overall, persons by key, a sum."""
    given: dict[str, Any] = {
        "name": "rides",
        "zone": ZONE,
        "start": "2026-03-27",
        "unit": fc.Unit(of="person", events=3, per="1d"),
        "promise": {"7d": 2, "ever": 4},
        "columns": Columns(person="who", id="id"),
        "measures": (
            Measure(
                name="rides",
                key=("place",),
                keys=("north", "south"),
                overall=True,
                per=("1h", "1d"),
            ),
            Measure(
                name="riders",
                count="persons",
                key=("place",),
                keys=("north", "south"),
                max_keys=2,
                overall=True,
            ),
            Measure(name="minutes", sum="minutes", max=60, per=("1d", "1mo")),
        ),
        **fields,
    }
    return Publication(**given)


def described(
    publication: Publication,
    mechanism: fc.Blocks = EXACT,
    shifts: tuple[int, ...] = (),
    open_ticks: int = 0,
) -> Description:
    """A publication of which all parts have this mechanism, whatever its promise is."""
    selection = None
    if any(each.discover for each in publication.measures):
        selection = fc.Discovery(publication.unit.per, ((0, 50.0),), 1e-9)
        assert selection.thresholds == (SHOWN_FROM,)
    series = (
        Series(
            measure=each.measure.name,
            part=each.part,
            mechanism=mechanism,
            weight=each.weight,
            shifts=shifts or (0,) * len(mechanism.levels),
            open_ticks=open_ticks,
            selection=selection if each.measure.discover and each.part == "keys" else None,
            other=each.measure.other if each.part == "keys" else None,
        )
        for each in publication.parts
    )
    return Description.of(publication, tuple(series))


def rules_of(publication: Publication, **options: Any) -> MeasureRules:
    return MeasureRules(PublicationRows(publication=publication, **options))


def events_of(rules: MeasureRules, rows: Sequence[Mapping[str, str]]) -> list[Any]:
    """Rows as they are read; those that cannot be read are left out."""
    read = (rules.event([row[name] for name in rules.wanted.columns]) for row in rows)
    return [each for each in read if not isinstance(each, int)]


def published(reader: Reader, description: Description) -> Counter[tuple[int, int, int]]:
    """What the figures of the ticks say, by number of the part, tick and position of the key; of
    publications with :data:`EXACT`, without noise."""
    found = Counter[tuple[int, int, int]]()
    per = description.parts[0].levels[0]
    assert description.publication is not None
    for number, each in enumerate(description.publication.parts):
        part = reader.series(description.name, each.measure.name, each.part)
        figures = part.figures(per)
        for start, row in zip(figures.starts.tolist(), figures.values.tolist(), strict=True):
            for key, value in enumerate(row):
                if value:
                    found[number, description.ticks.at(start), key] = value
    return found


def appeared(
    reader: Reader, description: Description, plain: Plain
) -> dict[tuple[int, Any, str], int]:
    """The hidden keys that appeared, by number of the part and slot."""
    found = {}
    assert description.publication is not None
    for number, each in enumerate(description.publication.parts):
        if description.series[number].selection is not None:
            table = reader.series(description.name, each.measure.name).discovered()
            rows = zip(*(table[name].tolist() for name in ("start", "key", "value")), strict=True)
            for start, key, value in rows:
                found[number, plain.slot(description.ticks.at(start)), key] = value
    return found


def hidden_of(counts: Counts) -> dict[tuple[int, Any, str], int]:
    return {place: count for place, count in counts.hidden.items() if count >= SHOWN_FROM}


def added_of(counts: Counts) -> dict[tuple[int, int, int], int]:
    return {place: count for place, count in counts.added.items() if count}
