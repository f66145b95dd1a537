"""Settings of a service: on the command line or in the environment."""

from __future__ import annotations

import re
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from fadecount.cli._options import storage_from
from fadecount.cli.main import build_parser, main
from fadecount.streams.storage import default_folder
from tests.service.process import ServeProcess

FULL = {
    "state": ("/a", Path("/a")),
    "fence": ("/b", "/b"),
    "key-file": ("/c", "/c"),
    "host": ("::1", "::1"),
    "port": ("1", 1),
    "allow-host": ("a.example, b.example", ("a.example", "b.example")),
    "public": ("true", True),
    "website": ("example.org,example.net", ("example.org", "example.net")),
    "pages": ("/a, /b", ("/a", "/b")),
    "website-hosts": ("staging.test", ("staging.test",)),
    "trust-proxy": ("10.0.0.0/8", ("10.0.0.0/8",)),
    "zone": ("Europe/Berlin", "Europe/Berlin"),
    "page-sample": ("0.5", 0.5),
}
FOREIGN = {
    "FADECOUNT_NAME": "counts.example.org",
    "FADECOUNT_UPSTREAM": "fadecount:8000",
    "FADECOUNT_SERVICE_HOST": "10.0.0.1",
    "FADECOUNT_PORT": "tcp://10.0.0.1:8000",
    "FADECOUNT_PORT_8000_TCP_PORT": "8000",
}
"""Variables of deploy/, and those that Kubernetes sets for a service of the name fadecount."""


def chosen(*words: str) -> dict[str, Any]:
    """What ``serve`` makes of these words, and of the environment."""
    arguments = build_parser(["serve"]).parse_args(["serve", *words])
    storage = storage_from(arguments)
    stored = {"state": storage.folder, "fence": storage.fence, "key-file": storage.key_file}
    return {name: getattr(arguments, name.replace("-", "_")) for name in FULL} | stored


def variable(name: str) -> str:
    return "FADECOUNT_" + name.upper().replace("-", "_")


def test_every_option_can_stand_in_both_places(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = {name: value for name, (_, value) in FULL.items()}
    assert chosen(*(f"--{name}={text}" for name, (text, _) in FULL.items())) == expected
    monkeypatch.delenv("FADECOUNT_STATE", raising=False)
    defaults = chosen()
    assert defaults != expected and (defaults["port"], defaults["public"]) == (8000, False)
    with monkeypatch.context() as others:
        for name, text in FOREIGN.items():
            others.setenv(name, text)
        assert chosen() == defaults
    for name, (text, _) in FULL.items():
        monkeypatch.setenv(variable(name), text)
    assert chosen() == expected
    arguments = build_parser(["serve"]).parse_args(["serve", "--database", "postgresql://a"])
    assert storage_from(arguments).database == "postgresql://a"
    monkeypatch.setenv("FADECOUNT_DATABASE", "postgresql://b")
    assert storage_from(arguments).database == "postgresql://a"
    arguments = build_parser(["serve"]).parse_args(["serve", "--state", "/d"])
    assert storage_from(arguments).database is None


def test_the_command_line_comes_before_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in (("PORT", "2"), ("HOST", "::1"), ("PUBLIC", "true")):
        monkeypatch.setenv(f"FADECOUNT_{name}", text)
    monkeypatch.setenv("FADECOUNT_WEBSITE", "example.org")
    given = chosen("--port", "3", "--public", "false", "--website", "a.org, b.org")
    assert given["website"] == ("a.org", "b.org")
    assert (given["port"], given["host"], given["public"]) == (3, "::1", False)
    monkeypatch.setenv("FADECOUNT_PUBLIC", "false")
    assert chosen("--public")["public"]


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("FADECOUNT_PORT", "http", "--port: must be at least 0, got 'http'"),
        ("FADECOUNT_PUBLIC", "1", "--public: must be true or false, got '1'"),
    ],
)
def test_what_is_wrong_in_the_environment_is_one_line(
    name: str,
    text: str,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv(name, text)
    with pytest.raises(SystemExit):
        main(["serve"])
    told = capsys.readouterr().err
    assert said in told and told.count("\n") == 1


def test_the_state_folder_is_found_for_other_commands_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FADECOUNT_STATE", str(tmp_path / "counts"))
    assert default_folder() == tmp_path / "counts"
    monkeypatch.delenv("FADECOUNT_STATE")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert default_folder() == tmp_path / "fadecount"


def test_a_service_takes_its_settings_from_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in FOREIGN.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("FADECOUNT_PUBLIC", "true")
    with ServeProcess(tmp_path) as service:
        with urllib.request.urlopen(f"{service.url}/v1/streams", timeout=30) as answer:  # noqa: S310 - its own address
            assert answer.status == 200, "public: without a token"
        service.stop()


def test_the_files_for_deployment_set_what_can_be_set() -> None:
    deploy = Path(__file__).parents[2] / "deploy"
    named = re.findall(
        r"FADECOUNT_[A-Z_]+",
        "".join(
            (deploy / name).read_text(encoding="utf-8")
            for name in ("compose.yaml", "Caddyfile", "fadecount.env")
        ),
    )
    assert set(named) <= {*map(variable, FULL), *FOREIGN, "FADECOUNT_DATABASE", "FADECOUNT_KEY"}
