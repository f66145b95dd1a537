"""Every command explains itself."""

from __future__ import annotations

from fadecount.cli.main import commands


def test_every_command_explains_itself() -> None:
    for name, module in commands().items():
        summary, _, details = (module.__doc__ or "").strip().partition("\n")
        assert summary.endswith("."), name
        assert f"fadecount {name} " in details, f"{name} shows no example"
        assert max(map(len, details.splitlines())) <= 80, name
