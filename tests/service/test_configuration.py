"""Settings from the command line, the environment and a file: in this order, from one definition,
and no unknown names."""

from __future__ import annotations

import argparse
import re
import urllib.request
from pathlib import Path

import pytest

from fadecount.cli import serve
from fadecount.cli.main import main
from fadecount.errors import ParameterError
from fadecount.service.configuration import OTHER_VARIABLES, SETTINGS, configuration
from fadecount.service.settings import default_folder
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
    "rate": ("4.5", 4.5),
    "burst": ("5", 5),
}


def parsed(*words: str) -> dict[str, str | bool | list[str] | None]:
    """What the parser of ``serve`` makes of these words."""
    parser = argparse.ArgumentParser()
    serve.add_arguments(parser)
    return vars(parser.parse_args(words))


def toml(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return (
        str(list(value))
        if isinstance(value, tuple)
        else str(value)
        if isinstance(value, int | float)
        else f'"{value}"'
    )


def test_every_setting_can_stand_in_every_place(tmp_path: Path) -> None:
    chosen = [setting for setting in SETTINGS if setting.name in FULL]
    expected = {setting.attribute: FULL[setting.name][1] for setting in chosen}
    environment = {setting.variable: FULL[setting.name][0] for setting in chosen}
    found = configuration(parsed(), environment)
    assert {name: found[name] for name in expected} == expected
    file = tmp_path / "settings.toml"
    file.write_text(
        "".join(f"{setting.name} = {toml(FULL[setting.name][1])}\n" for setting in chosen),
        encoding="utf-8",
    )
    for given, variables in ((str(file), {}), (None, {"FADECOUNT_CONFIG": str(file)})):
        found = configuration(parsed(), variables, given)
        assert {name: found[name] for name in expected} == expected
    words = []
    for setting in chosen:
        if setting.kind == "texts":
            words += [
                word
                for each in FULL[setting.name][0].split(", ")
                for word in (setting.option, each)
            ]
        else:
            words += (
                [setting.option]
                if setting.kind == "true or false"
                else [setting.option, FULL[setting.name][0]]
            )
    found = configuration(parsed(*words), {})
    assert {name: found[name] for name in expected} == expected
    found = configuration(parsed(), {})
    assert found == {setting.attribute: setting.default for setting in SETTINGS}


def test_the_command_line_comes_first_then_the_environment_then_the_file(tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    file.write_text("port = 1\nburst = 1\nrate = 1\npublic = true\n", encoding="utf-8")
    environment = {
        "FADECOUNT_PORT": "2",
        "FADECOUNT_BURST": "2",
        "HOME": "/nowhere",
        "FADECOUNT_KEY": "x",
    }
    found = configuration(parsed("--port", "3", "--no-public"), environment, file)
    assert (found["port"], found["burst"], found["rate"], found["public"]) == (3, 2, 1.0, False)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("max-bdy = 1", "'max-bdy' in .* is no setting"),
        ("max_body = 1", "'max_body' in .* is no setting"),
        ("[limits]\nburst = 1", "'limits' in .* is no setting"),
        ("max-body = '1'", "max-body in .* must be a whole number"),
        ("max-body = true", "max-body in .* must be a whole number"),
        ("burst = 0", "burst in .* must be at least 1"),
        ("rate = nan", "rate in .* must be at least 0"),
        ("rate = 'x'", "rate in .* must be a number"),
        ("public = 1", "public in .* must be true or false"),
        ("allow-host = 'a'", "allow-host in .* must be a list of texts"),
        ("log-format = 'xml'", "log-format in .* must be one of text, json"),
        ("host = 1", "host in .* must be text"),
        ("port = ", "must be TOML"),
    ],
)
def test_what_is_wrong_in_a_file_is_one_line(tmp_path: Path, content: str, said: str) -> None:
    file = tmp_path / "settings.toml"
    file.write_text(content, encoding="utf-8")
    with pytest.raises(ParameterError, match=said) as refused:
        configuration({}, {}, file)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("FADECOUNT_MAX_BDY", "1", "FADECOUNT_MAX_BDY is no setting"),
        ("FADECOUNT_PORT", "tcp://10.0.0.1:80", "FADECOUNT_PORT must be a whole number"),
        ("FADECOUNT_RATE", "often", "FADECOUNT_RATE must be a number"),
        ("FADECOUNT_BURST", "0", "FADECOUNT_BURST must be at least 1"),
        ("FADECOUNT_PUBLIC", "1", "FADECOUNT_PUBLIC must be true or false"),
        ("FADECOUNT_LOG_FORMAT", "xml", "FADECOUNT_LOG_FORMAT must be one of text, json"),
        ("FADECOUNT_CONFIG", "/no/such/file.toml", "settings file must be readable"),
    ],
)
def test_what_is_wrong_in_the_environment_is_one_line(name: str, text: str, said: str) -> None:
    with pytest.raises(ParameterError, match=said) as refused:
        configuration({}, {name: text})
    assert "\n" not in str(refused.value)


def test_the_example_file_can_be_read() -> None:
    example = Path(__file__).parents[2] / "deploy" / "fadecount.toml"
    assert configuration({}, {}, example)["allow_host"] == ("counts.example.org",)


def test_the_state_folder_is_found_for_other_commands_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FADECOUNT_STATE", str(tmp_path / "counts"))
    assert default_folder() == tmp_path / "counts"
    monkeypatch.delenv("FADECOUNT_STATE")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert default_folder() == tmp_path / "fadecount"


def test_a_service_takes_its_settings_from_a_file_and_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "settings.toml"
    file.write_text("public = true\nmax-connections = 0\n", encoding="utf-8")
    monkeypatch.setenv("FADECOUNT_CONFIG", str(file))
    assert main(["serve", "--state", str(tmp_path / "state")]) == 1
    said = capsys.readouterr().err
    assert "max-connections in" in said and said.count("\n") == 1
    file.write_text("public = true\n", encoding="utf-8")
    monkeypatch.setenv("FADECOUNT_LOG_FORMAT", "json")
    with ServeProcess(tmp_path) as service:
        with urllib.request.urlopen(f"{service.url}/v1/streams", timeout=30) as answer:  # noqa: S310 - its own address
            assert answer.status == 200, "public: without a token"
        service.stop()


FOREIGN = {"FADECOUNT_NAME": "counts.example.org", "FADECOUNT_UPSTREAM": "fadecount:8000"}
"""Variables of deploy/compose.yaml and deploy/Caddyfile, which a shell may export."""


def test_the_variables_of_the_files_for_deployment_are_known() -> None:
    assert configuration({}, FOREIGN) == configuration({}, {})
    files = "".join(
        (Path(__file__).parents[2] / "deploy" / name).read_text(encoding="utf-8")
        for name in ("compose.yaml", "Caddyfile")
    )
    assert (
        set(re.findall(r"FADECOUNT_[A-Z_]+", files))
        <= {setting.variable for setting in SETTINGS} | OTHER_VARIABLES
    )
