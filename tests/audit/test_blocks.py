"""The audit of block counters takes all figures about an event together: it sees most of the loss,
and refutes counters that lose more than is claimed.

Every audit of a true claim fails by chance with probability EACH; there are less than 20 of them
here.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import fadecount as fc
from fadecount.audit import LONGEST_BLOCK, _worst_position, audit, largest
from fadecount.cli.main import main
from fadecount.noise.chain import Chain
from fadecount.noise.laplace import DiscreteLaplace
from tests.false_alarm import EACH

SAMPLES = 200_000
PLAIN = fc.Blocks(fc.Level(1, 0.5), fc.Level(4, 0.4, lag=3), fc.Level(8, 0.9, lag=5))
LAGS = fc.Blocks(
    fc.Level(1, 0.24),
    fc.Level(4, 0.26),
    fc.Level(8, 0.56, lag=5),
    fc.Level(16, 0.63, lag=5, later=((9, 2.63),)),
)
STAGES = fc.Blocks(fc.Level(2, 0.7, later=((3, 1.0), (6, 1.5))))


@pytest.mark.parametrize(
    ("mechanism", "ages"),
    [(PLAIN, [2, 3, 5]), (LAGS, [4, 5, 9]), (STAGES, [2, 3, 6])],
    ids=["plain", "lags", "stages"],
)
def test_four_fifths_of_the_loss_are_seen(mechanism: fc.Blocks, ages: list[int]) -> None:
    findings = audit(mechanism, ages, samples=SAMPLES, false_alarm=EACH)
    assert len({finding.claimed for finding in findings}) == 3
    for finding in findings:
        assert finding.claimed == mechanism.loss(finding.age)
        assert not finding.refuted, f"false alarm {EACH}: {finding}"
        assert finding.shown >= 0.8 * finding.claimed


def test_nothing_is_seen_before_the_first_lag() -> None:
    delayed = fc.Blocks(fc.Level(1, 1.0, lag=2))
    before, after = audit(delayed, [1, 2], samples=10_000, false_alarm=EACH)
    assert (before.claimed, before.shown) == (0.0, 0.0)
    assert after.shown > 0.7


@pytest.mark.parametrize(
    ("claimed", "running", "age"),
    [
        (PLAIN, fc.Blocks(PLAIN.levels[0], fc.Level(4, 0.4, lag=2), PLAIN.levels[2]), 2),
        (PLAIN, fc.Blocks(*PLAIN.levels[:2], fc.Level(8, 0.9, lag=4)), 4),
        (STAGES, fc.Blocks(fc.Level(2, 0.7, later=((2, 1.0), (6, 1.5)))), 2),
        (PLAIN, fc.Blocks(fc.Level(1, 0.9), *PLAIN.levels[1:]), 0),
        (LAGS, fc.Blocks(fc.Level(1, 0.56), *LAGS.levels[1:]), 0),
    ],
    ids=[
        "lag one shorter",
        "last lag one shorter",
        "stage one earlier",
        "budget of a neighbour",
        "budget of a neighbour, lags",
    ],
)
def test_false_claims_are_refuted(claimed: fc.Blocks, running: fc.Blocks, age: int) -> None:
    (finding,) = audit(claimed, [age], samples=SAMPLES, false_alarm=EACH, running=running)
    assert finding.refuted
    assert finding.shown <= running.loss(age)


def test_fresh_noise_for_every_stage_is_refuted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each stage looks as claimed; all of them together lose the sum of their budgets."""

    def fresh(chain: Chain, source: Any, blocks: range, width: int) -> list[NDArray[np.int64]]:
        stages = [
            DiscreteLaplace(distribution.scale)
            for distribution in (*chain._differences, chain.sharpest)
        ]
        return [source.many(distribution, 0, range(1), blocks, width)[0] for distribution in stages]

    monkeypatch.setattr(Chain, "many", fresh)
    findings = audit(STAGES, [2, 3, 6], samples=SAMPLES, false_alarm=EACH)
    assert [finding.refuted for finding in findings] == [False, True, True]
    assert 1.5 < findings[1].shown <= 0.7 + 1.0


def test_the_attacked_position_ends_a_block_of_every_level_that_is_short_enough() -> None:
    long = fc.Level(2 * LONGEST_BLOCK, 1.0, lag=5)
    assert _worst_position(PLAIN, 0) == _worst_position(fc.Blocks(*PLAIN.levels, long), 0) == 8
    assert _worst_position(fc.Blocks(long), 0) == 1


def test_the_score_is_the_largest_figure_from_0_on() -> None:
    assert largest(np.array([[1.0, -3.0, 0.0], [2.0, -1.0, 0.0]])).tolist() == [2.0, 0.0, 0.0]
    assert largest(np.empty((0, 2))).tolist() == [0.0, 0.0]


def test_the_command_audits_a_plan_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    claimed, running = tmp_path / "claimed.json", tmp_path / "running.json"
    claimed.write_text(PLAIN.to_json())
    running.write_text(fc.Blocks(fc.Level(1, 1.5), *PLAIN.levels[1:]).to_json())
    words = ["audit", "--plan", str(claimed), "--ages", "0", "--samples", "20000", "--json"]
    assert main(words) == 0
    assert main([*words, "--running", str(running)]) == 1
    first, second = map(json.loads, capsys.readouterr().out.splitlines())
    assert (first["mechanism"]["kind"], first["refuted"], second["refuted"]) == (
        "blocks",
        False,
        True,
    )
