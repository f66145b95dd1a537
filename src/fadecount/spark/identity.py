"""What a stream on Spark is, and where its secret is. Never the secret itself.

The secret is read on the executors: ``file:/path`` names a file, ``env:NAME`` an environment
variable. Only this name is in the job's closure, plans and logs. A *proof*, a 64-bit value that
depends on the secret, shows whether all executors and all restarts hold the same one.
"""

from __future__ import annotations

import dataclasses
import hmac
import json
import os
import re
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from fadecount.checks import require_integer
from fadecount.errors import CheckpointError, ParameterError, bad_parameter
from fadecount.mechanisms import Blocks, Mechanism
from fadecount.noise.keyed import require_secret
from fadecount.streams.calendar import BlockCalendar, Midnights
from fadecount.streams.description import Description
from fadecount.streams.ticks import LATEST, Ticks

_PLACE = re.compile(r"file:.+|env:[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, kw_only=True)
class Identity:
    """Everything that the noise and the ticks of a stream depend on, but for its epoch. ``keys`` is
    a digest of the declared keys, ``secret`` a proof."""

    kind: str
    stream: str
    mechanism: str
    unit: str
    tick: int
    zone: str
    start: int
    keys: str
    secret: str
    version: int = 2

    def require_same(self, text: str) -> None:
        """Refuse to continue the state of another stream, which is described by JSON text."""
        try:
            stored = dict(json.loads(text))
        except (ValueError, TypeError):
            stored = {}
        for name, now in dataclasses.asdict(self).items():
            if now != stored.get(name):
                raise CheckpointError(
                    f"{name} must be that of the state, {stored.get(name)}, got {now}; a stream"
                    " keeps what it began with: take a new directory for another one"
                )

    @cached_property
    def description(self) -> Description:
        """The mechanism and the ticks."""
        ticks = Ticks(tick_seconds=self.tick, zone=self.zone)
        return Description(
            name=self.stream, mechanism=Mechanism.from_json(self.mechanism), ticks=ticks
        )

    @property
    def blocks(self) -> Blocks:
        """The mechanism."""
        mechanism = self.description.mechanism
        assert isinstance(mechanism, Blocks)
        return mechanism

    @property
    def first_tick(self) -> int:
        """The tick at position 0."""
        return self.description.ticks.at(self.start)

    def position(self, seconds: float) -> int:
        """How many ticks are over at a time."""
        return max(0, self.description.ticks.at(seconds) - self.first_tick)

    def calendar(self, midnights: str = "") -> BlockCalendar:
        """The blocks, by midnights that were noted before, or by the rules known now."""
        blocks, ticks, first = self.blocks, self.description.ticks, self.first_tick
        if not midnights:
            return BlockCalendar.new(blocks, ticks, first)
        return BlockCalendar(blocks, ticks, first, Midnights.from_json(midnights))


def require_moment(name: str, value: Any, zone: str) -> int:
    """A point in time as whole seconds since 1970; without an offset it is in the zone."""
    remedy = "give a time such as '2026-01-01' or '2026-01-01T00:00:00Z', from 1970 on"
    try:
        moment = datetime.fromisoformat(value) if isinstance(value, str) else value
    except ValueError:
        raise bad_parameter(name, value, "a point in time", remedy) from None
    if isinstance(moment, datetime):
        moment = moment if moment.tzinfo else moment.replace(tzinfo=ZoneInfo(zone))
        moment = int(moment.timestamp())
    return require_integer(name, moment, minimum=0, maximum=LATEST, remedy=remedy)


def read_secret(place: Any) -> bytes:
    """The secret at a place on this machine, without white space around it: at least 32 bytes. What
    is no place is not shown, because it might be the secret itself."""
    if not isinstance(place, str) or not _PLACE.fullmatch(place):
        raise ParameterError(
            "secret must be the name of a place, got something else; say where executors find it:"
            " file:/path or env:NAME"
        )
    kind, _, name = place.partition(":")
    try:
        secret = os.environb[name.encode()] if kind == "env" else Path(name).read_bytes()
    except (KeyError, OSError):
        raise ParameterError(
            f"secret must be readable on every executor, got no {place}; put it there"
        ) from None
    require_secret(secret.strip())
    return secret.strip()


def proof_of(secret: bytes) -> str:
    """A value that differs between secrets and does not reveal them."""
    return hmac.digest(secret, b"fadecount proof of the secret 1", "sha256")[:8].hex()
