"""docs/cli.md says what the commands say."""

from __future__ import annotations

from pathlib import Path

from fadecount.cli._reference import reference
from fadecount.cli.main import commands

DOCUMENT = Path(__file__).parents[2] / "docs" / "cli.md"


def test_every_command_is_documented_as_it_is() -> None:
    written = DOCUMENT.read_text(encoding="utf-8")
    missing = [name for name in commands() if f"\n## fadecount {name}\n" not in written]
    assert not missing, f"docs/cli.md lacks {', '.join(missing)}: run `make docs` and commit the file"
    assert written == reference(), "docs/cli.md differs from the help of the commands: run `make docs` and commit the file"


def test_every_command_explains_itself() -> None:
    for name, module in commands().items():
        summary, _, details = (module.__doc__ or "").strip().partition("\n")
        assert summary.endswith("."), name
        assert f"fadecount {name} " in details, f"{name} shows no example"
        assert max(map(len, details.splitlines())) <= 80, name
