"""One line of a CSV file decides nothing about another one."""

from __future__ import annotations

import zlib
from pathlib import Path

import pytest

from tests.neighbours import messy

PAIRS = 150
GOOD = b"2026-03-01T10:00:00Z,a,1,p\n"


def test_one_line_moves_nothing_else_however_messy(tmp_path: Path) -> None:
    found = {seed: messy.violations(seed, tmp_path / "events.csv") for seed in range(PAIRS)}
    wrong = {seed: violations for seed, (violations, _) in found.items() if violations}
    assert not wrong, f"{len(wrong)} of {PAIRS}: {list(wrong.items())[:5]}"
    assert sum(counted for _, counted in found.values()) > PAIRS // 5, (
        "hardly any line counts: the pairs show nothing"
    )


@pytest.mark.parametrize("fast", [True, False])
@pytest.mark.parametrize(
    "odd",
    [b"x\n", b"1,2,3,4,5\n", b'2026-03-01,a,"1,p\n', b"\n", b"\0\n", b"\xff\n", b"9" * 200 + b"\n"],
)
@pytest.mark.parametrize(
    "first",
    [GOOD, b"\xef\xbb\xbf" + GOOD, b'"2026-03-01T10:00:00Z",a,"1",p\n', b"2026-03-01\r,a,1,p\r\n"],
)
def test_one_irregular_row_leaves_every_other_as_it_is(
    tmp_path: Path, fast: bool, odd: bytes, first: bytes
) -> None:
    path = tmp_path / "events.csv"
    rows = first + GOOD
    expected = messy.read(path, b"t,k,n,p\n" + rows, messy.OPTIONS, fast=fast)[0]
    for data in (rows + odd, odd + rows, first + odd + GOOD):
        assert messy.read(path, b"t,k,n,p\n" + data, messy.OPTIONS, fast=fast)[0] == expected


PACKED = b"x^KL\x0c\xd3\xb1\x04@\x05\x01\x01~"
"""A whole zlib stream that is text of one field; it holds aaV,9."""


@pytest.mark.parametrize("fast", [True, False])
@pytest.mark.parametrize(
    "begin",
    [b"x^2", b"x\x01", "x\u0680".encode(), "x\u06da".encode(), b"PK\x03\x04", b"BZh9", PACKED],
)
def test_a_row_that_begins_like_a_compressed_file_is_a_row(
    tmp_path: Path, fast: bool, begin: bytes
) -> None:
    assert zlib.decompress(PACKED) == b"aaV,9" and PACKED.decode().isascii() is False
    good, odd = (text + b",2026-03-01T10:00:00Z,a,1\n" for text in (b"p", begin))
    for data in (odd + 9 * good, 9 * good + odd):
        counts, report = messy.read(
            tmp_path / "events.csv", b"p,t,k,n\n" + data, messy.OPTIONS, fast=fast
        )
        assert (counts.total(), report.rows_read, report.rows_skipped) == (10, 10, 0)


@pytest.mark.parametrize("fast", [True, False])
def test_a_mark_of_byte_order_is_taken_from_the_beginning_of_the_file_only(
    tmp_path: Path, fast: bool
) -> None:
    path, mark = tmp_path / "events.csv", b"\xef\xbb\xbf"
    counts, report = messy.read(
        path, mark + b"t,k,n,p\n" + mark + GOOD + GOOD, messy.OPTIONS, fast=fast
    )
    assert (counts.total(), report.rows_read, report.rows_skipped) == (1, 2, 1)


@pytest.mark.parametrize("fast", [True, False])
def test_an_open_quote_ends_with_its_line(tmp_path: Path, fast: bool) -> None:
    """It would otherwise swallow the rows of others up to the next quote."""
    path = tmp_path / "events.csv"
    data = (
        b't,k,n,p\n2026-03-01T10:00:00Z,a,1,"p\n'
        + 3 * GOOD
        + b'2026-03-01T10:00:00Z,a,1,p"\n'
        + GOOD
    )
    counts, report = messy.read(path, data, messy.OPTIONS, fast=fast)
    assert (counts.total(), report.rows_read, report.rows_skipped) == (4, 6, 2)
