"""Streams that count the same people, and the one promise for all of them together.

The rule. Streams draw their noise independently. So what everything published by a group reveals
about one unit is the sum of the losses of its streams, each at the age of the unit: for pure noise
the epsilons add up; for Gaussian noise the squares of ``mu`` do, and the epsilon at the smallest
delta is added to the others. A unit that is ``a`` seconds old is at most ``ceil(a / tick)`` ticks
old in each stream, also where clocks change. Deleted streams go on counting: what they published is
out.

A promise is a limit up to each of some ages, and one for ever. Losses never fall with the age, so a
sum that keeps a limit at the end of its ages keeps it at all of them.

tests/streams/test_groups.py compares sums and promises with linear programs.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

from fadecount.checks import LONGEST, require_real
from fadecount.durations import format_duration, parse_duration
from fadecount.errors import ParameterError, bad_parameter
from fadecount.mechanisms.gaussian_law import epsilon_at
from fadecount.rounding import DUST, shown_loss
from fadecount.streams.forks import StreamLoss

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
"""What streams and groups may be called."""
EVER = "ever"
NO_GROUP = "in no group: losses of other streams about the same people are not added"
_UP = 1.0 + 1e-12


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """The name and the promise of streams that count the same people; public and fixed.

    ``promise`` holds limits of the privacy loss: pairs of an age in seconds, up to which a limit
    holds, and the limit. The age of the last one is None: it holds for ever. Without a promise, the
    group must have streams already, and theirs is meant.
    """

    name: str
    promise: tuple[tuple[int | None, float], ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not NAME.fullmatch(self.name):
            bound = "1 to 100 letters, digits, dots, hyphens or underscores"
            raise bad_parameter("group", self.name, bound, "such as riders")
        before = 0.0
        for _, limit in self.promise:
            remedy = "a loss never falls with the age"
            before = require_real(
                "loss of the group", limit, low=before, high=1e9, open_ends=False, remedy=remedy
            )

    @classmethod
    def of(cls, name: str, loss: Mapping[str, float]) -> Group:
        """A group whose streams together lose at most so much up to each age: durations, or
        ``ever``. Between two ages the later limit holds; past the last one, the last.

        >>> Group.of("riders", {"30d": 2, "1h": 0.5, "1y": 4}).text
        'at most 0.5 up to 1 hour, 2 up to 1 month, 4 later'
        """
        if not loss:
            raise bad_parameter("loss of the group", loss, "an age and a limit", "such as 1y=4")
        ages = {age: parse_duration(age, name="age") if age != EVER else LONGEST for age in loss}
        order = sorted(loss, key=lambda age: ages[age])
        if len({*ages.values()}) < len(ages):
            raise ParameterError("loss of the group must name each age once; remove the duplicate")
        limits = [(ages[age], loss[age]) for age in order[:-1]]
        return cls(name=name, promise=(*limits, (None, loss[order[-1]])))

    @property
    def text(self) -> str:
        """The promise in words."""
        return _in_words(self.promise)

    def limit(self, age_seconds: float | None) -> float:
        """The limit of the loss of a unit of that age, or of any age (None)."""
        return next(
            limit
            for age, limit in self.promise
            if age is None or (age_seconds is not None and age_seconds <= age)
        )

    def to_json(self) -> dict[str, Any]:
        """The fields, for JSON."""
        return {"name": self.name, "promise": self.promise}

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> Group:
        """The group with these fields, checked."""
        promise = tuple((age, float(limit)) for age, limit in fields["promise"])
        return cls(name=fields["name"], promise=promise)


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A stream of a group, there or deleted: its loss, and the length of its ticks."""

    name: str
    loss: StreamLoss
    tick_seconds: int


