"""Memories: decaying sums of past noise, in integers, and the exact computation of their privacy
loss.

The output at step t (from 0) is the sum of the inputs plus ``b_0 z_t + b_1 z_(t-1) + ...``, where
``z`` is fresh noise and

    b_k = w_0 + w_1 2**(-k / h_1) + ... + w_K 2**(-k / h_K),     weights adding up to 1, so that b_0
    = 1.

Weight ``w_0`` never decays, weight ``w_i`` is halved every ``h_i`` steps. The sequence ``c`` with
``B(x) C(x) = 1 / (1 - x)`` says how much of one input shows in the noise that an observer can
compute from the outputs. :class:`Response` has both in closed form.

:class:`Memories` is the integer arithmetic that a counter really runs. Its ``slack`` bounds, at
every age, by how much the integers can deviate from the ideal formulas. docs/gaussian.md has the
proof.

Each half-life is ``epoch / shift``: a memory is divided by ``2**shift`` once per epoch of whole
steps, by an exact bit shift, and what is added to it within an epoch is weighted by growing powers
of two instead. Floors of floors are floors: a memory is always the floor of the exact number,
however long it has run.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, Context, Decimal, localcontext
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fadecount.mechanisms.gaussian_law import normal_quantile

WEIGHT_BITS = 44
LONGEST_HALF_LIFE = 1 << 40
LARGEST_SHIFT = 4
MEMORIES = 16
FINEST, COARSEST = 28, 8
_MANTISSA_BITS = 29
_ROUGH = 6
_ROOM = 61
_LEAST_WEIGHT_BITS, _MOST_WEIGHT_BITS = 14, 20
_DIRECT = 1 << 14
BLOCK = 1 << 15
"""Steps that are counted at once."""
_SAFE = 1.0 + 1e-12
_ROUNDING = 1.0 / 12.0
"""The variance that rounding to whole counts adds."""
_EXACT = Context(prec=60, rounding=ROUND_HALF_EVEN, Emin=-(10**17), Emax=10**17, traps=[])
Reals = NDArray[np.float64]
Integers = NDArray[np.int64]


def as_epoch(half_life: float) -> tuple[int, int]:
    """A half-life as whole steps and a shift: 22 is (22, 1), 0.75 is (3, 4)."""
    exact = Fraction(half_life).limit_denominator(LARGEST_SHIFT)
    return exact.numerator, exact.denominator


@dataclass(frozen=True, slots=True)
class Response:
    """The sequences ``b`` and ``c`` of some half-lives and weights, in closed form.

    ``b_k = sum of weights[i] exp(-rates[i] k)``, the first rate being 0. ``c_k = sum of parts[i]
    exp(-decays[i] k)``, plus ``first`` at k = 0. All terms are positive: B has positive residues,
    so that one zero of ``(1 - x) B(x)`` lies between any two neighbouring poles. The zeros are
    found by bisection in 60 digits; each number below is off by a few units in its last place.
    """

    rates: Reals
    weights: Reals
    decays: Reals
    parts: Reals
    first: float
    reach: Reals
    """For each half-life, a bound on the sum of the absolute coefficients of ``w_i (1 - x) C(x) /
    (1 - p_i x)``."""

    def loss_square(self, age: int | Integers) -> Reals:
        """``c_0**2 + ... + c_age**2``."""
        sums = geometric(
            self.decays[:, None] + self.decays[None, :],
            np.asarray(age, dtype=np.float64)[..., None, None] + 1.0,
        )
        pairs = np.einsum("i,j,...ij->...", self.parts, self.parts, sums)
        loss_square: Reals = pairs + self.first * (2.0 * self.parts.sum() + self.first)
        return loss_square

    def variance(self, steps: int | Integers) -> Reals:
        """``b_0**2 + ...``, as many terms as steps."""
        sums = geometric(
            self.rates[:, None] + self.rates[None, :],
            np.asarray(steps, dtype=np.float64)[..., None, None],
        )
        variance: Reals = np.einsum("i,j,...ij->...", self.weights, self.weights, sums)
        return variance

    def window_variance(self, starts: int | Integers, ends: int | Integers) -> Reals:
        """The same for the difference of two steps: ``(b_k - b_(k + length))**2`` over the earlier
        noise, and the new noise."""
        first, length = (
            np.asarray(starts, dtype=np.float64),
            np.asarray(ends, dtype=np.float64) - np.asarray(starts),
        )
        faded = -np.expm1(-self.rates * length[..., None]) * self.weights
        sums = geometric(self.rates[:, None] + self.rates[None, :], first[..., None, None])
        variance: Reals = np.einsum("...i,...j,...ij->...", faded, faded, sums) + self.variance(
            length
        )
        return variance

    def mean_variance(self, horizon: int) -> float:
        """The mean of ``variance`` over the steps 1 to the horizon."""
        rates = self.rates[:, None] + self.rates[None, :]
        return float(self.weights @ _mean_geometric(rates, float(horizon)) @ self.weights)

    def readout(self, age: int | Integers) -> Reals:
        """The sum over the half-lives of ``w_i (1 + p_i + ... + p_i**age)``."""
        sums = geometric(self.rates[1:], np.asarray(age, dtype=np.float64)[..., None] + 1.0)
        readout: Reals = sums @ self.weights[1:]
        return readout


def geometric(rates: Reals, count: Reals | float) -> Reals:
    """``1 + r + ... + r**(count - 1)`` for ``r = exp(-rate)``."""
    positive = np.maximum(rates, 1e-300)
    return np.where(rates > 0.0, np.expm1(-positive * count) / np.expm1(-positive), count)


def _mean_geometric(rates: Reals, horizon: float) -> Reals:
    """The mean of ``geometric(rates, t)`` over t = 1 .. horizon; a series where the closed form
    would cancel."""
    small = rates * horizon < 1e-4
    plain = np.where(small, 1.0, rates)
    decayed = np.exp(-plain) * np.expm1(-plain * horizon) / np.expm1(-plain)
    closed = (1.0 - decayed / horizon) / -np.expm1(-plain)
    return np.where(small, 0.5 * (horizon + 1.0) - rates * (horizon * horizon - 1.0) / 6.0, closed)


@lru_cache(maxsize=256)
def response(epochs: tuple[tuple[int, int], ...], weights: tuple[float, ...]) -> Response:
    """The closed forms for half-lives (longest first, as epochs and shifts) and weights (first the
    one that never decays)."""
    with localcontext(_EXACT):
        poles = [Decimal(2).ln() * shift / epoch for epoch, shift in epochs]
        exact = [Decimal(weight) for weight in weights]
        lows = [Decimal(0), *poles[:-1]]
        decays = [_zero(low, pole, poles, exact) for low, pole in zip(lows, poles, strict=True)]
        if not weights[0]:
            decays[0] = Decimal(0)
        parts = [_part(at, decays, poles) for at in range(len(poles))]
        # A zero at 1 is cancelled by the factor 1 - x.
        pairs = [(decay, part) for decay, part in zip(decays, parts, strict=True) if decay]
        reach = [
            weight * (1 + sum(part / abs(1 - (decay - pole).exp()) for decay, part in pairs))
            for pole, weight in zip(poles, exact[1:], strict=True)
        ]
        first = (sum(decays, Decimal(0)) - sum(poles)).exp()
    return Response(
        np.array([0.0, *map(float, poles)]),
        np.array(weights),
        np.array([float(each) for each in decays]),
        np.array([float(each) for each in parts]),
        float(first),
        np.array([float(each) * _SAFE for each in reach]),
    )


def _zero(low: Decimal, high: Decimal, poles: list[Decimal], weights: list[Decimal]) -> Decimal:
    """The rate between two poles at which ``w_0 + sum of w_i (1 - x) / (1 - p_i x)`` vanishes for
    ``x = exp(rate)``: it falls."""
    kept, width = [(-pole).exp() for pole in poles], high - low
    for _ in range(180):
        width /= 2
        x = (low + width).exp()
        terms = (weight / (1 - p * x) for p, weight in zip(kept, weights[1:], strict=True))
        low = low + width if weights[0] + (1 - x) * sum(terms) > 0 else low
    return low


def _part(at: int, decays: list[Decimal], poles: list[Decimal]) -> Decimal:
    """The residue of ``C(x) = product of (1 - p_j x) / (1 - q_j x)`` at one of its poles."""
    residue = Decimal(1)
    for other, (decay, pole) in enumerate(zip(decays, poles, strict=True)):
        residue *= 1 - (decays[at] - pole).exp()
        if other != at:
            residue /= 1 - (decays[at] - decay).exp()
    return residue


@dataclass(frozen=True)
class Memory:
    """One memory: its epoch and shift, the bits of its weights inside an epoch, and how it is
    read."""

    epoch: int
    shift: int
    grown_bits: int
    dropped: int
    mantissa: int
    read_bits: int
    down: int
    limit_bits: int
    """A memory stays below ``2**limit_bits``, 32 standard deviations; a counter checks it."""

    def grown(self, places: Integers) -> Integers:
        """What noise at these places of an epoch is multiplied by: ``2**(grown_bits + shift * place
        / epoch)``, rounded."""
        powers = np.exp2(self.grown_bits + self.shift * places / self.epoch)
        return np.rint(powers).astype(np.int64)

    def read(self, places: Integers) -> Integers:
        """What the memory is multiplied by at the step after these places."""
        first = math.ldexp(self.mantissa, self.read_bits - _MANTISSA_BITS)
        left = self.shift * (self.epoch - 1 - places) / self.epoch
        return np.rint(first * np.exp2(left)).astype(np.int64)

    def factors(self, first: int, count: int) -> tuple[Integers, Integers]:
        """For ``count`` steps from ``first`` on (from 0): what multiplies their noise, and the
        memory that each of them reads."""
        if self.epoch <= _DIRECT and first % self.epoch + count <= len(self._tiled[0]):
            grown, read = self._tiled
            part = slice(first % self.epoch, first % self.epoch + count)
            return grown[part], read[part]
        places = np.arange(first, first + count) % self.epoch
        return self.grown(places), self.read((places - 1) % self.epoch)

    @cached_property
    def _tiled(self) -> tuple[Integers, Integers]:
        """The factors of a short epoch, repeated so that a block of steps is a slice of them."""
        places = np.arange(self.epoch + BLOCK) % self.epoch
        return self.grown(places), self.read((places - 1) % self.epoch)


@dataclass(frozen=True)
class Memories:
    """The integers that a counter runs: ``2**unit_bits`` units per count, one sum of all noise, one
    memory per half-life.

    Step t = 0, 1, ...: with the memories Q as they are (at first 0), the remembered noise is F =
    (sum of terms) >> 6 units, where a half-life adds ``read[(t - 1) mod epoch] * (Q >> dropped) >>
    down``, and the part that never decays adds ``kept * (Q_0 >> kept_dropped) >> kept_down``. Then
    ``Q >>= shift`` if t is a multiple of the epoch. Fresh noise z of ``deviation`` units is drawn,
    ``Q_0 += z`` and ``Q += grown[t mod epoch] * z``. The noise in the output is z + F units,
    rounded to whole counts.
    """

    deviation: float
    unit_bits: int
    kept: int
    kept_dropped: int
    kept_down: int
    memories: tuple[Memory, ...]
    _weights: tuple[float, ...]

    @property
    def kept_limit_bits(self) -> int:
        """The sum of all noise stays below two to the power of this."""
        return min(62, 60 - self.kept.bit_length() + self.kept_dropped)

    def rows(self, shown: int = 0) -> int:  # noqa: ARG002 - it is the same at every step
        """How many numbers the noise of one count takes."""
        return 1 + len(self.memories)

    @cached_property
    def response(self) -> Response:
        return response(tuple((each.epoch, each.shift) for each in self.memories), self._weights)

    def shift_bound(self, age: Integers | int, size: float = 1.0) -> Reals:
        """What the integers that run add to the ideal length of the noise that hides an input of
        this size (or a group of inputs), ``size * sqrt(c_0**2 + ... + c_age**2)``, at most, before
        division by ``shrink``: the smaller of two bounds (docs/gaussian.md). Infinite where neither
        closes, at ages beyond about 2**30 with half-lives of that size and large weight."""
        unit = 2.0**self.unit_bits
        floors = 1.0 + self.rows() / 64.0
        if self.kept:
            floors += self._weights[0] * 2.0**self.kept_dropped
        read_error = 0.0
        for memory in self.memories:
            largest = float(memory.read(np.array([0]))[0]) + 1.0
            smallest = float(memory.read(np.array([memory.epoch - 1]))[0]) - 1.0
            floors += largest * 2.0 ** -(memory.down + _ROUGH) * (1.0 + 2.0**-memory.dropped)
            read_error = max(read_error, 0.5 / smallest)
        growth_error = max(self._growth_errors)
        read_error = (read_error + 2.0**-27) * (1.0 + growth_error)
        kept = 1.0 - self._weight_error
        sums = np.asarray(self.response.readout(age)) * _SAFE
        reach = float(self.response.reach.sum()) * _SAFE
        grown = (1.0 + reach) * growth_error * sums / kept
        error = np.full(sums.shape, math.inf)
        for more, share in (
            (sums * self._weight_error / kept, 2.0 * sums / kept),
            (grown, reach + 2.0 * grown),
        ):  # the largest error with error <= floors + ... + share * error, if there is one
            left = 1.0 - read_error * share
            errors = floors + read_error * unit * size * (1.0 + more)
            closed = errors / np.where(left > 0.0, left, 1.0)
            error = np.where(left > 0.0, np.minimum(error, closed * _SAFE), error)
        added: Reals = 2.0 * error / unit * np.sqrt(np.asarray(age, dtype=np.float64) + 1.0) * _SAFE
        return added

    # The error, by shown steps; 0 is the empty output before the first one.
    # --------------------------------------------------------------------------------------------
    def mean_variance(self, shown: int, *, continuous: bool = False) -> float:
        """The variance of the noise, averaged over the steps ``1 .. shown``; before outputs are
        rounded, if it is to be ``continuous``."""
        rounding = 0.0 if continuous else _ROUNDING
        return self._square * self.response.mean_variance(shown) + rounding

    def window_variance(self, firsts: Any, lasts: Any) -> Reals:
        """The variances of the noise in the differences of the outputs of two steps."""
        rounding = _ROUNDING * ((np.asarray(firsts) > 0) * 1 + (np.asarray(lasts) > 0))
        return self._square * self.response.window_variance(firsts, lasts) + rounding

    def half_widths(
        self, firsts: Integers, lasts: Integers, beta: float, copies: ArrayLike = 1
    ) -> Integers:
        """How far the differences of the outputs of two steps are from the true ones at most,
        except with probability ``beta``; with a second axis, the sums over it of differences with
        their own noise, each so many times.

        Each output is rounded to a whole count. A rounded normal variable has at each integer the
        density of the variable plus a uniform one. So has a sum of them, but for the aliases of
        their transforms: below 1e-6 where a variance is at least 9. Uniform variables have light
        tails: from 1.74 standard deviations on (``beta`` up to 0.08), the sum is not farther away
        than a normal one. Elsewhere each rounding counts with its half.
        """
        first, last, times = (
            each.reshape(len(lasts), -1)
            for each in np.broadcast_arrays(firsts, lasts, np.atleast_1d(copies))
        )
        variances = self.response.window_variance(first, last)
        wide = (self._square * variances >= 9.0) | (times == 0)
        alike = wide.all(axis=1) & (beta <= 0.08)
        outputs = (times * ((first > 0) * 1 + (last > 0))).sum(axis=1)
        total = (times * variances).sum(axis=1)
        alike |= outputs == 1
        more = np.where(alike, (outputs - 1) / 12.0, 0.0) / self._square
        farthest = self._quantile(total + np.maximum(more, 0.0), beta, outputs=outputs)
        widths = np.where(alike, np.ceil(farthest - 0.5), np.floor(farthest + 0.5 * outputs))
        return np.where(outputs > 0, widths, 0.0).astype(np.int64)

    def _quantile(self, variances: Reals, beta: float, *, outputs: Any = 1) -> Any:
        """A normal quantile, with what rounded weights (2**-9) and, in each output, floors (four
        units a term) can add."""
        unit = math.ldexp(1.0, -self.unit_bits)
        spread = self.deviation * unit * np.sqrt(variances) * (1.0 + 2.0**-9)
        return spread * normal_quantile(0.5 * beta) + 4.0 * outputs * (self.rows() + 1) * unit

    @property
    def _square(self) -> float:
        """The variance of fresh noise, in squared counts."""
        return math.ldexp(self.deviation, -self.unit_bits) ** 2

    @cached_property
    def _growth_errors(self) -> tuple[float, ...]:
        """The relative errors of the weights inside an epoch; none where an epoch is one step."""
        return tuple(
            2.0 ** -(each.grown_bits + 1) + 2.0**-27 if each.epoch > 1 else 0.0
            for each in self.memories
        )

    @cached_property
    def _weight_error(self) -> float:
        return float(np.dot(self._growth_errors, self.response.reach)) * _SAFE

    @cached_property
    def shrink(self) -> float:
        """One minus the relative amount that rounded weights can add to the noise that hides an
        input."""
        return (1.0 - self._weight_error) * (1.0 - 1e-12)


def resolved(weights: tuple[float, ...]) -> tuple[float, ...]:
    """The weights in units of 2**-44 that add up to 1 exactly; the one that never decays has 12
    significant bits."""
    whole = 1 << WEIGHT_BITS
    kept = round(weights[0] * whole)
    coarse = max(0, kept.bit_length() - 12)
    units = [
        (kept + (1 << coarse >> 1)) >> coarse << coarse,
        *(round(each * whole) for each in weights[1:-1]),
    ]
    return tuple(each / whole for each in [*units, whole - sum(units)])


@lru_cache(maxsize=256)
def memories_of(
    sigma: float, epochs: tuple[tuple[int, int], ...], weights: tuple[float, ...]
) -> Memories | None:
    """The arithmetic for these numbers, as fine as 64-bit integers allow (32 standard deviations
    fit), or None if none does."""
    spreads = []
    for epoch, shift in epochs:
        squares = -math.expm1(-2.0 * math.log(2.0) * shift / epoch)
        spreads.append(math.log2(32.0 * sigma) - 0.5 * math.log2(squares) + shift)
    finest = min(
        [
            FINEST,
            40 - math.ceil(math.log2(sigma)),
            *(_ROOM - _LEAST_WEIGHT_BITS - math.ceil(each) for each in spreads),
        ]
    )
    unit_bits = min(finest, max(24, min(_ROOM - 20 - math.ceil(each) for each in spreads)))
    if unit_bits < COARSEST:
        return None
    memories = []
    for (epoch, shift), weight, spread in zip(epochs, weights[1:], spreads, strict=True):
        grown_bits = min(_MOST_WEIGHT_BITS, _ROOM - unit_bits - math.ceil(spread))
        exponent = _MANTISSA_BITS - math.frexp(weight)[1]
        mantissa = round(math.ldexp(weight, exponent))
        limit_bits = math.ceil(spread) + unit_bits + grown_bits
        balanced = math.floor((61 - math.ceil(spread) - shift - math.log2(weight)) / 2)
        read_bits = min(28, max(16, balanced))
        dropped = max(0, limit_bits + read_bits + shift - 62)
        down = exponent - _MANTISSA_BITS + read_bits + shift + grown_bits - dropped - _ROUGH
        memories.append(
            Memory(epoch, shift, grown_bits, dropped, mantissa, read_bits, down, limit_bits)
        )
    kept, kept_dropped, kept_down = 0, 0, 0
    if weights[0]:
        units = round(weights[0] * (1 << WEIGHT_BITS))
        kept_dropped = min(20, max(0, math.floor(-3.0 - math.log2(weights[0]))))
        zeros = min((units & -units).bit_length() - 1, WEIGHT_BITS - _ROUGH - kept_dropped)
        kept = units >> zeros
        kept_down = WEIGHT_BITS - zeros - kept_dropped - _ROUGH
    return Memories(
        math.ldexp(sigma, unit_bits),
        unit_bits,
        kept,
        kept_dropped,
        kept_down,
        tuple(memories),
        weights,
    )
