"""Feeding a stream from arrays, and group commit from many threads."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fadecount as fc
from fadecount.errors import AlreadyReleasedError, ClockError, InputError
from fadecount.streams import (
    Description,
    Feed,
    LiveFeed,
    Reader,
    SQLiteStore,
    Store,
    Stream,
    Ticks,
    chunks,
)
from tests.streams.backends import Backend
from tests.streams.scripted import NamedNoise, expected

MECHANISM = fc.Gradual(epsilon=0.5)
DESCRIPTION = Description(name="doors", mechanism=MECHANISM, ticks=Ticks(tick_seconds=60))


def create(keys: int = 3) -> tuple[Store, Stream]:
    store = SQLiteStore.in_memory()
    store._noise = NamedNoise()
    return store, store.create(DESCRIPTION, keys=[f"k{at}" for at in range(keys)])


def arrays(events: list[tuple[int, int, int]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    table = np.array(events, dtype=np.int64).reshape(-1, 3)
    return table[:, 0], table[:, 1], table[:, 2]


EVENTS = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 2), st.integers(0, 9)), min_size=1, max_size=40)


@settings(max_examples=60, deadline=None)
@given(events=EVENTS, cuts=st.lists(st.integers(0, 40), max_size=4), cells=st.sampled_from([3, 12, 30, 1 << 19]))
def test_all_events_count_in_their_ticks_however_they_are_cut(
    events: list[tuple[int, int, int]], cuts: list[int], cells: int
) -> None:
    events = sorted(events, key=lambda each: each[0])
    first, last = events[0][0], events[-1][0]
    wanted = np.zeros((last - first + 1, 3), dtype=np.int64)
    for tick, key, count in events:
        wanted[tick - first, key] += count
    store, stream = create()
    with pytest.MonkeyPatch.context() as patch, store:
        for module in ("stream", "feeds"):
            patch.setattr(f"fadecount.streams.{module}.CELLS", cells)
        feed, done = Feed(stream), []
        bounds = sorted({0, len(events), *(cut for cut in cuts if cut < len(events))})
        for low, high in pairwise(bounds):
            done += list(feed.add(*arrays(events[low:high])))
        done += list(feed.finish())
        assert list(feed.finish()) == []
    assert done[0].first_tick == first
    np.testing.assert_array_equal(np.concatenate([chunk.values for chunk in done]), expected(MECHANISM, wanted))


def test_released_ticks_are_refused_or_skipped() -> None:
    store, stream = create(1)
    with store:
        feed = Feed(stream)
        list(feed.add(*arrays([(10, 0, 1), (12, 0, 1)])))
        list(feed.finish())
        again = Feed(stream)
        with pytest.raises(AlreadyReleasedError, match="released up to 1970-01-01T00:13:00Z, the input begins"):
            list(again.add(*arrays([(12, 0, 1), (14, 0, 1)])))
        more = Feed(stream, skip_released=True)
        list(more.add(*arrays([(10, 0, 1), (12, 0, 1), (14, 0, 1)])))
        (chunk,) = more.finish()
        assert more.skipped == 2
        assert chunk.last_tick == 14


def test_bad_arrays_are_refused_and_nothing_is_released() -> None:
    store, stream = create(1)
    with store:
        for events, error in (
            ([(5, 0, 1), (4, 0, 1)], InputError),
            ([(5, 1, 1)], InputError),
            ([(5, -1, 1)], InputError),
            ([(5, 0, -1), (6, 0, 0)], InputError),
        ):
            with pytest.raises(error):
                list(Feed(stream).add(*arrays(events)))
        assert stream.status.steps == 0
        feed = Feed(stream, largest_gap=100)
        list(feed.add(*arrays([(5, 0, 1), (500, 0, 1)])))
        with pytest.raises(ClockError, match="at most 100 empty ticks, got 494"):
            list(feed.finish())
        assert list(feed.add(*arrays([]))) == []


def test_a_gap_of_ten_million_ticks_is_released_and_can_be_read() -> None:
    """Through extend, in chunks: every tick has its own release."""
    store, stream = create(1)
    store._noise = None
    with store:
        stream = store.open("doors")
        stream.close_through(0)
        ticks = 0
        for chunk in stream.release(10_000_000, np.ones((1, 1), dtype=np.int64)):
            assert len(chunk.values) <= chunks.CELLS
            ticks += len(chunk.values)
        assert ticks == 10_000_000
        (piece,) = Reader(store._database).releases("doors", since=9_999_990, until=9_999_999)
        assert piece.values.shape == (10, 1)
        assert stream.status.steps == 10_000_001


def test_inputs_need_a_stream_that_has_begun() -> None:
    store, stream = create(1)
    with store, pytest.raises(fc.errors.ParameterError, match="create it with start_tick"):
        stream.add({"k0": 1})


def test_a_live_feed_makes_counts_durable_before_their_tick_is_over(backend: Backend) -> None:
    noise = NamedNoise()
    with backend.open(noise=noise) as store:
        feed = LiveFeed(store.create(DESCRIPTION, keys=["a", "b"]))
        assert list(feed.add(*arrays([(5, 0, 2), (5, 1, 1), (5, 0, 0)]))) == []
        done = list(feed.add(*arrays([(5, 0, 1), (7, 1, 4)])))
        assert [chunk.last_tick for chunk in done] == [6]
    with backend.open(noise=noise) as store:
        feed = LiveFeed(store.open("doors"))
        assert list(feed.add(*arrays([(6, 0, 9)]))) == [], "late counts go into the open tick"
        done += list(feed.finish())
        with pytest.raises(AlreadyReleasedError, match="begun already"):
            store.open("doors").begin(3)
    wanted = np.array([[3, 1], [0, 0], [9, 4]])
    np.testing.assert_array_equal(np.concatenate([chunk.values for chunk in done]), expected(MECHANISM, wanted))
