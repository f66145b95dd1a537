"""Opening a stream: finish what a stopped process left between commit and publication, or refuse a store that is not the
latest.
"""

from __future__ import annotations

import json
from dataclasses import replace

from fadecount.errors import FenceError
from fadecount.noise import unpredictable
from fadecount.streams.database import Checkpoints, Database
from fadecount.streams.description import Place, read_place
from fadecount.streams.fence import Fence, Mark
from fadecount.streams.forks import Fork


def published(database: Database, fence: Fence | None, name: str, expected: str | None, checkpoint: Checkpoints) -> Place:
    """Move the fence from the expected token to the committed one, then let readers see all that is committed."""
    place = read_place(database, name)
    if fence is None:
        return place
    fence.move(place.uid, expected, _mark(place))
    checkpoint("fenced")
    with database.transaction():
        database.change("UPDATE streams SET published_tick = last_tick WHERE id = ?", (place.id,))
        checkpoint("before publish")
    checkpoint("published")
    return replace(place, published_tick=place.last_tick)


def settled(
    database: Database, fence: Fence | None, name: str, checkpoint: Checkpoints, *, accept_extra_loss: bool = False
) -> Place:
    """The stream's place once it agrees with the fence; a store that is behind it is refused, or marked with a fork."""
    place = read_place(database, name)
    if fence is None:
        return place
    mark = fence.read(place.uid)
    found = None if mark is None else mark.token
    if mark is not None and not _agree(place, mark):
        raise FenceError(f"forks of stream {name!r} differ between store and fence; take an intact copy of the store")
    if found is None or found not in (place.token, place.previous_token):
        if not accept_extra_loss:
            raise _refusal(place, mark)
        place = _forked(database, place, mark)
    if found == place.token and place.published_tick == place.last_tick:
        return place
    return published(database, fence, name, found, checkpoint)


def _agree(place: Place, mark: Mark) -> bool:
    """Whether store and fence tell of the same forks; one of the two may know of later ones, if it is ahead."""
    shared = min(len(place.forks), len(mark.forks))
    same = place.forks[:shared] == mark.forks[:shared]
    return same and (mark.token != place.token or place.forks == mark.forks)


def _forked(database: Database, place: Place, mark: Mark | None) -> Place:
    """Write the fork down before anything else: from here on every loss that is shown holds it."""
    forks = [*place.forks, *(mark.forks[len(place.forks) :] if mark else ()), Fork(last_step=mark.steps if mark else None)]
    token, previous = unpredictable(16).hex(), mark.token if mark else None
    with database.transaction():
        database.change(
            "UPDATE streams SET forks = ?, token = ?, previous_token = ? WHERE id = ?",
            (json.dumps([fork.last_step for fork in forks]), token, previous, place.id),
        )
    return replace(place, forks=tuple(forks), token=token, previous_token=previous)


def _mark(place: Place) -> Mark:
    return Mark(token=place.token, steps=place.steps, forks=place.forks)


def _refusal(place: Place, mark: Mark | None) -> FenceError:
    name = place.description.name
    remedy = "use the latest store, or accept that what was lost counts again with --accept-extra-loss"
    if mark is None:
        return FenceError(f"stream {name!r} has no mark in the fence; bring the fence along with the store; else {remedy}")
    return FenceError(
        f"stream {name!r} is at step {place.steps}, but another history of it was published up to step {mark.steps}; {remedy}"
    )
