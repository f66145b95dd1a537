"""An audit of Gaussian noise bounds mu from below: most of it at age 0, and too little noise is
found."""

from __future__ import annotations

import dataclasses

import fadecount as fc
from fadecount.audit import audit, mu_shown
from fadecount.mechanisms.gaussian_law import mu_at

MECHANISM = fc.Gaussian(sigma=2.0, half_lives=(30, 1), weights=(0.01, 0.29, 0.7), delta=1e-6)


def test_most_of_mu_is_found_and_no_more() -> None:
    first, later = audit(MECHANISM, [0, 5], samples=400_000)
    assert (
        0.8 * float(MECHANISM.mu(0))
        <= mu_at(first.shown, 1e-6)
        <= float(MECHANISM.mu(0)) * (1 + 1e-6)
    )
    assert not first.refuted and not later.refuted


def test_half_the_noise_is_found() -> None:
    half = dataclasses.replace(MECHANISM, sigma=1.0)
    assert all(
        finding.refuted for finding in audit(MECHANISM, [0, 2], samples=100_000, running=half)
    )


def test_counts_that_say_nothing() -> None:
    assert mu_shown(0, 0, 1000, 1e-6) == mu_shown(1000, 1000, 1000, 1e-6) == 0.0
