"""Keyed noise: the documented derivation, independence of everything but the name, and the
distribution of every other sampler here.

The statistical tests take a fresh secret each time.
"""

from __future__ import annotations

import hashlib
import hmac
import itertools
import math
import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES256
from cryptography.hazmat.primitives.ciphers.modes import CTR
from numpy.typing import NDArray
from scipy import stats

import fadecount as fc
from fadecount.errors import ParameterError
from fadecount.noise import DiscreteLaplace, KeyedNoise
from tests.false_alarm import EACH, explained
from tests.noise.discrete import chance_of
from tests.noise.test_distribution import DRAWS, LARGE, SCALES, TINY

SECRET = bytes(range(32))
WIDE = 2.0**40


def _noise(
    keys: Sequence[str] = ("a", "b"),
    *,
    secret: bytes = SECRET,
    epoch: str = "e",
    stream: str = "s",
    mechanism: str = "m",
) -> KeyedNoise:
    return KeyedNoise(secret, epoch=epoch, stream=stream, mechanism=mechanism, keys=keys)


def _column(
    noise: KeyedNoise,
    *,
    scale: float = WIDE,
    level: int = 0,
    round_number: int = 0,
    count: int = 64,
) -> list[list[int]]:
    rounds = range(round_number, round_number + 1)
    draws: list[list[int]] = noise.many(
        DiscreteLaplace(scale), level, rounds, range(1, count + 1), len(noise.tags)
    )[0].tolist()
    return draws


# The derivation, spelt out a second time
# ------------------------------------------------------------------------------------------------
def _lengths(*parts: bytes) -> bytes:
    return b"".join(len(part).to_bytes(8, "big") + part for part in parts)


def _mac(key: bytes, message: bytes) -> bytes:
    return hmac.new(key, message, hashlib.sha256).digest()


def _naive_word(
    epoch: str,
    stream: str,
    mechanism: str,
    key: str,
    level: int,
    place: tuple[int, int, int],
    scale: float,
) -> int:
    """RFC 5869 by hand, and the library's own counter mode started at the block: nothing shared
    with the code under test."""
    round_number, node, further = place
    extracted = _mac(_lengths(epoch.encode()), SECRET)
    stream_key = _mac(
        extracted,
        _lengths(b"fadecount keyed noise 1", stream.encode(), mechanism.encode()) + b"\x01",
    )
    tag = _mac(stream_key, _lengths(b"key") + _lengths(key.encode()))[:16]
    level_key = _mac(
        stream_key,
        _lengths(b"level", str(level).encode(), str(round_number).encode(), scale.hex().encode()),
    )
    where = node.to_bytes(8, "little") + further.to_bytes(8, "little")
    block = bytes(one ^ other for one, other in zip(tag, where, strict=True))
    stream_of_zeros = Cipher(AES256(level_key), CTR(block)).encryptor().update(bytes(8))
    return int.from_bytes(stream_of_zeros, "little")


def _naive_draw(key: str, level: int, round_number: int, node: int, scale: float) -> int:
    word = _naive_word("e", "s", "m", key, level, (round_number, node, 0), scale)

    def more(asked: int) -> int:
        return _naive_word("e", "s", "m", key, level, (round_number, node, asked + 1), scale)

    magnitude = DiscreteLaplace(scale).settle(word >> 1, more)
    return -magnitude if word & 1 else magnitude


@pytest.mark.parametrize("scale", [0.5, 7.25, 1e6, WIDE])
def test_draws_follow_the_documented_derivation(scale: float) -> None:
    keys = ["", "a", "b", "日本"]
    noise = _noise(keys)
    for level, rounds, nodes in [
        (0, range(1), range(1, 40)),
        (3, range(2, 4), range(1, 9, 2)),
        (-1, range(5, 6), range(1)),
    ]:
        drawn = noise.many(DiscreteLaplace(scale), level, rounds, nodes, len(keys))
        naive = [
            [[_naive_draw(key, level, one, node, scale) for key in keys] for node in nodes]
            for one in rounds
        ]
        assert drawn.tolist() == naive


