"""The privacy loss of a stream for one unit; and of a group: streams that count the same people,
with one promise for all of them together.

The rule for groups. Streams draw their noise independently. So what everything published by a group
reveals about one unit is the sum of the losses of its streams, each at the age of the unit. A unit
that is ``a`` seconds old is at most ``ceil(a / tick)`` ticks old in each stream, also where clocks
change. Deleted streams go on counting: what they published is out.

A promise is a limit up to each of some ages, and one for ever. Losses never fall with the age, so a
sum that keeps a limit at the end of its ages keeps it at all of them.

tests/streams/test_groups.py compares sums and promises with linear programs.
"""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fadecount.checks import LONGEST, require_real
from fadecount.durations import format_duration, parse_duration
from fadecount.errors import ParameterError, bad_parameter
from fadecount.mechanisms import ONE_EVENT, Blocks, Loss, Mechanism, Unit
from fadecount.mechanisms.levels import MILLION
from fadecount.mechanisms.loss import round_up
from fadecount.planning.publication import Series
from fadecount.rounding import DUST, shown_loss
from fadecount.streams.discovery import HiddenKeys, exception


class UnitLoss(ABC):
    """The privacy loss of one protected unit, by its age, given everything that a stream or a
    publication has published. Every output uses this class."""

    @property
    def delta(self) -> float:
        """The chance with which one unit may ever lose more, because of hidden keys."""
        return self.at_age(LONGEST).delta

    @property
    @abstractmethod
    def exception(self) -> str:
        """The end of a sentence about a loss: the chance with which it may be larger, if any."""

    def at_age(self, age: int) -> Loss:
        """The loss of a unit that is so many ticks old: from the first tick of its slot to the last
        published one, at any position in the stream."""
        return _loss_at(self, min(age, LONGEST))

    def of_person(
        self,
        visits: int,
        *,
        every: int,
        during: int,
        tick_seconds: int,
        ahead: int = 0,
        unit: Unit = ONE_EVENT,
    ) -> Loss:
        """The loss of someone who came up to ``visits`` times in any ``every`` seconds, during the
        last ``during`` seconds, where figures are so many ticks ``ahead`` of the clock.

        An upper bound whenever the visits were. Losses never fall with the age, so they weigh most
        if each period has all of its visits at its beginning; the last period may be shorter, and
        is as full. Where the unit is a person within a tick, no tick holds more than one of them:
        the smaller of both bounds holds. (Each visit costs at most a unit of its own age, also
        where the unit is a day.)
        """
        ages = -(-np.arange(during, 0, -every, dtype=np.int64) // tick_seconds)
        loss = self.total(ages + ahead, visits)
        if unit.of == "event" or unit.per != "tick":
            return loss
        newest = -1 if ahead else 0  # figures ahead of the clock hold the present tick
        each_tick = np.arange(newest, -(-during // tick_seconds) + 1, dtype=np.int64)
        return min(loss, self.total(each_tick + ahead), key=lambda one: one.epsilon)

    @property
    @abstractmethod
    def grows_at(self) -> tuple[int, ...]:
        """The ages in ticks at which the loss of blocks grows; none of a smooth curve."""

    def exact(self, age: int) -> Loss:
        """:meth:`at_age`, computed."""
        return self.total(age)

    @abstractmethod
    def total(self, age: ArrayLike, units: int = 1) -> Loss:
        """The sum of the losses of so many visits at each of these ages. Each costs at most a unit
        whose slot ended with it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublicationLoss(UnitLoss):
    """The loss of a publication: the sum of those of all series that are open at the same time,
    exact in millionths; the largest such sum, where measures begin and end.

    The age of a unit counts from the calendar start of its slot. A block of a level ends at the
    earliest a fixed number of ticks later (``Series.shifts``): the unit is that much older when the
    block is published. What would end earlier waits.
    """

    together: tuple[tuple[Series, ...], ...]

    def exact(self, age: int) -> Loss:
        return self._loss(self._largest(age, shifted=True), age)

    def total(self, age: ArrayLike, units: int = 1) -> Loss:
        ages = np.clip(age, 0, LONGEST).ravel().tolist()
        one = self._loss(sum(self._largest(each, shifted=False) for each in ages), LONGEST)
        return Loss.together([(one, units)])

    def _largest(self, age: int, *, shifted: bool) -> int:
        """In millionths: by the age from the start of the unit's slot; of everything that a unit
        did in one tick, by the age of that tick, if it is not ``shifted``."""
        return max(
            sum(each.millionths(age, shifted=shifted) for each in series)
            for series in self.together
        )

    def _loss(self, millionths: int, age: int) -> Loss:
        chances = [
            sum(
                Fraction(each.selection.delta)
                for each in series
                if each.selection is not None and each.selection.spent(age)
            )
            for series in self.together
        ]
        return Loss(millionths / MILLION, round_up(Fraction(max(chances))))

    @property
    def exception(self) -> str:
        per = [each.selection.per for all_ in self.together for each in all_ if each.selection]
        return f", {exception(self.delta, per[0])}" if per else ""

    @property
    def grows_at(self) -> tuple[int, ...]:
        series = {each for together in self.together for each in together}
        blocks = [each for each in series if isinstance(each.mechanism, Blocks)]
        return tuple(sorted({age for each in blocks for age in each.ages}))


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamLoss(UnitLoss):
    """The privacy loss of a stream with one mechanism.

    A unit changes counts by up to ``sensitivity``, all keys together. Every figure is an upper
    bound, rounded up.

    Under each of its keys a unit is counted as declared or as ``hidden``, so it loses the larger of
    both; under a hidden key that also counts in ``other``, their sum. With hidden keys the loss may
    be larger with the chance :attr:`delta`. Nothing is shown of a hidden key before its slot ends,
    which is ``open_ticks`` ticks or more after its first.

    >>> import fadecount as fc
    >>> fading = fc.Gradual(epsilon=0.125)
    >>> StreamLoss(mechanism=fading, sensitivity=2).at_age(5).epsilon == 2 * fading.loss(5)
    True
    """

    mechanism: Mechanism
    sensitivity: int = 1
    hidden: HiddenKeys | None = None
    open_ticks: int = 0

    @property
    def grows_at(self) -> tuple[int, ...]:
        if not isinstance(self.mechanism, Blocks):
            return ()
        return tuple(age for age, _ in self.mechanism.loss_steps())

    @property
    def exception(self) -> str:
        return "" if self.hidden is None else f", {self.hidden.exception}"

    def exact(self, age: int) -> Loss:
        return self._total(age, 1, self.open_ticks)

    def total(self, age: ArrayLike, units: int = 1) -> Loss:
        return self._total(age, units, 0)

    def _total(self, age: ArrayLike, units: int, open_ticks: int) -> Loss:
        ages = np.clip(age, 0, LONGEST)
        times = units * self.sensitivity
        if self.hidden is None:
            return self.mechanism.composed_loss(ages, times=times)
        parts: list[tuple[Loss, int]] = []
        for each in np.atleast_1d(ages).tolist():
            shown = self.mechanism.composed_loss(each, times=times)
            since_end, discovery = each - open_ticks, self.hidden.discovery
            epsilon = float(discovery.loss(since_end)) if since_end >= 0 else 0.0
            once = Loss(epsilon, discovery.delta if epsilon else 0.0)
            hidden = Loss.together([(once, units)])
            if self.hidden.other is not None:
                parts += [(shown, 1), (hidden, 1)]
            else:
                parts.append((Loss(max(shown.epsilon, hidden.epsilon), hidden.delta), 1))
        return Loss.together(parts)


@lru_cache(maxsize=4096)
def _loss_at(loss: UnitLoss, age: int) -> Loss:
    """Groups add up the same losses of many streams; some take 15 ms each."""
    return loss.exact(age)


# Groups
# ------------------------------------------------------------------------------------------------
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
EVER = "ever"
NO_GROUP = "in no group: losses of other streams about the same people are not added"


def require_name(what: str, name: object, example: str) -> None:
    """Refuse what streams and groups may not be called."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        bound = "1 to 100 letters, digits, dots, hyphens or underscores"
        raise bad_parameter(what, name, f"{bound}, beginning with a letter or digit", example)


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
        require_name("group", self.name, "such as riders")
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
    loss: UnitLoss
    tick_seconds: int


@dataclass(frozen=True, kw_only=True)
class GroupLoss:
    """What all streams of a group together lose about one ``unit`` (in words)."""

    group: Group
    unit: str
    members: tuple[Member, ...]

    def at(self, age_seconds: float | None) -> float:
        """The loss of a unit of that age (None: of any age): at most the promise. An upper bound,
        also with streams that join the group later."""
        total = self.total(age_seconds)
        limit = self.group.limit(age_seconds)
        if total is None:
            return math.inf
        return limit if total * (1 - Fraction(DUST)) <= Fraction(limit) else round_up(total)

    def total(self, age_seconds: float | None) -> Fraction | None:
        """The exact sum of the losses of the streams there are, each an upper bound; None if it is
        infinite."""
        total = Fraction(0)
        for member in self.members:
            age = LONGEST
            if age_seconds is not None:
                age = min(LONGEST, math.ceil(age_seconds / member.tick_seconds))
            loss = member.loss.at_age(age).epsilon
            if math.isinf(loss):
                return None
            total += Fraction(loss)
        return total

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
        return sum(member.loss.delta for member in self.members) or None

    @property
    def text(self) -> str:
        """The loss in words, with the names of streams, deleted ones included."""
        names = [member.name for member in self.members]
        return f"{self.about['text']} ({', '.join(names[:5])}{', ...' * (len(names) > 5)})"

    @cached_property
    def about(self) -> dict[str, Any]:
        """What readers of one stream are told: name, unit, and the loss of all streams together up
        to each age (null: for ever), also in words."""
        delta = "" if self.delta is None else f", except with a chance of {self.delta:g}"
        return {
            "name": self.group.name,
            "text": f"{self.group.name}: {self.group.text}{delta} for {self.unit}"
            ", by all streams of the group together",
            "unit": self.unit,
            "curve": [{"age_seconds": age, "loss": loss} for age, loss in self.group.promise],
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
