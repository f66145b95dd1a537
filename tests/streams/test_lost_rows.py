"""A row of figures that is lost is noticed: nothing that can be computed takes its place."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest

from fadecount.errors import ParameterError, RemovedError, StoreError
from fadecount.streams import Store
from fadecount.streams.published import Published
from tests.streams.backends import Backend
from tests.streams.block_streams import FIRST, HOURS, create

COUNTS = np.random.default_rng(9).integers(0, 50, (24 * 5, 2)).astype(np.int64)


@contextmanager
def without(store: Store, level: int, stage: int, step: int) -> Iterator[Published]:
    """What is published while the figure of the block that begins at a step is lost."""
    row = " FROM figures WHERE level = ? AND stage = ? AND first_tick = ?"
    place, database = (level, stage, FIRST + step), store._database
    (lost,) = database.query("SELECT *" + row, place)
    assert database.change("DELETE" + row, place) == 1
    published = store.reader().stream("doors")
    assert published is not None
    yield published
    database.change(f"INSERT INTO figures VALUES ({', '.join('?' * len(lost))})", lost)  # noqa: S608


@pytest.fixture
def store(backend: Backend) -> Iterator[Store]:
    """A store of which every tick was released by itself, so that a row is a figure."""
    with backend.open() as store:
        stream = create(store)
        for at, row in enumerate(COUNTS):
            list(stream.release(FIRST + at, row[np.newaxis]))
        yield store


def test_the_figures_of_its_level_are_refused(store: Store) -> None:
    for level, stage, step, per in ((0, 0, 40, "1h"), (1, 0, 38, "6h"), (2, 1, 26, "1d")):
        with without(store, level, stage, step) as published:
            with pytest.raises(StoreError, match="incomplete"):
                published.figures(per)
            later = published.figures(per, since=FIRST + 74)
            assert len(later) and later.known.all(), "others are there"


def test_a_view_that_needs_it_is_refused(store: Store) -> None:
    for level, stage, step in ((0, 0, 118), (1, 0, 103), (2, 1, 26)):
        with without(store, level, stage, step) as published:
            with pytest.raises(StoreError, match="incomplete"):
                published.total()
            with pytest.raises(StoreError, match="incomplete"):
                published.window(FIRST + step - 1, FIRST + len(COUNTS))
            assert published.window(FIRST + 2, FIRST + 14).known.all(), "it does not need the row"


def test_a_time_that_cannot_be_asked_about_says_why(backend: Backend) -> None:
    with backend.open() as store:
        stream = create(store)
        list(stream.release(FIRST, COUNTS))
        published = store.reader().stream("doors")
        assert published is not None
        with pytest.raises(ParameterError, match="the stream begins there"):
            published.total(as_of=FIRST - 1)
        with pytest.raises(ParameterError, match="later figures are not public yet"):
            published.total(as_of=FIRST + len(COUNTS) + 1)
        store.retain("doors", HOURS.tick_seconds)
        while store.upkeep("doors"):
            pass
        published = store.reader().stream("doors")
        assert published is not None
        with pytest.raises(RemovedError, match="were removed"):
            published.total(as_of=FIRST + 1)
        assert published.total().known.all()
        assert len(published.figures("1h")) and len(published.figures("1d")), "what is kept"
