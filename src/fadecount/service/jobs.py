"""What waits for the writing thread, and what becomes of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from fadecount.errors import FadecountError, InputError, StoreError
from fadecount.service.desk import Desk, refused_input


@dataclass(slots=True)
class Job:
    """A batch for a stream, or (without one) something to be called with the desk; and who waits for it."""

    stream: str | None
    work: Any
    future: asyncio.Future[Any]


def accepted(desk: Desk, stream: str, group: Sequence[Job]) -> list[tuple[Job, Any]]:
    """One transaction for the group; if somebody's batch is wrong, each on its own, so that only that one is refused."""
    try:
        outcomes: list[Any] = list(desk.accept(stream, [job.work for job in group]))
    except InputError:
        if len(group) == 1:
            return [(group[0], refused_input())]
        return [each for job in group for each in accepted(desk, stream, [job])]
    except StoreError:
        raise
    except FadecountError as error:
        outcomes = [error] * len(group)
    return list(zip(group, outcomes, strict=True))


def outcome_of(work: Callable[[Desk], Any], desk: Desk) -> Any:
    try:
        return work(desk)
    except StoreError:
        raise
    except FadecountError as error:
        return error


def resolve(done: list[tuple[Job, Any]]) -> None:
    for job, outcome in done:
        if job.future.done():
            continue
        if isinstance(outcome, Exception):
            job.future.set_exception(outcome)
        else:
            job.future.set_result(outcome)
