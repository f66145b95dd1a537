"""The running counter: one input in, one private running count out.

Noise never depends on the inputs. So it is made for many steps at once, by a path
(:mod:`fadecount.counters.paths`) that ``extend`` asks for as many steps as it needs. ``step`` takes
from a *look-ahead*: the noise of the next steps, made in one go. A saved state holds what is left
of it; what was used is forgotten.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from typing import Any, NoReturn, Self, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fadecount.checks import require_integer
from fadecount.counters.bridges import BridgePath
from fadecount.counters.inputs import (
    LARGEST_SUM,
    many_steps,
    one_step,
    require_exact,
    running_sums,
    sum_too_large,
)
from fadecount.counters.paths import path_of
from fadecount.counters.state import MOST_AHEAD, Parts, SavedState, damaged
from fadecount.errors import HorizonError, ParameterError, bad_parameter
from fadecount.mechanisms import Blocks, Figure, Mechanism, RunningTotal
from fadecount.noise import Lineage, NoiseSource, SystemNoise, require_lineage

Row = Sequence[int] | NDArray[np.integer]
"""The inputs of one step: one number per key."""
Rows = NDArray[np.int64]
_LEAST_AHEAD = 16


class Counter:
    """A private running count of a stream, or a vector of them (one per key).

    ``step`` takes the input of one step and returns the noisy sum of the inputs so far; ``extend``
    does many steps at once, with the same distribution and the same state afterwards. Inputs are
    integers: numbers of events.

    Guarantees: the outputs have the privacy loss that ``mechanism.loss`` states, for streams that
    differ by at most 1 in one step of one key. Noise comes from the operating system's entropy,
    each variable is drawn once and never again, also across :meth:`save` and :meth:`resume`; a
    forked child process is refused with a ``ForkedError``. A call that raises changes nothing.
    Calls from several threads are serialized. Assumes: a saved state is resumed at most once; two
    counters that continue from one state reveal more than stated. Costs: O(1) draws per step on
    average; O(delay + log(time)) memory per key, and at most 2**12 numbers drawn ahead. Proof:
    docs/theory.md, section 2.

    >>> import fadecount as fc
    >>> counter = fc.Counter(fc.Gradual(epsilon=0.5, exponent=2.0))
    >>> noisy = [counter.step(1) for _ in range(100)]
    >>> counter.time
    100
    """

    __slots__ = (
        "_ahead",
        "_delay",
        "_delayed",
        "_horizon",
        "_lineage",
        "_lock",
        "_mechanism",
        "_path",
        "_reach",
        "_scalar",
        "_total",
        "_width",
    )

    def __new__(cls, mechanism: object = None, **_options: object) -> Self:
        """A counter of the class that runs this mechanism."""
        if isinstance(mechanism, Blocks):
            from fadecount.counters.blocks import BlockCounter

            return object.__new__(BlockCounter)  # type: ignore[return-value]
        return object.__new__(cls)

    def __init__(self, mechanism: Mechanism, *, shape: tuple[()] | tuple[int] = ()) -> None:
        self._prepare(mechanism, _width(shape), SystemNoise())

    @classmethod
    def _with_noise(
        cls, mechanism: Mechanism, source: NoiseSource, *, width: int | None = None
    ) -> Counter:
        """The private constructor behind the public one: a counter on a given noise source, for
        tests."""
        counter = cls.__new__(cls, mechanism)
        counter._prepare(mechanism, width, source)
        return counter

    def _prepare(self, mechanism: Mechanism, width: int | None, source: NoiseSource) -> None:
        if not isinstance(mechanism, Mechanism):
            remedy = "such as fadecount.Gradual(epsilon=0.1)"
            raise bad_parameter("mechanism", mechanism, "a fadecount mechanism", remedy)
        self._mechanism = mechanism
        self._scalar, self._width = width is None, width or 1
        self._lock = threading.Lock()
        self._lineage = Lineage.current
        self._total: Any = self._listed(self._zeros(1))[0]
        self._ahead: list[Any] = []
        """What was made ahead for the next steps; that of the next one is the last."""
        self._reach = _LEAST_AHEAD
        self._start(source)

    def _start(self, source: NoiseSource) -> None:
        mechanism = self._mechanism
        assert isinstance(mechanism, RunningTotal)
        self._delay, self._horizon = mechanism.delay, mechanism.last_step
        self._delayed: deque[Any] = deque()
        self._path = path_of(mechanism, source, self._width)

    def __repr__(self) -> str:
        return f"Counter({self._mechanism!r}, shape={self.shape}, time={self.time})"

    @property
    def mechanism(self) -> Mechanism:
        """The mechanism that this counter runs."""
        return self._mechanism

    @property
    def shape(self) -> tuple[()] | tuple[int]:
        """``()`` for one count, ``(keys,)`` for one count of each key."""
        return () if self._scalar else (self._width,)

    @property
    def time(self) -> int:
        """How many steps have been taken, including those that are still delayed."""
        return self._path.shown - len(self._ahead) + len(self._delayed)

    @overload
    def step(self, item: int) -> int: ...
    @overload
    def step(self, item: Row) -> NDArray[np.int64]: ...
    def step(self, item: int | Row) -> int | NDArray[np.int64]:
        """Count one step's input and return the output: an int, or an array over the keys."""
        if self._lineage is not Lineage.current:
            require_lineage(self._lineage)
        counted: Any = item
        if (
            item.__class__ is not int
            or not self._scalar
            or not -LARGEST_SUM <= counted <= LARGEST_SUM
        ):
            counted = one_step(item, None if self._scalar else self._width)
        with self._lock:
            output: int | Rows = self._step(counted)
            return output

    def extend(self, items: ArrayLike) -> NDArray[np.int64]:
        """Count the inputs of many steps, in the shape (steps,) or (steps, keys), and return as
        many outputs."""
        require_lineage(self._lineage)
        rows = many_steps(items, None if self._scalar else self._width)
        with self._lock:
            released = self._extend(rows)
        return released.reshape(-1, *self.shape)

    def _step(self, counted: Any) -> Any:
        delay, delayed = self._delay, self._delayed
        if self._horizon is not None:
            self._check_horizon(1)
        if len(delayed) < delay:
            delayed.append(counted)
            return self._listed(self._zeros(1))[0]
        total = self._total + (delayed[0] if delay else counted)
        smallest, largest = (total, total) if self._scalar else (total.min(), total.max())
        # A sum of two numbers within 2**62 that wrapped in int64 is outside it too.
        if largest > LARGEST_SUM or smallest < -LARGEST_SUM:
            raise sum_too_large()
        noise = (self._ahead or self._look_ahead()).pop()
        if delay:
            delayed.popleft()
            delayed.append(counted)
        self._total = total
        return total + noise

    def _extend(self, rows: Rows) -> Rows:
        self._check_horizon(len(rows))
        missing = min(len(rows), max(0, self._delay - self.time))
        shown = len(rows) - missing
        waiting = rows
        if self._delayed:
            waiting = np.concatenate([np.reshape(list(self._delayed), (-1, self._width)), rows])
        released = self._zeros(len(rows))
        if shown:
            sums = released[missing:]
            require_exact(self._total, waiting[:shown])
            running_sums(waiting[:shown], out=sums)
            sums += self._total
            (total,) = self._listed(sums[-1:])
            left = max(0, len(self._ahead) - shown)
            ready = self._ahead[left:][::-1]
            if ready:
                sums[: len(ready)] += np.reshape(ready, (-1, self._width))
            self._path.add_to(sums[len(ready) :])
            del self._ahead[left:]
            self._total = total
        if self._delay:
            self._delayed = deque(self._listed(waiting[shown:]))
        return released

    def _look_ahead(self) -> list[Any]:
        """Make the noise of the next steps."""
        steps = self._steps_ahead()
        if self._horizon is not None:
            steps = min(steps, self._horizon - self._delay - self._path.shown)
        noise = self._zeros(steps)
        self._path.add_to(noise)
        self._ahead = self._listed(noise)[::-1]
        return self._ahead

    def _steps_ahead(self) -> int:
        """For how many steps noise is made ahead: ever more, and one for very many counts."""
        steps = max(1, self._reach // self._width)
        self._reach = min(4 * self._reach, MOST_AHEAD)
        return steps

    def _zeros(self, steps: int) -> Rows:
        return np.zeros((steps, self._width), dtype=np.int64)

    def _listed(self, rows: Rows) -> list[Any]:
        """Each row on its own: an int, or an array over the keys."""
        return rows[:, 0].tolist() if self._scalar else [row.copy() for row in rows]

    def figures(self) -> list[Figure]:
        """What was published since the last call besides the running count, for
        :class:`fadecount.Blocks`."""
        raise ParameterError(
            f"mechanism must be Blocks to have figures, got {type(self._mechanism).__name__};"
            " step and extend return its counts"
        )

    def _check_horizon(self, steps: int) -> None:
        if self._horizon is not None and self.time + steps > self._horizon:
            raise HorizonError(
                f"time must be at most the horizon, {self._horizon}, got {self.time + steps}; "
                "describe the mechanism for more steps, or use one without an end, such as Gradual"
            )

    def __reduce__(self) -> NoReturn:
        """Refuse to copy or pickle: two counters that continue with the same noise reveal more than
        stated."""
        raise TypeError(
            "a counter cannot be copied; save() it, and let one counter go on from there"
        )

    def save(self) -> bytes:
        """The state as versioned bytes, to continue without drawing any noise again. It holds true
        sums: keep it secret."""
        require_lineage(self._lineage)
        width = None if self._scalar else self._width
        return SavedState(mechanism=self._mechanism, width=width, parts=parts_of(self)).to_bytes()

    @classmethod
    def resume(cls, blob: bytes) -> Counter:
        """The counter that :meth:`save` described. Damaged, foreign or newer bytes are refused with
        a ``SavedStateError``."""
        return cls._resume_with_noise(blob, SystemNoise())

    @classmethod
    def _resume_with_noise(cls, blob: bytes, source: NoiseSource) -> Counter:
        state = SavedState.from_bytes(blob)
        try:
            counter = cls._with_noise(state.mechanism, source, width=state.width)
            counter._continue(state.parts)
        except (ValueError, StopIteration) as error:
            raise damaged() from error
        return counter

    def _parts(self) -> Parts:
        rows = [self._total, *self._delayed, *self._ahead[::-1]]
        total, *rows = (np.array(row, dtype=np.int64).reshape(-1) for row in rows)
        return Parts(
            time=self.time,
            total=total,
            delayed=rows[: len(self._delayed)],
            tails=[row.copy() for row in self._path.tails],
            ahead=rows[len(self._delayed) :],
        )

    def _continue(self, parts: Parts) -> None:
        shown, ahead = max(0, parts.time - self._delay), len(parts.ahead)
        if self._horizon is not None and parts.time + ahead > self._horizon:
            raise damaged()
        if len(parts.delayed) != parts.time - shown:
            raise damaged()
        if any(len(row) != self._width for row in (*parts.delayed, *parts.tails, *parts.ahead)):
            raise damaged()
        rows = np.stack([parts.total, *parts.delayed, *parts.ahead])
        self._total, *own = self._listed(rows)
        self._delayed = deque(own[: len(parts.delayed)])
        self._ahead = own[len(parts.delayed) :][::-1]
        self._path.restore(shown + ahead, parts.tails)


def parts_of(counter: Counter) -> Parts:
    """The state of a counter, copied."""
    with counter._lock:
        return counter._parts()


def counter_of(mechanism: Mechanism, parts: Parts, source: NoiseSource | None = None) -> Counter:
    """The counter of the shape (keys,) that continues from these parts; parts that do not fit their
    time are refused."""
    counter = Counter._with_noise(mechanism, source or SystemNoise(), width=len(parts.total))
    counter._continue(parts)
    return counter


def widen(counter: Counter, extra: int) -> None:
    """Give a counter that was only extended so many more keys, which have counted nothing."""
    with counter._lock:
        assert not counter._ahead
        zeros, path = np.zeros(extra, dtype=np.int64), counter._path
        assert not isinstance(path, BridgePath)  # no store has totals
        fresh = path.fresh(extra)
        path.tails = [np.concatenate(both) for both in zip(path.tails, fresh, strict=True)]
        counter._delayed = deque(np.concatenate([row, zeros]) for row in counter._delayed)
        counter._total = np.concatenate([counter._total, zeros])
        counter._width += extra


def _width(shape: tuple[()] | tuple[int]) -> int | None:
    if shape == ():
        return None
    if not isinstance(shape, tuple) or len(shape) != 1:
        raise bad_parameter(
            "shape", shape, "() or (keys,)", "a counter has one running count, or one per key"
        )
    return require_integer(
        "shape[0]", shape[0], minimum=1, maximum=1 << 40, remedy="it is the number of keys"
    )
