"""The campaign of sizes can be run as ``make load`` runs it."""

from __future__ import annotations

import pytest
from campaigns.service.scale import PARTS, Findings, parsed


def test_without_arguments_every_part_is_run() -> None:
    assert parsed([]).parts == list(PARTS)
    chosen = parsed(["keys", "ticks", "--ticks", "50"])
    assert (chosen.parts, chosen.ticks) == (["keys", "ticks"], 50)
    with pytest.raises(SystemExit):
        parsed(["nothing"])


def test_a_figure_is_printed_with_its_target(capsys: pytest.CaptureFixture[str]) -> None:
    found = Findings()
    found.add("time", 3.0, "s", most=2)
    found.add("rate", 900.0, "a second", least=950)
    found.add("load", 4.0, "")
    assert capsys.readouterr().out.splitlines() == found.lines
    assert found.lines == [
        "time 3 s (MISSED: at most 2)",
        "rate 900 a second (MISSED: at least 950)",
        "load 4 ",
    ]
