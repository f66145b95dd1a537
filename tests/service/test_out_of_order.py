"""One stream, the audit log or the disk is out of order: the log says so, and the rest goes on."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from fadecount.service import writer
from fadecount.streams.audit_log import FILE_NAME
from tests.service.harness import Harness, StillClock, wait_for


def change(folder: Path, sql: str) -> None:
    """Change a row of the database behind the back of a service. The stream 2 is gates."""
    with closing(sqlite3.connect(folder / "state" / "streams.db")) as database:
        assert database.execute(sql).rowcount == 1
        database.commit()


@pytest.fixture
def stopped(tmp_path: Path) -> StillClock:
    """A stopped service of the streams doors, gates and windows: its clock."""
    with Harness(tmp_path) as harness:
        for name in ("doors", "gates", "windows"):
            harness.create(name)
        harness.close_tick(2)
        assert isinstance(harness.clock, StillClock)
        return harness.clock


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE state SET body = 'damaged' WHERE kind = 0 AND stream = 2",
        "UPDATE key_blocks SET names = '[' WHERE stream = 2",
        "DELETE FROM secrets WHERE stream = 2",
        "UPDATE streams SET description = '{}' WHERE id = 2",
        "UPDATE streams SET kept = '7' WHERE id = 2",
        "UPDATE streams SET first_tick = 'no number' WHERE id = 2",
    ],
)
def test_one_damaged_stream_stops_no_other(
    tmp_path: Path, stopped: StillClock, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    change(tmp_path, damage)
    with Harness(tmp_path, clock=stopped) as harness:
        assert "stream gates is refused: " in caplog.text
        event = {"events": [{"key": "a"}]}
        for name, status in (("doors", 202), ("gates", 503), ("windows", 202)):
            assert harness.post(f"/v1/streams/{name}/events", event).status == status
        assert harness.post("/v1/streams/gates/keys", {"keys": ["c"]}).status == 503
        listed = harness.request("GET", "/v1/streams", token=harness.admin).json()["streams"]
        states = {each["name"]: each["state"] for each in listed}
        assert states.pop("gates", "refused") == "refused"
        assert states == {"doors": "running", "windows": "running"}
        assert harness.request("GET", "/v1/streams/gates", token=harness.admin).status in (200, 503)
        deleted = harness.request("DELETE", "/v1/streams/gates", token=harness.admin)
        assert deleted.status in (200, 503)
        harness.close_tick(name="windows")
        assert harness.request("GET", "/readyz").status == 200


def test_a_list_goes_on_behind_what_is_damaged(tmp_path: Path, stopped: StillClock) -> None:
    change(tmp_path, "UPDATE streams SET kept = '7' WHERE name = 'gates'")
    with Harness(tmp_path, clock=stopped) as harness:
        reader = harness.service.pool._connect()
        with closing(reader):
            for after, names in (("", ["doors", "windows"]), ("doors", ["windows"])):
                assert [each.description.name for each in reader.statuses(after=after)] == names
            (one,) = reader.statuses(after="doors", limit=1)
            assert one.description.name == "windows"


def test_damage_that_shows_when_a_tick_is_closed_stops_no_other(
    harness: Harness, caplog: pytest.LogCaptureFixture
) -> None:
    harness.create("gates")
    event = {"events": [{"key": "a"}]}
    for name in ("doors", "gates"):
        assert harness.post(f"/v1/streams/{name}/events", event).status == 202
    change(harness.storage.folder.parent, "UPDATE inputs SET body = 'damaged' WHERE stream = 2")
    harness.close_tick()
    assert "stream gates cannot go on (state is damaged" in caplog.text
    assert harness.post("/v1/streams/doors/events", event).status == 202
    assert harness.post("/v1/streams/gates/events", event).status == 503
    harness.close_tick()


def test_what_cannot_be_recorded_waits(
    harness: Harness, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Old figures stay until their removal can be recorded."""
    monkeypatch.setattr(writer, "UPKEEP_SECONDS", 0.05)
    harness.close_tick(60)
    harness.retain("doors", 600)
    first = harness.stream("doors").status.shown_from
    path = harness.storage.folder / FILE_NAME
    path.rename(path.with_suffix(".kept"))
    path.mkdir()
    harness.close_tick(60)
    wait_for(lambda: "stream doors keeps its old figures: audit log" in caplog.text)
    shown = harness.stream("doors").status.shown_from
    assert first <= shown < harness.stream("doors").last_tick - 15
    assert harness.post("/v1/streams/doors/events", {"events": [{"key": "a"}]}).status == 202
    path.rmdir()
    harness.close_tick()
    wait_for(lambda: harness.stream("doors").status.shown_from > shown)
    assert json.loads(path.read_text().splitlines()[-1])["act"] == "releases removed"


def test_a_full_disk_is_named(harness: Harness, caplog: pytest.LogCaptureFixture) -> None:
    """SQLite itself refuses to grow its file."""

    async def fill() -> None:
        limit = "PRAGMA max_page_count = 1"
        await harness.service.writer.call(lambda leader: leader._store._database.query(limit))

    asyncio.run_coroutine_threadsafe(fill(), harness.service._loop).result(20)
    for turn in range(200):
        keys = {"keys": [f"{turn}-{number}" for number in range(1000)]}
        if harness.post("/v1/streams/doors/keys", keys).status != 200:
            break
    assert "the service cannot write: store failed: no space left on the disk" in caplog.text
    wait_for(lambda: harness.service.writer.failed)
