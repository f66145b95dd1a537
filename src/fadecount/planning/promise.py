"""One promise, split over the measures of a publication: what each part may spend, and what one
unit loses through all of them together.

A series (a measure's keys, or all its keys together) changes by at most its ``weight`` through one
unit, and series have independent noises: losses add up. The age of a unit that lasts (a person's
day) counts from the calendar start of its slot. A block of at most that length ends at the earliest
when the first such block of the slot ends; a longer one at the earliest with the slot. So a stage
with a lag is out at the age ``shift + lag`` at the earliest, ``shift`` one tick less than the
shorter of both, each at the shortest that the calendar has. Where blocks and slots do not nest, and
for single events, there is no shift.

Hidden keys appear when the slot is over. Under each of a unit's keys the loss is the larger of that
of declared and that of hidden keys, which have the same limits; where hidden keys count in
``other`` too, it is their sum, and each has one half.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import NoReturn

import numpy as np

from fadecount.calendar import Length, first_days
from fadecount.checks import LONGEST
from fadecount.durations import UNITS
from fadecount.errors import bad_parameter
from fadecount.mechanisms import Mechanism
from fadecount.mechanisms.discovery import SMALLEST_EPSILON
from fadecount.mechanisms.levels import MILLION
from fadecount.planning.measures import LEAST, Caps, plan_gradual, plan_lengths, plan_selection
from fadecount.planning.publication import YEARS, Measure, MeasurePart, Publication, Series


def plan_publication(publication: Publication) -> tuple[Series, ...]:
    """Every part of every measure with its mechanism. Each measure gets its share of every limit,
    rounded down to millionths; together they keep the promise, which is checked exactly.

    Guarantees: the same publication has the same plan on every machine.
    """
    series = tuple(_planned(publication, each) for each in publication.parts)
    require_promise(publication, series)
    return series


# The promise
# ------------------------------------------------------------------------------------------------
def millionths(publication: Publication, series: Sequence[Series], age: int) -> int:
    """What one unit loses until it is ``age`` ticks old, by all that is published about it: by the
    measures that are open at one time, whichever time that is."""
    lost = [each.millionths(age) for each in series]
    return max(sum(lost[at] for at in together) for together in publication.together)


def delta_of(publication: Publication, series: Sequence[Series]) -> Fraction:
    """The chance with which one unit may lose more, because of hidden keys."""
    chances = [Fraction(each.selection.delta if each.selection else 0) for each in series]
    return max(
        sum((chances[at] for at in together), Fraction()) for together in publication.together
    )


def require_promise(publication: Publication, series: Sequence[Series]) -> None:
    """Refuse parts that together lose more than the promise. It grows at limits only, and no loss
    falls, so it is enough to look at the last age before each."""
    for age, (_, limit) in zip(free_ages(publication), publication.limits, strict=True):
        lost = millionths(publication, series, LONGEST if age is None else age - 1)
        if lost > limit * MILLION:
            bound = f"at least {lost / MILLION:g}, which the measures lose together"
            raise bad_parameter("loss", float(limit), bound, "allow more, or fewer measures")
    if (chance := delta_of(publication, series)) > Fraction(publication.delta or 0):
        bound = f"at least {float(chance):g}, the chance of all measures that discover"
        raise bad_parameter("delta", publication.delta, bound, "allow more, or fewer measures")


def free_ages(publication: Publication) -> list[int | None]:
    """For each limit the first age in ticks to which it does not apply (None: it applies for ever).

    A limit binds what is published before its time has passed since the unit: for an event at any
    time in its tick, for a slot from its calendar start.
    """
    return [
        None if seconds is None else age_bound(publication, seconds) + 1
        for seconds, _ in publication.limits
    ]


def age_bound(publication: Publication, seconds: int) -> int:
    """The largest age in ticks at which a unit is younger than so many seconds, or may be."""
    more = 0 if publication.unit.of == "event" else -2
    return max(-1, -(-seconds // publication.tick_seconds) + more)


# Parts
# ------------------------------------------------------------------------------------------------
def _planned(publication: Publication, part: MeasurePart) -> Series:
    measure, lengths = part.measure, publication.lengths(part.measure)
    discovers = measure.discover and part.part == "keys"
    other = measure.other if discovers else None
    each = _share(publication, part) / (part.weight * (1 if other is None else 2))
    caps = Caps(
        ages=tuple(free_ages(publication)),
        millionths=tuple(math.floor(limit * each * MILLION) for _, limit in publication.limits),
    )
    needed = max(LEAST * len(lengths), round(SMALLEST_EPSILON * MILLION) * discovers)
    if caps.millionths[-1] < needed:
        _refuse_share(publication, part, needed / each / MILLION)
    day = UNITS["d"] // publication.tick_seconds
    mechanism: Mechanism
    shifts: tuple[int, ...] = ()
    if measure.mechanism == "gradual":
        mechanism = plan_gradual(caps, 365 * day)
    else:
        shifts = shifts_of(publication, lengths)
        mechanism = plan_lengths(lengths, shifts, caps, day)
    selection, open_ticks = None, 0
    if discovers:
        delta, open_ticks = _delta(publication, measure), _shortest_slot(publication) - 1
        per, keys = publication.unit.per, measure.max_keys
        selection = plan_selection(per, open_ticks, caps, delta, keys)
    return Series(
        measure=measure.name,
        part=part.part,
        mechanism=mechanism,
        weight=part.weight,
        shifts=shifts,
        selection=selection,
        open_ticks=open_ticks,
        other=other,
    )


def _share(publication: Publication, part: MeasurePart) -> Fraction:
    """What part of every limit a part gets."""
    own = part.measure
    share = _exact(own.share) / (_other_shares(publication, own) + _exact(own.share))
    if not own.overall:
        return share
    of_overall = _exact(own.overall)
    return share * (of_overall if part.part == "overall" else 1 - of_overall)


def _other_shares(publication: Publication, measure: Measure) -> Fraction:
    """The most that all others have together while a measure is open, with the reserve."""
    return _exact(publication.reserve) + max(
        sum((_exact(each.share) for each in together if each != measure), Fraction())
        for together in _with(publication, measure)
    )


def _with(publication: Publication, measure: Measure) -> Iterator[list[Measure]]:
    """The measures that are open together with this one, for each time at which one begins."""
    parts = publication.parts
    for numbers in publication.together:
        together = [parts[at].measure for at in numbers if parts[at].part == "keys"]
        if measure in together:
            yield together


def _exact(number: float) -> Fraction:
    """The decimal that was written."""
    return Fraction(repr(float(number)))


def _refuse_share(publication: Publication, part: MeasurePart, loss: Fraction) -> NoReturn:
    """Refuse a part that would need this loss at last, with the share that it has."""
    measure, (_, limit) = part.measure, publication.limits[-1]
    share = _exact(measure.share) / (_other_shares(publication, measure) + _exact(measure.share))
    needed = share * loss / limit  # the part of the whole that the measure needs
    remedy = f"one unit adds up to {part.weight:,}"
    if needed < 1:
        least = needed * _other_shares(publication, measure) / (1 - needed)
        bound = f"at least {_rounded_up(least):g}, which pays for it"
        raise bad_parameter(f"measures.{measure.name}.share", measure.share, bound, remedy)
    bound = f"at least {_rounded_up(loss):g} for measures.{measure.name}"
    raise bad_parameter("loss", float(limit), bound, f"{remedy}; or count less of it")


def _rounded_up(exact: Fraction) -> float:
    """A number with three digits, not below."""
    unit = Fraction(10) ** (math.floor(math.log10(exact)) - 2)
    return float(math.ceil(exact / unit) * unit)


def _delta(publication: Publication, measure: Measure) -> float:
    """The chance of a measure, the same for all that discover at one time; rounded down."""
    count = max(sum(each.discover for each in together) for together in _with(publication, measure))
    exact = Fraction(publication.delta or 0) / count
    nearest = float(exact)
    return nearest if nearest <= exact else math.nextafter(nearest, 0.0)


# Shifts
# ------------------------------------------------------------------------------------------------
def shifts_of(publication: Publication, lengths: Sequence[int]) -> tuple[int, ...]:
    """How many ticks after the start of the unit's slot a block of each length can end at the
    earliest; 0 where blocks and slots do not nest, or the unit is an event.

    The blocks of a slot begin with it. So the first of them is whole where it is a part of a day;
    a day or a month is the shortest there is. A longer block ends with one of its slots.
    """
    if publication.unit.of == "event":
        return (0,) * len(lengths)
    slot, shortest = _seconds(publication.unit.length), _shortest_slot(publication)
    shifts = []
    for length in lengths:
        seconds = length * publication.tick_seconds
        first = length if seconds < UNITS["d"] else _shortest(publication, seconds)
        nested = max(seconds, slot) % min(seconds, slot) == 0
        shifts.append(min(first, shortest) - 1 if nested else 0)
    return tuple(shifts)


def _shortest_slot(publication: Publication) -> int:
    return _shortest(publication, _seconds(publication.unit.length))


def _seconds(length: Length | None) -> int:
    """A slot in seconds, with months of 30 days."""
    assert length is not None  # a person's unit has one
    return length.nominal_seconds


def _shortest(publication: Publication, seconds: int) -> int:
    """The fewest ticks that a slot of so many seconds can have, by the zone's rules of today. Parts
    of a day begin at midnight, and the last one ends with the day."""
    day, tick, midnights = UNITS["d"], publication.tick_seconds, publication.midnights
    if tick == day:  # whatever the clock does
        midnights = day * np.arange(len(midnights))
    if seconds < day:
        lasts = (each % seconds or seconds for each in set(np.diff(midnights).tolist()))
        return min(min(seconds, each) for each in lasts) // tick
    if seconds > day:
        months, first = seconds // UNITS["mo"], 12 * (int(publication.start[:4]) - 1970)
        starts = np.arange(-(-first // months) * months, first + 12 * YEARS + 1, months)
        midnights = midnights[first_days(starts) - first_days(first)]
    return int(np.diff(midnights).min()) // tick
