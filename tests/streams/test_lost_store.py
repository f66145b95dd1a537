"""A store is lost and its fence is not: nothing is published a second time under the names that the
lost one has used."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import fadecount as fc
from fadecount.cli.main import main
from fadecount.errors import FenceError
from fadecount.streams import (
    Description,
    FileFence,
    PostgresStore,
    ServerFence,
    SQLiteStore,
    Store,
    Ticks,
)
from fadecount.streams.fence import Fence
from tests.streams.backends import Backend, PostgresBackend

MECHANISM = fc.Gradual(epsilon=0.5)
USED = "was used at this place by a stream that this store does not have"


def describe(name: str = "doors") -> Description:
    return Description(name=name, mechanism=MECHANISM, ticks=Ticks(tick_seconds=60))


def store_in(folder: Path, name: str = "state", *, fence: Fence | None = None) -> Store:
    return SQLiteStore(folder / name / "streams.db", fence=fence or FileFence(folder / "fence"))


def publish(store: Store, name: str = "doors") -> None:
    store.create(describe(name), start_tick=1).close_through(3)


def lose(backend: Backend) -> None:
    """Everything in the store is gone; what is made there next is at the same place."""
    if isinstance(backend, PostgresBackend):
        import psycopg

        url, _, schema = backend.url.partition("&options=-csearch_path%3D")
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(f"DROP SCHEMA {schema} CASCADE; CREATE SCHEMA {schema}".encode())
    else:
        shutil.rmtree(backend.folder / "state")


def test_a_new_store_in_the_place_of_a_lost_one_is_refused_the_name(backend: Backend) -> None:
    with backend.open() as store:
        publish(store)
        publish(store, "deleted")
        store.delete("deleted")
    lose(backend)
    before = {path.name: path.read_bytes() for path in backend.fence.folder.glob("fence.db")}
    with backend.open() as store:
        for name in ("doors", "deleted"):
            with pytest.raises(FenceError, match=USED) as refused:
                store.create(describe(name), start_tick=1)
            said = str(refused.value)
            assert (
                "\n" not in said
                and str(backend.fence.folder) in said
                and "restore that store" in said
            )
        with pytest.raises(FenceError, match=USED):
            ticks = Ticks(tick_seconds=60)
            store.open_or_create("doors", tick=ticks, mechanism=MECHANISM, start_tick=1)
        assert store.names() == []
        assert {
            path.name: path.read_bytes() for path in backend.fence.folder.glob("fence.db")
        } == before
        publish(store, "others")
    with backend.open() as store, pytest.raises(FenceError, match=USED):
        store.create(describe(), start_tick=1)


def test_a_run_is_refused_before_it_releases_anything(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "visits.csv").write_text("at\n2026-03-01T10:10\n2026-03-01T12:30\n")
    words = [
        "run",
        str(tmp_path / "visits.csv"),
        "--tick",
        "1h",
        "--time",
        "at",
        "--epsilon",
        "0.5",
        "--name",
        "visits",
    ]
    words += [
        "--start",
        "2026-03-01",
        "--until",
        "2026-03-02",
        "--state",
        str(tmp_path / "S"),
        "--fence",
        str(tmp_path / "F"),
    ]
    assert main(words) == 0
    shutil.rmtree(tmp_path / "S")
    capsys.readouterr()
    for _ in range(2):
        assert main(words) == 1
        shown = capsys.readouterr()
        assert (
            shown.out == ""
            and "'visits' was used at this place" in shown.err
            and shown.err.count("\n") == 1
        )
    assert main([*words, "--state", str(tmp_path / "elsewhere")]) == 0, (
        "stores of one user share a fence"
    )


def test_a_fence_on_a_server_knows_the_place_too(postgres_url: str, tmp_path: Path) -> None:
    fence = ServerFence(postgres_url)
    with store_in(tmp_path, fence=fence) as store:
        publish(store, "far")
    shutil.rmtree(tmp_path / "state")
    with store_in(tmp_path, fence=fence) as store:
        with pytest.raises(FenceError, match=USED):
            publish(store, "far")
        publish(store, "another")
    with store_in(tmp_path, "elsewhere", fence=fence) as store:
        publish(store, "far")
    fence.close()


def test_a_server_is_known_by_its_address_and_by_itself(postgres_url: str, tmp_path: Path) -> None:
    with PostgresStore(postgres_url, fence=FileFence(tmp_path / "fence")) as store:
        address, itself = sorted(store._database.places, key=lambda place: "/data" not in place)
    assert address.endswith(":5432/postgres schema public") and itself.endswith(
        "/postgres schema public"
    )
    assert address != itself and "password" not in address


def test_a_store_that_is_moved_goes_on_and_its_old_place_stays_known(tmp_path: Path) -> None:
    with store_in(tmp_path) as store:
        publish(store)
    (tmp_path / "state").rename(tmp_path / "moved")
    with store_in(tmp_path, "moved") as store:
        assert store.open("doors").status.steps == 3
    for name in ("state", "moved"):
        shutil.rmtree(tmp_path / name, ignore_errors=True)
        with store_in(tmp_path, name) as store, pytest.raises(FenceError, match=USED):
            publish(store)


def test_another_store_that_is_moved_to_the_place_of_a_lost_one_is_refused_too(
    tmp_path: Path,
) -> None:
    with store_in(tmp_path, "lost") as store:
        publish(store)
    shutil.rmtree(tmp_path / "lost")
    with store_in(tmp_path, "other") as store:
        store.create(describe(), start_tick=1)
        publish(store, "windows")
    shutil.move(tmp_path / "other", tmp_path / "lost")
    with store_in(tmp_path, "lost") as store:
        with pytest.raises(FenceError, match=USED):
            store.open("doors")
        store.open("windows").close_through(5)


def test_a_link_is_the_same_place_as_what_it_names_now_and_named_before(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "state").symlink_to(tmp_path / "disk")
    with store_in(tmp_path) as store:
        publish(store)
    shutil.rmtree(tmp_path / "disk")
    with store_in(tmp_path, "disk") as store, pytest.raises(FenceError, match=USED):
        publish(store)
    (tmp_path / "state").unlink()
    (tmp_path / "other disk").mkdir()
    (tmp_path / "state").symlink_to(tmp_path / "other disk")
    with store_in(tmp_path) as store, pytest.raises(FenceError, match=USED):
        publish(store)


def test_a_disk_that_was_not_mounted_comes_back(tmp_path: Path) -> None:
    with store_in(tmp_path) as store:
        publish(store)
        store.create(describe("unused"), start_tick=1)
    (tmp_path / "state").rename(tmp_path / "unmounted")
    with store_in(tmp_path) as store:
        with pytest.raises(FenceError, match=USED):
            publish(store)
        publish(store, "unused")  # nothing of it was published
    shutil.rmtree(tmp_path / "state")
    (tmp_path / "unmounted").rename(tmp_path / "state")
    with store_in(tmp_path) as store:
        store.open("doors").close_through(4)
        with pytest.raises(FenceError, match="a stream of another store has its name now"):
            store.open("unused")
        store.delete("unused")
        with pytest.raises(FenceError, match=USED):
            publish(store, "unused")


def test_a_process_whose_store_was_removed_publishes_nothing_beside_its_successor(
    tmp_path: Path,
) -> None:
    with store_in(tmp_path) as removed:
        old = removed.create(describe(), start_tick=1)
        shutil.rmtree(tmp_path / "state")
        with store_in(tmp_path) as store:
            publish(store)
        with pytest.raises(FenceError):
            old.close_through(1)


def test_of_two_stores_that_are_made_at_one_place_at_once_at_most_one_goes_on(
    tmp_path: Path,
) -> None:
    """The second one is made after the first has looked at the fence, and before the first writes
    its mark."""

    class Racing(FileFence):
        def marks(self, store: str, places: frozenset[str], name: str | None = None) -> dict:  # type: ignore[type-arg]
            found = super().marks(store, places, name)
            if not raced:
                raced.append(None)
                shutil.rmtree(tmp_path / "state")
                with store_in(tmp_path) as second:
                    publish(second)
            return found

    raced: list[None] = []
    with store_in(tmp_path, fence=Racing(tmp_path / "fence")) as first:
        with pytest.raises(FenceError, match=USED):
            first.create(describe(), start_tick=1)
        assert first.names() == []


def test_files_of_other_stores_are_not_kept_open(tmp_path: Path) -> None:
    for number in range(15):
        with store_in(tmp_path, f"s{number}") as store:
            publish(store)
    open_files = Path("/proc/self/fd")
    with store_in(tmp_path, "one more") as store:
        before = len(list(open_files.iterdir()))
        store.create(describe(), start_tick=1)
        assert len(list(open_files.iterdir())) - before < 10
