"""The generator: AES in counter mode as published, and no word given out twice, by whatever thread
or process."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES256
from cryptography.hazmat.primitives.ciphers.modes import ECB
from numpy.typing import NDArray

from fadecount.errors import ForkedError
from fadecount.noise import DiscreteLaplace, SystemNoise, generator
from fadecount.noise.generator import Lineage, words

# NIST SP 800-38A, F.5.5: CTR-AES256.Encrypt.
KEY = bytes.fromhex("603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4")
COUNTER = bytes.fromhex("f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff")
PLAIN = (
    "6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e51"
    "30c81c46a35ce411e5fbc1191a0a52eff69f2445df4f9b17ad2b417be66c3710"
)
CODED = (
    "601ec313775789a5b7a7f504bbf3d228f443e3ca4d62b59aca84e990cacaf5c5"
    "2b0930daa23de94ce87017ba2d84988ddfc9c58db67aada613c2dd08457941a6"
)


class Keys:
    """Hands out the key and counter of the standard in place of system entropy, and counts how
    often."""

    def __init__(self) -> None:
        self.streams = 0

    def __call__(self, size: int) -> bytes:
        self.streams += size == 32
        return {32: KEY, 16: COUNTER}[size]


def in_new_thread(call: Callable[[], Any]) -> Any:
    """A thread without a stream of its own yet."""
    found: list[Any] = []
    worker = threading.Thread(target=lambda: found.append(call()))
    worker.start()
    worker.join()
    return found[0]


def test_words_are_the_key_stream_of_the_standard(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "urandom", Keys())
    stream = in_new_thread(lambda: words(8)).astype("<u8").tobytes()
    expected = bytes(
        one ^ other for one, other in zip(bytes.fromhex(PLAIN), bytes.fromhex(CODED), strict=True)
    )
    assert stream == expected


def test_words_go_on_where_they_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts of any size, also of half a block and of several chunks, equal AES of the counters one
    by one."""
    monkeypatch.setattr(os, "urandom", Keys())
    sizes = [1, 1, 3, 0, 70_000, 2, 65_536, 5]
    stream = in_new_thread(lambda: np.concatenate([words(size).copy() for size in sizes]))
    start = int.from_bytes(COUNTER, "big")
    blocks = b"".join(
        ((start + at) % (1 << 128)).to_bytes(16, "big") for at in range(sum(sizes) // 2 + 1)
    )
    expected = Cipher(AES256(KEY), ECB()).encryptor().update(blocks)  # noqa: S305 - the oracle
    assert stream.astype("<u8").tobytes() == expected[: 8 * sum(sizes)]


def test_a_new_key_is_taken_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = Keys()
    monkeypatch.setattr(os, "urandom", keys)
    monkeypatch.setattr(generator, "_REKEY_BYTES", 64)

    def draw() -> list[int]:
        return [words(4)[0] and keys.streams for _ in range(6)]

    assert in_new_thread(draw) == [1, 1, 2, 2, 3, 3]


def test_a_child_that_ran_no_hook_is_known_by_its_process_id(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    keys = Keys()
    monkeypatch.setattr(os, "urandom", keys)

    def draw() -> int:
        words(2)
        monkeypatch.setattr(os, "getpid", lambda: -1)
        words(2)
        return keys.streams

    assert in_new_thread(draw) == 2


def test_what_a_child_inherits_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """After the hook that runs in a forked child, streams take a new key and prefetched draws are
    refused."""
    distribution, source = DiscreteLaplace(2.0**40), SystemNoise()
    many = partial(source.many, distribution, 1, range(1), range(1, 2), 20)
    many()
    many()  # the second time, more is drawn than asked for
    assert len(source._blocks[distribution]) >= 20
    keys = Keys()
    monkeypatch.setattr(os, "urandom", keys)

    def draw() -> list[int]:
        words(2)
        Lineage.renew()
        return [*words(2).tolist(), keys.streams]

    assert in_new_thread(draw) == [*in_new_thread(lambda: words(2).tolist()), 2]
    monkeypatch.undo()
    with pytest.raises(
        ForkedError, match=r"^counter must stay in its process, got a forked child; "
    ):
        many()


def test_undetermined_draws_take_further_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """Words that begin with 63 zeros say only that a draw is large; the further bits are fresh
    ones."""
    calls: list[int] = []

    def zeros_first(count: int) -> NDArray[np.uint64]:
        calls.append(count)
        return np.zeros(count, dtype=np.uint64) if len(calls) == 1 else words(count)

    monkeypatch.setattr("fadecount.noise.source.words", zeros_first)
    draws = SystemNoise().many(DiscreteLaplace(1000.0), 0, range(1), range(1, 2), 5).ravel()
    assert (draws > 43_000).all()
    assert np.unique(draws).size > 1
    assert set(calls[1:]) == {1}


def test_threads_share_no_words() -> None:
    barrier = threading.Barrier(8)
    found: list[NDArray[np.uint64]] = []

    def draw() -> None:
        barrier.wait()
        found.append(np.concatenate([words(500).copy() for _ in range(4)]))

    workers = [threading.Thread(target=draw) for _ in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    together = np.concatenate(found)
    assert np.unique(together).size == together.size == 16_000


FORK = """
import os, numpy as np
from fadecount.errors import ForkedError
from fadecount.noise import DiscreteLaplace, SystemNoise
from fadecount.noise.generator import words
distribution, source = DiscreteLaplace(2.0**40), SystemNoise()

def draw(source=source):
    many = [source.many(distribution, 1, range(1), range(1, 2), width) for width in (1, 19, 40)]
    return [*np.concatenate(many, axis=2).ravel().tolist(), *words(20).tolist()]

before = draw()
reading, writing = os.pipe()
if os.fork() == 0:
    grandchild = os.fork()
    try:
        source.many(distribution, 1, range(1), range(1, 2), 20)
    except ForkedError:
        pass
    else:
        os._exit(1)
    os.write(writing, (repr(draw(SystemNoise())) + chr(10)).encode())
    if grandchild:
        os.waitpid(grandchild, 0)
    os._exit(0)
os.wait()
os.close(writing)
children = [eval(line) for line in os.fdopen(reading)]
assert len(children) == 2
drawn = [*before, *draw(), *children[0], *children[1]]
print(len(drawn), len(set(drawn)))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_forked_child_repeats_nothing() -> None:
    """A child may not use its parent's source; words and new sources of a process, its child and
    grandchild all differ.

    Two of 240 honest draws of scale 2**40 agree with probability below 1e-8; words never in
    practice.
    """
    done = subprocess.run(
        [sys.executable, "-c", FORK],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ.copy(),
    )
    total, different = map(int, done.stdout.split())
    assert total == different == 4 * 80
