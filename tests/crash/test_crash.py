"""A short kill campaign (200 kills), and proof that it would notice: stores with a fault are found
out."""

from __future__ import annotations

import itertools
import os
import random
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from campaigns.crash import campaign as crash
from campaigns.crash import worker
from campaigns.crash.campaign import campaign
from numpy.typing import NDArray

from fadecount.counters.counter import counter_of
from fadecount.counters.figures import OpenBlock
from fadecount.counters.state import Parts
from fadecount.streams import inputs, state, stream
from fadecount.streams.embargo import embargo
from fadecount.streams.status import Status, read_status
from tests.streams.conftest import postgres_url

__all__ = ["postgres_url"]

ON_SQLITE, ON_POSTGRES = 160, 40
SEED = random.SystemRandom().randrange(1 << 30)


@pytest.fixture
def folder() -> Iterator[Path]:
    """In memory where that exists: a kill does not ask for more, and the campaign is faster."""
    memory = Path("/dev/shm")  # noqa: S108 - a private folder is made in it
    with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as made:
        yield Path(made)


def test_kills_on_sqlite(folder: Path) -> None:
    # so few in a store that every mechanism has its turn
    tally = campaign(folder, ON_SQLITE, SEED, None, lives_per_store=13)
    print(f"seed {SEED}: {tally.text()}")
    assert tally.kills >= ON_SQLITE
    assert tally.steps > 100
    assert len([step for step, kills in tally.at_steps.items() if kills]) > 10
    assert tally.figures > 500 and all(tally.at_events[event] for event in worker.EVENTS)


def test_kills_on_postgres(folder: Path, postgres_url: str) -> None:
    import psycopg

    numbers = itertools.count()

    def new_url() -> str:
        schema = f"crash{next(numbers)}"
        with psycopg.connect(postgres_url, autocommit=True) as connection:
            connection.execute(f"CREATE SCHEMA {schema}".encode())
        return f"{postgres_url}&options=-csearch_path%3D{schema}"

    tally = campaign(folder, ON_POSTGRES, SEED, new_url, lives_per_store=14)
    print(f"seed {SEED}: {tally.text()}")
    assert tally.kills >= ON_POSTGRES


def test_it_notices_batches_counted_twice(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inputs.Intake, "_remember", lambda _intake, ids, _tick: [True] * len(ids))
    with pytest.raises(
        AssertionError,
        match=r"counted again|stored together|not what inputs and noise say|not those committed",
    ):
        campaign(folder, 100, 1, None, lives_per_store=20)


def test_it_notices_lost_inputs(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(_context: object, statuses: Sequence[Status]) -> dict[int, NDArray[np.int64]]:
        return {status.id: np.zeros(status.width, dtype=np.int64) for status in statuses}

    monkeypatch.setattr(stream, "take_inputs", nothing)
    with pytest.raises(AssertionError, match=r"not those committed|not what inputs and noise say"):
        campaign(folder, 100, 1, None, lives_per_store=20)


def test_it_notices_a_cap_that_is_passed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crash, "UNITS", [worker.UNITS[1]])
    monkeypatch.setattr(inputs.Intake, "_capped", lambda _intake, _block, entries: entries)
    with pytest.raises(AssertionError, match=r"not those committed|not what inputs and noise say"):
        campaign(folder, 100, 1, None, lives_per_store=20)


def test_it_notices_a_position_that_is_not_stored_with_what_was_read(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    accept = inputs.Intake._accept
    monkeypatch.setattr(
        inputs.Intake,
        "_accept",
        lambda intake, acceptance: accept(intake, replace(acceptance, position=None)),
    )
    with pytest.raises(AssertionError, match=r"were not stored together|nobody sent"):
        campaign(folder, 100, 1, None, lives_per_store=20)


def test_it_notices_noise_drawn_again_after_a_restart(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forgetful(mechanism: Any, parts: Parts, source: Any) -> Any:
        fresh = [row + 1 for row in parts.tails]
        return counter_of(
            mechanism,
            Parts(time=parts.time, total=parts.total, delayed=parts.delayed, tails=fresh),
            source,
        )

    monkeypatch.setattr(state, "counter_of", forgetful)
    with pytest.raises(AssertionError, match=r"not those committed|not what inputs and noise say"):
        campaign(folder, 100, 1, None, lives_per_store=20)


def test_it_notices_releases_that_are_never_published(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "publish", lambda _, committed: [status for status, _ in committed])
    monkeypatch.setattr(
        stream, "recover", lambda context, name: read_status(context.database, name)
    )
    with pytest.raises(AssertionError, match="published steps are missing"):
        campaign(folder, 100, 1, None, lives_per_store=20)


def test_it_notices_a_figure_that_is_shown_before_its_time(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def early(place: Any, waiting: Sequence[tuple[int, Any]]) -> None:
        sooner = [(tick - (15 if rows.stage else 2), rows) for tick, rows in waiting]
        embargo(place, sooner)

    monkeypatch.setattr(stream, "embargo", early)
    with pytest.raises(AssertionError, match="shown before their time"):
        campaign(folder, 100, 1, None)


def test_it_notices_figures_that_are_lost_under_embargo(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        stream,
        "embargo",
        lambda place, waiting: embargo(place, waiting[1:]),
    )
    with pytest.raises(AssertionError, match="are missing"):
        campaign(folder, 100, 1, None)


def test_it_notices_counts_of_open_blocks_that_are_lost(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Forgetful(OpenBlock):
        def __init__(self, *, count: NDArray[np.int64], **others: Any) -> None:
            super().__init__(count=np.zeros_like(count), **others)

    monkeypatch.setattr(state, "OpenBlock", Forgetful)
    with pytest.raises(AssertionError, match=r"not what inputs and noise say|drawn again"):
        campaign(folder, 100, 1, None, lives_per_store=20)
