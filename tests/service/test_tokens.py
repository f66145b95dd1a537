"""Tokens: 256 random bits, stored as hashes, compared in constant time, followed at once."""

from __future__ import annotations

import base64
import hmac
import stat
import threading
from pathlib import Path

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


def test_an_unknown_id_is_compared_as_well(tokens: TokenFile, monkeypatch: pytest.MonkeyPatch) -> None:
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


@pytest.mark.parametrize("content", ["", "{}", "[]", '{"version": 2, "tokens": []}', '{"version": 1, "tokens": [{"id": 1}]}'])
def test_a_damaged_file_is_refused(tokens: TokenFile, tmp_path: Path, content: str) -> None:
    tokens.create(Role.READER)
    (tmp_path / "state" / "tokens.json").write_text(content)
    with pytest.raises(TokenFileError):
        TokenFile(tmp_path / "state" / "tokens.json").grants()
