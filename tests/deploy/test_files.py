"""The files for operators name commands, options, settings, routes and files that exist."""

from __future__ import annotations

import argparse
import fnmatch
import json
import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from fadecount.cli._options import storage_from
from fadecount.cli.main import build_parser
from fadecount.service.routes import openapi_document
from tests.docs.pages import ROOT

DEPLOY = ROOT / "deploy"


def dockerfile() -> list[tuple[str, str]]:
    text = (DEPLOY / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [(word, rest) for word, _, rest in (line.partition(" ") for line in lines)]


def compose() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))
    return found


def settings_of(words: list[str]) -> dict[str, str]:
    return dict(word.partition("=")[::2] for word in words)


def test_the_commands_are_commands() -> None:
    entry = json.loads(dict(dockerfile())["ENTRYPOINT"])
    assert entry == ["fadecount"]
    unit = re.search(
        r"^ExecStart=/opt/fadecount/bin/fadecount (.*)$",
        (DEPLOY / "fadecount.service").read_text(),
        re.MULTILINE,
    )
    assert unit is not None
    for words in (
        json.loads(dict(dockerfile())["CMD"]),
        compose()["services"]["fadecount"]["command"],
        shlex.split(unit[1]),
    ):
        assert build_parser(words).parse_args(words).command == "serve"


def chosen(monkeypatch: pytest.MonkeyPatch, environment: dict[str, str]) -> argparse.Namespace:
    """What ``serve`` makes of these variables."""
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    return build_parser(["serve"]).parse_args(["serve"])


def test_the_settings_are_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    image = settings_of(dict(dockerfile())["ENV"].split())
    added = compose()["services"]["fadecount"]["environment"]
    assert all(name.startswith("FADECOUNT_") for name in (*image, *added))
    found = chosen(monkeypatch, {**image, **added})
    storage = storage_from(found)
    assert storage.folder == Path("/var/lib/fadecount")
    assert storage.fence == "/var/lib/fadecount-fence"
    assert found.host == "0.0.0.0"  # noqa: S104 - inside the container
    commented = re.findall(
        r"# (FADECOUNT_\w+): (\S+)", (DEPLOY / "compose.yaml").read_text(encoding="utf-8")
    )
    assert len(commented) == 2
    chosen(monkeypatch, {name: value.strip('"') for name, value in commented})


def test_state_and_fence_are_two_volumes() -> None:
    service = compose()["services"]["fadecount"]
    mounted = dict(reversed(each.split(":")) for each in service["volumes"])
    image = settings_of(dict(dockerfile())["ENV"].split())
    names = {mounted[image["FADECOUNT_STATE"]], mounted[image["FADECOUNT_FENCE"]]}
    assert len(names) == 2
    assert names <= set(compose()["volumes"])
    assert set(json.loads(dict(dockerfile())["VOLUME"])) == set(mounted)


def test_the_health_check_asks_for_a_route() -> None:
    (checked,) = re.findall(r"127\.0\.0\.1:8000(/\w+)", dict(dockerfile())["HEALTHCHECK"])
    assert checked in json.loads(openapi_document().body)["paths"]


def ignored(path: str) -> bool:
    """As .dockerignore says: the last pattern that fits decides."""
    found = False
    for line in (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines():
        pattern = line.removeprefix("!")
        if line and not line.startswith("#"):
            parts = [path, *(str(parent) for parent in Path(path).parents)]
            inside = pattern.startswith("**/") and any(
                fnmatch.fnmatch(part, pattern[3:]) for part in Path(path).parts
            )
            if inside or any(fnmatch.fnmatch(part, pattern) for part in parts if part != "."):
                found = not line.startswith("!")
    return found


def test_the_image_is_built_from_these_files_and_no_others() -> None:
    copied = [
        word
        for name, rest in dockerfile()
        if name == "COPY" and "--from" not in rest
        for word in rest.split()[:-1]
    ]
    assert {"pyproject.toml", "hatch_build.py", "README.md", "LICENSE", "src"} == set(copied)
    for path in copied:
        assert (ROOT / path).exists()
        assert not ignored(path)
    assert not ignored("src/fadecount/service/static/index.html")
    for path in (
        ".git/config",
        ".venv/bin/python",
        "out/demo/state/streams.db",
        "src/fadecount/__pycache__/a.pyc",
        "old.key",
    ):
        assert ignored(path)


def test_the_unit_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (DEPLOY / "fadecount.service").read_text(encoding="utf-8")
    lines = (DEPLOY / "fadecount.env").read_text(encoding="utf-8").splitlines()
    example = chosen(monkeypatch, settings_of([line for line in lines if line[0] != "#"]))
    folders = re.search(r"^StateDirectory=(.*)$", text, re.MULTILINE)
    assert folders is not None
    places = storage_from(example)
    expected = {f"/var/lib/{name}" for name in folders[1].split()}
    assert {str(places.folder), places.fence} == expected
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("systemd-analyze is not installed")
    binary = tmp_path / "fadecount"
    binary.write_text("#!/bin/sh\n", encoding="utf-8")
    binary.chmod(0o755)
    unit = tmp_path / "fadecount.service"
    unit.write_text(text.replace("/opt/fadecount/bin/fadecount", str(binary)), encoding="utf-8")
    done = subprocess.run(
        [program, "verify", "--man=no", str(unit)], capture_output=True, text=True, check=False
    )
    assert [line for line in done.stderr.splitlines() if "fadecount.service" in line] == []


def test_every_command_of_the_page_exists() -> None:
    page = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
    lines = re.findall(
        r"(?:/opt/fadecount/bin/|exec fadecount |^)(fadecount [a-z][^`\n]*)", page, re.MULTILINE
    )
    assert len(lines) >= 5
    for line in lines:
        words = [word for word in shlex.split(line, comments=True)[1:] if not word.startswith(">")]
        assert build_parser(words).parse_args(words).command == words[0]
    assert "sudo install -m 0600 deploy/fadecount.env" in page, "passwords may stand in it"
    for name in re.findall(r"`(deploy/[\w.]+)`", page):
        assert (ROOT / name).is_file()
