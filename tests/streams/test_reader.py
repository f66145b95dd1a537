"""What readers see: published ticks in any range, with intervals that hold, and what an event has
lost."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import fadecount as fc
from fadecount.errors import StoreError
from fadecount.mechanisms import RunningTotal, Unit
from fadecount.mechanisms.noise_distribution import quantile
from fadecount.streams import Description, Reader, Ticks
from tests.mechanisms.examples import half_widths
from tests.streams.backends import Backend, BriefStore, SQLiteBackend, totals_of
from tests.streams.test_contract import MECHANISMS


def describe(mechanism: fc.Mechanism, sensitivity: int = 1) -> Description:
    return Description(
        name="doors",
        mechanism=mechanism,
        ticks=Ticks(tick_seconds=60),
        unit=Unit(amount=sensitivity),
    )


def read(reader: Reader, since: int | None = None, until: int | None = None) -> NDArray[np.int64]:
    rows = list(totals_of(reader, since=since, until=until).values())
    return np.array(rows, dtype=np.int64).reshape(-1, 1)


def test_any_range_of_ticks(backend: Backend) -> None:
    with backend.open() as store:
        stream = store.create(describe(MECHANISMS[0]), start_tick=100)
        values = np.concatenate(
            [stream.close_through(last)[0].values for last in (104, 105, 106, 150)]
        )
    with backend.reader() as reader:
        for since in (None, 0, 100, 103, 105, 106, 149, 150, 151):
            for until in (None, 99, 100, 104, 106, 150, 1000):
                low = max(100, 100 if since is None else since) - 100
                high = min(151, 151 if until is None else until) - 100
                np.testing.assert_array_equal(
                    read(reader, since, until), values[low : max(low, high)]
                )
        assert reader.names() == ["doors"]
        with pytest.raises(StoreError, match="streams of this store: doors"):
            reader.status("windows")


def test_many_small_rows_are_read_in_order(tmp_path: Path) -> None:
    with BriefStore() as store:
        stream = store.create(describe(MECHANISMS[0]), start_tick=0)
        values = np.concatenate([stream.close_through(tick)[0].values for tick in range(150)])
        np.testing.assert_array_equal(read(Reader(store._database)), values)
        np.testing.assert_array_equal(read(Reader(store._database), 70, 140), values[70:140])


def test_a_reader_cannot_write(backend: Backend) -> None:
    with backend.open() as store:
        store.create(describe(MECHANISMS[0]), start_tick=0)
    with backend.reader() as reader, pytest.raises(StoreError):
        reader.database.change("DELETE FROM streams")


def test_a_reader_needs_a_store(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="store must exist"):
        Reader.of_file(tmp_path / "none.db")


def test_a_stream_that_has_closed_no_tick_shows_nothing(tmp_path: Path) -> None:
    backend = SQLiteBackend(tmp_path)
    with backend.open() as store:
        assert store.create(describe(MECHANISMS[0]), start_tick=5).open_tick == 5
    with backend.reader() as reader:
        assert list(reader.stream("doors").running()) == []
        assert reader.loss("doors", 5) == 0.0


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda one: one.kind)
def test_widths_are_the_quantiles_of_each_step(mechanism: RunningTotal) -> None:
    for first, count in ((1, 60), (3, 1), (17, 40)):
        wanted = []
        for step in range(first, first + count):
            shown = mechanism.last_input_included(step)
            budgets, used = mechanism.noise.renewed(0, shown)
            noise = zip(budgets.tolist(), used.tolist(), strict=True)
            wanted.append(quantile(tuple((Fraction(1), *each) for each in noise), 0.05))
        np.testing.assert_array_equal(half_widths(mechanism, first, count), wanted)


def test_widths_hold_with_the_noise_that_is_really_there() -> None:
    """20,000 keys at one step: the share outside is 5 % at most, within 7 standard errors (false
    alarm below 1e-11)."""
    mechanism, keys = fc.Gradual(epsilon=0.2), 20_000
    outputs = fc.Counter(mechanism, shape=(keys,)).extend(np.zeros((21, keys), dtype=np.int64))
    for step in (1, 7, 21):
        width = int(half_widths(mechanism, step, 1)[0])
        outside = float(np.mean(np.abs(outputs[step - 1]) > width))
        assert 0.03 < outside < 0.05 + 7 * (0.05 * 0.95 / keys) ** 0.5


def test_losses_grow_with_sensitivity_and_age(tmp_path: Path) -> None:
    mechanism = fc.Gradual(epsilon=0.1, delay=2)
    with BriefStore() as store:
        store.create(describe(mechanism, sensitivity=3), start_tick=10).close_through(29)
        reader = Reader(store._database)
        assert reader.loss("doors", 30) == 0.0
        assert reader.loss("doors", 28) == 0.0
        for tick, age in ((27, 2), (10, 19), (5, 19)):
            shown, exact = reader.loss("doors", tick), 3 * mechanism.loss(age)
            assert shown == pytest.approx(exact, rel=1e-15)
        later = reader.status("doors").description.loss.at_age(1002)
        assert later.epsilon == pytest.approx(3.0, abs=1e-12)
        assert all(low <= high for low, high in pairwise(reader.curve("doors", list(range(40)))))
