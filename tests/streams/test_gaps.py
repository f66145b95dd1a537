"""Long gaps and bad arrays: what is released in pieces, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

import fadecount as fc
from fadecount.errors import ClockError, InputError
from fadecount.streams import Description, Reader, Store, Stream, Ticks
from fadecount.streams.figures import CELLS
from tests.streams.backends import BriefStore
from tests.streams.scripted import NamedNoise

MECHANISM = fc.Gradual(epsilon=0.5)
DESCRIPTION = Description(name="doors", mechanism=MECHANISM, ticks=Ticks(tick_seconds=60))


def create(start_tick: int) -> tuple[Store, Stream]:
    store = BriefStore()
    store._context.noise = NamedNoise()
    return store, store.create(DESCRIPTION, start_tick=start_tick)


def test_bad_arrays_and_gaps_are_refused_and_nothing_is_released(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("fadecount.streams.stream.MOST_TICKS", 100)
    store, stream = create(5)
    with store:
        for rows in (np.full((1, 1), -1), np.ones((1, 2), dtype=np.int64), np.ones((1, 1))):
            with pytest.raises(InputError):
                list(stream.release(5, rows))  # type: ignore[arg-type]
        assert stream.status.steps == 0
        list(stream.release(5, np.ones((1, 1), dtype=np.int64)))
        with pytest.raises(ClockError, match="at most 100 empty ticks, got 494"):
            list(stream.release(500, np.ones((1, 1), dtype=np.int64)))
        assert stream.status.steps == 1


def test_a_gap_of_ten_million_ticks_is_released_and_can_be_read() -> None:
    """Through extend, in pieces: every tick has its own release."""
    store, stream = create(0)
    store._context.noise = None
    with store:
        stream = store.open("doors")
        stream.close_through(0)
        ticks = 0
        for closed in stream.release(10_000_000, np.ones((1, 1), dtype=np.int64)):
            assert len(closed.values) <= CELLS
            ticks += len(closed.values)
        assert ticks == 10_000_000
        (piece,) = (
            Reader(store._database).stream("doors").running(since=9_999_990, until=10_000_000)
        )
        assert piece.values.shape == (10, 1)
        assert stream.status.steps == 10_000_001
