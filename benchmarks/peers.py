"""Other libraries on the same work, where they are installed: ``pip install 'fadecount[peers]'``.

OpenDP and diffprivlib draw two values, what a binary counter needs per item, with no counter on
top; jax-privacy takes one step of a streaming mechanism of its own, with one Gaussian value per
item. These are prices of calls: a tree with many children per node needs little more than one draw
per item. A peer that is missing, or that fails to start, is left out with the reason.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from benchmarks.cases import SCALE
from benchmarks.measure import Case

VECTOR = 2_000
ONE_BY_ONE = 500
BATCH = 1 << 17


def peers(say: Callable[[str], object]) -> list[Case]:
    """The cases of all peers that can be measured here."""
    cases = []
    for name, build in (
        ("opendp", _opendp),
        ("diffprivlib", _diffprivlib),
        ("jax_privacy", _jax_privacy),
    ):
        try:
            cases.append(build(importlib.import_module(name)))
        except Exception as error:  # a peer may fail in any way of its own
            reason = " ".join(f"{type(error).__name__}: {error}".split())
            say(f"left out {name}: {reason[:160]}")
    return cases


def textbook() -> Case:
    """The counter of a textbook, in plain Python: floating-point noise from Python's own generator,
    one step at a time."""
    import math
    import random

    def work() -> float:
        active, noisy = [0.0] * 64, 0.0
        for step in range(1, ONE_BY_ONE + 1):
            for level in range((step & -step).bit_length()):
                share = random.random() - 0.5  # noqa: S311 - this is the peer, not fadecount
                active[level] = -math.copysign(SCALE, share) * math.log(1.0 - 2.0 * abs(share))
            noisy = step + sum(active[: step.bit_length()])
        return noisy

    return Case("a textbook counter in Python, floating-point noise", ONE_BY_ONE, work)


def _opendp(_module: Any) -> Case:
    """Exact discrete Laplace noise, in one vector call."""
    import opendp.prelude as dp

    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T=int)), dp.l1_distance(T=int)
    draw = dp.m.make_laplace(*space, scale=SCALE)
    zeros = [0] * VECTOR
    return Case("opendp, exact, vector call, 2 draws", VECTOR // 2, lambda: draw(zeros))


def _diffprivlib(_module: Any) -> Case:
    """Geometric noise, which is discrete Laplace noise, one call per draw; floating point
    inside."""
    from diffprivlib.mechanisms import Geometric

    draw = Geometric(epsilon=1.0 / SCALE, sensitivity=1)

    def work() -> None:
        for _ in range(ONE_BY_ONE):
            draw.randomise(0)

    return Case("diffprivlib, Geometric, 2 draws", ONE_BY_ONE // 2, work)


def _jax_privacy(_module: Any) -> Case:
    """Correlated Gaussian noise of a streaming matrix factorization, over a batch of independent
    counters."""
    import jax
    from jax_privacy.matrix_factorization import buffered_toeplitz

    factor = buffered_toeplitz.BufferedToeplitz.build(
        [0.9, 0.5], [0.2, 0.1], dtype=jax.numpy.float32
    )
    matrix = factor.inverse_as_streaming_matrix()
    shape = jax.ShapeDtypeStruct((BATCH,), jax.numpy.float32)

    @jax.jit  # type: ignore[untyped-decorator]
    def step(key: Any, state: Any) -> Any:
        key, part = jax.random.split(key)
        noise, state = matrix.multiply_next(jax.random.normal(part, (BATCH,)), state)
        return key, noise, state

    held = [(jax.random.key(0), None, matrix.init_multiply(shape))]

    def work() -> None:
        held[0] = jax.block_until_ready(step(held[0][0], held[0][2]))

    work()
    return Case("jax-privacy, Gaussian, floating point, batch", BATCH, work)
