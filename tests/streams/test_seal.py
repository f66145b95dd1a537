"""Sealed state: no plain counts at rest, the right key only, and a change of keys."""

from __future__ import annotations

import hmac
import os
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

import fadecount as fc
from fadecount.errors import FadecountError, LockedError, ParameterError, StoreError
from fadecount.streams import Batch, Description, Seal, Ticks, seal_from
from fadecount.streams.database import PUBLIC_TABLES
from tests.streams.backends import Backend, PostgresBackend, SQLiteBackend
from tests.streams.scripted import NamedNoise, expected

MECHANISM = fc.Gradual(epsilon=0.5, delay=2)
CANARY = 0x1122334455
DESCRIPTION = Description(name="doors", mechanism=MECHANISM, ticks=Ticks(tick_seconds=60))


def canary_found(folder: Path) -> bool:
    needle = CANARY.to_bytes(8, "little")
    return any(needle in path.read_bytes() for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize("sealed", [False, True])
def test_true_counts_are_not_on_disk_when_sealed(tmp_path: Path, sealed: bool) -> None:
    backend = SQLiteBackend(tmp_path)
    with backend.open(seal=Seal(os.urandom(32)) if sealed else None) as store:
        stream = store.create(DESCRIPTION, start_tick=1)
        stream.add({"all": CANARY})
        assert canary_found(tmp_path) is not sealed
        stream.close_through(1)
        assert canary_found(tmp_path) is not sealed
        stream.close_through(2)


def test_streams_go_on_under_a_new_key_and_only_under_it(backend: Backend) -> None:
    old, new = Seal(os.urandom(32)), Seal(os.urandom(32))
    noise = NamedNoise()
    with backend.open(noise=noise, seal=old) as store:
        stream = store.create(DESCRIPTION, start_tick=1)
        stream.add({"all": 5})
        stream.close_through(4)
        stream.add_many([Batch(counts={"all": 2}), Batch(counts={"all": 1})])
        store._database.unlock(stream.status.uid)
        store.rotate(new)
    for wrong in (old, Seal()):
        with pytest.raises(StoreError, match="opened with the key it was sealed with"):
            backend.open(seal=wrong)
    with backend.open(noise=noise, seal=new) as store:
        values = store.open("doors").close_through(9)[0].values
        store._database.unlock(store.open("doors").status.uid)
    inputs = np.array([[5], [0], [0], [0], [3], [0], [0], [0], [0]])
    np.testing.assert_array_equal(values, expected(MECHANISM, inputs)[4:])
    assert len(noise.drawn) == len(set(noise.drawn))


def test_a_plain_store_is_not_opened_with_a_key(backend: Backend) -> None:
    backend.open().close()
    with pytest.raises(StoreError, match="opened with no key"):
        backend.open(seal=Seal(b"k" * 32))


def test_bodies_cannot_be_altered_or_swapped() -> None:
    seal = Seal(b"k" * 32)
    body = seal.close(b"counts", "here")
    assert seal.open(body, "here") == b"counts"
    for at in range(len(body)):
        altered = bytearray(body)
        altered[at] ^= 1
        with pytest.raises(StoreError):
            seal.open(bytes(altered), "here")
    for wrong, about in ((body, "there"), (body[:-1], "here"), (b"", "here")):
        with pytest.raises(StoreError):
            seal.open(wrong, about)
    assert "00" not in repr(seal)


def test_keys_come_from_a_file_or_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("FADECOUNT_KEY", raising=False)
    assert seal_from() == Seal()
    raw = os.urandom(32)
    (tmp_path / "raw").write_bytes(raw)
    (tmp_path / "hex").write_text(raw.hex() + "\n")
    (tmp_path / "short").write_text("abcd")
    assert seal_from(tmp_path / "raw") == seal_from(tmp_path / "hex") == Seal(raw)
    monkeypatch.setenv("FADECOUNT_KEY", raw.hex())
    assert seal_from() == Seal(raw)
    monkeypatch.setenv("FADECOUNT_KEY", "secret words")
    with pytest.raises(StoreError, match="FADECOUNT_KEY must hold") as refused:
        seal_from()
    assert "secret" not in str(refused.value)
    for bad in ("short", "missing"):
        with pytest.raises(FadecountError):
            seal_from(tmp_path / bad)
    with pytest.raises(ParameterError, match="key length must be 32 bytes"):
        Seal(b"short")


def test_every_body_has_a_key_of_its_own() -> None:
    """Opened with the standard's formulas alone: HKDF by two calls of HMAC, AES-GCM with a nonce of
    zeros."""
    key = os.urandom(32)
    bodies = [Seal(key).close(b"counts", "store/stream/state") for _ in range(200)]
    salts = {body[9:41] for body in bodies}
    assert len(salts) == len(bodies)
    head, salt, rest = bodies[0][:9], bodies[0][9:41], bodies[0][41:]
    pseudorandom = hmac.digest(salt, key, "sha256")
    derived = hmac.digest(pseudorandom, b"fadecount body\x01", "sha256")
    assert AESGCM(derived).decrypt(bytes(12), rest, head + b"store/stream/state") == b"counts"
    with pytest.raises(StoreError, match="damaged"):
        Seal(key).open(head + bodies[1][9:41] + rest, "store/stream/state")


def test_a_rotation_that_fails_keeps_no_lock(
    tmp_path: Path, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = PostgresBackend(tmp_path, postgres_url, "rotation")
    with backend.open() as one, backend.open() as two:
        for name in ("doors", "windows"):
            made = one.create(replace(DESCRIPTION, name=name), start_tick=0)
            one._database.unlock(made.status.uid)
        in_use = two.open("windows").status.uid
        with pytest.raises(LockedError):
            one.rotate(Seal(os.urandom(32)))
        two._database.unlock(two.open("doors").status.uid)
        two._database.unlock(in_use)
        monkeypatch.setattr(one._context, "record", lambda *_, **__: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            one.rotate(Seal(os.urandom(32)))
        for name in ("doors", "windows"):
            two.open(name)


def test_no_public_row_depends_on_an_open_count(tmp_path: Path) -> None:
    """A digest of the state that readers can see would confirm a guess of it."""
    hours = Description(
        name="doors", mechanism=fc.Blocks(fc.Level(60, 0.5)), ticks=Ticks(tick_seconds=60)
    )
    rows = []
    backend = SQLiteBackend(tmp_path / "state")
    with backend.open() as store:
        store.create(hours, start_tick=0)
    for count in (0, 7):
        shutil.copytree(tmp_path / "state", tmp_path / str(count))
        with SQLiteBackend(tmp_path / str(count)).open() as store:
            stream = store.open("doors")
            stream.add({"all": count})
            stream.close_through(3)
            ids = {stream.status.commit_id, stream.status.previous_commit_id}
        with SQLiteBackend(tmp_path / str(count)).reader() as reader:
            tables = [each for each in PUBLIC_TABLES if each != "sqlite_master"]
            select = [f"SELECT * FROM {each}" for each in tables]  # noqa: S608 - constants
            found = [row for sql in select for row in reader.database.query(sql)]
        rows.append([[value for value in row if value not in ids] for row in found])
    assert rows[0] == rows[1]
