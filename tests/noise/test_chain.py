"""Chains of noises and noise drawn ahead: exact distributions of every stage, which accept the true
scale and reject 2/3 and 3/2 of it."""

from __future__ import annotations

import json
import math
import random
from pathlib import Path

import mpmath
import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from fadecount.noise import (
    Chain,
    Difference,
    KeyedNoise,
    SystemNoise,
)
from fadecount.noise.generator import words
from fadecount.noise.laplace import digits
from tests.false_alarm import EACH, explained
from tests.noise.discrete import chance_of

GOLDEN = json.loads(
    (Path(__file__).parent.parent / "mechanisms" / "blocks_golden.json").read_text()
)["chain"]
SCALES = (10.0, 4.0, 1.5, 0.4)
DRAWS = 60_000


def law_of_difference(scale: float, sharper: float, farthest: int) -> NDArray[np.float64]:
    """Pr[M = 0], Pr[M = 1], ..."""
    coarse, sharp = math.exp(-1 / scale), math.exp(-1 / sharper)
    atom = sharp / coarse * ((1 - coarse) / (1 - sharp)) ** 2
    powers = np.power(coarse, np.arange(farthest + 1), dtype=np.float64)
    distribution: NDArray[np.float64] = (1 - atom) * (1 - coarse) / (1 + coarse) * powers
    distribution[0] += atom
    return distribution


class TestChain:
    def test_golden_differences(self) -> None:
        for case in GOLDEN:
            scale, sharper = 1 / case["coarse"], 1 / case["fine"]
            distribution = law_of_difference(scale, sharper, 2)
            assert distribution == pytest.approx(case["step"], rel=1e-12)
            with digits(50):
                constant = float(Difference(scale, sharper=sharper)._centre().exp())
            p = math.exp(-case["coarse"])
            assert constant == pytest.approx(2 * case["other"] / (1 + p), rel=1e-12)

    @pytest.mark.parametrize(
        ("scale", "sharper"), [(2.0, 1.0), (10.0, 9.5), (1.0, 0.05), (1e6, 9e5)]
    )
    def test_differences_have_their_law(self, scale: float, sharper: float) -> None:
        draws = Difference(scale, sharper=sharper).from_words(words(DRAWS), lambda _at, _n: 1 << 63)
        distribution = law_of_difference(scale, sharper, 3)
        seen = np.array([np.sum(np.abs(draws) == each) for each in range(4)])
        expected = DRAWS * distribution * np.array([1, 2, 2, 2])
        few = expected < 50
        seen, expected = seen[~few], expected[~few]
        rest = DRAWS - expected.sum()
        chance = stats.chisquare([*seen, DRAWS - seen.sum()], [*expected, rest]).pvalue
        assert chance > EACH, explained(f"difference {scale}, {sharper}", chance)
        assert stats.binomtest(int(np.sum(draws > 0)), int(np.sum(draws != 0))).pvalue > EACH

    def test_every_word_gives_the_integer_of_exact_arithmetic(self) -> None:
        chance = random.Random(3)
        with mpmath.workdps(80):
            for scale, sharper in ((2.0, 1.0), (40.0, 39.99999), (0.3, 0.1), (1e9, 1.0)):
                distribution = Difference(scale, sharper=sharper)
                p, sharp = (mpmath.exp(-1 / mpmath.mpf(each)) for each in (scale, sharper))
                other = (1 - sharp / p) * (1 - p * sharp) / (1 - sharp) ** 2
                constant = mpmath.log(2 * other / (1 + p))
                for _ in range(300):
                    bits = chance.getrandbits(chance.choice([20, 40, 63])) + 1
                    sign = chance.getrandbits(1)
                    bounds = [
                        max(0, int(mpmath.floor(mpmath.mpf(scale) * (constant - mpmath.log(u)))))
                        for u in (mpmath.mpf(b) / 2**63 for b in (bits + 1, bits))
                    ]
                    word = np.array([bits << 1 | sign], dtype=np.uint64)
                    draw = int(distribution.from_words(word, lambda _at, _n: 1 << 63)[0])
                    assert bounds[0] <= abs(draw) <= bounds[1]
                    assert draw == 0 or (draw < 0) == bool(sign)

    def test_every_stage_has_its_own_scale(self) -> None:
        drawn = Chain(0, SCALES).many(SystemNoise(), range(DRAWS // 2), 2)
        rows = np.array(drawn).reshape(len(SCALES), -1)
        for scale, draws in zip(SCALES, rows, strict=True):
            chance = chance_of(draws, scale)
            assert chance > EACH, explained(f"stage of scale {scale}", chance)
            for wrong in (2 / 3, 3 / 2):
                assert chance_of(draws, wrong * scale) < EACH

    def test_a_stage_is_a_later_one_and_independent_noise(self) -> None:
        rows = np.array(Chain(0, (3.0, 1.0)).many(SystemNoise(), range(DRAWS), 1))[:, :, 0]
        difference = rows[0] - rows[1]
        assert abs(np.corrcoef(difference, rows[1])[0, 1]) < 6.5 / math.sqrt(DRAWS)
        assert np.corrcoef(rows[0], rows[1])[0, 1] > 0.25

    def test_keyed_noise_by_level_block_stage_and_key(self) -> None:
        def source(keys: list[str]) -> KeyedNoise:
            return KeyedNoise(b"s" * 32, epoch="1", stream="visits", mechanism="{}", keys=keys)

        chain = Chain(2, SCALES)
        both = chain.many(source(["a", "b"]), range(5, 9), 2)
        alone = chain.many(source(["b"]), range(7, 8), 1)
        for stage in range(len(SCALES)):
            assert both[stage][2, 1] == alone[stage][0, 0]
        other = Chain(3, SCALES).many(source(["a", "b"]), range(5, 9), 2)
        assert not all(np.array_equal(one, two) for one, two in zip(both, other, strict=True))
