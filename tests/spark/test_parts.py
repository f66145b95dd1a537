"""The parts without Spark: secrets, identities, rosters, pending counts, parameters, and what an
error says."""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fadecount as fc
from fadecount.errors import CheckpointError, FadecountError, ParameterError, SavedStateError

pytest.importorskip("pyspark", reason="needs fadecount[spark]")

from fadecount.spark import explain
from fadecount.spark.checkpoint import require_classic
from fadecount.spark.job import Identity, probe, proof_of, read_secret, require_location
from fadecount.spark.parameters import Parameters, require_column
from fadecount.spark.shard import Pending, Roster
from tests.spark.micro_batches import make_job
from tests.spark.oracle import START

GOOD: dict[str, Any] = {
    "tick": "1h",
    "start": "2026-01-01",
    "end": None,
    "late": "10m",
    "shards": 8,
    "beta": 0.05,
    "stream": "visits",
    "secret": "env:FADECOUNT_TEST_SECRET",
    "streaming": True,
}


def test_a_secret_comes_from_a_file_or_a_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "secret"
    place.write_text("a" * 40 + "\n")
    monkeypatch.setenv("FADECOUNT_TEST_SECRET", " " + "a" * 40)
    assert read_secret(f"file:{place}") == read_secret("env:FADECOUNT_TEST_SECRET") == b"a" * 40
    assert probe(f"file:{place}") == (proof_of(b"a" * 40), "")
    assert proof_of(b"a" * 40) != proof_of(b"a" * 39 + b"b")


def test_a_missing_or_short_secret_is_told_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("FADECOUNT_TEST_SECRET", raising=False)
    place = tmp_path / "secret"
    missing = (
        f"secret must be readable, got {str(place)!r} (No such file or directory) on an executor;"
        " put it there"
    )
    assert probe(f"file:{place}") == ("", missing)
    unset = (
        "secret must exist, got no environment variable FADECOUNT_TEST_SECRET on an executor; set"
        " it there"
    )
    assert probe("env:FADECOUNT_TEST_SECRET") == ("", unset)
    place.write_text("hunter2" * 4 + "abc\n")
    short = "secret must have at least 32 bytes, got 31; make one with: openssl rand -hex 32"
    assert probe(f"file:{place}") == ("", short)


@pytest.mark.parametrize(
    "given", [None, "", "correct horse battery staple", b"0" * 32, "env:", "env:A B", "file:"]
)
def test_what_is_no_place_for_a_secret_is_refused_and_not_shown(given: Any) -> None:
    with pytest.raises(ParameterError, match=r"^secret must be") as caught:
        require_location(given)
    assert "horse" not in str(caught.value)
    assert "000" not in str(caught.value)


def test_an_identity_reads_back_and_damage_is_refused() -> None:
    identity = make_job(fc.Gradual(epsilon=0.5)).identity
    assert Identity.from_json(identity.to_json()) == identity
    assert identity.description == fc.Gradual(epsilon=0.5)
    newer = json.dumps({**json.loads(identity.to_json()), "version": 2})
    with pytest.raises(CheckpointError, match=r"^checkpoint must have version <= 1, got 2"):
        Identity.from_json(newer)
    for damaged in ("", "[]", "{}", '{"version": 1}', identity.to_json()[:-2]):
        with pytest.raises(CheckpointError, match=r"^checkpoint must hold a whole identity"):
            Identity.from_json(damaged)


def test_the_clock_closes_a_tick_at_its_end_and_not_before() -> None:
    identity = make_job(fc.Gradual(epsilon=0.5), tick=60).identity
    milliseconds = (-1, 0, 59_999, 60_000, 60_001, 600_000)
    opened = [identity.open_tick(1000 * START + each) for each in milliseconds]
    assert opened == [0, 0, 0, 1, 1, 10]
    assert identity.open_tick(0) == 0
    assert identity.tick_start(2) == START + 120


def test_a_roster_reads_back_and_finds_its_keys() -> None:
    roster = Roster.of(["b", "", "日本", "a", "b"]).tagged(bytes(32))
    again = Roster.from_bytes(roster.to_bytes())
    assert again.names.tolist() == ["", "a", "b", "日本"]
    assert np.array_equal(again.tags, roster.tags)
    assert again.positions(["b", "x", "日本"]).tolist() == [2, -1, 3]
    for damaged in (b"", roster.to_bytes()[:-1], roster.to_bytes() + b"0", b"\xff" * 30):
        with pytest.raises(SavedStateError, match=r"^keys of a shard must be whole"):
            Roster.from_bytes(damaged)
    with pytest.raises(ParameterError, match=r"^keys must not hold null"):
        Roster.of(["a", None])


