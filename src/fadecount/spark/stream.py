"""What a stream on Spark is: public, and fixed with the first commit of its ledger. Its secret."""

from __future__ import annotations

import hmac
import json
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any, cast

from pyspark.sql import DataFrame

from fadecount.durations import parse_duration, parse_time
from fadecount.errors import ParameterError, bad_parameter
from fadecount.mechanisms import ANNOUNCED, Blocks, Discovery, Level, PlannedUnit
from fadecount.noise.keyed import require_secret
from fadecount.streams.description import Description
from fadecount.streams.discovery import DISCOVERED, HiddenKeys
from fadecount.streams.ticks import Ticks
from fadecount.streams.unit import ONE_EVENT, Unit


@dataclass(frozen=True)
class Stream:
    """Which figures are published, and what they count.

    ``time`` and ``key`` are columns of the events. An event counts in the ``tick`` ("15m") of its
    time, under its key, if that is one of the declared ``keys`` (a list, or the first column of a
    DataFrame). Every block has a figure for every declared key. ``start`` is in the first tick;
    without an offset it is in the ``zone``. ``secret_file`` holds the secret of the noise, on the
    driver and on every executor. ``state`` is a directory of the stream's own.

    ``mechanism`` is the promise for one ``unit``: one event, or what one person does in a tick or
    a day (``person`` is the column of an id). Of the person's events under declared keys the first
    ones by time count, and only the person's own events decide. Ages of a unit count from its
    start. A mechanism of a plan for persons is used as it is: give ``planned``, the plan's unit
    (``read_planned_unit``).

    With ``discovery`` keys that are not declared appear by themselves, in tables: the figures of a
    day hold those that enough persons brought. The unit is then one person's day, under at most
    ``discovery.keys`` keys, declared or not.

    Guarantees: the loss of the mechanism for one unit. Assumes: the keys are public; people who
    hold the secret, the state or the events are trusted.
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
    unit: Unit = ONE_EVENT
    discovery: Discovery | None = None
    planned: PlannedUnit | None = None

    def __post_init__(self) -> None:
        refused = self.unit.refused_by_spark(self.mechanism)
        if refused == "mechanism":
            remedy = "figures on Spark are those of blocks"
            raise bad_parameter("mechanism", self.mechanism, "fadecount.Blocks", remedy)
        if bool(self.person) != (self.unit.of == "person") or refused == "unit":
            remedy = "give Unit(of='person', events=3, per='1d') and person, or neither"
            bound = "one of persons, without amounts, where there is a column of persons"
            raise bad_parameter("unit", self.unit.text, bound, remedy)
        if isinstance(self.keys, str):
            raise bad_parameter("keys", self.keys, "a list or a DataFrame", "declare all of them")
        self.position(0)  # refuses a tick, a zone or a start that no calendar has

    @cached_property
    def description(self) -> Description:
        """What the local library calls a stream."""
        return Description(
            name=self.name,
            mechanism=self.unit.scaled(self.mechanism, self.planned),
            ticks=Ticks(tick_seconds=parse_duration(self.tick, name="tick"), zone=self.zone),
            unit=self.unit,
            hidden=None if self.discovery is None else HiddenKeys(discovery=self.discovery),
        )

    @property
    def blocks(self) -> Blocks:
        """The mechanism with which the promise holds for the unit."""
        return cast(Blocks, self.description.mechanism)  # scaled, it is of the same kind

    def about(self, level: int, stage: int) -> tuple[str, str, int | None]:
        """The length, the status and the half width (95 %) of figures."""
        blocks, lengths = self.blocks, self.description.levels
        if level == DISCOVERED and self.discovery is not None:
            (lag, epsilon), *later = self.discovery.stages
            blocks = Blocks(Level(1, epsilon, lag, later=tuple(later)))
            level, lengths = 0, (self.discovery.per,)
        if stage == ANNOUNCED:
            return lengths[level], "announced", None
        half_width = blocks.figure_interval(level, stage)
        return lengths[level], blocks.levels[level].status(stage), half_width

    def seconds(self, name: str, moment: str | datetime) -> float:
        """A time in Unix seconds."""
        return parse_time(str(moment), self.description.ticks.zone, name=name).timestamp()

    @cached_property
    def first_tick(self) -> int:
        """The tick at position 0."""
        return self.description.ticks.at(self.seconds("start", self.start))

    def position(self, seconds: float) -> int:
        """How many ticks are over at a time."""
        return max(0, self.description.ticks.at(seconds) - self.first_tick)

    def identity(self) -> dict[str, Any]:
        """Everything that the noise and the ticks depend on but the keys and the epoch."""
        start = self.description.ticks.start_seconds(self.first_tick)
        fixed = {"name": self.name, "start": start, "secret": proof_of(read_secret(self))}
        return {**json.loads(self.description.to_json()), **fixed}


def read_secret(stream: Stream) -> bytes:
    """The secret in its file on this machine, without white space around it. The file's name is not
    shown: it might be the secret itself."""
    try:
        secret = Path(stream.secret_file).read_bytes().strip()
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