@pytest.mark.parametrize(
    ("distribution", "keys", "rounds", "nodes", "digest"),
    [
        (DiscreteLaplace(10.0), 1000, 1, 100, "fe7a332509e7"),
        (DiscreteLaplace(10.0), 1, 1, 100_000, "f8883b584928"),
        (DiscreteLaplace(10.0), 10, 1000, 7, "126b9da21596"),
    ],
)
def test_values_stay_what_they_were(
    distribution: DiscreteLaplace, keys: int, rounds: int, nodes: int, digest: str
) -> None:
    """Digests of draws by the first implementation, in pieces of any size."""
    names = [f"k{at}" for at in range(keys)]
    noise = KeyedNoise(b"s" * 32, epoch="e", stream="s", mechanism="m", keys=names)
    drawn = noise.many(distribution, 0, range(rounds), range(1, nodes + 1), keys)
    assert hashlib.sha256(drawn.astype("<i8").tobytes()).hexdigest().startswith(digest)


class _FurtherWords(DiscreteLaplace):
    """In the place of a distribution: gives the third further word of every draw, which a true
    distribution hardly ever needs."""

    tabled = False

    def from_words(
        self, words: NDArray[np.uint64], more: Callable[[int, int], int], out: Any = None
    ) -> NDArray[np.int64]:
        return np.array(
            [more(position, 2) for position in range(len(words))], dtype=np.uint64
        ).view(np.int64)


def test_further_words_follow_the_documented_derivation() -> None:
    keys = ["a", "b", "c"]
    distribution = _FurtherWords(2.5)
    given = _noise(keys).many(distribution, 4, range(1, 3), range(5, 9), 3).view(np.uint64).tolist()
    assert given == [
        [
            [_naive_word("e", "s", "m", key, 4, (one, node, 3), 2.5) for key in keys]
            for node in range(5, 9)
        ]
        for one in (1, 2)
    ]


# What a variable depends on, and what not
# ------------------------------------------------------------------------------------------------
def test_a_variable_does_not_depend_on_other_keys_their_order_or_the_size_of_the_request() -> None:
    names = [f"key {number}" for number in range(700)]
    distribution = DiscreteLaplace(1e5)
    whole = _noise(names).many(distribution, 2, range(3), range(1, 200), len(names))
    some = [640, 3, 77]
    part = _noise().of([names[at] for at in some]).many(distribution, 2, range(3), range(1, 200), 3)
    assert np.array_equal(part, whole[:, :, some])
    for at in some:
        one = _noise([names[at]]).many(distribution, 2, range(1, 2), range(150, 151), 1)
        assert one[0, 0, 0] == whole[1, 149, at]


def test_every_part_of_the_name_matters() -> None:
    columns = [
        _column(_noise()),
        _column(_noise(["b", "a"])),
        _column(_noise(["ab", ""])),
        _column(_noise(secret=bytes(33))),
        _column(_noise(epoch="f")),
        _column(_noise(stream="t")),
        _column(_noise(mechanism="n")),
        _column(_noise(stream="sm", mechanism="")),
        _column(_noise(), level=1),
        _column(_noise(), level=-1),
        _column(_noise(), round_number=1),
        _column(_noise(), scale=WIDE / 2),
    ]
    for one, other in itertools.combinations(columns, 2):
        equal = sum(a == b for a, b in zip(one, other, strict=True))
        assert equal == 0, "two names share words"
    every = [value for column in columns[:1] + columns[3:] for row in column for value in row]
    assert len(set(every)) == len(every)


def test_counters_of_single_keys_give_what_the_vector_gives() -> None:
    for mechanism in (
        fc.Gradual(epsilon=0.5, exponent=2.0, delay=2),
        fc.Refresh(window=7, epsilon_current=0.7, epsilon_past=0.1),
    ):
        names = ["x", "y", "z"]
        inputs = [[number % 3, 1, number % 2] for number in range(60)]
        vector = fc.Counter._with_noise(mechanism, _noise(names), width=3)
        together = vector.extend(inputs).tolist()
        for at, name in enumerate(names):
            alone = fc.Counter._with_noise(mechanism, _noise([name]))
            assert [alone.step(row[at]) for row in inputs] == [row[at] for row in together]


