"""What is public about a stream, as the service answers it and as the client returns it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from fadecount.mechanisms import Mechanism
from fadecount.streams.status import Status
from fadecount.streams.unit import Unit


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamInfo:
    """Everything that is public about a stream.

    `state` is running, ended, refused, clock ahead, clock behind, led elsewhere, or unknown while
    the store is away. Every loss is stated for one `unit`, in words `unit_text`, and adds up
    `histories` histories. Releases are kept for `retain_seconds` (null: for ever). `first_start`
    and `last_start` are the starts of the first and the last released tick that are there,
    `last_end` is the end of the last one, and `open_start` is the start of the tick that is open
    now. The next release is `lag_seconds` late. A list of streams leaves `keys` empty. `levels` are
    the lengths of the blocks that have figures of their own; none for running totals.
    """

    name: str
    state: str
    tick_seconds: int
    zone: str
    key_count: int
    keys: Sequence[str]
    mechanism: dict[str, Any]
    levels: Sequence[str]
    unit: Unit
    unit_text: str
    histories: int
    retain_seconds: int | None
    first_start: str | None
    last_start: str | None
    last_end: str | None
    open_start: str
    lag_seconds: int


def stream_info(status: Status, state: str, now: float, keys: Sequence[str] = ()) -> StreamInfo:
    """Describes a stream at a time. ``state`` is what the process that writes says of it.

    Everything here is public. When a tick is released can be seen by every reader, so the lag shows
    nothing more.
    """
    description, ticks = status.description, status.description.ticks
    first, last = status.shown_from, status.published_tick
    released = last >= first
    horizon = description.mechanism.last_step
    ended = horizon is not None and status.published_steps >= horizon
    due = None if ended else ticks.start_seconds(last + 2)
    return StreamInfo(
        name=description.name,
        state="ended" if ended else state,
        tick_seconds=ticks.tick_seconds,
        zone=ticks.zone,
        key_count=status.width,
        keys=keys,
        mechanism=_as_json(description.mechanism),
        levels=description.levels,
        unit=description.unit,
        unit_text=description.unit.text,
        histories=status.loss.histories,
        retain_seconds=status.retain_seconds,
        first_start=ticks.shown(first) if released else None,
        last_start=ticks.shown(last) if released else None,
        last_end=ticks.shown(last + 1) if released else None,
        open_start=ticks.shown(ticks.at(now)),
        lag_seconds=0 if due is None else max(0, int(now - due)),
    )


@lru_cache(maxsize=1024)
def _as_json(mechanism: Mechanism) -> dict[str, Any]:
    fields: dict[str, Any] = json.loads(mechanism.to_json())
    return fields
