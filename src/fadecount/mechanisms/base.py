"""The interface of every mechanism: its loss, its error, and its JSON.

A mechanism is a description: frozen, comparable, without state or entropy. Losses are sums of
budgets, in exact integers. A subclass says which; everything else is derived from that here.
"""

from __future__ import annotations

import dataclasses
import json
import math
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, ClassVar, Self, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fadecount.checks import (
    LONGEST,
    Whole,
    broadcast,
    require_integer,
    require_real,
    require_whole,
    shaped,
)
from fadecount.errors import ParameterError, bad_parameter
from fadecount.mechanisms.loss import Loss, loss_of_units

JSON_VERSION = 1
LARGEST_SENSITIVITY, LARGEST_KEYS = 1 << 51, 1_000_000
Losses = NDArray[np.float64]
Steps = NDArray[np.int64]


class Mechanism(ABC):
    """What is published of a count over time, and what it costs.

    Guarantees: ``loss`` is the exact privacy loss of the noise that a counter really adds, rounded
    up to the next float64. ``variance`` and ``mse`` are those of that noise.
    """

    __slots__ = ()
    kind: ClassVar[str]
    _kinds: ClassVar[dict[str, type[Mechanism]]] = {}

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "kind" in cls.__dict__:
            Mechanism._kinds[cls.kind] = cls

    @property
    def delay(self) -> int:
        """How many steps outputs lag behind."""
        return 0

    @property
    def last_step(self) -> int | None:
        """The last step that a counter can take; None if there is none."""
        return None

    @property
    def planned_tick_seconds(self) -> int | None:
        """The length of a step for which a plan chose this mechanism; None if it came from no plan,
        or fits any length."""
        return None

    # Privacy
    # --------------------------------------------------------------------------------------------
    @abstractmethod
    def _exact(self, age: int, position: int | None) -> int:
        """The loss at an age as an exact number of units, of the item at a position, or (None) of
        the worst one."""

    def _paper(self, age: int) -> int:
        """The published bound at an age, in units."""
        return self._exact(age, None)

    _as_loss = staticmethod(loss_of_units)

    @abstractmethod
    def for_sensitivity(self, sensitivity: int) -> Self:
        """The same promise for a unit that can change the counts of a step by up to
        ``sensitivity``, all keys together.

        Guarantees: ``sensitivity`` times the loss of the result is at most the loss of this
        mechanism, at every age and position.
        """

    @abstractmethod
    def scaled(self, factor: float) -> Self:
        """The mechanism with all budgets, and so all losses, multiplied by a factor."""

    @overload
    def loss(self, age: int, *, position: int | None = None) -> float: ...
    @overload
    def loss(self, age: ArrayLike, *, position: ArrayLike | None = None) -> float | Losses: ...
    def loss(self, age: ArrayLike, *, position: ArrayLike | None = None) -> float | Losses:
        """The privacy loss of an item of a given age: what all outputs so far can reveal about it.

        ``age`` 0 is the step of the item itself. Without ``position`` the result holds for every
        item. With it, the result is the loss of the item at that step (from 1), which is at most
        the former. Scalars and arrays, up to 2**60 - 1. Guarantees: no event at any output set is
        more than ``exp(loss)`` times likelier with the item than without it.
        """
        ages = require_age(age)
        if position is None:
            return shaped(self._losses(np.asarray(ages), None), ages)
        places = self._positions("position", position)
        several = isinstance(ages, np.ndarray) or isinstance(places, np.ndarray)
        age_each, place_each = broadcast(ages, places)
        return shaped(self._losses(age_each, place_each), age_each if several else 0)

    def _losses(self, ages: Steps, positions: Steps | None) -> Losses:
        """The losses at ages, for positions of the same shape, or (None) for the worst ones."""
        if positions is not None:
            pairs = zip(ages.ravel().tolist(), positions.ravel().tolist(), strict=True)
            losses = [self._as_loss(self._exact(*pair)) for pair in pairs]
            return np.array(losses, dtype=np.float64).reshape(ages.shape)
        distinct, inverse = np.unique(ages, return_inverse=True)
        values = np.zeros(len(distinct))
        for at in {0, len(distinct) - 1} if len(distinct) else ():
            values[at] = self._as_loss(self._exact(int(distinct[at]), None))
        ranges = [(0, len(distinct) - 1)]
        while ranges:  # a loss never falls: between equal ones all are equal
            first, last = ranges.pop()
            middle = (first + last) // 2
            if first < middle and values[first] == values[last]:
                values[first:last] = values[first]
            elif first < middle:
                values[middle] = self._as_loss(self._exact(int(distinct[middle]), None))
                ranges += [(first, middle), (middle, last)]
        return values[inverse].reshape(ages.shape)

    def paper_loss(self, age: ArrayLike) -> float | Losses:
        """The published upper bound on the loss at an age: never below :meth:`loss`, and the loss
        itself where the paper has none."""
        ages = require_age(age)
        bounds = [self._as_loss(self._paper(each)) for each in np.ravel(ages).tolist()]
        return shaped(np.array(bounds, dtype=np.float64).reshape(np.shape(ages)), ages)

    def loss_of(self, positions: ArrayLike, now: int) -> float:
        """The loss of one person who contributed at all these positions, given all outputs up to
        step ``now``.

        A position that occurs twice counts twice (two events in one step); one after ``now`` costs
        nothing yet. Guarantees: an upper bound for any change by at most 1 per contribution. It is
        the sum of the losses of the single contributions, rounded up once, and exact for adding or
        removing the person: since each noise variable is in use at consecutive steps, the losses of
        several contributions never overlap (docs/planning.md has the proof).

        >>> import fadecount as fc
        >>> fc.Gradual(epsilon=0.5).loss_of([2, 3, 3], now=3)
        1.5
        >>> fc.Blocks(fc.Level(1, 0.25), fc.Level(4, 0.5)).loss_of([1, 1, 4], now=4)
        2.25
        """
        places, times, now = self._contributions(positions, now)
        pairs = zip(places.tolist(), times.tolist(), strict=True)
        return self._as_loss(sum(self._exact(now - at, at) * count for at, count in pairs))

    def composed_loss(self, age: ArrayLike, *, times: int = 1) -> Loss:
        """The loss of one person whose contributions have these ages, each so many ``times``, to
        any counts: their sum, rounded up once.

        Counts of different keys have independent noise, so their losses add up. So do those of
        histories of outputs, which share the noise drawn before they diverged (see
        :mod:`fadecount.streams.loss`). Guarantees: an upper bound, and :meth:`loss` for one age.
        """
        distinct, counts = np.unique(require_age(age), return_counts=True)
        pairs = zip(distinct.tolist(), counts.tolist(), strict=True)
        total = sum(self._exact(each, None) * count for each, count in pairs)
        return Loss(self._as_loss(total * times))

    def _positions(self, name: str, positions: ArrayLike) -> Whole:
        """Checked positions of items."""
        remedy = "the first item of a stream is at position 1"
        places = require_whole(name, positions, minimum=1, remedy=remedy)
        if self.last_step is not None and np.max(places, initial=1) > self.last_step:
            bound = f"at most {self.last_step}, the last step"
            raise bad_parameter(name, int(np.max(places)), bound, "no later item exists")
        return places

    def _contributions(self, positions: ArrayLike, now: int) -> tuple[Steps, Steps, int]:
        """The positions up to ``now`` of one person, and how often each occurs; checked."""
        remedy = "it is the step of the last output seen"
        now = require_integer("now", now, minimum=1, maximum=LONGEST, remedy=remedy)
        if not np.size(positions):
            return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64), now
        places = np.atleast_1d(self._positions("positions", positions))
        return *np.unique(places[places <= now], return_counts=True), now

    def for_mse(self, mse: float, *, horizon: int, continuous: bool = False) -> Self:
        """The most private mechanism in this proportion of budgets whose mean squared error over
        the horizon is at most ``mse``: scaled by the smallest factor that meets it.

        With continuous noise the error falls as ``1 / factor**2``, which gives the starting point.
        Discrete noise has less variance, so bisection looks below it, down to the last bit.

        >>> import fadecount as fc
        >>> round(fc.Gradual(1.0, exponent=2.0).for_mse(1000, horizon=10**6).epsilon, 4)
        0.0564
        """
        remedy = "it is a squared error in counts, such as 1000"
        mse = require_real("mse", mse, low=0.0, high=1e36, open_ends=True, remedy=remedy)
        unit = self.mse(horizon, continuous=True)
        if unit == 0.0:
            remedy = "outputs within the delay hold no noise to calibrate"
            raise bad_parameter("horizon", horizon, "greater than the delay", remedy)

        def meets(factor: float) -> bool:
            try:
                return self.scaled(factor).mse(horizon, continuous=continuous) <= mse
            except ParameterError:
                return False  # a factor outside the range of budgets is no answer

        start = math.sqrt(unit / mse)
        attempts = (1.0, 1.0 + 1e-15, 1.0 + 1e-12, 1.2, 0.1, 0.01, 0.001, 1e-4, 1e-5)
        high = next((start * each for each in attempts if meets(start * each)), None)
        if high is None:
            remedy = "a larger error needs a smaller budget, and back"
            raise bad_parameter("mse", mse, "within reach of the budgets allowed", remedy)
        low = 0.5 * high
        while meets(low):
            low *= 0.5
        while low < (middle := 0.5 * (low + high)) < high:
            low, high = (low, middle) if meets(middle) else (middle, high)
        return self.scaled(high)

    # Error
    # --------------------------------------------------------------------------------------------
    @abstractmethod
    def variance(self, step: ArrayLike) -> float | Losses:
        """The variance of the noise in the total after a step (from 1), in squared counts; scalar
        or array."""

    @abstractmethod
    def mse(self, horizon: int, *, continuous: bool = False) -> float:
        """The mean squared error that the noise causes over the outputs ``1 .. horizon`` (the
        delay's bias is not in it).

        The noise is on the integers; ``continuous`` gives the error of the paper's, which is not.
        """

    @abstractmethod
    def window_variance(self, start: int, end: int) -> float:
        """The variance of the noise in the count of the steps ``start + 1 .. end``."""

    @abstractmethod
    def window_interval(self, start: int, end: int, beta: float = 0.05) -> int:
        """How far the count of the steps ``start + 1 .. end`` is from the true one at most, except
        with probability ``beta``. Exact, and it costs no privacy."""

    def error_bound(self, step: int, beta: float) -> int:
        """A bound on the noise in one output that fails with probability at most ``beta``: its
        exact quantile. (Inputs of a delay that are not in the output yet are no noise.)"""
        remedy = "the first step of a stream is step 1"
        step = require_integer("step", step, minimum=1, maximum=LONGEST, remedy=remedy)
        return self.window_interval(0, step, beta)

    # As text
    # --------------------------------------------------------------------------------------------
    def to_json(self) -> str:
        """The mechanism as one line of versioned JSON that :meth:`from_json` reads back, equal to
        the last bit."""
        return json_line("mechanism", self, kind=self.kind)

    @staticmethod
    def from_json(text: str | bytes) -> Mechanism:
        """The mechanism that :meth:`to_json` described, or that a plan file holds (its sections
        ``plan`` and ``discovery`` are ignored). Anything else is refused with a
        :class:`ParameterError`."""
        fields = json_fields(text, "mechanism")
        for section in ("plan", "discovery"):
            fields.pop(section, None)
        kind = fields.pop("kind", None)
        if not isinstance(kind, str) or kind not in Mechanism._kinds:
            bound = f"one of {', '.join(sorted(Mechanism._kinds))}"
            raise bad_parameter("mechanism kind", kind, bound, "check the spelling")
        try:
            return Mechanism._kinds[kind]._from_fields(fields)
        except (TypeError, KeyError) as error:
            raise ParameterError(
                f"mechanism JSON must fit kind {kind!r}; write it with to_json()"
            ) from error

    @classmethod
    def _from_fields(cls, fields: dict[str, Any]) -> Mechanism:
        return cls(**fields)


