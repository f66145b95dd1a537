"""Count the rows of files into a publication: the library form of ``fadecount run FILE.toml``.

>>> import io, fadecount as fc
>>> from fadecount.publication_runs import run
>>> from fadecount.streams.store import MemoryStore
>>> rides = fc.Publication(
...     name="rides",
...     zone="UTC",
...     start="2026-03-01",
...     unit=fc.Unit(),
...     promise={"ever": 20},
...     measures=(fc.Measure(name="rides"),),
...     input=fc.planning.publication.Input(format="csv"),
... )
>>> rows = io.BytesIO(b"time\\n2026-03-01T10:10\\n2026-03-01T10:50\\n")
>>> with MemoryStore() as store:
...     _ = store.create(rides)
...     released = run(rows, rides, store, until="2026-03-02").released
...     store.reader().series("rides", "rides").figures("1d").values.tolist()
[[2]]
>>> len(released)
24
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from textwrap import shorten
from typing import TYPE_CHECKING, Any

from fadecount.calendar import zone_of
from fadecount.durations import parse_time
from fadecount.errors import ClockError, ParameterError, StoreError, bad_parameter
from fadecount.planning.publication import Publication
from fadecount.planning.publication_file import fields_of
from fadecount.sources import EarlierNotes, Gate, SourceReport, check_source, count_rows
from fadecount.sources.measures import PublicationRows
from fadecount.sources.visits import PER_ADDRESS
from fadecount.streams.stream import MOST_TICKS

if TYPE_CHECKING:
    from fadecount.calendar import Ticks
    from fadecount.sources.files import Source
    from fadecount.streams import Store
    from fadecount.streams.description import Description

__all__ = ["Finished", "run"]

FREE = ("title", "description", "licence", "contact", "input")
"""Fields of a publication that may change; and of a measure its labels."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """A run that is over: the ticks that it closed, none if there was nothing to do, and what of
    its rows did not count, for their owner only."""

    description: Description
    released: range
    report: SourceReport = field(default_factory=SourceReport)


def run(
    source: Source,
    publication: Publication,
    store: Store,
    *,
    until: datetime | str | None = None,
    gate: Gate | None = None,
    clock: Callable[[], float] = time.time,
) -> Finished:
    """Count rows into a publication that the store has, and close its ticks up to ``until`` (by
    default the last local midnight). ``source`` is that of :func:`fadecount.sources.count_rows`;
    several files are one input, in any order.

    The source is read to its end once, for all measures; then its ticks are closed, those of a slot
    of the unit in one transaction. Rows of ticks that were closed before are left out, so the run
    may be repeated after an interruption. What earlier runs counted of persons in the open slot is
    part of their caps.

    What is fixed since the publication was created is compared with ``publication``, and refused if
    it differs. ``gate`` is what the rows must meet before anything is released.
    """
    status = store.reader().status(publication.name)
    stored = status.description.publication
    if stored is None:
        raise StoreError(
            f"{publication.name!r} must be a publication, got a stream of that name; choose another"
            " name"
        )
    require_same(publication, stored)
    if stored.feed != "files":
        remedy = "the service counts the rows of live ones"
        raise bad_parameter("feed", stored.feed, "'files' for a run", remedy)
    described, gate = status.description, gate or Gate()
    end = _end_tick(described.ticks, until, clock())
    stream = store.open(publication.name)
    begin = stream.open_tick
    now = replace(stored, input=publication.input)
    most = PER_ADDRESS if now.input.format == "log" else None
    wanted = PublicationRows(
        publication=now, first_tick=begin, end_tick=max(begin, end), per_address=most
    )
    check_source(source, wanted)
    if end <= begin:
        return Finished(description=described, released=range(begin, begin))
    if end - begin > MOST_TICKS:
        raise ClockError(
            f"range must be at most {MOST_TICKS:,} ticks, got {end - begin:,}; check the clock, or"
            " give until"
        )
    noted, earlier = None, None
    if described.notes:
        # if that grows before the ticks are closed, they are refused: the cap would not hold
        noted = stream.persons_noted
        earlier = EarlierNotes(key=stream.person_key, counted=stream.noted if noted else None)
    additions = count_rows(source, wanted, earlier=earlier)
    gate.check_rows(additions.report)
    if stream.status.steps:
        first = additions.first_tick
        gate.check_gap(described.ticks, begin, end if first is None else first)
    for _ in stream.release_rows(end, additions, noted=noted):
        pass
    return Finished(description=described, released=range(begin, end), report=additions.report)


def _end_tick(ticks: Ticks, until: datetime | str | None, now: float) -> int:
    """The tick before which a run ends. One that is not over by the clock is refused."""
    over = ticks.at(now)
    if until is None:
        return ticks.ticks_of("1d", ticks.block_of("1d", over)).start
    moment = parse_time(until, ticks.zone, name="until") if isinstance(until, str) else until
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=zone_of(ticks.zone))
    end = ticks.at(moment.timestamp())
    if end > over:
        bound = f"at most {ticks.local(over)}, when the last tick so far ended"
        remedy = "figures of later ticks would be public before their time"
        raise bad_parameter("until", ticks.local(end), bound, remedy)
    return end


# What is fixed
# ------------------------------------------------------------------------------------------------
def require_same(publication: Publication, stored: Publication) -> None:
    """Refuse a publication whose fixed fields differ from those that it was created with."""
    for place, new, old in _changes("", _fixed(publication), _fixed(stored)):
        raise ParameterError(
            f"{place} is fixed: {stored.name!r} was created with {_shown(old)}, got {_shown(new)};"
            " change it back, or create a publication of another name"
        )


def _fixed(publication: Publication) -> dict[str, Any]:
    measures = tuple(replace(each, labels={}) for each in publication.measures)
    made = fields_of(replace(publication, measures=measures))
    return {name: value for name, value in made.items() if name not in FREE}


def _changes(place: str, new: Any, old: Any) -> Iterator[tuple[str, Any, Any]]:
    """The fields that differ, each with its place, new and old value; None is a field that is not
    there. Of a long list, the first entry that differs is enough."""
    if isinstance(new, Mapping) and isinstance(old, Mapping):
        for name in {**old, **new}:
            where = f"{place}.{name}" if place else name
            yield from _changes(where, new.get(name), old.get(name))
    elif isinstance(new, list) and isinstance(old, list):
        for at in range(max(len(new), len(old))):
            pair = (each[at] if at < len(each) else None for each in (new, old))
            yield from _changes(f"{place}[{at}]", *pair)
    elif new != old:
        yield place, new, old


def _shown(value: Any) -> str:
    return "nothing" if value is None else shorten(repr(value), 60, placeholder=" ...")
