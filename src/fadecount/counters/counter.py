"""The running counter: one input in, one private running count out."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from typing import Any, NoReturn, Self, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fadecount.checks import require_integer
from fadecount.counters.inputs import LARGEST_SUM, Inputs
from fadecount.counters.memory_path import MemoryPath
from fadecount.counters.path import IntervalPath, NoisePath
from fadecount.counters.state import Parts, SavedState, check_parts, damaged
from fadecount.errors import HorizonError, ParameterError, bad_parameter
from fadecount.mechanisms import Blocks, Figure, IntervalSchedule, Mechanism
from fadecount.noise import Lineage, NoiseSource, SystemNoise, require_lineage

Row = Sequence[int] | NDArray[np.integer]
"""The inputs of one step: one number per key."""


class Counter:
    """A private running count of a stream, or a vector of them (one per key).

    ``step`` takes the input of one step and returns the noisy sum of the inputs so far; ``extend``
    does many steps at once, with the same law and the same state afterwards. Inputs are integers:
    numbers of events.

    Guarantees: the outputs have the privacy loss that ``mechanism.loss`` states, for streams that
    differ by at most 1 in one step of one key. Noise comes from the operating system's entropy,
    each variable is drawn once and never again, also across :meth:`save` and :meth:`resume`; a
    forked child process is refused with a ``ForkedError``. A call that raises changes nothing.
    Calls from several threads are serialized. Assumes: a saved state is resumed at most once; two
    counters that continue from one state reveal more than stated. Costs: O(1) draws per step on
    average; O(delay + log(time)) memory per key. Proof: docs/theory.md, section 2.

    >>> import fadecount as fc
    >>> counter = fc.Counter(fc.Gradual(epsilon=0.5, exponent=2.0))
    >>> noisy = [counter.step(1) for _ in range(100)]
    >>> counter.time
    100
    """

    __slots__ = (
        "_delay",
        "_delayed",
        "_horizon",
        "_inputs",
        "_lineage",
        "_lock",
        "_mechanism",
        "_path",
        "_total",
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
            raise bad_parameter(
                "mechanism",
                mechanism,
                "a fadecount mechanism",
                "such as fadecount.Gradual(epsilon=0.1)",
            )
        schedule = mechanism.schedule
        if mechanism.loss(schedule.delay) == np.inf:
            raise ParameterError(
                "mechanism must have a finite loss, got inf; make the first budget finite"
            )
        self._inputs = Inputs(width)
        self._mechanism = mechanism
        self._delay, self._horizon = schedule.delay, schedule.horizon
        self._path: NoisePath | MemoryPath | IntervalPath
        if schedule.memories is not None:
            self._path = MemoryPath(schedule.memories, source, width=width)
        elif isinstance(schedule, IntervalSchedule):
            self._path = IntervalPath(schedule, source, width=width)
        else:
            self._path = NoisePath(schedule, source, width=width)
        self._total: Any = 0 if width is None else np.zeros(width, dtype=np.int64)
        self._delayed: deque[Any] = deque()
        self._lock = threading.Lock()
        self._lineage = Lineage.current

    def __repr__(self) -> str:
        return f"Counter({self._mechanism!r}, shape={self.shape}, time={self.time})"

    @property
    def mechanism(self) -> Mechanism:
        """The mechanism that this counter runs."""
        return self._mechanism

    @property
    def shape(self) -> tuple[()] | tuple[int]:
        """``()`` for one count, ``(keys,)`` for one count of each key."""
        return () if self._inputs.width is None else (self._inputs.width,)

    @property
    def time(self) -> int:
        """How many steps have been taken, including those that are still delayed."""
        return self._path.shown + len(self._delayed)

    @overload
    def step(self, item: int) -> int: ...
    @overload
    def step(self, item: Row) -> NDArray[np.int64]: ...
    def step(self, item: int | Row) -> int | NDArray[np.int64]:
        """Count one step's input and return the output: an int, or an array over the keys."""
        if self._lineage is not Lineage.current:
            require_lineage(self._lineage)
        inputs = self._inputs
        plain = inputs.width is None
        counted: Any = item
        if item.__class__ is not int or not plain or not -LARGEST_SUM <= counted <= LARGEST_SUM:
            counted = inputs.one(item)
        lock = self._lock
        lock.acquire()  # a with statement would take as long as a draw
        try:
            if self._horizon is not None:
                self._check_horizon(1)
            delay = self._delay
            if delay and len(self._delayed) < delay:
                self._delayed.append(counted)
                return 0 if inputs.width is None else np.zeros(inputs.width, dtype=np.int64)
            total = self._total + (self._delayed[0] if delay else counted)
            if not plain or not -LARGEST_SUM <= total <= LARGEST_SUM:
                inputs.require_exact(total)
            noisy: int | NDArray[np.int64] = total + self._path.step()
            if delay:
                self._delayed.popleft()
                self._delayed.append(counted)
            self._total = total
            return noisy
        finally:
            lock.release()

    def extend(self, items: ArrayLike) -> NDArray[np.int64]:
        """Count the inputs of many steps, in the shape (steps,) or (steps, keys), and return as
        many outputs."""
        require_lineage(self._lineage)
        inputs = self._inputs
        array = inputs.many(items)
        count = len(array)
        with self._lock:
            self._check_horizon(count)
            waiting = _stacked(list(self._delayed), array)
            missing = min(count, max(0, self._delay - self.time))
            shown = count - missing
            released = np.empty(array.shape, dtype=np.int64)
            released[:missing] = 0
            if shown:
                sums = inputs.running(self._total, waiting[:shown], out=released[missing:])
                total = int(sums[-1]) if inputs.width is None else sums[-1].copy()
                self._path.add_to(sums)
                self._total = total
            if self._delay:
                rest = waiting[shown:]
                self._delayed = deque(
                    rest.tolist() if inputs.width is None else [row.copy() for row in rest]
                )
        return released

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
        return SavedState(
            mechanism=self._mechanism, width=self._inputs.width, parts=parts_of(self)
        ).to_bytes()

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
        except ParameterError as error:
            raise damaged() from error
        counter._continue(state.parts)
        return counter

    def _continue(self, parts: Parts) -> None:
        if self._horizon is not None and parts.time > self._horizon:
            raise damaged()
        own: Any = int if self._inputs.width is None else np.copy
        self._total = own(parts.total)
        self._delayed = deque(map(own, parts.delayed))
        self._path.tails = [own(row) for row in parts.tails]
        self._path.shown = max(0, parts.time - self._delay)


def parts_of(counter: Counter) -> Parts:
    """The state of a counter, copied."""
    with counter._lock:
        return Parts(
            time=counter.time,
            total=np.array(counter._total),
            delayed=[np.array(row) for row in counter._delayed],
            tails=[np.array(row) for row in counter._path.tails],
        )


def counter_of(mechanism: Mechanism, parts: Parts, source: NoiseSource | None = None) -> Counter:
    """The counter of the shape (keys,) that continues from these parts; parts that do not fit their
    time are refused."""
    counter = Counter._with_noise(mechanism, source or SystemNoise(), width=len(parts.total))
    check_parts(mechanism, parts)
    counter._continue(parts)
    return counter


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


def _stacked(waiting: list[Any], array: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.concatenate([np.array(waiting, dtype=np.int64), array]) if waiting else array