@dataclass(frozen=True, kw_only=True)
class GroupLoss:
    """What all streams of a group together lose about one ``unit`` (in words)."""

    group: Group
    unit: str
    members: tuple[Member, ...]

    def at(self, age_seconds: float | None) -> float:
        """The loss of a unit of that age (None: of any age): at most the promise, except where
        histories were accepted that nobody had planned for. An upper bound, also with streams that
        join the group later.
        """
        total = self.total(age_seconds)
        limit = self.group.limit(age_seconds)
        if total is None:
            return math.inf
        if total * (1 - Fraction(DUST)) <= Fraction(limit):
            return limit
        loss = float(total)
        return loss if Fraction(loss) >= total else math.nextafter(loss, math.inf)

    def total(self, age_seconds: float | None) -> Fraction | None:
        """The exact sum of the losses of the streams there are, each an upper bound; None if it is
        infinite."""
        pure, squares, delta = Fraction(0), Fraction(0), 1.0
        for member in self.members:
            age = LONGEST
            if age_seconds is not None:
                age = min(LONGEST, math.ceil(age_seconds / member.tick_seconds))
            loss = member.loss.at_age(age)
            if math.isinf(loss.amount):
                return None
            if loss.delta is None:
                pure += Fraction(loss.amount)
            else:
                squares += Fraction(loss.amount) ** 2
                delta = min(delta, loss.delta)
        if squares:
            gaussian = float(epsilon_at(math.sqrt(squares) * _UP, delta))
            if math.isinf(gaussian):
                return None
            pure += Fraction(gaussian)
        return pure

    def require_promise(self) -> None:
        """Refuse streams that together lose more than the group promises, at some age.

        Sums are exact. A sum of decimals may exceed a limit by what float64 adds to them, which is
        less than what all noise is wider (:mod:`fadecount.rounding`).
        """
        for age, limit in self.group.promise:
            if self.at(age) > limit:
                when = "in the end" if age is None else f"up to {format_duration(age)}"
                others = ", ".join(member.name for member in self.members[:-1]) or "none"
                raise ParameterError(
                    f"streams of group {self.group.name!r} must lose at most {limit:g} {when}, all"
                    f" together, got {shown_loss(self.at(age))}; give this one smaller losses (the"
                    f" others: {others})"
                )

    @property
    def delta(self) -> float | None:
        """The probability with which the loss may be larger; None if there is none."""
        gaussian = [member.loss.at_age(LONGEST).delta for member in self.members]
        deltas = [min((delta for delta in gaussian if delta is not None), default=None)]
        deltas += [member.loss.delta for member in self.members]
        return sum(delta for delta in deltas if delta is not None) or None

    @property
    def streams(self) -> Sequence[str]:
        """The names of the streams, deleted ones included."""
        return [member.name for member in self.members]

    @property
    def text(self) -> str:
        """The loss in words, with the names of streams."""
        names = self.streams
        return f"{self.about['text']} ({', '.join(names[:5])}{', ...' * (len(names) > 5)})"

    @cached_property
    def about(self) -> dict[str, Any]:
        """What readers of one stream are told: name, unit, and the loss of all streams together up
        to each age (null: for ever), also in words."""
        stated = tuple((age, self.at(age)) for age, _ in self.group.promise)
        delta = "" if self.delta is None else f", except with a chance of {self.delta:g}"
        broken = ", more than promised, since other histories were accepted"
        return {
            "name": self.group.name,
            "text": f"{self.group.name}: {_in_words(stated)}{delta} for {self.unit}"
            f"{'' if stated == self.group.promise else broken}, by all streams of the group"
            " together",
            "unit": self.unit,
            "curve": [{"age_seconds": age, "loss": loss} for age, loss in stated],
            "delta": self.delta,
        }


def _in_words(promise: Sequence[tuple[int | None, float]]) -> str:
    *first, (_, last) = promise
    parts = [f"{_decimal(limit)} up to {format_duration(age or 0)}" for age, limit in first]
    return f"at most {', '.join([*parts, f'{_decimal(last)} later' if parts else _decimal(last)])}"


def _decimal(limit: float) -> str:
    """A limit as it was given, if that is short; else rounded up."""
    written = f"{limit:g}"
    return written if float(written) == limit else shown_loss(limit)
