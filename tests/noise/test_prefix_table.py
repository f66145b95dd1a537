"""The table of prefixes says what exact arithmetic says, or nothing; draws by table are draws from
whole words."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
from numpy.typing import NDArray

from fadecount.noise import DiscreteLaplace, SystemNoise
from fadecount.noise.laplace import LARGEST_TABLED_SCALE, UNDETERMINED, completed, prefix_table

SCALES = [
    2.0**-14,
    0.01,
    0.1,
    0.3,
    0.5,
    0.9,
    1.0,
    1.4426950408889634,
    2.0,
    10.0,
    33.3,
    100.0,
    1000.0,
    LARGEST_TABLED_SCALE,
]
CELLS = 1 << 15


def no_further_bits(_position: int, _asked: int) -> int:
    raise AssertionError("a word near no boundary needs no further bits")


def exact_cells(scale: float) -> NDArray[np.int64]:
    """The cell of each boundary 2 q**m / (1 + q), from m = 1 down to cell 0, in 60 digits."""
    cells: list[int] = []
    with mpmath.workdps(60):
        q = mpmath.exp(-1 / mpmath.mpf(scale))
        boundary = 2 * CELLS / (1 + q)
        while not cells or cells[-1]:
            boundary *= q
            cells.append(int(mpmath.floor(boundary)))
    return np.array(cells)


@pytest.mark.parametrize("scale", SCALES)
def test_every_entry_against_mpmath(scale: float) -> None:
    cells = exact_cells(scale)
    entries = prefix_table(scale).reshape(CELLS, 2).astype(np.int64)
    held = np.zeros(CELLS, dtype=bool)
    held[cells] = True
    known = entries[:, 0] != UNDETERMINED
    assert not np.any(known & held)
    # All others are known, but for one that lies beside a boundary.
    assert np.count_nonzero(known == held) <= 1
    above = len(cells) - np.searchsorted(np.sort(cells), np.arange(CELLS), side="right")
    assert np.array_equal(entries[known, 0], above[known])
    assert np.array_equal(entries[known, 1], -above[known])
    assert np.array_equal(entries[~known, 1], entries[~known, 0])


@pytest.mark.parametrize("scale", SCALES)
def test_a_prefix_determines_what_every_word_with_it_gives(scale: float) -> None:
    words = np.random.default_rng(3).integers(0, 1 << 64, 20_000, dtype=np.uint64)
    prefixes = (words >> np.uint64(49) << np.uint64(1) | words & np.uint64(1)).astype(np.uint16)
    entries = prefix_table(scale)[prefixes]
    known = entries != UNDETERMINED
    draws = DiscreteLaplace(scale).from_words(words, lambda _position, asked: 1 << asked)
    assert known.mean() > 0.8
    assert np.array_equal(draws[known], entries[known])


def test_whole_words_begin_with_their_prefix() -> None:
    prefixes = np.array([0, 1, 0xFFFF, 0xABCD], dtype=np.uint16)
    ones, zeros = np.full(4, (1 << 64) - 1, dtype=np.uint64), np.zeros(4, dtype=np.uint64)
    for further, middle in ((ones, (1 << 48) - 1), (zeros, 0)):
        words = completed(prefixes, further).tolist()
        assert words == [(each >> 1) << 49 | middle << 1 | each & 1 for each in prefixes.tolist()]


def test_a_table_cannot_be_changed() -> None:
    with pytest.raises(ValueError, match="read-only"):
        prefix_table(3.0)[0] = 1


@pytest.mark.parametrize("scale", [0.5, 10.0, 1000.0, 1500.0])
def test_draws_by_table_are_draws_from_words(scale: float) -> None:
    """With known bits: a draw is that of its prefix, or of the whole word that begins with it; at
    large scales, of a word."""
    generator = np.random.default_rng(4)
    given: list[NDArray[np.uint64]] = []

    def known_words(count: int) -> NDArray[np.uint64]:
        given.append(generator.integers(0, 1 << 64, count, dtype=np.uint64))
        return given[-1].copy()

    distribution, count = DiscreteLaplace(scale), 70_001
    draws = distribution.fill(np.empty(count, dtype=np.int64), known_words)
    if scale > LARGEST_TABLED_SCALE:
        assert np.array_equal(
            draws,
            distribution.from_words(given[0], lambda _position, asked: int(given[1 + asked][0])),
        )
        return
    *chunks, further = given
    sizes = [min(1 << 15, count - start) for start in range(0, count, 1 << 15)]
    prefixes = np.concatenate(
        [each.view(np.uint16)[:size] for each, size in zip(chunks, sizes, strict=True)]
    )
    entries = prefix_table(scale)[prefixes].astype(np.int64)
    unknown = entries == UNDETERMINED
    assert 0 < np.count_nonzero(unknown) == len(further)
    entries[unknown] = distribution.from_words(
        completed(prefixes[unknown], further), no_further_bits
    )
    assert np.array_equal(draws, entries)


def test_small_batches_are_cut_from_one_block_and_never_overlap() -> None:
    """At a scale of 2**34, 16,000 draws hold 0.002 equal pairs on average: four of them have p <
    1e-12."""
    noise, distribution = SystemNoise(), DiscreteLaplace(2.0**34)
    sizes = [1, 3, 5, 700, 40, 40, 1, 2000, 9, 1, 3, 5000, 2, 8, 64] * 2
    batches = [noise.many(distribution, 0, range(1), range(size), 1) for size in sizes]
    assert [each.shape for each in batches] == [(1, size, 1) for size in sizes]
    drawn = np.concatenate([each.reshape(-1) for each in batches])
    assert len(np.unique(drawn)) >= len(drawn) - 3