@pytest.mark.parametrize("length", [0, 1, 31])
def test_short_secrets_are_refused_by_their_length_alone(length: int) -> None:
    with pytest.raises(
        ParameterError, match=f"^secret must have at least 32 bytes, got {length}; make one with"
    ):
        _noise(secret=b"q" * length)


def test_width_must_be_the_number_of_keys_and_the_secret_is_not_shown() -> None:
    noise = _noise()
    with pytest.raises(ParameterError, match=r"^width must be the number of keys, 2, got 3"):
        noise.many(DiscreteLaplace(1.0), 0, range(1), range(1, 2), 3)
    assert repr(noise) == "KeyedNoise(2 keys)"


# The distribution
# ------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("scale", [*SCALES, *LARGE])
def test_the_true_scale_is_accepted_and_others_are_rejected(scale: float) -> None:
    noise = _noise([str(number) for number in range(500)], secret=os.urandom(32))
    draws = noise.many(
        DiscreteLaplace(scale), 1, range(1), range(1, 1 + DRAWS // 500), 500
    ).reshape(-1)
    chance = chance_of(draws, scale)
    assert chance > EACH, explained(f"keyed noise of scale {scale}", chance)
    for wrong in (2 / 3, 3 / 2):
        assert chance_of(draws, wrong * scale) < EACH, (
            f"the test cannot tell {wrong:.3g} of scale {scale}"
        )


@pytest.mark.parametrize("scale", TINY)
def test_a_tiny_scale_hardly_shows(scale: float) -> None:
    noise = _noise(["a"], secret=os.urandom(32))
    draws = noise.many(DiscreteLaplace(scale), 0, range(1), range(1, 20_001), 1)
    q = math.exp(-1.0 / scale)
    chance = float(
        stats.binomtest(int(np.count_nonzero(draws)), draws.size, 2 * q / (1 + q)).pvalue
    )
    assert chance > EACH, explained(f"keyed noise of scale {scale}", chance)


def test_draws_of_different_keys_nodes_levels_and_epochs_are_uncorrelated() -> None:
    distribution, count = DiscreteLaplace(20.0), 400
    secret = os.urandom(32)
    keys = [str(number) for number in range(count)]
    one = (
        _noise(keys, secret=secret)
        .many(distribution, 0, range(1), range(1, count + 1), count)[0]
        .astype(np.float64)
    )
    level = (
        _noise(keys, secret=secret)
        .many(distribution, 1, range(1), range(1, count + 1), count)[0]
        .astype(np.float64)
    )
    epoch = (
        _noise(keys, secret=secret, epoch="f")
        .many(distribution, 0, range(1), range(1, count + 1), count)[0]
        .astype(np.float64)
    )
    pairs = {
        "keys": (one[:, 1:], one[:, :-1]),
        "nodes": (one[1:], one[:-1]),
        "mirrored": (one, one.T),
        "levels": (one, level),
        "epochs": (one, epoch),
    }
    # The products have heavier tails than the normal distribution; 1.2 is generous.
    limit = float(stats.norm.isf(EACH / 2)) * 1.2
    for name, (left, right) in pairs.items():
        off = (
            ~np.eye(*left.shape, dtype=np.bool)
            if name == "mirrored"
            else np.ones(left.shape, dtype=np.bool)
        )
        spread = math.sqrt(np.count_nonzero(off)) * (math.sqrt(2.0) if name == "mirrored" else 1.0)
        shown = abs(float((left[off] * right[off]).sum()) / float(one.var()) / spread)
        assert shown < limit * (math.sqrt(2.0) if name == "mirrored" else 1.0), (
            f"correlation between {name}"
        )
    leaky = one + 0.1 * level
    shown = abs(float((leaky * level).sum()) / float(one.var()) / count)
    assert shown > limit, "the test cannot see a correlation of a tenth"
