"""Settings of a service: on the command line or in the environment."""

from __future__ import annotations

import argparse
import re
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from fadecount.cli import serve
from fadecount.cli.main import main
from fadecount.errors import ParameterError
from fadecount.service.settings import SETTINGS, default_folder, read_settings
from tests.service.process import ServeProcess

FULL = {
    "state": ("/a", Path("/a")),
    "database": ("postgresql://a", "postgresql://a"),
    "fence": ("/b", "/b"),
    "key-file": ("/c", Path("/c")),
    "host": ("::1", "::1"),
    "port": ("1", 1),
    "allow-host": ("a.example, b.example", ("a.example", "b.example")),
    "public": ("true", True),
    "log-format": ("json", "json"),
    "max-body": ("2", 2),
    "max-connections": ("3", 3),
}
FOREIGN = {
    "FADECOUNT_NAME": "counts.example.org",
    "FADECOUNT_UPSTREAM": "fadecount:8000",
    "FADECOUNT_SERVICE_HOST": "10.0.0.1",
    "FADECOUNT_PORT": "tcp://10.0.0.1:8000",
    "FADECOUNT_PORT_8000_TCP_PORT": "8000",
}
"""Variables of deploy/, and those that Kubernetes sets for a service of the name fadecount."""


def parsed(*words: str) -> dict[str, Any]:
    """What the parser of ``serve`` makes of these words."""
    parser = argparse.ArgumentParser()
    serve.add_arguments(parser)
    return vars(parser.parse_args(words))


def test_every_setting_can_stand_in_both_places() -> None:
    assert {setting.name for setting in SETTINGS} == set(FULL)
    expected = {setting.attribute: FULL[setting.name][1] for setting in SETTINGS}
    environment = {setting.variable: FULL[setting.name][0] for setting in SETTINGS}
    assert read_settings(parsed(), environment) == expected
    words: list[str] = []
    for setting in SETTINGS:
        for text in FULL[setting.name][0].split(", "):
            words += [setting.option] if setting.type is bool else [setting.option, text]
    assert read_settings(parsed(*words), {}) == expected
    defaults = {setting.attribute: setting.default for setting in SETTINGS}
    assert read_settings(parsed(), {}) == defaults == read_settings(parsed(), FOREIGN)


def test_the_command_line_comes_before_the_environment() -> None:
    environment = {
        "FADECOUNT_PORT": "2",
        "FADECOUNT_MAX_BODY": "2",
        "FADECOUNT_PUBLIC": "true",
        "HOME": "/nowhere",
    }
    chosen = read_settings(parsed("--port", "3", "--no-public"), environment)
    assert (chosen["port"], chosen["max_body"], chosen["public"]) == (3, 2, False)


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("FADECOUNT_PORT", "http", "FADECOUNT_PORT must be a whole number"),
        ("FADECOUNT_MAX_BODY", "0", "FADECOUNT_MAX_BODY must be at least 1"),
        ("FADECOUNT_PUBLIC", "1", "FADECOUNT_PUBLIC must be true or false"),
        ("FADECOUNT_LOG_FORMAT", "xml", "FADECOUNT_LOG_FORMAT must be one of text, json"),
    ],
)
def test_what_is_wrong_in_the_environment_is_one_line(name: str, text: str, said: str) -> None:
    with pytest.raises(ParameterError, match=said) as refused:
        read_settings({}, {name: text})
    assert "\n" not in str(refused.value)


def test_the_state_folder_is_found_for_other_commands_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FADECOUNT_STATE", str(tmp_path / "counts"))
    assert default_folder() == tmp_path / "counts"
    monkeypatch.delenv("FADECOUNT_STATE")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert default_folder() == tmp_path / "fadecount"


def test_a_service_takes_its_settings_from_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in FOREIGN.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("FADECOUNT_PUBLIC", "true")
    monkeypatch.setenv("FADECOUNT_MAX_CONNECTIONS", "0")
    assert main(["serve", "--state", str(tmp_path / "state")]) == 1
    said = capsys.readouterr().err
    assert "FADECOUNT_MAX_CONNECTIONS must be" in said and said.count("\n") == 1
    monkeypatch.delenv("FADECOUNT_MAX_CONNECTIONS")
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
    assert set(named) <= {setting.variable for setting in SETTINGS} | {*FOREIGN, "FADECOUNT_KEY"}