@pytest.mark.parametrize("largest", [3, 300, 70_000, 1 << 40])
def test_pending_counts_read_back_in_every_width(largest: int) -> None:
    cells = np.array([0, largest, largest, 2], dtype=np.uint64)
    pending = Pending.empty().with_counts(cells, np.array([1, largest, 1, 5], dtype=np.uint64))
    again = Pending.from_bytes(pending.to_bytes())
    assert again.cells.tolist() == [0, 2, largest]
    assert again.counts.tolist() == [1, 5, largest + 1]
    early, rest = again.before(3)
    assert early.dense(0, 4).tolist() == [1, 0, 5, 0]
    assert rest.cells.tolist() == [largest]
    for damaged in (b"", b"\x09\x00", pending.to_bytes()[:-1]):
        with pytest.raises(SavedStateError, match=r"^pending counts must be whole"):
            Pending.from_bytes(damaged)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tick": 0}, "tick must be an integer from 1"),
        ({"tick": -60}, "tick must be an integer from 1"),
        ({"tick": "soon"}, "tick must be a positive duration"),
        ({"tick": timedelta(milliseconds=1500)}, "tick must be whole seconds"),
        ({"tick": None}, "tick must be an integer"),
        ({"start": "yesterday"}, "start must be a point in time"),
        ({"start": datetime(1969, 1, 1, tzinfo=UTC)}, "start must be an integer from 0"),
        (
            {"start": datetime(2026, 1, 1, microsecond=1, tzinfo=UTC)},
            "start must be in whole seconds",
        ),
        ({"late": -1}, "late must be an integer from 0"),
        ({"shards": 0}, "shards must be an integer from 1"),
        ({"shards": True}, "shards must be an integer from 1"),
        ({"beta": 1.0}, "beta must be strictly between 0 and 1"),
        ({"stream": ""}, "stream must be a name"),
        ({"secret": None}, "secret must be given"),
        ({"end": "2026-02-01"}, "end must not be given for a stream"),
        ({"streaming": False}, "end must be given for a table"),
        (
            {"streaming": False, "end": "2026-01-01T00:30"},
            "end must be a whole number of ticks after start",
        ),
        (
            {"streaming": False, "end": "2025-12-31"},
            "end must be a whole number of ticks after start",
        ),
        ({"mechanism": "gradual"}, "mechanism must be a fadecount mechanism"),
        ({"mechanism": fc.Designed(budgets=(math.inf,))}, "mechanism must have a finite loss"),
    ],
)
def test_a_bad_parameter_is_refused_in_one_line(changes: dict[str, Any], message: str) -> None:
    given = {"mechanism": fc.Gradual(epsilon=0.5), **GOOD, **changes}
    with pytest.raises(FadecountError, match=f"^{message}") as caught:
        Parameters.checked(given.pop("mechanism"), **given)
    assert "\n" not in str(caught.value)


def test_good_parameters_are_taken_in_every_form() -> None:
    plain = Parameters.checked(fc.Gradual(epsilon=0.5), **GOOD)
    assert (plain.tick_seconds, plain.late_seconds, plain.start_seconds, plain.ticks) == (
        3600,
        600,
        START,
        0,
    )
    other = {
        **GOOD,
        "tick": timedelta(hours=1),
        "late": "0s",
        "start": datetime(2026, 1, 1, tzinfo=UTC),
    }
    assert Parameters.checked(fc.Gradual(epsilon=0.5), **other).late_seconds == 0
    table = Parameters.checked(
        fc.Gradual(epsilon=0.5), **{**GOOD, "streaming": False, "end": "2026-01-02"}
    )
    assert table.ticks == 24
    assert require_column("key", "page", ["at", "page"]) == "page"
    with pytest.raises(
        ParameterError, match=r"^key must be a column of the events \(at\), got 'page'"
    ):
        require_column("key", "page", ["at"])


def test_a_session_without_a_driver_of_its_own_is_refused() -> None:
    with pytest.raises(
        ParameterError, match=r"^session must be of Spark's classic API, got one of Spark Connect"
    ):
        require_classic(object())


def test_an_error_of_spark_without_one_of_ours_is_not_explained() -> None:
    assert explain(RuntimeError("java.lang.OutOfMemoryError")) is None
