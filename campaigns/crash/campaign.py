"""Kill a writing process again and again, at named steps and at random times, and hold the store to
the journal."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from campaigns.crash.blocks import BlockAccount
from campaigns.crash.check import Account
from campaigns.crash.worker import (
    BLOCKS,
    EVENTS,
    MECHANISMS,
    STEPS,
    UNITS,
    Killer,
    Site,
    happening,
    live,
)

LIVES_PER_STORE = 250
_OPERATIONS = 40
_FULL_COMPARE_EVERY = 50
WHILE_CLOSING = STEPS[STEPS.index("before close") : STEPS.index("published") + 1]


@dataclass
class Tally:
    """What a campaign has done."""

    kills: int = 0
    at_random: int = 0
    at_steps: Counter[str] = field(default_factory=Counter)
    at_events: Counter[str] = field(default_factory=Counter)
    stores: int = 0
    steps: int = 0
    answers: int = 0
    repeats: int = 0
    draws: int = 0
    redraws_of_lost: int = 0
    figures: int = 0

    def add(self, account: Account) -> None:
        self.stores += 1
        self.steps += len(account.rows)
        self.answers += account.answers
        self.repeats += account.repeats
        self.draws += account.draws
        self.redraws_of_lost += account.redraws_of_lost
        if isinstance(account, BlockAccount):
            self.figures += len(account.figures)

    def text(self) -> str:
        named = ", ".join(f"{step} {self.at_steps[step]}" for step in STEPS)
        return (
            f"{self.kills} kills ({self.at_random} at random times; {named}; with"
            f" the end of an hour {self.at_events['end']}, a publication"
            f" from the embargo {self.at_events['publication']}) in {self.stores}"
            f" stores: {self.steps:,} steps released, {self.answers:,} batches acknowledged"
            f" ({self.repeats:,} repeats), {self.draws:,} noise variables drawn"
            f" ({self.redraws_of_lost:,} again after a kill before their commit),"
            f" {self.figures:,} figures; all agree with the journal"
        )


class _Follower:
    """Reads the journal as it grows."""

    def __init__(self, site: Site) -> None:
        self._path, self._offset = site.journal, 0

    def new(self) -> list[dict[str, object]]:
        if not self._path.exists():
            return []
        with self._path.open("rb") as file:
            file.seek(self._offset)
            content = file.read()
        self._offset += len(content)
        return [json.loads(line) for line in content.splitlines()]


def campaign(
    folder: Path,
    kills: int,
    seed: int,
    new_url: Callable[[], str] | None,
    report: bool = False,
    lives_per_store: int = LIVES_PER_STORE,
    blocks_alone: bool = False,
) -> Tally:
    """At least ``kills`` kills; raises an ``AssertionError`` that says what does not agree.
    ``new_url`` gives empty databases. Every second store has a stream of blocks, or every one."""
    chance, tally = random.Random(seed), Tally()
    started = time.monotonic()
    while tally.kills < kills:
        number, odd = divmod(tally.stores, 1 if blocks_alone else 2)
        site = Site(
            folder=folder / f"store{tally.stores}",
            mechanism=MECHANISMS[number % len(MECHANISMS)] if odd else BLOCKS,
            unit=chance.choice(UNITS),
            url=new_url() if new_url else None,
            named=number % 2 == 1,
        )
        site.folder.mkdir(parents=True)
        _one_store(site, min(lives_per_store, kills - tally.kills), chance, tally)
        shutil.rmtree(site.folder)
        if report:
            pace = tally.kills / (time.monotonic() - started)
            print(f"{tally.kills} kills, {pace:.0f} per second", file=sys.stderr, flush=True)
    return tally


def _one_store(site: Site, kills: int, chance: random.Random, tally: Tally) -> None:
    blocks = site.mechanism == BLOCKS
    account, follower = (BlockAccount if blocks else Account)(site), _Follower(site)
    goal = tally.kills + kills
    life = 0
    while tally.kills < goal:
        life += 1
        step = chance.choice(STEPS) if chance.random() < 0.6 else None
        killer = Killer(step, chance.choice((1, 1, 2, 3, 8)))
        if blocks and step in WHILE_CLOSING:
            killer = Killer(step, chance.choice((1, 1, 2)), chance.choice(EVENTS))
        killed = _one_life(site, killer, account, chance, _OPERATIONS)
        account.follow(follower.new())
        closing = account.closing
        account.compare(last=None if life % _FULL_COMPARE_EVERY == 0 else 30)
        if killed:
            tally.kills += 1
            tally.at_steps[step or ""] += step is not None
            tally.at_random += step is None
            if blocks and closing is not None:
                tally.at_events.update(happening(*closing))
    killed = _one_life(site, Killer(None, 0), account, chance, 3, spared=True)
    assert not killed
    account.follow(follower.new())
    assert not account.unanswered
    account.compare()
    tally.add(account)


def _one_life(
    site: Site,
    killer: Killer,
    account: Account,
    chance: random.Random,
    operations: int,
    spared: bool = False,
) -> bool:
    """Start a process, and end it at its step or at a random time; False if it came to its own end
    before."""
    number = chance.randrange(1 << 30)
    sys.stdout.flush()
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", DeprecationWarning
        )  # a child that only writes to a store needs no other thread
        child = os.fork()
    if child == 0:
        live(site, killer, account.unanswered, account.next_batch, operations, number)
    if killer.step is None and not spared:
        time.sleep(chance.random() * 0.08)
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        assert os.WTERMSIG(status) == signal.SIGKILL
        return True
    return False
