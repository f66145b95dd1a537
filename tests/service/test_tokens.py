"""Tokens: 256 random bits, stored as hashes, compared in constant time, followed at once."""

from __future__ import annotations

import base64
import hmac
import json
import stat
import threading
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from fadecount.errors import ParameterError
from fadecount.service.tokens import Role, TokenFile, TokenFileError


@pytest.fixture
def tokens(tmp_path: Path) -> TokenFile:
    return TokenFile(tmp_path / "state" / "tokens.json")


def test_a_token_opens_what_it_was_made_for(tokens: TokenFile) -> None:
    token, grant = tokens.create(Role.WRITER, stream="doors")
    assert tokens.grant_of(token) == grant
    assert (grant.role, grant.stream) == (Role.WRITER, "doors")
    assert tokens.grants() == [grant]


def test_a_secret_has_256_bits_and_only_its_hash_is_kept(tokens: TokenFile, tmp_path: Path) -> None:
    token, _ = tokens.create(Role.READER)
    secret = token.split("_", 2)[2]
    raw = base64.urlsafe_b64decode(secret + "=")
    assert len(raw) == 32
    stored = (tmp_path / "state" / "tokens.json").read_bytes()
    assert secret.encode() not in stored and raw.hex().encode() not in stored


def test_only_the_owner_may_read_the_file(tokens: TokenFile, tmp_path: Path) -> None:
    tokens.create(Role.READER)
    assert stat.S_IMODE((tmp_path / "state" / "tokens.json").stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "state").stat().st_mode) == 0o700


def test_wrong_tokens_open_nothing(tokens: TokenFile) -> None:
    token, grant = tokens.create(Role.READER)
    marker, token_id, secret = token.split("_", 2)
    wrong = (
        "",
        "_",
        "__",
        token[:-1],
        token + "x",
        f"{marker}_{token_id}_",
        f"xx_{token_id}_{secret}",
        f"fc_0_{secret}",
        "\x00é",
    )
    assert [each for each in wrong if tokens.grant_of(each)] == []
    assert grant.id == token_id


def test_an_unknown_id_is_compared_as_well(
    tokens: TokenFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokens.create(Role.READER)
    compared: list[int] = []
    real = hmac.compare_digest

    def spy(left: str, right: str) -> bool:
        compared.append(len(left))
        return real(left, right)

    monkeypatch.setattr("fadecount.service.tokens.hmac.compare_digest", spy)
    tokens.grant_of("fc_unknown_secret")
    assert compared == [64]


def test_revoking_works_for_a_running_service(tokens: TokenFile, tmp_path: Path) -> None:
    token, grant = tokens.create(Role.ADMIN)
    elsewhere = TokenFile(tmp_path / "state" / "tokens.json")
    assert elsewhere.grant_of(token)
    tokens.revoke(grant.id)
    assert elsewhere.grant_of(token) is None
    with pytest.raises(ParameterError):
        tokens.revoke(grant.id)


def test_tokens_made_at_the_same_time_are_all_kept(tokens: TokenFile, tmp_path: Path) -> None:
    def make() -> None:
        for _ in range(10):
            TokenFile(tmp_path / "state" / "tokens.json").create(Role.READER)

    threads = [threading.Thread(target=make) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({grant.id for grant in tokens.grants()}) == 40


@pytest.mark.parametrize(
    "content",
    ["", "{}", "[]", '{"version": 3, "tokens": []}', '{"version": 1, "tokens": [{"id": 1}]}'],
)
def test_a_damaged_file_is_refused(tokens: TokenFile, tmp_path: Path, content: str) -> None:
    tokens.create(Role.READER)
    (tmp_path / "state" / "tokens.json").write_text(content)
    with pytest.raises(TokenFileError):
        TokenFile(tmp_path / "state" / "tokens.json").grants()


def test_a_token_is_refused_from_the_second_on_at_which_it_expires(tmp_path: Path) -> None:
    now = [1_000_000.0]
    tokens = TokenFile(tmp_path / "tokens.json", now=lambda: now[0])
    token, grant = tokens.create(Role.READER, label="for a week", expires_seconds=7)
    kept, _ = tokens.create(Role.READER)
    assert grant.expires == 1_000_007 and grant.shown == f"token {grant.id} (for a week)"
    now[0] += 6.9
    assert tokens.grant_of(token) == grant and tokens.is_valid(grant) and tokens.expired() == 0
    now[0] += 0.1
    assert tokens.grant_of(token) is None and not tokens.is_valid(grant) and tokens.expired() == 1
    assert tokens.grant_of(kept) and grant in tokens.grants()


def test_a_file_of_the_first_version_is_read_and_becomes_the_second(
    tokens: TokenFile, tmp_path: Path
) -> None:
    token, _ = tokens.create(Role.WRITER, stream="doors")
    path = tmp_path / "state" / "tokens.json"
    new = json.loads(path.read_text())
    old = {
        name: value
        for name, value in new["tokens"][0].items()
        if name in ("id", "role", "stream", "created", "sha256")
    }
    path.write_text(json.dumps({"fadecount": "tokens", "version": 1, "tokens": [old]}))
    read = TokenFile(path)
    grant = read.grant_of(token)
    assert grant and (grant.role, grant.stream, grant.label, grant.expires) == (
        Role.WRITER,
        "doors",
        "",
        None,
    )
    assert not grant.is_limited
    read.create(Role.READER)
    assert json.loads(path.read_text())["version"] == 2 and read.grant_of(token) == grant


@pytest.mark.parametrize(
    "words",
    [
        {"label": "x" * 101},
        {"label": "two\nlines"},
        {"label": " x"},
        {"expires_seconds": 0},
        {"expires_seconds": 1 << 50},
        {"rate": 0.0},
        {"rate": float("nan")},
        {"connections": 0},
        {"live_readers": -1},
        {"live_readers": True},
    ],
)
def test_what_a_token_cannot_have_is_refused(tokens: TokenFile, words: dict[str, Any]) -> None:
    with pytest.raises(ParameterError, match=next(iter(words)).partition("_seconds")[0]):
        tokens.create(Role.READER, **words)
    assert tokens.grants() == []


def test_the_day_of_the_last_use_is_kept_apart_and_only_for_known_tokens(tmp_path: Path) -> None:
    path, now = tmp_path / "tokens.json", [86400.0 * 20_000]
    one, two = TokenFile(path, now=lambda: now[0]), TokenFile(path, now=lambda: now[0] + 86400)
    token, grant = one.create(Role.WRITER)
    other, other_grant = one.create(Role.READER)
    version = one.version
    one.save_uses()
    assert one.last_uses() == {} and not (tmp_path / "token-use.json").exists()
    assert (
        one.grant_of(token)
        and one.grant_of(other)
        and two.grant_of(token)
        and one.grant_of("fc_unknown_x") is None
    )
    two.save_uses()
    one.save_uses()
    read = TokenFile(path)
    assert (
        one.last_uses()
        == read.last_uses()
        == {grant.id: date(2024, 10, 5), other_grant.id: date(2024, 10, 4)}
    )
    assert one.version == version  # a use is no change of the tokens
    assert stat.S_IMODE((tmp_path / "token-use.json").stat().st_mode) == 0o600
    one.revoke(grant.id)
    now[0] += 86400
    assert one.grant_of(other)
    one.save_uses()
    assert read.last_uses() == {other_grant.id: date(2024, 10, 5)}
    (tmp_path / "token-use.json").write_text("damaged")
    assert read.last_uses() == {}
