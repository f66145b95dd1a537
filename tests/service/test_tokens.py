"""Tokens: 256 random bits, stored as hashes, compared in constant time, followed in a second."""

from __future__ import annotations

import base64
import hmac
import stat
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fadecount.errors import ParameterError
from fadecount.service.settings import open_tokens
from fadecount.service.tokens import LONGEST_AGE, Access, Role, Tokens
from fadecount.streams import FileFence, SQLiteStore
from fadecount.streams.audit_log import AuditLogError
from fadecount.streams.sqlite import SQLiteDatabase
from fadecount.streams.storage import Storage
from tests.streams.backends import entries_of


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return Storage(folder=tmp_path / "state")


@pytest.fixture
def tokens(storage: Storage) -> Iterator[Tokens]:
    with open_tokens(storage) as opened:
        yield opened


def known(tokens: Tokens) -> Access:
    """A copy of the tokens, as a service has it."""
    copy = Access(public=False)
    copy.replace(tokens.grants())
    return copy


def test_a_token_opens_what_it_was_made_for(tokens: Tokens) -> None:
    token, grant = tokens.create(Role.WRITER, stream="doors")
    assert known(tokens).grant_of(token) == grant
    assert (grant.role, grant.stream) == (Role.WRITER, "doors")
    assert tokens.grants() == [grant]


def test_a_secret_has_256_bits_and_only_its_hash_is_kept(storage: Storage) -> None:
    with open_tokens(storage) as tokens:
        token, grant = tokens.create(Role.READER)
    secret = token.split("_", 2)[2]
    raw = base64.urlsafe_b64decode(secret + "=")
    assert len(raw) == 32
    for file in storage.folder.iterdir():
        stored = file.read_bytes()
        assert secret.encode() not in stored and raw.hex().encode() not in stored
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert grant.digest.encode() in storage.store_path.read_bytes()
    assert grant.digest not in repr(grant)


def test_wrong_tokens_open_nothing(tokens: Tokens) -> None:
    token, grant = tokens.create(Role.READER)
    marker, token_id, secret = token.split("_", 2)
    wrong = (
        "",
        "_",
        "__",
        token[:-1],
        token + "x",
        f"{marker}_{token_id}_",
        f"{marker}_{token_id}_{grant.digest}",
        f"xx_{token_id}_{secret}",
        f"fc_0_{secret}",
        "\x00é",
    )
    assert [each for each in wrong if known(tokens).grant_of(each)] == []
    assert grant.id == token_id


def test_an_unknown_id_is_compared_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[int] = []
    real = hmac.compare_digest

    def spy(left: str, right: str) -> bool:
        compared.append(len(left))
        return real(left, right)

    monkeypatch.setattr("fadecount.service.tokens.hmac.compare_digest", spy)
    Access(public=False).grant_of("fc_unknown_secret")
    assert compared == [64]


def test_tokens_are_made_and_revoked_beside_a_service(tmp_path: Path, storage: Storage) -> None:
    """The service holds the lock of the store, also in the middle of what it does."""
    with SQLiteStore(storage.store_path, fence=FileFence(tmp_path / "fence")) as store:
        service = Tokens(store.reader().database, store.record)
        with open_tokens(storage) as tokens:
            token, grant = tokens.create(Role.ADMIN)
            copy = known(service)
            assert copy.grant_of(token) == grant
            tokens.revoke(grant.id)
            assert copy.replace(service.grants()) and copy.grant_of(token) is None
            assert not copy.still(grant) and not copy.replace(service.grants())
            with pytest.raises(ParameterError):
                tokens.revoke(grant.id)
    acts = [(each.act, each.object) for each in entries_of(storage.audit_log())]
    assert acts[-2:] == [("token created", grant.id), ("token revoked", grant.id)]


def test_tokens_made_at_the_same_time_are_all_kept(storage: Storage) -> None:
    with open_tokens(storage):
        pass

    def make() -> None:
        for _ in range(10):
            with open_tokens(storage) as tokens:
                tokens.create(Role.READER)

    threads = [threading.Thread(target=make) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with open_tokens(storage) as tokens:
        assert len({grant.id for grant in tokens.grants()}) == 40


def test_a_token_is_refused_from_the_second_on_at_which_it_expires(tmp_path: Path) -> None:
    now = [1_000_000.0]
    database = SQLiteDatabase(tmp_path / "s.db", writes=True)
    tokens = Tokens(database, lambda *_, **__: None, now=lambda: now[0])
    token, grant = tokens.create(Role.READER, label="for a week", expires_seconds=7)
    kept, _ = tokens.create(Role.READER)
    copy = Access(public=False, now=lambda: now[0])
    copy.replace(tokens.grants())
    assert grant.expires == 1_000_007 and grant.shown == f"token {grant.id} (for a week)"
    now[0] += 6.9
    assert copy.grant_of(token) == grant and copy.still(grant)
    assert not copy.replace(tokens.grants())
    now[0] += 0.1
    assert copy.grant_of(token) is None and not copy.still(grant)
    assert copy.replace(tokens.grants()) and not copy.replace(tokens.grants())
    assert copy.grant_of(kept) and grant in tokens.grants()


def test_a_copy_is_used_for_a_limited_time(monkeypatch: pytest.MonkeyPatch) -> None:
    copy, now = Access(public=False), [1000.0]
    monkeypatch.setattr("fadecount.service.tokens.time.monotonic", lambda: now[0])
    assert copy.trouble()
    copy.replace([])
    now[0] += LONGEST_AGE - 0.1
    assert copy.trouble() is None
    now[0] += 0.1
    assert copy.trouble()


@pytest.mark.parametrize(
    "options",
    [
        {"label": "x" * 101},
        {"label": "two\nlines"},
        {"label": " x"},
        {"expires_seconds": 0},
        {"expires_seconds": 1 << 50},
        {"expires_seconds": True},
    ],
)
def test_what_a_token_cannot_have_is_refused(tokens: Tokens, options: dict[str, Any]) -> None:
    with pytest.raises(ParameterError, match=next(iter(options)).partition("_seconds")[0]):
        tokens.create(Role.READER, **options)
    assert tokens.grants() == []


def test_what_cannot_be_recorded_does_not_happen(storage: Storage) -> None:
    with open_tokens(storage) as tokens:
        _, grant = tokens.create(Role.READER)
        log = storage.audit_log().path
        assert log is not None
        log.unlink()
        log.mkdir()
        with pytest.raises(AuditLogError):
            tokens.create(Role.READER)
        with pytest.raises(AuditLogError):
            tokens.revoke(grant.id)
        assert tokens.grants() == [grant]
