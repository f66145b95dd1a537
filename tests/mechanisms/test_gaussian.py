"""Gaussian counters: golden numbers, laws of Gaussian differential privacy, and the certificate
against exact couplings."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable

import mpmath
import numpy as np
import pytest
from scipy import special

import fadecount as fc
from fadecount.mechanisms.gaussian_law import (
    certainty,
    epsilon_at,
    mu_at,
    normal_quantile,
    upper_tail,
)
from fadecount.mechanisms.memories import Memories, Memory
from tests.mechanisms import gaussian_golden as golden
from tests.mechanisms.examples import half_widths
from tests.mechanisms.test_every_mechanism import refuse

FIXED = fc.Gaussian(
    sigma=16.0, half_lives=(8192, 32, 1), weights=(2.0**-14, 3 * 2.0**-10, 0.25, 0.74700927734375)
)
YEAR = fc.Gaussian(
    sigma=golden.YEAR[0],
    half_lives=golden.YEAR[1],
    weights=[each / 2**44 for each in golden.YEAR[2]],
)


def test_golden_numbers() -> None:
    response = FIXED.noise.response
    assert -np.expm1(-response.decays) == pytest.approx(golden.ONE_LESS_Q, rel=1e-14)
    assert response.parts == pytest.approx(golden.PARTS, rel=1e-14)
    assert response.first == pytest.approx(golden.FIRST, rel=1e-14)
    for age, square in golden.SUM_OF_SQUARES.items():
        assert float(response.loss_square(age)) == pytest.approx(square, rel=1e-14)
    for steps, variance in golden.VARIANCE.items():
        assert float(response.variance(steps)) == pytest.approx(variance, rel=1e-14)
        assert FIXED.variance(steps) == pytest.approx(256 * variance + 1 / 12, rel=1e-14)
    for age, mu in golden.MU.items():
        assert mu <= FIXED.mu(age) <= mu * (1 + 1e-4)
    for age, epsilon in golden.EPSILON.items():
        assert epsilon <= FIXED.loss(age) <= epsilon * (1 + 1e-4)
    for delta, pairs in golden.MU_AT.items():
        for epsilon, mu in pairs.items():
            assert mu_at(epsilon, delta) == pytest.approx(mu, rel=1e-10)
            assert mu_at(epsilon, delta) <= mu
    assert epsilon_at(mu_at(40.0, 1e-9), 1e-9) == pytest.approx(40.0)
    for delta, pairs in golden.MU_AT.items():
        for epsilon, mu in pairs.items():
            assert epsilon <= epsilon_at(mu, delta) <= epsilon + 1e-10


def test_the_year_of_minutes() -> None:
    assert [YEAR.loss(age) <= most for age, most in ((60, 0.5), (43_200, 2.0), (525_600, 4.0))] == [
        True
    ] * 3
    assert math.sqrt(YEAR.mse(525_600)) == pytest.approx(golden.YEAR_ERROR, abs=1e-3)
    assert YEAR.mu(10**9) < 0.9  # the loss has a limit


def test_sequences_multiply_to_ones() -> None:
    """B(x) C(x) = 1 / (1 - x), from closed forms that share nothing but the half-lives."""
    for mechanism in (
        FIXED,
        fc.Gaussian(sigma=2.0, half_lives=(9, 2.5, 0.75), weights=(0.0, 0.1, 0.3, 0.6)),
    ):
        response = mechanism.noise.response
        ages = np.arange(300)
        b = np.exp(-np.outer(ages, response.rates)) @ response.weights
        c = np.exp(-np.outer(ages, response.decays)) @ response.parts
        c[0] += response.first
        assert np.convolve(b, c)[:300] == pytest.approx(np.ones(300), abs=1e-12)
        assert np.all(np.diff(c) < 0)
        assert np.cumsum(c**2) == pytest.approx(response.loss_square(ages), rel=1e-12)
        assert np.cumsum(b**2) == pytest.approx(response.variance(ages + 1), rel=1e-12)
        for horizon in (1, 2, 17, 300):
            assert response.mean_variance(horizon) == pytest.approx(
                np.cumsum(b**2)[:horizon].mean(), rel=1e-9
            )


@pytest.mark.parametrize("delta", [1e-300, 1e-12, 1e-9, 1e-3, 0.5, 0.9])
def test_epsilon_is_the_least_that_holds(delta: float) -> None:
    for mu in (1e-6, 1e-3, 0.1, 1.0, 7.0, 60.0, 1e4):
        epsilon = epsilon_at(mu, delta)
        with mpmath.workdps(60):

            def exact(value: float, mu: float = mu) -> mpmath.mpf:
                e, m = mpmath.mpf(value), mpmath.mpf(mu)
                return mpmath.ncdf(-e / m + m / 2) - mpmath.exp(e) * mpmath.ncdf(-e / m - m / 2)

            assert exact(epsilon) <= delta
            assert epsilon == 0.0 or exact(epsilon * (1 - 1e-10) - 1e-11) > delta
    assert epsilon_at(0.0, delta) == 0.0
    assert epsilon_at(math.inf, delta) == math.inf
    assert epsilon_at(np.array([0.0, 1.0]), delta).shape == (2,)


def test_an_epsilon_of_zero_is_exact() -> None:
    """Where delta is just below what an epsilon of 0 needs, epsilon is tiny but not 0."""
    for mu in (1e-9, 1e-6, 1e-3, 0.1, 1.0):
        with mpmath.workdps(40):
            border = float(mpmath.erf(mpmath.mpf(mu) / (2 * mpmath.sqrt(2))))
        assert epsilon_at(mu, border * (1 + 1e-11)) == 0.0
        for below in (1e-16, 1e-14, 1e-11):
            assert 0.0 < epsilon_at(mu, border * (1 - below)) < 1e-8


def test_normal_functions() -> None:
    for chance in (0.5, 0.4, 0.025, 1e-9, 1e-300):
        assert normal_quantile(chance) == pytest.approx(-special.ndtri(chance), rel=1e-12)
    assert upper_tail(1.0) == pytest.approx(special.ndtr(-1.0))
    assert certainty(0.0) == 0.5 < certainty(1e-30)
    assert certainty(0.672) == pytest.approx(special.ndtr(0.336))


def factors_at(memory: Memory, step: int) -> tuple[int, int]:
    grown, read = memory.factors(step, 1)
    return int(grown[0]), int(read[0])


def coupled(memories: Memories, noise: list[int], size: int) -> list[int]:
    """How other noise must differ from this one to give the same outputs when the first input is
    larger by ``size``.

    In Python's integers, by the definition alone: outputs are ``z + F(earlier z)`` plus inputs, so
    that the other noise follows step by step.
    """

    class Run:
        def __init__(self) -> None:
            self.kept, self.rows = 0, [0] * len(memories.memories)

        def remembered(self, step: int) -> int:
            terms = memories.kept * (self.kept >> memories.kept_dropped) >> memories.kept_down
            for memory, row in zip(memories.memories, self.rows, strict=True):
                terms += factors_at(memory, step)[1] * (row >> memory.dropped) >> memory.down
            return terms >> 6

        def take(self, step: int, drawn: int) -> None:
            self.kept += drawn
            for at, memory in enumerate(memories.memories):
                if step % memory.epoch == 0:
                    self.rows[at] >>= memory.shift
                self.rows[at] += factors_at(memory, step)[0] * drawn

    one, other, shifts = Run(), Run(), []
    for step, drawn in enumerate(noise):
        changed = drawn + one.remembered(step) - other.remembered(step) - size
        one.take(step, drawn)
        other.take(step, changed)
        shifts.append(changed - drawn)
    return shifts


_RANDOM = np.random.default_rng(5)
NOISES: dict[str, Callable[[int, float], list[int]]] = {
    "gaussian": lambda count, scale: [
        int(each) for each in np.rint(_RANDOM.normal(0, scale, count))
    ],
    "tiny": lambda count, scale: _RANDOM.integers(-2, 3, count).tolist(),
    "huge": lambda count, scale: [
        int(each) for each in np.rint(_RANDOM.normal(0, 1000 * scale, count))
    ],
    "alternating": lambda count, scale: [int(scale) * (-1) ** at for at in range(count)],
    "constant": lambda count, scale: [int(3 * scale)] * count,
}
COUPLED = [
    FIXED,
    YEAR,
    fc.Gaussian(sigma=3.0, half_lives=(50, 2.5, 0.75), weights=(0.0, 0.1, 0.3, 0.6)),
    fc.Gaussian(sigma=0.5, half_lives=(2,), weights=(0.5, 0.5)),
    fc.Gaussian.gradual(13.5),
    fc.Gaussian.gradual(2.0, growth=-0.6),
    fc.Gaussian(sigma=2.0**20, half_lives=(1000, 1), weights=(0.001, 0.1, 0.899)),
    fc.Gaussian(sigma=1.0, half_lives=(1 << 28, 1), weights=(0.0, 0.5, 0.5)),
    fc.Gaussian(
        sigma=16.0, half_lives=(8192.25, 32, 1), weights=(2.0**-14, 3 * 2.0**-10, 0.25, 0.7470093)
    ),
    fc.Gaussian(
        sigma=16.0, half_lives=((1 << 32) + 1 / 3, 5000.75, 1), weights=(0.0, 0.1, 0.1, 0.8)
    ),
]


@pytest.mark.parametrize(
    "mechanism", COUPLED, ids=lambda one: f"{len(one.half_lives)} half-lives, sigma {one.sigma}"
)
@pytest.mark.parametrize("kind", NOISES)
def test_the_certificate_covers_exact_couplings(mechanism: fc.Gaussian, kind: str) -> None:
    """The noise that hides an input is never longer than ``mu`` says, with all floors and rounded
    weights."""
    memories, count = mechanism.noise, 250
    for size in (1 << memories.unit_bits, -1):
        shifts = coupled(memories, NOISES[kind](count, memories.deviation), size)
        length = 0
        for age, shift in enumerate(shifts):
            length += shift * shift
            if age in (0, 1, 2, 9, 60, count - 1):
                assert math.sqrt(length) / memories.deviation <= mechanism.mu(age)
        assert abs(shifts[0]) == abs(size)


def test_the_certificate_covers_half_lives_of_quarter_steps() -> None:
    """Powers that do not fit 64-bit integers would make the noise that runs another one than
    stated: 0.342 instead of 0.223."""
    mechanism = COUPLED[-2]
    memories = mechanism.noise
    shifts = coupled(
        memories, NOISES["gaussian"](4001, memories.deviation), 1 << memories.unit_bits
    )
    length = math.sqrt(sum(each * each for each in shifts)) / memories.deviation
    assert 0.2233 < length <= float(mechanism.mu(4000)) < 0.2234


def test_the_certificate_is_tight() -> None:
    for mechanism in COUPLED[:4]:
        memories = mechanism.noise
        shifts = coupled(
            memories, NOISES["gaussian"](1000, memories.deviation), 1 << memories.unit_bits
        )
        found = math.sqrt(sum(each * each for each in shifts)) / memories.deviation
        assert found > 0.999 * float(mechanism.mu(999))


def test_slack_is_small() -> None:
    for mechanism, age, most in (
        (YEAR, 60, 1e-5),
        (YEAR, 525_600, 1e-4),
        (fc.Gaussian.gradual(14.0), 2**20, 1e-2),
    ):
        memories = mechanism.noise
        ideal = math.sqrt(float(memories.response.loss_square(age))) / mechanism.sigma
        assert ideal <= mechanism.mu(age) <= ideal * (1 + most)


def test_a_promise_that_does_not_close_is_infinite() -> None:
    slow = fc.Gaussian(sigma=16.0, half_lives=(1 << 40, 1), weights=(0.0, 0.5, 0.5))
    assert slow.loss(10**12) == math.inf
    assert slow.loss(100) < 1.0
    oldest = fc.Gaussian(sigma=1.6, half_lives=(360_339_701_996,), weights=(0.0, 1.0))
    assert oldest.loss(10**17) == math.inf  # without a warning


def test_long_half_lives_of_large_weight_have_a_finite_loss_at_every_age() -> None:
    for half_life, weight, age, most in (
        (1 << 20, 0.5, 10**9, 1.1),
        (1 << 28, 0.5, 10**6, 1.02),
        (1 << 28, 0.999, 10**6, 1.02),
    ):
        slow = fc.Gaussian(sigma=1.0, half_lives=(half_life, 1), weights=(0.0, weight, 1 - weight))
        ideal = math.sqrt(float(slow.noise.response.loss_square(age)))
        assert ideal <= slow.mu(age) <= most * ideal
        assert math.isfinite(float(slow.mu(fc.mechanisms.LONGEST)))
        assert np.all(
            np.diff(np.asarray(slow.mu([0, 10, 10**4, 10**8, 10**12, fc.mechanisms.LONGEST]))) > 0
        )


def test_one_mu_gives_every_epsilon() -> None:
    for age in (0, 100, 10**6):
        mu = FIXED.mu(age)
        assert FIXED.loss(age) == epsilon_at(mu, 1e-9)
        assert dataclasses.replace(FIXED, delta=1e-5).loss(age) == epsilon_at(mu, 1e-5)
    assert np.shape(FIXED.mu([1, 2, 3])) == (3,)


def test_a_delay_hides_an_item_and_moves_its_loss() -> None:
    late = fc.Gaussian(sigma=16.0, half_lives=(32, 1), weights=(0.01, 0.29, 0.7), delay=5)
    soon = fc.Gaussian(sigma=16.0, half_lives=(32, 1), weights=(0.01, 0.29, 0.7))
    assert [late.mu(age) for age in range(5)] == [0.0] * 5
    assert late.mu(12) == soon.mu(7)
    assert late.loss(4) == 0.0
    assert late.variance(5) == late.mse(5) == 0.0
    assert late.variance(9) == soon.variance(4)
    assert late.error_bound(5, 0.1) == 0
    assert late.error_bound(9, 0.1) == soon.error_bound(4, 0.1)
    assert late.mse(20) == pytest.approx(soon.mse(15) * 15 / 20)
    assert half_widths(late, 5, 2).tolist() == [0, *half_widths(soon, 1, 1)]
    assert late.mu_of([3], now=7) == 0.0
    assert late.mu_of([3], now=8) == pytest.approx(soon.mu(0), rel=1e-9)


def test_people_who_come_again() -> None:
    day = 1440
    for days, exact, bound in ((1, 0.67213, 1e-3), (7, 4.48531, 1e-2), (30, 18.44527, 1e-2)):
        positions = [1 + day * at for at in range(days)]
        assert YEAR.mu_of(positions, now=525_600) == pytest.approx(exact, rel=bound)
        assert YEAR.loss_of(positions, now=525_600) == epsilon_at(
            YEAR.mu_of(positions, now=525_600), 1e-9
        )
    assert YEAR.mu_of([], now=5) == YEAR.mu_of([6], now=5) == YEAR.loss_of([], now=9) == 0.0
    assert YEAR.mu_of([4], now=50) == pytest.approx(YEAR.mu(46), rel=1e-9)
    assert YEAR.mu_of([4, 4, 4], now=50) == pytest.approx(3 * float(YEAR.mu(46)), rel=1e-5)
    assert YEAR.mu_of([4, 4, 4], now=50) <= 3 * float(YEAR.mu(46)) * (1 + 1e-9)
    refuse("now", lambda: YEAR.mu_of([1], now=0))
    refuse("keys", lambda: YEAR.for_sensitivity(1, keys=0))
    refuse("positions", lambda: YEAR.mu_of([0], now=3))


def test_the_integers_of_a_stored_counter_stay_the_same() -> None:
    """A stored state is made of these integers. If this fails, counters that were saved before
    cannot go on."""
    memories = YEAR.noise
    found = [
        (each.grown_bits, each.dropped, each.mantissa, each.read_bits, each.down, each.limit_bits)
        for each in memories.memories
    ]
    assert (memories.unit_bits, memories.kept, memories.kept_dropped, memories.kept_down) == (
        24,
        3025,
        11,
        9,
    )
    assert found == [
        (20, 25, 370919433, 25, 23, 61),
        (20, 20, 275716815, 24, 20, 57),
        (20, 18, 397539400, 24, 21, 55),
    ]


def test_a_person_in_many_keys_at_once_loses_with_the_root_of_their_number() -> None:
    """One person who touches 16 keys at once loses 19 after a year; with Laplace noise it would be
    64."""
    for keys, (mu, epsilon) in golden.YEAR_KEYS.items():
        assert math.sqrt(keys) * float(YEAR.mu(525_600)) == pytest.approx(mu, rel=1e-4)
        assert YEAR.composed_loss(525_600, keys=keys).epsilon == pytest.approx(epsilon, rel=1e-4)
        assert YEAR.composed_loss(525_600, keys=keys).epsilon >= epsilon_at(
            math.sqrt(keys) * float(YEAR.mu(525_600)), 1e-9
        )
    pure = fc.Gradual(epsilon=0.2)
    assert pure.composed_loss(525_600, keys=16).epsilon == 16 * pure.loss(525_600)
    ages = [0, 1, 60, 525_600, 1 << 24, 1 << 30]
    for mechanism, sensitivity, keys in (
        (YEAR, 1, 16),
        (YEAR, 3, 4),
        (fc.Gaussian.gradual(14.0), 2, 1000),
    ):
        scaled = mechanism.for_sensitivity(sensitivity, keys=keys)
        assert scaled.sigma == pytest.approx(
            mechanism.sigma * sensitivity * math.sqrt(keys), rel=0.15
        )
        for age in ages:
            assert scaled.composed_loss(
                age, sensitivity=sensitivity, keys=keys
            ).epsilon <= mechanism.loss(age) * (1 + 1e-11)


def test_people_against_the_sequence() -> None:
    """The closed form beside the squares of the summed sequence, one by one."""
    response = FIXED.noise.response
    ages = np.arange(400)
    c = np.exp(-np.outer(ages, response.decays)) @ response.parts
    c[0] += response.first
    positions = [3, 3, 10, 11, 200]
    seen = np.zeros(300)
    for place in positions:
        seen[place - 1 :] += c[: 300 - place + 1]
    assert FIXED.mu_of(positions, now=300) == pytest.approx(
        math.sqrt(float((seen**2).sum())) / 16.0, rel=1e-4
    )
    assert FIXED.mu_of(positions, now=300) >= math.sqrt(float((seen**2).sum())) / 16.0


def test_a_larger_unit_needs_more_noise_in_proportion() -> None:
    wide = FIXED.for_sensitivity(5)
    assert wide.sigma == pytest.approx(80.0, rel=1e-3)
    for age in (0, 60, 43_200):
        assert 5 * float(wide.mu(age)) == pytest.approx(float(FIXED.mu(age)), rel=1e-4)
        assert wide.composed_loss(age, sensitivity=5).epsilon <= FIXED.loss(age)
        assert (
            epsilon_at(5 * golden.MU[age], 1e-9)
            <= FIXED.composed_loss(age, sensitivity=5).epsilon
            <= epsilon_at(5 * float(FIXED.mu(age)) * (1 + 1e-11), 1e-9)
        )
        assert FIXED.composed_loss(age, sensitivity=5).epsilon > 5 * FIXED.loss(age)
        assert FIXED.composed_loss(age, histories=4).epsilon == pytest.approx(
            epsilon_at(2 * float(FIXED.mu(age)), 1e-9)
        )
    assert FIXED.for_sensitivity(1) == FIXED
    refuse("sensitivity", lambda: FIXED.for_sensitivity(0))


def test_a_larger_unit_keeps_the_promise_at_every_age() -> None:
    """Coarse integers need most at ages that are no powers of two."""
    narrow = fc.Gaussian(
        sigma=20_000.0,
        half_lives=(444_477_752, 976, 20),
        weights=(0.201171875, 0.05419921875, 0.27099609375, 0.4736328125),
    )
    wide = narrow.for_sensitivity(3, keys=2)
    ages = np.unique(np.exp2(np.linspace(0, 30, 1777)).astype(np.int64))
    promised = np.array([narrow.loss(age) for age in ages.tolist()])
    lost = [wide.composed_loss(age, sensitivity=3, keys=2).epsilon for age in ages.tolist()]
    assert np.all(lost <= promised)
    assert np.max(lost / promised) > 0.99
    coarse = fc.Gaussian(
        sigma=12.97,
        half_lives=(37_570_501_062, 3_796_272_412),
        weights=(0.10693359375, 0.34326171875, 0.5498046875),
    )
    refuse("sensitivity", lambda: coarse.for_sensitivity(2))


def test_error_bounds() -> None:
    deviation = math.sqrt(float(np.asarray(FIXED.variance(1000))) - 1 / 12)
    for beta in (0.5, 0.05, 1e-6):
        # A rounded variable is beyond an integer if the variable is half a count farther away.
        beyond = (FIXED.error_bound(1000, beta) + 0.5) / deviation
        assert 2 * special.ndtr(-beyond) <= beta
        assert 2 * special.ndtr(-(beyond - 1 / deviation) / 1.003) > beta
    widths = half_widths(FIXED, 1, 1000)
    spreads = np.sqrt(np.asarray(FIXED.variance(np.arange(1, 1001))) - 1 / 12)
    assert np.all(2 * special.ndtr(-(widths + 0.5) / spreads) <= 0.05)
    assert np.all(2 * special.ndtr(-(widths - 1.0) / spreads) > 0.05)


@pytest.mark.parametrize("sigma", [16.0, 0.7])
def test_widths_of_sums(sigma: float) -> None:
    """Three keys whose window lies inside the stream and two that begin in it, by simulation of
    outputs that are rounded one by one. Narrow noise gets half a count for each rounding."""
    mechanism = fc.Gaussian(sigma=sigma, half_lives=(32, 1), weights=(0.01, 0.29, 0.7))
    response = mechanism.noise.response
    b = np.exp(-np.outer(np.arange(12), response.rates)) @ response.weights
    draws = np.random.default_rng(3).normal(scale=sigma, size=(5, 12, 60_000))
    first, last = (np.rint(np.tensordot(b[:n][::-1], draws[:, :n], (0, 1))) for n in (7, 12))
    error = (last[:3] - first[:3]).sum(axis=0) + last[3:].sum(axis=0)
    starts, ends, copies = np.array([[7, 0]]), np.array([[12, 12]]), np.array([[3, 2]])
    for beta in (0.05, 0.3):
        width = int(mechanism.half_widths(starts, ends, beta=beta, copies=copies)[0])
        outside = float(np.mean(np.abs(error) > width))
        assert outside < beta + 5 * math.sqrt(beta / 60_000)
        if sigma > 1 and beta == 0.05:
            assert outside > beta - 0.004 - 5 * math.sqrt(beta / 60_000)
    none = mechanism.half_widths(starts, ends, copies=np.zeros((1, 2), dtype=np.int64))
    assert none.tolist() == [0]


def test_windows_against_the_sequence() -> None:
    """The difference of two outputs, from the sequence b itself."""
    late = fc.Gaussian(sigma=3.0, half_lives=(50, 2), weights=(0.02, 0.28, 0.7), delay=2)
    response = late.noise.response
    b = np.exp(-np.outer(np.arange(300), response.rates)) @ response.weights
    for start, end in ((0, 1), (0, 9), (5, 6), (100, 140), (2, 3), (299, 300)):
        first, last = max(0, start - 2), max(0, end - 2)
        both = b[:last].copy()
        both[last - first :] -= b[:first]
        wanted = 9.0 * float((both**2).sum())
        rounded = ((first > 0) + (last > 0)) / 12
        assert late.window_variance(start, end) == pytest.approx(
            wanted + rounded, rel=1e-9, abs=1e-12
        )
        width = late.window_interval(start, end)
        if wanted:
            spread = math.sqrt(wanted + (first > 0) / 12)  # two outputs are rounded
            assert 2 * special.ndtr(-(width + 0.5) / spread) <= 0.05
            assert 2 * special.ndtr(-(width - 0.6) / spread) > 0.05
        else:
            assert width == 0
    refuse("end", lambda: late.window_variance(3, 3))


def test_ready_made_ones() -> None:
    balanced = fc.Gaussian.gradual(13.5065)
    for age, epsilon in ((0, 0.391), (10, 0.515), (1000, 0.699), (10**6 - 1, 0.923)):
        assert balanced.loss(age) == pytest.approx(epsilon, rel=0.01)
    assert math.sqrt(balanced.mse(10**6)) == pytest.approx(math.sqrt(1000), rel=0.01)
    assert fc.Gaussian.gradual(5.0, horizon=1).half_lives == (1,)
    assert fc.Gaussian.gradual(5.0, horizon=2**60 - 1).half_lives[0] == 16**10
    bounded = fc.Gaussian.gradual(20.0, growth=-0.6)
    assert float(bounded.mu(10**8)) < 1.5 * float(bounded.mu(0))
    assert bounded.weights[0] > 0.0
    assert fc.Gaussian.gradual(20.0, growth=-0.5).weights[0] == 0.0
    refuse("growth", lambda: fc.Gaussian.gradual(5.0, growth=-4.1))
    refuse("growth", lambda: fc.Gaussian.gradual(5.0, growth=4.1))
    refuse("horizon", lambda: fc.Gaussian.gradual(5.0, horizon=0))
    refuse("mse", lambda: fc.Gaussian.gradual(1.0).for_mse(0.05, horizon=10))
    refuse(
        "sigma", lambda: fc.Gaussian(sigma=2.0**32, half_lives=(1 << 40, 1), weights=(0, 0.5, 0.5))
    )
    refuse(
        "weights",
        lambda: fc.Gaussian(sigma=2.0, half_lives=(3, 1), weights=(0.0, 1.0 - 2.0**-50, 2.0**-43)),
    )


def test_weights_are_kept_as_the_counter_uses_them() -> None:
    rough = fc.Gaussian(sigma=2.0, half_lives=(7, 1), weights=(0.1, 0.2, 0.7000001))
    assert math.fsum(rough.weights) == 1.0
    assert all((each * 2**44).is_integer() for each in rough.weights)
    assert int(rough.weights[0] * 2**44) % (1 << 29) == 0
    assert rough == fc.Gaussian(sigma=2.0, half_lives=(7, 1), weights=rough.weights)
    assert fc.Gaussian(sigma=2.0, half_lives=(7.0, 0.75), weights=(0.5, 0.2, 0.3)).half_lives == (
        7,
        0.75,
    )


def any_half_lives() -> list[float]:
    """Half-lives that anyone may type: whole steps, halves, thirds and quarters, up to the longest
    one."""
    random = np.random.default_rng(23)
    wholes = (2.0 ** random.uniform(2, 40, 24)).astype(np.int64).tolist()
    parts = [
        whole + part
        for whole in wholes
        for part in (1 / 4, 1 / 2, 3 / 4, 1 / 3, 2 / 3)
        if whole < 1 << (38 if part * 4 % 1 else 40)
    ]
    return [
        3,
        22,
        13_113,
        1 << 14,
        65_537,
        1 << 24,
        (1 << 30) + 7,
        8192.25,
        (1 << 32) + 1 / 3,
        (1 << 40) - 0.25,
        1 << 40,
        *parts,
    ]


def test_powers_of_all_half_lives_are_right() -> None:
    random = np.random.default_rng(24)
    for half_life in any_half_lives():
        mechanism = fc.Gaussian(sigma=2.0, half_lives=(half_life, 0.5), weights=(0.0, 0.3, 0.7))
        memories = mechanism.noise
        memory = memories.memories[0]
        epoch = memory.epoch
        rate = mpmath.mpf(memory.shift) / epoch
        places = {
            0,
            1,
            2,
            epoch // 3,
            epoch // 2,
            epoch - 2,
            epoch - 1,
            *random.integers(0, epoch, 20).tolist(),
        }
        for place in sorted(places):
            grown, read = factors_at(memory, place)
            wanted = 2 ** (memory.grown_bits + place * rate)
            assert abs(grown - wanted) <= 0.5 + wanted * 2.0**-27
            scaled = 2.0 ** (memory.down + 6 + memory.dropped - memory.grown_bits)
            exact = 0.3 * scaled * 2 ** -(((place - 1) % epoch + 1) * rate)
            assert abs(read - exact) <= 0.5 + exact * 2.0**-26
        assert len(memory.factors(1, 50_000)[0]) == 50_000
        blocks = memory.factors(epoch - 2, 9)
        assert [factors_at(memory, epoch - 2 + at) for at in range(9)] == list(
            zip(*(each.tolist() for each in blocks), strict=True)
        )
