"""A process is killed at every step around the end of a day in which keys wait hidden. Whoever goes
on finds either the whole day, with the noise that was committed, or the day still open: no chain is
drawn twice behind a figure, and none is half of one draw and half of another."""

from __future__ import annotations

import os
import signal

import pytest
from campaigns.crash.worker import Killer

from fadecount.streams.figures import read_figures, unpacked
from fadecount.streams.seal import TAG
from tests.streams.backends import Backend
from tests.streams.conftest import backend, postgres_url
from tests.streams.hidden_keys import FIRST, ScriptedNoise, bring, create, shown

__all__ = ["backend", "postgres_url"]

COMMITTED = ("committed", "fence written", "fence synced", "fenced", "published")
STEPS = (
    *("before accept", "accept written", "accept committed", "before close", "inputs taken"),
    *("keys drawn", "noise drawn", "state written", "before commit"),
    *COMMITTED,
)


def noise_of(process: int) -> ScriptedNoise:
    """Two keys pass at once, by another noise in each process; one at the second stage; one
    never."""
    return ScriptedNoise([30 + process, 30, -40, -40], [process, 0, 20 + process, 0])


def killed(backend: Backend, step: str, last: int = FIRST + 23) -> bool:
    """Whether a process that brings a key, and closes ticks, was killed at a step."""
    child = os.fork()
    if not child:
        try:
            store = backend.open(noise=noise_of(1))  # type: ignore[arg-type]
            stream = store.open("pages")
            killer = Killer(step, 1)
            store._context.checkpoint = killer
            store._context.fence.checkpoint = killer
            bring(stream, "x", ["late"])
            stream.close_through(last)
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL


def begin(backend: Backend, last: int) -> None:
    """Create the stream, bring keys, and close ticks."""
    with backend.open(noise=noise_of(1)) as store:  # type: ignore[arg-type]
        stream = create(store)
        for name, persons in (("a", range(3)), ("b", range(3, 5)), ("c", [5, 6]), ("d", [7])):
            bring(stream, name, persons)
        stream.close_through(last)


@pytest.mark.parametrize("step", STEPS)
def test_a_day_is_drawn_once(backend: Backend, step: str) -> None:
    begin(backend, FIRST + 22)
    assert killed(backend, step), "the step is passed"
    with backend.open(noise=noise_of(2)) as store:  # type: ignore[arg-type]
        stream, database = store.open("pages"), store._database
        committed = step in COMMITTED
        assert stream.status.steps == (24 if committed else 23)
        assert bool(database.query("SELECT 1 FROM hidden")) is not committed
        waiting = database.query("SELECT body FROM embargo WHERE level = -1")
        assert len(waiting) == committed
        before = [list(each.keys) for each in read_figures(database, 1, 0, -1, 0, 0, 1 << 40)]
        if not committed:
            bring(stream, "x", ["late"])  # again: it is one person's first key of the day
        stream.close_through(FIRST + 60)
        table = shown(store.reader().stream("pages").discovered())
        first = shown(store.reader().stream("pages").discovered(as_of=FIRST + 24))
    drawn = 1 if committed else 2
    assert [row[1] for row in first] == ["a", "b"]
    assert [value for *_, value in first] == [3 + 30 + 2 * drawn, 2 + 30]
    assert table == [(0, "a", 1, 3 + drawn), (0, "b", 1, 2), (0, "c", 1, 2 + 20 + drawn)]
    if committed:
        assert before == [["a", "b"]]
        (values,), keys = unpacked(bytes(waiting[0][0])[:-TAG])
        assert list(zip(keys, values.tolist(), strict=True)) == [row[1::2] for row in table]


@pytest.mark.parametrize("step", [step for step in STEPS[3:] if step != "keys drawn"])
def test_a_later_stage_is_the_one_that_was_drawn(backend: Backend, step: str) -> None:
    """Killed while the last stage leaves the embargo."""
    begin(backend, FIRST + 52)
    assert killed(backend, step, FIRST + 53), "the step is passed"
    with backend.open(noise=noise_of(2)) as store:  # type: ignore[arg-type]
        store.open("pages").close_through(FIRST + 60)
        table = shown(store.reader().stream("pages").discovered())
        waiting = store._database.query("SELECT 1 FROM embargo WHERE level = -1 AND stage = 1")
    assert table == [(0, "a", 1, 3 + 1), (0, "b", 1, 2), (0, "c", 1, 2 + 20 + 1)]
    assert len(waiting) == 1, "that of the next day"
