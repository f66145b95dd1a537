"""The comparison at equal promise: every way keeps the promise, and the pages claim no more than the figures show."""

from __future__ import annotations

import re

import numpy as np
import pytest
from benchmarks import promise
from benchmarks.gaussian_errors import square_root, tree
from scipy import linalg

from tests.docs.pages import read

WAYS = promise.ways()
ROWS = re.findall(
    r"^\| (.+?) \| ([\d.]+) \|", read("docs/measurements.md").partition("## Error at equal promise")[2], re.MULTILINE
)


def test_every_way_keeps_the_promise() -> None:
    assert all(way.year <= promise.EPSILON * (1 + 1e-12) for way in WAYS)
    assert all(way.year > 0.98 * promise.EPSILON for way in WAYS), "none promises much more than it must"


def test_the_page_claims_no_more() -> None:
    shown = [float(error) for _, error in ROWS[: len(WAYS)]]
    for way, error in zip(WAYS, shown, strict=True):
        if way.name.startswith("fadecount"):
            assert way.error <= error, f"{way.name}: the page states {error}, the error is {way.error}"
        else:
            assert error <= way.error, f"{way.name}: the page states {error}, the error is {way.error}"
            assert error == pytest.approx(way.error, rel=0.01)


def test_the_readme_has_the_figures_of_the_page() -> None:
    row = next(line for line in read("README.md").splitlines() if line.startswith("| typical error, ε ≤ 2"))
    page = [error for _, error in ROWS]
    assert re.findall(r"(?<![\w.])\d+(?:\.\d+)?(?= ?[*|,])", row.split("|", 2)[2]) == [page[0], page[2], page[3], page[4]]


def test_the_square_root_is_that_of_the_running_sum() -> None:
    variances = square_root(50)
    rows = np.diff(variances, prepend=0.0) / variances[0]  # squares of the coefficients
    factor = linalg.toeplitz(np.sqrt(rows), np.zeros(50))
    assert factor @ factor == pytest.approx(np.tril(np.ones((50, 50))))
    assert variances == pytest.approx((factor**2).sum(axis=1) * (factor**2).sum(axis=0).max())


def test_the_tree_adds_up_dyadic_intervals() -> None:
    assert tree(7).tolist() == [3, 3, 6, 3, 6, 6, 9]
    assert tree(8)[-1] == 4


def test_the_command_prints_every_way(capsys: pytest.CaptureFixture[str]) -> None:
    assert promise.main([]) == 0
    said = capsys.readouterr().out
    assert all(way.name in said for way in WAYS) and "has lost 74.8 after a year" in said