# Checked parameters, each with one remedy
# ------------------------------------------------------------------------------------------------
def require_age(age: ArrayLike) -> Whole:
    remedy = "the age of an item is the number of steps since it was streamed"
    return require_whole("age", age, minimum=0, remedy=remedy)


def require_step(step: ArrayLike) -> Whole:
    return require_whole("step", step, minimum=1, remedy="the first step of a stream is step 1")


def require_delay(delay: int) -> int:
    return require_integer("delay", delay, minimum=0, maximum=LONGEST, remedy="0 means no delay")


def require_sensitivity(value: int) -> int:
    remedy, most = "it is by how much one unit can change the counts of a step", LARGEST_SENSITIVITY
    return require_integer("sensitivity", value, minimum=1, maximum=most, remedy=remedy)


def require_sequence(name: str, values: Any, remedy: str) -> Iterable[Any]:
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        raise bad_parameter(name, values, "a sequence of numbers", remedy)
    return values


def require_keys(value: int) -> int:
    remedy = "it is how many counts one unit can change at once"
    return require_integer("keys", value, minimum=1, maximum=LARGEST_KEYS, remedy=remedy)


def require_window(start: int, end: int) -> tuple[int, int]:
    remedy = "a window from 0 on is the whole count"
    first = require_integer("start", start, minimum=0, maximum=LONGEST, remedy=remedy)
    remedy = "a window ends after it starts"
    return first, require_integer("end", end, minimum=first + 1, maximum=LONGEST, remedy=remedy)


def json_line(what: str, description: Any, **head: str) -> str:
    """A frozen description as one line of versioned JSON: its parameters, but for those that are
    None."""
    named = {"fadecount": what, "version": JSON_VERSION, **head}
    return json.dumps(named | _plain(description), allow_nan=False)


def json_fields(text: str | bytes, what: str) -> dict[str, Any]:
    """The fields of versioned JSON, without its head; refused if it is about something else, or
    from a newer version."""
    try:
        fields = json.loads(text)
        marker, version = fields.pop("fadecount"), fields.pop("version")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ParameterError(
            f"{what} JSON must hold fadecount and version; write it with to_json()"
        ) from error
    if marker != what or type(version) is not int or version < 1:
        raise ParameterError(f'{what} JSON must say "fadecount": "{what}"; write it with to_json()')
    if version > JSON_VERSION:
        bound = f"at most {JSON_VERSION}"
        raise bad_parameter(f"{what} version", version, bound, "upgrade fadecount to read it")
    return dict(fields)


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        given = {
            each.name: getattr(value, each.name) for each in dataclasses.fields(value) if each.init
        }
        return {name: _plain(each) for name, each in given.items() if each is not None}
    if isinstance(value, tuple):
        return [_plain(each) for each in value]
    return value
