"""A few days of a small website; ``make website`` counts thirty."""

from __future__ import annotations

from pathlib import Path

from campaigns.service.site import simulate


def test_figures_of_a_small_website_are_near_the_truth(tmp_path: Path) -> None:
    report = simulate(10, 1, tmp_path)
    assert report.visits < 0.05 and report.visitors < 0.03  # the median of few days
    assert report.within > 0.8 and report.alone == 0
    assert 3 < report.next_day < 9 and report.finally_ > report.next_day
