"""One promise, split over the measures of a publication: what each part may spend, and what one
unit loses through all of them together.

A series (a measure's keys, or all its keys together) changes by at most its ``weight`` through one
unit, and series have independent noises: losses add up. The age of a unit that lasts (a person's
day) counts from the calendar start of its slot. A block of at most that length ends at the earliest
when the first such block of the slot ends; a longer one at the earliest with the slot. So a stage
with a lag is out at the age ``shift + lag`` at the earliest, ``shift`` one tick less than the
shorter of both, each at the shortest that the calendar has. Where blocks and slots do not nest, and
for single events, there is no shift.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from datetime import date, datetime
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise

from fadecount.checks import LONGEST
from fadecount.durations import UNITS
from fadecount.errors import bad_parameter
from fadecount.mechanisms.levels import MILLION
from fadecount.planning.measures import Caps, plan_lengths
from fadecount.planning.publication import Measure, MeasurePart, Publication, Series, zone_of


def plan_publication(publication: Publication) -> tuple[Series, ...]:
    """Every part of every measure with its mechanism. Each measure gets its share of every limit,
    rounded down to millionths; together they keep the promise, which is checked exactly.

    Guarantees: the same publication has the same plan on every machine.
    """
    series = tuple(_planned(publication, each) for each in publication.parts)
    require_promise(publication, series)
    return series


def require_promise(publication: Publication, series: Sequence[Series]) -> None:
    """Refuse parts that together lose more than the promise. Losses grow at limits only, so it is
    enough to look at the last age before each."""
    for age, (_, limit) in zip(free_ages(publication), publication.limits, strict=True):
        until = LONGEST if age is None else age - 1
        for together in publication.together:
            lost = sum(series[each].millionths(until) for each in together)
            if lost > limit * MILLION:
                bound = f"at least {lost / MILLION:g}, which the measures lose together"
                raise bad_parameter("loss", float(limit), bound, "allow more, or fewer measures")


def free_ages(publication: Publication) -> list[int | None]:
    """For each limit the first age in ticks to which it does not apply (None: it applies for ever).

    A limit binds what is published before its time has passed since the unit: for an event at any
    time in its tick, for a slot from its calendar start.
    """
    more = 1 if publication.unit.of == "event" else -1
    tick = publication.tick_seconds
    return [
        None if seconds is None else max(0, -(-seconds // tick) + more)
        for seconds, _ in publication.limits
    ]


def _planned(publication: Publication, part: MeasurePart) -> Series:
    measure, lengths = part.measure, publication.lengths(part.measure)
    shares = max(
        sum(Fraction(repr(each.share)) for each in together)
        for together in _of(publication, measure)
    )
    share = Fraction(repr(measure.share)) / (shares + Fraction(repr(publication.reserve)))
    if measure.overall:
        of_overall = Fraction(repr(measure.overall))
        share *= of_overall if part.part == "overall" else 1 - of_overall
    shifts = shifts_of(publication, lengths)
    caps = Caps(
        ages=tuple(free_ages(publication)),
        millionths=tuple(
            math.floor(limit * share * MILLION / part.weight) for _, limit in publication.limits
        ),
    )
    day = UNITS["d"] // publication.tick_seconds
    place = f"measures.{measure.name}"
    mechanism = plan_lengths(lengths, shifts, caps, day, place=place)
    return Series(
        measure=measure.name,
        part=part.part,
        mechanism=mechanism,
        weight=part.weight,
        shifts=shifts,
    )


def _of(publication: Publication, measure: Measure) -> Iterator[list[Measure]]:
    """The measures that are open together with this one, for each time at which one begins."""
    parts = publication.parts
    for numbers in publication.together:
        together = [parts[each].measure for each in numbers if parts[each].part == "keys"]
        if measure in together:
            yield together


# Shifts
# ------------------------------------------------------------------------------------------------
_YEARS = 30
_MONTHS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
"""The days of the months, at least."""


def shifts_of(publication: Publication, lengths: Sequence[int]) -> tuple[int, ...]:
    """How many ticks after the start of the unit's slot a block of each length can end at the
    earliest; 0 where blocks and slots do not nest, or the unit is an event."""
    unit = publication.unit.length
    if publication.unit.of == "event" or unit is None:
        return (0,) * len(lengths)
    tick = publication.tick_seconds
    slot = unit.seconds // tick if unit.seconds else unit.months * UNITS["mo"] // tick
    shortest = _shortest(slot, publication)
    return tuple(
        min(_shortest(each, publication), shortest) - 1
        if max(each, slot) % min(each, slot) == 0
        else 0
        for each in lengths
    )


def _shortest(length: int, publication: Publication) -> int:
    """The fewest ticks that a slot of so many ticks can have, by the zone's rules of today. Parts
    of a day begin at midnight, and the last one ends with the day."""
    tick = publication.tick_seconds
    seconds = length * tick
    days = day_lengths(publication.zone, int(publication.start[:4]))
    if seconds < UNITS["d"]:
        return min(min(seconds, each % seconds or seconds) for each in days) // tick
    if seconds == UNITS["d"]:
        return min(days) // tick
    months = seconds // UNITS["mo"]
    years, rest = divmod(months, 12)
    in_a_year = [sum(_MONTHS[at : at + rest]) for at in range(0, 12, rest)] if rest else [0]
    shortest = 365 * years + min(in_a_year)
    return (shortest * UNITS["d"] - (UNITS["d"] - min(days))) // tick


@lru_cache(maxsize=64)
def day_lengths(zone: str, year: int) -> frozenset[int]:
    """How many seconds the days of a zone have, by its rules from a year on."""
    place = zone_of(zone)
    midnights = [
        datetime.fromordinal(day).replace(tzinfo=place).timestamp()
        for day in range(date(year, 1, 1).toordinal(), date(year + _YEARS, 1, 1).toordinal())
    ]
    return frozenset(int(after - before) for before, after in pairwise(midnights))
