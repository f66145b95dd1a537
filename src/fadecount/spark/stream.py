"""What a stream on Spark is: public, and fixed with the first commit of its ledger. Its secret."""

from __future__ import annotations

import hmac
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from pyspark.sql import DataFrame, SparkSession

from fadecount.durations import parse_duration
from fadecount.errors import ParameterError, bad_parameter
from fadecount.mechanisms import Blocks
from fadecount.noise.keyed import require_secret
from fadecount.streams.description import Description
from fadecount.streams.ticks import Ticks


@dataclass(frozen=True)
class Stream:
    """Which figures are published, and what they count.

    ``time`` and ``key`` are columns of the events. An event counts in the ``tick`` ("15m") of its
    time, under its key, if that is one of the declared ``keys`` (a list, or the first column of a
    DataFrame). Every block has a figure for every declared key. ``secret_file`` holds the secret of
    the noise, on the driver and on every executor. ``state`` is a directory of the stream's own.

    With a column ``person``, at most ``per_person`` events of one person count in each block of the
    level ``per`` ("1d"): the first ones, under any keys. The mechanism then is the promise for all
    that a person does in such a block, with the age counted from the first event.

    Guarantees: the loss of the mechanism, for one event or one person's block. Assumes: the keys
    are public; people who hold the secret, the state or the events are trusted.
    """

    mechanism: Blocks
    _: KW_ONLY
    tick: str
    start: str | datetime
    time: str
    key: str
    keys: DataFrame | Sequence[str]
    secret_file: str
    state: str
    zone: str = "UTC"
    name: str = "counts"
    person: str = ""
    per: str = ""
    per_person: int = 1

    def __post_init__(self) -> None:
        if not isinstance(self.mechanism, Blocks):
            remedy = "figures on Spark are those of blocks"
            raise bad_parameter("mechanism", self.mechanism, "fadecount.Blocks", remedy)
        if self.description.ticks.start_seconds(self.first_tick) != self.start_seconds:
            raise bad_parameter("start", self.start, "the beginning of a tick", "round it down")
        levels = self.description.levels
        if self.person and self.per not in levels:
            bound = f"one of {', '.join(levels)}"
            raise bad_parameter("per", self.per, bound, "it is the block of the cap")
        if isinstance(self.keys, str):
            raise bad_parameter("keys", self.keys, "a list or a DataFrame", "declare all of them")

    @cached_property
    def description(self) -> Description:
        """The name, the mechanism as promised, and the ticks."""
        ticks = Ticks(tick_seconds=parse_duration(self.tick, name="tick"), zone=self.zone)
        return Description(name=self.name, mechanism=self.mechanism, ticks=ticks)

    @cached_property
    def blocks(self) -> Blocks:
        """The mechanism with which the promise holds for the unit."""
        return self.mechanism.for_sensitivity(self.per_person)

    @cached_property
    def start_seconds(self) -> int:
        """When the stream begins, in Unix seconds."""
        return self.seconds("start", self.start)

    @property
    def first_tick(self) -> int:
        """The tick at position 0."""
        return self.description.ticks.at(self.start_seconds)

    def seconds(self, name: str, value: Any) -> int:
        """A point in time in Unix seconds; without an offset it is in the zone."""
        zone = ZoneInfo(self.description.ticks.zone)
        try:
            moment = datetime.fromisoformat(str(value))
        except ValueError:
            moment = datetime.min
        if moment.year < 1970:
            remedy = "give a time such as '2026-01-01' or '2026-01-01T00:00:00Z'"
            raise bad_parameter(name, value, "a point in time from 1970 on", remedy)
        return int((moment if moment.tzinfo else moment.replace(tzinfo=zone)).timestamp())

    def position(self, seconds: float) -> int:
        """How many ticks are over at a time."""
        return max(0, self.description.ticks.at(seconds) - self.first_tick)

    def declared(self, spark: SparkSession) -> DataFrame:
        """The declared keys, each once."""
        keys = self.keys
        if not isinstance(keys, DataFrame):
            keys = spark.createDataFrame([(key,) for key in keys], "key string")
        return keys.select(keys[keys.columns[0]].cast("string").alias("key")).dropna().distinct()

    def identity(self) -> dict[str, Any]:
        """Everything that the noise and the ticks depend on but the keys and the epoch."""
        person = f"one person's {self.per}, at most {self.per_person} events"
        return {
            "stream": self.name,
            "mechanism": self.blocks.to_json(),
            "unit": person if self.person else "one event",
            "tick": self.description.ticks.tick_seconds,
            "zone": self.zone,
            "start": self.start_seconds,
            "secret": proof_of(read_secret(self.secret_file)),
        }


def read_secret(path: str) -> bytes:
    """The secret in a file on this machine, without white space around it. The name is not shown:
    it might be the secret itself."""
    try:
        secret = Path(path).read_bytes().strip()
    except (OSError, TypeError, ValueError):
        raise ParameterError(
            "secret_file must be a file that the driver and every executor can read, got none; make"
            " one with: openssl rand -hex 32"
        ) from None
    require_secret(secret)
    return secret


def proof_of(secret: bytes) -> str:
    """A 64-bit value that differs between secrets and does not reveal them. It shows whether all
    executors and all restarts hold the same one."""
    return hmac.digest(secret, b"fadecount proof of the secret 1", "sha256")[:8].hex()
