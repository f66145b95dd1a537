"""The benchmarks' own arithmetic: medians, verdicts, correlations, and what is written. No test
here depends on speed."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from benchmarks import cases, leaks, peers, report
from benchmarks.measure import Case, Result, interleaved
from benchmarks.report import Check


def result(name: str, median: float, *, ours: bool = False) -> Result:
    return Result(
        name=name,
        median=median,
        fastest=median,
        slowest=2 * median,
        ours=ours,
        floors=median / 40.0,
    )


def test_every_case_is_warmed_up_and_done_once_a_round() -> None:
    calls: list[str] = []

    def work(name: str) -> int:
        calls.append(name)
        return sum(range(100_000))

    found = interleaved(
        [Case("floor", 10, lambda: work("floor")), Case("other", 10, lambda: work("other"))],
        repeats=3,
    )
    assert calls == ["floor", "other"] * 4
    assert [one.name for one in found] == ["floor", "other"]
    assert found[0].floors == 1.0
    assert found[1].fastest <= found[1].median <= found[1].slowest


def test_bounds_are_kept_or_missed() -> None:
    values = (5.0, 20.0, 21.0)
    assert [Check(name="", value=each, must=20.0).kept for each in values] == [True, True, False]
    least = [Check(name="", value=each, must=20.0, at_least=True).kept for each in values]
    assert least == [False, True, True]


def test_a_time_that_tells_the_value_would_be_found() -> None:
    sizes = np.random.default_rng(1).integers(0, 30, 4000).astype(float)
    blind = np.random.default_rng(2).normal(size=4000)
    assert leaks._correlated("leak", sizes + 3.0 * blind, sizes).correlation > 0.5
    assert leaks._correlated("none", sizes, sizes).correlation > 0.999
    fair = leaks._correlated("blind", blind, sizes)
    assert abs(fair.correlation) < 2 * fair.chance
    assert {one.samples for one in leaks.correlations(singles=50, batches=50)} == {50}


def test_tables_and_json_are_written(tmp_path: Path) -> None:
    results = [result("floor", 40.0), result("extend", 10.0, ours=True), result("peer", 4000.0)]
    checks = [Check(name="extend", value=0.25, must=0.5, unit=" floors")]
    text = report.show(
        results, checks, [leaks._correlated("blind", np.arange(9.0), np.ones(9) * np.arange(9.0))]
    )
    assert "extend" in text
    assert "0.25 floors" in text
    assert "kept" in text
    report.save(tmp_path, {"results": results, "checks": checks})
    assert (
        json.loads((tmp_path / "results.json").read_text(encoding="utf-8"))["results"][1]["ours"]
        is True
    )


def test_a_peer_that_cannot_start_is_left_out_with_a_reason() -> None:
    said: list[str] = []
    found = peers.peers(said.append)
    assert len(found) + len(said) == 3
    assert all(line.startswith("left out ") for line in said)


def test_counters_of_the_benchmark_do_what_they_say() -> None:
    assert [case.ours for case in (cases.floor(), *cases.draws())] == [False, True]
    peers.textbook().work()
