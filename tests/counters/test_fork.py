"""A counter in a forked child process is refused, by every call that would go on or copy it."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

import fadecount as fc
from fadecount.noise import Lineage

PROGRAM = """
import os
import fadecount as fc
from fadecount.noise import KeyedNoise
keyed = KeyedNoise(bytes(32), epoch="e", stream="s", mechanism="{}", keys=["a"])
fading, late = fc.Gradual(epsilon=0.5), fc.Gradual(epsilon=0.5, delay=9)
counters = [fc.Counter(fading), fc.Counter(late, shape=(2,)), fc.Counter._with_noise(fading, keyed)]
for counter, item in zip(counters, (1, [1, 2], 1)):
    counter.step(item)
blob = counters[0].save()
child = os.fork()
if child == 0:
    refused = 0
    for counter, item in zip(counters, (1, [1, 2], 1)):
        for call in (lambda: counter.step(item), lambda: counter.extend([item]), counter.save):
            try:
                call()
            except fc.errors.ForkedError:
                refused += 1
    again = fc.Counter.resume(blob)
    again.step(1)
    os._exit(refused if again.time == 2 else 0)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
counters[0].step(1)
print(counters[0].time)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_forked_child_cannot_use_a_counter() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ.copy(),
    )
    assert done.stdout.split() == ["9", "2"]


def test_the_message(monkeypatch: pytest.MonkeyPatch) -> None:
    counter = fc.Counter(fc.Gradual(epsilon=0.5))
    counter.step(1)
    monkeypatch.setattr(Lineage, "current", object())
    for call in (lambda: counter.step(1), lambda: counter.extend([1]), counter.save):
        with pytest.raises(
            fc.errors.ForkedError,
            match=r"^counter must stay in its process, got a forked child; save\(\) it",
        ):
            call()
    monkeypatch.undo()
    assert counter.time == 1
